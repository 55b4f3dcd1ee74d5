"""Header chains: each link describes the data behind it."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mqflow.mqi.descriptor import CCSID_INHERIT, CCSID_Q_MGR, MessageDescriptor
from mqflow.mqi.errors import HeaderError, MQIError
from mqflow.mqi.headers import dead_letter, delay, descriptor_extension, rfh2, trigger
from mqflow.mqi.headers.chain import Header, Headers, join, split, text
from mqflow.mqi.headers.dead_letter import DeadLetterHeader
from mqflow.mqi.headers.delay import DelayHeader
from mqflow.mqi.headers.descriptor_extension import DescriptorExtension
from mqflow.mqi.headers.rfh2 import RFH2, Folder, FolderProperty
from mqflow.mqi.headers.trigger import TriggerMessage
from mqflow.mqi.options import Format
from mqflow.mqi.reason_codes import Reason
from tests.mqi.strategies import encodings, headers

USR = Folder("usr", (FolderProperty("a", 1),))


def plain(header: Header) -> Header:
    """Return the header without its `raw` text."""
    return (
        replace(header, folders=tuple(replace(folder, raw="") for folder in header.folders))
        if isinstance(header, RFH2)
        else header
    )


def test_a_message_without_headers_is_its_body() -> None:
    descriptor = MessageDescriptor(format="MQSTR", encoding=273, ccsid=819)

    assert Headers((), b"body", "MQSTR", 273, 819) == split(descriptor, b"body")


def test_each_header_is_read_by_the_description_in_the_header_before() -> None:
    last = RFH2(folders=(USR,), encoding=273, ccsid=819, format="MQSTR")
    middle = DescriptorExtension(encoding=546, ccsid=1208, format="MQHRF2", sequence_number=3)
    first = DeadLetterHeader(reason=2085, encoding=785, ccsid=500, format="MQHMDE")
    data = (
        dead_letter.to_bytes(first, encoding=546)
        + descriptor_extension.to_bytes(middle, encoding=785, ccsid=500)
        + rfh2.to_bytes(last, encoding=546)
    )

    parts = split(MessageDescriptor(format="MQDEAD", encoding=546, ccsid=1208), data + b"body")

    assert (first, middle, last) == tuple(map(plain, parts.chain))
    assert (b"body", "MQSTR", 273, 819) == (parts.body, parts.format, parts.encoding, parts.ccsid)


@pytest.mark.parametrize(
    ("of_descriptor", "of_header", "meant"),
    [
        pytest.param(819, CCSID_INHERIT, 819, id="-2 is that of the header before"),
        pytest.param(819, 850, 850, id="a number is itself"),
        pytest.param(819, CCSID_Q_MGR, 437, id="0 is the queue manager's"),
        pytest.param(CCSID_Q_MGR, CCSID_INHERIT, 437, id="-2 of 0 is the queue manager's"),
        pytest.param(819, -1, -1, id="-1 is in the data and stays unknown"),
    ],
)
def test_the_special_character_sets_are_resolved(of_descriptor: int, of_header: int, meant: int) -> None:
    data = dead_letter.to_bytes(DeadLetterHeader(ccsid=of_header), encoding=546)

    parts = split(MessageDescriptor(format="MQDEAD", ccsid=of_descriptor), data, queue_manager_ccsid=437)

    assert meant == parts.ccsid


def test_minus_two_is_inherited_through_the_whole_chain() -> None:
    data = dead_letter.to_bytes(DeadLetterHeader(format="MQHRF2"), encoding=546) + rfh2.to_bytes(RFH2(), encoding=546)

    assert 850 == split(MessageDescriptor(format="MQDEAD", ccsid=850), data).ccsid


@pytest.mark.parametrize(("named", "reason"), [("MQDEAD", 2141), ("MQHRF2", 2334), ("MQHMDE", 2248)])
def test_a_format_that_promises_a_header_that_is_not_there_is_an_error_of_that_header(named: str, reason: int) -> None:
    with pytest.raises(HeaderError) as refused:
        split(MessageDescriptor(format=named), b"no header at all")

    assert reason == refused.value.reason


@pytest.mark.parametrize("named", ["MQHRF", "MQCICS", "MQXMIT", "MYFORMAT", ""])
def test_the_chain_ends_before_a_format_that_is_not_taken_apart(named: str) -> None:
    assert ((), named) == (
        split(MessageDescriptor(format=named), b"x").chain,
        split(MessageDescriptor(format=named), b"x").format,
    )


chains = st.lists(headers, min_size=1, max_size=4)
bodies = st.binary(max_size=20)


@given(chains, bodies, encodings, st.sampled_from([0, 1208, 500]), st.sampled_from([1208, 850]))
def test_a_split_message_is_joined_byte_for_byte(
    chain: list[Header], body: bytes, encoding: int, ccsid: int, queue_manager_ccsid: int
) -> None:
    start = MessageDescriptor(format="MQSTR", encoding=encoding, ccsid=ccsid)
    descriptor, data = join(start, chain, body, queue_manager_ccsid=queue_manager_ccsid)

    parts = split(descriptor, data, queue_manager_ccsid=queue_manager_ccsid)
    again = join(
        descriptor, parts.chain, parts.body, body_format=parts.format, body_encoding=parts.encoding, body_ccsid=parts.ccsid,
        queue_manager_ccsid=queue_manager_ccsid,
    )  # fmt: skip

    assert (descriptor, data) == again


@given(chains, bodies, encodings, st.sampled_from([1208, 500]), encodings, st.sampled_from([819, 1200, 500]))
def test_every_link_of_a_joined_chain_leads_to_the_next_and_the_last_to_the_body(
    chain: list[Header], body: bytes, encoding: int, ccsid: int, body_encoding: int, body_ccsid: int
) -> None:
    start = MessageDescriptor(encoding=encoding, ccsid=ccsid)

    descriptor, data = join(start, chain, body, body_format="MQSTR", body_encoding=body_encoding, body_ccsid=body_ccsid)
    parts = split(descriptor, data)

    assert [type(header) for header in chain] == [type(header) for header in parts.chain]
    assert (body, "MQSTR", body_encoding, body_ccsid) == (parts.body, parts.format, parts.encoding, parts.ccsid)


def test_an_added_header_has_the_old_fields_of_the_descriptor() -> None:
    start = MessageDescriptor(format="MQSTR", encoding=273, ccsid=819, priority=7)

    descriptor, data = join(start, [RFH2(folders=(USR,))], b"body")

    assert replace(start, format=Format.RF_HEADER_2) == descriptor
    assert (b"body", "MQSTR", 273, 819) == (
        split(descriptor, data).body,
        split(descriptor, data).format,
        split(descriptor, data).encoding,
        split(descriptor, data).ccsid,
    )


def test_a_body_in_the_queue_managers_character_set_inherits_the_value_of_the_put() -> None:
    descriptor, data = join(MessageDescriptor(format="MQSTR"), [RFH2()], b"body")

    assert CCSID_Q_MGR == descriptor.ccsid
    assert CCSID_INHERIT == rfh2.parse(data, encoding=546)[0].ccsid


@pytest.mark.parametrize("ccsid", [1200, 13488, -1, 77_777])
def test_in_front_of_a_body_whose_character_set_fields_cannot_have_they_are_utf_8(ccsid: int) -> None:
    descriptor, data = join(MessageDescriptor(format="MQSTR", ccsid=ccsid), [DeadLetterHeader()], b"body")

    assert 1208 == descriptor.ccsid
    assert ccsid == split(descriptor, data).ccsid


def test_without_headers_the_descriptor_describes_the_body() -> None:
    start = MessageDescriptor(format="MQDEAD", encoding=273, ccsid=500)

    assert (MessageDescriptor(format="MQSTR", encoding=546, ccsid=1208), b"body") == join(
        start, [], b"body", body_format="MQSTR", body_encoding=546, body_ccsid=1208
    )


def test_the_text_of_a_message_is_the_data_behind_its_headers() -> None:
    descriptor, data = join(MessageDescriptor(format="MQSTR", ccsid=500), [RFH2(folders=(USR,))], "Grüße".encode("cp500"))

    assert "Grüße" == text(descriptor, data)


def test_two_byte_text_has_the_byte_order_of_the_encoding_before_it() -> None:
    assert "ü" == text(MessageDescriptor(format="MQSTR", encoding=546, ccsid=1200), b"\xfc\x00")
    assert "ü" == text(MessageDescriptor(format="MQSTR", encoding=273, ccsid=1200), b"\x00\xfc")


def test_text_in_the_queue_managers_character_set_is_read_by_the_one_given() -> None:
    descriptor = MessageDescriptor(format="MQSTR", ccsid=CCSID_Q_MGR)

    assert "ü" == text(descriptor, "ü".encode())
    assert "ü" == text(descriptor, b"\x81", queue_manager_ccsid=437)


def test_a_body_that_is_no_text_is_an_error_that_says_where() -> None:
    with pytest.raises(MQIError, match="offset 1") as refused:
        text(MessageDescriptor(ccsid=1208), b"a\xff")

    assert Reason.NOT_CONVERTED == refused.value.reason


LONG = 2**31
OVERSIZED: list[tuple[Callable[[], bytes], Reason, str]] = [
    (MessageDescriptor(feedback=LONG).to_bytes, Reason.MD_ERROR, "feedback 2147483648"),
    (MessageDescriptor(offset=-LONG - 1).to_bytes, Reason.MD_ERROR, "offset -2147483649"),
    (lambda: dead_letter.to_bytes(DeadLetterHeader(reason=LONG), encoding=546), Reason.DLH_ERROR, "reason 2147483648"),
    (lambda: rfh2.to_bytes(RFH2(ccsid=LONG), encoding=546), Reason.RFH_ERROR, "ccsid 2147483648"),
    (
        lambda: descriptor_extension.to_bytes(DescriptorExtension(offset=-LONG - 1), encoding=546),
        Reason.MDE_ERROR,
        "offset -2147483649",
    ),
    (
        lambda: trigger.to_bytes(TriggerMessage(queue="Q", application_type=LONG)),
        Reason.TM_ERROR,
        "application_type 2147483648",
    ),
    (lambda: delay.to_bytes(DelayHeader(report=LONG, delay_ms=LONG, sent_wall_ms=1)), Reason.HEADER_ERROR, "report 2147483648"),
]


@pytest.mark.parametrize(("write", "reason", "number"), OVERSIZED)
def test_a_number_that_is_too_large_for_its_field_is_refused_with_the_name_of_the_field(
    write: Callable[[], bytes], reason: Reason, number: str
) -> None:
    with pytest.raises(MQIError) as refused:
        write()

    assert (reason, f"{number} has more than 32 bits") == (refused.value.reason, refused.value.detail)
