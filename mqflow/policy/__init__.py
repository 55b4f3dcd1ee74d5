"""Pure functions that make the decisions of mqflow. They read no clock and connect to nothing; the time `now` is an argument.

No module here imports `mqflow.verbs`, `time`, `random`, `threading` or `socket`.
"""
