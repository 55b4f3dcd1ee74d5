"""What a handler does besides returning: put messages in the unit of work of its delivery.

Knows the delivery's session through `publishing`; settles nothing.
"""

from collections.abc import Callable
from typing import Any, Final, Unpack

import anyio.from_thread

from mqflow.app.errors import DeliveryOverError
from mqflow.app.handlers.codecs import Codec
from mqflow.app.handlers.message import Message
from mqflow.app.handlers.outgoing import Outgoing, PutKeywords, Send, outgoing, published
from mqflow.events import Decided
from mqflow.runtime.listener.delivery import Delivery
from mqflow.verbs import Put

__all__ = ("Context",)


class Context:
    """The delivery a handler is working on."""

    def __init__(self, delivery: Delivery, message: Message, sender: Callable[[Delivery], Send], codec: Codec | None) -> None:
        self._delivery: Final = delivery
        self._sender: Final = sender
        self._codec: Final = codec
        self.message: Final = message

    @property
    def listener(self) -> str:
        """The name of the listener that this delivery belongs to."""
        return self._delivery.listener

    @property
    def decision(self) -> Decided | None:
        """The backout decision taken before this delivery; None at the first delivery of a message."""
        return self._delivery.decision

    async def put(self, queue: str, payload: Any, **wishes: Unpack[PutKeywords]) -> Put:
        """Put a message in the unit of work of this delivery: it is there for others once the delivery is committed.

        `wishes` are those of `App.put`: properties, persistent, priority, expiry, correlation_id, reply_to, codec ...
        Raises the `MQIError` of the put; a handler that lets it go has failed, and the message is redelivered.
        """
        wishes.setdefault("codec", self._codec)
        return await self.send(outgoing(queue, payload, **wishes))

    async def publish(self, topic: str, payload: Any, *, retain: bool = False, **wishes: Unpack[PutKeywords]) -> Put:
        """Publish on a topic in the unit of work of this delivery: subscriptions get it once the delivery is committed."""
        wishes.setdefault("codec", self._codec)
        return await self.send(published(topic, payload, retain=retain, **wishes))

    def put_blocking(self, queue: str, payload: Any, **wishes: Unpack[PutKeywords]) -> Put:
        """As `put`, for a handler that is not async and so runs in a thread."""
        return anyio.from_thread.run(lambda: self.put(queue, payload, **wishes))

    async def send(self, message: Outgoing) -> Put:
        """Put a message that is made already, in the unit of work of this delivery.

        Raises `DeliveryOverError` where that has ended: what a handler left behind (a task, the thread of one that ran out of
        time) would put in the unit of work of another message.
        """
        if self._delivery.is_over:
            raise DeliveryOverError(message.queue, self._delivery.got.descriptor.message_id)
        put = await self._sender(self._delivery)(message)
        self._delivery.put_message_ids.append(put.descriptor.message_id)
        return put
