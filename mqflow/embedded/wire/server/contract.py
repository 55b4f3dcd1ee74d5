"""The contract of a queue manager that can be served to other processes, and of its connections.

This file has protocols only.
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
    """A connection that can be served: its application can die in another process."""

    def browse_back(self, handle: ObjectHandle, count: int) -> None:
        """Move the browse cursor back by `count` messages of the last `get_many`, even if these messages are gone."""
        ...

    def exchange_at_once(
        self, handle: ObjectHandle, options: GetOptions, *, commit: bool, most: int, bytes_max: int
    ) -> list[Got] | None:
        """Commit if `commit` is set. Then get messages if the first message is plain. Return None if the commit must wait."""
        ...

    def get_at_once(self, handle: ObjectHandle, options: GetOptions, *, most: int, bytes_max: int) -> list[Got]:
        """Return plain messages that are on the queue now; an empty list if the first is special, or a get would be refused."""
        ...

    def take_ahead(
        self, handle: ObjectHandle, options: GetOptions, *, most: int, units: int, bytes_max: int
    ) -> list[list[Got]]:
        """Get up to `units` units of work ahead, each of up to `most` plain messages, without a wait.

        The connection's unit of work is the first unit that is not settled. `begin_commit` with `behind` settles this unit.
        """
        ...

    def give_back(self, count: int | None = None) -> None:
        """Return the messages of the last `count` units of work to their places. None for `count` means all units ahead.

        The backout counts of the messages do not rise.
        """
        ...

    def abandon(self) -> None:
        """End the connection as if the application had died: the unit of work is backed out."""
        ...


class Servable(Protocol):
    """A queue manager in this process."""

    @property
    def name(self) -> str:
        """The name of the queue manager."""
        ...

    @property
    def owner(self) -> str:
        """The user that runs the queue manager. Over a Unix socket, this is the user of an application that names no user."""
        ...

    def administration_of(self, user: str) -> Administration:
        """Return the administration, for a user that may administer the queue manager. Refuses other users with 2035."""
        ...

    def administers(self, user: str) -> bool:
        """Return whether the user has every authority."""
        ...

    def require_authorities(self, made_administrator: Callable[[str], bool]) -> None:
        """Check authorities from now on, also without an authority record: other machines can connect.

        `made_administrator` returns whether the owner made this user an administrator.
        """
        ...

    def connect(self, *, application_name: str = "", user: str = "") -> ServableConnection:
        """Return a new connection."""
        ...


Host = Callable[[requests.HostOrder], None]
"""Ends the queue manager, or backs it up. Runs on the thread of the administrator's connection."""


def no_host(request: requests.HostOrder) -> None:
    """Refuse the order: this queue manager belongs to an application, and ends with that application."""
    said = "The queue manager belongs to a running application: stop the application, or use `mqflow qmgr start` in its place"
    raise error_for(Reason.FUNCTION_NOT_SUPPORTED, type(request).__name__, detail=said)


class ServedPeer(Protocol):
    """The server's end of one peer's stream, on a thread of its own."""

    #: The time until which the peer must have logged in; None after the log-in.
    unknown_until: float | None
    #: Whether the server checks the log-in of the peer now, and waits for no bytes of it.
    is_checked: bool
    #: Whether other connections end before this one.
    is_pulse: bool

    def run(self) -> None:
        """Answer the peer until it ends."""
        ...

    def end(self) -> None:
        """Make `run` return. The server still answers a call under way."""
        ...

    def let_go(self) -> None:
        """Close the stream and the signal. `run` calls this. If `run` never ran, the caller must call this."""
        ...


class Admit(Protocol):
    """Gives a place to a peer that has logged in. Raises `MQIError` 2025 if no place is free."""

    def __call__(self, connection: ServedPeer, *, administers: bool) -> None:
        """Give the peer a place as an application, or as an administrator."""
        ...


class Arrival(Struct, frozen=True):
    """A peer that has just connected, and the clock, the functions and the limits that the server gives to the peer's end."""

    raw: socket.socket
    clock: Clock
    complain: Callable[[str], None]
    #: The signal that ends a wait of the peer.
    arrived: Signal
    admit: Admit
    #: Takes a place for one more connection of an admitted peer. Raises `MQIError` 2025 if no place is free.
    take_place: Callable[[], None]
    #: Gives back a place of `take_place`. The server itself gives back the place of `admit`.
    give_place_back: Callable[[], None]
    #: The peer calls this when it has ended.
    over: Callable[[ServedPeer], None]
    #: The longest time until the peer has logged in.
    hello_s: float
    #: The refusal for applications if the server is full.
    full: MQIError | None


Peers = Callable[[Arrival], ServedPeer]
"""Makes the server's end for a peer: one for each protocol."""
