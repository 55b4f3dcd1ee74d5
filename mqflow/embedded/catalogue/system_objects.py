"""The queues, topics and other objects of a new queue manager. DEFINE copies its defaults from some of these objects.

This file has data only. Source: IBM q081550 for the names. Unlike IBM's default, CHCKCLNT is NONE: clients need no password.
"""

from typing import Final

from mqflow.embedded.catalogue.kinds import DEFINED_KINDS, DefinedObject, Noun, defined_object
from mqflow.mqi.attributes.channel import ChannelType
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.attributes.topic import BASE_TOPIC, TopicAttributes
from mqflow.mqi.options import QueueType

__all__ = (
    "BASE",
    "COMMAND_EVENTS",
    "COMMAND_QUEUE",
    "PERFORMANCE_EVENTS",
    "QUEUE_MANAGER_EVENTS",
    "RESOURCE_TOPICS",
    "STAGING_QUEUE",
    "SYSTEM_OBJECTS",
    "SYSTEM_QUEUES",
    "SYSTEM_TOPICS",
    "default_object",
)

COMMAND_QUEUE: Final = "SYSTEM.ADMIN.COMMAND.QUEUE"
STAGING_QUEUE: Final = "SYSTEM.DDELAY.LOCAL.QUEUE"
"""The queue for staged messages, which wait here for the end of their delay."""

BASE: Final = TopicAttributes(
    name=BASE_TOPIC,
    description="Base topic for resolving attributes",
    publish=2,
    subscribe=2,
    durable_subscriptions=1,
    default_persistence=0,
    default_priority=0,
    default_put_response=1,
    persistent_delivery=2,
    nonpersistent_delivery=3,
    durable_model="SYSTEM.DURABLE.MODEL.QUEUE",
    nondurable_model="SYSTEM.NDURABLE.MODEL.QUEUE",
    publication_scope=0,
    subscription_scope=0,
    use_dead_letter_queue=2,
)
"""SYSTEM.BASE.TOPIC of a new queue manager. It has no parent topic, so a look-up of an ASPARENT value ends here."""

_BLOCK: Final = 1
_PERMANENT_DYNAMIC: Final = 2
_TEMPORARY_DYNAMIC: Final = 3

PERFORMANCE_EVENTS: Final = "SYSTEM.ADMIN.PERFM.EVENT"
QUEUE_MANAGER_EVENTS: Final = "SYSTEM.ADMIN.QMGR.EVENT"
COMMAND_EVENTS: Final = "SYSTEM.ADMIN.COMMAND.EVENT"

_ADMINISTRATION: Final = (
    *("ACCOUNTING.QUEUE", "ACTIVITY.QUEUE", "STATISTICS.QUEUE", "TRACE.ACTIVITY.QUEUE", "TRACE.ROUTE.QUEUE"),
    *("CHANNEL.EVENT", "COMMAND.EVENT", "CONFIG.EVENT", "LOGGER.EVENT", "PERFM.EVENT", "PUBSUB.EVENT", "QMGR.EVENT"),
)
_OTHERS: Final = (
    *("BROKER.ADMIN.STREAM", "BROKER.CONTROL.QUEUE", "BROKER.DEFAULT.STREAM", "BROKER.INTER.BROKER.COMMUNICATIONS"),
    *("CHANNEL.INITQ", "CICS.INITIATION.QUEUE", "DEFAULT.INITIATION.QUEUE", "DURABLE.SUBSCRIBER.QUEUE"),
    *("INTERNAL.REPLY.QUEUE", "PENDING.DATA.QUEUE", "RETAINED.PUB.QUEUE"),
)
_REPLIES: Final = ("JMS.TEMPQ.MODEL", "MQEXPLORER.REPLY.MODEL", "MQSC.REPLY.QUEUE")

