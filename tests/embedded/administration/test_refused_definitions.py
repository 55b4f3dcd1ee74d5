"""If the store refuses a definition or subscription, it is taken back, and messages that arrived meanwhile are not lost."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from threading import Thread

import pytest
from msgspec.structs import replace

from mqflow.embedded.calls.open import PERMANENT_DYNAMIC
from mqflow.embedded.mqsc import Verdict, run
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.rules.trigger import TRIGGER_DEPTH
from mqflow.embedded.state.objects import LocalQueue
from mqflow.embedded.storage.store import Change, MessageAdded, QueueDefined, QueueDeleted, QueueManagerDefined, Snapshot
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.attributes.topic import TopicAttributes
from mqflow.mqi.authorities import Authority, AuthorityKind
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import (
    CloseOption,
    GetOption,
    MatchOption,
    ObjectType,
    OpenOption,
    PutOption,
    QueueType,
    SubscribeOption,
)
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.subscription import SubscriptionDescriptor
from mqflow.verbs import GetOptions, ObjectDescriptor, Subscribed
from mqflow.world import World
from tests.conformance.under_test import ManualClock, refused
from tests.embedded.storage.scripted_store import FULL, ScriptedStore

_INHIBIT_PUT = 10
EVERYTHING = OpenOption.INPUT_SHARED | OpenOption.OUTPUT | OpenOption.BROWSE
NEXT = GetOptions(options=GetOption.NO_SYNCPOINT)
ORDERS = ObjectDescriptor(object_type=ObjectType.TOPIC, object_string="orders")
DURABLE = SubscriptionDescriptor(
    name="S",
    object_string="orders",
    options=SubscribeOption.CREATE | SubscribeOption.RESUME | SubscribeOption.DURABLE | SubscribeOption.MANAGED,
)


class Rig:
    """A queue manager on a scripted store, with a queue and a program."""

    def __init__(self) -> None:
        self.store = ScriptedStore()
        self.clock = ManualClock()
        self.queue_manager = EmbeddedQueueManager("QM1", store=self.store, world=World(self.clock))
        self.administration = self.queue_manager.administration
        self.administration.define(QueueAttributes(name="Q"))
        self.connection = self.queue_manager.connect()

    @contextmanager
    def full(self) -> Iterator[None]:
        """The store refuses what the block does."""
        self.store.refuses = FULL
        with refused(Reason.STORAGE_MEDIUM_FULL):
            yield
        self.store.refuses = None

    @contextmanager
    def waiting(self, call: Callable[[], object], answer: Exception | None = FULL) -> Iterator[None]:
        """Run the block while the call waits for the store. Then the store answers the call."""
        self.store.holds = True
        thread = Thread(target=call)
        thread.start()
        while not self.store.unanswered:
            assert thread.is_alive()
        yield
        self.store.answer(answer)
        thread.join()
        self.store.holds = False

    def publish(self, body: bytes) -> None:
        self.connection.put1(ORDERS, MessageDescriptor(), body, PutOption.NO_SYNCPOINT)

    def bodies(self, subscribed: Subscribed) -> list[bytes]:
        found: list[bytes] = []
        while (got := self.connection.get(subscribed.queue, NEXT)) is not None:
            found.append(got.body)
        return found


@pytest.fixture
def rig() -> Iterator[Rig]:
    made = Rig()
    yield made
    made.store.refuses = None
    made.queue_manager.close()


def test_a_message_put_during_a_clear_stays_if_the_clear_is_refused(rig: Rig) -> None:
    rig.connection.put1("Q", MessageDescriptor(), b"1", PutOption.NO_SYNCPOINT)
    with rig.waiting(_refused(lambda: rig.administration.clear("Q"))):
        rig.connection.put1("Q", MessageDescriptor(), b"2", PutOption.NO_SYNCPOINT)

    handle = rig.connection.open("Q", EVERYTHING)
    assert [b"1", b"2"] == [got.body for got in rig.connection.get_many(handle, NEXT, 9)]


def test_a_get_that_waits_for_one_message_during_a_clear_wakes_if_the_clear_is_refused(rig: Rig) -> None:
    for byte in (b"1", b"2"):
        rig.connection.put1("Q", MessageDescriptor(message_id=byte * 24), byte, PutOption.NO_SYNCPOINT)
    woken: list[bool] = []
    second = replace(NEXT, match=MatchOption.MSG_ID, message_id=b"2" * 24)
    with rig.waiting(_refused(lambda: rig.administration.clear("Q"))):
        withdraw = rig.connection.on_arrival(rig.connection.open("Q", EVERYTHING), second, lambda: woken.append(True))

    assert withdraw is not None
    assert [True] == woken


def _refused(call: Callable[[], object]) -> Callable[[], None]:
    """Return the call, which the store must refuse."""

    def calling() -> None:
        with refused(Reason.STORAGE_MEDIUM_FULL):
            call()

    return calling


def test_a_queue_that_was_opened_before_its_definition_was_refused_is_deleted(rig: Rig) -> None:
    """The store does not know the queue: a persistent message for it would stop the queue manager."""
    with rig.waiting(_refused(lambda: rig.administration.define(QueueAttributes(name="NEW")))):
        opened = rig.connection.open("NEW", OpenOption.OUTPUT)

    with refused(Reason.Q_DELETED):
        rig.connection.put(opened, MessageDescriptor(persistence=1), b"", PutOption.NO_SYNCPOINT)
    assert rig.administration.queue("NEW") is None


TRIGGERED = "DEFINE PROCESS(RUN)\nDEFINE QLOCAL(INIT)\nDEFINE QLOCAL(T) TRIGGER PROCESS(RUN) INITQ(INIT)"


@pytest.mark.parametrize("change", ["ALTER QLOCAL(T) NOTRIGGER", "DELETE QLOCAL(T)"])
def test_a_queue_triggers_again_after_a_refused_change(rig: Rig, change: str) -> None:
    """The trigger monitor starts while the change waits for the store."""
    assert 0 == run(TRIGGERED, rig.administration).exit_code()
    with rig.waiting(lambda: run(change, rig.administration)):
        rig.connection.close(rig.connection.open("INIT", OpenOption.INPUT_SHARED))

    rig.connection.put1("T", MessageDescriptor(), b"", PutOption.NO_SYNCPOINT)
    initiation = rig.connection.open("INIT", OpenOption.INPUT_SHARED)

    assert rig.connection.get(initiation, NEXT) is not None


def test_a_topic_string_is_taken_from_the_moment_of_its_definition(rig: Rig) -> None:
    """Two topic objects with one topic string would both survive a restart."""
    define = rig.administration.publishing.define_topic

    with rig.waiting(lambda: define(TopicAttributes(name="ONE", topic_string="prices")), None):
        rig.store.holds = False
        with refused(Reason.TOPIC_STRING_ERROR):
            define(TopicAttributes(name="TWO", topic_string="prices"))


def _retain(rig: Rig, body: bytes, *, persistence: int = 1) -> None:
    rig.connection.put1(ORDERS, MessageDescriptor(persistence=persistence), body, PutOption.RETAIN)


def _retained(rig: Rig) -> list[bytes]:
    rig.connection = rig.queue_manager.connect()
    found = rig.bodies(
        rig.connection.subscribe(replace(DURABLE, name="", options=SubscribeOption.CREATE | SubscribeOption.MANAGED))
    )
    rig.connection.disconnect()
    return found


def _during(rig: Rig, first: Callable[[], None], then: Callable[[], None], *answers: Exception | None) -> None:
    """Begin both calls in this order. Then let the store answer them."""
    rig.store.holds = True
    threads = [Thread(target=first), Thread(target=then)]
    for number, thread in enumerate(threads, 1):
        thread.start()
        while len(rig.store.unanswered) < number:
            assert thread.is_alive()
    for answer in answers:
        rig.store.answer(answer)
    rig.store.holds = False
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("refusal", [None, FULL])
def test_a_publication_that_commits_before_a_clear_is_cleared_in_memory_as_in_the_store(
    rig: Rig, refusal: Exception | None
) -> None:
    _retain(rig, b"1")

    def clear() -> None:
        with nullcontext() if refusal is None else refused(Reason.STORAGE_MEDIUM_FULL):
            rig.administration.publishing.clear_retained("orders")

    _during(rig, lambda: _retain(rig, b"2"), clear, None, refusal)

    assert ["ObjectDefined", "ObjectDeleted"] == [each for [each] in rig.store.calls[-2:]]
    assert ([] if refusal is None else [b"2"]) == _retained(rig)


def test_a_publication_that_commits_after_a_clear_stays_although_the_clear_is_refused(rig: Rig) -> None:
    _retain(rig, b"1")

    clear = _refused(lambda: rig.administration.publishing.clear_retained("orders"))
    _during(rig, clear, lambda: _retain(rig, b"2"), FULL, None)

    assert [b"2"] == _retained(rig)


def test_an_older_publication_does_not_outlive_a_newer_one_that_is_not_persistent(rig: Rig) -> None:
    """Both commits wait for the store. Without a deletion, a restart finds the older publication."""
    _retain(rig, b"1", persistence=0)
    other = rig.queue_manager.connect()

    def publish_with_a_persistent_message() -> None:
        other.put1("Q", MessageDescriptor(persistence=1), b"", PutOption.SYNCPOINT)
        other.put1(ORDERS, MessageDescriptor(), b"3", PutOption.RETAIN | PutOption.SYNCPOINT)
        other.commit()

    _during(rig, lambda: _retain(rig, b"2"), publish_with_a_persistent_message, None, None)

    assert [["ObjectDefined"], ["MessageAdded", "ObjectDeleted"]] == rig.store.calls[-2:]
    assert [b"3"] == _retained(rig)


def _in_turn(rig: Rig, name: str, first: Callable[[], None], second: Callable[[], None]) -> list[Thread]:
    """Start both commands of the object. Return when the first waits for the store, and the second for the first."""
    rig.store.holds = True
    threads = [Thread(target=first), Thread(target=second)]
    threads[0].start()
    while not rig.store.unanswered:
        assert threads[0].is_alive()
    threads[1].start()
    turn = rig.queue_manager._state.turns[name]
    while turn.commands < len(threads):
        assert threads[1].is_alive()
    return threads


def test_an_alteration_that_cannot_be_carried_out_leaves_open_handles_alone(rig: Rig) -> None:
    handle = rig.connection.open("Q", EVERYTHING)

    with refused(Reason.ITEM_VALUE_ERROR):
        rig.administration.alter("Q", {"usage": 1, "max_depth": -7}, force=True)

    assert rig.connection.get(handle, NEXT) is None


@pytest.mark.parametrize("by", ["administrator", "program"])
@pytest.mark.parametrize("second", [FULL, None], ids=["refused", "made"])
def test_a_refused_alteration_leaves_nothing_behind_although_another_one_of_the_queue_waits(
    rig: Rig, by: str, second: Exception | None
) -> None:
    handle = rig.connection.open("Q", OpenOption.SET)

    def alter() -> None:
        if by == "administrator":
            rig.administration.alter("Q", {"put_inhibited": True})
        else:
            rig.connection.set(handle, {_INHIBIT_PUT: 1})

    def alter_too() -> None:
        rig.administration.alter("Q", {"description": "second"})

    threads = _in_turn(rig, "Q", _refused(alter), _refused(alter_too) if second else alter_too)
    rig.store.answer(FULL)
    threads[0].join()
    while not rig.store.unanswered:
        assert threads[1].is_alive()
    rig.store.answer(second)
    threads[1].join()

    found = rig.administration.queue("Q")
    assert found is not None
    assert (False, "" if second else "second") == (found.put_inhibited, found.description)
    last = [each for each in rig.store.written if isinstance(each, QueueDefined)][-1]
    assert not last.attributes.put_inhibited
    assert {} == rig.queue_manager._state.turns


def test_a_refused_alteration_of_a_subscription_leaves_nothing_behind_although_another_one_waits(rig: Rig) -> None:
    first = rig.connection.subscribe(DURABLE)
    rig.connection.close(first.handle)
    altering = replace(DURABLE, options=DURABLE.options & ~SubscribeOption.RESUME | SubscribeOption.ALTER, user_data="1")

    alter = _refused(lambda: rig.connection.subscribe(altering))
    alter_too = _refused(lambda: rig.administration.publishing.alter_subscription("S", {"priority": 7}))
    threads = _in_turn(rig, "S", alter, alter_too)
    for thread in threads:
        while not rig.store.unanswered:
            assert thread.is_alive()
        rig.store.answer(FULL)
        thread.join()

    [found] = rig.administration.publishing.subscriptions()
    assert ("", first.descriptor.priority) == (found.attributes.user_data, found.attributes.priority)


def test_a_forced_alteration_that_the_store_refuses_leaves_open_handles_valid(rig: Rig) -> None:
    handle = rig.connection.open("Q", EVERYTHING)
    with rig.full():
        rig.administration.alter("Q", {"usage": 1}, force=True)

    assert rig.connection.get(handle, NEXT) is None


def test_a_forced_alteration_of_a_queue_manager_alias_that_the_store_refuses_leaves_open_handles_valid(rig: Rig) -> None:
    rig.administration.define(QueueAttributes(name="ALIAS", kind=QueueType.REMOTE, remote_queue_manager="QM1"))
    handle = rig.connection.open(ObjectDescriptor("Q", queue_manager="ALIAS"), OpenOption.OUTPUT)
    with rig.full():
        rig.administration.alter("ALIAS", {"remote_queue_manager": "OTHER"}, force=True)

    rig.connection.put(handle, MessageDescriptor(), b"1", PutOption.NO_SYNCPOINT)


def test_an_alteration_that_the_store_refuses_triggers_nothing_and_stores_nothing(rig: Rig) -> None:
    """Otherwise the end of the depth trigger, which the store keeps too, would store the refused attributes."""
    run("DEFINE QLOCAL(INIT)\nDEFINE PROCESS(P)\nALTER QLOCAL(Q) INITQ(INIT) PROCESS(P)", rig.administration)
    initiation = rig.connection.open("INIT", EVERYTHING)
    rig.connection.put1("Q", MessageDescriptor(), b"1", PutOption.NO_SYNCPOINT)
    before = len(rig.store.calls)
    changes = {"trigger": True, "trigger_type": TRIGGER_DEPTH, "trigger_depth": 1, "max_depth": 7}
    with rig.full():
        rig.administration.alter("Q", changes)

    assert ([["QueueDefined"]], None) == (rig.store.calls[before:], rig.connection.get(initiation, NEXT))
    rig.administration.alter("Q", changes)
    assert rig.connection.get(initiation, NEXT) is not None


def test_a_dynamic_queue_was_created_when_it_was_opened(rig: Rig) -> None:
    rig.clock.advance(7 * 86_400)
    model = rig.administration.queue("SYSTEM.DURABLE.MODEL.QUEUE")
    handle = rig.connection.open("SYSTEM.DURABLE.MODEL.QUEUE", EVERYTHING)
    made = rig.administration.queue(handle.name)

    assert model is not None
    assert made is not None
    assert model.creation_date < made.creation_date == made.alteration_date


@pytest.mark.parametrize("by", ["application", "administrator"])
def test_a_subscription_whose_end_is_refused_keeps_its_messages(rig: Rig, by: str) -> None:
    subscribed = rig.connection.subscribe(DURABLE)
    rig.publish(b"1")
    if by == "administrator":
        rig.connection.close(subscribed.handle)
        rig.connection.close(subscribed.queue)

    with rig.full():
        if by == "application":
            rig.connection.close(subscribed.handle, CloseOption.REMOVE_SUB)
        else:
            rig.administration.publishing.delete_subscription("S")
    if by == "application":
        rig.connection.close(subscribed.queue)
    rig.publish(b"2")

    assert [b"1", b"2"] == rig.bodies(rig.connection.subscribe(DURABLE))


def test_a_permanent_dynamic_queue_that_cannot_be_deleted_keeps_its_messages(rig: Rig) -> None:
    handle = rig.connection.open("SYSTEM.DURABLE.MODEL.QUEUE", EVERYTHING)
    rig.connection.put(handle, MessageDescriptor(), b"1", PutOption.NO_SYNCPOINT)

    with rig.full():
        rig.connection.close(handle, CloseOption.DELETE_PURGE)

    again = rig.connection.open(handle.name, EVERYTHING)
    assert rig.connection.get(again, NEXT) is not None


def test_a_subscription_that_is_ended_takes_its_queue_along(rig: Rig) -> None:
    subscribed = rig.connection.subscribe(DURABLE)
    rig.connection.close(subscribed.handle)
    rig.connection.close(subscribed.queue)
    rig.administration.publishing.delete_subscription("S")

    assert rig.administration.queue(subscribed.queue.name) is None


@pytest.mark.parametrize("queue", ["", "Q"], ids=["managed", "not managed"])
def test_a_refused_alteration_of_a_subscription_changes_nothing_and_leaves_it_unused(rig: Rig, queue: str) -> None:
    wanted = replace(DURABLE, options=DURABLE.options & ~SubscribeOption.MANAGED) if queue else DURABLE
    first = rig.connection.subscribe(wanted, rig.connection.open(queue, EVERYTHING) if queue else None)
    rig.connection.close(first.handle)
    rig.connection.close(first.queue)
    altering = replace(wanted, options=wanted.options & ~SubscribeOption.RESUME | SubscribeOption.ALTER, user_data="other")

    with rig.full():
        rig.connection.subscribe(altering)

    found = rig.administration.queue(first.queue.name)
    assert found is not None
    assert 0 == found.open_input_count
    assert "" == rig.connection.subscribe(wanted).descriptor.user_data


def test_a_refused_alteration_of_a_subscription_leaves_the_given_queue_open(rig: Rig) -> None:
    wanted = replace(DURABLE, options=DURABLE.options & ~SubscribeOption.MANAGED)
    handle = rig.connection.open("Q", EVERYTHING)
    rig.connection.close(rig.connection.subscribe(wanted, handle).handle)
    altering = replace(wanted, options=wanted.options & ~SubscribeOption.RESUME | SubscribeOption.ALTER)

    with rig.full():
        rig.connection.subscribe(altering, handle)

    assert rig.connection.get(handle, NEXT) is None


def test_an_alteration_that_is_refused_after_the_end_of_its_connection_changes_nothing(rig: Rig) -> None:
    first = rig.connection.subscribe(DURABLE)
    rig.connection.close(first.handle)
    altering = replace(DURABLE, options=DURABLE.options & ~SubscribeOption.RESUME | SubscribeOption.ALTER, user_data="other")
    reasons: list[int] = []

    def alter() -> None:
        with refused(Reason.STORAGE_MEDIUM_FULL) as raised:
            rig.connection.subscribe(altering)
        reasons.append(raised.value.reason)

    with rig.waiting(alter):
        rig.connection.abandon()

    [found] = rig.administration.publishing.subscriptions()
    assert ([Reason.STORAGE_MEDIUM_FULL], "") == (reasons, found.attributes.user_data)


def test_an_administrators_refused_alteration_of_a_subscription_changes_nothing(rig: Rig) -> None:
    rig.connection.subscribe(DURABLE)
    with rig.full():
        rig.administration.publishing.alter_subscription("S", {"user_data": "other"})

    [found] = rig.administration.publishing.subscriptions()
    assert "" == found.attributes.user_data


def test_a_refused_subscription_leaves_neither_itself_nor_its_queue_nor_a_handle(rig: Rig) -> None:
    rig.administration.alter_queue_manager({"max_handles": 1})
    queues = rig.administration.queues()
    with rig.full():
        rig.connection.subscribe(DURABLE)
    assert ((), queues) == (rig.administration.publishing.subscriptions(), rig.administration.queues())

    rig.publish(b"1")
    assert [] == rig.bodies(rig.connection.subscribe(DURABLE))


@pytest.mark.parametrize("by", ["application", "administrator"])
def test_a_refused_subscription_leaves_no_retained_publication_on_its_queue(rig: Rig, by: str) -> None:
    rig.administration.define(QueueAttributes(name="DEST"))
    rig.connection.put1(ORDERS, MessageDescriptor(persistence=1), b"1", PutOption.RETAIN)
    handle = rig.connection.open("DEST", OpenOption.INPUT_SHARED)

    with rig.full():
        if by == "application":
            rig.connection.subscribe(replace(DURABLE, options=DURABLE.options & ~SubscribeOption.MANAGED), handle)
        else:
            rig.administration.publishing.define_subscription("S", {"topic_string": "orders", "destination": "DEST"})

    assert (0, set()) == (rig.administration.queue_status("DEST").depth, rig.queue_manager._state.in_commit)


class NoRoomForMessages(ScriptedStore):
    """A store that takes definitions, but no message."""

    def write(self, changes: Sequence[Change], done: Callable[[Exception | None], None] | None) -> None:
        full = self.refuses is not None and any(isinstance(each, MessageAdded) for each in changes)
        if done is not None and self.refuses is not None and not full:
            done(None)
        else:
            super().write(changes, done)


@pytest.mark.parametrize("by", ["application", "application, not durable", "administrator"])
def test_a_subscription_is_not_made_without_room_for_its_retained_publications(by: str) -> None:
    store = NoRoomForMessages()
    with EmbeddedQueueManager("QM1", store=store) as queue_manager:
        queue_manager.administration.alter("SYSTEM.NDURABLE.MODEL.QUEUE", {"definition_type": PERMANENT_DYNAMIC})
        queue_manager.administration.alter_queue_manager({"max_handles": 1})  # a handle that stayed would take it
        connection, publishing = queue_manager.connect(), queue_manager.administration.publishing
        connection.put1(ORDERS, MessageDescriptor(persistence=1), b"1", PutOption.RETAIN)
        queues = queue_manager.administration.queues()

        store.refuses = FULL
        with refused(Reason.STORAGE_MEDIUM_FULL):
            if by == "administrator":
                publishing.define_subscription("S", {"topic_string": "orders", "destination_class": 1})
            elif by == "application":
                connection.subscribe(DURABLE)
            else:
                connection.subscribe(replace(DURABLE, options=SubscribeOption.CREATE | SubscribeOption.MANAGED))
        left = (publishing.subscriptions(), queue_manager.administration.queues())
        store.refuses = None
        again = connection.subscribe(DURABLE)

        assert ((), queues) == left
        assert connection.get(again.queue, NEXT) is not None


def test_a_topic_and_its_authorities_are_deleted_together_or_not_at_all(rig: Rig) -> None:
    rig.administration.publishing.define_topic(TopicAttributes(name="T", topic_string="orders"))
    rig.administration.authorities.set(AuthorityKind.TOPIC, "T", "bob", group=False, add=[Authority.PUB], remove=[])
    records = rig.administration.authorities.records()

    with rig.full():
        rig.administration.publishing.delete_topic("T")

    assert records == rig.administration.authorities.records()
    assert "T" in {topic.name for topic in rig.administration.publishing.topics()}


@pytest.mark.parametrize("name", ["SYSTEM.MANAGED.DURABLE.1", "SYSTEM.MANAGED.NDURABLE.1"])
def test_a_managed_queue_without_its_subscription_goes_at_the_next_start(name: str) -> None:
    """A crash came between two writes, or ended a non-durable subscription whose model makes permanent queues."""
    store = ScriptedStore()
    EmbeddedQueueManager("QM1", store=store).close()
    known = next(change.attributes for change in store.written if isinstance(change, QueueManagerDefined))
    queues = tuple(change.attributes for change in store.written if isinstance(change, QueueDefined))
    left = QueueAttributes(name=name, kind=QueueType.LOCAL, definition_type=2)
    again = ScriptedStore(snapshot=Snapshot(queue_manager=known, queues=(*queues, left), serials=(), next_serial=1))

    with EmbeddedQueueManager("QM1", store=again) as queue_manager:
        assert queue_manager.administration.queue(left.name) is None
    assert [left.name] == [change.name for change in again.written if isinstance(change, QueueDeleted)]


def test_the_managed_queue_of_a_subscription_outlives_a_restart(rig: Rig) -> None:
    subscribed = rig.connection.subscribe(DURABLE)
    machine = rig.queue_manager._state
    rig.queue_manager._drop_orphaned_queues()

    assert isinstance(machine.queues[subscribed.queue.name], LocalQueue)


@pytest.mark.parametrize(
    "command", ["DEFINE TOPIC(T) LIKE(NOPE) TOPICSTR('a')", "DEFINE SUB(S) LIKE(NOPE) TOPICSTR('a') DEST(L)"]
)
def test_a_definition_like_a_missing_object_is_refused(rig: Rig, command: str) -> None:
    administration = rig.administration
    results = run(f"DEFINE QLOCAL(L)\n{command}", administration)

    assert [Verdict.DONE, Verdict.FAILED] == [response.verdict for response in results.responses]
    assert "NOPE" in results.responses[1].text
    assert "T" not in {topic.name for topic in administration.publishing.topics()}
    assert () == administration.publishing.subscriptions()
