"""Connects sessions, and reconnects them after an outage. One caller at a time connects, with growing delays between attempts.

`supervisor_states` has the states of the connection. `policy.reconnect` decides which reasons cause another attempt, how long
to wait, and which queue managers are acceptable. A caller that passes its lost session gets a new session with the same objects
open. Handles and cached attributes are valid for one generation, the time between two reconnections.
"""

from collections.abc import Awaitable, Callable
from itertools import count
from typing import Final

import anyio
from msgspec import Struct

from mqflow.events import ConnectionTried, Reconnecting, ReopenRefused
from mqflow.many_verbs import inquire_identifier
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.reconnect.delays import LADDER, Ladder, next_delay_s
from mqflow.policy.reconnect.ledger import Reached, admit
from mqflow.policy.reconnect.mode import ReconnectMode
from mqflow.policy.reconnect.reason_classes import Class, classify, needs_reconnect
from mqflow.runtime.connection.open_objects import name_of
from mqflow.runtime.connection.outage import Outage
from mqflow.runtime.connection.readiness import Readiness
from mqflow.runtime.connection.session import Session, open_session
from mqflow.runtime.connection.supervisor_states import SupervisorEvent, SupervisorState, SupervisorStates
from mqflow.runtime.hooks import Broadcast
from mqflow.verbs import InlineQueueManager, QueueManager
from mqflow.world import World

__all__ = ("Reconnection", "Supervisor")

_QUIESCING: Final = frozenset({Reason.Q_MGR_QUIESCING, Reason.CONNECTION_QUIESCING})


class Reconnection(Struct, frozen=True):
    """The settings for reconnecting."""

    delays: Ladder = LADDER
    #: The application gives up this many seconds after the loss of the connection; None means never.
    limit_s: float | None = None
    #: At the start, the application waits this many seconds for a queue manager that was never reached; infinity for no limit.
    start_limit_s: float = 0.0
    #: Returns the reconnect mode as far as it is known: it can depend on the channel that is connected.
    mode: Callable[[], ReconnectMode] = lambda: ReconnectMode.Q_MGR


_DEFAULT: Final = Reconnection()


