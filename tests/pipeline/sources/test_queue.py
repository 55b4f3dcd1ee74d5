"""`mqflow_queue`: a browsed queue, and a queue drained into a manifest, exactly once, even if other programs get from it."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.wire.server.listener import serve
from mqflow.folders import Folder, folder_at
from mqflow.journal import Journal, Kind, Lane, LaneError, read_table
from mqflow.landing import lander
from mqflow.landing.recovery import STATE_QUEUE
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import GetOption, OpenOption, Persistence, PutOption
from mqflow.pipeline import OptionError
from mqflow.pipeline.sources.drain import Drain, forget
from mqflow.pipeline.sources.offsets import to_offset
from mqflow.pipeline.sources.queue import QueueSource
from mqflow.policy.poison.disposition_record import DispositionRecord, RecordOutcome, many_to_bytes
from mqflow.testing.faults import Fault, Faults, Moment
from mqflow.verbs import GetOptions
from mqflow.world import SYSTEM_CLOCK
from tests.doubles import queue_manager_with
from tests.embedded.disk_faults.disk import memory_folder
from tests.object_store import new_bucket
from tests.queue_contents import browsed

QUEUE = "POISON"


owner = queue_manager_with(*(f"DEFINE QLOCAL('{name}')" for name in (QUEUE, STATE_QUEUE)))


@pytest.fixture(params=["disk", "s3"])
def lane(request: pytest.FixtureRequest, tmp_path: Path) -> Lane:
    if request.param == "disk":
        return manifest(folder_at(tmp_path / "manifest"))
    request.getfixturevalue("server")
    return manifest(folder_at(f"{new_bucket()}/manifest"))


def manifest(folder: Folder) -> Lane:
    return Journal.create(folder).add_lane(QUEUE, Kind.PAYLOAD, queue=QUEUE, queue_manager="QM1")


def put(owner: EmbeddedQueueManager, *numbers: int, persistence: Persistence = Persistence.NOT_PERSISTENT) -> None:
    connection = owner.connect()
    for number in numbers:
        connection.put1(QUEUE, MessageDescriptor(persistence=persistence), str(number).encode(), PutOption.NO_SYNCPOINT)


def on_queue(owner: EmbeddedQueueManager) -> list[tuple[int, int]]:
    """Return body and BackoutCount of each message."""
    return [(int(got.body), got.descriptor.backout_count) for got in browsed(owner, QUEUE)]


def in_manifest(lane: Lane, number: int) -> list[int]:
    [segment] = lane.segments(after=number - 1, through=number)
    return [int(body) for body in read_table(segment, Kind.PAYLOAD, ["body"])["body"].to_pylist()]


def drain(queue_manager: Any, lane: Lane, *, messages_max: int = 10) -> Drain:
    journal = Journal.open(lane.journal)
    connection = queue_manager.connect(application_name="drain")
    return Drain(connection, journal, lane, messages_max=messages_max, state_queue=STATE_QUEUE, clock=SYSTEM_CLOCK)


def taken_by_another(owner: EmbeddedQueueManager, most: int = 100) -> list[int]:
    """The numbers of the messages that another program gets, from the head of the queue."""
    connection = owner.connect()
    handle = connection.open(QUEUE, OpenOption.INPUT_SHARED)
    got = [connection.get(handle, GetOptions(options=GetOption.NO_SYNCPOINT)) for _ in range(most)]
    connection.disconnect()
    return [int(each.body) for each in got if each is not None]


def test_a_batch_is_off_the_queue_when_the_engine_gets_its_number_and_nothing_is_backed_out(
    owner: EmbeddedQueueManager, lane: Lane
) -> None:
    put(owner, *range(5))
    draining = drain(owner, lane, messages_max=3)

    assert (1, 3) == draining.take(0)
    assert [(3, 0), (4, 0)] == on_queue(owner)
    assert (2, 2) == draining.take(1)
    assert [[0, 1, 2], [3, 4]] == [in_manifest(lane, number) for number in (1, 2)]
    assert (2, 0) == draining.take(2)
    assert [] == on_queue(owner)


def test_a_segment_that_was_taken_before_a_kill_is_given_again_and_nobody_else_gets_its_messages(
    owner: EmbeddedQueueManager, lane: Lane
) -> None:
    """The reader dies after its batch is in the manifest, and before Spark has committed the batch."""
    put(owner, 0, 1)
    killed = drain(owner, lane)
    killed.take(0)
    put(owner, 2)

    stolen = taken_by_another(owner)
    put(owner, 3)
    again = drain(owner, lane)

    assert [2] == stolen
    assert (1, 0) == again.take(0)
    assert (2, 1) == again.take(1)
    assert [0, 1, 2, 3] == sorted([*stolen, *in_manifest(lane, 1), *in_manifest(lane, 2)])


@pytest.mark.parametrize(("moment", "backouts"), [(Moment.BEFORE, 1), (Moment.AFTER, 0)])
def test_a_batch_whose_commit_is_in_doubt_is_settled_by_its_marker(
    owner: EmbeddedQueueManager, lane: Lane, moment: Moment, backouts: int
) -> None:
    put(owner, 0, 1, 2)
    faults = Faults()
    doubtful = drain(faults.wrap(owner), lane)
    faults.add(Fault(verb="MQCMIT", moment=moment))
    with pytest.raises(MQIError, match="2009"):
        doubtful.take(0)
    left = on_queue(owner)
    stolen = taken_by_another(owner, most=1)
    put(owner, 3)

    again = drain(owner, lane)
    first, _ = again.take(0)
    second, _ = again.take(1)

    assert [(number, 1) for number in range(3 * backouts)] == left, "only a kill within the unit of work raises BackoutCount"
    drained = [number for each in {first, second} for number in in_manifest(lane, each)]
    assert [0, 1, 2, 3] == sorted(stolen + drained)


def test_messages_that_another_program_gets_while_they_are_browsed_are_not_in_the_batch(
    owner: EmbeddedQueueManager, lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(owner, 0, 1, 2)
    draining, stolen = drain(owner, lane), list[int]()
    write = lander.write_pending  # type: ignore[attr-defined]  # it is imported there

    def overtaken(*given: Any, **more: Any) -> Any:
        stolen.extend(taken_by_another(owner, most=1) if not stolen else [])
        return write(*given, **more)

    monkeypatch.setattr(lander, "write_pending", overtaken)

    assert (1, 2) == draining.take(0)
    assert ([0], [1, 2]) == (stolen, in_manifest(lane, 1))
    assert [] == on_queue(owner)


def test_a_queue_manager_that_was_restarted_gives_no_message_of_a_batch_again(tmp_path: Path) -> None:
    def restarted() -> EmbeddedQueueManager:
        return EmbeddedQueueManager("QM1", store=SqliteStore(folder / "data"))

    with memory_folder() as folder:
        with restarted() as before:
            for name in (QUEUE, STATE_QUEUE):
                before.administration.define(QueueAttributes(name=name))
            put(before, *range(3), persistence=Persistence.PERSISTENT)
            journal = Journal.create(tmp_path / "manifest")
            lane = journal.add_lane(QUEUE, Kind.PAYLOAD, queue=QUEUE, queue_manager="QM1")
            drain(before, lane, messages_max=2).take(0)
        with restarted() as after:
            put(after, 3)

            again = drain(after, lane)
            assert [(1, 0), (2, 2)] == [again.take(0), again.take(1)]
            assert [] == on_queue(after)
    assert [[0, 1], [2, 3]] == [in_manifest(lane, number) for number in (1, 2)]


def test_a_second_stream_takes_the_manifest_over_and_the_first_ends(owner: EmbeddedQueueManager, lane: Lane) -> None:
    put(owner, 0, 1)
    first = drain(owner, lane, messages_max=1)
    second = drain(owner, lane, messages_max=1)

    with pytest.raises(LaneError, match="Another lander has taken lane POISON over"):
        first.take(0)
    assert (1, 1) == second.take(0)
    assert [(1, 0)] == on_queue(owner)


def test_without_a_queue_for_the_marker_the_stream_takes_nothing_and_says_what_to_define(lane: Lane) -> None:
    with EmbeddedQueueManager("QM1") as bare:
        bare.administration.define(QueueAttributes(name=QUEUE))
        put(bare, 0)

        with pytest.raises(MQIError, match=r"2085.*DEFINE QLOCAL\('MQFLOW.JOURNAL.STATE'\) DEFPSIST\(YES\)"):
            drain(bare, lane)
        assert [(0, 0)] == on_queue(bare)


def test_a_manifest_keeps_only_what_may_be_replayed(owner: EmbeddedQueueManager, lane: Lane) -> None:
    journal, draining = Journal.open(lane.journal), drain(owner, lane)
    for number in range(3):
        put(owner, number)
        assert (number + 1, 1) == draining.take(number)
        forget(journal, lane, number)
        forget(journal, lane, number)

    assert [2] == in_manifest(lane, 3)
    assert (2, 3) == (Journal.open(lane.journal).lane(QUEUE).trimmed, lane.last)


def test_a_batch_is_replayed_from_the_manifest_alone(owner: EmbeddedQueueManager, lane: Lane) -> None:
    """After a kill Spark asks for the parts in its log, without latestOffset, in another process without a connection."""
    put(owner, 0, 1)
    drain(owner, lane).take(0)
    nowhere = {"url": "embedded+unix:/nowhere?qmgr=QM1", "queue": QUEUE, "manifest": lane.journal.uri}
    reader: Any = QueueSource(nowhere).streamReader(None)  # type: ignore[arg-type]  # it has the columns from the options
    journal = Journal.open(lane.journal)

    parts = reader.partitions(to_offset(journal.id, {QUEUE: 0}), to_offset(journal.id, {QUEUE: 1}))

    assert [b"0", b"1"] == [body for part in parts for batch in reader.read(part) for body in batch["body"].to_pylist()]


def test_a_run_ends_after_as_many_messages_as_were_there_and_the_batches_from_before_a_kill(
    owner: EmbeddedQueueManager, tmp_path: Path
) -> None:
    put(owner, 0, 1)
    with memory_folder() as folder, serve(owner, folder / "qm"):
        options = {"url": f"embedded+unix:{folder / 'qm'}?qmgr=QM1", "queue": QUEUE, "manifest": str(tmp_path / "m")}
        killed: Any = QueueSource(options).streamReader(None)  # type: ignore[arg-type]  # as above
        start = killed.initialOffset()
        end = killed.latestOffset(start, ReadAllAvailable())
        killed.stop()
        assert [] == taken_by_another(owner), "the batch is off the queue, although Spark never commits it"
        put(owner, 2, 3)

        again: Any = QueueSource(options).streamReader(None)  # type: ignore[arg-type]  # as above
        again.prepareForTriggerAvailableNow()
        assert end == again.latestOffset(start, ReadAllAvailable())
        further = again.latestOffset(end, ReadAllAvailable())
        put(owner, 4)  # for the next run
        assert further == again.latestOffset(further, ReadAllAvailable())
        again.stop()

    assert end != further
    assert [(4, 0)] == on_queue(owner)


def test_a_message_of_several_records_is_one_message_of_the_queue_and_a_row_for_each(
    owner: EmbeddedQueueManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of a run counts messages, because rows would end it too early."""
    monkeypatch.setattr("mqflow.pipeline.sources.queue._ROWS_PER_BATCH", 1)
    connection = owner.connect()
    for unit in range(3):
        records = [
            DispositionRecord(disp_id=f"{unit}.{number}", event_ts=1, qmgr="QM1", queue="Q", outcome=RecordOutcome.COMMITTED)
            for number in range(4)
        ]
        connection.put1(QUEUE, MessageDescriptor(), many_to_bytes(records), PutOption.NO_SYNCPOINT)
    with memory_folder() as folder, serve(owner, folder / "qm"):
        options = {"url": f"embedded+unix:{folder / 'qm'}?qmgr=QM1", "queue": QUEUE, "kind": "disposition"}
        browse: Any = QueueSource({**options, "maxMessages": "2"}).reader(None)  # type: ignore[arg-type]  # as above
        rows = [row for batch in browse.read(browse.partitions()[0]) for row in batch.to_pylist()]

        drains: Any = QueueSource({**options, "manifest": str(tmp_path / "m"), "maxRowsPerTrigger": "1"}).streamReader(None)  # type: ignore[arg-type]  # as above
        drains.prepareForTriggerAvailableNow()
        offset = drains.initialOffset()
        for _ in range(4):
            offset = drains.latestOffset(offset, ReadMaxRows(1))
        drains.stop()

    assert [(at, f"{at // 4}.{at % 4}") for at in range(8)] == [(row["ordinal"], row["disp_id"]) for row in rows]
    assert [] == on_queue(owner)


