"""A synchronous consumer: the application calls `receive` and settles the unit of work itself.

The consumer requeues a poison message inside the unit of work in which the application receives, so the move commits with that
unit of work. This file takes no decision itself.
Source: IBM q032280, "Processing poison messages for synchronous applications".
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, Unpack

import anyio
from msgspec.structs import replace

from mqflow.app.handlers.codecs import Codec
from mqflow.app.handlers.message import Message
from mqflow.app.handlers.outgoing import Outgoing, PutKeywords, Send, outgoing
from mqflow.events import Decided, Disposed, Event, InDoubt, Warned
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.options import GetOption
from mqflow.mqi.reason_codes import Reason, reason_name
from mqflow.policy.poison.disposition import Behaviour, Deliver, Return, Settlement
from mqflow.policy.poison.moved_message import Why
from mqflow.policy.reconnect.reason_classes import leaves_in_doubt
from mqflow.runtime.connection.open_objects import INPUT
from mqflow.runtime.connection.reconnecting_session import ReconnectingSession
from mqflow.runtime.connection.session import Session
from mqflow.runtime.connection.supervisor import Supervisor
from mqflow.runtime.consumer_records import ConsumerRecords
from mqflow.runtime.decision_records import ConnectionRecorder
from mqflow.runtime.hooks import Broadcast
from mqflow.runtime.listener.backout_settings import SettingsCache
from mqflow.runtime.listener.delivery import Decide
from mqflow.runtime.listener.long_retries import with_all_backouts
from mqflow.runtime.listener.move_poison import PoisonMover
from mqflow.verbs import GetOptions, Got, Put
from mqflow.world import Clock

__all__ = ("Consumer",)

_RECORDED_WAIT_MS: Final = 5_000
"""The longest single wait of a consumer with decision records. Between waits the consumer puts its heartbeat, once a minute."""


class Consumer:
    """Receives the messages of one queue, one unit of work at a time. `App.consumer` makes it."""

    def __init__(
        self,
        supervisor: Supervisor,
        queue: str,
        *,
        behaviour: Behaviour,
        decide: Decide,
        broadcast: Broadcast,
        clock: Clock,
        sender: Callable[[Session], Send],
        codec: Codec | None,
        application_name: str,
        records: ConnectionRecorder | None = None,
    ) -> None:
        self._behaviour: Final = behaviour
        self._settings: Final = SettingsCache(None, None, self._warn)
        self._decide: Final = decide
        self._broadcast: Final = broadcast
        self._clock: Final = clock
        self._sender: Final = sender
        self._codec: Final = codec
        self._application_name: Final = application_name
        self._transacted: Final = behaviour is Behaviour.JMS_CONSUMER
        self._name: Final = f"consumer of {queue}"
        self._reconnecting: Final = ReconnectingSession(supervisor, self._name)
        #: Puts a record of each decision; None puts no records.
        self._records: Final = (
            None if records is None else ConsumerRecords(records, queue, self._name, clock=clock, broadcast=broadcast)
        )
        #: The message identifiers of the open unit of work.
        self._received: list[bytes] = []
        self._sent: list[bytes] = []
        #: The events about moves in the open unit of work; the hooks receive them after the commit.
        self._moves: list[Event] = []
        #: Why the unit of work is backed out already; empty after the caller has received the error.
        self._backout_cause = ""
        self.queue: Final = queue

    async def open(self) -> None:
        """Connect and open the queue. Raises the `MQIError` of the open."""
        await self._opened()

    async def close(self) -> None:
        """Back the open unit of work out, and close the connection."""
        if self._records is not None and self._records.open and self._reconnecting.queue_manager_name:
            with anyio.CancelScope(shield=True), suppress(MQIError):  # of a lost connection, the queue manager backs out
                await self.backout()
        await self._reconnecting.close()

    async def receive(self, *, wait_ms: int = 0) -> Message | None:
        """Return the next message, or None if no message comes within `wait_ms` milliseconds (-1 waits without limit).

        A transacted consumer has the message in the open unit of work until `commit` or `backout`. Otherwise the message is
        committed at once. The consumer moves a poison message in the same unit of work, and returns the next message.

        After a lost connection the consumer reconnects, and the wait begins again. If the unit of work had messages, they are
        backed out and this raises `MQIError` 2003 once. Raises the `MQIError` of the get for other errors. After every error
        the message is on its queue again.
        """
        self._raise_if_backed_out("MQGET")
        flags = GetOption.FAIL_IF_QUIESCING | GetOption.PROPERTIES_FORCE_MQRFH2
        options = GetOptions(options=GetOption.SYNCPOINT | GetOption.WAIT | flags, wait_ms=wait_ms)
        waited_ms = 0
        while True:
            session, mover = await self._opened()
            try:  # a message that cannot be decided about is not got again and again
                await self._settings.retry(session, mover.handle, session.generation)
            except MQIError as error:
                await self._lose_or_raise(error)
                continue
            step_ms, step = wait_ms, options
            if self._records is not None:
                step_ms = await self._step_ms(self._records, session, wait_ms, waited_ms)
                step = replace(options, wait_ms=step_ms)
            async with self._backed_out_if_abandoned(session):
                exchange = await session.exchange(None, mover.handle, step, most=1)
            if exchange.get_error is not None:
                await self._lose_or_raise(exchange.get_error)
                waited_ms = 0
                continue
            if not exchange.unit:
                waited_ms += step_ms
                if step_ms < 0 or 0 <= wait_ms <= waited_ms:
                    return None
                continue
            got = with_all_backouts(exchange.unit[0])
            self._received.append(got.descriptor.message_id)
            if self._records is not None:
                self._records.got(got)
            delivered = not got.descriptor.backout_count or await self._deliver_or_back_out(got, session, mover)
            if not self._transacted:
                await self.commit()
            if delivered:
                return Message(got.descriptor, got.body, self.queue)
            waited_ms = 0

    async def put(self, queue: str, payload: Any, **keywords: Unpack[PutKeywords]) -> Put:
        """Put a message in the open unit of work. The keyword arguments and errors are those of `App.put`."""
        keywords.setdefault("codec", self._codec)
        return await self.send(outgoing(queue, payload, **keywords))

    async def send(self, message: Outgoing) -> Put:
        """Put an `Outgoing` message in the open unit of work; a consumer that is not transacted commits it at once."""
        self._raise_if_backed_out("MQPUT")
        session, _ = await self._opened()
        try:
            async with self._backed_out_if_abandoned(session):
                put = await self._sender(session)(message)
        except MQIError as error:
            if await self._reconnecting.lose(error):
                self._forget_unit(str(error), has_messages=bool(self._received or self._sent))
            raise
        self._sent.append(put.descriptor.message_id)
        if not self._transacted:
            await self.commit()
        return put

    async def commit(self) -> None:
        """Commit the unit of work. Raises `MQIError` 2003 if it was backed out, 2009 or 2549 if its outcome is unknown.

        For an unknown outcome the hooks also receive `InDoubt`. The commit is never repeated on another connection; the next
        `receive` makes a new connection.
        """
        await self._settle(Settlement.COMMIT)

    async def backout(self) -> None:
        """Back the unit of work out: all its messages, also moved ones, are on the queue again with BackoutCount + 1."""
        await self._settle(Settlement.BACKOUT)

    async def _settle(self, settlement: Settlement) -> None:
        if settlement is Settlement.COMMIT:
            self._raise_if_backed_out("MQCMIT")
        elif self._backout_cause:
            self._backout_cause = ""
            return
        session, _ = await self._opened()
        received, sent = tuple(self._received), tuple(self._sent)
        moves, self._moves = self._moves, []
        self._received.clear()
        self._sent.clear()
        try:
            if self._records is not None and settlement is Settlement.COMMIT:
                await self._records.record_commit(session)
            await session.settle(settlement)
            if self._records is not None and settlement is Settlement.BACKOUT:
                await self._records.record_backout(session)
        except MQIError as error:
            if leaves_in_doubt(error) and (received or sent):
                reason = int(error.reason)
                self._broadcast(
                    InDoubt(queue=self.queue, listener=self._name, reason=reason, message_ids=received, put_message_ids=sent)
                )
            await self._reconnecting.lose(error)
            raise
        finally:
            if self._records is not None:
                self._records.ended()
        if settlement is Settlement.COMMIT:
            for moved in moves:
                self._broadcast(moved)

    async def _step_ms(self, records: ConsumerRecords, session: Session, wait_ms: int, waited_ms: int) -> int:
        """Return the length of the next wait: the rest of `wait_ms`, or less, so that an idle consumer puts its heartbeat."""
        left_ms = wait_ms if wait_ms < 0 else wait_ms - waited_ms
        if self._received or self._sent:
            return left_ms
        await records.heartbeat(session)
        return _RECORDED_WAIT_MS if left_ms < 0 else min(left_ms, _RECORDED_WAIT_MS)

    async def _opened(self) -> tuple[Session, PoisonMover]:
        """Return the session, with its queue open. If the last session was lost, this is a new session."""
        session = await self._reconnecting.get()
        handle = await session.call(session.open_objects.hold, self.queue, INPUT)
        return session, PoisonMover(session, handle, self.queue, self._behaviour, self._application_name, self._clock)

    async def _lose_or_raise(self, error: MQIError) -> None:
        """Close a lost session. Raise the error if the session is not lost, or 2003 if it had an open unit of work."""
        if not await self._reconnecting.lose(error):
            raise error
        why = f"The connection was lost ({reason_name(int(error.reason))}), and the unit of work with it"
        self._forget_unit(why, has_messages=bool(self._received or self._sent))
        self._raise_if_backed_out("MQGET", error)

    def _forget_unit(self, why: str, *, has_messages: bool) -> None:
        """Note that the unit of work is backed out. If it had messages of the caller (`has_messages`), the next call raises."""
        self._received.clear()
        self._sent.clear()
        self._moves.clear()
        if self._records is not None:
            self._records.ended()
        self._backout_cause = why if has_messages else ""

    def _raise_if_backed_out(self, verb: str, error: MQIError | None = None) -> None:
        """Raise 2003, once, if the unit of work was backed out without a call of the caller."""
        why, self._backout_cause = self._backout_cause, ""
        if why:
            raise error_for(Reason.BACKED_OUT, verb, self.queue, detail=why) from error

    @asynccontextmanager
    async def _backed_out_if_abandoned(self, session: Session) -> AsyncIterator[None]:
        """Back the unit of work out if the caller abandons the call inside, because the result of the call is then unknown."""
        try:
            yield
        except BaseException as error:
            if session.abandoned:
                await self._back_out(session, error, has_messages=bool(self._received or self._sent))
            raise

    async def _deliver_or_back_out(self, got: Got, session: Session, mover: PoisonMover) -> bool:
        """Call `_deliver`. If it raises, back the unit of work out, because the caller does not get the message."""
        has_messages = len(self._received) > 1 or bool(self._sent)
        try:
            return await self._deliver(got, session, mover)
        except BaseException as error:
            await self._back_out(session, error, has_messages=has_messages)
            raise

    async def _back_out(self, session: Session, error: BaseException, *, has_messages: bool) -> None:
        with anyio.CancelScope(shield=True):
            if not (isinstance(error, MQIError) and await self._reconnecting.lose(error)):
                try:
                    await session.settle(Settlement.BACKOUT)
                except MQIError:  # a connection that cannot back out is of no use
                    await self._reconnecting.close()
                session.abandoned = False
        why = f"A receive or a put was cut off, and the unit of work was backed out. {error}"
        self._forget_unit(why, has_messages=has_messages)

    def _warn(self, text: str) -> None:
        self._broadcast(Warned(text=f"{self._name}: {text}", queue=self.queue))

    async def _deliver(self, got: Got, session: Session, mover: PoisonMover) -> bool:
        """Decide about a message that was backed out before. Return true to deliver it; false means that it was moved."""
        settings = await self._settings.get(session, mover.handle, session.generation)
        attributes = settings.attributes
        if self._records is not None:
            self._records.attributes = attributes
        plan = self._decide(got.descriptor, attributes, settings.dead_letter_queue, self._behaviour)
        plan = settings.kept(plan, got.descriptor, self._behaviour)
        count, message_id = got.descriptor.backout_count, got.descriptor.message_id
        decided = Decided(
            queue=self.queue,
            message_id=message_id,
            listener=self._name,
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
        disposal = await mover.carry_out(got, plan, why)
        if self._records is not None:
            await self._records.record_move(session, disposal)
        disposed = Disposed(
            queue=self.queue,
            message_id=message_id,
            listener=decided.listener,
            backout_count=count,
            attempts=disposal.attempts,
        )
        if isinstance(disposal.disposition, Return):
            # No queue takes the message, and it must not be discarded: without this delivery the caller would wait for ever.
            self._broadcast(disposed)
            return True
        self._moves += (*disposal.reports, disposed)
        return False
