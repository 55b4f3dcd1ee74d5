"""OpenTelemetry for mqflow: spans, a span event for each backout decision, metrics. Imported only when asked for."""

from mqflow.otel.settings import Inject, TraceSettings, Trust
from mqflow.otel.telemetry import OpenTelemetry

__all__ = ("Inject", "OpenTelemetry", "TraceSettings", "Trust")
