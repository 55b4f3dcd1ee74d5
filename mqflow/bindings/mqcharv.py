"""Variable-length strings (MQCHARV): text in buffers of our own, for the length of one call."""

import ctypes
from typing import Final

__all__ = ("Strings",)

_UTF_8: Final = 1208


class Strings:
    """The buffers of one call. Keep it until the call has returned and what it wrote has been read."""

    def __init__(self) -> None:
        self._buffers: dict[str, ctypes.Array[ctypes.c_char]] = {}

    def given(self, name: str, text: str) -> dict[str, int]:
        """Return the fields of a string that is given."""
        return self.exchanged(name, text, 0) if text else {}

    def exchanged(self, name: str, text: str, room: int) -> dict[str, int]:
        """Return the fields of a string that is given, and has so much room for an answer."""
        data = text.encode()
        buffer = self._buffers[name] = ctypes.create_string_buffer(data, max(room, len(data)) + 1)
        return {
            f"{name}Ptr": ctypes.addressof(buffer),
            f"{name}BufSize": max(room, len(data)),
            f"{name}Length": len(data),
            f"{name}CCSID": _UTF_8,
        }

    def answered(self, name: str, length: int) -> str:
        """Return what was written there, of which so many bytes count."""
        buffer = self._buffers[name]
        return buffer.raw[: max(0, min(length, len(buffer) - 1))].decode("utf-8", "replace")
