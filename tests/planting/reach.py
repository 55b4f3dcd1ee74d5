"""Knows which tests reach a line of mqflow, and the processor time of each test, and puts the tests for a defect in order.

It is a plugin of pytest too. `coverage run -m pytest -p tests.planting.reach` notes one context for each test. It writes the
times of the tests that passed to the file of the variable REACH_TIMES. The programs that a test starts are not noted.
This module does not import mqflow: coverage would miss the lines of an import.
"""

import os
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import product
from pathlib import Path, PurePath
from typing import Final

import coverage
import msgspec
import pytest
from msgspec import Struct

__all__ = ("SOURCES", "Reach", "only", "read")

SOURCES: Final = ".sources"
"""The ending of a folder with the sources of a run. It stands beside the run's file of coverage."""

_TIMES_S: Final = defaultdict[str, float](float)
_FAILED: Final = set[str]()
_FAR: Final = 4
"""How many times the time of a test of another folder counts in the order of the tests."""


class Reach(Struct, frozen=True):
    """The notes of one run of all tests. A test is `path::name`, without the names of rows."""

    #: By file and line, the tests that reach the line.
    tests: Mapping[str, Mapping[int, Sequence[str]]]
    #: By test, its processor time in seconds.
    times_s: Mapping[str, float]

    def order(self, source: PurePath, lines: range, bound_s: float) -> list[str]:
        """Return the tests for a defect in these lines of a source below `mqflow`, with `bound_s` seconds of processor time.

        Tests of files that share a word of their name with the source come first: test_put.py is about put_plan.py. Then all
        others that reach the line come. Tests of the folder that do not reach it come last, because only programs that they
        start can. A quick test comes before a slow test. The time of a test of another folder counts several times, unless
        only tests of other folders reach the line. `lines` begins with the function's body: coverage notes some statements at
        their first line.
        """
        folder, words = PurePath("tests", *source.parent.parts[1:]), set(source.stem.split("_"))
        noted = self.tests.get(source.as_posix(), {})
        reaching = set(next((noted[line] for line in reversed(lines) if noted.get(line)), ()))
        paths = {test: PurePath(test.partition("::")[0]) for test in self.times_s}
        only_far = bool(reaching) and not any(paths[test].parent == folder for test in reaching & paths.keys())
        ranks: dict[str, tuple[bool, bool, float]] = {}
        for test, path in paths.items():
            is_near = path.parent == folder
            if is_near or test in reaching:
                late = test not in reaching
                other_name = (late and only_far) or words.isdisjoint(path.stem.split("_"))
                cost_s = self.times_s[test] * (1 if is_near or only_far else _FAR)
                ranks[test] = (late and not only_far, other_name, cost_s)
        chosen: list[str] = []
        left_s = bound_s
        for test in sorted(ranks, key=ranks.__getitem__):
            left_s -= self.times_s[test]
            if chosen and left_s < 0:
                break
            chosen.append(test)
        return chosen


def read(copies: Sequence[Path], sources: Collection[PurePath], files: Sequence[tuple[Path, Path]]) -> Reach:
    """Return what runs over the copies noted of these sources. Each run has a file of coverage and a file of times.

    If a source has changed since a run, its unchanged lines keep their tests.
    """
    tests: dict[str, dict[int, list[str]]] = {}
    times_s: dict[str, float] = {}
    for noted, times in files:
        times_s |= msgspec.json.decode(times.read_bytes(), type=dict[str, float])
        data = coverage.CoverageData(str(noted))
        data.read()
        for source, copy in product(sources, copies):
            lines = tests.setdefault(source.as_posix(), {})
            if contexts_at := data.contexts_by_lineno(str(copy / source)):
                for earlier, line in _unchanged(noted.with_suffix(SOURCES) / source, copy / source):
                    lines.setdefault(line, []).extend(filter(None, contexts_at.get(earlier, ())))
    return Reach(tests, times_s)


def _unchanged(earlier: Path, now: Path) -> Iterator[tuple[int, int]]:
    """Yield the earlier number and the present number of each line that both texts have."""
    matcher = SequenceMatcher(
        None, earlier.read_text("utf-8").splitlines(), now.read_text("utf-8").splitlines(), autojunk=False
    )
    for block in matcher.get_matching_blocks():
        yield from ((block.a + at, block.b + at) for at in range(1, block.size + 1))


def only(times: Path, files: Collection[str]) -> Path:
    """Return a copy of a file of times without the tests of other files: their names can be gone."""
    noted = msgspec.json.decode(times.read_bytes(), type=dict[str, float])
    kept = times.with_suffix(".kept")
    kept.write_bytes(msgspec.json.encode({test: cost_s for test, cost_s in noted.items() if test.partition("::")[0] in files}))
    return kept


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    name = item.nodeid.partition("[")[0]
    measuring = coverage.Coverage.current()
    assert measuring is not None
    measuring.switch_context(name)
    began_s = _spent_s()
    try:
        return (yield)
    finally:
        _TIMES_S[name] += _spent_s() - began_s


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _FAILED.add(report.nodeid.partition("[")[0])


def pytest_sessionfinish() -> None:
    passed = {test: cost_s for test, cost_s in _TIMES_S.items() if test not in _FAILED}
    Path(os.environ["REACH_TIMES"]).write_bytes(msgspec.json.encode(passed))


def _spent_s() -> float:
    """Return the processor time of this process, and of the programs that it started and that have ended."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system
