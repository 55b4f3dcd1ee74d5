"""The fields of a message: of its MQMD and of its headers, and its body. Two messages are compared field by field."""

from collections.abc import Mapping

from msgspec.structs import asdict

from mqflow.mqi.headers.chain import split
from mqflow.mqi.headers.dead_letter import DeadLetterHeader
from mqflow.verbs import Got

__all__ = ("different", "fields")


def fields(got: Got) -> Mapping[str, object]:
    """Return every field of the descriptor and of the headers, the folders of the MQRFH2, and the body."""
    headers = split(got.descriptor, got.body)
    found = {f"MQMD.{name}": value for name, value in asdict(got.descriptor).items()}
    for header in headers.chain:
        kind = "MQDLH" if isinstance(header, DeadLetterHeader) else "MQRFH2"
        found |= {f"{kind}.{name}": value for name, value in asdict(header).items()}
    return found | {"body": headers.body}


def different(one: Got, other: Got) -> set[str]:
    """Return the names of the fields with different values."""
    values, others = fields(one), fields(other)
    return {name for name in values.keys() | others.keys() if values.get(name) != others.get(name)}
