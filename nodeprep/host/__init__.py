"""The one door to the machine: read, list, run, with deadlines; live, fabricated and replayed."""
