"""A queue manager in a process of its own: opened when its folder is free, served at its addresses, ended as it is told.

An active one and a standby are the same thing at different times. Knows the parts and puts them together.
"""

import os
import signal
import ssl
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import TaskStatus
from msgspec import Struct

from mqflow.app.channels.locate import SERVED_SOCKET
from mqflow.app.run.signals import stop_signals
from mqflow.cli.processes import takeover_rehearsal
from mqflow.cli.processes.delay_processors import DelayProcessors
from mqflow.cli.processes.file_limit import allow_all_descriptors, too_few
from mqflow.cli.processes.loading_progress import while_reading
from mqflow.cli.processes.parent_pipe import until_alone
from mqflow.cli.text.exit_codes import sentence_of
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.database import check_version
from mqflow.embedded.storage.folder import DataFolder, FolderError, FolderInUseError, prepare_folder
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.storage.standby import LockWait, first_in_line, standby_pid, until_free
from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.addresses import Address, TcpAddress, UnixAddress
from mqflow.embedded.wire.protocol.ending import End, Manner, reason_of
from mqflow.embedded.wire.server.listener import CONNECTIONS_MAX, Room, Server, ServingError, serve, serve_tcp
from mqflow.embedded.wire.server.users_file import UsersFile
from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.runtime.connection.loop_call import LoopCaller
from mqflow.world import THREADS

__all__ = ("Hosting", "StoppedByItselfError", "host")

_LOOK_S: Final = 0.01
"""How often it looks for what nobody tells: that the queue manager has stopped by itself, that connections have ended."""
_MOMENT_S: Final = 0.005
_AGAIN_S: Final = 0.001
_GRACE_S: Final = 2.0
"""How long applications may take, once it has stopped, to hear why, and a killed owner to let go of its sockets."""
_ENDED_FOR_GOOD: Final = signal.SIGUSR1
"""By which the active one tells those who stand by that nobody is to take over."""

Say = Callable[[str], None]


class StoppedByItselfError(Exception):
    """The queue manager could not go on."""

    def __init__(self, name: str, failure: str) -> None:
        super().__init__(name, failure)
        self.name = name
        self.failure = failure

    def __str__(self) -> str:
        return (
            f"{self.name} has stopped by itself: {self.failure or 'nobody said why.'} What was committed is on the disk; the "
            "outcome of what was being committed is unknown. When its folder can be used again, "
            f"mqflow qmgr start {self.name} goes on."
        )


class Hosting(Struct, frozen=True, kw_only=True):
    """What to serve, and where."""

    name: str
    folder: Path
    addresses: Sequence[Address]
    standby: bool = False
    users: UsersFile
    #: At all addresses together.
    connections_max: int = CONNECTIONS_MAX
    tls: ssl.SSLContext | None = None
    #: By which it learns that who started it is gone; it ends then, after the applications.
    lifeline: int | None = None
    #: How long the applications may take to drain then.
    alone_s: float = 60.0
    #: Where a record of each delayed message goes when it is released; empty for none.
    disposition_queue: str = ""
    #: A staging queue besides the queue manager's own; empty for none.
    delay_queue: str = ""


async def host(wanted: Hosting, say: Say) -> bool:
    """Serve the queue manager until it is told to end; return whether that was for good, so that nobody goes on.

    SIGTERM and Ctrl-C end this process immediately, SIGHUP controlled; a standby takes over. An order (`mqflow qmgr stop`) is
    for the queue manager: unless it is to be switched over, its standbys end too.

    Raises a `FolderError` where the folder cannot be had, a `ServingError` where an address cannot, and `StoppedByItselfError`
    where its storage failed.
    """
    ended = _Ending()
    if said := too_few(allow_all_descriptors(), wanted.connections_max):
        say(said)
    async with anyio.create_task_group() as group:
        await group.start(_listen_for_signals, ended)
        if wanted.lifeline is not None:
            group.start_soon(_listen_at, wanted.lifeline, ended)
        store = await _owned(wanted, ended, say)
        if store is not None:
            await _serve(wanted, store, ended, say)
        elif ended.for_good:
            say(f"{wanted.name} was ended, so nobody stands by any more.")
        group.cancel_scope.cancel()
    return ended.for_good


