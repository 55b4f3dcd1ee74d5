"""Silver tables from decision records, with and without the search for records that landed twice.

They run in `spark_processes`.
"""

from pathlib import Path

from benchmarks.samples import Sample
from benchmarks.spark_processes import consumed, metered, session
from mqflow.journal import Kind
from mqflow.pipeline.tables import silver
from mqflow.pipeline.tables.frames import first_landings
from mqflow.testing.journals import generate_journal

__all__ = ("deduped", "free")

_SEGMENT_ROWS = 20_000


def free(folder: Path, rows: int) -> Sample:
    """Make the attempts of the records, without the search for records that landed twice."""
    landed = _landed(folder, rows)
    return metered(rows, lambda: consumed(silver.attempts(silver.lives(session().read.parquet(landed)))))


def deduped(folder: Path, rows: int) -> Sample:
    """Make the attempts of the records with `--dedupe`."""
    landed = session().read.parquet(_landed(folder, rows))
    records = silver.lives(first_landings(landed, Kind.DISPOSITION))
    return metered(rows, lambda: consumed(silver.attempts(records)))


def _landed(folder: Path, rows: int) -> str:
    """Return the folder of records in Parquet files; the first call makes them."""
    path = folder / "dispositions"
    if not path.exists():
        size = min(rows, _SEGMENT_ROWS)
        generate_journal(folder / "decided", Kind.DISPOSITION, segments=max(1, rows // size), rows=size, lane="DECISIONS")
        read = session().read.format("mqflow_journal").load(str(folder / "decided"))
        read.write.parquet(str(path))
    return str(path)
