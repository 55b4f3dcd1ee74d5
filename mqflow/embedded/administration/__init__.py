"""The administration of the embedded queue manager: define, alter, delete and inquire. Knows no MQSC and no PCF."""