class _Ending:
    """That it is to end, and how: said by a signal on the loop, or by an application on a thread."""

    def __init__(self) -> None:
        self.how = End(Manner.IMMEDIATE)
        self.said = False
        #: That the queue manager is to end, not only this process.
        self.for_good = False
        self._loop_caller = LoopCaller()
        self._changed = anyio.Event()
        #: That who started it is gone.
        self.alone = anyio.Event()

    def say(self, how: End, *, for_good: bool = False) -> None:
        self.how = how
        self.said = True
        self.for_good = self.for_good or for_good
        self.look_again()

    def look_again(self) -> None:
        """Something has changed that somebody may wait for. From any thread."""
        self._loop_caller(self._wake)

    async def wait(self, until: Callable[[], bool], look_s: float | None = None) -> None:
        """Return when it was said, or this is so: looked at after each change, and every `look_s` seconds."""
        while not self.said and not until():
            self._changed = anyio.Event()
            with anyio.move_on_after(look_s):
                await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()  # of the event there is when this runs on the loop, not when a thread asked for it


async def _listen_for_signals(ended: _Ending, *, task_status: TaskStatus[None]) -> None:
    with anyio.open_signal_receiver(*stop_signals(), _ENDED_FOR_GOOD) as signals:
        task_status.started()
        async for number in signals:
            if number == _ENDED_FOR_GOOD:
                ended.say(End(Manner.IMMEDIATE), for_good=True)
                continue
            ended.say(End(Manner.CONTROLLED if number == signal.SIGHUP else Manner.IMMEDIATE))


async def _listen_at(lifeline: int, ended: _Ending) -> None:
    await until_alone(lifeline)
    ended.alone.set()
    ended.look_again()


async def _end_after_applications(servers: Sequence[Server], ended: _Ending, alone_s: float) -> None:
    """Have it end once it is alone and its applications, which are told so too, have drained; in any case after a time."""
    await ended.alone.wait()
    with anyio.move_on_after(alone_s):
        while any(server.connection_count for server in servers):  # noqa: ASYNC110 - threads end them
            await anyio.sleep(_LOOK_S)
    if not ended.said:
        ended.say(End(Manner.IMMEDIATE))


async def _owned(wanted: Hosting, ended: _Ending, say: Say) -> SqliteStore | None:
    """Return the storage once it is this process's; None where it was told to end before."""
    if not wanted.standby:
        return SqliteStore(wanted.folder)
    folder = prepare_folder(wanted.folder, create=True)
    with first_in_line(folder, THREADS, ended.look_again) as turn:
        said = await _wait_for_the_turn(wanted, folder, turn, ended, say)
        waits = False
        while not ended.said:
            try:
                return SqliteStore(wanted.folder)
            except FolderInUseError as error:
                if not waits:
                    if not said:
                        _prepare(wanted, folder)
                    say(f"{wanted.name} stands by: process {error.pid} is the active one.")
                    waits = True
            with until_free(folder, THREADS, ended.look_again) as free:
                await ended.wait(lambda: free.held)
    return None


async def _wait_for_the_turn(wanted: Hosting, folder: DataFolder, turn: LockWait, ended: _Ending, say: Say) -> bool:
    """Return when nobody stands by before this process; whether somebody did, so that it has waited in line."""
    with anyio.move_on_after(_MOMENT_S):  # whoever only looks who stands by has the lock for a moment too
        await ended.wait(lambda: turn.held)
    first = standby_pid(folder)
    if turn.held or first in {None, 0, os.getpid()}:
        await ended.wait(lambda: turn.held)
        return False
    _prepare(wanted, folder)
    say(f"{wanted.name} stands by in line: process {first} comes before.")
    await ended.wait(lambda: turn.held)
    return True


def _prepare(wanted: Hosting, folder: DataFolder) -> None:
    """Be ready to take over, while there is time for it. Raises `FolderVersionError` where it never could."""
    check_version(folder)
    takeover_rehearsal.rehearse(wanted.name)


