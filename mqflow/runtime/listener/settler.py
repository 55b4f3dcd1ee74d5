"""Ends the units of work of one worker, and reports how each unit ended.

No unit is committed twice. This module makes no decision about messages.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import anyio

from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Failed, Interrupted, Outcome, Settlement
from mqflow.runtime.connection.inline_session import InlineSession
from mqflow.runtime.connection.loop_call import LoopCaller, OneShot
from mqflow.runtime.connection.session import Session
from mqflow.runtime.connection.session_limits import SETTLE_DEADLINE_S, units_ahead
from mqflow.runtime.connection.threaded_session import ThreadedSession
from mqflow.runtime.listener.delivery import ListenerSpec
from mqflow.runtime.listener.listener_state import ListenerState
from mqflow.runtime.listener.unit import BackOut, Refusal, Unit
from mqflow.runtime.listener.worker_events import WorkerEvents, message_ids
from mqflow.runtime.listener.worker_records import Recorder
from mqflow.runtime.message_notes import message_key
from mqflow.verbs import Got, ReturningConnection

__all__ = ("SessionLost", "Settler")


class SessionLost(Exception):  # noqa: N818 - an event, not an error of the caller
    """The session is lost. The queue manager backs out the session's unit of work, if this has not happened yet."""

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
        self._now: Final = state.clock.monotonic
        #: The open unit of work. If the connection is lost, the queue manager backs it out.
        self._under_way: Unit | None = None
        #: The session, if it can begin the next unit of work before a commit is answered; otherwise None.
        self.overlapping: Final = _overlapping(session, state.spec)
        #: The units whose commits are not answered yet, in order.
        self._unanswered: list[Unit] = []
        #: Set by each answer while the worker waits for an answer.
        self._answer: OneShot | None = None
        self._loop_caller: Final = LoopCaller()
        #: The error of the first commit that ended the session: the commit is in doubt, or was never sent.
        self._lost: MQIError | None = None

    @property
    def under_way(self) -> bool:
        """True if a unit of work is open."""
        return self._under_way is not None

    def begin(self, unit: Unit) -> None:
        """Record that the messages of this unit were got."""
        self._under_way = unit

    def lost(self, error: MQIError) -> None:
        """Report that the loss of the connection has backed out the open unit of work, if there is one."""
        unit, self._under_way = self._under_way, None
        if unit is not None:
            self._forgive(delivery.got for delivery in unit.deliveries if not delivery.has_begun)
            self._report_lost(unit, error)
        self._forgive_ahead()

    async def give_back_unhandled(self, *, is_lost: bool) -> None:
        """Give the messages back whose unit still waited for more messages, or got more.

        If the connection is lost (`is_lost`), record that these messages, and those that were got ahead, did not cause their
        backout.
        """
        if is_lost:
            self._forgive(self._session.lingering)
            self._forgive_ahead()
        else:
            await self.give_back(self._session.lingering)

    async def give_back(self, messages: Sequence[Got]) -> None:
        """Return the messages of the open unit of work to their places: no handler has got them, so no BackoutCount rises.

        If the queue manager cannot do this, the end of the session backs them out. Then this backout is no failed attempt.
        """
        connection = self._session.connection
        if messages and isinstance(connection, ReturningConnection):
            with anyio.CancelScope(shield=True), suppress(MQIError):  # if the connection is lost, the messages are backed out
                await self._session.call(connection.give_back, 1)
                return
        self._forgive(messages)

    def forgive(self, unit: Unit) -> None:
        """Record that the messages of this unit did not cause their next backout."""
        self._forgive(delivery.got for delivery in unit.deliveries)

    def _forgive_ahead(self) -> None:
        if isinstance(self._session, ThreadedSession):  # no handler has seen these messages, but their BackoutCount increases
            self._forgive(self._session.lost_ahead())

    def _forgive(self, messages: Iterable[Got]) -> None:
        """Record that these messages did not cause their last backout, so it does not count as a failed attempt."""
        self._state.notes.forgive(message_key(got) for got in messages)

    def _report_lost(self, unit: Unit, error: MQIError) -> None:
        self._events.settled(Settlement.BACKOUT, unit.deliveries, Interrupted(f"the connection was lost: {error}"))

    def left(self, unit: Unit, outcome: Outcome | None) -> None:
        """Report that this unit is backed out later: its handler does not stop, and the session's thread waits for it."""
        self._under_way = None
        self.forgive(unit)
        self._events.settled(Settlement.BACKOUT, unit.deliveries, outcome)

    async def commit_behind(self, unit: Unit | None) -> Unit | None:
        """Begin to commit a handled unit, if there is one. Return the unit if it must be committed with a wait instead.

        If the unit does nothing but remove messages from their queue, its commit needs no wait. The worker goes on with the
        next unit, and the answer is reported when it comes. A unit with a redelivered message is always committed with a wait.
        Raises `SessionLost` if a commit is in doubt.
        """
        session, state = self.overlapping, self._state
        if unit is None or session is None or unit.disposed or unit.staged or unit.is_redelivered:
            return unit
        if state.settings.first_backout_is_poison:  # the end of the process would move messages without a failure
            return unit
        if state.calls is not None:
            unit.settling_since = unit.deliveries[-1].ended  # a moment ago; to read the clock again takes too long
        if self._lost is not None or len(self._unanswered) >= session.unanswered_max:
            await self.answers(session.unanswered_max - 1)
            self._note_begin(unit)
        answered = partial(self._answered, unit)
        try:
            if isinstance(session, InlineSession):
                is_committed = session.commit_behind(answered)
            else:
                handled_s = sum([delivery.handled_s for delivery in unit.deliveries])
                is_committed = session.commit_behind(answered, units_ahead(handled_s, state.spec.unit_of_work))
        except MQIError as error:
            await self.committed(unit, error)
            return None
        if is_committed is None:
            return unit
        self._under_way = None
        if is_committed:
            self._succeeded(unit)
        else:
            self._unanswered.append(unit)
        return None

    async def next_answer(self) -> bool:
        """Wait for the next answer to a commit. Return False if none is due. Raises `SessionLost` like `answers`."""
        waits = bool(self._unanswered)
        if waits:
            await self._next_answer()
        await self._raise_if_lost()
        return waits

    async def answers(self, unanswered_max: int = 0) -> None:
        """Wait until at most `unanswered_max` commits are not answered. Raises `SessionLost` if a commit ended the session."""
        while len(self._unanswered) > unanswered_max and self._lost is None:
            await self._next_answer()
        await self._raise_if_lost()

    async def _raise_if_lost(self) -> None:
        if self._lost is not None:
            await self.last_answers()
            self.lost(self._lost)
            raise SessionLost(self._lost)

    async def last_answers(self) -> None:
        """Wait until every commit is answered or in doubt."""
        while self._unanswered:
            await self._next_answer()

    async def _next_answer(self) -> None:
        """Wait for the answer to a commit. A stop of the worker does not end this wait.

        The commit is in doubt if no answer comes in time, or if other code cancels the task itself.
        """
        self._answer = OneShot(self._loop_caller)
        try:
            is_in_time = await self._answer.comes_within(SETTLE_DEADLINE_S)
        except BaseException:
            self._give_up("The task of the worker was cancelled")
            raise
        finally:
            self._answer = None
        if not is_in_time:
            self._give_up(f"No answer came within {SETTLE_DEADLINE_S:g} s")

    def _give_up(self, why: str) -> None:
        if isinstance(self._session, ThreadedSession):
            self._session.leave()
        for unit in tuple(self._unanswered):
            self._answered(unit, error_for(Reason.CALL_INTERRUPTED, "MQCMIT", detail=why))

    def _answered(self, unit: Unit, error: MQIError | None) -> None:
        """Report how the commit of this unit ended. The worker did not wait for it, and may have begun later units."""
        if unit not in self._unanswered:  # its commit was given up before
            return
        self._unanswered.remove(unit)
        if error is None:
            self._succeeded(unit)
        elif error.reason == Reason.BACKED_OUT:
            step = self._backed_out_at_commit(error)
            self.forgive(unit)
            self._events.backed_out(unit, step)
            self._pause(step)
        else:
            self._lost = self._lost or error
            if error.reason == Reason.CONNECTION_BROKEN and isinstance(self._session, ThreadedSession):  # it was never sent
                self.forgive(unit)
                self._report_lost(unit, error)
            else:
                self._report_doubt(unit, error)
        if self._answer is not None:
            self._answer.pass_on()

    async def commit(self, unit: Unit | None) -> None:
        """Commit a handled unit of work, without a get of the next unit. None means that there is no such unit."""
        if unit is None:
            return
        self._note_begin(unit)
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

        2003 means that the unit was backed out. If the next unit is backed out in the same way, the listener pauses. After any
        other error the unit is in doubt, and `SessionLost` is raised.
        """
        if error is None:
            self._under_way = None
            self._succeeded(unit)
            return
        if error.reason == Reason.BACKED_OUT:
            # The unit of work is backed out, but after 2003 an MQBACK must come before the next unit begins.
            await self.back_out(unit, self._backed_out_at_commit(error))
            return
        self._under_way = None
        self._report_doubt(unit, error)
        raise SessionLost(error)

    def _succeeded(self, unit: Unit) -> None:
        self._state.refused_commits = 0
        self._report(unit)

    def _backed_out_at_commit(self, error: MQIError) -> BackOut:
        self._state.refused_commits += 1
        refusal = Refusal(f"the queue manager backed the unit of work out at its commit: {error}", int(error.reason))
        again = self._state.refused_commits > 1
        return BackOut((), Failed("MQRC_BACKED_OUT", str(error)), refusal=refusal if again else None)

    def interrupted(self, unit: Unit) -> None:
        """Report that the commit of this unit is in doubt, because other code cancelled the wait for the answer."""
        self._under_way = None
        self._report_doubt(unit, error_for(Reason.CALL_INTERRUPTED, "MQCMIT", detail="The task of the worker was cancelled"))

    def _report_doubt(self, unit: Unit, error: MQIError) -> None:
        puts = tuple(identifier for delivery in unit.deliveries for identifier in delivery.put_message_ids)
        self._events.in_doubt(error, message_ids(unit.deliveries), puts)

    def _note_begin(self, unit: Unit) -> None:
        """Record that the commit of this unit begins, if the listener is watched."""
        if self._state.calls is not None:
            now = self._now  # a call of a local name is faster, and this runs for every message
            unit.settling_since = now()

    def _report(self, unit: Unit) -> None:
        """Report how all deliveries of a committed unit have ended."""
        state, last = self._state, unit.deliveries[-1].got
        if last.descriptor.backout_count:
            for delivery in unit.deliveries if state.spec.handles_groups else unit.deliveries[-1:]:
                state.notes.forget(message_key(delivery.got))
        completed = unit.completed
        if completed:
            state.accept()
            since = unit.settling_since
            self._events.completed(completed, unit.settle_s if since is None else self._now() - since)
        if completed is unit.deliveries:
            return
        for staged in unit.staged:
            self._events.staged(staged)
        for disposed in unit.disposed:
            self._events.settled(Settlement.COMMIT, (disposed.delivery,), disposed.outcome if disposed.was_handled else None)
            state.moved(message_key(disposed.delivery.got))
            self._events.disposed(disposed)

    async def back_out(self, unit: Unit, step: BackOut) -> None:
        """Wait for the pause of the step, then back the unit out.

        The backout counts as a failed attempt for each message whose handler has failed in this unit, and for no other message.
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
        # Must come before the backout: directly after it, other workers can get the messages.
        state.notes.forgive(message_key(delivery.got) for delivery in others)
        try:
            await self._session.settle(Settlement.BACKOUT)
        except MQIError as error:  # a connection that cannot back out is dead
            self._under_way = None
            self._report_lost(unit, error)
            raise SessionLost(error) from error
        self._under_way = None
        self._events.backed_out(unit, step)
        if self._records is not None:
            await self._records.rolled_back(unit, step)
        if step.left is not None:
            self._events.disposed(step.left)
        else:
            self._pause(step)

    def _pause(self, step: BackOut) -> None:
        """Pause the listener, if the step has a reason for it."""
        if step.refusal is not None:
            message_id = step.failed[0].got.descriptor.message_id if step.failed else b""
            self._state.refuse(step.refusal.why, step.refusal.reason, message_id)


def _overlapping(session: Session, spec: ListenerSpec) -> InlineSession | ThreadedSession | None:
    """Return the session if its next unit of work can begin before the commit of the last unit is answered."""
    if spec.strict_order or spec.linger_ms or spec.handles_groups:
        return None
    if isinstance(session, ThreadedSession):
        return session if session.pipelines and not spec.handles_on_thread else None
    return session if isinstance(session, InlineSession) else None
