"""One subject a file; every check is one function."""
