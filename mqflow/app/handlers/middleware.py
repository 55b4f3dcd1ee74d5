"""Middleware: layers around each handler and each put, and the functions that build their chains.

A middleware is an object with `consume`, with `publish`, or with both. The application builds each chain once, at its start.
This file knows messages and outcomes of handlers; it takes no decision.
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
    """The delivery that middleware receives: one message, or the messages of a batch."""

    __slots__ = ("decision", "deliveries", "listener", "message", "messages", "queue")

    def __init__(
        self, messages: Sequence[Message], listener: str, decision: Decided | None, deliveries: Sequence[Delivery] = ()
    ) -> None:
        self.messages = messages
        #: The deliveries of the runtime, one for each message; not for use by middleware.
        self.deliveries = deliveries
        #: The message; the first message of a batch.
        self.message = messages[0]
        self.queue = self.message.queue
        self.listener = listener
        #: The backout decision before this delivery; None at the first delivery of a message.
        self.decision = decision

    def belongs_to_trace(self, trace_id: str) -> None:
        """Write the trace into the decision records of these deliveries. `trace_id` has 32 hexadecimal digits."""
        for each in self.deliveries:
            each.trace_id = trace_id


Call = Callable[[Incoming], Awaitable[Outcome]]


@runtime_checkable
class ConsumeMiddleware(Protocol):
    """Middleware that runs around the handling of each message or batch."""

    async def consume(self, delivery: Incoming, call_next: Call) -> Outcome:
        """Return the result of `call_next`, or another outcome. `Completed` commits; any other outcome backs out."""
        ...


@runtime_checkable
class PublishMiddleware(Protocol):
    """Middleware that runs around each put of the application."""

    async def publish(self, message: Outgoing, call_next: Send) -> Put:
        """Return the result of `call_next`. To change the message, pass another message to `call_next`."""
        ...


Middleware = ConsumeMiddleware | PublishMiddleware


def around_handler(middleware: Sequence[Any], innermost: Call) -> Call:
    """Return a call that passes through each `consume`; the first middleware is the outermost."""
    call = innermost
    for layer in reversed([each for each in middleware if isinstance(each, ConsumeMiddleware)]):
        call = partial(layer.consume, call_next=call)
    return call


def around_put(middleware: Sequence[Any], innermost: Send) -> Send:
    """Return a put that passes through each `publish`; the first middleware is the outermost."""
    send = innermost
    for layer in reversed([each for each in middleware if isinstance(each, PublishMiddleware)]):
        send = partial(layer.publish, call_next=send)
    return send
