"""The demo of the pipeline on some days of flights: each message is where a plain count expects it, and the check can fail."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from examples.flights_on_spark import planted
from examples.flights_on_spark.app import Calls
from examples.flights_on_spark.checks import Check, _differences, check_booked, check_deliveries, check_messages
from examples.flights_on_spark.demo import SHIPPED, Counts, Demo, command, connected, consume, near, run_demo, strays
from examples.flights_on_spark.instruments import SpanCounter, check_calls, check_depths
from examples.flights_on_spark.nights import Night
from examples.flights_on_spark.oracle import Expected, Fate, expected, read

DAYS = 5
HERE = Path(__file__)
#: A demo has many queries, and each takes long on a busy machine.
pytestmark = [pytest.mark.timeout(900), pytest.mark.xdist_group("spark")]


@pytest.fixture(scope="module")
def demo(interpreted: None, tmp_path_factory: pytest.TempPathFactory) -> Demo:
    return Demo(data=SHIPPED, folder=tmp_path_factory.mktemp("demo") / "here", days=DAYS)


@pytest.fixture(scope="module")
def checks(demo: Demo) -> list[Check]:
    return run_demo(demo)


@pytest.fixture(scope="module")
def wanted() -> Expected:
    days = read(SHIPPED, DAYS)
    return expected(days, planted.gates_change(list(days)))


def test_queues_tables_and_report_say_what_plain_python_counts(checks: list[Check]) -> None:
    assert [] == [check for check in checks if not check.agrees]
    assert 30 < len(checks)


def test_every_kind_of_planted_trouble_is_among_the_days(wanted: Expected) -> None:
    errors = {fate.error for fate in wanted.before.values()}

    assert {
        "msgspec.DecodeError", "msgspec.ValidationError", "UnknownGateError", "UnknownAirportError", "NotAdmittedError",
    } < errors  # fmt: skip
    assert {(2053, "NIGHT.IN"), (2085, "HAWAII.IN")} == set(wanted.dead_letters)
    assert wanted.flights_back
    assert wanted.nights_back


def test_page_pictures_and_numbers_lie_side_by_side(checks: list[Check], demo: Demo) -> None:
    page = (demo.page / "report.html").read_text()
    told = json.loads((demo.page / "report.json").read_text())

    assert f"{told['messages']:,} messages were handled" in page
    assert {"poison-light.png", "poison-dark.png", "culprits-light.png", "retries-dark.png"} <= {
        path.name for path in (demo.page / "png").iterdir()
    }


def test_a_message_of_another_fate_is_found(checks: list[Check], demo: Demo, wanted: Expected) -> None:
    """The control: the check of messages can fail."""
    poison, committed = (
        next(key for key, fate in wanted.after.items() if key[0] == "FLIGHTS.IN" and fate.poison is kind)
        for kind in (True, False)
    )
    wrong = wanted.after | {
        poison: Fate({"committed": 1}),
        committed: Fate({"backed_out": 1}),
        ("FLIGHTS.IN", 10**9): Fate({"committed": 1}),
    }

    [flights] = _of("FLIGHTS.IN", check_messages(demo.tables, wrong, wanted.poison_after, "wrong"))

    assert 3 == len(flights.differs)
    assert not flights.agrees


def test_a_call_without_a_record_and_a_record_without_a_call_are_found(checks: list[Check], demo: Demo) -> None:
    """The control: the check of calls can fail."""
    for found in check_calls(demo.tables, Calls({("FLIGHTS.IN", 10**9): 1})):
        assert "('FLIGHTS.IN', 1000000000): 0, should be 1" in found.differs
        assert "('FLIGHTS.IN', 0): 1, should be 0" in found.differs


def test_a_delivery_too_many_is_found_in_every_table_that_counts_deliveries(
    checks: list[Check], demo: Demo, wanted: Expected
) -> None:
    """The control: each check of deliveries can fail."""
    lives = [*wanted.lives, *wanted.lives_again]
    one = next(life for life in lives if life.error)
    wrong = [replace(life, deliveries=life.deliveries + 1) if life is one else life for life in lives]

    agreeing = [check.what for check in check_deliveries(demo.tables, wrong, "wrong") if check.agrees]

    assert all(what.endswith(("poison by exception", "succeeded")) for what in agreeing), agreeing


@pytest.mark.parametrize(("change", "said"), [([], ""), ([7], "flight 7: should not be"), ([-1], "0 times"), ([0], "2 times")])
def test_a_booking_too_many_and_one_too_few_are_found(change: list[int], said: str) -> None:
    numbers = [number for number in [1, 2, 3] if -number not in change] + [number or 1 for number in change if number >= 0]
    found = check_booked(numbers, Expected(booked={1, 2, 3}))

    assert found.agrees is not bool(change)
    assert said in " ".join(found.differs)


@pytest.mark.parametrize(
    ("outcome", "attempts", "agrees"),
    [("backed_out", 2, True), ("committed", 3, True), ("backed_out", 3, False), ("backed_out", 1, False),
     ("committed", 2, False)],
)  # fmt: skip
def test_a_message_that_was_delivered_too_often_or_too_rarely_is_found(outcome: str, attempts: int, *, agrees: bool) -> None:
    key = ("NIGHT.IN", 7)
    row = {"final_outcome": outcome, "attempts": attempts, "last_exc_class": None}

    found = list(_differences({key: Fate({"backed_out": 2, "committed": 3})}, {key: [row]}))

    assert agrees is not bool(found)


def test_in_real_time_each_message_is_handled_as_often_and_is_where_plain_python_counts(tmp_path: Path) -> None:
    """One night without Spark: the demo compares tables, ledger and spans too."""
    [(day, records)] = read(SHIPPED, 1).items()
    demo, counts = Demo(data=SHIPPED, folder=tmp_path, real_time=True), Counts(calls=Calls(), spans=SpanCounter())
    never = day + timedelta(days=1)
    wanted = expected({day: records}, never)
    command(demo, "mqsc", near("queues.mqsc"))

    consume(demo, [Night(day, records)], counts, never, repaired=False)

    with connected(demo) as connection:
        strays(connection)
        assert [] == [check for check in check_depths(connection, wanted) if not check.agrees]
    undecodable = {key for key, fate in wanted.before.items() if (fate.error or "").startswith("msgspec.")}
    calls = {key: next(iter(fate.outcomes.values())) for key, fate in wanted.before.items() if key not in undecodable}
    assert calls == counts.calls
    assert counts.calls.total() + len(undecodable) == sum(
        count for name, count in counts.spans.ended.items() if name[:7] == "process"
    )


def _of(queue: str, checks: Iterator[Check]) -> list[Check]:
    return [check for check in checks if check.what.endswith(f"messages of {queue}")]
