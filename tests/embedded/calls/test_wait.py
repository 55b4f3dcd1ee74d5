"""The waiters that an arriving message wakes. Source: IBM q096780, MQGMO_WAIT."""

from collections.abc import Callable, Iterator

import pytest

from mqflow.embedded.connection import EmbeddedConnection
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.state.objects import ObjectHandle
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, MatchOption, MessageFlag, OpenOption, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import GetOptions, InlineConnection
from mqflow.world import THREADS, Runner, Running, World
from tests.conformance.under_test import ManualClock, refused

BOTH = OpenOption.INPUT_SHARED | OpenOption.BROWSE
TAKE = GetOptions(options=GetOption.SYNCPOINT | GetOption.FAIL_IF_QUIESCING)
LOOK = GetOptions(options=GetOption.BROWSE_NEXT)
LOOK_AND_LOCK = GetOptions(options=GetOption.BROWSE_NEXT | GetOption.LOCK)
WANTED = b"w" * 24
WHOLE_GROUP = GetOptions(options=GetOption.SYNCPOINT | GetOption.LOGICAL_ORDER | GetOption.ALL_MSGS_AVAILABLE)
WHOLE_MESSAGE = GetOptions(options=GetOption.SYNCPOINT | GetOption.ALL_SEGMENTS_AVAILABLE)
SPECIAL = GetOptions(options=GetOption.SYNCPOINT, match=MatchOption.CORREL_ID, correlation_id=WANTED)


class Sleeper:
    """A waiter that counts how often it is woken."""

    def __init__(self, connection: EmbeddedConnection, options: GetOptions, handle: ObjectHandle | None = None) -> None:
        self.connection = connection
        self.options = options
        self.handle = handle or connection.open("Q", BOTH)
        self.woken = 0
        self.withdraw: Callable[[], None] | None = None

    def sleep(self) -> bool:
        """Request a wake. Return false if a get may find a message without a wait."""
        self.withdraw = self.connection.on_arrival(self.handle, self.options, self._wake)
        return self.withdraw is not None

    def _wake(self) -> None:
        self.woken += 1

    def get(self) -> bytes | None:
        got = self.connection.get(self.handle, self.options)
        return None if got is None else got.body


class _Meanwhile:
    """An event whose wait runs a function of the test."""

    def __init__(self, happens: Callable[[], None]) -> None:
        self._happens = happens
        self._said = False

    def set(self) -> None:
        self._said = True

    def clear(self) -> None:
        self._said = False

    def is_set(self) -> bool:
        return self._said

    def wait(self, timeout: float | None = None) -> bool:
        del timeout
        self._happens()
        return self._said


class _Scripted:
    """A runner whose waits the test controls; its threads are ordinary threads."""

    start, lock, mailbox = THREADS.start, THREADS.lock, THREADS.mailbox

    def __init__(self) -> None:
        self.happens: Callable[[], None] = lambda: None

    def event(self) -> _Meanwhile:
        return _Meanwhile(self.happens)


class Room:
    """A queue, a program that puts, and sleepers."""

    def __init__(self, runner: Runner = THREADS) -> None:
        self.queue_manager = EmbeddedQueueManager("QM1", world=World(runner=runner))
        self.queue_manager.administration.define(QueueAttributes(name="Q"))
        self.putter = self.queue_manager.connect()
        self.handle = self.putter.open("Q", OpenOption.OUTPUT | BOTH)

    def sleeper(self, options: GetOptions = TAKE) -> Sleeper:
        sleeper = Sleeper(self.queue_manager.connect(), options)
        assert sleeper.sleep()
        return sleeper

    def put(self, *, correlation_id: bytes = bytes(24), options: PutOption = PutOption.NO_SYNCPOINT) -> None:
        self.putter.put(self.handle, MessageDescriptor(correlation_id=correlation_id), b"1", options)

    def put_in_group(self, number: int, *, offset: int = 0, flags: int = 0) -> None:
        flags |= int(MessageFlag.LAST_MSG_IN_GROUP if number == 3 else MessageFlag.MSG_IN_GROUP)
        descriptor = MessageDescriptor(group_id=WANTED, sequence_number=number, offset=offset, message_flags=flags)
        self.putter.put(self.handle, descriptor, b"1", PutOption.NO_SYNCPOINT)


