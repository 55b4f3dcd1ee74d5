"""SIGTERM at full load cuts off no handler and adds no backout count.

For more drains: `python -m tests.campaign drains`. The time of an exit depends on the load of the machine:
`tests/app/run/test_draining.py` asserts its bound in virtual time.
"""

import pytest

from tests.embedded.failover.drains import Drained, drain, violations
from tests.own_programs import run_function

DRAINS = 40


@pytest.mark.timeout(600)
def test_an_application_that_is_ended_finishes_its_messages() -> None:
    seen = run_function(drain, Drained, count=DRAINS, seed=1)

    assert [] == seen.wrong
    assert DRAINS == seen.ended
    assert 2 * DRAINS < seen.under_way, "too little was under way to prove anything"


@pytest.mark.rare
def test_a_drain_that_gives_no_time_is_found() -> None:
    seen = run_function(drain, Drained, count=15, seed=1, cut=True)

    assert any("was begun and not finished" in wrong for wrong in seen.wrong)


@pytest.mark.parametrize(
    ("said", "left", "wrong"),
    [(["p put 1", "a begin 1 0", "a end 1"], [], []),
     (["p put 1"], [("1", 0)], []),
     (["p put 1"], [], ["1 is lost"]),
     (["p put 1", "a begin 1 0"], [], ["1 was begun and not finished"]),
     (["p put 1"], [("1", 1)], ["1 lies there after a backout"]),
     (["p put 1", "a begin 1 0", "a end 1"], [("1", 0)], ["1 was handled and is there"]),
     (["p put 1", "a begin 1 0", "a end 1", "a begin 1 0", "a end 1"], [], ["1 was begun 2 times"]),
     (["p put 1", "a begin 1 0", "a begin 1 1", "a end 1"], [],
      ["1 was begun and not finished", "1 was begun 2 times", "1 was delivered after a backout"]),
     (["p put 1", "a begin 1 1", "a end 1"], [], ["1 was delivered after a backout"])],
)  # fmt: skip
def test_the_checker_accepts_every_possible_history(said: list[str], left: list[tuple[str, int]], wrong: list[str]) -> None:
    assert wrong == violations(said, left)
