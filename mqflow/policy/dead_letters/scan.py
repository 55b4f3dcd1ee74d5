"""Decides which message of a dead-letter queue the handler reads next, at what time, and when the handler ends.

The module is a state machine. Its inputs are events and the time. Its output is the next place to look for a message, and the
wait there. It reads no queue and no clock. `policy.dead_letters.actions` decides about the message itself.
Source: IBM q005670 (RETRYINT, WAIT), "Ensuring that all DLQ messages are processed"; for the rescans the behaviour of IBM's
sample program amqsdlq.
"""

from typing import Final

from msgspec import Struct

__all__ = ("HISTORY_MAX", "RESCAN_RETRY_INTERVALS", "History", "Look", "Scan")

RESCAN_RETRY_INTERVALS: Final = 10
"""After this many RETRYINTs the whole queue is scanned again: a message that was committed late can be behind the cursor."""
HISTORY_MAX: Final = 100_000
"""The largest number of messages that the history remembers. They take about 20 MB."""


class Look(Struct, frozen=True):
    """The next place to look for a message."""

    #: True to look from the head of the queue, false to look after the last message that was read.
    from_head: bool = False
    #: Look only for the message with this MsgId and CorrelId (48 bytes); empty for any message.
    identity: bytes = b""
    #: The seconds to wait for a message.
    wait_s: float = 0.0
    #: Skip each message that is in the history: in the last round, only new messages count.
    new_only: bool = False


class History:
    """The number of attempts on each message that is still on the queue, for at most `HISTORY_MAX` messages.

    A message that has no room in the history is new for each scan. Therefore its rule may be attempted more often than RETRY
    allows, but never less often. If two scans of the whole queue do not find a message, the history forgets it.
    """

    def __init__(self, most: int = HISTORY_MAX) -> None:
        self._most = most
        #: The attempts by MsgId and CorrelId; 0 for a message that was ignored without an attempt.
        self._newer: dict[bytes, int] = {}
        self._older: dict[bytes, int] = {}
        #: True if a message had no room in the history.
        self.overflowed: bool = False

    def __len__(self) -> int:
        return len(self._newer) + len(self._older)

    def __contains__(self, identity: bytes) -> bool:
        return identity in self._newer or identity in self._older

    def attempts(self, identity: bytes) -> int:
        """Return the number of failed attempts on the message, and record that it is still on the queue."""
        older = self._older.pop(identity, None)
        if older is not None:
            self._newer[identity] = older
        return self._newer.get(identity, 0)

    def keep(self, identity: bytes, attempts: int) -> bool:
        """Record the attempts on the message. Return False if the history has no room for it."""
        known = identity in self
        self._older.pop(identity, None)
        if not known and len(self) >= self._most:
            self.overflowed = True
            return False
        self._newer[identity] = attempts
        return True

    def forget(self, identity: bytes) -> None:
        """Forget a message that has left the queue."""
        self._newer.pop(identity, None)
        self._older.pop(identity, None)

    def scanned(self) -> None:
        """Record the end of a scan of the whole queue."""
        self._older, self._newer = self._newer, {}


class Scan:
    """The path through the queue: forward, back to the first failed message when it is due, and sometimes from the head again.

    `wait_s` is WAIT: the scan ends after this many seconds without new work; None means that it never ends.
    """

    def __init__(self, retry_interval_s: float, wait_s: float | None, now: float) -> None:
        self._retry_interval_s = retry_interval_s
        self._wait_s = wait_s
        self._worked_at = now
        #: The first message whose attempt failed since the last round, and the time of its next attempt.
        self._retry_point: bytes
        self._retry_at: float
        self._rescan_at: float
        self._look: Look
        # True if this is the last round before the end. `_done` is true when that round is over.
        self._last_round: bool
        self._worked_in_round: bool
        self._done = False
        #: The number of completed scans of the queue, from its head to its end.
        self.rounds: int = 0
        self._from_head: bool
        self._begin_round(now)

    @property
    def in_round(self) -> bool:
        """True if a scan from the head of the queue runs."""
        return self._from_head

    def next(self, now: float) -> Look | None:
        """Return the next place to look, or None if the scan has ended."""
        if self._done:
            return None
        if self._last_round:
            self._look = Look(from_head=self._starting, new_only=True)
        elif now >= self._rescan_at and not self._starting:
            self._begin_round(now)
            self._look = Look(from_head=True, wait_s=self._until_due(now))
        elif self._retry_point and now >= self._retry_at:
            self._look = Look(from_head=True, identity=self._retry_point)
            self._retry_point = b""
            self._from_head = False
        else:
            self._look = Look(from_head=self._starting, wait_s=self._until_due(now))
        return self._look

    def found(self) -> None:
        """Record that the last `Look` found a message."""
        self._starting = False

    def found_nothing(self, now: float) -> None:
        """Record that the last `Look` found no message in its wait time."""
        if self._look.identity:  # this failed message is gone: a new scan finds the next ones
            self._begin_round(now)
            return
        self._starting = False
        if self._from_head:
            self._from_head = False
            self.rounds += 1
        if self._last_round:
            self._last_round = False
            self._done = not self._worked_in_round
        elif self._wait_s is not None and now >= self._worked_at + self._wait_s:
            self._begin_round(now, last=True)

    def worked(self, now: float) -> None:
        """Record new work: an attempt, a discarded message, or a message that is new to the scan. WAIT begins again."""
        self._worked_at = now
        self._worked_in_round = True

    def failed(self, identity: bytes, now: float) -> None:
        """Record a failed attempt. The message is due again after the retry interval."""
        self.worked(now)
        if not self._retry_point:
            self._retry_point = identity
            self._retry_at = now + self._retry_interval_s

    def _begin_round(self, now: float, *, last: bool = False) -> None:
        """Begin a round at the head of the queue. The round attempts failed messages again, but the last round skips them."""
        self._starting = True
        self._from_head = True
        self._last_round = last
        self._worked_in_round = False
        if not last:
            self._rescan_at = now + RESCAN_RETRY_INTERVALS * self._retry_interval_s
            self._retry_point = b""

    def _until_due(self, now: float) -> float:
        due = [self._rescan_at]
        if self._retry_point:
            due.append(self._retry_at)
        if self._wait_s is not None:
            due.append(self._worked_at + self._wait_s)
        return max(0.0, min(due) - now)
