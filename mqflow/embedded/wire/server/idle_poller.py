"""Listens to many connections at once, on one thread, while theirs sleep.

A unit of work that becomes durable is answered by the store's thread. Were each connection's own thread to read the next
request too, sixteen applications would be sixteen threads in turn waiting for each other; here it is one, awake already. Knows
descriptors and who they belong to; knows no frame and no verb.
"""

import select
from typing import Final, Protocol

from mqflow.embedded.wire.protocol.wakeup import HasDescriptor, SocketSignal
from mqflow.world import Clock, Runner, Running

__all__ = ("QUIET_S", "Committers", "EpollIdlePoller", "IdlePoller", "Line", "idle_poller_of_system")

QUIET_S: Final = 0.5
"""How long nothing may be heard of a line before its owner listens itself, who knows how long is too long."""

# From so many on a loan saves more than it costs: measured with 1, 2, 3, 4 and 16 at a time.
_COMMITTERS_MIN: Final = 4


class Committers:
    """Those who commit now, or have lent their lines. For a few it is quicker that each has its own thread answer it."""

    def __init__(self, runner: Runner, least: int | None = None) -> None:
        self._guard = runner.lock()
        self._least: Final = _COMMITTERS_MIN if least is None else least
        self._count = 0

    @property
    def are_many(self) -> bool:
        """Whether lines are worth lending."""
        return self._count >= self._least

    def __enter__(self) -> None:
        with self._guard:
            self._count += 1

    def __exit__(self, *_: object) -> None:
        with self._guard:
            self._count -= 1


class Line(Protocol):
    """What is listened to. Both calls are made on the idle_poller's thread, and raise nothing."""

    @property
    def stream(self) -> HasDescriptor:
        """What to wait for."""
        ...

    def heard(self) -> None:
        """Something has come, or the end."""
        ...

    def tick(self) -> None:
        """`QUIET_S` are over, or more."""
        ...


class IdlePoller(Protocol):
    """Listens to lines, from `connect` to `disconnect`. Any thread may call either."""

    @property
    def committers(self) -> Committers:
        """Of those whose lines these are."""
        ...

    def connect(self, line: Line) -> None:
        """Listen to it from now on. Raises `OSError` or `RuntimeError` where the system has no room for that."""
        ...

    def disconnect(self, line: Line) -> None:
        """Listen to it no more; what is being told of it at this moment still is."""
        ...

    def close(self) -> None:
        """End. No line is connected any more, nor ever again."""
        ...


class EpollIdlePoller:
    """A idle_poller for any number of lines. Its thread lives while it has some."""

    def __init__(self, runner: Runner, clock: Clock, wake: SocketSignal) -> None:
        self.committers: Final = Committers(runner)
        self._runner = runner
        self._clock = clock
        self._wake = wake
        self._poll = select.epoll()
        self._poll.register(wake, select.EPOLLIN)
        self._guard = runner.lock()
        self._lines: dict[int, Line] = {}
        self._running: Running | None = None
        self._closing = False

    def connect(self, line: Line) -> None:
        """Listen to it from now on. Raises `OSError` or `RuntimeError` where the system has no room for that."""
        with self._guard:
            if self._running is None:
                self._running = self._runner.start(self._run, "mqflow-switchboard")
            self._poll.register(line.stream.fileno(), select.EPOLLIN)
            self._lines[line.stream.fileno()] = line

    def disconnect(self, line: Line) -> None:
        """Listen to it no more; what is being told of it at this moment still is."""
        with self._guard:
            if self._lines.pop(line.stream.fileno(), None) is not None:
                self._poll.unregister(line.stream.fileno())

    def close(self) -> None:
        """End. No line is connected any more, nor ever again."""
        with self._guard:
            self._closing = True
            running = self._running
        self._wake.set()
        if running is not None:
            running.join()
        self._poll.close()
        self._wake.close()

    def _run(self) -> None:
        tick_at = self._clock.monotonic() + QUIET_S
        while not self._closing:
            for descriptor, _ in self._poll.poll(QUIET_S):
                line = self._lines.get(descriptor)
                if line is not None:
                    line.heard()
            now = self._clock.monotonic()
            if now < tick_at:
                continue
            tick_at = now + QUIET_S
            with self._guard:
                lines = tuple(self._lines.values())
                if not lines:  # it is started again when it is needed
                    self._running = None
                    return
            for line in lines:
                line.tick()


def idle_poller_of_system(runner: Runner, clock: Clock) -> IdlePoller | None:
    """Return one where the system has what it takes; None elsewhere than on Linux."""
    return EpollIdlePoller(runner, clock, SocketSignal()) if hasattr(select, "epoll") else None
