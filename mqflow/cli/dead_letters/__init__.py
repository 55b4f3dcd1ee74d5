"""The command `mqflow dlq`: checks and runs rules tables for dead-letter queues."""
