"""MQDLH: 172 bytes with the reason of a dead letter."""

import pytest
from hypothesis import given
from msgspec.structs import astuple

from mqflow.mqi.errors import HeaderError, MQIError
from mqflow.mqi.headers.dead_letter import DLH_BYTES, DeadLetterHeader, parse, to_bytes
from mqflow.mqi.options import Encoding
from mqflow.mqi.reason_codes import Reason
from tests.mqi.layouts import Field, ends_at, expected, found
from tests.mqi.strategies import dead_letter_headers, encodings, field_ccsids

HEADER = DeadLetterHeader(
    reason=2085, destination_queue="ORDERS.IN", destination_queue_manager="QM1", encoding=546, ccsid=1208, format="MQSTR",
    put_application_type=6, put_application_name="mqflow", put_date="20261121", put_time="04200945",
)  # fmt: skip

#: The layout table of the MQDLH.
LAYOUT = (
    Field(0, 4, "StrucId", "DLH"),
    Field(4, 4, "Version", 1),
    Field(8, 4, "Reason", 2085),
    Field(12, 48, "DestQName", "ORDERS.IN"),
    Field(60, 48, "DestQMgrName", "QM1"),
    Field(108, 4, "Encoding", 546),
    Field(112, 4, "CodedCharSetId", 1208),
    Field(116, 8, "Format", "MQSTR"),
    Field(124, 4, "PutApplType", 6),
    Field(128, 28, "PutApplName", "mqflow"),
    Field(156, 8, "PutDate", "20261121"),
    Field(164, 8, "PutTime", "04200945"),
)


@pytest.mark.parametrize(("encoding", "little_endian"), [(546, True), (273, False), (785, False), (0, False)])
def test_every_field_is_at_its_offset_in_the_byte_order_of_the_structure_before(encoding: int, *, little_endian: bool) -> None:
    data = to_bytes(HEADER, encoding=encoding)

    assert expected(LAYOUT, little_endian=little_endian) == found(data, LAYOUT)
    assert ends_at(LAYOUT) == len(data) == DLH_BYTES


def test_a_new_dead_letter_header_has_the_initial_values() -> None:
    assert (0, "", "", 546, -2, "", 0, "", "", "") == astuple(DeadLetterHeader())


@given(dead_letter_headers, encodings, field_ccsids)
def test_any_header_survives_its_bytes(header: DeadLetterHeader, encoding: int, ccsid: int) -> None:
    assert header == parse(to_bytes(header, encoding=encoding, ccsid=ccsid), encoding=encoding, ccsid=ccsid)


def test_the_data_behind_the_header_are_not_read() -> None:
    assert HEADER == parse(to_bytes(HEADER, encoding=546) + b"\xff" * 100, encoding=546)


def test_the_fields_of_a_header_from_a_mainframe_are_ebcdic() -> None:
    data = to_bytes(HEADER, encoding=Encoding.ZOS, ccsid=1047)

    assert bytes.fromhex("c4d3c840") == data[:4]
    assert HEADER == parse(data, encoding=Encoding.ZOS, ccsid=1047)


def test_a_name_that_is_too_long_is_cut_to_its_field() -> None:
    data = to_bytes(DeadLetterHeader(put_application_name="x" * 40), encoding=546)

    assert b"x" * 28 == data[128:156]
    assert DLH_BYTES == len(data)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(to_bytes(HEADER, encoding=546)[:171], id="a byte too short"),
        pytest.param(b"RFH " + to_bytes(HEADER, encoding=546)[4:], id="another structure"),
        pytest.param(to_bytes(HEADER, encoding=273), id="the other byte order"),
        pytest.param(b"DLH \x02\0\0\0" + bytes(164), id="another version"),
        pytest.param(to_bytes(HEADER, encoding=546, ccsid=500), id="another character set"),
    ],
)
def test_data_that_are_no_dead_letter_header_are_refused(data: bytes) -> None:
    with pytest.raises(HeaderError, match=r"MQRC_DLH_ERROR \(2141\)") as refused:
        parse(data, encoding=546)

    assert Reason.DLH_ERROR == refused.value.reason


def test_a_character_that_the_code_page_of_the_fields_lacks_is_a_typed_error() -> None:
    with pytest.raises(MQIError, match=r"\(2119\)"):
        to_bytes(DeadLetterHeader(put_application_name="Ærø"), encoding=785, ccsid=424)
