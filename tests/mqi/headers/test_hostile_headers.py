"""Hostile headers: each ends quickly in a typed error, or in a header within the bounds.

The tests measure work, not seconds: a tracer counts the lines that a reader executes.
Source: the threats of XML in message properties (entity bombs, external entities, depth) and of header chains.
"""

import struct
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import HeaderError, MQIError
from mqflow.mqi.headers.chain import HEADERS_MAX, Headers, split
from mqflow.mqi.headers.rfh2 import RFH2, parse, to_bytes
from mqflow.mqi.headers.rfh2_folder import DEPTH_MAX, NAME_BYTES_MAX, PROPERTIES_MAX, read_folder
from mqflow.mqi.reason_codes import Reason
from tests.mqi.strategies import descriptors, encodings, headers

BOMB = "<!DOCTYPE b [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b '&a;&a;&a;&a;&a;&a;&a;&a;'>]><usr><x>&b;</x></usr>"

DECLARED = [
    pytest.param(BOMB, id="entity bomb"),
    pytest.param("<!DOCTYPE x SYSTEM 'file:///etc/passwd'><usr/>", id="external entity"),
    pytest.param("<?xml version='1.0'?><usr/>", id="XML declaration"),
    pytest.param("<usr><?php x ?></usr>", id="processing instruction"),
    pytest.param("<usr><!-- x --></usr>", id="comment"),
    pytest.param("<usr><a><![CDATA[x]]></a></usr>", id="CDATA"),
]

REFUSED = [
    pytest.param("<usr><a>&lol;</a></usr>", id="entity that nobody declared"),
    pytest.param("<a>" * 1_000_000, id="a million levels"),
    pytest.param("<a>" * DEPTH_MAX + "</a>" * DEPTH_MAX + "<", id="one group too deep"),
    pytest.param("<u>" + "<a/>" * 1_000_000 + "</u>", id="a million properties"),
    pytest.param("<u>" + "<a></a>" * (PROPERTIES_MAX + 1) + "</u>", id="a property too many"),
    pytest.param(f"<u><{'a' * (NAME_BYTES_MAX + 1)}/></u>", id="a name that is too long"),
    pytest.param(f"<u><{'a' * 4_000}><{'b' * 100}/></{'a' * 4_000}></u>", id="a name that is too long with its group"),
    pytest.param(f"<u><{'ü' * 2_100}/></u>", id="a name that is too long in UTF-8"),
    pytest.param("<" * 1_000_000, id="nothing but starts"),
    pytest.param("<u><a " + "b='" * 500_000, id="nothing but quotes"),
    pytest.param("<u><a" + " b" * 500_000 + "></a></u>", id="attributes without end"),
    pytest.param("<u>" + "&" * 1_000_000, id="nothing but ampersands"),
    pytest.param("<u><a>" + "x" * 1_000_000, id="a value without end"),
    pytest.param("<u><a dt='i8'>" + "9" * 1_000_000 + "</a></u>", id="a number of a million digits"),
    pytest.param("<u><a dt='r8'>" + "9" * 1_000_000 + "</a></u>", id="a real number of a million digits"),
]


@pytest.mark.parametrize("text", DECLARED)
def test_declarations_are_refused_before_anything_is_read(text: str) -> None:
    with pytest.raises(HeaderError, match=r"\(2335\)\. '<!' and '<\?' are refused"):
        read_folder(text)


def refusal(text: str) -> HeaderError:
    with pytest.raises(HeaderError) as refused:
        read_folder(text)
    return refused.value


@pytest.mark.parametrize("text", REFUSED)
def test_hostile_markup_is_refused_by_a_typed_error(text: str) -> None:
    refused = refusal(text)

    assert Reason.RFH_STRING_ERROR == refused.reason
    assert len(str(refused)) < 400, "the sentence must not carry the attack on into a log"


@pytest.mark.parametrize("text", [f"<u>{'<g>' * 31}</u>", "<u><\x1b[2J>1</u>"])
def test_a_quotation_in_a_refusal_has_no_control_characters(text: str) -> None:
    assert str(refusal(text)).isprintable()


@pytest.mark.parametrize(
    "text", ["canary", "<u>canary</u", "<u><a dt='i4'>canary</a></u>", "<u><a>canary&</a></u>", "<u>canary<</u>"]
)
def test_a_refusal_does_not_quote_the_contents(text: str) -> None:
    assert "canary" not in str(refusal(text))


