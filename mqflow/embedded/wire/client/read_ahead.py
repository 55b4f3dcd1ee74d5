"""Browsing ahead: which messages behind the browse cursor an application has here already, and how many to ask for next.

Several ways there and back become one. The queue manager's cursor is then further than the application's: `behind` says by how
much, for whoever has to put it back before another call. What is promised: messages come in the order, and once, as without;
one that is shown was there at most `AHEAD_S` before. Knows no socket and no clock.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

from mqflow.mqi.options import GetOption
from mqflow.verbs import GetOptions, Got

__all__ = ("AHEAD_BYTES_MAX", "AHEAD_S", "ReadAhead", "may_read_ahead")

AHEAD_S: Final = 0.5
"""How long a message read ahead may be shown: others may have got it meanwhile, or put another before it."""
AHEAD_BYTES_MAX: Final = 1024 * 1024
"""What the bodies read ahead have together; the next one always, however long."""
_AHEAD_MAX: Final = 100
# A program that looks at one message and does something about it reads nothing ahead; one that goes on, soon much.
_GROWTH: Final = 8

_BROWSE_NEXT: Final = int(GetOption.BROWSE_NEXT)
# What changes the message or the queue as it is browsed, or goes by more than the cursor.
_NOT_AHEAD: Final = int(
    GetOption.LOCK
    | GetOption.MARK_BROWSE_HANDLE
    | GetOption.MARK_BROWSE_CO_OP
    | GetOption.UNMARK_BROWSE_HANDLE
    | GetOption.UNMARK_BROWSE_CO_OP
    | GetOption.UNMARKED_BROWSE_MSG
    | GetOption.LOGICAL_ORDER
    | GetOption.COMPLETE_MSG
    | GetOption.ALL_MSGS_AVAILABLE
    | GetOption.ALL_SEGMENTS_AVAILABLE
)


def may_read_ahead(options: GetOptions) -> bool:
    """Return whether these options only step to the next message and look at it."""
    bits = int(options.options)
    return bool(bits & _BROWSE_NEXT) and not bits & _NOT_AHEAD


class ReadAhead:
    """What one handle has read ahead."""

    __slots__ = ("_calls", "_found", "_most", "_options", "_read_at")

    def __init__(self) -> None:
        self._found: deque[Got] = deque()
        self._options: GetOptions | None = None
        self._calls = 0
        self._read_at = 0.0
        self._most = 1

    @property
    def behind(self) -> int:
        """By how many messages the application's cursor is behind the queue manager's."""
        return len(self._found)

    def next(self, options: GetOptions, calls: int, now_s: float) -> Got | None:
        """Return the next message where it is here and as good as new.

        `calls` counts what else the connection was used for: after any of that nothing read before is shown, because the
        application would see what it has just got itself.
        """
        same = options == self._options and calls == self._calls
        if not same:
            self._most = 1
        return self._found.popleft() if self._found and same and now_s - self._read_at <= AHEAD_S else None

    def most(self) -> int:
        """Return how many messages to ask for now."""
        return self._most

    def keep(self, options: GetOptions, found: Sequence[Got], calls: int, now_s: float) -> None:
        """Have these as what comes next; asked for by these options."""
        self._found.clear()
        self._found.extend(found)
        self._options, self._calls, self._read_at = options, calls, now_s
        self._most = min(self._most * _GROWTH, _AHEAD_MAX)

    def forget(self) -> None:
        """Have nothing, and begin with one again."""
        self._found.clear()
        self._options = None
        self._most = 1
