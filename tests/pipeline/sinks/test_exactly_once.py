"""The marker of a sink: after any kill, a replay puts every row once, and a wrong replay fails and puts nothing."""

from collections.abc import Iterator
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.pipeline import SinkError
from mqflow.pipeline.sinks import exactly_once
from mqflow.pipeline.sinks.exactly_once import Batch, Message, prepare, put_batch, put_plainly, rows_per_unit
from mqflow.verbs import Connection
from tests.queue_contents import browsed, put, taken

MARKERS, TARGET = "MARKERS", "TARGET"
FIRST = Batch(sink="S", query="q", number=0, partition=0, partitions=2)


def rows(*numbers: int) -> list[Message]:
    return [Message(TARGET, MessageDescriptor(message_id=(n + 1).to_bytes(24)), str(n).encode()) for n in numbers]


@pytest.fixture
def queue_manager() -> Iterator[EmbeddedQueueManager]:
    with made() as queue_manager:
        yield queue_manager


def made() -> EmbeddedQueueManager:
    queue_manager = EmbeddedQueueManager("QM1")
    for name in (MARKERS, TARGET):
        queue_manager.administration.define(QueueAttributes(name=name, max_depth=100_000))
    prepare(queue_manager.connect(), MARKERS, "S", 2)
    return queue_manager


def on_queue(queue_manager: EmbeddedQueueManager, name: str = TARGET) -> list[int]:
    return [int(got.body) if name == TARGET else 0 for got in browsed(queue_manager, name)]


class Killed(BaseException):
    """The process ends here."""


class Frail:
    """A connection that breaks at the nth put or commit, before or after its effect."""

    def __init__(self, connection: Any, verb: str, at: int, *, after: bool, error: BaseException) -> None:
        self._connection, self._verb, self._at, self._next_marker, self._error = connection, verb, at, after, error

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._connection, name)
        if name != self._verb:
            return found

        def call(*arguments: Any, **named: Any) -> Any:
            self._at -= 1
            if self._at == 0 and not self._next_marker:
                raise self._error
            returned = found(*arguments, **named)
            if self._at == 0:
                raise self._error
            return returned

        return call


def kill(
    queue_manager: EmbeddedQueueManager,
    verb: str,
    at: int,
    batch: Batch = FIRST,
    unit: list[Message] | None = None,
    *,
    after: bool,
    unit_rows: int = 2,
) -> bool:
    """Put the batch on a connection whose process is killed at the verb. Return whether it was killed."""
    victim = queue_manager.connect()
    frail: Any = Frail(victim, verb, at, after=after, error=Killed())
    try:
        put_batch(frail, MARKERS, batch, rows(*range(5)) if unit is None else unit, unit_rows=unit_rows)
    except Killed:
        victim.backout()
        return True
    return False


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    ("verb", "at"), [("put", 1), ("put", 3), ("put", 4), ("put", 6), ("commit", 1), ("commit", 2), ("commit", 3)]
)
def test_a_kill_at_any_verb_and_a_replay_put_every_row_once(
    queue_manager: EmbeddedQueueManager, verb: str, at: int, *, after: bool
) -> None:
    assert kill(queue_manager, verb, at, after=after)

    put_batch(queue_manager.connect(), MARKERS, FIRST, rows(*range(5)), unit_rows=2)

    assert [0, 1, 2, 3, 4] == on_queue(queue_manager)


@pytest.mark.parametrize("after", [False, True])
def test_a_commit_in_doubt_is_settled_by_the_marker(queue_manager: EmbeddedQueueManager, *, after: bool) -> None:
    victim = queue_manager.connect()
    error = error_for(Reason.CONNECTION_BROKEN, "MQCMIT")
    frail: Any = Frail(victim, "commit", 2, after=after, error=error)
    with pytest.raises(MQIError):
        put_batch(frail, MARKERS, FIRST, rows(*range(5)), unit_rows=2)
    victim.backout()

    assert (1 if after else 3) == put_batch(queue_manager.connect(), MARKERS, FIRST, rows(*range(5)), unit_rows=2)
    assert [0, 1, 2, 3, 4] == on_queue(queue_manager)


def test_without_a_marker_a_replay_puts_twice(queue_manager: EmbeddedQueueManager) -> None:
    """The control: the tests above without the marker."""
    connection = queue_manager.connect()
    frail: Any = Frail(connection, "commit", 2, after=True, error=Killed())
    with pytest.raises(Killed):
        put_plainly(frail, rows(*range(5)), unit_rows=2)

    put_plainly(queue_manager.connect(), rows(*range(5)), unit_rows=2)

    assert 4 + 5 == len(on_queue(queue_manager))


