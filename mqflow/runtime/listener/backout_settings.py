"""The attributes that backout decisions need: inquired when first needed, kept for one generation of the connection.

Source: IBM q032280: the attributes are queried "the first time they detect a message that has a BackoutCount greater than zero"
and "are then cached". They die with the connection: a failover may lead to a queue manager that says otherwise. Where any of a
group may answer, two connections of one generation may be to two of them: each has its own.
"""

from typing import Final

from msgspec import Struct

from mqflow.many_verbs import inquire_base_queue, inquire_queue_manager
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.policy.poison import backout
from mqflow.runtime.connection.session import Session

__all__ = ("BackoutSettings", "SettingsCache")


class BackoutSettings(Struct, frozen=True):
    """What a decision about messages of one queue is taken on."""

    #: Of the local queue behind an alias, with the listener's own settings laid over them.
    attributes: QueueAttributes
    #: DEADQ; empty where the queue manager has none.
    dead_letter_queue: str
    #: In words: "BOTHRESH of ORDERS.IN", "the listener".
    threshold_source: str
    queue_source: str
    #: Of the connection they were inquired on.
    generation: int = 0


class SettingsCache:
    """Of one listener, shared by its workers."""

    def __init__(self, queue: str, threshold: int | None, backout_queue: str | None) -> None:
        #: Of a subscription known only once it is there; whoever sets it calls `forget`.
        self.queue = queue
        self._threshold: Final = threshold
        self._backout_queue: Final = backout_queue
        #: By generation and the queue manager's name; the latest is last.
        self._kept: dict[tuple[int, str], BackoutSettings] = {}

    async def get(self, session: Session, generation: int) -> BackoutSettings:
        """Return what holds at this session's queue manager, inquired once in a generation. Raises `MQIError`."""
        key = (generation, session.connection.queue_manager_name)
        settings = self._kept.get(key)
        if settings is None:
            settings = await self.inquire(session, generation)
            self._kept = {kept: known for kept, known in self._kept.items() if kept[0] == generation}
            self._kept[key] = settings
        return settings

    @property
    def known(self) -> BackoutSettings | None:
        """What was inquired last, if anything was; for who tells, not for who decides."""
        return next(reversed(self._kept.values()), None)

    def forget(self) -> None:
        """Inquire again when next needed."""
        self._kept.clear()

    async def inquire(self, session: Session, generation: int = 0) -> BackoutSettings:
        """Return the settings as they are now, and keep nothing."""
        queue = await session.call(inquire_base_queue, session.connection, self.queue)
        manager = await session.call(inquire_queue_manager, session.connection)
        attributes, threshold_source, queue_source = backout.effective(
            queue, threshold=self._threshold, queue=self._backout_queue
        )
        return BackoutSettings(attributes, manager.dead_letter_queue, threshold_source, queue_source, generation)
