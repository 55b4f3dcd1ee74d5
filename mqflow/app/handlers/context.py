"""The context of a delivery. With it, a handler puts messages in the unit of work of the delivery.

This file does not end the unit of work.
"""

import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Unpack

import anyio

from mqflow.app.errors import DeliveryOverError
from mqflow.app.handlers.codecs import Codec
from mqflow.app.handlers.message import Message
from mqflow.app.handlers.outgoing_message import Outgoing, PutKeywords, Send, outgoing, published, with_codec
from mqflow.app.handlers.unawaited_puts import note
from mqflow.events import Decided
from mqflow.runtime.listener.delivery import Delivery
from mqflow.verbs import Put

__all__ = ("Context",)


class Context:
    """The delivery that a handler handles. A handler receives it through a parameter with the annotation `Context`."""

    def __init__(self, delivery: Delivery, message: Message, sender: Callable[[Delivery], Send], codec: Codec | None) -> None:
        self._delivery: Final = delivery
        self._sender: Final = sender
        self._codec: Final = codec
        self.message: Final = message

    @property
    def listener(self) -> str:
        """The name of the listener of this delivery."""
        return self._delivery.listener

    @property
    def decision(self) -> Decided | None:
        """The backout decision before this delivery; None if the message was not backed out before."""
        return self._delivery.decision

    # These are plain functions that return coroutines, because a coroutine function cannot find out that nobody awaits it.

    def put(self, queue: str, payload: Any, **keywords: Unpack[PutKeywords]) -> Coroutine[Any, Any, Put]:
        """Put a message in the unit of work of this delivery. Other programs can get the message after the commit.

        The keyword arguments are those of `App.put`: properties, persistent, priority, expiry, correlation_id, reply_to, codec
        and others. Without `persistent` the message is persistent, as in JMS. On a temporary dynamic queue, every message is
        non-persistent.

        This call opens the queue and chooses the MsgId. mqflow puts the message after the handler has returned, and before the
        commit. The delay of the message begins at this call; its expiry begins at the put. If the handler fails, nothing is
        put. In the result, only the MsgId and the fields that you gave are final. Later, the queue manager sets the put date
        and time, the user, and the defaults of the queue.

        Raises `MQIError` if the queue cannot be opened, for example 2085 or 2035. If the queue manager refuses the put itself,
        for example with 2053, the delivery fails with that `MQIError`. Raises `DeliveryOverError` after the delivery has ended.
        """
        coroutine = self._put(queue, payload, keywords)
        return note(self._delivery, coroutine, "ctx.put", sys._getframe(1))  # noqa: SLF001 - the line of the call

    def publish(
        self, topic: str, payload: Any, *, retain: bool = False, **keywords: Unpack[PutKeywords]
    ) -> Coroutine[Any, Any, Put]:
        """Publish on a topic in the unit of work of this delivery. Subscribers get the message after the commit.

        With `retain`, the queue manager also keeps the publication for later subscribers. The keyword arguments and the errors
        are those of `put`.
        """
        coroutine = self._publish(topic, payload, retain, keywords)
        return note(self._delivery, coroutine, "ctx.publish", sys._getframe(1))  # noqa: SLF001 - as above

    def put_blocking(self, queue: str, payload: Any, **keywords: Unpack[PutKeywords]) -> Put:
        """Put a message like `put`, from a handler that is a plain function and therefore runs in a thread."""
        from anyio import from_thread  # noqa: PLC0415 - 1 ms, and few handlers are plain functions that put

        with_codec(keywords, self._codec)
        message = outgoing(queue, payload, **keywords)
        try:
            return from_thread.run(self._send, message)
        except anyio.NoEventLoopError as error:
            raise RuntimeError(
                f"Nothing was put on {queue}: ctx.put_blocking is for handlers that are plain functions. In a handler with "
                "`async def`, write `await ctx.put(...)`. A thread that the handler has started cannot put."
            ) from error

    def send(self, message: Outgoing) -> Coroutine[Any, Any, Put]:
        """Put an `Outgoing` message in the unit of work of this delivery, as `put` does.

        Raises `DeliveryOverError` if the delivery has ended. This happens in a task that the handler has left behind, or in the
        thread of a handler after its time limit. Such a put would be in the unit of work of another message. The other errors
        are those of `put`.
        """
        return note(self._delivery, self._send(message), "ctx.send", sys._getframe(1))  # noqa: SLF001 - as above

    async def _put(self, queue: str, payload: Any, keywords: PutKeywords) -> Put:
        with_codec(keywords, self._codec)
        return await self._sent(outgoing(queue, payload, **keywords))

    async def _publish(self, topic: str, payload: Any, retain: bool, keywords: PutKeywords) -> Put:  # noqa: FBT001 - private
        with_codec(keywords, self._codec)
        return await self._sent(published(topic, payload, retain=retain, **keywords))

    async def _send(self, message: Outgoing) -> Put:
        return await self._sent(message)

    def _sent(self, message: Outgoing) -> Awaitable[Put]:
        if self._delivery.is_over:
            raise DeliveryOverError(message.queue, self._delivery.got.descriptor.message_id)
        return self._sender(self._delivery)(message)
