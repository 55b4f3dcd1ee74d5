"""The answers of MQSC and PCF about every attribute of every kind of object, and the rows that an earlier mqflow stored."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mqflow.embedded.catalogue.kinds import DEFINED_KINDS, Noun
from mqflow.embedded.mqsc import Verdict, run
from mqflow.embedded.mqsc.display import as_json
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.storage.store import ObjectDefined, QueueManagerDefined
from mqflow.mqi.attributes.queue_manager import QueueManagerAttributes
from tests.embedded.administration.object_transcripts import FOLDER, TRANSCRIPTS
from tests.embedded.storage.stored_messages import write

#: Kind, key and record of an object of each kind and type, as the mqflow before `DefinedObject` stored them.
ROWS: list[tuple[str, str, dict[str, Any]]] = json.loads((FOLDER / "rows.json").read_text())


@pytest.mark.parametrize(("stem", "transcript"), TRANSCRIPTS.items(), ids=TRANSCRIPTS)
def test_every_command_about_an_object_gets_the_answer_on_file(stem: str, transcript: Callable[[], list[str]]) -> None:
    assert (FOLDER / f"{stem}.txt").read_text().splitlines() == transcript()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the rows that an earlier mqflow stored."""
    store = SqliteStore(tmp_path)
    store.load()
    objects = [ObjectDefined(kind, key, msgspec.msgpack.encode(record)) for kind, key, record in ROWS]
    assert write(store, [QueueManagerDefined(QueueManagerAttributes(name="QM1")), *objects]) is None
    store.close()
    return tmp_path


@pytest.mark.parametrize(("kind", "key", "record"), ROWS, ids=[f"{kind} {key}" for kind, key, _ in ROWS])
def test_an_object_that_an_earlier_mqflow_stored_is_there_with_all_its_attributes(
    folder: Path, kind: str, key: str, record: dict[str, Any]
) -> None:
    noun: Noun = next(noun for noun in DEFINED_KINDS if noun.lower() == kind)
    with EmbeddedQueueManager("QM1", store=SqliteStore(folder)) as queue_manager:
        found = {each.key: each for each in queue_manager.administration.objects.all(noun)}

    assert record == json.loads(msgspec.json.encode(found[key].fields))


def test_an_object_that_an_earlier_mqflow_stored_is_shown_and_altered(folder: Path) -> None:
    with EmbeddedQueueManager("QM1", store=SqliteStore(folder)) as queue_manager:
        results = run("ALTER LISTENER(A0) PORT(1415)\nDISPLAY LISTENER(A0) PORT IPADDR", queue_manager.administration)

    assert [Verdict.DONE, Verdict.DONE] == [response.verdict for response in results.responses]
    assert {"LISTENER": "A0", "TRPTYPE": "TCP", "PORT": 1415, "IPADDR": "IPADDR.1"}.items() >= as_json(
        results.responses[1].records[0]
    ).items()


def test_an_earlier_mqflow_reads_a_stored_altered_object(folder: Path) -> None:
    with EmbeddedQueueManager("QM1", store=SqliteStore(folder)) as queue_manager:
        run("ALTER LISTENER(A0) PORT(1415)", queue_manager.administration)
    store = SqliteStore(folder)
    stored = {(each.kind, each.name): msgspec.msgpack.decode(each.attributes) for each in store.load().objects}
    store.close()

    for kind, key, record in ROWS:
        changed = {"port": 1415} if kind == "listener" else {}
        dates = {field: stored[kind, key][field] for field in ("alteration_date", "alteration_time")}
        assert {**record, **changed, **dates} == stored[kind, key]
