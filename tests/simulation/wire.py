"""The network of a world: streams in memory that delay, split, cut or lose data, by chance or by a table.

The network has the interfaces of `mqflow.embedded.wire.client.dial` and of a listening socket. It can distinguish the frame of
a heartbeat from the frame of a request, but knows no call of the MQI.
"""

import ssl
import struct
from collections import deque
from collections.abc import Callable
from enum import Enum
from itertools import count
from socket import MSG_DONTWAIT, SO_RCVTIMEO, SO_SNDTIMEO
from typing import Final

from msgspec import Struct

from mqflow.embedded.wire.client.dial import Dial
from mqflow.embedded.wire.protocol.addresses import Address
from mqflow.embedded.wire.protocol.streams import Stream
from mqflow.embedded.wire.protocol.wakeup import HasDescriptor, Waited
from mqflow.embedded.wire.server.idle_poller import QUIET_S, Committers, IdleLine
from mqflow.world import Runner
from tests.simulation.world import Process, Waiters, World

__all__ = ("Act", "Fate", "IdlePoller", "Judge", "Listener", "Network", "Passing", "Signal", "Where", "Wire")

_TIMEOUT: Final = struct.Struct("ll")
_WINDOW_BYTES: Final = 256 * 1024
_FASTEST_S: Final = 0.000_05
_SLOWEST_S: Final = 0.002
_SPLIT_SHARE: Final = 1 / 8
_UNANSWERED_S: Final = 4.0


class Where(Enum):
    """The moment in the life of a frame at which a fault happens."""

    BEFORE = "before it"
    INSIDE = "inside it"
    AFTER = "after it"


class Act(Enum):
    """The fault."""

    CUT = "the wire is cut"
    BLACKHOLE = "nothing arrives any more"
    KILL = "the server is killed"
    STOP = "the server is stopped"
    LATE = "it comes late"


class Fate(Struct, frozen=True):
    """The fate of a frame."""

    act: Act
    where: Where = Where.BEFORE
    late_s: float = 0.0


class Passing(Struct, frozen=True):
    """A frame that is about to be sent."""

    stream: "_Stream"
    data: bytes
    #: True from the application to the server, False back.
    is_request: bool


Judge = Callable[[Passing], Fate | None]


def _calm(passing: Passing) -> Fate | None:
    del passing
    return None


class Network:
    """The listeners of each address, and every wire."""

    def __init__(self, world: World) -> None:
        self.world: Final = world
        self.listeners: dict[Address, Listener] = {}
        self.wires: dict[Wire, None] = {}
        #: The function that decides about each sent frame; a heartbeat can only be lost.
        self.judge: Judge = _calm
        #: Whether all data is lost without an error.
        self.partitioned = False
        self.numbers: Final = count(3)
        #: The largest number of dials at one time, by process.
        self.dialling: dict[Process, int] = {}
        self.dialled_at_once: dict[Process, int] = {}

    def listen(self, process: Process, address: Address) -> "Listener":
        """Return the listener at the address now."""
        listener = Listener(self, process)
        self.listeners[address] = listener
        process.at_death.append(listener.close)
        return listener

    def dial_from(self, process: Process) -> Dial:
        """Return the dial function of this process."""

        def dial(address: Address, tls: ssl.SSLContext | None, timeout_s: float) -> Stream:
            del tls
            under_way = self.dialling[process] = self.dialling.get(process, 0) + 1
            self.dialled_at_once[process] = max(under_way, self.dialled_at_once.get(process, 0))
            try:
                return self._dial(process, address, timeout_s)
            finally:
                self.dialling[process] -= 1

        return dial

    def cut_all(self) -> None:
        """Cut every wire."""
        for wire in tuple(self.wires):
            wire.cut()

    def _dial(self, process: Process, address: Address, timeout_s: float) -> Stream:
        self.world.sleep(self.latency_s())
        if self.partitioned:
            self.world.sleep(min(timeout_s, _UNANSWERED_S))
            raise TimeoutError(110, "Connection timed out")
        listener = self.listeners.get(address)
        if listener is None or listener.closed:
            raise ConnectionRefusedError(111, "Connection refused")
        wire = Wire(self, process, listener.process)
        self.wires[wire] = None
        listener.offer(wire.server)
        return wire.client

    def latency_s(self) -> float:
        """Return the time that data needs to arrive."""
        return _FASTEST_S + self.world.chance.random() * (_SLOWEST_S - _FASTEST_S)


