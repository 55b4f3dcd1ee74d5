"""The kinds of object other than queues, and how the store keeps the records of each kind.

A new kind needs a record type and a line in `KINDS`. This file has no rules for a particular kind; `calls/object_records.py`
and the other steps change the records.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from mqflow.embedded.catalogue.kinds import DEFINED_KINDS, DefinedObject, Noun, object_from
from mqflow.embedded.rules.channel_authentication import ChannelRule
from mqflow.embedded.state.steady_clock import ClockAnchor
from mqflow.embedded.storage.store import ObjectDefined, ObjectDeleted
from mqflow.mqi.attributes.topic import TopicAttributes
from mqflow.mqi.authority_records import AuthorityRecord
from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.subscription import RetainedPublication, SubscriptionAttributes

__all__ = ("KINDS", "Objects", "defined", "deleted", "kind_of", "load_objects", "word_of")

KINDS: Final[Mapping[str, type[Struct]]] = {
    "topic": TopicAttributes,
    "subscription": SubscriptionAttributes,
    "retained": RetainedPublication,
    "clock": ClockAnchor,
    "authority": AuthorityRecord,
    "channel_rule": ChannelRule,
    **{noun.lower(): DefinedObject for noun in DEFINED_KINDS},
}
"""The record type of each kind, by the word for the kind in the store. A word never changes: existing stores contain it."""

_KIND_OF: Final[Mapping[type[Struct], str]] = {record: kind for kind, record in KINDS.items() if record is not DefinedObject}
_encode = msgspec.msgpack.Encoder().encode

Objects = dict[str, dict[str, Struct]]
"""Records by kind and name. Every kind is present."""


def load_objects(stored: Iterable[ObjectDefined]) -> Objects:
    """Return the objects that a store has kept. Raises `MQIError` 2043 for an object that this mqflow does not know."""
    objects: Objects = {kind: {} for kind in KINDS}
    for found in stored:
        try:
            objects[found.kind][found.name] = _decoded(found)
        except (KeyError, msgspec.ValidationError) as error:
            # Without this object, the queue manager might not deliver to a subscriber, or might admit a user who has no access.
            why = f" ({error})" if found.kind in KINDS else ""
            detail = (
                f"It is of kind {found.kind}, which this mqflow does not know{why}. Open it with the newer one that wrote it"
            )
            raise error_for(Reason.OBJECT_TYPE_ERROR, "Opening the queue manager", found.name, detail=detail) from error
    return objects


def defined(name: str, record: Struct) -> ObjectDefined:
    """Return the change that stores the record."""
    return ObjectDefined(word_of(record), name, _encode(record.fields if isinstance(record, DefinedObject) else record))


def deleted(name: str, kind: type[Struct] | Noun) -> ObjectDeleted:
    """Return the change that deletes a record from the store."""
    return ObjectDeleted(kind_of(kind), name)


def kind_of(record: type[Struct] | Noun) -> str:
    """Return the word for this kind of record in the store."""
    return record.lower() if isinstance(record, str) else _KIND_OF[record]


def word_of(record: Struct) -> str:
    """Return the word for the kind of this record in the store."""
    return kind_of(record.noun if isinstance(record, DefinedObject) else type(record))


def _decoded(found: ObjectDefined) -> Struct:
    if KINDS[found.kind] is DefinedObject:
        return object_from(msgspec.msgpack.decode(found.attributes))
    record: Struct = msgspec.msgpack.decode(found.attributes, type=KINDS[found.kind])
    return record
