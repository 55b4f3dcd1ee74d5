"""The closed unions of the decisions: the disposition of a message, the outcome of its handling, the end of a unit of work.

Records only. `backout` makes dispositions, `settlement` reads outcomes, the runtime performs both.
"""

from enum import Enum
from typing import Final

from msgspec import Struct

__all__ = (
    "DISPOSITIONS",
    "OUTCOMES",
    "Behaviour",
    "Completed",
    "DeadLetter",
    "Deliver",
    "Discard",
    "Disposition",
    "Failed",
    "Interrupted",
    "Outcome",
    "Requeue",
    "Return",
    "Settlement",
    "Undecodable",
)


class Behaviour(Enum):
    """The kind of consumer whose rules apply to a poison message. `policy.poison.backout` has the rules of each."""

    JMS_LISTENER = "jms-listener"
    JMS_CONSUMER = "jms-consumer"
    """Synchronous, transacted: the move commits with the unit of work."""
    JMS_CONSUMER_NOT_TRANSACTED = "jms-consumer-not-transacted"
    CONNECTION_CONSUMER = "connection-consumer"
    """ASF: activation specifications and ConnectionConsumers."""
    APPLICATION_SERVER = "application-server"
    BROKER_INPUT_NODE = "broker-input-node"
    PLAIN_MQI = "plain-mqi"


class Deliver(Struct, frozen=True, tag=True):
    """Give the message to the application."""


class Requeue(Struct, frozen=True, tag=True):
    """Move the message to the backout requeue queue."""

    queue: str


class DeadLetter(Struct, frozen=True, tag=True):
    """Move the message to the dead-letter queue, behind an MQDLH with this reason (MQRC_* or MQFB_*)."""

    queue: str
    reason: int


class Discard(Struct, frozen=True, tag=True):
    """Remove the message for good: its sender asked for it (MQRO_DISCARD_MSG), or the behaviour of JMS requires it."""

    why: str


class Return(Struct, frozen=True, tag=True):
    """Leave the message on its input queue; the listener pauses (`stop_delivery`: until a person removes the obstacle)."""

    why: str
    stop_delivery: bool = False


Disposition = Deliver | Requeue | DeadLetter | Discard | Return
DISPOSITIONS: Final = (Deliver, Requeue, DeadLetter, Discard, Return)
"""The members of `Disposition`, for `isinstance`; see `OUTCOMES`."""


class Completed(Struct, frozen=True, tag=True):
    """The handler returned."""


class Failed(Struct, frozen=True, tag=True):
    """The handler raised, or ran out of time."""

    #: The exception's qualified class name and its text, both cut to a bound.
    error: str
    text: str = ""
    #: No redelivery can help: `Reject`, or an exception the listener never retries.
    final: bool = False
    #: `Retry(after=...)`: the pause that the handler asks for before the next delivery.
    retry_after_s: float | None = None


class Undecodable(Struct, frozen=True, tag=True):
    """The body never became the payload type."""

    error: str
    text: str = ""


class Interrupted(Struct, frozen=True, tag=True):
    """The handler was cancelled: a drain ran out of time, or the connection was lost during the handling."""

    why: str


Outcome = Completed | Failed | Undecodable | Interrupted
OUTCOMES: Final = (Completed, Failed, Undecodable, Interrupted)
"""The members of `Outcome`, for `isinstance`, which takes several times as long with the union."""


class Settlement(Enum):
    """How a unit of work ends."""

    COMMIT = "commit"
    BACKOUT = "backout"
