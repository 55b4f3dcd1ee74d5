"""The counts of the history from real Delta tables: each number has exactly the messages of its list. No Spark starts."""

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from mqflow.folders import folder_at
from mqflow.pipeline import PipelineError
from mqflow.pipeline.history.history_tables import HistoryTables
from mqflow.pipeline.history.time_axis import axis, bars
from mqflow.pipeline.history.weekly_groups import AttemptsOf, FailedIn, Failure, Selection, SetAside, Span, weekly_groups
from tests.pipeline.history.made_tables import (
    DAY,
    END,
    attempt,
    ended,
    identifier,
    letter,
    pin_last_versions,
    waiting,
    write_tables,
)

SPAN = Span(END, 4)
PRICE = Failure(queue="ORDERS.IN", handler="book", exception="ValueError", fingerprint="ValueError-place")
LATE = Failure(queue="ORDERS.IN", handler="book", exception="TimeoutError", fingerprint="TimeoutError-place")
FULL = Failure(queue="DEAD.LETTERS", reason="MQRC_Q_FULL", for_queue="ORDERS.IN")
GONE = Failure(queue="DEAD.LETTERS", reason="MQRC_UNKNOWN_OBJECT_NAME", for_queue="OLD")


def write_month(uri: str) -> None:
    """Write a month with four failed messages, three dead letters, and messages that succeeded."""
    write_tables(
        uri,
        attempt=[
            attempt(1, DAY),
            attempt(1, DAY / 2, "backed_out", attempt_no=2),
            attempt(2, 8 * DAY, "backed_out"),
            attempt(3, 9 * DAY),
            attempt(3, 2 * DAY, "rolled_back", "TimeoutError", attempt_no=2),
            attempt(3, DAY, "committed", None, attempt_no=3),
            attempt(4, 40 * DAY),
            attempt(5, timedelta(0), "committed", None),
            attempt(6, 20 * DAY, "committed", None),
            attempt(7, DAY, "unobserved", None, attempts=2_000, attempt_no=2_000),
        ],
        message=[
            ended(1, "backed_out", DAY / 2, "ORDERS.BOQ"),
            ended(2, "backed_out", 8 * DAY, "ORDERS.BOQ"),
            ended(3, "committed", DAY),
            ended(5, "committed", timedelta(0)),
            waiting(4, 40 * DAY),
            waiting(8, DAY),
            waiting(9, None),
            waiting(21, -DAY),
            waiting(22, DAY, handler=None),
            waiting(23, 2 * DAY, handler="bill"),
        ],
        dead_letter=[
            letter(11, 2 * DAY),
            letter(11, 2 * DAY, landed_ts=END - DAY),
            letter(12, 9 * DAY),
            letter(13, 9 * DAY, 2085, "MQRC_UNKNOWN_OBJECT_NAME", dlh_dest_q="OLD"),
            letter(14, 9 * DAY, has_dlh=False),
        ],
    )


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> HistoryTables:
    folder = tmp_path_factory.mktemp("tables")
    write_month(str(folder))
    return HistoryTables(folder)


def test_the_weeks_end_at_the_last_delivery_or_dead_letter(tables: HistoryTables) -> None:
    assert (END, 0) == tables.last_event()


def test_a_time_more_than_a_day_after_the_run_is_impossible_and_not_the_last(tmp_path: Path) -> None:
    ago = (-DAY, -DAY - timedelta(microseconds=1), timedelta(days=-366 * 7_000))
    write_tables(
        str(tmp_path),
        attempt=[attempt(1, each) for each in ago],
        dead_letter=[letter(2, ago[1]), letter(3, DAY)],
        run_ended=END,
    )

    assert (END + DAY, 3) == HistoryTables(tmp_path).last_event()


def test_a_message_counts_once_in_each_week_in_which_it_failed_alike(tables: HistoryTables) -> None:
    found = tables.failures(SPAN)

    groups = {group.failure: group.weeks for group in weekly_groups(found.counted, SPAN, {}, {})}
    assert {PRICE: (0, 0, 2, 1), LATE: (0, 0, 0, 1)} == groups
    assert {PRICE: SetAside(2, END - 8 * DAY)} == found.aside


def test_the_figure_begins_at_the_first_delivery_of_the_span(tables: HistoryTables) -> None:
    found = tables.failures(SPAN)

    assert END - 20 * DAY == found.first_at
    assert {
        int((END - ago).timestamp()) // found.every_s: 1 for ago in (DAY, DAY / 2, 2 * DAY, 8 * DAY, 9 * DAY)
    } == found.steps


def test_each_attempt_number_has_its_deliveries_and_successes(tables: HistoryTables) -> None:
    steps = [(step.attempt_no, step.entered, step.succeeded, round(step.percent)) for step in tables.failures(SPAN).retries]

    assert [(1, 5, 2, 40), (2, 2, 0, 0), (3, 1, 1, 100)] == steps


def test_a_dead_letter_that_landed_twice_counts_once(tables: HistoryTables) -> None:
    found = tables.letters(SPAN)

    groups = {group.failure: group.weeks for group in weekly_groups(found.counted, SPAN, {}, {})}
    assert {FULL: (0, 0, 1, 1), GONE: (0, 0, 1, 0)} == groups
    assert {FULL: 2, GONE: 1} == {kind.failure: kind.messages for kind in found.kinds}


