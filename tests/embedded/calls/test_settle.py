"""First durable, then visible: the wait of a commit, and its result if the store refuses it or its outcome is unknown."""

from collections.abc import Iterator
from functools import partial

import pytest

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.state.objects import LocalQueue
from mqflow.embedded.state.pages import MESSAGE_BYTES
from mqflow.embedded.storage.store import (
    BackoutCounted,
    ObjectDefined,
    ObjectDeleted,
    QueueDefined,
    QueueDeleted,
    QueueManagerDefined,
    Snapshot,
)
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.authorities import Authority, AuthorityKind
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import CloseOption, GetOption, MessageFlag, ObjectType, OpenOption, PutOption, Report, SubscribeOption
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.subscription import SubscriptionDescriptor
from mqflow.verbs import GetOptions, Got, ObjectDescriptor
from mqflow.world import World
from tests.conformance.under_test import ManualClock, refused
from tests.embedded.storage.scripted_store import FULL, UNKNOWN, ScriptedStore

EVERYTHING = OpenOption.INPUT_SHARED | OpenOption.OUTPUT | OpenOption.BROWSE
PERSISTENT = MessageDescriptor(persistence=1)
OTHER = MessageDescriptor(persistence=0)
IN_UNIT = GetOptions(options=GetOption.SYNCPOINT)
OUTSIDE = GetOptions(options=GetOption.NO_SYNCPOINT)
REPORTED = MessageDescriptor(persistence=1, expiry_tenths=10, report=Report.EXPIRATION, reply_to_queue="REPLIES")
ORDERS = ObjectDescriptor(object_type=ObjectType.TOPIC, object_string="orders")
MANAGED = SubscribeOption.CREATE | SubscribeOption.DURABLE | SubscribeOption.MANAGED


class Rig:
    """A queue manager on a scripted store, with one queue and two programs."""

    def __init__(self) -> None:
        self.store = ScriptedStore()
        self.clock = ManualClock()
        self.queue_manager = EmbeddedQueueManager("QM1", store=self.store, world=World(self.clock))
        self.queue_manager.administration.define(QueueAttributes(name="Q"))
        self.connection = self.queue_manager.connect()
        self.handle = self.connection.open("Q", EVERYTHING)
        self.other = self.queue_manager.connect()
        self.others_handle = self.other.open("Q", EVERYTHING)
        self.answers: list[MQIError | None] = []
        self.store.written.clear()

    def put(self, body: bytes = b"1", descriptor: MessageDescriptor = PERSISTENT) -> None:
        self.connection.put(self.handle, descriptor, body, PutOption.SYNCPOINT)

    def put_committed(self, body: bytes = b"1", descriptor: MessageDescriptor = PERSISTENT) -> None:
        self.other.put(self.others_handle, descriptor, body, PutOption.NO_SYNCPOINT)
        self.store.written.clear()

    def put_expired(self) -> None:
        """Put a message that has expired, and whose report goes to REPLIES."""
        self.queue_manager.administration.define(QueueAttributes(name="REPLIES"))
        self.put_committed(descriptor=REPORTED)
        self.clock.advance(1)

    def get(self, options: GetOptions = IN_UNIT) -> Got | None:
        return self.connection.get(self.handle, options)

    def seen_by_other(self) -> Got | None:
        return self.other.get(self.others_handle, GetOptions(options=GetOption.BROWSE_FIRST))

    def begin_commit(self) -> bool:
        """Begin a commit, which waits for `store.answer` if it needs the store."""
        self.store.holds = True
        return self.connection.begin_commit(self.answers.append)

    def reasons(self) -> list[int]:
        return [0 if answer is None else answer.reason for answer in self.answers]

    def depth(self) -> int:
        found = self.queue_manager.administration.queue("Q")
        assert found is not None
        return found.depth


@pytest.fixture
def rig() -> Iterator[Rig]:
    made = Rig()
    yield made
    made.queue_manager.close()


def test_a_commit_of_nothing_persistent_is_over_at_once_and_writes_nothing(rig: Rig) -> None:
    rig.put(descriptor=OTHER)

    assert rig.begin_commit()
    assert [] == rig.answers
    assert [] == rig.store.kinds()
    assert rig.seen_by_other() is not None


