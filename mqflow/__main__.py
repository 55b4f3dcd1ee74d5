"""`python -m mqflow` is `mqflow`, for a Python whose scripts are not on the path. Knows only the name of the program."""

from mqflow.cli.main import main

main(prog_name="mqflow")
