"""Coded character set identifiers: decodes and encodes the text of messages, EBCDIC code pages included.

This module knows numbers, Python's codecs and the code pages that Python lacks. It knows no descriptor, so the special values 0
(the CCSID of the queue manager), -1 and -2 are unknown here: `headers.chain` resolves them. It registers no codec with Python.
Source: the CCSIDs of the IBM MQ code page tables; the EBCDIC pages by IBM's registered code page definitions, in which 0x15 is
NEL (U+0085) and 0x25 is LF. Every byte of an EBCDIC page survives decoding and encoding, except the undefined bytes of 424 and
875, which are refused.
"""

import codecs
from functools import cache
from typing import Final

from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason

__all__ = ("UTF_16_CCSIDS", "codec_for", "decode", "encode", "is_ebcdic", "is_known")

UTF_16_CCSIDS: Final = frozenset({1200, 13488, 17584})
"""Two-byte character sets with the byte order of the numbers around them."""

#: The CCSID of each part of ISO 8859, by the number of the part.
_PARTS: Final = {2: 912, 3: 913, 4: 914, 5: 915, 6: 1089, 7: 813, 8: 916, 9: 920, 10: 919, 13: 921, 15: 923}
#: The CCSIDs of each of Python's codecs; a codec for a Japanese, Korean or Chinese page covers that whole page.
_CODECS: Final = {
    "ascii": (367,),
    "big5": (947,),
    "cp932": (932, 943),
    "cp949": (949, 1363),
    "cp950": (950, 1370),
    "euc-jp": (954, 5050, 33722),
    "euc-kr": (970,),
    "gb18030": (1392, 5488, 54936),
    "gb2312": (1381, 1383),
    "gbk": (936, 1386),
    **{f"iso8859-{part}": (page,) for part, page in _PARTS.items()},
    "koi8-r": (878,),
    "koi8-u": (1168,),
    "latin-1": (819,),
    "utf-8": (1208, 1209),
    # EBCDIC
    **{f"cp{page:03}": (page,) for page in (37, 424, 500, 1026, 1140)},
    # Personal computers
    **{f"cp{page}": (page,) for page in (437, 720, 737, 775, 850, 852, 855, 857, 858, *range(860, 867), 869, 874)},
    # Windows: the number before the euro sign was added, and the number after
    **{f"cp{page}": (page, page + 4096) for page in range(1250, 1259)},
}

#: EBCDIC code pages that Python lacks (Python has 273, but 0xBC differs): the bytes that differ from CCSID 37, and their
#: characters.
_DIFFERENCES: Final[dict[int, tuple[str, str]]] = {
    273: ("434a4f595a5f636a7ca1b0b5babbc0ccd0dce0ecfc", "{Ä!~Ü^[ö§ß¢@¬|ä¦ü}Ö\\]"),
    277: ("474a4f5a5b5f676a707b7c809c9e9fa1b0babbc0d0dc", "}#!¤Å^$ø¦ÆØ@{[]ü¢¬|æå~"),
    278: ("43474a4f515a5b5f63676a71797b7c9fa1b0b5babbc0ccd0dce0ec", "{}§!`¤Å^#$ö\\éÄÖ]ü¢[¬|ä¦å~É@"),
    280: ("44484a4f5154585a5f6a797b7c90a1b0b1b5babbc0cdd0dde0", "{\\°!]}~é^òù£§[ì¢#@¬|à¦è`ç"),
    284: ("494a5a696a7ba1b0babbbd", "¦[]#ñÑ¨¢^!~"),
    285: ("4a5ba1b0b1babc", "$£¯¢[^~"),
    297: ("44484a4f51545a5f6a797b7c90a0a1b0b1b5babbbdc0d0dde0", "@\\°!{}§^ùµ£à[`¨¢#]¬|~éè¦ç"),
    871: ("4a4f5a5f797c8c8e9c9ea1acaeb0babbbec0ccd0e0ec", "Þ!ÆÖðÐ`{}]ö@[¢¬|\\þ~æ´^"),  # noqa: RUF001 - the page has an acute accent
    1047: ("5fadb0babbbd", "^[¬Ý¨]"),
}

#: The euro variant of a page has € where the page has ¤.
_EURO_VARIANTS: Final = {1141: 273, 1142: 277, 1143: 278, 1144: 280, 1145: 284, 1146: 285, 1147: 297, 1148: 500, 1149: 871}

#: Greece. Python's codec reads SUB not only in 0x3F, but also in six bytes that the page does not define.
_GREEK: Final = 875
_GREEK_SUB: Final = 0x3F

