"""The attributes of topic objects: a record, and the table of the attributes.

A row is like a row of `attributes.queue`: field, MQSC keyword, MQINQ selector, accepted values. An attribute whose value is in
`AS_PARENT` takes the value of the nearest parent topic that has another value. This module knows no topic tree.
Source: DEFINE TOPIC keywords and defaults; MQIA_*, MQCA_*, MQTA_*, MQDLV_*, MQSUB_*, MQUSEDLQ_* and MQSCOPE_* numbers.
"""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from mqflow.mqi.attributes.queue import AttributeSpec
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


class TopicAttributes(Struct, frozen=True, kw_only=True):
    """The definition of a topic object, with MQ's numbers. The table has MQSC's words for the numbers."""

    name: str
    topic_string: str = ""
    description: str = ""
    #: PUB and SUB: 0 as parent, 1 disabled, 2 enabled.
    publish: int = 0
    subscribe: int = 0
    #: DURSUB: 0 as parent, 1 yes, 2 no.
    durable_subscriptions: int = 0
    #: DEFPSIST: -1 as parent, 0 not persistent, 1 persistent. DEFPRTY: -2 as parent, or a priority.
    default_persistence: int = -1
    default_priority: int = -2
    #: DEFPRESP: 0 as parent, 1 sync, 2 async.
    default_put_response: int = 0
    #: PMSGDLV and NPMSGDLV: a `DeliveryRule`.
    persistent_delivery: int = 0
    nonpersistent_delivery: int = 0
    #: MDURMDL and MNDURMDL: the models of managed queues; blank means as parent.
    durable_model: str = ""
    nondurable_model: str = ""
    #: PUBSCOPE and SUBSCOPE: 0 all, 1 as parent, 4 this queue manager.
    publication_scope: int = 1
    subscription_scope: int = 1
    #: USEDLQ: 0 as parent, 1 no, 2 yes.
    use_dead_letter_queue: int = 0
    #: WILDCARD: 1 block, 2 pass through.
    wildcard: int = 2
    #: PROXYSUB: 1 force, 2 first use. Stored, but without effect: there is no other queue manager.
    proxy_subscriptions: int = 2
    cluster: str = ""
    custom: str = ""
    alteration_date: str = ""
    alteration_time: str = ""


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


def _words(field: str, keyword: str, selector: int, /, **words: int) -> AttributeSpec:
    return AttributeSpec(field, keyword, selector, words=words)


def _model(field: str, keyword: str, selector: int) -> AttributeSpec:
    return AttributeSpec(field, keyword, selector, chars=48, object_name=True)


_DELIVERY: Final = {"ASPARENT": 0, "ALL": 1, "ALLDUR": 2, "ALLAVAIL": 3}

TOPIC_ATTRIBUTES: Final[tuple[AttributeSpec, ...]] = (
    AttributeSpec("topic_string", "TOPICSTR", 2094, chars=TOPIC_STRING_CHARS_MAX),
    AttributeSpec("description", "DESCR", 2093, chars=64),
    _words("publish", "PUB", 181, ASPARENT=0, DISABLED=1, ENABLED=2),
    _words("subscribe", "SUB", 182, ASPARENT=0, DISABLED=1, ENABLED=2),
    _words("durable_subscriptions", "DURSUB", 175, ASPARENT=0, YES=1, NO=2),
    _words("default_persistence", "DEFPSIST", 185, ASPARENT=-1, NO=0, YES=1),
    AttributeSpec("default_priority", "DEFPRTY", 6, low=0, high=9, words={"ASPARENT": -2}),
    _words("default_put_response", "DEFPRESP", 184, ASPARENT=0, SYNC=1, ASYNC=2),
    AttributeSpec("persistent_delivery", "PMSGDLV", 195, words=_DELIVERY),
    AttributeSpec("nonpersistent_delivery", "NPMSGDLV", 196, words=_DELIVERY),
    _model("durable_model", "MDURMDL", 2096),
    _model("nondurable_model", "MNDURMDL", 2097),
    _words("publication_scope", "PUBSCOPE", 219, ALL=0, ASPARENT=1, QMGR=4),
    _words("subscription_scope", "SUBSCOPE", 218, ALL=0, ASPARENT=1, QMGR=4),
    _words("use_dead_letter_queue", "USEDLQ", 234, ASPARENT=0, NO=1, YES=2),
    _words("wildcard", "WILDCARD", 216, BLOCK=1, PASSTHRU=2),
    _words("proxy_subscriptions", "PROXYSUB", 199, FORCE=1, FIRSTUSE=2),
    AttributeSpec("cluster", "CLUSTER", 2029, chars=48, object_name=True),
    AttributeSpec("custom", "CUSTOM", 2119, chars=128),
    AttributeSpec("alteration_date", "ALTDATE", 2027, chars=12, read_only=True),
    AttributeSpec("alteration_time", "ALTTIME", 2028, chars=8, read_only=True),
    AttributeSpec("name", "TOPIC", 2092, chars=48, object_name=True, read_only=True),
)
"""The attributes of topic objects; look-ups by keyword or selector are built from the table."""
