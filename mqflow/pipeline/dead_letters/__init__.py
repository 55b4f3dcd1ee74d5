"""Rules tables and redrive over landed dead letters."""
