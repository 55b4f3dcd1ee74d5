"""The reports a queue manager makes itself: arrival, delivery, expiration; and what becomes of one nobody takes.

A report is put in the unit of work of whoever caused it, or at once. One that cannot be put goes to the dead-letter queue
behind an MQDLH; where there is none, or it refuses as well, it is dropped.
Source: IBM q097680; "DeadLetterQName"; facts of MQRO_COA, MQRO_COD, MQRO_EXPIRATION.
"""

from datetime import UTC, datetime
from typing import Final

from msgspec.structs import replace

from mqflow.embedded.local_queue import LocalQueue, QueuedMessage
from mqflow.embedded.machine import Machine
from mqflow.embedded.placing import check_room, place
from mqflow.embedded.refusal import Refusal
from mqflow.embedded.unit_of_work import UnitOfWork
from mqflow.mqi.descriptor import EXPIRY_UNLIMITED, NO_ID, MessageDescriptor
from mqflow.mqi.options import ApplicationType, Feedback, Format, Report
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.moved import to_dead_letter_queue
from mqflow.policy.report import report

__all__ = ("report_arrival", "report_delivery", "report_expiration")

_NAME_CHARS: Final = 28
_ON_ITS_WAY: Final = frozenset({Format.DEAD_LETTER_HEADER, Format.XMIT_Q_HEADER})


def report_arrival(machine: Machine, unit: UnitOfWork | None, message: QueuedMessage) -> None:
    """Put the COA report the message asks for, in the putter's unit of work."""
    _send(machine, unit, message.descriptor, message.body or b"", Report.COA_MASK, Feedback.COA)


def report_delivery(machine: Machine, unit: UnitOfWork | None, descriptor: MessageDescriptor, body: bytes) -> None:
    """Put the COD report the message asks for, in the getter's unit of work.

    A message that is on its way, behind an MQDLH or an MQXQH, was not delivered (recalled, not read again).
    """
    if descriptor.format in _ON_ITS_WAY:
        return
    _send(machine, unit, descriptor, body, Report.COD_MASK, Feedback.COD)


def report_expiration(machine: Machine, message: QueuedMessage) -> None:
    """Put the expiration report the message asks for; it is part of no unit of work, and has no expiry of its own."""
    descriptor = replace(message.descriptor, expiry_tenths=EXPIRY_UNLIMITED)
    _send(machine, None, descriptor, message.body or b"", Report.EXPIRATION_MASK, Feedback.EXPIRATION)


def _send(
    machine: Machine, unit: UnitOfWork | None, about: MessageDescriptor, body: bytes, mask: Report, feedback: Feedback
) -> None:
    owed = report(about, body, mask=mask, feedback=feedback)
    if owed is None:
        return
    now = machine.clock.wall()
    date, time = machine.timestamps.of(now)
    descriptor = replace(
        owed.descriptor,
        message_id=machine.identifiers.identifier() if owed.descriptor.message_id == NO_ID else owed.descriptor.message_id,
        put_application_type=ApplicationType.QMGR,
        put_application_name=machine.name[:_NAME_CHARS],
        put_date=date,
        put_time=time,
    )
    try:
        queue = _reply_queue(machine, owed.reply_to_queue, owed.reply_to_queue_manager)
        _check_open_for_puts(machine, queue, len(owed.body))
    except Refusal as refusal:
        _dead_letter(machine, unit, descriptor, owed.body, owed.reply_to_queue, refusal.reason)
    else:
        place(machine, unit, queue, descriptor, owed.body, now)


def _dead_letter(
    machine: Machine, unit: UnitOfWork | None, descriptor: MessageDescriptor, body: bytes, intended: str, reason: int
) -> None:
    now = machine.clock.wall()
    moved, dead_body = to_dead_letter_queue(
        descriptor,
        body,
        reason=reason,
        queue=intended,
        queue_manager=machine.name,
        application_name=machine.name[:_NAME_CHARS],
        application_type=ApplicationType.QMGR,
        now=datetime.fromtimestamp(now, UTC),
    )
    try:
        queue = machine.local_queue(machine.attributes.dead_letter_queue)
        _check_open_for_puts(machine, queue, len(dead_body))
    except Refusal:
        return  # nothing takes it: a report is the one message a queue manager may drop
    place(machine, unit, queue, moved, dead_body, now)


def _reply_queue(machine: Machine, name: str, queue_manager: str) -> LocalQueue:
    if queue_manager not in {"", machine.name}:
        raise Refusal(Reason.UNKNOWN_REMOTE_Q_MGR)
    return machine.local_queue(name)


def _check_open_for_puts(machine: Machine, queue: LocalQueue, body_bytes: int) -> None:
    if queue.attributes.put_inhibited:
        raise Refusal(Reason.PUT_INHIBITED)
    check_room(machine, queue, body_bytes)
