"""`python -m mqflow` runs the command `mqflow`, if the PATH has Python but not the scripts of mqflow. No other logic."""

from mqflow.cli.main import main

main(prog_name="mqflow")