class Listener:
    """A listener with the interface of a listening socket."""

    def __init__(self, network: Network, process: Process) -> None:
        self.process: Final = process
        self.closed = False
        self.waiters: Waiters = deque()
        self._network = network
        self._number = next(network.numbers)
        self._backlog: deque[_Stream] = deque()

    @property
    def readable(self) -> bool:
        return bool(self._backlog)

    def offer(self, stream: "_Stream") -> None:
        self._backlog.append(stream)
        self._network.world.wake(self.waiters)

    def accept(self) -> tuple["_Stream", object]:
        return self._backlog.popleft(), None

    def fileno(self) -> int:
        return -1 if self.closed else self._number

    def close(self) -> None:
        self.closed = True
        for stream in self._backlog:
            stream.close()
        self._backlog.clear()


class Wire:
    """One connection: two streams, and the data between them."""

    def __init__(self, network: Network, client: Process, server: Process) -> None:
        self.network: Final = network
        self.swallows = False
        self.client: Final = _Stream(self, client, is_client=True)
        self.server: Final = _Stream(self, server, is_client=False)
        self.client.peer, self.server.peer = self.server, self.client
        for stream in (self.client, self.server):
            stream.process.at_death.append(stream.close)

    def cut(self) -> None:
        """Let both ends see a reset."""
        self.client.reset()
        self.server.reset()

    def swallow(self) -> None:
        """Let no more data arrive."""
        self.swallows = True

    def forget(self) -> None:
        """Record that both ends are closed."""
        self.network.wires.pop(self, None)
        for stream in (self.client, self.server):
            if stream.process.alive:
                stream.process.at_death.remove(stream.close)


