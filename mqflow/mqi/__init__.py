"""What the MQI says. Pure: names, numbers, layouts and rules; no clock, no connection, no file."""
