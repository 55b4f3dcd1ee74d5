"""The skips of a run: each has a known reason (skips.toml), and no statement of the sources is held by skipped tests only."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
import pytest
from msgspec import Struct

from tests.sources.statements import ORDER, held_by
from tests.sources.statements import read as source

__all__ = ("Known", "Skips", "known", "not_held", "unexpected")

_TABLE: Final = Path(__file__).with_name("skips.toml")


class Known(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Skips of one kind."""

    #: The begin of the reason.
    reason: str
    why: str
    #: The most skips of a whole run. A kind with `needs` has no such number.
    most: int | None = None
    needs: str = ""


class _Table(Struct, frozen=True):
    skip: tuple[Known, ...]


def known() -> tuple[Known, ...]:
    """Return the kinds of skips.toml."""
    return msgspec.toml.decode(_TABLE.read_text("utf-8"), type=_Table).skip


def unexpected(skipped: Mapping[str, int], kinds: Sequence[Known]) -> Iterator[str]:
    """Yield a sentence for each reason without a kind, and for each kind with too many skips."""
    found: Counter[str] = Counter()
    for reason, times in skipped.items():
        kind = max((each for each in kinds if reason.startswith(each.reason)), key=lambda each: len(each.reason), default=None)
        if kind is None:
            yield f"{times} skipped, and tests/skips.toml does not know why: {reason}"
        else:
            found[kind.reason] += times
    for kind in kinds:
        if kind.most is not None and found[kind.reason] > kind.most:
            yield f"{found[kind.reason]} skipped, and tests/skips.toml expects {kind.most} at most: {kind.reason}"


def not_held(outcomes: Mapping[str, set[str]], held: Sequence[str]) -> list[str]:
    """Return the tests (`path::name`) that hold a statement of the sources, and of which every case was skipped."""
    return [name for name in held if outcomes.get(name) == {"skipped"}]


class Skips:
    """A plugin of pytest: fails a run with unexpected skips. It belongs in the process that starts the others."""

    def __init__(self, *, whole_files: bool) -> None:
        #: Whether each test runs with all its cases.
        self._whole_files = whole_files
        self._skipped: Counter[str] = Counter()
        self._outcomes: dict[str, set[str]] = {}
        self._wrong: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a skip by its reason."""
        skipped = report.skipped and not hasattr(report, "wasxfail")
        if skipped and isinstance(report.longrepr, tuple):
            self._skipped[report.longrepr[2].removeprefix("Skipped: ")] += 1
        if skipped or report.when == "call":
            self._outcomes.setdefault(report.nodeid.partition("[")[0], set()).add(report.outcome)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail the run if a skip is unexpected."""
        self._wrong = list(unexpected(self._skipped, known()))
        if self._whole_files:
            names = [held_by(each) for table in ORDER for statement in source(table).statements for each in statement.held]
            left = not_held(self._outcomes, sorted({f"{each.file}::{each.test}" for each in names}))
            self._wrong += [f"{name} holds a statement of docs/sources.md, and every case of it was skipped" for name in left]
        if self._wrong and session.exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print what is unexpected."""
        for each in self._wrong:
            terminalreporter.write_line(f"UNEXPECTED SKIP: {each}", red=True)
