"""A running application: its queue manager, its listeners, and its sessions for puts outside of deliveries.

This file combines declarations and settings for the runtime. It makes no decision about a message.
"""

import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import ExitStack, asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeGuard, TypeVar, Unpack, runtime_checkable

import anyio
from msgspec import Struct, to_builtins
from msgspec.structs import replace

from mqflow.app.channels.location import is_client_url, open_now
from mqflow.app.channels.reconnect_settings import client_configuration, reconnection
from mqflow.app.config.settings import ListenerSettings, Settings, load, mistyped_listeners, mistyped_queue_managers
from mqflow.app.errors import ConfigurationError, RequestFailedError, RequestTimeoutError
from mqflow.app.handlers.codecs import Codec, decoder_for
from mqflow.app.handlers.listener_declaration import Listener
from mqflow.app.handlers.message import Message
from mqflow.app.handlers.middleware import PublishMiddleware, around_put
from mqflow.app.handlers.mistakes import check_payload_type
from mqflow.app.handlers.outgoing_message import (
    Outgoing,
    PutKeywords,
    Send,
    all_outgoing,
    outgoing,
    published,
    put_in_unit_of_work,
    with_codec,
)
from mqflow.app.handlers.request_reply import Refused, Unanswered, answerable, check_timeout, first_reply, reply_queue
from mqflow.app.handlers.unawaited_puts import noted
from mqflow.app.run.decision_ledger import DecisionLedger, open_ledger
from mqflow.app.run.puts import Puts
from mqflow.app.run.unit_of_puts import put_and_commit, put_on_next_connections
from mqflow.events import ConnectionTried, Hook, Warned
from mqflow.policy.application_tag import application_tag
from mqflow.policy.channels.client_ini import ClientConfiguration
from mqflow.policy.health.records import ListenerStatus
from mqflow.policy.poison.disposition import Behaviour
from mqflow.runtime.connection.loop_call import LoopCaller
from mqflow.runtime.connection.readiness import Readiness
from mqflow.runtime.connection.reconnecting_session import ReconnectingSession, in_delivery
from mqflow.runtime.connection.session import Session
from mqflow.runtime.connection.supervisor import Supervisor
from mqflow.runtime.decision_records import ConnectionRecorder
from mqflow.runtime.delay.long_retries import Retries
from mqflow.runtime.delay.stage import EMBEDDED_STAGING_QUEUE, Stager, StagingQueueManager, is_embedded, staging_queue_of
from mqflow.runtime.hooks import Broadcast, LogEvents
from mqflow.runtime.listener.delivery import Decide, ListenerSpec
from mqflow.runtime.listener.subscriber import TopicSubscription, end_subscription
from mqflow.runtime.message_notes import MemoryNotes, MessageNotes
from mqflow.runtime.runtime import DecisionRecords, Runtime, Service, Staging
from mqflow.verbs import Put, QueueManager
from mqflow.world import World

if TYPE_CHECKING:
    from mqflow.app.channels.table_queue_manager import Tried
    from mqflow.app.handlers.consumer import Consumer
    from mqflow.app.handlers.dead_letter_declaration import DeadLetterRules
    from mqflow.runtime.scheduler import Scheduled

__all__ = ("Declared", "RunningApplication")

T = TypeVar("T")


@runtime_checkable
class _NotifiesOfAttempts(Protocol):
    """A queue manager from a channel table. It calls `notify` with each attempt to connect."""

    notify: Callable[["Tried"], None]


class Declared(Struct, frozen=True, kw_only=True):
    """The declarations of an `App`, for a `RunningApplication`."""

    url: str | None
    name: str
    settings: Settings | None
    listeners: Sequence[Listener]
    #: Objects with `consume`, `publish` or `decided`. There is no type for all three forms.
    middleware: Sequence[Any]
    hooks: Sequence[Hook]
    codec: Codec | None
    decide: Decide
    #: False if no listener starts.
    listens: bool = True
    #: The number of delay processors that the application has asked for.
    delay_processors: int = 0
    delay_processors_have_own_authority: bool = False
    dead_letter_handlers: "Sequence[DeadLetterRules]" = ()
    schedules: "Sequence[Scheduled]" = ()
    #: The names and the queues of all listeners, including those of included applications.
    listener_names: Sequence[str] = ()
    #: The names of the included applications.
    included: Sequence[str] = ()
    #: If another application includes this one: the name of this one there, also used for its queue manager; otherwise empty.
    queue_manager: str = ""


