"""Tools for tests of rules tables: they put dead letters, and run a DLQ handler to its end in virtual time.

    events = run_rules(mq, Path("rules.tbl").read_text(), queue="DEAD.LETTERS")

This file knows the clock of the embedded queue manager only as a clock with `advance`.
"""

from datetime import UTC, datetime
from typing import Final, Protocol

from msgspec.structs import replace

from mqflow.events import DeadLetterActed, Event
from mqflow.many_verbs import disconnect_without_commit
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import Encoding, OpenOption, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.dead_letters.actions import matchers
from mqflow.policy.dead_letters.rules import Control, RulesError, RulesTable, parse
from mqflow.policy.dead_letters.scan import RESCAN_RETRY_INTERVALS
from mqflow.policy.poison import moved_message
from mqflow.runtime.dead_letters.dead_letter_handler import DeadLetterHandler, Rules, end_unit
from mqflow.runtime.hooks import Broadcast
from mqflow.testing.kit import QueueManagerKit
from mqflow.verbs import Connection, Put
from mqflow.world import Clock

__all__ = ("Advancing", "drive", "put_dead_letter", "run_rules")


_LOOKS_IN_VAIN_MAX: Final = 100_000


class Advancing(Clock, Protocol):
    """A clock that moves on request."""

    def advance(self, seconds: float) -> None:
        """Move the clock forward by this many seconds."""


def put_dead_letter(
    connection: Connection,
    dead_letter_queue: str,
    body: bytes = b"",
    *,
    reason: int = Reason.Q_FULL,
    queue: str = "",
    queue_manager: str = "",
    descriptor: MessageDescriptor | None = None,
    encoding: int = Encoding.NATIVE,
    at: datetime | None = None,
) -> Put:
    """Put a message with an MQDLH that names this queue and reason. The put is outside syncpoint.

    `descriptor` is the original descriptor, with its Format, context and expiry. The numbers in the MQDLH have `encoding`.
    """
    described, data = moved_message.to_dead_letter_queue(
        descriptor or MessageDescriptor(),
        body,
        reason=int(reason),
        queue=queue,
        queue_manager=queue_manager or connection.queue_manager_name,
        application_name="mqflow.testing",
        now=at or datetime(2026, 1, 1, tzinfo=UTC),
        encoding=encoding,
    )
    handle = connection.open(dead_letter_queue, OpenOption.OUTPUT | OpenOption.SET_ALL_CONTEXT)
    try:
        return connection.put(handle, described, data, PutOption.NO_SYNCPOINT | PutOption.SET_ALL_CONTEXT)
    finally:
        connection.close(handle)


def run_rules(mq: QueueManagerKit, rules: str | RulesTable, *, queue: str, for_s: float | None = None) -> list[DeadLetterActed]:
    """Run a rules table on a queue to its end, in virtual time, and return its actions in order.

    The run ends after `for_s` seconds without new work. The default is the WAIT of the table; with WAIT(YES), the default is
    long enough for every retry. Raises `RulesError` for a table with errors.
    """
    table = parse(rules) if isinstance(rules, str) else rules
    if not isinstance(table, RulesTable):
        raise RulesError(table)
    acted: list[DeadLetterActed] = []

    def note(event: Event) -> None:
        mq.events.append(event)
        if isinstance(event, DeadLetterActed):
            acted.append(event)

    control = _ending(table.control, for_s)
    handler = DeadLetterHandler(Rules(control, matchers(table.rules)), queue, clock=mq.clock, broadcast=Broadcast((note,)))
    connection = mq.faults.wrap(mq.queue_manager).connect(application_name="mqflow")
    try:
        handler.open(connection)
        drive(handler, connection, mq.clock)
    finally:
        disconnect_without_commit(connection)
    return acted


def drive(handler: DeadLetterHandler, connection: Connection, clock: Advancing) -> None:
    """Run a handler to its end, and advance the clock instead of waiting.

    Raises `AssertionError` if the handler looks at messages again and again, and neither settles a message nor waits.
    """
    in_vain = 0
    while (look := handler.look()) is not None:
        got = connection.get(handler.handle, handler.options(replace(look, wait_s=0.0)))
        if got is None:
            clock.advance(look.wait_s)
        settlement = handler.act(look, got)
        waited = got is None and look.wait_s
        in_vain = 0 if waited or settlement is not None else in_vain + 1
        if in_vain > _LOOKS_IN_VAIN_MAX:
            raise AssertionError(
                f"The DLQ handler has looked for messages {in_vain} times, and has neither settled one nor waited."
            )
        if settlement is not None:
            handler.settled(end_unit(connection, settlement))
        if handler.owes_records:
            handler.record_left()
    handler.rest()


def _ending(control: Control, for_s: float | None) -> Control:
    if for_s is not None:
        return replace(control, wait_s=round(for_s))
    if control.wait_s is None:
        return replace(control, wait_s=(RESCAN_RETRY_INTERVALS + 1) * control.retry_interval_s)
    return control
