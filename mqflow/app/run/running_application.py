"""A running application: its queue manager, its listeners, and a session for what is put outside of deliveries."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, Unpack, runtime_checkable

import anyio
from msgspec import Struct
from msgspec.structs import replace

from mqflow.app.channels.locate import OpenQueueManager, is_client_url, open_queue_manager
from mqflow.app.channels.reconnect_settings import client_configuration, reconnection
from mqflow.app.config.settings import Settings, load, mistyped_listeners
from mqflow.app.errors import RequestTimeoutError
from mqflow.app.handlers.codecs import Codec, decoder_for
from mqflow.app.handlers.consumer import Consumer
from mqflow.app.handlers.listener_declaration import Listener
from mqflow.app.handlers.message import Message
from mqflow.app.handlers.middleware import around_put
from mqflow.app.handlers.outgoing import Outgoing, PutKeywords, Send, outgoing, published, put_in_unit_of_work
from mqflow.app.handlers.request_reply import Unanswered, answerable, first_reply, reply_queue
from mqflow.app.run.decision_ledger import DecisionLedger, open_ledger
from mqflow.events import ConnectionTried, Hook, InDoubt, Warned
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.channels.client_ini import ClientConfiguration
from mqflow.policy.poison.disposition import Behaviour, Settlement
from mqflow.policy.reconnect.reason_classes import Class, classify, leaves_in_doubt
from mqflow.runtime.application import Runtime
from mqflow.runtime.connection.in_delivery import in_delivery
from mqflow.runtime.connection.loop_call import Handover
from mqflow.runtime.connection.reconnecting_session import ReconnectingSession
from mqflow.runtime.connection.session import Session
from mqflow.runtime.connection.supervisor import Supervisor
from mqflow.runtime.decision_records import ConnectionRecorder
from mqflow.runtime.delay.stage import Stager, StagingQueueManager, is_embedded, stages_publications, staging_queue_of
from mqflow.runtime.hooks import Broadcast, LogEvents
from mqflow.runtime.listener.delivery import Decide, ListenerSpec
from mqflow.runtime.listener.long_retries import Retries
from mqflow.runtime.listener.subscriber import end_subscription
from mqflow.verbs import Put, QueueManager
from mqflow.world import Clock, Random, Runner

if TYPE_CHECKING:
    from mqflow.app.channels.table_queue_manager import Tried
    from mqflow.app.handlers.dead_letter_declaration import DeadLetterRules

__all__ = ("Declared", "RunningApplication")

T = TypeVar("T")


@runtime_checkable
class _TellsAttempts(Protocol):
    """A queue manager that is found in a channel table."""

    tell: Callable[["Tried"], None]


class Declared(Struct, frozen=True, kw_only=True):
    """What was declared, as an `App` hands it over to be run."""

    url: str | None
    name: str
    settings: Settings | None
    listeners: Sequence[Listener]
    middleware: Sequence[Any]
    hooks: Sequence[Hook]
    codec: Codec | None
    decide: Decide
    #: How many processors of delayed messages the application asked for.
    delay_processors: int = 0
    dead_letter_handlers: "Sequence[DeadLetterRules]" = ()


class RunningApplication:
    """What `App.running` gives."""

    def __init__(
        self, declared: Declared, queue_manager: QueueManager | None, *, clock: Clock, random: Random, runner: Runner
    ) -> None:
        #: What the application is set to: its arguments over the environment over the file.
        self.settings: Final = declared.settings or load()
        self._declared: Final = declared
        self._opened: OpenQueueManager | None = None
        self._ledger: DecisionLedger | None = None
        configuration = ClientConfiguration()
        if queue_manager is None:
            url = self.settings.url_over(declared.url)
            queue_manager = self._opened = open_queue_manager(url, settings=self.settings, clock=clock, runner=runner)
            configuration = client_configuration() if is_client_url(url) else configuration
            self._ledger = open_ledger(url, self.settings.ledger, clock=clock, runner=runner)
        self.queue_manager: Final = queue_manager
        self._clock: Final = clock
        self._random: Final = random
        self._name: Final = self.settings.application_name or declared.name or "mqflow"
        self._broadcast: Final = Broadcast((LogEvents(), *declared.hooks, *([self._ledger] if self._ledger else [])))
        known = [name for listener in declared.listeners for name in (listener.name, listener.queue)]
        for sentence in mistyped_listeners(self.settings, known):
            self._broadcast(Warned(text=sentence))
        staging_queue = staging_queue_of(queue_manager, self.settings.delay_queue)
        self._stager: Final = Stager(staging_queue, clock, random, publishes=stages_publications(queue_manager, staging_queue))
        # Who has the queue manager in its own process moves what is due on it; elsewhere it is whoever says so.
        processors = declared.delay_processors or int(isinstance(queue_manager, StagingQueueManager))
        reconnecting = reconnection(self.settings.reconnect, queue_manager, configuration)
        self._runtime: Final = Runtime(
            queue_manager,
            [self._spec(listener) for listener in declared.listeners],
            broadcast=self._broadcast,
            clock=clock,
            random=random,
            runner=runner,
            application_name=self._name,
            delay_processors=processors,
            staging_queue=staging_queue,
            retries=Retries(staging_queue, clock, self.settings.retry_in_worker_s, not is_embedded(queue_manager))
            if processors or stages_publications(queue_manager, staging_queue)
            else None,
            disposition_queue=self.settings.disposition_queue,
            recorder=self._recorder,
            delays=reconnecting.delays,
            reconnect_limit_s=reconnecting.limit_s,
            reconnect_mode=reconnecting.mode,
            services=[
                partial(rules.service, broadcast=self._broadcast, clock=clock, records=self._recorder("DLQ handler"))
                for rules in declared.dead_letter_handlers
            ],
        )
        if isinstance(queue_manager, _TellsAttempts):  # it goes through a channel table, on the threads of sessions
            queue_manager.tell = _teller(self._broadcast, self._runtime.supervisor)
        supervisor = self._runtime.supervisor
        # Who puts while it delivers waits for no connection, and so not behind somebody who does.
        self._outside: Final = _Putting(ReconnectingSession(supervisor, "puts outside of deliveries"))
        self._inside: Final = _Putting(ReconnectingSession(supervisor, "puts beside deliveries"))
        supervisor.rests(self._let_go)

    @asynccontextmanager
    async def listening(self, drain_s: float | None) -> AsyncIterator[None]:
        """Run the listeners inside; drain on leaving."""
        async with self._runtime.running(drain_s=self.settings.drain_s if drain_s is None else drain_s):
            yield

    def stop(self) -> None:
        """Get no more messages; what is under way goes on."""
        self._runtime.stop()

    def cancel(self) -> bool:
        """Cancel what is under way: it is backed out. Return whether there was anything."""
        return self._runtime.cancel()

    @property
    def ready(self) -> bool:
        """Whether every listener has its queue open on all its workers; false while it starts, reconnects or stops."""
        return self._runtime.supervisor.readiness.ready

    async def wait_ready(self) -> None:
        """Return when the application is ready."""
        await self._runtime.supervisor.readiness.wait()

    @property
    def cut_off(self) -> bool:
        """Whether handlers, or services beside them, had to be cancelled before they had finished."""
        return self._runtime.cut_off

    async def put(self, queue: str, payload: Any, **wishes: Unpack[PutKeywords]) -> Put:
        """As `App.put`."""
        wishes.setdefault("codec", self._declared.codec)
        return await self._put(outgoing(queue, payload, **wishes))

    async def publish(self, topic: str, payload: Any, *, retain: bool, **wishes: Unpack[PutKeywords]) -> Put:
        """As `App.publish`."""
        wishes.setdefault("codec", self._declared.codec)
        return await self._put(published(topic, payload, retain=retain, **wishes))

    async def unsubscribe(self, durable: str) -> None:
        """As `App.unsubscribe`."""
        supervisor = self._runtime.supervisor
        session = await (supervisor.connect_now(pauses=False) if in_delivery(supervisor) else supervisor.connect())
        try:
            await session.call(end_subscription, session.connection, durable)
        finally:
            with anyio.CancelScope(shield=True):
                await session.close()

    async def _put(self, message: Outgoing) -> Put:
        putting = self._inside if in_delivery(self._runtime.supervisor) else self._outside
        async with putting.turn:
            session = await putting.lasting.get(of_now=True)
            try:
                put = await self._put_on(session, message)
            except MQIError as error:
                await _recover(putting.lasting, session, error)
                raise
            except BaseException:  # cancelled, or middleware raised after it had put: the next put must not commit this one
                await putting.lasting.close()
                raise
        return put

    async def _put_on(self, session: Session, message: Outgoing) -> Put:
        """Put the message in a unit of work of its own, and commit that."""
        put = await self._send(session)(message)
        reason: int | None = Reason.CALL_INTERRUPTED  # asyncio's own cancellation goes through the shield of a settlement
        try:
            await session.settle(Settlement.COMMIT)
            reason = None
        except MQIError as error:
            reason = int(error.reason) if leaves_in_doubt(error) else None
            raise
        finally:
            if reason is not None:
                sent = (put.descriptor.message_id,)
                self._broadcast(
                    InDoubt(queue=message.queue, listener="put", reason=reason, message_ids=(), put_message_ids=sent)
                )
        return put

    async def request(self, queue: str, payload: Any, *, reply: type[T], timeout_s: float, **wishes: Unpack[PutKeywords]) -> T:
        """As `App.request`."""
        lasting = ReconnectingSession(self._runtime.supervisor, f"request to {queue}")
        try:
            replies = await reply_queue(await lasting.get())
            wishes.setdefault("codec", self._declared.codec)
            request = answerable(outgoing(queue, payload, **wishes | {"reply_to": replies.name}), timeout_s)
            put = await self._put_on(await lasting.get(), request)
            came = await first_reply(lasting, self._clock, timeout_s)
        finally:
            await lasting.close()  # the temporary dynamic queue goes with it
        if isinstance(came, Unanswered):
            raise RequestTimeoutError(queue, put.descriptor.message_id, timeout_s, came.feedback)
        answer: T = decoder_for(reply, self._declared.codec)(Message(came.descriptor, came.body, replies.name))
        return answer

    @asynccontextmanager
    async def consumer(self, queue: str, *, transacted: bool) -> AsyncIterator[Consumer]:
        """As `App.consumer`."""
        consumer = Consumer(
            self._runtime.supervisor,
            queue,
            behaviour=Behaviour.JMS_CONSUMER if transacted else Behaviour.JMS_CONSUMER_NOT_TRANSACTED,
            decide=self._declared.decide,
            broadcast=self._broadcast,
            clock=self._clock,
            sender=self._send,
            codec=self._declared.codec,
            application_name=self._name,
            records=self._recorder(f"consumer of {queue}"),
        )
        try:
            await consumer.open()
            yield consumer
        finally:
            await consumer.close()

    async def close_sessions(self) -> None:
        """Let go of the sessions for puts."""
        for putting in (self._outside, self._inside):
            await putting.lasting.close()

    def close(self) -> None:
        """Let go of the queue manager, where it was opened here."""
        if self._opened is not None:
            self._opened.close()
        if self._ledger is not None:
            self._ledger.close()

    async def _let_go(self) -> None:
        for putting in (self._outside, self._inside):
            if not putting.turn.locked():
                async with putting.turn:
                    await putting.lasting.let_go()

    def _recorder(self, who: str) -> ConnectionRecorder | None:
        """Return what puts records of decisions for who is no listener; None where nobody asked for them."""
        queue = self.settings.disposition_queue
        if not queue:
            return None
        consumer = f"{self._name}/{who}"
        return ConnectionRecorder(queue, consumer=consumer, clock=self._clock, random=self._random, tell=self._broadcast)

    def _send(self, session: Session) -> Send:
        async def put(message: Outgoing) -> Put:
            return await put_in_unit_of_work(session, message, self._stager)

        return around_put(self._declared.middleware, put)

    def _spec(self, listener: Listener) -> ListenerSpec:
        """Return the declared listener with what the settings say of it."""
        declared = self._declared
        spec = listener.spec(decide=declared.decide, middleware=declared.middleware, codec=declared.codec, stager=self._stager)
        said = self.settings.listener(listener.name, listener.queue)
        changes: dict[str, Any] = {}
        for field in ("concurrency", "unit_of_work", "time_limit_s"):
            value = getattr(said, field)
            if value is not None:
                changes[field] = value
        if said.backout_threshold is not None:
            changes["threshold"] = None if said.backout_threshold == "queue" else said.backout_threshold
        if said.backout_requeue_queue is not None:
            changes["backout_queue"] = said.backout_requeue_queue
        return replace(spec, **changes)


class _Putting:
    """A session for puts in units of work of their own, and whose turn it is."""

    def __init__(self, lasting: ReconnectingSession) -> None:
        self.lasting: Final = lasting
        self.turn: Final = anyio.Lock()


async def _recover(lasting: ReconnectingSession, session: Session, error: MQIError) -> None:
    """Leave a session that can be used again, or none."""
    if await lasting.lose(error):
        return
    if classify(int(error.reason)) is Class.REOPEN:
        await lasting.close()
    else:
        await session.settle(Settlement.BACKOUT)


def _teller(broadcast: Broadcast, supervisor: Supervisor) -> Callable[["Tried"], None]:
    """Return what turns an attempt at an entry of a channel table into an event, on the event loop."""
    handover = Handover()

    def tell(tried: "Tried") -> None:
        error, (attempt, delay_s) = tried.error, supervisor.trying
        event = ConnectionTried(
            queue_manager=supervisor.queue_manager_name,
            channel=tried.attempt.channel.name,
            address=str(tried.attempt.address),
            attempt=attempt,
            delay_s=delay_s,
            reason=0 if error is None else int(error.reason),
            detail="" if error is None else str(error),
        )
        handover(lambda: broadcast(event))

    return tell
