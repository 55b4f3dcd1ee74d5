"""Bytes in a CCSID are decoded to text; no character is ever guessed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqflow.mqi.ccsid import codec_for, decode, encode, is_ebcdic, is_known
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason
from tests.conformance.under_test import refused

#: Pages with 256 different characters, so that every byte is text.
WHOLE_PAGES = (37, 273, 277, 278, 280, 284, 285, 297, 437, 500, 819, 850, 858, 871, 1026, 1047, *range(1140, 1150))

#: CCSID, bytes, text. EBCDIC rows: the registered IBM code page charts; others: the standards themselves.
SAYS = [
    pytest.param(1208, "c3bc20e282ac", "ü €", id="UTF-8"),
    pytest.param(819, "fc", "ü", id="ISO 8859-1"),
    pytest.param(923, "a4", "€", id="ISO 8859-15 has the euro"),
    pytest.param(367, "41", "A", id="ASCII"),
    pytest.param(437, "81e1", "üß", id="PC United States"),
    pytest.param(850, "81d5", "üı", id="PC Latin-1 has a dotless i"),
    pytest.param(858, "81d5", "ü€", id="PC Latin-1 with euro"),
    pytest.param(852, "a5", "ą", id="PC Latin-2"),
    pytest.param(1252, "80", "€", id="Windows Latin-1"),
    pytest.param(5348, "80", "€", id="Windows Latin-1, the number since the euro"),
    pytest.param(1251, "ff", "я", id="Windows Cyrillic"),
    pytest.param(5347, "ff", "я", id="Windows Cyrillic, the number since the euro"),
    pytest.param(1200, "00fc20ac", "ü€", id="UTF-16"),
    pytest.param(13488, "00fc", "ü", id="UCS-2"),
    pytest.param(17584, "00fc", "ü", id="UCS-2 with euro"),
    pytest.param(932, "82a0", "あ", id="Japanese"),
    pytest.param(943, "82a0", "あ", id="Japanese, the usual number"),
    pytest.param(949, "b0a1", "가", id="Korean"),
    pytest.param(950, "a440", "一", id="Traditional Chinese"),
    pytest.param(1386, "d2bb", "一", id="Simplified Chinese"),
    pytest.param(54936, "d2bb95328236", "一\U00020000", id="GB 18030, beyond the basic plane too"),
    pytest.param(37, "c1f0babb", "A0[]", id="EBCDIC United States: brackets at BA and BB"),
    pytest.param(500, "4a5a", "[]", id="EBCDIC international: brackets at 4A and 5A"),
    pytest.param(1047, "adbd5fba", "[]^Ý", id="EBCDIC Open Systems: brackets at AD and BD, circumflex at 5F"),
    pytest.param(273, "4ae05ac06ad0a1", "ÄÖÜäöüß", id="EBCDIC Germany"),
    pytest.param(277, "7b7c5b6ad0", "ÆØÅøå", id="EBCDIC Denmark and Norway"),
    pytest.param(278, "7b7c5bc06ad071e0", "ÄÖÅäöå\\É", id="EBCDIC Finland and Sweden"),
    pytest.param(280, "5ac0", "éà", id="EBCDIC Italy"),
    pytest.param(284, "7b6a", "Ññ", id="EBCDIC Spain"),
    pytest.param(285, "5b4a", "£$", id="EBCDIC United Kingdom"),
    pytest.param(297, "c07ce0", "éàç", id="EBCDIC France"),
    pytest.param(871, "4ac0", "Þþ", id="EBCDIC Iceland"),
    pytest.param(1026, "5ad0", "Ğğ", id="EBCDIC Turkey"),
    pytest.param(1140, "9f", "€", id="EBCDIC United States with euro"),
    pytest.param(1141, "9fc0", "€ä", id="EBCDIC Germany with euro"),
    pytest.param(1142, "5a", "€", id="EBCDIC Denmark and Norway: the euro is at 5A"),
    pytest.param(1143, "5a", "€", id="EBCDIC Finland and Sweden: the euro is at 5A"),
    pytest.param(1148, "9f4a", "€[", id="EBCDIC international with euro"),
    pytest.param(37, "1525", "\x85\n", id="EBCDIC: 15 is NEL, 25 is LF"),
    pytest.param(875, "413f", "Α\x1a", id="EBCDIC Greece: only 3F is SUB"),  # noqa: RUF001 - the Greek letter
]


@pytest.mark.parametrize(("ccsid", "data", "text"), SAYS)
def test_the_bytes_of_a_character_set_say_this_text_and_the_text_these_bytes(ccsid: int, data: str, text: str) -> None:
    assert text == decode(bytes.fromhex(data), ccsid)
    assert data == encode(text, ccsid).hex()


@pytest.mark.parametrize("ccsid", WHOLE_PAGES)
def test_every_byte_of_a_whole_code_page_comes_back_as_it_went_in(ccsid: int) -> None:
    every_byte = bytes(range(256))

    assert every_byte == encode(decode(every_byte, ccsid), ccsid)


@pytest.mark.parametrize("ccsid", [1200, 13488, 17584])
def test_two_byte_text_has_the_byte_order_of_the_numbers_around_it(ccsid: int) -> None:
    assert "ü" == decode(b"\xfc\x00", ccsid, big_endian=False)
    assert b"\xfc\x00" == encode("ü", ccsid, big_endian=False)
    assert "utf-16-le" == codec_for(ccsid, big_endian=False)


@pytest.mark.parametrize("ccsid", [1208, 819, 37, 1047])
def test_the_byte_order_does_not_matter_where_a_character_is_one_byte(ccsid: int) -> None:
    assert encode("AZ 09", ccsid, big_endian=True) == encode("AZ 09", ccsid, big_endian=False)


@given(st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from([1208, 1200, 54936]), st.booleans())
def test_any_text_survives_a_unicode_character_set(text: str, ccsid: int, big_endian: bool) -> None:  # noqa: FBT001 - drawn
    assert text == decode(encode(text, ccsid, big_endian=big_endian), ccsid, big_endian=big_endian)


def outcome(data: bytes, ccsid: int) -> str | int:
    """Return whether the bytes are text, or the reason of the refusal. Any other exception passes through."""
    try:
        decode(data, ccsid)
    except MQIError as error:
        return error.reason
    return "text"


@given(st.binary(max_size=60), st.sampled_from([1208, 819, 367, 1200, 932, 950, 54936, 424, 875, 1047]))
def test_any_bytes_are_text_or_a_typed_error(data: bytes, ccsid: int) -> None:
    assert outcome(data, ccsid) in {"text", Reason.NOT_CONVERTED}


def test_bytes_that_are_no_text_are_refused_by_offset_and_value() -> None:
    with refused(Reason.NOT_CONVERTED, match=r"MQRC_NOT_CONVERTED \(2119\).*0xFF at offset 2.*CCSID 1208"):
        decode(b"ab\xff", 1208)


@pytest.mark.parametrize(("ccsid", "byte"), [(424, 0x70), *((875, byte) for byte in b"\xdc\xe1\xec\xed\xfc\xfd")])
def test_a_byte_that_an_ebcdic_page_does_not_define_is_refused(ccsid: int, byte: int) -> None:
    with pytest.raises(MQIError, match=rf"\(2119\).*0x{byte:02X} at offset 1.*CCSID {ccsid}"):
        decode(bytes((0x40, byte)), ccsid)


def test_half_a_two_byte_character_is_refused() -> None:
    with pytest.raises(MQIError, match=r"\(2119\)"):
        decode(b"\x00", 1200)


def test_text_that_a_character_set_lacks_is_refused_by_character_and_offset() -> None:
    with refused(Reason.NOT_CONVERTED, match=r"MQRC_NOT_CONVERTED \(2119\).*CCSID 819 has no U\+20AC.*offset 3"):
        encode("12 €", 819)


@pytest.mark.parametrize("ccsid", [1047, 1141])
def test_text_that_an_ebcdic_page_lacks_is_refused_too(ccsid: int) -> None:
    with pytest.raises(MQIError, match=r"\(2119\).*U\+3042"):
        encode("あ", ccsid)


@pytest.mark.parametrize("ccsid", [0, -1, -2, 77, 1_000_000])
def test_an_unknown_character_set_is_refused_before_any_byte_is_looked_at(ccsid: int) -> None:
    assert not is_known(ccsid)
    with pytest.raises(MQIError) as reading:
        decode(b"", ccsid)
    with pytest.raises(MQIError) as writing:
        encode("", ccsid)

    assert (Reason.SOURCE_CCSID_ERROR, Reason.TARGET_CCSID_ERROR) == (reading.value.reason, writing.value.reason)


def test_the_error_for_a_special_value_explains_its_meaning() -> None:
    with pytest.raises(MQIError, match="stands for another CCSID"):
        decode(b"", 0)


@pytest.mark.parametrize("ccsid", [row.values[0] for row in SAYS])
def test_every_readable_character_set_is_known(ccsid: int) -> None:
    assert is_known(ccsid)


def test_a_page_that_python_lacks_has_no_codec_name_but_can_be_read() -> None:
    with pytest.raises(MQIError, match=r"decode\(\) and encode\(\)"):
        codec_for(1047)

    assert "A" == decode(b"\xc1", 1047)


@pytest.mark.parametrize(
    ("ccsid", "ebcdic"), [(37, True), (1047, True), (1149, True), (1026, True), (819, False), (1208, False)]
)
def test_a_page_is_ebcdic_where_a_blank_is_0x40(ccsid: int, *, ebcdic: bool) -> None:
    assert ebcdic == is_ebcdic(ccsid)
    assert ebcdic == (encode(" ", ccsid) == b"\x40")
