"""Decides about messages that are poison or whose handler has failed, and moves or stages them.

A message is moved in the unit of work of its delivery. The failed handler has put nothing there, so the move undoes no work,
and no other worker sees the message before it is moved. `policy` makes the plan; `settler` ends the unit of work.
"""

from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Final, assert_never

from msgspec.structs import replace

from mqflow.events import Decided, Warned
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.message_group import follows_first
from mqflow.policy.poison import backout, redelivery_delay, settlement
from mqflow.policy.poison.disposition import Completed, Deliver, Failed, Outcome, Return
from mqflow.policy.poison.settlement import Dispose, Redeliver
from mqflow.policy.reconnect.reason_classes import needs_reconnect
from mqflow.runtime.connection.session import Session
from mqflow.runtime.hooks import because
from mqflow.runtime.listener.backout_settings import BackoutSettings, why_unknown
from mqflow.runtime.listener.delivery import Delivery, Witness, put_kept
from mqflow.runtime.listener.handler_call import call_handler, call_handler_within
from mqflow.runtime.listener.listener_state import ListenerState
from mqflow.runtime.listener.poison_mover import ContextNotSetError, PoisonMover
from mqflow.runtime.listener.settler import SessionLost
from mqflow.runtime.listener.unit import (
    CALL_HANDLER,
    DONE,
    BackOut,
    DeliveryDone,
    DisposedDelivery,
    Refusal,
    Staged,
    Step,
    Unit,
)
from mqflow.runtime.listener.worker_events import WorkerEvents
from mqflow.runtime.listener.worker_records import Recorder
from mqflow.runtime.message_notes import message_key
from mqflow.verbs import ObjectHandle

__all__ = ("Disposer",)

_QUEUE_TYPE: Final = 20
"""MQIA_Q_TYPE, the number of the attribute QTYPE."""


