"""A synchronous consumer: `receive`, and the unit of work is the caller's to settle.

Poison messages are requeued inside the unit of work that was active when the application tried to get them, so the move commits
with it. Decides nothing itself.
Source: IBM q032280, "Processing poison messages for synchronous applications".
"""

from typing import Any, Final, Unpack

from mqflow.ambient import Clock
from mqflow.app.codecs import Codec
from mqflow.app.message import Message
from mqflow.app.publishing import Outgoing, Send, Wishes, outgoing
from mqflow.events import Decided, Disposed
from mqflow.mqi.options import GetOption
from mqflow.policy.disposition import Behaviour, Deliver, Return, Settlement
from mqflow.policy.moved import Why
from mqflow.runtime.broadcast import Broadcast
from mqflow.runtime.delivery import Decide
from mqflow.runtime.disposal import Mover
from mqflow.runtime.retries import with_all_backouts
from mqflow.runtime.session import Session
from mqflow.runtime.settings_cache import SettingsCache
from mqflow.verbs import GetOptions, Got, ObjectHandle, Put

__all__ = ("Consumer",)


class Consumer:
    """Receives messages of one queue, one unit of work at a time. Made by `App.consumer`."""

    def __init__(
        self,
        session: Session,
        handle: ObjectHandle,
        queue: str,
        *,
        settings: SettingsCache,
        behaviour: Behaviour,
        decide: Decide,
        broadcast: Broadcast,
        clock: Clock,
        send: Send,
        codec: Codec | None,
        application_name: str,
    ) -> None:
        self._session: Final = session
        self._handle: Final = handle
        self._settings: Final = settings
        self._decide: Final = decide
        self._broadcast: Final = broadcast
        self._send: Final = send
        self._codec: Final = codec
        self._transacted: Final = behaviour is Behaviour.JMS_CONSUMER
        self._mover: Final = Mover(session, handle, queue, behaviour, application_name, clock)
        self.queue: Final = queue

    async def receive(self, *, wait_ms: int = 0) -> Message | None:
        """Return the next message, or None where none came within the wait (-1 waits for ever).

        Transacted, it is in the open unit of work until `commit` or `backout`; otherwise it is off its queue for good. A poison
        message is moved on the way, in the same unit of work, and the next one is returned.
        """
        as_it_is = GetOption.FAIL_IF_QUIESCING | GetOption.PROPERTIES_FORCE_MQRFH2
        wanted = GetOptions(options=GetOption.SYNCPOINT | GetOption.WAIT | as_it_is, wait_ms=wait_ms)
        while True:
            exchange = await self._session.exchange(None, self._handle, wanted, most=1)
            if exchange.get_error is not None:
                raise exchange.get_error
            if not exchange.unit:
                return None
            got = with_all_backouts(exchange.unit[0])
            delivered = not got.descriptor.backout_count or await self._deliver(got)
            if not self._transacted:
                await self._session.settle(Settlement.COMMIT)
            if delivered:
                return Message(got.descriptor, got.body, self.queue)

    async def put(self, queue: str, payload: Any, **wishes: Unpack[Wishes]) -> Put:
        """Put a message in the open unit of work; `wishes` are those of `App.put`."""
        wishes.setdefault("codec", self._codec)
        return await self.send(outgoing(queue, payload, **wishes))

    async def send(self, message: Outgoing) -> Put:
        """Put a message that is made already; without a transaction, at once."""
        put = await self._send(message)
        if not self._transacted:
            await self._session.settle(Settlement.COMMIT)
        return put

    async def commit(self) -> None:
        """End the unit of work for good. Raises 2003 where it was backed out, 2009 or 2549 where nobody knows."""
        await self._session.settle(Settlement.COMMIT)

    async def backout(self) -> None:
        """Undo the unit of work: its messages are on their queue again, BackoutCount + 1, moved poison messages included."""
        await self._session.settle(Settlement.BACKOUT)

    async def _deliver(self, got: Got) -> bool:
        """Decide about a message that was backed out before: True delivers it, else it has been moved."""
        settings = await self._settings.get(self._session, 0)
        attributes = settings.attributes
        plan = self._decide(got.descriptor, attributes, settings.dead_letter_queue, self._mover.behaviour)
        count, message_id = got.descriptor.backout_count, got.descriptor.message_id
        decided = Decided(
            queue=self.queue,
            message_id=message_id,
            listener=f"consumer of {self.queue}",
            backout_count=count,
            threshold=attributes.backout_threshold,
            backout_requeue_queue=attributes.backout_requeue_queue,
            threshold_source=settings.threshold_source,
            queue_source=settings.queue_source,
            plan=plan,
        )
        self._broadcast(decided)
        if plan == (Deliver(),):
            return True
        why = Why(queue=self.queue, count=count, threshold=attributes.backout_threshold, handler=decided.listener)
        disposal = await self._mover.carry_out(got, plan, why)
        for sent in disposal.reports:
            self._broadcast(sent)
        self._broadcast(
            Disposed(
                queue=self.queue,
                message_id=message_id,
                listener=decided.listener,
                backout_count=count,
                attempts=disposal.attempts,
            )
        )
        # Nobody takes it and it may not be thrown away: the caller gets it once more rather than nothing, for ever.
        return isinstance(disposal.disposition, Return)
