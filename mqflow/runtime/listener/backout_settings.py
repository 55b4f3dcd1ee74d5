"""The attributes that backout decisions need: inquired at the first use, and kept for one generation of the connection.

Source: IBM q032280: the attributes are queried "the first time they detect a message that has a BackoutCount greater than zero"
and "are then cached". The cache ends with the connection: after a failover, another queue manager can have other attributes. If
any queue manager of a group can answer, one generation can have connections to several queue managers: each of them has its
own entry.
"""

from typing import Final

from msgspec import Struct

from mqflow.many_verbs import inquire_base_queue, inquire_queue_manager
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.policy.poison import backout
from mqflow.runtime.connection.session import Session

__all__ = ("BackoutSettings", "SettingsCache")


class BackoutSettings(Struct, frozen=True):
    """The attributes of one queue that a backout decision is based on."""

    #: The attributes of the local queue behind an alias; the listener's own settings override them.
    attributes: QueueAttributes
    #: DEADQ; empty if the queue manager has no dead-letter queue.
    dead_letter_queue: str
    #: The sources of the two settings, for people: "BOTHRESH of ORDERS.IN", "the listener".
    threshold_source: str
    queue_source: str
    #: The generation of the connection on which the attributes were inquired.
    generation: int = 0


class SettingsCache:
    """Caches the settings of one listener for all its workers."""

    def __init__(self, queue: str, threshold: int | None, backout_queue: str | None) -> None:
        #: The queue of a subscription is known only after MQSUB; the code that sets it calls `forget`.
        self.queue = queue
        self._threshold: Final = threshold
        self._backout_queue: Final = backout_queue
        #: The settings, by generation and by name of the queue manager. The last entry is the latest.
        self._kept: dict[tuple[int, str], BackoutSettings] = {}

    async def get(self, session: Session, generation: int) -> BackoutSettings:
        """Return the settings of this session's queue manager; inquire them once in a generation. Raises `MQIError`."""
        key = (generation, session.connection.queue_manager_name)
        settings = self._kept.get(key)
        if settings is None:
            settings = await self.inquire(session, generation)
            self._kept = {kept: known for kept, known in self._kept.items() if kept[0] == generation}
            self._kept[key] = settings
        return settings

    @property
    def known(self) -> BackoutSettings | None:
        """The settings that were inquired last, or None. Use them for reports, not for decisions."""
        return next(reversed(self._kept.values()), None)

    def forget(self) -> None:
        """Forget the settings; the next `get` inquires them again."""
        self._kept.clear()

    async def inquire(self, session: Session, generation: int = 0) -> BackoutSettings:
        """Inquire and return the current settings, without the cache. Raises `MQIError`."""
        queue = await session.call(inquire_base_queue, session.connection, self.queue)
        manager = await session.call(inquire_queue_manager, session.connection)
        attributes, threshold_source, queue_source = backout.effective(
            queue, threshold=self._threshold, queue=self._backout_queue
        )
        return BackoutSettings(attributes, manager.dead_letter_queue, threshold_source, queue_source, generation)
