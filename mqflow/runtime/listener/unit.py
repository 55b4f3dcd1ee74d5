"""The record of one unit of work of a worker, and the possible next steps for a delivery or a unit.

This module has records only: `worker` fills them, `disposer` decides about failures, `settler` ends the unit.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from mqflow.policy.poison.disposition import Outcome
from mqflow.runtime.listener.delivery import Delivery
from mqflow.runtime.listener.poison_mover import Disposal
from mqflow.verbs import ObjectHandle

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
    """A delivery whose message was moved, discarded or left on its queue, in the unit of work of the delivery."""

    delivery: Delivery
    #: The number of failed attempts on the message.
    count: int
    disposal: Disposal
    outcome: Outcome | None
    #: True if the handler failed in this delivery; false if the message was poison before.
    was_handled: bool


class Staged(Struct, frozen=True):
    """A delivery whose message was put on the staging queue, in the unit of work of the delivery."""

    delivery: Delivery
    count: int
    outcome: Outcome
    pause_s: float


class Unit:
    """One unit of work: its deliveries in order, and those of them whose messages were moved, discarded or staged."""

    __slots__ = ("deliveries", "disposed", "handle", "is_told", "settle_s", "settling_since", "staged")

    def __init__(self, deliveries: list[Delivery], handle: ObjectHandle | None = None) -> None:
        #: The messages of the unit so far, in the order in which they were got.
        self.deliveries: Final = deliveries
        #: The handle on which they were got, if it is not the handle of the worker. A handle saves the context of the message
        #: that was got last.
        self.handle: Final = handle
        self.disposed: list[DisposedDelivery] = []
        self.staged: list[Staged] = []
        #: True if the thread of the session has recorded this unit, so the event `Delivered` of each delivery is reported from
        #: there.
        self.is_told: bool = False
        #: Only if the listener is watched: when the worker asked for the commit, in monotonic seconds. If the thread of the
        #: session has committed the unit, `settle_s` has the seconds of the commit instead.
        self.settling_since: float | None = None
        self.settle_s: float = 0.0

    @property
    def is_redelivered(self) -> bool:
        """True if a message of the unit was backed out before. A message from the staging queue can be at any place."""
        return any(delivery.got.descriptor.backout_count for delivery in self.deliveries)

    @property
    def ended(self) -> Sequence[DisposedDelivery | Staged]:
        """The deliveries whose messages were moved, discarded or staged."""
        return (*self.disposed, *self.staged)

    @property
    def completed(self) -> Sequence[Delivery]:
        """The deliveries that are not in `ended`. At the end of the unit, their handlers have completed."""
        if not self.disposed and not self.staged:
            return self.deliveries
        others = [each.delivery for each in self.ended]
        return [delivery for delivery in self.deliveries if delivery not in others]


class CallHandler(Struct, frozen=True):
    """The next step: call the handler."""


class DeliveryDone(Struct, frozen=True):
    """The next step: nothing more for this delivery. If all deliveries are done, commit the unit of work."""


class Refusal(Struct, frozen=True):
    """The reason why the listener pauses: a message can neither be handled nor moved now."""

    why: str
    reason: int


class BackOut(Struct, frozen=True):
    """The next step: back out the unit of work."""

    #: The deliveries for which this backout counts as a failed attempt.
    failed: Sequence[Delivery]
    outcome: Outcome | None
    #: The seconds to wait before the backout. Until then no other worker can get the messages.
    pause_s: float = 0.0
    #: The message that stays on its queue because no destination accepts it.
    left: DisposedDelivery | None = None
    #: Another reason why the listener pauses; None if there is no other reason.
    refusal: Refusal | None = None


Step = CallHandler | DeliveryDone | BackOut
CALL_HANDLER: Final = CallHandler()
DONE: Final = DeliveryDone()
