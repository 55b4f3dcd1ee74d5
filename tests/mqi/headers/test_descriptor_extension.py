"""MQMDE: the version 2 fields in front of the data."""

import pytest
from hypothesis import given
from msgspec.structs import astuple

from mqflow.mqi.errors import HeaderError
from mqflow.mqi.headers.descriptor_extension import MDE_BYTES, DescriptorExtension, parse, to_bytes
from mqflow.mqi.reason_codes import Reason
from tests.mqi.layouts import Field, ends_at, expected, found
from tests.mqi.strategies import descriptor_extensions, encodings, field_ccsids

HEADER = DescriptorExtension(
    encoding=546, ccsid=1208, format="MQDEAD", flags=0, group_id=b"g" * 24, sequence_number=2, offset=3, message_flags=4,
    original_length=5,
)  # fmt: skip

#: The layout table of the MQMDE.
LAYOUT = (
    Field(0, 4, "StrucId", "MDE"),
    Field(4, 4, "Version", 2),
    Field(8, 4, "StrucLength", 72),
    Field(12, 4, "Encoding", 546),
    Field(16, 4, "CodedCharSetId", 1208),
    Field(20, 8, "Format", "MQDEAD"),
    Field(28, 4, "Flags", 0),
    Field(32, 24, "GroupId", b"g" * 24),
    Field(56, 4, "MsgSeqNumber", 2),
    Field(60, 4, "Offset", 3),
    Field(64, 4, "MsgFlags", 4),
    Field(68, 4, "OriginalLength", 5),
)


@pytest.mark.parametrize(("encoding", "little_endian"), [(546, True), (273, False)])
def test_every_field_is_at_its_offset_in_the_byte_order_of_the_structure_before(encoding: int, *, little_endian: bool) -> None:
    data = to_bytes(HEADER, encoding=encoding)

    assert expected(LAYOUT, little_endian=little_endian) == found(data, LAYOUT)
    assert ends_at(LAYOUT) == len(data) == MDE_BYTES


def test_a_new_extension_has_the_initial_values() -> None:
    #: The defaults of the layout table; the fields are those of an MQMD that is in no group.
    assert (546, -2, "", 0, bytes(24), 1, 0, 0, -1) == astuple(DescriptorExtension())


@given(descriptor_extensions, encodings, field_ccsids)
def test_any_extension_survives_its_bytes(header: DescriptorExtension, encoding: int, ccsid: int) -> None:
    assert header == parse(to_bytes(header, encoding=encoding, ccsid=ccsid), encoding=encoding, ccsid=ccsid)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(to_bytes(HEADER, encoding=546)[:71], id="a byte too short"),
        pytest.param(b"DLH " + to_bytes(HEADER, encoding=546)[4:], id="another structure"),
        pytest.param(to_bytes(HEADER, encoding=273), id="the other byte order"),
        pytest.param(b"MDE \x02\0\0\0\x00\0\0\0" + bytes(60), id="length 0"),
        pytest.param(b"MDE \x01\0\0\0\x48\0\0\0" + bytes(60), id="another version"),
    ],
)
def test_data_that_are_no_extension_are_refused(data: bytes) -> None:
    with pytest.raises(HeaderError, match=r"MQRC_MDE_ERROR \(2248\)") as refused:
        parse(data, encoding=546)

    assert Reason.MDE_ERROR == refused.value.reason
