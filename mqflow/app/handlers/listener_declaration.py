"""The declaration of a listener: its queue, its handlers and its options. Makes the `ListenerSpec` for the runtime.

Each queue has one `Listener`. If a queue has several handlers, they share its workers, and `where` chooses the handler for each
message. This file gets no message.
"""

import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final, Protocol, TypedDict, TypeVar, Unpack, cast

from msgspec import Struct
from msgspec.structs import replace

from mqflow.app.errors import ConfigurationError, DeliveryOverError, PayloadError
from mqflow.app.handlers.backout_declaration import Backout, Batch
from mqflow.app.handlers.codecs import Codec, Decode
from mqflow.app.handlers.context import Context
from mqflow.app.handlers.handler import Handler, Place
from mqflow.app.handlers.message import Message
from mqflow.app.handlers.middleware import (
    ConsumeMiddleware,
    DecisionMiddleware,
    Incoming,
    PublishMiddleware,
    around_handler,
    around_put,
)
from mqflow.app.handlers.mistakes import check_result
from mqflow.app.handlers.outgoing_message import MessageIds, Outgoing, PutKeywords, Send, checked_put, outgoing
from mqflow.app.handlers.unawaited_puts import begin, check
from mqflow.events import Decided, Warned
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.policy.circuit_breaker import CircuitBreaker
from mqflow.policy.poison.disposition import OUTCOMES, Completed, Outcome
from mqflow.policy.poison.outcomes import UndecodableError
from mqflow.policy.poison.report import reply_descriptor
from mqflow.policy.rate_limit import RateLimit
from mqflow.runtime.delay.stage import Stager
from mqflow.runtime.hooks import Broadcast
from mqflow.runtime.listener.delivery import Decide, Delivery, Handle, ListenerSpec, Witness, put_kept
from mqflow.runtime.listener.handler_call import call_handler_in_middleware
from mqflow.runtime.listener.subscriber import TopicSubscription
from mqflow.runtime.listener.thread_delivery import on_the_loop
from mqflow.verbs import Put

__all__ = ("Listener", "ListenerKeywords", "ListenerOptions", "Publisher", "publishers_of")

F = TypeVar("F", bound=Callable[..., Any])

_logger: Final = logging.getLogger("mqflow")


_RECORDS: Final = (("backout", Backout), ("batch", Batch), ("rate_limit", RateLimit), ("breaker", CircuitBreaker))
"""The options whose values are records, with the class of each record."""


class ListenerOptions(Struct, frozen=True, kw_only=True):
    """The options of a listener. Raises `ConfigurationError` for a value that cannot be used."""

    #: The number of workers. Each worker has its own connection and unit of work, so N workers handle N messages at a time.
    concurrency: int = 1
    #: The rules for poison messages.
    backout: Backout = Backout()
    #: The size of a batch, for a handler of `list[T]`; None for the defaults of `Batch`.
    batch: Batch | None = None
    #: For a handler of one message: the largest number of messages that share a unit of work.
    unit_of_work: int = 1
    #: True if a handler of `list[T]` takes one complete message group, in logical order, as one unit of work. A message without
    #: a group counts as a group of one message.
    groups: bool = False
    #: With `groups`: the largest number of messages in a group. A larger group is poison, and is moved.
    group_messages_max: int = 1_000
    #: The seconds after which a handler is cancelled, and its unit of work is backed out; None for no limit.
    time_limit_s: float | None = None
    #: True to open the queue exclusively and handle one message at a time, so that also redeliveries keep the queue's order.
    strict_order: bool = False
    #: The seconds after which a handler that still runs is reported as stuck (`HandlerStuck`).
    stuck_after_s: float = 60.0
    #: The largest rate of messages, for all workers together; None for no limit.
    rate_limit: RateLimit | None = None
    #: Pauses the listener while its handler fails, and then tries one message. None for no circuit breaker.
    breaker: CircuitBreaker | None = None

    def __post_init__(self) -> None:
        for name, kind in _RECORDS:
            given = getattr(self, name)  # the name of a field of this record
            if not isinstance(given, kind) and (given is not None or name == "backout"):
                raise ConfigurationError(f"{name}={given!r}: it must be a {kind.__name__}, {name}={kind.__name__}(...).")
        for name in ("concurrency", "unit_of_work", "group_messages_max"):
            count = getattr(self, name)  # as above
            if not isinstance(count, int) or isinstance(count, bool) or count < 1:
                raise ConfigurationError(f"{name}={count!r}: it must be a number, 1 or more.")
        if not (isinstance(self.stuck_after_s, int | float) and self.stuck_after_s >= 0):
            raise ConfigurationError(f"stuck_after_s={self.stuck_after_s!r}: it must be a number of seconds.")
        limit_s: object = self.time_limit_s
        if limit_s is not None and not (isinstance(limit_s, int | float) and limit_s > 0):  # false for nan too
            raise ConfigurationError(
                f"time_limit_s={self.time_limit_s!r}: it must be more than 0 seconds, or None for no limit."
            )
        self._check_order()

    def _check_order(self) -> None:
        for name, switch in (("groups", self.groups), ("strict_order", self.strict_order)):
            if not isinstance(switch, bool):
                raise ConfigurationError(f"{name}={switch!r}: it must be True or False.")
        if self.groups and (self.batch is not None or self.unit_of_work > 1 or self.strict_order):
            raise ConfigurationError(
                "groups=True makes each message group a unit of work: leave out batch, unit_of_work and strict_order."
            )
        if self.strict_order and (self.concurrency > 1 or self.unit_of_work > 1):
            raise ConfigurationError("strict_order allows one message in flight: leave concurrency and unit_of_work at 1.")


