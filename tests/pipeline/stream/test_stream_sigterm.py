"""SIGTERM to a real `mqflow spark stream`: it ends with 0 after its stage. The next run brings each row to its table once."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from mqflow.journal import Kind
from mqflow.testing.journals import generate_journal
from tests.long import LONG
from tests.pipeline import jvm

SEGMENTS, ROWS = 5, 20


@contextmanager
def streaming(folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Run the command in a session of its own, and end all processes of its group."""
    where = ["--journal", str(folder / "journal"), "--tables", str(folder / "tables"), "--master", "local[2]"]
    confs = [part for key, value in jvm.interpreted().items() for part in ("--conf", f"{key}={value}")]
    command = [sys.executable, "-m", "mqflow", "spark", "stream", *where, "--json", *options, *confs]
    with (folder / "stderr").open("w") as errors:
        process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def events(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    for line in process.stdout:
        yield json.loads(line)


@LONG
@pytest.mark.timeout(600)
@pytest.mark.xdist_group("long on spark")
@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["to the command", "to its JVM and its workers too"])
def test_sigterm_ends_a_stream_with_0_and_the_next_run_brings_each_row_to_its_table_once(
    send: Callable[[int, int], None], tmp_path: Path
) -> None:
    generate_journal(tmp_path / "journal", Kind.DEAD_LETTER, segments=SEGMENTS, rows=ROWS, lane="DLQ")

    with streaming(tmp_path, "--rows-per-round", str(ROWS)) as process:
        first = next(each for each in events(process) if each["event"] == "ran" and each["stage"] == "bronze")
        send(process.pid, signal.SIGTERM)
        left = [each for each in events(process) if each["event"] == "ran" and each["stage"] == "bronze"]
        code = process.wait()
    stopped = (tmp_path / "stderr").read_text()
    with streaming(tmp_path, "--once") as process:
        rest = sum(each["rows"] for each in events(process) if each["event"] == "ran" and each["stage"] == "bronze")
        assert 0 == process.wait(), (tmp_path / "stderr").read_text()

    assert (0, [], ROWS) == (code, left, first["rows"]), stopped
    assert "Traceback" not in stopped
    assert SEGMENTS * ROWS == first["rows"] + rest
    every = {(segment, ordinal) for segment in range(1, SEGMENTS + 1) for ordinal in range(ROWS)}
    for table in ("bronze/dead_letter", "silver/dead_letter"):
        rows = DeltaTable(tmp_path / "tables" / table).to_pyarrow_table(columns=["segment", "ordinal"]).to_pylist()
        assert Counter(every) == Counter((row["segment"], row["ordinal"]) for row in rows), table
