"""The check that a table and the checkpoint of the query that fills it belong together.

A sink skips a batch whose number its table has already, which makes replays harmless. A new checkpoint begins at batch 0 again.
With a new checkpoint, or with that of another table, the sink would skip new rows, and the query would acknowledge these rows
in the journal. This file reads only the names of files, and loads no Spark.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

from mqflow.pipeline.errors import PipelineError

__all__ = ("check_checkpoint", "last_batch")

_NONE: Final = -1


def check_checkpoint(table: Path, checkpoint: Path, form: Literal["parquet", "delta"], app_id: str) -> None:
    """Raise `PipelineError` if the query cannot continue without losing rows or writing them to two tables.

    The table must have every batch that the checkpoint has committed, and no batch that the checkpoint does not know.
    """
    log, other = "_spark_metadata", "_delta_log"
    if form == "delta":
        log, other = other, log
    if (table / other).exists() and not (table / log).exists():
        there = "delta" if form == "parquet" else "parquet"
        raise PipelineError(f"The table {table} is {there}, not {form}. Nothing was changed. Continue with --format {there}.")
    committed, planned = last_batch(checkpoint / "commits"), last_batch(checkpoint / "offsets")
    written = last_batch(table / log) if form == "parquet" else _last_of(table, app_id)
    if committed <= written <= planned:
        return
    has, knows = (f"batches up to {last}" if last != _NONE else "no batch" for last in (written, planned))
    raise PipelineError(
        f"The table {table} has {has}, and its checkpoint {checkpoint} knows {knows}: they do not belong together, and "
        "new rows would be skipped as written. Nothing was changed. Restore the table or checkpoint that is missing or older, "
        "or make the table again from the journal in another folder."
    )


def last_batch(folder: Path) -> int:
    """Return the highest number in the file names of the folder: `7`, or `9.compact`; -1 without a file."""
    stems = (path.name.removesuffix(".compact") for path in folder.glob("[0-9]*"))
    return max((int(stem) for stem in stems if stem.isdigit()), default=_NONE)


def _last_of(table: Path, app_id: str) -> int:
    """Return the last batch of the application in the table's log."""
    if not (table / "_delta_log").exists() or find_spec("deltalake") is None:  # the sink reports that it is missing
        return _NONE
    from deltalake import DeltaTable  # noqa: PLC0415 - optional

    found = DeltaTable(str(table)).transaction_version(app_id)
    return _NONE if found is None else int(found)
