"""A connection whose verbs can be awaited, with one unit of work at a time.

`InlineSession` and `ThreadedSession` implement it, with the same behaviour. A session makes no decision about messages.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import ParamSpec, Protocol, TypeVar

from mqflow.policy.poison.disposition import Settlement
from mqflow.runtime.connection.inline_session import InlineSession
from mqflow.runtime.connection.open_objects import OpenObjects
from mqflow.runtime.connection.threaded_session import ThreadedSession
from mqflow.verbs import Connection, Exchange, GetOptions, Got, InlineQueueManager, ObjectDescriptor, ObjectHandle, QueueManager
from mqflow.world import Runner

__all__ = ("Session", "open_session")

P = ParamSpec("P")
T = TypeVar("T")


class Session(Protocol):
    """One connection with one unit of work at a time, used by one task at a time."""

    #: The number of the reconnection that made this session's connection, as the supervisor counts.
    generation: int
    #: True if a caller has abandoned a verb before its end, for example by asyncio's `Task.cancel`, which no shield of anyio
    #: stops. Nobody knows what that verb did in the unit of work, so the unit must be backed out.
    abandoned: bool
    #: The messages of a unit of work that still waits for more messages, or gets more. If an error or a cancellation ends the
    #: `exchange`, they stay here, because its caller does not get them.
    lingering: Sequence[Got]

    @property
    def connection(self) -> Connection:
        """The connection; run its verbs with `call`."""
        ...

    @property
    def open_objects(self) -> OpenObjects:
        """The objects that stay open on this connection, and on the next one after an outage. Use their methods with `call`."""
        ...

    async def call(self, verb: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Call the verb and return its result. The verb runs to its end even if the caller is cancelled."""
        ...

    async def output(self, target: ObjectDescriptor | str) -> ObjectHandle:
        """Return a handle of the queue or topic, open for output. `OpenObjects.output` describes the handle and the errors."""
        ...

    async def exchange(
        self, settlement: Settlement | None, handle: ObjectHandle, options: GetOptions, *, most: int, linger_ms: int = 0
    ) -> Exchange:
        """Commit or back out the open unit of work, then get a new unit of up to `most` messages.

        Waits for the first message, and then at most `linger_ms` for further messages. After a settlement there is no wait, so
        that the caller can report the settlement immediately: the new unit can be empty. A message that was backed out before
        is the last message of its unit.
        """
        ...

    async def settle(self, settlement: Settlement) -> None:
        """End the unit of work with one call, shielded from cancellation. Raises 2549 if no answer comes in time."""

    def interrupt(self) -> None:
        """End the wait of an `exchange`. The `exchange` returns the messages that it has so far."""

    async def close(self) -> None:
        """Back out the open unit of work, then disconnect; a cancellation does not interrupt this.

        Raises nothing if the connection is lost already.
        """


async def open_session(
    queue_manager: QueueManager,
    runner: Runner,
    application_name: str = "",
    user: str = "",
    *,
    owner: str = "",
    numbers: Iterator[int] | None = None,
) -> Session:
    """Return a new session of the kind that suits the queue manager. For `owner` and `numbers`, see `OpenObjects`."""

    def open_objects(connection: Connection) -> OpenObjects:
        return OpenObjects(connection, owner, numbers)

    if isinstance(queue_manager, InlineQueueManager):
        return InlineSession(queue_manager.connect(application_name=application_name, user=user), open_objects)

    def connect() -> Connection:
        return queue_manager.connect(application_name=application_name, user=user)

    return await ThreadedSession.connected(connect, runner, open_objects)