def test_a_persistent_put_shows_when_it_is_durable_and_not_before(rig: Rig) -> None:
    rig.put()

    assert not rig.begin_commit()
    assert rig.seen_by_other() is None
    rig.store.answer()
    assert [0] == rig.reasons()
    assert rig.seen_by_other() is not None
    assert set() == rig.queue_manager._state.in_commit


def test_nothing_of_a_unit_of_work_shows_before_all_of_it_is_durable(rig: Rig) -> None:
    rig.put(b"persistent")
    rig.put(b"other", OTHER)
    rig.begin_commit()

    assert rig.seen_by_other() is None


def test_a_message_got_is_gone_when_that_is_durable_and_not_before(rig: Rig) -> None:
    rig.put_committed()
    rig.get()
    rig.begin_commit()
    before = rig.depth()
    rig.store.answer()

    assert (1, 0) == (before, rig.depth())
    assert 0 == rig.queue_manager._state.pages.bytes


def test_one_unit_of_work_is_one_write(rig: Rig) -> None:
    rig.put_committed()
    rig.get()
    rig.put(b"2")
    rig.connection.commit()

    assert ["MessageAdded", "MessageRemoved"] == rig.store.kinds()


def test_a_persistent_message_put_and_got_in_one_unit_of_work_is_never_written(rig: Rig) -> None:
    rig.put()
    rig.get()

    assert rig.begin_commit()
    assert [] == rig.store.kinds()


def test_no_other_verb_is_taken_while_a_commit_is_under_way(rig: Rig) -> None:
    rig.put()
    rig.begin_commit()

    for verb in (rig.put, rig.get, rig.connection.commit, rig.connection.backout, rig.connection.disconnect):
        with refused(Reason.CALL_IN_PROGRESS):
            verb()
    rig.store.answer()
    rig.connection.backout()


def test_other_connections_work_on_while_a_commit_is_under_way(rig: Rig) -> None:
    rig.put()
    rig.begin_commit()
    rig.other.put(rig.others_handle, OTHER, b"2", PutOption.NO_SYNCPOINT)

    got = rig.other.get(rig.others_handle, OUTSIDE)
    assert got is not None
    assert b"2" == got.body


def test_a_refused_commit_is_2003_and_everything_is_as_before(rig: Rig) -> None:
    rig.put_committed(b"was there")
    rig.get()
    rig.put(b"new")
    rig.begin_commit()
    rig.store.answer(FULL)

    seen = rig.seen_by_other()
    assert [Reason.BACKED_OUT] == rig.reasons()
    assert seen is not None
    assert (b"was there", 1) == (seen.body, seen.descriptor.backout_count)
    assert 1 == rig.depth()


def test_a_commit_that_is_refused_at_once_raises(rig: Rig) -> None:
    rig.put()
    rig.store.refuses = FULL

    with refused(Reason.BACKED_OUT) as raised:
        rig.connection.begin_commit(rig.answers.append)
    assert "The disk is full" in str(raised.value)
    assert [] == rig.answers
    assert 0 == rig.depth()


def test_the_connection_works_on_after_a_refused_commit(rig: Rig) -> None:
    rig.put()
    rig.store.refuses = FULL
    with refused(Reason.BACKED_OUT):
        rig.connection.commit()
    rig.store.refuses = None
    rig.put(b"2")
    rig.connection.commit()

    assert 1 == rig.depth()


def test_a_commit_with_an_unknown_outcome_says_so_and_stops_the_queue_manager(rig: Rig) -> None:
    rig.put()
    rig.begin_commit()
    rig.store.answer(UNKNOWN)

    assert [Reason.CALL_INTERRUPTED] == rig.reasons()
    with refused(Reason.Q_MGR_STOPPING):
        rig.other.get(rig.others_handle, OUTSIDE)
    with refused(Reason.Q_MGR_NOT_AVAILABLE):
        rig.queue_manager.connect()


