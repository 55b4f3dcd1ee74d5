"""The closed unions of the decisions: what becomes of a message, what became of its handling, how a unit of work ends.

Records only. `backout` makes dispositions, `settlement` reads outcomes, the runtime carries both out.
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
    """Whose rules decide about a poison message. The seeds describe each; `policy.poison.backout` holds them as functions."""

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
    """Give it to the application."""


class Requeue(Struct, frozen=True, tag=True):
    """Move it to the backout requeue queue."""

    queue: str


class DeadLetter(Struct, frozen=True, tag=True):
    """Move it to the dead-letter queue, behind an MQDLH with this reason (MQRC_* or MQFB_*)."""

    queue: str
    reason: int


class Discard(Struct, frozen=True, tag=True):
    """Take it off its queue and put it nowhere: its sender asked for that (MQRO_DISCARD_MSG), or the mode is JMS's own."""

    why: str


class Return(Struct, frozen=True, tag=True):
    """Leave it on its input queue; the listener pauses (`stop_delivery`: until somebody repairs what refuses the message)."""

    why: str
    stop_delivery: bool = False


Disposition = Deliver | Requeue | DeadLetter | Discard | Return
DISPOSITIONS: Final = (Deliver, Requeue, DeadLetter, Discard, Return)
"""As `OUTCOMES`."""


class Completed(Struct, frozen=True, tag=True):
    """The handler returned."""


class Failed(Struct, frozen=True, tag=True):
    """The handler raised, or ran out of time."""

    #: The exception's qualified class name and its text, both cut to a bound.
    error: str
    text: str = ""
    #: No redelivery can help: `Reject`, or an exception the listener never retries.
    final: bool = False
    #: `Retry(after=...)`: the handler's own wish for the pause before the next delivery.
    retry_after_s: float | None = None


class Undecodable(Struct, frozen=True, tag=True):
    """The body never became the payload type."""

    error: str
    text: str = ""


class Interrupted(Struct, frozen=True, tag=True):
    """The handler was cancelled: a drain ran out of time, or the connection was lost under it."""

    why: str


Outcome = Completed | Failed | Undecodable | Interrupted
OUTCOMES: Final = (Completed, Failed, Undecodable, Interrupted)
"""For `isinstance`, where anybody's object may be one: asked of the union, it takes several times as long."""


class Settlement(Enum):
    """How a unit of work ends."""

    COMMIT = "commit"
    BACKOUT = "backout"
