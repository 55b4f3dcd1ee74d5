"""The bytes of a record: what an older mqflow put is read as it was, and what a newer one puts is not guessed at."""

import msgspec
import pytest

from mqflow.policy.disposition_record import RECORD_VERSION, DispositionRecord, RecordOutcome, from_bytes, to_bytes


def record(outcome: RecordOutcome, **more: int) -> DispositionRecord:
    return DispositionRecord(disp_id="QM1/a/1", event_ts=1, qmgr="QM1", queue="IN", outcome=outcome, **more)  # type: ignore[arg-type]  # a version


@pytest.mark.parametrize("outcome", RecordOutcome)
def test_a_record_comes_back_as_it_was(outcome: RecordOutcome) -> None:
    put = record(outcome, schema_version=RECORD_VERSION)

    assert put == from_bytes(to_bytes(put))


def test_a_record_that_says_no_version_is_of_the_first() -> None:
    data = to_bytes(record(RecordOutcome.COMMITTED))

    assert "schema_version" not in msgspec.json.decode(data)
    assert record(RecordOutcome.COMMITTED, schema_version=1) == from_bytes(data)


def test_a_record_of_a_later_version_is_none() -> None:
    assert from_bytes(to_bytes(record(RecordOutcome.COMMITTED, schema_version=RECORD_VERSION + 1))) is None
