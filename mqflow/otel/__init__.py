"""OpenTelemetry for mqflow: spans, metrics, and a span event for each backout decision. Loaded only on request.

No module here imports `mqflow.embedded`, `mqflow.bindings`, `mqflow.runtime` or `mqflow.pipeline`.
"""

from mqflow.otel.spans import Inject, TraceSettings, Trust
from mqflow.otel.telemetry import OpenTelemetry

__all__ = ("Inject", "OpenTelemetry", "TraceSettings", "Trust")
