"""From facts, gate and plan to one serving configuration and its files."""
