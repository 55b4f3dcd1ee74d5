"""A queue manager in its own process: it waits for its folder, serves its addresses, and ends on request.

The active process and its standbys run the same program. A standby waits for the folder, and then becomes the active process.
"""

import os
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Final

import anyio
from msgspec import Struct

from mqflow.app.channels.location import SERVED_SOCKET, store_of, when_free
from mqflow.app.errors import ConfigurationError
from mqflow.cli.processes import takeover_rehearsal
from mqflow.cli.processes.delay_processors import DelayProcessors
from mqflow.cli.processes.end_request import END_FOR_GOOD_SIGNAL, EndRequest, listen_for_signals, watch_parent
from mqflow.cli.processes.loading_progress import loading_line
from mqflow.cli.processes.served_connections import raise_open_file_limit, too_few_open_files
from mqflow.cli.text.exit_codes import sentence_of
from mqflow.embedded.channel.listener import serve_channel
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.folder import DataFolder, FolderError, FolderInUseError, prepare_folder
from mqflow.embedded.storage.sqlite.database import check_version
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.storage.standby import LockWait, first_in_line, standby_pid, until_free
from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.addresses import Address, TcpAddress, UnixAddress
from mqflow.embedded.wire.protocol.end_manner import End, Manner, reason_of
from mqflow.embedded.wire.server.listener import CONNECTIONS_MAX, Room, Server, ServingError, serve, serve_tcp
from mqflow.embedded.wire.server.password_guard import PasswordGuard
from mqflow.embedded.wire.server.users_file import UsersFile, UsersFileError
from mqflow.mqi.authorities import QUEUE_MANAGER_PROFILE, Authority, AuthorityKind
from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.world import SYSTEM_WORLD, THREADS

__all__ = ("HostOptions", "StoppedByItselfError", "host", "rights_over_tcp")

_POLL_S: Final = 0.01
"""The seconds between checks for changes that wake no task, such as the end of the queue manager or of a connection."""
_LOOKS: Final = 10
"""The number of checks in a row that must find no standby."""
_LOCK_PROBE_S: Final = 0.005
_RETRY_S: Final = 0.001
_GRACE_S: Final = 2.0
"""The seconds that applications have to receive the reason of a stop, and that a killed owner has to release its sockets."""

Print = Callable[[str], None]
Obey = Callable[[requests.HostOrder], None]


class StoppedByItselfError(Exception):
    """The queue manager has stopped by itself, because its storage failed."""

    def __init__(self, name: str, folder: Path, failure: str) -> None:
        super().__init__(name, folder, failure)
        self.name = name
        self.folder = folder
        self.failure = failure

    def __str__(self) -> str:
        return (
            f"{self.name} has stopped by itself: {self.failure or 'no reason is known.'} Each commit that got "
            "its answer was synced to the disk. The commits that were under way are in doubt. When the folder is usable again, "
            f"mqflow qmgr start {self.name} --data {quote(str(self.folder))} goes on."
        )


class HostOptions(Struct, frozen=True, kw_only=True):
    """The queue manager to serve, its addresses and its options."""

    name: str
    folder: Path
    addresses: Sequence[Address]
    #: The addresses for IBM MQ's own client programs.
    mq_addresses: Sequence[TcpAddress] = ()
    standby: bool = False
    users: UsersFile
    #: The largest number of connections, for all addresses together.
    connections_max: int = CONNECTIONS_MAX
    tls: ssl.SSLContext | None = None
    #: The folder for backups that an administrator orders over TCP. None refuses such orders.
    backups: Path | None = None
    #: The descriptor of a pipe that shows the end of the parent process. This process then ends too, after its applications.
    parent_pipe: int | None = None
    #: The seconds that applications have to drain after the end of the parent.
    drain_s: float = 60.0
    #: The queue that gets a record of each delayed message when it is delivered; empty for no records.
    disposition_queue: str = ""
    #: A second staging queue besides the queue manager's own; empty for no second queue.
    delay_queue: str = ""


