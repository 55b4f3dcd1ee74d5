"""Runs a DLQ handler inside an application, until WAIT of its rules table is over or the application stops.

This module waits, settles and reconnects, on a session of its own. `dead_letter_handler` acts on the messages.
"""

from collections.abc import Callable
from typing import Final

import anyio
from anyio.abc import TaskStatus
from msgspec.structs import replace

from mqflow.events import Event, InDoubt, Warned
from mqflow.many_verbs import inquire_queue_manager
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.dead_letters.scan import Look
from mqflow.policy.poison.disposition import Settlement
from mqflow.policy.reconnect.reason_classes import Class, classify, leaves_in_doubt
from mqflow.runtime.connection.session import Session
from mqflow.runtime.connection.supervisor import Supervisor
from mqflow.runtime.dead_letters.dead_letter_handler import DeadLetterHandler, Rules
from mqflow.runtime.decision_records import ConnectionRecorder
from mqflow.runtime.hooks import Broadcast
from mqflow.verbs import Got
from mqflow.world import Clock

__all__ = ("DeadLetterService",)

_PAUSE_S: Final = 5.0
"""Seconds to wait after the dead-letter queue has refused a call."""
_POLL_S: Final = 1.0


class DeadLetterService:
    """Runs one handler on one queue."""

    def __init__(
        self,
        rules: Rules,
        queue: str,
        supervisor: Supervisor,
        *,
        broadcast: Broadcast,
        clock: Clock,
        changed: Callable[[], Rules | None] | None = None,
        records: ConnectionRecorder | None = None,
    ) -> None:
        self._rules = rules
        #: The dead-letter queue; empty for the DEADQ of the queue manager.
        self._queue = queue
        self._supervisor = supervisor
        self._broadcast = broadcast
        self._events = _EventBuffer(broadcast)
        self._clock = clock
        #: Called once a second; returns new rules if they have changed. None if the rules never change.
        self._changed = changed
        self._records = records
        self._polled_at = clock.monotonic()
        self._stopping = anyio.Event()
        self._session: Session | None = None
        #: The lost session. The next session takes over its open objects.
        self._lost: Session | None = None
        self._handler: DeadLetterHandler | None = None
        #: The reason code of the last warning, while the queue refuses.
        self._warned_of: int | None = None

    @property
    def name(self) -> str:
        """The name of the service and its queue, for people."""
        return f"DLQ handler of {self._queue or 'the dead-letter queue'}"

    def stop(self) -> None:
        """Stop browsing. The open unit of work is settled, then `run` returns."""
        self._stopping.set()
        if self._session is not None:
            self._session.interrupt()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Run the handler until WAIT or `stop` ends it. The service counts as started when it has tried to open its queue.

        Raises `MQIError` if an error at the start needs a person, or if reconnecting fails permanently. If the queue cannot be
        opened for another reason, for example 2042, the service gives a warning and tries again.
        """
        started = False
        while not self._stopping.is_set():
            try:
                session = await self._connect()
            except MQIError as error:
                if not started or self._lost is not None or self._supervisor.away:
                    raise
                await self._warn(error)
                continue
            if session is None:
                break
            self._session, self._lost = session, None
            try:
                handler = await self._open(session)
                if not started:
                    task_status.started()
                    started = True
                await self._handle(session, handler)
            except MQIError as error:
                if self._waits_after(error, session, started=started):
                    if not started:  # the other parts of the application do not wait for this queue
                        task_status.started()
                        started = True
                    await self._warn(error)
                continue
            finally:
                self._session = None
                await session.close()
            break
        self._supervisor.release(self._lost)
        if not started:
            task_status.started()

    @property
    def _named(self) -> str:
        """The name of the queue. For the DEADQ, the name is empty until the queue manager has told it."""
        return self._queue if self._handler is None else self._handler.queue

    async def _connect(self) -> Session | None:
        """Return a session, or None if the application stops before a session is connected."""
        try:
            return await self._supervisor.connect(owner="DLQ handler", before=self._lost)
        except MQIError:
            if self._stopping.is_set():
                return None
            raise

    async def _open(self, session: Session) -> DeadLetterHandler:
        handler = self._handler
        if handler is None:
            queue = self._queue or await session.call(_dead_letter_queue, session)
            handler = DeadLetterHandler(self._rules, queue, clock=self._clock, broadcast=self._events, records=self._records)
            self._handler = handler
        await session.call(handler.open, session.connection, session.open_objects.hold)
        if not self._warned_of:
            self._supervisor.readiness.has(self)
        return handler

    async def _handle(self, session: Session, handler: DeadLetterHandler) -> None:
        """Handle messages until the handler ends or the service is stopped."""
        while not self._stopping.is_set():
            self._poll(handler)
            look = handler.look()
            if look is None:
                return
            got = await self._look(session, handler, look)
            settlement = await session.call(handler.act, look, got)
            if settlement is not None and got is not None:
                handler.settled(await self._settle(session, settlement, got))
            if handler.owes_records:
                await session.call(handler.record_left)
            self._events.pass_on()
        await session.call(handler.rest)

    async def _look(self, session: Session, handler: DeadLetterHandler, look: Look) -> Got | None:
        if self._warned_of:  # get without a wait, to see soon whether the queue still refuses
            got = await self._get(session, handler, replace(look, wait_s=0))
            self._warned_of = None
            self._supervisor.readiness.has(self)
            if got is not None:
                return got
        wait_s = look.wait_s if self._changed is None else min(look.wait_s, _POLL_S)
        return await self._get(session, handler, replace(look, wait_s=wait_s))

    async def _get(self, session: Session, handler: DeadLetterHandler, look: Look) -> Got | None:
        options = handler.options(look)
        exchange = await session.exchange(None, handler.handle, options, most=1)
        if exchange.get_error is not None:
            raise exchange.get_error
        return exchange.unit[0] if exchange.unit else None

    async def _settle(self, session: Session, settlement: Settlement, got: Got) -> MQIError | None:
        """End the unit of work. If the queue manager backed it out at the commit, return the error 2003."""
        try:
            await session.settle(settlement)
        except MQIError as error:
            if leaves_in_doubt(error):
                ids = (got.descriptor.message_id,)
                reason = int(error.reason)
                self._broadcast(InDoubt(queue=self._named, listener="DLQ handler", reason=reason, message_ids=ids))
            if error.reason != Reason.BACKED_OUT:
                raise
            return error
        return None

    def _poll(self, handler: DeadLetterHandler) -> None:
        now = self._clock.monotonic()
        if self._changed is None or now < self._polled_at + _POLL_S:
            return
        self._polled_at = now
        rules = self._changed()
        if rules is not None:
            self._rules = rules
            handler.reload(rules)

    def _waits_after(self, error: MQIError, session: Session, *, started: bool) -> bool:
        """Return whether to wait before the next attempt. A lost connection needs no wait here.

        If the service has not started yet, an error that no retry can change is raised.
        """
        self._supervisor.readiness.lacks(self, self._named or "the dead-letter queue")
        match classify(int(error.reason)):
            case Class.RECONNECT:
                self._lost = session
                self._supervisor.lost(error, session)
                return False
            case Class.CONFIGURATION if not started:
                raise error
            case _:
                if not started and self._handler is None:
                    raise error
        return True

    async def _warn(self, error: MQIError) -> None:
        """Report the cause of a refusal once. Then wait until the next attempt, or until the application stops."""
        if self._warned_of != error.reason:
            self._warned_of = int(error.reason)
            self._broadcast(Warned(text=f"The DLQ handler waits. {error}", queue=self._named))
        with anyio.move_on_after(_PAUSE_S):
            await self._stopping.wait()


class _EventBuffer:
    """Keeps events, which the handler can make on the session's thread, until the event loop passes them on."""

    def __init__(self, broadcast: Broadcast) -> None:
        self._broadcast = broadcast
        self._events: list[Event] = []
        self.wanted: Final = broadcast.wanted

    def __call__(self, event: Event) -> None:
        self._events.append(event)

    def pass_on(self) -> None:
        """Pass the events on to the hooks."""
        events, self._events = self._events, []
        for event in events:
            self._broadcast(event)


def _dead_letter_queue(session: Session) -> str:
    connection = session.connection
    queue = inquire_queue_manager(connection).dead_letter_queue
    if not queue:
        detail = "It has no dead-letter queue: ALTER QMGR DEADQ('...'), or name the queue"
        raise error_for(Reason.UNKNOWN_OBJECT_NAME, "MQINQ", "", connection.queue_manager_name, detail)
    return queue
