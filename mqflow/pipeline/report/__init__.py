"""The report: its data, charts and page."""
