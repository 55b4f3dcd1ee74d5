"""Processes that the commands start: queue managers, standbys and workers. No command is here."""
