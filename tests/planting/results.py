"""The verdicts on planted defects, in results.json and mutants.json, and the defects without an effect, in equivalent.toml.

It runs nothing.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from pathlib import Path, PurePath
from typing import Final

import msgspec
from msgspec import Struct

from tests.planting.mutations import Mutation

__all__ = (
    "HUNG", "MUTANTS", "NOTICED", "RESULTS", "SURVIVED", "Figures", "Verdict", "earlier_sentences", "equivalents", "figures",
    "keep", "names", "read", "sentences",
)  # fmt: skip

_FOLDER: Final = Path(__file__).parent
RESULTS: Final = _FOLDER / "results.json"
"""The verdicts of the sample over policy, runtime, bindings, wire, storage, cli and settings."""
MUTANTS: Final = _FOLDER / "mutants.json"
"""The verdicts of the sample over the decisions alone: policy, the rules and calls of the queue manager, the listener."""
_EQUIVALENT: Final = _FOLDER / "equivalent.toml"
_SAMPLES: Final = _FOLDER / "samples.toml"
NOTICED, SURVIVED, HUNG = "noticed", "survived", "hung"


class Verdict(Struct, frozen=True):
    """The result for one defect."""

    package: str
    #: NOTICED, SURVIVED or HUNG, with the tests of the last run.
    said: str
    #: The same with the tests of the first run, before somebody wrote a test for the defect.
    at_first: str
    #: The test that failed.
    by: str = ""


class Equivalent(Struct, frozen=True, forbid_unknown_fields=True):
    """A defect that changes nothing for a caller."""

    defect: str
    why: str


class _Table(Struct, frozen=True):
    equivalent: tuple[Equivalent, ...]


class Sample(Struct, frozen=True, forbid_unknown_fields=True):
    """An earlier sample: the day, its defects that have an effect, and how many of them the tests noticed then."""

    day: date
    with_effect: int
    noticed_at_first: int


class _Samples(Struct, frozen=True):
    sample: tuple[Sample, ...]


class Figures(Struct, frozen=True):
    """The counts of one package or of all."""

    planted: int = 0
    equivalent: int = 0
    noticed: int = 0
    noticed_at_first: int = 0

    @property
    def percent(self) -> float:
        """The noticed part of the defects that have an effect."""
        return 100 * self.noticed / max(self.planted - self.equivalent, 1)

    @property
    def percent_at_first(self) -> float:
        """The same for the tests of the first run."""
        return 100 * self.noticed_at_first / max(self.planted - self.equivalent, 1)


def names(source: PurePath, every: Iterable[Mutation]) -> Iterator[tuple[str, Mutation]]:
    """Yield each defect of a source with its name. Equal names of one source are numbered."""
    seen: Counter[str] = Counter()
    for each in every:
        name = f"{source.as_posix()} {each.name}"
        seen[name] += 1
        yield name if seen[name] == 1 else f"{name} ({seen[name]})", each


def read(file: Path = RESULTS) -> dict[str, Verdict]:
    """Return the last verdicts by the names of the defects."""
    return msgspec.json.decode(file.read_bytes(), type=dict[str, Verdict]) if file.exists() else {}


def keep(name: str, package: str, said: str, by: str, file: Path = RESULTS) -> None:
    """Write a verdict, beside those of earlier runs."""
    verdicts = read(file)
    at_first = verdicts[name].at_first if name in verdicts else said
    verdicts[name] = Verdict(package, said, at_first, by)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(dict(sorted(verdicts.items()))), indent=1) + b"\n")


def equivalents() -> dict[str, str]:
    """Return why each defect of equivalent.toml has no effect."""
    return {each.defect: each.why for each in msgspec.toml.decode(_EQUIVALENT.read_text("utf-8"), type=_Table).equivalent}


def figures(verdicts: Mapping[str, Verdict], without_effect: Iterable[str]) -> dict[str, Figures]:
    """Return the counts of each package, and of all under the empty name."""
    known = set(without_effect)
    counts = {package: Counter[str]() for package in ("", *sorted({each.package for each in verdicts.values()}))}
    for name, each in verdicts.items():
        for count in (counts[""], counts[each.package]):
            count["planted"] += 1
            count["equivalent"] += name in known
            count["noticed"] += each.said == NOTICED and name not in known
            count["noticed_at_first"] += each.at_first == NOTICED and name not in known
    return {package: Figures(**count) for package, count in counts.items()}


def sentences(all_of: Figures) -> Iterator[str]:
    """Yield the result of this sample."""
    with_effect = all_of.planted - all_of.equivalent
    yield (
        f"{all_of.planted} single defects were planted; {all_of.equivalent} of them have no effect. The tests noticed"
        f" {all_of.noticed_at_first} of the other {with_effect} ({all_of.percent_at_first:.1f} %)."
    )
    if all_of.noticed > all_of.noticed_at_first:
        yield (
            f"Then tests were written for missed defects, and now the tests notice {all_of.noticed} of the same defects"
            f" ({all_of.percent:.1f} %). These tests were written for these"
            " defects, so only the first figure shows what share of new defects the tests notice."
        )


def earlier_sentences() -> Iterator[str]:
    """Yield the result of each earlier sample over the same packages as results.json, the latest first."""
    yield ""
    yield "Earlier samples had other defects, and some days have two samples. The tests noticed these shares, before new tests"
    yield "were written for the missed ones:"
    yield ""
    for each in reversed(msgspec.toml.decode(_SAMPLES.read_text("utf-8"), type=_Samples).sample):
        percent = 100 * each.noticed_at_first / each.with_effect
        yield (f"- {each.day}: {each.noticed_at_first} of {each.with_effect} ({percent:.1f} %)")
