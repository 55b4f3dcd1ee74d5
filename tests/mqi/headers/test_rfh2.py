"""MQRFH2: the structure, its lengths, byte orders and character sets."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mqflow.mqi.errors import HeaderError
from mqflow.mqi.headers.rfh2 import (
    FOLDERS_MAX,
    NAME_VALUE_CCSIDS,
    RFH2,
    RFH2_FIXED_BYTES,
    Folder,
    FolderProperty,
    parse,
    properties,
    to_bytes,
)
from mqflow.mqi.reason_codes import Reason
from tests.conformance.under_test import refused
from tests.mqi.layouts import Field, ends_at, expected, found
from tests.mqi.strategies import encodings, field_ccsids, rfh2s

HEADER = RFH2(folders=(Folder("usr", (FolderProperty("a", "1"),)),), encoding=546, ccsid=819, format="MQSTR", flags=0)

#: The layout table of the MQRFH2; the folder is 20 characters long and needs no padding.
LAYOUT = (
    Field(0, 4, "StrucId", "RFH"),
    Field(4, 4, "Version", 2),
    Field(8, 4, "StrucLength", 60),
    Field(12, 4, "Encoding", 546),
    Field(16, 4, "CodedCharSetId", 819),
    Field(20, 8, "Format", "MQSTR"),
    Field(28, 4, "Flags", 0),
    Field(32, 4, "NameValueCCSID", 1208),
    Field(36, 4, "NameValueLength", 20),
    Field(40, 20, "NameValueData", "<usr><a>1</a></usr>"),
)


def without_raw(header: RFH2) -> RFH2:
    return replace(header, folders=tuple(replace(folder, raw="") for folder in header.folders))


def message(*parts: bytes, order: str = "<", length: int | None = None, version: int = 2, ccsid: int = 1208) -> bytes:
    """Return a header made by hand from these parts; each part is a NameValueLength and its NameValueData."""
    stated = RFH2_FIXED_BYTES + sum(map(len, parts)) if length is None else length
    return struct.pack(f"{order}4siiii8sii", b"RFH ", version, stated, 546, 1208, b"MQSTR   ", 0, ccsid) + b"".join(parts)


def part(data: bytes, length: int | None = None) -> bytes:
    return struct.pack("<i", len(data) if length is None else length) + data


@pytest.mark.parametrize(("encoding", "little_endian"), [(546, True), (273, False), (785, False)])
def test_every_field_is_at_its_offset_in_the_byte_order_of_the_structure_before(encoding: int, *, little_endian: bool) -> None:
    data = to_bytes(HEADER, encoding=encoding)

    assert expected(LAYOUT, little_endian=little_endian) == found(data, LAYOUT)
    assert ends_at(LAYOUT) == len(data)


@given(rfh2s, encodings, field_ccsids)
def test_any_header_survives_its_bytes(header: RFH2, encoding: int, ccsid: int) -> None:
    data = to_bytes(header, encoding=encoding, ccsid=ccsid)

    read, length = parse(data, encoding=encoding, ccsid=ccsid)

    assert header == without_raw(read)
    assert length == len(data)


@given(rfh2s, encodings, st.binary(max_size=12))
def test_a_parsed_header_is_written_byte_for_byte_and_the_data_behind_it_stay(header: RFH2, encoding: int, body: bytes) -> None:
    data = to_bytes(header, encoding=encoding)

    read, length = parse(data + body, encoding=encoding)

    assert data == to_bytes(read, encoding=encoding)
    assert body == (data + body)[length:]


@given(rfh2s)
def test_a_header_can_be_written_in_the_other_byte_order(header: RFH2) -> None:
    big, _ = parse(to_bytes(header, encoding=273), encoding=273)

    little, _ = parse(to_bytes(big, encoding=546), encoding=546)

    assert big == little


@given(rfh2s, encodings)
def test_every_length_is_a_multiple_of_four(header: RFH2, encoding: int) -> None:
    assert 0 == len(to_bytes(header, encoding=encoding)) % 4


@pytest.mark.parametrize("ccsid", sorted(NAME_VALUE_CCSIDS))
def test_folders_may_be_in_every_character_set_that_is_allowed(ccsid: int) -> None:
    header = replace(HEADER, folders=(Folder("usr", (FolderProperty("größe", "€"),)),), name_value_ccsid=ccsid)

    read, _ = parse(to_bytes(header, encoding=273), encoding=273)

    assert {"größe": "€"} == properties(read)


def test_two_byte_folders_have_the_byte_order_of_the_headers_numbers() -> None:
    header = replace(HEADER, name_value_ccsid=1200)

    assert b"<\0u\0s\0r\0" in to_bytes(header, encoding=546)
    assert b"\0<\0u\0s\0r" in to_bytes(header, encoding=273)


@pytest.mark.parametrize(("text", "padding"), [("1", 1), ("12", 0), ("123", 3), ("1234", 2)])
def test_folders_are_padded_with_blanks(text: str, padding: int) -> None:
    data = to_bytes(RFH2(folders=(Folder("usr", (FolderProperty("a", text),)),)), encoding=546)

    assert f"{text}</a></usr>{' ' * padding}".encode() == data[-len(text) - 10 - padding :]
    assert data.endswith(b">" + b" " * padding)


def test_two_byte_folders_are_padded_with_two_byte_blanks() -> None:
    header = RFH2(folders=(Folder("usr", (FolderProperty("a", "1"),)),), name_value_ccsid=1200)

    assert to_bytes(header, encoding=546).endswith(b">\0 \0")


def test_a_header_without_folders_is_its_36_bytes() -> None:
    assert RFH2_FIXED_BYTES == len(to_bytes(RFH2(), encoding=546))
    assert (RFH2(), RFH2_FIXED_BYTES) == parse(to_bytes(RFH2(), encoding=546), encoding=546)


def test_a_new_header_has_the_initial_values() -> None:
    #: The defaults of the layout table.
    default = RFH2()

    assert ((), 546, -2, "", 0, 1208) == (
        default.folders, default.encoding, default.ccsid, default.format, default.flags, default.name_value_ccsid,
    )  # fmt: skip


def test_repeated_folders_stay_in_their_order() -> None:
    data = message(part(b"<usr><a>1</a></usr> "), part(b"<usr><b>2</b></usr> "), part(b"<usr><a>3</a></usr> "))

    read, _ = parse(data, encoding=546)

    assert ["a", "b", "a"] == [folder.properties[0].name for folder in read.folders]
    assert data == to_bytes(read, encoding=546)


def test_the_properties_of_repeated_folders_are_one_and_the_first_value_counts() -> None:
    header = RFH2(
        folders=(
            Folder("usr", (FolderProperty("a", 1), FolderProperty("a", 2))),
            Folder("jms", (FolderProperty("Dlv", 2),)),
            Folder("usr", (FolderProperty("a", 3), FolderProperty("b", 4))),
        )
    )

    assert {"a": 1, "b": 4} == properties(header)
    assert {"Dlv": 2} == properties(header, "jms")
    assert {} == properties(header, "mcd")


BROKEN = [
    pytest.param(b"", id="nothing"),
    pytest.param(message()[:35], id="a byte too short"),
    pytest.param(b"DLH " + message()[4:], id="another structure"),
    pytest.param(message(version=1), id="version 1 is another layout"),
    pytest.param(message(order=">"), id="the other byte order"),
    pytest.param(message(length=0), id="length 0"),
    pytest.param(message(length=-36), id="a negative length"),
    pytest.param(message(length=32), id="a length below the fixed part"),
    pytest.param(message(length=40), id="a length beyond the data"),
    pytest.param(message(length=2**31 - 4), id="the greatest length"),
    pytest.param(message(b"    "[:2], length=38), id="a length that is no multiple of 4"),
    pytest.param(message(part(b"", length=4)), id="a folder beyond the header"),
    pytest.param(message(part(b"<a/>", length=-4)), id="a folder of negative length"),
    pytest.param(message(part(b"<a/>", length=2**31 - 4)), id="a folder of the greatest length"),
    pytest.param(message(part(b"<usr/>  ", length=6)), id="a folder length that is no multiple of 4"),
    pytest.param(message(ccsid=819), id="a NameValueCCSID that is not allowed"),
    pytest.param(message(ccsid=0), id="no NameValueCCSID"),
    pytest.param(message(*[part(b"")] * (FOLDERS_MAX + 1)), id="too many folders"),
    pytest.param(message(*[part(b"<usr>" + b"<a/>" * 600 + b"</usr> ")] * 2), id="too many properties in all"),
]


@pytest.mark.parametrize("data", BROKEN)
def test_a_structure_that_does_not_hold_is_refused(data: bytes) -> None:
    with pytest.raises(HeaderError, match=r"MQRC_RFH_ERROR \(2334\)"):
        parse(data, encoding=546)


def test_folders_that_are_no_text_are_refused() -> None:
    with refused(Reason.NOT_CONVERTED):
        parse(message(part(b"<a>\xff</a>")), encoding=546)


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(RFH2(name_value_ccsid=819), id="a NameValueCCSID that is not allowed"),
        pytest.param(RFH2(folders=(Folder("a"),) * (FOLDERS_MAX + 1)), id="too many folders"),
        pytest.param(RFH2(folders=(Folder("a", (FolderProperty("b", 1),) * 501),) * 2), id="too many properties"),
    ],
)
def test_a_header_that_could_not_be_read_is_not_written(header: RFH2) -> None:
    with pytest.raises(HeaderError, match=r"\(2334\)"):
        to_bytes(header, encoding=546)
