"""Sends a unit of work in parts, so that the application reads one part while the server writes the next.

A part is short enough to arrive before the application's thread blocks, and long enough to cost little for each message. A part
has up to 16 messages, or fewer if the messages are long. The length of the previous part decides the number, because long
messages are mostly followed by long messages. This module knows `requests`, but no socket.
"""

from collections.abc import Callable, Sequence
from typing import Final

from mqflow.embedded.wire.protocol.requests import Exchanged
from mqflow.verbs import Got

__all__ = ("MESSAGES_MAX", "PART_BYTES", "AnswerParts")

MESSAGES_MAX: Final = 16
"""The most messages in a part."""
PART_BYTES: Final = 48 * 1024
"""The desired length of a part with long messages: Linux delivers this many bytes of a write in one piece."""


class AnswerParts:
    """Splits the units of work of one connection into parts."""

    __slots__ = ("_messages",)

    def __init__(self) -> None:
        self._messages = MESSAGES_MAX

    def send_all_but_last(self, unit: Sequence[Got], send: Callable[[Exchanged], int]) -> Exchanged:
        """Send all parts except the last, in order, and return the last part. `send` returns the number of bytes sent."""
        start = 0
        while len(unit) - start > self._messages:
            end = start + self._messages
            part_bytes = send(Exchanged(unit=tuple(unit[start:end]), more=True))
            self._messages = max(1, min(MESSAGES_MAX, (end - start) * PART_BYTES // max(1, part_bytes)))
            start = end
        return Exchanged(unit=tuple(unit[start:]))
