"""The messages of one person are gone from journal and tables, all others stay; no test here starts Spark."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import date
from itertools import count
from pathlib import Path
from shutil import copytree
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from msgspec.structs import replace

from mqflow.cli.main import main
from mqflow.folders import Folder, folder_at
from mqflow.folders.local_folder import LocalFolder
from mqflow.journal import Journal, JournalError, Kind, Lane, read_table
from mqflow.journal.personal_data import key_of
from mqflow.journal.verification import verify_journal
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.pipeline import PipelineError
from mqflow.pipeline.tables import bronze, delta_writes
from mqflow.pipeline.tables.erasure import Erasure, Receipt, erase, find
from mqflow.pipeline.tables.table_set import Run, TableSet
from mqflow.policy.poison import disposition_record
from mqflow.policy.poison.disposition_record import DispositionRecord, RecordOutcome, put_time_us
from mqflow.testing.journals import add_segment
from mqflow.verbs import Got
from tests.long import DAY, usually
from tests.object_store import new_bucket

PER_SEGMENT = 4
ALL = range(1, 3 * PER_SEGMENT + 1)
ANNAS = frozenset({2, 5, 6, 7, 8, 12})
"""Some rows of the first segment, all of the second, and the last one, which the head record names."""
OTHERS = [number for number in ALL if number not in ANNAS]
STRIDE = usually(23, long=5)
"""The distance between two steps that are killed; all of them take a minute and a half."""
BY_USER = (key_of("user_id=anna"),)


def payload(number: int) -> Got:
    """A message; only its descriptor and its data name the person."""
    user = "anna" if number in ANNAS else "ben"
    descriptor = MessageDescriptor(
        message_id=number.to_bytes(24), user_identifier=user, put_date="20260101", put_time=f"1200{number:02}00"
    )
    body = f"from {user}@example.org".encode()
    return Got(descriptor=descriptor, body=body, data_bytes=len(body))


def disposition(number: int) -> Got:
    """A record about the message, without the name of the person."""
    put_us = put_time_us("20260101", f"1200{number:02}00")
    assert put_us is not None
    record = DispositionRecord(
        disp_id=f"{number}", event_ts=put_us + 5, qmgr="QM1", queue="IN", handler="on_in", consumer="c", uow_id=f"{number}",
        msg_id=number.to_bytes(24), put_ts=put_us, done_ts=put_us + 5, outcome=RecordOutcome.COMMITTED,
    )  # fmt: skip
    return Got(
        descriptor=MessageDescriptor(format=disposition_record.FORMAT), body=disposition_record.to_bytes(record), data_bytes=1
    )


MAKERS = {Kind.DISPOSITION: disposition, Kind.PAYLOAD: payload}


def commit(run: Run, name: str, rows: pa.Table) -> None:
    """Write the rows of a table, without Spark."""

    def made(at: Folder) -> tuple[delta_writes.TableHead, int]:
        write_deltalake(at.uri, rows, mode="append")
        head = delta_writes.head(at)
        assert head is not None
        return head, 1

    run._committed(name, made)


def bronze_of(tables: str, journal: Journal, lane: Lane) -> None:
    """Write the rows of a lane to its bronze table, as `bronze` does."""
    table = bronze.table_folder(tables, lane.kind).uri
    for segment in lane.all_segments():
        rows = read_table(segment, lane.kind)
        rows = rows.append_column("ingest_date", pa.array([date(2026, 1, 1)] * rows.num_rows))
        names = {bronze._name(journal): 0, bronze._name(journal, lane.name): segment.number}
        told = CommitProperties(app_transactions=[Transaction(name, number) for name, number in names.items()])
        write_deltalake(table, rows, mode="append", partition_by=["ingest_date", "lane"], commit_properties=told)


def made_in(place: str, suffix: str = "") -> Erasure:
    """A journal of two lanes in bronze, two tables of silver in two runs, and an alert of gold."""
    journal, tables = Journal.create(f"{place}/journal"), f"{place}/tables"
    for kind, make in MAKERS.items():
        lane = journal.add_lane(f"{kind.value}{suffix}", kind, queue=kind.value.upper(), queue_manager="QM1")
        for first in ALL[::PER_SEGMENT]:
            add_segment(lane, [make(number) for number in range(first, first + PER_SEGMENT)])
        bronze_of(tables, journal, lane)
    every = pa.concat_tables(read_table(each, Kind.PAYLOAD) for each in journal.lane(f"payload{suffix}").all_segments())
    silver = TableSet(f"{tables}/silver")
    for half in (every[:6], every[6:]):
        with silver.next() as run:
            run.state["lane:disposition"] = 3
            before = pa.array(
                [(row["ordinal"] and (int.from_bytes(row["msg_id"]) - 1).to_bytes(24)) or None for row in half.to_pylist()]
            )
            commit(run, "message", half.select(["msg_id", "put_ts", "queue"]))
            commit(run, "payload", half.select(["msg_id", "put_ts", "user_id", "body"]).append_column("duplicate_of", before))
    with TableSet(f"{tables}/gold").next() as run:
        commit(run, "poison_alert", pa.table({"first_msg_id": [number.to_bytes(24) for number in ALL], "poisoned": [*ALL]}))
    return Erasure(journal=journal.folder.uri, tables=tables, keys=BY_USER)


@pytest.fixture
def asked(tmp_path: Path) -> Erasure:
    return made_in(str(tmp_path))


def files_in(folder: Folder) -> Iterator[tuple[str, bytes]]:
    """Each file below the folder, with its contents."""
    yield from ((folder.uri_of(entry.name), folder.read(entry.name)) for entry in folder.files())
    for name in folder.folders():
        yield from files_in(folder.folder(name))


def rows_of(asked: Erasure, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = DeltaTable(f"{asked.tables}/{name}").to_pyarrow_table().to_pylist()
    return rows


def ids(rows: list[dict[str, Any]], column: str = "msg_id") -> list[int]:
    return sorted(int.from_bytes(row[column]) for row in rows if row[column] is not None)


def everything(asked: Erasure) -> dict[str, list[int]]:
    """The messages of each lane and table."""
    found = {
        lane.name: ids([row for each in lane.all_segments() for row in read_table(each, lane.kind).to_pylist()])
        for lane in Journal.open(asked.journal).lanes()
    }
    tables = ("bronze/disposition", "bronze/payload", "silver/message", "silver/payload")
    found |= {name: ids(rows_of(asked, name)) for name in tables}
    return found | {"gold/poison_alert": ids(rows_of(asked, "gold/poison_alert"), "first_msg_id")}


def do(asked: Erasure) -> Receipt:
    return erase(asked, (folder_at(asked.tables).folder("receipts"), "receipt.json"), wall=count(100.0).__next__)


def check_erased(asked: Erasure) -> None:
    """Only the messages of other people are there, for every reader, and no file has the name of the person."""
    assert dict.fromkeys(everything(asked), OTHERS) == everything(asked)
    assert [*ALL] == sorted(row["poisoned"] for row in rows_of(asked, "gold/poison_alert")), "no alert is lost"
    annas = {number.to_bytes(24) for number in ANNAS}
    assert not annas & {row["duplicate_of"] for row in rows_of(asked, "silver/payload")}
    assert [] == [finding.text for lane in verify_journal(Journal.open(asked.journal)) for finding in lane.findings]
    places = [folder_at(asked.journal), folder_at(asked.tables)]
    assert [] == [uri for place in places for uri, data in files_in(place) if b"anna" in data]
    for name in ("silver", "gold"):
        tables = TableSet(f"{asked.tables}/{name}")
        versions = {each: DeltaTable(tables.uri_of(each)).version() for each in tables.current().tables}
        assert versions == {each: pinned.delta for each, pinned in tables.current().tables.items()}
        assert 1 == len(tables.runs()), "an older run names versions without files"


def test_the_messages_of_a_person_are_gone_everywhere_and_all_others_stay(asked: Erasure) -> None:
    assert {name: [*ALL] for name in everything(asked)} == everything(asked)

    do(asked)

    check_erased(asked)
    assert {"lane:disposition": 3} == TableSet(f"{asked.tables}/silver").current().state


@pytest.mark.usefixtures("server")
def test_an_erasure_in_an_object_store_leaves_no_object_with_the_rows() -> None:
    asked = made_in(f"{new_bucket()}/payments", suffix="/é %")
    objects = {uri for uri, data in files_in(folder_at(asked.journal)) if b"anna" in data}

    do(asked)

    check_erased(asked)
    assert not objects & {uri for uri, _ in files_in(folder_at(asked.journal))}


def test_bronze_and_the_lander_go_on_after_the_last_segment(asked: Erasure) -> None:
    do(asked)

    journal = Journal.open(asked.journal)
    lane = journal.lane("payload")
    reached = bronze.lasts(bronze.table_folder(asked.tables, Kind.PAYLOAD), journal, [lane])
    assert ({"payload": 3}, (), 3) == (reached, lane.segments(after=3), lane.last)
    add_segment(lane, [payload(99)])
    assert [] == [finding.text for each in verify_journal(journal) for finding in each.findings]
    assert [1] == [each.rows for each in lane.segments(after=3)]


def test_the_receipt_names_segments_and_tables_and_not_the_key(asked: Erasure, tmp_path: Path) -> None:
    said = do(asked)

    text = (tmp_path / "tables" / "receipts" / "receipt.json").read_text()
    assert "anna" not in text
    assert (BY_USER[0].digest,) == said.keys_sha256
    assert 100.0 == said.begun_s < json.loads(text)["ended_s"]
    assert {"disposition": [(1, 4, 3), (2, 4, 0), (3, 4, 3)], "payload": [(1, 4, 3), (2, 4, 0), (3, 4, 3)]} == {
        lane.lane: [(each.number, each.rows_before, each.rows) for each in lane.segments] for lane in said.lanes
    }
    assert {"bronze/disposition": 6, "bronze/payload": 6, "silver/message": 6, "silver/payload": 6, "gold/poison_alert": 0} == {
        each.table: each.rows_before - each.rows for each in said.tables
    }
    assert "messages on queues, also those that the lander takes later" in said.not_covered


class Killed(BaseException):
    """The process ends here: nothing of the command follows."""


def test_after_a_kill_between_steps_the_same_command_finishes_the_erasure(
    asked: Erasure, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    steps = 0
    for nth in count(1 + DAY.toordinal() % STRIDE, STRIDE):  # each day kills at other steps
        place = tmp_path_factory.mktemp("killed") / "all"
        copytree(tmp_path, place)
        here = replace(asked, journal=place / "journal", tables=str(place / "tables"))
        left = nth

        def watched(real: Callable[..., object]) -> Callable[..., object]:
            def step(*given: Any, **named: Any) -> object:
                nonlocal left
                left -= 1
                if not left:
                    raise Killed
                return real(*given, **named)

            return step

        with pytest.MonkeyPatch.context() as patch:
            for owner, names in ((LocalFolder, ("create", "replace", "remove")), (delta_writes, ("erase", "clear", "sync"))):
                for name in names:
                    patch.setattr(owner, name, watched(getattr(owner, name)))
            with suppress(Killed):
                do(here)
        if left > 0:
            steps = nth - left
            break

        again = do(here)

        check_erased(here)
        assert 6 == sum(each.rows_before - each.rows for each in again.lanes[1].segments), "the receipt has both attempts"
    assert steps > 50


@pytest.mark.parametrize(
    ("keys", "gone"),
    [
        (("msg_id=" + (2).to_bytes(24).hex(),), {2}),
        (("msg_id=" + (2).to_bytes(24).hex(), "msg_id=" + (3).to_bytes(24).hex()), {2, 3}),
        (("body=anna@",), ANNAS),
        (("user_id=ann",), set()),
    ],
)
def test_a_message_is_erased_if_one_of_the_keys_is_true(asked: Erasure, keys: tuple[str, ...], gone: set[int]) -> None:
    chosen = replace(asked, keys=tuple(key_of(key) for key in keys))
    counted = find(chosen)
    assert {name: [*ALL] for name in everything(chosen)} == everything(chosen), "a dry run changes nothing"

    do(chosen)

    left = [number for number in ALL if number not in gone]
    assert dict.fromkeys(everything(chosen), left) == everything(chosen)
    assert {len(gone)} == {rows for name, rows in counted.items() if not name.startswith("gold")}


@pytest.mark.parametrize("key", ["user_id=", "user_id=  ", "lane=x", "msg_id=00", "msg_id=" + "00" * 24, "msg_id=xyz", "body"])
def test_a_key_that_chooses_nobody_in_particular_is_refused(key: str) -> None:
    with pytest.raises(JournalError):
        key_of(key)


def test_pending_segments_are_refused(asked: Erasure) -> None:
    Journal.open(asked.journal).lane("payload").folder.write("000000000004-1.pend", b"")

    with pytest.raises(PipelineError, match=r"has segments that are not published: 000000000004-1\.pend"):
        do(asked)

    assert {name: [*ALL] for name in everything(asked)} == everything(asked)


def test_a_file_with_another_receipt_is_refused(asked: Erasure) -> None:
    do(replace(asked, keys=(key_of("user_id=nobody"),)))

    with pytest.raises(PipelineError, match="is not a receipt of this erasure"):
        do(asked)


def test_a_key_of_nobody_leaves_every_file_and_the_earlier_runs(asked: Erasure) -> None:
    before = dict(files_in(folder_at(asked.tables)))

    said = do(replace(asked, keys=(key_of("user_id=nobody"),)))

    assert before == {uri: data for uri, data in files_in(folder_at(asked.tables)) if not uri.endswith("receipt.json")}
    assert ([0], [1, 2]) == (
        sorted({each.rows_before - each.rows for each in said.tables}),
        [run.run for run in TableSet(f"{asked.tables}/silver").runs()],
    )


def test_the_command_erases_and_a_dry_run_needs_no_receipt(asked: Erasure, tmp_path: Path) -> None:
    options = ["spark", "erase", "--journal", str(asked.journal), "--tables", str(asked.tables), "--key", "user_id=anna"]

    dry = CliRunner().invoke(main, [*options, "--dry-run"])
    refused = CliRunner().invoke(main, options)
    odd = CliRunner().invoke(main, [*options, "--dry-run", "--key", "lane=payload"])
    done = CliRunner().invoke(main, [*options, "--receipt", str(tmp_path / "receipt.json")])
    again = CliRunner().invoke(main, [*options, "--receipt", str(tmp_path / "receipt.json")])

    assert (0, 2, 0) == (dry.exit_code, refused.exit_code, done.exit_code), done.output
    assert (2, "'lane' is not a key.") == (odd.exit_code, odd.stderr[odd.stderr.index("'lane'") :][:20])
    assert "This erasure ended before, and nothing was done now." in again.stderr
    assert ["payload", "6"] in [line.split() for line in dry.stdout.splitlines()]
    assert ["silver/message", "6"] in [line.split() for line in done.stdout.splitlines()]
    check_erased(asked)
