"""Frozen value types and the schema of every document we write; no I/O, no opinions."""
