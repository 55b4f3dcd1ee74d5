"""The processes of failovers: owners of one folder, and applications that put, move and collect messages.

Each process is a forked child of `failovers`. For each call, the process writes a line before the call and a line after the
answer. A line is one system call, so a killed process leaves its lines. The answers are: done, certainly not done, and unknown
(2549).
"""

import logging
import os
import random
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import anyio

from mqflow import App, Context
from mqflow.app.config.settings import ReconnectSettings, Settings
from mqflow.cli.processes import takeover_rehearsal
from mqflow.cli.processes.queue_manager_process import HostOptions, host
from mqflow.cli.processes.stop_event import stop_event
from mqflow.embedded.wire.client.connection import ServedConnection
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.end_manner import End, Manner
from mqflow.embedded.wire.server.users_file import UsersFile
from mqflow.events import Event, ListenerStarted, Reconnected
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import GetOption, OpenOption, Persistence, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import Exchange, GetOptions, Got, ObjectHandle
from mqflow.world import SYSTEM_CLOCK
from tests.embedded.storage.stored_messages import say

__all__ = (
    "BUSY_MS", "DONE", "IN", "SOCKET", "application", "collector", "mover", "owner", "prepare", "producer", "switch_over",
)  # fmt: skip

IN, DONE, SOCKET = "ORDERS.IN", "ORDERS.DONE", "served.sock"
_FOR_DELIVERY: Final = GetOptions(options=GetOption.SYNCPOINT | GetOption.WAIT, wait_ms=50)
_MORE: Final = GetOptions(options=GetOption.SYNCPOINT)
_PERSISTENT: Final = MessageDescriptor(persistence=Persistence.PERSISTENT, format="MQSTR")
_AGAIN_S: Final = 0.003
_HANDLING_S: Final = 0.001
_STATES: Final = {"stands by:": "standby", "stands by in line": "line", "is active": "active", " ends ": "ends"}
BUSY_MS: Final = 1.5
"""How long a producer rests between two messages. The queues must stay short: otherwise the load of messages is measured."""


def prepare() -> None:
    """Rehearse a takeover once, in this process. Otherwise each owner that is forked from it would rehearse again."""
    takeover_rehearsal.rehearse("QM1")
    takeover_rehearsal.rehearse = _rehearsed


def _rehearsed(name: str) -> None:
    del name


def owner(folder: Path) -> None:
    """Run the active queue manager, or its standby if another process is active."""

    def tell(sentence: str) -> None:
        for words, state in _STATES.items():
            if words in sentence:
                say("owner", os.getpid(), state, SYSTEM_CLOCK.monotonic())

    wanted = HostOptions(name="QM1", folder=folder, addresses=(), standby=True, users=UsersFile(folder / "users", bytes))
    anyio.run(host, wanted, tell)


def switch_over(folder: Path) -> None:
    """Ask the active queue manager to switch over to its standby, as `mqflow qmgr stop -s` does."""
    manager = ServedQueueManager(folder / SOCKET)
    with suppress(MQIError):  # the queue manager may have ended before it answered
        manager.administration.order(requests.EndQueueManager(End(Manner.IMMEDIATE, reconnect=True, switchover=True)))


def _witness(who: str) -> None:
    """Print each get of this process, on any connection, and its answer: the messages with their BackoutCounts."""
    whole_get, whole_exchange = ServedConnection.get, ServedConnection.exchange

    def get(self: ServedConnection, handle: Any, options: GetOptions) -> Got | None:
        me = f"{who}/{id(self)}"
        say(me, "get", 1)
        try:
            got = whole_get(self, handle, options)
        except MQIError as error:
            say(me, _refused(error))
            raise
        say(me, "got", *_shown(() if got is None else (got,)))
        return got

    def exchange(self: ServedConnection, handle: Any, options: GetOptions, *, commit: bool | None, most: int) -> Exchange:
        me = f"{who}/{id(self)}"
        say(me, "get", most)
        answer = whole_exchange(self, handle, options, commit=commit, most=most)
        error = answer.settle_error or answer.get_error
        say(me, *(("got", *_shown(answer.unit)) if error is None else (_refused(error),)))
        return answer

    ServedConnection.get = get  # type: ignore[method-assign]  # a witness, in this process
    ServedConnection.exchange = exchange  # type: ignore[method-assign]  # the same


def _refused(error: MQIError) -> str:
    """Return the word for a refused get. A get without an answer can have delivered a message, so it counts as a delivery."""
    return "got-lost" if error.reason in {Reason.CONNECTION_BROKEN, Reason.CALL_INTERRUPTED} else "got-not"


def _shown(unit: Sequence[Got]) -> list[str]:
    return [f"{got.body.decode()}={got.descriptor.backout_count}" for got in unit]


