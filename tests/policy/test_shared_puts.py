"""The rules for puts that share a unit of work. Source: decision 73."""

import pytest

from mqflow.policy.shared_puts import AfterBackout, Waiting, after_backout, calls_of_unit

ONE = Waiting(1, 1_000)
MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("waiting", "taken"),
    [
        pytest.param([], 0, id="nobody waits"),
        pytest.param([ONE] * 3, 3, id="all that wait"),
        pytest.param([ONE] * 65, 64, id="at most 64 messages"),
        pytest.param([Waiting(1, MIB), ONE], 1, id="at most 1 MiB"),
        pytest.param([Waiting(1, 5 * MIB), ONE], 1, id="the first call can be larger"),
        pytest.param([Waiting(100, 1, alone=True), ONE], 1, id="many messages take no company"),
        pytest.param([ONE, Waiting(2, 1, alone=True), ONE], 1, id="many messages join no company"),
    ],
)
def test_the_next_unit_of_work_takes_the_first_calls_that_fit(waiting: list[Waiting], taken: int) -> None:
    assert taken == calls_of_unit(waiting)


@pytest.mark.parametrize(
    ("calls", "connection_lost", "connections_lost", "waits", "expected"),
    [
        pytest.param(1, False, 0, True, AfterBackout.FAIL, id="a full disk refuses a single call"),
        pytest.param(2, False, 0, True, AfterBackout.PUT_EACH_ALONE, id="one of two calls can be the cause"),
        pytest.param(2, False, 0, False, AfterBackout.PUT_EACH_ALONE, id="in handlers too"),
        pytest.param(1, True, 3, True, AfterBackout.PUT_AGAIN, id="a lost connection"),
        pytest.param(1, True, 4, True, AfterBackout.FAIL, id="the fourth lost connection"),
        pytest.param(2, True, 0, True, AfterBackout.PUT_EACH_ALONE, id="a lost connection of two calls"),
        pytest.param(1, True, 1, False, AfterBackout.FAIL, id="a handler waits for no connection"),
        pytest.param(2, True, 1, False, AfterBackout.FAIL, id="nor do two handlers"),
    ],
)
def test_after_a_backout_at_the_commit_the_calls_are_put_again_or_fail(
    calls: int, *, connection_lost: bool, connections_lost: int, waits: bool, expected: AfterBackout
) -> None:
    assert expected is after_backout(
        calls=calls, connection_lost=connection_lost, connections_lost=connections_lost, waits=waits
    )