class RunningApplication:
    """An application while it runs. `App.running` makes it.

    It has a queue manager, the runtime of the listeners, and two sessions for puts outside of deliveries. `include` adds the
    runtimes of included applications; then readiness, status and drain are those of all applications together.
    """

    def __init__(
        self, declared: Declared, queue_manager: QueueManager | None, world: World, whole: "RunningApplication | None" = None
    ) -> None:
        """Take the queue manager, or open the queue manager of the URL. `whole` is the application that includes this one."""
        #: The settings of the application: from its source code, otherwise from the environment and the file.
        self.settings: Final = declared.settings or load()
        self._declared: Final = declared
        self._name: Final = self.settings.application_name or declared.name or "mqflow"
        self._world: Final = world
        self._thread: Final = threading.get_ident()
        self._loop_caller: Final = LoopCaller()
        self._is_over = False
        #: The task that runs the lifespan and the `on_start` functions, while they run; otherwise None.
        self.starts_in: int | None = None
        #: Set when somebody asks the application to stop.
        self.stopping: Final = anyio.Event()
        with ExitStack() as to_close:
            self._opened: Final = self._open(to_close) if queue_manager is None else _Opened(queue_manager)
            self.queue_manager: Final = self._opened.queue_manager
            ledger = [] if self._opened.ledger is None else [self._opened.ledger]
            self._broadcast: Final = Broadcast((LogEvents(), *_hooks(declared), *ledger))
            self._warn_of_mistyped_names()
            staging_queue = staging_queue_of(self.queue_manager, self.settings.delay_queue)
            self._stager: Final = Stager(staging_queue, world)
            readiness = None if whole is None else whole.part_of_readiness(declared.queue_manager)
            self._runtime: Final = self._make_runtime(staging_queue, readiness, partial(_notes, to_close))
            #: The runtimes by the name of their queue manager. The application's own runtime comes first, with the name "".
            self._runtimes: Final = {"": self._runtime}
            if isinstance(self.queue_manager, _NotifiesOfAttempts):  # from a channel table; it connects on any thread
                self.queue_manager.notify = _attempt_events(self._broadcast, self._runtime.supervisor)
            self._layers: Final = [layer for layer in declared.middleware if isinstance(layer, PublishMiddleware)]
            self._puts: Final = Puts(
                self._runtime.supervisor, self._stager, self._broadcast, self._layers, declared.codec, self._check_place
            )
            self._to_close: Final = to_close.pop_all()

    def _open(self, to_close: ExitStack) -> "_Opened":
        """Open the queue manager of the URL, and the decision ledger beside its data."""
        url, world = self.settings.url_over(self._declared.url), self._world
        configuration = client_configuration() if is_client_url(url) else ClientConfiguration()
        ledger = open_ledger(url, self.settings.ledger, world=world)
        if ledger is not None:
            to_close.callback(ledger.close)
        queue_manager = open_now(url, settings=self.settings, world=world)
        return _Opened(to_close.enter_context(closing(queue_manager)), configuration=configuration, ledger=ledger)

    def _warn_of_mistyped_names(self) -> None:
        declared = self._declared
        if declared.queue_manager:  # the including application checks all names
            return
        for sentence in (
            *mistyped_listeners(self.settings, declared.listener_names),
            *mistyped_queue_managers(self.settings, declared.included),
        ):
            self._broadcast(Warned(text=sentence))

    def _make_runtime(self, staging_queue: str, readiness: Readiness | None, notes: Callable[[str], MessageNotes]) -> Runtime:
        declared, queue_manager, clock = self._declared, self.queue_manager, self._world.clock
        # If the queue manager is in this process, the application delivers delayed messages; otherwise only if it has declared
        # a delay processor.
        processors = declared.delay_processors or int(isinstance(queue_manager, StagingQueueManager))
        # An embedded queue manager stages failed messages itself, on its own staging queue.
        embedded, in_worker_s = is_embedded(queue_manager), self.settings.retry_in_worker_s
        own_authority = declared.delay_processors_have_own_authority
        retries = Retries(EMBEDDED_STAGING_QUEUE if embedded else staging_queue, clock, in_worker_s, own_authority)
        supervisor = Supervisor(
            queue_manager,
            broadcast=self._broadcast,
            world=self._world,
            name=self._name,
            tag=partial(application_tag, self._name, os.getpid()) if self.settings.tag_connections else None,
            reconnection=reconnection(self.settings.reconnect, queue_manager, self._opened.configuration),
            readiness=readiness,
        )
        return Runtime(
            supervisor,
            [self._spec(listener) for listener in declared.listeners],
            broadcast=self._broadcast,
            world=self._world,
            application_name=self._name,
            staging=Staging(
                queue=staging_queue,
                processors=processors,
                own_authority=own_authority,
                retries=retries if processors or embedded else None,
            ),
            records=DecisionRecords(queue=self.settings.disposition_queue, recorder=self._recorder, notes=notes),
            services=[
                rules.service(supervisor, broadcast=self._broadcast, clock=clock, records=self._recorder("DLQ handler"))
                for rules in declared.dead_letter_handlers
            ]
            + self._schedulers(supervisor),
        )

    def _schedulers(self, supervisor: Supervisor) -> list[Service]:
        if not self._declared.schedules:
            return []
        from mqflow.runtime.scheduler import Scheduler  # noqa: PLC0415 - few applications have schedules

        schedules, clock = self._declared.schedules, self._world.clock
        return [Scheduler(schedules, supervisor, broadcast=self._broadcast, clock=clock, application=self._name)]

    @asynccontextmanager
    async def listening(self, drain_s: float | None) -> AsyncIterator[None]:
        """Run the listeners inside the block. At its end, drain them for `drain_s` seconds; None means as the settings say."""
        drain_s = self.settings.drain_s if drain_s is None else drain_s
        if len(self._runtimes) == 1:
            async with self._runtime.running(drain_s=drain_s):
                yield
            return
        from mqflow.runtime.several_runtimes import SeveralRuntimes  # noqa: PLC0415 - few applications have several queue managers

        async with SeveralRuntimes(self._runtimes).running(drain_s=drain_s):
            yield

    def include(self, other: "RunningApplication") -> None:
        """Run the listeners of an included application together with the listeners of this application."""
        self._runtimes[other._declared.queue_manager] = other._runtime  # noqa: SLF001 - another object of this class

    def part_of_readiness(self, name: str) -> Readiness:
        """Return the readiness for an included application with this name, as a part of this application's readiness."""
        return Readiness(self._broadcast, name=name, whole=self._runtime.supervisor.readiness)

    def stop(self) -> None:
        """Stop getting messages. Handlers that run continue. Any thread may call this function."""
        self._loop_caller(self._stop)

    def _stop(self) -> None:
        self.stopping.set()
        for runtime in self._runtimes.values():
            runtime.stop()

    def cancel(self) -> bool:
        """Cancel the handlers that run; this backs out their units of work. Return whether any handler ran."""
        cancelled = [runtime.cancel() for runtime in self._runtimes.values()]
        return any(cancelled)

    @property
    def name(self) -> str:
        """The application name that the queue manager gets."""
        return self._name

    @property
    def url(self) -> str:
        """The URL of the queue manager."""
        return self.settings.url_over(self._declared.url)

    def watch(self) -> None:
        """From now on, record the call that each worker waits for. Without this, no worker spends time on such records."""
        for runtime in self._runtimes.values():
            runtime.watch()

    def listeners(self) -> tuple[ListenerStatus, ...]:
        """Return the present state of each listener and its workers. Any thread may call this function.

        For an included application, the names and the queues of its listeners begin with its name: `archive:IN`.
        """
        included = (
            replace(status, queue=f"{name}:{status.queue}")
            for name, runtime in self._runtimes.items()
            if name
            for status in runtime.statuses()
        )
        return (*self._runtime.statuses(), *included)

    def order(self, listener: str, *, held: bool | None = None, concurrency: int | None = None) -> None:
        """Pause or resume (`held`) a listener, or change the number of its workers. The log gets a line about it.

        `listener` is a name or a queue, as `listeners` returns it. Raises `LookupError` for an unknown listener, and
        `ValueError` for an order without `held` and `concurrency`, or with a value that is not possible.
        """
        if held is concurrency is None or not isinstance(held, bool | None):
            takes = "held=True pauses the listener, held=False resumes it, and concurrency=4 changes the number of its workers"
            raise ValueError(f"order({listener!r}, held={held!r}, concurrency={concurrency!r}) is no order: {takes}.")
        known = self.listeners()
        if not any(listener in {each.name, each.queue} for each in known):
            names = ", ".join(each.name for each in known) or "none"
            raise LookupError(f"There is no listener {listener!r}. The listeners are: {names}.")
        of, _, queue = listener.partition(":")  # the name of a queue has no colon
        runtime = self._runtimes.get(of, self._runtime)
        names_queue = runtime is not self._runtime and queue in {each.queue for each in runtime.statuses()}
        runtime.order(queue if names_queue else listener, held=held, concurrency=concurrency)
        what = f"now has concurrency {concurrency}" if concurrency else "is paused" if held else "goes on"
        self._broadcast(Warned(text=f"By order of an operator, {listener} {what}.", is_order=True))

    @property
    def missing(self) -> tuple[str, ...]:
        """The names of the objects that are not open, and must be open before the application is ready.

        Any thread may read this.
        """
        return self._runtime.supervisor.readiness.missing

    @property
    def ready(self) -> bool:
        """True if all workers of every listener have their queue open. False while a worker starts, reconnects or stops."""
        return self._runtime.supervisor.readiness.ready

    async def wait_ready(self) -> None:
        """Wait until the application is ready. Raises `MQIError` 2202 if it stops.

        Raises `ConfigurationError` if it runs without listeners, or has ended.

        Also raises it in an `on_start` function and in a lifespan before its `yield`, because the listeners start after these.
        """
        self._check_place()
        if self.starts_in == anyio.get_current_task().id:
            problem = "The application is never ready inside an on_start function, or a lifespan before its yield"
            raise ConfigurationError(f"{problem}: its listeners start after these. Wait in a task that goes on.")
        if not self._declared.listens:
            problem = "This application runs with listen=False, so it is never ready"
            raise ConfigurationError(f"{problem}. Puts work at once: no wait is needed.")
        await self._runtime.supervisor.readiness.wait()

    @property
    def cut_off(self) -> bool:
        """True if handlers or services were cancelled before they had finished."""
        return any(runtime.cut_off for runtime in self._runtimes.values())

    @property
    def incidents(self) -> int:
        """The number of times that a listener or a service has ended unexpectedly and was started again (`ConsumerFailed`)."""
        return sum(runtime.incidents for runtime in self._runtimes.values())

    @property
    def time_limit_s(self) -> float:
        """The shortest time limit of all listeners; infinity if no listener has one."""
        return min(runtime.time_limit_s for runtime in self._runtimes.values())

    def left_after(self, bound_s: float) -> str:
        """Return the handlers and services that still run `bound_s` after the drain's end, with stacks; "" if there is nothing.

        Returns "" before that time, too. Any thread may call this function.
        """
        return "\n".join(filter(None, (runtime.left_after(bound_s) for runtime in self._runtimes.values())))

    def put(self, queue: str, payload: Any, **keywords: Unpack[PutKeywords]) -> Coroutine[Any, Any, Put]:
        """Put a message, like `App.put`."""
        return noted(self._puts.put(partial(outgoing, queue, payload), keywords), "app.put")

    def put_many(self, queue: str, payloads: Iterable[Any], **keywords: Unpack[PutKeywords]) -> Coroutine[Any, Any, list[Put]]:
        """Put the messages, like `App.put_many`."""
        return noted(self._puts.put_many(partial(all_outgoing, queue, payloads), keywords), "app.put_many")

    def publish(self, topic: str, payload: Any, *, retain: bool, **keywords: Unpack[PutKeywords]) -> Coroutine[Any, Any, Put]:
        """Publish a message, like `App.publish`."""
        return noted(self._puts.put(partial(published, topic, payload, retain=retain), keywords), "app.publish")

    async def unsubscribe(self, durable: str) -> None:
        """Delete a subscription, like `App.unsubscribe`."""
        self._check_place()
        supervisor = self._runtime.supervisor
        session = await (supervisor.connect_now(pauses=False) if in_delivery(supervisor) else supervisor.connect())
        try:
            await session.call(end_subscription, session.connection, durable)
        finally:
            await session.close()

    def request(
        self, queue: str, payload: Any, *, reply: type[T], timeout_s: float, **keywords: Unpack[PutKeywords]
    ) -> Coroutine[Any, Any, T]:
        """Send a request and return its reply, like `App.request`."""
        return noted(self._request(queue, payload, reply=reply, timeout_s=timeout_s, **keywords), "app.request")

    async def _request(
        self, queue: str, payload: Any, *, reply: type[T], timeout_s: float, **keywords: Unpack[PutKeywords]
    ) -> T:
        self._puts.check()
        check_timeout(timeout_s)
        if keywords.get("reply_to") is not None:
            raise TypeError("A request takes no reply_to: its reply comes to a queue of its own. For another queue, use `put`.")
        if self._declared.codec is None:
            check_payload_type(reply, "request(reply=...)", "give the App a codec")
        decode = decoder_for(reply, self._declared.codec)
        supervisor = self._runtime.supervisor
        reconnecting = ReconnectingSession(supervisor, f"request to {queue}")
        with_codec(keywords, self._declared.codec)
        # Most responders answer a persistent request with a persistent reply, and the reply queue refuses that (q041190: 2048).
        keywords.setdefault("persistent", None)

        async def ask(session: Session) -> Put:
            replies = await reply_queue(session)
            request = answerable(outgoing(queue, payload, **keywords | {"reply_to": replies.name}), timeout_s)
            return await put_and_commit(session, request, self._send(session), self._broadcast)

        try:
            put = await put_on_next_connections(reconnecting, ask, waits=not in_delivery(supervisor))
            answer = await first_reply(reconnecting, self._world.clock, timeout_s)
        finally:
            await reconnecting.close()  # this also deletes the temporary dynamic queue
        if isinstance(answer, Refused):
            raise RequestFailedError(queue, put.descriptor.message_id, answer.feedback)
        if isinstance(answer, Unanswered):
            raise RequestTimeoutError(queue, put.descriptor.message_id, timeout_s, answer.feedback)
        replies = put.descriptor.reply_to_queue
        decoded: T = decode(Message(answer.descriptor, answer.body, replies))
        return decoded

    @asynccontextmanager
    async def consumer(
        self, chosen: TopicSubscription | str, *, selector: str = "", transacted: bool = True
    ) -> "AsyncIterator[Consumer]":
        """Open a consumer, like `App.consumer`, for a subscription or for the name of a queue."""
        self._check_place()
        from mqflow.app.handlers.consumer import Consumer  # noqa: PLC0415 - an application of listeners has no synchronous consumer

        consumer = Consumer(
            self._runtime.supervisor,
            chosen,
            selector=selector,
            behaviour=Behaviour.JMS_CONSUMER if transacted else Behaviour.JMS_CONSUMER_NOT_TRANSACTED,
            decide=self._declared.decide,
            broadcast=self._broadcast,
            clock=self._world.clock,
            sender=self._send,
            codec=self._declared.codec,
            application_name=self._name,
            records=self._recorder(f"consumer of {chosen if isinstance(chosen, str) else chosen.topic}"),
        )
        try:
            await consumer.open()
            yield consumer
        finally:
            await consumer.close()

    async def close_sessions(self) -> None:
        """Close the sessions for puts."""
        await self._puts.close()

    def close(self) -> None:
        """Close the shared notes, the queue manager and the decision ledger, each only if this application opened it."""
        self._is_over = True
        self._to_close.close()

    def _check_place(self) -> None:
        """Raise an error if the application has ended, or if this is not the thread of its event loop."""
        if self._is_over:
            raise ConfigurationError("The application is not running any more: `async with app.running(): ...` has ended.")
        if threading.get_ident() != self._thread:
            raise RuntimeError(
                "Nothing was put or received: the application runs in the event loop of another thread. Call it there: "
                "asyncio.run_coroutine_threadsafe(app.put(...), loop), or anyio.from_thread.run."
            )

    def _recorder(self, part: str) -> ConnectionRecorder | None:
        """Return a recorder of decisions for this service or consumer. None if the settings name no disposition queue."""
        queue = self.settings.disposition_queue
        if not queue:
            return None
        consumer = f"{self._name}/{part}"
        return ConnectionRecorder(queue, consumer=consumer, world=self._world, notify=self._broadcast)

    def _send(self, session: Session) -> Send:
        async def put(message: Outgoing) -> Put:
            return await put_in_unit_of_work(session, message, self._stager)

        return around_put(self._layers, put)

    def _spec(self, listener: Listener) -> ListenerSpec:
        """Return the record of the declared listener, with the options that the settings replace."""
        declared = self._declared
        prefix = f"{declared.queue_manager}:" if declared.queue_manager else ""
        name = prefix + listener.name
        spec = listener.spec(
            name,
            decide=declared.decide,
            middleware=declared.middleware,
            codec=declared.codec,
            stager=self._stager,
            broadcast=self._broadcast,
        )
        spec = replace(spec, **_overrides(self.settings.listener(name, prefix + listener.queue)))
        _check_overrides(spec, listener)
        # Only the event loop can end a handler at its time limit, and the settings can have set one.
        return replace(spec, handles_on_thread=spec.handles_on_thread and spec.time_limit_s is None)


