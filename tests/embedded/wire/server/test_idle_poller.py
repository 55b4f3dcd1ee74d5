"""The idle poller: the connections that it hears and ticks, and the life of its thread. The test makes thread and clock."""

import select
import socket
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from mqflow.embedded.wire.protocol.wakeup import SocketSignal
from mqflow.embedded.wire.server.idle_poller import QUIET_S, Committers, EpollIdlePoller, idle_poller_of_system
from mqflow.world import THREADS, World
from tests.conformance.under_test import ManualClock

pytestmark = pytest.mark.skipif(not hasattr(select, "epoll"), reason="lines are lent where the system has epoll: Linux")


class Line:
    """A connection that notes its calls. Its stream has a byte if `readable`, and each `heard` is the next step of the test."""

    def __init__(self, kit: "Kit", name: str, *, readable: bool) -> None:
        self.kit, self.name = kit, name
        self.stream, self.peer = socket.socketpair()
        if readable:
            self.peer.send(b"!")

    def heard(self) -> None:
        self.kit.said.append(f"hear {self.name}")
        self.kit.steps.pop(0)()

    def tick(self) -> None:
        self.kit.said.append(f"tick {self.name}")


class Kit:
    """A poller whose thread runs when the test says so."""

    def __init__(self) -> None:
        self.said, self.steps, self.clock, self.lines = list[str](), list[Callable[[], object]](), ManualClock(), list[Line]()
        self.fails: list[RuntimeError] = []
        runner: Any = SimpleNamespace(lock=THREADS.lock, start=self.start)
        self.wake = SocketSignal()
        self.poller = EpollIdlePoller(World(self.clock, runner=runner), self.wake)

    def start(self, target: Callable[[], None], name: str) -> Any:
        if self.fails:
            raise self.fails.pop()
        self.said.append(f"start {name}")
        self.run = target
        return SimpleNamespace(join=lambda: self.said.append("awake" if self.awake() else "asleep"))

    def awake(self) -> bool:
        """Return whether a wait of the thread would end."""
        return self.wake.fileno() in dict(self.poller._poll.poll(0))

    def line(self, name: str, *, readable: bool = False) -> Line:
        self.lines.append(Line(self, name, readable=readable))
        return self.lines[-1]

    def ran(self, *steps: Callable[[], object]) -> list[str]:
        """Return what the thread does until it ends."""
        self.said.clear()
        self.steps = list(steps)
        self.run()
        return self.said.copy()


@pytest.fixture
def kit() -> Iterator[Kit]:
    made = Kit()
    yield made
    for line in made.lines:
        line.stream.close()
        line.peer.close()
    if made.wake.fileno() >= 0:
        made.poller.close()


def test_the_poller_hears_a_line_with_bytes_and_ticks_every_line_each_half_second(kit: Kit) -> None:
    busy, idle = kit.line("busy", readable=True), kit.line("idle")
    for line in (busy, idle):
        kit.poller.connect(line)
    assert ["start mqflow-switchboard"] == kit.said

    def after(seconds: float) -> Callable[[], None]:
        return lambda: kit.clock.advance(seconds)

    def end() -> None:
        for line in (busy, idle, busy):
            kit.poller.disconnect(line)
        kit.clock.advance(QUIET_S)

    ticks = ["tick busy", "tick idle"]
    once, twice = ["hear busy"], ["hear busy"] * 2
    assert [*twice, *ticks, *once, *ticks, *twice, *ticks, *once] == kit.ran(
        after(0.25), after(0.25), after(0.75), after(0.25), after(0.25), end
    )
    kit.poller.connect(idle)
    assert ["start mqflow-switchboard"] == kit.said[-1:]


def test_a_close_ends_the_thread_and_a_poller_without_a_thread_closes_too(kit: Kit) -> None:
    kit.poller.connect(kit.line("busy", readable=True))

    assert ["hear busy", "awake"] == kit.ran(kit.poller.close)
    assert (True, -1) == (kit.poller._poll.closed, kit.wake.fileno())
    other = Kit()
    other.poller.close()
    assert ([], True, -1) == (other.said, other.poller._poll.closed, other.wake.fileno())


def test_a_wake_up_hears_no_line(kit: Kit) -> None:
    kit.poller.connect(kit.line("busy", readable=True))
    kit.wake.set()

    assert ["hear busy", "awake"] == kit.ran(kit.poller.close)


def test_a_line_is_not_connected_without_a_thread_or_room_in_the_system(kit: Kit) -> None:
    line = kit.line("a")
    kit.fails.append(RuntimeError("can't start new thread"))
    with pytest.raises(RuntimeError, match="can't start"):
        kit.poller.connect(line)
    kit.poller.connect(line)
    with pytest.raises(FileExistsError):
        kit.poller.connect(line)

    assert ["start mqflow-switchboard"] == kit.said


def test_the_poller_is_worth_it_from_four_committers_on() -> None:
    committers, fewer = Committers(THREADS), Committers(THREADS, least=1)
    found = [committers.are_many]
    for _ in range(4):
        committers.__enter__()
        found.append(committers.are_many)
    committers.__exit__()
    with fewer:
        found += [committers.are_many, fewer.are_many]
    committers.__enter__()
    found.append(committers.are_many)

    assert [False, False, False, False, True, False, True, True] == found
    assert not fewer.are_many


def test_a_system_without_epoll_has_no_poller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(select, "epoll")

    assert idle_poller_of_system(World(ManualClock())) is None