@pytest.fixture
def room() -> Iterator[Room]:
    made = Room()
    yield made
    made.queue_manager.close()


def woken(*sleepers: Sleeper) -> list[int]:
    return [sleeper.woken for sleeper in sleepers]


def test_the_embedded_connection_can_be_used_inline(room: Room) -> None:
    assert isinstance(room.putter, InlineConnection)


def test_an_available_message_lets_no_get_sleep(room: Room) -> None:
    room.put()

    assert not Sleeper(room.queue_manager.connect(), TAKE).sleep()
    assert not Sleeper(room.queue_manager.connect(), LOOK).sleep()


def test_a_message_that_does_not_match_lets_one_sleep(room: Room) -> None:
    room.put()

    assert Sleeper(room.queue_manager.connect(), SPECIAL).sleep()


FAILS: dict[str, Callable[[EmbeddedQueueManager], object]] = {
    "inhibited": lambda queue_manager: queue_manager.administration.alter("Q", {"get_inhibited": True}),
    "quiescing": EmbeddedQueueManager.quiesce,
    "stopped": EmbeddedQueueManager.stop,
}


@pytest.mark.parametrize("why", [*FAILS, "closed"])
def test_a_reason_that_makes_the_get_fail_lets_no_get_sleep(room: Room, why: str) -> None:
    sleeper = Sleeper(room.queue_manager.connect(), TAKE)
    if why in FAILS:
        FAILS[why](room.queue_manager)
    else:
        sleeper.connection.close(sleeper.handle)

    assert not sleeper.sleep()


def test_one_message_wakes_one_taker(room: Room) -> None:
    one, two = room.sleeper(), room.sleeper()
    room.put()

    assert 1 == one.woken + two.woken


def test_two_messages_wake_two_takers(room: Room) -> None:
    one, two = room.sleeper(), room.sleeper()
    room.put()
    room.put()

    assert [1, 1] == woken(one, two)


def test_a_message_wakes_every_browser(room: Room) -> None:
    browsers = [room.sleeper(LOOK) for _ in range(3)]
    room.put()
    room.put()  # nobody waits now

    assert [1, 1, 1] == woken(*browsers)


def test_a_message_wakes_every_browser_and_one_taker(room: Room) -> None:
    takers, browsers = [room.sleeper(), room.sleeper()], [room.sleeper(LOOK), room.sleeper(LOOK)]
    room.put()

    assert 1 == sum(woken(*takers))
    assert [1, 1] == woken(*browsers)


def test_a_browse_with_a_lock_counts_as_a_taker(room: Room) -> None:
    lockers = [room.sleeper(LOOK_AND_LOCK), room.sleeper(LOOK_AND_LOCK)]
    room.put()

    assert 1 == sum(woken(*lockers))


def test_a_waiter_that_asked_for_this_message_comes_first(room: Room) -> None:
    general, special = room.sleeper(), room.sleeper(SPECIAL)
    room.put(correlation_id=WANTED)

    assert [0, 1] == woken(general, special)


def test_a_waiter_that_asked_for_another_message_sleeps_on(room: Room) -> None:
    special, general = room.sleeper(SPECIAL), room.sleeper()
    room.put()

    assert [0, 1] == woken(special, general)


def test_an_uncommitted_put_wakes_no_waiter_until_the_commit(room: Room) -> None:
    sleeper = room.sleeper()
    room.put(options=PutOption.SYNCPOINT)
    before = sleeper.woken
    room.putter.commit()

    assert (0, 1) == (before, sleeper.woken)


def test_a_backout_wakes(room: Room) -> None:
    room.put()
    room.putter.get(room.handle, TAKE)
    sleeper = room.sleeper()
    room.putter.backout()

    assert 1 == sleeper.woken


def test_a_lock_that_is_given_up_wakes(room: Room) -> None:
    room.put()
    room.putter.get(room.handle, LOOK_AND_LOCK)
    sleeper = room.sleeper()
    room.putter.get(room.handle, GetOptions(options=GetOption.UNLOCK))

    assert 1 == sleeper.woken


def test_a_sleeper_is_woken_once(room: Room) -> None:
    sleeper = room.sleeper()
    room.put()
    room.put()

    assert 1 == sleeper.woken


