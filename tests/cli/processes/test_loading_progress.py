"""A long start shows on a terminal how many messages it loads."""

import io
import threading
from functools import partial
from pathlib import Path

import pytest

from mqflow.cli.processes import loading_progress
from mqflow.cli.processes.loading_progress import LoadingLine, loading_line
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.folder import DataFolder
from mqflow.embedded.storage.sqlite.folder_summary import messages_in
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from tests.queue_contents import put


def folder_of(path: Path, messages: int) -> DataFolder:
    with EmbeddedQueueManager("QM1", store=SqliteStore(path / "qm")) as queue_manager:
        queue_manager.administration.define(QueueAttributes(name="Q1"))
        put(queue_manager, "Q1", *[b""] * messages, descriptor=MessageDescriptor(persistence=1))
    return DataFolder(path / "qm")


class Terminal(io.StringIO):
    """A terminal with an event for the first write."""

    def __init__(self) -> None:
        super().__init__()
        self.shown = threading.Event()

    def flush(self) -> None:
        self.shown.set()


def test_a_long_start_shows_the_number_of_messages_and_removes_the_line(tmp_path: Path) -> None:
    terminal = Terminal()
    row = LoadingLine("QM1", folder_of(tmp_path, 3), terminal, quiet_s=0)
    assert terminal.shown.wait(60), "the line was not flushed"

    row.finish()
    row.finish()

    assert terminal.getvalue().startswith("\r\x1b[2KQM1: loading about 3 messages, 0 s")
    assert terminal.getvalue().endswith("\r\x1b[2K")


def test_a_short_start_shows_nothing(tmp_path: Path) -> None:
    terminal = Terminal()

    LoadingLine("QM1", folder_of(tmp_path, 3), terminal, quiet_s=60).finish()

    assert not terminal.getvalue()


def test_a_log_has_no_line_and_an_empty_folder_has_no_messages(tmp_path: Path) -> None:
    with loading_line("QM1", DataFolder(tmp_path)):  # there is no terminal, so the folder is not read
        pass

    assert 0 == messages_in(DataFolder(tmp_path))


def test_a_terminal_has_the_line_only_while_the_block_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(loading_progress, "in_foreground", lambda stream: stream is terminal)
    monkeypatch.setattr(loading_progress, "LoadingLine", partial(LoadingLine, quiet_s=0))

    with loading_line("QM1", folder_of(tmp_path, 3)):
        assert terminal.shown.wait(60)

    assert terminal.getvalue().startswith("\r\x1b[2KQM1: loading about 3 messages, 0 s")
    assert terminal.getvalue().endswith("\r\x1b[2K")
