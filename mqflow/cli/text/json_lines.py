"""The JSON output of the commands, one record on a line. Identifiers and bytes are hexadecimal digits, times are RFC 3339."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

__all__ = ("json_line", "plain")


def json_line(record: object) -> bytes:
    """Return the record as a line of JSON, without the line end."""
    return msgspec.json.encode(plain(record))


def plain(record: object) -> Any:  # Any: JSON has values of any kind
    """Return the record as dictionaries, lists and plain values. Bytes become hexadecimal digits."""
    return _with_hex(msgspec.to_builtins(record, builtin_types=(bytes, datetime)))


def _with_hex(value: Any) -> Any:
    match value:
        case bytes():
            return value.hex()
        case Mapping():
            return {name: _with_hex(each) for name, each in value.items()}
        case list() | tuple():
            return [_with_hex(each) for each in value]
        case _:
            return value
