"""Decides which bodies of stored messages stay in memory: first all that fit, later the bodies of the next messages to get.

A body that does not fit stays on disk. A get or a browse reads this body back, together with the bodies of the messages behind
it. This file writes `QueuedMessage.body` only.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

from mqflow.embedded.state.backlog import QueuedMessage
from mqflow.embedded.state.objects import LocalQueue
from mqflow.embedded.storage.store import Store

__all__ = ("BODY_BYTES_MAX", "BodyCache")

BODY_BYTES_MAX: Final = 256 * 1024 * 1024
"""The bound for the bodies of committed durable messages in memory."""
# Bodies that were read back may exceed the bound by a quarter of it, plus one batch.
_READ_BACK_PART: Final = 4
_BATCH_MESSAGES: Final = 256
_BATCH_BYTES: Final = 16 * 1024 * 1024


class BodyCache:
    """Counts the bytes of the bodies of stored messages in memory, and limits these bytes."""

    __slots__ = ("_bytes", "_bytes_max", "_read_back", "_read_back_bytes", "_store")

    def __init__(self, store: Store, bytes_max: int = BODY_BYTES_MAX) -> None:
        self._store = store
        self._bytes_max = bytes_max
        self._bytes = 0
        #: The messages whose bodies were read back, in order of reading, and the length of these bodies together.
        self._read_back: deque[QueuedMessage] = deque()
        self._read_back_bytes = 0

    def keep(self, messages: Iterable[QueuedMessage]) -> None:
        """Count the bodies of stored messages, and drop each body that does not fit: `read` reads it back when needed."""
        for message in messages:
            if message.body is None or not message.stored:
                continue
            if self._bytes + message.body_bytes > self._bytes_max:
                message.body = None
            else:
                self._bytes += message.body_bytes

    def forget(self, message: QueuedMessage) -> None:
        """Drop the body of a stored message that left its queue. If the message returns after all, `read` reads its body."""
        if message.stored and message.body is not None:
            self._drop(message)

    def read(self, queue: LocalQueue, message: QueuedMessage) -> bool:
        """Read the bodies of the message and of the next messages from disk; return False if the message is damaged."""
        wanted: dict[int, QueuedMessage] = {}
        batch_bytes = 0
        for key in queue.next_keys(message, _BATCH_MESSAGES):
            near = queue.messages[key]
            if near.body is None:
                batch_bytes += near.body_bytes
                if wanted and batch_bytes > _BATCH_BYTES:
                    break
                wanted[near.serial] = near
        self._make_room(batch_bytes)
        for serial, stored in self._store.read_messages(tuple(wanted), _BATCH_BYTES).items():
            if stored is not None:
                wanted[serial].body = stored.body
                self._bytes += wanted[serial].body_bytes
                self._read_back_bytes += wanted[serial].body_bytes
                self._read_back.append(wanted[serial])
        return message.body is not None

    def _make_room(self, wanted_bytes: int) -> None:
        """Drop the bodies that were read back longest ago: a browse of a deep queue must not fill the memory.

        A part of the bound is reserved for bodies that were read back, even if other bodies fill the whole bound. Otherwise
        two applications that read two queues in turn would read the same bodies again and again.
        """
        read_back = self._read_back
        while read_back and (read_back[0].body is None or self._are_too_many(wanted_bytes)):
            message = read_back.popleft()
            self._read_back_bytes -= message.body_bytes
            if message.body is not None:
                self._drop(message)

    def _are_too_many(self, wanted_bytes: int) -> bool:
        room = self._bytes_max // _READ_BACK_PART
        return self._bytes + wanted_bytes > self._bytes_max and self._read_back_bytes + wanted_bytes > room

    def _drop(self, message: QueuedMessage) -> None:
        message.body = None
        self._bytes -= message.body_bytes
