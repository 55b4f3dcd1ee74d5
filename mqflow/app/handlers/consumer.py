"""A synchronous consumer of a queue or topic. The application itself calls `receive`, and commits or backs out.

The consumer moves a poison message in the unit of work in which the application receives. So the move is committed together
with that unit of work. This file makes no decision itself.
Source: IBM q032280, "Processing poison messages for synchronous applications".
"""

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Final, TypeVar, Unpack, overload

import anyio
from msgspec.structs import replace

from mqflow.app.handlers.codecs import Codec, Decode, decoder_for
from mqflow.app.handlers.message import Message
from mqflow.app.handlers.mistakes import check_number, check_payload_type
from mqflow.app.handlers.outgoing_message import Outgoing, PutKeywords, Send, outgoing, with_codec
from mqflow.events import Decided, Disposed, Event, InDoubt, Warned
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import HeaderError, MQIError, error_for
from mqflow.mqi.options import GetOption
from mqflow.mqi.reason_codes import Reason, reason_name
from mqflow.policy.poison import settlement
from mqflow.policy.poison.backout import Plan, dispose
from mqflow.policy.poison.disposition import Behaviour, Deliver, Disposition, Return, Settlement, Undecodable
from mqflow.policy.poison.moved_message import Why
from mqflow.policy.poison.outcomes import UndecodableError, outcome_of
from mqflow.policy.reconnect.reason_classes import Class, classify, leaves_in_doubt
from mqflow.runtime.connection.open_objects import INPUT
from mqflow.runtime.connection.reconnecting_session import ReconnectingSession
from mqflow.runtime.connection.session import Session
from mqflow.runtime.connection.supervisor import Supervisor
from mqflow.runtime.consumer_records import ConsumerRecords
from mqflow.runtime.decision_records import ConnectionRecorder
from mqflow.runtime.delay.long_retries import with_all_backouts
from mqflow.runtime.hooks import Broadcast
from mqflow.runtime.listener.backout_settings import BackoutSettings, SettingsCache
from mqflow.runtime.listener.delivery import Decide
from mqflow.runtime.listener.poison_mover import PoisonMover
from mqflow.runtime.listener.subscriber import TopicSubscription, queue_of, subscribe
from mqflow.verbs import WAIT_UNLIMITED, GetOptions, Got, ObjectHandle, Put
from mqflow.world import Clock

__all__ = ("Consumer",)

T = TypeVar("T")

_RECORDED_WAIT_MS: Final = 5_000
"""The longest single wait of a consumer that puts decision records. Between two waits it can put its heartbeat record."""


