"""`python -m mqflow.cli` is `mqflow`: a command starts its child processes like this, with the same Python."""

from mqflow.cli.main import main

main(prog_name="mqflow")
