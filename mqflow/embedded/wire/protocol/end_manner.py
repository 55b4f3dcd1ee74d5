"""The ways to end a served queue manager, and the reasons that applications then get.

Source: IBM, `endmqm`: controlled (wait), immediate (-i), with switchover to a standby (-s), with reconnection of clients (-r).
"""

from enum import Enum

from msgspec import Struct

from mqflow.mqi.reason_codes import Reason

__all__ = ("End", "Manner", "reason_of")


class Manner(Enum):
    """The ways of ending. They differ in the work that the queue manager still waits for."""

    CONTROLLED = "controlled"
    """Refuse new work, and end after the last application disconnects. Calls with FAIL_IF_QUIESCING get 2161."""
    IMMEDIATE = "immediate"
    """End present calls, refuse later calls with 2162, and back out units of work."""


class End(Struct, frozen=True):
    """The request of `mqflow qmgr stop`."""

    manner: Manner = Manner.CONTROLLED
    #: Makes applications reconnect to any queue manager: they get 2601 instead of 2162.
    reconnect: bool = False
    #: Ends the queue manager only if a standby can take over. Implies `reconnect`.
    switchover: bool = False


def reason_of(end: End) -> Reason:
    """Return the reason with which the ending queue manager refuses calls."""
    return Reason.Q_MGR_RECONNECT_REQUESTED if end.reconnect or end.switchover else Reason.Q_MGR_STOPPING
