"""The report: its data, charts and pages."""
