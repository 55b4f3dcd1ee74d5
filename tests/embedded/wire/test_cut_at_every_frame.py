"""The wire to a served queue manager is cut at every frame, in every way. Answers are true; no message is lost or doubled.

These tests try every case, while the failovers choose at random. For every request of a script there is a run in which the
request is lost. In another run half of the request is lost, and in a third the answer. The same cuts hit a whole application on
both event loops, which must reconnect and finish. No test depends on a clock.
"""

import logging
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from mqflow import App, Context
from mqflow.app.config.settings import ReconnectSettings, Settings
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.client.connection import ServedConnection
from mqflow.embedded.wire.client.dial import Dial, dial
from mqflow.embedded.wire.client.line import Line
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.protocol.addresses import Address
from mqflow.embedded.wire.protocol.requests import Request
from mqflow.embedded.wire.protocol.streams import Stream
from mqflow.embedded.wire.server.listener import Server, serve
from mqflow.events import Event, InDoubt, Reconnected
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import CallInterruptedError, ConnectionBrokenError, MQIError
from mqflow.mqi.options import GetOption, OpenOption, Persistence, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.runtime.connection import threaded_session
from mqflow.verbs import GetOptions
from tests.embedded.disk_faults.disk import memory_folder
from tests.embedded.failover.checking import violations
from tests.queue_contents import put, taken

IN, DONE = "ORDERS.IN", "ORDERS.DONE"
PERSISTENT = MessageDescriptor(persistence=Persistence.PERSISTENT, format="MQSTR")
UNIT = GetOptions(options=GetOption.SYNCPOINT)
MANY = 40
"""More frames than the script and the application have."""
MESSAGES = 4
FRAMES_OF_SCRIPT = 19
FIRST = 5
"""The frames before an application is connected. If its first connection fails in them, the application ends."""


class Cut(Enum):
    """The fate of the frame at which the wire is cut."""

    REQUEST_LOST = "request lost"
    REQUEST_HALVED = "request halved"
    ANSWER_LOST = "answer lost"


class Cutter:
    """Makes streams, counts the requests on all of them, and cuts one stream at the request number `at`."""

    def __init__(self, at: int, how: Cut) -> None:
        self.left = at
        self.how = how
        self.has_cut = False

    def dial(self, address: Address, tls: ssl.SSLContext | None, timeout_s: float) -> Stream:
        return cast("Stream", _Stream(dial(address, tls, timeout_s), self))  # `_Stream` passes the other methods on


