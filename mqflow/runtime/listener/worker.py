"""Runs one worker of a listener: get a unit of work, handle it, settle it.

The worker receives a session, and does not know how the session was connected. It raises `SessionLost` if the session is lost,
and `MQIError` if the queue refuses gets. It passes failed messages to `Disposer`.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import anyio
from msgspec.structs import replace

from mqflow.many_verbs import without_wait
from mqflow.mqi.options import GetOption, OpenOption
from mqflow.policy.poison.disposition import Completed, Failed, Interrupted, Outcome, Settlement
from mqflow.runtime.connection.open_objects import INPUT
from mqflow.runtime.connection.reconnecting_session import delivers
from mqflow.runtime.connection.session import Session
from mqflow.runtime.listener.call_handler import COMPLETED, call_handler, call_handler_within
from mqflow.runtime.listener.delivery import Delivery
from mqflow.runtime.listener.dispose import Disposer
from mqflow.runtime.listener.listener_state import ListenerState
from mqflow.runtime.listener.long_retries import with_all_backouts
from mqflow.runtime.listener.settle import SessionLost, Settler
from mqflow.runtime.listener.worker_events import WorkerEvents
from mqflow.runtime.listener.worker_records import Recorder
from mqflow.verbs import GetOptions, Got, ObjectHandle

__all__ = ("Worker",)

# The wait is long because an idle listener wakes up after each wait, and an application can have a thousand listeners. A stop
# interrupts the wait.
_WAIT_MS: Final = 120_000
# The wait is shorter if the worker must record heartbeats.
_RECORDED_WAIT_MS: Final = 5_000
_GET: Final = GetOptions(
    # Properties are got as they are, whatever PROPCTL hides: handlers read them, and a moved message keeps them.
    options=GetOption.SYNCPOINT | GetOption.WAIT | GetOption.FAIL_IF_QUIESCING | GetOption.PROPERTIES_FORCE_MQRFH2,
    wait_ms=_WAIT_MS,
)
_RECORDED_GET: Final = replace(_GET, wait_ms=_RECORDED_WAIT_MS)
_EXCLUSIVE: Final = INPUT & ~OpenOption.INPUT_SHARED | OpenOption.INPUT_EXCLUSIVE


class Worker:
    """Serves one session until the listener stops."""

    def __init__(self, state: ListenerState, session: Session, number: int) -> None:
        self._state: Final = state
        self._spec: Final = state.spec
        self._session: Final = session
        self._number: Final = number
        self._events: Final = WorkerEvents(state)
        self._records: Final = Recorder(state, session, state.disposition_queue, number) if state.disposition_queue else None
        self._settler: Final = Settler(state, session, self._events, self._records)
        self._handle: ObjectHandle
        self._disposer: Disposer

    async def open(self) -> ObjectHandle:
        """Return the handle of the queue, open for input. Raises `MQIError`."""
        options = _EXCLUSIVE if self._spec.strict_order else INPUT
        queue, session = await self._state.queue(), self._session
        if self._state.subscriber is None:
            self._handle = await session.call(session.open_objects.hold, queue, options, selection=self._spec.selection)
        else:  # after an outage, the subscription can have another queue
            self._handle = await session.call(session.connection.open, queue, options)
        self._disposer = Disposer(
            self._state, session, self._handle, settler=self._settler, events=self._events, records=self._records
        )
        return self._handle

    async def run(self, allowed: Callable[[], None]) -> None:
        """Return when the listener stops. Raises `SessionLost`, or the `MQIError` of a refused get or inquiry of settings.

        Calls `allowed` once the queue allows gets: immediately, or after the first successful get if the listener was refused
        before. After a refusal, the first get does not wait for a message.
        """
        state, spec = self._state, self._spec
        probes = state.refused
        if not probes:
            allowed()
        handled: Sequence[Delivery] | None = None
        delivers(state.supervisor, self)
        while not state.stopping.is_set():
            if self._records is not None:
                await self._records.heartbeat(own_unit=handled is None)
            if state.resting or state.settings.refused(self._session):
                await self._settler.commit(handled)
                handled = None
                if state.resting:
                    await state.rest()
                else:
                    await state.settings.retry(self._session, self._handle, state.supervisor.generation)
                continue
            options = _GET if self._records is None else _RECORDED_GET
            exchange = await self._session.exchange(
                Settlement.COMMIT if handled else None,
                self._handle,
                without_wait(options) if probes else options,
                most=1 if spec.strict_order else spec.unit_of_work,
                linger_ms=spec.linger_ms,
            )
            if handled is not None:
                await self._settler.committed(handled, exchange.settle_error)
                handled = None
            if exchange.get_error is not None:
                raise exchange.get_error
            if probes:
                probes = False
                allowed()
            if exchange.unit:
                handled = await self._work(exchange.unit)
        await self._settler.commit(handled)

    @property
    def under_way(self) -> bool:
        """Whether the worker holds a unit of work. If so, its handler must not wait for a connection."""
        return self._settler.under_way

    async def _work(self, unit: Sequence[Got]) -> Sequence[Delivery] | None:
        """Handle a unit. Return the unit if it must be committed; otherwise back it out, dispose of it, and return None."""
        spec, session = self._spec, self._session
        deliveries = [Delivery(with_all_backouts(got), spec.queue, spec.name, session) for got in unit]
        self._settler.begin(deliveries)
        try:
            return await self._handle_or_dispose(deliveries)
        except SessionLost as lost:
            self._settler.lost(lost.error)
            raise

    async def _handle_or_dispose(self, deliveries: Sequence[Delivery]) -> Sequence[Delivery] | None:
        self._events.delivered(deliveries)
        if self._records is not None:
            self._records.got()
        if deliveries[-1].got.descriptor.backout_count and await self._disposer.found_poison(deliveries):
            return None
        started = self._state.clock.monotonic()
        self._state.handling[self._number] = (deliveries[0], started)
        try:
            failed_delivery, outcome = await self._handle_all(deliveries)
        except anyio.get_cancelled_exc_class():
            self._note_end(deliveries, started)
            with anyio.CancelScope(shield=True):
                await self._settler.back_out(
                    deliveries, None, Interrupted("the listener stopped before the handler had finished")
                )
            raise
        finally:
            del self._state.handling[self._number]
            self._note_end(deliveries, started)
        if isinstance(outcome, Completed):
            if self._records is not None:
                await self._records.committed(deliveries)
            return deliveries
        await self._disposer.failed(deliveries, failed_delivery, outcome)
        return None

    def _note_end(self, deliveries: Sequence[Delivery], started: float) -> None:
        """Note for each delivery that its handling has ended, or was cancelled."""
        handled_s = self._state.clock.monotonic() - started
        for delivery in deliveries:
            delivery.is_over = True
            delivery.handled_s = handled_s

    async def _handle_all(self, deliveries: Sequence[Delivery]) -> tuple[Delivery | None, Outcome]:
        """Return the delivery that failed, and the outcome of the unit.

        The delivery is None if no delivery failed, or if the handler of a batch does not say which message failed.
        """
        if self._spec.handles_batch:
            outcome = self._unless_abandoned(await self._call_handler(deliveries))
            return (deliveries[0] if len(deliveries) == 1 else None), outcome
        for delivery in deliveries:
            outcome = self._unless_abandoned(await self._call_handler((delivery,)))
            if not isinstance(outcome, Completed):
                return delivery, outcome
        return None, COMPLETED

    def _unless_abandoned(self, outcome: Outcome) -> Outcome:
        """Return the outcome. If the handler abandoned a put, return a failure: nobody knows whether that put took effect."""
        abandoned, self._session.abandoned = self._session.abandoned, False
        if abandoned and isinstance(outcome, Completed):
            text = "a put was given up before it had ended (asyncio.timeout, Task.cancel): nobody knows whether it took effect"
            return Failed("CallInterrupted", text)
        return outcome

    def _call_handler(self, deliveries: Sequence[Delivery]) -> Awaitable[Outcome]:
        """Return the outcome of the handler. Exceptions and the time limit are outcomes too."""
        spec = self._spec
        if spec.time_limit_s is None:
            return call_handler(spec.handle, deliveries, spec.never_retry)
        return call_handler_within(spec.time_limit_s, spec.handle, deliveries, spec.never_retry)
