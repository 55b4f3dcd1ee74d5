"""Pure functions that decide what to do, from the records of the MQI. They use no clock, chance or connection."""
