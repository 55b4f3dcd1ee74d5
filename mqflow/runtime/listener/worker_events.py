"""Reports the work of a worker as events, and records the results in the state of the listener.

This module decides nothing and settles nothing. An event that no hook wants is not made. A hook with a `ListenerTally` wants no
event of an ordinary message.
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
from mqflow.runtime.listener.handler_call import COMPLETED
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
        #: The tally of the first hook that has one. Usually, no other hook has a tally.
        self._tally: Final = state.tallies[0] if state.tallies else None
        self._other_tallies: Final = state.tallies[1:]
        # Asked once, because every message comes here: the hooks of an application do not change while it runs.
        self._wants_settled: Final = state.broadcast.wanted(Settled)
        #: The hooks that need an event for each message got, and for each completed unit of work.
        self._of_each_message: Final = state.broadcast.without_tally(Delivered)
        self._of_each_unit: Final = state.broadcast.without_tally(Settled)
        self._others_of_each_message: Final = bool(self._other_tallies or self._of_each_message)
        self._others_of_each_unit: Final = bool(self._other_tallies or self._of_each_unit)

    def delivered(self, deliveries: Sequence[Delivery]) -> None:
        """Report messages that were got and are handled next."""
        tally = self._tally
        if tally is not None:
            tally.delivered += len(deliveries)
        if not self._others_of_each_message:
            return
        for other in self._other_tallies:
            other.delivered += len(deliveries)
        broadcast, spec = self._state.broadcast, self._spec
        for delivery in deliveries if self._of_each_message else ():
            got = delivery.got
            event = Delivered(
                queue=spec.queue,
                message_id=got.descriptor.message_id,
                listener=spec.name,
                backout_count=got.descriptor.backout_count,
                body_bytes=got.data_bytes,
            )
            broadcast.pass_on(event, self._of_each_message)

    def completed(self, deliveries: Sequence[Delivery], settle_s: float) -> None:
        """Report deliveries whose handlers have completed, and whose unit of work was committed in `settle_s` seconds."""
        tally = self._tally
        if tally is not None:  # the usual case of `complete` is here, because every message comes here
            handled_s = deliveries[0].handled_s if len(deliveries) == 1 else _handled_s(deliveries)
            if handled_s + settle_s > tally.quick_s:
                tally.complete(handled_s, settle_s)
            elif settle_s:
                tally.quick_settled += 1
                tally.handled_s += handled_s
                tally.settled_s += settle_s
            else:
                tally.quick += 1
                tally.handled_s += handled_s
        if not self._others_of_each_unit:
            return
        handled_s = _handled_s(deliveries)
        for other in self._other_tallies:
            other.complete(handled_s, settle_s)
        if self._of_each_unit:
            event = Settled(
                queue=self._spec.queue,
                listener=self._spec.name,
                settlement=Settlement.COMMIT,
                message_ids=message_ids(deliveries),
                outcome=COMPLETED,
                settle_s=settle_s,
                handled_s=handled_s,
            )
            self._state.broadcast.pass_on(event, self._of_each_unit)

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
        self, how: Settlement, deliveries: Sequence[Delivery], outcome: Outcome | None, others: Sequence[Delivery] = ()
    ) -> None:
        """Report the end of deliveries that are not `completed`: with the outcome of their handling, and the settlement."""
        if self._wants_settled:
            event = Settled(
                queue=self._spec.queue,
                listener=self._spec.name,
                settlement=how,
                message_ids=message_ids(deliveries),
                others=message_ids(others),
                outcome=outcome,
                handled_s=_handled_s(deliveries),
            )
            self._state.broadcast(event)

    def in_doubt(self, error: MQIError, ids: tuple[bytes, ...], puts: tuple[bytes, ...]) -> None:
        """Report that a commit got no answer, so that its unit of work is in doubt."""
        event = InDoubt(
            queue=self._spec.queue, listener=self._spec.name, reason=int(error.reason), message_ids=ids, put_message_ids=puts
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
    if len(deliveries) == 1:  # the usual case: without a loop
        return (deliveries[0].got.descriptor.message_id,)
    return tuple([delivery.got.descriptor.message_id for delivery in deliveries])


def _handled_s(deliveries: Sequence[Delivery]) -> float:
    """Return the seconds that the handlers of these deliveries took."""
    return sum([delivery.handled_s for delivery in deliveries])
