"""The segments that each table has: the last one of each lane, from the tables themselves and without Spark."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import msgspec
from msgspec import Struct, field

from mqflow.journal import Kind
from mqflow.pipeline.tables.checkpoints import last_batch
from mqflow.pipeline.tables.folder import TableSet
from mqflow.pipeline.tables.incremental import LANE

__all__ = ("Offsets", "table_offsets")

Offsets: TypeAlias = Mapping[str, int]
"""By lane, the last segment that a table has."""


class _Offset(Struct):
    """The position of the journal source in a checkpoint."""

    lanes: dict[str, int] = field(default_factory=dict[str, int])


def table_offsets(tables: Path, kinds: Iterable[Kind]) -> Iterator[tuple[str, frozenset[Kind], Offsets]]:
    """Yield each table, the kinds of lanes that it is made from, and its offsets; none for a table that does not exist.

    Silver and gold count from the records of decisions: their other tables change in the same runs.
    """
    for kind in sorted(kinds):
        yield f"bronze.{kind}", frozenset({kind}), _bronze(tables / "checkpoints" / "bronze" / kind.value)
    if Kind.DISPOSITION not in kinds:
        return
    for name in ("silver", "gold"):
        state = TableSet(tables / name).current().state
        had = {key.removeprefix(LANE): last for key, last in state.items() if key.startswith(LANE)}
        yield name, frozenset({Kind.DISPOSITION}), had


def _bronze(checkpoint: Path) -> Offsets:
    """Return the offsets of the last batch that the query has committed."""
    committed = last_batch(checkpoint / "commits")
    if committed < 0:
        return {}
    said = (checkpoint / "offsets" / str(committed)).read_bytes().splitlines()
    return msgspec.json.decode(said[-1], type=_Offset).lanes  # below a version and the settings of the batch
