"""`Copybook`: the record of a copybook as a codec of mqflow, and as a type for handlers."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import msgspec

from mqflow import Message
from mqflow_copybook.formats import Float, Format, Text
from mqflow_copybook.items import Item, records
from mqflow_copybook.record import Chooser, Reader, Writer
from mqflow_copybook.source import CopybookError, statements
from mqflow_copybook.values import Machine, machine

__all__ = ("Copybook",)

_CCSID_EBCDIC: Final = 37
_ENCODING_ZOS: Final = 785
_CCSID_Q_MGR: Final = 0


class Copybook:
    """One record of a copybook. It is a codec: `codec=` of an application, a listener, a publisher or a put takes it."""

    def __init__(
        self,
        text: str,
        *,
        name: str = "RECORD",
        record: str = "",
        ccsid: int = _CCSID_EBCDIC,
        encoding: int = _ENCODING_ZOS,
        by_descriptor: bool = True,
        redefines: Mapping[str, Chooser] | None = None,
        longer: bool = False,
        free: bool | None = None,
    ) -> None:
        """Take the text of a copybook.

        If the copybook has several items of level 01, `record` names one of them. If it has no such item, `name` is the name of
        its record. Bodies are written in `ccsid` and `encoding` (MQENC_*). They are read as the MQMD says; with
        `by_descriptor=False`, in `ccsid` and `encoding`. `redefines` says which item a message has in a region with REDEFINES.
        Its keys are the first items of the regions. A value is the key of an item, or a function of the values before the
        region. `longer` permits a body with more bytes than its record. `free` is True for free form, False for columns 7 to
        72.

        Raises `CopybookError` for a copybook that cannot be used, and `MQIError` 2111 for an unknown CCSID.
        """
        self.record: Final[Item] = record_of(text, name=name, record=record, free=free)
        self._at: Final = machine(ccsid, encoding)
        self._encoding: Final = encoding
        self._by_descriptor: Final = by_descriptor
        self._longer: Final = longer
        self._redefines: Final = dict(redefines or {})
        for region in _regions(self.record):
            if region[0].key not in self._redefines:
                keys = " or ".join(repr(item.key) for item in region)
                raise region[1].statement.refused(
                    f"{region[0].key} is redefined. Say which description a message has: "
                    f"redefines={{{region[0].key!r}: {keys}}}, or a function of the values before it"
                )
        #: The record as a type. A handler can also take a type with the same fields, a TypedDict, or dict.
        self.type: Final[type[msgspec.Struct]] = _struct(self.record)

    @classmethod
    def read(cls, path: str | Path, **options: Any) -> "Copybook":  # the options of the constructor
        """Return the copybook of a file in UTF-8. Takes the options of the constructor; `name` is the name of the file."""
        file = Path(path)
        return cls(file.read_text("utf-8-sig"), **{"name": file.stem, **options})

    def decode(self, message: Message, payload_type: Any) -> Any:
        """Return the payload.

        Raises `ValueError`, mostly a `FieldError`, and `MQIError` 2111 for a body that is no such record.
        """
        parts, at = message.parts, self._at
        if self._by_descriptor and parts.ccsid != _CCSID_Q_MGR:
            at = machine(parts.ccsid, parts.encoding)
        values = self._values(parts.body, at)
        return values if payload_type is dict else msgspec.convert(values, payload_type)

    def encode(self, payload: Any) -> tuple[bytes, str, int, int]:
        """Return body, format (MQFMT_NONE), character set and encoding. Raises `FieldError`."""
        return self.to_bytes(payload), "", self._at.ccsid, self._encoding

    def from_bytes(self, body: bytes) -> dict[str, Any]:  # str, int, Decimal, float, lists and dicts of them
        """Return the values of a body in `ccsid` and `encoding`.

        Raises `FieldError`, and another `ValueError` for a body that is too long.
        """
        return self._values(body, self._at)

    def to_bytes(self, payload: Any) -> bytes:
        """Return the body of a record: an object of `type`, of a like type, or a dict. Raises `FieldError`."""
        writer = Writer(self._at, self._redefines)
        writer.group(self.record, msgspec.to_builtins(payload, builtin_types=(Decimal,)))
        return bytes(writer.data)

    def _values(self, body: bytes, at: Machine) -> dict[str, Any]:
        reader = Reader(body, at, self._redefines)
        values = reader.group(self.record)
        if len(body) > reader.offset and not self._longer:
            raise ValueError(
                f"The record {self.record.name} ends at offset {reader.offset}, and the body has {len(body)} bytes. "
                "Compare the copybook with the sender's; longer=True permits a longer body."
            )
        return values


def record_of(text: str, *, name: str, record: str = "", free: bool | None = None) -> Item:
    """Return the record of a copybook. Raises `CopybookError`."""
    found, wanted = records(statements(text, free=free), name.upper()), record.upper()
    matching = [item for item in found if not wanted or item.name == wanted]
    if len(matching) != 1:
        names = ", ".join(item.name or "FILLER" for item in found)
        raise CopybookError(f"The copybook has the records {names}: name one of them with record=.")
    return matching[0]


def _regions(item: Item) -> Iterator[tuple[Item, ...]]:
    """Yield each region with a redefinition."""
    for region in item.regions:
        if len(region) > 1:
            yield region
        for child in region:
            yield from _regions(child)


def _struct(item: Item) -> type[msgspec.Struct]:
    fields: list[Any] = []  # pairs of name and type, or with None as the default
    for region in item.regions:
        for child in filter(lambda each: each.key, region):
            of_one = python_type(child.format) if child.format else _struct(child)
            of_all = list[of_one] if child.occurs else of_one  # type: ignore[valid-type]  # made here
            fields.append((child.key, of_all | None, None) if len(region) > 1 else (child.key, of_all))
    return msgspec.defstruct(type_name(item), fields, kw_only=True)


def python_type(form: Format) -> type:
    """Return the type of the values of an item."""
    match form:
        case Text():
            return str
        case Float():
            return float
        case _:
            return Decimal if form.scale > 0 else int


def type_name(item: Item) -> str:
    """Return the name of the type of a group: CLAIM-LINE is ClaimLine."""
    return "".join(part.capitalize() for part in item.key.split("_"))
