"""Runs the schedules of an application: puts one message each time a schedule is due, even if several workers run.

Each schedule has one state message on a queue. Every worker browses the state message and waits until the schedule is due. Then
it gets the state message, and puts the schedule's message and the next state message, in one unit of work. If there are several
workers, only one of them gets the state message.

If a worker finds no state message, it opens the queue exclusively before it puts the first state message. So no other worker
can have the state message in an open unit of work. `policy.schedule` decides; this module waits and puts.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol

import anyio
import msgspec
from anyio.abc import TaskStatus
from msgspec import Struct

from mqflow.events import InDoubt, ScheduleFired, Warned
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import Format, GetOption, MatchOption, OpenOption, Persistence, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Settlement
from mqflow.policy.reconnect.reason_classes import leaves_in_doubt, needs_reconnect
from mqflow.policy.schedule import Begin, Fire, NotDue, ScheduleRule, ScheduleState, decide, key_of
from mqflow.runtime.connection.session import Session
from mqflow.runtime.connection.supervisor import Supervisor
from mqflow.runtime.hooks import Broadcast
from mqflow.verbs import Connection, GetOptions, Got, ObjectHandle
from mqflow.world import Clock

__all__ = ("Scheduled", "Scheduler")

_LOOK_S_MAX: Final = 60.0
"""The longest time between two looks at the state message, in seconds. During this time, the clock can be corrected."""
_AGAIN_S: Final = 0.5
"""The seconds until the next look if another worker has the state message."""
_PAUSE_S: Final = 5.0
"""The seconds until the next attempt after a refused call."""
_UTF8: Final = 1208
_PUT: Final = PutOption.SYNCPOINT | PutOption.FAIL_IF_QUIESCING | PutOption.NEW_MSG_ID
_AS_THEY_ARE: Final = GetOption.PROPERTIES_FORCE_MQRFH2
_BROWSE: Final = OpenOption.BROWSE | OpenOption.FAIL_IF_QUIESCING
_GET: Final = OpenOption.INPUT_SHARED | OpenOption.FAIL_IF_QUIESCING
_ALONE: Final = OpenOption.INPUT_EXCLUSIVE | _BROWSE


class Scheduled(Protocol):
    """A schedule, as its application declares it."""

    @property
    def name(self) -> str:
        """The name of the schedule, unique in the application."""
        ...

    @property
    def rule(self) -> ScheduleRule:
        """The rule that says when the schedule is due."""
        ...

    @property
    def queue(self) -> str:
        """The queue that gets a message each time the schedule is due."""
        ...

    @property
    def state_queue(self) -> str:
        """The queue that has the state message."""
        ...

    @property
    def message(self) -> Callable[[float, float], tuple[MessageDescriptor, bytes]]:
        """The function that makes the message to put. It gets the due time, and the due time before that."""
        ...


class _Step(Struct, frozen=True):
    """The result of one check of a schedule: an open unit of work, if there is one, and the time until the next check."""

    wait_s: float = 0.0
    #: The handle to close when the unit of work has ended; None if it is closed already.
    handle: ObjectHandle | None = None
    #: The event to report after the commit.
    fired: ScheduleFired | None = None
    #: Warnings of the state messages that the unit of work removes although they cannot be read, to report after the commit.
    warnings: tuple[str, ...] = ()
    has_unit: bool = False


class Scheduler:
    """Runs the schedules on one session."""

    def __init__(
        self, schedules: Sequence[Scheduled], supervisor: Supervisor, *, broadcast: Broadcast, clock: Clock, application: str
    ) -> None:
        self._schedules: Final = schedules
        self._supervisor: Final = supervisor
        self._broadcast: Final = broadcast
        self._clock: Final = clock
        self._application: Final = application
        self._stopping: Final = anyio.Event()
        self._lost: Session | None = None
        #: For each schedule: the reason code that was reported last, so that each cause is reported once.
        self._reported: dict[str, int] = {}

    @property
    def name(self) -> str:
        """The name of the service, for people."""
        return "the schedules"

    def stop(self) -> None:
        """Stop putting messages. An open unit of work is settled, then `run` returns."""
        self._stopping.set()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Put the messages of the schedules until `stop`. The service counts as started when it could open all its queues.

        Raises `MQIError` if a queue cannot be opened at the start, or if reconnecting fails permanently.
        """
        started = False
        while not self._stopping.is_set():
            try:
                session = await self._supervisor.connect(owner="schedules", before=self._lost)
            except MQIError:
                if self._stopping.is_set():
                    break
                raise
            self._lost = None
            try:
                if not started:
                    await session.call(self._check, session)
                    task_status.started()
                    started = True
                self._supervisor.readiness.has(self)
                await self._fire_until_lost(session)
            except MQIError as error:
                if not needs_reconnect(error):
                    raise
                self._lost = session
                self._supervisor.lost(error, session)
                self._supervisor.readiness.lacks(self, self.name)
            finally:
                await session.close()
        self._supervisor.release(self._lost)
        if not started:
            task_status.started()

    async def _fire_until_lost(self, session: Session) -> None:
        while not self._stopping.is_set():
            waits = [await self._look(session, schedule) for schedule in self._schedules]
            with anyio.move_on_after(min(*waits, _LOOK_S_MAX)):
                await self._stopping.wait()

    async def _look(self, session: Session, schedule: Scheduled) -> float:
        """Put the schedule's message if it is due. Return the seconds until the next check. Raises for a lost connection."""
        step = _Step()
        try:
            step = await session.call(self._step, session, schedule)
            if step.has_unit:
                await session.settle(Settlement.COMMIT)
        except MQIError as error:
            if leaves_in_doubt(error):
                self._report_doubt(schedule, step, error)
                self._warn(schedule, step)
            if needs_reconnect(error):
                raise
            await session.settle(Settlement.BACKOUT)
            if error.reason == Reason.OBJECT_IN_USE:  # another worker has opened the queue exclusively, for a moment
                return _AGAIN_S
            self._report(schedule, error)
            return _PAUSE_S
        finally:
            if step.handle is not None:
                with suppress(MQIError):  # if the connection is lost, the handle is closed
                    await session.call(session.connection.close, step.handle)
        self._reported.pop(schedule.name, None)
        self._warn(schedule, step)
        if step.fired is not None:
            self._broadcast(step.fired)
        return step.wait_s

    def _report_doubt(self, schedule: Scheduled, step: _Step, error: MQIError) -> None:
        """Report that nobody knows whether the message was put. The next check of the state message shows it."""
        put = () if step.fired is None else (step.fired.message_id,)
        self._broadcast(
            InDoubt(
                queue=schedule.queue,
                listener=f"schedule {schedule.name}",
                reason=int(error.reason),
                message_ids=(),
                put_message_ids=put,
            )
        )

    def _warn(self, schedule: Scheduled, step: _Step) -> None:
        for text in step.warnings:
            self._broadcast(Warned(text=text, queue=schedule.state_queue))

    def _report(self, schedule: Scheduled, error: MQIError) -> None:
        if self._reported.get(schedule.name) != error.reason:
            self._reported[schedule.name] = int(error.reason)
            self._broadcast(Warned(text=f"The schedule {schedule.name} waits. {error}", queue=schedule.queue))

    # -- these methods run on the thread of the session

    def _check(self, session: Session) -> None:
        """Raise the `MQIError` of a queue that cannot be opened."""
        for schedule in self._schedules:
            for queue in (schedule.queue, schedule.state_queue):
                session.open_objects.output(queue)
            session.connection.close(session.connection.open(schedule.state_queue, _BROWSE))

    def _step(self, session: Session, schedule: Scheduled) -> _Step:
        """Do the next step of a schedule, except for the commit. After an error there is no open unit of work."""
        connection = session.connection
        handle = connection.open(schedule.state_queue, _BROWSE)
        try:
            found = self._browsed(connection, handle, schedule)
        finally:
            connection.close(handle)
        if not found:
            return self._with(session, schedule, _ALONE, self._begun)
        states = [state for got in found if (state := _state(got)) is not None]
        state = max(states, key=lambda state: state.last, default=None)
        decision = Begin() if state is None else decide(state, schedule.rule, self._clock.wall())
        if isinstance(decision, NotDue):
            return _Step(wait_s=decision.seconds)

        def fire(session: Session, handle: ObjectHandle, schedule: Scheduled) -> _Step:
            return self._fired(session, handle, schedule, found, state, decision)

        return self._with(session, schedule, _GET, fire)

    def _with(
        self,
        session: Session,
        schedule: Scheduled,
        options: OpenOption,
        do: Callable[[Session, ObjectHandle, Scheduled], _Step],
    ) -> _Step:
        """Open the state queue and call `do`. After an error, back out first and then close the queue, for other workers."""
        connection = session.connection
        handle = connection.open(schedule.state_queue, options)
        try:
            return do(session, handle, schedule)
        except BaseException:
            with suppress(MQIError):  # only the first error is reported
                connection.backout()
                connection.close(handle)
            raise

    def _fired(
        self,
        session: Session,
        handle: ObjectHandle,
        schedule: Scheduled,
        found: Sequence[Got],
        state: ScheduleState | None,
        decision: Fire | Begin,
    ) -> _Step:
        """Get the state message, and put the schedule's message and the next state message. Without a state, begin."""
        for got in found:
            identifier = got.descriptor.message_id
            options = GetOptions(options=GetOption.SYNCPOINT | _AS_THEY_ARE, match=MatchOption.MSG_ID, message_id=identifier)
            if session.connection.get(handle, options) is None:
                session.connection.backout()
                return _Step(wait_s=_AGAIN_S, handle=handle)
        now = self._clock.wall()
        begins = isinstance(decision, Begin)
        warnings = tuple(_warning(schedule, got, begins=begins) for got in found if _state(got) is None)
        if state is None or isinstance(decision, Begin):
            self._put_state(session, schedule, now)
            return _Step(handle=handle, warnings=warnings, has_unit=True)
        descriptor, data = schedule.message(decision.due, state.last)
        put = session.open_objects.put(schedule.queue, descriptor, data, _PUT)
        self._put_state(session, schedule, decision.due)
        fired = ScheduleFired(
            queue=schedule.queue,
            message_id=put.descriptor.message_id,
            schedule=schedule.name,
            due=decision.due,
            late_s=now - decision.due,
        )
        return _Step(handle=handle, fired=fired, warnings=warnings, has_unit=True)

    def _begun(self, session: Session, handle: ObjectHandle, schedule: Scheduled) -> _Step:
        """Put the first state message, unless another worker has put it after the browse in `_step`."""
        if not self._browsed(session.connection, handle, schedule):
            self._put_state(session, schedule, self._clock.wall())
        return _Step(handle=handle, has_unit=True)

    def _browsed(self, connection: Connection, handle: ObjectHandle, schedule: Scheduled) -> Sequence[Got]:
        """Return the state messages of the schedule: several if somebody has copied one. The next step gets all."""
        key = key_of(self._application, schedule.name)
        options = GetOptions(options=GetOption.BROWSE_NEXT | _AS_THEY_ARE, match=MatchOption.CORREL_ID, correlation_id=key)
        found: list[Got] = []
        while (got := connection.get(handle, options)) is not None:
            found.append(got)
        return found

    def _put_state(self, session: Session, schedule: Scheduled, last: float) -> None:
        state = ScheduleState(schedule=schedule.name, rule=schedule.rule.text, last=last)
        descriptor = MessageDescriptor(
            format=Format.STRING,
            ccsid=_UTF8,
            persistence=Persistence.PERSISTENT,
            correlation_id=key_of(self._application, schedule.name),
        )
        session.open_objects.put(schedule.state_queue, descriptor, msgspec.json.encode(state), _PUT)


def _state(got: Got) -> ScheduleState | None:
    """Return the state in a state message; None if it cannot be read, because another program has put or changed it."""
    try:
        return msgspec.json.decode(got.body, type=ScheduleState)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _warning(schedule: Scheduled, got: Got, *, begins: bool) -> str:
    text = (
        f"The state message {got.descriptor.message_id.hex()} of the schedule {schedule.name} on {schedule.state_queue} cannot "
        "be read, so a new state message replaces it."
    )
    return f"{text} The schedule begins again, and fires nothing for earlier moments." if begins else text
