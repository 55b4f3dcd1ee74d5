"""`mqflow_queue`: a browsed queue, and a queue drained with a manifest, from which only committed batches are removed."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.wire.server.listener import serve
from mqflow.folders import Folder, folder_at
from mqflow.journal import Journal, Kind, Lane, read_table
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import GetOption, MatchOption, OpenOption, Persistence, PutOption
from mqflow.pipeline import OptionError, PipelineError
from mqflow.pipeline.sources.drain import Drain, drain_lane
from mqflow.pipeline.sources.offsets import to_offset
from mqflow.pipeline.sources.queue import QueueSource
from mqflow.policy.poison.disposition_record import DispositionRecord, RecordOutcome, many_to_bytes
from mqflow.testing.faults import Fault, Faults, Moment
from mqflow.verbs import GetOptions
from tests.embedded.disk_faults.disk import memory_folder
from tests.folders.watched import Watched
from tests.object_store import new_bucket

QUEUE = "POISON"


@pytest.fixture
def owner() -> Iterator[EmbeddedQueueManager]:
    with EmbeddedQueueManager("QM1") as made:
        made.administration.define(QueueAttributes(name=QUEUE))
        yield made


@pytest.fixture(params=["disk", "s3"])
def lane(request: pytest.FixtureRequest, tmp_path: Path) -> Lane:
    if request.param == "disk":
        return manifest(folder_at(tmp_path / "manifest"))
    request.getfixturevalue("server")
    return manifest(folder_at(f"{new_bucket()}/manifest"))


def manifest(folder: Folder) -> Lane:
    return drain_lane(folder, Kind.PAYLOAD, queue=QUEUE, queue_manager="QM1")[1]


def put(
    owner: EmbeddedQueueManager,
    *numbers: int,
    same_identity: bool = False,
    persistence: Persistence = Persistence.NOT_PERSISTENT,
) -> None:
    connection = owner.connect()
    for number in numbers:
        descriptor = MessageDescriptor(message_id=(7 if same_identity else number + 1).to_bytes(24), persistence=persistence)
        if same_identity:
            descriptor = MessageDescriptor(
                message_id=b"S" * 24, put_date="20240101", put_time="12000000", put_application_name="x"
            )
            handle = connection.open(QUEUE, OpenOption.OUTPUT | OpenOption.SET_ALL_CONTEXT)
            connection.put(handle, descriptor, str(number).encode(), PutOption.SET_ALL_CONTEXT | PutOption.NO_SYNCPOINT)
        else:
            connection.put1(QUEUE, descriptor, str(number).encode(), PutOption.NO_SYNCPOINT)


def on_queue(owner: EmbeddedQueueManager) -> list[tuple[int, int]]:
    """Return body and BackoutCount of each message."""
    connection = owner.connect()
    handle = connection.open(QUEUE, OpenOption.BROWSE)
    found = []
    while (got := connection.get(handle, GetOptions(options=GetOption.BROWSE_NEXT))) is not None:
        found.append((int(got.body), got.descriptor.backout_count))
    return found


def in_manifest(lane: Lane, number: int) -> list[int]:
    [segment] = lane.segments(after=number - 1, through=number)
    return [int(body) for body in read_table(segment, Kind.PAYLOAD, ["body"])["body"].to_pylist()]


def drain(owner: EmbeddedQueueManager, lane: Lane) -> Drain:
    return Drain(owner.connect(), lane, clock_us=lambda: 0)


def take_off(owner: EmbeddedQueueManager, number: int) -> None:
    connection = owner.connect()
    handle = connection.open(QUEUE, OpenOption.INPUT_SHARED)
    match = GetOptions(options=GetOption.NO_SYNCPOINT, match=MatchOption.MSG_ID, message_id=(number + 1).to_bytes(24))
    assert connection.get(handle, match) is not None
    connection.disconnect()


def test_messages_stay_on_the_queue_until_their_batch_is_committed_and_nothing_is_backed_out(
    owner: EmbeddedQueueManager, lane: Lane
) -> None:
    put(owner, *range(5))
    draining = drain(owner, lane)

    assert 1 == draining.take(0, rows_max=3)
    assert [(number, 0) for number in range(5)] == on_queue(owner)
    assert 3 == draining.acknowledge(1)
    assert [(3, 0), (4, 0)] == on_queue(owner)
    assert 2 == draining.take(1, rows_max=3)
    assert [3, 4] == in_manifest(lane, 2)
    assert (2, 2) == (draining.acknowledge(2), draining.take(2, rows_max=3))
    assert [] == on_queue(owner)


def test_a_segment_that_was_browsed_before_a_kill_is_given_again(owner: EmbeddedQueueManager, lane: Lane) -> None:
    put(owner, 0, 1)
    killed = owner.connect()
    Drain(killed, lane, clock_us=lambda: 0).take(0, rows_max=10)
    killed.disconnect()
    put(owner, 2)

    again = drain(owner, lane)

    assert 1 == again.take(0, rows_max=10)
    assert [0, 1] == in_manifest(lane, 1)
    again.acknowledge(1)
    assert [(2, 0)] == on_queue(owner)


def test_an_acknowledgement_that_was_cut_off_is_finished_by_the_next(owner: EmbeddedQueueManager, lane: Lane) -> None:
    put(owner, 0, 1, 2)

    def kill(text: str, operation: Callable[[], Any]) -> Any:
        if text.startswith("remove") and not killed:
            killed.append(text)  # everything is committed, and the manifest still there
            raise KeyboardInterrupt
        return operation()

    killed: list[str] = []
    draining = drain(owner, manifest(Watched(lane.journal, kill)))
    draining.take(0, rows_max=10)
    with pytest.raises(KeyboardInterrupt):
        draining.acknowledge(1)
    put(owner, 3)

    assert 0 == draining.acknowledge(1)
    assert [(3, 0)] == on_queue(owner)


def test_a_message_that_expired_or_was_stolen_is_not_missed(owner: EmbeddedQueueManager, lane: Lane) -> None:
    put(owner, 0, 1, 2)
    thief = owner.connect()
    Drain(thief, lane, clock_us=lambda: 0).take(0, rows_max=10)
    thief.disconnect()
    take_off(owner, 1)

    assert 2 == drain(owner, lane).acknowledge(1)
    assert [] == on_queue(owner)


def taken_and_left(owner: EmbeddedQueueManager, lane: Lane) -> None:
    """A message was drained on a connection that has ended."""
    connection = owner.connect()
    Drain(connection, lane, clock_us=lambda: 0).take(0, rows_max=1)
    connection.disconnect()


def kill_tokens(lane: Lane) -> None:
    """Like a restarted queue manager, which finds no message by an old token."""
    import msgspec  # noqa: PLC0415 - one use

    name = f"{1:012d}.tokens"
    entries = msgspec.msgpack.decode(lane.folder.read(name))
    dead = [[b"\xff" * 15 + bytes([at]), *entry[1:]] for at, entry in enumerate(entries)]
    lane.folder.write(name, msgspec.msgpack.encode(dead))


def test_a_token_that_died_with_its_queue_manager_is_replaced_by_what_else_tells_the_message(
    owner: EmbeddedQueueManager, lane: Lane
) -> None:
    put(owner, 0, 1)
    taken_and_left(owner, lane)
    kill_tokens(lane)

    assert 1 == drain(owner, lane).acknowledge(1)
    assert [(1, 0)] == on_queue(owner)


def test_one_like_a_message_that_is_gone_is_not_removed_in_its_place(owner: EmbeddedQueueManager, lane: Lane) -> None:
    """The first was drained and has expired; the second was never drained, and removing it would lose it."""
    handle = (writer := owner.connect()).open(QUEUE, OpenOption.OUTPUT | OpenOption.SET_ALL_CONTEXT)
    alike = MessageDescriptor(message_id=b"S" * 24, put_date="20240101", put_time="12000000", put_application_name="x")
    set_all = PutOption.SET_ALL_CONTEXT | PutOption.NO_SYNCPOINT
    writer.put(handle, replace(alike, expiry_tenths=1), b"1", set_all)
    draining = drain(owner, lane)
    assert 1 == draining.take(0, rows_max=1)
    while on_queue(owner):
        pass
    writer.put(handle, alike, b"2", set_all)

    assert 0 == draining.acknowledge(1)
    assert [(2, 0)] == on_queue(owner)


def test_a_queue_manager_that_was_restarted_gives_up_what_was_drained_before(tmp_path: Path) -> None:
    def restarted() -> EmbeddedQueueManager:
        return EmbeddedQueueManager("QM1", store=SqliteStore(folder / "data"))

    with memory_folder() as folder:
        with restarted() as before:
            before.administration.define(QueueAttributes(name=QUEUE))
            put(before, *range(3), persistence=Persistence.PERSISTENT)
            lane = drain_lane(tmp_path / "manifest", Kind.PAYLOAD, queue=QUEUE, queue_manager="QM1")[1]
            drain(before, lane).take(0, rows_max=2)
        with restarted() as after:
            put(after, 3)

            assert 2 == drain(after, lane).acknowledge(1)
            assert [(2, 0), (3, 0)] == on_queue(after)


@pytest.mark.parametrize(("moment", "left"), [(Moment.BEFORE, 3), (Moment.AFTER, 0)])
def test_a_removal_whose_commit_is_in_doubt_is_settled_by_looking(
    owner: EmbeddedQueueManager, lane: Lane, moment: Moment, left: int
) -> None:
    put(owner, 0, 1, 2)
    faults = Faults(Fault(verb="MQCMIT", moment=moment))
    doubtful = Drain(faults.wrap(owner).connect(), lane, clock_us=lambda: 0)
    doubtful.take(0, rows_max=10)
    with pytest.raises(MQIError, match="2009"):
        doubtful.acknowledge(1)
    put(owner, 3)

    assert left == drain(owner, lane).acknowledge(1)
    assert [(3, 0)] == on_queue(owner)


def test_messages_that_look_alike_stop_for_an_operator_once_tokens_are_dead(owner: EmbeddedQueueManager, lane: Lane) -> None:
    put(owner, 0, 1, same_identity=True)
    taken_and_left(owner, lane)
    kill_tokens(lane)

    with pytest.raises(PipelineError, match="2 messages on POISON have MsgId"):
        drain(owner, lane).acknowledge(1)
    assert [0, 1] == [number for number, _ in on_queue(owner)]


def test_nobody_else_may_get_from_a_queue_that_is_drained(owner: EmbeddedQueueManager, lane: Lane) -> None:
    drain(owner, lane)

    with pytest.raises(MQIError, match="MQRC_OBJECT_IN_USE"):
        owner.connect().open(QUEUE, OpenOption.INPUT_SHARED)
    with pytest.raises(MQIError, match="MQRC_OBJECT_IN_USE"):
        drain(owner, lane)


def test_a_manifest_keeps_only_what_may_be_replayed(owner: EmbeddedQueueManager, lane: Lane) -> None:
    draining = drain(owner, lane)
    for number in range(3):
        put(owner, number)
        assert number + 1 == draining.take(number, rows_max=10)
        draining.acknowledge(number + 1)

    assert [] == [file.name for file in lane.folder.files() if file.name.endswith(".tokens")]
    assert 3 == Journal.open(lane.journal).lane(QUEUE).trimmed == lane.last


def test_a_batch_is_replayed_from_the_manifest_alone(owner: EmbeddedQueueManager, lane: Lane) -> None:
    """After a kill Spark asks for the parts in its log, without latestOffset, in another process without a connection."""
    put(owner, 0, 1)
    drain(owner, lane).take(0, rows_max=10)
    nowhere = {"url": "embedded+unix:/nowhere?qmgr=QM1", "queue": QUEUE, "manifest": lane.journal.uri}
    reader: Any = QueueSource(nowhere).streamReader(None)  # type: ignore[arg-type]  # it has the columns from the options
    journal = Journal.open(lane.journal)

    parts = reader.partitions(to_offset(journal.id, {QUEUE: 0}), to_offset(journal.id, {QUEUE: 1}))

    assert [b"0", b"1"] == [body for part in parts for batch in reader.read(part) for body in batch["body"].to_pylist()]


def test_the_last_batch_is_removed_at_the_head_of_the_next_run_because_spark_never_commits_it(
    owner: EmbeddedQueueManager, tmp_path: Path
) -> None:
    put(owner, 0, 1)
    with memory_folder() as folder, serve(owner, folder / "qm"):
        options = {"url": f"embedded+unix:{folder / 'qm'}?qmgr=QM1", "queue": QUEUE, "manifest": str(tmp_path / "m")}
        first: Any = QueueSource(options).streamReader(None)  # type: ignore[arg-type]  # as above
        end = first.latestOffset(first.initialOffset(), ReadAllAvailable())
        first.stop()
        assert [0, 1] == [number for number, _ in on_queue(owner)]

        second: Any = QueueSource(options).streamReader(None)  # type: ignore[arg-type]  # as above
        assert end == second.latestOffset(end, ReadAllAvailable())
        second.stop()

    assert [] == on_queue(owner)


def test_what_was_browsed_before_a_kill_and_stolen_since_takes_nobodys_place(
    owner: EmbeddedQueueManager, tmp_path: Path
) -> None:
    put(owner, 0, 1)
    with memory_folder() as folder, serve(owner, folder / "qm"):
        options = {"url": f"embedded+unix:{folder / 'qm'}?qmgr=QM1", "queue": QUEUE, "manifest": str(tmp_path / "m")}
        killed: Any = QueueSource(options).streamReader(None)  # type: ignore[arg-type]  # as above
        start = killed.initialOffset()
        end = killed.latestOffset(start, ReadAllAvailable())
        killed.stop()
        take_off(owner, 0)
        take_off(owner, 1)
        put(owner, 2, 3)

        again: Any = QueueSource(options).streamReader(None)  # type: ignore[arg-type]  # as above
        again.prepareForTriggerAvailableNow()
        assert end == again.latestOffset(start, ReadAllAvailable())
        further = again.latestOffset(end, ReadAllAvailable())
        assert further == again.latestOffset(further, ReadAllAvailable())
        again.stop()

    assert end != further
    assert [] == on_queue(owner)


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

        drains: Any = QueueSource({**options, "manifest": str(tmp_path / "m")}).streamReader(None)  # type: ignore[arg-type]  # as above
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
        left = [number for number, _ in on_queue(owner)]
        (tmp_path / "checkpoint" / "commits" / "2").unlink()  # killed before the last batch was in Spark's log
        (tmp_path / "checkpoint" / "commits" / ".2.crc").unlink(missing_ok=True)
        put(owner, 30)
        stream.start(str(tmp_path / "table")).awaitTermination()

    assert [(at, str(at).encode(), "QM1") for at in range(20)] == [tuple(row) for row in rows]
    assert left in ([], list(range(24, 30)))  # the last batch is acknowledged at the head of the next latestOffset
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
