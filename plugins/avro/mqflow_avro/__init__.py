"""Avro as a codec: the body of a message is one datum in Avro's binary encoding, and the program has the schema.

This module knows fastavro and the public names of mqflow.

Source: the Avro specification 1.11, and Confluent's wire format: a byte 0 and the number of the schema in four bytes.
"""

import struct
from datetime import date, datetime, time
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import fastavro
import msgspec
from fastavro._read_py import schemaless_reader as python_reader  # fastavro has no public name for its reader in Python
from fastavro.schema import SchemaParseException
from fastavro.validation import ValidationError, validate

from mqflow import Message

__all__ = ("Avro",)

_KEPT: Final = (bytes, date, datetime, time, Decimal, UUID)
"""The Python types of logical types that JSON does not have."""
_HEADER: Final = struct.Struct(">BI")
_SCHEMA_ID_MAX: Final = 2**32 - 1


class Avro:
    """A schema as a codec. A payload is a Struct, a dataclass, a TypedDict, a dict, or another value of the schema."""

    def __init__(self, schema: str | dict[str, Any] | list[Any], *, schema_id: int | None = None) -> None:
        """Take a schema: its JSON, or the same as Python objects.

        With `schema_id`, bodies begin with the number of the schema, as programs with a schema registry write them. A body with
        another number is refused: the codec asks no registry. Raises `ValueError` for an object that is no schema, and for a
        number that does not fit into four bytes.
        """
        if schema_id is not None and not 0 <= schema_id <= _SCHEMA_ID_MAX:
            raise ValueError(f"schema_id={schema_id}: the number of a schema is 0 to {_SCHEMA_ID_MAX}.")
        try:
            parsed = msgspec.json.decode(schema) if isinstance(schema, str) else schema
            self._schema: Final = fastavro.parse_schema(parsed)
        except (SchemaParseException, AttributeError, LookupError, TypeError, ValueError) as error:
            raise ValueError(f"This is no Avro schema: {type(error).__name__}: {error}") from error
        # A deep body of a recursive schema is a RecursionError in Python, but in C it ends the process.
        self._read: Final = python_reader if _is_recursive(self._schema) else fastavro.schemaless_reader
        self._header: Final = b"" if schema_id is None else _HEADER.pack(0, schema_id)

    @classmethod
    def read(cls, path: str | Path, *, schema_id: int | None = None) -> "Avro":
        """Return the codec of a schema in a file (.avsc)."""
        return cls(Path(path).read_text("utf-8-sig"), schema_id=schema_id)

    def decode(self, message: Message, payload_type: Any) -> Any:
        """Return the payload. Raises `ValueError` for a body that is not of the schema, or not of the type of the handler."""
        body = message.body
        if not body.startswith(self._header):
            begin, wanted = body[: _HEADER.size].hex(), self._header.hex()
            raise ValueError(f"The body begins with {begin}, and not with {wanted}: 00 and the number of the schema.")
        data = BytesIO(body[len(self._header) :])
        try:
            datum = self._read(data, self._schema, None)
        except (EOFError, ArithmeticError, LookupError, RecursionError, TypeError, ValueError, struct.error) as error:
            raise ValueError(f"The body is not of the Avro schema: {type(error).__name__}: {error}") from error
        if left := len(data.read()):
            raise ValueError(f"The body has {left} bytes after its datum. Compare the schema with the sender's.")
        return msgspec.convert(datum, payload_type)

    def encode(self, payload: Any) -> tuple[bytes, str, int]:
        """Return body, format (MQFMT_NONE) and character set. Raises `ValueError` for a payload that is not of the schema."""
        datum, data = msgspec.to_builtins(payload, builtin_types=_KEPT), BytesIO()
        data.write(self._header)
        try:
            validate(datum, self._schema, raise_errors=True)
            fastavro.schemaless_writer(data, self._schema, datum, strict=True)
        except ValidationError as error:
            raise ValueError(f"The payload is not of the Avro schema: {'; '.join(map(str, error.errors))}") from error
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise ValueError(f"The payload is not of the Avro schema: {error}") from error
        return data.getvalue(), "", 0


def _is_recursive(schema: Any, around: frozenset[str] = frozenset()) -> bool:  # a parsed schema: str, dict or list
    """Return whether a type contains itself. The names in `around` are the types that contain this schema."""
    if isinstance(schema, str):
        return schema in around
    if isinstance(schema, list):
        return any(_is_recursive(branch, around) for branch in schema)
    around |= {schema["name"]} if "fields" in schema else frozenset()
    parts = [schema[key] for key in ("type", "items", "values") if key in schema]
    return any(_is_recursive(part, around) for part in (*parts, *(field["type"] for field in schema.get("fields", ()))))
