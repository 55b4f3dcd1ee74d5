"""A connection made awaitable, with one unit of work at a time.

There are two forms, which behave alike: `InlineSession` and `ThreadedSession`. Decides nothing about messages.
"""

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

from mqflow.mqi.options import OpenOption
from mqflow.policy.poison.disposition import Settlement
from mqflow.runtime.connection.inline_session import InlineSession
from mqflow.runtime.connection.open_objects import OpenObjects
from mqflow.runtime.connection.threaded_session import ThreadedSession
from mqflow.verbs import Connection, Exchange, GetOptions, InlineQueueManager, ObjectHandle, QueueManager
from mqflow.world import Runner

__all__ = ("Session", "open_session")

T = TypeVar("T")


class Session(Protocol):
    """One connection, one unit of work at a time, used by one task at a time."""

    #: Which return of the connection it belongs to, as its supervisor counts them.
    generation: int
    #: A caller went away before its verb had ended (asyncio's own cancellation goes through a shield): nobody knows what that
    #: verb did in the unit of work, so it is to be backed out.
    abandoned: bool

    @property
    def connection(self) -> Connection:
        """The verbs, for `call`."""
        ...

    @property
    def open_objects(self) -> OpenObjects:
        """What stays open on this connection, and is taken over by the next; for `call`."""
        ...

    async def call(self, verb: Callable[..., T], *args: Any, **options: Any) -> T:
        """Return what the verb returns; it has run to its end even where the caller was cancelled meanwhile."""
        ...

    async def output(self, queue_name: str, options: OpenOption = OpenOption.OUTPUT) -> ObjectHandle:
        """Return a handle open for output, kept for the next time."""
        ...

    async def exchange(
        self, settlement: Settlement | None, handle: ObjectHandle, options: GetOptions, *, most: int, linger_ms: int = 0
    ) -> Exchange:
        """Settle what is open, then wait for a message and take up to `most` without waiting longer than `linger_ms`.

        After a settlement nothing is waited for: an empty unit lets the caller tell of it before it asks again.
        A message that was backed out before is always a unit of its own, or ends one: redelivery goes one by one.
        """
        ...

    async def settle(self, settlement: Settlement) -> None:
        """End the unit of work. Shielded, once, bounded: 2549 where no answer came in time."""
        ...

    def interrupt(self) -> None:
        """Let an `exchange` that waits return with what it has."""
        ...

    async def close(self) -> None:
        """Back out what is open, then disconnect. Quiet when the connection is gone already."""
        ...


async def open_session(
    queue_manager: QueueManager,
    runner: Runner,
    application_name: str = "",
    user: str = "",
    *,
    owner: str = "",
    numbers: Iterator[int] | None = None,
) -> Session:
    """Return a new session on the queue manager, of the form that suits it; `owner` and `numbers` are for its `OpenObjects`."""

    def opening(connection: Connection) -> OpenObjects:
        return OpenObjects(connection, owner, numbers)

    if isinstance(queue_manager, InlineQueueManager):
        return InlineSession(queue_manager.connect(application_name=application_name, user=user), opening)

    def connect() -> Connection:
        return queue_manager.connect(application_name=application_name, user=user)

    return await ThreadedSession.connected(connect, runner, opening)