class _ForMQClients(Struct, frozen=True):
    """An address at which the queue manager speaks the protocol of IBM MQ's own clients."""

    address: TcpAddress


class _Shared(Struct, frozen=True):
    """The parts that the servers at all addresses share: the limit of connections, and the check of passwords."""

    room: Room
    guard: PasswordGuard


async def host(options: HostOptions, say: Print) -> bool:
    """Serve the queue manager until its end is requested. Return whether the whole queue manager ends, with its standbys.

    SIGTERM and Ctrl-C end this process immediately; SIGHUP ends it in a controlled way. Then a standby takes over. An order by
    `mqflow qmgr stop` ends the queue manager with its standbys, except if the order is a switchover.

    Raises `ConfigurationError` if another process is active and this one is no standby. Raises `FolderError` if the folder
    cannot be used, `ServingError` if an address cannot be served, and `StoppedByItselfError` if the storage has failed.
    """
    end = EndRequest()
    if warning := too_few_open_files(raise_open_file_limit(), options.connections_max):
        say(warning)
    async with anyio.create_task_group() as group:
        await group.start(listen_for_signals, end)
        if options.parent_pipe is not None:
            group.start_soon(watch_parent, options.parent_pipe, end)
        store = await _wait_for_store(options, end, say)
        if store is not None:
            await _serve(options, store, end, say)
        elif end.for_good:
            say(f"{options.name} was ended, so this standby ends too.")
        group.cancel_scope.cancel()
    return end.for_good


# -- before this process is active


async def _wait_for_store(options: HostOptions, end: EndRequest, say: Print) -> SqliteStore | None:
    """Wait until this process owns the folder, and return the storage; None if the end was requested before."""
    if not options.standby:
        try:
            return await when_free(partial(store_of, options.folder))
        except FolderInUseError as error:
            active = f"{options.name} is active already, as process {error.pid}"
            raise ConfigurationError(f"{active}. Start a second process with --standby.") from error
    folder = prepare_folder(options.folder, create=True)
    with first_in_line(folder, THREADS, end.wake) as turn:
        prepared = await _wait_for_turn(options, folder, turn, end, say)
        stands_by = False
        while not end.requested:
            try:
                return SqliteStore(options.folder)
            except FolderInUseError as error:
                if not stands_by:
                    if not prepared:
                        _prepare(options, folder)
                    say(f"{options.name} stands by: process {error.pid} is the active one.")
                    stands_by = True
            with until_free(folder, THREADS, end.wake) as free:
                await end.wait(lambda: free.held)
    return None


async def _wait_for_turn(options: HostOptions, folder: DataFolder, turn: LockWait, end: EndRequest, say: Print) -> bool:
    """Wait until no other standby is before this process. Return True if this took time: then the takeover is prepared."""
    with anyio.move_on_after(_LOCK_PROBE_S):  # a command that asks for the standby can also hold the lock for a moment
        await end.wait(lambda: turn.held)
    first = standby_pid(folder)
    if turn.held or first in {None, 0, os.getpid()}:
        await end.wait(lambda: turn.held)
        return False
    _prepare(options, folder)
    say(f"{options.name} stands by in line: process {first} is before this one.")
    await end.wait(lambda: turn.held)
    return True


def _prepare(options: HostOptions, folder: DataFolder) -> None:
    """Prepare the takeover while this process waits. Raises `FolderVersionError` if this process can never take over."""
    check_version(folder)
    takeover_rehearsal.rehearse(options.name)


# -- while this process is active


