"""The structures of the MQI in a caller's memory: layouts, reading and writing."""
