"""Tests of the memory room."""
