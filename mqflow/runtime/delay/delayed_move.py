"""Moves one staged message to its target, in the unit of work that gets the message. The caller ends this unit.

Any program that may put on a staging queue can write messages for any target there. So a move uses the authority of the user
that put the message there (alternate-user authority), unless the queue manager itself has staged the message.

One function makes all calls of a move, so that a session with a thread needs only one request. `policy.delivery_delay` decides
about the target. The result contains events. They are true only when the unit of work has ended as `DelayedResult` says.
Source: IBM, "JMS 2.0 delivery delay", "Failure to put to target queue" and "Report messages".
"""

from datetime import UTC, datetime
from typing import Any, Final

from msgspec import Struct

from mqflow.events import DelayedDelivered, DelayedRefused, Event, ReportSent
from mqflow.many_verbs import inquire_queue_manager
from mqflow.mqi.descriptor import NO_ID, MessageDescriptor
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.headers import delay as delay_header
from mqflow.mqi.headers.delay import DelayHeader
from mqflow.mqi.options import Feedback, GetOption, MatchOption, OpenOption, Persistence, PutOption, Report
from mqflow.mqi.reason_codes import Reason
from mqflow.policy import delivery_delay
from mqflow.policy.poison import moved_message
from mqflow.policy.poison.backout_count_header import with_count
from mqflow.policy.poison.disposition import DeadLetter, Discard, Disposition, Return, Settlement
from mqflow.policy.poison.disposition_record import DispositionRecord, RecordOutcome
from mqflow.policy.poison.report import ReportMessage, exception_report, report
from mqflow.policy.reconnect.reason_classes import needs_reconnect
from mqflow.runtime.decision_records import ConnectionRecorder
from mqflow.runtime.delay.stage import moment
from mqflow.verbs import Connection, GetOptions, ObjectDescriptor, ObjectHandle
from mqflow.world import Clock

__all__ = ("DelayedMove", "DelayedResult", "check_alternate_user")

_PUT: Final = PutOption.SYNCPOINT | PutOption.FAIL_IF_QUIESCING
# The attribute PROPCTL can hide message properties from a get. A message that is moved must keep its properties.
_GET: Final = GetOption.SYNCPOINT | GetOption.FAIL_IF_QUIESCING | GetOption.PROPERTIES_FORCE_MQRFH2
_PASS: Final = _PUT | PutOption.PASS_ALL_CONTEXT
_GONE: Final = frozenset({Reason.UNKNOWN_OBJECT_NAME, Reason.Q_DELETED, Reason.NO_SUBSCRIPTION})


class DelayedResult(Struct, frozen=True):
    """The settlement that the unit of work needs, and the events that become true with this settlement."""

    settlement: Settlement
    events: tuple[Event, ...] = ()
    #: The size of the body that was put, because the caller limits the bytes of a unit of work.
    body_bytes: int = 0
    #: The reason code of the target's refusal; 0 if the target accepted the message.
    reason: int = 0
    #: The record that the caller must put before the commit of the unit of work; None for no record, and for a backout.
    record: DispositionRecord | None = None


_NOT_TOGETHER: Final = DelayedResult(Settlement.BACKOUT)


