"""Reports the work of a worker as events, and notes the results in the state of the listener.

This module decides nothing and settles nothing. An event that no hook wants is not made.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from msgspec.structs import replace

from mqflow.events import Decided, Delivered, Disposed, InDoubt, Settled
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.policy.poison import backout
from mqflow.policy.poison.disposition import Failed, Outcome, Return, Settlement, Undecodable
from mqflow.policy.poison.moved_message import Why
from mqflow.runtime.listener.backout_settings import BackoutSettings
from mqflow.runtime.listener.delivery import Delivery
from mqflow.runtime.listener.listener_state import ListenerState
from mqflow.runtime.listener.move_poison import Disposal

__all__ = ("WorkerEvents",)


class WorkerEvents:
    """Reports the events of one worker."""

    def __init__(self, state: ListenerState) -> None:
        self._state: Final = state
        self._spec: Final = state.spec

    def delivered(self, deliveries: Sequence[Delivery]) -> None:
        """Report messages that were got and are handled next."""
        broadcast, spec = self._state.broadcast, self._spec
        if not broadcast.wanted(Delivered):
            return
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

    def decided(
        self,
        delivery: Delivery,
        descriptor: MessageDescriptor,
        settings: BackoutSettings,
        plan: backout.Plan,
        outcome: Outcome | None,
    ) -> Decided:
        """Report a backout decision, and return the event."""
        event = Decided(
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
        )
        self._state.broadcast(event)
        return event

    def disposed(self, delivery: Delivery, count: int, disposal: Disposal, outcome: Outcome | None) -> None:
        """Report that a poison message was moved or stays. If the message stays, pause the listener."""
        state, message_id = self._state, delivery.got.descriptor.message_id
        for sent in disposal.reports:
            state.broadcast(sent)
        event = Disposed(
            queue=self._spec.queue,
            message_id=message_id,
            listener=self._spec.name,
            backout_count=count,
            attempts=disposal.attempts,
            outcome=outcome,
        )
        state.broadcast(event)
        if isinstance(disposal.disposition, Return):
            refusals = "; ".join(attempt.detail for attempt in disposal.attempts if attempt.detail)
            reason = next((attempt.reason for attempt in disposal.attempts if attempt.reason), 0)
            why = f"message {message_id.hex()} stays on {self._spec.queue}: {disposal.disposition.why}. {refusals}".rstrip()
            state.refuse(why, reason, message_id, stop_delivery=disposal.disposition.stop_delivery)
        else:
            state.forget(message_id)
            state.accept()

    def settled(self, how: Settlement, ids: tuple[bytes, ...], outcome: Outcome | None, handled_s: float) -> None:
        """Report that a unit of work was committed or backed out."""
        if self._state.broadcast.wanted(Settled):
            event = Settled(
                queue=self._spec.queue,
                listener=self._spec.name,
                settlement=how,
                message_ids=ids,
                outcome=outcome,
                handled_s=handled_s,
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
        """Return the reasons for a move, which the moved message has in an RFH2 folder."""
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
