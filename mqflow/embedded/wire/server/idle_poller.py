"""Waits for the requests of many connections on one thread, while the threads of the connections block.

The store's thread replies after a unit of work is durable. If each connection's own thread then received the next request, the
threads of sixteen connections would wait for each other in turn. The poller is one thread, and it is already awake.
This module knows descriptors and their connections, but no frame and no verb.
"""

import select
from typing import Final, Protocol

from mqflow.embedded.wire.protocol.wakeup import HasDescriptor, SocketSignal
from mqflow.world import Runner, Running, World

__all__ = ("QUIET_S", "Committers", "EpollIdlePoller", "IdleLine", "IdlePoller", "idle_poller_of_system")

QUIET_S: Final = 0.5
"""After this time without a request, a connection returns to its own thread, which checks whether the peer is alive."""

# With so many committing connections, the poller saves more time than it costs: measured with 1, 2, 3, 4 and 16 of them.
_COMMITTERS_MIN: Final = 4


class Committers:
    """Counts the connections that are committing now, and those that the poller has.

    If only a few connections are committing, their own threads answer sooner than the poller.
    """

    def __init__(self, runner: Runner, least: int | None = None) -> None:
        self._guard = runner.lock()
        self._least: Final = _COMMITTERS_MIN if least is None else least
        self._count = 0

    @property
    def are_many(self) -> bool:
        """True if enough connections commit for the poller to save time."""
        return self._count >= self._least

    def __enter__(self) -> None:
        with self._guard:
            self._count += 1

    def __exit__(self, *_: object) -> None:
        with self._guard:
            self._count -= 1


class IdleLine(Protocol):
    """A connection of the idle poller. The poller's thread calls `heard` and `tick`, which must not raise."""

    @property
    def stream(self) -> HasDescriptor:
        """The descriptor to wait for."""
        ...

    def heard(self) -> None:
        """Receive the bytes that have arrived, or the end of the stream."""

    def tick(self) -> None:
        """Record that at least `QUIET_S` seconds have passed."""


class IdlePoller(Protocol):
    """Waits for requests of connections, from `connect` to `disconnect`. Any thread can call these methods."""

    @property
    def committers(self) -> Committers:
        """Counts the committing connections."""
        ...

    def connect(self, line: IdleLine) -> None:
        """Wait for requests of this connection. Raises `OSError` or `RuntimeError` if the system lacks the resources."""

    def disconnect(self, line: IdleLine) -> None:
        """Stop waiting for requests of this connection. A call of `heard` or `tick` that has begun still completes."""

    def close(self) -> None:
        """End the poller. The caller must have disconnected all connections, and must not connect again."""


class EpollIdlePoller:
    """Waits for any number of connections with epoll. The poller's thread runs while the poller has connections."""

    def __init__(self, world: World, wake: SocketSignal) -> None:
        self.committers: Final = Committers(world.runner)
        self._runner = world.runner
        self._clock = world.clock
        self._wake = wake
        self._poll = select.epoll()
        self._poll.register(wake, select.EPOLLIN)
        self._guard = world.runner.lock()
        self._lines: dict[int, IdleLine] = {}
        self._running: Running | None = None
        self._closing = False

    def connect(self, line: IdleLine) -> None:
        """Wait for requests of this connection. Raises `OSError` or `RuntimeError` if the system lacks the resources."""
        with self._guard:
            if self._running is None:
                self._running = self._runner.start(self._run, "mqflow-switchboard")
            self._poll.register(line.stream.fileno(), select.EPOLLIN)
            self._lines[line.stream.fileno()] = line

    def disconnect(self, line: IdleLine) -> None:
        """Stop waiting for requests of this connection. A call of `heard` or `tick` that has begun still completes."""
        with self._guard:
            if self._lines.pop(line.stream.fileno(), None) is not None:
                self._poll.unregister(line.stream.fileno())

    def close(self) -> None:
        """End the poller. The caller must have disconnected all connections, and must not connect again."""
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
                if not lines:  # the next `connect` starts the thread again
                    self._running = None
                    return
            for line in lines:
                line.tick()


def idle_poller_of_system(world: World) -> IdlePoller | None:
    """Return an idle poller if the system has epoll; None on other systems."""
    # hasattr: `select` has epoll only on Linux.
    return EpollIdlePoller(world, SocketSignal()) if hasattr(select, "epoll") else None
