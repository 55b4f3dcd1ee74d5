"""The bounds of the columns of a Parquet file, for the log of a Delta table.

A reader can leave out a file whose bounds match no row of its filter. If only some columns of a file have bounds, deltalake
takes the other columns for null, and a filter on them finds no row. So a file has bounds for all columns or for none.
Source: Delta, "Per-file Statistics".
"""

import math
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from msgspec import Struct

from mqflow.pipeline.extras import pa, pq

__all__ = ("Bounds", "bounds_of")

_TEXT_CHARS_MAX: Final = 64
_LAST: Final = "\U0010ffff"
"""Comes after every character. A text with more characters than the maximum is shortened, and this makes it an upper bound."""

Bound = bool | int | float | str


class Bounds(Struct, frozen=True, rename="camel"):
    """The bounds of the columns that have values, and the number of nulls of each column. In JSON they have Delta's names."""

    min_values: dict[str, Bound]
    max_values: dict[str, Bound]
    null_count: dict[str, int]


def bounds_of(file: "pq.FileMetaData", schema: "pa.Schema") -> Bounds | None:
    """Return the bounds from the statistics of a file; None if they lack the bounds of a column with values."""
    found = Bounds({}, {}, {})
    columns = {file.schema.column(number).path: number for number in range(file.num_columns)}
    for field in schema:
        if not _is_bounded(field.type):
            continue
        parts = [file.row_group(group).column(columns[field.name]).statistics for group in range(file.num_row_groups)]
        if not all(each is not None and each.has_null_count for each in parts):
            return None
        found.null_count[field.name] = sum(each.null_count for each in parts)
        parts = [each for each in parts if each.num_values]
        if not parts:
            continue
        if not all(each.has_min_max for each in parts):
            return None
        try:
            least, most = _least(min(each.min for each in parts)), _most(max(each.max for each in parts))
        except (OverflowError, ValueError):  # Python has no such time; the end of the year 9999 has none after it
            return None
        if least is None or most is None:
            return None
        found.min_values[field.name], found.max_values[field.name] = least, most
    return found


def _is_bounded(kind: "pa.DataType") -> bool:
    """Return whether deltalake uses the bounds of such a column. It uses none of binary and nested columns."""
    types = pa.types
    return not (types.is_nested(kind) or types.is_binary(kind) or types.is_large_binary(kind))


def _least(value: Any) -> Bound | None:
    """Return the value as a lower bound in JSON; None if JSON has no such value."""
    match value:
        case str():
            return value[:_TEXT_CHARS_MAX]
        case datetime():
            return _moment(value)
        case _:
            return _plain(value)


def _most(value: Any) -> Bound | None:
    """Return the value as an upper bound in JSON; None if JSON has no such value."""
    match value:
        case str():
            return value if len(value) <= _TEXT_CHARS_MAX else value[:_TEXT_CHARS_MAX] + _LAST
        case datetime():
            return _moment(value + timedelta(milliseconds=1))
        case _:
            return _plain(value)


def _moment(value: datetime) -> str:
    """Return the time in milliseconds, the unit of the log."""
    zone = "" if value.tzinfo is None else "Z"
    at = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    return at.isoformat(timespec="milliseconds") + zone


def _plain(value: Any) -> Bound | None:
    match value:
        case bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else None
        case date():
            return value.isoformat()
        case _:
            return None  # for example a decimal number