def test_a_whole_batch_that_is_replayed_puts_nothing(queue_manager: EmbeddedQueueManager) -> None:
    connection = queue_manager.connect()

    assert [4, 0, 0] == [put_batch(connection, MARKERS, FIRST, rows(*range(4)), unit_rows=2) for _ in range(3)]
    assert [0, 1, 2, 3] == on_queue(queue_manager)


@pytest.mark.parametrize("other", [(0, 1, 3), (0, 1), (0, 1, 2, 3), (1, 0, 2), ()])
def test_a_replay_with_other_rows_is_refused(queue_manager: EmbeddedQueueManager, other: tuple[int, ...]) -> None:
    put_batch(queue_manager.connect(), MARKERS, FIRST, rows(0, 1, 2), unit_rows=2)

    with pytest.raises(SinkError, match="differs in a replay"):
        put_batch(queue_manager.connect(), MARKERS, FIRST, rows(*other), unit_rows=2)
    assert [0, 1, 2] == on_queue(queue_manager)


def test_rows_that_differ_only_in_where_one_ends_are_other_rows(queue_manager: EmbeddedQueueManager) -> None:
    queue_manager.administration.define(QueueAttributes(name="XTARGET"))
    first, second = rows(0, 1)
    put_batch(queue_manager.connect(), MARKERS, FIRST, [first, replace(second, queue="XTARGET")], unit_rows=9)

    with pytest.raises(SinkError, match="differs in a replay"):
        put_batch(queue_manager.connect(), MARKERS, FIRST, [replace(first, body=first.body + b"X"), second], unit_rows=9)


@pytest.mark.parametrize(
    ("batch", "others", "said"),
    [(0, (1, 0, 2), "differs in a replay"), (1, (3,), "stopped within batch 0, and now gets batch 1")],
    ids=["a replay with other rows", "the next batch"],
)
def test_after_a_half_put_batch_only_its_replay_is_put(
    queue_manager: EmbeddedQueueManager, batch: int, others: tuple[int, ...], said: str
) -> None:
    """Otherwise the rest of the batch would be lost."""
    assert kill(queue_manager, "commit", 1, unit=rows(0, 1, 2), after=True)

    with pytest.raises(SinkError, match=said):
        put_batch(queue_manager.connect(), MARKERS, replace(FIRST, number=batch), rows(*others), unit_rows=2)
    assert [0, 1] == on_queue(queue_manager)


def test_two_first_runs_at_once_make_one_set_of_markers(
    queue_manager: EmbeddedQueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exactly_once, "_TRIES", 1)
    monkeypatch.setattr(exactly_once, "_RETRY_S", 0)
    other = queue_manager.connect()

    class Slow(Frail):
        """Another first run begins between the first marker and the commit of this one."""

        def __getattr__(self, name: str) -> Any:
            if name == "commit":
                with pytest.raises(SinkError, match="needs exclusive use of MARKERS"):
                    prepare(other, MARKERS, "NEW", 3)
            return getattr(self._connection, name)

    before = len(on_queue(queue_manager, MARKERS))
    slow: Any = Slow(queue_manager.connect(), "", 0, after=False, error=Killed())
    prepare(slow, MARKERS, "NEW", 3)
    prepare(other, MARKERS, "NEW", 3)

    assert 1 + 3 == len(on_queue(queue_manager, MARKERS)) - before


def test_a_new_checkpoint_under_an_old_name_is_refused(queue_manager: EmbeddedQueueManager) -> None:
    """Its batches begin at 0 again: by number alone they would count as put, and be lost."""
    put_batch(queue_manager.connect(), MARKERS, FIRST, rows(0), unit_rows=2)
    other = Batch(sink="S", query="another", number=0, partition=0, partitions=2)

    with pytest.raises(SinkError, match="belongs to query q, and this is another"):
        put_batch(queue_manager.connect(), MARKERS, other, rows(0), unit_rows=2)


def test_a_checkpoint_that_was_set_back_is_refused(queue_manager: EmbeddedQueueManager) -> None:
    connection = queue_manager.connect()
    batches = [Batch(sink="S", query="q", number=number, partition=0, partitions=2) for number in range(2)]
    for number, batch in enumerate(batches):
        put_batch(connection, MARKERS, batch, rows(number), unit_rows=9)

    with pytest.raises(SinkError, match="is older"):
        put_batch(connection, MARKERS, FIRST, rows(0), unit_rows=9)


def test_the_number_of_partitions_is_fixed(queue_manager: EmbeddedQueueManager) -> None:
    prepare(queue_manager.connect(), MARKERS, "S", 2)
    before = on_queue(queue_manager, MARKERS)

    with pytest.raises(SinkError, match="has 2 partitions and cannot have 3"):
        prepare(queue_manager.connect(), MARKERS, "S", 3)
    assert before == on_queue(queue_manager, MARKERS)
    assert 3 == len(before)


