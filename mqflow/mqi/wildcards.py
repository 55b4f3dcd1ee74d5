"""Matches a sequence against parts with wildcards: topics by levels, texts by characters.

This module uses no regular expressions: a pattern comes from a subscriber. The time of a match must not grow with the number of
wildcards.
"""

from collections.abc import Sequence
from enum import Enum

__all__ = ("Parts", "Wild", "fits")


class Wild(Enum):
    """A wildcard."""

    MANY = "any number, also none"
    ONE = "exactly one"


Parts = tuple[str | Wild, ...]
"""Literal parts and wildcards."""


def fits(parts: Parts, found: Sequence[str]) -> bool:
    """Return whether the parts match this whole sequence.

    The time is at most the product of both lengths for any parts: after a mismatch only the last MANY takes one more element.
    """
    at = position = 0
    many: tuple[int, int] | None = None
    while position < len(found):
        part = parts[at] if at < len(parts) else None
        if part is Wild.MANY:
            many = (at, position)
            at += 1
        elif part is Wild.ONE or part == found[position]:
            at += 1
            position += 1
        elif many is not None:
            many = (many[0], many[1] + 1)
            at, position = many[0] + 1, many[1]
        else:
            return False
    return all(part is Wild.MANY for part in parts[at:])
