"""The messages that are available on a local queue, in the order of delivery, with indexes by MsgId, CorrelId and GroupId.

The cost of a step is the same at depth 10 and at depth 1,000,000. The steps are: add a message, take the first message, put a
message back at its place, find a message by identifier. This file knows no handle, no unit of work, no clock and no storage.
The steps in `calls` change a backlog through its methods. Only `settle`, `get` and `open` add messages to it or remove them.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec import Struct
from sortedcontainers import SortedList

from mqflow.embedded.rules.get_plan import Match, matches
from mqflow.embedded.state.sorted_keys import SortedKeys
from mqflow.mqi.descriptor import NO_ID, MessageDescriptor

__all__ = ("BEFORE_FIRST", "Backlog", "QueuedMessage", "order_key")

BEFORE_FIRST: Final = -1
"""A place before every message: where a browse cursor starts."""

_PRIORITY_MAX: Final = 9
_SERIAL_BITS: Final = 56


class QueuedMessage(Struct, eq=False, gc=False):
    """A message on a queue or in a unit of work. Only `descriptor`, `body` and `stored` change."""

    #: The place of the message in the order of delivery; smaller is earlier. Unique in the queue manager.
    key: int
    serial: int
    descriptor: MessageDescriptor
    #: None while the body is only on disk.
    body: bytes | None
    body_bytes: int
    #: Wall clock, seconds since 1970.
    put_at: float
    expires_at: float | None
    #: Whether the store holds the message.
    stored: bool = False

    @property
    def order_priority(self) -> int:
        """The priority by which the message is ordered."""
        return _PRIORITY_MAX - (self.key >> _SERIAL_BITS)


def order_key(priority: int, serial: int) -> int:
    """Return the place in the order of delivery: higher priority first, then earlier arrival."""
    return (_PRIORITY_MAX - priority) << _SERIAL_BITS | serial


class _IdentifierIndex:
    """The keys of the messages by one kind of identifier. If only one message has an identifier, its key needs no list."""

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        self._keys: dict[bytes, int | SortedList[int]] = {}

    def add(self, identifier: bytes, key: int) -> None:
        known = self._keys.setdefault(identifier, key)
        if isinstance(known, SortedList):
            known.add(key)
        elif known != key:
            self._keys[identifier] = SortedList((known, key))

    def remove(self, identifier: bytes, key: int) -> None:
        known = self._keys[identifier]
        if isinstance(known, SortedList):
            known.remove(key)
            if known:
                return
        del self._keys[identifier]

    def find(self, identifier: bytes) -> "Sequence[int] | SortedList[int]":
        known = self._keys.get(identifier, ())
        return (known,) if isinstance(known, int) else known


class Backlog:
    """The committed messages of a queue that no unit of work holds. Callers of every method hold the queue manager's lock."""

    __slots__ = ("_by_correlation_id", "_by_group_id", "_by_message_id", "_is_indexed", "_order", "messages")

    def __init__(self) -> None:
        #: The available messages, by key: committed, and held by no unit of work.
        self.messages: dict[int, QueuedMessage] = {}
        self._order = SortedKeys()
        # An index is built when a get first matches by its identifier, because most queues are only read in order.
        self._is_indexed = False
        self._by_message_id: _IdentifierIndex | None = None
        self._by_correlation_id: _IdentifierIndex | None = None
        self._by_group_id: _IdentifierIndex | None = None

    def load(self, messages: Sequence[QueuedMessage]) -> None:
        """Put the messages that a restart loads on the empty queue, all in one step."""
        self.messages = {message.key: message for message in messages}
        self._order = SortedKeys(self.messages)

    def add(self, message: QueuedMessage) -> None:
        """Make the message available at its place; a message that a backout returns goes back to its old place."""
        key = message.key
        self.messages[key] = message
        self._order.add(key)
        if self._is_indexed:
            self._index(message)

    def take(self, message: QueuedMessage) -> None:
        """Take the message off the queue: the message is not available any more."""
        key = message.key
        self._order.remove(key)
        del self.messages[key]
        if self._is_indexed:
            self._forget(message)

    def first(self, count: int) -> list[QueuedMessage]:
        """Return up to `count` available messages, in order."""
        messages = self.messages
        if count == 1:
            key = self._order.first()
            return [] if key is None else [messages[key]]
        return [messages[key] for key in self._order.first_ones(max(0, count))]

    def take_first(self, messages: Sequence[QueuedMessage]) -> None:
        """Take these messages off the queue; they must be its first messages, in order."""
        if len(messages) == 1 or self._is_indexed:
            for message in messages:
                self.take(message)
            return
        self._order.remove_first(len(messages))
        for message in messages:
            del self.messages[message.key]

    def clear(self) -> list[QueuedMessage]:
        """Take every available message off the queue and return the messages."""
        taken = list(self.messages.values())
        self.load(())
        self._by_message_id = self._by_correlation_id = self._by_group_id = None
        self._is_indexed = False
        return taken

    def next_match(self, match: Match | None, after: int) -> QueuedMessage | None:
        """Return the first available message behind the place `after` that matches. If `match` is None, any message matches."""
        if match is None:
            key = self._order.first() if after == BEFORE_FIRST else self._order.after(after)
            return None if key is None else self.messages[key]
        if match.serial is not None:
            return self._by_serial(match, after)
        keys = self._candidates(match)
        later: Iterable[int]
        if keys is None:
            later = self._order.all_after(after)
        elif after == BEFORE_FIRST:
            later = keys
        elif isinstance(keys, SortedList):
            later = keys.irange(after, inclusive=(False, True))
        else:
            later = keys[bisect_right(keys, after) :]
        for key in later:
            message = self.messages[key]
            if matches(match, message.descriptor):
                return message
        return None

    def oldest(self) -> QueuedMessage | None:
        """Return the available message that arrived first, of all priorities; None if there is no message.

        The queue must be in the order of priority and arrival.
        """
        firsts = [self._order.after(order_key(priority, 0) - 1) for priority in range(_PRIORITY_MAX + 1)]
        found = [self.messages[key] for key in firsts if key is not None]
        return min(found, key=lambda message: message.serial, default=None)

    def next_keys(self, message: QueuedMessage, count: int) -> list[int]:
        """Return the keys of up to `count` available messages in order, from this message on."""
        return self._order.ones_from(message.key, count)

    def _index(self, message: QueuedMessage) -> None:
        descriptor, key = message.descriptor, message.key
        if self._by_message_id is not None:
            self._by_message_id.add(descriptor.message_id, key)
        if self._by_correlation_id is not None and descriptor.correlation_id != NO_ID:
            self._by_correlation_id.add(descriptor.correlation_id, key)
        if self._by_group_id is not None and descriptor.group_id != NO_ID:
            self._by_group_id.add(descriptor.group_id, key)

    def _forget(self, message: QueuedMessage) -> None:
        descriptor, key = message.descriptor, message.key
        if self._by_message_id is not None:
            self._by_message_id.remove(descriptor.message_id, key)
        if self._by_correlation_id is not None and descriptor.correlation_id != NO_ID:
            self._by_correlation_id.remove(descriptor.correlation_id, key)
        if self._by_group_id is not None and descriptor.group_id != NO_ID:
            self._by_group_id.remove(descriptor.group_id, key)

    def _candidates(self, match: Match) -> "Sequence[int] | SortedList[int] | None":
        """Return the only keys that can match, in order; None if every key can match."""
        if match.message_id is not None:
            if self._by_message_id is None:
                self._by_message_id = self._indexed(lambda descriptor: descriptor.message_id)
            return self._by_message_id.find(match.message_id)
        if match.correlation_id is not None:
            if self._by_correlation_id is None:
                self._by_correlation_id = self._indexed(lambda descriptor: descriptor.correlation_id)
            return self._by_correlation_id.find(match.correlation_id)
        if match.group_id is not None:
            if self._by_group_id is None:
                self._by_group_id = self._indexed(lambda descriptor: descriptor.group_id)
            return self._by_group_id.find(match.group_id)
        return None

    def _indexed(self, identifier: Callable[[MessageDescriptor], bytes]) -> _IdentifierIndex:
        self._is_indexed = True
        index = _IdentifierIndex()
        for key, message in self.messages.items():
            if (found := identifier(message.descriptor)) != NO_ID:
                index.add(found, key)
        return index

    def _by_serial(self, match: Match, after: int) -> QueuedMessage | None:
        for priority in range(_PRIORITY_MAX, -1, -1):
            message = self.messages.get(order_key(priority, match.serial or 0))
            if message is not None and message.key > after and matches(match, message.descriptor):
                return message
        return None
