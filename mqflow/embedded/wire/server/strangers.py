"""Strangers are peers on a network that have not logged in. This file has their limits, and decides which stranger must end.

This file is pure: records, and one decision over them.
"""

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

__all__ = ("Stranger", "StrangerLimits", "stranger_to_end")


class StrangerLimits(Struct, frozen=True, kw_only=True):
    """The limits of the strangers at one address of the server."""

    most: int = 256
    #: The longest time until a peer has logged in.
    hello_s: float = 10.0
    #: If all places are taken, a peer that has not logged in within this time can be ended, to make room for the next peer.
    patience_s: float = 1.0


class Stranger(Struct, frozen=True, kw_only=True):
    """A peer that has not logged in."""

    address: str
    #: When it connected, in seconds.
    since: float
    #: Whether the server checks its log-in now; if not, the server waits for bytes of the peer.
    checked: bool = False


def stranger_to_end(strangers: Sequence[Stranger], now: float, patience_s: float) -> int | None:
    """Return the index of the stranger whose connection ends, to make room for the next peer; None if all strangers may stay.

    This stranger is the oldest stranger of the address with the most strangers. Therefore a flood of connections from one
    address takes no place from other addresses.
    """
    counts = Counter(each.address for each in strangers)
    leaving = [
        (-counts[each.address], each.since, index)
        for index, each in enumerate(strangers)
        if not each.checked and now >= each.since + patience_s
    ]
    return min(leaving)[-1] if leaving else None
