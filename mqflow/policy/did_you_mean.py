"""Finds the accepted word that a misspelt word probably means, for a hint in an error."""

from collections.abc import Iterable
from typing import Final

__all__ = ("closest", "hint")

_CHARS_MAX: Final = 64
_KEYWORD_CHARS_MAX: Final = 40


def closest(word: str, words: Iterable[str], *, alike: float = 0.6, chars_max: int = _CHARS_MAX) -> str:
    """Return the word of `words` that is most similar to `word` by the measure of `difflib`, or "" if none is similar enough.

    A word longer than `chars_max` has no similar word: the time of a comparison grows with the square of the length.
    """
    if len(word) > chars_max:
        return ""
    from difflib import get_close_matches  # noqa: PLC0415 - every application imports this module, and few need a hint

    near = get_close_matches(word, list(words), n=1, cutoff=alike)
    return near[0] if near else ""


def hint(word: str, words: Iterable[str]) -> str:
    """Return " Did you mean ...?", with a leading blank, if a keyword is similar to `word`; otherwise an empty text."""
    near = closest(word.upper(), words, chars_max=_KEYWORD_CHARS_MAX)
    return f" Did you mean {near}?" if near else ""