class Consumer:
    """Receives the messages of one queue or subscription, one unit of work at a time. `App.consumer` returns it.

    Only one task at a time can use it. Every method raises `RuntimeError` while another task uses it, in another thread, and
    after the end of its `async with` block.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        chosen: TopicSubscription | str,
        *,
        selector: str = "",
        behaviour: Behaviour,
        decide: Decide,
        broadcast: Broadcast,
        clock: Clock,
        sender: Callable[[Session], Send],
        codec: Codec | None,
        application_name: str,
        records: ConnectionRecorder | None = None,
    ) -> None:
        """Take a subscription, or the name of a queue and its selector; and the parts of the application."""
        self._subscription: Final = None if isinstance(chosen, str) else chosen
        #: The name of the queue, or the topic string.
        self.queue: Final = chosen if isinstance(chosen, str) else chosen.topic
        #: The message that `receive` returned last, even if `receive` returned only its payload.
        self.message: Message | None = None
        self._supervisor: Final = supervisor
        self._selector: Final = selector
        #: The session, and the handle of the subscription's queue on this session.
        self._subscribed: tuple[Session, ObjectHandle] | None = None
        self._behaviour: Final = behaviour
        self._settings: Final = SettingsCache(None, None, behaviour, self._warn)
        self._decide: Final = decide
        self._broadcast: Final = broadcast
        self._clock: Final = clock
        self._sender: Final = sender
        self._codec: Final = codec
        self._application_name: Final = application_name
        self._transacted: Final = behaviour is Behaviour.JMS_CONSUMER
        self._name: Final = f"consumer of {self.queue}"
        self._reconnecting: Final = ReconnectingSession(supervisor, self._name)
        #: Puts a record of each decision; None for no records.
        self._records: Final = (
            None if records is None else ConsumerRecords(records, self.queue, self._name, clock=clock, broadcast=broadcast)
        )
        #: The MsgIds of the messages in the open unit of work.
        self._received: list[bytes] = []
        self._sent: list[bytes] = []
        #: The events about messages that were moved in the open unit of work. The hooks receive them after the commit.
        self._moves: list[Event] = []
        #: The reason why the unit of work was backed out; empty if it was not, or if the caller has received the error.
        self._backout_cause = ""
        #: The decoder for the payload type of the last `receive`.
        self._decoder: tuple[Any, Decode] | None = None
        self._thread: Final = threading.get_ident()
        #: The method that runs now; empty if no method runs.
        self._in_method = ""
        self._is_closed = False

    async def open(self) -> None:
        """Connect, and open the queue or subscribe. Raises the `MQIError` of MQOPEN or MQSUB."""
        await self._opened()

    async def close(self) -> None:
        """Back out the open unit of work, and close the connection. A subscription that is not durable ends with it."""
        self._is_closed = True
        if self._records is not None and self._records.open and self._reconnecting.queue_manager_name:
            with anyio.CancelScope(shield=True), suppress(MQIError):  # if the connection is lost, the queue manager backs out
                await self._backout_unit()
        await self._reconnecting.close()

    @overload
    async def receive(self) -> Message: ...
    @overload
    async def receive(self, payload_type: type[T]) -> T: ...
    @overload
    async def receive(self, *, wait_ms: int) -> Message | None: ...
    @overload
    async def receive(self, payload_type: type[T], *, wait_ms: int) -> T | None: ...

    # Any: the overloads have the types.
    async def receive(self, payload_type: Any = Message, *, wait_ms: int = WAIT_UNLIMITED) -> Any:
        """Wait for the next message and return it. With a payload type, return its payload.

        After that, the attribute `message` is this message, even if this method returned the payload. Returns None if no
        message comes within `wait_ms` milliseconds. By default the wait has no limit, as in JMS.

        With a transacted consumer, the message is in the open unit of work until `commit` or `backout`. Without `transacted`,
        it is committed immediately. If a message is poison, or cannot be decoded, the consumer moves it in the same unit of
        work, and returns the next message. Raises `UndecodableError` if a message cannot be decoded and no queue accepts it.
        If the application's `decide` fails, this method returns the message, and the hooks receive a `Warned` event.

        If the connection is lost, the consumer reconnects, and the wait begins again. If the unit of work had messages, the
        queue manager backs it out, and this method raises `MQIError` 2003 once. For other errors it raises the `MQIError` of
        the get. If an error occurs after the get, the unit of work is backed out, so its messages are on the queue again.

        Without `transacted`, this method also raises the errors of `commit`. If the outcome of the commit is unknown, the
        message may have left the queue, and the hooks receive an `InDoubt` event with its MsgId. This can also happen if
        `Task.cancel` or `asyncio.timeout` ends this call.

        Raises `ConfigurationError` for a type that cannot be a payload. Raises `ValueError` for a `wait_ms` that is no whole
        number, or is below -1 (no limit). In both cases no message is received.
        """
        check_number("receive", "wait_ms", wait_ms, "milliseconds")
        if not (isinstance(wait_ms, int) and wait_ms >= WAIT_UNLIMITED):
            takes = "it takes a whole number of milliseconds, 0 or more. Leave it out for no limit"
            raise ValueError(f"receive(wait_ms={wait_ms!r}): {takes}.")
        with self._only_this("receive"):
            return await self._receive(None if payload_type is Message else self._decoder_for(payload_type), wait_ms)

    async def _receive(self, decode: Decode | None, wait_ms: int) -> Any:
        self._raise_if_backed_out("MQGET")
        flags = GetOption.FAIL_IF_QUIESCING | GetOption.PROPERTIES_FORCE_MQRFH2
        options = GetOptions(options=GetOption.SYNCPOINT | GetOption.WAIT | flags, wait_ms=wait_ms)
        waited_ms = 0
        while True:
            session, mover = await self._opened()
            try:  # without the settings, nothing can be decided about a message
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
            message = Message(got.descriptor, got.body, self.queue)
            payload: list[Any] = await self._deliver_or_back_out(got, message, decode, session, mover)
            if not self._transacted:
                await self._commit_unit()
            if payload:
                self.message = message
                return payload[0]
            waited_ms = 0

    @overload
    async def receive_no_wait(self) -> Message | None: ...
    @overload
    async def receive_no_wait(self, payload_type: type[T]) -> T | None: ...

    # Any: the overloads have the types.
    async def receive_no_wait(self, payload_type: Any = Message) -> Any:
        """Return the next message, or its payload, as `receive` does; None if no message is available now."""
        return await self.receive(payload_type, wait_ms=0)

    async def put(self, queue: str, payload: Any, **keywords: Unpack[PutKeywords]) -> Put:
        """Put a message in the open unit of work. The keyword arguments and errors are those of `App.put`."""
        with_codec(keywords, self._codec)
        return await self.send(outgoing(queue, payload, **keywords))

    async def send(self, message: Outgoing) -> Put:
        """Put an `Outgoing` message in the open unit of work.

        If the consumer is not transacted, commit the message immediately. If that put raises an error, it is backed out. With a
        transacted consumer, a message whose publish middleware raises after `call_next` stays in the open unit of work.
        """
        with self._only_this("put"):
            return await self._put(message)

    async def _put(self, message: Outgoing) -> Put:
        self._raise_if_backed_out("MQPUT")
        session, _ = await self._opened()
        try:
            async with self._backed_out_if_abandoned(session):
                put = await self._sender(session)(message)
        except BaseException as error:
            if not self._transacted:  # middleware can have put the message; no later commit must include it
                await self._leave_unit(session, error)
            elif isinstance(error, MQIError) and await self._reconnecting.lose(error):
                self._forget_unit(str(error), has_messages=bool(self._received or self._sent))
            raise
        self._sent.append(put.descriptor.message_id)
        if not self._transacted:
            await self._commit_unit()
        return put

    async def commit(self) -> None:
        """Commit the unit of work. Raises `MQIError` 2003 if it was backed out.

        Any other reason, for example 2009 or 2549, means that the outcome is unknown. The hooks then also receive an `InDoubt`
        event. The commit is never repeated, and no later commit includes this unit of work. After a lost connection, the next
        `receive` makes a new one.

        If `Task.cancel` or `asyncio.timeout` ends this call, the outcome is unknown too, and the hooks receive the event. The
        consumer then closes its connection, and with it a subscription that is not durable.
        """
        with self._only_this("commit"):
            await self._commit_unit()

    async def _commit_unit(self) -> None:
        self._raise_if_backed_out("MQCMIT")
        session = await self._reconnecting.get()
        moves = tuple(self._moves)
        async with self._end_of_unit(session):
            if self._records is not None:
                await self._records.record_commit(session)
            await self._commit(session)
        for moved in moves:
            self._broadcast(moved)

    async def backout(self) -> None:
        """Back out the unit of work. All its messages, even moved ones, are then on the queue again, with BackoutCount + 1."""
        with self._only_this("backout"):
            await self._backout_unit()

    async def _backout_unit(self) -> None:
        if self._backout_cause:
            self._backout_cause = ""
            return
        session = await self._reconnecting.get()
        async with self._end_of_unit(session):
            await session.settle(Settlement.BACKOUT)
            if self._records is not None:
                await self._records.record_backout(session)

    @contextmanager
    def _only_this(self, method: str) -> Iterator[None]:
        """Inside the block, no other method can begin. Raises the `RuntimeError` of a wrong use."""
        problem = ""
        if self._is_closed:
            problem = "its `async with` block has ended. Open another consumer"
        elif threading.get_ident() != self._thread:
            problem = "it belongs to the event loop of another thread. Call it there, for example by anyio.from_thread.run"
        elif self._in_method:
            problem = f"another task is in its method {self._in_method}. Open a consumer for each task"
        if problem:
            raise RuntimeError(f"{method} of the {self._name} did nothing: {problem}.")
        self._in_method = method
        try:
            yield
        finally:
            self._in_method = ""

    def _decoder_for(self, payload_type: Any) -> Decode:
        if self._decoder is None or self._decoder[0] is not payload_type:
            if self._codec is None:
                check_payload_type(payload_type, "receive", "give the App a codec")
            self._decoder = payload_type, decoder_for(payload_type, self._codec)
        return self._decoder[1]

    @asynccontextmanager
    async def _end_of_unit(self, session: Session) -> AsyncIterator[None]:
        """The unit of work ends in this block. If the block raises an error, no later commit includes this unit."""
        try:
            yield
        except MQIError as error:
            await self._leave_unit(session, error)
            raise
        except BaseException:  # for example cancelled; the connection may still be busy with the commit
            await self._reconnecting.close()
            raise
        finally:
            self._forget_unit("", has_messages=False)

    async def _commit(self, session: Session) -> None:
        """Commit on the session. If nobody knows whether the commit took effect, report that."""
        try:
            await session.settle(Settlement.COMMIT)
        except MQIError as error:
            if leaves_in_doubt(error):
                self._report_doubt(int(error.reason))
            raise
        except BaseException:  # asyncio's `Task.cancel` interrupts even a shielded commit, so its result is unknown
            self._report_doubt(Reason.CALL_INTERRUPTED)
            raise

    def _report_doubt(self, reason: int) -> None:
        received, sent = tuple(self._received), tuple(self._sent)
        if received or sent:
            self._broadcast(
                InDoubt(queue=self.queue, listener=self._name, reason=reason, message_ids=received, put_message_ids=sent)
            )

    async def _step_ms(self, records: ConsumerRecords, session: Session, wait_ms: int, waited_ms: int) -> int:
        """Return the length of the next wait: the rest of `wait_ms`, or less if an idle consumer must put its heartbeat."""
        left_ms = wait_ms if wait_ms < 0 else wait_ms - waited_ms
        if self._received or self._sent:
            return left_ms
        await records.heartbeat(session)
        return _RECORDED_WAIT_MS if left_ms < 0 else min(left_ms, _RECORDED_WAIT_MS)

    async def _opened(self) -> tuple[Session, PoisonMover]:
        """Return a session on which the queue is open. If the last session was lost, connect a new session."""
        while True:
            session = await self._reconnecting.get()
            try:
                handle = await self._input(session)
            except MQIError as error:  # only on a new session, which has no unit of work to lose
                if not await self._reconnecting.lose(error):
                    await self._give_up_subscription()
                    raise
            else:
                return session, PoisonMover(session, handle, self.queue, self._behaviour, self._application_name, self._clock)

    async def _input(self, session: Session) -> ObjectHandle:
        """Return the handle of the queue, or of the subscription's queue. Raises the `MQIError` of MQOPEN or MQSUB."""
        if self._subscription is None:
            return await session.call(session.open_objects.hold, self.queue, INPUT, selection=self._selector)
        if self._subscribed is None or self._subscribed[0] is not session:
            # After an outage, the subscription can have another managed queue.
            queue = await queue_of(session, await subscribe(self._subscription, session, self._supervisor))
            self._subscribed = session, await session.call(session.connection.open, queue, INPUT)
        return self._subscribed[1]

    async def _give_up_subscription(self) -> None:
        """Close the session, so that the next call subscribes again on another session. Do nothing for a queue."""
        if self._subscription is not None:
            await self._reconnecting.close()

    async def _lose_or_raise(self, error: MQIError) -> None:
        """Close the session if it is lost; otherwise raise the error. Raise 2003 if the session had an open unit of work."""
        if not await self._reconnecting.lose(error):
            if classify(int(error.reason)) is Class.REOPEN and self._subscription is not None:  # it was deleted
                await self._give_up_subscription()
                self._forget_unit(str(error), has_messages=bool(self._received or self._sent))
            raise error
        why = f"The connection was lost ({reason_name(int(error.reason))}), and the unit of work with it"
        self._forget_unit(why, has_messages=bool(self._received or self._sent))
        self._raise_if_backed_out("MQGET", error)

    def _forget_unit(self, why: str, *, has_messages: bool) -> None:
        """Record that the unit of work is backed out. If it had messages of the caller, the next call raises 2003."""
        self._received.clear()
        self._sent.clear()
        self._moves.clear()
        if self._records is not None:
            self._records.ended()
        self._backout_cause = why if has_messages else ""

    def _raise_if_backed_out(self, verb: str, error: MQIError | None = None) -> None:
        """Raise 2003, once, if the unit of work was backed out although the caller has not asked for it."""
        why, self._backout_cause = self._backout_cause, ""
        if why:
            raise error_for(Reason.BACKED_OUT, verb, self.queue, detail=why) from error

    @asynccontextmanager
    async def _backed_out_if_abandoned(self, session: Session) -> AsyncIterator[None]:
        """If the caller abandons the call inside the block, back out the unit of work: the result of the call is unknown."""
        try:
            yield
        except BaseException as error:
            if session.abandoned:
                await self._back_out(session, error, has_messages=bool(self._received or self._sent))
            raise

    async def _deliver_or_back_out(
        self, got: Got, message: Message, decode: Decode | None, session: Session, mover: PoisonMover
    ) -> list[Any]:
        """Return a list with the message or its payload. An empty list means that the message was moved.

        Before this method raises an error, it backs out the unit of work, because the caller does not get the message.
        """
        has_messages = len(self._received) > 1 or bool(self._sent)
        try:
            if got.descriptor.backout_count and not await self._deliver(got, session, mover):
                return []
            if decode is None:
                return [message]
            try:
                return [decode(message)]
            except (UndecodableError, HeaderError) as error:
                if not await self._move_undecodable(got, error, session, mover):
                    raise
                return []
        except BaseException as error:
            await self._back_out(session, error, has_messages=has_messages)
            raise

    async def _back_out(self, session: Session, error: BaseException, *, has_messages: bool) -> None:
        await self._leave_unit(session, error)
        why = f"A receive or a put was cut off, and the unit of work was backed out. {error}"
        self._forget_unit(why, has_messages=has_messages)

    async def _leave_unit(self, session: Session, error: BaseException) -> None:
        """After this error, no later commit includes the unit of work: it is backed out, or its connection is closed."""
        with anyio.CancelScope(shield=True):
            if isinstance(error, MQIError) and await self._reconnecting.lose(error):
                return
            try:
                await session.settle(Settlement.BACKOUT)
            except MQIError:  # if the backout fails, the connection cannot be used again
                await self._reconnecting.close()
            session.abandoned = False

    def _warn(self, text: str) -> None:
        self._broadcast(Warned(text=f"{self._name}: {text}", queue=self.queue))

    async def _deliver(self, got: Got, session: Session, mover: PoisonMover) -> bool:
        """Decide about a message that was backed out before. Return true if the caller gets it, false if it was moved."""
        settings = await self._inquired(session, mover)
        plan = self._plan(got.descriptor, settings)
        if plan == (Deliver(),):
            self._say_decided(got, settings, plan, None)
            return True
        # If the plan ends with `Return`, no queue accepted the message. Then the caller gets it, because nobody else would.
        return isinstance(await self._carry_out(got, settings, plan, None, session, mover), Return)

    def _plan(self, descriptor: MessageDescriptor, settings: BackoutSettings) -> Plan:
        """Return the plan. If the application's own function raises or returns no plan, the caller gets the message."""
        failed = f"the application's backout decision about message {descriptor.message_id.hex()} failed"

        def tell(problem: str) -> None:
            self._warn(f"{failed}, so `receive` returns the message; {problem}")

        return settings.planned(self._decide, descriptor, self._behaviour, tell)

    async def _move_undecodable(self, got: Got, error: Exception, session: Session, mover: PoisonMover) -> bool:
        """Move the message in the open unit of work, with the error as the reason. Return whether a queue accepted it."""
        settings, outcome = await self._inquired(session, mover), outcome_of(error)
        assert isinstance(outcome, Undecodable)  # noqa: S101 - both exceptions mean that.
        # By IBM's page, a JMS consumer discards a message that was backed out too often and that no queue accepts. But this
        # message can be correct, and the payload type wrong. So it stays on its queue, as a message of a listener does.
        plan = dispose(
            got.descriptor,
            settings.attributes,
            settings.dead_letter_queue,
            Behaviour.JMS_LISTENER,
            reason=settlement.dead_letter_reason(outcome),
        )
        plan = settings.kept(plan, got.descriptor, Behaviour.JMS_LISTENER)
        return not isinstance(await self._carry_out(got, settings, plan, outcome, session, mover), Return)

    async def _inquired(self, session: Session, mover: PoisonMover) -> BackoutSettings:
        settings = await self._settings.get(session, mover.handle, session.generation)
        if self._records is not None:
            self._records.attributes = settings.attributes
        return settings

    def _say_decided(self, got: Got, settings: BackoutSettings, plan: Plan, outcome: Undecodable | None) -> None:
        self._broadcast(
            Decided(
                queue=self.queue,
                message_id=got.descriptor.message_id,
                listener=self._name,
                backout_count=_count(got, outcome),
                threshold=settings.attributes.backout_threshold,
                backout_requeue_queue=settings.attributes.backout_requeue_queue,
                threshold_source=settings.threshold_source,
                queue_source=settings.queue_source,
                plan=plan,
                outcome=outcome,
            )
        )

    async def _carry_out(
        self, got: Got, settings: BackoutSettings, plan: Plan, outcome: Undecodable | None, session: Session, mover: PoisonMover
    ) -> Disposition:
        """Carry out the plan in the open unit of work, and return the disposition. A move is reported after the commit."""
        self._say_decided(got, settings, plan, outcome)
        count = _count(got, outcome)
        why = Why(
            queue=self.queue,
            queue_manager=session.connection.queue_manager_name,
            outcome="" if outcome is None else "undecodable",
            error="" if outcome is None else outcome.error,
            text="" if outcome is None else outcome.text,
            handler=self._name,
            count=count,
            threshold=settings.attributes.backout_threshold,
            application_name=self._application_name,
            at=datetime.fromtimestamp(self._clock.wall(), UTC),
        )
        disposal = await mover.carry_out(got, plan, why)
        if self._records is not None:
            await self._records.record_move(session, disposal, outcome)
        disposed = Disposed(
            queue=self.queue,
            message_id=got.descriptor.message_id,
            listener=self._name,
            backout_count=count,
            attempts=disposal.attempts,
            outcome=outcome,
        )
        if isinstance(disposal.disposition, Return):
            self._broadcast(disposed)
        else:
            self._moves += (*disposal.reports, disposed)
        return disposal.disposition


def _count(got: Got, outcome: Undecodable | None) -> int:
    """Return the number of failed deliveries, including this one if the message has just failed to decode."""
    return got.descriptor.backout_count + (outcome is not None)
