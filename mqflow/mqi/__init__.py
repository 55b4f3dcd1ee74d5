"""The MQI as data. Pure: names, numbers, layouts and rules; no clock, no connection, no file.

No module here imports `time`, `random`, `os` or `socket`.
"""
