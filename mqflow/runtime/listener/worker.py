"""Runs one worker of a listener: get a unit of work, handle it, settle it.

The steps of a unit: get, examine a redelivered message, call the handler, move a failed message. Then commit with the next get,
or back out. The worker receives a connected session. It raises `SessionLost` if the session is lost, and `MQIError` if the
queue refuses gets.
"""

import math
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
from msgspec.structs import replace

from mqflow.many_verbs import without_wait
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import GetOption, OpenOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.message_group import ends_group, too_large
from mqflow.policy.poison.disposition import Completed, Failed, Interrupted, Outcome, Settlement, Undecodable
from mqflow.policy.poison.outcomes import UndecodableError
from mqflow.policy.reconnect.reason_classes import Class, classify, needs_reconnect
from mqflow.runtime.cancellation import cancellations_of_task
from mqflow.runtime.connection.open_objects import INPUT
from mqflow.runtime.connection.reconnecting_session import delivers
from mqflow.runtime.connection.session import Session
from mqflow.runtime.connection.threaded_session import ThreadedSession
from mqflow.runtime.connection.unstuck_messages import UnstuckMessages
from mqflow.runtime.delay.long_retries import with_all_backouts
from mqflow.runtime.listener.delivery import Delivery
from mqflow.runtime.listener.disposer import Disposer
from mqflow.runtime.listener.handler_call import call_handler, call_handler_within
from mqflow.runtime.listener.listener_state import ListenerState, OpenCall
from mqflow.runtime.listener.settler import SessionLost, Settler
from mqflow.runtime.listener.thread_delivery import News, OnThread, rest_of
from mqflow.runtime.listener.unit import CALL_HANDLER, DONE, BackOut, CallHandler, DeliveryDone, Refusal, Step, Unit
from mqflow.runtime.listener.worker_events import WorkerEvents
from mqflow.runtime.listener.worker_records import HEARTBEAT_S, Recorder
from mqflow.verbs import Exchange, GetOptions, Got, ObjectHandle

if TYPE_CHECKING:  # not imported at run time, because few listeners have a gate
    from mqflow.runtime.gate import Gate, Pass

__all__ = ("Worker",)

# The wait is long, because an idle listener wakes up after each wait, and an application can have a thousand listeners. A
# request to stop interrupts the wait.
_WAIT_MS: Final = 120_000
# The wait is short if the worker must put heartbeat records, or if its health is watched.
_SHORT_WAIT_MS: Final = 5_000
_GET: Final = GetOptions(
    # The attribute PROPCTL can hide properties from a get. Handlers read them, and a moved message must keep them.
    options=GetOption.SYNCPOINT | GetOption.WAIT | GetOption.FAIL_IF_QUIESCING | GetOption.PROPERTIES_FORCE_MQRFH2,
    wait_ms=_WAIT_MS,
)
_GET_GROUP: Final = replace(_GET, options=_GET.options | GetOption.LOGICAL_ORDER | GetOption.ALL_MSGS_AVAILABLE)
_GET_NEXT_OF_GROUP: Final = without_wait(_GET_GROUP)
_GET_AT_ONCE: Final = without_wait(_GET)
_SHORT_GET: Final = replace(_GET, wait_ms=_SHORT_WAIT_MS)
_SHORT_GET_GROUP: Final = replace(_GET_GROUP, wait_ms=_SHORT_WAIT_MS)
_STOPPED: Final = BackOut((), Interrupted("the listener stopped before the handler had finished"))
_EXCLUSIVE: Final = INPUT & ~OpenOption.INPUT_SHARED | OpenOption.INPUT_EXCLUSIVE