def test_a_withdrawn_waiter_is_not_woken(room: Room) -> None:
    gone, there = room.sleeper(), room.sleeper()
    assert gone.withdraw is not None
    gone.withdraw()
    room.put()

    assert [0, 1] == woken(gone, there)


@pytest.mark.parametrize("way", ["withdraw", "close", "disconnect", "kill"])
def test_a_woken_waiter_that_gives_up_passes_the_message_on(room: Room, way: str) -> None:
    """Otherwise a message would stay on the queue while a waiter that wants this message sleeps."""
    first, second = room.sleeper(), room.sleeper()
    room.put()
    chosen, other = (first, second) if first.woken else (second, first)
    assert chosen.withdraw is not None
    {
        "withdraw": chosen.withdraw,
        "close": lambda: chosen.connection.close(chosen.handle),
        "disconnect": chosen.connection.disconnect,
        "kill": chosen.connection.abandon,
    }[way]()

    assert 1 == other.woken


@pytest.mark.parametrize("by", ["the woken waiter", "another get"])
def test_a_message_that_was_taken_is_not_passed_on(room: Room, by: str) -> None:
    first, second = room.sleeper(), room.sleeper()
    room.put()
    chosen, other = (first, second) if first.woken else (second, first)
    if by == "another get":
        room.putter.get(room.handle, TAKE)
    else:
        chosen.get()
    assert chosen.withdraw is not None
    chosen.withdraw()

    assert 0 == other.woken


@pytest.mark.parametrize("why", [*FAILS, "altered"])
def test_every_waiter_is_woken_when_its_get_may_fail(room: Room, why: str) -> None:
    sleepers = [room.sleeper(), room.sleeper(SPECIAL), room.sleeper(LOOK)]
    if why in FAILS:
        FAILS[why](room.queue_manager)
    else:
        room.queue_manager.administration.alter("Q", {"max_depth": 7})

    assert [1, 1, 1] == woken(*sleepers)


def test_deleting_the_dynamic_queue_wakes_its_waiters(room: Room) -> None:
    creating = room.putter.open("SYSTEM.DEFAULT.MODEL.QUEUE", OpenOption.OUTPUT)
    connection = room.queue_manager.connect()
    sleeper = Sleeper(connection, TAKE, connection.open(creating.name, BOTH))
    sleeper.sleep()
    room.putter.close(creating)

    assert 1 == sleeper.woken


def test_a_get_in_between_does_not_lose_the_wake(room: Room) -> None:
    sleeper = room.sleeper()
    room.put()
    room.put()

    assert [b"1", b"1", None] == [sleeper.get() for _ in range(3)]
    assert sleeper.sleep()
    room.put()
    assert 2 == sleeper.woken


def test_a_handle_waits_once(room: Room) -> None:
    """A second request replaces the wait."""
    sleeper = room.sleeper()
    sleeper.sleep()
    room.put()
    room.put()

    assert 1 == sleeper.woken


def test_many_sleepers_and_messages_pair_off(room: Room) -> None:
    sleepers = [room.sleeper() for _ in range(20)]
    for _ in range(20):
        room.put()

    assert [1] * 20 == woken(*sleepers)
    assert [b"1"] * 20 == [sleeper.get() for sleeper in sleepers]


class LoopClosedSleeper(Sleeper):
    """A waiter whose event loop has ended: its `wake` raises `RuntimeError`."""

    def _wake(self) -> None:
        raise RuntimeError("Event loop is closed")


def test_a_waiter_without_an_event_loop_does_no_harm_and_passes_the_message_on(room: Room) -> None:
    gone = LoopClosedSleeper(room.queue_manager.connect(), TAKE)
    assert gone.sleep()
    there = room.sleeper()
    room.put()

    assert 1 == there.woken


def test_a_browser_without_an_event_loop_does_no_harm(room: Room) -> None:
    gone = LoopClosedSleeper(room.queue_manager.connect(), LOOK)
    assert gone.sleep()
    there = room.sleeper()
    room.put()
    room.queue_manager.quiesce()

    assert 1 == there.woken


