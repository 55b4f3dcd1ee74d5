"""Reports the work of a worker as events, and records the results in the state of the listener.

This module makes no decision and settles nothing. It makes no event that no hook wants.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from msgspec.structs import replace

from mqflow.events import Decided, Delivered, Disposed, InDoubt, Settled, WaitsOnQueue
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.policy.poison import backout
from mqflow.policy.poison.disposition import Failed, Outcome, Return, Settlement, Undecodable
from mqflow.policy.poison.moved_message import Why
from mqflow.runtime.listener.backout_settings import BackoutSettings
from mqflow.runtime.listener.delivery import Delivery
from mqflow.runtime.listener.listener_state import ListenerState
from mqflow.runtime.listener.unit import BackOut, DisposedDelivery, Staged, Unit
from mqflow.runtime.message_notes import message_key

__all__ = ("WorkerEvents", "message_ids")


class WorkerEvents:
    """Reports the events of one worker."""

    def __init__(self, state: ListenerState, worker: int) -> None:
        self._state: Final = state
        self._worker: Final = worker
        self._spec: Final = state.spec
        # Asked once, because every message passes here. The hooks of an application do not change while it runs.
        self._wants_delivered: Final = state.broadcast.wanted(Delivered)
        self._wants_settled: Final = state.broadcast.wanted(Settled)

    def delivered(self, deliveries: Sequence[Delivery]) -> None:
        """Report messages that were got and are handled next."""
        if not self._wants_delivered:
            return
        broadcast, spec = self._state.broadcast, self._spec
        for delivery in deliveries:
            got = delivery.got
            event = Delivered(
                queue=spec.queue,
                message_id=got.descriptor.message_id,
                listener=spec.name,
                backout_count=got.descriptor.backout_count,
                body_bytes=got.data_bytes,
            )
            broadcast(event)

    def decision(
        self,
        delivery: Delivery,
        descriptor: MessageDescriptor,
        settings: BackoutSettings,
        plan: backout.Plan,
        outcome: Outcome | None,
        *,
        is_first_failure: bool = False,
    ) -> Decided:
        """Return the event of a backout decision."""
        return Decided(
            queue=self._spec.queue,
            message_id=delivery.got.descriptor.message_id,
            listener=self._spec.name,
            backout_count=descriptor.backout_count,
            threshold=settings.attributes.backout_threshold,
            backout_requeue_queue=settings.attributes.backout_requeue_queue,
            threshold_source=settings.threshold_source,
            queue_source=settings.queue_source,
            plan=plan,
            outcome=outcome,
            is_first_failure=is_first_failure,
            worker=self._worker,
            trace_id=delivery.trace_id,
        )

    def disposed(self, disposed: DisposedDelivery) -> None:
        """Report that a poison message was moved, discarded or left on its queue. If it was left, pause the listener."""
        state, disposal, delivery = self._state, disposed.disposal, disposed.delivery
        message_id = delivery.got.descriptor.message_id
        for sent in disposal.reports:
            state.broadcast(sent)
        event = Disposed(
            queue=self._spec.queue,
            message_id=message_id,
            listener=self._spec.name,
            backout_count=disposed.count,
            attempts=disposal.attempts,
            outcome=disposed.outcome,
            worker=self._worker,
            trace_id=delivery.trace_id,
        )
        state.broadcast(event)
        if isinstance(disposal.disposition, Return):
            refusals = "; ".join(attempt.detail for attempt in disposal.attempts if attempt.detail)
            reason = next((attempt.reason for attempt in disposal.attempts if attempt.reason), 0)
            why = f"message {message_id.hex()} stays on {self._spec.queue}: {disposal.disposition.why}. {refusals}".rstrip()
            if not disposal.disposition.stop_delivery:
                state.stays(message_key(delivery.got))
            state.refuse(why, reason, message_id, stop_delivery=disposal.disposition.stop_delivery)

    def staged(self, staged: Staged) -> None:
        """Report that a message waits on the staging queue."""
        delivery = staged.delivery
        event = WaitsOnQueue(
            queue=self._spec.queue,
            message_id=delivery.got.descriptor.message_id,
            listener=self._spec.name,
            backout_count=staged.count,
            after_s=staged.pause_s,
            staging_queue=self._state.retries.staging_queue if self._state.retries is not None else "",
        )
        self._state.broadcast(event)
        self.settled(Settlement.COMMIT, (delivery,), staged.outcome)

    def backed_out(self, unit: Unit, step: BackOut) -> None:
        """Report that a unit of work was backed out. A message that failed earlier in the unit has an outcome of its own."""
        before = [each for each in unit.ended if each.delivery not in step.failed]
        for each in before:
            self.settled(Settlement.BACKOUT, (each.delivery,), each.outcome)
        known = {*step.failed, *(each.delivery for each in before)}
        others = [delivery for delivery in unit.deliveries if delivery not in known]
        if step.failed:
            self.settled(Settlement.BACKOUT, step.failed, step.outcome, others)
        elif others:
            self.settled(Settlement.BACKOUT, others, step.outcome)

    def settled(
        self,
        how: Settlement,
        deliveries: Sequence[Delivery],
        outcome: Outcome | None,
        others: Sequence[Delivery] = (),
        *,
        settle_s: float = 0.0,
    ) -> None:
        """Report the end of deliveries whose unit of work was committed or backed out, with the outcome of their handling."""
        if self._wants_settled:
            is_one = len(deliveries) == 1  # in this usual case no loops are necessary
            event = Settled(
                queue=self._spec.queue,
                listener=self._spec.name,
                settlement=how,
                message_ids=(deliveries[0].got.descriptor.message_id,) if is_one else message_ids(deliveries),
                others=message_ids(others) if others else (),
                outcome=outcome,
                settle_s=settle_s,
                handled_s=deliveries[0].handled_s if is_one else sum([delivery.handled_s for delivery in deliveries]),
            )
            self._state.broadcast(event)

    def in_doubt(self, error: MQIError, ids: tuple[bytes, ...], puts: tuple[bytes, ...]) -> None:
        """Report that a commit got no answer, so that its unit of work is in doubt."""
        event = InDoubt(
            queue=self._spec.queue,
            listener=self._spec.name,
            reason=int(error.reason),
            message_ids=ids,
            put_message_ids=puts,
        )
        self._state.broadcast(event)

    def why(self, count: int, settings: BackoutSettings, outcome: Outcome | None) -> Why:
        """Return the reasons for a move. The moved message carries them in an RFH2 folder."""
        reasons = Why(
            queue=self._spec.queue,
            queue_manager=self._state.supervisor.queue_manager_name,
            outcome="" if outcome is None else type(outcome).__name__.lower(),
            handler=self._spec.name,
            count=count,
            threshold=settings.attributes.backout_threshold,
            application_name=self._state.application_name,
            at=datetime.fromtimestamp(self._state.clock.wall(), UTC),
        )
        if isinstance(outcome, Failed | Undecodable):
            return replace(reasons, error=outcome.error, text=outcome.text, frame=outcome.frame)
        return reasons


def message_ids(deliveries: Sequence[Delivery]) -> tuple[bytes, ...]:
    """Return the MsgId of each delivery."""
    return tuple([delivery.got.descriptor.message_id for delivery in deliveries])
