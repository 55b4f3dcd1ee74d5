"""A full disk under a sink or a manifest: the error says so, table and queue do not change, and a new start is enough."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql.types import BinaryType, StructField, StructType

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.journal import Journal, JournalFullError, Kind
from mqflow.landing.recovery import STATE_QUEUE
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.pipeline import SinkError
from mqflow.pipeline.delta.sink import DeltaSink
from mqflow.pipeline.sources.drain import Drain
from mqflow.world import SYSTEM_CLOCK
from tests.queue_contents import put

SCHEMA = StructType([StructField("body", BinaryType())])
NOISE = Random(1)  # noqa: S311 - what does not compress


@contextmanager
def no_room_beyond(size: int) -> Iterator[None]:
    """Limit the size of files, so that the operating system reports an error as for a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def bodies(count: int) -> Iterator[pa.RecordBatch]:
    return iter([pa.record_batch({"body": [NOISE.randbytes(100) for _ in range(count)]})])


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "table"


@pytest.fixture
def writer(table: Path) -> Any:
    made: Any = DeltaSink({"path": str(table), "appId": "q"}).streamWriter(SCHEMA, overwrite=False)
    made.commit([made.write(bodies(3))], 0)
    return made


def test_a_task_without_room_leaves_no_file_and_says_so(writer: Any, table: Path) -> None:
    before = sorted(table.rglob("*"))

    with no_room_beyond(10_000), pytest.raises(SinkError, match=r"there is no room for the table .* start again"):
        writer.write(bodies(1_000))

    assert before == sorted(table.rglob("*"))
    writer.commit([writer.write(bodies(1_000))], 1)
    assert 1_003 == DeltaTable(table).to_pyarrow_table().num_rows


def test_a_commit_without_room_leaves_the_table_at_its_version(writer: Any, table: Path) -> None:
    written = writer.write(bodies(4))

    with no_room_beyond(100), pytest.raises(SinkError, match=r"there is no room for the table .* keeps its last version"):
        writer.commit([written], 1)

    assert 3 == DeltaTable(table).to_pyarrow_table().num_rows
    writer.commit([written], 1)
    assert 7 == DeltaTable(table).to_pyarrow_table().num_rows


def test_a_task_that_fails_for_another_reason_leaves_no_file_either(writer: Any, table: Path) -> None:
    before = sorted(table.rglob("*"))

    def broken() -> Iterator[pa.RecordBatch]:
        yield from bodies(3)
        raise ValueError("planted")

    with pytest.raises(ValueError, match="planted"):
        writer.write(broken())
    assert before == sorted(table.rglob("*"))


def test_a_manifest_without_room_leaves_the_queue_as_it_was(tmp_path: Path) -> None:
    with EmbeddedQueueManager("QM1") as owner:
        owner.administration.define(QueueAttributes(name="Q"))
        put(owner, "Q", *(NOISE.randbytes(100) for _ in range(200)))
        owner.administration.define(QueueAttributes(name=STATE_QUEUE))
        journal = Journal.create(tmp_path / "manifest")
        lane = journal.add_lane("Q", Kind.PAYLOAD, queue="Q", queue_manager="QM1")

        def drain() -> Drain:
            return Drain(owner.connect(), journal, lane, messages_max=500, state_queue=STATE_QUEUE, clock=SYSTEM_CLOCK)

        full = drain()
        with no_room_beyond(5_000), pytest.raises(JournalFullError, match="No room for"):
            full.take(0)

        assert 200 == owner.administration.queue_status("Q").depth
        assert (1, 200) == drain().take(0)
        assert 0 == owner.administration.queue_status("Q").depth
