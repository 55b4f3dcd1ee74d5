"""MQGMO_CONVERT: a message is converted as a whole, or returned unchanged with the reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mqflow.mqi.ccsid import encode
from mqflow.mqi.descriptor import CCSID_Q_MGR, MessageDescriptor
from mqflow.mqi.headers import rfh2
from mqflow.mqi.headers.chain import Header, join, split, text
from mqflow.mqi.headers.conversion import convert
from mqflow.mqi.headers.dead_letter import DeadLetterHeader
from mqflow.mqi.headers.descriptor_extension import DescriptorExtension
from mqflow.mqi.headers.rfh2 import RFH2, Folder, FolderProperty
from mqflow.mqi.reason_codes import Reason
from tests.mqi.strategies import encodings, headers

MAINFRAME = MessageDescriptor(format="MQSTR", encoding=785, ccsid=500)
GREETING = "Grüße aus Köln".encode("cp500")


def test_text_goes_to_the_wanted_character_set() -> None:
    descriptor, body, reason = convert(MAINFRAME, GREETING, ccsid=1208, encoding=546)

    assert ("Grüße aus Köln".encode(), Reason.NONE) == (body, reason)
    assert replace(MAINFRAME, encoding=546, ccsid=1208) == descriptor


def test_the_wanted_character_set_0_is_the_queue_managers() -> None:
    descriptor, body, reason = convert(MAINFRAME, GREETING, ccsid=CCSID_Q_MGR, encoding=546, queue_manager_ccsid=819)

    assert ("Grüße aus Köln".encode("latin-1"), 819, Reason.NONE) == (body, descriptor.ccsid, reason)


def test_a_message_in_the_queue_managers_character_set_is_converted_from_it() -> None:
    of = MessageDescriptor(format="MQSTR", ccsid=CCSID_Q_MGR)

    _, body, reason = convert(of, b"\x81", ccsid=1208, encoding=546, queue_manager_ccsid=437)

    assert ("ü".encode(), Reason.NONE) == (body, reason)


@pytest.mark.parametrize(
    ("source", "target", "before", "after"),
    [
        pytest.param((273, 1200), (546, 1200), b"\x00\xfc", b"\xfc\x00", id="byte order alone"),
        pytest.param((546, 1208), (273, 1200), b"\xc3\xbc", b"\x00\xfc", id="to UTF-16"),
        pytest.param((273, 13488), (546, 1208), b"\x00\xfc", b"\xc3\xbc", id="from UCS-2"),
    ],
)
def test_two_byte_text_follows_the_byte_order(
    source: tuple[int, int], target: tuple[int, int], before: bytes, after: bytes
) -> None:
    of = MessageDescriptor(format="MQSTR", encoding=source[0], ccsid=source[1])

    descriptor, body, reason = convert(of, before, encoding=target[0], ccsid=target[1])

    assert (after, Reason.NONE) == (body, reason)
    assert target == (descriptor.encoding, descriptor.ccsid)


@pytest.mark.parametrize("ccsid", [1208, 77], ids=["a known one", "an unknown one"])
def test_text_that_is_in_the_wanted_character_set_already_is_not_looked_at(ccsid: int) -> None:
    of = MessageDescriptor(format="MQSTR", encoding=273, ccsid=ccsid)

    descriptor, body, reason = convert(of, b"\xff no UTF-8", ccsid=ccsid, encoding=546)

    assert (b"\xff no UTF-8", 546, Reason.NONE) == (body, descriptor.encoding, reason)


@pytest.mark.parametrize("named", ["", "MQSTR", "MYFORMAT", "MQCICS"])
def test_nothing_is_touched_where_the_message_is_as_wanted(named: str) -> None:
    of = MessageDescriptor(format=named, encoding=546, ccsid=1208)

    assert (of, b"\xff\xfe", Reason.NONE) == convert(of, b"\xff\xfe", ccsid=1208, encoding=546)


def message(*chain: Header, of: MessageDescriptor = MAINFRAME, body: bytes = GREETING) -> tuple[MessageDescriptor, bytes]:
    return join(of, chain, body)


def test_headers_and_text_are_converted_together() -> None:
    dead = DeadLetterHeader(reason=2085, destination_queue="ORDERS.IN", encoding=785, ccsid=500)
    usr = RFH2(folders=(Folder("usr", (FolderProperty("größe", 7),)),), name_value_ccsid=1200, encoding=785, ccsid=500)
    mde = DescriptorExtension(sequence_number=3, encoding=785, ccsid=500)

    descriptor, data, reason = convert(*message(dead, mde, usr), ccsid=1208, encoding=546)
    parts = split(descriptor, data)

    assert (Reason.NONE, "MQDEAD", 546, 1208) == (reason, descriptor.format, descriptor.encoding, descriptor.ccsid)
    assert replace(dead, format="MQHMDE", encoding=546, ccsid=1208) == parts.chain[0]
    assert replace(mde, format="MQHRF2", encoding=546, ccsid=1208) == parts.chain[1]
    assert isinstance(parts.chain[2], RFH2)
    assert {"größe": 7} == rfh2.properties(parts.chain[2])
    assert ("Grüße aus Köln", 546, 1208) == (text(descriptor, data), parts.encoding, parts.ccsid)


@given(
    st.lists(headers, min_size=1, max_size=3), encodings, st.sampled_from([1208, 500]), encodings, st.sampled_from([819, 1047])
)
def test_any_headers_have_the_same_content_after_conversion(
    chain: list[Header], encoding: int, ccsid: int, wanted_encoding: int, wanted_ccsid: int
) -> None:
    of, data = join(MessageDescriptor(format="MQSTR", encoding=encoding, ccsid=ccsid), chain, b"", body_ccsid=ccsid)

    descriptor, converted, reason = convert(of, data, ccsid=wanted_ccsid, encoding=wanted_encoding)

    assert Reason.NONE == reason
    assert (wanted_encoding, wanted_ccsid) == (descriptor.encoding, descriptor.ccsid)
    assert told(split(of, data).chain) == told(split(descriptor, converted).chain)


def told(chain: tuple[Header, ...]) -> list[Header]:
    """Return the content of headers, without their layout and the description of the data behind them."""
    return [
        replace(header, encoding=0, ccsid=0, **({"folders": folders(header)} if isinstance(header, RFH2) else {}))
        for header in chain
    ]


def folders(header: RFH2) -> tuple[Folder, ...]:
    return tuple(replace(folder, raw="") for folder in header.folders)


def test_text_behind_a_header_goes_to_two_bytes_though_the_header_cannot() -> None:
    descriptor, data, reason = convert(*message(RFH2()), ccsid=1200, encoding=273)

    assert (Reason.NONE, 1208, 1200) == (reason, descriptor.ccsid, split(descriptor, data).ccsid)
    assert "Grüße aus Köln" == text(descriptor, data)


def test_a_body_without_format_behind_headers_stays_and_is_described_as_before() -> None:
    of = MessageDescriptor(format="", encoding=785, ccsid=500)

    descriptor, data, reason = convert(*message(RFH2(), of=of, body=b"\x00\x01\xff"), ccsid=1208, encoding=546)
    parts = split(descriptor, data)

    assert (Reason.NONE, 546, 1208) == (reason, descriptor.encoding, descriptor.ccsid)
    assert (b"\x00\x01\xff", "", 785, 500) == (parts.body, parts.format, parts.encoding, parts.ccsid)


@pytest.mark.parametrize(("encoding", "ccsid"), [(785, 500), (546, 500), (785, 1200)])
def test_only_the_text_is_converted_where_the_headers_are_as_wanted(encoding: int, ccsid: int) -> None:
    of = MessageDescriptor(format="MQSTR", encoding=546, ccsid=1208)
    body = encode("Grüße aus Köln", ccsid)

    descriptor, data, reason = convert(
        *join(of, [RFH2()], body, body_encoding=encoding, body_ccsid=ccsid), ccsid=1208, encoding=546
    )
    parts = split(descriptor, data)

    assert ("Grüße aus Köln".encode(), 546, 1208) == (parts.body, parts.encoding, parts.ccsid)
    assert Reason.NONE == reason


def test_text_in_the_wanted_character_set_is_described_by_the_wanted_encoding() -> None:
    of = MessageDescriptor(format="MQSTR", encoding=546, ccsid=1208)

    descriptor, data, _ = convert(*join(of, [RFH2()], b"x", body_encoding=273), ccsid=1208, encoding=546)

    assert 546 == split(descriptor, data).encoding


def test_a_body_in_the_wanted_form_needs_no_conversion_in_any_format() -> None:
    given_message = join(MAINFRAME, [RFH2()], b"\xff", body_format="MYFORMAT", body_encoding=546, body_ccsid=1208)

    descriptor, data, reason = convert(*given_message, ccsid=1208, encoding=546)

    assert (b"\xff", 1208, Reason.NONE) == (split(descriptor, data).body, descriptor.ccsid, reason)


@pytest.mark.parametrize("named", ["", "MYFORMAT"])
def test_an_empty_body_needs_no_conversion_in_any_format(named: str) -> None:
    of = replace(MAINFRAME, format=named)

    assert (of, b"", Reason.NONE) == convert(of, b"", ccsid=1208, encoding=546)


def test_headers_that_are_as_wanted_are_not_written_again() -> None:
    of, data = message(DeadLetterHeader(), RFH2(), of=MessageDescriptor(format="MQSTR", encoding=546, ccsid=1208), body=b"\xff")

    assert (of, data, Reason.NONE) == convert(of, data, ccsid=1208, encoding=546)


#: Each row: descriptor, body, the wanted form, the warning. "A failure returns the message as it is": IBM, MQGMO_CONVERT.
FAILURES = [
    pytest.param(MessageDescriptor(ccsid=500), b"x", 1208, 546, Reason.FORMAT_ERROR, id="2110 no format"),
    pytest.param(MessageDescriptor(format="MYFORMAT", ccsid=500), b"x", 1208, 546, Reason.FORMAT_ERROR,
        id="2110 unknown format"),
    pytest.param(MessageDescriptor(format="MQDEAD", ccsid=500), b"x", 1208, 546, Reason.FORMAT_ERROR, id="2110 broken header"),
    pytest.param(*message(RFH2(), of=MessageDescriptor(format="MYFORMAT", ccsid=500)), 1208, 546, Reason.FORMAT_ERROR,
        id="2110 behind"),
    pytest.param(MessageDescriptor(format="MQSTR", ccsid=77), b"x", 1208, 546, Reason.SOURCE_CCSID_ERROR, id="2111 of text"),
    pytest.param(MessageDescriptor(format="MQHRF2", ccsid=77), b"x", 1208, 546, Reason.SOURCE_CCSID_ERROR,
        id="2111 of a header"),
    pytest.param(*join(MAINFRAME, [RFH2()], b"x", body_ccsid=77), 1208, 546, Reason.SOURCE_CCSID_ERROR,
        id="2111 of text behind a header"),
    pytest.param(MAINFRAME, GREETING, 77, 546, Reason.TARGET_CCSID_ERROR, id="2115"),
    pytest.param(*message(RFH2(), of=replace(MAINFRAME, format="")), 77, 546, Reason.TARGET_CCSID_ERROR, id="2115 of a header"),
    pytest.param(MessageDescriptor(format="MQSTR", encoding=0, ccsid=1200), b"\0x", 1208, 546, Reason.SOURCE_INTEGER_ENC_ERROR,
        id="2112 text"),
    pytest.param(*message(RFH2(), of=replace(MAINFRAME, encoding=0x10)), 1208, 546, Reason.SOURCE_INTEGER_ENC_ERROR,
        id="2112 of a header"),
    pytest.param(*message(RFH2()), 1208, 0, Reason.TARGET_INTEGER_ENC_ERROR, id="2116 of a header"),
    pytest.param(MAINFRAME, GREETING, 1200, 0, Reason.TARGET_INTEGER_ENC_ERROR, id="2116 of text"),
    pytest.param(MessageDescriptor(format="MQSTR", ccsid=1208), b"\xff", 819, 546, Reason.NOT_CONVERTED, id="2119 no text"),
    pytest.param(MessageDescriptor(format="MQSTR", ccsid=1208), "€".encode(), 819, 546, Reason.NOT_CONVERTED,
        id="2119 not in it"),
]  # fmt: skip


@pytest.mark.parametrize(("descriptor", "body", "ccsid", "encoding", "reason"), FAILURES)
def test_a_message_that_cannot_be_converted_comes_as_it_is_with_the_reason(
    descriptor: MessageDescriptor, body: bytes, ccsid: int, encoding: int, reason: Reason
) -> None:
    assert (descriptor, body, reason) == convert(descriptor, body, ccsid=ccsid, encoding=encoding)


def test_an_encoding_that_says_nothing_does_not_matter_to_text_of_one_byte() -> None:
    _, body, reason = convert(replace(MAINFRAME, encoding=0), GREETING, ccsid=1208, encoding=0)

    assert ("Grüße aus Köln".encode(), Reason.NONE) == (body, reason)


@pytest.mark.parametrize(("bytes_max", "reason"), [(16, Reason.CONVERTED_MSG_TOO_BIG), (17, Reason.NONE), (None, Reason.NONE)])
def test_a_message_that_conversion_makes_too_long_comes_as_it_is(bytes_max: int | None, reason: Reason) -> None:
    descriptor, body, said = convert(MAINFRAME, GREETING, ccsid=1208, encoding=546, bytes_max=bytes_max)

    assert reason == said
    assert (MAINFRAME, GREETING) == (descriptor, body) or said == Reason.NONE


@given(st.binary(max_size=40), st.sampled_from(["", "MQSTR", "MQHRF2", "MQDEAD", "MYFORMAT"]), st.integers(0, 1300), encodings)
def test_the_conversion_of_any_message_returns_a_reason(body: bytes, named: str, ccsid: int, encoding: int) -> None:
    of = MessageDescriptor(format=named, ccsid=ccsid)

    descriptor, converted, reason = convert(of, body, ccsid=1208, encoding=encoding)

    assert reason == Reason.NONE or (of, body) == (descriptor, converted)
    assert reason in {0, 2110, 2111, 2112, 2119}
