"""The fixtures of `mqflow edit`: an order that does not decode, and an editor that mends it. And those of `mqflow redrive`."""

from pathlib import Path

import pytest

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import OpenOption, Persistence, PutOption
from mqflow.policy.poison import moved_message
from mqflow.testing.dead_letters import put_dead_letter
from tests.cli.conftest import Run

ORDER = MessageDescriptor(persistence=Persistence.PERSISTENT, format="MQSTR", ccsid=1208, user_identifier="amelie")
LETTER = MessageDescriptor(persistence=Persistence.PERSISTENT, format="MQSTR", ccsid=1208, priority=3)
DLQ = "DEAD.LETTERS"


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


@pytest.fixture
def dead(run: Run, queues: None, tmp_path: Path) -> None:
    """Put dead letters: two for ORDERS.IN, one for SHUT, one without a destination; and one message on the backout queue."""
    script = f"DEFINE QLOCAL('{DLQ}')\nDEFINE QLOCAL('OTHER')\nDEFINE QLOCAL('SHUT') PUT(DISABLED)"
    assert 0 == run("mqsc", stdin=script).exit_code
    with EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path / "data")) as queue_manager:
        connection = queue_manager.connect()
        for body, queue in ((b"one", "ORDERS.IN"), (b"two", "ORDERS.IN"), (b"three", "SHUT")):
            put_dead_letter(connection, DLQ, body, queue=queue, descriptor=LETTER)
        connection.put1(DLQ, LETTER, b"four", PutOption.NO_SYNCPOINT)
        folders = (moved_message.folder(moved_message.Why(queue="ORDERS.IN", count=3)),)
        descriptor, data = moved_message.to_backout_queue(LETTER, b"five", folders=folders)
        handle = connection.open("ORDERS.BOQ", OpenOption.OUTPUT)
        connection.put(handle, descriptor, data, PutOption.NO_SYNCPOINT)
