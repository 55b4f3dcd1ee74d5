"""The queues, topics and other objects that every queue manager is created with: the starting point of definitions.

Data only. Source: IBM q081550 for the names. CHCKCLNT(NONE), which asks no client for a password, is what this queue manager
does; it is not IBM's default.
"""

from typing import Final

from mqflow.embedded.catalogue.kinds import DefinedObject
from mqflow.mqi.attributes.channel import ChannelAttributes, ChannelType
from mqflow.mqi.attributes.objects import (
    AuthenticationAttributes,
    ListenerAttributes,
    NamelistAttributes,
    ProcessAttributes,
    ServiceAttributes,
)
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.attributes.topic import BASE_TOPIC, TopicAttributes
from mqflow.mqi.options import QueueType

__all__ = ("BASE", "STAGING_QUEUE", "SYSTEM_OBJECTS", "SYSTEM_QUEUES", "SYSTEM_TOPICS", "default_object")

STAGING_QUEUE: Final = "SYSTEM.DDELAY.LOCAL.QUEUE"
"""The queue on which delayed messages wait."""

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
"""SYSTEM.BASE.TOPIC as a queue manager is created with it; what it leaves to a parent it does not have, this says."""

_PERMANENT_DYNAMIC: Final = 2
_TEMPORARY_DYNAMIC: Final = 3

SYSTEM_QUEUES: Final[tuple[QueueAttributes, ...]] = (
    QueueAttributes(name="SYSTEM.DEAD.LETTER.QUEUE", max_depth=999_999_999),
    QueueAttributes(
        name="SYSTEM.ADMIN.COMMAND.QUEUE", description="Commands for the queue manager", harden_get_backout=True, max_depth=3000
    ),
    QueueAttributes(name="SYSTEM.DEFAULT.LOCAL.QUEUE"),
    QueueAttributes(name="SYSTEM.DEFAULT.ALIAS.QUEUE", kind=QueueType.ALIAS),
    QueueAttributes(name="SYSTEM.DEFAULT.MODEL.QUEUE", kind=QueueType.MODEL, definition_type=_TEMPORARY_DYNAMIC),
    QueueAttributes(name="SYSTEM.DURABLE.MODEL.QUEUE", kind=QueueType.MODEL, definition_type=_PERMANENT_DYNAMIC),
    QueueAttributes(name="SYSTEM.NDURABLE.MODEL.QUEUE", kind=QueueType.MODEL, definition_type=_TEMPORARY_DYNAMIC),
    # Long enough for any message and its header, deep enough for any load; the header counts for MAXMSGL of the queue manager.
    QueueAttributes(name=STAGING_QUEUE, default_persistence=1, max_depth=999_999_999, max_message_bytes=104_857_600),
)

SYSTEM_TOPICS: Final = (BASE, TopicAttributes(name="SYSTEM.DEFAULT.TOPIC"))
"""A queue manager of before there were topics gets them when it is opened."""

_THREAD: Final = 2
_NONE: Final = 1


def _channel(name: str, kind: ChannelType) -> ChannelAttributes:
    clustered = kind in {ChannelType.CLUSSDR, ChannelType.CLUSRCVR}
    return ChannelAttributes(
        name=name,
        kind=kind,
        mca_type=_THREAD if clustered else 1,
        # A client that says nothing is not ended.
        disconnect_s=0 if kind is ChannelType.SVRCONN else 6_000,
    )


_CHANNELS: Final = tuple(_channel(f"SYSTEM.DEF.{kind.name}", kind) for kind in ChannelType)

SYSTEM_OBJECTS: Final[tuple[DefinedObject, ...]] = (
    *_CHANNELS,
    _channel("SYSTEM.AUTO.RECEIVER", ChannelType.RECEIVER),
    _channel("SYSTEM.AUTO.SVRCONN", ChannelType.SVRCONN),
    NamelistAttributes(name="SYSTEM.DEFAULT.NAMELIST"),
    ProcessAttributes(name="SYSTEM.DEFAULT.PROCESS"),
    AuthenticationAttributes(name="SYSTEM.DEFAULT.AUTHINFO.CRLLDAP", kind=1),
    AuthenticationAttributes(name="SYSTEM.DEFAULT.AUTHINFO.OCSP", kind=2),
    AuthenticationAttributes(name="SYSTEM.DEFAULT.AUTHINFO.IDPWOS", kind=3, check_local=_NONE, check_client=_NONE),
    AuthenticationAttributes(name="SYSTEM.DEFAULT.AUTHINFO.IDPWLDAP", kind=4, check_local=_NONE, check_client=_NONE),
    ListenerAttributes(name="SYSTEM.DEFAULT.LISTENER.TCP"),
    ServiceAttributes(name="SYSTEM.DEFAULT.SERVICE"),
)
_BY_NAME: Final = {(type(made), made.name): made for made in SYSTEM_OBJECTS}


def default_object(record: type[DefinedObject], name: str) -> DefinedObject:
    """Return a default object as it was created; for where somebody deleted it."""
    return _BY_NAME[record, name]
