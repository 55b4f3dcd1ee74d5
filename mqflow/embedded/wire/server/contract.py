"""The contract of a queue manager that can be served to other processes, and of its connections.

This file has protocols only.
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
    """A connection that can be served: its application can die in another process."""

    def browse_back(self, handle: ObjectHandle, count: int) -> None:
        """Move the browse cursor back by `count` messages of the last `get_many`, even if these messages are gone."""
        ...

    def exchange_at_once(
        self, handle: ObjectHandle, options: GetOptions, *, commit: bool, most: int, bytes_max: int
    ) -> list[Got] | None:
        """With `commit`, commit. Then get messages if the first one is plain. Return None if the commit needs a wait."""
        ...

    def get_at_once(self, handle: ObjectHandle, options: GetOptions, *, most: int, bytes_max: int) -> list[Got]:
        """Return plain messages that are on the queue now. Return none if the first is special, or a get would be refused."""
        ...

    def take_ahead(
        self, handle: ObjectHandle, options: GetOptions, *, most: int, units: int, bytes_max: int
    ) -> list[list[Got]]:
        """Get up to `units` units of work ahead, each of up to `most` plain messages, without a wait.

        The connection's unit of work is the first unit that is not settled. `begin_commit` with `behind` settles it.
        """
        ...

    def give_back(self, count: int | None = None) -> None:
        """Return the messages of the last `count` units of work, uncounted; None stands for all units ahead."""
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
        """The user that runs the queue manager. Over a Unix socket, an application without a user name works as this user."""
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