CO_OP = BOTH | OpenOption.CO_OP
MARK = GetOptions(options=GetOption.BROWSE_FIRST | GetOption.MARK_BROWSE_CO_OP)
UNMARK = GetOptions(options=GetOption.BROWSE_MSG_UNDER_CURSOR | GetOption.UNMARK_BROWSE_CO_OP)
LOOK_UNMARKED = GetOptions(options=GetOption.BROWSE_FIRST | GetOption.UNMARKED_BROWSE_MSG)


@pytest.mark.parametrize("end", ["unmark", "close", "die"])
def test_an_unmarked_message_wakes_the_waiters_for_unmarked_messages(room: Room, end: str) -> None:
    """If a dispatcher marks a message and dies, the other dispatchers, which wait, must get the message."""
    room.put()
    dispatcher, another = room.queue_manager.connect(), room.queue_manager.connect()
    marking = dispatcher.open("Q", CO_OP)
    dispatcher.get(marking, MARK)
    sleeper = Sleeper(another, LOOK_UNMARKED, another.open("Q", CO_OP))
    assert sleeper.sleep()

    if end == "unmark":
        dispatcher.get(marking, UNMARK)
    elif end == "close":
        dispatcher.close(marking)
    else:
        dispatcher.abandon()

    assert (1, b"1") == (sleeper.woken, sleeper.get())


class _Later:
    """A runner whose threads run when the test says so. Their waits only advance the clock."""

    lock, mailbox = THREADS.lock, THREADS.mailbox

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.waited_s: list[float | None] = []
        self.works: list[Callable[[], None]] = []

    def start(self, target: Callable[[], None], name: str) -> Running:
        self.works.append(target)
        return THREADS.start(lambda: None, name)

    def event(self) -> _Meanwhile:
        made = _Meanwhile(lambda: None)
        made.wait = self._wait  # type: ignore[method-assign]  # a wait without a function of the test
        return made

    def _wait(self, timeout: float | None = None) -> bool:
        self.waited_s.append(timeout)
        self.clock.advance(timeout or 0.0)
        return False


@pytest.mark.parametrize("waits", [True, False], ids=["waiting", "withdrawn"])
def test_a_mark_that_lapses_wakes_a_waiter_for_unmarked_messages(*, waits: bool) -> None:
    later = _Later()
    with EmbeddedQueueManager("QM1", world=World(later.clock, runner=later)) as queue_manager:
        queue_manager.administration.define(QueueAttributes(name="Q"))
        dispatcher, another = queue_manager.connect(), queue_manager.connect()
        marking = dispatcher.open("Q", CO_OP | OpenOption.OUTPUT)
        for seconds in (0, 2):
            later.clock.advance(seconds)
            dispatcher.put(marking, MessageDescriptor(), b"%d" % seconds, PutOption.NO_SYNCPOINT)
            dispatcher.get(marking, GetOptions(options=MARK.options | GetOption.UNMARKED_BROWSE_MSG))
        sleeper = Sleeper(another, LOOK_UNMARKED, another.open("Q", CO_OP))
        assert sleeper.sleep()
        if not waits and sleeper.withdraw is not None:
            sleeper.withdraw()
        [work] = later.works
        work()

        assert ([3.0], int(waits), b"0") == (later.waited_s, sleeper.woken, sleeper.get())


@pytest.mark.parametrize("interval_ms", [-1, 0])
def test_a_mark_without_an_end_or_with_a_past_end_needs_no_thread(interval_ms: int) -> None:
    later = _Later()
    with EmbeddedQueueManager("QM1", world=World(later.clock, runner=later)) as queue_manager:
        queue_manager.administration.alter_queue_manager({"mark_browse_interval_ms": interval_ms})
        queue_manager.administration.define(QueueAttributes(name="Q"))
        connection = queue_manager.connect()
        marking, other = (connection.open("Q", CO_OP | OpenOption.OUTPUT) for _ in range(2))
        connection.put(marking, MessageDescriptor(), b"", PutOption.NO_SYNCPOINT)
        connection.get(marking, MARK)
        connection.get(connection.open("Q", BOTH), GetOptions(options=GetOption.BROWSE_FIRST | GetOption.LOCK))

        assert Sleeper(connection, LOOK_UNMARKED, other).sleep()
        assert [] == later.works


