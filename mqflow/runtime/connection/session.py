"""A connection made awaitable, with one unit of work at a time.

There are two forms, which behave alike: `InlineSession` and `ThreadedSession`. Decides nothing about messages.
"""

from collections.abc import Callable, Iterator
from typing import ParamSpec, Protocol, TypeVar

from mqflow.mqi.options import OpenOption
from mqflow.policy.poison.disposition import Settlement
from mqflow.runtime.connection.inline_session import InlineSession
from mqflow.runtime.connection.open_objects import OpenObjects
from mqflow.runtime.connection.threaded_session import ThreadedSession
from mqflow.verbs import Connection, Exchange, GetOptions, InlineQueueManager, ObjectHandle, QueueManager
from mqflow.world import Runner

__all__ = ("Session", "open_session")

P = ParamSpec("P")
T = TypeVar("T")


class Session(Protocol):
    """One connection with one unit of work at a time, used by one task at a time."""

    #: The generation of its connection, as the supervisor counts them.
    generation: int
    #: Whether a caller abandoned its verb before the verb had ended (asyncio's own cancellation goes through a shield). Nobody
    #: knows what that verb did in the unit of work, so the unit must be backed out.
    abandoned: bool

    @property
    def connection(self) -> Connection:
        """The connection; run its verbs with `call`."""
        ...

    @property
    def open_objects(self) -> OpenObjects:
        """The objects that stay open, on this connection and the next; use them with `call`."""
        ...

    async def call(self, verb: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Return the result of the verb, which runs to its end even if the caller is cancelled."""
        ...

    async def output(self, queue_name: str, options: OpenOption = OpenOption.OUTPUT) -> ObjectHandle:
        """Return a handle open for output; it stays open."""
        ...

    async def exchange(
        self, settlement: Settlement | None, handle: ObjectHandle, options: GetOptions, *, most: int, linger_ms: int = 0
    ) -> Exchange:
        """Settle the open unit of work, then wait for a message; take up to `most`, and wait at most `linger_ms` for more.

        After a settlement there is no wait: an empty unit lets the caller report the settlement before the next call. A message
        that was backed out before is a unit of its own, or ends one: redelivery goes message by message.
        """
        ...

    async def settle(self, settlement: Settlement) -> None:
        """End the unit of work, once, shielded from cancellation. Raises 2549 if no answer comes in time."""
        ...

    def interrupt(self) -> None:
        """End the wait of an `exchange`, which returns the messages that it has."""
        ...

    async def close(self) -> None:
        """Back the open unit of work out, then disconnect. Raises nothing if the connection is gone already."""
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
    """Return a new session of the form that suits the queue manager; `owner` and `numbers` are for its `OpenObjects`."""

    def open_objects(connection: Connection) -> OpenObjects:
        return OpenObjects(connection, owner, numbers)

    if isinstance(queue_manager, InlineQueueManager):
        return InlineSession(queue_manager.connect(application_name=application_name, user=user), open_objects)

    def connect() -> Connection:
        return queue_manager.connect(application_name=application_name, user=user)

    return await ThreadedSession.connected(connect, runner, open_objects)
