"""The puts of an application outside of the units of work of its deliveries, on sessions of their own.

One session is for puts that handlers make, and one for all other code. A put from a handler never waits for a connection, so it
must not wait behind a put that does. The puts of publish middleware have sessions of their own, because the commit of a put
waits for its middleware. If that put has a unit of work already, they do not wait for a connection either. Otherwise a queue
manager that quiesces would wait for the unit of work. This file makes no decision about a message.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from mqflow.app.handlers.codecs import Codec
from mqflow.app.handlers.middleware import PublishMiddleware, around_put
from mqflow.app.handlers.outgoing_message import Outgoing, PutKeywords, with_codec
from mqflow.app.run.put_session import PutSession, closed, place_of_put
from mqflow.app.run.unit_of_puts import Way
from mqflow.runtime.connection.reconnecting_session import ReconnectingSession, in_delivery
from mqflow.runtime.connection.supervisor import Supervisor
from mqflow.runtime.delay.stage import Stager
from mqflow.runtime.hooks import Broadcast
from mqflow.verbs import Put

__all__ = ("Puts",)

_DEPTH_MAX: Final = 8


class Puts:
    """Puts the messages of one application in units of work that are not those of its deliveries."""

    def __init__(
        self,
        supervisor: Supervisor,
        stager: Stager,
        broadcast: Broadcast,
        layers: Sequence[PublishMiddleware],
        codec: Codec | None,
        check_place: Callable[[], None],
    ) -> None:
        """Take the middleware with `publish`, and the codec for messages that have no codec of their own.

        `check_place` raises the error of a put at a wrong time or in a wrong thread.
        """
        self._check_place: Final = check_place
        self._supervisor: Final = supervisor
        self._codec: Final = codec
        around = partial(around_put, layers) if layers else None

        def session(depth: int, *, waits: bool) -> PutSession:
            name = "puts of middleware" if depth else "puts outside of deliveries" if waits else "puts beside deliveries"
            reconnecting = ReconnectingSession(supervisor, name, waits=waits)
            return PutSession(Way(reconnecting=reconnecting, stager=stager, broadcast=broadcast, waits=waits), around)

        self._new_session: Final = session
        #: By the depth of `place_of_put`, and by whether their puts wait for a connection.
        self._sessions: Final[dict[tuple[int, bool], PutSession]] = {}
        self._is_closed = False
        supervisor.let_go_when_quiescing(self._release)

    async def put(self, make: Callable[..., Outgoing], keywords: PutKeywords) -> Put:
        """Put the message that `make` returns for these keywords. Raises the `MQIError` of the put or of its commit."""
        with_codec(keywords, self._codec)
        return await self._session().put(make(**keywords))

    async def put_many(self, make: Callable[..., Sequence[Outgoing]], keywords: PutKeywords) -> list[Put]:
        """Put all messages that `make` returns, in one unit of work. Raises the `MQIError` of the first put that is refused."""
        with_codec(keywords, self._codec)
        return await self._session().put_many(make(**keywords))

    async def close(self) -> None:
        """Close the sessions. Later puts raise `MQIError` 2202."""
        self._is_closed = True
        for session in tuple(self._sessions.values()):
            await session.close()

    def check(self) -> None:
        """Raise the error of a put that may not begin here or now: 2202 after `close`."""
        self._check_place()
        if self._is_closed:
            raise closed()

    def _session(self) -> PutSession:
        self.check()
        depth, holds_unit = place_of_put()
        waits = not (holds_unit or in_delivery(self._supervisor))
        place = depth, waits
        if place not in self._sessions:
            if depth > _DEPTH_MAX:
                raise RuntimeError(
                    f"Publish middleware called App.put in each of {depth} puts, one inside the other. It must not put a "
                    "message for each message that it has put itself."
                )
            self._sessions[place] = self._new_session(depth, waits=waits)
        return self._sessions[place]

    async def _release(self) -> None:
        for session in tuple(self._sessions.values()):
            await session.release()