class _Client:
    """An application that reconnects without a delay. It does not use mqflow's runtime, so it tests the protocol alone."""

    def __init__(self, who: str, folder: Path) -> None:
        self.who = who
        _witness(who)
        self.made = 0
        self.asked_to_end = threading.Event()  # `work` replaces it
        self._manager = ServedQueueManager(folder / SOCKET, name="QM1")
        self._away = True  # so that it also prints its first success

    def say(self, *words: object) -> None:
        say(self.who, *words)

    def new_name(self) -> str:
        self.made += 1
        return f"{self.who}.{self.made}"

    def work(self, turn: Callable[[ServedConnection], None]) -> None:
        """Call `turn` again and again, on one connection after the other, until the end is requested."""
        with stop_event(signal.SIGTERM) as self.asked_to_end:
            while not self.asked_to_end.is_set():
                self._work_on_connection(turn)

    def _work_on_connection(self, turn: Callable[[ServedConnection], None]) -> None:
        try:
            connection = self._manager.connect()
            while not self.asked_to_end.is_set():
                turn(connection)
                if self._away:
                    self._away = False
                    self.say("back", SYSTEM_CLOCK.monotonic())
            connection.backout()
            connection.disconnect()
        except MQIError:
            self._away = True
            self._manager.close()
            self.asked_to_end.wait(_AGAIN_S)

    @contextmanager
    def asking(self, what: str, *names: str) -> Iterator[None]:
        """Print the call before the block, and its answer after the block."""
        self.say(what, *names)
        try:
            yield
        except MQIError as error:
            self.say(f"{what}-unknown" if error.reason == Reason.CALL_INTERRUPTED else f"{what}-not", *names)
            raise
        self.say(f"{what}-done", *names)


def producer(who: str, folder: Path) -> None:
    """Put persistent messages outside any unit of work, each with a name of its own."""
    client = _Client(who, folder)

    def put(connection: ServedConnection) -> None:
        name = client.new_name()
        with client.asking("put", name):
            connection.put1(IN, _PERSISTENT, name.encode(), PutOption.NO_SYNCPOINT)
        client.asked_to_end.wait(BUSY_MS / 1_000)

    client.work(put)


def mover(who: str, folder: Path, *, repeats_commits: bool = False) -> None:
    """Get one to three messages and put as many on another queue, in one unit of work. Back some units of work out."""
    client = _Client(who, folder)
    chance = random.Random(who)  # noqa: S311 - repeatable, not secret
    doubtful: list[str] = []

    def move(connection: ServedConnection) -> None:
        while doubtful:
            connection.put1(DONE, _PERSISTENT, doubtful.pop().encode(), PutOption.NO_SYNCPOINT)
        source = connection.open(IN, OpenOption.INPUT_SHARED)
        try:
            moved = _moved(connection, source)
            if moved and chance.random() < 0.1:
                connection.backout()
            elif moved:
                try:
                    with client.asking("move", *moved):
                        connection.commit()
                except MQIError as error:
                    if repeats_commits and error.reason == Reason.CALL_INTERRUPTED:
                        doubtful.extend(moved)
                    raise
        finally:
            with suppress(MQIError):
                connection.close(source)

    def _moved(connection: ServedConnection, source: ObjectHandle) -> list[str]:
        moved: list[str] = []
        for number in range(chance.randint(1, 3)):
            got = connection.get(source, _MORE if number else _FOR_DELIVERY)
            if got is None:
                break
            client.asked_to_end.wait(_HANDLING_S)
            moved.append(f"{got.body.decode()}>{client.new_name()}")
            connection.put1(DONE, _PERSISTENT, moved[-1].encode(), PutOption.SYNCPOINT)
        return moved

    client.work(move)


def collector(who: str, folder: Path) -> None:
    """Get the moved messages, several in each unit of work."""
    client = _Client(who, folder)

    def collect(connection: ServedConnection) -> None:
        source = connection.open(DONE, OpenOption.INPUT_SHARED)
        names: list[str] = []
        while len(names) < 8 and (got := connection.get(source, _MORE if names else _FOR_DELIVERY)):
            names.append(got.body.decode())
        if names:
            client.asked_to_end.wait(_HANDLING_S)
            with client.asking("collect", *names):
                connection.commit()
        connection.close(source)

    client.work(collect)


def application(who: str, folder: Path, delays: str) -> None:
    """Move messages like `mover`, but as a whole mqflow application, which reconnects by itself."""
    made = 0
    _witness(who)
    logging.getLogger("mqflow").setLevel(logging.CRITICAL)  # each outage is known here

    def tell(event: Event) -> None:
        match event:
            case ListenerStarted():
                say(who, "started")
            case Reconnected():
                say(who, "back", SYSTEM_CLOCK.monotonic())
            case _:
                pass

    app = App(
        f"embedded+unix:{folder / SOCKET}?qmgr=QM1",
        name=who,
        hooks=[tell],
        settings=Settings(reconnect=ReconnectSettings(delays=delays)),
    )

    @app.listener(IN, concurrency=2)
    async def move(body: str, ctx: Context) -> None:
        nonlocal made
        made += 1
        await ctx.put(DONE, f"{body}>{who}.{made}")

    os._exit(app.run())