class ListenerKeywords(TypedDict, total=False):
    """The fields of `ListenerOptions`, as keyword arguments of `App.listener`."""

    concurrency: int
    backout: Backout
    batch: Batch | None
    unit_of_work: int
    groups: bool
    group_messages_max: int
    time_limit_s: float | None
    strict_order: bool
    stuck_after_s: float
    rate_limit: RateLimit | None
    breaker: CircuitBreaker | None


class Publisher(Struct, frozen=True, kw_only=True):
    """A decorator that puts a handler's result on a queue, in the unit of work of the delivery. `App.publisher` returns it."""

    #: The queue for the results.
    queue: str
    #: True or False; None if DEFPSIST of the queue decides.
    persistent: bool | None = True
    priority: int | None = None
    expiry_s: float | None = None
    #: The time from the put until the message becomes available: a timedelta, or seconds.
    delay: timedelta | float | None = None
    codec: Codec | None = None
    #: Returns the running application. Raises `ConfigurationError` if the application is not running.
    running: "Callable[[], PutsMessages] | None" = None
    #: The router that made the publisher; None if an application made it.
    router: object = None

    def __post_init__(self) -> None:
        # Values that no message can have are refused here, as by the setters of a JMS producer.
        self._outgoing(b"", None)

    def __call__(self, function: F) -> F:
        """Mark the handler, so that its results are put on this queue. Returns the function unchanged."""
        # A built-in function has no `__dict__`, so it cannot be marked.
        if not callable(function) or isinstance(function, type) or not hasattr(function, "__dict__"):
            raise ConfigurationError(f"publisher({self.queue!r}) above {function!r}: it belongs above a handler.")
        publishers: list[Publisher] = function.__dict__.setdefault("__mqflow_publishers__", [])
        publishers.append(self)
        return function

    def at(self, place: Place, handler: str) -> "Publisher":
        """Return this publisher with the prefix and the codec of `place`, where an application has included its router.

        Raises `ConfigurationError` if the publisher belongs to another router or another application.
        """
        if self.router is None:
            if self.running is not None and place.running is not None and self.running != place.running:
                raise ConfigurationError(
                    f"{handler}: its publisher for {self.queue} belongs to another application, so to another queue manager, "
                    "and a unit of work has one queue manager. Write `await other.put(...)` in the handler; it commits at once."
                )
            return self
        if self.router is not place.router:
            raise ConfigurationError(
                f"{handler}: its publisher for {self.queue} belongs to a router that does not declare this handler, so its "
                "prefix is not known. Use a publisher of the same router, or app.publisher(...)."
            )
        return replace(self, queue=place.prefix + self.queue, codec=self.codec or place.codec, router=None)

    def put(self, payload: Any, **keywords: Unpack[PutKeywords]) -> Coroutine[Any, Any, Put]:
        """Put a message on this queue, like `App.put`. The keyword arguments replace the options of the publisher."""
        return self._puts().put(self.queue, payload, **self._merged(keywords))

    def put_many(self, payloads: Iterable[Any], **keywords: Unpack[PutKeywords]) -> Coroutine[Any, Any, list[Put]]:
        """Put a message for each payload on this queue, all in one unit of work, like `App.put_many`."""
        return self._puts().put_many(self.queue, payloads, **self._merged(keywords))

    def outgoing(self, payload: Any) -> Outgoing:
        """Return the message to put for this payload."""
        return self._outgoing(payload, self.codec)

    def _puts(self) -> "PutsMessages":
        if self.running is None:
            raise ConfigurationError(
                f"This publisher for {self.queue} belongs to no application: `app.publisher(...)` makes one."
            )
        return self.running()

    def _outgoing(self, payload: Any, codec: Codec | None) -> Outgoing:
        return outgoing(self.queue, payload, **self._keywords(codec))

    def _merged(self, keywords: PutKeywords) -> PutKeywords:
        """Return the options of this publisher. These keywords replace them; the value None replaces only `persistent`."""
        given: Mapping[str, Any] = keywords
        replacing = {name: value for name, value in given.items() if value is not None or name == "persistent"}
        merged: Mapping[str, Any] = {**self._keywords(self.codec), **replacing}
        return cast("PutKeywords", merged)  # as in `PutKeywords`

    def _keywords(self, codec: Codec | None) -> PutKeywords:
        return PutKeywords(
            codec=codec, persistent=self.persistent, priority=self.priority, expiry=self.expiry_s, delay=self.delay
        )


