"""How a queue manager that is served ends: what was asked for, by whom it is heard, and the reasons that applications see.

Source: IBM, `endmqm`: controlled (wait), immediate (-i), with switchover to a standby (-s), telling clients to reconnect (-r).
"""

from enum import Enum

from msgspec import Struct

from mqflow.mqi.reason_codes import Reason

__all__ = ("End", "Manner", "reason_of")


class Manner(Enum):
    """How much is waited for."""

    CONTROLLED = "controlled"
    """No new work; it ends when the last application has disconnected. Calls with FAIL_IF_QUIESCING see 2161."""
    IMMEDIATE = "immediate"
    """Calls under way end, every later one sees 2162, units of work are backed out."""


class End(Struct, frozen=True):
    """What `mqflow qmgr stop` asks for."""

    manner: Manner = Manner.CONTROLLED
    #: Applications shall reconnect, to whichever queue manager they find: they see 2601 instead of 2162.
    reconnect: bool = False
    #: End only where a standby is there to go on; implies `reconnect`.
    switchover: bool = False


def reason_of(end: End) -> Reason:
    """Return the reason that calls are refused with once it stops."""
    return Reason.Q_MGR_RECONNECT_REQUESTED if end.reconnect or end.switchover else Reason.Q_MGR_STOPPING
