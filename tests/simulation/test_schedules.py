"""Small stories in every order with a limited number of deviations from first come, first served.

If several threads can continue, the first thread runs; a schedule names the places with another choice. All schedules with up
to `DEVIATIONS` such places run, with the real client, protocol, server, queue manager and store.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
from msgspec import Struct

from mqflow.embedded.state.objects import Waiter
from mqflow.embedded.wire.client.connection import ServedConnection
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import GetOption, OpenOption, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import GetOptions
from tests.embedded.disk_faults.disk import memory_folder
from tests.embedded.network.calls_under_way import PERSISTENT
from tests.queue_contents import browsed
from tests.simulation.stage import Stage
from tests.simulation.world import Process

DEVIATIONS: Final = int(os.environ.get("MQFLOW_DEVIATIONS", "2"))

QUEUE: Final = "Q"
USE: Final = OpenOption.INPUT_SHARED | OpenOption.OUTPUT
TAKE: Final = GetOptions(options=GetOption.SYNCPOINT | GetOption.WAIT, wait_ms=10)
AT_ONCE: Final = GetOptions(options=GetOption.SYNCPOINT)

Schedule = Mapping[int, int]
"""At the choice with this number, the thread that runs instead of the first."""


class Scheduled:
    """Chance that always takes the first choice, except where a schedule names another."""

    def __init__(self) -> None:
        self._schedule: Schedule = {}
        self._counts: list[int] | None = None

    def begin(self, schedule: Schedule) -> None:
        self._schedule, self._counts = schedule, []

    def end(self) -> list[int]:
        """End the run, and return the number of options at each choice."""
        counts, self._counts = self._counts or [], None
        return counts

    def choose(self, count: int) -> int:
        if self._counts is None:
            return 0
        self._counts.append(count)
        return min(self._schedule.get(len(self._counts) - 1, 0), count - 1)

    def random(self) -> float:
        return 0.5


class _Disk:
    """Wakes the waiting caller when a message can be got."""

    def __init__(self) -> None:
        self.can_be_got: Callable[[], None] = lambda: None

    def written(self, changes: object) -> None: ...

    def visible(self, changes: object) -> None:
        del changes
        self.can_be_got()

    def delivered(self, serial: int, backout_count: int) -> None: ...

    def given_back(self, serial: int) -> None: ...


class Play(Struct):
    """A stage on which one story runs again and again."""

    stage: Stage
    chance: Scheduled
    disk: _Disk

    def client(self, name: str, act: Callable[[ServedConnection], None]) -> Process:
        """Run a program as a new process, with its own connection."""
        process = Process(self.stage.world, name)
        manager: ServedQueueManager = self.stage.manager(process)

        def live() -> None:
            with suppress(MQIError):
                connection = manager.connect()
                act(connection)
            manager.close()

        process.start(live, name)
        return process

    def there(self) -> dict[bytes, int]:
        """Return the messages on the queue, and the backouts of each."""
        active = self.stage.active
        assert active is not None
        assert active.queue_manager is not None
        return {got.body: got.descriptor.backout_count for got in browsed(active.queue_manager, QUEUE)}

    def empty(self) -> None:
        """Make sure that the queue is empty, and no program is connected."""
        active = self.stage.active
        assert active is not None
        assert active.queue_manager is not None
        assert active.server is not None
        assert not active.server.connection_count
        process, manager = active.process, active.queue_manager
        process.start(lambda: manager.administration.clear(QUEUE), "clear").join()

    def rest(self, seconds: float = 6.0) -> None:
        self.stage.world.sleep(seconds)


@pytest.fixture
def play() -> Iterator[Play]:
    with memory_folder() as root:
        chance, disk = Scheduled(), _Disk()
        stage = Stage(chance, Path(root), (f"DEFINE QLOCAL({QUEUE}) DEFPSIST(YES)",), disk)
        yield Play(stage, chance, disk)
        stage.close()


def explore(play: Play, story: Callable[[Play], None]) -> int:
    """Run the story in every schedule; return the number of schedules."""
    waiting: deque[dict[int, int]] = deque([{}])
    told = 0
    while waiting:
        schedule = waiting.popleft()
        play.chance.begin(schedule)
        try:
            story(play)
        except BaseException as error:
            error.add_note(f"in schedule {schedule}")
            raise
        finally:
            counts = play.chance.end()
        play.rest()
        play.empty()
        told += 1
        if len(schedule) < DEVIATIONS:
            after = max(schedule, default=-1) + 1
            waiting += [{**schedule, at: other} for at in range(after, len(counts)) for other in range(1, counts[at])]
    return told


def put(connection: ServedConnection, body: bytes = b"m") -> None:
    connection.put1(QUEUE, PERSISTENT, body, PutOption.NO_SYNCPOINT)


def two_take_one_and_a_wire_is_cut(play: Play) -> None:
    """Two programs want one message; the wire of the first is cut. The message is got once or backed out; both know which."""
    world, told = play.stage.world, []
    play.client("putter", put)
    world.sleep(0.05)

    def take(name: str) -> Callable[[ServedConnection], None]:
        def act(connection: ServedConnection) -> None:
            handle = connection.open(QUEUE, USE)
            if connection.get(handle, TAKE) is None:
                return
            try:
                connection.commit()
            except MQIError as error:
                told.append((name, error.reason))
                raise
            told.append((name, 0))

        return act

    first = play.client("first", take("first"))
    play.client("second", take("second"))
    cutter = Process(world, "cutter")

    def cut() -> None:
        world.sleep(0.006)
        for wire in tuple(play.stage.network.wires):
            if wire.client.process is first:
                wire.cut()

    cutter.start(cut, "cutter")
    world.sleep(1.0)

    left = play.there()
    takers = [name for name, reason in told if reason == 0]
    doubts = [name for name, reason in told if reason == Reason.CALL_INTERRUPTED]
    assert len(takers) <= 1, f"taken by {takers}"
    if takers:
        assert not left, f"{takers} took it, and it is there"
    elif not doubts:
        assert left.keys() == {b"m"}, "nobody took it, and it is not there"


def a_message_comes_when_a_wait_ends(play: Play) -> None:
    """A wait is over at the moment at which a message comes: the message is delivered, or stays for the next get."""
    world, got = play.stage.world, []

    def take(connection: ServedConnection) -> None:
        handle = connection.open(QUEUE, USE)
        found = connection.get(handle, TAKE)
        if found is not None:
            got.append(found.body)
            connection.commit()

    def put_late(connection: ServedConnection) -> None:
        world.sleep(0.0075)
        put(connection)

    play.client("taker", take)
    play.client("putter", put_late)
    world.sleep(1.0)
    play.client("next", take)
    world.sleep(1.0)

    assert got == [b"m"]
    assert play.there() == {}


def one_leaves_while_it_is_served(play: Play) -> None:
    """An application dies with a message in its unit of work while another waits: the message comes again, and is counted."""
    world, got = play.stage.world, []
    play.client("putter", put)
    world.sleep(0.05)

    def take_and_die(connection: ServedConnection) -> None:
        connection.get(connection.open(QUEUE, USE), TAKE)
        connection.abandon()

    def take(connection: ServedConnection) -> None:
        world.sleep(0.002)
        handle = connection.open(QUEUE, USE)
        for _ in range(3):
            found = connection.get(handle, TAKE)
            if found is not None:
                got.append(found.descriptor.backout_count)
                connection.commit()
                return

    play.client("dying", take_and_die)
    play.client("taker", take)
    world.sleep(1.0)
    if not got:
        play.client("next", take)
        world.sleep(1.0)

    assert len(got) == 1
    assert got[0] in {0, 1}
    assert play.there() == {}


def two_settle_and_get_and_a_wire_is_cut(play: Play) -> None:
    """Two programs get all messages, each commit together with the next get; meanwhile the wire of the first is cut."""
    world = play.stage.world
    settled: list[bytes] = []
    doubtful: list[bytes] = []

    def put_all(connection: ServedConnection) -> None:
        for number in range(6):
            put(connection, b"%d" % number)

    def take_all(connection: ServedConnection) -> None:
        handle = connection.open(QUEUE, USE)
        unit = connection.exchange(handle, AT_ONCE, commit=None, most=1).unit
        while unit:
            held = [got.body for got in unit]
            exchange = connection.exchange(handle, AT_ONCE, commit=True, most=1)
            if exchange.settle_error is not None:
                assert exchange.settle_error.reason == Reason.CALL_INTERRUPTED
                doubtful.extend(held)
                return
            settled.extend(held)
            unit = exchange.unit

    play.client("putter", put_all)
    world.sleep(0.2)
    first = play.client("first", take_all)
    play.client("second", take_all)
    cutter = Process(world, "cutter")

    def cut() -> None:
        world.sleep(0.012)
        for wire in tuple(play.stage.network.wires):
            if wire.client.process is first:
                wire.cut()

    cutter.start(cut, "cutter")
    world.sleep(1.0)
    play.client("next", take_all)  # gets the message of the first program, which could not commit
    world.sleep(1.0)

    assert play.there() == {}
    assert len(settled) == len(set(settled)), "settled twice"
    assert set(settled) | set(doubtful) == {b"%d" % number for number in range(6)}


STORIES = (
    two_take_one_and_a_wire_is_cut,
    a_message_comes_when_a_wait_ends,
    one_leaves_while_it_is_served,
    two_settle_and_get_and_a_wire_is_cut,
)


@pytest.mark.timeout(0 if DEVIATIONS > 2 else 120)
@pytest.mark.parametrize("story", STORIES, ids=[each.__name__ for each in STORIES])
def test_a_story_ends_well_in_every_order(story: Callable[[Play], None], play: Play) -> None:
    assert explore(play, story) > 50


def test_the_schedules_find_a_waiter_that_keeps_its_message(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """The defect: a program that was woken for a message, and then ends, does not pass the message on."""

    def withdraw(waiter: Waiter) -> None:
        if waiter in waiter.queue.waiters:
            waiter.queue.waiters.remove(waiter)

    monkeypatch.setattr("mqflow.embedded.connection.withdraw", withdraw)
    monkeypatch.setattr("mqflow.embedded.calls.wait.withdraw", withdraw)

    with pytest.raises(AssertionError):
        explore(play, two_wait_and_the_one_that_is_woken_leaves)


def two_wait_and_the_one_that_is_woken_leaves(play: Play) -> None:
    """Two programs wait for a message; the first is cut off as the message comes: the second gets it within its wait."""
    world, got = play.stage.world, []
    patient = GetOptions(options=GetOption.SYNCPOINT | GetOption.WAIT, wait_ms=2_000)

    def take(name: str) -> Callable[[ServedConnection], None]:
        def act(connection: ServedConnection) -> None:
            found = connection.get(connection.open(QUEUE, USE), patient)
            if found is not None:
                connection.commit()
                got.append(name)

        return act

    first = play.client("first", take("first"))
    world.sleep(0.02)
    play.client("second", take("second"))
    world.sleep(0.02)
    cutter = Process(world, "cutter")
    comes = cutter.event()
    play.disk.can_be_got = comes.set
    play.client("putter", put)

    def cut() -> None:
        comes.wait()
        for wire in tuple(play.stage.network.wires):
            if wire.client.process is first:
                wire.cut()

    cutter.start(cut, "cutter")
    world.sleep(1.5)
    play.disk.can_be_got = lambda: None

    assert got or not play.there(), "the message is there, and the waiting program was not woken"


def test_a_woken_waiter_that_leaves_passes_its_message_on(play: Play) -> None:
    assert explore(play, two_wait_and_the_one_that_is_woken_leaves) > 50
