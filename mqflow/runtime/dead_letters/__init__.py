"""The DLQ handler, its service in an application, and redrive."""
