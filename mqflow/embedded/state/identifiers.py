"""Names the queue manager makes: message identifiers, dynamic queues, dates and times.

Pure but for a counter; the clock's value is passed in.
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
    """Makes identifiers that grow: `AMQ `, 12 characters of the queue manager's name, 8 bytes that are never used twice.

    They start at the microsecond of the start plus the messages that were ever stored, so a restart continues above them even
    where the clock stands still. Growing ones keep indexes on disk fast.
    """

    __slots__ = ("_next", "_next_name", "_prefix")

    def __init__(self, queue_manager: str, start_s: float, next_serial: int) -> None:
        self._prefix = b"AMQ " + padded(queue_manager, 12)
        self._next = int(start_s * _MICROSECONDS) + next_serial
        self._next_name = self._next

    def number(self) -> int:
        """Return a number never given before, for names of connections and dynamic queues."""
        self._next_name += 1
        return self._next_name

    def identifier(self) -> bytes:
        """Return a new MsgId or CorrelId."""
        self._next += 1
        return self._prefix + self._next.to_bytes(8, "big")


class Timestamps:
    """PutDate and PutTime of a moment; remembers the last hundredth of a second: under load many messages share its text."""

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
    """Return the QMID of a queue manager made at this moment: name, date and time, as IBM MQ's are, then the microseconds.

    Those tell two apart that were made under one name in one second, as scripts and tests do. Of a long name the end is left
    out: a QMID has 48 characters.
    """
    microseconds = int(wall_s * _MICROSECONDS) % _MICROSECONDS
    moment = f"_{date}_{time}.{microseconds:06}"
    return name[: OBJECT_NAME_CHARS_MAX - len(moment)] + moment


def dynamic_queue_name(wanted: str, number: int) -> str:
    """Return the name of a new dynamic queue: as wanted, or where it ends in `*`, that prefix and 16 hexadecimal digits.

    Refuses with 2011 a name that is none, or a prefix of more than 32 characters.
    Source: IBM q026100.
    """
    prefix, star, rest = wanted.partition("*")
    name = f"{prefix}{number:0{_DIGITS}X}" if star else wanted
    if rest or not is_object_name(name):  # a prefix of more than 32 characters makes a name of more than 48
        raise Refusal(Reason.DYNAMIC_Q_NAME_ERROR, f"{wanted!r} is neither a name nor a prefix and '*'")
    return name
