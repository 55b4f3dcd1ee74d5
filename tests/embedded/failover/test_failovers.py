"""Active and standby, killed and ended at any moment: no message is lost or doubled.

Processes, sockets and kill -9 are real. For more failovers: `python -m tests.campaign failovers`. The times depend on
the load of the machine. `tests/simulation/test_failover_times.py` asserts them in virtual time, and the tests of
`tests/campaign` assert the percentiles of all measured failovers.
"""

import pytest

from tests.embedded.failover.checking import Lying, violations
from tests.embedded.failover.defects import DEFECTS
from tests.embedded.failover.failovers import Result, fail_over, percentile
from tests.long import DAY, usually
from tests.own_programs import run_function

FAILOVERS = usually(30, long=500)
"""Each day has other ones: those of two days are as many as any planted defect needs."""
PACED = usually(3, long=8)


@pytest.mark.timeout(600)
def test_nothing_is_lost_and_nothing_done_twice_however_often_a_standby_takes_over() -> None:
    seen = run_function(fail_over, Result, count=FAILOVERS, seed=DAY.toordinal())

    assert [] == seen.wrong
    assert FAILOVERS == seen.failovers
    assert FAILOVERS < seen.messages
    assert seen.unknown, "no call was ever cut off: too tame to prove anything"
    assert seen.application_back_ms
    assert FAILOVERS < seen.redelivered
    assert seen.delivered > 2 * seen.perhaps_delivered, "too many deliveries may have gone unseen to count backouts"


@pytest.mark.rare
@pytest.mark.timeout(120)
def test_applications_are_back_with_the_first_delay_of_ibm_mq() -> None:
    seen = run_function(fail_over, Result, count=PACED, seed=1, paced=True)

    assert [] == seen.wrong
    assert PACED == len(seen.application_back_ms)
    assert 1_000 <= min(seen.application_back_ms)
    assert percentile(seen.application_back_ms, 50) <= 1_500


FOUND_BY = {
    "answers before writing": (20, "is lost"),
    "commits what a dead application held": (60, "is lost"),
    "an application repeats a commit in doubt": (40, "is there 2 times"),
    "the lock is inherited by a child": (2, "the standby takes over after 'kill"),
    "a takeover forgets what was in flight": (5, "was delivered with BackoutCount"),
    "a takeover counts each delivery twice": (10, "backouts were counted that nobody saw"),
    "a takeover turns the order round": (10, "for the first time out of turn"),
}
"""Each defect, with the number of failovers that find it, and the error of the harness."""


_SERIES_MAX = 4


def test_every_defect_names_the_check_that_finds_it() -> None:
    assert {"none", *FOUND_BY} == set(DEFECTS)


@pytest.mark.sampled(1)
@pytest.mark.timeout(300)
@pytest.mark.parametrize("defect", FOUND_BY)
def test_a_planted_defect_is_found(defect: str) -> None:
    """Each series is different: how often the defect takes effect in a series depends on the scheduler."""
    failovers, sentence = FOUND_BY[defect]

    wrong: list[str] = []
    for seed in range(_SERIES_MAX):
        wrong += run_function(fail_over, Result, count=failovers, seed=seed, defect=defect, patience_s=4.0).wrong
        if any(sentence in each for each in wrong):
            return
    pytest.fail(f"not found in {_SERIES_MAX} series of {failovers}: {wrong[:5]}")


@pytest.mark.parametrize(
    ("said", "left", "done", "wrong"),
    [
        (["p put a", "p put-done a"], [("a", 0)], [], []),
        (["p put a", "p put-done a"], [], [], ["a is lost"]),
        (["p put a"], [], [], []),
        (["p put a"], [("a", 0)], [], []),
        (["p put a", "p put-not a"], [("a", 0)], [], ["a was never put"]),
        (["p put a", "p put-done a", "m move-done a>1"], [], [("a>1", 0)], []),
        (["p put a", "p put-done a", "m move-done a>1"], [("a", 0)], [], ["a>1 was committed and is not there"]),
        (["p put a", "p put-done a", "m move-not a>1"], [], [("a>1", 0)], ["a>1 was refused and is there"]),
        (["p put a", "p put-done a", "m move-unknown a>1"], [("a", 0)], [("a>1", 0)], ["a is there 2 times"]),
        (["p put a", "p put-done a", "c collect a>1", "c collect-done a>1"], [], [], []),
        (["p put a", "p put-done a", "c collect a>1"], [], [], []),
        (["p put a", "p put-done a", "c collect a>1", "c collect-done a>1"], [], [("a>1", 0)], ["a is there 2 times"]),
    ],
)
def test_the_checker_accepts_every_possible_history(
    said: list[str], left: list[Lying], done: list[Lying], wrong: list[str]
) -> None:
    assert wrong == violations(said, left, done)[1]


PUT = ["p put p.1", "p put-done p.1", "p put p.2", "p put-done p.2"]


@pytest.mark.parametrize(
    ("said", "left", "wrong"),
    [(["m get 1", "m got p.1=0"], [("p.1", 1)], []),
     (["m get 1", "m got p.1=0"], [("p.1", 0)], ["p.1 has BackoutCount 0, and was backed out 1 times at least"]),
     (["m get 1", "m got p.1=0", "m get 1"], [("p.1", 2)], []),
     (["m get 1", "m got p.1=0", "m get 1", "m got-lost"], [("p.1", 2)], []),
     (["m get 1", "m got p.1=0"], [("p.1", 2)], ["1 backouts were counted that nobody saw, and 0 gets had no answer"]),
     (["m get 1", "m got p.1=0", "m get 1", "m got-not"], [("p.1", 2)],
      ["1 backouts were counted that nobody saw, and 0 gets had no answer"]),
     (["m get 4", "m got-lost"], [("p.1", 2)], []),
     (["m get 1", "m got p.1=0", "m get 1", "m got p.1=1"], [("p.1", 2)], []),
     (["m get 1", "m got p.1=1", "n get 1", "n got p.1=0"], [("p.1", 2)], []),
     (["m get 1", "m got p.1=0", "m get 1", "m got p.1=0"], [("p.1", 2)],
      ["p.1 was delivered with BackoutCount 0 more than once"]),
     (["m get 2", "m got p.1=0 p.2=0"], [("p.1", 1), ("p.2", 1)], []),
     (["m get 2", "m got p.2=0 p.1=1"], [("p.1", 2), ("p.2", 1)],
      ["1 backouts were counted that nobody saw, and 0 gets had no answer"]),
     (["m get 2", "m got p.2=0 p.1=0"], [("p.1", 1), ("p.2", 1)], ["p.1 was delivered for the first time out of turn"]),
     (["m get 1", "m got p.2=0", "n get 1", "n got p.1=0"], [("p.1", 1), ("p.2", 1)], [])],
)  # fmt: skip
def test_the_checker_counts_deliveries(said: list[str], left: list[Lying], wrong: list[str]) -> None:
    """The checker knows that BackoutCount is the number of deliveries backed out, and that messages keep their order."""
    names = {name for name, _ in left}
    others = [(name, 0) for name in ("p.1", "p.2") if name not in names]

    assert wrong == violations([*PUT, *said], [*left, *others], [])[1]
