"""`python -m mqflow` runs the command `mqflow`, also if the PATH does not have the scripts of mqflow. No other logic."""

from mqflow.cli.main import main

main(prog_name="mqflow")
