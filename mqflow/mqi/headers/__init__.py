"""The headers in front of message data: read from bytes, written to bytes. Knows no queue."""
