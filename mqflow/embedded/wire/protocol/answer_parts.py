"""In what parts a unit of work is sent, so that its reader reads one while the next is written.

A part has so few messages that the first is there before its reader falls asleep, and so many that it costs little for each: up
to 16, and of long ones as many as a socket takes at once. How long they are is seen by the part before: who gets long
messages mostly goes on to. Knows the records of `calls`; knows no socket.
"""

from collections.abc import Callable, Sequence
from typing import Final

from mqflow.embedded.wire.protocol.requests import Exchanged
from mqflow.verbs import Got

__all__ = ("MESSAGES_MAX", "PART_BYTES", "AnswerParts")

MESSAGES_MAX: Final = 16
"""How many messages a part has at most."""
PART_BYTES: Final = 48 * 1024
"""How long a part of long messages is to be, about: what Linux passes on of a write in one piece."""


class AnswerParts:
    """The parts of one connection's units."""

    __slots__ = ("_messages",)

    def __init__(self) -> None:
        self._messages = MESSAGES_MAX

    def send_all_but_last(self, unit: Sequence[Got], send: Callable[[Exchanged], int]) -> Exchanged:
        """Send the parts in order, and return the last one, which is to be sent. `send` returns how many bytes it was."""
        start = 0
        while len(unit) - start > self._messages:
            end = start + self._messages
            part_bytes = send(Exchanged(unit=tuple(unit[start:end]), more=True))
            self._messages = max(1, min(MESSAGES_MAX, (end - start) * PART_BYTES // max(1, part_bytes)))
            start = end
        return Exchanged(unit=tuple(unit[start:]))
