"""Matches a topic, level by level, or a text, character by character, against a pattern with wildcards.

A subscriber chooses the pattern and a publisher the text, and each can be ten thousand characters long. So this module uses no
regular expressions, and follows all possible matches at the same time. The bits of one number say which parts of the pattern
the match can have reached so far.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum

from msgspec import Struct

__all__ = ("Parts", "Pattern", "Wild", "characters_of", "fits", "pattern_of")


class Wild(Enum):
    """A wildcard."""

    MANY = "any number, also none"
    ONE = "exactly one"


Parts = Iterable[str | Wild]
"""Literal parts and wildcards."""


class Pattern(Struct, frozen=True, gc=False):
    """Parts, prepared for `fits`. Bit i of a number stands for part i; the bit behind the last part is the end."""

    #: The literal parts. A MANY behind another MANY is left out.
    literal_bits: Mapping[str, int]
    one_bits: int
    many_bits: int
    end_bit: int
    #: The parts, if all are literal.
    literal: tuple[str, ...] | None

    @property
    def has_wildcards(self) -> bool:
        """True if a part is a wildcard."""
        return self.literal is None


def characters_of(text: str, marks: Mapping[str, Wild], escape: str) -> Iterator[str | Wild]:
    """Yield the parts of a pattern. A character behind the escape character is literal.

    `marks` has the wildcard for each wildcard character.
    """
    rest = iter(text)
    for character in rest:
        if character == escape:
            yield next(rest, escape)
        else:
            yield marks.get(character, character)


def pattern_of(parts: Parts) -> Pattern:
    """Return the pattern of these parts."""
    literal_bits: dict[str, int] = {}
    one_bits = many_bits = 0
    bit, literal = 1, list[str]()
    for part in parts:
        if part is Wild.MANY:
            if many_bits & bit >> 1:
                continue
            many_bits |= bit
        elif part is Wild.ONE:
            one_bits |= bit
        else:
            assert isinstance(part, str)  # noqa: S101 - the rest of the union
            literal_bits[part] = literal_bits.get(part, 0) | bit
            literal.append(part)
        bit <<= 1
    return Pattern(literal_bits, one_bits, many_bits, bit, None if one_bits or many_bits else tuple(literal))


def fits(pattern: Pattern, found: Iterable[str]) -> bool:
    """Return whether the pattern matches this whole sequence.

    Each element takes one step for each 30 parts, so ten thousand elements against ten thousand parts take some milliseconds.
    """
    if pattern.literal is not None:
        return pattern.literal == tuple(found)
    literal_bits, one_bits, many_bits = pattern.literal_bits, pattern.one_bits, pattern.many_bits
    reached = 1 | (many_bits & 1) << 1
    for element in found:
        reached = (reached & (literal_bits.get(element, 0) | one_bits)) << 1 | reached & many_bits
        reached |= (reached & many_bits) << 1
        if not reached:
            return False
    return bool(reached & pattern.end_bit)
