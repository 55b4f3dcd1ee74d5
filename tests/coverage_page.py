"""Measures which branches the tests reach, and writes docs/coverage.md: `python -m tests.coverage_page [PYTEST ARGUMENTS]`.

The programs that tests start are measured too. A run of the tests has only a sample of the long files that use Spark. So the
command without arguments also runs all files of the pipeline. The page has a row for each package, and each package has a bar.
The bar is every branch of the decisions (`mqflow/policy`), and 95 % of every other package. The command ends with 1 if a
package is below its bar.
"""

import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

__all__ = ("Measured", "main", "package_of", "page")

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs/coverage.md"
_BAR: Final = 95.0
_WHOLE: Final = 100.0
_DEEP: Final = frozenset({"embedded", "pipeline", "runtime", "cli", "app"})
"""Packages whose folders have rows of their own."""
_ALL: Final = ("-n", "3", "--dist", "loadgroup", "--no-loadscope-reorder")
_PIPELINE: Final = ("tests/pipeline", "tests/journal")


class Summary(Struct, frozen=True):
    """The counts of coverage.py for one file."""

    num_statements: int
    covered_lines: int
    num_branches: int
    covered_branches: int


class _File(Struct, frozen=True):
    summary: Summary


class _Report(Struct, frozen=True):
    files: dict[str, _File]


class Measured(Struct, frozen=True):
    """One package: its statements and branches, and how many of them the tests reach."""

    package: str
    statements: int
    branches: int
    reached: int

    @property
    def percent(self) -> float:
        """The reached part of statements and branches together, as coverage.py counts it."""
        whole = self.statements + self.branches
        return _WHOLE * self.reached / whole if whole else _WHOLE

    @property
    def bar(self) -> float:
        """The least percentage."""
        return _WHOLE if self.package == "mqflow/policy" else _BAR


def package_of(file: str) -> str:
    """Return the package of a file: two levels, or three levels for the packages that have folders."""
    parts = file.split("/")[:-1]
    return "/".join(parts[: 3 if len(parts) > 1 and parts[1] in _DEEP else 2])


def measured(files: Iterable[tuple[str, Summary]]) -> Sequence[Measured]:
    """Return the packages of these files, by name."""
    counts = defaultdict[str, list[int]](lambda: [0, 0, 0])
    for file, summary in files:
        count = counts[package_of(file)]
        count[0] += summary.num_statements
        count[1] += summary.num_branches
        count[2] += summary.covered_lines + summary.covered_branches
    return [Measured(package, *count) for package, count in sorted(counts.items())]


def page(packages: Sequence[Measured], day: str, command: str) -> str:
    """Return the page: one row for each package."""
    below = [each.package for each in packages if each.percent < each.bar]
    return "\n".join(
        (
            "# What the tests reach",
            "",
            f"Statements and branches that `{command}` reached on {day}, in all processes that it started. The bar is",
            "100 % for the decisions (`mqflow/policy`) and 95 % for every other package.",
            "",
            "| package | statements | branches | reached | bar |",
            "|---|---:|---:|---:|---:|",
            *(
                f"| `{each.package}` | {each.statements:,} | {each.branches:,} | {each.percent:.1f} % | {each.bar:.0f} % |"
                for each in packages
            ),
            "",
            f"Below the bar: {', '.join(f'`{name}`' for name in below) or 'none'}.",
            "",
        )
    )


def main(arguments: Sequence[str]) -> int:
    """Run the tests with these arguments of pytest, and write the page. Return 0 if every package has reached its bar."""
    with tempfile.TemporaryDirectory() as folder:
        data, report = Path(folder) / "data", Path(folder) / "report.json"
        coverage = (sys.executable, "-m", "coverage")
        file = f"--data-file={data}"
        runs: list[tuple[Sequence[str], dict[str, str]]] = (
            [(arguments, {})] if arguments else [(_ALL, {}), ((*_ALL, *_PIPELINE), {"MQFLOW_LONG": "1"})]
        )
        for chosen, more in runs:
            words = (*coverage, "run", "--parallel-mode", file, "-m", "pytest", "-q", *chosen)
            subprocess.run(words, cwd=ROOT, env=os.environ | more, check=False)
        subprocess.run((*coverage, "combine", "-q", file, folder), cwd=ROOT, check=True)
        subprocess.run((*coverage, "json", "-q", "--ignore-errors", file, "-o", str(report)), cwd=ROOT, check=True)
        files = msgspec.json.decode(report.read_bytes(), type=_Report).files
    packages = measured((name, each.summary) for name, each in files.items())
    command = " ".join(("python -m tests.coverage_page", *arguments))
    PAGE.write_text(page(packages, datetime.now(UTC).date().isoformat(), command), "utf-8")
    for each in packages:
        below = "" if each.percent >= each.bar else f"  below {each.bar:.0f} %"
        sys.stdout.write(f"{each.package:40} {each.percent:6.2f} %{below}\n")
    return int(any(each.percent < each.bar for each in packages))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
