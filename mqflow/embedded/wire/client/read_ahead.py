"""The messages that a connection has browsed ahead of the application, and how many to request next.

Several round trips become one. The queue manager's browse cursor is then `behind` messages ahead of the application's cursor,
and the connection must move it back before any other call. The application receives each message once, in the same order as
without reading ahead. Each message that it receives was on the queue at most `AHEAD_S` earlier. This module knows no socket and
no clock.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

from mqflow.mqi.options import GetOption
from mqflow.verbs import GetOptions, Got

__all__ = ("AHEAD_BYTES_MAX", "AHEAD_S", "ReadAhead", "may_read_ahead")

AHEAD_S: Final = 0.5
"""The longest time that a message is kept. Meanwhile other applications can get it, or put another message before it."""
AHEAD_BYTES_MAX: Final = 1024 * 1024
"""The most bytes of all bodies read ahead together. A longer next message is returned in any case."""
_AHEAD_MAX: Final = 100
# Each round trip requests more messages than the one before. So a program that browses only one message reads nothing ahead.
_GROWTH: Final = 8

_BROWSE_NEXT: Final = int(GetOption.BROWSE_NEXT)
# Options that change the message or the queue, or that depend on more than the cursor.
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
    """Return whether these options only browse the next message."""
    bits = int(options.options)
    return bool(bits & _BROWSE_NEXT) and not bits & _NOT_AHEAD


class ReadAhead:
    """The messages that one handle has read ahead."""

    __slots__ = ("_asked", "_found", "_most", "_read_at")

    def __init__(self) -> None:
        self._found: deque[Got] = deque()
        #: The options of the last browse, and the number of other calls of the connection before this browse.
        self._asked: tuple[GetOptions, int] | None = None
        self._read_at = 0.0
        self._most = 1

    @property
    def behind(self) -> int:
        """The number of messages from the application's cursor to the queue manager's."""
        return len(self._found)

    def next(self, options: GetOptions, calls: int, now_s: float) -> Got | None:
        """Return the next message if it was read ahead and is not too old, otherwise None.

        `calls` counts the other calls of the connection. After such a call, no message that was read ahead is returned, because
        the application may just have got this message.
        """
        same = (options, calls) == self._asked
        if not same:
            self._most = 1
        return self._found.popleft() if self._found and same and now_s - self._read_at <= AHEAD_S else None

    def most(self) -> int:
        """Return the number of messages to request now."""
        return self._most

    def keep(self, options: GetOptions, found: Sequence[Got], calls: int, now_s: float) -> None:
        """Keep these messages for the next gets with these options."""
        self._found.clear()
        self._found.extend(found)
        self._asked, self._read_at = (options, calls), now_s
        self._most = min(self._most * _GROWTH, _AHEAD_MAX)

    def went_back(self) -> None:
        """Drop all messages, because the queue manager's cursor is at the application's position again."""
        self._found.clear()

    def forget(self) -> None:
        """Drop all messages, and request only one message next."""
        self._found.clear()
        self._asked = None
        self._most = 1
