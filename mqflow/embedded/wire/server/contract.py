"""What can be served to other processes: a queue manager of this one, and connections whose application may die.

Protocols only.
"""

from collections.abc import Callable
from typing import Protocol

from mqflow.embedded.administration.interface import Administration
from mqflow.embedded.wire.protocol import requests
from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import BatchConnection, GetOptions, Got, InlineConnection, ObjectHandle

__all__ = ("Host", "Servable", "ServableConnection", "no_host")


class ServableConnection(InlineConnection, BatchConnection, Protocol):
    """A connection whose application may die."""

    def browse_back(self, handle: ObjectHandle, count: int) -> None:
        """Put the cursor back by so many of the messages that the last `get_many` browsed, to their place if they are gone."""
        ...

    def exchange_at_once(
        self, handle: ObjectHandle, options: GetOptions, *, commit: bool, most: int, bytes_max: int
    ) -> list[Got] | None:
        """Commit where `commit`, and get if what comes first is plain; None where the commit is not over at once."""
        ...

    def get_at_once(self, handle: ObjectHandle, options: GetOptions, *, most: int, bytes_max: int) -> list[Got]:
        """Return plain messages that are there; none where the first is special, or a get would be refused."""
        ...

    def abandon(self) -> None:
        """End it as when its application dies: the unit of work is backed out."""
        ...


class Servable(Protocol):
    """A queue manager in this process."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def owner(self) -> str:
        """The user that runs it: whoever connects and names nobody is that one, because no other can."""
        ...

    def administration_of(self, user: str) -> Administration:
        """Its definitions and status, for a user that may change them; others are refused with 2035."""
        ...

    def connect(self, *, application_name: str = "", user: str = "") -> ServableConnection:
        """Return a new connection."""
        ...


Host = Callable[[requests.HostOrder], None]
"""Ends the queue manager, or backs it up: whoever has started it. Called on the thread of the connection that asks."""


def no_host(request: requests.HostOrder) -> None:
    """Refuse: this queue manager belongs to an application, and ends with it."""
    said = "It is the queue manager of a running application: stop that, or start it by `mqflow qmgr start` instead"
    raise error_for(Reason.FUNCTION_NOT_SUPPORTED, type(request).__name__, detail=said)
