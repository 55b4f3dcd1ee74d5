"""OpenTelemetry for mqflow: spans, a span event for each backout decision, metrics. Imported only when asked for."""
