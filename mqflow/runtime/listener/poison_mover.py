"""Carries out a plan for a poison message: tries the destinations in order, in the unit of work of the message.

This module only puts messages. The caller has got the message under syncpoint on this session, and settles afterwards.
`policy.poison.backout` decides the destinations; `policy.poison.moved_message` makes the message to put.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, assert_never

from msgspec import Struct
from msgspec.structs import replace

from mqflow.events import Attempt, ReportSent
from mqflow.many_verbs import inquire_dead_letter_queue, leads_back, open_to_put, put_somewhere
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError, NotAuthorizedError, error_for
from mqflow.mqi.options import OpenOption, Persistence, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison import backout, moved_message, report
from mqflow.policy.poison.disposition import Behaviour, DeadLetter, Deliver, Discard, Disposition, Requeue, Return
from mqflow.policy.reconnect.reason_classes import needs_reconnect
from mqflow.runtime.connection.session import Session
from mqflow.verbs import Got, ObjectDescriptor, ObjectHandle
from mqflow.world import Clock

__all__ = ("ContextNotSetError", "Disposal", "PoisonMover")

_TARGET: Final = OpenOption.OUTPUT | OpenOption.PASS_ALL_CONTEXT | OpenOption.FAIL_IF_QUIESCING
_TARGET_WITH_CONTEXT: Final = OpenOption.OUTPUT | OpenOption.SET_ALL_CONTEXT | OpenOption.FAIL_IF_QUIESCING
_TOO_BIG: Final = frozenset(
    {
        Reason.MSG_TOO_BIG_FOR_Q,
        Reason.MSG_TOO_BIG_FOR_Q_MGR,
        Reason.MSG_TOO_BIG_FOR_CHANNEL,
        Reason.DATA_LENGTH_ERROR,  # a client's reason if MAXMSGL of its channel is too small
    }
)
_MOVE: Final = PutOption.SYNCPOINT | PutOption.PASS_ALL_CONTEXT | PutOption.FAIL_IF_QUIESCING
_MOVE_WITH_CONTEXT: Final = PutOption.SYNCPOINT | PutOption.SET_ALL_CONTEXT | PutOption.FAIL_IF_QUIESCING


class ContextNotSetError(Exception):
    """The message must be got again alone: its context is not saved, and the user may not set it on the target (2035)."""


class Disposal(Struct, frozen=True):
    """The result of a plan that was carried out: how each attempt ended."""

    #: The attempts in order. The last attempt succeeded. If it is a `Return`, the caller must back out.
    attempts: tuple[Attempt, ...]
    reports: tuple[ReportSent, ...] = ()

    @property
    def disposition(self) -> Disposition:
        """The disposition that succeeded."""
        return self.attempts[-1].disposition


class PoisonMover(Struct, frozen=True):
    """Carries out plans for the messages of one session."""

    session: Session
    #: The handle on which the message was got, open for input with SAVE_ALL_CONTEXT.
    handle: ObjectHandle
    #: The queue that the messages are on.
    queue: str
    behaviour: Behaviour
    application_name: str
    clock: Clock
    #: True if the sender of a request gets an answer if its request is moved or discarded.
    answers_requests: bool = False
    #: True if the message was got last on the handle, which then has the context of the message: its user, put time and so on.
    #: Otherwise a put passes on the context of another message, so the mover sets the context from the descriptor.
    has_context: bool = True

    async def carry_out(self, got: Got, plan: backout.Plan, why: moved_message.Why) -> Disposal:
        """Try the destinations of the plan in order, until one accepts the message. Return all attempts, with their reasons.

        Raises `MQIError` if the connection is lost, or if the last destination of the plan fails. Raises `ContextNotSetError`.
        """
        attempts: list[Attempt] = []
        while True:
            disposition = plan[0]
            try:
                await self._try(got, disposition, why)
            except MQIError as error:
                if len(plan) == 1 or needs_reconnect(error):
                    raise
                attempts.append(Attempt(disposition, int(error.reason), str(error)))
                plan = backout.refused(plan, int(error.reason))
                continue
            attempts.append(Attempt(disposition))
            return Disposal(tuple(attempts), await self._reports(got, attempts, why))

    async def _try(self, got: Got, disposition: Disposition, why: moved_message.Why) -> None:
        match disposition:
            case Requeue(queue=queue):
                await self._requeue(got, queue, why)
            case DeadLetter(queue=queue, reason=reason):
                await self._put(got, queue, *self._dead_letter(got.descriptor, got.body, reason, self.queue))
            case Deliver() | Discard() | Return():
                return
            case _:
                assert_never(disposition)

    async def _requeue(self, got: Got, queue: str, why: moved_message.Why) -> None:
        """Put the message with mqflow's header. If the message is too large with the header, put it without."""
        descriptor, body = moved_message.to_backout_queue(got.descriptor, got.body, folders=(moved_message.folder(why),))
        try:
            await self._put(got, queue, descriptor, body)
        except MQIError as error:
            if error.reason not in _TOO_BIG or len(body) == len(got.body):
                raise
            await self._put(got, queue, *moved_message.as_it_is(got.descriptor, got.body))

    async def _put(self, got: Got, queue: str, descriptor: MessageDescriptor, body: bytes) -> None:
        """Put the message. Raises 2522 if the target is the message's own queue, because it would come back again and again."""
        connection, call = self.session.connection, self.session.call
        opening, putting = (_TARGET, _MOVE) if self.has_context else (_TARGET_WITH_CONTEXT, _MOVE_WITH_CONTEXT)
        context = self.handle if self.has_context else None
        try:
            target = await call(open_to_put, connection, queue, opening)
        except NotAuthorizedError as error:
            if self.has_context:
                raise
            raise ContextNotSetError(str(error)) from error
        try:
            if leads_back(target, self.handle, got.resolved_queue):
                detail = f"The name leads back to {got.resolved_queue}, where the message came from"
                raise error_for(Reason.INVALID_DESTINATION, "MQPUT", queue, connection.queue_manager_name, detail)
            await call(put_somewhere, connection, target, descriptor, body, putting, context=context)
        finally:
            try:
                await call(connection.close, target)
            except MQIError as error:
                if needs_reconnect(error):
                    raise
                # The put has succeeded. If this error counted as a refused put, the message would be put a second time.

    async def _reports(self, got: Got, attempts: Sequence[Attempt], why: moved_message.Why) -> tuple[ReportSent, ...]:
        """Send, in the same unit of work, the exception report that the sender asked for, or the answer to a request.

        Source: IBM q032680: a message that did not go to the backout requeue queue causes the report that its sender asked for.
        """
        owed, disposition = None, attempts[-1].disposition
        if report.is_exception_report_owed(got.descriptor, disposition, self.behaviour):
            owed = report.exception_report(got.descriptor, got.body, feedback=_feedback(attempts))
        if owed is None and self.answers_requests:
            owed = report.answer_to_failure(got.descriptor, got.body, disposition, feedback=_cause(why))
        if owed is None:
            return ()
        reason = await self._put_report(owed)
        sent = ReportSent(
            queue=self.queue,
            message_id=got.descriptor.message_id,
            reply_to_queue=owed.reply_to_queue,
            feedback=owed.descriptor.feedback,
            reason=reason,
        )
        return (sent,)

    async def _put_report(self, owed: report.ReportMessage) -> int:
        """Put the report on the reply queue. Return the reason code of a refusal, or 0.

        A refused report goes to the dead-letter queue. A refused answer to a request is dropped, because nobody waits for it
        any more.
        """
        connection = self.session.connection
        put1 = connection.put1
        put = PutOption.SYNCPOINT | PutOption.FAIL_IF_QUIESCING
        target = ObjectDescriptor(owed.reply_to_queue, queue_manager=owed.reply_to_queue_manager)
        try:
            await self.session.call(put1, target, owed.descriptor, owed.body, put)
        except MQIError as error:
            if needs_reconnect(error):
                raise
            if not owed.is_kept:
                if error.reason != Reason.PERSISTENT_NOT_ALLOWED or not owed.descriptor.persistent:
                    return int(error.reason)
                # Most requesters use a temporary dynamic queue, and it accepts only nonpersistent messages.
                not_persistent = replace(owed.descriptor, persistence=Persistence.NOT_PERSISTENT)
                return await self._put_report(replace(owed, descriptor=not_persistent))
            # Inquired here: if the sender wants the message discarded, the plan does not name the dead-letter queue.
            queue, _ = await self.session.call(inquire_dead_letter_queue, connection)
            if queue:
                descriptor, body = self._dead_letter(owed.descriptor, owed.body, int(error.reason), owed.reply_to_queue)
                await self.session.call(put1, queue, descriptor, body, put)
            return int(error.reason)
        return Reason.NONE

    def _dead_letter(
        self, descriptor: MessageDescriptor, body: bytes, reason: int, destination: str
    ) -> tuple[MessageDescriptor, bytes]:
        return moved_message.to_dead_letter_queue(
            descriptor,
            body,
            reason=reason,
            queue=destination,
            queue_manager=self.session.connection.queue_manager_name,
            application_name=self.application_name,
            now=datetime.fromtimestamp(self.clock.wall(), UTC),
        )


def _feedback(attempts: Sequence[Attempt]) -> int:
    """Return why the message did not go to the backout requeue queue: the reason of the first refused put, or of the MQDLH."""
    refusals = [attempt.reason for attempt in attempts if attempt.reason]
    if refusals:
        return refusals[0]
    last = attempts[-1].disposition
    return last.reason if isinstance(last, DeadLetter) else Reason.BACKOUT_THRESHOLD_REACHED


def _cause(why: moved_message.Why) -> int:
    """Return the code that tells the sender why its message was not handled: the reason that the MQDLH of the message has."""
    return Reason.JMS_FORMAT_ERROR if why.outcome == "undecodable" else Reason.BACKOUT_THRESHOLD_REACHED
