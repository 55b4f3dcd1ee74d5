"""`python -m mqflow` is `mqflow`: for who has the Python, and not its scripts, on the path. Knows only its name."""

from mqflow.cli.main import main

main(prog_name="mqflow")