def test_an_answer_without_a_reason_code_is_unknown_too(rig: Rig) -> None:
    rig.put()
    rig.store.refuses = OSError(5, "Input/output error")

    with refused(Reason.CALL_INTERRUPTED) as raised:
        rig.connection.commit()
    assert "Input/output error" in str(raised.value)


def test_a_persistent_put_outside_the_unit_of_work_is_durable_when_it_returns(rig: Rig) -> None:
    rig.connection.put(rig.handle, PERSISTENT, b"1", PutOption.NO_SYNCPOINT)

    assert ["MessageAdded"] == rig.store.kinds()


def test_a_put_outside_the_unit_of_work_that_is_refused_is_2192_and_nowhere(rig: Rig) -> None:
    rig.store.refuses = FULL

    with refused(Reason.STORAGE_MEDIUM_FULL):
        rig.connection.put(rig.handle, PERSISTENT, b"1", PutOption.NO_SYNCPOINT)
    assert 0 == rig.depth()


def test_a_put_outside_leaves_the_open_unit_of_work_open(rig: Rig) -> None:
    rig.put(b"inside")
    rig.connection.put(rig.handle, PERSISTENT, b"outside", PutOption.NO_SYNCPOINT)
    rig.connection.backout()

    got = rig.get(OUTSIDE)
    assert got is not None
    assert (b"outside", 0) == (got.body, rig.depth())


def test_a_get_outside_the_unit_of_work_that_is_refused_leaves_the_message_uncounted(rig: Rig) -> None:
    rig.put_committed()
    rig.store.refuses = FULL
    with refused(Reason.STORAGE_MEDIUM_FULL):
        rig.get(OUTSIDE)

    seen = rig.seen_by_other()
    assert seen is not None
    assert 0 == seen.descriptor.backout_count


def test_messages_got_outside_are_returned_though_the_fate_of_the_next_is_unknown(rig: Rig) -> None:
    rig.put_committed(b"1")
    rig.put_committed(b"2")
    rig.store.answers = [None, UNKNOWN]

    unit = rig.connection.get_many(rig.handle, OUTSIDE, 3)

    assert [b"1"] == [got.body for got in unit]
    with refused(Reason.CALL_INTERRUPTED):
        rig.get(OUTSIDE)
    with refused(Reason.Q_MGR_STOPPING):  # raised once
        rig.get(OUTSIDE)


def test_messages_got_outside_are_returned_though_the_store_refuses_to_let_the_next_go(rig: Rig) -> None:
    rig.put_committed(b"1")
    rig.put_committed(b"2")
    rig.store.answers = [None, FULL]

    assert [b"1"] == [got.body for got in rig.connection.get_many(rig.handle, OUTSIDE, 3)]
    assert [b"2"] == [got.body for got in rig.connection.get_many(rig.handle, OUTSIDE, 3)]


def test_non_persistent_work_goes_on_when_the_disk_is_full(rig: Rig) -> None:
    rig.store.refuses = FULL
    rig.put(descriptor=OTHER)
    rig.connection.commit()

    assert rig.get() is not None


def test_a_backout_writes_the_counts_and_releases_the_mark(rig: Rig) -> None:
    rig.put_committed()
    rig.get()
    rig.connection.backout()

    assert (["BackoutCounted"], [1]) == (rig.store.kinds(), rig.store.released)
    assert 0 == rig.queue_manager._state.pages.bytes, "its count is newer than that on disk, so the message stays in memory"


def test_a_backout_of_nothing_persistent_writes_nothing(rig: Rig) -> None:
    rig.put_committed(descriptor=OTHER)
    rig.get()
    rig.connection.backout()

    assert [] == rig.store.kinds()


def test_a_get_in_the_unit_of_work_is_marked_in_flight_until_its_commit_is_durable(rig: Rig) -> None:
    rig.put_committed()
    rig.get()
    rig.begin_commit()
    before = list(rig.store.released)
    rig.store.answer()

    assert [(1, 0, False)] == rig.store.marked
    assert ([], [1]) == (before, rig.store.released)


