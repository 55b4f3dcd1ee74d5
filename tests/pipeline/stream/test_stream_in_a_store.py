"""A stream whose journal and tables are in an object store makes the tables that it makes on a disk."""

from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from mqflow.folders import Folder, folder_at
from mqflow.pipeline import jobs
from mqflow.policy.poison.disposition_record import RecordOutcome
from tests.long import LONG
from tests.pipeline.stream.test_stream_command import land, stream

pytestmark = pytest.mark.usefixtures("interpreted")


def copy(source: Folder, target: Folder) -> None:
    """Copy all files, so that both places have one journal."""
    target.make()
    for entry in source.files():
        target.write(entry.name, source.read(entry.name))
    for name in source.folders():
        copy(source.folder(name), target.folder(name))


def rows_of(tables: str, name: str) -> dict[str, Counter[str]]:
    """The rows of each table of the set, by the name of the table."""
    found = jobs.table_set(tables, name)
    return {
        table: Counter(str(row) for row in DeltaTable(found.uri_of(table)).to_pyarrow_table().to_pylist())
        for table in found.current().tables
    }


@LONG
@pytest.mark.timeout(900)
def test_silver_and_gold_in_an_object_store_have_the_rows_that_they_have_on_a_disk(
    spark: SparkSession, bucket: str, tmp_path: Path
) -> None:
    assert spark  # the command uses this session
    outcomes = [RecordOutcome.COMMITTED] * 30, [RecordOutcome.DISCARDED] * 6 + [RecordOutcome.COMMITTED] * 4
    made: dict[str, dict[str, Counter[str]]] = {}
    for number, landed in enumerate(outcomes):
        land(tmp_path / "journal", *landed, first=100 * number, minute=70 * number)
        copy(folder_at(tmp_path / "journal"), folder_at(f"{bucket}/journal"))
        for place in (str(tmp_path), bucket):
            result, _ = stream(f"{place}/journal", f"{place}/tables")
            assert 0 == result.exit_code, result.output
            made[place] = rows_of(f"{place}/tables", "silver") | rows_of(f"{place}/tables", "gold")

    assert made[str(tmp_path)] == made[bucket]
    assert {40} == {made[bucket][name].total() for name in ("message", "attempt")}
    assert made[bucket]["poison_rate"]
