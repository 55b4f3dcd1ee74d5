"""Serves a queue manager to other processes: to the same user over a Unix socket, to users with a password over TCP.

The server accepts connections and gives each its own thread (`client_connection`). This module knows no verb and no rule of MQ.
"""

import contextlib
import errno
import os
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, Self

from msgspec import Struct

from mqflow.embedded.storage.folder import file_identity, prepare_folder
from mqflow.embedded.wire.protocol.addresses import Address, TcpAddress, UnixAddress, is_loopback
from mqflow.embedded.wire.protocol.frames import SILENCE_S
from mqflow.embedded.wire.protocol.heartbeat_sender import HeartbeatSender
from mqflow.embedded.wire.protocol.pulse import Pulses
from mqflow.embedded.wire.protocol.wakeup import Signal, SocketSignal
from mqflow.embedded.wire.server.client_connection import ClientConnection
from mqflow.embedded.wire.server.complaints import Complaints
from mqflow.embedded.wire.server.contract import Arrival, Host, Peers, Servable, ServableConnection, ServedPeer, no_host
from mqflow.embedded.wire.server.idle_poller import IdlePoller, idle_poller_of_system
from mqflow.embedded.wire.server.login import Login, SameUser, WithPassword
from mqflow.embedded.wire.server.password_guard import PasswordGuard, Passwords
from mqflow.embedded.wire.server.strangers import Stranger, StrangerLimits, stranger_to_end
from mqflow.embedded.wire.server.users_file import UsersFileError
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.world import SYSTEM_WORLD, Running, World

__all__ = (
    "BACKLOG",
    "CONNECTIONS_MAX",
    "LAST_SEND_S",
    "Room",
    "Servable",
    "ServableConnection",
    "Server",
    "ServingError",
    "UnprotectedAddressError",
    "serve",
    "serve_tcp",
)

CONNECTIONS_MAX: Final = 2_048
"""The default limit for connections at the same time."""
BACKLOG: Final = 2_048
"""The most new connections that wait in the system until the server accepts them."""
LAST_SEND_S: Final = 4.0
"""When the server closes, a peer must receive a reply within this time. Otherwise it gets only a part of the reply."""
# The longest path of a Unix socket: 108 bytes on Linux, 104 on macOS, minus one for the end.
_PATH_BYTES_MAX: Final = 103
_OF_PORTS: Final = frozenset({errno.EADDRINUSE, errno.EACCES})
_ACCEPT_AGAIN_S: Final = 0.1
_HELLO_S: Final = 10.0
"""The longest time in seconds until a peer on this machine sends its hello."""
_BEYOND_MAX: Final = 16
"""The most peers beyond the limit at each address. The server still serves administrators there, but refuses applications."""
_BEYOND_HELLO_S: Final = 2.0
_STRANGER_AGAIN_S: Final = 0.01


class ServingError(Exception):
    """The server cannot listen at the address. The text gives the reason and the remedy."""


class UnprotectedAddressError(ServingError):
    """Other machines can reach the address, so it needs TLS."""


class Room:
    """Counts the free places for connections, for all addresses of a queue manager together."""

    def __init__(self, connections_max: int = CONNECTIONS_MAX) -> None:
        self.connections_max: Final = connections_max
        self._left = connections_max
        self._guard = threading.Lock()

    def take(self) -> bool:
        """Take a place. Return False if no place is free."""
        with self._guard:
            if self._left == 0:
                return False
            self._left -= 1
            return True

    def give_back(self) -> None:
        """Free a place."""
        with self._guard:
            self._left += 1


class _Place(Struct):
    """The place of one peer."""

    running: Running
    room: Room
    #: The address of the peer, and the time when it connected.
    source: str
    since: float


