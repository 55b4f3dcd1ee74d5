"""The command `mqflow standin`: runs programs that use ibmmq or pymqi on the embedded queue manager."""
