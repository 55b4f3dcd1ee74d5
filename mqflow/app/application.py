"""`App`: declarations, and the way to run them. An ordinary object; nothing happens before it is run.

Knows everything a user types and hands it to the runtime; moves no message itself.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import timedelta
from inspect import iscoroutinefunction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack

import anyio

from mqflow.app.config.plugins import Group, named
from mqflow.app.config.settings import Settings
from mqflow.app.errors import ConfigurationError
from mqflow.app.handlers.codecs import Codec
from mqflow.app.handlers.consumer import Consumer
from mqflow.app.handlers.handler import Handler, Where
from mqflow.app.handlers.listener_declaration import Listener, ListenerKeywords, ListenerOptions, Publisher
from mqflow.app.handlers.outgoing import PutKeywords
from mqflow.app.run.running_application import Declared, RunningApplication
from mqflow.events import Hook
from mqflow.policy.poison import backout
from mqflow.runtime.listener.delivery import Decide
from mqflow.runtime.listener.subscriber import TopicSubscription
from mqflow.verbs import Put, QueueManager
from mqflow.world import SYSTEM_CLOCK, SYSTEM_RANDOM, THREADS, Clock, Random, Runner, World

if TYPE_CHECKING:
    from mqflow.app.handlers.dead_letter_declaration import DeadLetterRules

__all__ = ("App",)

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

Startup = Callable[[], Awaitable[None] | None]
Lifespan = Callable[["App"], AbstractAsyncContextManager[None]]


class App:
    """An application: listeners, publishers, and the queue manager they work on."""

    def __init__(
        self,
        url: str | None = None,
        *,
        name: str = "",
        middleware: Sequence[Any] = (),
        hooks: Sequence[Hook | str] = (),
        codec: Codec | None = None,
        decide: Decide = backout.decide,
        lifespan: Lifespan | None = None,
        settings: Settings | None = None,
    ) -> None:
        #: What the environment and mqflow.toml say when the application runs; arguments given here are stronger.
        self.settings: Settings | None = settings
        self.url: Final = url
        self.name: Final = name
        #: A plugin is given by its name.
        self.middleware: Final[list[Any]] = list(named(Group.MIDDLEWARE, middleware))
        self.hooks: Final[list[Hook]] = list(named(Group.HOOKS, hooks))
        for hook in self.hooks:
            if iscoroutinefunction(hook) or iscoroutinefunction(type(hook).__call__):
                said = "it is told with a plain call, and async code would never run. Let it start a task, or use middleware"
                raise ConfigurationError(f"Hook {hook!r} is async: {said}.")
        self.codec: Final = codec
        #: The backout decision: another function changes it, no subclass.
        self.decide: Final = decide
        self._lifespan = lifespan
        self._listeners: dict[str, Listener] = {}
        self._publishers: list[Publisher] = []
        self._on_start: list[Startup] = []
        self._on_stop: list[Startup] = []
        self._running: RunningApplication | None = None
        self._delay_processors = 0
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
        codec: Codec | None = None,
        name: str = "",
        **options: Unpack[ListenerKeywords],
    ) -> Callable[[F], F]:
        """Declare the function below as a handler of the messages of a queue; the function itself stays as it is.

        Or of what is published on a `topic`, with wildcards of levels (`#`, `+`), or of characters (`*`, `?`). All workers
        share one subscription. `durable` names one that goes on while the application is away. `selector` chooses publications,
        or messages of the queue: two selectors on one queue are two listeners, and what none of them selects stays there.

        `where` is asked with the `Message`, in the order of declaration; the first handler whose `where` says yes, or that has
        none, takes it. The `options` are those of `ListenerOptions` and belong to the queue: one of its handlers gives them.
        """
        if bool(queue) is bool(topic) or (queue and (durable or character_wildcards)):
            said = f"listener({queue!r}, topic={topic!r})"
            raise ConfigurationError(f"{said}: a queue or a topic is needed, and durable goes with a topic.")
        subscription = TopicSubscription(
            topic=topic, durable=durable, selector=selector, character_wildcards=character_wildcards
        )

        def declare(function: F) -> F:
            handler = Handler(function, where=where, codec=codec or self.codec)
            subscribed = subscription if topic else None
            self._listener(queue or topic, options, name or handler.short_name, handler.name, subscribed or selector).add(
                handler
            )
            return function

        return declare

    def publisher(
        self,
        queue: str,
        *,
        persistent: bool | None = None,
        priority: int | None = None,
        expiry_s: float | None = None,
        delay: timedelta | float | None = None,
        codec: Codec | None = None,
    ) -> Publisher:
        """Return a decorator that sends what a handler returns to a queue, in the unit of work of the delivery.

        With a `delay`, a timedelta or seconds, it can be got that much later. Raises `MQIError` 2013 for an expiry shorter than
        the delay, 2046 for a delay that is none.
        """
        made = Publisher(
            queue=queue,
            persistent=persistent,
            priority=priority,
            expiry_s=expiry_s,
            delay=delay,
            codec=codec or self.codec,
        )
        self._publishers.append(made)
        return made

    def delay_processor(self, concurrency: int = 1) -> None:
        """Have this application deliver delayed messages when they are due, on this many connections.

        On IBM MQ some application must; any number may. On an embedded queue manager every running application is one anyway.
        """
        if concurrency < 1:
            raise ConfigurationError(f"concurrency={concurrency!r}: it is 1 or more.")
        self._delay_processors = concurrency

    def dead_letter_handler(
        self, table: str | Path | None = None, *, queue: str = "", reload: bool = False
    ) -> "DeadLetterRules":
        """Have this application handle a dead-letter queue by a rules table, and by the Python rules that are added to it.

        The queue is this one, INPUTQ of the table, or the dead-letter queue of the queue manager. With `reload`, a table that
        changes is gone by from then on. Raises `RulesError` with everything that is wrong with the table.
        """
        from mqflow.app.handlers.dead_letter_declaration import DeadLetterRules  # noqa: PLC0415 - few applications handle dead letters

        rules = DeadLetterRules(table, queue, reload=reload)
        self._dead_letter_handlers.append(rules)
        return rules

    def on_start(self, function: Startup) -> Startup:
        """Run the function before the first message is got."""
        self._on_start.append(function)
        return function

    def on_stop(self, function: Startup) -> Startup:
        """Run the function after the last unit of work was settled."""
        self._on_stop.append(function)
        return function

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """What was declared, one for each queue."""
        return tuple(self._listeners.values())

    @property
    def publishers(self) -> tuple[Publisher, ...]:
        """What was made by `publisher`, in order."""
        return tuple(self._publishers)

    @property
    def delay_processors(self) -> int:
        """How many processors of delayed messages `delay_processor` declared."""
        return self._delay_processors

    @property
    def dead_letter_handlers(self) -> "tuple[DeadLetterRules, ...]":
        """What `dead_letter_handler` declared."""
        return tuple(self._dead_letter_handlers)

    @property
    def queue_manager(self) -> QueueManager:
        """The queue manager the application runs on. Raises `ConfigurationError` while it does not run."""
        return self._run().queue_manager

    # -- doing

    async def put(self, queue: str, payload: Any, **wishes: Unpack[PutKeywords]) -> Put:
        """Put a message outside any unit of work of a delivery: durable, and visible to all, when this returns.

        `wishes`: properties, persistent, priority, expiry and delay (timedelta or seconds), correlation_id, message_id,
        reply_to, codec, descriptor. Raises the `MQIError` of the put; 2009 or 2549 where it is not known whether the message is
        there.
        """
        return await self._run().put(queue, payload, **wishes)

    async def publish(self, topic: str, payload: Any, *, retain: bool = False, **wishes: Unpack[PutKeywords]) -> Put:
        """Publish on a topic outside any unit of work of a delivery: every subscription has its copy when this returns.

        With `retain` it is also kept for whoever subscribes later. `wishes` as in `put`; with a delay, those that subscribe to
        it now get it when that is over. Raises `MQIError` 2502 where the topic's delivery rule cannot be kept, or with a delay
        is not ALLAVAIL, and what `put` raises.
        """
        return await self._run().publish(topic, payload, retain=retain, **wishes)

    async def unsubscribe(self, durable: str) -> None:
        """End a durable subscription for good, with what waits on its queue.

        Raises `MQIError` 2428 where there is none, 2429 while an application holds it.
        """
        await self._run().unsubscribe(durable)

    async def request(
        self, queue: str, payload: Any, *, reply: type[T], timeout_s: float = 30.0, **wishes: Unpack[PutKeywords]
    ) -> T:
        """Put a request and return its reply, decoded as `reply`. It expires with the timeout, unless `expiry` says otherwise.

        Raises `RequestTimeoutError`, with the request's MsgId, where none came in time, and `UndecodableError` where the reply
        is not what was expected.
        """
        return await self._run().request(queue, payload, reply=reply, timeout_s=timeout_s, **wishes)

    def consumer(self, queue: str, *, transacted: bool = True) -> AbstractAsyncContextManager[Consumer]:
        """Return a synchronous consumer of a queue, to be used with `async with`; what is open at its end is backed out."""
        return self._run().consumer(queue, transacted=transacted)

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
        """Run the application inside: listeners listen, `put`, `request` and `consumer` work; drained on leaving.

        On this queue manager, or on the one the URL leads to. With `listen=False` no listener starts: for who only puts.
        """
        if self._running is not None:
            raise ConfigurationError(f"{self.name or 'This application'} is running already; one object runs once at a time.")
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
            stack.callback(running.stop)  # however it ends: a put of those waits for no queue manager
            for function in self._on_start:
                await _call(function)
            if listen:
                await stack.enter_async_context(running.listening(drain_s))
            yield running

    def run(self, *, backend: str = "asyncio") -> int:
        """Run until SIGTERM, SIGINT or SIGHUP, drain, and return the exit code; 0 when everything under way was finished.

        A second signal backs out what is under way and ends with 75, a third ends the process where it stands. The thread of a
        handler that was cut off (a plain function) ends when that returns, and Python waits for it.
        """
        from mqflow.app.run.signals import run_until_signal  # noqa: PLC0415 - only who runs for ever handles signals

        logging.getLogger("mqflow").debug("running %s on %s", self.name, backend)
        return anyio.run(run_until_signal, self.running, self.stop, backend=backend)

    def stop(self) -> None:
        """Get no more messages, and wait for no queue manager: what waits for one is told 2202. What is under way goes on."""
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
            dead_letter_handlers=self._dead_letter_handlers,
        )

    def _run(self) -> RunningApplication:
        if self._running is None:
            raise ConfigurationError("The application is not running: `async with app.running(): ...` runs it.")
        return self._running

    def _listener(
        self, queue: str, options: ListenerKeywords, name: str, handler: str, chosen: TopicSubscription | str
    ) -> Listener:
        """Return the listener of the queue, made with these options or agreeing with them."""
        try:
            wanted = ListenerOptions(**options)
        except (TypeError, ValueError, ConfigurationError) as error:
            accepted = ", ".join(ListenerOptions.__struct_fields__)
            raise ConfigurationError(f"{handler} on {queue}: {error} (options: {accepted})") from error
        # Two subscriptions to one topic are two listeners, and a topic is no queue of the same name.
        subscription, selection = (None, chosen) if isinstance(chosen, str) else (chosen, "")
        key = f"{queue} {selection}" if subscription is None else f"topic {subscription}"
        listener = self._listeners.get(key)
        if listener is None:
            listener = self._listeners[key] = Listener(queue, wanted, name, subscription, selection)
        elif options and listener.options == ListenerOptions():
            listener.options = wanted
        elif options and wanted != listener.options:
            raise ConfigurationError(
                f"{handler}: {queue} has other options from {listener.handlers[0].name}; one handler gives them for all."
            )
        return listener


async def _call(function: Startup) -> None:
    result = function()
    if result is not None:
        await result