PATIENT = GetOptions(options=GetOption.SYNCPOINT | GetOption.WAIT, wait_ms=600_000)


@pytest.fixture
def scripted() -> _Scripted:
    return _Scripted()


@pytest.fixture
def scripted_room(scripted: _Scripted) -> Iterator[Room]:
    made = Room(scripted)
    yield made
    made.queue_manager.close()


def another_waits_and_one_message_comes(
    scripted: _Scripted, room: Room, and_then: BaseException | None = None
) -> list[Sleeper]:
    """Let this happen during the next wait; return the other waiter, when there is one."""
    others: list[Sleeper] = []

    def happens() -> None:
        others.append(room.sleeper())
        room.put()
        if and_then is not None:
            raise and_then

    scripted.happens = happens
    return others


def test_a_get_that_waited_and_has_its_message_wakes_no_other_waiter(scripted: _Scripted, scripted_room: Room) -> None:
    """Earlier, such a waiter gave up its place before it had the message. This woke the next waiter, and so on."""
    waits = Sleeper(scripted_room.queue_manager.connect(), PATIENT)
    others = another_waits_and_one_message_comes(scripted, scripted_room)

    assert b"1" == waits.get()
    assert [0] == woken(*others)


def test_a_get_that_waited_and_is_refused_passes_its_message_on(scripted: _Scripted, scripted_room: Room) -> None:
    scripted_room.queue_manager.administration.alter_queue_manager({"max_uncommitted_messages": 1})
    waits = Sleeper(scripted_room.queue_manager.connect(), PATIENT)
    scripted_room.put()
    waits.get()  # up to the maximum
    others = another_waits_and_one_message_comes(scripted, scripted_room)

    with refused(Reason.SYNCPOINT_LIMIT_REACHED):
        waits.get()
    assert [1] == woken(*others)


def test_a_get_that_is_interrupted_while_it_waits_passes_its_message_on(scripted: _Scripted, scripted_room: Room) -> None:
    waits = Sleeper(scripted_room.queue_manager.connect(), PATIENT)
    others = another_waits_and_one_message_comes(scripted, scripted_room, KeyboardInterrupt())

    with pytest.raises(KeyboardInterrupt):
        waits.get()
    assert [1] == woken(*others)
    assert b"1" == others[0].get()


@pytest.mark.parametrize("last", [1, 2, 3])
def test_a_get_of_a_whole_group_is_woken_by_the_message_that_completes_it(room: Room, last: int) -> None:
    taker = room.sleeper(WHOLE_GROUP)

    for number in {1, 2, 3} - {last}:
        room.put_in_group(number)
    assert [0] == woken(taker)
    room.put_in_group(last)
    assert [1] == woken(taker)
    assert b"1" == taker.get()


def test_a_get_of_a_whole_group_leaves_the_messages_of_others_to_the_gets_that_take_them(room: Room) -> None:
    taker, other = room.sleeper(WHOLE_GROUP), room.sleeper()

    room.put_in_group(1)
    assert [0, 1] == woken(taker, other)


def test_a_segment_wakes_no_get_of_another_segment_of_its_message(room: Room) -> None:
    """The other segment is available, but locked. Otherwise the get that takes the new segment would sleep on."""
    room.put_in_group(1, flags=MessageFlag.SEGMENT)
    locked = room.putter.get(room.handle, LOOK_AND_LOCK)
    assert locked is not None
    first = GetOptions(options=TAKE.options, match=MatchOption.MSG_ID, message_id=locked.descriptor.message_id)
    special, general = room.sleeper(first), room.sleeper()

    room.put_in_group(1, offset=1, flags=MessageFlag.SEGMENT)

    assert [0, 1] == woken(special, general)


def test_a_get_of_a_whole_message_is_woken_by_its_last_segment_though_its_group_is_incomplete(room: Room) -> None:
    taker = room.sleeper(WHOLE_MESSAGE)

    room.put_in_group(1, flags=MessageFlag.SEGMENT)
    room.put_in_group(2, flags=MessageFlag.SEGMENT)
    assert [0] == woken(taker)
    room.put_in_group(2, offset=1, flags=MessageFlag.LAST_SEGMENT)
    assert [1] == woken(taker)
