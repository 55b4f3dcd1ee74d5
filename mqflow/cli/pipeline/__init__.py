"""The commands of the data pipeline: journals, landing and Spark."""
