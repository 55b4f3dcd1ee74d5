"""Whether a sequence is one that parts with wildcards stand for: topics by levels, texts by characters.

Not regular expressions, because a pattern comes from whoever subscribes and must not take time that grows with its wildcards.
"""

from collections.abc import Sequence
from enum import Enum

__all__ = ("Parts", "Wild", "fits")


class Wild(Enum):
    """What stands for something else."""

    MANY = "any number, none as well"
    ONE = "exactly one"


Parts = tuple[str | Wild, ...]
"""What stands for itself, and what does not."""


def fits(parts: Parts, found: Sequence[str]) -> bool:
    """Return whether the parts stand for this sequence, all of it.

    Whatever the parts, it takes at most the product of both lengths: where it fails, only the last MANY takes one more.
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
