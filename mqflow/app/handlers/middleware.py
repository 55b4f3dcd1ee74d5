"""The onion around a handler and around a put. Middleware sees the delivery and its backout decision, and returns the outcome.

An object with `consume`, with `publish`, or with both; chains are built once, when the application starts.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Protocol, runtime_checkable

from mqflow.app.handlers.message import Message
from mqflow.app.handlers.outgoing import Outgoing, Send
from mqflow.events import Decided
from mqflow.policy.poison.disposition import Outcome
from mqflow.runtime.listener.delivery import Delivery
from mqflow.verbs import Put

__all__ = ("Call", "ConsumeMiddleware", "Incoming", "Middleware", "PublishMiddleware", "around_handler", "around_put")


class Incoming:
    """A delivery as middleware sees it: one message, or the messages of a batch that are handled at once."""

    __slots__ = ("decision", "deliveries", "listener", "message", "messages", "queue")

    def __init__(
        self, messages: Sequence[Message], listener: str, decision: Decided | None, deliveries: Sequence[Delivery] = ()
    ) -> None:
        self.messages = messages
        #: What the runtime delivers, message by message; middleware has no business with it.
        self.deliveries = deliveries
        #: The message; of a batch, the first.
        self.message = messages[0]
        self.queue = self.message.queue
        self.listener = listener
        #: What was decided before this delivery; None at the first delivery of a message.
        self.decision = decision

    def belongs_to_trace(self, trace_id: str) -> None:
        """Have the records of these deliveries say so: 32 hexadecimal digits."""
        for each in self.deliveries:
            each.trace_id = trace_id


Call = Callable[[Incoming], Awaitable[Outcome]]


@runtime_checkable
class ConsumeMiddleware(Protocol):
    """Around the handling of each message."""

    async def consume(self, delivery: Incoming, call_next: Call) -> Outcome:
        """Return the outcome: `call_next`'s, or another. A `Completed` commits, anything else backs out."""
        ...


@runtime_checkable
class PublishMiddleware(Protocol):
    """Around each put an application makes."""

    async def publish(self, message: Outgoing, call_next: Send) -> Put:
        """Return what the put returned; change the message by calling the next with another."""
        ...


Middleware = ConsumeMiddleware | PublishMiddleware


def around_handler(middleware: Sequence[Any], innermost: Call) -> Call:
    """Return the call that goes through every `consume`, the first outermost."""
    call = innermost
    for layer in reversed([each for each in middleware if isinstance(each, ConsumeMiddleware)]):
        call = partial(layer.consume, call_next=call)
    return call


def around_put(middleware: Sequence[Any], innermost: Send) -> Send:
    """Return the put that goes through every `publish`, the first outermost."""
    send = innermost
    for layer in reversed([each for each in middleware if isinstance(each, PublishMiddleware)]):
        send = partial(layer.publish, call_next=send)
    return send
