"""Sources of Spark: journals and queues."""
