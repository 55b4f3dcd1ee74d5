"""`App`: the declarations of an application, and the methods that run it. A declaration alone connects to nothing.

The application passes its declarations to the runtime, which handles the messages.
"""

import logging
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta
from inspect import isawaitable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack

import anyio
from anyio.lowlevel import current_token
from msgspec.structs import replace

from mqflow.app.channels.location import when_free
from mqflow.app.config.plugins import Group, named
from mqflow.app.config.settings import Settings, check_settings, url_is_set
from mqflow.app.errors import ConfigurationError
from mqflow.app.handlers import mistakes
from mqflow.app.handlers.codecs import Codec
from mqflow.app.handlers.handler import Handler, Place, Where
from mqflow.app.handlers.listener_declaration import Listener, ListenerKeywords, Publisher
from mqflow.app.handlers.outgoing_message import PutKeywords, with_codec
from mqflow.app.router import (
    HandlerDeclaration,
    Router,
    Scope,
    check_router,
    chosen_target,
    codec_of,
    declaring,
    layers_of,
    options_of,
    scope_of,
)
from mqflow.app.run.running_application import Declared, RunningApplication
from mqflow.events import Hook
from mqflow.policy.did_you_mean import closest
from mqflow.policy.poison import backout
from mqflow.runtime.listener.delivery import Decide
from mqflow.runtime.listener.subscriber import TopicSubscription
from mqflow.verbs import Put, QueueManager
from mqflow.world import SYSTEM_CLOCK, SYSTEM_RANDOM, THREADS, Clock, Random, Runner, World

if TYPE_CHECKING:
    from mqflow.app.handlers.consumer import Consumer
    from mqflow.app.handlers.dead_letter_declaration import DeadLetterRules
    from mqflow.app.schedules import NoDecorator, Schedule

__all__ = ("App",)

_NAME: Final = re.compile(r"[A-Za-z]\w*", re.ASCII)
_BACKENDS: Final = ("asyncio", "trio")
_NO_OTHERS: Final[Mapping[str, QueueManager]] = {}
_NO_SCOPE: Final = Scope()

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

Startup = Callable[[], Awaitable[None] | None]
Lifespan = Callable[["App"], AbstractAsyncContextManager[None]]


