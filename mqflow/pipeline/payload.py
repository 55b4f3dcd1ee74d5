"""The option for the part of a message's data that leaves the journal: all, the first bytes, only the hash, or nothing.

The option protects data that some readers of the tables must not see. This file is pure, except for Arrow, and knows no source.
"""

from typing import Final, Literal

from msgspec import Struct

from mqflow.pipeline.errors import OptionError
from mqflow.pipeline.extras import pa, pc

__all__ = ("FULL", "Payload", "limited", "payload_of")

_FORMS: Final = "none, hash, head:N (the first N bytes) or full"
_DIGITS_MAX: Final = 9
"""A message has at most 104,857,600 bytes."""


class Payload(Struct, frozen=True):
    """The part of each message's data that the tables keep."""

    kind: Literal["none", "hash", "head", "full"] = "full"
    head_bytes: int = 0


FULL: Final = Payload()


def payload_of(text: str) -> Payload:
    """Parse the option. Raises `OptionError`, which lists the accepted forms, for any other text."""
    match text.split(":"):
        case ["none" | "hash" | "full" as kind]:
            return Payload(kind)
        case ["head", number] if number.isascii() and number.isdigit() and len(number) <= _DIGITS_MAX:
            return Payload("head", int(number))
        case _:
            raise OptionError(f"payload={text!r} is not known. Use {_FORMS}.")


def limited(batch: "pa.RecordBatch", payload: Payload) -> "pa.RecordBatch":
    """Return the batch with `body` and `raw` (an unreadable record) cut; `body_truncated` marks cut bodies.

    Columns that reveal data are cut as well. These columns are `exc_message`, in which programs quote data, and `rfh2`.
    `rfh2` is removed whole because properties cannot be cut at a byte. `none` also removes `body_sha256`; the other kinds
    keep it, and it is always the hash of the whole body.
    """
    if payload.kind == "full":
        return batch
    for name in ("body", "raw", "exc_message"):
        if name in batch.schema.names:
            batch = _cut(batch, name, payload)
    for name in ("rfh2", *(("body_sha256",) if payload.kind == "none" else ())):
        if name in batch.schema.names:
            batch = _without(batch, name)
    return batch


def _cut(batch: "pa.RecordBatch", name: str, payload: Payload) -> "pa.RecordBatch":
    kept = payload.head_bytes if payload.kind == "head" else 0
    whole = batch.column(name)
    if name == "body" and "body_truncated" in batch.schema.names:
        cut = pc.call_function("greater", [pc.call_function("binary_length", [whole]), kept])
        at = batch.schema.get_field_index("body_truncated")
        either = pc.call_function("or_kleene", [batch.column(at), cut])
        batch = batch.set_column(at, batch.schema.field(at), either)
    if payload.kind != "head":
        return _without(batch, name)
    at = batch.schema.get_field_index(name)
    slicing = "utf8_slice_codeunits" if name == "exc_message" else "binary_slice"
    return batch.set_column(at, batch.schema.field(at), pc.call_function(slicing, [whole], pc.SliceOptions(0, kept)))


def _without(batch: "pa.RecordBatch", name: str) -> "pa.RecordBatch":
    at = batch.schema.get_field_index(name)
    field = batch.schema.field(at)
    return batch.set_column(at, field, pa.nulls(batch.num_rows, field.type))