class Server:
    """The server of a queue manager at one address. It runs until `close`."""

    def __init__(
        self,
        queue_manager: Servable,
        listener: socket.socket,
        address: Address,
        login: Login,
        *,
        host: Host,
        world: World,
        silence_s: float,
        room: Room,
        signals: Callable[[], Signal] = SocketSignal,
        idle_poller: IdlePoller | None = None,
        peers: Peers | None = None,
        listen: Callable[[], socket.socket] | None = None,
        when_closed: Callable[[], None] = lambda: None,
        strangers: StrangerLimits | None = None,
    ) -> None:
        #: The address, with the real port if the caller requested any free port.
        self.address: Final = address
        self._queue_manager = queue_manager
        self._login = login
        self._host = host
        self._listener = listener
        #: Listens again after `stop_listening`; None if the server listens until its close.
        self._listen = listen
        self._when_closed = when_closed
        self._closed = False
        self._switching = world.runner.lock()
        #: The identity of the socket file.
        self._socket = file_identity(address.path) if isinstance(address, UnixAddress) else None
        self._runner = runner = world.runner
        self._clock = world.clock
        self._room = room
        self._beyond = Room(_BEYOND_MAX)
        #: The places for peers on a network before their log-in. These peers take no place from an application.
        self._limits = strangers or StrangerLimits()
        self._strangers = Room(self._limits.most)
        #: The stranger (a peer before its log-in) that the server ended last, to make room. Its place is free after it has left
        #: `_served`.
        self._leaving: ServedPeer | None = None
        self._signals = signals
        self._closing = signals()
        self._guard = threading.Lock()
        self._served: dict[ServedPeer, _Place] = {}
        self._complaints = Complaints(world)
        self._heartbeats = HeartbeatSender(runner, silence_s=silence_s)
        self._pulses = Pulses(runner)
        self._idle_poller = idle_poller
        self._peers = peers or self._own_peer
        self._accepting = runner.start(self._accept, f"mqflow-serve-{queue_manager.name}")

    @property
    def path(self) -> Path:
        """The path of the socket. Only a server at a Unix socket has a path."""
        assert isinstance(self.address, UnixAddress)  # noqa: S101 - only such a server has a path
        return self.address.path

    @property
    def connection_count(self) -> int:
        """The number of connections now."""
        with self._guard:
            return len(self._served)

    def close(self) -> None:
        """Accept no more connections. End all connections, and back out their units of work. A second call does nothing.

        A peer that takes longer than `LAST_SEND_S` to receive a reply loses the rest of it.
        """
        with self._switching:
            if self._closed:
                return
            self._closed = True
            self._closing.set()
            self._login.close()
            self._accepting.join()
            self._listener.close()
        self._when_closed()
        if isinstance(self.address, UnixAddress):
            self._remove_socket(self.address.path)
        with self._guard:
            served = dict(self._served)
        # End the pulses last, because an application without its pulse stops waiting for replies.
        for is_pulse in (False, True):
            self._end({peer: place.running for peer, place in served.items() if peer.is_pulse is is_pulse})
        if self._idle_poller is not None:
            self._idle_poller.close()
        self._closing.close()

    def _end(self, running: Mapping[ServedPeer, Running]) -> None:
        """End these peers, and wait until their threads have ended. Break off a send that takes longer than `LAST_SEND_S`."""
        for peer in running:
            peer.end()
        until = self._clock.monotonic() + LAST_SEND_S
        for peer, thread in running.items():
            thread.join(max(0.0, until - self._clock.monotonic()))
            while thread.is_alive():
                peer.end_slow_send(self._clock.monotonic() - LAST_SEND_S)
                thread.join(LAST_SEND_S)

    def stop_listening(self) -> None:
        """Refuse new connections, and end the connections before their log-in. All other connections continue."""
        with self._switching:
            if self._closed or self._listener.fileno() < 0:
                return
            self._closing.set()
            self._accepting.join()
            self._closing.clear()
            self._listener.close()
        with self._guard:
            strangers = [each for each in self._served if each.unknown_until is not None]
        for stranger in strangers:
            stranger.end()

    def start_listening(self) -> None:
        """Accept connections again after `stop_listening`. Raises `OSError` if the address is taken."""
        with self._switching:
            if self._closed or self._listen is None or self._listener.fileno() >= 0:
                return
            self._listener = self._listen()
            self._accepting = self._runner.start(self._accept, f"mqflow-serve-{self._queue_manager.name}")

    def _remove_socket(self, path: Path) -> None:
        """Remove the socket file, unless another server has since made its own socket there."""
        if file_identity(path) == self._socket:
            path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        while not (waited := self._closing.heard_beside(self._listener, self._patience_s())).signalled:
            self._end_silent_strangers()
            if not waited.readable:
                continue
            if not self._login.same_machine and not self._strangers.take():
                self._make_room()
                self._closing.heard_within(_STRANGER_AGAIN_S)
                continue
            try:
                self._let_in(*self._accepted())
            except (OSError, RuntimeError):  # too many open files or threads: the open connections continue
                self._closing.heard_within(_ACCEPT_AGAIN_S)

    def _accepted(self) -> tuple[socket.socket, object]:
        try:
            return self._listener.accept()
        except BaseException:
            if not self._login.same_machine:
                self._strangers.give_back()
            raise

    def _let_in(self, stream: socket.socket, address: object) -> None:
        """Serve or refuse the peer. If no thread can start, close the stream, and raise `OSError` or `RuntimeError`."""
        try:
            if not self._login.admits(stream):
                stream.close()
            elif not self._login.same_machine:  # `_accept` has taken the place
                source = str(address[0]) if isinstance(address, tuple) and address else ""
                self._answer(stream, self._strangers, self._limits.hello_s, source=source)
            elif self._room.take():
                self._answer(stream, self._room, _HELLO_S)
            elif self._beyond.take():
                self._answer(stream, self._beyond, _BEYOND_HELLO_S, self._too_many())
            else:
                stream.close()
        except BaseException:
            stream.close()
            raise

    def _answer(
        self, stream: socket.socket, room: Room, hello_s: float, full: MQIError | None = None, *, source: str = ""
    ) -> None:
        """Serve the peer. The caller has already taken a place in `room` for it."""
        try:
            connection = self._peers(
                Arrival(
                    raw=stream,
                    clock=self._clock,
                    complain=self._complaints,
                    complain_once=self._complaints.once,
                    arrived=self._signals(),
                    admit=self._admit,
                    take_place=self._take_place,
                    give_place_back=self._room.give_back,
                    over=self._forget,
                    hello_s=hello_s,
                    full=full,
                )
            )
            try:
                with self._guard:  # the thread removes the peer at its end, under the same lock
                    running = self._runner.start(connection.run, "mqflow-served-connection")
                    self._served[connection] = _Place(running, room, source, self._clock.monotonic())
            except BaseException:
                connection.let_go()
                raise
        except BaseException:
            room.give_back()
            raise

    def _own_peer(self, arrival: Arrival) -> ServedPeer:
        return ClientConnection(
            self._queue_manager,
            arrival,
            self._login,
            self._host,
            self._heartbeats,
            self._pulses,
            self._runner,
            self._idle_poller,
        )

    def _admit(self, connection: ServedPeer, *, administers: bool) -> None:
        """Give a peer a place within the limit for connections after its log-in. Raises 2025 if no place is free."""
        if self._login.same_machine:  # the peer took its place when it connected
            return
        room = next((each for each in (self._room, self._beyond)[: 1 + administers] if each.take()), None)
        if room is None:
            raise self._too_many()
        with self._guard:
            place = self._served[connection]
            before, place.room = place.room, room
        before.give_back()

    def _take_place(self) -> None:
        if not self._room.take():
            raise self._too_many()

    def _too_many(self) -> MQIError:
        detail = f"The limit of {self._room.connections_max:,} served connections is reached; --max-connections changes it"
        return error_for(Reason.MAX_CONNS_LIMIT_REACHED, "MQCONNX", queue_manager=self._queue_manager.name, detail=detail)

    def _patience_s(self) -> float | None:
        """Return the longest wait for the next peer, in seconds; None for no limit.

        The wait is short while a peer has not logged in, because the server ends this peer when its time is over.
        """
        with self._guard:
            return 1.0 if any(connection.unknown_until is not None for connection in self._served) else None

    def _make_room(self) -> None:
        """End one peer before its log-in, unless such a peer is already ending. Its place is free when its thread has ended."""
        with self._guard:
            if self._leaving in self._served:
                return
            strangers = [each for each in self._served if each.unknown_until is not None]
            known = [
                Stranger(address=self._served[each].source, since=self._served[each].since, checked=each.is_checked)
                for each in strangers
            ]
            found = stranger_to_end(known, self._clock.monotonic(), self._limits.patience_s)
            self._leaving = None if found is None else strangers[found]
        if self._leaving is not None:
            self._leaving.end()

    def _end_silent_strangers(self) -> None:
        now = self._clock.monotonic()
        with self._guard:
            strangers = [each for each in self._served if each.unknown_until is not None and now > each.unknown_until]
        for stranger in strangers:
            stranger.end()

    def _forget(self, connection: ServedPeer) -> None:
        with self._guard:
            place = self._served.pop(connection, None)
        if place is not None:
            place.room.give_back()


