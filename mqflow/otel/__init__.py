"""OpenTelemetry for mqflow: spans, a span event for each backout decision, and metrics.

mqflow loads it only if the setting `telemetry` is true or the source of the application imports it.
"""

from mqflow.otel.settings import Inject, TraceSettings, Trust
from mqflow.otel.telemetry import OpenTelemetry

__all__ = ("Inject", "OpenTelemetry", "TraceSettings", "Trust")