class Worker:
    """Handles messages on one session until the listener stops, or an operator's order ends the worker."""

    def __init__(self, state: ListenerState, session: Session, number: int, term: int) -> None:
        """Take the `term` of the listener, its number of orders so far. After another order, the worker ends."""
        self._state: Final = state
        self._term: Final = term
        self._spec: Final = state.spec
        self._session: Final = session
        self._number: Final = number
        self._events: Final = WorkerEvents(state, number)
        self._records: Final = Recorder(state, session, state.disposition_queue, number) if state.disposition_queue else None
        self._settler: Final = Settler(state, session, self._events, self._records)
        self._input: ObjectHandle
        self._disposer: Disposer
        self._unstuck: UnstuckMessages | None = None
        self._on_thread: OnThread | None = None
        #: The permission of the gate to handle the open unit of work.
        self._pass: Pass | None = None
        #: Only behind a gate: True until a get has succeeded after a refusal.
        self._probes = False
        self._outcome_of: Callable[[Sequence[Delivery]], Awaitable[Outcome]] = self._handle
        self._cancellations: Final = cancellations_of_task()  # asked once, because every message needs it
        if state.gate is not None:
            self._outcome_of = partial(self._handle_behind, state.gate)
        if self._spec.handles_on_thread and self._records is None and isinstance(session, ThreadedSession):
            self._on_thread = OnThread(state, session, number, self._unit_of, partial(self._exchange_here, session), self._tell)

    async def open(self) -> ObjectHandle:
        """Open the queue for input, and return its handle. Raises `MQIError`."""
        options = _EXCLUSIVE if self._spec.strict_order else INPUT
        queue, session = await self._state.queue(), self._session
        if self._state.subscriber is None:
            self._input = await session.call(session.open_objects.hold, queue, options, selection=self._spec.selection)
        else:  # after an outage, the subscription can have another managed queue
            self._input = await session.call(session.connection.open, queue, options)
        self._disposer = Disposer(self._state, session, self._input, self._events, self._records)
        if self._state.gate is None and not self._spec.handles_groups:
            self._unstuck = UnstuckMessages(session, queue, self._spec.selection, self._state.stuck)
        return self._input

    async def run(self, allowed: Callable[[], None]) -> None:
        """Handle messages until the worker must end. Raises `SessionLost`, or the `MQIError` of a refused get or inquiry.

        Calls `allowed` when the queue allows gets: immediately, unless the listener was refused before. Then it calls `allowed`
        after the first successful get, and that get does not wait for a message.
        """
        gate = self._state.gate
        try:
            await (self._run(allowed) if gate is None else self._run_through(gate, allowed))
        except BaseException as error:
            await self._settler.give_back_unhandled(is_lost=_is_lost(error))
            await self._settler.last_answers()
            raise

    async def _run(self, allowed: Callable[[], None]) -> None:
        state, term = self._state, self._term
        probes = state.refused
        if not probes:
            allowed()
        handled: Unit | None = None
        delivers(state.supervisor, self)
        while state.term == term:
            if self._records is not None:
                await self._records.heartbeat(own_unit=handled is None)
            if state.resting or state.settings.refused(self._session):
                await self._settler.answers()
                await self._settler.commit(handled)
                handled = await self._rest()
                continue
            handled = await self._settler.commit_behind(handled)
            if handled is None and not probes and (got := await self._next_at_once()):
                handled = await self._work(self._unit_of(got))
                continue
            await self._settler.answers()
            exchange = await self._exchange(handled, waits=not probes)
            if handled is not None:
                await self._settler.committed(handled, exchange.settle_error)
                handled = None
            if exchange.get_error is not None:
                raise exchange.get_error
            if probes:
                probes = False
                state.accept_get()
                allowed()
            if exchange.unit:
                handled = await self._work(self._unit_of(exchange.unit))
        await self._settler.answers()
        await self._settler.commit(handled)

    async def _run_through(self, gate: "Gate", allowed: Callable[[], None]) -> None:
        """Run like `_run`, through the gate. Each unit is committed before the worker waits for its next turn."""
        state, term = self._state, self._term
        self._probes = state.refused
        if not self._probes:
            allowed()
        delivers(state.supervisor, self)
        while state.term == term:
            if self._records is not None:
                await self._records.heartbeat(own_unit=True)
            if state.resting or state.settings.refused(self._session):
                await self._settler.commit(await self._rest())
                continue
            unit, permission = await self._unit_through(gate, allowed), self._pass
            if unit is None or permission is None:
                continue
            try:
                await self._settler.commit(await self._handled(unit))
            finally:
                gate.ended(permission, None)

    async def _unit_through(self, gate: "Gate", allowed: Callable[[], None]) -> Unit | None:
        """Wait for the turn of this worker, and get a unit. Return None without a unit: the worker then checks what is due.

        A heartbeat record can be due, because the wait for the turn can take hours.
        """
        state, unit = self._state, None

        def wanted() -> bool:
            return state.term == self._term

        with anyio.move_on_after(HEARTBEAT_S if self._records is not None else math.inf) as wait:
            async with gate.turn(self._most, wanted) as most:
                wait.deadline = math.inf
                if not wanted() or wait.cancel_called:
                    return None
                exchange = await self._exchange(None, waits=not self._probes, most=most)
                if exchange.get_error is not None:
                    raise exchange.get_error
                if self._probes:
                    self._probes = False
                    state.accept_get()
                    allowed()
                if not exchange.unit:
                    return None
                unit, self._pass = self._unit_of(exchange.unit), None
                try:
                    first = exchange.unit[0].descriptor.message_id
                    self._pass = await gate.passed(len(unit.deliveries), first, wanted)
                finally:
                    if self._pass is None:  # no handler gets these messages
                        await self._settler.give_back(exchange.unit)
        return unit

    async def _handle_behind(self, gate: "Gate", deliveries: Sequence[Delivery]) -> Outcome:
        """Call the handler, and report its outcome to the gate."""
        outcome = await self._handle(deliveries)
        if self._pass is not None:
            gate.ended(self._pass, outcome)
        return outcome

    async def _next_at_once(self) -> Sequence[Got]:
        """Return the next unit of work, if it is ready or comes with the next answer to a commit."""
        most, session = self._spec.unit_of_work, self._settler.overlapping
        if session is None:
            return ()
        options = self._get_options  # those of `exchange`, because a session converts new options
        while not (got := session.get_at_once(self._input, options, most)) and self._state.term == self._term:
            if not await self._settler.next_answer():
                break
        return got

    async def _exchange(self, handled: Unit | None, *, waits: bool, most: int = 0) -> Exchange:
        """Commit the handled unit, if there is one, and get the next unit."""
        calls, options = self._state.calls, self._get_options
        if calls is not None:
            is_get = handled is None and waits
            now = self._state.clock.monotonic()
            calls[self._number] = OpenCall(is_get, now, options.wait_ms / 1_000 if is_get else 0.0)
            if handled is not None:
                handled.settling_since = now
        try:
            return await self._session.exchange(
                Settlement.COMMIT if handled else None,
                self._input,
                options if waits else without_wait(options),
                most=most or self._most,
                linger_ms=self._spec.linger_ms,
            )
        except BaseException:
            if handled is not None:
                self._settler.interrupted(handled)
            raise
        finally:
            if calls is not None:
                calls.pop(self._number, None)

    @property
    def _get_options(self) -> GetOptions:
        get, short_get = (_GET_GROUP, _SHORT_GET_GROUP) if self._spec.handles_groups else (_GET, _SHORT_GET)
        return get if self._records is None and self._state.calls is None else short_get

    @property
    def _most(self) -> int:
        return 1 if self._spec.strict_order else self._spec.unit_of_work

    async def _rest(self) -> Unit | None:
        """Wait while the listener pauses. If it pauses because messages must stay, handle the other messages meanwhile."""
        state = self._state
        if state.settings.refused(self._session):  # without the settings, this worker cannot decide about a message
            await state.rest()
            if not state.stopping.is_set():
                await state.settings.retry(self._session, self._input, state.supervisor.generation)
            return None
        if not state.stuck or self._spec.strict_order or self._unstuck is None:
            await state.rest()
            return None
        try:
            got = await self._unstuck.get(state.rest_left_s)
        except MQIError as error:
            if error.reason != Reason.OBJECT_IN_USE and classify(int(error.reason)) is not Class.CONFIGURATION:
                raise
            self._unstuck = None  # for example 2035, or 2042 from a queue that is not shareable
            state.cannot_browse(error)
            return None
        return await self._handled(self._unit_of([got], self._unstuck.handle)) if got is not None else None

    @property
    def under_way(self) -> bool:
        """True if the worker holds a unit of work. Then its handler must not wait for a connection."""
        return self._settler.under_way or (self._on_thread is not None and self._on_thread.unit is not None)

    def _unit_of(self, got: Sequence[Got], handle: ObjectHandle | None = None) -> Unit:
        spec, session = self._spec, self._session
        return Unit([Delivery(with_all_backouts(each), spec.queue, spec.name, session) for each in got], handle)

    async def _work(self, unit: Unit) -> Unit | None:
        """Handle a unit, on the thread of the session if possible. Return the unit that must be committed, or None."""
        thread = self._on_thread
        if thread is None or unit.is_redelivered:
            return await self._handled(unit)
        try:
            back = await thread.serve(unit)
        except BaseException as error:
            await self._leave_thread(thread, error)
            raise
        thread.unit = None
        if back.settled is not None:
            await self._settler.committed(back.settled, back.exchange.settle_error)
        if back.exchange.get_error is not None:
            raise back.exchange.get_error
        return await self._handled(back.unit) if back.unit is not None else None

    def _exchange_here(self, session: ThreadedSession) -> Exchange:
        return session.exchange_here(Settlement.COMMIT, self._input, _GET_AT_ONCE, self._most)

    async def _tell(self, news: News) -> None:
        """Report what the thread of the session has done."""
        if news.is_committed:
            await self._settler.committed(news.unit, None)
        else:
            self._settler.begin(news.unit)
            self._events.delivered(news.unit.deliveries)

    async def _leave_thread(self, thread: OnThread, error: BaseException) -> None:
        """Settle the work that the thread leaves after a request to stop, or after another error of the worker."""
        back, unit = await thread.give_up(error), thread.unit
        thread.unit = None
        try:
            if back is None:
                if unit is not None:
                    for delivery in unit.deliveries:
                        delivery.is_over = True
                    self._settler.left(unit, _STOPPED.outcome)
                return
            if back.settled is not None:
                await self._settler.committed(back.settled, back.exchange.settle_error)
        except SessionLost as lost:
            self._settler.lost(lost.error)
        else:
            if back.unit is not None:
                if not back.unit.is_told:
                    self._events.delivered(back.unit.deliveries)
                self._settler.begin(back.unit)
                await self._back_out_after(error, back.unit)

    async def _handled(self, unit: Unit) -> Unit | None:
        """Handle a unit. Return the unit if it must be committed; otherwise back it out, and return None."""
        self._settler.begin(unit)
        try:
            step = await self._handle_all(unit)
            if isinstance(step, BackOut):
                await self._settler.back_out(unit, step)
                return None
        except SessionLost as lost:
            self._settler.lost(lost.error)
            raise
        except BaseException as error:  # a stop, or an unexpected error, after which the worker is restarted
            if self._settler.under_way:
                await self._back_out_after(error, unit)
            raise
        return unit

    async def _back_out_after(self, error: BaseException, unit: Unit) -> None:
        is_stop = isinstance(error, anyio.get_cancelled_exc_class()) and anyio.current_effective_deadline() == -math.inf
        try:
            await self._settler.back_out(
                unit, _STOPPED if is_stop else BackOut((), Interrupted(f"the worker failed: {error!r}"))
            )
        except SessionLost as lost:
            self._settler.lost(lost.error)

    async def _handle_all(self, unit: Unit) -> DeliveryDone | BackOut:
        """Handle every delivery of the unit, in order. Return the next step for the unit."""
        deliveries = unit.deliveries
        if not unit.is_told:
            self._events.delivered(deliveries)
        if self._records is not None:
            self._records.got()
        for call in self._calls(deliveries):
            if call[0].is_over:  # the handler has completed on the thread of the session
                continue
            step: Step = CALL_HANDLER
            if self._spec.handles_groups:
                step = await self._take_group(unit)
            elif call[-1].got.descriptor.backout_count:
                step = await self._disposer.examine(unit, call[-1])
            if isinstance(step, CallHandler):
                outcome = await self._outcome_of(call)  # not in `_failed`: each coroutine takes time for each message
                step = DONE if isinstance(outcome, Completed) else await self._failed(unit, call, outcome)
            if isinstance(step, BackOut):
                return step
        if self._records is not None:
            await self._records.committed(unit.completed)
        return DONE

    async def _failed(self, unit: Unit, call: Sequence[Delivery], outcome: Outcome) -> Step:
        """Decide about a failed call. If a message of a batch cannot be decoded, only it fails; the handler gets the others.

        A message group fails as a whole if one of its messages cannot be decoded.
        """
        while self._spec.handles_batch and len(call) > 1 and (undecodable := _undecodable_of(call, outcome)):
            step = await self._disposer.failed(unit, undecodable, outcome)
            if not isinstance(step, DeliveryDone):
                return step
            call = [delivery for delivery in call if delivery not in undecodable]
            for delivery in call:
                delivery.begin_again()
            outcome = await self._outcome_of(call)
        return DONE if isinstance(outcome, Completed) else await self._disposer.failed(unit, call, outcome)

    async def _take_group(self, unit: Unit) -> Step:
        """Add the rest of the message group to the unit, for one call of the handler. If the group is poison, move all of it.

        A get of several messages ends at a redelivered message, so the first message of a poison group is alone in its unit.
        """
        deliveries, messages_max = unit.deliveries, self._spec.unit_of_work
        step: Step = CALL_HANDLER
        if deliveries[0].got.descriptor.backout_count:
            step = await self._disposer.examine(unit, deliveries[0])
        while not isinstance(step, BackOut) and not ends_group(deliveries[-1].got.descriptor.message_flags):
            if isinstance(step, CallHandler) and len(deliveries) >= messages_max:
                return await self._disposer.failed(unit, deliveries, too_large(messages_max))
            more = await self._next_of_group()
            if isinstance(more, BackOut):
                return more
            deliveries += (added := self._unit_of([more]).deliveries)
            self._events.delivered(added)
            if self._state.gate is not None:
                self._state.gate.took(1)
            if not isinstance(step, CallHandler):
                step = await self._disposer.follow(unit, added[0])
        return step

    async def _next_of_group(self) -> Got | BackOut:
        """Return the next message of the group. If it cannot be got, return the step that backs out the whole group."""
        session = self._session
        try:
            got = await session.call(session.connection.get, self._input, _GET_NEXT_OF_GROUP)
        except MQIError as error:
            if needs_reconnect(error):
                raise SessionLost(error) from error
            why = f"the next message of a group could not be got: {error}"
            return BackOut((), Interrupted(why), refusal=Refusal(why, int(error.reason)))
        return got or BackOut((), Interrupted("a message of the group expired, or another program got it"))

    def _calls(self, deliveries: Sequence[Delivery]) -> Sequence[Sequence[Delivery]]:
        """Return the deliveries for each call of the handler. A message that was backed out before has its own call.

        A redelivered message comes last, but a message from the staging queue can be at any place. A message group is one call.
        """
        if len(deliveries) == 1 or self._spec.handles_groups:
            return (deliveries,)
        if not self._spec.handles_batch:
            return [(delivery,) for delivery in deliveries]
        new = [delivery for delivery in deliveries if not delivery.got.descriptor.backout_count]
        alone = [(delivery,) for delivery in deliveries if delivery.got.descriptor.backout_count]
        return [new, *alone] if new else alone

    async def _handle(self, deliveries: Sequence[Delivery]) -> Outcome:
        """Call the handler, and return its outcome."""
        clock, handling = self._state.clock, self._state.handling
        started = clock.monotonic() if deliveries[0].started is None else deliveries[0].started
        handling[self._number] = (deliveries[0], started)
        try:
            outcome = await self._call_handler(deliveries)
            return self._unless_abandoned(deliveries, outcome) if self._session.abandoned else outcome
        finally:
            del handling[self._number]
            ended = clock.monotonic()
            for delivery in deliveries:
                delivery.is_over = True
                delivery.ended = ended
            deliveries[0].handled_s = ended - started
            if self._records is not None:
                ended_at = clock.wall()
                for delivery in deliveries:
                    delivery.ended_at = ended_at

    def _unless_abandoned(self, deliveries: Sequence[Delivery], outcome: Outcome) -> Outcome:
        """Return the outcome; or a failure, if a completed handler has abandoned a put whose result nobody knows."""
        self._session.abandoned = False
        for delivery in deliveries:
            delivery.put_is_unknown = True
        if not isinstance(outcome, Completed):
            return outcome
        text = "a put was given up before it had ended (asyncio.timeout, Task.cancel): nobody knows whether it took effect"
        return Failed("CallInterrupted", text)

    def _call_handler(self, deliveries: Sequence[Delivery]) -> Awaitable[Outcome]:
        """Call the handler, and return its outcome. An exception or the end of the time limit gives an outcome too."""
        spec = self._spec
        if deliveries[0].rest is not None:
            return call_handler(rest_of, deliveries, spec.never_retry)
        if spec.time_limit_s is None:
            return call_handler(spec.handle, deliveries, spec.never_retry, self._cancellations)
        return call_handler_within(spec.time_limit_s, spec.handle, deliveries, spec.never_retry)


def _is_lost(error: BaseException) -> bool:
    return isinstance(error, SessionLost) or (isinstance(error, MQIError) and needs_reconnect(error))


def _undecodable_of(batch: Sequence[Delivery], outcome: Outcome) -> Sequence[Delivery]:
    """Return the one message of the batch that cannot be decoded; an empty sequence if the outcome has another cause."""
    error = outcome.exception if isinstance(outcome, Undecodable) else None
    descriptor = error.descriptor if isinstance(error, UndecodableError) else None
    return [delivery for delivery in batch if delivery.got.descriptor is descriptor]
