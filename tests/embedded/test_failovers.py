"""Active and standby, killed and ended at any moment: nothing lost, nothing twice, whatever was under way.

Processes, sockets and kill -9 are real. More of them: `python -m tests.embedded.failovers 10000`. The bounds on time are those
of reliability goal R10, wide enough here for a machine that does something else as well; the page on performance has what was
measured.
"""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.embedded.failover_checking import violations
from tests.embedded.failover_defects import DEFECTS
from tests.embedded.failovers import Result, percentile

FAILOVERS = int(os.environ.get("MQFLOW_FAILOVERS", "500"))
PACED = 8


def _failed_over(count: int, *more: str) -> Result:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.embedded.failovers", str(count), "--json", *more],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert 0 == ended.returncode, ended.stderr
    return msgspec.json.decode(ended.stdout, type=Result)


@pytest.mark.timeout(600)
def test_nothing_is_lost_and_nothing_done_twice_however_often_a_standby_takes_over() -> None:
    seen = _failed_over(FAILOVERS)

    assert [] == seen.wrong
    assert FAILOVERS == seen.failovers
    assert FAILOVERS < seen.messages
    assert seen.unknown, "no call was ever cut off: too tame to prove anything"
    assert seen.application_back_ms


@pytest.mark.timeout(120)
def test_applications_are_back_with_the_first_delay_of_ibm_mq() -> None:
    seen = _failed_over(PACED, "--paced")

    assert [] == seen.wrong
    assert PACED == len(seen.application_back_ms)
    assert 1_000 <= min(seen.application_back_ms)
    assert percentile(seen.application_back_ms, 50) <= 1_500


@pytest.mark.timeout(120)
@pytest.mark.parametrize("defect", [name for name in DEFECTS if name != "none"])
def test_a_planted_defect_is_found(defect: str) -> None:
    assert _failed_over(40, "--defect", defect, "--patience", "4").wrong


@pytest.mark.parametrize(
    ("said", "left", "done", "wrong"),
    [
        (["p put a", "p put-done a"], ["a"], [], []),
        (["p put a", "p put-done a"], [], [], ["a is lost"]),
        (["p put a"], [], [], []),
        (["p put a"], ["a"], [], []),
        (["p put a", "p put-not a"], ["a"], [], ["a was never put"]),
        (["p put a", "p put-done a", "m move-done a>1"], [], ["a>1"], []),
        (["p put a", "p put-done a", "m move-done a>1"], ["a"], [], ["a>1 was committed and is not there"]),
        (["p put a", "p put-done a", "m move-not a>1"], [], ["a>1"], ["a>1 was refused and is there"]),
        (["p put a", "p put-done a", "m move-unknown a>1"], ["a"], ["a>1"], ["a is there 2 times"]),
        (["p put a", "p put-done a", "c collect a>1", "c collect-done a>1"], [], [], []),
        (["p put a", "p put-done a", "c collect a>1"], [], [], []),
        (["p put a", "p put-done a", "c collect a>1", "c collect-done a>1"], [], ["a>1"], ["a is there 2 times"]),
    ],
)
def test_the_checker_knows_what_may_be(said: list[str], left: list[str], done: list[str], wrong: list[str]) -> None:
    assert wrong == violations(said, left, done)[1]
