"""Decisions about a message that failed: deliver again, move or discard, and what the moved message carries."""