def serve(
    queue_manager: Servable,
    socket_path: Path,
    *,
    host: Host = no_host,
    world: World = SYSTEM_WORLD,
    silence_s: float = SILENCE_S,
    room: Room | None = None,
) -> Server:
    """Return a running server, through which other processes of this user use the queue manager.

    An application that sends nothing for `silence_s`, not even a heartbeat, counts as dead: its unit of work is backed out.
    Raises `ServingError` if another server has the socket or the path is too long, and `UnsafeFolderError` if other users can
    replace the socket. Close the server before the queue manager.
    """
    prepare_folder(socket_path.parent, create=True)
    if len(os.fsencode(socket_path)) > _PATH_BYTES_MAX:
        raise ServingError(
            f"A socket's path has at most {_PATH_BYTES_MAX} bytes: {socket_path} is longer. Choose a shorter one."
        )
    _remove_left_behind(socket_path)
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(socket_path))
        socket_path.chmod(0o600)
        listener.listen(BACKLOG)
    except BaseException:
        listener.close()
        raise
    return Server(
        queue_manager,
        listener,
        UnixAddress(socket_path),
        SameUser(),
        host=host,
        world=world,
        silence_s=silence_s,
        room=room or Room(),
        idle_poller=idle_poller_of_system(world),
    )


