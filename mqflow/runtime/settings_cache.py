"""The attributes that backout decisions need: inquired when first needed, kept for one generation of the connection.

Source: IBM q032280: the attributes are queried "the first time they detect a message that has a BackoutCount greater than zero"
and "are then cached". They die with the connection: a failover may lead to a queue manager that says otherwise.
"""

from typing import Final

from msgspec import Struct

from mqflow.mqi.attributes import QueueAttributes
from mqflow.policy import backout
from mqflow.runtime.session import Session
from mqflow.verbs import inquire_base_queue, inquire_queue_manager

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


class SettingsCache:
    """Of one listener, shared by its workers."""

    def __init__(self, queue: str, threshold: int | None, backout_queue: str | None) -> None:
        #: Of a subscription known only once it is there; whoever sets it calls `forget`.
        self.queue = queue
        self._threshold: Final = threshold
        self._backout_queue: Final = backout_queue
        self._kept: tuple[int, BackoutSettings] | None = None

    async def get(self, session: Session, generation: int) -> BackoutSettings:
        """Return the settings of this generation, inquired on this session where nobody has yet. Raises `MQIError`."""
        if self._kept is None or self._kept[0] != generation:
            self._kept = (generation, await self.inquire(session))
        return self._kept[1]

    @property
    def known(self) -> BackoutSettings | None:
        """What was inquired last, if anything was; for who tells, not for who decides."""
        return self._kept[1] if self._kept else None

    def forget(self) -> None:
        """Inquire again when next needed."""
        self._kept = None

    async def inquire(self, session: Session) -> BackoutSettings:
        """Return the settings as they are now, and keep nothing."""
        queue = await session.call(inquire_base_queue, session.connection, self.queue)
        manager = await session.call(inquire_queue_manager, session.connection)
        attributes, threshold_source, queue_source = backout.effective(
            queue, threshold=self._threshold, queue=self._backout_queue
        )
        return BackoutSettings(attributes, manager.dead_letter_queue, threshold_source, queue_source)
