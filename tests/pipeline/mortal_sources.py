"""What the killed Spark of `killing` runs: mqflow's own formats with tasks that fail, and a source written naively.

In a module of its own, because workers import it by name.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
from mqflow.pipeline import delta_sink, journal_source, queue_sink, queue_source
from mqflow.pipeline.connecting import Reached, reached
from mqflow.verbs import GetOptions

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ("SOURCES",)

FAILS_EVERY = 5
"""Which part of the tasks fails, the first time it is tried."""


def fail_now_and_then(number: int) -> None:
    """Fail the task's first attempt, where it is one of those that do."""
    task = TaskContext.get()
    if task is not None and not task.attemptNumber() and number % FAILS_EVERY == 1:
        raise RuntimeError("planted: this task fails once")


class _FailingJournalReader(journal_source._StreamReader):
    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        yield from super().read(partition)
        fail_now_and_then(partition.segments[-1].number)  # type: ignore[attr-defined]  # it is one of the source's own


class FailingJournal(journal_source.JournalSource):
    """The journal, with tasks that fail when they have read all."""

    @classmethod
    def name(cls) -> str:
        return "failing_journal"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        made = super().streamReader(schema)
        made.__class__ = _FailingJournalReader
        return made


class _FailingDrainReader(queue_source._StreamReader):
    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        yield from super().read(partition)
        fail_now_and_then(partition.segments[-1].number)  # type: ignore[attr-defined]  # as above


class FailingDrain(queue_source.QueueSource):
    """The drained queue, with tasks that fail when they have read all."""

    @classmethod
    def name(cls) -> str:
        return "failing_drain"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        made = super().streamReader(schema)
        made.__class__ = _FailingDrainReader
        return made


def _batch() -> int:
    task = TaskContext.get()
    return 0 if task is None else int(task.getLocalProperty("streaming.sql.batchId") or 0)


class _FailingQueueWriter(queue_sink._StreamWriter):
    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        done = super().write(iterator)
        fail_now_and_then(_batch())
        return done


class FailingQueueSink(queue_sink.QueueSink):
    """The sink of queues, with tasks that fail when their rows are on the queue."""

    @classmethod
    def name(cls) -> str:
        return "failing_mq"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: FBT001, N802 - Spark's
        made = super().streamWriter(schema, overwrite)
        made.__class__ = _FailingQueueWriter
        return made


class _FailingDeltaWriter(delta_sink._StreamWriter):
    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        done = super().write(iterator)
        fail_now_and_then(_batch())
        return done


class FailingDelta(delta_sink.DeltaSink):
    """Delta, with tasks that fail when their files are written."""

    @classmethod
    def name(cls) -> str:
        return "failing_delta"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: FBT001, N802 - Spark's
        made = super().streamWriter(schema, overwrite)
        made.__class__ = _FailingDeltaWriter
        return made


# -- a control


@dataclass(frozen=True)
class _Rows(InputPartition):
    bodies: tuple[bytes, ...]


class _NaiveReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Gets in `latestOffset`, commits in `commit`: what the names invite to. Its offset counts messages."""

    def __init__(self, url: str, queue: str) -> None:
        self._url = url
        self._queue = queue
        self._reached: Reached | None = None
        self._units: dict[int, list[bytes]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_reached": None, "_units": {}}

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's
        return {"at": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's
        """Go on until there is nothing more."""

    def latestOffset(self, start: dict[str, int], limit: object) -> dict[str, int]:  # noqa: ARG002, N802 - Spark's
        return {"at": start["at"] + len(self._get(start["at"], 40))}

    def _get(self, at: int, most: int) -> list[bytes]:
        if self._reached is None:
            self._reached = reached(self._url, "naive")
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
    """A queue whose unit of work is committed when Spark says that the batch is."""

    @classmethod
    def name(cls) -> str:
        return "naive_queue"

    def schema(self) -> str:
        return "body binary"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's
        return _NaiveReader(self.options["url"], self.options["queue"])


SOURCES = (FailingJournal, FailingDrain, FailingQueueSink, FailingDelta, NaiveQueue)
