"""The queues and topics every queue manager is created with.

Source: IBM q081550 for the names.
"""

from typing import Final

from mqflow.embedded.state.staging_order import STAGING_QUEUE
from mqflow.embedded.state.topic_tree import BASE
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.attributes.topic import TopicAttributes
from mqflow.mqi.options import QueueType

__all__ = ("SYSTEM_QUEUES", "SYSTEM_TOPICS")

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
