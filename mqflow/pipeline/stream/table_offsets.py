"""Reads from each table the last segment of each lane (the segments of one queue) that the table has. This needs no Spark."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from mqflow.journal import Journal, Kind
from mqflow.pipeline import jobs
from mqflow.pipeline.delta.log import has_log
from mqflow.pipeline.tables.bronze import lasts, table_folder
from mqflow.pipeline.tables.changed_rows import LANE

__all__ = ("Offsets", "table_offsets")

Offsets: TypeAlias = Mapping[str, int]
"""By lane, the last segment that a table has."""


def table_offsets(journal: Journal, tables: str | Path) -> Iterator[tuple[str, frozenset[Kind], Offsets]]:
    """Yield each table, the kinds of lanes that it is made from, and its offsets; no offsets if the table does not exist.

    For silver and gold, only the lanes of disposition records count, because one run changes all their tables. Raises the
    errors of the tables, and an error for a table of another journal.
    """
    lanes = journal.lanes()
    kinds = sorted({lane.kind for lane in lanes})
    for kind in kinds:
        table = table_folder(tables, kind)
        mine = [lane for lane in lanes if lane.kind is kind]
        yield f"bronze.{kind}", frozenset({kind}), lasts(table, journal, mine) if has_log(table) else {}
    if Kind.DISPOSITION not in kinds:
        return
    for name in ("silver", "gold"):
        state = jobs.table_set(tables, name).current().state
        had = {key.removeprefix(LANE): last for key, last in state.items() if key.startswith(LANE)}
        yield name, frozenset({Kind.DISPOSITION}), had
