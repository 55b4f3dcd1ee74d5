"""The formulas of docs/scaling.md agree with the simulation, which makes the decisions of mqflow."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import scaling
from benchmarks.scaling import figures, group_without_one, latest_attempt_s, poison, poison_s, reconnect, redrive
from mqflow.policy.reconnect.delays import LADDER
from mqflow.testing.virtual_clock import SeededRandom


def test_each_formula_agrees_with_the_simulation() -> None:
    for figure in figures(0.02):
        assert abs(figure.difference) <= 0.15, figure


@pytest.mark.parametrize(
    ("outage_s", "expected_s"), [(0.0, 1.25), (1.0, 1.25), (1.1, 3.75), (30.0, 38.75), (31.1, 70.0), (90.0, 132.5)]
)
def test_the_latest_attempt_has_the_largest_random_part_of_each_delay(outage_s: float, expected_s: float) -> None:
    assert expected_s == latest_attempt_s(outage_s)


@given(st.integers(1, 60), st.floats(0, 120), st.integers(0, 9))
def test_every_application_is_back_once_after_the_outage_and_in_time(instances: int, outage_s: float, seed: int) -> None:
    back = reconnect(instances, outage_s, SeededRandom(seed).random, accepts_per_s=100)

    assert instances == len(back.back_s)
    assert back.back_s[0] > max(outage_s, LADDER[0][0])
    assert back.back_s[-1] <= latest_attempt_s(outage_s) + instances / 100 + 1e-6


@given(st.integers(1, 200), st.integers(1, 20), st.integers(1, 6))
def test_each_poison_message_is_handled_as_often_as_its_threshold_says(messages: int, workers: int, threshold: int) -> None:
    moved = poison(messages, workers, SeededRandom(1).random, threshold=threshold)

    assert messages * threshold == moved.calls
    assert moved.seconds >= 0.75 * poison_s(messages, workers, threshold=threshold)


def test_a_redrive_within_the_capacity_makes_no_deep_queue() -> None:
    assert redrive(1_000, 100.0, 100.0, 10, SeededRandom(1).random).depth_max < 20


def test_the_applications_of_a_lost_member_are_on_the_other_members() -> None:
    placed = group_without_one(700, 8, SeededRandom(1).random)

    assert 700 == sum(placed.values())
    assert {f"QM{number}" for number in range(1, 8)} == placed.keys()
    assert all(60 <= count <= 140 for count in placed.values())


@pytest.mark.rare
def test_the_command_writes_the_table_and_the_pictures(tmp_path: Path) -> None:
    page = Path(scaling.__file__).parents[1] / "docs/scaling.md"
    (tmp_path / "scaling.md").write_text(page.read_text("utf-8"), "utf-8")

    scaling.main(["--share", "0.01", "--docs", str(tmp_path)])

    assert 10 < (tmp_path / "scaling.md").read_text("utf-8").count("\n| ")
    assert {"scaling-reconnect.svg", "scaling-redrive.svg"} == {each.name for each in (tmp_path / "images").iterdir()}
