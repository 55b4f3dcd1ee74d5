"""Reads a Delta table without a jar: its log names the current files, and Spark's own scan reads them.

The values of partition columns are in the log, not in the files, so the reader joins them by file name. It needs
`mqflow[delta]`. It does not know the meaning of the table.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from mqflow.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

__all__ = ("read_delta",)

_Added: TypeAlias = "tuple[str | None, ...]"
"""The name of a file, and the values of its partition columns."""
_FILE: Final = "mqflow_file_name"
_KNOWN: Final = "mqflow_file_known"
#: Features of a table with which the files alone do not have the right rows.
_UNREADABLE: Final = frozenset({"deletionVectors", "columnMapping"})


def read_delta(spark: "SparkSession", path: str | Path, ddl: str, version: int | None = None) -> "DataFrame":
    """Return the last version of the table, or the given one, in these columns; columns that its files lack are null.

    Raises `PipelineError` if deltalake is missing, and for a table whose rows cannot be read from its files alone.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark is optional
    from pyspark.sql.types import StructType  # noqa: PLC0415

    if find_spec("deltalake") is None:
        raise PipelineError(f"{path} is a Delta table, and reading one needs deltalake: pip install 'mqflow[delta]'.")
    from deltalake import DeltaTable  # noqa: PLC0415 - optional

    table = DeltaTable(str(path), version=version)
    _check(table, path)
    wanted = cast("StructType", StructType.fromDDL(ddl))  # PySpark declares any type; columns make a struct
    partitions = set(table.metadata().partition_columns) & set(wanted.names)
    if not table.file_uris():
        return spark.createDataFrame([], wanted)
    inside = StructType([field for field in wanted.fields if field.name not in partitions])
    # Spark takes partitions from folder names; here a name can be a digest, and only the log counts.
    rows = spark.read.schema(inside).option("recursiveFileLookup", "true").parquet(*table.file_uris())
    if partitions:
        rows = _with_partitions(spark, rows, _added(table, sorted(partitions)), sorted(partitions))
    missing = {field.name: f.lit(None).cast(field.dataType) for field in wanted.fields if field.name not in rows.columns}
    return rows.withColumns(missing).select(
        *(f.col(field.name).cast(field.dataType).alias(field.name) for field in wanted.fields)
    )


def _with_partitions(spark: "SparkSession", rows: "DataFrame", added: Sequence[_Added], names: Sequence[str]) -> "DataFrame":
    from pyspark.sql import functions as f  # noqa: PLC0415 - as above

    columns = ", ".join(f"`{name}` string" for name in (_FILE, *names))
    said = f.broadcast(spark.createDataFrame(added, columns).withColumn(_KNOWN, f.lit(True)))
    joined = rows.withColumn(_FILE, f.col("_metadata.file_name")).join(said, _FILE, "left")
    odd = f.concat(f.lit("The log of the Delta table does not name the file "), f.col(_FILE))
    return joined.withColumns({name: f.when(f.col(_KNOWN), f.col(name)).otherwise(f.raise_error(odd)) for name in names})


def _added(table: "DeltaTable", partitions: list[str]) -> list[_Added]:
    import pyarrow as pa  # noqa: PLC0415 - loaded by readers only

    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    rows: list[_Added] = []
    for action in actions:
        values = (action[f"partition.{name}"] for name in partitions)
        rows.append((action["path"].rpartition("/")[2], *(None if value is None else str(value) for value in values)))
    if len({row[0] for row in rows}) != len(rows):
        raise PipelineError(
            f"{table.table_uri} has two files of the same name, which mqflow cannot tell apart. Write the table again."
        )
    return rows


def _check(table: "DeltaTable", path: str | Path) -> None:
    found = _UNREADABLE & set(table.protocol().reader_features or ())
    if found:
        raise PipelineError(
            f"{path} uses {', '.join(sorted(found))}: its files alone do not have its rows. Read it with delta-spark, or write "
            "it again without."
        )
