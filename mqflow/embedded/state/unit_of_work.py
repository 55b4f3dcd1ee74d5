"""A unit of work: what a connection has put and got and not yet settled.

Its puts are on no queue; only its own gets find them. Its gets are on no queue either; their places are kept. Knows how to
remember, not how to settle: that is `settling`.
"""

from bisect import bisect_right, insort
from collections.abc import Callable, Sequence

from mqflow.embedded.rules.get_plan import Match, matches
from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.backlog import LocalQueue, QueuedMessage
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.subscription import RetainedPublication

__all__ = ("UnitOfWork",)


class UnitOfWork:
    """One connection's, reused for each unit of work after the other."""

    __slots__ = ("_own_keys", "discarded", "gets", "has_persistent", "marks", "operations", "puts", "retained", "undo")

    def __init__(self) -> None:
        self.puts: dict[int, tuple[LocalQueue, QueuedMessage]] = {}
        self.gets: list[tuple[LocalQueue, QueuedMessage]] = []
        #: Publications to retain, in the order in which they were published.
        self.retained: list[RetainedPublication] = []
        #: In-flight marks of the store for messages in `gets`.
        self.marks: list[int] = []
        #: What MAXUMSGS counts: puts, gets and the reports they caused.
        self.operations = 0
        #: Whether a store may have to know of it.
        self.has_persistent = False
        #: Serials of stored messages that go with the commit, and do not come back where it is refused.
        self.discarded: list[int] = []
        #: What a backout has to undo besides, last first: where handles had left off.
        self.undo: list[Callable[[], None]] = []
        self._own_keys: dict[LocalQueue, list[int]] = {}

    def check_room(self, operations: int, operations_max: int) -> None:
        """Refuse with 2024 more operations than MAXUMSGS allows; what is in the unit of work stays usable."""
        if self.operations + operations > operations_max:
            raise Refusal(Reason.SYNCPOINT_LIMIT_REACHED, f"MAXUMSGS is {operations_max}")

    def add_put(self, queue: LocalQueue, message: QueuedMessage) -> None:
        """Hold a message until the commit."""
        queue.uncommitted += 1
        self.operations += 1
        if message.descriptor.persistence:
            self.has_persistent = True
        self.puts[message.key] = (queue, message)
        keys = self._own_keys.get(queue)
        if keys is None:
            self._own_keys[queue] = [message.key]
        else:
            insort(keys, message.key)

    def add_get(self, queue: LocalQueue, message: QueuedMessage) -> None:
        """Hold a message that was taken off its queue."""
        queue.uncommitted += 1
        self.operations += 1
        if message.stored:
            self.has_persistent = True
        self.gets.append((queue, message))

    def add_gets(self, queue: LocalQueue, messages: Sequence[QueuedMessage]) -> None:
        """Hold messages that were taken off their queue."""
        queue.uncommitted += len(messages)
        self.operations += len(messages)
        for message in messages:
            if message.stored:
                self.has_persistent = True
            self.gets.append((queue, message))

    def retain(self, publication: RetainedPublication) -> None:
        """Hold a publication that will be its topic's retained one."""
        self.operations += 1
        # Also one that is not persistent: it may take the place of one that is.
        self.has_persistent = True
        self.retained.append(publication)

    def take_own(self, queue: LocalQueue, message: QueuedMessage) -> None:
        """Forget a put of this unit of work: it was got again within it (which counts as well), or expired."""
        self.operations += 1
        queue.uncommitted -= 1
        del self.puts[message.key]
        self._own_keys[queue].remove(message.key)

    def holds_puts_to(self, queue: LocalQueue) -> bool:
        """Whether a get from the queue may find a put of this unit of work."""
        return bool(self._own_keys.get(queue))

    def next_own(self, queue: LocalQueue, match: Match | None, after: int) -> QueuedMessage | None:
        """Return the first put of this unit of work to the queue that matches, behind the place `after`."""
        keys = self._own_keys.get(queue)
        if not keys:
            return None
        for position in range(bisect_right(keys, after), len(keys)):
            message = self.puts[keys[position]][1]
            if match is None or (match.serial in {None, message.serial} and matches(match, message.descriptor)):
                return message
        return None

    def clear(self) -> None:
        """Begin anew."""
        self.has_persistent = False
        self.operations = 0
        self.gets.clear()
        if self.puts or self._own_keys:
            self.puts.clear()
            self._own_keys.clear()
        if self.marks or self.undo or self.retained:
            self.discarded.clear()
            self.marks.clear()
            self.undo.clear()
            self.retained.clear()
