"""The attributes of topic objects: a record, and the table that its annotations make.

A row is like a row of `attributes.queue`: MQSC keyword, MQINQ selector, accepted values. An attribute whose value is in
`AS_PARENT` takes the value of the nearest parent topic that has another value. This module knows no topic tree.
Source: DEFINE TOPIC keywords and defaults; MQIA_*, MQCA_*, MQTA_*, MQDLV_*, MQSUB_*, MQUSEDLQ_* and MQSCOPE_* numbers.
"""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Annotated, Final

from msgspec import Struct

from mqflow.mqi.attributes.queue import AttributeSpec, name_row, row, table_of
from mqflow.mqi.topic_strings import TOPIC_STRING_CHARS_MAX

__all__ = ("AS_PARENT", "BASE_TOPIC", "TOPIC_ATTRIBUTES", "DeliveryRule", "TopicAttributes")

BASE_TOPIC: Final = "SYSTEM.BASE.TOPIC"
"""The topic object at the root of the topic tree: the last topic object that a search for an attribute reaches."""


class DeliveryRule(IntEnum):
    """MQDLV_*: the subscribers that must get a publication; otherwise the publish fails."""

    AS_PARENT = 0
    ALL = 1
    ALL_DURABLE = 2
    ALL_AVAILABLE = 3


def _words(keyword: str, selector: int, /, **words: int) -> AttributeSpec:
    return row(keyword, selector, words=words)


_DELIVERY: Final = {"ASPARENT": 0, "ALL": 1, "ALLDUR": 2, "ALLAVAIL": 3}


class TopicAttributes(Struct, frozen=True, kw_only=True):
    """The definition of a topic object, with MQ's numbers. The row of a field has MQSC's words for the numbers."""

    name: Annotated[str, row("TOPIC", 2092, chars=48, object_name=True, read_only=True)]
    topic_string: Annotated[str, row("TOPICSTR", 2094, chars=TOPIC_STRING_CHARS_MAX)] = ""
    description: Annotated[str, row("DESCR", 2093, chars=64)] = ""
    publish: Annotated[int, _words("PUB", 181, ASPARENT=0, DISABLED=1, ENABLED=2)] = 0
    subscribe: Annotated[int, _words("SUB", 182, ASPARENT=0, DISABLED=1, ENABLED=2)] = 0
    durable_subscriptions: Annotated[int, _words("DURSUB", 175, ASPARENT=0, YES=1, NO=2)] = 0
    default_persistence: Annotated[int, _words("DEFPSIST", 185, ASPARENT=-1, NO=0, YES=1)] = -1
    default_priority: Annotated[int, row("DEFPRTY", 6, low=0, high=9, words={"ASPARENT": -2})] = -2
    default_put_response: Annotated[int, _words("DEFPRESP", 184, ASPARENT=0, SYNC=1, ASYNC=2)] = 0
    #: PMSGDLV and NPMSGDLV: a `DeliveryRule`.
    persistent_delivery: Annotated[int, row("PMSGDLV", 195, words=_DELIVERY)] = 0
    nonpersistent_delivery: Annotated[int, row("NPMSGDLV", 196, words=_DELIVERY)] = 0
    #: MDURMDL and MNDURMDL: the models of managed queues; blank means as parent.
    durable_model: Annotated[str, name_row("MDURMDL", 2096)] = ""
    nondurable_model: Annotated[str, name_row("MNDURMDL", 2097)] = ""
    publication_scope: Annotated[int, _words("PUBSCOPE", 219, ALL=0, ASPARENT=1, QMGR=4)] = 1
    subscription_scope: Annotated[int, _words("SUBSCOPE", 218, ALL=0, ASPARENT=1, QMGR=4)] = 1
    use_dead_letter_queue: Annotated[int, _words("USEDLQ", 234, ASPARENT=0, NO=1, YES=2)] = 0
    wildcard: Annotated[int, _words("WILDCARD", 216, BLOCK=1, PASSTHRU=2)] = 2
    #: PROXYSUB: 1 force, 2 first use. Stored, but without effect: there is no other queue manager.
    proxy_subscriptions: Annotated[int, _words("PROXYSUB", 199, FORCE=1, FIRSTUSE=2)] = 2
    cluster: Annotated[str, row("CLUSTER", 2029, chars=48, object_name=True)] = ""
    custom: Annotated[str, row("CUSTOM", 2119, chars=128)] = ""
    alteration_date: Annotated[str, row("ALTDATE", 2027, chars=12, read_only=True)] = ""
    alteration_time: Annotated[str, row("ALTTIME", 2028, chars=8, read_only=True)] = ""


TOPIC_ATTRIBUTES: Final = table_of(TopicAttributes)
"""The attributes of topic objects; look-ups by keyword or selector are built from the table."""

_DEFAULTS: Final = TopicAttributes(name="")
# getattr: the names are the names of fields.
AS_PARENT: Final[Mapping[str, int | str]] = MappingProxyType({
    field: getattr(_DEFAULTS, field)
    for field in (
        *("publish", "subscribe", "durable_subscriptions", "default_persistence", "default_priority", "default_put_response"),
        *("persistent_delivery", "nonpersistent_delivery", "durable_model", "nondurable_model"),
        *("publication_scope", "subscription_scope", "use_dead_letter_queue"),
    )
})  # fmt: skip
"""Field -> the value that means "as parent": it is the default."""
