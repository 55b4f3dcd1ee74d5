"""Ends the units of work of one worker, and reports how each unit ended.

No unit is committed twice. This module knows the session of its worker, and decides nothing about messages.
"""

from collections.abc import Sequence
from typing import Final

import anyio

from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Failed, Interrupted, Settlement
from mqflow.runtime.connection.session import Session
from mqflow.runtime.listener.call_handler import COMPLETED
from mqflow.runtime.listener.delivery import Delivery
from mqflow.runtime.listener.listener_state import ListenerState
from mqflow.runtime.listener.unit import BackOut, Refusal, Unit
from mqflow.runtime.listener.worker_events import WorkerEvents
from mqflow.runtime.listener.worker_records import Recorder
from mqflow.runtime.message_notes import message_key

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
        #: The open unit of work; if the connection is lost, the queue manager backs it out.
        self._under_way: Unit | None = None

    @property
    def under_way(self) -> bool:
        """Whether a unit of work is open."""
        return self._under_way is not None

    def begin(self, unit: Unit) -> None:
        """Note that the messages of this unit were got."""
        self._under_way = unit

    def lost(self, error: MQIError) -> None:
        """Report that the open unit of work, if there is one, was backed out with the loss of the connection."""
        unit, self._under_way = self._under_way, None
        if unit is not None:
            why = Interrupted(f"the connection was lost: {error}")
            self._events.settled(Settlement.BACKOUT, unit.deliveries, why)

    async def commit(self, unit: Unit | None) -> None:
        """Commit a unit of work that was handled, without a get of the next unit. None means that there is no such unit."""
        if unit is None:
            return
        error: MQIError | None = None
        try:
            await self._session.settle(Settlement.COMMIT)
        except MQIError as refused:
            error = refused
        except BaseException:
            self.interrupted(unit)
            raise
        await self.committed(unit, error)

    async def committed(self, unit: Unit, error: MQIError | None) -> None:
        """Report how the commit of a handled unit ended.

        The error 2003 means that the unit was backed out. If the next unit is backed out too, the listener pauses. After any
        other error the unit is in doubt, and `SessionLost` is raised.
        """
        if error is None:
            self._under_way = None
            self._state.refused_commits = 0
            self._report(unit)
            return
        if error.reason == Reason.BACKED_OUT:
            # The unit of work is gone, but 2003 asks for an MQBACK before the next one begins.
            self._state.refused_commits += 1
            refusal = Refusal(f"the queue manager backed the unit of work out at its commit: {error}", int(error.reason))
            again = self._state.refused_commits > 1
            await self.back_out(unit, BackOut((), Failed("MQRC_BACKED_OUT", str(error)), refusal=refusal if again else None))
            return
        self._report_doubt(unit, error)
        raise SessionLost(error)

    def interrupted(self, unit: Unit) -> None:
        """Report that the commit of this unit is in doubt: a foreign cancellation interrupted the wait for its answer."""
        self._report_doubt(unit, error_for(Reason.CALL_INTERRUPTED, "MQCMIT", detail="The task of the worker was cancelled"))

    def _report_doubt(self, unit: Unit, error: MQIError) -> None:
        self._under_way = None
        puts = tuple(identifier for delivery in unit.deliveries for identifier in delivery.put_message_ids)
        self._events.in_doubt(error, message_ids(unit.deliveries), puts)

    def _report(self, unit: Unit) -> None:
        """Report the ends of all deliveries of a unit that was committed."""
        state, last = self._state, unit.deliveries[-1].got
        if last.descriptor.backout_count:
            state.notes.forget(message_key(last))
        completed = unit.completed
        if completed:
            state.accept()
            self._events.settled(Settlement.COMMIT, completed, COMPLETED)
        for staged in unit.staged:
            self._events.staged(staged)
        for disposed in unit.disposed:
            self._events.settled(Settlement.COMMIT, (disposed.delivery,), disposed.outcome if disposed.was_handled else None)
            state.moved(message_key(disposed.delivery.got))
            self._events.disposed(disposed)

    async def back_out(self, unit: Unit, step: BackOut) -> None:
        """Wait for the pause of the step, then back the unit out.

        The backout counts as a failed attempt of each message whose handler has failed in this unit, and of no other message.
        """
        try:
            if step.pause_s:
                await self._state.pause(step.pause_s)
        finally:
            with anyio.CancelScope(shield=True):
                await self._back_out(unit, step)

    async def _back_out(self, unit: Unit, step: BackOut) -> None:
        state = self._state
        failed = {
            *step.failed,
            *(each.delivery for each in unit.disposed if each.was_handled),
            *(each.delivery for each in unit.staged),
        }
        others = [delivery for delivery in unit.deliveries if delivery not in failed]
        # Noted before the backout, because other workers can get the messages directly after it.
        state.notes.forgive(message_key(delivery.got) for delivery in others)
        try:
            await self._session.settle(Settlement.BACKOUT)
        except MQIError as error:  # a connection that cannot even back out is dead
            raise SessionLost(error) from error
        self._under_way = None
        self._events.backed_out(unit, step)
        if self._records is not None:
            await self._records.rolled_back(unit, step)
        if step.left is not None:
            self._events.disposed(step.left)
        elif step.refusal is not None:
            message_id = step.failed[0].got.descriptor.message_id if step.failed else b""
            state.refuse(step.refusal.why, step.refusal.reason, message_id)


def message_ids(deliveries: Sequence[Delivery]) -> tuple[bytes, ...]:
    """Return the MsgId of each delivery."""
    return tuple(delivery.got.descriptor.message_id for delivery in deliveries)
