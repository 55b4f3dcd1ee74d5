"""The available messages of a local queue, in the order of delivery, with indexes by MsgId, CorrelId and GroupId.

Each step costs the same at depth 10 and at depth 1,000,000. The steps are: add a message, take the first message, put a message
back at its place, find a message by identifier. A stored message can be on disk only. The backlog then has its key, and reads
the message when a step needs it. This file knows no handle, no unit of work, no clock and no storage. The steps in `calls`
change a backlog through its methods. Only `settle`, `get` and `open` add or remove messages.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Protocol

from msgspec import Struct
from sortedcontainers import SortedList

from mqflow.embedded.rules.get_plan import Match, matches
from mqflow.embedded.state.sorted_keys import SortedKeys
from mqflow.mqi.descriptor import NO_ID, MessageDescriptor

__all__ = ("BEFORE_FIRST", "Backlog", "Emptied", "Identified", "Pages", "QueuedMessage", "order_key", "serial_of")

BEFORE_FIRST: Final = -1
"""The position before every message, at which a browse cursor starts."""

_PRIORITY_MAX: Final = 9
_PRIORITIES: Final = range(_PRIORITY_MAX, -1, -1)
_SERIAL_BITS: Final = 56
_SERIALS: Final = (1 << _SERIAL_BITS) - 1
# The number of messages that a search in order reads together.
_READ_AHEAD: Final = 256


class QueuedMessage(Struct, eq=False, gc=False):
    """A message on a queue or in a unit of work. Only `descriptor`, `stored`, `recounted` and `counted_bytes` change."""

    #: The position of the message in the order of delivery; a smaller key comes first. Unique in the queue manager.
    key: int
    serial: int
    descriptor: MessageDescriptor
    body: bytes
    #: Wall clock, seconds since 1970.
    put_at: float
    expires_at: float | None
    #: True if the message is in the store.
    stored: bool = False
    #: True if a backout changed the descriptor. The message must then stay in memory: the store may still have the old count.
    recounted: bool = False
    #: The bytes of this message that count towards the limit of `Pages`.
    counted_bytes: int = 0

    @property
    def order_priority(self) -> int:
        """The priority that decides the position of the message."""
        return _PRIORITY_MAX - (self.key >> _SERIAL_BITS)


def order_key(priority: int, serial: int) -> int:
    """Return the position in the order of delivery: higher priority first, then earlier arrival."""
    return (_PRIORITY_MAX - priority) << _SERIAL_BITS | serial


def serial_of(key: int) -> int:
    """Return the serial number of the message at a position in the order of delivery."""
    return key & _SERIALS


class Identified(Struct, frozen=True, gc=False):
    """The identifiers of a message that is only on disk."""

    key: int
    message_id: bytes
    correlation_id: bytes
    group_id: bytes


class Pages(Protocol):
    """Decides which stored messages of a backlog stay in memory, and reads other messages from the store."""

    def admits(self, backlog: "Backlog", message: QueuedMessage) -> bool:
        """Return whether a stored message stays in memory. If it does, count its bytes."""
        ...

    def read(self, backlog: "Backlog", keys: Sequence[int]) -> None:
        """Add at least the first of these messages to `backlog.messages`. Take a damaged message off the queue instead."""

    def read_identifiers(self, keys: Iterable[int]) -> Iterator[Identified]:
        """Yield the identifiers of these messages, without damaged messages."""
        ...


class Emptied(Struct, frozen=True):
    """The messages that `clear` took off a queue."""

    #: The messages that were in memory.
    messages: tuple[QueuedMessage, ...]
    #: The keys of the messages that were only on disk.
    keys: tuple[int, ...]

    @property
    def stored_serials(self) -> tuple[int, ...]:
        """The serial numbers of the messages in the store."""
        return (*(message.serial for message in self.messages if message.stored), *map(serial_of, self.keys))


class _IdentifierIndex:
    """The keys of messages by one kind of identifier. An identifier with only one message needs no list."""

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
    """The committed messages of a queue that no open unit of work has got. Callers hold the queue manager's lock."""

    __slots__ = ("_by_correlation_id", "_by_group_id", "_by_message_id", "_is_indexed", "_order", "_pages", "messages")

    def __init__(self, pages: Pages | None = None) -> None:
        #: The available messages in memory, by key. `available` also counts the messages on disk.
        self.messages: dict[int, QueuedMessage] = {}
        self._order = SortedKeys()
        self._pages = pages
        # The first get by an identifier builds its index. Most queues need no index, because gets read them in order.
        self._is_indexed = False
        self._by_message_id: _IdentifierIndex | None = None
        self._by_correlation_id: _IdentifierIndex | None = None
        self._by_group_id: _IdentifierIndex | None = None

    @property
    def available(self) -> int:
        """The number of available messages."""
        return len(self._order)

    def load(self, keys: Iterable[int]) -> None:
        """Add the messages that a restart finds on disk. The queue must still be empty."""
        self._order = SortedKeys(keys)

    def add(self, message: QueuedMessage) -> None:
        """Make the message available at its position. After a backout, this is its old position."""
        key = message.key
        self._order.add(key)
        if not message.stored or message.recounted or self._pages is None or self._pages.admits(self, message):
            self.messages[key] = message
        if self._is_indexed:
            self._index(message)

    def put_back(self, emptied: Emptied) -> None:
        """Put back the messages that `clear` returned. Messages that arrived meanwhile stay."""
        for message in emptied.messages:
            self.add(message)
        for key in emptied.keys:
            self._order.add(key)
        self._drop_indexes()

    def take(self, message: QueuedMessage) -> None:
        """Take the message off the queue, so that it is no longer available."""
        key = message.key
        self._order.remove(key)
        self.messages.pop(key, None)
        if self._is_indexed:
            self._forget(message)

    def lose(self, key: int) -> None:
        """Take a damaged message off the queue. Its entries in the indexes stay, but find no message."""
        self._order.remove(key)

    def holds(self, key: int) -> bool:
        """True if the message at this position is available."""
        return key in self.messages or key in self._order

    def at(self, key: int, ahead: int = 1) -> QueuedMessage | None:
        """Return the message at this position; None if the message is not available or is damaged.

        If the message is only on disk, read up to `ahead` messages from this position on into memory.
        """
        message = self.messages.get(key)
        if message is None and self._pages is not None and key in self._order:
            nearby = self._order.ones_from(key, ahead)
            self._pages.read(self, [each for each in nearby if each not in self.messages])
            message = self.messages.get(key)
        return message

    def first(self, count: int) -> Iterable[QueuedMessage]:
        """Return up to `count` available messages, in order. Messages on disk are read only when the caller reaches them.

        The caller must not change the backlog before it has the messages that it wants.
        """
        keys = self._order.first_ones(max(0, count))
        found = [self.messages.get(key) for key in keys]
        return filter(None, (self.at(key, _READ_AHEAD) for key in keys) if None in found else found)

    def count_from(self, priority: int, most: int) -> int:
        """Return how many available messages have a place of this priority or a higher one, but not more than `most`."""
        return bisect_right(self._order.first_ones(most), order_key(priority, _SERIALS))

    def take_first(self, messages: Sequence[QueuedMessage]) -> None:
        """Take these messages off the queue. They must be its first messages, in order."""
        if len(messages) == 1 or self._is_indexed:
            for message in messages:
                self.take(message)
            return
        self._order.remove_first(len(messages))
        for message in messages:
            self.messages.pop(message.key, None)

    def clear(self) -> Emptied:
        """Take all available messages off the queue, and return them."""
        emptied = Emptied(tuple(self.messages.values()), tuple(key for key in self._order if key not in self.messages))
        self.messages = {}
        self._order = SortedKeys()
        self._drop_indexes()
        return emptied

    def next_match(self, match: Match | None, after: int) -> QueuedMessage | None:
        """Return the first available message after the position `after` that matches. A `match` of None matches any message."""
        if match is None:
            key = self._order.first() if after == BEFORE_FIRST else self._order.after(after)
            return None if key is None else self.messages.get(key) or self._next(after)
        keys = self._places(match, after)
        ahead = _READ_AHEAD if keys is None else 1
        for key in self._all_after(after) if keys is None else keys:
            message = self.at(key, ahead)
            if message is not None and matches(match, message.descriptor):
                return message
        return None

    def oldest(self) -> QueuedMessage | None:
        """Return the available message of any priority that arrived first; None if there is no message.

        The queue must be in the order of priority and arrival.
        """
        return self._earliest(self._first_of_each_priority())

    def oldest_of_all(self) -> QueuedMessage | None:
        """Return the available message that arrived first, or None, for a queue in any order. The cost grows with the depth."""
        return self._earliest(self._order)

    def _first_of_each_priority(self) -> Iterator[int]:
        key = self._order.after(BEFORE_FIRST)
        while key is not None:
            yield key
            key = self._order.after(key | _SERIALS)

    def _earliest(self, keys: Iterable[int]) -> QueuedMessage | None:
        key = min(keys, key=serial_of, default=None)
        return None if key is None else self.at(key)

    def _next(self, after: int) -> QueuedMessage | None:
        while True:
            key = self._order.first() if after == BEFORE_FIRST else self._order.after(after)
            if key is None:
                return None
            message = self.at(key, _READ_AHEAD)
            if message is not None:  # otherwise it was damaged, and `at` has taken it off the queue
                return message

    def _places(self, match: Match, after: int) -> Iterable[int] | None:
        """Return the keys after `after` that can match, in order; None if any key can match."""
        if match.serial is not None:
            return self._with_serial(match.serial, after)
        candidates = self._candidates(match)
        if candidates is None or after == BEFORE_FIRST:
            return candidates
        if isinstance(candidates, SortedList):
            return candidates.irange(after, inclusive=(False, True))
        return candidates[bisect_right(candidates, after) :]

    def _with_serial(self, serial: int, after: int) -> Iterator[int]:
        """Yield the keys after `after` that this serial number can have, in order."""
        if serial > _SERIALS:  # a program can give any token
            return
        yield from (key for priority in _PRIORITIES if (key := order_key(priority, serial)) > after)
        # Only the staging queue has messages behind those of the lowest priority.
        yield from (key for key in self._all_after(max(after, order_key(0, _SERIALS))) if serial_of(key) == serial)

    def _all_after(self, after: int) -> Iterator[int]:
        # In batches, because a damaged message leaves the queue and so changes the order.
        while keys := self._order.ones_from(after + 1, _READ_AHEAD):
            yield from keys
            after = keys[-1]

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

    def _drop_indexes(self) -> None:
        self._by_message_id = self._by_correlation_id = self._by_group_id = None
        self._is_indexed = False

    def _candidates(self, match: Match) -> "Sequence[int] | SortedList[int] | None":
        """Return the keys that can match, in order; None if any key can match."""
        if match.message_id is not None:
            if self._by_message_id is None:
                self._by_message_id = self._indexed(lambda each: each.message_id)
            return self._by_message_id.find(match.message_id)
        if match.correlation_id is not None:
            if self._by_correlation_id is None:
                self._by_correlation_id = self._indexed(lambda each: each.correlation_id)
            return self._by_correlation_id.find(match.correlation_id)
        if match.group_id is not None:
            if self._by_group_id is None:
                self._by_group_id = self._indexed(lambda each: each.group_id)
            return self._by_group_id.find(match.group_id)
        return None

    def _indexed(self, identifier: Callable[[MessageDescriptor | Identified], bytes]) -> _IdentifierIndex:
        self._is_indexed = True
        index = _IdentifierIndex()
        for key, message in self.messages.items():
            if (found := identifier(message.descriptor)) != NO_ID:
                index.add(found, key)
        if self._pages is not None and len(self.messages) < len(self._order):
            for each in self._pages.read_identifiers(key for key in self._order if key not in self.messages):
                if (found := identifier(each)) != NO_ID:
                    index.add(found, each.key)
        return index
