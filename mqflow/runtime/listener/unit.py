"""The record of one unit of work of a worker, and the possible next steps of a delivery or of a unit as closed unions.

Records only: `worker` fills them, `disposer` decides about failures, `settler` ends the unit.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from mqflow.policy.poison.disposition import Outcome
from mqflow.runtime.listener.delivery import Delivery
from mqflow.runtime.listener.poison_mover import Disposal

__all__ = (
    "CALL_HANDLER",
    "DONE",
    "BackOut",
    "CallHandler",
    "DeliveryDone",
    "DisposedDelivery",
    "Refusal",
    "Staged",
    "Step",
    "Unit",
)


class DisposedDelivery(Struct, frozen=True):
    """A delivery whose message was disposed of in the unit of work of the delivery: moved, discarded, or left."""

    delivery: Delivery
    #: The failed attempts of the message.
    count: int
    disposal: Disposal
    outcome: Outcome | None
    #: True if the handler failed on this delivery. Otherwise the message was poison before.
    was_handled: bool


class Staged(Struct, frozen=True):
    """A delivery whose message waits on the staging queue, put there in the unit of work of the delivery."""

    delivery: Delivery
    count: int
    outcome: Outcome
    pause_s: float


class Unit:
    """One unit of work: its deliveries in order, and the deliveries that ended in another way than by their handler."""

    __slots__ = ("deliveries", "disposed", "is_told", "settled_at", "settling_since", "staged")

    def __init__(self, deliveries: list[Delivery]) -> None:
        #: The messages of the unit so far, in the order of their gets.
        self.deliveries: Final = deliveries
        self.disposed: list[DisposedDelivery] = []
        self.staged: list[Staged] = []
        #: True if the thread of the session has noted this unit, so that the event `Delivered` of each delivery is reported.
        self.is_told: bool = False
        #: If the listener is watched: when the worker asked for the commit, and when the thread of the session had the answer.
        #: In monotonic seconds. Without the second time, the time of the report counts as the time of the answer.
        self.settling_since: float | None = None
        self.settled_at: float | None = None

    @property
    def ended(self) -> Sequence[DisposedDelivery | Staged]:
        """The deliveries that were disposed of or staged."""
        return (*self.disposed, *self.staged)

    @property
    def completed(self) -> Sequence[Delivery]:
        """The deliveries that were neither disposed of nor staged. After all steps, their handlers have completed."""
        if not self.disposed and not self.staged:
            return self.deliveries
        others = [each.delivery for each in self.ended]
        return [delivery for delivery in self.deliveries if delivery not in others]


class CallHandler(Struct, frozen=True):
    """Call the handler."""


class DeliveryDone(Struct, frozen=True):
    """The delivery needs nothing more. If all deliveries are done, commit the unit of work."""


class Refusal(Struct, frozen=True):
    """The reason for a pause of the listener: a message can neither be handled nor moved now."""

    why: str
    reason: int


class BackOut(Struct, frozen=True):
    """Back the unit of work out."""

    #: The deliveries whose backout counts as a failed attempt.
    failed: Sequence[Delivery]
    outcome: Outcome | None
    #: Seconds to wait before the backout; meanwhile no other worker gets the messages.
    pause_s: float = 0.0
    #: The message that stays on its queue, because no destination accepts it.
    left: DisposedDelivery | None = None
    #: Another reason for a pause of the listener.
    refusal: Refusal | None = None


Step = CallHandler | DeliveryDone | BackOut
CALL_HANDLER: Final = CallHandler()
DONE: Final = DeliveryDone()
