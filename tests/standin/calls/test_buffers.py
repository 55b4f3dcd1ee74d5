"""MQXCNVC and MQBUFMH on buffers in memory: how much work a conversion takes, and how much of a buffer is written."""

import ctypes
from typing import Any

import pytest

from mqflow.mqi.ccsid import encode
from mqflow.mqi.reason_codes import Reason
from mqflow.standin.calls import buffers
from mqflow.standin.calls.message_handles import UNASSOCIATED

NO_HOST: Any = None
"""A call on MQHC_UNASSOCIATED_HCONN uses no connection."""


def converted(text: bytes, target_ccsid: int, room: int) -> tuple[int, bytes]:
    """Return the reason, and the bytes that MQXCNVC writes into a buffer of `room` bytes."""
    source, target, length = ctypes.create_string_buffer(text), ctypes.create_string_buffer(room + 1), ctypes.c_int()
    places = [ctypes.addressof(each) for each in (source, target, length)]
    reason = buffers.convert_characters(
        NO_HOST, UNASSOCIATED, 0, 1208, len(text), places[0], target_ccsid, room, places[1], places[2]
    )
    assert b"\0" == target.raw[room:], "a byte behind the buffer is written"
    return reason, target.raw[: length.value]


@pytest.mark.parametrize(
    ("text", "ccsid", "room", "expected"),
    [
        ("abc", 1208, 3, (Reason.NONE, b"abc")),
        ("abc", 1208, 2, (Reason.CONVERTED_STRING_TOO_BIG, b"ab")),
        ("abc", 1208, 0, (Reason.CONVERTED_STRING_TOO_BIG, b"")),
        ("äöü", 1208, 5, (Reason.CONVERTED_STRING_TOO_BIG, "äö".encode())),
        ("äöü", 819, 2, (Reason.CONVERTED_STRING_TOO_BIG, b"\xe4\xf6")),
        ("a😀b", 1200, 5, (Reason.CONVERTED_STRING_TOO_BIG, b"a\0")),
        ("a😀b", 1200, 6, (Reason.CONVERTED_STRING_TOO_BIG, "a😀".encode("utf-16-le"))),
    ],
)
def test_text_that_does_not_fit_is_cut_between_two_characters(
    text: str, ccsid: int, room: int, expected: tuple[int, bytes]
) -> None:
    assert expected == converted(text.encode(), ccsid, room)


def test_the_work_of_a_cut_does_not_grow_with_the_length_of_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = list[int]()

    def counted(text: str, *arguments: Any, **options: Any) -> bytes:
        encoded.append(len(text))
        return encode(text, *arguments, **options)

    monkeypatch.setattr(buffers, "encode", counted)
    reason, _ = converted(b"a" * 100_000, 1208, 10)

    assert Reason.CONVERTED_STRING_TOO_BIG == reason
    assert len(encoded) < 30
