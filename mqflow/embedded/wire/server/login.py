"""The log-in at a served queue manager: the same user over a Unix socket, users with a password or a certificate over TCP.

This file knows sockets, TLS and the hello, but no verb.
"""

import contextlib
import os
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from typing import ClassVar, Final, Protocol

from mqflow.embedded.state.users import USER_CHARS
from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.streams import Stream, TlsStream
from mqflow.embedded.wire.server.password_guard import PasswordGuard, Passwords
from mqflow.embedded.wire.server.users_file import UsersFileError, why_no_user
from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason

__all__ = ("Login", "SameUser", "WithPassword", "process_of_other")

_CREDENTIALS: Final = struct.Struct("3i")
_READ_BYTES: Final = 64 * 1024


class Login(Protocol):
    """Decides which peers the server admits, and which user each connection has."""

    #: True if all peers are processes of this machine.
    same_machine: ClassVar[bool]

    def admits(self, raw: socket.socket) -> bool:
        """Return whether the server admits this peer at all. Never blocks."""
        ...

    def secured(self, raw: socket.socket) -> Stream:
        """Return the stream of the peer. Can wait for a TLS handshake. Raises `OSError` if the handshake fails."""
        ...

    def user_of(self, hello: requests.Hello, owner: str, address: str, stream: Stream) -> str:
        """Return the user of the application on this stream. Can wait. Raises `MQIError` 2035 if the log-in fails."""
        ...

    def check_user(self, user: str) -> None:
        """Refuse a user that this server never admits, even with the right password. Raises `MQIError` 2035."""

    def close(self) -> None:
        """End all waits in `user_of`."""


class SameUser:
    """The log-in over a Unix socket. It admits only the user that runs the queue manager, but with any user name."""

    same_machine: ClassVar[bool] = True

    def admits(self, raw: socket.socket) -> bool:
        """Admit the same user. If the system does not return the peer's user, the socket's mode (0600) excludes other users."""
        peer = _peer(raw)
        return peer is None or peer[1] == os.geteuid()

    def secured(self, raw: socket.socket) -> Stream:
        """Return the socket itself."""
        return raw

    def user_of(self, hello: requests.Hello, owner: str, address: str, stream: Stream) -> str:  # noqa: ARG002 - as in `Login`
        """Return the user in the hello, or the owner."""
        return hello.user or owner

    def check_user(self, user: str) -> None:
        """Refuse no user, because the socket admits only processes of the owner."""

    def close(self) -> None:
        """Do nothing, because `user_of` never waits."""


def process_of_other(raw: object) -> int:
    """Return the process at the other end of a Unix socket; 0 for this process, for any other stream, and if it is unknown."""
    peer = _peer(raw) if isinstance(raw, socket.socket) and raw.family == socket.AF_UNIX else None
    return 0 if peer is None or peer[0] == os.getpid() else peer[0]


def _peer(raw: socket.socket) -> tuple[int, int] | None:
    """Return the process and the user of the peer; None if the system does not tell them."""
    # getattr: `socket` has the option only on Linux.
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    process, user, _ = _CREDENTIALS.unpack(raw.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size))
    return int(process), int(user)


