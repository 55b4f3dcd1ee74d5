"""The ways to end a served queue manager, and the reasons that applications see then.

Source: IBM, `endmqm`: controlled (wait), immediate (-i), with switchover to a standby (-s), telling clients to reconnect (-r).
"""

from enum import Enum

from msgspec import Struct

from mqflow.mqi.reason_codes import Reason

__all__ = ("End", "Manner", "reason_of")


class Manner(Enum):
    """What the end waits for."""

    CONTROLLED = "controlled"
    """No new work; it ends when the last application disconnects. Calls with FAIL_IF_QUIESCING get 2161."""
    IMMEDIATE = "immediate"
    """Calls under way end, later calls get 2162, and units of work are backed out."""


class End(Struct, frozen=True):
    """The request of `mqflow qmgr stop`."""

    manner: Manner = Manner.CONTROLLED
    #: Tells applications to reconnect, to any queue manager that they find: they get 2601 instead of 2162.
    reconnect: bool = False
    #: Ends only if a standby is there to take over; implies `reconnect`.
    switchover: bool = False


def reason_of(end: End) -> Reason:
    """Return the reason of the refusals once the queue manager stops."""
    return Reason.Q_MGR_RECONNECT_REQUESTED if end.reconnect or end.switchover else Reason.Q_MGR_STOPPING