async def _serve(wanted: Hosting, store: SqliteStore, ended: _Ending, say: Say) -> None:
    with ExitStack() as opened:
        folder = prepare_folder(wanted.folder, create=False)
        with while_reading(wanted.name, folder):
            queue_manager = EmbeddedQueueManager(wanted.name, store=store)
        opened.callback(queue_manager.close)

        def obey(request: requests.HostOrder) -> None:
            match request:
                case requests.Backup(path):
                    _back_up(store, Path(path), wanted.name)
                case requests.EndQueueManager(how):
                    if how.switchover and standby_pid(folder) is None:
                        said = "No standby is there to go on: start one with --standby, or stop without -s"
                        raise error_for(Reason.OPERATION_NOT_ALLOWED, "endmqm -s", queue_manager=wanted.name, detail=said)
                    queue_manager.quiesce()  # at once: who asked for it finds it so
                    ended.say(how, for_good=not how.switchover)

        room = Room(wanted.connections_max)
        servers = [
            opened.enter_context(closing(await _served(wanted, queue_manager, each, obey, room))) for each in _places(wanted)
        ]
        say(f"{wanted.name} is active, at {', '.join(str(server.address) for server in servers)}.")
        async with anyio.create_task_group() as group:
            delayed = DelayProcessors(queue_manager, disposition_queue=wanted.disposition_queue, delay_queue=wanted.delay_queue)
            group.start_soon(delayed.run)
            group.start_soon(_end_after_applications, servers, ended, wanted.alone_s)
            await ended.wait(lambda: queue_manager.stopped, _LOOK_S)
            say(f"{wanted.name} {f'ends ({ended.how.manner.value})' if ended.said else 'has stopped by itself'}.")
            delayed.stop()
            if ended.for_good:
                await _end_standbys(wanted.name, folder, say)
            await _end(queue_manager, servers, ended)
            group.cancel_scope.cancel()
        if not ended.said:
            raise StoppedByItselfError(wanted.name, queue_manager.failure)


async def _end_standbys(name: str, folder: DataFolder, say: Say) -> None:
    """Have those who stand by end first, one after the other, as they come first in line: they would take over."""
    told: list[int] = []
    with anyio.move_on_after(_GRACE_S):
        while (pid := standby_pid(folder)) is not None:
            if pid and pid not in told:
                told.append(pid)
                with suppress(ProcessLookupError):
                    os.kill(pid, _ENDED_FOR_GOOD)
            await anyio.sleep(_LOOK_S)
        return
    say(f"{name}: process {told[-1] if told else 0} stands by and does not answer; it ends when it goes on.")


def _back_up(store: SqliteStore, target: Path, name: str) -> None:
    try:
        store.backup(target)
    except (OSError, FolderError) as error:
        raise error_for(Reason.FILE_SYSTEM_ERROR, "Copying", str(target), name, detail=sentence_of(error)) from error


def _places(wanted: Hosting) -> tuple[Address, ...]:
    """The socket in its folder, by which commands reach it, and those that were asked for."""
    own = UnixAddress(wanted.folder / SERVED_SOCKET)
    return (own, *(address for address in wanted.addresses if address != own))


async def _served(
    wanted: Hosting,
    queue_manager: EmbeddedQueueManager,
    address: Address,
    obey: Callable[[requests.HostOrder], None],
    room: Room,
) -> Server:
    """Return the server at this address.

    A process that is killed closes one file after the other: whoever takes over has its lock a moment before its sockets are
    closed, a long moment on a busy machine.
    """
    if wanted.standby:
        with anyio.move_on_after(_GRACE_S):
            while True:
                try:
                    return _serve_at(wanted, queue_manager, address, obey, room)
                except ServingError:
                    await anyio.sleep(_AGAIN_S)
    return _serve_at(wanted, queue_manager, address, obey, room)


def _serve_at(
    wanted: Hosting,
    queue_manager: EmbeddedQueueManager,
    address: Address,
    obey: Callable[[requests.HostOrder], None],
    room: Room,
) -> Server:
    if isinstance(address, TcpAddress):
        return serve_tcp(queue_manager, address, wanted.users, tls=wanted.tls, host=obey, room=room)
    return serve(queue_manager, address.path, host=obey, room=room)


async def _end(queue_manager: EmbeddedQueueManager, servers: Sequence[Server], ended: _Ending) -> None:
    """Stop it, and let applications hear why before their connections are cut."""
    how = ended.how
    immediate = how.manner is Manner.IMMEDIATE
    queue_manager.stop(immediate=immediate, reason=reason_of(how))
    while not queue_manager.stopped:
        await anyio.sleep(_LOOK_S)
        if ended.how.manner is Manner.IMMEDIATE and not immediate:  # told again, and less patiently
            queue_manager.stop(reason=reason_of(ended.how))
    if how.switchover or how.reconnect or not immediate:
        with anyio.move_on_after(_GRACE_S), suppress(TimeoutError):
            while any(server.connection_count for server in servers):  # noqa: ASYNC110 - threads end them
                await anyio.sleep(_LOOK_S)