SYSTEM_QUEUES: Final[tuple[QueueAttributes, ...]] = (
    QueueAttributes(name="SYSTEM.DEAD.LETTER.QUEUE", max_depth=999_999_999),
    QueueAttributes(name=COMMAND_QUEUE, description="Commands for the queue manager", harden_get_backout=True, max_depth=3000),
    QueueAttributes(name="SYSTEM.DEFAULT.LOCAL.QUEUE"),
    QueueAttributes(name="SYSTEM.DEFAULT.ALIAS.QUEUE", kind=QueueType.ALIAS),
    QueueAttributes(name="SYSTEM.DEFAULT.REMOTE.QUEUE", kind=QueueType.REMOTE),
    QueueAttributes(name="SYSTEM.DEFAULT.MODEL.QUEUE", kind=QueueType.MODEL, definition_type=_TEMPORARY_DYNAMIC),
    QueueAttributes(name="SYSTEM.DURABLE.MODEL.QUEUE", kind=QueueType.MODEL, definition_type=_PERMANENT_DYNAMIC),
    QueueAttributes(name="SYSTEM.NDURABLE.MODEL.QUEUE", kind=QueueType.MODEL, definition_type=_TEMPORARY_DYNAMIC),
    # The queue has room for any number of messages, and for the longest message with its header: MAXMSGL is that of the
    # queue manager.
    QueueAttributes(name=STAGING_QUEUE, default_persistence=1, max_depth=999_999_999, max_message_bytes=104_857_600),
    *(QueueAttributes(name=f"SYSTEM.ADMIN.{name}") for name in _ADMINISTRATION),
    *(QueueAttributes(name=f"SYSTEM.{name}") for name in _OTHERS),
    *(QueueAttributes(name=f"SYSTEM.{name}", kind=QueueType.MODEL, definition_type=_TEMPORARY_DYNAMIC) for name in _REPLIES),
)
"""The queues of a new queue manager. Some stay empty: mqflow lacks the feature that uses them, but programs expect them."""

RESOURCE_TOPICS: Final = "$SYS/MQ/INFO/QMGR/"
"""The topics on which queue managers publish their figures. The name of a queue manager follows."""

SYSTEM_TOPICS: Final = (
    BASE,
    TopicAttributes(name="SYSTEM.DEFAULT.TOPIC"),
    # A subscription to `#` gets none of the queue manager's own publications.
    TopicAttributes(name="SYSTEM.ADMIN.TOPIC", topic_string="$SYS/MQ", wildcard=_BLOCK),
)
"""The topics of a new queue manager. An older queue manager without them gets them at its next start."""

_T = ChannelType
_THREAD: Final = {"mca_type": 2}
_UNCHECKED: Final = {"check_local": 1, "check_client": 1}
_OTHERWISE: Final = {
    ("CHANNEL", _T.CLUSSDR): _THREAD,
    ("CHANNEL", _T.CLUSRCVR): _THREAD,
    # The queue manager does not disconnect a silent client.
    ("CHANNEL", _T.SVRCONN): {"disconnect_s": 0},
    ("AUTHINFO", 3): _UNCHECKED,
    ("AUTHINFO", 4): _UNCHECKED,
}
"""The attributes of a default object that differ from the defaults in the table of its kind."""


def _default(noun: Noun, name: str, kind: int) -> DefinedObject:
    return defined_object(noun, {"name": name, "kind": kind, **_OTHERWISE.get((noun, kind), {})})


SYSTEM_OBJECTS: Final[tuple[DefinedObject, ...]] = (
    *(_default(kind.noun, name, number) for kind in DEFINED_KINDS.values() for number, name in kind.defaults.items()),
    _default("CHANNEL", "SYSTEM.AUTO.RECEIVER", _T.RECEIVER),
    _default("CHANNEL", "SYSTEM.AUTO.SVRCONN", _T.SVRCONN),
)


def default_object(noun: Noun, kind: int) -> DefinedObject:
    """Return the original default object of a type, for a queue manager whose administrator has deleted it."""
    return _default(noun, DEFINED_KINDS[noun].defaults[kind], kind)
