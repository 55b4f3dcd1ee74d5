"""How far each table is behind: the measurement, the command `mqflow spark status`, and the metrics. No test starts Spark."""

import json
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import CommitProperties, Transaction, write_deltalake
from msgspec.structs import replace

from mqflow.cli.main import main
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.server.listener import serve
from mqflow.folders import folder_at
from mqflow.journal import Journal, Kind, Segment
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.pipeline.stream.freshness import Level, level_of
from mqflow.pipeline.tables.table_set import Current
from mqflow.testing.journals import generate_journal
from tests.embedded.disk_faults.disk import memory_folder
from tests.queue_contents import put

MINUTE_US = 60_000_000
SEGMENTS = [Segment(lane, number, 10 * number, 0, folder_at("none"), "", 1, 0.0) for lane in "AB" for number in (1, 2, 3)]


def landed(segment: Segment) -> tuple[int, int]:
    """A segment of A landed in the minute of its number, one of B an hour later; its events are a second older."""
    at = segment.number * MINUTE_US + (segment.lane == "B") * 60 * MINUTE_US
    return at, at - 1_000_000


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [
        ({}, (0, 120, 99 * 60.0, None)),
        ({"A": 1}, (10, 110, 98 * 60.0, 1 * MINUTE_US)),
        ({"A": 3, "B": 1}, (70, 50, 38 * 60.0, 61 * MINUTE_US)),
        ({"A": 3, "B": 3}, (120, 0, 0.0, 63 * MINUTE_US)),
    ],
    ids=["nothing", "the first of one lane", "one lane, and the first of another", "everything"],
)
def test_a_table_is_behind_by_the_segments_it_lacks_and_the_time_since_the_first_of_them(
    offsets: Mapping[str, int], expected: tuple[int, int, float, int | None]
) -> None:
    found = level_of("bronze.payload", SEGMENTS, offsets, landed, 100 * MINUTE_US)

    assert expected == (found.rows, found.rows_behind, found.seconds_behind, found.newest_landed_us)
    assert found.newest_event_us == (None if expected[3] is None else expected[3] - 1_000_000)


def test_a_clock_that_is_behind_the_lander_makes_no_negative_lag() -> None:
    assert 0.0 == level_of("gold", SEGMENTS, {}, landed, 0).seconds_behind


def test_a_missing_segment_of_unknown_age_still_counts_its_rows() -> None:
    found = level_of("gold", SEGMENTS[:1], {}, lambda _: (None, None), 0)

    assert Level(name="gold", rows=0, rows_behind=10, seconds_behind=None) == found


def test_a_segment_whose_rows_are_all_erased_makes_no_table_late() -> None:
    erased = replace(SEGMENTS[2], rows=0)

    found = level_of("silver", [*SEGMENTS[:2], erased], {"A": 2}, lambda each: landed(each) if each.rows else (None, None), 0)

    assert (30, 0, 0.0, 2 * MINUTE_US) == (found.rows, found.rows_behind, found.seconds_behind, found.newest_landed_us)


def tables_with(path: Path, journal: Journal, *, bronze: int, silver: int, gold: int) -> None:
    """Write the positions of tables that have these segments of lane D."""
    of = f"mqflow-bronze {journal.id}"
    reached = CommitProperties(app_transactions=[Transaction(of, 0), Transaction(f"{of} D", bronze)])
    rows = pa.table({"lane": ["D"]})
    write_deltalake(path / "bronze" / "disposition", rows, commit_properties=reached)
    for table, last in (("silver", silver), ("gold", gold)):
        (path / table).mkdir()
        (path / table / "CURRENT.json").write_bytes(msgspec.json.encode(Current(state={"lane:D": last})))


def status(*arguments: str) -> list[dict[str, object]]:
    result = CliRunner().invoke(main, ["spark", "status", *arguments, "--json"])
    assert 0 == result.exit_code, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_status_shows_each_step_from_the_queue_to_gold(tmp_path: Path) -> None:
    journal, tables = tmp_path / "journal", tmp_path / "tables"
    generate_journal(journal, Kind.DISPOSITION, segments=3, rows=20, lane="D")
    tables_with(tables, Journal.open(journal), bronze=3, silver=2, gold=1)
    with EmbeddedQueueManager("QM1") as owner, memory_folder() as folder:
        owner.administration.define(QueueAttributes(name="D"))
        put(owner, "D", *[b"x"] * 5)
        with serve(owner, folder / "qm"):
            where = ("--journal", str(journal), "--tables", str(tables), "--url", f"embedded+unix:{folder / 'qm'}?qmgr=QM1")
            found = status(*where)
            shown = CliRunner().invoke(main, ["spark", "status", *where])

    rows = {each["step"]: (each["rows"], each["rows_behind"]) for each in found}
    assert {
        "queue D": (5, 5), "journal D": (60, 0), "bronze.disposition": (60, 0), "silver": (40, 20), "gold": (20, 40),
    } == rows  # fmt: skip
    newest = {each["step"]: each["newest_landing"] for each in found}
    assert dict.fromkeys(rows, "2025-10-09T08:53:20Z") | {"queue D": None} == newest
    behind = {each["step"]: each["seconds_behind"] for each in found}
    assert 0.0 == behind["bronze.disposition"]
    assert behind["silver"] == behind["gold"] != 0.0
    assert "silver                       20" in shown.stdout


def test_status_of_tables_that_no_run_has_made_has_everything_behind(tmp_path: Path) -> None:
    generate_journal(tmp_path / "journal", Kind.DEAD_LETTER, segments=2, rows=20, lane="L")
    (tmp_path / "tables").mkdir()

    found = status("--journal", str(tmp_path / "journal"), "--tables", str(tmp_path / "tables"))

    assert {"journal L": 0, "bronze.dead_letter": 40} == {each["step"]: each["rows_behind"] for each in found}


@pytest.mark.parametrize("missing", ["journal", "tables"])
def test_status_names_a_folder_that_does_not_exist(tmp_path: Path, missing: str) -> None:
    Journal.create(tmp_path / "journal")
    (tmp_path / "tables").mkdir()
    where = {"--journal": tmp_path / "journal", "--tables": tmp_path / "tables"} | {f"--{missing}": tmp_path / "nowhere"}

    result = CliRunner().invoke(main, ["spark", "status", *(str(part) for pair in where.items() for part in pair)])

    assert 2 == result.exit_code
    assert "nowhere" in result.stderr


def test_tables_of_another_journal_are_an_error_and_not_a_lag(tmp_path: Path) -> None:
    for name in ("journal", "other"):
        generate_journal(tmp_path / name, Kind.DISPOSITION, segments=1, rows=5, lane="D")
    tables_with(tmp_path / "tables", Journal.open(tmp_path / "other"), bronze=1, silver=1, gold=1)

    result = CliRunner().invoke(
        main, ["spark", "status", "--journal", str(tmp_path / "journal"), "--tables", str(tmp_path / "tables")]
    )

    assert 1 == result.exit_code
    assert "is not a bronze table of the journal" in result.stderr