def test_a_queue_is_browsed_in_its_order_and_drained_once_by_a_real_spark(
    spark: SparkSession, owner: EmbeddedQueueManager, tmp_path: Path
) -> None:
    put(owner, *range(30))
    with memory_folder() as folder, serve(owner, folder / "qm"):
        url = f"embedded+unix:{folder / 'qm'}?qmgr=QM1"
        browsed = spark.read.format("mqflow_queue").options(url=url, queue=QUEUE, columns="ordinal,body,qmgr", maxMessages="20")
        rows = browsed.load().collect()
        stream = (
            spark.readStream.format("mqflow_queue")
            .options(url=url, queue=QUEUE, manifest=str(tmp_path / "m"), maxRowsPerTrigger="12")
            .load()
            .select("body")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
        )
        stream.start(str(tmp_path / "table")).awaitTermination()
        assert [] == on_queue(owner)
        (tmp_path / "checkpoint" / "commits" / "2").unlink()  # killed before the last batch was in Spark's log
        (tmp_path / "checkpoint" / "commits" / ".2.crc").unlink(missing_ok=True)
        put(owner, 30)
        stream.start(str(tmp_path / "table")).awaitTermination()

    assert [(at, str(at).encode(), "QM1") for at in range(20)] == [tuple(row) for row in rows]
    found = spark.read.parquet(str(tmp_path / "table")).collect()
    assert list(range(31)) == sorted(int(row.body) for row in found)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"queue": QUEUE}, "needs the option 'url'"),
        ({"url": "embedded::memory:", "queue": QUEUE}, "in the memory of one process"),
        ({"url": "embedded+unix:/s?qmgr=QM1"}, "needs the option 'queue'"),
        ({"url": "embedded+unix:/s?qmgr=QM1", "queue": QUEUE}, "needs the option 'manifest'"),
        ({"url": "embedded+unix:/s?qmgr=QM1", "queue": QUEUE, "columns": "dlq"}, "payload has no column dlq"),
        ({"url": "ibmmq://user:hunter2@mq/QM1", "queue": QUEUE}, "A URL must not have the user or the password"),
    ],
)
def test_options_that_do_not_fit_are_refused_without_a_connection(options: dict[str, str], sentence: str) -> None:
    source = QueueSource(options)

    with pytest.raises(OptionError.__mro__[1], match=sentence) as caught:
        source.streamReader(None)  # type: ignore[arg-type]  # it has the columns from the options
    assert "hunter2" not in str(caught.value)
