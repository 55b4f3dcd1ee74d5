"""A table and a checkpoint that do not belong together are refused, because new rows would count as written."""

from pathlib import Path
from typing import NamedTuple

import pytest

from mqflow.journal import Kind
from mqflow.pipeline import PipelineError
from mqflow.pipeline.tables.bronze import Batches, Bronze, bronze
from mqflow.pipeline.tables.checkpoints import check_checkpoint


def named(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).touch()


def checked(folder: Path, written: tuple[str, ...], offsets: tuple[str, ...], commits: tuple[str, ...]) -> None:
    for where, names in (("table/_spark_metadata", written), ("c/offsets", offsets), ("c/commits", commits)):
        if names:
            named(folder / where, *names)
    check_checkpoint(folder / "table", folder / "c", "parquet", "app")


@pytest.mark.parametrize(
    ("written", "offsets", "commits"),
    [
        ((), (), ()),  # the first run
        ((), ("0",), ()),  # killed before its first batch was written
        (("0",), ("0",), ()),  # killed between the sink and the log
        (("0", "1"), ("0", "1"), ("0", "1")),
        (("9.compact", "10", ".10.crc"), ("9", "10", ".11.crc.tmp"), ("8", "9")),
    ],
)
def test_what_a_kill_leaves_goes_on(
    written: tuple[str, ...], offsets: tuple[str, ...], commits: tuple[str, ...], tmp_path: Path
) -> None:
    checked(tmp_path, written, offsets, commits)


@pytest.mark.parametrize(
    ("written", "offsets", "commits", "said"),
    [
        (("0", "1"), (), (), "has batches up to 1, and its checkpoint .* knows no batch"),  # deleted
        (
            ("0", "1", "2"),
            ("0",),
            ("0",),
            "has batches up to 2, and its checkpoint .* knows batches up to 0",
        ),  # restored from a copy
        ((), ("0", "1"), ("0", "1"), "has no batch, and its checkpoint .* knows batches up to 1"),  # the table was deleted
    ],
)
def test_what_would_lose_rows_is_refused(
    written: tuple[str, ...], offsets: tuple[str, ...], commits: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    with pytest.raises(PipelineError, match=said):
        checked(tmp_path, written, offsets, commits)


def test_bronze_looks_before_it_asks_spark_for_anything(tmp_path: Path) -> None:
    """A new checkpoint begins at batch 0, which the table has: Spark would write no rows, and the journal would trim them."""
    named(tmp_path / "bronze" / "dead_letter" / "_spark_metadata", "0")
    asked = Bronze(journal=tmp_path / "journal", tables=tmp_path, kind=Kind.DEAD_LETTER)

    with pytest.raises(PipelineError, match=r"has batches up to 0, and its checkpoint .* knows no batch"):
        bronze(None, asked)  # type: ignore[arg-type]  # the test fails before it needs Spark


def test_a_table_of_the_other_format_is_not_gone_on_with(tmp_path: Path) -> None:
    """Old rows would be in one log and new rows in another, and a reader sees only one."""
    named(tmp_path / "table" / "_delta_log", "0.json")

    with pytest.raises(PipelineError, match=r"is delta, not parquet\. .* --format delta"):
        check_checkpoint(tmp_path / "table", tmp_path / "c", "parquet", "app")


class _Progress(NamedTuple):
    batchId: int  # noqa: N815 - Spark's name
    numInputRows: int  # noqa: N815 - Spark's name


def test_rows_are_counted_though_spark_forgets_old_batches() -> None:
    """Spark remembers the progress of a hundred batches; a batch can appear several times, and empty ones do not count."""
    batches = Batches()
    progress = [_Progress(batchId=number, numInputRows=10 if number else 0) for number in range(250)]

    told = [batches.add(progress[max(0, at - 100) : at]) for at in range(0, 251, 50)]

    assert [0, 490, 990, 1_490, 1_990, 2_490] == told
    assert 249 == len(batches.by_number)
