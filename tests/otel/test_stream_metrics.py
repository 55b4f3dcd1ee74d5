"""The metrics of a stream of tables, as an exporter gets them."""

from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from mqflow.otel.stream_metrics import StreamMetrics


def exported(reader: InMemoryMetricReader) -> dict[str, dict[frozenset[tuple[str, Any]], float]]:
    data = reader.get_metrics_data()
    assert data is not None
    return {
        metric.name: {
            frozenset((point.attributes or {}).items()): getattr(point, "value", 0) for point in metric.data.data_points
        }
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


def test_lag_is_a_gauge_for_each_table_and_stages_are_counted() -> None:
    reader = InMemoryMetricReader()
    metrics = StreamMetrics(MeterProvider([reader]))

    metrics.measured("bronze.dead_letter", 40, 12.5)
    metrics.measured("bronze.dead_letter", 0, 0.0)
    metrics.measured("gold", 7, 3.0)
    for _ in range(2):
        metrics.ran("bronze", 20, 1.5)
    metrics.failed("silver", "executor_lost")

    found, gold, bronze = exported(reader), frozenset({("mqflow.table", "gold")}), frozenset({("mqflow.stage", "bronze")})
    assert {frozenset({("mqflow.table", "bronze.dead_letter")}): 0, gold: 7} == found["mqflow.stream.rows_behind"]
    assert 3.0 == found["mqflow.stream.seconds_behind"][gold]
    assert (40, 3.0, 2) == tuple(found[f"mqflow.stream.{name}"][bronze] for name in ("rows", "stage.seconds", "stages"))
    assert {frozenset({("mqflow.stage", "silver"), ("error.type", "executor_lost")}): 1} == found["mqflow.stream.failures"]
