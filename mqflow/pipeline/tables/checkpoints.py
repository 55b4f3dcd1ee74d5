"""Whether a table and the checkpoint of the query that fills it are of one another.

A sink takes a batch whose number its table has for one that is there already: that is what makes a replay harmless. With a new
checkpoint, whose batches begin at 0 again, or another's, new rows would be taken for old ones and never be written, and the
journal would be told that they were. Reads the names of files only; loads no Spark.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

from mqflow.pipeline.errors import PipelineError

__all__ = ("check_checkpoint",)

_NONE: Final = -1


def check_checkpoint(table: Path, checkpoint: Path, form: Literal["parquet", "delta"], app_id: str) -> None:
    """Return where the query can go on. Raises `PipelineError` where rows would be lost, or be in two tables.

    The table has every batch that the checkpoint says is committed, and none that it does not know.
    """
    log, other = "_spark_metadata", "_delta_log"
    if form == "delta":
        log, other = other, log
    if (table / other).exists() and not (table / log).exists():
        there = "delta" if form == "parquet" else "parquet"
        raise PipelineError(f"The table {table} is {there}, not {form}. Nothing was changed. Go on with --format {there}.")
    committed, planned = _last(checkpoint / "commits"), _last(checkpoint / "offsets")
    written = _last(table / log) if form == "parquet" else _last_of(table, app_id)
    if committed <= written <= planned:
        return
    has, knows = (f"batches up to {last}" if last != _NONE else "no batch" for last in (written, planned))
    raise PipelineError(
        f"The table {table} has {has}, and its checkpoint {checkpoint} knows {knows}: they are not of one another, and "
        "new rows would be taken for rows that are there. Nothing was changed. Bring back the one that is gone or older, or "
        "make the table anew from the journal in another folder."
    )


def _last(folder: Path) -> int:
    """The highest number that a file of the folder is named by: `7`, or `9.compact`."""
    stems = (path.name.removesuffix(".compact") for path in folder.glob("[0-9]*"))
    return max((int(stem) for stem in stems if stem.isdigit()), default=_NONE)


def _last_of(table: Path, app_id: str) -> int:
    """The last batch of the application in the table's log."""
    if not (table / "_delta_log").exists() or find_spec("deltalake") is None:  # the sink says what is missing
        return _NONE
    from deltalake import DeltaTable  # noqa: PLC0415 - optional

    found = DeltaTable(str(table)).transaction_version(app_id)
    return _NONE if found is None else int(found)
