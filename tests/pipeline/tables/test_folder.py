"""A folder of tables: one writer at a time, and a state counts only after it is synced."""

import os
from pathlib import Path

import pytest

from mqflow.pipeline import PipelineError
from mqflow.pipeline.tables.folder import TableSet


def test_two_who_write_at_once_do_not_write_over_each_other(tmp_path: Path) -> None:
    tables = TableSet(tmp_path / "gold")
    with tables.next() as first:
        (first.path / "mine").touch()
        with pytest.raises(PipelineError, match="Another process writes the tables in"), tables.next():
            pass

    assert (1, True) == (tables.current().snapshot, (tables.path / "snapshot-1" / "mine").exists())
    with tables.next():  # it is free again
        pass
    assert 2 == tables.current().snapshot


def test_a_state_counts_when_all_of_it_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run never counts closed windows again, so a power cut must not leave a file name without its rows."""
    synced: list[str] = []
    fsync = os.fsync

    def told(number: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{number}").readlink()))
        fsync(number)

    monkeypatch.setattr(os, "fsync", told)

    with TableSet(tmp_path).next() as snapshot:
        (snapshot.path / "table").mkdir()
        (snapshot.path / "table" / "part.parquet").write_bytes(b"rows")

    before = synced[: next(at for at, path in enumerate(synced) if "CURRENT" in path)]
    made = tmp_path / "snapshot-1"
    assert {str(path) for path in (made / "table" / "part.parquet", made / "table", made, tmp_path)} <= set(before)