def test_many_gets_in_one_call_are_marked_like_single_gets_and_have_the_same_tokens(rig: Rig) -> None:
    rig.put_committed()
    rig.put_committed()
    tokens = [got.message_token for got in rig.connection.get_many(rig.handle, IN_UNIT, 2)]

    assert [(1, 0, False), (2, 0, False)] == rig.store.marked
    assert [bytes(15) + b"\1", bytes(15) + b"\2"] == tokens


def test_a_get_that_nothing_can_back_out_is_not_marked(rig: Rig) -> None:
    rig.put_committed()
    rig.put_committed(descriptor=OTHER)
    rig.get(OUTSIDE)
    rig.get()

    assert [] == rig.store.marked


def test_a_get_that_cannot_be_marked_takes_nothing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the next commit would lose a message that no application got."""
    rig.put_committed()

    def no_room(*_: object, **__: object) -> int:
        raise FULL

    monkeypatch.setattr(rig.store, "mark_in_flight", no_room)
    with refused(Reason.STORAGE_MEDIUM_FULL):
        rig.get()
    rig.connection.commit()

    assert rig.seen_by_other() is not None


def test_a_get_of_a_whole_message_that_cannot_mark_each_segment_takes_none(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    for flags, offset in ((MessageFlag.SEGMENT, 0), (MessageFlag.LAST_SEGMENT, 1)):
        segment = MessageDescriptor(persistence=1, group_id=b"g" * 24, message_flags=int(flags), offset=offset)
        rig.put_committed(descriptor=segment)
    marks = iter([1])

    def room_for_one(*_: object, **__: object) -> int:
        for mark in marks:
            return mark
        raise FULL

    monkeypatch.setattr(rig.store, "mark_in_flight", room_for_one)
    with refused(Reason.STORAGE_MEDIUM_FULL):
        rig.get(GetOptions(options=GetOption.SYNCPOINT | GetOption.COMPLETE_MSG))
    rig.connection.commit()

    assert (2, [1]) == (rig.depth(), rig.store.released)


def test_an_expired_message_and_its_report_are_one_change(rig: Rig) -> None:
    """Otherwise a crash between the two changes would lose the report, or send the report again."""
    rig.put_expired()
    rig.store.calls.clear()
    rig.get()

    assert [["MessageAdded", "MessageRemoved"]] == rig.store.calls


def test_a_permanent_dynamic_queue_that_is_deleted_is_deleted_in_the_store(rig: Rig) -> None:
    handle = rig.connection.open("SYSTEM.DURABLE.MODEL.QUEUE", EVERYTHING)
    rig.connection.close(handle, CloseOption.DELETE)

    assert ["QueueDefined", "QueueDeleted"] == rig.store.kinds()


def test_a_message_backed_out_onto_a_deleted_queue_is_gone_and_counts_nowhere(rig: Rig) -> None:
    subscribed = rig.connection.subscribe(SubscriptionDescriptor(name="S", object_string="orders", options=MANAGED))
    rig.other.put1(ORDERS, PERSISTENT, b"1", PutOption.NO_SYNCPOINT)
    assert rig.connection.get(subscribed.queue, IN_UNIT) is not None
    rig.connection.close(subscribed.handle, CloseOption.REMOVE_SUB)
    rig.connection.close(subscribed.queue)
    rig.connection.backout()

    assert 0 == rig.queue_manager._state.pages.bytes
    assert not any(isinstance(change, BackoutCounted) for change in rig.store.written)
    assert [1] == rig.store.released


def test_the_deletion_of_a_queue_names_its_messages_unless_a_unit_of_work_may_change_them(rig: Rig) -> None:
    found: list[tuple[int, ...] | None] = []
    for name, in_unit in (("S", PutOption.NO_SYNCPOINT), ("T", PutOption.SYNCPOINT)):
        subscribed = rig.connection.subscribe(SubscriptionDescriptor(name=name, object_string="orders", options=MANAGED))
        rig.other.put1(ORDERS, PERSISTENT, b"1", in_unit)
        rig.connection.close(subscribed.handle, CloseOption.REMOVE_SUB)
        rig.store.written.clear()
        rig.connection.close(subscribed.queue)
        found += [change.serials for change in rig.store.written if isinstance(change, QueueDeleted)]

    assert [1, None] == [serials if serials is None else len(serials) for serials in found]


@pytest.mark.parametrize("change", ["delete", "clear"])
def test_bodies_count_until_they_are_removed_and_again_if_the_store_refuses_their_removal(rig: Rig, change: str) -> None:
    administration = rig.queue_manager.administration
    remove = partial(administration.clear, "OLD") if change == "clear" else partial(administration.delete, "OLD", purge=True)
    administration.define(QueueAttributes(name="OLD"))
    rig.other.put1("OLD", PERSISTENT, b"body", PutOption.NO_SYNCPOINT)
    rig.store.refuses = FULL
    with refused(Reason.STORAGE_MEDIUM_FULL):
        remove()

    machine = rig.queue_manager._state
    queue = machine.queues["OLD"]
    assert isinstance(queue, LocalQueue)
    [message] = queue.messages.values()
    assert machine.pages.bytes == len(message.body) + MESSAGE_BYTES
    rig.store.refuses = None
    remove()
    assert 0 == machine.pages.bytes


def test_an_expiration_report_that_the_store_refuses_is_dropped(rig: Rig) -> None:
    rig.put_expired()
    rig.store.refuses = FULL
    rig.store.calls.clear()

    assert rig.get() is None
    assert 0 == rig.depth()
    assert [["MessageAdded", "MessageRemoved"], ["MessageRemoved"]] == rig.store.calls


@pytest.mark.parametrize("failure", [None, FULL])
def test_an_expiration_report_shows_once_it_is_durable_or_not_at_all(rig: Rig, failure: MQIError | None) -> None:
    rig.put_expired()
    rig.store.holds = True
    reports = rig.other.open("REPLIES", EVERYTHING)

    rig.get()
    before = rig.other.get(reports, OUTSIDE)
    rig.store.answer(failure)
    after = rig.other.get(reports, GetOptions(options=GetOption.BROWSE_FIRST))

    assert before is None
    assert (after is None) == (failure is FULL)
    assert 0 == rig.depth()
    assert rig.seen_by_other() is None


def test_a_hardened_queue_hardens_mark_and_count(rig: Rig) -> None:
    """The mark replaces the count until the count is on the disk. Only then the store removes the mark, also on a full disk."""
    rig.queue_manager.administration.alter("Q", {"harden_get_backout": True})
    rig.put_committed()
    rig.get()
    rig.store.written.clear()
    rig.connection.backout()

    assert [(1, 0, True)] == rig.store.marked
    assert ([BackoutCounted(1, 1)], [1]) == (rig.store.written, rig.store.released)


def test_a_commit_that_cannot_be_made_visible_is_answered_nevertheless(rig: Rig) -> None:
    """A woken function has a defect. The memory can be wrong from then on, but no caller waits for ever."""
    waiting = rig.other.on_arrival(rig.others_handle, OUTSIDE, _defect)
    rig.put()
    assert not rig.begin_commit()
    rig.store.answer()

    assert waiting is not None
    assert [Reason.CALL_INTERRUPTED] == rig.reasons()
    assert rig.queue_manager.stopped
    assert "a defect" in rig.queue_manager.failure


def test_a_failed_store_notifies_those_that_wait_for_the_stop(rig: Rig) -> None:
    stops: list[bool] = []
    rig.queue_manager.when_stopped(lambda: stops.append(rig.queue_manager.stopped))
    rig.put()
    assert not rig.begin_commit()
    assert [] == stops
    rig.store.answer(OSError("the disk is gone"))

    assert [True] == stops


def test_a_stopped_queue_manager_notifies_at_once_and_a_stop_notifies_once(rig: Rig) -> None:
    stops: list[str] = []
    rig.queue_manager.when_stopped(lambda: stops.append("before"))
    rig.queue_manager.stop()
    rig.queue_manager.stop()
    rig.queue_manager.when_stopped(lambda: stops.append("after"))

    assert ["before", "after"] == stops


def _defect() -> None:
    raise ValueError("a defect")


def test_a_commit_holds_even_if_its_caller_is_gone(rig: Rig) -> None:
    """The thread of the store also continues."""
    rig.put()
    rig.store.holds = True

    def loop_is_closed(_: MQIError | None) -> None:
        raise RuntimeError("Event loop is closed")

    rig.connection.begin_commit(loop_is_closed)
    rig.store.answer()

    assert rig.seen_by_other() is not None


def test_a_program_that_is_killed_while_it_commits_has_committed(rig: Rig) -> None:
    rig.put()
    rig.begin_commit()
    rig.connection.abandon()
    rig.store.answer()

    assert [0] == rig.reasons()
    assert rig.seen_by_other() is not None


def test_a_stop_lets_a_commit_that_is_under_way_finish(rig: Rig) -> None:
    rig.put()
    rig.begin_commit()
    rig.queue_manager.stop()
    rig.store.answer()

    assert [0] == rig.reasons()


def test_a_stop_that_is_not_immediate_waits_for_the_last_connection(rig: Rig) -> None:
    rig.put(descriptor=OTHER)
    rig.queue_manager.stop(immediate=False)
    with refused(Reason.Q_MGR_QUIESCING):
        rig.queue_manager.connect()
    rig.connection.commit()
    rig.connection.disconnect()
    assert rig.seen_by_other() is not None

    rig.other.disconnect()
    with refused(Reason.Q_MGR_NOT_AVAILABLE):
        rig.queue_manager.connect()


def test_a_quiescing_stop_without_connections_stops_at_once() -> None:
    with EmbeddedQueueManager("QM1") as queue_manager:
        queue_manager.stop(immediate=False)

        with refused(Reason.Q_MGR_NOT_AVAILABLE):
            queue_manager.connect()


def test_closing_the_queue_manager_closes_the_store_once(rig: Rig) -> None:
    rig.queue_manager.close()
    closed = rig.store.closed
    rig.store.closed = False
    rig.queue_manager.close()

    assert (True, False) == (closed, rig.store.closed)


def test_a_disconnect_that_cannot_commit_is_2003_and_over(rig: Rig) -> None:
    rig.put()
    rig.store.refuses = FULL

    with refused(Reason.BACKED_OUT):
        rig.connection.disconnect()
    with refused(Reason.HCONN_ERROR):
        rig.put()
    assert 0 == rig.depth()


def test_an_expired_persistent_message_is_removed_from_the_store(rig: Rig) -> None:
    rig.put_committed(descriptor=MessageDescriptor(persistence=1, expiry_tenths=10))
    rig.clock.advance(1)
    rig.get()

    assert ["MessageRemoved"] == rig.store.kinds()


def test_an_expired_retained_publication_removes_no_newer_one_that_is_being_stored(rig: Rig) -> None:
    topic = ObjectDescriptor(object_type=ObjectType.TOPIC, object_string="Prices")
    retain = PutOption.SYNCPOINT | PutOption.RETAIN
    rig.connection.put1(topic, MessageDescriptor(persistence=1, expiry_tenths=10), b"expired", retain)
    rig.connection.commit()
    rig.clock.advance(1)
    rig.store.holds = True
    rig.connection.put1(topic, PERSISTENT, b"newer", retain)
    rig.begin_commit()

    rig.other.subscribe(
        SubscriptionDescriptor(object_string="Prices", options=SubscribeOption.CREATE | SubscribeOption.MANAGED)
    )
    rig.store.answer()

    kept = [change for change in rig.store.written if isinstance(change, ObjectDefined | ObjectDeleted)]
    assert isinstance(kept[-1], ObjectDefined)


@pytest.mark.parametrize("change", ["define", "alter", "delete", "clear", "alter queue manager", "set"])
def test_a_definition_that_the_store_refuses_is_taken_back(rig: Rig, change: str) -> None:
    administration = rig.queue_manager.administration
    administration.define(QueueAttributes(name="OLD"))
    connection = rig.queue_manager.connect()
    connection.put1("OLD", OTHER, b"1", PutOption.NO_SYNCPOINT)
    before = administration.queues(), administration.queue_manager
    rig.store.refuses = FULL

    with refused(Reason.STORAGE_MEDIUM_FULL):
        match change:
            case "define":
                administration.define(QueueAttributes(name="NEW"))
            case "alter":
                administration.alter("OLD", {"max_depth": 7})
            case "delete":
                administration.delete("OLD", purge=True)
            case "clear":
                administration.clear("OLD")
            case "alter queue manager":
                administration.alter_queue_manager({"description": "new"})
            case _:
                handle = connection.open("OLD", OpenOption.SET)
                try:
                    connection.set(handle, {9: 1})
                finally:
                    connection.close(handle)

    assert before == (administration.queues(), administration.queue_manager)


def test_a_definition_with_an_unknown_outcome_stops_the_queue_manager(rig: Rig) -> None:
    rig.store.refuses = UNKNOWN

    with refused(Reason.CALL_INTERRUPTED):
        rig.queue_manager.administration.alter("Q", {"max_depth": 7})
    with refused(Reason.Q_MGR_STOPPING):
        rig.get()


def test_a_temporary_dynamic_queue_is_never_written(rig: Rig) -> None:
    handle = rig.connection.open("SYSTEM.DEFAULT.MODEL.QUEUE", EVERYTHING)
    rig.connection.close(handle)

    assert [] == rig.store.kinds()


def test_the_authority_records_of_a_temporary_dynamic_queue_end_with_it_in_the_store_too(rig: Rig) -> None:
    handle = rig.connection.open(ObjectDescriptor("SYSTEM.DEFAULT.MODEL.QUEUE", dynamic_name="T"), EVERYTHING)
    authorities = rig.queue_manager.administration.authorities
    authorities.set(AuthorityKind.QUEUE, "T", "bob", group=False, add=[Authority.PUT], remove=[])
    rig.store.written.clear()

    rig.connection.close(handle)

    assert ["ObjectDeleted"] == rig.store.kinds()


def test_the_authority_records_of_a_managed_queue_end_with_it_in_the_store_too(rig: Rig) -> None:
    subscribed = rig.connection.subscribe(SubscriptionDescriptor(name="S", object_string="orders", options=MANAGED))
    authorities = rig.queue_manager.administration.authorities
    authorities.set(AuthorityKind.QUEUE, subscribed.queue.name, "bob", group=False, add=[Authority.PUT], remove=[])
    rig.connection.close(subscribed.handle)
    rig.connection.close(subscribed.queue)
    rig.store.calls.clear()

    rig.queue_manager.administration.publishing.delete_subscription("S")

    assert [["ObjectDeleted"], ["QueueDeleted", "ObjectDeleted"]] == rig.store.calls


def test_a_new_store_gets_the_queue_manager_and_its_system_queues() -> None:
    store = ScriptedStore()
    with EmbeddedQueueManager("QM1", store=store, dead_letter_queue="SYSTEM.DEAD.LETTER.QUEUE") as queue_manager:
        names = {change.attributes.name for change in store.written if isinstance(change, QueueDefined)}

        assert "SYSTEM.DEAD.LETTER.QUEUE" in names
        assert "SYSTEM.DEAD.LETTER.QUEUE" == queue_manager.administration.queue_manager.dead_letter_queue


def test_a_store_of_another_queue_manager_is_refused() -> None:
    store = ScriptedStore()
    EmbeddedQueueManager("QM1", store=store).close()
    known = next(change.attributes for change in store.written if isinstance(change, QueueManagerDefined))
    store.snapshot = Snapshot(queue_manager=known, queues=(), serials=(), next_serial=1)

    with refused(Reason.Q_MGR_NAME_ERROR) as raised:
        EmbeddedQueueManager("QM2", store=store)
    assert "QM1" in str(raised.value)


@pytest.mark.parametrize("name", ["", "NO NAME", "Q" * 49])
def test_a_queue_manager_has_a_name(name: str) -> None:
    with refused(Reason.Q_MGR_NAME_ERROR):
        EmbeddedQueueManager(name)
