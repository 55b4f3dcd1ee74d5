"""Inquires the attributes that backout decisions need, when they are first needed, and keeps them until the next reconnection.

Source: IBM q032280: the attributes are queried "the first time they detect a message that has a BackoutCount greater than zero"
and "are then cached"; the user "must have inquire access on the local queue". mqflow needs no other authority for them, because
the handle that is open already leads to the local queue behind an alias. After a failover, another queue manager can have
other attributes, so they are inquired again. If any queue manager of a group can answer, the workers can be connected to
several queue managers at the same time. Then each queue manager has its own entry.
"""

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from mqflow.many_verbs import inquire_base_queue, inquire_dead_letter_queue
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison import backout
from mqflow.policy.poison.disposition import DISPOSITIONS, Behaviour, Deliver
from mqflow.policy.reconnect.reason_classes import needs_reconnect
from mqflow.runtime.connection.session import Session
from mqflow.runtime.listener.delivery import Decide
from mqflow.verbs import ObjectHandle

__all__ = ("BackoutSettings", "SettingsCache", "why_unknown")


class BackoutSettings(Struct, frozen=True):
    """The attributes of one queue that a backout decision needs."""

    #: The attributes of the local queue behind an alias. The listener's own settings replace them.
    attributes: QueueAttributes
    #: DEADQ; empty if the queue manager has no dead-letter queue, or if the user may not inquire the queue manager.
    dead_letter_queue: str
    #: The sources of the threshold and of the backout queue, for people: "BOTHRESH of ORDERS.IN", "the listener".
    threshold_source: str
    queue_source: str
    #: The generation (the number of reconnections) of the connection on which the attributes were inquired.
    generation: int = 0
    #: True if the dead-letter queue is not known, because the user may not inquire the queue manager.
    dead_letter_queue_unknown: bool = False

    def kept(self, plan: backout.Plan, descriptor: MessageDescriptor, behaviour: Behaviour) -> backout.Plan:
        """Return the plan.

        If the dead-letter queue is not known, no message is discarded only because that queue is missing.
        """
        return backout.keeping(plan, descriptor, behaviour) if self.dead_letter_queue_unknown else plan

    def planned(
        self, decide: Decide, descriptor: MessageDescriptor, behaviour: Behaviour, tell: Callable[[str], None]
    ) -> backout.Plan:
        """Return the plan that `decide` makes. If it fails or returns no plan, deliver the message; `tell` gets the problem."""
        try:
            # Any: the application's function may return a value of another type than its annotation says.
            plan: Any = decide(descriptor, self.attributes, self.dead_letter_queue, behaviour)
            if isinstance(plan, tuple) and plan and all(isinstance(each, DISPOSITIONS) for each in plan):
                return self.kept(plan, descriptor, behaviour)
            tell(f"it returned {plan!r:.80}, and not a tuple of dispositions")
        except Exception as error:  # noqa: BLE001 - the application's own code, like a handler
            tell(f"{type(error).__name__}: {error}")
        return (Deliver(),)


class SettingsCache:
    """Caches the settings of one listener for all its workers."""

    def __init__(
        self, threshold: int | None, backout_queue: str | None, behaviour: Behaviour, warn: Callable[[str], None]
    ) -> None:
        """Take the listener's own settings, and a function that warns an operator about a refused inquiry."""
        self._threshold: Final = threshold
        self._backout_queue: Final = backout_queue
        self._warn: Final = warn
        #: The settings for each generation, queue manager and local queue. The last entry is the latest.
        self._kept: dict[tuple[int, str, str], BackoutSettings] = {}
        self._behaviour: Final = behaviour
        #: True if a message is poison after its first backout, or if the attributes of the queue are not known yet.
        self.first_backout_is_poison: bool = True
        #: The queue managers that refused the last inquiry of the local queue, or of the queue manager itself.
        self._refused: set[str] = set()
        self._unknown: set[str] = set()

    async def get(self, session: Session, handle: ObjectHandle, generation: int) -> BackoutSettings:
        """Return the settings of the queue that the handle is open for. Inquire them once in a generation.

        Raises `MQIError` if the threshold or the backout requeue queue cannot be found out.
        """
        key = (generation, session.connection.queue_manager_name, _local_queue(handle))
        settings = self._kept.get(key)
        if settings is None or settings.dead_letter_queue_unknown:  # an administrator can grant the authority at any time
            settings = await self._inquire_or_note(session, handle, generation)
            self._kept = {kept: known for kept, known in self._kept.items() if kept[0] == generation}
            self._kept[key] = settings
        return settings

    @property
    def known(self) -> BackoutSettings | None:
        """The settings that were inquired last, or None. Use them for reports, not for decisions."""
        return next(reversed(self._kept.values()), None)

    def refused(self, session: Session) -> bool:
        """Return whether this queue manager refused the last inquiry. If so, call `retry` before the next get.

        A message that is got without the settings can only be backed out again, and that raises its BackoutCount.
        """
        return bool(self._refused) and session.connection.queue_manager_name in self._refused

    async def retry(self, session: Session, handle: ObjectHandle, generation: int) -> None:
        """Inquire again if the last inquiry was refused. Raises the `MQIError` of a second refusal."""
        if self.refused(session):
            await self.get(session, handle, generation)

    async def inquire(self, session: Session, handle: ObjectHandle, generation: int = 0) -> BackoutSettings:
        """Inquire and return the current settings, without the cache. Raises `MQIError` like `get`.

        The inquiry needs the authority to inquire the local queue. If the listener sets both the threshold and the backout
        requeue queue, this authority is not needed: then the other attributes have their default values.
        """
        connection, name = session.connection, _local_queue(handle)
        try:
            queue = await session.call(inquire_base_queue, connection, name)
        except MQIError as error:
            if error.reason != Reason.NOT_AUTHORIZED or self._threshold is None or self._backout_queue is None:
                raise
            queue = QueueAttributes(name=name)
        dead_letter_queue, refusal = await session.call(inquire_dead_letter_queue, connection)
        self._tell(connection.queue_manager_name, refusal)
        attributes, threshold_source, queue_source = backout.effective(
            queue, threshold=self._threshold, queue=self._backout_queue
        )
        self.first_backout_is_poison = backout.is_poison_at_first(attributes, self._behaviour)
        unknown = refusal is not None
        return BackoutSettings(attributes, dead_letter_queue, threshold_source, queue_source, generation, unknown)

    async def _inquire_or_note(self, session: Session, handle: ObjectHandle, generation: int) -> BackoutSettings:
        queue_manager = session.connection.queue_manager_name
        try:
            settings = await self.inquire(session, handle, generation)
        except MQIError as error:
            if not needs_reconnect(error):
                self._refused.add(queue_manager)
            raise
        self._refused.discard(queue_manager)
        return settings

    def _tell(self, queue_manager: str, refusal: MQIError | None) -> None:
        """Warn once if the dead-letter queue is not known."""
        if refusal is None:
            self._unknown.discard(queue_manager)
        elif queue_manager not in self._unknown:
            self._unknown.add(queue_manager)
            self._warn(
                "the name of the dead-letter queue cannot be inquired, so a poison message that the backout requeue queue does "
                f"not take stays on its queue. {refusal}"
            )


def why_unknown(error: MQIError) -> str:
    """Return in words why the listener gets no messages after a refused inquiry."""
    return f"without BOTHRESH and BOQNAME nobody knows whether a message is poison: {error}"


def _local_queue(handle: ObjectHandle) -> str:
    return handle.resolved_queue or handle.name
