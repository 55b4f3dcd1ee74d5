"""Middleware: code that runs around each handler and each put, or that receives each decision.

A middleware is an object with one or more of the methods `consume`, `publish` and `decided`. When the application starts, this
file chains the middleware and the handler, or the put, once. It makes no decision.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Protocol, runtime_checkable

from mqflow.app.handlers.context import Context
from mqflow.app.handlers.message import Message
from mqflow.app.handlers.outgoing_message import Outgoing, Send
from mqflow.events import Decided
from mqflow.policy.poison.disposition import Outcome
from mqflow.runtime.listener.delivery import Delivery
from mqflow.verbs import Put

__all__ = (
    "Call",
    "ConsumeMiddleware",
    "DecisionMiddleware",
    "Incoming",
    "Middleware",
    "PublishMiddleware",
    "around_handler",
    "around_put",
)


class Incoming:
    """The delivery that middleware receives: one message, or the messages of a batch."""

    __slots__ = ("_make_context", "decision", "deliveries", "listener", "message", "messages", "queue")

    def __init__(
        self,
        messages: Sequence[Message],
        listener: str,
        decision: Decided | None,
        deliveries: Sequence[Delivery] = (),
        make_context: Callable[[], Context] | None = None,
    ) -> None:
        self._make_context = make_context
        self.messages: Sequence[Message] = messages
        #: The records of the runtime, one for each message. Middleware must not use them.
        self.deliveries: Sequence[Delivery] = deliveries
        #: The message; for a batch, its first message.
        self.message: Message = messages[0]
        self.queue: str = self.message.queue
        self.listener: str = listener
        #: The backout decision before this delivery; None if the message was not backed out before.
        self.decision: Decided | None = decision

    @property
    def context(self) -> Context:
        """The context for puts in the unit of work of this delivery. `consume` and `decided` explain when the puts take effect.

        Raises `RuntimeError` if a test made this object without a delivery.
        """
        if self._make_context is None:
            raise RuntimeError(f"This delivery of {self.listener} has no unit of work: no listener made it.")
        return self._make_context()

    def belongs_to_trace(self, trace_id: str) -> None:
        """Record the trace of these deliveries, for the decision records. `trace_id` has 32 hexadecimal digits."""
        for each in self.deliveries:
            each.trace_id = trace_id


Call = Callable[[Incoming], Awaitable[Outcome]]
"""Calls the rest of the chain, which ends with the handler."""


@runtime_checkable
class ConsumeMiddleware(Protocol):
    """Middleware that runs around the handling of each message or batch."""

    async def consume(self, delivery: Incoming, call_next: Call) -> Outcome:
        """Return the result of `call_next`, or another outcome. `Completed` commits. After any other outcome, puts are dropped.

        So middleware can handle a failure in the same unit of work: put with `delivery.context`, then return `Completed()`. The
        puts of the failed handler are dropped.
        """
        ...


@runtime_checkable
class PublishMiddleware(Protocol):
    """Middleware that runs around each put of the application."""

    async def publish(self, message: Outgoing, call_next: Send) -> Put:
        """Return the result of `call_next`. To change the message, pass another message to `call_next`.

        The commit of `App.put` waits for this method. An `App.put` in this method uses another connection, so it does
        not wait for that commit.

        If this method returns no `Put`, the put raises `TypeError`, because the message may be lost.
        """
        ...


@runtime_checkable
class DecisionMiddleware(Protocol):
    """Middleware that receives each backout decision of a listener, before the decision is carried out."""

    async def decided(self, delivery: Incoming, decision: Decided) -> None:
        """Receive the decision about the message of the delivery. The first disposition in `decision.plan` is tried first.

        If the plan moves or discards the message, puts with `delivery.context` are in the same unit of work, so both take
        effect or neither. If the queue manager refuses such a put, the unit is backed out and the listener pauses; then the
        decision is made again. If the plan delivers the message again, the puts are dropped. If this method raises, mqflow logs
        a warning, drops the puts and carries out the decision.
        """


Middleware = ConsumeMiddleware | PublishMiddleware | DecisionMiddleware
"""An object with one or more of the three methods."""


def around_handler(middleware: Sequence[Any], innermost: Call) -> Call:
    """Return a function that calls each `consume`, with the first middleware as the outermost, and then `innermost`."""
    call = innermost
    for layer in reversed([each for each in middleware if isinstance(each, ConsumeMiddleware)]):
        call = partial(layer.consume, call_next=call)
    return call


def around_put(middleware: Sequence[Any], innermost: Send) -> Send:
    """Return a function that calls each `publish`, with the first middleware as the outermost, and then `innermost`.

    The function raises `TypeError` if the middleware returns no `Put`.
    """
    layers = [each for each in middleware if isinstance(each, PublishMiddleware)]
    if not layers:
        return innermost
    send = innermost
    for layer in reversed(layers):
        send = partial(layer.publish, call_next=send)

    async def checked(message: Outgoing) -> Put:
        put: Any = await send(message)  # Any: middleware is code of the user, and can return anything
        if isinstance(put, Put):
            return put
        names = ", ".join(type(layer).__qualname__ for layer in layers)
        raise TypeError(
            f"Middleware ({names}) returned {put!r:.80} for a message for {message.queue}, which is no Put, so the put "
            "failed. `publish` must return the result of `call_next`."
        )

    return checked
