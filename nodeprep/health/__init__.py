"""A running engine, judged over time."""
