"""The bytes of a record: records of older versions are read unchanged, records of newer versions are not read.

A message carries one record or several; if one record is not understood, none of them is read.
"""

import msgspec
import pytest
from msgspec.structs import replace

from mqflow.policy.poison.disposition_record import (
    RECORD_VERSION,
    RECORDS_MAX,
    DispositionRecord,
    RecordOutcome,
    from_bytes,
    in_order,
    many_from_bytes,
    many_to_bytes,
    messages_of,
    put_time_us,
    to_bytes,
)

#: 2025-10-09 08:53:20 GMT, in microseconds since 1970.
START_US = 1_760_000_000_000_000


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


def test_a_record_of_a_later_version_is_not_read() -> None:
    assert from_bytes(to_bytes(record(RecordOutcome.COMMITTED, schema_version=RECORD_VERSION + 1))) is None


def numbered(number: int, long: str = "") -> DispositionRecord:
    said = long or None
    return DispositionRecord(
        disp_id=f"QM1/c/1/{number}", event_ts=number, qmgr="QM1", queue="Q", outcome=RecordOutcome.COMMITTED, handler=said,
        consumer=said, exc_class=said, exc_message=said,
    )  # fmt: skip


@pytest.mark.parametrize("count", [1, 2, RECORDS_MAX])
def test_records_are_read_as_they_were_written_in_their_order(count: int) -> None:
    records = [numbered(number) for number in range(count)]

    assert records == list(many_from_bytes(many_to_bytes(records)))


def test_one_record_has_the_same_bytes_alone_as_in_a_message_for_several() -> None:
    """A reader of one record in a message must still work."""
    assert to_bytes(numbered(1)) == many_to_bytes([numbered(1)])
    assert numbered(1) == from_bytes(to_bytes(numbered(1)))


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[", b"[]", b"7", b"\xff\xfe", b'[{"disp_id": "x"}]', many_to_bytes([numbered(1), numbered(2)])[:-1]]
)
def test_data_that_are_no_record_give_none(data: bytes) -> None:
    assert [] == list(many_from_bytes(data))
    assert from_bytes(data) is None


def test_of_a_message_with_one_record_of_a_later_version_nothing_is_read() -> None:
    later = record(RecordOutcome.COMMITTED, schema_version=RECORD_VERSION + 1)

    assert [] == list(many_from_bytes(many_to_bytes([numbered(1), later])))


def test_several_records_are_not_read_as_one() -> None:
    assert from_bytes(many_to_bytes([numbered(1), numbered(2)])) is None


def test_a_message_of_the_longest_records_stays_below_the_usual_maxmsgl() -> None:
    longest = numbered(1, long="\U0001f4a5" * 512)  # every character has four bytes

    assert len(many_to_bytes([longest] * RECORDS_MAX)) < 4_194_304


def test_half_a_surrogate_pair_is_written_out() -> None:
    """JSON cannot hold half a surrogate pair, but a text of a program can."""
    whole = DispositionRecord(disp_id="1", event_ts=1, qmgr="QM1", queue="Q", outcome=RecordOutcome.LEFT)
    torn = replace(whole, exc_message="rule caf\udce9", handler="日本")

    assert (whole, replace(torn, exc_message="rule caf\\udce9")) == tuple(many_from_bytes(many_to_bytes([whole, torn])))
    assert replace(torn, exc_message="rule caf\\udce9") == from_bytes(to_bytes(torn))


def test_a_record_made_in_order_is_the_record_made_by_names() -> None:
    by_names = numbered(1, long="text")

    made = in_order(*(getattr(by_names, name) for name in DispositionRecord.__struct_fields__))

    assert DispositionRecord.__struct_fields__ == type(made).__struct_fields__
    assert to_bytes(by_names) == to_bytes(made)
    assert by_names == from_bytes(to_bytes(made))


@pytest.mark.parametrize("count", [0, 1, RECORDS_MAX, RECORDS_MAX + 1, 2 * RECORDS_MAX + 1])
def test_the_fewest_messages_carry_all_records_in_order(count: int) -> None:
    records = [numbered(number) for number in range(count)]

    messages = list(messages_of(records))

    assert -(-count // RECORDS_MAX) == len(messages)
    assert records == [record for message in messages for record in many_from_bytes(message)]


@pytest.mark.parametrize(
    ("put_date", "put_time", "expected"),
    [
        ("19700101", "00000000", 0),
        ("20251009", "08532000", START_US),
        ("20251009", "08532099", START_US + 990_000),
        ("", "", None),
        ("20251309", "08532000", None),
        ("20251009", "0853200x", None),
        ("20251009", "085320", None),
        ("20251009", "23595999", START_US + 54_399_990_000),
        ("20251009", "08536150", START_US + 41_500_000),  # possible seconds on a clock: 60 and 61
        ("20251009", "08536200", None),
        ("20251009", "24000000", None),
        ("20251009", "99000000", None),
        ("20251009", "08600000", None),
        ("202510 9", "08532000", None),
        ("²0251009", "08532000", None),
        ("99991231", "23595999", None),  # out of the range of `Time`
        ("00010101", "00000000", None),
    ],
)
def test_a_put_time_is_read_to_the_hundredth(put_date: str, put_time: str, expected: int | None) -> None:
    assert expected == put_time_us(put_date, put_time)
