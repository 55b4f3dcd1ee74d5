"""MQEPH as bytes: a written header is read again, and other bytes are refused with a reason."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqflow.mqi.errors import MQIError
from mqflow.mqi.pcf.header import EmbeddedPCFHeader, parse, to_bytes
from mqflow.mqi.pcf.structures import CFH, CFST, PCFMessage
from mqflow.mqi.reason_codes import Reason
from tests.mqi.pcf.test_structures import messages
from tests.mqi.strategies import ccsids, encodings, field_ccsids, fields, int32

headers = st.builds(EmbeddedPCFHeader, encoding=encodings, ccsid=ccsids, format=fields(8), flags=int32, message=messages)
HEADER = EmbeddedPCFHeader(format="MQSTR", ccsid=1208, message=PCFMessage(CFH(), (CFST(2016, "Q"),)))


@given(headers, encodings, field_ccsids, st.binary(max_size=8))
def test_a_header_written_is_read_again_and_its_length_is_where_the_body_begins(
    header: EmbeddedPCFHeader, encoding: int, ccsid: int, body: bytes
) -> None:
    data = to_bytes(header, encoding=encoding, ccsid=ccsid) + body

    assert (header, len(data) - len(body)) == parse(data, encoding=encoding, ccsid=ccsid)


def test_the_bytes_are_those_of_the_layout_table() -> None:
    data = to_bytes(EmbeddedPCFHeader(format="MQSTR", ccsid=1208, encoding=273), encoding=273)

    assert struct.pack(">4s4i8si", b"EPH ", 1, 68, 273, 1208, b"MQSTR   ", 0) == data[:32]
    assert 68 == len(data)


@given(st.data())
def test_any_change_of_a_header_raises_only_its_own_error(data: st.DataObject) -> None:
    raw = bytearray(to_bytes(HEADER, encoding=546))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(raw[: data.draw(st.integers(0, len(raw)))])

    assert outcome(cut) in {0, Reason.EPH_ERROR}


def outcome(data: bytes) -> int:
    """Return 0 if the bytes are a header, otherwise the reason of the refusal."""
    try:
        parse(data, encoding=546)
    except MQIError as error:
        return error.reason
    return 0


@pytest.mark.parametrize(("where", "what"), [(0, b"XXXX"), (4, b"\2"), (8, b"\0"), (8, b"\xff"), (32, b"\x63")])
def test_inconsistent_data_are_no_header(where: int, what: bytes) -> None:
    data = bytearray(to_bytes(HEADER, encoding=546))
    data[where : where + len(what)] = what

    assert Reason.EPH_ERROR == outcome(bytes(data))
