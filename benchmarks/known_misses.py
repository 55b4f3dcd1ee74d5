"""The misses that are known. `known_misses.toml` names each with its reason and its date; the list only shrinks."""

import tomllib
from datetime import date
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

__all__ = ("CLOSED", "FILE", "Miss", "known_misses")

FILE: Final = Path(__file__).with_name("known_misses.toml")
CLOSED: Final = date(2026, 11, 23)
"""The list takes no entry with a later date: a figure that was met must not get worse."""


class Miss(Struct, frozen=True, forbid_unknown_fields=True):
    """A row of docs/performance.md that misses its bar."""

    goal: int
    row: str
    reason: str
    since: date

    @property
    def key(self) -> tuple[int, str]:
        """The goal and the name of the row."""
        return self.goal, self.row


def known_misses() -> list[Miss]:
    """Return the list."""
    return msgspec.convert(tomllib.loads(FILE.read_text()).get("miss", []), list[Miss])
