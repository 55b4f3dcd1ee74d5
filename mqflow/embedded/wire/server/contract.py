"""The protocols of a queue manager that can be served to other processes, and of its connections.

This file has protocols and one record, but no code of a server.
"""

import socket
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from mqflow.embedded.administration.interface import Administration
from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.wakeup import Signal
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import BatchConnection, GetOptions, Got, InlineConnection, ObjectHandle
from mqflow.world import Clock

__all__ = ("Admit", "Arrival", "Host", "Peers", "Servable", "ServableConnection", "ServedPeer", "no_host")


class ServableConnection(InlineConnection, BatchConnection, Protocol):
    """A connection that can be served. Its application runs in another process, and can die there."""

    def browse_back(self, handle: ObjectHandle, count: int) -> None:
        """Move the browse cursor back by `count` messages of the last `get_many`, even if they are no longer on the queue."""

    def exchange_at_once(
        self, handle: ObjectHandle, options: GetOptions, *, commit: bool, most: int, bytes_max: int
    ) -> list[Got] | None:
        """Commit if `commit` is true, then get plain messages. Return None if the commit must wait.

        `calls/get_many.py` says which messages are plain.
        """
        ...

    def get_at_once(self, handle: ObjectHandle, options: GetOptions, *, most: int, bytes_max: int) -> list[Got]:
        """Return available plain messages; an empty list if the first is special or the get is refused.

        `calls/get_many.py` says which messages are plain.
        """
        ...

    def unwaiting(self, options: GetOptions) -> GetOptions:
        """Return the options without a wait, for a server that waits itself; unchanged if the get with them is refused."""
        ...

    def take_ahead(
        self, handle: ObjectHandle, options: GetOptions, *, most: int, units: int, bytes_max: int
    ) -> list[list[Got]]:
        """Get up to `units` further units of work, each of up to `most` plain messages, without waiting.

        The first unit that is not settled is the connection's unit of work. `begin_commit` with `behind` settles this unit.
        """
        ...

    def give_back(self, count: int | None = None) -> None:
        """Return the messages of the last `count` units of work to their places; None means all units except the open one.

        The backout counts of the messages do not increase.
        """

    def put_defaults(self, handle: ObjectHandle) -> tuple[int, int] | None:
        """Return DEFPSIST and DEFPRESP of the name that was opened, or None if it is no queue. This needs no INQ authority."""
        ...

    def abandon(self) -> None:
        """End the connection as if the application had died: back out the unit of work."""


class Servable(Protocol):
    """A queue manager in this process."""

    @property
    def name(self) -> str:
        """The name of the queue manager."""
        ...

    @property
    def owner(self) -> str:
        """The user that runs the queue manager. Over a Unix socket, an application that names no user has this user."""
        ...

    def administration_of(self, user: str) -> Administration:
        """Return the administration for a user who may administer the queue manager. Refuses any other user with 2035."""
        ...

    def administers(self, user: str) -> bool:
        """Return whether the user has every authority."""
        ...

    def require_authorities(self, made_administrator: Callable[[str], bool]) -> None:
        """Turn the authority checks on, even if no authority record exists, because other machines can connect.

        `made_administrator` returns whether the owner made a user an administrator.
        """

    def connect(self, *, application_name: str = "", user: str = "", process: int = 0) -> ServableConnection:
        """Return a new connection. DISPLAY CONN shows the process; 0 is the process of the queue manager."""
        ...


Host = Callable[[requests.HostOrder], None]
"""Ends the queue manager or backs it up. Runs on the thread of the administrator's connection."""


def no_host(request: requests.HostOrder) -> None:
    """Refuse the order, because this queue manager belongs to an application and ends with it."""
    said = "The queue manager belongs to a running application: stop the application, or use `mqflow qmgr start` in its place"
    raise error_for(Reason.FUNCTION_NOT_SUPPORTED, type(request).__name__, detail=said)


class ServedPeer(Protocol):
    """The server's end of one peer's stream. It has its own thread."""

    #: The time by which the peer must log in; None after its log-in.
    unknown_until: float | None
    #: True if the server is now checking the peer's log-in, so that it does not wait for bytes from the peer.
    is_checked: bool
    #: True if this peer is a pulse, which ends only after all other connections.
    is_pulse: bool

    def run(self) -> None:
        """Serve the peer until its connection ends."""

    def end(self) -> None:
        """Make `run` return. The server still replies to the present call."""

    def end_slow_send(self, began_before: float) -> None:
        """Break the stream off if a send that began before this time still runs. The peer loses the reply.

        A peer that receives a long reply byte by byte could otherwise keep `run` from its end for hours.
        """

    def let_go(self) -> None:
        """Close the stream and the signal. `run` calls this method; if `run` never runs, the caller must call it."""


class Admit(Protocol):
    """Gives a place to a peer after its log-in. Raises `MQIError` 2025 if no place is free."""

    def __call__(self, connection: ServedPeer, *, administers: bool) -> None:
        """Give the peer a place as an application or as an administrator."""


class Arrival(Struct, frozen=True):
    """A newly connected peer, with the clock, the functions and the limits that the server provides for the peer's end."""

    raw: socket.socket
    clock: Clock
    complain: Callable[[str], None]
    #: Logs a sentence unless the log already has it.
    complain_once: Callable[[str], None]
    #: The signal that ends a wait of the peer.
    arrived: Signal
    admit: Admit
    #: Takes a place for one more connection of an admitted peer. Raises `MQIError` 2025 if no place is free.
    take_place: Callable[[], None]
    #: Frees a place from `take_place`. The server itself frees the place from `admit`.
    give_place_back: Callable[[], None]
    #: The peer's end calls this function when it has ended.
    over: Callable[[ServedPeer], None]
    #: The longest time until the log-in of the peer, in seconds.
    hello_s: float
    #: If the server is full, the refusal for applications.
    full: MQIError | None


Peers = Callable[[Arrival], ServedPeer]
"""Makes the server's end of a peer. Each protocol has such a function."""
