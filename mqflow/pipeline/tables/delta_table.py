"""Reads a Delta table without a jar: its log names the files of a version.

On a disk, Spark's own scan reads the files; in an object store, tasks read them with `mqflow_delta`. The values of partition
columns are in the log, not in the files. If the files have different values, the scan joins them by file name. This file does
not know the meaning of the table.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from mqflow.folders import folder_at
from mqflow.pipeline.delta.log import DeltaSnapshot, delta_snapshot
from mqflow.pipeline.errors import PipelineError
from mqflow.pipeline.extras import f
from mqflow.pipeline.parquet_scan import scanned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ("read_delta",)

_Added: TypeAlias = "tuple[str | None, ...]"
"""The name of a file, and the values of its partition columns."""
_FILE: Final = "mqflow_file_name"
_KNOWN: Final = "mqflow_file_known"


def read_delta(spark: "SparkSession", uri: str | Path, ddl: str, version: int | None = None) -> "DataFrame":
    """Return one version of the table, by default the last one, in these columns; columns that its files lack are null.

    The frame has the rows of this version, even if the table changes later. `uri` is a URI or a path of this machine, as for
    `folder_at`: Spark's default file system does not matter. Over Spark Connect this process reads the log, and the server
    reads the files.

    Raises the errors of `folder_at`. Raises `PipelineError` if deltalake is missing, or if there is no such table or version.
    Raises `PipelineError` also for a table whose rows cannot be read from its files alone.
    """
    from pyspark.sql.types import StructType  # noqa: PLC0415

    folder = folder_at(uri)
    found = delta_snapshot(folder, version)
    wanted = cast("StructType", StructType.fromDDL(ddl))  # PySpark declares any type; columns make a struct
    if not found.files:
        return spark.createDataFrame([], wanted)
    if folder.path is None:
        read = spark.read.format("mqflow_delta").schema(wanted).option("version", str(found.version))
        return read.load(folder.uri)
    partitions = sorted({*found.partitions} & {*wanted.names})
    inside = StructType([field for field in wanted.fields if field.name not in partitions])
    # Spark takes partitions from folder names; here a name can be a digest, and only the log counts.
    files = [f"file://{folder.path / file.path}" for file in found.files]
    rows = scanned(spark, inside, files, {"recursiveFileLookup": "true"})
    if partitions:
        rows = _with_partitions(spark, rows, _added(folder.uri, found, partitions), partitions)
    there = {*rows.columns}
    return rows.select(
        *(
            (f.col(field.name) if field.name in there else f.lit(None)).cast(field.dataType).alias(field.name)
            for field in wanted.fields
        )
    )


def _with_partitions(spark: "SparkSession", rows: "DataFrame", added: Sequence[_Added], names: Sequence[str]) -> "DataFrame":
    values = {name: {row[at] for row in added} for at, name in enumerate(names, 1)}
    if all(len(each) == 1 for each in values.values()):  # a join costs a job to broadcast the names of the files
        return rows.withColumns({name: f.lit(*each) for name, each in values.items()})
    columns = ", ".join(f"`{name}` string" for name in (_FILE, *names))
    said = f.broadcast(spark.createDataFrame(added, columns).withColumn(_KNOWN, f.lit(True)))
    joined = rows.withColumn(_FILE, f.col("_metadata.file_name")).join(said, _FILE, "left")
    odd = f.concat(f.lit("The log of the Delta table does not name the file "), f.col(_FILE))
    return joined.withColumns({name: f.when(f.col(_KNOWN), f.col(name)).otherwise(f.raise_error(odd)) for name in names})


def _added(uri: str, found: DeltaSnapshot, partitions: Sequence[str]) -> list[_Added]:
    rows: list[_Added] = []
    for file in found.files:
        values = (file.partition[name] for name in partitions)
        rows.append((file.path.rpartition("/")[2], *(None if value is None else str(value) for value in values)))
    if len({row[0] for row in rows}) != len(rows):
        raise PipelineError(f"{uri} has two files of the same name, which mqflow cannot tell apart. Write the table again.")
    return rows
