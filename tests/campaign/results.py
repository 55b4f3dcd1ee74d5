"""The totals of all campaigns, in results.json beside this file. Reads, adds and writes them; runs nothing."""

from collections import Counter
from collections.abc import Mapping
from math import ceil
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field

from tests.campaign.pieces import Piece

__all__ = ("FILE", "Found", "Totals", "keep", "percentile", "read")

FILE: Final = Path(__file__).with_name("results.json")


class Found(Struct, frozen=True):
    """A finding: `python -m tests.campaign NAME --seed SEED` repeats it."""

    seed: int
    says: str
    revision: str
    date: str
    #: The date on which the seed passed again; empty until then.
    mended: str = ""


class Totals(Struct, kw_only=True):
    """The totals of one campaign."""

    #: How much was done, in the unit of the campaign.
    done: int = 0
    #: All seeds below this number are done.
    next_seed: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    #: For each measured time, how often each number of milliseconds (rounded up) was measured.
    times_ms: dict[str, dict[int, int]] = field(default_factory=dict)
    findings: list[Found] = field(default_factory=list)
    #: Time of all runs, in seconds; the last date; and the revision of the last run.
    took_s: float = 0.0
    date: str = ""
    revision: str = ""

    @property
    def rate(self) -> float:
        """How much was done in a minute."""
        return self.done / self.took_s * 60 if self.took_s else 0.0

    @property
    def open_findings(self) -> int:
        """The number of findings that are not mended."""
        return sum(not each.mended for each in self.findings)

    def add(self, seed: int, piece: Piece, revision: str, date: str, *, busy: bool = False) -> None:
        """Add a piece. Times of a machine that was busy before the run are kept apart: no bound holds for them."""
        self.done += piece.done
        self.counts = dict(sorted((Counter(self.counts) + Counter(piece.counts)).items()))
        for name, times in piece.times_ms.items():
            kept = f"{name}, on a busy machine" if busy else name
            counted = Counter(self.times_ms.get(kept, {})) + Counter(ceil(each) for each in times)
            self.times_ms[kept] = dict(sorted(counted.items()))
        self.findings += [Found(seed, each, revision, date) for each in piece.findings]
        self.revision, self.date = revision, date

    def passed(self, seed: int, date: str) -> None:
        """Record that this seed has no finding any more."""
        self.findings = [
            msgspec.structs.replace(each, mended=date) if each.seed == seed and not each.mended else each
            for each in self.findings
        ]


def percentile(times_ms: Mapping[int, int], percent: float) -> int:
    """Return the milliseconds that `percent` of the measured times do not exceed."""
    wanted = sum(times_ms.values()) * percent / 100
    seen = 0
    for ms, count in sorted(times_ms.items()):
        seen += count
        if seen >= wanted:
            return ms
    raise ValueError("nothing was measured")


def read(file: Path = FILE) -> dict[str, Totals]:
    """Return the totals by the name of the campaign; empty if there is no file."""
    return msgspec.json.decode(file.read_bytes(), type=dict[str, Totals]) if file.exists() else {}


def keep(name: str, totals: Totals, file: Path = FILE) -> None:
    """Replace the totals of one campaign in the file, in one step: other campaigns may be running."""
    every = read(file) | {name: totals}
    new = file.with_suffix(".new")
    new.write_bytes(msgspec.json.format(msgspec.json.encode(dict(sorted(every.items()))), indent=1) + b"\n")
    new.replace(file)