class PutsMessages(Protocol):
    """The part of a running application that a publisher needs."""

    def put(self, queue: str, payload: Any, **keywords: Unpack[PutKeywords]) -> Coroutine[Any, Any, Put]:
        """Put a message, as `App.put` does."""
        ...

    def put_many(self, queue: str, payloads: Iterable[Any], **keywords: Unpack[PutKeywords]) -> Coroutine[Any, Any, list[Put]]:
        """Put the messages, as `App.put_many` does."""
        ...


def publishers_of(handler: Handler) -> Sequence[Publisher]:
    """Return the publishers that decorate the handler, the innermost first. Raises the error of `Publisher.at`."""
    publishers: Sequence[Publisher] = getattr(handler.function, "__mqflow_publishers__", ())  # set by `Publisher`
    return [each.at(handler.declared_in, handler.name) for each in publishers]


class Listener:
    """The handlers of one queue or subscription."""

    def __init__(
        self,
        queue: str,
        options: ListenerOptions,
        name: str,
        subscription: TopicSubscription | None = None,
        selection: str = "",
        middleware: Sequence[Any] = (),
    ) -> None:
        #: The name of the queue; for a subscription, its topic string.
        self.queue: Final = queue
        self.subscription: Final = subscription
        #: The selector for the messages of a queue; empty for a subscription, which has its own selector.
        self.selection: Final = selection
        self.options = options
        self.name: Final = name
        #: The middleware of the routers that declared the listener. It runs inside the middleware of the application.
        self.middleware: Final = tuple(middleware)
        self.handlers: Final[list[Handler]] = []

    def add(self, handler: Handler) -> None:
        """Add a handler after the others. Raises `ConfigurationError` if it can never get a message."""
        if self.handlers and (handler.takes_batch or self.handlers[0].takes_batch):
            raise ConfigurationError(
                f"{handler.name}: a handler of batches must be the only handler of its queue ({self.queue})."
            )
        if any(other.where is None for other in self.handlers):
            taker = next(other for other in self.handlers if other.where is None)
            raise ConfigurationError(
                f"{handler.name} would never get a message: {taker.name} takes every message of {self.queue}. "
                "Declare the handler without `where` last."
            )
        if handler.takes_batch and handler.where is not None:
            raise ConfigurationError(
                f"{handler.name}: `where` chooses single messages, but this handler takes batches. Use `selector`."
            )
        if self.options.batch is not None and not handler.takes_batch:
            raise ConfigurationError(
                f"{handler.name} on {self.queue}: batch=... needs a handler of list[T], and this handler takes one message."
            )
        if self.options.unit_of_work > 1 and handler.takes_batch:
            raise ConfigurationError(
                f"{handler.name} on {self.queue}: unit_of_work=... is for a handler of one message, and this handler takes "
                "list[T]. Write batch=Batch(max=...)."
            )
        if handler.takes_batch and self.options.strict_order:
            raise ConfigurationError(f"{handler.name}: strict_order delivers one message at a time, not a list.")
        if self.options.groups:
            self._check_groups(handler)
        self.handlers.append(handler)

    def _check_groups(self, handler: Handler) -> None:
        if not handler.takes_batch:
            raise ConfigurationError(
                f"{handler.name} on {self.queue}: groups=True needs a handler of list[T], and this handler takes one message."
            )
        if self.selection or (self.subscription is not None and self.subscription.selector):
            raise ConfigurationError(
                f"{handler.name} on {self.queue}: a selector can select a part of a group, so groups=True takes no selector."
            )

    def spec(
        self, name: str, *, decide: Decide, middleware: Sequence[Any], codec: Codec | None, stager: Stager, broadcast: Broadcast
    ) -> ListenerSpec:
        """Return the record of this listener for the runtime. `name` is its name in the application, perhaps with a prefix."""
        options, backout = self.options, self.options.backout
        batch = (options.batch or Batch()) if self.handlers[0].takes_batch and not options.groups else None
        unit_of_work = options.group_messages_max if options.groups else options.unit_of_work
        chain = _Chain(self, name, (*middleware, *self.middleware), codec, stager, broadcast)
        return ListenerSpec(
            name=name,
            queue=self.queue,
            subscription=self.subscription,
            selection=self.selection,
            handle=chain.handle,
            handles_on_thread=_may_leave_the_loop(options) and not self.handlers[0].takes_batch and chain.handles_on_thread,
            decide=decide,
            decided=chain.decided,
            behaviour=backout.behaviour,
            concurrency=options.concurrency,
            unit_of_work=batch.max if batch else unit_of_work,
            handles_batch=batch is not None,
            handles_groups=options.groups,
            linger_ms=batch.wait_ms if batch else 0,
            strict_order=options.strict_order,
            threshold=None if backout.threshold == "queue" else backout.threshold,
            backout_queue=None if backout.queue == "queue" else backout.queue,
            pace=backout.pace,
            never_retry=backout.never_retry,
            answers_requests=backout.answer_requests,
            redeliver_undecodable=backout.undecodable == "redeliver",
            time_limit_s=options.time_limit_s,
            stuck_after_s=options.stuck_after_s,
            rate_limit=options.rate_limit,
            breaker=options.breaker,
        )


