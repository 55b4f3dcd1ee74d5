"""Landing on every queue manager behind the seam: the verbs that the lander needs, as the lander uses them."""

from pathlib import Path

import pytest

from mqflow.landing.lander import LanderOptions
from mqflow.landing.recovery import STATE_QUEUE
from mqflow.mqi.options import Persistence
from mqflow.world import SYSTEM_CLOCK
from tests.conformance.programs import Program
from tests.conformance.under_test import UnderTest
from tests.landing.journals import MODES, QUEUE, bodies, column, land_all, lander_on, steal


@pytest.fixture
def orders(queue_manager: UnderTest, program: Program) -> str:
    queue_manager.define(QUEUE)
    queue_manager.define(STATE_QUEUE)
    for number in range(10):
        program.put(QUEUE, b"%d" % number, persistence=Persistence.PERSISTENT, format="MQSTR", correlation_id=b"c" * 24)
    return QUEUE


def land(queue_manager: UnderTest, folder: Path, options: LanderOptions) -> None:
    connection = queue_manager.queue_manager.connect()
    land_all(lander_on(connection, folder, SYSTEM_CLOCK, options))
    connection.disconnect()


@pytest.mark.parametrize("options", MODES.values(), ids=MODES)
def test_a_queue_is_landed_whole_and_a_second_lander_goes_on(
    options: LanderOptions, queue_manager: UnderTest, program: Program, orders: str, tmp_path: Path
) -> None:
    land(queue_manager, tmp_path / "j", options)
    program.put(orders, b"10")
    land(queue_manager, tmp_path / "j", options)

    assert list(range(11)) == bodies(tmp_path / "j")
    assert [1] * 7 + [2] * 3 + [3] == column(tmp_path / "j", "segment")
    assert {0} == set(column(tmp_path / "j", "backout_count"))
    assert [b"c" * 24] * 10 == column(tmp_path / "j", "correl_id")[:10]
    assert 0 == queue_manager.depth(orders)
    assert 1 == queue_manager.depth(STATE_QUEUE)


def test_a_message_taken_between_browse_and_get_is_not_landed(
    queue_manager: UnderTest, program: Program, orders: str, tmp_path: Path
) -> None:
    lander = lander_on(queue_manager.queue_manager.connect(), tmp_path / "j", SYSTEM_CLOCK, MODES["browse"])
    lander.open()
    browse = lander._browse

    def browse_and_be_robbed() -> object:
        unit = browse()
        steal(program.connection, {2, 5}.__contains__)
        return unit

    lander._browse = browse_and_be_robbed  # type: ignore[method-assign, assignment]  # the moment of the theft
    lander.land()
    lander.land()

    assert [0, 1, 3, 4, 6, 7, 8, 9] == bodies(tmp_path / "j")
    assert {0} == set(column(tmp_path / "j", "backout_count"))
