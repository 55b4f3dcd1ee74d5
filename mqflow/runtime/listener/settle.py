"""Ends the units of work of one worker, and reports how each unit ended.

No unit is committed twice. This module knows the session of its worker, and decides nothing about messages.
"""

from collections.abc import Sequence
from typing import Final

from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Failed, Interrupted, Outcome, Settlement
from mqflow.runtime.connection.session import Session
from mqflow.runtime.listener.call_handler import COMPLETED
from mqflow.runtime.listener.delivery import Delivery
from mqflow.runtime.listener.listener_state import ListenerState
from mqflow.runtime.listener.worker_events import WorkerEvents
from mqflow.runtime.listener.worker_records import Recorder

__all__ = ("SessionLost", "Settler")


class SessionLost(Exception):  # noqa: N818 - an event, not an error of the caller
    """The session is lost. The queue manager backs the session's unit of work out, if it has not done so yet."""

    def __init__(self, error: MQIError) -> None:
        self.error = error
        super().__init__(str(error))


class Settler:
    """Settles the units of work of one session."""

    def __init__(self, state: ListenerState, session: Session, events: WorkerEvents, records: Recorder | None) -> None:
        self._state: Final = state
        self._session: Final = session
        self._events: Final = events
        self._records: Final = records
        #: The messages of the open unit of work; if the connection is lost, the queue manager backs them out.
        self._under_way: Sequence[Delivery] = ()

    @property
    def under_way(self) -> bool:
        """Whether a unit of work is open."""
        return bool(self._under_way)

    def begin(self, deliveries: Sequence[Delivery]) -> None:
        """Note that these messages were got in a new unit of work."""
        self._under_way = deliveries

    def lost(self, error: MQIError) -> None:
        """Report that the open unit of work, if there is one, was backed out with the loss of the connection."""
        deliveries, self._under_way = self._under_way, ()
        if deliveries:
            why = Interrupted(f"the connection was lost: {error}")
            self._events.settled(Settlement.BACKOUT, message_ids(deliveries), why, deliveries[0].handled_s)

    async def commit(self, handled: Sequence[Delivery] | None) -> None:
        """Commit a unit of work that was handled, without a get of the next unit. None means that there is no such unit."""
        if handled is None:
            return
        try:
            await self._session.settle(Settlement.COMMIT)
        except MQIError as error:
            await self.committed(handled, error)
        else:
            await self.committed(handled, None)

    async def committed(self, handled: Sequence[Delivery], error: MQIError | None) -> None:
        """Report how the commit of a handled unit ended.

        The error 2003 means that the unit was backed out. After any other error the unit is in doubt, and `SessionLost` is
        raised.
        """
        if error is None or error.reason != Reason.BACKED_OUT:
            self._under_way = ()
        ids = message_ids(handled)
        if error is None:
            if handled[-1].got.descriptor.backout_count:
                self._state.forget(ids[-1])
            self._state.accept()
            self._events.settled(Settlement.COMMIT, ids, COMPLETED, handled[0].handled_s)
            return
        if error.reason == Reason.BACKED_OUT:
            # The unit of work is gone, but 2003 asks for an MQBACK before the next one begins.
            await self.back_out(handled, None, Failed("MQRC_BACKED_OUT", str(error)))
            return
        puts = tuple(identifier for delivery in handled for identifier in delivery.put_message_ids)
        self._events.in_doubt(error, ids, puts)
        raise SessionLost(error)

    async def back_out(
        self, deliveries: Sequence[Delivery], failed_delivery: Delivery | None, outcome: Outcome | None, *, moved: bool = False
    ) -> None:
        """Back the unit out. The backout counts as a failed attempt only for `failed_delivery`, not for the other deliveries.

        With `moved`, the caller moves the message next and records that move, so its rollback is not recorded here.
        """
        try:
            await self._session.settle(Settlement.BACKOUT)
        except MQIError as error:  # a connection that cannot even back out is dead
            raise SessionLost(error) from error
        self._under_way = ()
        for delivery in deliveries:
            if delivery is not failed_delivery:
                self._state.forgive(delivery.got.descriptor.message_id)
        self._events.settled(Settlement.BACKOUT, message_ids(deliveries), outcome, deliveries[0].handled_s)
        if self._records is not None:
            rolled_back = [delivery for delivery in deliveries if not (moved and delivery is failed_delivery)]
            await self._records.rolled_back(rolled_back, failed_delivery, outcome)


def message_ids(deliveries: Sequence[Delivery]) -> tuple[bytes, ...]:
    """Return the MsgId of each delivery."""
    return tuple(delivery.got.descriptor.message_id for delivery in deliveries)
