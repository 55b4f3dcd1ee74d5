"""Which of the words that are accepted was meant by one that is not: for errors that ask so. Says nothing itself."""

from collections.abc import Iterable
from typing import Final

__all__ = ("closest",)

_CHARS_MAX: Final = 64


def closest(word: str, words: Iterable[str], *, alike: float = 0.6, chars_max: int = _CHARS_MAX) -> str:
    """Return the one that looks most like it, as `difflib` measures that; "" where none is alike enough.

    A word longer than `chars_max` is no slip of the fingers, and comparing it takes time that grows with its square.
    """
    if len(word) > chars_max:
        return ""
    from difflib import get_close_matches  # noqa: PLC0415 - every application imports this, and few slip

    near = get_close_matches(word, list(words), n=1, cutoff=alike)
    return near[0] if near else ""
