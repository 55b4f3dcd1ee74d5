"""How a listener treats messages that fail: the one-line override of what the queue itself says."""

from typing import Literal

from msgspec import Struct

from mqflow.policy.disposition import Behaviour
from mqflow.policy.pacing import REDELIVERY, Pace

__all__ = ("Backout", "Batch")


class Backout(Struct, frozen=True, kw_only=True):
    """When a message is poison, where it goes, and how calmly it is tried until then."""

    #: Deliveries that may be backed out before a message is poison: "queue" reads BOTHRESH, a number overrides it, 0 never.
    threshold: int | Literal["queue"] = "queue"
    #: The backout requeue queue: "queue" reads BOQNAME, a name overrides it, "" is none. (A queue named QUEUE is upper case.)
    queue: str = "queue"
    #: The pause before each redelivery.
    pace: Pace = REDELIVERY
    #: Exceptions that no redelivery can help: the message is disposed of at once.
    never_retry: tuple[type[BaseException], ...] = ()
    #: A body that does not decode is disposed of at once, or redelivered up to the threshold like a failure.
    undecodable: Literal["at-once", "redeliver"] = "at-once"
    #: Whose rules decide.
    behaviour: Behaviour = Behaviour.JMS_LISTENER

    def __post_init__(self) -> None:
        if self.threshold != "queue" and self.threshold < 0:
            raise ValueError(
                f"Backout(threshold={self.threshold!r}): it is 'queue' (BOTHRESH), 0 for never, or a number above."
            )


class Batch(Struct, frozen=True, kw_only=True):
    """How many messages a `list[T]` handler gets at once, in one unit of work."""

    #: At the most.
    max: int = 200
    #: How long the first message waits for more, in milliseconds.
    wait_ms: int = 500

    def __post_init__(self) -> None:
        if self.max < 1 or self.wait_ms < 0:
            raise ValueError(f"{self!r}: max is 1 or more messages, wait_ms 0 or more milliseconds.")
