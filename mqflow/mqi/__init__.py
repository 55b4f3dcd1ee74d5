"""The MQI as data. Pure: names, numbers, layouts and rules; no clock, no connection, no file.

Must not import `time`, `random`, `os` or `socket`.
"""
