"""Decides which message of a dead-letter queue the handler reads next, at what time, and when the handler ends.

It is a state machine: the inputs are events and the time; the output is the next place to look, and the wait there. This module
knows no connection and reads no clock. `policy.dead_letters.actions` decides about the message itself.
Source: IBM q005670 (RETRYINT, WAIT), "Ensuring that all DLQ messages are processed"; for the rescans the behaviour of IBM's
sample program amqsdlq.
"""

from typing import Final

from msgspec import Struct

__all__ = ("HISTORY_MAX", "RESCAN_RETRY_INTERVALS", "History", "Look", "Scan")

RESCAN_RETRY_INTERVALS: Final = 10
"""After this many RETRYINTs the queue is scanned again, for messages that arrived before the cursor or were committed late."""
HISTORY_MAX: Final = 100_000
"""The most messages on the queue that the history remembers: some 20 MB."""


class Look(Struct, frozen=True):
    """The next place to look."""

    #: Look from the head of the queue; otherwise look behind the last message that was read.
    from_head: bool = False
    #: Look for this message only (MsgId and CorrelId, 48 bytes); empty for any message.
    identity: bytes = b""
    #: The seconds to wait if there is no message.
    wait_s: float = 0.0
    #: Skip every message in the history: this is the last round, and these messages are not due.
    new_only: bool = False


class History:
    """The attempts on messages that are still on the queue; bounded, with a flag that is set if there was no room.

    The scan treats a message that is left out as new each time. Its rule may be attempted more often than RETRY allows, never
    less often. A message that two scans of the whole queue did not find is forgotten.
    """

    def __init__(self, most: int = HISTORY_MAX) -> None:
        self._most = most
        #: MsgId and CorrelId -> attempts; 0 for a message that was ignored without an attempt.
        self._newer: dict[bytes, int] = {}
        self._older: dict[bytes, int] = {}
        #: True if a message was left out.
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
        """Record the message; return False if there is no room."""
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

    `wait_s` is WAIT: the seconds without new work before the end; None to never end.
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
        # True if the last round before the end runs, and whether it is over.
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
        """Return the next place to look, or None at the end."""
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
        """Record that the last `Look` found no message within its wait."""
        if self._look.identity:  # the first failure is gone: a scan from the head finds the failures behind it
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
        """Record new work: an attempt, a discarded message, a message seen for the first time. WAIT begins again."""
        self._worked_at = now
        self._worked_in_round = True

    def failed(self, identity: bytes, now: float) -> None:
        """Record a failed attempt: the message is due again after the retry interval."""
        self.worked(now)
        if not self._retry_point:
            self._retry_point = identity
            self._retry_at = now + self._retry_interval_s

    def _begin_round(self, now: float, *, last: bool = False) -> None:
        """Go to the head of the queue. The round attempts failed messages again; the last round skips them."""
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
