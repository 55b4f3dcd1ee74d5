"""The possible results of decisions: where a message goes, how its handling ended, and how a unit of work ends.

This module has records only. `backout` makes dispositions, `settlement` reads outcomes, and the runtime carries both out.
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
    """The kind of consumer whose rules apply to a poison message. `policy.poison.backout` has the rules of each kind."""

    JMS_LISTENER = "jms-listener"
    JMS_CONSUMER = "jms-consumer"
    """A synchronous, transacted consumer: the move of a message commits with its unit of work."""
    JMS_CONSUMER_NOT_TRANSACTED = "jms-consumer-not-transacted"
    CONNECTION_CONSUMER = "connection-consumer"
    """The application server facilities (ASF) of JMS: activation specifications and ConnectionConsumers."""
    APPLICATION_SERVER = "application-server"
    BROKER_INPUT_NODE = "broker-input-node"
    PLAIN_MQI = "plain-mqi"


class Deliver(Struct, frozen=True, tag=True):
    """Give the message to the application."""


class Requeue(Struct, frozen=True, tag=True):
    """Move the message to the backout requeue queue."""

    queue: str


class DeadLetter(Struct, frozen=True, tag=True):
    """Move the message to the dead-letter queue, with an MQDLH that has this reason (MQRC_* or MQFB_*)."""

    queue: str
    reason: int


class Discard(Struct, frozen=True, tag=True):
    """Remove the message permanently: its sender asked for this (MQRO_DISCARD_MSG), or the behaviour requires it."""

    why: str


class Return(Struct, frozen=True, tag=True):
    """Leave the message on its input queue, and pause the listener. With `stop_delivery`, even the first pause is long."""

    why: str
    stop_delivery: bool = False


Disposition = Deliver | Requeue | DeadLetter | Discard | Return
"""The decision about a message: deliver it, move it, discard it, or leave it on its queue."""
DISPOSITIONS: Final = (Deliver, Requeue, DeadLetter, Discard, Return)
"""The members of `Disposition`, for `isinstance`; see `OUTCOMES`."""


class Completed(Struct, frozen=True, tag=True):
    """The handler returned without an error."""


class _HasOrigin:
    """A failure that an exception has caused."""

    __slots__ = ()

    raised: Raised | UnsetType

    @property
    def exception(self) -> BaseException | None:
        """The exception with its traceback, for hooks and middleware in this process; None if no exception is known."""
        return self.raised.exception if self.raised else None

    @property
    def frame(self) -> str:
        """The innermost frame of the application in the exception's traceback: `file:line in function`; empty if unknown."""
        return self.raised.frame if self.raised else ""


class Failed(_HasOrigin, Struct, frozen=True, tag=True):
    """The handler raised an exception, or exceeded its time limit."""

    #: The qualified class name of the exception, and its text. Both are shortened if they are very long.
    error: str
    text: str = ""
    #: True if no redelivery can help: the handler raised `Reject`, or an exception that the listener never retries.
    final: bool = False
    #: The pause before the next delivery that the handler asked for with `Retry(after=...)`.
    retry_after_s: float | None = None
    #: The exception and its frame. Two outcomes that differ only in this field are equal.
    raised: Raised | UnsetType = UNSET


class Undecodable(_HasOrigin, Struct, frozen=True, tag=True):
    """The message could not be decoded: its body, or a header field or property that the handler needs."""

    error: str
    text: str = ""
    #: As in `Failed`.
    raised: Raised | UnsetType = UNSET


class Interrupted(Struct, frozen=True, tag=True):
    """The handler was cancelled: a drain ran out of time, or the connection was lost during the handling."""

    why: str


Outcome = Completed | Failed | Undecodable | Interrupted
"""How the handling of a message ended."""
OUTCOMES: Final = (Completed, Failed, Undecodable, Interrupted)
"""The members of `Outcome`, for `isinstance`: with the union itself, `isinstance` takes several times as long."""


OutcomeT = TypeVar("OutcomeT", bound=Outcome | None)


def without_exception(outcome: OutcomeT) -> OutcomeT:
    """Return the outcome without its exception, for records: an exception keeps all local variables of its frames alive."""
    if isinstance(outcome, Failed | Undecodable) and outcome.exception is not None:
        return replace(outcome, raised=Raised(outcome.frame))
    return outcome


class Settlement(Enum):
    """How a unit of work ends."""

    COMMIT = "commit"
    BACKOUT = "backout"
