"""Sinks of Spark: queues and Delta tables, exactly once."""
