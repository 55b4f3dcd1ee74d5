"""The formats of the campaign's Spark: mqflow's own formats with failing tasks, and a naive source.

A separate module, because workers import it by name.
"""

import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from mqflow.mqi.options import GetOption, OpenOption
from mqflow.pipeline.connections import WorkerConnection
from mqflow.pipeline.delta import sink as delta
from mqflow.pipeline.sinks import queue as queue_sink
from mqflow.pipeline.sources import journal
from mqflow.pipeline.sources import queue as queue_source
from mqflow.verbs import GetOptions

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ("DESIGN", "SOURCES")

DESIGN = "victim.design"
"""The property by which a task knows its query. Spark hands it on."""

FAILS_EVERY = 5
"""One task of so many fails at its first attempt."""


def fail_now_and_then(number: int) -> None:
    """Fail the first attempt of the task, if the plan says so."""
    task = TaskContext.get()
    if task is not None and not task.attemptNumber() and number % FAILS_EVERY == 1:
        raise RuntimeError("planted: this task fails once")


def stand_once(*designs: str) -> None:
    """Wait here for the kill if the plan aims at workers of this design: one of each design, once in a life."""
    marks, task = os.environ.get("VICTIM_TASKS"), TaskContext.get()
    design = task.getLocalProperty(DESIGN) if task is not None else None
    if marks is None or design not in designs:
        return
    said = Path(marks, f".{os.getpid()}")
    said.write_text(str(os.getpid()))
    try:
        os.link(said, Path(marks, f"task-{design}"))  # readers see all of it or nothing
    except FileExistsError:
        return
    while True:
        signal.pause()


class _FailsWhenRead(DataSourceStreamReader):
    def read(self, partition: InputPartition) -> Iterator[Any]:
        yield from super().read(partition)  # pyright: ignore[reportAbstractUsage]  # that of the other base
        stand_once("journal", "drain")
        fail_now_and_then(partition.segments[-1].number)  # type: ignore[attr-defined]  # it is one of the source's own


class _FailsWhenWritten(DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        done: WriterCommitMessage = super().write(iterator)  # type: ignore[safe-super]  # that of the other base
        stand_once("delta", "sink")
        task = TaskContext.get()
        fail_now_and_then(0 if task is None else int(task.getLocalProperty("streaming.sql.batchId") or 0))
        return done


class _FailingJournalReader(_FailsWhenRead, journal._StreamReader):
    pass


class _FailingDrainReader(_FailsWhenRead, queue_source._StreamReader):
    pass


class _FailingQueueWriter(_FailsWhenWritten, queue_sink._StreamWriter):
    pass


class _FailingDeltaWriter(_FailsWhenWritten, delta._StreamWriter):
    pass


def _failing(source: type[DataSource], name: str, kind: type[Any]) -> type[DataSource]:
    """Return the source of this name, with tasks that fail after they have read or written everything."""

    class Failing(source):  # type: ignore[valid-type, misc]  # mypy knows no base that is an argument
        @classmethod
        def name(cls) -> str:
            return name

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
            made = super().streamReader(schema)
            made.__class__ = kind
            return cast("DataSourceStreamReader", made)

        def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: FBT001, N802 - Spark's
            made = super().streamWriter(schema, overwrite)
            made.__class__ = kind
            return cast("DataSourceStreamArrowWriter", made)

    return Failing


# -- a control


@dataclass(frozen=True)
class _Rows(InputPartition):
    bodies: tuple[bytes, ...]


class _NaiveReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Gets in `latestOffset` and commits in `commit`, as their names suggest. Its offset counts messages."""

    def __init__(self, url: str, queue: str) -> None:
        self._url = url
        self._queue = queue
        self._reached: WorkerConnection | None = None
        self._units: dict[int, list[bytes]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_reached": None, "_units": {}}

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's
        return {"at": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's
        """Continue until the queue is empty."""

    def latestOffset(self, start: dict[str, int], limit: object) -> dict[str, int]:  # noqa: ARG002, N802 - Spark's
        return {"at": start["at"] + len(self._get(start["at"], 40))}

    def _get(self, at: int, most: int) -> list[bytes]:
        if self._reached is None:
            self._reached = WorkerConnection(self._url, "naive")
        connection = self._reached.connection
        handle = connection.open(self._queue, OpenOption.INPUT_SHARED)
        unit = self._units[at] = []
        while len(unit) < most and (got := connection.get(handle, GetOptions(options=GetOption.SYNCPOINT))) is not None:
            unit.append(got.body)
        connection.close(handle)
        return unit

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        unit = self._units.get(start["at"])
        return [_Rows(tuple(unit if unit is not None else self._get(start["at"], end["at"] - start["at"])))]

    def read(self, partition: InputPartition) -> Iterator[tuple[bytes]]:
        assert isinstance(partition, _Rows)
        return iter([(body,) for body in partition.bodies])

    def commit(self, end: dict[str, int]) -> None:  # noqa: ARG002 - Spark's
        if self._reached is not None:
            self._reached.connection.commit()


class NaiveQueue(DataSource):
    """A queue source that commits its unit of work when Spark calls `commit` for the batch."""

    @classmethod
    def name(cls) -> str:
        return "naive_queue"

    def schema(self) -> str:
        return "body binary"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's
        return _NaiveReader(self.options["url"], self.options["queue"])


SOURCES = (
    _failing(journal.JournalSource, "failing_journal", _FailingJournalReader),
    _failing(queue_source.QueueSource, "failing_drain", _FailingDrainReader),
    _failing(queue_sink.QueueSink, "failing_mq", _FailingQueueWriter),
    _failing(delta.DeltaSink, "failing_delta", _FailingDeltaWriter),
    NaiveQueue,
)