def serve_tcp(
    queue_manager: Servable,
    address: TcpAddress,
    passwords: Passwords,
    *,
    tls: ssl.SSLContext | None = None,
    host: Host = no_host,
    world: World = SYSTEM_WORLD,
    silence_s: float = SILENCE_S,
    room: Room | None = None,
    guard: PasswordGuard | None = None,
    peers_of: Callable[[Login], Peers] | None = None,
    when_closed: Callable[[], None] = lambda: None,
    strangers: StrangerLimits | None = None,
) -> Server:
    """Return a running server, through which users with a password use the queue manager. Port 0 means any free port.

    Servers of one queue manager share a `guard`, so that passwords are checked one at a time. The first of these servers to
    close ends the pauses after failed log-ins on all of them. `peers_of` makes the server's ends for another protocol than
    mqflow's own. `when_closed` runs after the server has closed. From now on the queue manager checks authorities, even without
    an authority record: a user has only the granted authorities. Raises `ServingError` if the port is not free, or if other
    machines can reach the address and `tls` is None.
    """
    if tls is None and not is_loopback(address.host):
        raise UnprotectedAddressError(
            f"{address} can be reached from other machines, so it needs TLS: `mqflow qmgr tls` makes certificates. "
            "127.0.0.1 is for this machine only."
        )
    queue_manager.require_authorities(partial(_is_known_administrator, passwords))
    try:
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        listener = socket.create_server((address.host, address.port), family=family, backlog=BACKLOG)
    except OSError as error:
        problem = (error.strerror or str(error)).partition(" (while")[0]  # Python adds the address as a tuple
        remedy = "Choose another port" if error.errno in _OF_PORTS else "Name a host or an address of this machine"
        raise ServingError(f"{address} cannot be used to listen: {problem}. {remedy}.") from error
    bound = TcpAddress(address.host, listener.getsockname()[1])
    checks = guard or PasswordGuard(passwords, world)
    login = WithPassword(passwords, tls, queue_manager.administers, Complaints(world), checks)
    return Server(
        queue_manager,
        listener,
        bound,
        login,
        host=host,
        world=world,
        silence_s=silence_s,
        room=room or Room(),
        idle_poller=idle_poller_of_system(world) if peers_of is None else None,
        peers=None if peers_of is None else peers_of(login),
        listen=partial(socket.create_server, (bound.host, bound.port), family=family, backlog=BACKLOG),
        when_closed=when_closed,
        strangers=strangers,
    )


def _is_known_administrator(passwords: Passwords, user: str) -> bool:
    """Return whether the owner made this user an administrator. While the file of the users cannot be read, nobody is one."""
    try:
        return passwords.administers(user)
    except UsersFileError:  # a log-in complains about the file
        return False


def _remove_left_behind(path: Path) -> None:
    """Remove the socket file of a killed server. Raises `ServingError` if the server is alive."""
    if not path.exists():
        return
    if not path.is_socket():
        raise ServingError(f"{path} exists and is not a socket. Choose another path.")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)  # the backlog of a suspended server can be full
        try:
            with contextlib.suppress(BlockingIOError):
                probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
        else:
            raise ServingError(f"Another process serves a queue manager at {path}. Connect to it, or choose another path.")
