"""Disposes of messages that a worker found to be poison, or on which its handler failed.

This module asks `policy` for the plan and backs the unit of work out. The message is then redelivered, staged or moved. The
module knows the session of its worker, and calls no handler.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, assert_never

from msgspec.structs import replace

from mqflow.events import WaitsOnQueue, Warned
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison import backout, redelivery_delay, settlement
from mqflow.policy.poison.disposition import DISPOSITIONS, Deliver, Failed, Outcome, Settlement
from mqflow.policy.poison.settlement import Dispose, Done, Redeliver
from mqflow.policy.reconnect.reason_classes import Class, classify
from mqflow.runtime.connection.session import Session
from mqflow.runtime.listener.backout_settings import BackoutSettings
from mqflow.runtime.listener.delivery import Delivery
from mqflow.runtime.listener.listener_state import ListenerState
from mqflow.runtime.listener.move_poison import Disposal
from mqflow.runtime.listener.requeuer import Task
from mqflow.runtime.listener.settle import SessionLost, Settler, message_ids
from mqflow.runtime.listener.worker_events import WorkerEvents
from mqflow.runtime.listener.worker_records import Recorder
from mqflow.verbs import ObjectHandle

__all__ = ("Disposer",)


class Disposer:
    """Disposes of the messages of one worker."""

    def __init__(
        self,
        state: ListenerState,
        session: Session,
        handle: ObjectHandle,
        *,
        settler: Settler,
        events: WorkerEvents,
        records: Recorder | None,
    ) -> None:
        self._state: Final = state
        self._spec: Final = state.spec
        self._session: Final = session
        self._handle: Final = handle
        self._settler: Final = settler
        self._events: Final = events
        self._records: Final = records

    async def found_poison(self, deliveries: Sequence[Delivery]) -> bool:
        """Decide about the last message, which was backed out before. If it is poison, dispose of it. Return whether it is."""
        delivery = deliveries[-1]
        settings = await self._settings(deliveries, None, None)
        descriptor = self._with_own_backouts(delivery, 0)
        plan = self._decide(descriptor, settings)
        delivery.decision = self._events.decided(delivery, descriptor, settings, plan, None)
        if plan == (Deliver(),):
            return False
        await self._prepare_move()
        await self._settler.back_out(deliveries, delivery, None, moved=True)
        outcome = self._state.last_failure(delivery.got.descriptor.message_id)
        decide = partial(self._decide, settings=settings)
        await self._dispose(delivery, descriptor.backout_count, settings, outcome, decide, handled=False)
        return True

    async def failed(self, deliveries: Sequence[Delivery], failed_delivery: Delivery | None, outcome: Outcome) -> None:
        """Pause, then back the unit out. If the message has reached its threshold, move it without a pause.

        `failed_delivery` is None if the handler of a batch does not say which message failed.
        """
        if failed_delivery is None:
            await self._settler.back_out(deliveries, failed_delivery, outcome)
            return
        self._state.note_failure(failed_delivery.got.descriptor.message_id, outcome)
        settings = await self._settings(deliveries, failed_delivery, outcome)
        descriptor = self._with_own_backouts(failed_delivery, 1)
        reason = settlement.dead_letter_reason(outcome)

        def disposed(held: MessageDescriptor) -> backout.Plan:
            deadq = settings.dead_letter_queue
            plan = backout.dispose(held, settings.attributes, deadq, self._spec.behaviour, reason=reason)
            return settings.kept(plan, held, self._spec.behaviour)

        decided = self._decide(descriptor, settings)
        follows = settlement.after(
            outcome,
            decided=decided,
            disposed=disposed(descriptor),
            pause_s=redelivery_delay.pause_s(self._spec.pace, descriptor.backout_count, self._state.random.random()),
            redeliver_undecodable=self._spec.redeliver_undecodable,
        )
        match follows:
            case Done():
                return
            case Redeliver(pause_s=pause_s):
                self._events.decided(failed_delivery, descriptor, settings, (Deliver(),), outcome)
                if await self._waits_on_queue(deliveries, failed_delivery, outcome, pause_s):
                    return
                if len(deliveries) == 1:  # otherwise, the other messages of the unit need not wait for this message
                    await self._state.pause(pause_s)
                await self._settler.back_out(deliveries, failed_delivery, outcome)
            case Dispose(plan=plan):
                self._events.decided(failed_delivery, descriptor, settings, plan, outcome)
                await self._prepare_move()
                await self._settler.back_out(deliveries, failed_delivery, outcome, moved=True)
                again = disposed if decided == (Deliver(),) else partial(self._decide, settings=settings)
                await self._dispose(failed_delivery, descriptor.backout_count, settings, outcome, again, handled=True)
            case _:
                assert_never(follows)

    # -- staging

    async def _waits_on_queue(
        self, deliveries: Sequence[Delivery], failed_delivery: Delivery, outcome: Outcome, pause_s: float
    ) -> bool:
        """Stage a message whose handler asked for a longer pause, and end the unit of work. Return False if it is not staged.

        If nothing else is in the unit of work, the message is staged in that unit, and nobody can get the message meanwhile.
        Otherwise the unit is backed out first. After False, the worker must wait.
        """
        retries, got = self._state.retries, failed_delivery.got
        asked = isinstance(outcome, Failed) and outcome.retry_after_s is not None
        if retries is None or not asked or self._spec.strict_order or not retries.takes(got, pause_s):
            return False
        call, connection = self._session.call, self._session.connection
        queue = got.resolved_queue or self._spec.queue
        count = got.descriptor.backout_count + 1
        own_unit = len(deliveries) == 1 and not failed_delivery.put_message_ids
        if not own_unit:
            await self._settler.back_out(deliveries, failed_delivery, outcome)
        since = self._state.clock.wall()
        try:
            if own_unit:
                await call(retries.stage, connection, self._handle, got, queue, count, pause_s)
            else:
                count = await call(retries.stage_again, connection, self._handle, got, queue, pause_s)
        except MQIError as error:
            if classify(int(error.reason)) is Class.RECONNECT:
                raise SessionLost(error) from error
            text = f"{self._spec.name}: a message cannot be staged for its pause, so the worker waits with it. {error}"
            self._state.broadcast(Warned(text=text, queue=self._spec.queue))
            if own_unit:
                return False
            await self._settler.back_out((failed_delivery,), None, outcome)  # the get for staging was not a failed delivery
            await self._state.pause(pause_s)
            return True
        if self._records is not None and count:
            await self._records.deferred(
                failed_delivery, outcome, pause_s, retries.staging_queue, since=since, own_unit=own_unit
            )
        await self._staged(failed_delivery, outcome if own_unit else None, count, pause_s, retries.staging_queue)
        return True

    async def _staged(
        self, failed_delivery: Delivery, outcome: Outcome | None, count: int, pause_s: float, staging_queue: str
    ) -> None:
        """Commit the unit of work in which the message was staged. `outcome` is None if it was reported before."""
        ids = message_ids((failed_delivery,))
        try:
            await self._session.settle(Settlement.COMMIT)
        except MQIError as error:
            await self._settler.committed((failed_delivery,), error)
            return
        if not count:  # another worker has got the message, so this worker has staged nothing
            return
        spec = self._spec
        self._state.broadcast(
            WaitsOnQueue(
                queue=spec.queue,
                message_id=ids[0],
                listener=spec.name,
                backout_count=count,
                after_s=pause_s,
                staging_queue=staging_queue,
            )
        )
        self._events.settled(Settlement.COMMIT, ids, outcome, failed_delivery.handled_s if outcome is not None else 0.0)

    # -- moving

    async def _dispose(
        self,
        delivery: Delivery,
        count: int,
        settings: BackoutSettings,
        outcome: Outcome | None,
        decide: Callable[[MessageDescriptor], backout.Plan],
        *,
        handled: bool,
    ) -> None:
        """Move the message outside the unit of work of its delivery, and report the disposition of the message."""
        descriptor = delivery.got.descriptor
        task = Task(
            message_id=descriptor.message_id,
            correlation_id=descriptor.correlation_id,
            message_token=delivery.got.message_token,
            backout_count=descriptor.backout_count + 1,
            decide=decide,
            generation=settings.generation,
            why=self._events.why(count, settings, outcome),
            record=None if self._records is None else partial(self._records.disposed, delivery, outcome, handled=handled),
        )
        try:
            disposal = await self._move(task)
        except MQIError as error:
            self._not_moved(error, descriptor.message_id)
            return
        if disposal is None:
            # Another worker has moved the message, or holds it because it found the message poison too. Two workers could take
            # two such messages from each other for ever, before the requeuer can move them. So this worker pauses.
            beyond = max(count - settings.attributes.backout_threshold, 0) + 1
            await self._state.pause(redelivery_delay.pause_s(self._spec.pace, beyond, self._state.random.random()))
            return
        self._events.disposed(delivery, count, disposal, outcome)

    async def _prepare_move(self) -> None:
        """Open the requeuer's session before the backout, because after the backout other workers can get the message."""
        if not self._spec.strict_order:
            await self._state.requeuer.prepare()

    async def _move(self, task: Task) -> Disposal | None:
        requeuer = self._state.requeuer
        if self._spec.strict_order or requeuer.is_elsewhere(self._session):
            return await requeuer.move_on(self._session, self._handle, task)
        try:
            return await requeuer.move(task)
        except MQIError as error:
            if error.reason != Reason.OBJECT_IN_USE:  # NOSHARE: the queue allows only the handle of this worker
                raise
            return await requeuer.move_on(self._session, self._handle, task)

    def _not_moved(self, error: MQIError, message_id: bytes) -> None:
        """Report that the message is still on its queue. If the commit got no answer, report that the move is in doubt."""
        if error.verb == "MQCMIT" and error.reason != Reason.BACKED_OUT:
            self._events.in_doubt(error, (message_id,), ())
        self._state.refuse(f"a poison message could not be moved: {error}", int(error.reason), message_id)

    # -- deciding

    async def _settings(
        self, deliveries: Sequence[Delivery], failed_delivery: Delivery | None, outcome: Outcome | None
    ) -> BackoutSettings:
        """Return the settings for the decision. If they cannot be inquired, back the unit out and raise the `MQIError`."""
        try:
            return await self._state.settings.get(self._session, self._handle, self._state.supervisor.generation)
        except MQIError as error:
            if classify(int(error.reason)) is Class.RECONNECT:
                raise SessionLost(error) from error
            await self._settler.back_out(deliveries, failed_delivery, outcome)
            raise

    def _decide(self, descriptor: MessageDescriptor, settings: BackoutSettings) -> backout.Plan:
        """Return the plan. If the application's own function raises an exception or returns no plan, deliver again."""
        spec = self._spec
        try:
            # Any: the application's function can return a value of another type than its annotation says.
            plan: Any = spec.decide(descriptor, settings.attributes, settings.dead_letter_queue, spec.behaviour)
            if isinstance(plan, tuple) and plan and all(isinstance(each, DISPOSITIONS) for each in plan):
                return settings.kept(plan, descriptor, spec.behaviour)
            problem = f"it returned {plan!r:.80}, and not a tuple of dispositions"
        except Exception as error:  # noqa: BLE001 - the application's own code, like a handler
            problem = f"{type(error).__name__}: {error}"
        message = descriptor.message_id.hex()
        text = (
            f"{spec.name}: the application's backout decision about message {message} failed, so the message is delivered "
            f"again; {problem}"
        )
        self._state.broadcast(Warned(text=text, queue=spec.queue))
        return (Deliver(),)

    def _with_own_backouts(self, delivery: Delivery, more: int) -> MessageDescriptor:
        """Return the descriptor; its BackoutCount has only the backouts that the message caused, plus `more`."""
        descriptor = delivery.got.descriptor
        count = self._state.blamed(descriptor.message_id, descriptor.backout_count) + more
        return replace(descriptor, backout_count=count)
