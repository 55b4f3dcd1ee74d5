"""The DLQ handler at work, and redrive."""
