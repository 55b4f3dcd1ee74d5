"""The modules of Spark, Arrow, Delta tables and charts. They are extras, and load at the first use of one of their names."""

from typing import TYPE_CHECKING

from mqflow.journal.arrow import LateModule, compute, pa, pc, pq

if TYPE_CHECKING:
    import altair as alt
    import deltalake
    import deltalake.exceptions
    import deltalake.transaction
    from pyspark.sql import functions as f
    from pyspark.sql import window
else:
    alt, deltalake = LateModule("altair"), LateModule("deltalake")
    f, window = LateModule("pyspark.sql.functions"), LateModule("pyspark.sql.window")

__all__ = ("alt", "compute", "deltalake", "f", "pa", "pc", "pq", "window")