class App:
    """An application: listeners, publishers, and the queue manager that they use.

    `url` names the queue manager; a URL in the settings replaces it. `name` is the application name for the queue manager.
    Each call of a handler, and each put, runs inside the `middleware`. `hooks` receive every event. A middleware with an
    attribute `wants` is a hook too. `codec` converts the payloads of handlers and puts that have no codec of their own.
    Middleware, hooks and codecs can be given as names of plugins. `decide` makes the backout decision. `lifespan` is an async
    context manager around each run. Without `settings`, the application loads its settings when it runs.

    Raises `ConfigurationError` for an argument of another type, for an async hook or codec or `decide`, and for a plugin that
    cannot be used. Also raises it for a declaration while the application runs.
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
        if not isinstance(name, str):
            raise ConfigurationError(f"App(name={name!r}): the name is a text.")
        if settings is not None:
            check_settings(settings)
        mistakes.check_decide(decide)
        mistakes.check_sequence("App", "hooks", hooks)
        #: The settings of the application; None if they are loaded from environment and mqflow.toml when it runs.
        self.settings: Settings | None = settings
        self.url: Final = url
        self.name: Final = name
        #: Objects with `consume`, `publish` or `decided`. A name of a plugin is replaced by the plugin.
        self.middleware: Final[list[Any]] = list(layers_of("App", middleware))
        self.hooks: Final[list[Hook]] = list(named(Group.HOOKS, hooks))
        mistakes.check_hooks(self.hooks)
        self.codec: Final = codec_of(codec)
        #: The function that makes the backout decision.
        self.decide: Decide = decide
        if lifespan is not None:
            mistakes.check_lifespan(lifespan)
        self._lifespan = lifespan
        self._listeners: dict[str, Listener] = {}
        self._publishers: list[Publisher] = []
        self._on_start: list[Startup] = []
        self._on_stop: list[Startup] = []
        self._running: RunningApplication | None = None
        self._delay_processors = 0
        self._delay_processors_have_own_authority = False
        self._dead_letter_handlers: list[DeadLetterRules] = []
        self._schedules: list[Schedule] = []
        self._included: list[App] = []
        self._is_included = False

    # -- declarations

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
        """Declare the decorated function as a handler of the messages of a queue or topic. Returns the function unchanged.

        With `topic`, the handler receives publications. The topic string can have wildcards: for topic levels (`#`, `+`), or
        with `character_wildcards` for characters (`*`, `?`). All workers share one subscription. `durable` gives the
        subscription a name, and makes it durable. `selector` selects publications, or messages of the queue. Two selectors on
        one queue make two listeners; messages that no selector selects stay on the queue.

        Several functions can handle one queue. `where` is a function that receives the `Message`. The handlers are asked in the
        order of their declaration. The first handler without `where`, or whose `where` returns true, gets the message.

        `options` are the fields of `ListenerOptions`. They apply to the whole queue, so only one of its handlers may give them.
        `codec` is an object or the name of a plugin. Raises `ConfigurationError` for wrong options, for a plugin that cannot be
        used, and for a function that cannot be a handler.
        """
        wanted = TopicSubscription(topic=topic, durable=durable, selector=selector, character_wildcards=character_wildcards)
        return declaring(self._declare, queue, wanted, where, codec, name, options)

    def include_router(
        self, router: Router, *, prefix: str = "", middleware: Sequence[Any] = (), **defaults: Unpack[ListenerKeywords]
    ) -> None:
        """Declare the listeners and publishers that a router has now. Routers inside that router are included too.

        `prefix` comes before the router's own prefix. Both come before the name of each queue that a listener or a publisher of
        the router declares. Topics, backout queues and the queues of `Context.put` keep their names. `middleware` runs around
        the handlers of the router: inside the application's middleware, and outside the router's own. `defaults` are options
        for listeners of the router that do not set them. A default of the router itself takes precedence.

        A router can be included several times, each time with another prefix. Raises `ConfigurationError` for arguments that
        have a wrong value, and the errors of `listener`.
        """
        check_router("include_router", router)
        self._check_not_running("include_router")
        for inner, scope in router.included(scope_of("include_router", prefix, middleware, defaults), self._run):
            place = Place(inner, scope.prefix, scope.codec or self.codec, self._run)
            for publisher in inner.publishers:
                self._publishers.append(replace(publisher.at(place, "the application"), running=self._run))
            for declaration in inner.listeners:
                self._declare(declaration, scope, inner)

    def include_app(self, app: "App") -> None:
        """Run another application together with this one, on another queue manager. Both start, get ready and drain together.

        In the settings, below `queue_managers`, the name of the included application is the name of its queue manager. The name
        also comes before the names of its listeners (`archive:book`). The included application keeps its own middleware, hooks,
        codec and lifespan. It uses the settings and the application name of this application. Its lifespan begins before that
        of this application, and ends later. So functions of this application can always put on the queue manager of the
        included one. The listeners of both start at the same time.

        An outage of one queue manager does not stop the listeners of another. A unit of work belongs to one queue manager. If a
        handler puts on another queue manager, that put is committed at once, and it stays if the handler fails.

        Raises `ConfigurationError` for an object that is not an `App`, and for a name that is missing, invalid or in use. Also
        raises it if the included application includes another: one application must include all others.
        """
        self._check_not_running("include_app")
        if not isinstance(app, App):
            raise ConfigurationError(f"include_app({app!r}): it takes an App: archive = App(URL, name='archive').")
        if not _NAME.fullmatch(app.name):
            raise ConfigurationError(
                f"include_app(App(name={app.name!r})): the name of an included application names its queue manager in settings "
                "and listeners: letters, digits and underscores, a letter first. App(URL, name='archive') has one."
            )
        if app is self or app.included or self._is_included:
            raise ConfigurationError(
                f"include_app({app.name!r}): one application includes all others. An included one cannot include another."
            )
        if app.name.upper() in {each.name.upper() for each in self.included}:
            raise ConfigurationError(f"include_app({app.name!r}): an included application has the name {app.name} already.")
        self._included.append(app)
        app._is_included = True  # noqa: SLF001 - another object of this class

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
        """Return a decorator for handlers. It puts a handler's result on a queue, in the unit of work of the delivery.

        Outside of deliveries, use the methods `put` and `put_many` of the returned `Publisher`: they have the same options.

        Messages are persistent by default, as in JMS. If `persistent` or `priority` is None, the queue's definition (DEFPSIST,
        DEFPRTY) decides. With `delay`, a timedelta or seconds, the message becomes available after that time. Raises `MQIError`
        2013 if `expiry_s` is not positive or is shorter than the delay, and 2046 for an invalid delay.
        """
        mistakes.check_target("publisher", queue, "", of_topics="")
        made = Publisher(
            queue=queue,
            persistent=persistent,
            priority=priority,
            expiry_s=expiry_s,
            delay=delay,
            codec=codec_of(codec) or self.codec,
            running=self._run,
        )
        self._publishers.append(made)
        return made

    def delay_processor(self, concurrency: int = 1, *, own_authority: bool = False) -> None:
        """Let this application deliver delayed messages when they are due, on `concurrency` connections.

        On IBM MQ, at least one application must call this method; several can. On an embedded queue manager no call is needed:
        the process that has the queue manager open delivers the messages.

        A processor puts each message with the authority of the user that put it on the staging queue. For this, the user of the
        application needs alternate-user authority. With `own_authority`, the processor puts with the authority of its own user.
        Then every user that may put on the staging queue can put on every queue to which the processor's user may put. Raises
        `ConfigurationError` if `concurrency` is less than 1.
        """
        self._check_not_running("delay_processor")
        if not isinstance(concurrency, int) or concurrency < 1:
            raise ConfigurationError(f"concurrency={concurrency!r}: it must be a number, 1 or more.")
        mistakes.check_switch("delay_processor", "own_authority", own_authority)
        self._delay_processors = concurrency
        self._delay_processors_have_own_authority = own_authority

    def dead_letter_handler(
        self, table: str | Path | None = None, *, queue: str = "", reload: bool = False
    ) -> "DeadLetterRules":
        """Let this application handle a dead-letter queue, by a rules table and by Python rules that are added to the result.

        `table` is the path of the rules table; None means no table. The dead-letter queue is `queue`; or else INPUTQ of the
        table; or else the DEADQ of the queue manager. With `reload`, a changed table applies about a second after the
        change; while it has errors, the old rules stay. Raises `RulesError` with every error of the table, and `OSError` if it
        cannot be read.
        """
        from mqflow.app.handlers.dead_letter_declaration import DeadLetterRules  # noqa: PLC0415 - few applications handle dead letters

        self._check_not_running("dead_letter_handler")
        rules = DeadLetterRules(table, queue, reload=reload)
        self._dead_letter_handlers.append(rules)
        return rules

    def schedule(
        self,
        when: str | timedelta | float,
        queue: str = "",
        *,
        name: str = "",
        timezone: str = "UTC",
        state_queue: str = "MQFLOW.SCHEDULES",
        payload: Any = None,
        **keywords: Unpack[PutKeywords],
    ) -> "NoDecorator":
        """Put a message on a queue each time a schedule is due: one message, even if the application has several workers.

        `when` is a cron expression such as `"0 6 * * MON-FRI"`, in the time zone, or an interval: a timedelta or seconds. A
        listener of the queue handles the message. The payload of the message is a `Firing`, unless `payload` gives another one.
        The other keyword arguments are those of `put`, without `delay`. `name` is the name of the schedule; the default is the
        name of the queue.

        `state_queue` holds one message for each schedule, with the time at which it was last due. Workers are processes with
        the same `App.name` and the same queue manager. Raises `ConfigurationError` for a rule that cannot be used, for a second
        schedule with this name, and for a cron expression without the extra `mqflow[schedule]`.
        """
        from mqflow.app.schedules import NoDecorator, schedule_of  # noqa: PLC0415 - few applications have schedules

        if not queue:
            raise ConfigurationError(
                f"schedule({when!r}) has no queue. It puts messages on a queue, and a listener handles them: "
                "app.schedule('0 6 * * *', 'NIGHTLY'), and @app.listener('NIGHTLY') above the function."
            )
        mistakes.check_target("schedule", queue, "", of_topics="")
        self._check_not_running("schedule")
        if any(other.name == (name or queue) for other in self._schedules):
            raise ConfigurationError(
                f"schedule({when!r}, {queue!r}): there is a schedule {name or queue} already. Give one of them another name."
            )
        with_codec(keywords, self.codec)
        self._schedules.append(schedule_of(when, queue, name or queue, timezone, state_queue, payload, keywords))
        return NoDecorator(f"{when!r}, {queue!r}", queue)

    def on_start(self, function: Startup) -> Startup:
        """Call the function at each start, before a listener gets its first message. Returns the function."""
        mistakes.check_startup("on_start", function)
        self._check_not_running("on_start")
        self._on_start.append(function)
        return function

    def on_stop(self, function: Startup) -> Startup:
        """Call the function at each stop, after the last unit of work is settled. Returns the function."""
        mistakes.check_startup("on_stop", function)
        self._check_not_running("on_stop")
        self._on_stop.append(function)
        return function

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """The declared listeners, in order: one for each queue and selector, and one for each subscription."""
        return tuple(self._listeners.values())

    def listen_only(self, names: Collection[str]) -> None:
        """Keep only the listeners with these names, queues or topics. DLQ handlers are removed.

        Delay processors and schedules stay. Raises `ConfigurationError`, with the names that exist, if a name is unknown.
        """
        mistakes.check_sequence("listen_only", "names", names)
        self._check_not_running("listen_only")
        declared = self._listener_names()
        known = {name for listeners in declared.values() for both in listeners.values() for name in both}
        for name in names:
            if name not in known:
                close = closest(name, known)
                meant = f"Did you mean {close}? " if close else ""
                listed = ", ".join(f"{each} ({queue})" for of_app in declared.values() for each, queue in of_app.values())
                raise ConfigurationError(f"There is no listener {name!r}. {meant}The application declares: {listed or 'none'}.")
        for app, listeners in declared.items():
            keys = [key for key, both in listeners.items() if any(name in names for name in both)]
            app._keep_only(keys)  # noqa: SLF001 - another object of this class

    def _keep_only(self, keys: Collection[str]) -> None:
        self._listeners = {key: listener for key, listener in self._listeners.items() if key in keys}
        self._dead_letter_handlers.clear()

    @property
    def publishers(self) -> tuple[Publisher, ...]:
        """The publishers that calls of `publisher` made, in order."""
        return tuple(self._publishers)

    @property
    def delay_processors(self) -> int:
        """The number of delay processors that `delay_processor` declared; 0 if it was not called."""
        return self._delay_processors

    @property
    def delay_processors_have_own_authority(self) -> bool:
        """True if the delay processors put with their own authority, instead of the authority of each sender."""
        return self._delay_processors_have_own_authority

    @property
    def dead_letter_handlers(self) -> "tuple[DeadLetterRules, ...]":
        """The rules of the DLQ handlers that `dead_letter_handler` declared, in order."""
        return tuple(self._dead_letter_handlers)

    @property
    def schedules(self) -> "tuple[Schedule, ...]":
        """The schedules that `schedule` declared, in order."""
        return tuple(self._schedules)

    @property
    def included(self) -> "tuple[App, ...]":
        """The applications that `include_app` added, in order."""
        return tuple(self._included)

    def urls(self, settings: Settings) -> dict[str, str]:
        """Return the URL of each queue manager, by the name of the included application. This application's own key is "".

        Raises `ConfigurationError` if neither the settings nor the source code have the URL of an included application.
        """
        return {name: own.url_over(app.url) for name, (app, own) in self.with_settings(settings).items()}

    def with_settings(self, settings: Settings, *, needs_url: bool = True) -> "dict[str, tuple[App, Settings]]":
        """Return this application and each included one, each with its settings, by the name of the included one.

        The key of this application is "". Raises the `ConfigurationError` of `urls`, unless no URL is needed.
        """
        within = {app: app._settings_within(settings, needs_url=needs_url) for app in self.included}  # noqa: SLF001 - this class
        return {"": (self, settings), **{app.name: (app, own) for app, own in within.items()}}

    @property
    def current(self) -> RunningApplication | None:
        """The application while it runs, and while it starts or stops; otherwise None."""
        return self._running

    @property
    def queue_manager(self) -> QueueManager:
        """The queue manager of the running application. Raises `ConfigurationError` if the application is not running."""
        return self._run().queue_manager

    # -- puts, requests and consumers

    def put(self, queue: str, payload: Any, **keywords: Unpack[PutKeywords]) -> Coroutine[Any, Any, Put]:
        """Put a message in a unit of work of its own. The message is committed when this function returns.

        The keyword arguments are the fields of `PutKeywords`: properties, persistent, priority, expiry and delay (timedelta or
        seconds), correlation_id, message_id, reply_to, codec, descriptor. Returns the fields that the queue manager has set.
        The message is persistent by default, as in JMS; with `persistent=None`, DEFPSIST of the queue decides.

        If the connection is lost before the commit, this function puts the message again on the next connection. Inside a
        handler, it raises the error instead.

        Raises the `MQIError` of the put, of its commit, or of reconnecting. If the `verb` of the error is MQCMIT and its reason
        is not 2003, nobody knows whether the message is on the queue. After every other error the message is on no queue. If
        other code cancels the task during the commit (`Task.cancel`), an `InDoubt` event names the message.

        Raises `RuntimeError`, and puts nothing, outside of the thread of the application's event loop.
        """
        return self._run().put(queue, payload, **keywords)

    def put_many(self, queue: str, payloads: Iterable[Any], **keywords: Unpack[PutKeywords]) -> Coroutine[Any, Any, list[Put]]:
        """Put a message for each payload, all in one unit of work. All messages are committed when this function returns.

        The keyword arguments are those of `put`, and apply to every message. The result has a `Put` for each payload, in order.
        A unit of work can have at most MAXUMSGS messages, by default 10,000.

        Raises the errors of `put`. If the `verb` of the error is MQCMIT and its reason is not 2003, nobody knows whether all
        messages or none are on the queue. After every other error, no message is on the queue. The error of a refused message
        names the index of its payload.
        """
        return self._run().put_many(queue, payloads, **keywords)

    def publish(
        self, topic: str, payload: Any, *, retain: bool = False, **keywords: Unpack[PutKeywords]
    ) -> Coroutine[Any, Any, Put]:
        """Publish a message on a topic, in a unit of work of its own.

        When this returns, each subscription that can take its copy has the copy. With `retain`, the queue manager also keeps
        the publication for later subscribers. The keyword arguments are those of `put`. With a delay, the subscriptions that
        exist now receive the message after the delay.

        Raises `MQIError` 2502 if the delivery rule of the topic (PMSGDLV, NPMSGDLV) cannot be met. Raises it also if the
        message has a delay and the rule is not ALLAVAIL. Also raises the errors of `put`.
        """
        return self._run().publish(topic, payload, retain=retain, **keywords)

    async def unsubscribe(self, durable: str) -> None:
        """Delete a durable subscription and the messages that wait on its queue.

        Raises `MQIError` 2428 if there is no such subscription, and 2429 if an application uses it.
        """
        mistakes.check_text("unsubscribe", "durable", durable)
        await self._run().unsubscribe(durable)

    def request(
        self, queue: str, payload: Any, *, reply: type[T], timeout_s: float = 30.0, **keywords: Unpack[PutKeywords]
    ) -> Coroutine[Any, Any, T]:
        """Put a request, wait for its reply and return the reply, decoded as the type `reply`.

        The request expires after `timeout_s` seconds, unless it has another `expiry`, or a `delay`. Without the keyword
        `persistent`, DEFPSIST of the queue decides. Most programs answer a persistent request with a persistent reply. The
        reply queue, a temporary dynamic queue, refuses such a reply (2048). The other keyword arguments are those of `put`,
        without `reply_to`.

        Raises `RequestFailedError` as soon as a report says that no reply follows: a listener could not handle the request, or
        the request has expired. Raises `RequestTimeoutError` if no reply comes in time. Both errors have the MsgId of the
        request. Raises `UndecodableError` if the reply cannot be decoded, and the errors of `put`. The time of `timeout_s`
        begins after the put, and does not stop during an outage. The put itself can wait for the connection, as `put` does.
        Raises `ValueError`, and puts nothing, if `timeout_s` is not more than 0, and `ConfigurationError` if `reply` cannot be
        a payload.
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
        """Return a synchronous consumer of a queue or topic, for `async with`. The end of the block backs out an open unit.

        The arguments for a topic and the selector are those of `listener`. Without `durable`, the subscription ends with the
        consumer. A durable subscription continues until `unsubscribe`; only one consumer at a time can use it.

        Without `transacted`, each received message is committed immediately. Raises `ConfigurationError` if the application is
        not running, or if the arguments contradict each other. The start of the `async with` block raises the `MQIError` of
        MQOPEN or MQSUB: 2429 if a consumer or a listener uses the durable subscription.
        """
        wanted = TopicSubscription(topic=topic, durable=durable, selector=selector, character_wildcards=character_wildcards)
        chosen = chosen_target("consumer", queue, wanted)
        mistakes.check_switch("consumer", "transacted", transacted)
        return self._run().consumer(chosen or queue, selector=selector, transacted=transacted)

    # -- runs

    @asynccontextmanager
    async def running(
        self,
        queue_manager: QueueManager | None = None,
        *,
        others: Mapping[str, QueueManager] = _NO_OTHERS,
        clock: Clock = SYSTEM_CLOCK,
        random: Random = SYSTEM_RANDOM,
        runner: Runner = THREADS,
        drain_s: float | None = None,
        listen: bool = True,
        services: bool = True,
    ) -> AsyncIterator[RunningApplication]:
        """Run the application inside the block: listeners run, and `put`, `request` and `consumer` work. At the end, drain.

        The application uses `queue_manager`; or it opens the queue manager of its URL, and closes it at the end. `others` has
        queue managers for included applications, by name; the remaining ones are opened by their URLs. `drain_s` is the time in
        seconds that handlers have to finish; None takes it from the settings. With `listen=False` no listener starts.
        With `services=False` no DLQ handler starts, and no schedule puts a message. Tests replace `clock`, `random` and
        `runner`.

        Raises `ConfigurationError` if the application runs already, or if its URL or settings cannot be used. Raises
        `SettingsError` if the settings cannot be loaded.
        """
        if drain_s is not None and not (isinstance(drain_s, int | float) and drain_s >= 0):  # false for nan too
            raise ConfigurationError(f"running(drain_s={drain_s!r}): it takes 0 or more seconds, or None for the settings.")
        included, world = self.included, World(clock, random, runner)
        if unknown := [name for name in others if name not in {app.name for app in included}]:
            raise ConfigurationError(f"No included application is called {unknown[0]}: include_app adds one.")
        async with AsyncExitStack() as stack:
            running = await self._open(stack, replace(self._declared(services=services), listens=listen), queue_manager, world)
            for app in included:
                within = await app._open_within(running, stack, others.get(app.name), world, services=services)  # noqa: SLF001 - another object of this class
                running.include(within)
            for app in (*included, self):
                await app._start(stack)  # noqa: SLF001 - as above
            if listen:
                await stack.enter_async_context(running.listening(drain_s))
            yield running

    async def _open(
        self,
        stack: AsyncExitStack,
        declared: Declared,
        queue_manager: QueueManager | None,
        world: World,
        whole: RunningApplication | None = None,
    ) -> RunningApplication:
        """Open the queue manager, so that puts work. The end of the stack closes it."""

        def opened() -> RunningApplication:
            if self._running is not None:
                raise ConfigurationError(
                    f"{self.name or 'This application'} is running already; an `App` can run only once at a time."
                )
            return RunningApplication(declared, queue_manager, world, whole)

        running = await when_free(opened)
        stack.callback(running.close)
        self._running = running
        stack.callback(setattr, self, "_running", None)
        return running

    async def _open_within(
        self,
        whole: RunningApplication,
        stack: AsyncExitStack,
        queue_manager: QueueManager | None,
        world: World,
        *,
        services: bool,
    ) -> RunningApplication:
        """Open the queue manager of this included application, with settings and name from the application that includes it."""
        settings = self._settings_within(whole.settings, needs_url=queue_manager is None)
        declared = replace(self._declared(services=services), name=whole.name, settings=settings, queue_manager=self.name)
        return await self._open(stack, declared, queue_manager, world, whole)

    async def _start(self, stack: AsyncExitStack) -> None:
        """Enter the lifespan and call the `on_start` functions. At its end, the stack does the opposite, with `on_stop`."""
        running = self._run()
        running.starts_in = anyio.get_current_task().id
        stack.push_async_callback(running.close_sessions)
        if self._lifespan is not None:
            await stack.enter_async_context(mistakes.entered(self._lifespan, self))
        for function in reversed(self._on_stop):
            stack.push_async_callback(_call, function)
        stack.callback(running.stop)  # always, so that no put of an on_stop function waits for a queue manager
        for function in self._on_start:
            await _call(function)
        running.starts_in = None

    def run(self, *, backend: str = "asyncio") -> int:
        """Run until SIGTERM, SIGINT, SIGHUP or a call of `stop`, then drain. Return the exit code: 0 if every handler finished.

        A second signal cancels the handlers, which backs out their units of work; the exit code is then 75. A third signal ends
        the process immediately. If a handler still runs five seconds after the drain, the process ends with exit code 75. The
        exit code is 1 if a listener or a service ended unexpectedly and was started again. If a plain function was cancelled,
        Python waits until it returns.

        Raises `ConfigurationError` for another backend than asyncio and trio, inside an event loop, and outside of the main
        thread.
        """
        from mqflow.app.run.signals import run_until_signal  # noqa: PLC0415 - only `run` handles signals
        from mqflow.runtime.runtime import only_exception  # noqa: PLC0415 - as above

        if backend not in _BACKENDS:
            raise ConfigurationError(f"App.run(backend={backend!r}): it takes {' or '.join(map(repr, _BACKENDS))}.")
        with suppress(RuntimeError):  # the error means that no event loop runs, as it should be
            current_token()
            raise ConfigurationError("App.run() was called inside an event loop. Write `async with app.running(): ...` there.")
        if threading.current_thread() is not threading.main_thread():
            problem = "App.run() handles signals, so only the main thread can call it"
            raise ConfigurationError(f"{problem}. In another thread, run a coroutine with `async with app.running(): ...`.")
        logging.getLogger("mqflow").debug("running %s on %s", self.name, backend)
        try:
            return anyio.run(run_until_signal, self.running, self.stop, backend=backend)
        except BaseExceptionGroup as group:
            error = only_exception(group)
        raise error  # raised outside of `except`, so that Python does not print the group too

    def stop(self) -> None:
        """Stop getting messages. Handlers that run continue. A call that waits for a connection raises `MQIError` 2202.

        `App.run` and `mqflow run` then drain and end, as after a signal. With `--workers`, only the worker process of this
        application ends, and another takes its place. Any thread may call this function, also a handler. It does nothing if the
        application is not running.
        """
        if (running := self._running) is not None:
            running.stop()

    def _settings_within(self, settings: Settings, *, needs_url: bool = True) -> Settings:
        """Return the settings of this included application, from the settings of the application that includes it."""
        own = self.settings or settings.of_queue_manager(self.name)
        if needs_url and not self.url and not url_is_set(own):
            raise ConfigurationError(
                f"The included application {self.name} has no URL: App(URL, name={self.name!r}), or url below "
                f"queue_managers.{self.name} in the settings."
            )
        return own

    def _declared(self, *, services: bool) -> Declared:
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
            dead_letter_handlers=self._dead_letter_handlers if services else (),
            schedules=self._schedules if services else (),
            listener_names=[name for names in self._listener_names().values() for both in names.values() for name in both],
            included=[app.name for app in self.included],
        )

    def _listener_names(self) -> "dict[App, dict[str, tuple[str, str]]]":
        """Return the name and the queue of each listener, by its key, for this application and for each included one."""
        prefixes = {self: "", **{app: f"{app.name}:" for app in self.included}}
        return {
            app: {key: (prefix + each.name, prefix + each.queue) for key, each in app._listeners.items()}  # noqa: SLF001 - another object of this class
            for app, prefix in prefixes.items()
        }

    def _run(self) -> RunningApplication:
        if self._running is None:
            raise ConfigurationError("The application is not running: `async with app.running(): ...` runs it.")
        return self._running

    def _check_not_running(self, call: str) -> None:
        """Raise `ConfigurationError` if the application runs, because it does not see later declarations."""
        if self._running is not None:
            raise ConfigurationError(
                f"{call}: this application is running already, and does not see later declarations. Declare everything before "
                "it runs, when its modules are imported."
            )

    def _declare(self, declaration: HandlerDeclaration, scope: Scope = _NO_SCOPE, router: Router | None = None) -> None:
        """Add a handler to the listener of its queue or topic. The first handler makes the listener.

        Raises `ConfigurationError` if options or middleware differ from those of the listener.
        """
        self._check_not_running("listener")
        place = Place(router, scope.prefix, scope.codec or self.codec, self._run)
        codec = declaration.codec or place.codec
        handler = Handler(declaration.function, where=declaration.where, codec=codec, place=place)
        options, subscription = declaration.options, declaration.subscription
        queue = scope.prefix + declaration.queue if subscription is None else subscription.topic
        wanted = options_of(f"{handler.name} on {queue}", options, scope.defaults)
        # Two subscriptions to one topic are two listeners. Also, a topic can have the same name as a queue.
        selection = declaration.selector if subscription is None else ""
        key = f"{queue} {selection}" if subscription is None else f"topic {subscription}"
        listener = self._listeners.get(key)
        if listener is None:
            name = declaration.name or handler.short_name
            listener = Listener(queue, wanted, name, subscription, selection, scope.middleware)
            listener.add(handler)
            self._listeners[key] = listener
            return
        if listener.middleware != scope.middleware:
            raise ConfigurationError(
                f"{handler.name}: {listener.handlers[0].name} handles {queue} too, and their routers have other middleware. "
                "The handlers of one queue share its middleware: declare them in one router."
            )
        if options and listener.options == options_of(handler.name, {}, scope.defaults):
            listener.options = wanted
        elif options and wanted != listener.options:
            raise ConfigurationError(
                f"{handler.name}: {listener.handlers[0].name} gives other options for {queue}. Only one handler gives them."
            )
        listener.add(handler)


async def _call(function: Startup) -> None:
    result = function()
    if isawaitable(result):
        await result
