"""`python -m mqflow` runs the command `mqflow`, even if the PATH does not have the scripts of mqflow."""

from mqflow.cli.__main__ import program

program()
