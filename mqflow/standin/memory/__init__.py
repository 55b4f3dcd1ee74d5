"""The structures of the MQI in a caller's memory: this folder has the layouts, and reads and writes the structures."""
