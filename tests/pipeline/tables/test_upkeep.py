"""Optimized tables have the same rows in fewer files, and every state of the retention; no test here starts Spark."""

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, write_deltalake

from mqflow.cli.main import main
from mqflow.folders import Folder
from mqflow.journal import Kind
from mqflow.pipeline import PipelineError
from mqflow.pipeline.tables import delta_writes, upkeep
from mqflow.pipeline.tables.bronze import table_folder
from mqflow.pipeline.tables.table_set import Run, TableSet
from mqflow.pipeline.tables.upkeep import optimize

NONE = timedelta()
DAYS = timedelta(days=30)


def commit(run: Run, name: str, change: Callable[[str], object]) -> None:
    """Change a table in one commit of the run, without Spark. `change` gets its path."""

    def made(at: Folder) -> tuple[delta_writes.TableHead, int]:
        change(at.uri)
        head = delta_writes.head(at)
        assert head is not None
        return head, 1

    run._committed(name, made)  # Spark writes the rows of `Run.write`


def add(run: Run, name: str, number: int) -> None:
    """Add a row in a file of its own."""
    rows = pa.table({"n": [number], delta_writes.DATE: [date(2026, 1, 1)]})
    commit(run, name, lambda at: write_deltalake(at, rows, mode="append", partition_by=[delta_writes.DATE]))


def numbers(tables: TableSet, name: str) -> list[int]:
    """The rows that a reader of mqflow finds."""
    version = tables.current().tables[name].delta
    found: list[int] = DeltaTable(tables.uri_of(name), version=version).to_pyarrow_table()["n"].to_pylist()
    return sorted(found)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def data_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*.parquet") if path.parent.name != "_delta_log"]


@pytest.fixture
def silver(tmp_path: Path) -> TableSet:
    """Three runs of silver, which ended at the times 1, 2 and 3; each added a file to two tables."""
    tables = TableSet(tmp_path / "silver", wall=iter(range(1, 100)).__next__)
    for number in (1, 2, 3):
        with tables.next() as run:
            run.state["lane:A"] = number
            for name in ("message", "attempt"):
                add(run, name, number)
    return tables


@pytest.fixture
def bronze(tmp_path: Path) -> Path:
    """A bronze table of three files, with a name of a lane that a URI writes in another way."""
    table = Path(table_folder(tmp_path, Kind.DEAD_LETTER).uri)
    for number in (1, 2, 3):
        write_deltalake(str(table), pa.table({"n": [number], "lane": ["A/B %"]}), mode="append", partition_by=["lane"])
    return table


def test_optimize_joins_the_files_of_each_table_and_keeps_rows_state_and_runs(tmp_path: Path, silver: TableSet) -> None:
    done = {each.table: each for each in optimize(tmp_path, DAYS, wall=lambda: 9.0)}

    assert {"silver/message", "silver/attempt"} == done.keys()
    assert (3, 1, 0) == (
        done["silver/message"].before.files,
        done["silver/message"].after.files,
        done["silver/message"].removed.files,
    )
    assert [1, 2, 3] == numbers(silver, "message") == numbers(silver, "attempt")
    assert {"lane:A": 3} == silver.current().state, "the next run goes on where the run before ended"
    assert [[1], [1, 2], [1, 2, 3], [1, 2, 3]] == [numbers(silver.as_of(run), "message") for run in (1, 2, 3, 4)]


def test_the_next_run_does_not_undo_the_join(tmp_path: Path, silver: TableSet) -> None:
    list(optimize(tmp_path, DAYS))

    with silver.next() as run:
        run.state |= run.before.state

    table = DeltaTable(silver.uri_of("message"))
    assert (1, silver.current().tables["message"].delta) == (len(table.file_uris()), table.version())


def test_a_second_optimize_changes_no_file(tmp_path: Path, silver: TableSet, bronze: Path) -> None:
    list(optimize(tmp_path, NONE, wall=lambda: 9.0))
    before = files(tmp_path)

    again = list(optimize(tmp_path, NONE, wall=lambda: 99.0))

    assert before == files(tmp_path)
    assert [0, 0, 0] == [each.removed.files for each in again]
    assert [1, 2, 3] == numbers(silver, "message")
    assert [1, 2, 3] == sorted(DeltaTable(str(bronze)).to_pyarrow_table()["n"].to_pylist())


def test_files_older_than_the_retention_are_deleted_and_kept_runs_stay_readable(tmp_path: Path, silver: TableSet) -> None:
    with silver.next() as run:  # ends at the time 4
        commit(run, "message", lambda at: DeltaTable(at).delete("n = 1"))

    list(optimize(tmp_path, DAYS, wall=lambda: 5.0))
    early = {each.table: each.removed.files for each in optimize(tmp_path, NONE, wall=lambda: 2.5)}

    assert [2, 3, 4, 5] == [each.run for each in silver.runs()], "run 2 was current until the time 3"
    assert [[1, 2], [1, 2, 3], [2, 3], [2, 3]] == [numbers(silver.as_of(run), "message") for run in (2, 3, 4, 5)]
    assert {"silver/message": 0, "silver/attempt": 0} == early, "the runs 2 and 3 name all files"

    late = {each.table: each.removed.files for each in optimize(tmp_path, NONE, wall=lambda: 9.0)}

    assert {"silver/message": 3, "silver/attempt": 3} == late
    assert [2, 3] == numbers(silver, "message")


