"""The reports that the queue manager creates: arrival (COA), delivery (COD), expiration.

A report is put in the unit of work of the put or get that caused it. If the reply-to queue refuses the report, the report goes
to the dead-letter queue, with an MQDLH. If that put fails too, the report is dropped. Callers hold the queue manager's lock.
Source: IBM q097680, "Report (MQLONG)": MQRO_COA, MQRO_COD, MQRO_EXPIRATION; "DeadLetterQName".
"""

from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from msgspec.structs import replace

from mqflow.embedded.calls.enqueue import check_not_staged, check_persistence, check_room, place, transmitted
from mqflow.embedded.calls.open import remote_definition, transmission_of
from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.backlog import QueuedMessage
from mqflow.embedded.state.objects import UnitOfWork
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.mqi.descriptor import EXPIRY_UNLIMITED, NO_ID, MessageDescriptor
from mqflow.mqi.options import ApplicationType, Feedback, Format, Report
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.moved_message import to_dead_letter_queue
from mqflow.policy.poison.report import ReportMessage, report

__all__ = ("report_arrival", "report_delivery", "report_expiration", "send")

_NAME_CHARS: Final = 28
_NOT_DELIVERED: Final = frozenset({Format.DEAD_LETTER_HEADER, Format.XMIT_Q_HEADER})


def report_arrival(state: QueueManagerState, unit: UnitOfWork, message: QueuedMessage) -> None:
    """Put the COA report that the message requests, in the unit of work of the put."""
    _send(state, unit, message.descriptor, message.body, Report.COA_MASK, Feedback.COA)


def report_delivery(state: QueueManagerState, unit: UnitOfWork, descriptor: MessageDescriptor, body: bytes) -> None:
    """Put the COD report that the message requests, in the unit of work of the get.

    A message with an MQDLH or an MQXQH in front causes no report, because it is not delivered yet. We know no page of IBM for
    this rule.
    """
    if descriptor.format in _NOT_DELIVERED:
        return
    _send(state, unit, descriptor, body, Report.COD_MASK, Feedback.COD)


def report_expiration(state: QueueManagerState, unit: UnitOfWork, message: QueuedMessage) -> None:
    """Put the expiration report that the message requests, in a separate unit of work. The report itself never expires."""
    descriptor = replace(message.descriptor, expiry_tenths=EXPIRY_UNLIMITED)
    _send(state, unit, descriptor, message.body, Report.EXPIRATION_MASK, Feedback.EXPIRATION)


def _send(
    state: QueueManagerState, unit: UnitOfWork, about: MessageDescriptor, body: bytes, mask: Report, feedback: Feedback
) -> None:
    owed = report(about, body, mask=mask, feedback=feedback)
    if owed is not None:
        send(state, unit, owed)


def send(state: QueueManagerState, unit: UnitOfWork | None, owed: ReportMessage) -> None:
    """Put a message of the queue manager itself in `unit`, or outside a unit of work if `unit` is None.

    If the target queue refuses the message, put it on the dead-letter queue.
    """
    now = state.clock.wall()
    date, time = state.timestamps.of(now)
    descriptor = replace(
        owed.descriptor,
        message_id=state.identifiers.identifier() if owed.descriptor.message_id == NO_ID else owed.descriptor.message_id,
        put_application_type=ApplicationType.QMGR,
        put_application_name=state.name[:_NAME_CHARS],
        put_date=date,
        put_time=time,
    )
    try:
        _put(state, unit, replace(owed, descriptor=descriptor))
    except Refusal as refusal:
        _dead_letter(state, unit, replace(owed, descriptor=descriptor), refusal.reason)


def _dead_letter(state: QueueManagerState, unit: UnitOfWork | None, refused: ReportMessage, reason: int) -> None:
    descriptor, body = to_dead_letter_queue(
        refused.descriptor,
        refused.body,
        reason=reason,
        queue=refused.reply_to_queue,
        queue_manager=refused.reply_to_queue_manager or state.name,
        application_name=state.name[:_NAME_CHARS],
        application_type=ApplicationType.QMGR,
        now=datetime.fromtimestamp(state.clock.wall(), UTC),
    )
    # If the dead-letter queue refuses too, the report is dropped. A queue manager may drop no other message.
    with suppress(Refusal):
        state.local_queue(state.attributes.dead_letter_queue)
        _put(state, unit, ReportMessage(state.attributes.dead_letter_queue, "", descriptor, body))


def _put(state: QueueManagerState, unit: UnitOfWork | None, report_message: ReportMessage) -> None:
    name, descriptor, body = report_message.reply_to_queue, report_message.descriptor, report_message.body
    manager, through = report_message.reply_to_queue_manager, ""
    if (alias := state.manager_alias(manager)) is not None:
        manager, through = alias.attributes.remote_queue_manager, alias.attributes.transmission_queue
    opened = state.queues.get(name) if manager in {"", state.name} else None
    remote = remote_definition(state, opened)
    if remote is not None:
        queue, to = transmission_of(state, remote.attributes)
    elif manager in {"", state.name}:
        queue, to = state.local_queue(name), None
    else:
        queue, to = state.transmission_queue(through, manager), (name, manager)
    if any(each is not None and each.attributes.put_inhibited for each in (alias, opened, remote, queue)):
        raise Refusal(Reason.PUT_INHIBITED)
    if to is not None:
        descriptor, body = transmitted(state, descriptor, body, to)
    check_not_staged(queue, descriptor)
    check_room(state, queue, len(body))
    check_persistence(queue, descriptor.persistence)
    place(state, unit, queue, descriptor, body, state.clock.wall())