class Supervisor:
    """Connects and reconnects the sessions of one application, one session at a time."""

    def __init__(
        self,
        queue_manager: QueueManager,
        *,
        broadcast: Broadcast,
        world: World,
        name: str = "mqflow",
        tag: Callable[[str], str] | None = None,
        reconnection: Reconnection = _DEFAULT,
        readiness: Readiness | None = None,
    ) -> None:
        """Take a queue manager, the name of the application, and the settings for reconnecting.

        `tag` makes the APPLTAG of a connection from the name of its owner; None for the name of the application. `readiness` is
        used if the application has several queue managers: then this supervisor reports to a part of it.
        """
        self.queue_manager: Final = queue_manager
        self.readiness: Final = Readiness(broadcast) if readiness is None else readiness
        self._broadcast = broadcast
        self._world = world
        self._tag: Final = tag if tag is not None else lambda _: name
        self._reconnection = reconnection
        self._gate = anyio.Lock()
        self._states: Final = SupervisorStates()
        self._outage = Outage(world.clock)
        self._numbers = count()
        self._trying = (0, 0.0)
        self._first: Reached | None = None
        #: True if any MQCONNX was answered.
        self._answered = False
        self._idle: list[Callable[[], Awaitable[None]]] = []
        #: The callers that must not wait for the lock while another caller reconnects.
        self._impatient: dict[anyio.CancelScope, None] = {}
        self._stopping = anyio.Event()
        #: The number of reconnections so far. Cached attributes are valid for one generation.
        self.generation: int = 0

    @property
    def queue_manager_name(self) -> str:
        """The name of the queue manager."""
        return self.queue_manager.name

    async def connect(self, user: str = "", *, owner: str = "", before: Session | None = None) -> Session:
        """Return a new session for `owner`, a name for people. It is connected as `user`, or as the application's own user.

        `before` is a lost session. Its objects are open on the new session, except objects that an event `ReopenRefused`
        reports. During an outage all callers wait here: one of them tries to reconnect, with growing delays between its
        attempts.

        A queue manager counts as reached when it has answered MQCONNX. Any failure after that is an outage, even if the inquiry
        of the QMID fails.

        Raises `MQIError` if no queue manager was reached within `start_limit_s`, if no retry can help, or if an embedded queue
        manager has stopped permanently. Raises the reason of the loss if reconnecting is switched off, and 2546 if another
        queue manager answers. Raises 2556 if the time limit is over, and 2202 if the application stops during the wait.
        """
        return await self._connect(user, owner, before, None)

    async def _connect(
        self, user: str, owner: str, before: Session | None, impatient: anyio.CancelScope | None, *, pauses: bool = True
    ) -> Session:
        async with self._gate:
            if not self.away:
                try:
                    session = await self._try(user, owner, before)
                except MQIError as error:
                    # If the queue manager was reached before, or if the start waits for it, an outage begins with this error.
                    if not (self._was_reached or self._waits_at_start) or not needs_reconnect(error):
                        raise
                    self.lost(error)
                else:
                    self.release(before)
                    return session
            for scope in self._impatient:
                if scope is not impatient:
                    scope.cancel()
            self._states.note(SupervisorEvent.STARTED)
            try:
                session, attempts = await self._reconnect(user, owner, before, patient=impatient is None, pauses=pauses)
            except BaseException:
                self._states.note(SupervisorEvent.GAVE_UP)
                raise
            self.generation = session.generation
            self._states.note(SupervisorEvent.RECONNECTED)
            self._outage.count(attempts)
            self.release(before)
            return session

    async def connect_now(self, *, owner: str = "", before: Session | None = None, pauses: bool = True) -> Session:
        """Return a new session like `connect`, but make at most one attempt to reconnect, after the first delay.

        Raises the error of a failed attempt, or 2009 if another caller is reconnecting already. Use this method if the caller
        holds another session. A queue manager that quiesces waits until that session ends, so the caller must not wait for the
        queue manager. With `pauses=False` the attempt has no delay; use it inside a unit of work.
        """
        if self._states.connection is not SupervisorState.RECONNECTING:
            with anyio.CancelScope() as scope:
                self._impatient[scope] = None
                try:
                    return await self._connect("", owner, before, scope, pauses=pauses)
                finally:
                    del self._impatient[scope]
        detail = "Another caller is getting the connection back, and this caller cannot wait for that"
        if not pauses:
            detail += ": its unit of work is lost with its connection, and the messages of that unit are delivered again"
        raise error_for(Reason.CONNECTION_BROKEN, "MQCONNX", queue_manager=self.queue_manager_name, detail=detail)

    def lost(self, error: MQIError, session: Session | None = None) -> None:
        """Record that a connection broke. The next `connect` is a reconnection.

        If the session is of an earlier generation, its loss is not a new outage, because the application has reconnected since.
        The owner of such a session connects without a delay.
        """
        if session is not None:
            self._outage.expect(session)
            if session.generation < self.generation:
                return
        self._note_quiescing(error)
        before = self._states.connection
        is_known = self.away
        self._states.note(SupervisorEvent.BROKE)
        if is_known:
            return
        self._outage.begin(error, goes_on=before is SupervisorState.RETURNING)
        if self.mode is not ReconnectMode.NO and not self._gone_for_good:
            self._broadcast(
                Reconnecting(
                    queue_manager=self.queue_manager_name,
                    attempt=0,
                    reason=int(error.reason),
                    delay_s=0.0,
                    was_connected=self._was_reached,
                )
            )

    def let_go_when_quiescing(self, let_go: Callable[[], Awaitable[None]]) -> None:
        """Call `let_go` when the queue manager quiesces. `let_go` asks the owner of an idle session to close it.

        A queue manager that quiesces ends after its last connection, and an idle connection does not notice the quiescing.
        """
        self._idle.append(let_go)

    def expect(self, session: Session) -> None:
        """Record that this session may be lost. The outage lasts until its owner has a new session or calls `release`."""
        self._outage.expect(session)

    def release(self, session: Session | None) -> None:
        """Record that the owner of this lost session has a new session, or needs none. This can end the outage; report that."""
        if session is not None:
            self._outage.expect_no_more(session)
        if self._states.connection is SupervisorState.RETURNING and self._outage.all_back:
            self._states.note(SupervisorEvent.ALL_BACK)
            self._broadcast(self._outage.end(self.queue_manager_name, self.generation))

    def stop(self) -> None:
        """Stop waiting for a queue manager: callers that wait get the error 2202."""
        self._stopping.set()
        self.readiness.stopped()

    @property
    def away(self) -> bool:
        """True if the connection is lost, and no new connection exists yet."""
        return self._states.away

    @property
    def ended(self) -> bool:
        """True if the connection is lost, and the mode forbids reconnecting."""
        return self.away and self.mode is ReconnectMode.NO

    @property
    def mode(self) -> ReconnectMode:
        """The reconnect mode: the reaction to a lost connection, as far as it is known now."""
        return self._reconnection.mode()

    @property
    def current_attempt(self) -> tuple[int, float]:
        """The number of the current attempt (0 outside of outages), and the delay before that attempt in seconds."""
        return self._trying

    @property
    def _was_reached(self) -> bool:
        """True if any MQCONNX was answered, even if the next verb found the connection broken."""
        # Only a queue manager behind a channel table has the attribute `reached`, because it answers MQCONNX without a session.
        return self._answered or getattr(self.queue_manager, "reached", False)

    @property
    def _waits_at_start(self) -> bool:
        return self._reconnection.start_limit_s > 0 and self.mode is not ReconnectMode.NO

    @property
    def _gone_for_good(self) -> bool:
        return isinstance(self.queue_manager, InlineQueueManager) and self.queue_manager.stopped

    async def _pause(self, delay_s: float) -> None:
        with anyio.move_on_after(delay_s):
            await self._stopping.wait()
        if self._stopping.is_set():  # also if the time was over at the same moment
            detail = "The application is stopping, and no longer waits for a queue manager"
            raise error_for(Reason.CONNECTION_QUIESCING, "MQCONNX", queue_manager=self.queue_manager_name, detail=detail)

    def _next_delay_s(self, attempt: int, lost_at: float) -> float | None:
        """Return the seconds to wait before this attempt; None if the time limit is over."""
        lost_for_s = self._world.clock.monotonic() - lost_at
        random, how = self._world.random.random(), self._reconnection
        limit_s = how.limit_s if self._was_reached else how.start_limit_s
        return next_delay_s(attempt, random, ladder=how.delays, lost_for_s=lost_for_s, limit_s=limit_s)

    def _timed_out(self, lost_at: float) -> MQIError:
        lost_for_s, limit_s = self._world.clock.monotonic() - lost_at, self._reconnection.limit_s
        detail = f"The connection was lost {lost_for_s:.0f} s ago, and the limit for getting it back is {limit_s:g} s"
        return error_for(Reason.RECONNECT_TIMED_OUT, "MQCONNX", queue_manager=self.queue_manager_name, detail=detail)

    async def _reconnect(
        self, user: str, owner: str, before: Session | None, *, patient: bool, pauses: bool
    ) -> tuple[Session, int]:
        """Return the first session of a new generation, and the number of attempts that were made."""
        lost_at, error = self._outage.began
        if self.mode is ReconnectMode.NO:
            where = f"{error.verb} on {error.object_name}" if error.object_name else error.verb
            detail = f"{where} found the connection lost, and reconnect.mode, or DefRecon, forbids reconnecting"
            raise error_for(int(error.reason), "MQCONNX", queue_manager=self.queue_manager_name, detail=detail)
        attempt, delay_s = 0, self._next_delay_s(1, lost_at) if pauses else 0.0
        while delay_s is not None:
            attempt += 1
            if self._states.queue_manager is SupervisorState.QUIESCING:
                self._states.note(SupervisorEvent.LET_GO)
                for let_go in self._idle:
                    await let_go()
            if pauses and not self._gone_for_good:
                await self._pause(delay_s)
            try:
                return await self._try(user, owner, before, attempt, delay_s), attempt
            except MQIError as refused:
                error = refused
                if self._gone_for_good or classify(int(error.reason)) is Class.CONFIGURATION:
                    raise
                self._note_quiescing(error)
                following_s = self._next_delay_s(attempt + 1, lost_at) if patient else None
                self._broadcast(
                    Reconnecting(
                        queue_manager=self.queue_manager_name,
                        attempt=attempt,
                        reason=int(error.reason),
                        delay_s=delay_s,
                        lost_for_s=self._world.clock.monotonic() - lost_at,
                        next_in_s=following_s or 0.0,
                    )
                )
                if not patient:
                    raise
                delay_s = following_s
        raise self._timed_out(lost_at) if self._was_reached else error

    def _note_quiescing(self, error: MQIError) -> None:
        if error.reason in _QUIESCING:
            self._states.note(SupervisorEvent.QUIESCED)

    async def _try(self, user: str, owner: str, before: Session | None, attempt: int = 0, delay_s: float = 0.0) -> Session:
        """Return a session like `_connect_once`, and report the result. An `attempt` above 0 begins a new generation."""
        self._trying = (attempt, delay_s)
        try:
            session = await self._connect_once(user, owner, before, again=attempt > 0)
        except MQIError as error:
            self._report_attempt(error)
            raise
        self._report_attempt(None)
        return session

    def _report_attempt(self, error: MQIError | None) -> None:
        # Only a queue manager behind a channel table has `notify`. It reports each attempt for an entry of its table by itself.
        if hasattr(self.queue_manager, "notify") or not self._broadcast.wanted(ConnectionTried):
            return
        attempt, delay_s = self._trying
        self._broadcast(
            ConnectionTried(
                queue_manager=self.queue_manager_name,
                attempt=attempt,
                delay_s=delay_s,
                reason=0 if error is None else int(error.reason),
                detail="" if error is None else str(error),
            )
        )

    async def _connect_once(self, user: str, owner: str, before: Session | None, *, again: bool) -> Session:
        """Return a session with the objects of `before` open. `again` is true if the session begins a new generation."""
        runner = self._world.runner
        session = await open_session(self.queue_manager, runner, self._tag(owner), user, owner=owner, numbers=self._numbers)
        self._answered = True
        if self._states.connection is SupervisorState.UNREACHED:
            self._states.note(SupervisorEvent.ANSWERED)
        session.generation = self.generation + again
        try:
            await self._check(session, again=again)
            if before is not None:
                await self._take_over(session, before)
        except BaseException:
            await session.close()
            raise
        return session

    async def _take_over(self, session: Session, before: Session) -> None:
        taken = await session.call(session.open_objects.take_over, before.open_objects)
        self._outage.reopened(taken.objects)
        for each in taken.refused:
            self._broadcast(
                ReopenRefused(
                    queue_manager=self.queue_manager_name,
                    object=name_of(each.entry),
                    owner=each.entry.owner,
                    reason=int(each.error.reason),
                    detail=str(each.error),
                )
            )

    async def _check(self, session: Session, *, again: bool) -> None:
        """Raise 2546 if the mode accepts only the first queue manager, and another queue manager has answered.

        The QMID is inquired once for each generation. Later connections compare only the queue manager's name, which needs no
        call.
        """
        # Only a queue manager behind a channel table has `default_reconnect`. It checks the QMID itself, for each entry.
        keeps_to_one = isinstance(self.queue_manager, InlineQueueManager) or hasattr(self.queue_manager, "default_reconnect")
        if keeps_to_one or self.mode is not ReconnectMode.Q_MGR:
            return
        asked = again or self._first is None
        identifier = await session.call(inquire_identifier, session.connection) if asked else ""
        now = Reached(session.connection.queue_manager_name, identifier)
        if self._first is None:
            self._first = now
        error = admit(ReconnectMode.Q_MGR, self._first, now)
        if error is not None:
            raise error
