"""A connection gets several units of work at once. Each is committed by itself, and units given back count no backout."""

from collections.abc import Iterator, Mapping, Sequence

import pytest
from msgspec.structs import replace

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.store import Snapshot, StoredMessage, StoredSerials
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.attributes.queue_manager import QueueManagerAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import GetOption, OpenOption, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import GetOptions
from tests.embedded.calls.test_settle import OTHER, OUTSIDE, PERSISTENT, Rig
from tests.embedded.storage.scripted_store import FULL, UNKNOWN, ScriptedStore

IN_UNIT = GetOptions(options=GetOption.SYNCPOINT)


@pytest.fixture
def rig() -> Iterator[Rig]:
    """Four persistent messages are on the queue."""
    made = Rig()
    for body in (b"1", b"2", b"3", b"4"):
        made.put_committed(body)
    yield made
    made.store.holds = False
    while made.store.unanswered:
        made.store.answer()
    made.queue_manager.close()


def ahead(rig: Rig, units: int, most: int = 1, bytes_max: int = 1_000) -> list[list[bytes]]:
    found = rig.connection.take_ahead(rig.handle, IN_UNIT, most=most, units=units, bytes_max=bytes_max)
    return [[got.body for got in unit] for unit in found]


def commit_first(rig: Rig) -> bool:
    return rig.connection.begin_commit(rig.answers.append, behind=True)


def left(rig: Rig) -> list[tuple[bytes, int]]:
    """Get every message of the queue, with its BackoutCount."""
    found = []
    while (got := rig.other.get(rig.others_handle, OUTSIDE)) is not None:
        found.append((got.body, got.descriptor.backout_count))
    return found


def test_each_unit_is_one_call_of_the_store_in_order(rig: Rig) -> None:
    assert [[b"1"], [b"2"], [b"3"]] == ahead(rig, 3)

    rig.store.holds = True
    for _ in range(3):
        assert not commit_first(rig)

    assert [["MessageRemoved"]] * 3 == rig.store.calls[-3:]
    for depth in (3, 2, 1):
        rig.store.answer()
        assert depth == rig.depth()
    assert [0, 0, 0] == rig.reasons()


def test_a_unit_has_several_messages_and_the_last_one_the_rest(rig: Rig) -> None:
    assert [[b"1", b"2", b"3"], [b"4"]] == ahead(rig, 5, most=3)


def test_all_units_together_keep_the_limit_of_bytes(rig: Rig) -> None:
    assert [[b"1"], [b"2"]] == ahead(rig, 4, bytes_max=2)


def test_later_units_come_behind_the_open_unit(rig: Rig) -> None:
    first = rig.get()
    assert first is not None
    assert [[b"2"]] == ahead(rig, 1)

    rig.connection.backout()
    rig.connection.give_back()

    assert [(b"1", 1), (b"2", 0), (b"3", 0), (b"4", 0)] == left(rig)


def test_units_given_back_count_no_backout_and_return_to_their_places(rig: Rig) -> None:
    ahead(rig, 3)

    rig.connection.give_back()
    commit_first(rig)

    assert [(b"2", 0), (b"3", 0), (b"4", 0)] == left(rig)


def test_units_given_back_after_a_reset_of_the_counts_make_no_count_negative(rig: Rig) -> None:
    ahead(rig, 3)
    administration = rig.queue_manager.administration
    administration.reset_queue_statistics("Q")

    rig.connection.give_back()

    assert 0 == administration.reset_queue_statistics("Q").dequeued


def test_only_the_last_units_are_given_back(rig: Rig) -> None:
    ahead(rig, 4)

    rig.connection.give_back(2)
    commit_first(rig)
    commit_first(rig)

    assert [(b"3", 0), (b"4", 0)] == left(rig)


def test_the_open_unit_is_given_back_if_it_is_one_of_the_last(rig: Rig) -> None:
    """The application has dropped two units, and has committed the one before them meanwhile."""
    ahead(rig, 3)
    commit_first(rig)

    rig.connection.give_back(2)

    assert [(b"2", 0), (b"3", 0), (b"4", 0)] == left(rig)


def test_a_refused_commit_backs_out_its_own_unit_alone(rig: Rig) -> None:
    ahead(rig, 2)
    rig.store.holds = True
    commit_first(rig)
    commit_first(rig)

    rig.store.answer(FULL)
    rig.store.answer()
    rig.store.holds = False

    assert [Reason.BACKED_OUT, 0] == rig.reasons()
    assert [(b"1", 1), (b"3", 0), (b"4", 0)] == left(rig)


def test_the_end_of_the_connection_counts_a_backout_of_every_unit(rig: Rig) -> None:
    """The application can have handled each of them: a message that ends its process must not be delivered for ever."""
    ahead(rig, 2)

    rig.connection.abandon()

    assert [(b"1", 1), (b"2", 1), (b"3", 0), (b"4", 0)] == left(rig)


def test_each_unit_has_the_in_flight_marks_of_its_own_messages(rig: Rig) -> None:
    """After the end of the process, the messages with marks count as backed out, and no others."""
    rig.put_committed(b"5", OTHER)  # not persistent, so it has no mark
    for body in (b"6", b"7", b"8"):
        rig.put_committed(body)
    assert [[b"1", b"2"], [b"3", b"4"], [b"5", b"6"], [b"7", b"8"]] == ahead(rig, 4, most=2)
    released = []

    for _ in range(4):
        commit_first(rig)
        released.append(max(rig.store.released))

    assert [2, 4, 5, 7] == released
    assert [1, 2, 3, 4, 5, 6, 7] == rig.store.released