class DelayedMove(Struct, frozen=True):
    """Moves messages from one staging queue, on one connection."""

    connection: Connection
    #: The handle of the staging queue, open for input with SAVE_ALL_CONTEXT.
    handle: ObjectHandle
    staging_queue: str
    clock: Clock
    application_name: str
    #: Makes a record of the outcome of each message, for the same unit of work; None for no records.
    records: ConnectionRecorder | None = None
    #: True if targets and reply queues are opened with the authority of the user in the staged message's descriptor.
    as_sender: bool = False

    def deliver(self, message_id: bytes, *, own_unit: bool = True) -> DelayedResult | None:
        """Get the message and put it on its target. Return None if the message is gone: another processor has moved it.

        If the result says BACKOUT, no queue accepted the message, and the caller must `postpone` it. `own_unit` is true if the
        unit of work has no other message. If it has others, BACKOUT can also mean that the unit itself was refused (2024). Then
        the caller must move each message in a unit of its own. Raises `MQIError` if the get fails or the connection is lost.
        """
        got = self.connection.get(self.handle, _exactly(message_id))
        if got is None:
            return None
        now = moment(self.clock)
        header = delay_header.parse(got.body)
        descriptor, body = delivery_delay.restored(got.descriptor, header, got.body, now)
        if delivery_delay.has_expired(header, now):
            owed = report(descriptor, body, mask=Report.EXPIRATION_MASK, feedback=Feedback.EXPIRATION)
            record = self._record(RecordOutcome.EXPIRED, header, descriptor, body)
            return self._with_report((), descriptor, owed, header, record, own_unit=own_unit)
        put, data = descriptor, body
        if header.subscription_id != NO_ID:
            # Whether the subscription still exists is known only to the queue manager.
            put, data = got.descriptor, got.body
        elif header.backout_count:
            put, data = with_count(descriptor, body, header.backout_count)
        try:
            target, options = self._opened_as(header.target, header.target_queue_manager, got.descriptor)
            done = self.connection.put1(target, put, data, _PASS | options, context=self.handle)
        except MQIError as error:
            _raise_if_lost(error)
            return self._refused(header, descriptor, body, error) if own_unit else _NOT_TOGETHER
        # The queue manager gives each publication a new MsgId at its put.
        there = descriptor if header.subscription_id == NO_ID else done.descriptor
        record = self._record(RecordOutcome.RELEASED, header, there, body, now=now)
        late_ms = max(0, -delivery_delay.due_in_ms(header, now))
        delivered = DelayedDelivered(
            queue=header.target, message_id=descriptor.message_id, delay_ms=header.delay_ms, late_ms=late_ms
        )
        return DelayedResult(Settlement.COMMIT, (delivered,), len(body), record=record)

    def postpone(self, message_id: bytes, *, reason: int = 0) -> bool:
        """Put the message back on the staging queue with a later due time. Return False if the message is no longer there.

        The caller must commit. `reason` is the reason code of the target's refusal.
        """
        got = self.connection.get(self.handle, _exactly(message_id))
        if got is None:
            return False
        header = delay_header.parse(got.body)
        body = delivery_delay.postponed(header, got.body, moment(self.clock), retry_ms=delivery_delay.retry_in_ms(header))
        self.connection.put1(self.staging_queue, got.descriptor, body, _PASS | PutOption.NEW_MSG_ID, context=self.handle)
        if self.records is not None:
            sent, data = delivery_delay.restored(got.descriptor, header, got.body, moment(self.clock))
            left = self._record(RecordOutcome.LEFT, header, sent, data, mqrc=reason or None, target_queue=header.target)
            if left is not None:
                self.records.put_all(self.connection, [left])
        return True

    def _opened_as(self, queue: str, queue_manager: str, sender: MessageDescriptor) -> tuple[ObjectDescriptor, PutOption]:
        """Return the object to open, and the option of MQPUT1 that decides whose authority counts."""
        if not self.as_sender:
            return ObjectDescriptor(queue, queue_manager=queue_manager), PutOption.NONE
        target = ObjectDescriptor(queue, queue_manager=queue_manager, alternate_user=sender.user_identifier)
        return target, PutOption.ALTERNATE_USER_AUTHORITY

    def _refused(self, header: DelayHeader, descriptor: MessageDescriptor, body: bytes, error: MQIError) -> DelayedResult:
        """Dead-letter, discard or keep a message that the target refused, as its report options say."""
        reason = int(error.reason)
        plan = delivery_delay.on_refused(
            header,
            reason=reason,
            dead_letter_queue=inquire_queue_manager(self.connection).dead_letter_queue,
            subscriber_gone=header.subscription_id != NO_ID and error.reason in _GONE,
        )
        done = self._carry_out(plan, header, descriptor, body)
        refused = DelayedRefused(
            queue=header.target, message_id=descriptor.message_id, disposition=done, reason=reason, detail=str(error)
        )
        if not delivery_delay.owes_exception_report(done):
            return DelayedResult(Settlement.BACKOUT, (refused,), reason=reason)
        owed = exception_report(descriptor, body, feedback=reason)
        outcome, queue = RecordOutcome.DISCARDED, None
        if isinstance(done, DeadLetter):
            outcome, queue = RecordOutcome.DEAD_LETTERED, done.queue
        record = self._record(outcome, header, descriptor, body, mqrc=reason, target_queue=queue)
        return self._with_report((refused,), descriptor, owed, header, record)

    def _record(
        self,
        outcome: RecordOutcome,
        header: DelayHeader,
        about: MessageDescriptor,
        body: bytes,
        *,
        now: delivery_delay.ClockReading | None = None,
        **more: Any,  # further fields of the record
    ) -> DispositionRecord | None:
        """Return the record of a message for its target. With `now`, the record also has the due time of the message."""
        if self.records is None:
            return None
        at_us = self.records.now_us() if now is None else now.wall_ms * 1_000
        if now is not None:
            # The record has the due time that the sender asked for, without the postponements after refusals.
            more["due_ts"] = at_us + (delivery_delay.due_in_ms(header, now) - header.retry_ms) * 1_000
        return self.records.make(
            self.connection,
            outcome,
            about,
            queue=header.target,
            queue_manager=header.target_queue_manager,
            at_us=at_us,
            msg_len=len(body),
            delay_req_ms=header.delay_ms,
            **more,
        )

    def _carry_out(
        self, plan: delivery_delay.Plan, header: DelayHeader, descriptor: MessageDescriptor, body: bytes
    ) -> DeadLetter | Discard | Return:
        *puts, last = plan
        for step in puts:
            try:
                self._dead_letter(step, descriptor, body, header.target, _PASS, self.handle)
            except MQIError as error:
                _raise_if_lost(error)
            else:
                return step
        return last

    def _dead_letter(
        self,
        to: Disposition,
        descriptor: MessageDescriptor,
        body: bytes,
        destination: str,
        options: PutOption,
        context: ObjectHandle | None,
    ) -> None:
        assert isinstance(to, DeadLetter)  # noqa: S101 - every step of a plan except the last is a DeadLetter
        dead, data = moved_message.to_dead_letter_queue(
            descriptor,
            body,
            reason=to.reason,
            queue=destination,
            queue_manager=self.connection.queue_manager_name,
            application_name=self.application_name,
            now=datetime.fromtimestamp(self.clock.wall(), UTC),
        )
        self.connection.put1(to.queue, dead, data, options, context=context)

    def _with_report(
        self,
        events: tuple[Event, ...],
        about: MessageDescriptor,
        owed: ReportMessage | None,
        header: DelayHeader,
        record: DispositionRecord | None,
        *,
        own_unit: bool = True,
    ) -> DelayedResult:
        """Put the report that the sender asked for, or dead-letter it.

        If no queue accepts the report, return a result with BACKOUT; but a message that is not persistent is moved without the
        report.
        """
        if owed is None:
            return DelayedResult(Settlement.COMMIT, events, record=record)
        reason = int(Reason.NONE)
        try:
            target, options = self._opened_as(owed.reply_to_queue, owed.reply_to_queue_manager, about)
            self.connection.put1(target, owed.descriptor, owed.body, _PUT | options)
        except MQIError as error:
            _raise_if_lost(error)
            if not own_unit:
                return _NOT_TOGETHER
            reason = int(error.reason)
            undone = self._dead_letter_report(about, owed, reason)
            if undone is not None:
                stays = Return(f"No queue took its report. {undone}")
                refused = DelayedRefused(queue=header.target, message_id=about.message_id, disposition=stays, reason=reason)
                return DelayedResult(Settlement.BACKOUT, (refused,))
        sent = ReportSent(
            queue=header.target,
            message_id=about.message_id,
            reply_to_queue=owed.reply_to_queue,
            feedback=owed.descriptor.feedback,
            reason=reason,
        )
        return DelayedResult(Settlement.COMMIT, (*events, sent), record=record)

    def _dead_letter_report(self, about: MessageDescriptor, owed: ReportMessage, reason: int) -> MQIError | None:
        try:
            to = DeadLetter(inquire_queue_manager(self.connection).dead_letter_queue, reason)
            self._dead_letter(to, owed.descriptor, owed.body, owed.reply_to_queue, _PUT, None)
        except MQIError as error:
            _raise_if_lost(error)
            return delivery_delay.on_report_refused(about, error)
        return None