async def _serve(options: HostOptions, store: SqliteStore, end: EndRequest, say: Print) -> None:
    with ExitStack() as opened:
        folder = prepare_folder(options.folder, create=False)
        with loading_line(options.name, folder):
            queue_manager = EmbeddedQueueManager(options.name, store=store)
        opened.callback(queue_manager.close)
        obey = _obey(options, queue_manager, store, folder, end)
        shared = _Shared(Room(options.connections_max), PasswordGuard(options.users, SYSTEM_WORLD))
        servers = [
            opened.enter_context(closing(await _serve_address(options, queue_manager, each, obey, shared)))
            for each in (*_addresses(options), *map(_ForMQClients, options.mq_addresses))
        ]
        say(f"{options.name} is active, at {', '.join(str(server.address) for server in servers)}.")
        if any(isinstance(address, TcpAddress) for address in (*options.addresses, *options.mq_addresses)):
            for sentence in rights_over_tcp(queue_manager, options.users):
                say(sentence)
        async with anyio.create_task_group() as group:
            delayed = DelayProcessors(
                queue_manager, disposition_queue=options.disposition_queue, delay_queue=options.delay_queue
            )
            group.start_soon(delayed.run)
            group.start_soon(_end_after_applications, servers, end, options.drain_s)
            queue_manager.when_stopped(end.wake)
            await end.wait(lambda: queue_manager.stopped)
            say(f"{options.name} {f'ends ({end.how.manner.value})' if end.requested else 'has stopped by itself'}.")
            delayed.stop()
            if end.for_good:
                await _end_standbys(options.name, folder, say)
            await _stop(queue_manager, servers, end)
            group.cancel_scope.cancel()
        if not end.requested:
            raise StoppedByItselfError(options.name, options.folder, queue_manager.failure)


def _obey(
    options: HostOptions, queue_manager: EmbeddedQueueManager, store: SqliteStore, folder: DataFolder, end: EndRequest
) -> Obey:
    """Return the function that carries out the orders of an administrator. A thread of a server calls it."""

    def obey(order: requests.HostOrder) -> None:
        match order:
            case requests.Backup(path):
                _back_up(store, Path(path), options.name)
            case requests.EndQueueManager(how):
                if how.switchover and standby_pid(folder) is None:
                    detail = "No standby can go on: start one with --standby, or stop without -s"
                    raise error_for(Reason.OPERATION_NOT_ALLOWED, "endmqm -s", queue_manager=options.name, detail=detail)
                queue_manager.quiesce()  # before the answer, so that the caller sees that it quiesces
                end.request(how, for_good=not how.switchover)

    return obey


def _over_tcp(options: HostOptions, obey: Obey) -> Obey:
    """Return the function for orders that administrators give over TCP. It allows backups only in one folder."""

    def obey_within(order: requests.HostOrder) -> None:
        if isinstance(order, requests.Backup):
            place = None if options.backups is None else options.backups.resolve()
            target = Path(order.folder).resolve()
            if place is None or place not in target.parents:
                allowed = "the owner named no folder for it" if place is None else f"it must go into {place}"
                detail = f"A backup ordered over TCP: {allowed} (mqflow qmgr serve --backups FOLDER)"
                raise error_for(Reason.NOT_AUTHORIZED, "Copying", order.folder, options.name, detail)
        obey(order)

    return obey_within


def _back_up(store: SqliteStore, target: Path, name: str) -> None:
    try:
        store.backup(target)
    except (OSError, FolderError) as error:
        raise error_for(Reason.FILE_SYSTEM_ERROR, "Copying", str(target), name, detail=sentence_of(error)) from error


def _addresses(options: HostOptions) -> tuple[Address, ...]:
    """Return the addresses: first the socket in the folder, through which commands connect, then those in the options."""
    own = UnixAddress(options.folder / SERVED_SOCKET)
    return (own, *(address for address in options.addresses if address != own))


async def _serve_address(
    options: HostOptions, queue_manager: EmbeddedQueueManager, address: Address | _ForMQClients, obey: Obey, shared: _Shared
) -> Server:
    """Serve the queue manager at this address, and return the server.

    When a process is killed, the system closes its files one by one. So the standby can own the lock before the sockets of the
    old process are closed. Therefore this function tries again for `_GRACE_S`.
    """
    if options.standby:
        with anyio.move_on_after(_GRACE_S):
            while True:
                try:
                    return _server_at(options, queue_manager, address, obey, shared)
                except ServingError:
                    await anyio.sleep(_RETRY_S)
    return _server_at(options, queue_manager, address, obey, shared)


