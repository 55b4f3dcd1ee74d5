"""`mqflow` with a bronze that keeps its position in a file of its own, for the controls of `stream_campaign`.

CARELESS says when: `forgets` writes the file after the commit of the table, and `hurries` before it. A kill between the two
doubles or loses rows.
"""

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mqflow.cli.main import main
from mqflow.folders import Folder
from mqflow.journal import Journal, Lane, Segment
from mqflow.pipeline.tables import bronze

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ("careless",)


def careless(how: str) -> None:
    """Make bronze careless in this process."""
    write: Any = bronze._write

    def lasts(table: Folder, _journal: Journal, lanes: Iterable[Lane]) -> dict[str, int]:
        file = _position(table)
        found: dict[str, int] = json.loads(file.read_text()) if file.exists() else {}
        return {lane.name: found.get(lane.name, 0) for lane in lanes}

    def written(
        spark: "SparkSession", asked: bronze.Bronze, table: Folder, taken: Sequence[Segment], _transactions: object
    ) -> None:
        through = {each.lane: each.number for each in sorted(taken)}
        _position(table).parent.mkdir(parents=True, exist_ok=True)
        if how == "hurries":
            _position(table).write_text(json.dumps(through))
        write(spark, asked, table, taken, {})
        _position(table).write_text(json.dumps(through))

    changed: Any = bronze
    changed.lasts, changed._write = lasts, written


def _position(table: Folder) -> Path:
    assert table.path is not None
    return table.path.parent / "position.json"


if __name__ == "__main__":
    careless(os.environ["CARELESS"])
    main()