def test_each_number_has_as_many_messages_as_it_says(tables: HistoryTables) -> None:
    failures, letters = tables.failures(SPAN), tables.letters(SPAN)
    numbers = [
        (Selection(what=each.failure, span=SPAN, week=each.week), each.messages)
        for each in (*failures.counted, *letters.counted)
    ]
    numbers += [
        (Selection(what=failure, span=SPAN, is_aside=True), aside.messages) for failure, aside in failures.aside.items()
    ]
    for step in failures.retries:
        of = AttemptsOf(queue=step.queue, handler=step.handler, attempt_no=step.attempt_no)
        numbers.append((Selection(what=of, span=SPAN), step.entered))
        done = AttemptsOf(queue=step.queue, handler=step.handler, attempt_no=step.attempt_no, has_succeeded=True)
        numbers.append((Selection(what=done, span=SPAN), step.succeeded))

    numbers += [(Selection(what=each.what, span=SPAN), each.messages) for each in tables.unended(SPAN)]
    assert failures.first_at is not None
    drawn = bars(axis(failures.first_at, END), failures.steps, failures.every_s)
    microsecond = timedelta(microseconds=1)
    numbers += [(Selection(what=FailedIn(each.start - microsecond, each.end), span=SPAN), each.count) for each in drawn]

    assert 5 == sum(each.count for each in drawn)
    for selection, number in numbers:
        rows, said = tables.messages(selection, 200)
        counts_deliveries = isinstance(selection.what, AttemptsOf | FailedIn)
        assert (number, number) == (said, sum(row.times if counts_deliveries else 1 for row in rows))
        assert {row.message_id for row in rows} == tables.identifiers(selection)


def test_messages_without_an_end_have_their_handler_and_the_age_of_the_oldest(tables: HistoryTables) -> None:
    """A message of a later week is left out, and so is one that no handler got. A get of an unknown time counts."""
    found = [(each.what.handler, each.messages, each.oldest_at) for each in tables.unended(SPAN)]

    assert [("book", 3, END - 40 * DAY), ("bill", 1, END - 2 * DAY)] == found


def test_a_message_of_a_number_has_its_outcome_and_the_queue_it_was_moved_to(tables: HistoryTables) -> None:
    rows, number = tables.messages(Selection(what=PRICE, span=SPAN), 2)

    shown = [(row.message_id, row.times, row.outcome, row.target_queue) for row in rows]
    assert [(identifier(1), 2, "backed_out", "ORDERS.BOQ"), (identifier(2), 1, "backed_out", "ORDERS.BOQ")] == shown
    assert 3 == number


def test_the_tables_can_be_in_an_object_store(server: dict[str, str]) -> None:
    assert server
    from tests.object_store import new_bucket  # noqa: PLC0415 - it takes a second to load

    uri = new_bucket() + "/tables"
    write_tables(uri, attempt=[attempt(1, DAY)])

    assert (END - DAY, 0) == HistoryTables(uri).last_event()


def test_a_reader_sees_the_current_run_and_not_the_rows_of_a_killed_one(tmp_path: Path) -> None:
    write_tables(str(tmp_path), attempt=[attempt(1, DAY)])
    table = str(tmp_path / "silver" / "attempt")
    later = DeltaTable(table).to_pyarrow_table()
    later = later.set_column(later.column_names.index("event_ts"), "event_ts", pa.array([END], later["event_ts"].type))
    write_deltalake(table, later, mode="append")

    assert (END - DAY, 0) == HistoryTables(tmp_path).last_event()


def test_a_column_that_an_older_table_lacks_is_empty(tmp_path: Path) -> None:
    write_tables(str(tmp_path), attempt=[attempt(1, DAY)])
    table = str(tmp_path / "silver" / "attempt")
    older = DeltaTable(table).to_pyarrow_table().drop_columns(["exc_fingerprint", "life"])
    write_deltalake(table, older, mode="overwrite", schema_mode="overwrite")
    pin_last_versions(str(tmp_path), "attempt")

    [counted] = HistoryTables(tmp_path).failures(SPAN).counted

    assert "" == counted.failure.fingerprint
    assert 1 == HistoryTables(tmp_path).messages(Selection(what=counted.failure, span=SPAN), 9)[1]


def test_a_count_says_if_it_has_reached_the_limit(tmp_path: Path) -> None:
    write_tables(
        str(tmp_path),
        attempt=[attempt(number, DAY) for number in range(5)],
        message=[],
        dead_letter=[letter(number, DAY) for number in range(5)],
    )
    tables = HistoryTables(tmp_path, rows_max=4)

    assert (True, 4) == (tables.failures(SPAN).is_cut, sum(each.messages for each in tables.failures(SPAN).counted))
    assert (True, 4) == (tables.letters(SPAN).is_cut, sum(each.messages for each in tables.letters(SPAN).counted))
    assert not HistoryTables(tmp_path, rows_max=5).failures(SPAN).is_cut


def test_tables_that_were_never_written_have_no_history(tmp_path: Path) -> None:
    tables = HistoryTables(tmp_path)

    assert (None, 0) == tables.last_event()
    assert ((), ()) == (tables.failures(SPAN).counted, tables.letters(SPAN).counted)


def test_a_folder_with_something_else_is_refused_by_its_name(tmp_path: Path) -> None:
    folder = folder_at(tmp_path).folder("silver")
    folder.make()
    folder.replace("CURRENT.json", b'{"format": "of another program"}')

    with pytest.raises(PipelineError, match="holds 'of another program', not tables of mqflow"):
        HistoryTables(tmp_path).last_event()
