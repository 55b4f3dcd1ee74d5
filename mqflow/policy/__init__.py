"""Pure functions that decide what to do, from records of the MQI: no clock, chance or connection; `now` is an argument.

No module here imports `mqflow.verbs`, `time`, `random`, `threading` or `socket`.
"""
