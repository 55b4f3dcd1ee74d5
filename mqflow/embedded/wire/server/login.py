"""Who gets in where a queue manager is served: this machine's same user at a Unix socket, a user with a password over TCP.

Knows sockets, TLS and the hello; knows no verb.
"""

import os
import socket
import ssl
import struct
import threading
from typing import ClassVar, Final, Protocol

from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.streams import Stream, TlsStream
from mqflow.embedded.wire.server.users_file import why_no_user
from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason

__all__ = ("Login", "Passwords", "SameUser", "WithPassword")

_CREDENTIALS: Final = struct.Struct("3i")
_ASKED_AT_ONCE: Final = 4


class Passwords(Protocol):
    """Knows passwords."""

    def knows(self, user: str, password: str) -> bool:
        """Return whether that is the user's password."""
        ...


class Login(Protocol):
    """Decides who gets in."""

    #: Whether all who come in are processes of this machine.
    same_machine: ClassVar[bool]

    def admits(self, raw: socket.socket) -> bool:
        """Return whether to talk to this peer at all. Never blocks."""
        ...

    def secured(self, raw: socket.socket) -> Stream:
        """Return the stream to talk over; may block for a handshake. Raises `OSError`."""
        ...

    def user_of(self, hello: requests.Hello, owner: str) -> str:
        """Return as whom the application works. Raises `MQIError` 2035."""
        ...


class SameUser:
    """At a Unix socket: the user that runs the queue manager, who may work as anybody."""

    same_machine: ClassVar = True

    def admits(self, raw: socket.socket) -> bool:
        """Where the system does not say who the peer is, the mode of the socket (0600) is what keeps others out."""
        option = getattr(socket, "SO_PEERCRED", None)
        if option is None:
            return True
        _, user, _ = _CREDENTIALS.unpack(raw.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size))
        return bool(user == os.geteuid())

    def secured(self, raw: socket.socket) -> Stream:
        """The socket as it is."""
        return raw

    def user_of(self, hello: requests.Hello, owner: str) -> str:
        """The one the application names, or the owner."""
        return hello.user or owner


class WithPassword:
    """Over TCP: a user with a password, behind TLS wherever the wire leaves this machine."""

    same_machine: ClassVar = False

    def __init__(self, passwords: Passwords, tls: ssl.SSLContext | None) -> None:
        self._passwords = passwords
        self._tls = tls
        # A hash takes 16 megabytes, on purpose, and anybody may ask for one.
        self._asking = threading.BoundedSemaphore(_ASKED_AT_ONCE)

    def admits(self, raw: socket.socket) -> bool:  # noqa: ARG002 - who it is, the hello says
        """Anybody may try."""
        return True

    def secured(self, raw: socket.socket) -> Stream:
        """The socket, behind TLS where there is any."""
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is None:
            return raw
        stream = TlsStream(raw, self._tls, server_side=True)
        stream.handshake()
        return stream

    def user_of(self, hello: requests.Hello, owner: str) -> str:  # noqa: ARG002 - nobody is the owner for the asking
        """The one that the hello names and has the password of. Which of the two was wrong is not said."""
        if hello.user and (said := why_no_user(hello.user)):
            raise error_for(Reason.NOT_AUTHORIZED, "MQCONNX", detail=said)
        if not hello.user or not self._knows(hello.user, hello.password):
            said = f"No user {hello.user!r} with that password: `mqflow qmgr user QMGR USER` gives one"
            raise error_for(Reason.NOT_AUTHORIZED, "MQCONNX", detail=said)
        return hello.user

    def _knows(self, user: str, password: str) -> bool:
        with self._asking:
            return self._passwords.knows(user, password)
