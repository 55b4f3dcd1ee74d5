"""The closed unions of the decisions: the disposition of a message, the outcome of its handling, the end of a unit of work.

Records only. `backout` makes dispositions, `settlement` reads outcomes, the runtime performs both.
"""

from enum import Enum
from typing import Final, TypeVar

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from mqflow.policy.poison.failure_origin import Raised

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
    "without_exception",
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
    """Remove the message permanently: its sender asked for it (MQRO_DISCARD_MSG), or the behaviour of JMS requires it."""

    why: str


class Return(Struct, frozen=True, tag=True):
    """Leave the message on its input queue, and pause the listener. `stop_delivery` makes already the first pause long."""

    why: str
    stop_delivery: bool = False


Disposition = Deliver | Requeue | DeadLetter | Discard | Return
"""An action on a message."""
DISPOSITIONS: Final = (Deliver, Requeue, DeadLetter, Discard, Return)
"""The members of `Disposition`, for `isinstance`; see `OUTCOMES`."""


class Completed(Struct, frozen=True, tag=True):
    """The handler returned."""


class _HasOrigin:
    """A failure with an exception behind it."""

    __slots__ = ()

    raised: Raised | UnsetType

    @property
    def exception(self) -> BaseException | None:
        """The exception with its traceback, for hooks and middleware in this process; None if no exception is known."""
        return self.raised.exception if self.raised else None

    @property
    def frame(self) -> str:
        """`file:line in function`, the innermost frame of the application behind this failure; empty if unknown."""
        return self.raised.frame if self.raised else ""


class Failed(_HasOrigin, Struct, frozen=True, tag=True):
    """The handler raised, or ran out of time."""

    #: The exception's qualified class name and its text, both cut to a bound.
    error: str
    text: str = ""
    #: No redelivery can help: `Reject`, or an exception the listener never retries.
    final: bool = False
    #: `Retry(after=...)`: the pause that the handler asks for before the next delivery.
    retry_after_s: float | None = None
    #: The exception and its frame. Outcomes that differ only here are equal.
    raised: Raised | UnsetType = UNSET


class Undecodable(_HasOrigin, Struct, frozen=True, tag=True):
    """The message could not be decoded: the body to the payload type, or a header field or property to its parameter."""

    error: str
    text: str = ""
    #: As in `Failed`.
    raised: Raised | UnsetType = UNSET


class Interrupted(Struct, frozen=True, tag=True):
    """The handler was cancelled: a drain ran out of time, or the connection was lost during the handling."""

    why: str


Outcome = Completed | Failed | Undecodable | Interrupted
"""The end of the handling of a message."""
OUTCOMES: Final = (Completed, Failed, Undecodable, Interrupted)
"""The members of `Outcome`, for `isinstance`, which takes several times as long with the union."""


OutcomeT = TypeVar("OutcomeT", bound=Outcome | None)


def without_exception(outcome: OutcomeT) -> OutcomeT:
    """Return the outcome without its exception, for records: a traceback holds all local variables of its frames."""
    if isinstance(outcome, Failed | Undecodable) and outcome.exception is not None:
        return replace(outcome, raised=Raised(outcome.frame))
    return outcome


class Settlement(Enum):
    """How a unit of work ends."""

    COMMIT = "commit"
    BACKOUT = "backout"