def check_alternate_user(connection: Connection, staging_queue: str) -> None:
    """Check, before any message is moved, that this user has alternate-user authority. Raises `MQIError` 2035 if not.

    Opens the staging queue as an alternate user, which is this same user. The name of this user comes from a put that is backed
    out.
    """
    try:
        probe = connection.put1(staging_queue, MessageDescriptor(persistence=Persistence.NOT_PERSISTENT), b"", _PUT)
        user = probe.descriptor.user_identifier
        target = ObjectDescriptor(staging_queue, alternate_user=user)
        connection.close(connection.open(target, OpenOption.BROWSE | OpenOption.ALTERNATE_USER_AUTHORITY))
    except MQIError as error:
        if error.reason == Reason.Q_FULL:  # the processor must run, to make room
            return
        if error.reason != Reason.NOT_AUTHORIZED:
            raise
        detail = (
            "It puts each message with the authority of the user that staged it. For that, its own user needs PUT on the "
            "staging queue, and alternate-user authority (ALTUSR) on the queue manager. Grant them, or let the processor put "
            f"with its own authority: app.delay_processor(own_authority=True). {error}"
        )
        manager = connection.queue_manager_name
        raise error_for(Reason.NOT_AUTHORIZED, "The delay processor", staging_queue, manager, detail) from error
    finally:
        connection.backout()


def _exactly(message_id: bytes) -> GetOptions:
    return GetOptions(options=_GET, match=MatchOption.MSG_ID, message_id=message_id)


def _raise_if_lost(error: MQIError) -> None:
    if needs_reconnect(error):
        raise error