_CODEC_OF: Final = {ccsid: codec for codec, ccsids in _CODECS.items() for ccsid in ccsids}
_EBCDIC: Final = frozenset({37, 424, 500, 875, 1026, 1140, *_DIFFERENCES, *_EURO_VARIANTS})


def is_known(ccsid: int) -> bool:
    """Return whether text in this character set can be decoded and encoded here."""
    return ccsid in _CODEC_OF or ccsid in UTF_16_CCSIDS or ccsid in _EBCDIC


def is_ebcdic(ccsid: int) -> bool:
    """Return whether this is an EBCDIC code page, in which a blank is 0x40 and letters have other bytes than in ASCII."""
    return ccsid in _EBCDIC


def codec_for(ccsid: int, *, big_endian: bool = True) -> str:
    """Return the name of Python's codec for this CCSID; only UTF-16 uses the byte order.

    Raises `MQIError` 2111 (MQRC_SOURCE_CCSID_ERROR) if the CCSID is unknown, or if it is an EBCDIC page without an exact codec
    in Python. `decode` and `encode` accept such pages too.
    """
    if ccsid in UTF_16_CCSIDS:
        return "utf-16-be" if big_endian else "utf-16-le"
    try:
        return _CODEC_OF[ccsid]
    except KeyError:
        why = (
            f"Python has no exact codec for CCSID {ccsid}; decode() and encode() know it"
            if is_ebcdic(ccsid)
            else _unknown(ccsid)
        )
        raise error_for(Reason.SOURCE_CCSID_ERROR, "Choosing a codec", detail=why) from None


def decode(data: bytes, ccsid: int, *, big_endian: bool = True) -> str:
    """Return the bytes decoded from this character set; no character is replaced or left out.

    Raises `MQIError` 2111 (MQRC_SOURCE_CCSID_ERROR) for an unknown set, and 2119 (MQRC_NOT_CONVERTED) with the offset of the
    first byte that cannot be decoded.
    """
    try:
        if table := _ebcdic_table(ccsid):
            # The stubs do not say that the table may be a string, which is the fast kind.
            return codecs.charmap_decode(data, "strict", table)[0]  # pyright: ignore[reportArgumentType]
        return data.decode(codec_for(ccsid, big_endian=big_endian))
    except UnicodeDecodeError as error:
        where = f"The byte 0x{data[error.start]:02X} at offset {error.start} is not text in CCSID {ccsid} ({error.reason})"
        raise error_for(Reason.NOT_CONVERTED, f"Decoding {len(data)} bytes of text", detail=where) from None


def encode(text: str, ccsid: int, *, big_endian: bool = True) -> bytes:
    """Return the text encoded in this character set; no character is replaced or left out.

    Raises `MQIError` 2115 (MQRC_TARGET_CCSID_ERROR) for an unknown set, and 2119 (MQRC_NOT_CONVERTED) with the first character
    that the set lacks.
    """
    if not is_known(ccsid):
        raise error_for(Reason.TARGET_CCSID_ERROR, "Encoding text", detail=_unknown(ccsid))
    try:
        if table := _ebcdic_table(ccsid):
            return codecs.charmap_encode(text, "strict", codecs.charmap_build(table))[0]
        return text.encode(codec_for(ccsid, big_endian=big_endian))
    except UnicodeEncodeError as error:
        where = f"CCSID {ccsid} has no U+{ord(text[error.start]):04X}, which is at offset {error.start}"
        raise error_for(Reason.NOT_CONVERTED, f"Encoding {len(text)} characters of text", detail=where) from None


@cache
def _ebcdic_table(ccsid: int) -> str:
    """Return the 256 characters of a code page that Python lacks or has with errors; empty for every other CCSID."""
    if base := _EURO_VARIANTS.get(ccsid):
        return (_ebcdic_table(base) or bytes(range(256)).decode(_CODEC_OF[base])).replace("¤", "€")
    if ccsid == _GREEK:
        characters = bytes(range(256)).decode("cp875").replace("\x1a", "\ufffe")  # U+FFFE: undefined
        return f"{characters[:_GREEK_SUB]}\x1a{characters[_GREEK_SUB + 1 :]}"
    if ccsid not in _DIFFERENCES:
        return ""
    table = list(bytes(range(256)).decode("cp037"))
    where, what = _DIFFERENCES[ccsid]
    for position, character in zip(bytes.fromhex(where), what, strict=True):
        table[position] = character
    return "".join(table)


def _unknown(ccsid: int) -> str:
    if ccsid <= 0:
        return f"{ccsid} stands for another CCSID (0: queue manager, -1: in the data, -2: the header before); resolve it first"
    return f"CCSID {ccsid} is not known here; send UTF-8 (1208), or ask for it to be added"
