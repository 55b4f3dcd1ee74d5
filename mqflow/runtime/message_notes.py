"""Remembers messages that failed recently: their last failure, and the backouts that they did not cause.

The queue manager counts each backout of a message in BackoutCount, even if another message of the unit of work caused it. The
notes say which backouts do not count, which failure was the last, and which message must not be handled again. Their number is
limited. If a note is missing, no message is lost, but it may be handled more often or less often than its threshold says.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from mqflow.policy.poison.disposition import Outcome, without_exception
from mqflow.verbs import Got

__all__ = ("MemoryNotes", "MessageNotes", "Note", "message_key")

_REMEMBERED_MAX: Final = 10_000


class Note(Struct, frozen=True):
    """The facts about one message that failed before."""

    #: The number of backouts that the message did not cause: another message failed, or the worker was cancelled.
    forgiven: int = 0
    #: The last failure of the message's handler.
    failure: Outcome | None = None
    #: True if the failure was final but the message could not be moved yet. Then no handler gets the message again.
    is_condemned: bool = False


class MessageNotes(Protocol):
    """The notes about the messages of one queue. A key is the result of `message_key`."""

    def read(self, key: bytes) -> Note:
        """Return the note about the message. If there is no note, the fields have their defaults."""
        ...

    def forgive(self, keys: Iterable[bytes]) -> None:
        """Record one backout that these messages did not cause. Call it before the backout, while no other worker sees them."""

    def note_failure(self, key: bytes, outcome: Outcome, *, is_condemned: bool = False) -> None:
        """Record the last failure of the message. Call it before the backout."""

    def forget(self, key: bytes) -> None:
        """Forget the note about a message that has left its queue."""


class MemoryNotes:
    """Notes in the memory of this process. All its workers share them."""

    def __init__(self) -> None:
        self._notes: OrderedDict[bytes, Note] = OrderedDict()

    def read(self, key: bytes) -> Note:
        """Return the note about the message."""
        return self._notes.get(key, _EMPTY)

    def forgive(self, keys: Iterable[bytes]) -> None:
        """Record one backout that these messages did not cause."""
        for key in keys:
            note = self.read(key)
            self._keep(key, replace(note, forgiven=note.forgiven + 1))

    def note_failure(self, key: bytes, outcome: Outcome, *, is_condemned: bool = False) -> None:
        """Record the last failure of the message."""
        note = self.read(key)
        self._keep(key, replace(note, failure=without_exception(outcome), is_condemned=is_condemned or note.is_condemned))

    def forget(self, key: bytes) -> None:
        """Forget the note about a message that has left its queue."""
        self._notes.pop(key, None)

    def _keep(self, key: bytes, note: Note) -> None:
        self._notes[key] = note
        self._notes.move_to_end(key)
        if len(self._notes) > _REMEMBERED_MAX:
            self._notes.popitem(last=False)


_EMPTY: Final = Note()


def message_key(got: Got) -> bytes:
    """Return the bytes that identify a message on its queue: its MsgToken; or MsgId and CorrelId, if it has no token.

    Two messages can have the same MsgId and CorrelId, but no two messages have the same MsgToken.
    """
    if any(got.message_token):
        return got.message_token
    return got.descriptor.message_id + got.descriptor.correlation_id
