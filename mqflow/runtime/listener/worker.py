"""One worker of a listener: get a unit, decide, handle, settle, tell. The way of a message, from its queue to its end.

Carries out what `policy` decides, and tells `WorkerEvents`. Is given a session and does not know where it comes from: a
session that is lost is raised as `SessionLost`, a queue that cannot go on as its `MQIError`.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, assert_never

import anyio
from msgspec.structs import replace

from mqflow.events import WaitsOnQueue, Warned
from mqflow.many_verbs import without_wait
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import GetOption, OpenOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison import backout, redelivery_delay, settlement
from mqflow.policy.poison.disposition import DISPOSITIONS, Completed, Deliver, Failed, Interrupted, Outcome, Settlement
from mqflow.policy.poison.settlement import Dispose, Done, Redeliver
from mqflow.policy.reconnect.reason_classes import Class, classify
from mqflow.runtime.connection.in_delivery import delivers
from mqflow.runtime.connection.session import Session
from mqflow.runtime.listener.attempt import COMPLETED, attempt
from mqflow.runtime.listener.backout_settings import BackoutSettings
from mqflow.runtime.listener.delivery import Delivery
from mqflow.runtime.listener.long_retries import with_all_backouts
from mqflow.runtime.listener.move_poison import Disposal
from mqflow.runtime.listener.requeuer import INPUT, Task
from mqflow.runtime.listener.shared import ListenerState
from mqflow.runtime.listener.worker_events import WorkerEvents
from mqflow.runtime.listener.worker_records import Recorder
from mqflow.verbs import GetOptions, Got, ObjectHandle

__all__ = ("SessionLost", "Worker")

# A stop interrupts it; so it is long, because a thousand idle listeners wake up that often.
_WAIT_MS: Final = 120_000
# Where a worker has to say that it is there.
_RECORDED_WAIT_MS: Final = 5_000
_GET: Final = GetOptions(
    # Properties as they are, whatever PROPCTL hides: a handler reads them, and a message that is moved keeps them.
    options=GetOption.SYNCPOINT | GetOption.WAIT | GetOption.FAIL_IF_QUIESCING | GetOption.PROPERTIES_FORCE_MQRFH2,
    wait_ms=_WAIT_MS,
)
_RECORDED_GET: Final = replace(_GET, wait_ms=_RECORDED_WAIT_MS)
_EXCLUSIVE: Final = INPUT & ~OpenOption.INPUT_SHARED | OpenOption.INPUT_EXCLUSIVE


class SessionLost(Exception):  # noqa: N818 - what happened, not an error of the caller
    """The session is of no use any more; its queue manager has backed its unit of work out, or will."""

    def __init__(self, error: MQIError) -> None:
        self.error = error
        super().__init__(str(error))


class Worker:
    """Serves one session until the listener stops."""

    def __init__(self, state: ListenerState, session: Session, number: int) -> None:
        self._state: Final = state
        self._spec: Final = state.spec
        self._session: Final = session
        self._number: Final = number
        self._tell: Final = WorkerEvents(state)
        self._records: Final = Recorder(state, session, state.disposition_queue, number) if state.disposition_queue else None
        self._handle: ObjectHandle
        #: What is got, and not told to be settled: where the connection is lost, its queue manager backs it out.
        self._under_way: Sequence[Delivery] = ()

    async def open(self) -> None:
        """Have the queue open for input: as the session took it over, or opened now. Raises `MQIError`."""
        options = _EXCLUSIVE if self._spec.strict_order else INPUT
        queue, session = await self._state.queue(), self._session
        if self._state.subscriber is None:
            self._handle = await session.call(session.openings.hold, queue, options, selection=self._spec.selection)
        else:  # the subscription is what is made again; its queue may be another one then
            self._handle = await session.call(session.connection.open, queue, options)

    async def run(self, allowed: Callable[[], None]) -> None:
        """Return when the listener stops; raises `SessionLost`, or the `MQIError` of a get that this queue refused.

        `allowed` is called once gets are: at once, unless they were refused, and then after the first, which waits for nothing.
        """
        state, spec = self._state, self._spec
        probes = state.refused
        if not probes:
            allowed()
        handled: Sequence[Delivery] | None = None
        delivers(state.supervisor, self)
        while not state.stopping.is_set():
            if self._records is not None:
                await self._records.heartbeat(alone=handled is None)
            if state.resting:
                await self._commit(handled)
                handled = None
                await state.rest()
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
                await self._committed(handled, exchange.settle_error)
                handled = None
            if exchange.get_error is not None:
                raise exchange.get_error
            if probes:
                probes = False
                allowed()
            if exchange.unit:
                handled = await self._work(exchange.unit)
        await self._commit(handled)

    @property
    def under_way(self) -> bool:
        """Whether it holds a unit of work: what its handler does meanwhile waits for no connection."""
        return bool(self._under_way)

    # -- one unit

    async def _work(self, unit: Sequence[Got]) -> Sequence[Delivery] | None:
        """Handle a unit; return it where it is to be committed. Anything else is backed out and dealt with here."""
        spec, session = self._spec, self._session
        deliveries = [Delivery(with_all_backouts(got), spec.queue, spec.name, session) for got in unit]
        self._under_way = deliveries
        try:
            return await self._deal_with(deliveries)
        except SessionLost as lost:
            if self._under_way:
                ids = tuple(delivery.got.descriptor.message_id for delivery in deliveries)
                took_s = deliveries[0].handled_s
                self._tell.settled(Settlement.BACKOUT, ids, Interrupted(f"the connection was lost: {lost.error}"), took_s)
                self._under_way = ()
            raise

    async def _deal_with(self, deliveries: Sequence[Delivery]) -> Sequence[Delivery] | None:
        self._tell.delivered(deliveries)
        if self._records is not None:
            self._records.got()
        if deliveries[-1].got.descriptor.backout_count and await self._found_poison(deliveries):
            return None
        started = self._state.clock.monotonic()
        self._state.handling[self._number] = (deliveries[0], started)
        try:
            failed_delivery, outcome = await self._handle_all(deliveries)
        except anyio.get_cancelled_exc_class():
            self._over(deliveries, started)
            with anyio.CancelScope(shield=True):
                await self._interrupted(deliveries)
            raise
        finally:
            del self._state.handling[self._number]
            self._over(deliveries, started)
        if isinstance(outcome, Completed):
            if self._records is not None:
                await self._records.committed(deliveries)
            return deliveries
        await self._failed(deliveries, failed_delivery, outcome)
        return None

    def _over(self, deliveries: Sequence[Delivery], started: float) -> None:
        """Note that the handling of the unit has ended, or was cut off."""
        handled_s = self._state.clock.monotonic() - started
        for delivery in deliveries:
            delivery.is_over = True
            delivery.handled_s = handled_s

    async def _handle_all(self, deliveries: Sequence[Delivery]) -> tuple[Delivery | None, Outcome]:
        """Return what the handling of the unit came to, and whose fault a failure is: None where a batch does not say."""
        if self._spec.handles_batch:
            return (deliveries[0] if len(deliveries) == 1 else None), self._heard(await self._attempt(deliveries))
        for delivery in deliveries:
            outcome = self._heard(await self._attempt((delivery,)))
            if not isinstance(outcome, Completed):
                return delivery, outcome
        return None, COMPLETED

    def _heard(self, outcome: Outcome) -> Outcome:
        """Return the outcome; a failure where the handler gave a put up, which is in the unit of work or is not."""
        abandoned, self._session.abandoned = self._session.abandoned, False
        if abandoned and isinstance(outcome, Completed):
            said = "a put was given up before it had ended (asyncio.timeout, Task.cancel): nobody knows whether it took effect"
            return Failed("CallInterrupted", said)
        return outcome

    def _attempt(self, deliveries: Sequence[Delivery]) -> Awaitable[Outcome]:
        """Return the outcome of handling, whatever the handler does and however long it would take."""
        spec = self._spec
        if spec.time_limit_s is None:
            return attempt(spec.handle, deliveries, spec.never_retry)
        return self._attempt_within(spec.time_limit_s, deliveries)

    async def _attempt_within(self, limit_s: float, deliveries: Sequence[Delivery]) -> Outcome:
        with anyio.move_on_after(limit_s):
            return await attempt(self._spec.handle, deliveries, self._spec.never_retry)
        return Failed("TimeLimitExceeded", f"the handler took longer than its time limit of {limit_s:g} s")

    # -- what was found or what failed

    async def _found_poison(self, deliveries: Sequence[Delivery]) -> bool:
        """Decide about the last delivery, which was backed out before. True: it was poison, and is dealt with."""
        delivery = deliveries[-1]
        settings = await self._settings()
        if settings is None:
            return False
        descriptor = self._counted(delivery, 0)
        plan = self._decide(descriptor, settings)
        delivery.decision = self._tell.decided(delivery, descriptor, settings, plan, None)
        if plan == (Deliver(),):
            return False
        await self._prepare_move()
        await self._back_out(deliveries, delivery, None, moved=True)
        outcome = self._state.last_failure(delivery.got.descriptor.message_id)
        decide = partial(self._decide, settings=settings)
        await self._dispose(delivery, descriptor.backout_count, settings, outcome, decide, handled=False)
        return True

    async def _failed(self, deliveries: Sequence[Delivery], failed_delivery: Delivery | None, outcome: Outcome) -> None:
        """Back the unit out, after the pause that is due; a message that has reached its threshold goes at once."""
        settings = await self._settings() if failed_delivery is not None else None
        if failed_delivery is None or settings is None:
            if failed_delivery is not None:
                await self._pause(self._counted(failed_delivery, 1).backout_count, outcome)
            await self._back_out(deliveries, failed_delivery, outcome)
            return
        self._state.note_failure(failed_delivery.got.descriptor.message_id, outcome)
        descriptor = self._counted(failed_delivery, 1)
        reason = settlement.dead_letter_reason(outcome)

        def disposed(held: MessageDescriptor) -> backout.Plan:
            deadq = settings.dead_letter_queue
            return backout.dispose(held, settings.attributes, deadq, self._spec.behaviour, reason=reason)

        decided = self._decide(descriptor, settings)
        follows = settlement.after(
            outcome,
            decided=decided,
            disposed=disposed(descriptor),
            pause_s=redelivery_delay.pause_s(self._spec.pace, descriptor.backout_count, self._state.random.random()),
            redeliver_undecodable=self._spec.redeliver_undecodable,
        )
        match follows:
            case Done():
                return
            case Redeliver(pause_s=pause_s):
                self._tell.decided(failed_delivery, descriptor, settings, (Deliver(),), outcome)
                if await self._waits_on_queue(deliveries, failed_delivery, outcome, pause_s):
                    return
                if len(deliveries) == 1:  # a longer unit is backed out at once: its neighbours need not wait
                    await self._state.pause(pause_s)
                await self._back_out(deliveries, failed_delivery, outcome)
            case Dispose(plan=plan):
                self._tell.decided(failed_delivery, descriptor, settings, plan, outcome)
                await self._prepare_move()
                await self._back_out(deliveries, failed_delivery, outcome, moved=True)
                again = disposed if decided == (Deliver(),) else partial(self._decide, settings=settings)
                await self._dispose(failed_delivery, descriptor.backout_count, settings, outcome, again, handled=True)
            case _:
                assert_never(follows)

    async def _waits_on_queue(
        self, deliveries: Sequence[Delivery], failed_delivery: Delivery, outcome: Outcome, pause_s: float
    ) -> bool:
        """Stage a message whose handler asked for a longer pause, and end the unit of work. False: it is to wait here.

        One that is alone, and whose handler has put nothing, is staged in the unit of work it was delivered in: nobody can get
        it meanwhile. Otherwise that is backed out first.
        """
        retries, got = self._state.retries, failed_delivery.got
        asked = isinstance(outcome, Failed) and outcome.retry_after_s is not None
        if retries is None or not asked or self._spec.strict_order or not retries.takes(got, pause_s):
            return False
        call, connection = self._session.call, self._session.connection
        queue = got.resolved_queue or self._spec.queue
        count = got.descriptor.backout_count + 1
        alone = len(deliveries) == 1 and not failed_delivery.put_message_ids
        if not alone:
            await self._back_out(deliveries, failed_delivery, outcome)
        since = self._state.clock.wall()
        try:
            if alone:
                await call(retries.stage, connection, self._handle, got, queue, count, pause_s)
            else:
                count = await call(retries.stage_again, connection, self._handle, got, queue, pause_s)
        except MQIError as error:
            if classify(int(error.reason)) is Class.RECONNECT:
                raise SessionLost(error) from error
            text = f"{self._spec.name}: a message that is to wait cannot be staged, so the worker waits with it. {error}"
            self._state.broadcast(Warned(text=text, queue=self._spec.queue))
            if alone:
                return False
            await self._back_out((failed_delivery,), None, outcome)  # of what was got to be staged, nobody failed
            await self._state.pause(pause_s)
            return True
        if self._records is not None and count:
            await self._records.deferred(failed_delivery, outcome, pause_s, retries.staging_queue, since=since, alone=alone)
        await self._staged(failed_delivery, outcome if alone else None, count, pause_s)
        return True

    async def _staged(self, failed_delivery: Delivery, outcome: Outcome | None, count: int, pause_s: float) -> None:
        """End the unit of work in which the message was staged, and tell; of an outcome that was not told before."""
        ids = (failed_delivery.got.descriptor.message_id,)
        try:
            await self._session.settle(Settlement.COMMIT)
        except MQIError as error:
            await self._committed((failed_delivery,), error)
            return
        if not count:  # somebody else has got it: there was nothing to stage
            return
        retries, spec = self._state.retries, self._spec
        assert retries is not None  # noqa: S101 - who asks has found it
        self._state.broadcast(
            WaitsOnQueue(
                queue=spec.queue,
                message_id=ids[0],
                listener=spec.name,
                backout_count=count,
                after_s=pause_s,
                staging_queue=retries.staging_queue,
            )
        )
        self._tell.settled(Settlement.COMMIT, ids, outcome, failed_delivery.handled_s if outcome is not None else 0.0)

    async def _interrupted(self, deliveries: Sequence[Delivery]) -> None:
        """Back out a unit whose handler was cut off; nobody's failure."""
        await self._back_out(deliveries, None, Interrupted("the listener stopped before the handler had finished"))

    async def _pause(self, count: int, outcome: Outcome) -> None:
        wished_s = outcome.retry_after_s if isinstance(outcome, Failed) else None
        pause_s = (
            redelivery_delay.pause_s(self._spec.pace, count, self._state.random.random()) if wished_s is None else wished_s
        )
        await self._state.pause(pause_s)

    async def _dispose(
        self,
        delivery: Delivery,
        count: int,
        settings: BackoutSettings,
        outcome: Outcome | None,
        decide: Callable[[MessageDescriptor], backout.Plan],
        *,
        handled: bool,
    ) -> None:
        """Have the message moved, outside the unit of work it was delivered in, and tell what became of it."""
        descriptor = delivery.got.descriptor
        task = Task(
            message_id=descriptor.message_id,
            correlation_id=descriptor.correlation_id,
            message_token=delivery.got.message_token,
            backout_count=descriptor.backout_count + 1,
            decide=decide,
            generation=settings.generation,
            why=self._tell.why(count, settings, outcome),
            record=None if self._records is None else partial(self._records.disposed, delivery, outcome, handled=handled),
        )
        try:
            disposal = await self._move(task)
        except MQIError as error:
            self._not_moved(error, descriptor.message_id)
            return
        if disposal is None:
            # Dealt with, or held by another worker that found it poison too. With two such messages, workers that took them
            # from each other before the requeuer's turn came would do so for ever: whoever comes too late steps back.
            beyond = max(count - settings.attributes.backout_threshold, 0) + 1
            await self._state.pause(redelivery_delay.pause_s(self._spec.pace, beyond, self._state.random.random()))
            return
        self._tell.disposed(delivery, count, disposal, outcome)

    async def _prepare_move(self) -> None:
        """Keep the moment short in which a poison message is on its queue again for others to get."""
        if not self._spec.strict_order:
            await self._state.requeuer.prepare()

    async def _move(self, task: Task) -> Disposal | None:
        requeuer = self._state.requeuer
        if self._spec.strict_order or requeuer.is_elsewhere(self._session):
            return await requeuer.move_on(self._session, self._handle, task)
        try:
            return await requeuer.move(task)
        except MQIError as error:
            if error.reason != Reason.OBJECT_IN_USE:  # NOSHARE: this worker's is the only handle there can be
                raise
            return await requeuer.move_on(self._session, self._handle, task)

    def _not_moved(self, error: MQIError, message_id: bytes) -> None:
        """Tell that the message is still on its queue, or for a commit without an answer, that nobody knows."""
        if error.verb == "MQCMIT" and error.reason != Reason.BACKED_OUT:
            self._tell.in_doubt(error, (message_id,), ())
        self._state.refuse(f"a poison message could not be moved: {error}", int(error.reason), message_id)

    # -- settling

    async def _commit(self, handled: Sequence[Delivery] | None) -> None:
        """Commit a unit without getting another."""
        if handled is None:
            return
        try:
            await self._session.settle(Settlement.COMMIT)
        except MQIError as error:
            await self._committed(handled, error)
        else:
            await self._committed(handled, None)

    async def _committed(self, handled: Sequence[Delivery], error: MQIError | None) -> None:
        """Tell how the commit of a handled unit went. 2003 is a certain backout; any other error leaves it in doubt."""
        if error is None or error.reason != Reason.BACKED_OUT:
            self._under_way = ()
        ids = tuple(delivery.got.descriptor.message_id for delivery in handled)
        if error is None:
            if handled[-1].got.descriptor.backout_count:
                self._state.forget(ids[-1])
            self._state.accept()
            self._tell.settled(Settlement.COMMIT, ids, COMPLETED, handled[0].handled_s)
            return
        if error.reason == Reason.BACKED_OUT:
            # The unit of work is gone, but 2003 asks for an MQBACK before the next one begins.
            await self._back_out(handled, None, Failed("MQRC_BACKED_OUT", str(error)))
            return
        puts = tuple(identifier for delivery in handled for identifier in delivery.put_message_ids)
        self._tell.in_doubt(error, ids, puts)
        raise SessionLost(error)

    async def _back_out(
        self, deliveries: Sequence[Delivery], failed_delivery: Delivery | None, outcome: Outcome | None, *, moved: bool = False
    ) -> None:
        """Back the unit out; whoever is not the culprit is forgiven the count that this costs.

        A culprit that is to be moved next is recorded by its move.
        """
        try:
            await self._session.settle(Settlement.BACKOUT)
        except MQIError as error:  # a connection that cannot even back out is dead
            raise SessionLost(error) from error
        self._under_way = ()
        ids = tuple(delivery.got.descriptor.message_id for delivery in deliveries)
        for delivery in deliveries:
            if delivery is not failed_delivery:
                self._state.forgive(delivery.got.descriptor.message_id)
        self._tell.settled(Settlement.BACKOUT, ids, outcome, deliveries[0].handled_s)
        if self._records is not None:
            rolled_back = [delivery for delivery in deliveries if not (moved and delivery is failed_delivery)]
            await self._records.rolled_back(rolled_back, failed_delivery, outcome)

    # -- deciding

    async def _settings(self) -> BackoutSettings | None:
        """Return what to decide on, or None where the attributes cannot be had: the message is then simply redelivered."""
        state = self._state
        try:
            return await state.settings.get(self._session, state.supervisor.generation)
        except MQIError as error:
            if classify(int(error.reason)) is Class.RECONNECT:
                raise SessionLost(error) from error
            text = f"{self._spec.name}: without BOTHRESH and BOQNAME no message is poison; redelivering. {error}"
            state.broadcast(Warned(text=text, queue=self._spec.queue))
            return None

    def _decide(self, descriptor: MessageDescriptor, settings: BackoutSettings) -> backout.Plan:
        """Return the plan; where an application's own decision fails, or makes none, the message is delivered again."""
        spec = self._spec
        try:
            plan: Any = spec.decide(descriptor, settings.attributes, settings.dead_letter_queue, spec.behaviour)
            if isinstance(plan, tuple) and plan and all(isinstance(each, DISPOSITIONS) for each in plan):
                return plan
            said = f"it returned {plan!r:.80}, and not a tuple of dispositions"
        except Exception as error:  # noqa: BLE001 - the application's own code, as a handler is
            said = f"{type(error).__name__}: {error}"
        message = descriptor.message_id.hex()
        text = (
            f"{spec.name}: the application's backout decision about message {message} failed, so it is delivered again; {said}"
        )
        self._state.broadcast(Warned(text=text, queue=spec.queue))
        return (Deliver(),)

    def _counted(self, delivery: Delivery, more: int) -> MessageDescriptor:
        """Return the descriptor with the backouts that the message itself is to blame for, and `more` to come."""
        descriptor = delivery.got.descriptor
        count = self._state.blamed(descriptor.message_id, descriptor.backout_count) + more
        return replace(descriptor, backout_count=count)
