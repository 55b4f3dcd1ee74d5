"""A message as a person reads it: names for numbers, decoded headers, and why it is on its queue."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqflow.cli.text.message_view import MessageView, hex_dump, view
from mqflow.cli.text.terminal import safe
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import Report
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.moved_message import Why, folder, to_backout_queue, to_dead_letter_queue

TEXT = MessageDescriptor(format="MQSTR", ccsid=1208)


def rows(shown: MessageView, title: str) -> dict[str, str]:
    [section] = [section for section in shown.sections if title in section.title]
    return dict(section.rows)


def test_numbers_are_shown_by_their_names() -> None:
    descriptor = MessageDescriptor(report=Report.DISCARD_MSG, expiry_tenths=25, persistence=1)

    shown = rows(view("Q", descriptor, b""), "MQMD")

    assert "MQRO_DISCARD_MSG (0x8000000)" == shown["Report"]
    assert "2.5 s left" == shown["Expiry"]
    assert "MQPER_PERSISTENT (1)" == shown["Persistence"]
    assert "546 (little-endian)" == shown["Encoding"]


def test_a_dead_letter_shows_its_destination_and_its_reason() -> None:
    descriptor, data = to_dead_letter_queue(
        TEXT, b"hello", reason=Reason.Q_FULL, queue="ORDERS.IN", queue_manager="QM1", application_name="orders",
        now=datetime(2026, 11, 21, 4, 5, 6, tzinfo=UTC),
    )  # fmt: skip

    shown = view("DLQ", descriptor, data)

    assert "Its destination was ORDERS.IN (QM1). It was put here because of MQRC_Q_FULL (2053)." == shown.why[0]
    assert "Moved by orders at 2026-11-21 04:05:06 UTC." == shown.why[1]
    assert "ORDERS.IN" == rows(shown, "MQDLH")["DestQName"]
    assert ("hello",) == shown.body


def test_a_backed_out_message_shows_its_count_and_its_error() -> None:
    reason = Why(queue="Q.IN", count=3, threshold=3, outcome="failed", error="ValueError", text="no stock", handler="book")
    descriptor, data = to_backout_queue(TEXT, b"hello", folders=(folder(reason),))

    shown = view("Q.BOQ", descriptor, data)

    assert "It was moved here from Q.IN when its handling had failed 3 times (threshold 3)." == shown.why[0]
    assert "Its last handling by book had the outcome failed: ValueError: no stock" == shown.why[1]
    assert "no stock" == rows(shown, "MQRFH2")["mqflow.text"]


def test_a_damaged_header_is_named_and_the_rest_is_the_body() -> None:
    shown = view("Q", MessageDescriptor(format="MQHRF2"), b"RFH broken")

    assert "MQRC_" in rows(shown, "cannot be read")["Error"]
    assert ("RFH broken",) == shown.body


def test_text_is_read_in_its_character_set() -> None:
    shown = view("Q", MessageDescriptor(format="MQSTR", ccsid=500), "Grüße".encode("cp500"))

    assert ("Grüße",) == shown.body


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", ()),
        ("\n", ("",)),
        ("a\nb\r\nc\rd\n", ("a", "b", "c", "d")),
        ("a\x0bb\x0cc\x1cd\u2028e", ("a\x0bb\x0cc\x1cd\u2028e",)),
    ],
    ids=repr,
)
def test_only_a_line_end_divides_a_body_into_lines(text: str, lines: tuple[str, ...]) -> None:
    assert lines == view("Q", TEXT, text.encode()).body


def test_the_line_end_of_ebcdic_divides_a_body_into_lines() -> None:
    assert ("A", "B") == view("Q", MessageDescriptor(format="MQSTR", ccsid=500), b"\xc1\x15\xc2").body


def test_a_long_body_is_cut_with_a_note() -> None:
    shown = view("Q", TEXT, b"x" * 100, shown_max=10)

    assert ("x" * 10,) == shown.body
    assert "text, 100 bytes, the first 10 characters shown" == shown.body_title


def test_a_dump_shows_ebcdic_as_readable_text() -> None:
    [line] = hex_dump("HELLO".encode("cp500"), 500)

    assert "00000000  c8c5d3d3 d6                          HELLO" == line


@pytest.mark.parametrize(("character_set", "shown"), [(273, "Äø"), (1047, "¢ø"), (875, "[¨"), (424, "¢."), (1208, "Jp")])
def test_a_dump_in_any_character_set_has_a_full_stop_for_a_byte_without_a_character(character_set: int, shown: str) -> None:
    [line] = hex_dump(b"\x4a\x70", character_set)

    assert shown == line[-2:]


@given(st.text())
def test_safe_text_is_printable_and_one_line(text: str) -> None:
    made = safe(text)

    assert not any(letter in made for letter in "\x1b\r\n\x07\x9b\u202e\u2028")
    assert 1 >= len(made.splitlines())


@given(
    st.binary(max_size=300),
    st.sampled_from(["", "MQSTR", "MQHRF2", "MQDEAD", "MQHMDE"]),
    st.sampled_from([0, 37, 1200, 1208, 9]),
)
def test_any_message_can_be_shown(data: bytes, message_format: str, ccsid: int) -> None:
    shown = view("Q", MessageDescriptor(format=message_format, ccsid=ccsid), data)

    assert "Q" == shown.queue
