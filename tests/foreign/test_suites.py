"""Programs of other projects run on the stand-in library. A usual run has those of Go and Node whose day it is, for their time.

The other programs run only with MQFLOW_FOREIGN=1, because they install much, or clone repositories. Without a network the tests
use the files of an earlier run.
"""

import os
from typing import Final

import pytest

from tests.foreign import suites
from tests.foreign.serving import MissingError
from tests.foreign.suites import CHECKS, Outcome, main, table
from tests.foreign.theirs import ENDLESS, THEIRS
from tests.long import of_the_day

pytestmark = pytest.mark.xdist_group("foreign")
TURNS: Final = (("jms20",), ("mq_prometheus",), ("go-samples",), ("npm-ibmmq",))
"""The checks that compile or load modules of a registry, in turns. A usual run has one turn."""
_ASKED: Final = os.environ.get("MQFLOW_FOREIGN") == "1"
_TODAY: Final = [check for turn in (TURNS if _ASKED else of_the_day(TURNS, 1, name="foreign")) for check in turn]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("check", _TODAY)
def test_programs_in_go_and_node_fail_only_as_listed(check: str) -> None:
    try:
        _runs(check)
    except MissingError as missing:
        pytest.skip(f"there is no way to run {check} here: {missing}")


@pytest.mark.skipif(not _ASKED, reason="it installs and clones: MQFLOW_FOREIGN=1 asks for it")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("check", [check for check in CHECKS if all(check not in turn for turn in TURNS)])
def test_only_the_listed_failures_happen_here(check: str) -> None:
    _runs(check)


def _runs(check: str) -> None:
    outcomes = list(CHECKS[check]())

    assert any(each.verdict == "passed" for each in outcomes)
    assert [] == [each for each in outcomes if each.verdict == "failed" and not each.theirs]
    assert set() == {name for (of, name) in THEIRS if of == check} - {
        each.name for each in outcomes if each.verdict == "failed"
    }


def test_every_excused_failure_belongs_to_a_check() -> None:
    assert {check for check, _ in (*THEIRS, *ENDLESS)} <= set(CHECKS)


def test_a_failure_that_is_not_excused_is_ours() -> None:
    (check, name), why = next(iter(THEIRS.items()))
    outcomes = [
        Outcome(check, name, "failed", "it said"),
        Outcome(check, "other", "failed", "it broke"),
        Outcome(check, "third", "passed"),
    ]

    said = table(outcomes)

    assert f"| {check} | 1 | 0 | 1 | 1 |" in said
    assert f"- {check}, {name}: {why}" in said
    assert f"- {check}, other: OURS: it broke" in said


def test_a_check_that_cannot_run_here_says_why(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refused() -> list[Outcome]:
        raise MissingError("It needs a tool.")

    monkeypatch.setattr(suites, "CHECKS", {"one": lambda: [Outcome("one", "a", "passed")], "two": refused})

    assert (2, 0, 2) == (main(["one", "two"]), main(["one"]), main(["three"]))
    said = capsys.readouterr()
    assert "| one | 1 | 0 | 0 | 0 |" in said.out
    assert "two cannot run here: It needs a tool." in said.err
    assert "There is no three. The checks are one, two." in said.err
