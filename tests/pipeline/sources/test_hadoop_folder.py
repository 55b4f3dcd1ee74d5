"""A journal on a Hadoop file system becomes bronze: Spark reads its files. Here this is viewfs, over a disk of this machine."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]  # it has no types
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from mqflow.cli.main import main
from mqflow.folders import Folder, FolderError
from mqflow.journal import ForeignJournalError, Journal, Kind, MissingSegmentError, read_table
from mqflow.journal.erasure import erase_rows
from mqflow.journal.verification import verify_journal
from mqflow.pipeline import jobs
from mqflow.pipeline.sources.hadoop_folder import HadoopFolder, journal_folder
from mqflow.testing.journals import add_segment, generate_journal, invented
from tests.journal.files import exchange, path_of
from tests.journal.old_segments import add_old_segment

KIND = Kind.DEAD_LETTER


@pytest.fixture
def uri(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """The uri of `tmp_path / "a b" / "journal"`. Each test has a cluster of its own, because Hadoop keeps file systems open."""
    cluster = f"cluster{abs(hash(tmp_path))}"
    name = f"fs.viewfs.mounttable.{cluster}.linkFallback"
    spark.conf.set(name, tmp_path.as_uri())
    yield f"viewfs://{cluster}/a b/journal"
    spark.conf.unset(name)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """Two lanes: one with a segment of an older mqflow, and one that was trimmed and has rewritten segments."""
    path = tmp_path / "a b" / "journal"
    lane = generate_journal(path, KIND, segments=2, rows=5, lane="A/B*%2F")
    add_old_segment(lane, invented(KIND, 5, seed=2))
    add_segment(lane, invented(KIND, 5, seed=3))
    other = generate_journal(path, KIND, segments=4, rows=5, lane="C", seed=4)
    other.note(trimmed=other.all_segments()[0])
    other.remove_trimmed()
    list(erase_rows(other, _first))
    return Journal.open(path)


def _first(rows: pa.Table) -> pa.ChunkedArray:
    return pa.chunked_array([[at == 0 for at in range(rows.num_rows)]])


def bodies(rows: pa.Table) -> list[tuple[str, int, int, bytes | None, str]]:
    return sorted(zip(*(rows[name].to_pylist() for name in ("lane", "segment", "ordinal", "body", "body_sha256")), strict=True))


def landed(tables: Path) -> list[tuple[str, int, int, bytes | None, str]]:
    return bodies(DeltaTable(tables / "bronze" / KIND.value).to_pyarrow_table())


@pytest.mark.parametrize("payload", ["full", "hash"])
def test_bronze_has_the_rows_of_the_journal_and_goes_on_after_them(
    spark: SparkSession, uri: str, journal: Journal, tmp_path: Path, payload: str
) -> None:
    tables = tmp_path / "tables"

    first, second = (jobs.bronze(spark, uri, tables, payload=payload, rows_per_batch=12)[0] for _ in range(2))
    add_segment(journal.lane("C"), invented(KIND, 5, seed=5))
    third = jobs.bronze(spark, uri, tables, payload=payload)[0]

    every = [bodies(read_table(each, KIND)) for lane in journal.lanes() for each in lane.all_segments()]
    kept = [(*row[:3], row[3] if payload == "full" else None, row[4]) for rows in every for row in rows]
    assert [32, 0, 5] == [run.rows for run in (first, second, third)]
    assert first.batches > 1
    assert sorted(kept) == landed(tables)
    assert [] == journal.folder.folder("consumers").files()


@pytest.mark.parametrize("command", [("bronze",), ("stream", "--once")], ids=lambda words: words[0])
def test_the_command_reads_a_journal_there(
    spark: SparkSession, uri: str, journal: Journal, tmp_path: Path, command: tuple[str, ...]
) -> None:
    done = CliRunner().invoke(main, ["spark", *command, "--journal", uri, "--tables", str(tmp_path / "tables")])

    assert (0, 32) == (done.exit_code, len(landed(tmp_path / "tables"))), (done.output, spark, journal)
    assert "unknown" not in done.stderr, "the lag of the tables is measured there too"


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("bytes", "is damaged: its .* bytes have checksum"),
        ("journal", "it comes from the journal|it follows a segment"),  # a task for each segment
        ("history", "it follows a segment of 5 rows with checksum"),
    ],
)
def test_a_segment_that_is_not_the_one_that_landed_ends_the_run_without_a_row(
    spark: SparkSession, uri: str, tmp_path: Path, damage: str, said: str
) -> None:
    lane = generate_journal(tmp_path / "a b" / "journal", KIND, segments=3, rows=5)
    exchange(lane.all_segments()[1], damage, tmp_path)

    with pytest.raises(PySparkException, match=said):
        jobs.bronze(spark, uri, tmp_path / "tables")

    assert not DeltaTable.is_deltatable(str(tmp_path / "tables" / "bronze" / KIND.value))
    assert [2] == damaged_segments(journal_folder(uri))


def damaged_segments(journal: Folder) -> list[int]:
    return [each.first for lane in verify_journal(Journal.open(journal)) for each in lane.findings][:1]


def test_a_lost_segment_and_a_folder_without_a_journal_are_refused(spark: SparkSession, uri: str, tmp_path: Path) -> None:
    lane = generate_journal(tmp_path / "a b" / "journal", KIND, segments=3, rows=5)
    path_of(lane.all_segments()[1]).unlink()

    with pytest.raises(MissingSegmentError, match="has no segment 2"):
        jobs.bronze(spark, uri, tmp_path / "tables")
    with pytest.raises(ForeignJournalError, match=r"there is no journal\.json in it"):
        jobs.bronze(spark, f"{uri}/lanes", tmp_path / "tables")
    with pytest.raises(FolderError, match="UnknownHostException"):
        jobs.bronze(spark, "hdfs://no-such-name-node.invalid/journal", tmp_path / "tables")


def test_a_jvm_that_has_ended_is_an_error_of_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream measures its lag while it waits for a new session: an error of py4j would end it."""

    def ended(_: object = None) -> None:
        raise Py4JNetworkError("An error occurred while trying to connect to the Java server (127.0.0.1:40001)")

    monkeypatch.setattr(SparkSession, "getActiveSession", ended)

    with pytest.raises(FolderError, match=r"hdfs://name/journal: .* connect to the Java server"):
        HadoopFolder("hdfs://name/journal").files()


WRITES: tuple[Callable[[HadoopFolder], object], ...] = (
    lambda folder: folder.make(),
    lambda folder: folder.write("a", b""),
    lambda folder: folder.create("a", b""),
    lambda folder: folder.replace("a", b""),
    lambda folder: folder.publish("a", "b"),
    lambda folder: folder.remove("journal.json"),
    lambda folder: folder.read_version("journal.json"),
)


def test_nothing_is_written_there(spark: SparkSession, uri: str, journal: Journal) -> None:
    folder = HadoopFolder(uri)
    before = folder.read("journal.json")

    for write in WRITES:
        with pytest.raises(FolderError, match="where mqflow only reads"):
            write(folder)

    assert before == folder.read("journal.json")
    assert (True, False, None) == (folder.exists("journal.json"), folder.exists("a"), folder.room_bytes())
    with pytest.raises(FileNotFoundError):
        folder.read("a")
    assert journal.id == Journal.open(folder).id
