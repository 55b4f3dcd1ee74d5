"""The administration of the embedded queue manager: define, alter, delete and inquire. It knows no MQSC and no PCF.

No module here imports `mqflow.embedded.mqsc`, `mqflow.embedded.pcf` or `mqflow.embedded.wire`.
"""