def _hooks(declared: Declared) -> Sequence[Hook]:
    """Return the hooks. Add each middleware that is also a hook, because it has the attribute `wants` and can be called.

    If one of the hooks has the same class as a middleware, the middleware is not added: both would report the same events.
    """
    kinds = {type(hook) for hook in declared.hooks}
    of_routers = {id(layer): layer for listener in declared.listeners for layer in listener.middleware}
    both = [layer for layer in (*declared.middleware, *of_routers.values()) if _is_hook(layer) and type(layer) not in kinds]
    return (*declared.hooks, *both)


def _is_hook(layer: Any) -> TypeGuard[Hook]:
    # `hasattr`, because a middleware is an object of the user and can have any type.
    return callable(layer) and hasattr(layer, "wants")


def _notes(to_close: ExitStack, queue: str) -> MessageNotes:
    """Return the notes about failed messages of this queue. If the environment names a file, other processes share them."""
    path = os.environ.get("MQFLOW_NOTES_FILE")
    if not path:
        return MemoryNotes()
    from mqflow.app.run.shared_notes import SharedNotes  # noqa: PLC0415 - one process alone needs no file

    return to_close.enter_context(closing(SharedNotes(Path(path), queue)))


class _Opened(Struct, frozen=True):
    """The queue manager of a run. The other fields are set only if the application has opened it by its URL."""

    queue_manager: QueueManager
    #: The values of mqclient.ini, if the queue manager is IBM MQ.
    configuration: ClientConfiguration = ClientConfiguration()
    #: None if the settings want no ledger, or if the data is not in a local folder.
    ledger: DecisionLedger | None = None


