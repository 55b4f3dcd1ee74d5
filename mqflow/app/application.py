"""`App`: the declarations of an application, and the functions that run it. Nothing happens before it runs.

The application passes everything that a user declares to the runtime; it moves no message itself.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta
from inspect import iscoroutinefunction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack

import anyio
from anyio.lowlevel import current_token

from mqflow.app.config.plugins import Group, named
from mqflow.app.config.settings import Settings
from mqflow.app.errors import ConfigurationError
from mqflow.app.handlers.codecs import Codec
from mqflow.app.handlers.handler import Handler, Where
from mqflow.app.handlers.listener_declaration import Listener, ListenerKeywords, ListenerOptions, Publisher
from mqflow.app.handlers.mistakes import (
    check_codec,
    check_layers,
    check_lifespan,
    check_sequence,
    check_startup,
    check_target,
)
from mqflow.app.handlers.outgoing import PutKeywords
from mqflow.app.run.running_application import Declared, RunningApplication
from mqflow.events import Hook
from mqflow.policy.poison import backout
from mqflow.runtime.listener.delivery import Decide
from mqflow.runtime.listener.subscriber import TopicSubscription
from mqflow.verbs import Put, QueueManager
from mqflow.world import SYSTEM_CLOCK, SYSTEM_RANDOM, THREADS, Clock, Random, Runner, World

if TYPE_CHECKING:
    from mqflow.app.handlers.consumer import Consumer
    from mqflow.app.handlers.dead_letter_declaration import DeadLetterRules

__all__ = ("App",)

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

Startup = Callable[[], Awaitable[None] | None]
Lifespan = Callable[["App"], AbstractAsyncContextManager[None]]


class App:
    """An application: listeners, publishers, and the queue manager that they use.

    `url` names the queue manager; a URL in the settings overrides `url`. `name` is the application name for the queue manager.
    `middleware` runs around handlers and puts; `hooks` receive every event. A middleware with `wants` is a hook too. `codec`
    converts payloads of handlers and puts without a codec of their own. Middleware, hooks and codecs can be names of plugins.
    `decide` takes the backout decision. `lifespan` is an async context manager around each run. Without `settings`, the
    application loads them when it runs.

    Raises `ConfigurationError` for an argument of another type, for an async hook and for a plugin that cannot be used.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        name: str = "",
        middleware: Sequence[Any] = (),
        hooks: Sequence[Hook | str] = (),
        codec: Codec | str | None = None,
        decide: Decide = backout.decide,
        lifespan: Lifespan | None = None,
        settings: Settings | None = None,
    ) -> None:
        if url is not None and not isinstance(url, str):
            raise ConfigurationError(f"App({url!r}): the URL is a text: App('embedded:./data?qmgr=QM1').")
        if settings is not None and not isinstance(settings, Settings):
            raise ConfigurationError(f"App(settings={type(settings).__name__}): it takes Settings(...), or None to load them.")
        if not callable(decide):
            raise ConfigurationError(f"App(decide={decide!r}): it takes a function. Leave it out for the rules of JMS.")
        check_sequence("middleware", middleware)
        check_sequence("hooks", hooks)
        #: The settings of the application; None loads them from environment and mqflow.toml when it runs.
        self.settings: Settings | None = settings
        self.url: Final = url
        self.name: Final = name
        #: Objects with `consume`, `publish` or `decided`; names of plugins are replaced by the plugins.
        self.middleware: Final[list[Any]] = list(named(Group.MIDDLEWARE, middleware))
        check_layers(self.middleware)
        self.hooks: Final[list[Hook]] = list(named(Group.HOOKS, hooks))
        # hasattr: a middleware layer may have `wants` or not; a layer that has it is also a hook.
        for hook in (*self.hooks, *(layer for layer in self.middleware if hasattr(layer, "wants"))):
            if iscoroutinefunction(hook) or iscoroutinefunction(type(hook).__call__):
                problem = "mqflow calls a hook as a plain function, so async code never runs. Start a task, or use middleware"
                raise ConfigurationError(f"Hook {hook!r} is async: {problem}.")
        self.codec: Final = _codec(codec)
        #: The function that takes the backout decision.
        self.decide: Final = decide
        if lifespan is not None:
            check_lifespan(lifespan)
        self._lifespan = lifespan
        self._listeners: dict[str, Listener] = {}
        self._publishers: list[Publisher] = []
        self._on_start: list[Startup] = []
        self._on_stop: list[Startup] = []
        self._running: RunningApplication | None = None
        self._delay_processors = 0
        self._delay_processors_have_own_authority = False
        self._dead_letter_handlers: list[DeadLetterRules] = []

    # -- declaring

    def listener(
        self,
        queue: str = "",
        *,
        topic: str = "",
        durable: str = "",
        selector: str = "",
        character_wildcards: bool = False,
        where: Where | None = None,
        codec: Codec | str | None = None,
        name: str = "",
        **options: Unpack[ListenerKeywords],
    ) -> Callable[[F], F]:
        """Declare the decorated function as a handler of the messages of a queue or of a topic. Returns it unchanged.

        With `topic`, the handler receives publications. The topic string can have wildcards for levels (`#`, `+`), or with
        `character_wildcards` for characters (`*`, `?`). All workers share one subscription; `durable` names a durable
        subscription. `selector` selects publications, or messages of the queue. Two selectors on one queue are two listeners;
        messages that no selector selects stay on the queue.

        Several functions can handle one queue. `where` receives the `Message`; the first handler in the order of declaration
        whose `where` returns true, or that has no `where`, takes the message.

        `options` are the fields of `ListenerOptions`. The options belong to the queue, so only one of its handlers gives them.
        `codec` is an object or the name of a plugin. Raises `ConfigurationError` for options that make no sense, for a plugin
        that cannot be used, and for a function that cannot be a handler.
        """
        wanted = TopicSubscription(topic=topic, durable=durable, selector=selector, character_wildcards=character_wildcards)
        chosen = _chosen("listener", queue, wanted)
        own_codec = _codec(codec)

        def declare(function: F) -> F:
            handler = Handler(function, where=where, codec=own_codec or self.codec)
            listener = self._listener(queue or topic, options, name or handler.short_name, handler.name, chosen or selector)
            listener.add(handler)
            return function

        return declare

    def publisher(
        self,
        queue: str,
        *,
        persistent: bool | None = True,
        priority: int | None = None,
        expiry_s: float | None = None,
        delay: timedelta | float | None = None,
        codec: Codec | str | None = None,
    ) -> Publisher:
        """Return a decorator for handlers: it puts the handler's result on a queue, in the unit of work of the delivery.

        Outside of deliveries, `Publisher.put` and `Publisher.put_many` of the result put messages with the same options.

        Messages are persistent by default, as in JMS. `persistent` and `priority`: None leaves them to the queue's definition
        (DEFPSIST, DEFPRTY). With `delay`, a timedelta or seconds, the message becomes available after that time. Raises
        `MQIError` 2013 if `expiry_s` is not positive or shorter than the delay, 2046 for an invalid delay.
        """
        check_target("publisher", queue, "", of_topics="")
        made = Publisher(
            queue=queue,
            persistent=persistent,
            priority=priority,
            expiry_s=expiry_s,
            delay=delay,
            codec=_codec(codec) or self.codec,
            running=self._run,
        )
        self._publishers.append(made)
        return made

    def delay_processor(self, concurrency: int = 1, *, own_authority: bool = False) -> None:
        """Make this application deliver delayed messages when they are due, on `concurrency` connections.

        On IBM MQ at least one application must call this function; several can. On an embedded queue manager every running
        application delivers delayed messages without this call.

        A processor puts each message with the authority of the user that put it on the staging queue. For that, the user of the
        application needs alternate-user authority. With `own_authority`, the processor puts with the authority of its own user:
        then each user that can put on the staging queue can reach every queue of the processor's user.
        Raises `ConfigurationError` if `concurrency` is less than 1.
        """
        if not isinstance(concurrency, int) or concurrency < 1:
            raise ConfigurationError(f"concurrency={concurrency!r}: it must be a number, 1 or more.")
        self._delay_processors = concurrency
        self._delay_processors_have_own_authority = own_authority

    def dead_letter_handler(
        self, table: str | Path | None = None, *, queue: str = "", reload: bool = False
    ) -> "DeadLetterRules":
        """Make this application handle a dead-letter queue by a rules table, and by Python rules added to the result.

        `table` is the path of the rules table; None starts without one. The queue is `queue`, else INPUTQ of the table, else
        the dead-letter queue of the queue manager. With `reload`, a changed table applies as soon as it is on the disk.
        Raises `RulesError` with every error of the table.
        """
        from mqflow.app.handlers.dead_letter_declaration import DeadLetterRules  # noqa: PLC0415 - few applications handle dead letters

        rules = DeadLetterRules(table, queue, reload=reload)
        self._dead_letter_handlers.append(rules)
        return rules

    def on_start(self, function: Startup) -> Startup:
        """Call the function at each start, before a listener gets its first message. Returns the function."""
        check_startup("on_start", function)
        self._on_start.append(function)
        return function

    def on_stop(self, function: Startup) -> Startup:
        """Call the function at each stop, after the last unit of work is settled. Returns the function."""
        check_startup("on_stop", function)
        self._on_stop.append(function)
        return function

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """The declared listeners, in order: one for each queue and selector, one for each subscription."""
        return tuple(self._listeners.values())

    @property
    def publishers(self) -> tuple[Publisher, ...]:
        """The publishers that `publisher` made, in order."""
        return tuple(self._publishers)

    @property
    def delay_processors(self) -> int:
        """The number of delay processors that `delay_processor` declared; 0 if it was not called."""
        return self._delay_processors

    @property
    def delay_processors_have_own_authority(self) -> bool:
        """Whether the delay processors put with their own authority, instead of the authority of each sender."""
        return self._delay_processors_have_own_authority

    @property
    def dead_letter_handlers(self) -> "tuple[DeadLetterRules, ...]":
        """The rules of the DLQ handlers that `dead_letter_handler` declared, in order."""
        return tuple(self._dead_letter_handlers)

    @property
    def queue_manager(self) -> QueueManager:
        """The queue manager of the running application. Raises `ConfigurationError` if the application is not running."""
        return self._run().queue_manager

    # -- doing

    def put(self, queue: str, payload: Any, **keywords: Unpack[PutKeywords]) -> Coroutine[Any, Any, Put]:
        """Put a message in a unit of work of its own. The message is committed when this function returns.

        The keyword arguments are the fields of `PutKeywords`: properties, persistent, priority, expiry and delay (timedelta or
        seconds), correlation_id, message_id, reply_to, codec, descriptor. Returns the fields that the queue manager set. The
        message is persistent by default, as in JMS; `persistent=None` takes DEFPSIST of the queue.

        A put that loses its connection before its commit puts again on the next connection, but not inside a handler.

        Raises the `MQIError` of the put, of its commit, or of reconnecting. If its `verb` is MQCMIT and its reason is not 2003,
        nobody knows whether the message is on the queue. After every other error the message is on no queue.
        """
        return self._run().put(queue, payload, **keywords)

    def put_many(self, queue: str, payloads: Iterable[Any], **keywords: Unpack[PutKeywords]) -> Coroutine[Any, Any, list[Put]]:
        """Put a message for each payload, all in one unit of work. All are committed when this returns.

        The keyword arguments are those of `put`, for every message. The result has a `Put` for each payload, in order. One unit
        of work takes MAXUMSGS messages of the queue manager, 10,000 by default.

        Raises the errors of `put`; then no message is put, unless the error says that nobody knows. The error of a refused
        message names the index of its payload.
        """
        return self._run().put_many(queue, payloads, **keywords)

    def publish(
        self, topic: str, payload: Any, *, retain: bool = False, **keywords: Unpack[PutKeywords]
    ) -> Coroutine[Any, Any, Put]:
        """Publish a message on a topic in a unit of work of its own. Every subscription has its copy when this returns.

        With `retain` the queue manager also keeps the publication for later subscribers. The keyword arguments are those of
        `put`. With a delay, the present subscriptions receive the message after the delay.

        Raises `MQIError` 2502 if the topic's delivery rule cannot be met, or if the rule is not ALLAVAIL and the message has a
        delay. Also raises the errors of `put`.
        """
        return self._run().publish(topic, payload, retain=retain, **keywords)

    async def unsubscribe(self, durable: str) -> None:
        """Delete a durable subscription and the messages that wait on its queue.

        Raises `MQIError` 2428 if there is no such subscription, 2429 while an application uses it.
        """
        await self._run().unsubscribe(durable)

    def request(
        self, queue: str, payload: Any, *, reply: type[T], timeout_s: float = 30.0, **keywords: Unpack[PutKeywords]
    ) -> Coroutine[Any, Any, T]:
        """Put a request, wait for its reply and return the reply, decoded as the type `reply`.

        The request expires after `timeout_s` seconds, unless `expiry` gives another time. Without `persistent`, DEFPSIST of the
        queue decides: a reply is as persistent as its request, and the reply queue, a temporary dynamic queue, takes only
        non-persistent messages. The other keyword arguments are those of `put`.

        Raises `RequestFailedError` as soon as a report says that no reply follows: a listener could not handle the request, or
        the request has expired. Raises `RequestTimeoutError` if no reply comes in time. Both have the MsgId of the request.
        Raises `UndecodableError` if the reply does not decode, and the errors of `put`.
        """
        return self._run().request(queue, payload, reply=reply, timeout_s=timeout_s, **keywords)

    def consumer(
        self,
        queue: str = "",
        *,
        topic: str = "",
        durable: str = "",
        selector: str = "",
        character_wildcards: bool = False,
        transacted: bool = True,
    ) -> "AbstractAsyncContextManager[Consumer]":
        """Return a synchronous consumer of a queue or of a topic, for `async with`. At its end an open unit is backed out.

        The arguments for a topic and the selector are those of `listener`. A subscription without a name ends with the
        consumer; a durable subscription goes on, and ends with `unsubscribe`. One consumer at a time can have it.

        Without `transacted`, each received message is committed at once. Raises `ConfigurationError` if the application is not
        running, or if the arguments make no sense. Entering the consumer raises the `MQIError` of MQOPEN or MQSUB: 2429 if a
        consumer or a listener has the durable subscription.
        """
        wanted = TopicSubscription(topic=topic, durable=durable, selector=selector, character_wildcards=character_wildcards)
        chosen = _chosen("consumer", queue, wanted)
        return self._run().consumer(chosen or queue, selector=selector, transacted=transacted)

    # -- running

    @asynccontextmanager
    async def running(
        self,
        queue_manager: QueueManager | None = None,
        *,
        clock: Clock = SYSTEM_CLOCK,
        random: Random = SYSTEM_RANDOM,
        runner: Runner = THREADS,
        drain_s: float | None = None,
        listen: bool = True,
    ) -> AsyncIterator[RunningApplication]:
        """Run the application inside the block: listeners run, and `put`, `request` and `consumer` work. Drain at the end.

        The application uses the given queue manager, or opens the queue manager of its URL and closes it at the end. `drain_s`
        is the time for handlers to finish, in seconds; None takes it from the settings. With `listen=False` no listener starts.
        Tests replace `clock`, `random` and `runner`.

        Raises `ConfigurationError` if the application runs already or its URL or settings make no sense. Raises `SettingsError`
        if the settings cannot be loaded.
        """
        if self._running is not None:
            raise ConfigurationError(
                f"{self.name or 'This application'} is running already; an `App` can run only once at a time."
            )
        async with AsyncExitStack() as stack:
            running = RunningApplication(self._declared(), queue_manager, World(clock, random, runner))
            stack.callback(running.close)
            self._running = running
            stack.callback(setattr, self, "_running", None)
            stack.push_async_callback(running.close_sessions)
            if self._lifespan is not None:
                await stack.enter_async_context(self._lifespan(self))
            for function in reversed(self._on_stop):
                stack.push_async_callback(_call, function)
            stack.callback(running.stop)  # on every way out, so that a put of an on_stop function waits for no queue manager
            for function in self._on_start:
                await _call(function)
            if listen:
                await stack.enter_async_context(running.listening(drain_s))
            yield running

    def run(self, *, backend: str = "asyncio") -> int:
        """Run until SIGTERM, SIGINT or SIGHUP, then drain. Return the exit code: 0 if every handler finished.

        A second signal cancels the handlers, backs their units of work out and gives exit code 75. A third signal ends the
        process at once. If a handler still runs five seconds after the drain, the process ends with exit code 75. The exit code
        is 1 if a consumer failed and started again. Python waits for the thread of a cancelled plain function until it returns.
        """
        from mqflow.app.run.signals import run_until_signal  # noqa: PLC0415 - only `run` handles signals

        with suppress(RuntimeError):  # outside of an event loop, as it should be
            current_token()
            raise ConfigurationError("App.run() was called inside an event loop. Write `async with app.running(): ...` there.")
        logging.getLogger("mqflow").debug("running %s on %s", self.name, backend)
        return anyio.run(run_until_signal, self.running, self.stop, backend=backend)

    def stop(self) -> None:
        """Stop getting messages. Handlers that run go on; a call that waits for a connection raises `MQIError` 2202."""
        if self._running is not None:
            self._running.stop()

    def _declared(self) -> Declared:
        return Declared(
            url=self.url,
            name=self.name,
            settings=self.settings,
            listeners=self.listeners,
            middleware=self.middleware,
            hooks=self.hooks,
            codec=self.codec,
            decide=self.decide,
            delay_processors=self._delay_processors,
            delay_processors_have_own_authority=self._delay_processors_have_own_authority,
            dead_letter_handlers=self._dead_letter_handlers,
        )

    def _run(self) -> RunningApplication:
        if self._running is None:
            raise ConfigurationError("The application is not running: `async with app.running(): ...` runs it.")
        return self._running

    def _listener(
        self, queue: str, options: ListenerKeywords, name: str, handler: str, chosen: TopicSubscription | str
    ) -> Listener:
        """Return the listener of the queue; the first call makes it. Raises `ConfigurationError` if its options differ."""
        try:
            wanted = ListenerOptions(**options)
        except (TypeError, ValueError, ConfigurationError) as error:
            accepted = ", ".join(ListenerOptions.__struct_fields__)
            raise ConfigurationError(f"{handler} on {queue}: {str(error).rstrip('.')}. The options are {accepted}.") from error
        # Two subscriptions to one topic are two listeners, and a topic can have the name of a queue.
        subscription, selection = (None, chosen) if isinstance(chosen, str) else (chosen, "")
        key = f"{queue} {selection}" if subscription is None else f"topic {subscription}"
        listener = self._listeners.get(key)
        if listener is None:
            listener = self._listeners[key] = Listener(queue, wanted, name, subscription, selection)
        elif options and listener.options == ListenerOptions():
            listener.options = wanted
        elif options and wanted != listener.options:
            raise ConfigurationError(
                f"{handler}: {listener.handlers[0].name} gives other options for {queue}. Only one handler gives them."
            )
        return listener


def _chosen(call: str, queue: str, wanted: TopicSubscription) -> TopicSubscription | None:
    """Return the subscription, or None for a queue. Raises `ConfigurationError` if the arguments make no sense."""
    of_topics = "durable" if wanted.durable else "character_wildcards" if wanted.character_wildcards else ""
    check_target(call, queue, wanted.topic, of_topics=of_topics)
    return wanted if wanted.topic else None


def _codec(codec: Codec | str | None) -> Codec | None:
    """Return the codec; a text is the name of a plugin. Raises `PluginError`, with the names of the installed codecs."""
    if not isinstance(codec, str):
        if codec is not None:
            check_codec(codec)
        return codec
    found: Codec = named(Group.CODECS, (codec,))[0]
    return found


async def _call(function: Startup) -> None:
    result = function()
    if result is not None:
        await result
