"""A start that takes long says what it reads, on a terminal."""

import io
import threading
from pathlib import Path

from mqflow.cli.processes.loading_progress import LoadingLine, loading_line
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.folder import DataFolder
from mqflow.embedded.storage.read_only import messages_in
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import PutOption


def folder_of(path: Path, messages: int) -> DataFolder:
    with EmbeddedQueueManager("QM1", store=SqliteStore(path / "qm")) as queue_manager:
        queue_manager.administration.define(QueueAttributes(name="Q1"))
        connection = queue_manager.connect()
        for _ in range(messages):
            connection.put1("Q1", MessageDescriptor(persistence=1), b"", PutOption.NO_SYNCPOINT)
        connection.disconnect()
    return DataFolder(path / "qm")


class Terminal(io.StringIO):
    """Says when something was written."""

    def __init__(self) -> None:
        super().__init__()
        self.shown = threading.Event()

    def flush(self) -> None:
        self.shown.set()


def test_a_long_start_says_how_many_messages_are_read_and_leaves_nothing_of_it(tmp_path: Path) -> None:
    terminal = Terminal()
    row = LoadingLine("QM1", folder_of(tmp_path, 3), terminal, quiet_s=0)
    terminal.shown.wait()

    row.finish()
    row.finish()

    assert terminal.getvalue().startswith("\r\x1b[2KQM1: loading about 3 messages, 0 s")
    assert terminal.getvalue().endswith("\r\x1b[2K")


def test_a_short_start_says_nothing(tmp_path: Path) -> None:
    terminal = Terminal()

    LoadingLine("QM1", folder_of(tmp_path, 3), terminal, quiet_s=60).finish()

    assert not terminal.getvalue()


def test_a_log_has_nothing_of_it_and_what_cannot_be_counted_is_none(tmp_path: Path) -> None:
    with loading_line("QM1", DataFolder(tmp_path)):  # no terminal here, so the folder is not looked at
        pass

    assert 0 == messages_in(DataFolder(tmp_path))
