"""Topic strings: their joining, their validity, and the match with the topic string of a subscription.

This module is pure. A topic string consists of levels with ``/`` between them; an empty level counts as a level. Source: IBM
q005020, q005010 (wildcards of topics: ``#`` any number of levels, also in the middle, ``+`` one level, each only as a level of
its own), and the character scheme (``*`` any characters, ``?`` one character, ``%`` escapes the next character).
"""

from enum import Enum
from functools import lru_cache
from itertools import takewhile
from typing import Final

from mqflow.mqi.names import is_text
from mqflow.mqi.wildcards import Pattern, Wild, characters_of, fits, pattern_of

__all__ = ("TOPIC_STRING_CHARS_MAX", "Scheme", "has_wildcards", "is_topic_string", "joined", "literal_levels", "matches")

TOPIC_STRING_CHARS_MAX: Final = 10_240


class Scheme(Enum):
    """The syntax of wildcards."""

    TOPIC = "levels"
    CHARACTER = "characters"


_LEVELS: Final = {"#": Wild.MANY, "+": Wild.ONE}
_CHARACTERS: Final = {"*": Wild.MANY, "?": Wild.ONE}
_ESCAPE: Final = "%"


def joined(object_string: str, given: str) -> str:
    """Return the topic string of a topic object and the topic string of a program, joined by ``/`` if both are set."""
    return f"{object_string}/{given}" if object_string and given else object_string or given


def is_topic_string(text: str) -> bool:
    """Return whether the text is a valid topic string: not empty, not too long, without NUL."""
    return 0 < len(text) <= TOPIC_STRING_CHARS_MAX and "\0" not in text and is_text(text)


def has_wildcards(pattern: str, scheme: Scheme) -> bool:
    """Return whether the string may match more than one topic."""
    return _compiled(pattern, scheme).has_wildcards


def literal_levels(pattern: str, scheme: Scheme) -> tuple[str, ...]:
    """Return the levels before the first level with a wildcard, as topics have them: without escapes."""
    literal = takewhile(lambda level: not has_wildcards(level, scheme), pattern.split("/"))
    return tuple("".join(_compiled(level, scheme).literal or ()) if scheme is Scheme.CHARACTER else level for level in literal)


def matches(pattern: str, scheme: Scheme, topic: str) -> bool:
    """Return whether a subscription to `pattern` includes this topic. In a topic, wildcards are ordinary characters.

    The time grows with the product of the two lengths.
    """
    return fits(_compiled(pattern, scheme), topic.split("/") if scheme is Scheme.TOPIC else topic)


@lru_cache(maxsize=4096)
def _compiled(pattern: str, scheme: Scheme) -> Pattern:
    if scheme is Scheme.TOPIC:
        return pattern_of(_LEVELS.get(level, level) for level in pattern.split("/"))
    return pattern_of(characters_of(pattern, _CHARACTERS, _ESCAPE))