def test_a_unit_that_needs_no_disk_is_followed_by_the_next() -> None:
    with EmbeddedQueueManager("QM1") as queue_manager:
        queue_manager.administration.define(QueueAttributes(name="Q"))
        connection = queue_manager.connect()
        handle = connection.open("Q", OpenOption.INPUT_SHARED | OpenOption.OUTPUT)
        for body in (b"1", b"2"):
            connection.put(handle, OTHER, body, PutOption.NO_SYNCPOINT)
        connection.take_ahead(handle, IN_UNIT, most=1, units=2, bytes_max=1_000)

        assert connection.begin_commit(lambda _: None, behind=True)
        connection.backout()

        second = connection.get(handle, IN_UNIT)
        assert second is not None
        assert (b"2", 1) == (second.body, second.descriptor.backout_count)


def test_a_put_belongs_to_the_open_unit_and_passes_on_the_context_of_its_last_message(rig: Rig) -> None:
    rig.queue_manager.administration.define(QueueAttributes(name="IN"))
    rig.queue_manager.administration.define(QueueAttributes(name="OUT"))
    for name in ("first", "second", "third"):
        producer = rig.queue_manager.connect(application_name=name)
        producer.put1("IN", PERSISTENT, name.encode(), PutOption.NO_SYNCPOINT)
    source = rig.connection.open("IN", OpenOption.INPUT_SHARED | OpenOption.SAVE_ALL_CONTEXT)
    target = rig.connection.open("OUT", OpenOption.OUTPUT | OpenOption.PASS_ALL_CONTEXT)
    rig.connection.take_ahead(source, IN_UNIT, most=2, units=2, bytes_max=1_000)

    options = PutOption.SYNCPOINT | PutOption.PASS_ALL_CONTEXT
    names = []
    for _ in range(2):
        put = rig.connection.put(target, PERSISTENT, b"", options, context=source)
        names.append(put.descriptor.put_application_name.strip())
        commit_first(rig)

    assert ["second", "third"] == names


def test_a_message_that_was_backed_out_is_no_unit_ahead(rig: Rig) -> None:
    rig.get()
    rig.connection.backout()

    assert [] == ahead(rig, 2)


def test_a_refused_get_leaves_no_unit(rig: Rig) -> None:
    rig.queue_manager.administration.define(QueueAttributes(name="Q", get_inhibited=True), replace=True)

    assert [] == ahead(rig, 2)
    assert 4 == rig.depth()


def test_a_connection_has_a_bounded_number_of_units_ahead(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqflow.embedded.calls.units_ahead._UNITS_MAX", 2)

    assert [[b"1"], [b"2"], [b"3"]] == ahead(rig, 10_000)  # the first is the open unit
    assert [] == ahead(rig, 10_000)


class UnreadableStore(ScriptedStore):
    """A store that has stopped: no message can be read."""

    def read_messages(self, serials: Sequence[int], body_bytes_max: int) -> Mapping[int, StoredMessage | None]:
        del serials, body_bytes_max
        raise UNKNOWN


@pytest.fixture
def unreadable() -> Iterator[EmbeddedQueueManager]:
    """The message on the queue is only in the store."""
    known, queue = QueueManagerAttributes(name="QM1"), QueueAttributes(name="Q")
    snapshot = Snapshot(queue_manager=known, queues=(queue,), serials=(StoredSerials("Q", 0, (1,)),), next_serial=2)
    with EmbeddedQueueManager("QM1", store=UnreadableStore(snapshot=snapshot)) as queue_manager:
        yield queue_manager


def test_a_message_that_cannot_be_read_does_not_change_the_answer_of_the_commit_before_it(
    unreadable: EmbeddedQueueManager,
) -> None:
    connection = unreadable.connect()
    handle = connection.open("Q", OpenOption.INPUT_SHARED | OpenOption.OUTPUT)
    connection.put(handle, MessageDescriptor(priority=9), b"2", PutOption.SYNCPOINT)

    assert [] == connection.exchange_at_once(handle, IN_UNIT, commit=True, most=2, bytes_max=100)
    assert [] == connection.take_ahead(handle, IN_UNIT, most=1, units=2, bytes_max=100)
    assert [2] == [found.depth for found in unreadable.administration.queues() if found.name == "Q"]


def test_a_get_of_several_messages_that_cannot_read_one_marks_none_as_in_flight(unreadable: EmbeddedQueueManager) -> None:
    """Otherwise, the next start would count a backout of a message that no program got."""
    connection = unreadable.connect()
    handle = connection.open("Q", OpenOption.INPUT_SHARED | OpenOption.OUTPUT)
    connection.put(handle, replace(PERSISTENT, priority=9), b"2", PutOption.NO_SYNCPOINT)

    with pytest.raises(MQIError, match="2549"):
        connection.get_many(handle, IN_UNIT, 2)
    connection.backout()

    store = unreadable._state.store
    assert isinstance(store, UnreadableStore)
    assert ([], []) == (store.marked, store.released)
