"""The fields of the records that a worker makes of its deliveries."""

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from mqflow.policy.poison.disposition_record import RecordOutcome
from mqflow.runtime.listener.worker_records import _NO_FAILURE, Recorder
from mqflow.testing.virtual_clock import SeededRandom, VirtualClock
from mqflow.verbs import Got
from tests.runtime.recorded import NOW_S, ORDER


@pytest.mark.parametrize(("tenths", "left_ms"), [(-1, None), (0, 0), (1, 100)])
def test_only_the_record_of_a_message_that_can_expire_has_the_time_that_is_left(tenths: int, left_ms: int | None) -> None:
    state: Any = SimpleNamespace(
        clock=VirtualClock(NOW_S), random=SeededRandom(1), application_name="orders",
        spec=SimpleNamespace(name="book", queue="IN"), settings=SimpleNamespace(known=None),
        supervisor=SimpleNamespace(queue_manager_name="QM1"),
    )  # fmt: skip
    got = Got(descriptor=replace(ORDER, expiry_tenths=tenths), body=b"text", data_bytes=4)
    delivery: Any = SimpleNamespace(got=got, ended_at=None, trace_id="")
    session: Any = None

    made = Recorder(state, session, "RECORDS", 1)._record(delivery, RecordOutcome.COMMITTED, _NO_FAILURE)

    assert left_ms == made.expiry_left_ms