def test_the_bounds_themselves_are_allowed() -> None:
    deepest = "<u>" + "<g>" * (DEPTH_MAX - 2) + "<a>1</a>" + "</g>" * (DEPTH_MAX - 2) + "</u>"

    assert ".".join(["g"] * (DEPTH_MAX - 2) + ["a"]) == read_folder(deepest).properties[0].name
    assert PROPERTIES_MAX == len(read_folder("<u>" + "<a/>" * PROPERTIES_MAX + "</u>").properties)
    assert NAME_BYTES_MAX == len(read_folder(f"<u><{'a' * NAME_BYTES_MAX}/></u>").properties[0].name)


def lines_executed(call: Callable[[], Any]) -> int:
    """Return the number of Python lines that ran: a measure of work that no clock disturbs."""
    count = 0

    def trace(_frame: FrameType, event: str, _argument: object) -> Callable[..., Any]:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def test_the_work_grows_with_the_number_of_properties_and_not_faster() -> None:
    small, large = (partial(read_folder, "<u>" + "<g><a dt='i4'>1</a></g>" * count + "</u>") for count in (50, 500))

    assert lines_executed(large) < 11 * lines_executed(small)


def folders_of(count: int) -> bytes:
    return struct.pack("<4siiii8sii", b"RFH ", 2, 36 + 4 * count, 546, 1208, b" " * 8, 0, 1208) + bytes(4 * count)


def test_folders_without_end_are_refused_before_they_are_read() -> None:
    few, many = (partial(outcome, partial(parse, folders_of(count), encoding=546)) for count in (200, 20_000))

    assert "refused" == many()
    assert lines_executed(few) == lines_executed(many)


def chain_of(count: int) -> bytes:
    link = to_bytes(RFH2(format="MQHRF2"), encoding=546)
    return link * (count - 1) + to_bytes(RFH2(), encoding=546)


def test_a_chain_without_end_is_refused() -> None:
    descriptor = MessageDescriptor(format="MQHRF2")

    assert HEADERS_MAX == len(split(descriptor, chain_of(HEADERS_MAX)).chain)
    for count in (HEADERS_MAX + 1, 100_000):
        with pytest.raises(HeaderError, match=r"MQRC_HEADER_ERROR \(2142\).*more than 16"):
            split(descriptor, chain_of(count))


def outcome(call: Callable[[], object]) -> str:
    """Return whether the call succeeded or raised the typed error; any other exception passes through."""
    try:
        call()
    except MQIError:
        return "refused"
    return "read"


formats = st.sampled_from(["MQHRF2", "MQDEAD", "MQHMDE"])


@given(descriptors, formats, st.sampled_from([b"RFH ", b"DLH ", b"MDE ", b""]), st.binary(max_size=300))
def test_any_bytes_are_read_or_refused_by_the_typed_error(
    descriptor: MessageDescriptor, named: str, start: bytes, rest: bytes
) -> None:
    of = MessageDescriptor(format=named, encoding=descriptor.encoding, ccsid=descriptor.ccsid)

    assert outcome(lambda: split(of, start + rest)) in {"read", "refused"}


@given(st.data(), headers, encodings)
def test_a_damaged_header_is_read_or_refused_by_the_typed_error(data: st.DataObject, header: object, encoding: int) -> None:
    whole = bytearray(to_bytes(header, encoding=encoding)) if isinstance(header, RFH2) else bytearray(chain_of(2))
    position = data.draw(st.integers(0, len(whole) - 1))
    whole[position] = data.draw(st.integers(0, 255))
    whole = whole[: data.draw(st.integers(0, len(whole)))]

    assert outcome(lambda: split(MessageDescriptor(format="MQHRF2", encoding=encoding), bytes(whole))) in {"read", "refused"}


@given(st.text(max_size=40), st.text("<>/&;='\"! ?#ax.\0\n", max_size=60))
@example("<a>", "</a></a>")
def test_any_text_is_a_folder_or_refused_by_the_typed_error(anything: str, markup: str) -> None:
    for text in (anything, markup, f"<u>{markup}</u>"):
        assert outcome(partial(read_folder, text)) in {"read", "refused"}


def test_a_length_that_lies_costs_nothing() -> None:
    data = struct.pack("<4siiii8sii", b"RFH ", 2, 2**31 - 4, 546, 1208, b" " * 8, 0, 1208)

    with pytest.raises(HeaderError, match=r"\(2334\)"):
        split(MessageDescriptor(format="MQHRF2"), data)


def test_a_body_that_looks_like_a_pickle_stays_bytes() -> None:
    bomb = b"\x80\x04\x95\x1d\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94."

    parts = split(MessageDescriptor(format="MQHRF2"), to_bytes(RFH2(format="MQOBJ"), encoding=546) + bomb)

    assert Headers((RFH2(format="MQOBJ"),), bomb, "MQOBJ", 546, 1208) == parts
