"""Strangers are peers on a network before their log-in. This file has their limits, and decides which stranger must leave.

This file is pure: records, and one decision about them.
"""

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

__all__ = ("Stranger", "StrangerLimits", "stranger_to_end")


class StrangerLimits(Struct, frozen=True, kw_only=True):
    """The limits for the strangers at one address of the server."""

    most: int = 256
    #: The longest time until the log-in of a peer, in seconds.
    hello_s: float = 10.0
    #: After this time without a log-in, the server can end a stranger to make room, but only if all places are taken.
    patience_s: float = 1.0


class Stranger(Struct, frozen=True, kw_only=True):
    """A peer before its log-in."""

    address: str
    #: The time of its connection, in seconds.
    since: float
    #: True if the server is now checking its log-in, so that the server does not wait for bytes from it.
    checked: bool = False


def stranger_to_end(strangers: Sequence[Stranger], now: float, patience_s: float) -> int | None:
    """Return the index of the stranger that must leave, to make room for the next peer; None if all of them can stay.

    It is the oldest stranger of the address with the most strangers. So a flood of connections from one address takes no places
    from other addresses.
    """
    counts = Counter(each.address for each in strangers)
    leaving = [
        (-counts[each.address], each.since, index)
        for index, each in enumerate(strangers)
        if not each.checked and now >= each.since + patience_s
    ]
    return min(leaving)[-1] if leaving else None