def _server_at(
    options: HostOptions, queue_manager: EmbeddedQueueManager, address: Address | _ForMQClients, obey: Obey, shared: _Shared
) -> Server:
    if isinstance(address, _ForMQClients):
        return serve_channel(
            queue_manager, address.address, options.users, tls=options.tls, room=shared.room, guard=shared.guard
        )
    if isinstance(address, TcpAddress):
        host = _over_tcp(options, obey)
        return serve_tcp(
            queue_manager, address, options.users, tls=options.tls, host=host, room=shared.room, guard=shared.guard
        )
    return serve(queue_manager, address.path, host=obey, room=shared.room)


# -- when this process ends


async def _end_after_applications(servers: Sequence[Server], end: EndRequest, drain_s: float) -> None:
    """When the parent has ended, wait until the applications have drained, at most `drain_s` seconds. Then request the end."""
    await end.parent_ended.wait()
    with anyio.move_on_after(drain_s):
        while any(server.connection_count for server in servers):  # noqa: ASYNC110 - threads end them
            await anyio.sleep(_POLL_S)
    if not end.requested:
        end.request(End(Manner.IMMEDIATE))


async def _end_standbys(name: str, folder: DataFolder, say: Print) -> None:
    """End the standbys one after the other, each when it is the first in line, so that none of them takes over."""
    notified: list[int] = []
    alone = 0
    with anyio.move_on_after(_GRACE_S):
        # The line of standbys can look empty for a moment, when one has left and the next one does not have the lock yet.
        while alone < _LOOKS:
            pid = standby_pid(folder)
            alone = alone + 1 if pid is None else 0
            if pid and pid not in notified:
                notified.append(pid)
                try:
                    os.kill(pid, END_FOR_GOOD_SIGNAL)
                except ProcessLookupError:
                    pass
                except PermissionError:
                    say(f"{name}: standby process {pid} runs as another user, so it cannot be ended from here, and takes over.")
                    return
            await anyio.sleep(_POLL_S)
        return
    say(f"{name}: standby process {notified[-1] if notified else 0} does not answer; it ends when it runs again.")


async def _stop(queue_manager: EmbeddedQueueManager, servers: Sequence[Server], end: EndRequest) -> None:
    """Stop the queue manager. The applications receive the reason before their connections close."""
    how = end.how
    immediate = how.manner is Manner.IMMEDIATE
    queue_manager.stop(immediate=immediate, reason=reason_of(how))
    while not queue_manager.stopped:
        await anyio.sleep(_POLL_S)
        if end.how.manner is Manner.IMMEDIATE and not immediate:  # a second request came, for an immediate end
            queue_manager.stop(reason=reason_of(end.how))
    if how.switchover or how.reconnect or not immediate:
        with anyio.move_on_after(_GRACE_S), suppress(TimeoutError):
            while any(server.connection_count for server in servers):  # noqa: ASYNC110 - threads end them
                await anyio.sleep(_POLL_S)


def rights_over_tcp(queue_manager: EmbeddedQueueManager, users: UsersFile) -> Iterator[str]:
    """Yield a sentence about the rights of each user with a password. If the file of the users cannot be read, say why."""
    try:
        yield from _rights(queue_manager, users)
    except UsersFileError as error:
        yield str(error)


def _rights(queue_manager: EmbeddedQueueManager, users: UsersFile) -> Iterator[str]:
    authorities = queue_manager.administration.authorities
    for user in users.names():
        if users.administers(user):
            yield f"{user} administers {queue_manager.name} over TCP."
        elif queue_manager.administers(user):
            yield f"{user} administers {queue_manager.name} on this machine only: over TCP it is refused (2035)."
        elif Authority.CONNECT in authorities.held(AuthorityKind.QMGR, QUEUE_MANAGER_PROFILE, user, group=False):
            yield f"{user} can connect over TCP; DISPLAY AUTHREC shows its authorities."
        else:
            yield f"{user} has no CONNECT, so over TCP it is refused (2035). Grant authorities with SET AUTHREC (mqflow mqsc)."