class Disposer:
    """Decides about the failed messages of one worker, and carries the decisions out."""

    def __init__(
        self, state: ListenerState, session: Session, handle: ObjectHandle, events: WorkerEvents, records: Recorder | None
    ) -> None:
        self._state: Final = state
        self._spec: Final = state.spec
        self._session: Final = session
        self._handle: Final = handle
        self._events: Final = events
        self._records: Final = records

    async def examine(self, unit: Unit, delivery: Delivery) -> Step:
        """Decide about a message that was backed out before. If it is poison, move it; otherwise the handler gets it."""
        settings = await self._settings()
        if isinstance(settings, BackOut):
            return settings
        note = self._state.notes.read(message_key(delivery.got))
        descriptor = self._with_own_backouts(delivery, 0)
        if note.is_condemned and note.failure is not None:
            plan = self._disposed(descriptor, settings, note.failure)
        else:
            plan = self._decide(descriptor, settings)
        delivery.decision = self._events.decision(delivery, descriptor, settings, plan, None)
        if plan == (Deliver(),):
            return CALL_HANDLER
        refused, reason = self._state.refused_groups.get(message_key(delivery.got), (0, 0))
        for _ in range(min(refused, len(plan) - 1)):
            plan = backout.refused(plan, reason)
        part = await self._tell(delivery, delivery.decision)
        return await self._move(unit, delivery, part, plan, descriptor.backout_count, settings, note.failure, was_handled=False)

    async def failed(self, unit: Unit, deliveries: Sequence[Delivery], outcome: Outcome) -> Step:
        """Decide about the deliveries of one call of the handler that has failed.

        If the call had a batch of several messages, nobody knows which of them failed. Each message is then delivered again
        alone, and this failure counts for none of them. If the call had a message group, the first message decides for the
        whole group.
        """
        if len(deliveries) > 1 and not self._spec.handles_groups:
            for each in deliveries:
                self._state.notes.note_failure(message_key(each.got), outcome)
            if isinstance(outcome, Failed):
                text = f"{self._spec.name} failed for {len(deliveries)} messages together, so each is delivered again alone"
                self._state.broadcast(Warned(text=f"{text}: {because(outcome)}", queue=self._spec.queue))
            return BackOut((), outcome)
        delivery = deliveries[0]
        is_final = settlement.is_final(outcome, redeliver_undecodable=self._spec.redeliver_undecodable)
        failed_before = self._state.notes.read(message_key(delivery.got)).failure is not None
        self._state.notes.note_failure(message_key(delivery.got), outcome, is_condemned=is_final)
        settings = await self._settings()
        if isinstance(settings, BackOut):
            return replace(settings, failed=deliveries, outcome=outcome)
        descriptor = self._with_own_backouts(delivery, 1)
        count = descriptor.backout_count
        follows = settlement.after(
            outcome,
            decided=self._decide(descriptor, settings),
            disposed=self._disposed(descriptor, settings, outcome),
            pause_s=redelivery_delay.pause_s(self._spec.pace, count, self._state.random.random()),
            redeliver_undecodable=self._spec.redeliver_undecodable,
        )
        match follows:
            case settlement.Done():
                return DONE
            case Redeliver(pause_s=pause_s):
                first = count == 1 or not failed_before  # the failure of a batch does not count for its messages
                again = (Deliver(),)
                decision = self._events.decision(delivery, descriptor, settings, again, outcome, is_first_failure=first)
                await self._tell(delivery, decision)
                staged = await self._stage(unit, delivery, outcome, count, pause_s) if len(deliveries) == 1 else None
                # If the unit has other messages, it is backed out without a pause: they need not wait for this message.
                waits = staged is None and len(unit.deliveries) == len(deliveries) and not await self._is_lost(outcome)
                return staged or BackOut(deliveries, outcome, pause_s=pause_s if waits else 0.0)
            case Dispose() if len(deliveries) > 1:
                # A put passes on the context of the message that was got last, so each message must be moved directly after its
                # get. Therefore the group is backed out, and moved at its next delivery.
                return BackOut(deliveries, outcome)
            case Dispose(plan=plan):
                part = await self._tell(delivery, self._events.decision(delivery, descriptor, settings, plan, outcome))
                return await self._move(unit, delivery, part, plan, count, settings, outcome, was_handled=True)
            case _:
                assert_never(follows)

    async def _tell(self, delivery: Delivery, decision: Decided) -> Delivery:
        """Report the decision to hooks and middleware. Return a delivery of the same message with the middleware's puts."""
        spec, session = self._spec, self._session
        self._state.broadcast(decision)
        # The first delivery is over: if code of its handler still runs, it must not put in the unit of work of the move.
        part = Delivery(delivery.got, delivery.queue, delivery.listener, session)
        part.decision = delivery.decision
        for witness in spec.decided:
            kept, tell = len(part.kept_puts), partial(_tell, witness, decision)
            if spec.time_limit_s is None:
                outcome = await call_handler(tell, (part,), ())
            else:
                outcome = await call_handler_within(spec.time_limit_s, tell, (part,), ())
            if session.abandoned or not isinstance(outcome, Completed):
                session.abandoned = False  # only an open can have been abandoned here, and not a put
                del part.kept_puts[kept:]
                problem = f"{outcome.error}: {outcome.text}" if isinstance(outcome, Failed) else "it was cut off"
                message = decision.message_id.hex()
                text = f"{spec.name}: middleware failed on the decision about message {message}, and takes no part. {problem}"
                self._state.broadcast(Warned(text=text, queue=spec.queue))
        part.is_over = True
        return part

    async def _is_lost(self, outcome: Outcome) -> bool:
        """Return whether the handler failed because this worker has lost its connection. Then a pause only delays reconnecting.

        The handler can also use another connection, whose error looks the same. So this function tries the worker's connection.
        """
        error = outcome.exception if isinstance(outcome, Failed) else None
        if not isinstance(error, MQIError) or not needs_reconnect(error):
            return False
        try:
            await self._session.call(self._session.connection.inquire, self._handle, (_QUEUE_TYPE,))
        except MQIError as found:
            return needs_reconnect(found)
        return False

    async def _stage(self, unit: Unit, delivery: Delivery, outcome: Outcome, count: int, pause_s: float) -> DeliveryDone | None:
        """Stage a message whose handler asked for a long pause. Return None if it cannot be staged: then the worker waits."""
        retries, got = self._state.retries, delivery.got
        asked = isinstance(outcome, Failed) and outcome.retry_after_s is not None
        if retries is None or not asked or self._spec.strict_order or not retries.takes(got, pause_s):
            return None
        if delivery.has_puts:  # these puts would be committed together with the staged message
            return None
        queue, since = got.resolved_queue or self._spec.queue, self._state.clock.wall()
        handle = (unit.handle or self._handle) if unit.deliveries[-1] is delivery else None
        try:
            await self._session.call(retries.stage, self._session.connection, handle, got, queue, count, pause_s)
        except MQIError as error:
            _raise_if_lost(error)
            if handle is None and error.reason == Reason.NOT_AUTHORIZED:  # as in `_move`, the message needs its own unit
                return None
            text = f"{self._spec.name}: a message cannot be staged for its pause, so the worker waits with it. {error}"
            self._state.broadcast(Warned(text=text, queue=self._spec.queue))
            return None
        if self._records is not None:
            await self._records.deferred(delivery, outcome, pause_s, retries.staging_queue, since=since)
        unit.staged.append(Staged(delivery, count, outcome, pause_s))
        return DONE

    async def _move(
        self,
        unit: Unit,
        delivery: Delivery,
        part: Delivery,
        plan: backout.Plan,
        count: int,
        settings: BackoutSettings,
        outcome: Outcome | None,
        *,
        was_handled: bool,
    ) -> DeliveryDone | BackOut:
        """Move the message in its unit of work, with the middleware's puts in `part`. If the move fails, back out the unit.

        If the unit is backed out, no handler gets the message again: the next worker that gets it tries to move it. The unit is
        also backed out if the user may not set the context of a message that is not the last of the unit.
        """
        failed = (delivery,) if was_handled else ()
        if delivery.has_puts:  # these puts must be undone first
            return BackOut(failed, outcome)
        got = delivery.got
        try:
            disposal = await self._mover(unit, delivery).carry_out(got, plan, self._events.why(count, settings, outcome))
            if part.kept_puts and not isinstance(disposal.disposition, Return):
                await self._session.call(put_kept, part)
                delivery.put_message_ids += part.put_message_ids
        except ContextNotSetError:  # at its next delivery the message is the last of its unit
            return BackOut(failed, outcome)
        except MQIError as error:
            _raise_if_lost(error)
            return BackOut(failed, outcome, refusal=Refusal(f"a poison message could not be moved: {error}", int(error.reason)))
        disposed = DisposedDelivery(delivery, count, disposal, outcome, was_handled)
        if isinstance(disposal.disposition, Return):
            return BackOut(failed, outcome, left=disposed)
        if self._records is not None:
            await self._records.disposed(disposed)
        unit.disposed.append(disposed)
        return DONE

    async def follow(self, unit: Unit, delivery: Delivery) -> DeliveryDone | BackOut:
        """Move a further message of a poison group to the same destination as its first message, in the same unit of work.

        If the destination refuses it, back out the unit. The next delivery moves the whole group to the next destination of the
        plan.
        """
        settings = await self._settings()
        if isinstance(settings, BackOut):
            return settings
        state, first = self._state, unit.disposed[0]
        own = backout.dispose(delivery.got.descriptor, settings.attributes, settings.dead_letter_queue, self._spec.behaviour)
        own = settings.kept(own, delivery.got.descriptor, self._spec.behaviour)
        plan = (follows_first(first.disposal.disposition, own[-1]),)
        try:
            mover = self._mover(unit, delivery)
            disposal = await mover.carry_out(delivery.got, plan, self._events.why(first.count, settings, first.outcome))
        except MQIError as error:
            _raise_if_lost(error)
            key = message_key(first.delivery.got)
            refused, _ = state.refused_groups.get(key, (0, 0))
            state.refused_groups[key] = (refused + len(first.disposal.attempts), int(error.reason))
            return BackOut((), first.outcome)
        disposed = DisposedDelivery(delivery, first.count, disposal, first.outcome, was_handled=False)
        if isinstance(disposal.disposition, Return):
            return BackOut((), first.outcome, left=disposed)
        if self._records is not None:
            await self._records.disposed(disposed)
        unit.disposed.append(disposed)
        return DONE

    def _mover(self, unit: Unit, delivery: Delivery) -> PoisonMover:
        return PoisonMover(
            self._session,
            unit.handle or self._handle,
            self._handle.name,
            self._spec.behaviour,
            self._state.application_name,
            self._state.clock,
            self._spec.answers_requests,
            has_context=unit.deliveries[-1] is delivery,
        )

    # -- decisions

    async def _settings(self) -> BackoutSettings | BackOut:
        """Return the settings for the decision. If they cannot be inquired, return the step that backs out and pauses."""
        state = self._state
        try:
            return await state.settings.get(self._session, self._handle, state.supervisor.generation)
        except MQIError as error:
            _raise_if_lost(error)
            return BackOut((), None, refusal=Refusal(why_unknown(error), int(error.reason)))

    def _disposed(self, descriptor: MessageDescriptor, settings: BackoutSettings, outcome: Outcome) -> backout.Plan:
        """Return the plan for a message that must not be delivered again."""
        reason = settlement.dead_letter_reason(outcome)
        attributes, dead_letter_queue = settings.attributes, settings.dead_letter_queue
        plan = backout.dispose(descriptor, attributes, dead_letter_queue, self._spec.behaviour, reason=reason)
        return settings.kept(plan, descriptor, self._spec.behaviour)

    def _decide(self, descriptor: MessageDescriptor, settings: BackoutSettings) -> backout.Plan:
        """Return the plan. If the application's own function raises an exception or returns no plan, deliver again."""
        spec = self._spec

        def tell(problem: str) -> None:
            text = (
                f"{spec.name}: the application's backout decision about message {descriptor.message_id.hex()} failed, so the "
                f"message is delivered again; {problem}"
            )
            self._state.broadcast(Warned(text=text, queue=spec.queue))

        return settings.planned(spec.decide, descriptor, spec.behaviour, tell)

    def _with_own_backouts(self, delivery: Delivery, more: int) -> MessageDescriptor:
        """Return the descriptor with only those backouts in BackoutCount that the message itself has caused, plus `more`."""
        descriptor = delivery.got.descriptor
        if not descriptor.backout_count:
            return replace(descriptor, backout_count=more)
        forgiven = self._state.notes.read(message_key(delivery.got)).forgiven
        return replace(descriptor, backout_count=max(descriptor.backout_count - forgiven, 0) + more)


def _tell(witness: Witness, decision: Decided, parts: Sequence[Delivery]) -> Awaitable[None]:
    return witness(decision, parts[0])


def _raise_if_lost(error: MQIError) -> None:
    if needs_reconnect(error):
        raise SessionLost(error) from error
