"""A document as text, brief lines, JSON; it decides nothing."""
