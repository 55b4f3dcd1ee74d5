"""Whole messages as a person and a program read them: each field, each header, the reason and the body."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqflow.cli.text.message_view import MessageView, hex_dump, own_data, reason_words, view
from mqflow.cli.text.terminal import safe, show_message
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.headers import descriptor_extension, rfh2
from mqflow.mqi.headers.descriptor_extension import DescriptorExtension
from mqflow.mqi.headers.rfh2 import RFH2
from mqflow.mqi.headers.rfh2_folder import Folder, FolderProperty
from mqflow.mqi.options import Encoding, Report
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.moved_message import Why, folder, to_backout_queue, to_dead_letter_queue

FULL = MessageDescriptor(
    message_id=bytes(range(24)), correlation_id=bytes(range(1, 25)), message_type=1, format="MQSTR", ccsid=1208, encoding=273,
    persistence=0, priority=4, expiry_tenths=600, backout_count=2, report=Report.DISCARD_MSG | Report.EXCEPTION, feedback=259,
    reply_to_queue="ANSWERS", reply_to_queue_manager="QM2", user_identifier="amelie", accounting_token=b"\x01" + bytes(31),
    application_identity_data="identity", put_application_type=28, put_application_name="shop", put_date="20261123",
    put_time="11223344", application_origin_data="web", group_id=bytes(range(2, 26)), sequence_number=2, offset=100,
    message_flags=0x18, original_length=200,
)  # fmt: skip
MOVED = Why(
    queue="IN", queue_manager="QM1", count=1, threshold=1, outcome="undecodable", error="DecodeError", text="no JSON",
    frame="book.py:7 in book", handler="book", application_name="orders", at=datetime(2026, 11, 21, 4, 5, 6, tzinfo=UTC),
)  # fmt: skip
LINKS = RFH2(
    folders=(
        Folder("usr", tuple(FolderProperty(*each) for each in (("n", None), ("b", b"\xab"), ("yes", True), ("price", 7)))),
        Folder("odd", (), "<odd>loose text</odd>  "),
    ),
    encoding=Encoding.NORMAL,
    ccsid=1208,
    format="MQSTR",
)


TEXT = MessageDescriptor(format="MQSTR", ccsid=1208)


def rows(shown: MessageView, number: int) -> tuple[str, dict[str, str]]:
    return shown.sections[number].title, dict(shown.sections[number].rows)


def test_each_field_of_a_descriptor_is_shown_with_its_name_in_mq() -> None:
    shown = rows(view("Q", FULL, b""), 0)

    assert (
        "Message descriptor (MQMD)",
        {"MsgId": bytes(range(24)).hex(), "CorrelId": bytes(range(1, 25)).hex(), "MsgType": "MQMT_REQUEST (1)",
         "Format": "MQSTR", "CodedCharSetId": "1208 (UTF-8)", "Encoding": "273 (big-endian)",
         "Persistence": "MQPER_NOT_PERSISTENT (0)", "Priority": "4", "Expiry": "60 s left", "BackoutCount": "2",
         "Report": "MQRO_EXCEPTION + MQRO_DISCARD_MSG (0x9000000)", "Feedback": "MQFB_COA (259)", "ReplyToQ": "ANSWERS",
         "ReplyToQMgr": "QM2", "UserIdentifier": "amelie", "AccountingToken": "01" + "00" * 31, "ApplIdentityData": "identity",
         "PutApplType": "MQAT_JAVA (28)", "PutApplName": "shop", "PutDate": "20261123", "PutTime": "11223344",
         "ApplOriginData": "web", "GroupId": bytes(range(2, 26)).hex(), "MsgSeqNumber": "2", "Offset": "100",
         "MsgFlags": "MQMF_MSG_IN_GROUP + MQMF_LAST_MSG_IN_GROUP (0x18)", "OriginalLength": "200"},
    ) == shown  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value", "name", "expected"),
    [
        ("report", Report.DISCARD_MSG, "Report", "MQRO_DISCARD_MSG (0x8000000)"),
        ("persistence", 1, "Persistence", "MQPER_PERSISTENT (1)"),
        ("encoding", 546, "Encoding", "546 (little-endian)"),
        ("encoding", 0x311, "Encoding", "785 (big-endian, S/390 floats)"),
        ("encoding", 17, "Encoding", "17"),
        ("ccsid", 0, "CodedCharSetId", "0 (the queue manager's own)"),
        ("ccsid", -2, "CodedCharSetId", "-2 (as in the previous header)"),
        ("ccsid", 37, "CodedCharSetId", "37"),
        ("expiry_tenths", 25, "Expiry", "2.5 s left"),
        ("expiry_tenths", -1, "Expiry", "unlimited"),
        ("feedback", 2053, "Feedback", "MQRC_Q_FULL (2053)"),
        ("message_type", 70_000, "MsgType", "70000"),
        ("format", "", "Format", "MQFMT_NONE"),
    ],
)
def test_a_number_is_shown_by_its_name_or_as_it_is(field: str, value: object, name: str, expected: str) -> None:
    changed: dict[str, Any] = {field: value}

    assert expected == rows(view("Q", MessageDescriptor(**changed), b""), 0)[1][name]


def test_fields_with_their_usual_value_are_hidden() -> None:
    shown = rows(view("Q", MessageDescriptor(persistence=1, priority=0), b""), 0)[1]

    expected = ["MsgType", "Format", "CodedCharSetId", "Encoding", "Persistence", "Priority", "Expiry", "BackoutCount"]
    assert [*expected, "PutApplType"] == list(shown)


def test_properties_are_shown_in_words_and_a_folder_without_any_as_its_text() -> None:
    data = rfh2.to_bytes(LINKS, encoding=Encoding.NORMAL) + b"hello"
    descriptor = MessageDescriptor(format="MQHRF2", ccsid=1208, encoding=Encoding.NORMAL)

    shown = view("Q", descriptor, data)

    properties = {"usr.n": "null", "usr.b": "ab", "usr.yes": "true", "usr.price": "7", "odd": "<odd>loose text</odd>"}
    following = {"Next format": "MQSTR, CCSID 1208, encoding 273"}
    assert ("Message properties (MQRFH2)", properties | following) == rows(shown, 1)
    assert properties == shown.facts["properties"]
    assert b"hello" == own_data(descriptor, data)


def test_a_descriptor_extension_is_shown_without_an_empty_group() -> None:
    header = DescriptorExtension(encoding=273, ccsid=1208, format="MQSTR", sequence_number=3)
    data = descriptor_extension.to_bytes(header, encoding=273) + b"hello"

    shown = rows(view("Q", MessageDescriptor(format="MQHMDE", ccsid=1208, encoding=273), data), 1)

    numbers = {"sequence_number": "3", "offset": "0", "message_flags": "0", "original_length": "-1"}
    expected = {"encoding": "273", "ccsid": "1208", "format": "MQSTR", "flags": "0"} | numbers
    assert ("Descriptor extension (MQMDE)", expected) == shown


def test_a_dead_letter_is_shown_with_its_whole_header() -> None:
    descriptor, data = to_dead_letter_queue(
        FULL, b"hello", reason=Reason.Q_FULL, queue="IN", queue_manager="QM1", application_name="orders",
        now=datetime(2026, 11, 21, 4, 5, 6, tzinfo=UTC),
    )  # fmt: skip

    shown = view("DLQ", descriptor, data)

    assert [
        "Its destination was IN (QM1). It was put here because of MQRC_Q_FULL (2053).",
        "Moved by orders at 2026-11-21 04:05:06 UTC.",
    ] == list(shown.why)
    assert ("hello",) == shown.body
    assert (
        "Dead-letter header (MQDLH)",
        {"Reason": "MQRC_Q_FULL (2053)", "DestQName": "IN", "DestQMgrName": "QM1", "PutApplName": "orders",
         "PutDate": "20261121", "PutTime": "04050600", "Next format": "MQSTR, CCSID 1208, encoding 273"},
    ) == rows(shown, 1)  # fmt: skip


@pytest.mark.parametrize(
    ("moved", "expected"),
    [(MOVED,
      ["It was moved here from IN (QM1) when its handling had failed once (threshold 1).",
       "Its last handling by book had the outcome undecodable: DecodeError: no JSON",
       "Raised at book.py:7 in book.",
       "Moved by orders at 2026-11-21 04:05:06 UTC."]),
     (Why(queue="IN", count=2, error="ValueError"),
      ["It was moved here from IN when its handling had failed 2 times.",
       "Its last handling had the outcome failed: ValueError"]),
     (Why(queue="IN", count=3, threshold=3), ["It was moved here from IN when it had been backed out 3 times (threshold 3)."]),
     (Why(queue="IN", outcome="failed"), ["It was moved here from IN.", "Its last handling had the outcome failed."]),
     (Why(application_name="orders"), ["Moved by orders."]),
     (Why(at=MOVED.at), ["Moved at 2026-11-21 04:05:06 UTC."])],
)  # fmt: skip
def test_the_reason_of_a_moved_message_has_its_sentences(moved: Why, expected: list[str]) -> None:
    descriptor, data = to_backout_queue(MessageDescriptor(format="MQSTR", ccsid=1208), b"x", folders=(folder(moved),))

    assert expected == list(view("BOQ", descriptor, data).why)


def test_the_facts_of_a_message_are_plain_values_for_a_program() -> None:
    descriptor, data = to_backout_queue(FULL, b"hello", folders=(folder(MOVED),))

    facts = view("BOQ", descriptor, data).facts

    assert ("BOQ", "hello", "text") == (facts["queue"], facts["body"], facts["body_is"])
    assert (bytes(range(24)).hex(), 273, "MQHRF2") == tuple(
        facts["descriptor"][name] for name in ("message_id", "encoding", "format")
    )
    assert ("IN", 1, MOVED.at) == tuple(facts["why"][name] for name in ("queue", "count", "at"))
    assert "reason" not in facts["why"]
    assert "undecodable" == facts["properties"]["mqflow.outcome"]
    assert ({}, "ff", "hex") == tuple(
        view("Q", MessageDescriptor(), b"\xff").facts[name] for name in ("why", "body", "body_is")
    )


@pytest.mark.parametrize(
    ("value", "expected"), [(2053, "MQRC_Q_FULL (2053)"), (259, "MQFB_COA (259)"), (0, "MQRC_NONE (0)"), (99_999, "MQRC 99999")]
)
def test_the_reason_of_a_dead_letter_is_a_reason_code_or_a_feedback(value: int, expected: str) -> None:
    assert expected == reason_words(value)


@pytest.mark.parametrize(
    ("data", "shown_max", "lines", "title"),
    [
        (b"a\tb\r\nc", 4_096, ["a\tb", "c"], "text, 6 bytes"),
        (b"x" * 10, 10, ["x" * 10], "text, 10 bytes"),
        (b"x" * 1_001, 1_000, ["x" * 1_000], "text, 1,001 bytes, the first 1,000 characters shown"),
        (b"\x00\x01", 2, ["00000000  0001                                 .."], "2 bytes"),
        (b"\x00\x01", 1, ["00000000  00                                   ."], "2 bytes, the first 1 shown"),
        (b"a\x07", 9, ["00000000  6107                                 a."], "2 bytes"),
    ],
)
def test_a_body_is_text_or_a_dump_with_its_size(data: bytes, shown_max: int, lines: list[str], title: str) -> None:
    shown = view("Q", MessageDescriptor(), data, shown_max=shown_max)

    assert (lines, title) == (list(shown.body), shown.body_title)


def test_a_dump_has_sixteen_bytes_on_each_line() -> None:
    assert [
        "00000000  30313233 34353637 38396162 63646566  0123456789abcdef",
        "00000010  e967                                 ég",
    ] == list(hex_dump(b"0123456789abcdef\xe9g"))


PRINTED = """\
== Message 7 on BOQ
  It was moved here from IN when its handling had failed once.
  Its last handling had the outcome failed: ValueError: \\u202e[2J

Message descriptor (MQMD)
  MsgType         MQMT_DATAGRAM (8)
  Format          MQHRF2
  CodedCharSetId  1208 (UTF-8)
  Encoding        273 (big-endian)
  Persistence     MQPER_AS_Q_DEF (2)
  Priority        -1
  Expiry          unlimited
  BackoutCount    0
  PutApplType     MQAT_NO_CONTEXT (0)

Message properties (MQRFH2)
  mcd.Msd       jms_text
  mqflow.queue  IN
  mqflow.error  ValueError
  mqflow.text   \\u202e[2J
  mqflow.count  1
  Next format   MQSTR, CCSID 1208, encoding 546

Body (text, 3 bytes)
  a
  b

"""


def test_a_whole_message_is_printed_with_aligned_values_and_no_control_character(capsys: pytest.CaptureFixture[str]) -> None:
    moved = Why(queue="IN", count=1, error="ValueError", text="\u202e[2J")
    descriptor, data = to_backout_queue(MessageDescriptor(format="MQSTR", ccsid=1208), b"a\nb", folders=(folder(moved),))

    show_message(view("BOQ", MessageDescriptor(format=descriptor.format, ccsid=1208, encoding=273), data), 7)

    assert PRINTED == capsys.readouterr().out


def test_a_damaged_header_is_named_and_the_rest_is_the_body() -> None:
    shown = view("Q", MessageDescriptor(format="MQHRF2"), b"RFH broken")

    assert "MQRC_" in rows(shown, 1)[1]["Error"]
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
