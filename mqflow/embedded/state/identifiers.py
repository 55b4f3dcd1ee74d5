"""The names that the queue manager creates: message identifiers, names of dynamic queues, dates and times.

The code is pure, except for a counter. The caller passes the time.
"""

from datetime import UTC, datetime
from typing import Final

from mqflow.embedded.rules.refusal import Refusal
from mqflow.mqi.names import OBJECT_NAME_CHARS_MAX, is_object_name, padded
from mqflow.mqi.reason_codes import Reason

__all__ = ("Identifiers", "Timestamps", "dynamic_queue_name", "queue_manager_identifier")

_DIGITS: Final = 16
_MICROSECONDS: Final = 1_000_000


class Identifiers:
    """Makes increasing identifiers: `AMQ `, 12 characters of the queue manager's name, 8 bytes that are never used twice.

    The first identifier is the microsecond of the start plus the number of messages ever stored. So a restart continues above
    the old identifiers even if the clock stands still. Increasing identifiers keep the indexes on disk fast.
    """

    __slots__ = ("_next", "_next_name", "_prefix")

    def __init__(self, queue_manager: str, start_s: float, next_serial: int) -> None:
        self._prefix = b"AMQ " + padded(queue_manager, 12)
        self._next = int(start_s * _MICROSECONDS) + next_serial
        self._next_name = self._next

    def number(self) -> int:
        """Return a new number for the name of a connection or a dynamic queue."""
        self._next_name += 1
        return self._next_name

    def identifier(self) -> bytes:
        """Return a new MsgId or CorrelId."""
        self._next += 1
        return self._prefix + self._next.to_bytes(8, "big")


class Timestamps:
    """Returns PutDate and PutTime of a moment. It keeps the last texts, because many messages share a hundredth of a second."""

    __slots__ = ("_date", "_hundredth", "_second", "_time", "_time_of_day")

    def __init__(self) -> None:
        self._second = -1
        self._hundredth = -1
        self._date = ""
        self._time_of_day = ""
        self._time = ""

    def of(self, wall_s: float) -> tuple[str, str]:
        """Return ``YYYYMMDD`` and ``HHMMSSTH`` in GMT."""
        second = int(wall_s)
        hundredth = int((wall_s - second) * 100)
        if second != self._second:
            moment = datetime.fromtimestamp(second, UTC)
            self._date = moment.strftime("%Y%m%d")
            self._time_of_day = moment.strftime("%H%M%S")
            self._second = second
            self._hundredth = -1
        if hundredth != self._hundredth:
            self._hundredth = hundredth
            self._time = f"{self._time_of_day}{hundredth:02d}"
        return self._date, self._time


def queue_manager_identifier(name: str, date: str, time: str, wall_s: float) -> str:
    """Return the QMID of a queue manager created at this moment: name, date and time, as in IBM MQ, then the microseconds.

    The microseconds distinguish queue managers that a script creates with the same name within a second. A QMID has 48
    characters, so a long name is cut at its end.
    """
    microseconds = int(wall_s * _MICROSECONDS) % _MICROSECONDS
    moment = f"_{date}_{time}.{microseconds:06}"
    return name[: OBJECT_NAME_CHARS_MAX - len(moment)] + moment


def dynamic_queue_name(wanted: str, number: int) -> str:
    """Return the name of a new dynamic queue: `wanted` itself, or its prefix before `*` and 16 hexadecimal digits.

    Refuses with 2011 an invalid name, or a prefix of more than 32 characters.
    Source: IBM q026100.
    """
    prefix, star, rest = wanted.partition("*")
    name = f"{prefix}{number:0{_DIGITS}X}" if star else wanted
    if rest or not is_object_name(name):  # a longer prefix makes a name of more than 48 characters
        raise Refusal(Reason.DYNAMIC_Q_NAME_ERROR, f"{wanted!r} is neither a name nor a prefix and '*'")
    return name
