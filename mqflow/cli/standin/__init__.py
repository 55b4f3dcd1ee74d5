"""`mqflow standin`: programs that use ibmmq or pymqi, run on the embedded queue manager."""
