"""How long the character attributes are that MQINQ and MQSET know: the packages leave it to their callers to say."""

from typing import Final

from mqflow.mqi.attributes.queue import QUEUE_ATTRIBUTES, QUEUE_MANAGER_ATTRIBUTES

__all__ = ("CHARS", "FIRST_CHARACTER_SELECTOR", "split")

FIRST_CHARACTER_SELECTOR: Final = 2001
"""MQCA_FIRST: a selector below it is a number's."""

CHARS: Final = {spec.selector: spec.chars for spec in (*QUEUE_ATTRIBUTES, *QUEUE_MANAGER_ATTRIBUTES) if spec.chars} | {
    2120: 8,  # MQCA_VERSION
}


def split(selectors: list[int], characters: bytes) -> dict[int, bytes]:
    """Return each attribute's part of the characters that MQINQ answered, which stand in the order of the selectors."""
    found: dict[int, bytes] = {}
    start = 0
    for selector in selectors:
        found[selector] = characters[start : start + CHARS[selector]]
        start += CHARS[selector]
    return found
