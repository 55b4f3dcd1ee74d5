"""`python -m mqflow` runs the command `mqflow`, for a PATH that has Python but not its scripts. Knows only the name."""

from mqflow.cli.main import main

main(prog_name="mqflow")
