"""Records of decisions: the fields of a record, the unit of work of its put, and the one warning while records are refused."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.events import Warned
from mqflow.policy.poison.disposition_record import RECORD_VERSION, DispositionRecord, RecordOutcome
from mqflow.verbs import Connection
from tests.runtime.recorded import NOW_US, ORDER, Recorded

FIELDS: dict[str, Any] = {
    "msg_id": b"M" * 24, "correl_id": b"C" * 24, "group_id": b"G" * 24, "msg_type": 1, "format": "MQSTR", "ccsid": 1208,
    "encoding": 273, "persistence": 1, "priority": 4, "expiry_left_ms": 2_500, "put_ts": 1_500_000, "put_appl_name": "orders",
    "put_appl_type": 6, "user_id": "alice", "reply_q": "REPLIES", "reply_qm": "QM2",
}  # fmt: skip


@pytest.fixture
def recorded() -> Iterator[Recorded]:
    queue_manager = EmbeddedQueueManager("QM1")
    made = Recorded(queue_manager)
    made.define()
    yield made
    queue_manager.close()


def test_a_record_has_the_fields_of_its_message_and_further_fields(recorded: Recorded) -> None:
    source = recorded.recorder.source
    recorded.put(in_unit_of_work=False, target_queue="BAD")
    recorded.put(in_unit_of_work=False, queue_manager="QM7", at_us=5)

    first = DispositionRecord(
        disp_id=f"QM1/{source}/1", event_ts=NOW_US, qmgr="QM1", queue="IN", consumer="orders/mover",
        outcome=RecordOutcome.BACKED_OUT, target_queue="BAD", **FIELDS,
    )  # fmt: skip
    second = replace(first, disp_id=f"QM1/{source}/2", event_ts=5, qmgr="QM7", target_queue=None)
    assert [[first], [second]] == recorded.messages()
    assert 12 == len(source)
    assert 0 <= int(source, 16) < 2**48


@pytest.mark.parametrize(("tenths", "left_ms"), [(-1, None), (0, 0), (1, 100)])
def test_a_message_without_an_expiry_has_no_time_left(recorded: Recorded, tenths: int, left_ms: int | None) -> None:
    about = replace(ORDER, expiry_tenths=tenths)

    made = recorded.recorder.make(recorded.connection, RecordOutcome.DEFERRED, about, queue="IN")

    assert left_ms == made.expiry_left_ms


def test_a_heartbeat_has_no_fields_of_a_message(recorded: Recorded) -> None:
    made = recorded.recorder.make(recorded.connection, RecordOutcome.HEARTBEAT, None, queue="IN")

    expected = DispositionRecord(
        disp_id=f"QM1/{recorded.recorder.source}/1", event_ts=NOW_US, qmgr="QM1", queue="IN", consumer="orders/mover",
        outcome=RecordOutcome.HEARTBEAT,
    )  # fmt: skip
    assert expected == made


def test_only_the_record_of_a_released_message_has_the_new_version(recorded: Recorded) -> None:
    versions = {
        outcome: recorded.recorder.make(recorded.connection, outcome, ORDER, queue="IN").schema_version
        for outcome in RecordOutcome
    }

    assert dict.fromkeys(RecordOutcome, 1) | {RecordOutcome.RELEASED: RECORD_VERSION} == versions


@pytest.mark.parametrize(
    ("in_unit_of_work", "end", "count"),
    [(True, Connection.commit, 1), (True, Connection.backout, 0), (False, Connection.backout, 1)],
    ids=["committed", "backed out", "outside of the unit"],
)
def test_a_record_is_part_of_the_unit_of_work_or_not(
    recorded: Recorded, *, in_unit_of_work: bool, end: Callable[[Connection], object], count: int
) -> None:
    recorded.put(in_unit_of_work=in_unit_of_work)
    early = recorded.messages()
    getattr(recorded.connection, end.__name__)()  # the name of a verb

    assert count == len(early) + len(recorded.messages())
    assert in_unit_of_work is not bool(early)


def test_refused_records_are_reported_once_until_a_record_is_accepted(recorded: Recorded) -> None:
    queue_manager = recorded.queue_manager
    queue_manager.administration.delete("RECORDS")
    reasons = [recorded.put(), recorded.put()]
    recorded.define()
    reasons.append(recorded.put(in_unit_of_work=False))
    recorded.messages()
    queue_manager.administration.delete("RECORDS")
    reasons.append(recorded.put())

    assert [2085, 2085, 0, 2085] == reasons
    assert 2 == len(recorded.events)
    for warned in recorded.events:
        assert isinstance(warned, Warned)
        assert "RECORDS" == warned.queue
        assert warned.text.startswith("orders/mover: decisions are not recorded. MQPUT1 on RECORDS (QM1) failed: ")


def test_a_recorder_without_a_hook_reports_nothing(recorded: Recorded) -> None:
    recorded.queue_manager.administration.delete("RECORDS")
    recorded.recorder.notify = None

    assert 2085 == recorded.put()
