"""Spark's scan of Parquet files on a disk, whose names are known. This file knows no journal and no table."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from mqflow.pipeline.session import settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ("escaped", "scanned")

_GLOB: Final = re.compile(r"([\\{}\[\]*?])")
_LISTED_BY_THE_DRIVER: Final = "spark.sql.sources.parallelPartitionDiscovery.threshold"


def scanned(spark: "SparkSession", schema: "StructType | str", files: Sequence[str], options: Mapping[str, str]) -> "DataFrame":
    """Return the rows of the files, which are URIs.

    For more than 32 files, Spark starts a job only to ask for the sizes of the files, with a task for each file. On a disk the
    driver asks faster: 50 files cost 0.1 s of processor time instead of 0.8.
    """
    with settings(spark, {_LISTED_BY_THE_DRIVER: str(len(files))}):
        return spark.read.options(**options).schema(schema).parquet(*map(escaped, files))


def escaped(uri: str) -> str:
    """Return the URI with a backslash before each character that Spark takes for a part of a pattern."""
    return _GLOB.sub(r"\\\1", uri)