def test_a_task_whose_marker_another_task_holds_puts_nothing(
    queue_manager: EmbeddedQueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exactly_once, "_MARKER_WAIT_MS", 0)
    zombie = queue_manager.connect()
    hanging: Any = Suspended(Frail(zombie, "commit", 1, after=False, error=Killed()))
    with pytest.raises(Killed):
        put_batch(hanging, MARKERS, FIRST, rows(0, 1), unit_rows=9)

    with pytest.raises(SinkError, match="Another task holds it"):
        put_batch(queue_manager.connect(), MARKERS, FIRST, rows(0, 1), unit_rows=9)
    zombie.backout()
    put_batch(queue_manager.connect(), MARKERS, FIRST, rows(0, 1), unit_rows=9)

    assert [0, 1] == on_queue(queue_manager)


@pytest.mark.parametrize("units", [1, 2])
def test_a_task_that_another_attempt_overtakes_between_two_units_of_work_puts_nothing_twice(
    queue_manager: EmbeddedQueueManager, units: int
) -> None:
    """Spark can start another attempt of a task whose executor it has lost, while the first attempt still runs."""

    class Overtaken(Frail):
        """After the first commit of this attempt, another attempt of the same task puts one more unit of work, or all."""

        def commit(self) -> None:
            self._connection.commit()
            self.commit = self._connection.commit  # type: ignore[method-assign]  # only once
            kill(queue_manager, "commit", units, after=True)

    overtaken: Any = Overtaken(queue_manager.connect(), "", 0, after=False, error=Killed())

    with pytest.raises(SinkError, match="another attempt of this task has put rows"):
        put_batch(overtaken, MARKERS, FIRST, rows(*range(5)), unit_rows=2)
    put_batch(queue_manager.connect(), MARKERS, FIRST, rows(*range(5)), unit_rows=2)

    assert [0, 1, 2, 3, 4] == on_queue(queue_manager)


class Suspended:
    """A connection of a process that still exists, but does nothing more, not even back out."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return (lambda: None) if name == "backout" else getattr(self._connection, name)


def test_more_partitions_than_the_sink_has_are_refused(
    queue_manager: EmbeddedQueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exactly_once, "_MARKER_WAIT_MS", 0)

    with pytest.raises(SinkError, match="more partitions than the sink's 2"):
        put_batch(queue_manager.connect(), MARKERS, Batch(sink="S", partition=2, partitions=2), rows(0), unit_rows=9)


def test_a_unit_of_work_leaves_room_for_the_marker(queue_manager: EmbeddedQueueManager) -> None:
    assert 9_998 == rows_per_unit(queue_manager.connect(), 10**9)
    assert 7 == rows_per_unit(queue_manager.connect(), 7)
    assert 9_998 == put_batch(queue_manager.connect(), MARKERS, FIRST, rows(*range(9_998)), unit_rows=9_998)


def test_a_sink_that_may_not_inquire_maxumsgs_takes_the_wanted_rows(queue_manager: EmbeddedQueueManager) -> None:
    def rows_after(reason: Reason) -> int:
        refused = error_for(reason, "MQOPEN")
        return rows_per_unit(cast("Connection", Frail(queue_manager.connect(), "open", 1, after=False, error=refused)), 70)

    assert 70 == rows_after(Reason.NOT_AUTHORIZED)
    with pytest.raises(MQIError, match="MQRC_CONNECTION_BROKEN"):
        rows_after(Reason.CONNECTION_BROKEN)


def test_a_message_on_the_queue_of_markers_that_is_no_marker_is_named(queue_manager: EmbeddedQueueManager) -> None:
    for marker in taken(queue_manager, MARKERS):
        put(queue_manager, MARKERS, b"{", descriptor=marker.descriptor)

    with pytest.raises(SinkError, match="A message on the queue of markers, MARKERS, is not a marker"):
        prepare(queue_manager.connect(), MARKERS, "S", 2)


@given(
    sizes=st.lists(st.integers(0, 7), min_size=1, max_size=4),
    unit_rows=st.integers(1, 4),
    kills=st.lists(st.tuples(st.sampled_from(["put", "commit", "get"]), st.integers(1, 6), st.booleans()), max_size=6),
)
def test_whatever_dies_whenever_rows_are_on_the_queue_once(
    sizes: list[int], unit_rows: int, kills: list[tuple[str, int, bool]]
) -> None:
    with made() as queue_manager:
        first = 0
        for number, size in enumerate(sizes):
            batch = Batch(sink="S", query="q", number=number, partition=0, partitions=2)
            unit = rows(*range(first, first + size))
            while kills:
                verb, at, after = kills.pop()
                if not kill(queue_manager, verb, at, batch, unit, after=after, unit_rows=unit_rows):
                    break
            put_batch(queue_manager.connect(), MARKERS, batch, unit, unit_rows=unit_rows)
            first += size

        assert list(range(first)) == on_queue(queue_manager)
