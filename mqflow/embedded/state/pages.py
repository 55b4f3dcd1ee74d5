"""Decides which stored messages stay in memory, within a limit of bytes.

A message stays in memory if it fits when it arrives. Otherwise it is only on disk, and a get or a browse reads it back together
with the messages after it. This file writes `QueuedMessage.counted_bytes`. It adds messages to `Backlog.messages` and removes
them, but never changes the order of a backlog.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from mqflow.embedded.state.backlog import Backlog, Identified, QueuedMessage, order_key, serial_of
from mqflow.embedded.storage.store import Store, StoredMessage

__all__ = ("BYTES_MAX", "MESSAGE_BYTES", "StoredPages")

BYTES_MAX: Final = 32 * 1024 * 1024
"""The limit for committed durable messages in memory."""
MESSAGE_BYTES: Final = 700
"""The memory for one message in addition to its body."""
# Messages that were read back can exceed the limit by a quarter of it, plus one batch.
_READ_BACK_PART: Final = 4
_BATCH_BYTES: Final = 4 * 1024 * 1024
_IDENTIFIERS_AT_ONCE: Final = 1024
_FEW: Final = 256


class StoredPages:
    """Counts and limits the bytes of stored messages in memory. It implements `backlog.Pages`."""

    __slots__ = ("_bytes_max", "_lost", "_read_back", "_read_back_bytes", "_store", "bytes")

    def __init__(self, store: Store, lost: Callable[[Backlog, int], None], bytes_max: int = BYTES_MAX) -> None:
        self._store = store
        #: Takes a damaged message, given by its key, off its queue, and reports it.
        self._lost = lost
        self._bytes_max = bytes_max
        self.bytes: int = 0
        #: The messages that were read back, in the order of reading: queue, key and size. Messages that have left their queues
        #: since then are included, here and in `_read_back_bytes`.
        self._read_back: deque[tuple[Backlog, int, int]] = deque()
        self._read_back_bytes = 0

    def admits(self, backlog: Backlog, message: QueuedMessage) -> bool:
        """Return whether a stored message stays in memory. If it does, count its bytes.

        If the limit is reached and the queue has few messages in memory, drop messages that were read back, to make room.
        """
        if message.counted_bytes:
            return True
        size = _size(message)
        if self.bytes + size <= self._bytes_max:
            self.bytes += size
            message.counted_bytes = size
        elif len(backlog.messages) < _FEW:
            self._make_room(size)
            self._keep_for_now(backlog, message)
        return bool(message.counted_bytes)

    def forget(self, message: QueuedMessage) -> None:
        """Stop counting the bytes of a message that has left its queue, or that must stay in memory."""
        self.bytes -= message.counted_bytes
        message.counted_bytes = 0

    def read(self, backlog: Backlog, keys: Sequence[int]) -> None:
        """Read at least the first of these messages from disk. Drop the messages that were read back longest ago."""
        by_serial = {serial_of(key): key for key in keys}
        found: list[QueuedMessage] = []
        for serial, stored in self._store.read_messages(tuple(by_serial), _BATCH_BYTES).items():
            message = None if stored is None else queued(stored)
            if message is None or message.key != by_serial[serial]:
                self._lost(backlog, by_serial[serial])
            else:
                found.append(message)
        self._make_room(sum(map(_size, found)))
        for message in found:
            self._keep_for_now(backlog, message)
            backlog.messages[message.key] = message

    def read_identifiers(self, keys: Iterable[int]) -> Iterator[Identified]:
        """Yield the identifiers of these messages, without damaged messages."""
        remaining = iter(keys)
        while batch := {serial_of(key): key for key in islice(remaining, _IDENTIFIERS_AT_ONCE)}:
            for each in self._store.read_identifiers(tuple(batch)):
                yield Identified(batch[each.serial], each.message_id, each.correlation_id, each.group_id)

    def _keep_for_now(self, backlog: Backlog, message: QueuedMessage) -> None:
        message.counted_bytes = size = _size(message)
        self.bytes += size
        self._read_back.append((backlog, message.key, size))
        self._read_back_bytes += size

    def _make_room(self, wanted_bytes: int) -> None:
        """Drop the messages that were read back longest ago: a browse of a deep queue must not fill the memory.

        A part of the limit is reserved for messages that were read back, even if other messages fill the whole limit. Without
        this reserve, two applications that read two queues in turn would read the same messages again and again.
        """
        read_back = self._read_back
        while read_back and self._are_too_many(wanted_bytes):
            backlog, key, size = read_back.popleft()
            self._read_back_bytes -= size
            message = backlog.messages.get(key)
            if message is not None and message.counted_bytes:
                self.forget(message)
                del backlog.messages[key]

    def _are_too_many(self, wanted_bytes: int) -> bool:
        read_back = self._read_back_bytes + wanted_bytes
        is_full = self.bytes + wanted_bytes > self._bytes_max
        return read_back > (self._bytes_max // _READ_BACK_PART if is_full else self._bytes_max)


def _size(message: QueuedMessage) -> int:
    return len(message.body) + MESSAGE_BYTES


def queued(stored: StoredMessage) -> QueuedMessage:
    """Return the message that was read from the store."""
    return QueuedMessage(
        key=order_key(stored.order_priority, stored.serial),
        serial=stored.serial,
        descriptor=stored.descriptor,
        body=stored.body,
        put_at=stored.put_at,
        expires_at=stored.expires_at,
        stored=True,
    )
