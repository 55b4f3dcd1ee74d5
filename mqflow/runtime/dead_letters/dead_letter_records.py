"""Puts one record for each action of a DLQ handler. In these records the handler name is empty.

If a rule puts a message on another queue, the record has the outcome `redriven`, that queue and the rule. The next record of
the message shows whether the rule has helped. If the message is discarded or stays, the record names the dead-letter queue.
This module knows no rules table.
"""

from typing import Final, assert_never

from msgspec import Struct

from mqflow.mqi.errors import MQIError
from mqflow.policy.dead_letters.actions import Chosen, DeadLetter, Discard, Ignore, Redirect, redirected
from mqflow.policy.poison.disposition_record import EXC_MESSAGE_CHARS_MAX, RecordOutcome
from mqflow.runtime.decision_records import ConnectionRecorder
from mqflow.verbs import Connection

__all__ = ("DeadLetterRecords",)


class _Left(Struct, frozen=True):
    """A message that stays on the dead-letter queue, and has no record yet."""

    letter: DeadLetter
    at_us: int
    text: str
    #: The queue that a rule chose for the message; empty if the rule chose no queue.
    target: str
    #: The reason code of the failed action. None if the rule says that the message stays.
    reason: int | None


class DeadLetterRecords:
    """Puts the records of one handler."""

    def __init__(self, records: ConnectionRecorder, queue: str) -> None:
        self._records: Final = records
        self._queue: Final = queue
        self._left: list[_Left] = []

    def acted(self, connection: Connection, letter: DeadLetter, chosen: Chosen) -> None:
        """Put the record of a successful action, in the unit of work of the action."""
        match chosen.intent:
            case Redirect() as to:
                descriptor, data = redirected(letter, to)
                self._records.put(
                    connection,
                    RecordOutcome.REDRIVEN,
                    descriptor,
                    queue=to.queue,
                    queue_manager=to.queue_manager,
                    msg_len=len(data),
                    redrive_id=f"{self._queue} {_rule(chosen)}",
                    redrive_of=descriptor.message_id,
                )
            case Discard():
                self._records.put(
                    connection,
                    RecordOutcome.DISCARDED,
                    letter.descriptor,
                    queue=self._queue,
                    msg_len=len(letter.data),
                    exc_message=_rule(chosen)[:EXC_MESSAGE_CHARS_MAX],
                )
            case Ignore():
                return
            case _:
                assert_never(chosen.intent)

    def stays(self, letter: DeadLetter, chosen: Chosen, failure: MQIError | None = None) -> None:
        """Remember for `put_left` that a message stays: its rule ignores it, or its action has failed."""
        target = chosen.intent.queue if isinstance(chosen.intent, Redirect) else ""
        text = _rule(chosen) if failure is None else f"{_rule(chosen)}: {failure}"
        reason = None if failure is None else int(failure.reason)
        self._left.append(_Left(letter, self._records.now_us(), text[:EXC_MESSAGE_CHARS_MAX], target, reason))

    @property
    def owes(self) -> bool:
        """True if `put_left` has records to put."""
        return bool(self._left)

    def put_left(self, connection: Connection) -> None:
        """Put a record of each remembered message. These puts are outside of a unit of work."""
        left, self._left = self._left, []
        for each in left:
            self._records.put(
                connection,
                RecordOutcome.LEFT,
                each.letter.descriptor,
                queue=self._queue,
                at_us=each.at_us,
                in_unit_of_work=False,
                target_queue=each.target or None,
                mqrc=each.reason,
                exc_message=each.text,
            )


def _rule(chosen: Chosen) -> str:
    return chosen.matcher.name if chosen.matcher else "no rule left"
