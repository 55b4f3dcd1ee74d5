"""Delayed messages over restarts of queue manager and machine, with calendars that jump in between (R18).

A restart of the process keeps the monotonic clock. A restart of the machine gives this clock another name and zero point.
"""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.state.steady_clock import ClockAnchor, SteadyClock, anchored
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.headers.delay import parse
from mqflow.mqi.options import GetOption, OpenOption, PutOption
from mqflow.policy.delivery_delay import due_in_ms, staged
from mqflow.runtime.delay.stage import EMBEDDED_STAGING_QUEUE, Stager, moment
from mqflow.testing.virtual_clock import SeededRandom
from mqflow.verbs import GetOptions
from mqflow.world import World

YEARS_MS = 10 * 365 * 86_400_000
_NEXT = GetOptions(options=GetOption.BROWSE_NEXT | GetOption.NO_SYNCPOINT)


class Machine:
    """A clock with a machine that a test can restart and a calendar that a test can set."""

    def __init__(self) -> None:
        self.starts = 1
        self.up_ms = 1_000_000
        self.wall_ms = 1_800_000_000_000

    def wall(self) -> float:
        return self.wall_ms / 1_000

    def monotonic(self) -> float:
        return self.up_ms / 1_000

    def monotonic_epoch(self) -> bytes:
        return self.starts.to_bytes(16)

    def passes(self, milliseconds: int) -> None:
        self.up_ms += milliseconds
        self.wall_ms += milliseconds

    def starts_again(self) -> None:
        self.starts += 1
        self.up_ms = 7_000


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("passes"), st.integers(0, 10**9)),
            st.tuples(st.just("jumps"), st.integers(-YEARS_MS, YEARS_MS)),
            st.tuples(st.just("process"), st.just(0)),
            st.tuples(st.just("machine"), st.integers(-YEARS_MS, YEARS_MS)),
        ),
        max_size=20,
    )
)
def test_the_clock_that_orders_the_staging_queue_never_goes_back(steps: list[tuple[str, int]]) -> None:
    machine = Machine()
    anchor = anchored(machine, [])
    said = [SteadyClock(anchor).at_ms(machine.up_ms)]
    for what, milliseconds in steps:
        before = said[-1]
        if what == "passes":
            machine.passes(milliseconds)
        else:
            machine.wall_ms = max(0, machine.wall_ms + milliseconds)
        if what == "machine":
            machine.starts_again()
            # Only a start writes the anchor, so the calendar measures the time since the start.
            anchor = ClockAnchor(steady_ms=before, monotonic_ms=anchor.monotonic_ms, epoch=anchor.epoch)
        if what in {"process", "machine"}:
            anchor = anchored(machine, [anchor])
        said.append(SteadyClock(anchor).at_ms(machine.up_ms))
        assert said[-1] >= before
        if what == "passes":
            assert said[-1] - before in {milliseconds - 1, milliseconds, milliseconds + 1}


def waiting(queue_manager: EmbeddedQueueManager, clock: Machine) -> list[tuple[bytes, int]]:
    """Return the waiting messages in the order of the queue, each with its milliseconds to the due time."""
    connection = queue_manager.connect()
    handle = connection.open(EMBEDDED_STAGING_QUEUE, OpenOption.BROWSE)
    found: list[tuple[bytes, int]] = []
    while got := connection.get(handle, _NEXT):
        found.append((got.body[256:], due_in_ms(parse(got.body), moment(clock))))
    connection.disconnect()
    return found


def send(queue_manager: EmbeddedQueueManager, clock: Machine, *delays_ms: int) -> None:
    connection = queue_manager.connect()
    for delay_ms in delays_ms:
        stager = Stager(EMBEDDED_STAGING_QUEUE, World(clock, SeededRandom(delay_ms)))
        stager.put_on(connection, "LATER", MessageDescriptor(persistence=1), b"%d" % delay_ms, delay_ms)
    connection.commit()
    connection.disconnect()


@pytest.mark.parametrize("jump_ms", [-YEARS_MS, -3_600_000, -1_000, 0, 1_000, 3_600_000, YEARS_MS])
@pytest.mark.parametrize("machine_too", [False, True], ids=["the process", "the machine"])
def test_a_restart_with_a_jump_of_the_calendar(tmp_path: Path, jump_ms: int, *, machine_too: bool) -> None:
    """After a restart of the process no due time moves. After a restart of the machine the calendar counts, up to the delay."""
    clock = Machine()
    with EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path / "data"), world=World(clock)) as queue_manager:
        queue_manager.administration.define(QueueAttributes(name="LATER"))
        send(queue_manager, clock, 600_000, 60_000)
    clock.passes(10_000)
    clock.wall_ms += jump_ms
    if machine_too:
        clock.starts_again()

    with EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path / "data"), world=World(clock)) as queue_manager:
        found = waiting(queue_manager, clock)
        send(queue_manager, clock, 1_000)
        [first, *_] = waiting(queue_manager, clock)

    assert [b"60000", b"600000"] == [body for body, _ in found]
    for body, due_ms in found:
        by_calendar = int(body) - 10_000 - jump_ms
        assert due_ms == (min(int(body), by_calendar) if machine_too else int(body) - 10_000)
    overdue = machine_too and jump_ms >= 60_000
    assert first[0] == (b"60000" if overdue else b"1000")


def test_a_message_sent_after_the_wall_clock_was_set_back_has_its_place(tmp_path: Path) -> None:
    """The queue stays in order of due times: a short delay does not wait behind earlier messages."""
    clock = Machine()
    with EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path / "data"), world=World(clock)) as queue_manager:
        queue_manager.administration.define(QueueAttributes(name="LATER"))
        send(queue_manager, clock, 86_400_000)
    clock.wall_ms -= YEARS_MS
    clock.starts_again()

    with EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path / "data"), world=World(clock)) as queue_manager:
        send(queue_manager, clock, 5_000, 1_000)
        found = waiting(queue_manager, clock)

    assert [b"1000", b"5000", b"86400000"] == [body for body, _ in found]


class Ticking(Machine):
    """A clock that advances a little at each reading."""

    def monotonic(self) -> float:
        self.up_us = getattr(self, "up_us", self.up_ms * 1_000) + 350
        return self.up_us / 1_000_000


def test_messages_due_at_one_time_are_in_the_order_of_sending() -> None:
    """A millisecond can end between two readings of the clock, so the place of a message comes from one reading."""
    clock = Ticking()
    sent = moment(clock)
    with EmbeddedQueueManager("QM1", world=World(clock)) as queue_manager:
        connection = queue_manager.connect()
        for number in range(50):
            descriptor, body = staged(
                MessageDescriptor(message_id=b"m" * 24), b"%d" % number, target="LATER", delay_ms=60_000, now=sent
            )
            connection.put1(EMBEDDED_STAGING_QUEUE, descriptor, body, PutOption.NO_SYNCPOINT)
        found = [body for body, _ in waiting(queue_manager, clock)]

    assert [b"%d" % number for number in range(50)] == found
