"""The command `mqflow standin`: runs programs that use ibmmq or pymqi on the embedded queue manager, without IBM MQ.

No module here imports `mqflow.app.application`, `mqflow.app.handlers` or `mqflow.runtime`.
"""
