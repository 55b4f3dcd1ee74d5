"""What to do about it: pure functions over the records of the MQI. No clock, no chance, no connection; `now` is an argument."""