class _Stream:
    """A connected socket that its cutter can cut. Heartbeats do not count as requests."""

    def __init__(self, whole: object, cutter: Cutter) -> None:
        assert isinstance(whole, socket.socket)
        self._whole = whole
        self._cutter = cutter
        self._answer_lost = False

    def send(self, data: bytes, flags: int = 0) -> int:
        if flags:
            return self._whole.send(data, flags)
        self._cutter.left -= 1
        if self._cutter.left:
            return self._whole.send(data)
        self._cutter.has_cut = True
        match self._cutter.how:
            case Cut.ANSWER_LOST:
                self._answer_lost = True
                return self._whole.send(data)
            case Cut.REQUEST_HALVED:
                self._whole.sendall(data[: len(data) // 2])
            case Cut.REQUEST_LOST:
                pass
        self._end()
        raise ConnectionResetError

    def recv(self, size: int, flags: int = 0) -> bytes:
        data = self._whole.recv(size, flags)
        if self._answer_lost and any(data):  # the server has answered, so it carried the request out
            self._end()
            raise ConnectionResetError
        return data

    def _end(self) -> None:
        self._whole.shutdown(socket.SHUT_RDWR)

    def __getattr__(self, name: str) -> object:
        return getattr(self._whole, name)


@contextmanager
def _served(at: int, how: Cut) -> Iterator[tuple[EmbeddedQueueManager, Server, Cutter]]:
    cutter = Cutter(at, how)
    with memory_folder() as folder, EmbeddedQueueManager("QM1") as owner:
        for name in (IN, DONE):
            owner.administration.define(QueueAttributes(name=name, default_persistence=1))
        with serve(owner, folder / "qm") as server:
            yield owner, server, cutter


def _left(owner: EmbeddedQueueManager, server: Server) -> tuple[list[str], list[str]]:
    """Return the messages on both queues, after the units of work of all cut connections are backed out."""
    while server.connection_count:
        threading.Event().wait(0.001)
    left, done = ([got.body.decode() for got in taken(owner, name)] for name in (IN, DONE))
    return left, done


class _Script:
    """Puts messages, moves them with each way to settle, and notes the answers."""

    def __init__(self, path: Path, dial: Dial) -> None:
        self.said: list[str] = []
        self._path = path
        self._dial = dial
        self._made = 0

    def run(self) -> None:
        manager = ServedQueueManager(self._path, dial=self._dial)
        try:
            with suppress(ConnectionBrokenError, CallInterruptedError):
                self._do(manager.connect())
        finally:
            manager.close()

    def _do(self, connection: ServedConnection) -> None:
        source = connection.open(IN, OpenOption.INPUT_SHARED | OpenOption.OUTPUT)
        for _ in range(4):
            name = self._new()
            with self._asking("put", name):
                connection.put(source, PERSISTENT, name.encode(), PutOption.NO_SYNCPOINT)
        for _ in range(2):
            got = connection.get(source, UNIT)
            assert got is not None
            moved = self._moved(connection, got.body)
            with self._asking("move", moved):
                connection.commit()
        exchange = connection.exchange(source, UNIT, commit=None, most=1)
        self._raise(exchange.get_error)
        moved = self._moved(connection, exchange.unit[0].body)
        with self._asking("move", moved):
            exchange = connection.exchange(source, UNIT, commit=True, most=1)
            self._raise(exchange.settle_error)
        self._raise(exchange.get_error)
        moved = self._moved(connection, exchange.unit[0].body)
        self._raise(connection.exchange(source, UNIT, commit=False, most=1).settle_error)
        self.said.append(f"c move-not {moved}")
        connection.backout()
        connection.disconnect()

    def _new(self) -> str:
        self._made += 1
        return str(self._made)

    def _moved(self, connection: ServedConnection, body: bytes) -> str:
        moved = f"{body.decode()}>{self._new()}"
        connection.put1(DONE, PERSISTENT, moved.encode(), PutOption.SYNCPOINT)
        return moved

    @staticmethod
    def _raise(error: MQIError | None) -> None:
        if error is not None:
            raise error

    @contextmanager
    def _asking(self, what: str, *names: str) -> Iterator[None]:
        self.said.append(f"c {what} {' '.join(names)}")
        try:
            yield
        except MQIError as error:
            answer = "unknown" if error.reason == Reason.CALL_INTERRUPTED else "not"
            self.said.append(f"c {what}-{answer} {' '.join(names)}")
            raise
        self.said.append(f"c {what}-done {' '.join(names)}")


def _wrong_after(at: int, how: Cut) -> list[str] | None:
    """Return the errors; None if the script has no frame with this number."""
    with _served(at, how) as (owner, server, cutter):
        script = _Script(server.path, cutter.dial)
        script.run()
        left, done = ([(name, 0) for name in names] for names in _left(owner, server))  # the script does not note deliveries
        _, wrong = violations(script.said, left, done)
    return wrong if cutter.has_cut or wrong else None


@pytest.mark.parametrize("how", Cut, ids=[each.value for each in Cut])
def test_every_answer_is_true_if_any_frame_is_cut(how: Cut) -> None:
    wrong = [_wrong_after(at, how) for at in range(1, MANY)]

    assert FRAMES_OF_SCRIPT == wrong.count([])
    assert MANY - 1 - FRAMES_OF_SCRIPT == wrong.count(None)


def test_a_doubt_that_is_called_a_refusal_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Line.reply

    def reply(
        self: Line, request: Request, frame: bytes | None, verb: str, object_name: str = "", *, unknown: bool = False
    ) -> Any:
        del unknown  # the defect
        return real(self, request, frame, verb, object_name, unknown=False)

    monkeypatch.setattr(Line, "reply", reply)

    assert any(_wrong_after(at, Cut.ANSWER_LOST) for at in range(1, MANY))


async def _moves_everything(path: Path, owner: EmbeddedQueueManager, dial: Dial) -> list[Event]:
    logging.getLogger("mqflow").setLevel(logging.CRITICAL)
    events: list[Event] = []

    def note(event: Event) -> None:
        events.append(event)

    settings = Settings(reconnect=ReconnectSettings(delays="(1)"))
    app = App("embedded::memory:", hooks=[note], settings=settings)

    @app.listener(IN)
    async def move(body: str, ctx: Context) -> None:
        await ctx.put(DONE, f"{body}>{len(events)}")

    put(owner, IN, *(b"%d" % number for number in range(MESSAGES)), descriptor=PERSISTENT)
    async with app.running(ServedQueueManager(path, dial=dial)) as running:
        while owner.administration.queue_status(IN).depth:  # noqa: ASYNC110 - threads change it; the test's limit ends it
            await anyio.sleep(0.001)
    assert not running.incidents
    return events


@pytest.mark.timeout(120)
@pytest.mark.parametrize("how", Cut, ids=[each.value for each in Cut])
def test_an_application_finishes_if_any_frame_is_cut(how: Cut, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[Event] = []
    monkeypatch.setattr(threaded_session, "_THREADED_WAIT_MS", 10)  # a stop takes effect at the end of a wait
    for at in range(FIRST, MANY // 2):
        with _served(at, how) as (owner, server, cutter):
            happened += anyio.run(_moves_everything, server.path, owner, cutter.dial, backend=backend)
            left, done = _left(owner, server)
        assert cutter.has_cut
        assert [] == left
        assert [str(number) for number in range(MESSAGES)] == sorted(name.split(">")[0] for name in done), f"cut at {at}"

    assert any(isinstance(event, Reconnected) for event in happened)
    assert any(isinstance(event, InDoubt) for event in happened)