def _may_leave_the_loop(options: ListenerOptions) -> bool:
    """Return whether the thread of a session may handle many messages before the event loop decides anything."""
    return options.time_limit_s is None and options.rate_limit is None and options.breaker is None


def _decoded(decode: Decode, messages: Sequence[Message]) -> Sequence[Any]:
    """Return the payload of each message of a batch. An `UndecodableError` has the descriptor of its message."""
    payloads = list[Any]()
    for message in messages:
        try:
            payloads.append(decode(message))
        except UndecodableError as error:
            error.descriptor = message.descriptor
            raise
    return payloads


class _Chain:
    """Passes deliveries through the middleware to the handlers of a listener."""

    def __init__(
        self,
        listener: Listener,
        name: str,
        middleware: Sequence[Any],
        codec: Codec | None,
        stager: Stager,
        broadcast: Broadcast,
    ) -> None:
        self._listener = listener
        self._name: Final = name
        self._broadcast: Final = broadcast
        #: The handlers whose results could not be put anywhere, and for which this was reported.
        self._reported: Final[set[Handler]] = set()
        self._middleware = tuple(middleware)
        self._codec = codec
        self._stager = stager
        self._new_message_id: Final = MessageIds(stager.world)
        self._never_retry = listener.options.backout.never_retry
        self._only = listener.handlers[0] if len(listener.handlers) == 1 and listener.handlers[0].where is None else None
        self._has_middleware: Final = any(isinstance(layer, ConsumeMiddleware) for layer in self._middleware)
        self._has_put_middleware: Final = any(isinstance(layer, PublishMiddleware) for layer in self._middleware)
        self._call: Final = around_handler(self._middleware, self._read)
        #: The functions that receive each decision, one for each middleware with `decided`.
        self.decided: Final[Sequence[Witness]] = tuple(
            partial(self._decided, layer) for layer in self._middleware if isinstance(layer, DecisionMiddleware)
        )
        self.handle: Final[Handle] = self._through_middleware if self._has_middleware else self._directly
        is_plain = not any(handler.is_async or handler.wants_context for handler in listener.handlers)
        self.handles_on_thread: Final = is_plain and not self._has_middleware
        self._publishers: Final = {handler: publishers_of(handler) for handler in listener.handlers}
        for handler in listener.handlers:
            if handler.result_type and not self._publishers[handler]:
                where = f"{listener.name}: {handler.name} returns {handler.result_type} and has no publisher"
                _logger.info("%s, so a result for a message without a ReplyToQ goes nowhere", where)

    # Functions that only pass on a call are plain functions, because a further coroutine takes time for each message.

    def _directly(self, deliveries: Sequence[Delivery]) -> Awaitable[Outcome | None]:
        """Call the handler without middleware. The worker turns an exception into an outcome."""
        queue = self._listener.queue
        return self._handle([Message(each.got.descriptor, each.got.body, queue) for each in deliveries], deliveries)

    async def _through_middleware(self, deliveries: Sequence[Delivery]) -> Outcome:
        """Call the handler inside the middleware. The middleware receives an outcome and never an exception.

        Raises `TypeError` if the middleware returns no outcome. With None, the message would be committed even if its handler
        failed.
        """
        queue = self._listener.queue
        messages = [Message(each.got.descriptor, each.got.body, queue) for each in deliveries]
        make_context = partial(Context, deliveries[0], messages[0], self._sender, self._codec)
        incoming = Incoming(messages, self._name, deliveries[0].decision, deliveries, make_context)
        outcome: Any = await self._call(incoming)  # `Any`: middleware is code of the user, and can return anything
        if deliveries[0].calls:
            await check(deliveries[0])
        deliveries[0].is_over = True
        if isinstance(outcome, Completed) and deliveries[0].kept_puts:
            await deliveries[0].session.call(put_kept, deliveries[0])
        if isinstance(outcome, OUTCOMES):
            return outcome
        layers = ", ".join(type(layer).__qualname__ for layer in self._middleware if isinstance(layer, ConsumeMiddleware))
        raise TypeError(
            f"Middleware ({layers}) returned {outcome!r:.80}, which is not an outcome, so nobody knows whether the handler "
            "failed. `consume` must return the result of `call_next`, or another outcome."
        )

    async def _decided(self, layer: DecisionMiddleware, decision: Decided, delivery: Delivery) -> None:
        """Pass a decision to a middleware."""
        message = Message(delivery.got.descriptor, delivery.got.body, self._listener.queue)
        make_context = partial(Context, delivery, message, self._sender, self._codec)
        incoming = Incoming((message,), self._name, delivery.decision, (delivery,), make_context)
        await layer.decided(incoming, decision)
        await check(delivery)

    async def _read(self, incoming: Incoming) -> Outcome:
        """Return the outcome of the handler. This is the innermost call, inside all middleware.

        If the handler fails, its puts are dropped. Middleware that completes the delivery nevertheless can put other messages.
        """
        kept = incoming.deliveries[0].kept_puts
        before = len(kept)
        outcome = await call_handler_in_middleware(self._innermost, incoming, self._never_retry)
        if not isinstance(outcome, Completed):
            del kept[before:]
        return outcome

    def _innermost(self, incoming: Incoming) -> Awaitable[Outcome | None]:
        return self._handle(incoming.messages, incoming.deliveries)

    async def _handle(self, messages: Sequence[Message], deliveries: Sequence[Delivery]) -> Outcome | None:
        message, delivery = messages[0], deliveries[0]
        begin(delivery)
        handler = self._only or self._chosen(message)
        decode = handler.decode
        payload: Any = None
        if decode is not None:
            payload = _decoded(decode, messages) if handler.takes_batch else decode(message)
        context = Context(delivery, message, self._sender, self._codec) if handler.wants_context else None
        result = await handler(payload, messages if handler.takes_batch else message, context, delivery)
        if delivery.calls:
            await check(delivery)
        outcome: Outcome | None = None
        if result is not None:
            if isinstance(result, OUTCOMES):
                outcome = result
            else:
                check_result(handler.name, result)
                if delivery.on_thread:
                    await on_the_loop()
                    begin(delivery)
                await self._answer(handler, messages, delivery, context, result)
        if self._has_middleware or not (outcome is None or isinstance(outcome, Completed)):
            return outcome
        delivery.is_over = True
        if delivery.kept_puts:
            await delivery.session.call(put_kept, delivery)
        return outcome

    def _chosen(self, message: Message) -> Handler:
        for handler in self._listener.handlers:
            if handler.where is None or handler.where(message):
                return handler
        names = ", ".join(handler.name for handler in self._listener.handlers)
        raise UndecodableError(f"no handler of {self._listener.queue} takes this message (handlers: {names})")

    async def _answer(
        self, handler: Handler, messages: Sequence[Message], delivery: Delivery, context: Context | None, result: Any
    ) -> None:
        """Put a handler's result in the unit of work: on its publishers' queues, or without publishers on each ReplyToQ."""
        context = context or Context(delivery, messages[0], self._sender, self._codec)
        publishers = self._publishers[handler]
        requests = () if publishers else [each.descriptor for each in messages if each.descriptor.reply_to_queue]
        try:
            for publisher in publishers:
                await context.send(publisher.outgoing(result))
            for request in requests:
                await self._reply(context, request, result)
        except PayloadError as error:
            raise PayloadError(error.queue, error.problem, handler.place, f"The result of {handler.name}") from error.__cause__
        if not publishers and not requests:
            self._report_lost(handler, messages[0], result)

    def _report_lost(self, handler: Handler, message: Message, result: Any) -> None:
        """Report, once for each handler, that its result is not put anywhere."""
        if handler in self._reported:
            return
        self._reported.add(handler)
        text = (
            f"{handler.name} returned a {type(result).__qualname__} that goes nowhere: the handler has no publisher, and "
            f"message {message.message_id.hex()} has no ReplyToQ. Declare @app.publisher('...') for the handler, or return "
            "None. Further results are not reported."
        )
        self._broadcast(Warned(text=text, queue=self._listener.queue))

    async def _reply(self, context: Context, request: MessageDescriptor, result: Any) -> None:
        reply = outgoing(request.reply_to_queue, result, codec=self._codec, descriptor=reply_descriptor(request))
        await context.send(replace(reply, queue_manager=request.reply_to_queue_manager))

    def _sender(self, delivery: Delivery) -> Send:
        """Return the function for one put of the delivery. If it raises an error during the delivery, nothing is put."""
        own: list[Callable[[], Put]] = []

        async def put(message: Outgoing) -> Put:
            if delivery.is_over:  # the delivery can end while middleware runs
                raise DeliveryOverError(message.queue, delivery.got.descriptor.message_id)
            coming, put_later = await checked_put(delivery.session, message, self._stager, self._new_message_id)
            if delivery.is_over:  # the delivery can also end while `checked_put` opens the queue
                raise DeliveryOverError(message.queue, delivery.got.descriptor.message_id)
            own.append(put_later)
            delivery.kept_puts.append(put_later)
            return coming

        if not self._has_put_middleware:
            return put
        through = around_put(self._middleware, put)

        async def put_all_or_none(message: Outgoing) -> Put:
            try:
                return await through(message)
            except BaseException:
                if not delivery.is_over:
                    delivery.kept_puts[:] = [kept for kept in delivery.kept_puts if kept not in own]
                raise

        return put_all_or_none