class WithPassword:
    """The log-in over TCP: with a password or a certificate, and with TLS if other machines can reach the address."""

    same_machine: ClassVar[bool] = False

    def __init__(
        self,
        passwords: Passwords,
        tls: ssl.SSLContext | None,
        administers: Callable[[str], bool],
        complain: Callable[[str], None],
        guard: PasswordGuard,
    ) -> None:
        """Store the parts. `administers` returns whether a user of this name has every authority."""
        self._passwords = passwords
        self._administers = administers
        self._complain = complain
        self._tls = tls
        self._guard = guard

    def admits(self, raw: socket.socket) -> bool:  # noqa: ARG002 - the hello names the user
        """Admit every peer, because the password decides."""
        return True

    def secured(self, raw: socket.socket) -> Stream:
        """Return the socket, with TLS if the server has a certificate."""
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        if self._tls is None:
            return raw
        stream = TlsStream(raw, self._tls, server_side=True)
        try:
            stream.handshake()
        except ssl.SSLCertVerificationError as error:
            self._complain(f"The certificate of a peer at {_address_of(raw)} was refused: {error.verify_message}.")
            _read_to_the_end(raw)
            raise
        return stream

    def user_of(self, hello: requests.Hello, owner: str, address: str, stream: Stream) -> str:  # noqa: ARG002 - a password proves the user
        """Return the user of the hello if the password is right or, without a password, the user of the certificate.

        A certificate with several common names is for no user. A refusal does not say whether the user or the password is
        wrong. An administrator of this machine is refused, unless the owner made this user an administrator over TCP too.
        """
        names = stream.peer_names if isinstance(stream, TlsStream) and not hello.password else []
        if len(names) > 1:
            said = f"The certificate has {len(names)} common names ({', '.join(map(repr, names))}), so it is for no user"
            self._complain(f"The log-in of user {hello.user[:USER_CHARS]!r} at {address} failed. {said}.")
            raise error_for(Reason.NOT_AUTHORIZED, "MQCONNX", detail=f"{said}: give a user and a password")
        certified = "".join(names)
        user = hello.user or certified
        if user and (said := why_no_user(user)):
            long = f"The name has {len(user)} characters, and a user identifier of MQ at most {USER_CHARS}"
            self._complain(f"The log-in of user {user[:USER_CHARS]!r}... at {address} failed. {long}.")
            raise error_for(Reason.NOT_AUTHORIZED, "MQCONNX", detail=said)
        if certified and user != certified:
            self._complain(f"The log-in of user {user!r} at {address} with the certificate of {certified!r} failed.")
            said = f"The certificate is for {certified}, not for {user}: leave the user out, or give the password of {user}"
            raise error_for(Reason.NOT_AUTHORIZED, "MQCONNX", detail=said)
        if not certified and (not user or not self._knows(user, hello.password, address)):
            self._complain(f"The log-in of user {user!r} at {address} failed.")
            said = f"No user {user!r} has that password: `mqflow qmgr user QMGR USER` sets one"
            raise error_for(Reason.NOT_AUTHORIZED, "MQCONNX", detail=said)
        self.check_user(user)
        return user

    def check_user(self, user: str) -> None:
        """Refuse an invalid name, and an administrator of this machine whom the owner made no administrator over TCP."""
        said = why_no_user(user)
        if not said and self._administers(user) and not self._administers_over_tcp(user):
            said = (
                f"{user} administers the queue manager on its own machine, but not over TCP: connect as another user, or "
                f"let the owner run `mqflow qmgr user QMGR {user} --administrator`"
            )
        if said:
            self._complain(f"User {user!r} was refused (2035). {said}.")
            raise error_for(Reason.NOT_AUTHORIZED, "MQCONNX", detail=said)

    def _knows(self, user: str, password: str, address: str) -> bool:
        with self._reading_users(user):
            return self._guard.knows(user, password, address)

    def _administers_over_tcp(self, user: str) -> bool:
        with self._reading_users(user):
            return self._passwords.administers(user)

    @contextlib.contextmanager
    def _reading_users(self, user: str) -> Iterator[None]:
        """Refuse the log-in with 2195 if the file of the users cannot be read. Only the log of the server names the file."""
        try:
            yield
        except UsersFileError as error:
            self._complain(f"The log-in of user {user!r} failed. {error}")
            detail = "The queue manager cannot read its users: its log says why"
            raise error_for(Reason.UNEXPECTED_ERROR, "MQCONNX", detail=detail) from error

    def close(self) -> None:
        """End the pauses after failed log-ins."""
        self._guard.close()


def _address_of(raw: socket.socket) -> str:
    try:
        return str(raw.getpeername()[0])
    except OSError:  # the peer has already gone
        return "an unknown address"


def _read_to_the_end(raw: socket.socket) -> None:
    """Read until the peer ends the stream: closing with unread bytes could destroy the alert on its way to the peer.

    The server ends a peer that takes too long, like any peer without a hello.
    """
    with contextlib.suppress(OSError):
        raw.shutdown(socket.SHUT_WR)
        while raw.recv(_READ_BYTES):
            pass