def test_a_version_without_its_log_keeps_no_optimize_from_its_work(tmp_path: Path, silver: TableSet) -> None:
    list(optimize(tmp_path, DAYS, wall=lambda: 9.0))
    for entry in (silver.folder.folder("message").folder("_delta_log")).files():
        if entry.name in {f"{number:020}.json" for number in (0, 1, 2)}:  # as delta-rs does after thirty days
            silver.folder.folder("message").folder("_delta_log").remove(entry.name)

    list(optimize(tmp_path, DAYS, wall=lambda: 9.0))

    assert [1, 2, 3] == numbers(silver, "message")


def test_a_time_before_the_first_kept_run_is_refused_instead_of_empty_tables(tmp_path: Path, silver: TableSet) -> None:
    assert {} == silver.as_of(datetime.fromtimestamp(0, UTC)).current().tables

    list(optimize(tmp_path, NONE, wall=lambda: 9.0))

    with pytest.raises(PipelineError, match="has no run as old as 1970-01-01 00:00"):
        silver.as_of(datetime.fromtimestamp(0, UTC))
    with pytest.raises(PipelineError, match=r"has no run 3\. Its runs: 4"):
        silver.as_of(3)


def test_without_retention_only_the_joined_files_are_left(tmp_path: Path, silver: TableSet, bronze: Path) -> None:
    orphan = data_files(bronze)[0].with_name("part-of-a-killed-run.parquet")
    orphan.write_bytes(b"1")

    done = {each.table: each.removed.files for each in optimize(tmp_path, NONE, wall=lambda: 9.0)}

    assert {"bronze/dead_letter": 4, "silver/message": 3, "silver/attempt": 3} == done
    assert [1, 1, 1] == [len(data_files(Path(each))) for each in (bronze, silver.uri_of("message"), silver.uri_of("attempt"))]
    assert [1, 2, 3] == sorted(DeltaTable(str(bronze)).to_pyarrow_table()["n"].to_pylist())


class Killed(BaseException):
    """The process ends here: nothing of the command follows."""


@pytest.mark.parametrize("step", ["compact", "sync", "forget_runs", "remove_old_files", "write_checkpoint"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_kill_at_any_step_loses_no_row_and_the_next_command_does_the_rest(
    tmp_path: Path, silver: TableSet, bronze: Path, step: str, *, after: bool
) -> None:
    owner = {"compact": delta_writes, "sync": delta_writes, "forget_runs": TableSet}.get(step, upkeep)
    real: Callable[..., object] = getattr(owner, step)

    def killed(*given: object) -> object:
        if after:
            real(*given)
        raise Killed

    with pytest.MonkeyPatch.context() as patch, suppress(Killed):
        patch.setattr(owner, step, killed)
        for name in ("bronze", "silver"):  # each gets its kill
            with suppress(Killed):
                list(
                    optimize(tmp_path, NONE, wall=lambda: 9.0)
                    if name == "bronze"
                    else upkeep._set(name, silver, NONE, lambda: 9.0)
                )
    assert [1, 2, 3] == numbers(silver, "message")

    list(optimize(tmp_path, NONE, wall=lambda: 99.0))

    assert [1, 2, 3] == numbers(silver, "message") == numbers(silver, "attempt")
    assert [1, 2, 3] == sorted(DeltaTable(str(bronze)).to_pyarrow_table()["n"].to_pylist())
    assert [1, 1, 1] == [len(data_files(Path(each))) for each in (bronze, silver.uri_of("message"), silver.uri_of("attempt"))]


def test_a_writer_during_optimize_gets_the_error_of_a_second_writer(tmp_path: Path, silver: TableSet) -> None:
    def slower() -> None:
        with silver.next() as run:
            list(optimize(tmp_path, DAYS))
            add(run, "message", 9)

    with pytest.raises(PipelineError, match=r"Another process writes the tables in .*: it changed message"):
        slower()

    assert [1, 2, 3] == numbers(silver, "message")


def test_the_command_prints_the_files_of_each_table(tmp_path: Path, silver: TableSet, bronze: Path) -> None:
    assert silver.current().run
    assert bronze.exists()
    asked = ["spark", "optimize", "--tables", str(tmp_path)]

    told = CliRunner().invoke(main, [*asked, "--json"])
    table = CliRunner().invoke(main, asked)
    refused = CliRunner().invoke(main, [*asked, "--keep-days", "0"])

    assert (0, 0, 2) == (told.exit_code, table.exit_code, refused.exit_code)
    records = [json.loads(line) for line in told.stdout.splitlines()]
    assert [("bronze/dead_letter", 3, 1), ("silver/attempt", 3, 1), ("silver/message", 3, 1)] == sorted(
        (record["table"], record["before"]["files"], record["after"]["files"]) for record in records
    )
    assert ["bronze/dead_letter", "1"] == table.stdout.splitlines()[2].split()[:2]
