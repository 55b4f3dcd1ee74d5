"""Plants single defects in copies of mqflow, one at a time, and counts how many the tests notice.

`python -m tests.planting --seed 1 --count 150` notes first, in one run of the tests, which tests reach which line. Then each
defect runs the tests that reach its line, until one fails. A find counts if the same test passes without the defect. A defect
that makes the tests hang is not noticed: a test must say what is wrong.

`--mutants` draws from the decisions alone: policy, the rules and calls of the embedded queue manager, and the listener. The
verdicts stand in tests/planting/results.json, or in mutants.json, and add up over runs. A run plants the defects that no
earlier run has found; `--again` plants all. `--missed` draws none, and plants every defect that earlier runs have missed. The
same seed plants the same defects in the same sources, and `--only N` the N-th defect. The exit code is 1 if fewer than 95
percent of all defects with an effect are noticed.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from queue import Queue
from random import Random
from threading import Lock
from typing import Final, TypeAlias

from msgspec import Struct

from tests.planting import reach, results
from tests.planting.forking import Task, plant_in_children
from tests.planting.mutations import Mutation, mutations
from tests.planting.results import HUNG, NOTICED, SURVIVED
from tests.planting.running import environment, rewrite, run

ROOT: Final = Path(__file__).parents[2]
COPIED: Final = ("mqflow", "tests", "examples", "plugins", "docs", "benchmarks", "pyproject.toml", "README.md", "CHANGELOG.md",
                 "CONTRIBUTING.md", "Makefile", "mkdocs.yml")  # fmt: skip
#: The sources of each package, and the tests that can notice its defects.
PACKAGES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "policy": ("mqflow/policy", ("tests/policy", "tests/stories", "tests/app", "tests/runtime")),
    "runtime": ("mqflow/runtime",
                ("tests/runtime", "tests/app", "tests/stories", "tests/model/test_simulation.py", "tests/cli", "tests/otel")),
    "bindings": ("mqflow/bindings", ("tests/bindings", "tests/conformance")),
    "wire": ("mqflow/embedded/wire", ("tests/embedded/wire", "tests/conformance", "tests/simulation")),
    "storage": ("mqflow/embedded/storage",
                ("tests/embedded/storage", "tests/embedded/disk_faults", "tests/conformance", "tests/cli")),
    "cli": ("mqflow/cli", ("tests/cli",)), "settings": ("mqflow/app/config", ("tests/app", "tests/cli")),
    "rules": ("mqflow/embedded/rules", ("tests/embedded", "tests/conformance", "tests/model")),
    "calls": ("mqflow/embedded/calls", ("tests/embedded", "tests/conformance", "tests/model", "tests/stories")),
    "listener": ("mqflow/runtime/listener", ("tests/runtime", "tests/app", "tests/stories", "tests/conformance")),
}  # fmt: skip
_Defect: TypeAlias = tuple[str, Path, str, Mutation]
DECISIONS: Final = ("policy", "rules", "calls", "listener")
OTHERS: Final = ("policy", "runtime", "bindings", "wire", "storage", "cli", "settings")
GOAL: Final = 95
#: One defect has tests of so much processor time, in runs of so much. A run that takes several times its time hangs.
BOUND_S: Final = 12.0
CHILD_BOUND_S: Final = 40.0
STEPS_S: Final = (2.0, 10.0)
HANGS_S: Final = 40.0
#: A test of so much processor time must pass again without the defect: on a busy machine it can fail for another reason.
FLAKY_S: Final = 1.0
HANGS_TIMES: Final = 5


class Planted(Struct, frozen=True):
    """One defect of a run."""

    number: int
    package: str
    source: Path
    name: str
    mutation: Mutation


def chosen(packages: Sequence[str], count: int, seed: int) -> list[Planted]:
    """Return `count` defects, drawn evenly from the packages."""
    dice = Random(seed)  # noqa: S311 - repeatable, not secret
    drawn: list[_Defect] = []
    for place, package in enumerate(packages):
        every = _every(package)
        wanted = count // len(packages) + (place < count % len(packages))
        drawn += dice.sample(every, min(wanted, len(every)))
    return [Planted(number, *each) for number, each in enumerate(drawn, start=1)]


def _every(package: str) -> list[_Defect]:
    return [
        (package, path.relative_to(ROOT), *named)
        for path in sorted((ROOT / PACKAGES[package][0]).rglob("*.py"))
        for named in results.names(path.relative_to(ROOT), mutations(path.read_text("utf-8")))
    ]


def missed(packages: Sequence[str], earlier: Mapping[str, results.Verdict]) -> list[Planted]:
    """Return the defects of the packages that have an earlier verdict, and were not noticed."""
    names = {name for name, each in earlier.items() if each.said != NOTICED}
    found = [each for package in packages for each in _every(package) if each[2] in names]
    return [Planted(number, *each) for number, each in enumerate(found, start=1)]


def measured(folder: Path, copies: Sequence[Path], drawn: Sequence[Planted]) -> reach.Reach:
    """Return which tests reach which lines of the sources.

    The runs of an earlier command in this folder are used again. Only tests that changed since then run once more.
    """
    targets = sorted({tests for each in drawn for tests in PACKAGES[each.package][1]})
    free = _queue(copies)

    def measure(name: str, tests: Sequence[str]) -> tuple[Path, Path]:
        data, times = folder / f"{name}.coverage", folder / f"{name}.times"
        with _taken(free) as copy:
            variables = environment(copy) | {"COVERAGE_FILE": str(data), "REACH_TIMES": str(times)}
            command = ["coverage", "run", "--rcfile=/dev/null", f"--source={copy}/mqflow", "-m", "pytest", "-q"]
            subprocess.run(
                [sys.executable, "-m", *command, "-p", "no:cacheprovider", "-p", "tests.planting.reach", *tests],
                cwd=copy, env=variables, stdout=subprocess.DEVNULL, check=False,
            )  # fmt: skip
            _tree(copy / "mqflow", data.with_suffix(reach.SOURCES) / "mqflow")
        return data, times

    def noted(target: str) -> list[tuple[Path, Path]]:
        name = target.replace("/", "+")
        data, times = folder / f"{name}.coverage", folder / f"{name}.times"
        if not times.exists():
            return [measure(name, [target])]
        noted_at = times.stat().st_mtime
        paths = (ROOT / target).rglob("test_*.py") if (ROOT / target).is_dir() else [ROOT / target]
        files = {str(path.relative_to(ROOT)): path.stat().st_mtime for path in paths}
        changed = [path for path, changed_at in files.items() if changed_at > noted_at]
        again = [measure(f"{name}+changed", changed)] if changed else []
        return [(data, reach.only(times, files.keys() - changed)), *again]

    with ThreadPoolExecutor(len(copies)) as pool:
        files = list(chain.from_iterable(pool.map(noted, targets)))
    return reach.read([each.resolve() for each in copies], {each.source for each in drawn}, files)


def verdict(copy: Path, planted: Planted, known: reach.Reach) -> tuple[str, str]:
    """Plant the defect in the copy, run tests until one notices it, and restore the source. Return the result and the test."""
    whole, target = (ROOT / planted.source).read_text("utf-8"), copy / planted.source
    mutation = planted.mutation
    waiting = known.order(planted.source, mutation.lines, BOUND_S)
    said, by = SURVIVED, ""
    for step_s in STEPS_S:
        group: list[str] = []
        cost_s = 0.0
        while waiting and (not group or cost_s + known.times_s[waiting[0]] <= step_s):
            cost_s += known.times_s[waiting[0]]
            group.append(waiting.pop(0))
        while group:
            rewrite(target, mutation.plant(whole))
            try:
                ended = run(copy, group, HANGS_S + HANGS_TIMES * cost_s)
            finally:
                rewrite(target, whole)
            if ended.passed:
                break
            if ended.hung:
                if said == HUNG:  # two tests hang, and the others will
                    return said, by
                said, by = HUNG, ended.test
            elif known.times_s.get(ended.test, 0.0) < FLAKY_S or run(copy, [ended.test], HANGS_S + HANGS_TIMES * cost_s).passed:
                return NOTICED, ended.test or "the tests cannot be loaded"
            if ended.test not in group:
                break
            group.remove(ended.test)
    return said, by


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.planting", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="which defects are drawn (1)")
    parser.add_argument("--count", type=int, default=150, help="how many defects (150)")
    parser.add_argument("--packages", nargs="+", choices=PACKAGES, help="where (in each)")
    parser.add_argument("--mutants", action="store_true", help=f"draw from {', '.join(DECISIONS)}")
    parser.add_argument("--only", type=int, nargs="+", metavar="N", help="plant the N-th defects only")
    parser.add_argument("--missed", action="store_true", help="plant the defects that earlier runs missed, and draw none")
    parser.add_argument("--again", action="store_true", help="plant the defects too that an earlier run has noticed")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (2)")
    parser.add_argument("--folder", type=Path, help="for the copies; the notes of an earlier command there are used again")
    parser.add_argument("--list", action="store_true", help="print the defects, and plant none")
    given = parser.parse_args()
    packages = given.packages or (DECISIONS if given.mutants else OTHERS)
    file = results.MUTANTS if given.mutants else results.RESULTS
    earlier, without_effect = results.read(file), results.equivalents()
    every = missed(packages, earlier) if given.missed else chosen(packages, given.count, given.seed)
    drawn = [each for each in every if not given.only or each.number in given.only]
    if given.list:
        for each in drawn:
            say(f"{each.number:4} {each.source}:{each.mutation.line} {each.mutation.name}")
        return 0
    if not (given.again or given.only):
        drawn = [
            each for each in drawn
            if each.name not in without_effect and (each.name not in earlier or earlier[each.name].said != NOTICED)
        ]  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="mqflow-planting-") as temporary:
        plant_all(given.folder or Path(temporary), drawn, given.jobs, file)
    counted = results.figures(results.read(file), without_effect)
    for package, all_of in counted.items():
        with_effect = all_of.planted - all_of.equivalent
        say(f"{package or 'all':10} {all_of.noticed:4} of {with_effect:4} noticed, {all_of.equivalent} without effect")
    for sentence in results.sentences(counted[""]):
        say(sentence)
    return int(counted[""].percent < GOAL)


def plant_all(folder: Path, drawn: Sequence[Planted], jobs: int, file: Path) -> None:
    """Plant each defect in one of the copies, which are made in the folder, and keep its verdict.

    Children of one process plant all defects first, which is quick. New processes have each defect that no test
    noticed there: it can change a value that a module makes when it is loaded.
    """
    copies = [folder / f"copy-{number}" for number in range(jobs)]
    (ROOT / ".cache").mkdir(exist_ok=True)  # a link to a folder that is not there cannot be used, and stands in the way
    for copy in copies:
        for name in COPIED:
            (_tree if (ROOT / name).is_dir() else shutil.copy2)(ROOT / name, copy / name)
        if not (copy / ".cache").exists():
            (copy / ".cache").symlink_to(ROOT / ".cache")  # packages that tests build there once
        subprocess.run([sys.executable, "-m", "compileall", "-q", copy / "mqflow"], check=True)
    known = measured(folder, copies, drawn)
    free, one_at_a_time = _queue(copies), Lock()

    def keep(planted: Planted, said: str, seconds: float, by: str) -> None:
        with one_at_a_time:
            results.keep(planted.name, planted.package, said, by, file)
            say(f"{planted.number:4} {said:8} {seconds:5.0f} s  {planted.name}  {by}")

    def plant_quickly(part: Sequence[Planted]) -> list[Planted]:
        by_name = {each.name: each for each in part}
        with _taken(free) as copy:
            for each in plant_in_children(copy, [_task(copy, planted, known) for planted in part]):
                if each.said == NOTICED:
                    keep(by_name.pop(each.name), each.said, each.seconds, each.by)
        return list(by_name.values())

    def plant(planted: Planted) -> None:
        began = time.monotonic()
        with _taken(free) as copy:
            said, by = verdict(copy, planted, known)
        keep(planted, said, time.monotonic() - began, by)

    with ThreadPoolExecutor(jobs) as pool:
        left = chain.from_iterable(pool.map(plant_quickly, [drawn[first::jobs] for first in range(jobs)]))
        list(pool.map(plant, left))


def _task(copy: Path, planted: Planted, known: reach.Reach) -> Task:
    tests = known.order(planted.source, planted.mutation.lines, CHILD_BOUND_S)
    changed = planted.mutation.plant((ROOT / planted.source).read_text("utf-8"))
    return Task(planted.name, str(copy / planted.source), changed, tests, sum(known.times_s[test] for test in tests))


def _tree(source: Path, target: Path) -> None:
    """Copy a folder without its bytecode, which names the files of the folder."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))


def _queue(copies: Sequence[Path]) -> Queue[Path]:
    free = Queue[Path]()
    for copy in copies:
        free.put(copy)
    return free


@contextmanager
def _taken(free: Queue[Path]) -> Iterator[Path]:
    copy = free.get()
    try:
        yield copy
    finally:
        free.put(copy)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
