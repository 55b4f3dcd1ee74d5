"""A listener as declared: its queue, its handlers, its options; and the translation into what the runtime is told.

One `Listener` for each queue: several handlers on one queue share its workers, and `where` says who takes what.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, Final, TypedDict

from msgspec import Struct
from msgspec.structs import replace

from mqflow.app.errors import ConfigurationError, DeliveryOverError
from mqflow.app.handlers.backout import Backout, Batch
from mqflow.app.handlers.codecs import Codec
from mqflow.app.handlers.context import Context
from mqflow.app.handlers.handler import Handler
from mqflow.app.handlers.message import Message
from mqflow.app.handlers.middleware import Incoming, around_handler, around_put
from mqflow.app.handlers.outgoing import Outgoing, Send, outgoing, put_in_unit_of_work
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import Persistence
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import OUTCOMES, Outcome
from mqflow.policy.poison.outcomes import UndecodableError
from mqflow.policy.poison.report import reply_descriptor
from mqflow.runtime.delay.stage import Stager
from mqflow.runtime.listener.attempt import attempt
from mqflow.runtime.listener.delivery import Decide, Delivery, Handle, ListenerSpec
from mqflow.runtime.listener.subscriber import TopicSubscription
from mqflow.verbs import Put

__all__ = ("Listener", "ListenerKeywords", "ListenerOptions", "Publisher")


class ListenerOptions(Struct, frozen=True, kw_only=True):
    """Everything about a listener but its queue and its handlers."""

    #: Workers; each has a connection and a unit of work of its own. N workers take N messages at once.
    concurrency: int = 1
    backout: Backout = Backout()
    #: For handlers of `list[T]`.
    batch: Batch | None = None
    #: For handlers of one message: how many may share a unit of work when they are there at once.
    unit_of_work: int = 1
    time_limit_s: float | None = None
    #: Exclusive open, one message in flight: the order of the queue is the order of handling, and of redelivery.
    strict_order: bool = False
    stuck_after_s: float = 60.0

    def __post_init__(self) -> None:
        for name, kind in (("backout", Backout), ("batch", Batch)):
            given = getattr(self, name)
            if not isinstance(given, kind) and (given is not None or name == "backout"):
                raise ConfigurationError(f"{name}={given!r}: it is a {kind.__name__}, {name}={kind.__name__}(...).")
        for name in ("concurrency", "unit_of_work"):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1:
                raise ConfigurationError(f"{name}={getattr(self, name)!r}: it is 1 or more.")
        if self.time_limit_s is not None and self.time_limit_s <= 0:
            raise ConfigurationError(f"time_limit_s={self.time_limit_s!r}: it is more than 0 seconds, or None for no limit.")
        if self.strict_order and (self.concurrency > 1 or self.unit_of_work > 1):
            raise ConfigurationError("strict_order means one message in flight: leave concurrency and unit_of_work at 1.")


class ListenerKeywords(TypedDict, total=False):
    """The fields of `ListenerOptions`, as keywords of `App.listener`."""

    concurrency: int
    backout: Backout
    batch: Batch | None
    unit_of_work: int
    time_limit_s: float | None
    strict_order: bool
    stuck_after_s: float


class Publisher(Struct, frozen=True, kw_only=True):
    """Where a handler's return value goes, and how; a decorator, or called to put by hand."""

    queue: str
    persistent: bool | None = None
    priority: int | None = None
    expiry_s: float | None = None
    #: How long after the put it can be got: a timedelta, or seconds.
    delay: timedelta | float | None = None
    codec: Codec | None = None

    def __post_init__(self) -> None:
        # As a producer's setters do: what can never be sent is refused where it is set.
        self.outgoing(b"")

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Send what the function returns to this queue, in the unit of work of the delivery."""
        publishers: list[Publisher] = function.__dict__.setdefault("__mqflow_publishers__", [])
        publishers.append(self)
        return function

    def outgoing(self, payload: Any) -> Outgoing:
        """Return the message to put for a payload."""
        return outgoing(
            self.queue,
            payload,
            codec=self.codec,
            persistent=self.persistent,
            priority=self.priority,
            expiry=self.expiry_s,
            delay=self.delay,
        )


class Listener:
    """The handlers of one queue."""

    def __init__(
        self,
        queue: str,
        options: ListenerOptions,
        name: str,
        subscription: TopicSubscription | None = None,
        selection: str = "",
    ) -> None:
        #: The queue; of a subscription, its topic.
        self.queue: Final = queue
        self.subscription: Final = subscription
        #: Which messages of a queue; of a subscription, the subscription says.
        self.selection: Final = selection
        self.options = options
        self.name: Final = name
        self.handlers: Final[list[Handler]] = []

    def add(self, handler: Handler) -> None:
        """Let the handler take messages of this queue, after those declared before it."""
        if self.handlers and (handler.takes_batch or self.handlers[0].takes_batch):
            raise ConfigurationError(f"{handler.name}: a handler of batches is the only one on its queue ({self.queue}).")
        if any(other.where is None for other in self.handlers):
            taker = next(other for other in self.handlers if other.where is None)
            raise ConfigurationError(
                f"{handler.name} would never get a message: {taker.name} takes every message of {self.queue}. "
                "Declare the one without `where` last."
            )
        if handler.takes_batch and handler.where is not None:
            raise ConfigurationError(
                f"{handler.name}: `where` is asked about single messages, a batch is taken as it comes. Select by `selector`."
            )
        if handler.takes_batch and self.options.strict_order:
            raise ConfigurationError(f"{handler.name}: strict_order delivers one message at a time, not a list.")
        self.handlers.append(handler)

    def spec(self, *, decide: Decide, middleware: Sequence[Any], codec: Codec | None, stager: Stager) -> ListenerSpec:
        """Return what the runtime is told."""
        options, backout = self.options, self.options.backout
        batch = (options.batch or Batch()) if self.handlers[0].takes_batch else None
        return ListenerSpec(
            name=self.name,
            queue=self.queue,
            subscription=self.subscription,
            selection=self.selection,
            handle=_Chain(self, middleware, codec, stager).handle,
            decide=decide,
            behaviour=backout.behaviour,
            concurrency=options.concurrency,
            unit_of_work=batch.max if batch else options.unit_of_work,
            handles_batch=batch is not None,
            linger_ms=batch.wait_ms if batch else 0,
            strict_order=options.strict_order,
            threshold=None if backout.threshold == "queue" else backout.threshold,
            backout_queue=None if backout.queue == "queue" else backout.queue,
            pace=backout.pace,
            never_retry=backout.never_retry,
            redeliver_undecodable=backout.undecodable == "redeliver",
            time_limit_s=options.time_limit_s,
            stuck_after_s=options.stuck_after_s,
        )


class _Chain:
    """From deliveries to handlers, through the middleware."""

    def __init__(self, listener: Listener, middleware: Sequence[Any], codec: Codec | None, stager: Stager) -> None:
        self._listener = listener
        self._middleware = tuple(middleware)
        self._codec = codec
        self._stager = stager
        self._never_retry = listener.options.backout.never_retry
        self._only = listener.handlers[0] if len(listener.handlers) == 1 and listener.handlers[0].where is None else None
        consumes = any(hasattr(layer, "consume") for layer in self._middleware)
        self._call: Final = around_handler(self._middleware, self._read)
        self.handle: Final[Handle] = self._through_middleware if consumes else self._directly

    # What only hands on is a plain function: a coroutine within a coroutine costs each message.

    def _directly(self, deliveries: Sequence[Delivery]) -> Awaitable[Outcome | None]:
        """Handle without any `consume` middleware; exceptions are the worker's to read."""
        queue = self._listener.queue
        return self._handle([Message(each.got.descriptor, each.got.body, queue) for each in deliveries], deliveries)

    async def _through_middleware(self, deliveries: Sequence[Delivery]) -> Outcome:
        """Handle inside the middleware, which sees the outcome and not the exception.

        Raises `TypeError` where it returns none: the handler may have failed, and None would commit the message.
        """
        queue = self._listener.queue
        messages = [Message(each.got.descriptor, each.got.body, queue) for each in deliveries]
        outcome: Any = await self._call(Incoming(messages, self._listener.name, deliveries[0].decision, deliveries))
        if isinstance(outcome, OUTCOMES):
            return outcome
        layers = ", ".join(type(layer).__qualname__ for layer in self._middleware if hasattr(layer, "consume"))
        raise TypeError(
            f"Middleware ({layers}) returned {outcome!r:.80}, which is no outcome: what the handler came to is not known. "
            "`consume` returns what `call_next` returned, or another outcome."
        )

    def _read(self, incoming: Incoming) -> Awaitable[Outcome]:
        """Return what the handler comes to, inside all middleware."""
        return attempt(self._innermost, incoming, self._never_retry)

    def _innermost(self, incoming: Incoming) -> Awaitable[Outcome | None]:
        return self._handle(incoming.messages, incoming.deliveries)

    async def _handle(self, messages: Sequence[Message], deliveries: Sequence[Delivery]) -> Outcome | None:
        message, delivery = messages[0], deliveries[0]
        handler = self._only or self._chosen(message)
        decode = handler.decode
        payload: Any = None
        if decode is not None:
            payload = [decode(each) for each in messages] if handler.takes_batch else decode(message)
        context = Context(delivery, message, self._sender, self._codec) if handler.wants_context else None
        result = await handler(payload, messages if handler.takes_batch else message, context, delivery)
        if result is None or isinstance(result, OUTCOMES):
            return result
        await self._answer(handler, messages, delivery, context, result)
        return None

    def _chosen(self, message: Message) -> Handler:
        for handler in self._listener.handlers:
            if handler.where is None or handler.where(message):
                return handler
        names = ", ".join(handler.name for handler in self._listener.handlers)
        raise UndecodableError(f"no handler of {self._listener.queue} takes this message (asked: {names})")

    async def _answer(
        self, handler: Handler, messages: Sequence[Message], delivery: Delivery, context: Context | None, result: Any
    ) -> None:
        """Put what a handler returned: to its publishers, else to where each message asks for a reply; same unit of work."""
        context = context or Context(delivery, messages[0], self._sender, self._codec)
        publishers: Sequence[Publisher] = getattr(handler.function, "__mqflow_publishers__", ())
        for publisher in publishers:
            await context.send(publisher.outgoing(result))
        for message in () if publishers else messages:
            if message.descriptor.reply_to_queue:
                await self._reply(context, message.descriptor, result)

    async def _reply(self, context: Context, request: MessageDescriptor, result: Any) -> None:
        reply = outgoing(request.reply_to_queue, result, codec=self._codec, descriptor=reply_descriptor(request))
        reply = replace(reply, queue_manager=request.reply_to_queue_manager)
        try:
            await context.send(reply)
        except MQIError as error:
            if error.reason != Reason.PERSISTENT_NOT_ALLOWED:
                raise
            # A temporary dynamic queue, as most who ask make one: nothing on it survives anyway, and the put had no effect.
            lasting_no_longer = replace(reply.descriptor, persistence=Persistence.NOT_PERSISTENT)
            await context.send(replace(reply, descriptor=lasting_no_longer))

    def _sender(self, delivery: Delivery) -> Send:
        async def put(message: Outgoing) -> Put:
            if delivery.is_over:  # while middleware took its time
                raise DeliveryOverError(message.queue, delivery.got.descriptor.message_id)
            return await put_in_unit_of_work(delivery.session, message, self._stager)

        return around_put(self._middleware, put)
