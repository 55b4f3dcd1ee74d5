"""The metrics of `mqflow spark stream`: how far each table is behind, and the rows, times and failures of its stages."""

from typing import Final

from opentelemetry.metrics import Meter, MeterProvider, get_meter_provider

__all__ = ("StreamMetrics",)

_TABLE: Final = "mqflow.table"
_STAGE: Final = "mqflow.stage"


class StreamMetrics:
    """The instruments of one `mqflow spark stream`."""

    def __init__(self, provider: MeterProvider | None = None) -> None:
        meter: Meter = (provider or get_meter_provider()).get_meter("mqflow")
        self._rows_behind = meter.create_gauge(
            "mqflow.stream.rows_behind", "{row}", "Messages not in the journal, or rows a table lacks"
        )
        self._seconds_behind = meter.create_gauge("mqflow.stream.seconds_behind", "s", "Seconds since the oldest of these rows")
        self._rows = meter.create_counter("mqflow.stream.rows", "{row}", "Rows written to bronze, and alerts sent, by stage")
        self._seconds = meter.create_counter("mqflow.stream.stage.seconds", "s", "Seconds of stages that succeeded")
        self._runs = meter.create_counter("mqflow.stream.stages", "{run}", "Stages that succeeded")
        self._failures = meter.create_counter("mqflow.stream.failures", "{failure}", "Stages that failed, by stage and failure")

    def measured(self, name: str, rows_behind: int, seconds_behind: float | None) -> None:
        """Set how far `name` is behind: a queue, a lane of the journal, or a table. None leaves the seconds unchanged."""
        self._rows_behind.set(rows_behind, {_TABLE: name})
        if seconds_behind is not None:
            self._seconds_behind.set(seconds_behind, {_TABLE: name})

    def ran(self, stage: str, rows: int, seconds: float) -> None:
        """Count a stage that succeeded."""
        self._runs.add(1, {_STAGE: stage})
        self._rows.add(rows, {_STAGE: stage})
        self._seconds.add(seconds, {_STAGE: stage})

    def failed(self, stage: str, failure: str) -> None:
        """Count a stage that failed."""
        self._failures.add(1, {_STAGE: stage, "error.type": failure})
