"""The login at a served queue manager: a Unix socket admits the same user, TCP admits users with a password.

This file knows sockets, TLS and the hello, but no verb.
"""

import os
import socket
import ssl
import struct
from collections.abc import Callable
from typing import ClassVar, Final, Protocol

from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.streams import Stream, TlsStream
from mqflow.embedded.wire.server.password_guard import PasswordGuard, Passwords
from mqflow.embedded.wire.server.users_file import why_no_user
from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason

__all__ = ("Login", "SameUser", "WithPassword")

_CREDENTIALS: Final = struct.Struct("3i")


class Login(Protocol):
    """Decides which peers get in, and as which user."""

    #: Whether all peers are processes of this machine.
    same_machine: ClassVar[bool]

    def admits(self, raw: socket.socket) -> bool:
        """Return whether to serve this peer at all. Never blocks."""
        ...

    def secured(self, raw: socket.socket) -> Stream:
        """Return the stream of the peer. Can wait for a TLS handshake. Raises `OSError` if the handshake fails."""
        ...

    def user_of(self, hello: requests.Hello, owner: str, address: str) -> str:
        """Return the user that the application at this address works as. Can wait. Raises `MQIError` 2035."""
        ...

    def close(self) -> None:
        """End all waits."""
        ...


class SameUser:
    """The login over a Unix socket. Only the user that runs the queue manager is admitted, and can work as any user."""

    same_machine: ClassVar = True

    def admits(self, raw: socket.socket) -> bool:
        """Admit the same user. If the system does not give the peer's user, the socket's mode (0600) keeps other users out."""
        # getattr: `socket` has the option on Linux only.
        option = getattr(socket, "SO_PEERCRED", None)
        if option is None:
            return True
        _, user, _ = _CREDENTIALS.unpack(raw.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size))
        return bool(user == os.geteuid())

    def secured(self, raw: socket.socket) -> Stream:
        """Return the socket itself."""
        return raw

    def user_of(self, hello: requests.Hello, owner: str, address: str) -> str:  # noqa: ARG002 - as `Login`
        """Return the user that the hello names, or the owner."""
        return hello.user or owner

    def close(self) -> None:
        """Do nothing: nobody waits."""


class WithPassword:
    """The login over TCP: a user with a password, behind TLS if the address is reachable from other machines."""

    same_machine: ClassVar = False

    def __init__(
        self,
        passwords: Passwords,
        tls: ssl.SSLContext | None,
        administers: Callable[[str], bool],
        complain: Callable[[str], None],
        guard: PasswordGuard,
    ) -> None:
        """Take the passwords, and the function that returns whether a user of this name has every authority."""
        self._passwords = passwords
        self._administers = administers
        self._complain = complain
        self._tls = tls
        self._guard = guard

    def admits(self, raw: socket.socket) -> bool:  # noqa: ARG002 - the hello names the user
        """Admit every peer: the password decides."""
        return True

    def secured(self, raw: socket.socket) -> Stream:
        """Return the socket, behind TLS if the server has a certificate."""
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is None:
            return raw
        stream = TlsStream(raw, self._tls, server_side=True)
        stream.handshake()
        return stream

    def user_of(self, hello: requests.Hello, owner: str, address: str) -> str:  # noqa: ARG002 - a password proves the user
        """Return the user of the hello if the password is right. A refusal gives no hint whether user or password is wrong.

        The name of a local administrator is refused, unless the owner made this user with a password an administrator too.
        """
        if hello.user and (said := why_no_user(hello.user)):
            raise error_for(Reason.NOT_AUTHORIZED, "MQCONNX", detail=said)
        if not hello.user or not self._guard.knows(hello.user, hello.password, address):
            self._complain(f"The log-in of user {hello.user!r} at {address} failed.")
            said = f"No user {hello.user!r} has that password: `mqflow qmgr user QMGR USER` sets one"
            raise error_for(Reason.NOT_AUTHORIZED, "MQCONNX", detail=said)
        if self._administers(hello.user) and not self._passwords.administers(hello.user):
            said = (
                f"{hello.user} administers the queue manager on its own machine, but not over TCP: connect as another user, or "
                f"let the owner run `mqflow qmgr user QMGR {hello.user} --administrator`"
            )
            raise error_for(Reason.NOT_AUTHORIZED, "MQCONNX", detail=said)
        return hello.user

    def close(self) -> None:
        """End the pauses after failures."""
        self._guard.close()
