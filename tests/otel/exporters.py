"""Exporters that keep spans and metrics; entry points find them like installed exporters."""

from typing import Any

from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricExporter, MetricExportResult, MetricsData
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

#: The exported spans and metrics, the latest last.
SPANS: list[InMemorySpanExporter] = []
METRICS: list["Metrics"] = []
READERS: list[InMemoryMetricReader] = []

ENTRY_POINTS = """
[opentelemetry_traces_exporter]
kept = tests.otel.exporters:spans
[opentelemetry_metrics_exporter]
kept = tests.otel.exporters:Metrics
read = tests.otel.exporters:reader
"""


def spans() -> InMemorySpanExporter:
    SPANS.append(InMemorySpanExporter())
    return SPANS[-1]


def reader() -> InMemoryMetricReader:
    READERS.append(InMemoryMetricReader())
    return READERS[-1]


class Metrics(MetricExporter):
    def __init__(self) -> None:
        super().__init__()
        self.exported: list[MetricsData] = []
        METRICS.append(self)

    def export(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **_: Any) -> MetricExportResult:  # noqa: ARG002 - the signature of the interface
        self.exported.append(metrics_data)
        return MetricExportResult.SUCCESS

    def force_flush(self, timeout_millis: float = 10_000) -> bool:  # noqa: ARG002 - as above
        return True

    def shutdown(self, timeout_millis: float = 30_000, **_: Any) -> None:
        """Do nothing."""
