"""Plants single defects in a copy of mqflow, one at a time, and counts how many the tests notice.

`python -m tests.planting --seed 1 --count 150` takes hours. The same seed plants the same defects in the same sources, and
`--only N` repeats the N-th defect. The exit code is 1 if fewer than 95 percent are noticed. A defect that makes the tests
hang is not noticed: a test must say what is wrong.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final

from tests.planting.mutations import Mutation, mutations

ROOT: Final = Path(__file__).parents[2]
COPIED: Final = ("mqflow", "tests", "examples", "plugins", "docs", "benchmarks", "pyproject.toml", "README.md", "CHANGELOG.md")
#: The sources of each package, and its tests: those that find most defects in the shortest time come first.
PACKAGES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "policy": ("mqflow/policy", ("tests/policy", "tests/stories", "tests/app")),
    "runtime": ("mqflow/runtime", ("tests/runtime", "tests/app", "tests/stories", "tests/model/test_simulation.py")),
    "bindings": ("mqflow/bindings", ("tests/bindings", "tests/conformance")),
    "wire": ("mqflow/embedded/wire", ("tests/embedded/wire", "tests/conformance", "tests/simulation")),
    "storage": ("mqflow/embedded/storage", ("tests/embedded/storage", "tests/embedded/calls", "tests/conformance")),
    "cli": ("mqflow/cli", ("tests/cli",)),
    "settings": ("mqflow/app/config", ("tests/app/config", "tests/app/channels", "tests/cli/text", "tests/cli/applications")),
}
GOAL: Final = 95
NOTICED, SURVIVED, HUNG = "noticed", "survived", "hung"
Planted = tuple[str, Path, Mutation]


def chosen(packages: Sequence[str], count: int, seed: int) -> list[Planted]:
    """Return `count` defects, drawn evenly from the packages."""
    dice = Random(seed)  # noqa: S311 - repeatable, not secret
    drawn: list[Planted] = []
    for number, package in enumerate(packages):
        folder = ROOT / PACKAGES[package][0]
        every = [
            (package, path.relative_to(ROOT), each)
            for path in sorted(folder.rglob("*.py"))
            for each in mutations(path.read_text("utf-8"))
        ]
        wanted = count // len(packages) + (number < count % len(packages))
        drawn += dice.sample(every, min(wanted, len(every)))
    return drawn


def stages(package: str, source: Path) -> Iterator[tuple[str, ...]]:
    """Yield the tests to run, one group after the other: those with the name of the module, its folder, its package."""
    below = source.relative_to("mqflow")
    own = ROOT / "tests" / below.with_name(f"test_{below.name}")
    seen: set[str] = set()
    for path in (own, own.parent, *(ROOT / each for each in PACKAGES[package][1])):
        name = path.relative_to(ROOT).as_posix()
        if path.exists() and name not in seen:
            seen.add(name)
            yield (name,)


def run(copy: Path, tests: Sequence[str], bound_s: float) -> str:
    """Return what these tests say: NOTICED, SURVIVED or HUNG."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "--tb=line",
        "-o",
        f"timeout={bound_s / 4:.0f}",
    ]
    # Without bytecode files: a defect can leave the size and the second of a file as they are.
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        [*command, *tests],
        cwd=copy,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=bound_s)
    except subprocess.TimeoutExpired:
        return HUNG
    finally:
        with suppress(ProcessLookupError):  # the processes that tests have started too
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if "from pytest-timeout" in said:
        return HUNG
    return SURVIVED if process.returncode in {0, 5} else NOTICED  # 5: there is no test


def verdict(copy: Path, planted: Planted, bound_s: float) -> str:
    """Plant the defect in the copy, run its tests until one group notices it, and restore the source."""
    package, source, mutation = planted
    whole = (ROOT / source).read_text("utf-8")
    (copy / source).write_text(mutation.plant(whole), "utf-8")
    until = time.monotonic() + bound_s
    try:
        for tests in stages(package, source):
            said = run(copy, tests, max(until - time.monotonic(), 1.0))
            if said != SURVIVED:
                return said
        return SURVIVED
    finally:
        (copy / source).write_text(whole, "utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.planting", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="which defects are drawn (1)")
    parser.add_argument("--count", type=int, default=150, help="how many defects (150)")
    parser.add_argument("--packages", nargs="+", choices=PACKAGES, default=list(PACKAGES), help="where (in each)")
    parser.add_argument("--only", type=int, metavar="N", help="plant the N-th defect only")
    parser.add_argument("--bound", type=float, default=1_200.0, metavar="S", help="the longest time for one defect (1200)")
    parser.add_argument("--list", action="store_true", help="print the defects, and plant none")
    given = parser.parse_args()
    every = enumerate(chosen(given.packages, given.count, given.seed), start=1)
    drawn = [each for each in every if given.only in {None, each[0]}]
    if given.list:
        for number, (_, source, mutation) in drawn:
            say(f"{number:4} {source}:{mutation}")
        return 0
    counts = {package: Counter[str]() for package in given.packages}
    missed: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in COPIED:
            (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, copy / name)
        for package in {planted[0] for _, planted in drawn}:
            for tests in PACKAGES[package][1]:
                if run(copy, (tests,), given.bound) != SURVIVED:
                    say(f"{tests} fails without a defect: mend it first.")
                    return 2
        for number, planted in drawn:
            package, source, mutation = planted
            began = time.monotonic()
            said = verdict(copy, planted, given.bound)
            counts[package][said] += 1
            line = f"{number:4} {said:8} {time.monotonic() - began:6.0f} s  {source}:{mutation}"
            missed += [line] * (said != NOTICED)
            say(line)
    say("\n".join(("", "Not noticed:", *missed, "")))
    for package, found in counts.items():
        say(f"{package:10} {found[NOTICED]:4} of {found.total():4} noticed, {found[HUNG]} hung")
    share = 100 * (len(drawn) - len(missed)) / max(len(drawn), 1)
    say(f"{share:.1f} % of {len(drawn)} noticed; the goal is {GOAL} %")
    return int(share < GOAL)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
