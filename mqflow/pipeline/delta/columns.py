"""The columns of a Delta table, in the forms of Spark, Arrow and delta-rs. This file loads Spark on request."""

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ("arrow_schema_of", "struct_of")


def struct_of(schema: str) -> "StructType":
    """Return the columns that the JSON describes; Spark and the log of a Delta table use the same form."""
    from pyspark.sql.types import StructType  # noqa: PLC0415 - Spark is optional

    return StructType.fromJson(json.loads(schema))


def arrow_schema_of(schema: str) -> "pa.Schema":
    """Return the Arrow schema of these columns; timestamps are UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - private to Spark

    # Without a time zone, `to_arrow_schema` asks a Spark session for it, and a worker has no session.
    return to_arrow_schema(struct_of(schema), timezone="UTC")
