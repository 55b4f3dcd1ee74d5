"""Commands that run, explain and create applications."""
