"""Collectors: Host to model values, one subject a file, each with its own status and duration."""