def _check_overrides(spec: ListenerSpec, listener: Listener) -> None:
    """Raise `ConfigurationError` if the settings contradict the source code, as `ListenerOptions` does for options."""
    if spec.strict_order and (spec.concurrency > 1 or spec.unit_of_work > 1):
        problem = "its source code says strict_order, which allows one message in flight. Remove concurrency and unit_of_work"
    elif spec.handles_groups and spec.unit_of_work != listener.options.group_messages_max:
        problem = "its source code says groups, so each message group is a unit of work. Remove unit_of_work"
    else:
        return
    raise ConfigurationError(f"The settings of listener {spec.name} cannot be used: {problem} from the settings.")


def _overrides(settings: ListenerSettings) -> dict[str, Any]:  # `Any`: values of several fields of `ListenerSpec`
    """Return the fields of a `ListenerSpec` that the settings replace."""
    fields: dict[str, Any] = to_builtins(settings)
    if "backout_threshold" in fields:
        threshold = fields.pop("backout_threshold")
        fields["threshold"] = None if threshold == "queue" else threshold
    if "backout_requeue_queue" in fields:
        fields["backout_queue"] = fields.pop("backout_requeue_queue")
    return fields


def _attempt_events(broadcast: Broadcast, supervisor: Supervisor) -> Callable[["Tried"], None]:
    """Return a function that any thread can call with an attempt to connect. It reports an event on this event loop."""
    loop_caller = LoopCaller()

    def notify(tried: "Tried") -> None:
        error, (attempt, delay_s) = tried.error, supervisor.current_attempt
        event = ConnectionTried(
            queue_manager=supervisor.queue_manager_name,
            channel=tried.attempt.channel.name,
            address=str(tried.attempt.address),
            attempt=attempt,
            delay_s=delay_s,
            reason=0 if error is None else int(error.reason),
            detail="" if error is None else str(error),
        )
        loop_caller(lambda: broadcast(event))

    return notify
