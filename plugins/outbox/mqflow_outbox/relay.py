"""The relay: puts the messages of an outbox on their queues, each exactly once.

A marker, which is a message on a queue of its own, names the messages of the last batch. The relay gets the marker, puts a
batch and puts the next marker, all in one unit of work. So after any failure the marker tells which messages are on their
queues. The relay deletes the rows of these messages before it puts others. This module knows the public names of mqflow.
"""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, TypeVar

import anyio
import anyio.to_thread
import msgspec
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from mqflow import App, ConfigurationError, Consumer, Message, MessageDescriptor, MQIError, Reason
from mqflow.policy.reconnect.reason_classes import Class, classify
from mqflow_outbox.table import Outbox, Waiting

__all__ = ("relayed",)

T = TypeVar("T")

_UTF_8: Final = 1208
_logger: Final = logging.getLogger("mqflow.outbox")


class _AsItIs:
    """A codec that changes nothing: the outbox has encoded the bodies, and the codec of the application must not do it too."""

    def decode(self, message: Message, payload_type: Any) -> bytes:  # noqa: ARG002 - the signature of a codec
        return message.data

    def encode(self, payload: bytes) -> tuple[bytes, str, int]:
        return payload, "", 0


_AS_IT_IS: Final = _AsItIs()


class _Marker(msgspec.Struct, frozen=True):
    """The body of a marker: the MsgIds of the last batch."""

    message_ids: list[bytes]


class _RefusedError(Exception):
    """A queue refused a message. The batch is backed out."""

    def __init__(self, queue: str, error: MQIError) -> None:
        self.queue: Final = queue
        self.error: Final = error
        super().__init__(f"{queue} refused a message of the outbox: {error}")


@asynccontextmanager
async def relayed(
    app: App, engine: Engine, outbox: Outbox, marker_queue: str, *, batch_max: int = 100, poll_s: float = 1.0
) -> AsyncIterator[None]:
    """Relay the messages of the outbox inside the block, for example in the lifespan of the application.

    One relay works at a time: the others wait until it ends. The relay looks for messages every `poll_s` seconds. It logs an
    error of the database or the queue manager, and goes on after `poll_s`. If several programs can get from the marker queue
    at a time (SHARE), the block is cancelled, and raises `ConfigurationError`. Every other error also cancels the block, for
    example the error of a message on the marker queue that is no marker.

    A batch has up to `batch_max` messages, and fewer if MAXUMSGS of the queue manager has no room for so many. Raises
    `ConfigurationError` if `batch_max` is less than 1. Raises it also if `reconnect.mode` is "ANY" or "ASDEF", which
    can lead to another queue manager: that one has no marker of the last batch.
    """
    if batch_max < 1:
        raise ConfigurationError(f"batch_max={batch_max}: a batch of the outbox has at least 1 message.")
    settings = app.settings if app.current is None else app.current.settings
    mode = None if settings is None else settings.reconnect.mode
    if mode in {"ANY", "ASDEF"}:  # DefRecon or the channel can say the same as ANY
        raise ConfigurationError(
            f'reconnect.mode is "{mode}", and another queue manager has no marker of the last batch. So the outbox can put '
            'this batch twice. Set reconnect.mode = "QMGR".'
        )
    relay = _Relay(app, engine, outbox, marker_queue, batch_max, poll_s)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(relay.run)
            yield
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:  # raise an error of the block itself, without the group of the task group
        errors = list(group.exceptions)
        if len(errors) > 1:
            raise
        raise errors[0] from None


class _Relay:
    def __init__(self, app: App, engine: Engine, outbox: Outbox, marker_queue: str, batch_max: int, poll_s: float) -> None:
        self._app: Final = app
        self._engine: Final = engine
        self._outbox: Final = outbox
        self._marker_queue: Final = marker_queue
        self._batch_max = batch_max
        self._poll_s: Final = poll_s

    async def run(self) -> None:
        """Relay until cancelled."""
        while True:
            try:
                async with self._app.consumer(self._marker_queue) as consumer:
                    await self._check_exclusive()
                    while True:
                        await self._relay_all(consumer)
                        await anyio.sleep(self._poll_s)
            except MQIError as error:
                if error.reason != Reason.OBJECT_IN_USE:  # then another relay works
                    _logger.warning("The relay of the outbox tries again in %g s. %s", self._poll_s, error)
            except SQLAlchemyError as error:
                _logger.warning("The relay of the outbox tries again in %g s. %s", self._poll_s, error)
            await anyio.sleep(self._poll_s)

    async def _check_exclusive(self) -> None:
        """Raise `ConfigurationError` if the marker queue can be opened a second time."""
        try:
            async with self._app.consumer(self._marker_queue):
                pass
        except MQIError as error:
            if error.reason == Reason.OBJECT_IN_USE:
                return
            raise
        raise ConfigurationError(
            f"Two relays can work at a time, and put a message twice, because {self._marker_queue} is shared. "
            f"ALTER QLOCAL('{self._marker_queue}') NOSHARE"
        )

    async def _relay_all(self, consumer: Consumer) -> None:
        """Relay until no message waits, except those for queues that refuse them."""
        refused: set[str] = set()
        while await self._in_database(partial(self._outbox.waiting, most=1, without=refused)):
            try:
                await self._relay_batch(consumer, refused)
            except _RefusedError as error:
                _logger.warning("Messages of the outbox for this queue wait. %s", error)
                refused.add(error.queue)
            except MQIError as error:
                if error.reason != Reason.SYNCPOINT_LIMIT_REACHED or self._batch_max == 1:
                    raise
                await consumer.backout()
                self._batch_max //= 2

    async def _relay_batch(self, consumer: Consumer, refused: set[str]) -> None:
        marker = await consumer.receive_no_wait()
        if marker is not None and (done := msgspec.json.decode(marker.body, type=_Marker).message_ids):
            await self._in_database(partial(self._outbox.remove, message_ids=done))
        # The rows are read while the relay holds the marker: no other relay can put them now.
        batch = await self._in_database(partial(self._outbox.waiting, most=self._batch_max, without=refused))
        for message in batch:
            try:
                await self._put(consumer, message)
            except MQIError as error:
                # A lost connection or a full unit of work is no refusal by the queue.
                if classify(error.reason) is Class.RECONNECT or error.reason == Reason.SYNCPOINT_LIMIT_REACHED:
                    raise
                await consumer.backout()
                raise _RefusedError(message.queue, error) from error
        put = [message.message_id for message in batch]
        await consumer.put(self._marker_queue, msgspec.json.encode(_Marker(put)), codec=_AS_IT_IS, persistent=True)
        await consumer.commit()
        await self._in_database(partial(self._outbox.remove, message_ids=put))

    async def _put(self, consumer: Consumer, message: Waiting) -> None:
        await consumer.put(
            message.queue,
            message.body,
            codec=_AS_IT_IS,
            message_id=message.message_id,
            correlation_id=message.correlation_id,
            reply_to=message.reply_to,
            priority=message.priority,
            persistent=message.persistent,
            properties=message.properties or None,
            descriptor=MessageDescriptor(format=message.format, ccsid=_UTF_8 if message.format else 0),
        )

    async def _in_database(self, call: Callable[..., T]) -> T:
        """Return the result of the call, made on a thread in a transaction of its own."""

        def run() -> T:
            with self._engine.begin() as connection:
                return call(connection)

        return await anyio.to_thread.run_sync(run)
