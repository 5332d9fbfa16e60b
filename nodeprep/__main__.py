"""`python -m nodeprep`."""

from nodeprep.cli import main

main()
