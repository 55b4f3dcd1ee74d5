"""The fixtures of `mqflow edit`: an order that does not decode, and an editor that mends it."""

from pathlib import Path

import pytest

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import OpenOption, Persistence, PutOption
from mqflow.policy.poison import moved_message
from tests.cli.conftest import Run

ORDER = MessageDescriptor(persistence=Persistence.PERSISTENT, format="MQSTR", ccsid=1208, user_identifier="amelie")


@pytest.fixture
def poison(run: Run, queues: None, tmp_path: Path) -> str:
    """Put an order that does not decode on the backout queue; return its MsgId."""
    why = moved_message.Why(queue="ORDERS.IN", outcome="undecodable", error="DecodeError")
    with EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path / "data")) as queue_manager:
        connection = queue_manager.connect()
        handle = connection.open("ORDERS.BOQ", OpenOption.OUTPUT)
        descriptor, data = moved_message.to_backout_queue(ORDER, b'{"number": "7"}', folders=(moved_message.folder(why),))
        return connection.put(handle, descriptor, data, PutOption.NO_SYNCPOINT).descriptor.message_id.hex()


@pytest.fixture
def editor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Make `sed` the editor: it turns the text into a number, and notes the file."""
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", 'sed -i s/\\"7\\"/7/')
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
