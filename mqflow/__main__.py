"""`python -m mqflow` runs the command `mqflow`, even if the PATH does not have the scripts of mqflow."""

from mqflow.cli.main import main

main(prog_name="mqflow")
