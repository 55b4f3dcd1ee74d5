"""The messages that are available on a local queue, in the order of delivery, with indexes by MsgId, CorrelId and GroupId.

The cost of a step is the same at depth 10 and at depth 1,000,000. The steps are: add a message, take the first message, put a
message back at its place, find a message by identifier. A message that the store holds can be on disk only. Then the backlog
has its key, and reads the message when a step needs it. This file knows no handle, no unit of work, no clock and no storage.
The steps in `calls` change a backlog through its methods. Only `settle`, `get` and `open` add messages to it or remove them.
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
"""A place before every message: where a browse cursor starts."""

_PRIORITY_MAX: Final = 9
_SERIAL_BITS: Final = 56
_SERIALS: Final = (1 << _SERIAL_BITS) - 1
# The number of messages that a search in order reads together.
_READ_AHEAD: Final = 256


class QueuedMessage(Struct, eq=False, gc=False):
    """A message on a queue or in a unit of work. Only `descriptor`, `stored`, `recounted` and `counted_bytes` change."""

    #: The place of the message in the order of delivery; smaller is earlier. Unique in the queue manager.
    key: int
    serial: int
    descriptor: MessageDescriptor
    body: bytes
    #: Wall clock, seconds since 1970.
    put_at: float
    expires_at: float | None
    #: Whether the store holds the message.
    stored: bool = False
    #: Whether a backout changed the descriptor. The message then stays in memory: the store may not have its count yet.
    recounted: bool = False
    #: The bytes that the message takes of the bound of `Pages`.
    counted_bytes: int = 0

    @property
    def order_priority(self) -> int:
        """The priority by which the message is ordered."""
        return _PRIORITY_MAX - (self.key >> _SERIAL_BITS)


def order_key(priority: int, serial: int) -> int:
    """Return the place in the order of delivery: higher priority first, then earlier arrival."""
    return (_PRIORITY_MAX - priority) << _SERIAL_BITS | serial


def serial_of(key: int) -> int:
    """Return the serial of the message at a place in the order of delivery."""
    return key & _SERIALS


class Identified(Struct, frozen=True, gc=False):
    """The identifiers of a message that is on disk only."""

    key: int
    message_id: bytes
    correlation_id: bytes
    group_id: bytes


class Pages(Protocol):
    """Decides which stored messages of a backlog stay in memory, and reads the other messages from the store."""

    def admits(self, backlog: "Backlog", message: QueuedMessage) -> bool:
        """Return whether a stored message stays in memory, and count its bytes if it does."""
        ...

    def read(self, backlog: "Backlog", keys: Sequence[int]) -> None:
        """Add the first of these messages to `backlog.messages`, at least one. A damaged message leaves the queue instead."""
        ...

    def read_identifiers(self, keys: Iterable[int]) -> Iterator[Identified]:
        """Yield the identifiers of these messages; leave out damaged messages."""
        ...


class Emptied(Struct, frozen=True):
    """The messages that a clear took off a queue."""

    #: The messages that were in memory.
    messages: tuple[QueuedMessage, ...]
    #: The keys of the messages that are on disk only.
    keys: tuple[int, ...]

    @property
    def stored_serials(self) -> tuple[int, ...]:
        """The serials of the messages that the store holds."""
        return (*(message.serial for message in self.messages if message.stored), *map(serial_of, self.keys))


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

    __slots__ = ("_by_correlation_id", "_by_group_id", "_by_message_id", "_is_indexed", "_order", "_pages", "messages")

    def __init__(self, pages: Pages | None = None) -> None:
        #: The available messages that are in memory, by key. `available` counts the messages on disk too.
        self.messages: dict[int, QueuedMessage] = {}
        self._order = SortedKeys()
        self._pages = pages
        # An index is built when a get first matches by its identifier, because most queues are only read in order.
        self._is_indexed = False
        self._by_message_id: _IdentifierIndex | None = None
        self._by_correlation_id: _IdentifierIndex | None = None
        self._by_group_id: _IdentifierIndex | None = None

    @property
    def available(self) -> int:
        """The number of available messages."""
        return len(self._order)

    def load(self, keys: Iterable[int]) -> None:
        """Put the messages that a restart finds on disk on the queue, which has no messages yet."""
        self._order = SortedKeys(keys)

    def add(self, message: QueuedMessage) -> None:
        """Make the message available at its place; a message that a backout returns goes back to its old place."""
        key = message.key
        self._order.add(key)
        if not message.stored or message.recounted or self._pages is None or self._pages.admits(self, message):
            self.messages[key] = message
        if self._is_indexed:
            self._index(message)

    def put_back(self, emptied: Emptied) -> None:
        """Make the messages that `clear` took available again; messages that arrived in the meantime stay."""
        for message in emptied.messages:
            self.add(message)
        for key in emptied.keys:
            self._order.add(key)
        self._drop_indexes()

    def take(self, message: QueuedMessage) -> None:
        """Take the message off the queue: the message is not available any more."""
        key = message.key
        self._order.remove(key)
        self.messages.pop(key, None)
        if self._is_indexed:
            self._forget(message)

    def lose(self, key: int) -> None:
        """Take a damaged message off the queue. Its entry in an index stays, and finds nothing."""
        self._order.remove(key)

    def holds(self, key: int) -> bool:
        """Whether the message at this place is available."""
        return key in self.messages or key in self._order

    def at(self, key: int, ahead: int = 1) -> QueuedMessage | None:
        """Return the message at this place; None if the message is not available or is damaged.

        If the message is on disk only, read up to `ahead` messages from this place on into memory.
        """
        message = self.messages.get(key)
        if message is None and self._pages is not None and key in self._order:
            nearby = self._order.ones_from(key, ahead)
            self._pages.read(self, [each for each in nearby if each not in self.messages])
            message = self.messages.get(key)
        return message

    def first(self, count: int) -> list[QueuedMessage]:
        """Return up to `count` available messages, in order."""
        keys = self._order.first_ones(max(0, count))
        found = [self.messages.get(key) for key in keys]
        if None in found:
            found = [self.at(key, _READ_AHEAD) for key in keys]
        return [message for message in found if message is not None]

    def take_first(self, messages: Sequence[QueuedMessage]) -> None:
        """Take these messages off the queue; they must be its first messages, in order."""
        if len(messages) == 1 or self._is_indexed:
            for message in messages:
                self.take(message)
            return
        self._order.remove_first(len(messages))
        for message in messages:
            self.messages.pop(message.key, None)

    def clear(self) -> Emptied:
        """Take every available message off the queue and return the messages."""
        emptied = Emptied(tuple(self.messages.values()), tuple(key for key in self._order if key not in self.messages))
        self.messages = {}
        self._order = SortedKeys()
        self._drop_indexes()
        return emptied

    def next_match(self, match: Match | None, after: int) -> QueuedMessage | None:
        """Return the first available message behind the place `after` that matches. If `match` is None, any message matches."""
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
        """Return the available message that arrived first, of all priorities; None if there is no message.

        The queue must be in the order of priority and arrival.
        """
        firsts = [self._order.after(order_key(priority, 0) - 1) for priority in range(_PRIORITY_MAX + 1)]
        return self._earliest(key for key in firsts if key is not None)

    def oldest_of_all(self) -> QueuedMessage | None:
        """Return the available message that arrived first, in any order of the queue. The cost grows with the depth."""
        return self._earliest(self._order)

    def _earliest(self, keys: Iterable[int]) -> QueuedMessage | None:
        key = min(keys, key=serial_of, default=None)
        return None if key is None else self.at(key)

    def _next(self, after: int) -> QueuedMessage | None:
        while True:
            key = self._order.first() if after == BEFORE_FIRST else self._order.after(after)
            if key is None:
                return None
            message = self.at(key, _READ_AHEAD)
            if message is not None:  # otherwise it was damaged, and is lost now
                return message

    def _places(self, match: Match, after: int) -> Iterable[int] | None:
        """Return the keys behind `after` that can match, in order; None if every key can match."""
        if match.serial is not None:
            keys = (order_key(priority, match.serial) for priority in range(_PRIORITY_MAX, -1, -1))
            return (key for key in keys if key > after)
        candidates = self._candidates(match)
        if candidates is None or after == BEFORE_FIRST:
            return candidates
        if isinstance(candidates, SortedList):
            return candidates.irange(after, inclusive=(False, True))
        return candidates[bisect_right(candidates, after) :]

    def _all_after(self, after: int) -> Iterator[int]:
        # A batch at a time, because the loss of a damaged message changes the order.
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
        """Return the only keys that can match, in order; None if every key can match."""
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
