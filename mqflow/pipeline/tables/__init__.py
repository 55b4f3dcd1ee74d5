"""Bronze, silver and gold: the tables, and the runs that bring them up to date."""
