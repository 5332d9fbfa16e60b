"""Freeing GPU paths of ACS redirection: plan, apply, verify, restore."""
