"""The misses that are known. `known_misses.toml` names each with its reason and its date; the list only shrinks.

`python -m benchmarks.known_misses` prints an entry, without a reason, for each miss on the page that the list does not name. It
also names the entries whose rows do not miss.
"""

import json
import sys
import tomllib
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from benchmarks.page import PAGE, judged
from benchmarks.tables import Row, missed, missed_on

__all__ = ("CLOSED", "FILE", "Miss", "judge", "known_misses")

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

    @property
    def said(self) -> str:
        """The sentence of the page."""
        return f"Known since {self.since}: {self.reason}"


def known_misses() -> list[Miss]:
    """Return the list."""
    return msgspec.convert(tomllib.loads(FILE.read_text()).get("miss", []), list[Miss])


def judge(rows: Sequence[Row]) -> int:
    """Say which misses are new, and which known misses are met now. Return the exit code: 1 if a miss is new."""
    known = [miss.key for miss in known_misses()]
    for row in rows:
        if row.key in known and not missed(row):
            print(f"goal {row.goal}, {row.name}: it is met now. Remove it from {FILE.name}.", file=sys.stderr)
    new = [row for row in rows if missed(row) and row.key not in known]
    for row in new:
        print(f"goal {row.goal}, {row.name}: it is missed, and {FILE.name} does not name it.", file=sys.stderr)
    return 1 if new else 0


def main() -> int:
    """Compare the list with the page."""
    on_page, known = missed_on(judged(PAGE.read_text())), [miss.key for miss in known_misses()]
    for goal, name in on_page:
        if (goal, name) not in known:
            print(f'[[miss]]\ngoal = {goal}\nrow = {json.dumps(name)}\nreason = ""\nsince = {CLOSED}\n')
    for goal, name in known:
        if (goal, name) not in on_page:
            print(f"# The page shows no miss of goal {goal}, {name}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