class _Stream:
    """One end of a wire, with the interface of a connected socket (`mqflow.embedded.wire.protocol.streams.Stream`)."""

    peer: "_Stream"

    def __init__(self, wire: Wire, process: Process, *, is_client: bool) -> None:
        self.wire: Final = wire
        self.process: Final = process
        self.is_client: Final = is_client
        self.waiters: Waiters = deque()
        self._network = wire.network
        self._world = wire.network.world
        self._number = next(wire.network.numbers)
        self._room: Waiters = deque()
        self._inbox = bytearray()
        #: The number of sent bytes that the peer has not read.
        self._untaken_bytes = 0
        self._arrives_at = 0.0
        self._ended = self._broken = self._deaf = self.closed = False
        self._recv_s: float | None = None
        self._send_s: float | None = None

    # -- as a socket

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        while True:
            if self.closed:
                raise OSError(9, "Bad file descriptor")
            if self._inbox:
                return self._take(bufsize)
            if self._broken:
                raise ConnectionResetError(104, "Connection reset by peer")
            if self._ended or self._deaf:
                return b""
            if flags & MSG_DONTWAIT or not self._world.wait((self.waiters,), self._recv_s):
                raise BlockingIOError(11, "Resource temporarily unavailable")

    def send(self, data: bytes | bytearray | memoryview, flags: int = 0, /) -> int:
        data = bytes(data)
        while True:
            self.process.here()
            if self.closed:
                raise OSError(9, "Bad file descriptor")
            if self._broken or (self._ended and self.peer.closed):
                raise BrokenPipeError(32, "Broken pipe")
            if self._untaken_bytes < _WINDOW_BYTES:
                break
            if flags & MSG_DONTWAIT or not self._world.wait((self._room,), self._send_s):
                raise BlockingIOError(11, "Resource temporarily unavailable")
        self._pass(data)
        return len(data)

    def setsockopt(self, level: int, option: int, value: int | bytes, /) -> None:
        del level
        if isinstance(value, bytes):
            seconds, micros = _TIMEOUT.unpack(value)
            if option == SO_RCVTIMEO:
                self._recv_s = seconds + micros / 1_000_000 or None  # 0 means no limit
            elif option == SO_SNDTIMEO:
                self._send_s = seconds + micros / 1_000_000 or None

    def fileno(self) -> int:
        return -1 if self.closed else self._number

    def getpeername(self) -> tuple[str, int]:
        return ("simulated", 0)

    def shutdown(self, how: int, /) -> None:
        if self.closed or self._broken:
            raise OSError(107, "Transport endpoint is not connected")
        self._deaf = True
        self._world.wake(self.waiters)
        if how:
            self._say_end()

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._world.wake(self.waiters)
        self._say_end()
        if self.peer.closed:
            self.wire.forget()

    # -- the data between the two ends

    @property
    def readable(self) -> bool:
        return bool(self._inbox) or self._broken or self._ended or self._deaf

    def reset(self) -> None:
        """Let the stream see that the connection is gone; data that was not read is lost."""
        self._broken = True
        self._inbox.clear()
        self._world.wake(self.waiters)
        self._world.wake(self._room)

    def _take(self, bufsize: int) -> bytes:
        taken = bytes(self._inbox[:bufsize])
        del self._inbox[:bufsize]
        self.peer._untaken_bytes -= len(taken)
        self._world.wake(self.peer._room)
        return taken

    def _pass(self, data: bytes) -> None:
        network, wire = self._network, self.wire
        fate = network.judge(Passing(self, data, self.is_client)) if any(data) else None
        if fate is None:
            self._deliver(data)
            return
        self._world.note(fate.act.value, fate.where.value, len(data))
        if fate.act is Act.LATE:
            self._deliver(data, fate.late_s)
            return
        sent = {Where.BEFORE: b"", Where.INSIDE: data[: len(data) // 2], Where.AFTER: data}[fate.where]
        arrives_at = self._deliver(sent) if sent else self._world.now
        match fate.act:
            case Act.CUT:
                self._world.at(arrives_at, wire.cut)
                if fate.where is not Where.AFTER:
                    self._broken = True
                    raise ConnectionResetError(104, "Connection reset by peer")
            case Act.BLACKHOLE:
                self._world.at(arrives_at, wire.swallow)
            case Act.STOP:
                self._world.at(arrives_at, wire.server.process.stop)
            case Act.KILL if fate.where is Where.AFTER:
                # The server may or may not have performed the request by then.
                self._world.at(arrives_at + self._world.chance.random() * 0.002, wire.server.process.kill)
            case Act.KILL:
                wire.server.process.kill()
            case _:
                raise AssertionError(fate)

    def _deliver(self, data: bytes, late_s: float = 0.0) -> float:
        """Send the data after all earlier data; return the time of its arrival."""
        network, chance = self._network, self._world.chance
        self._untaken_bytes += len(data)
        if self.wire.swallows or network.partitioned:
            return self._world.now
        parts = [data]
        if len(data) > 1 and chance.random() < _SPLIT_SHARE:
            at = 1 + chance.choose(len(data) - 1)
            parts = [data[:at], data[at:]]
        for part in parts:
            self._arrives_at = max(self._arrives_at, self._world.now + late_s + network.latency_s())
            self._world.at(self._arrives_at, lambda part=part: self.peer._arrive(part))  # type: ignore[misc]
        return self._arrives_at

    def _arrive(self, data: bytes) -> None:
        if self._broken or self.closed or self.wire.swallows or self._network.partitioned:
            return
        self._world.arrived(data)
        self._inbox += data
        self._world.wake(self.waiters)

    def _say_end(self) -> None:
        """Let the peer find the end after all data."""
        if self.wire.swallows or self._network.partitioned:
            return
        self._arrives_at = max(self._arrives_at, self._world.now + self._network.latency_s())
        self._world.at(self._arrives_at, self.peer._end)

    def _end(self) -> None:
        if not self.wire.swallows:
            self._ended = True
            self._world.wake(self.waiters)


class Signal:
    """A signal with the interface of `mqflow.embedded.wire.protocol.wakeup.Signal`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._waiters: Waiters = deque()
        self._said = False

    def set(self) -> None:
        self._said = True
        self._world.wake(self._waiters)

    def clear(self) -> None:
        self._said = False

    def heard_within(self, wait_s: float) -> bool:
        if not self._said:
            self._world.wait((self._waiters,), wait_s)
        return self._said

    def heard_beside(self, stream: HasDescriptor, wait_s: float | None) -> Waited:
        assert isinstance(stream, _Stream | Listener)
        if not self._said and not stream.readable:
            self._world.wait((self._waiters, stream.waiters), wait_s)
        return Waited(stream.readable, self._said)

    def close(self) -> None:
        """Do nothing: a signal holds no file."""


class IdlePoller:
    """Waits for many streams at the same time, like the poller with epoll."""

    def __init__(self, world: World, runner: Runner) -> None:
        self.committers: Final = Committers(runner, least=1)
        self._world = world
        self._runner = runner
        #: In the order of arrival, so that a simulated run can be repeated.
        self._lines: dict[IdleLine, None] = {}
        self._changed: Waiters = deque()
        self._runs = False
        self._closing = False

    def connect(self, line: IdleLine) -> None:
        self._lines[line] = None
        if not self._runs:
            self._runs = True
            self._runner.start(self._run, "switchboard")
        self._world.wake(self._changed)

    def disconnect(self, line: IdleLine) -> None:
        self._lines.pop(line, None)

    def close(self) -> None:
        self._closing = True
        self._world.wake(self._changed)

    def _run(self) -> None:
        tick_at = self._world.now + QUIET_S
        while not self._closing:
            ready = [line for line in self._lines if _stream_of(line).readable]
            for line in ready:
                line.heard()
            if self._world.now >= tick_at:
                tick_at = self._world.now + QUIET_S
                for line in tuple(self._lines):
                    line.tick()
            elif not ready:
                streams = [_stream_of(line).waiters for line in self._lines]
                self._world.wait((self._changed, *streams), QUIET_S if streams else None)


def _stream_of(line: IdleLine) -> _Stream:
    assert isinstance(line.stream, _Stream)
    return line.stream
