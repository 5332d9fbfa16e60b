"""One vendor format a file: text or bytes to values; pure and total (a value or ParseError)."""
