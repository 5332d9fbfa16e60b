"""What tokens and credentials look like, wherever they stand: patterns for `re.IGNORECASE`."""

BY_BEGINNING = (
    r"\b(?:hf_[a-z0-9]{16,}|sk-[\w-]{16,}|gh[pousr]_[a-z0-9]{16,}|AKIA[0-9A-Z]{16}"
    r"|xox[abprs]-[\w-]{10,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*)"
)
"""Tokens that carry their kind in their beginning."""
BY_PLACE = (
    r"(?<=://)[^\s/@:]{1,64}:[^\s/@]{1,256}(?=@)"
    r"|(?<=Bearer )[\w.~+/-]{4,}=*|(?<=Basic )[\w.~+/-]{4,}=*"
    r"|\b(?:glpat|nvapi|dapi)[\w-]{16,}"
)
"""User and password of an address, the value of an Authorization header, more tokens."""
