"""Decides which message of a dead-letter queue is looked at next, when, and when the handler has done.

A state machine that is told what happened and the time, and says where to look and how long to wait there. Knows no connection
and reads no clock. What becomes of a message is `policy.dead_letters.actions`' business.
Source: IBM q005670 (RETRYINT, WAIT); "ensuring-that-all-dlq-messages-are-processed"; facts 1.6 for the rescans.
"""

from typing import Final

from msgspec import Struct

__all__ = ("HISTORY_MAX", "RESCAN_RETRY_INTERVALS", "History", "Look", "Scan")

RESCAN_RETRY_INTERVALS: Final = 10
"""After so many RETRYINTs the queue is looked through again: for what came in before the cursor, or was committed late."""
HISTORY_MAX: Final = 100_000
"""How many messages that stay on the queue are remembered: some 20 MB."""


class Look(Struct, frozen=True):
    """Where to look next."""

    #: From the head of the queue; else behind the message that was looked at last.
    from_head: bool = False
    #: For this message only (MsgId and CorrelId, 48 bytes); empty for whichever is there.
    identity: bytes = b""
    #: How long to wait where nothing is there, in seconds.
    wait_s: float = 0.0
    #: Pass over every message that is remembered: this is the last look around, and their time has not come.
    new_only: bool = False


class History:
    """What was attempted on messages that are still on the queue; bounded, and says so when it had to leave one out.

    A message that is left out is new each time: a rule may be attempted on it more often than RETRY says, never less. What was
    not seen in two looks through the whole queue is forgotten.
    """

    def __init__(self, most: int = HISTORY_MAX) -> None:
        self._most = most
        #: MsgId and CorrelId -> attempts; 0 for a message that was ignored without one.
        self._newer: dict[bytes, int] = {}
        self._older: dict[bytes, int] = {}
        #: Whether a message was left out.
        self.overflowed = False

    def __len__(self) -> int:
        return len(self._newer) + len(self._older)

    def __contains__(self, identity: bytes) -> bool:
        return identity in self._newer or identity in self._older

    def attempts(self, identity: bytes) -> int:
        """Return how many attempts failed on the message so far, and note that it is still there."""
        older = self._older.pop(identity, None)
        if older is not None:
            self._newer[identity] = older
        return self._newer.get(identity, 0)

    def keep(self, identity: bytes, attempts: int) -> bool:
        """Remember the message; False where there is no room."""
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
        """Note that the whole queue was looked through."""
        self._older, self._newer = self._newer, {}


class Scan:
    """The way through the queue: forward, back to the first failure when its time has come, and now and then from the head.

    `wait_s` is WAIT: for how long without new work before the end; None for ever.
    """

    def __init__(self, retry_interval_s: float, wait_s: float | None, now: float) -> None:
        self._retry_interval_s = retry_interval_s
        self._wait_s = wait_s
        self._worked_at = now
        #: The first message whose attempt failed since the last time round, and when its next one is due.
        self._retry_point = b""
        self._retry_at = now
        self._rescan_at = now
        self._look = Look(from_head=True)
        # Whether the look through the whole queue that comes before the end is under way, and whether it is over.
        self._last_round = False
        self._worked_in_round = False
        self._done = False
        #: How many times the queue was looked through from its head to its end.
        self.rounds = 0
        self._from_head = False
        self._begin_round(now)

    @property
    def in_round(self) -> bool:
        """Whether the queue is being looked through from its head."""
        return self._from_head

    def next(self, now: float) -> Look | None:
        """Return where to look, or None where the handler has done."""
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
        """Note that a message was there."""
        self._starting = False

    def found_nothing(self, now: float) -> None:
        """Note that nothing was there, after the wait."""
        if self._look.identity:  # the first failure is gone: what failed behind it is to be found from the head
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
        """Note new work: an attempt, a discarded message, one seen for the first time. WAIT begins anew."""
        self._worked_at = now
        self._worked_in_round = True

    def failed(self, identity: bytes, now: float) -> None:
        """Note that an attempt failed: the message is due again after the retry interval."""
        self.worked(now)
        if not self._retry_point:
            self._retry_point = identity
            self._retry_at = now + self._retry_interval_s

    def _begin_round(self, now: float, *, last: bool = False) -> None:
        """Go to the head of the queue. What failed is attempted on the way; in the last round it is passed over."""
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
