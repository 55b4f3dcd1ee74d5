"""Gives sessions, and gives them back after an outage: one gate for all, the ladder of delays, a generation for every return.

Knows which reasons mean "try again" from `policy.reconnect.reason_classes`, and what may be reconnected to from
`policy.reconnect.ledger`; knows nothing of listeners. Who comes back with the session that it lost gets another one on which
the same is open; handles and cached attributes belong to one generation.
"""

from collections.abc import Awaitable, Callable
from itertools import count
from typing import Final

import anyio

from mqflow.events import ConnectionTried, Reconnecting, ReopenRefused
from mqflow.many_verbs import inquire_queue_manager
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.reconnect.delays import LADDER, Ladder, next_delay_s
from mqflow.policy.reconnect.ledger import Reached, admit
from mqflow.policy.reconnect.mode import ReconnectMode
from mqflow.policy.reconnect.reason_classes import Class, classify
from mqflow.runtime.connection.open_objects import name_of
from mqflow.runtime.connection.outage import Outage
from mqflow.runtime.connection.readiness import Readiness
from mqflow.runtime.connection.session import Session, open_session
from mqflow.runtime.hooks import Broadcast
from mqflow.verbs import InlineQueueManager, QueueManager
from mqflow.world import Clock, Random, Runner

__all__ = ("Supervisor",)


_QUIESCING: Final = frozenset({Reason.Q_MGR_QUIESCING, Reason.CONNECTION_QUIESCING})


def _the_same() -> ReconnectMode:
    return ReconnectMode.Q_MGR


class Supervisor:
    """Connects, for everybody, one at a time."""

    def __init__(
        self,
        queue_manager: QueueManager,
        *,
        broadcast: Broadcast,
        clock: Clock,
        random: Random,
        runner: Runner,
        name: str = "mqflow",
        delays: Ladder = LADDER,
        limit_s: float | None = None,
        mode: Callable[[], ReconnectMode] = _the_same,
    ) -> None:
        """Take a queue manager, and how long to wait for it: the ladder goes on for ever, or until `limit_s` after the loss.

        `mode` is asked when a connection is lost, for it may depend on the channel that was reached.
        """
        self.queue_manager: Final = queue_manager
        self.readiness: Final = Readiness(broadcast)
        self._broadcast = broadcast
        self._clock = clock
        self._random = random
        self._runner = runner
        self._name = name
        self._delays = delays
        self._limit_s = limit_s
        self._mode = mode
        self._gate = anyio.Lock()
        self._outage = Outage(broadcast, clock)
        self._numbers = count(1)
        self._reached = False
        self._trying = (0, 0.0)
        self._first: Reached | None = None
        #: Whether the queue manager was found quiescing, and nobody was asked yet to let go.
        self._quiesces = False
        self._resting: list[Callable[[], Awaitable[None]]] = []
        #: Whether somebody goes through the delays while others wait at the gate; and who does not wait there for that.
        self._walking = False
        self._impatient: dict[anyio.CancelScope, None] = {}
        self._stopping = anyio.Event()
        #: Counts the outages after which a connection was had again; cached attributes belong to one generation.
        self.generation = 0

    @property
    def queue_manager_name(self) -> str:
        """The name of the queue manager that sessions are connected to."""
        return self.queue_manager.name

    async def connect(self, user: str = "", *, owner: str = "", before: Session | None = None) -> Session:
        """Return a new session; `user` is whose, where it is not the application's own, `owner` for whom, in words.

        What the session `before`, which was lost, had open is open on it, except what is refused and told. During an outage
        everybody waits here, and one of them walks the ladder.

        A connection was had once MQCONNX was answered: what breaks after that, be it the question for the QMID, is an outage.

        Raises `MQIError` when nothing was ever reached, when the reason is one that no retry can change, when an embedded queue
        manager has stopped for good, the reason of the loss where reconnecting is switched off, 2546 where another queue
        manager answers, 2556 when the time limit is over, and 2202 when the application stops meanwhile.
        """
        return await self._connect(user, owner, before, None)

    async def _connect(
        self, user: str, owner: str, before: Session | None, impatient: anyio.CancelScope | None, *, pauses: bool = True
    ) -> Session:
        async with self._gate:
            if not self._outage.lasts:
                try:
                    session = await self._try(user, owner, before)
                except MQIError as error:
                    # Reached before, so this is an outage like any other: another one began before this caller was back.
                    if not self._was_reached or classify(int(error.reason)) is not Class.RECONNECT:
                        raise
                    self.lost(error)
                else:
                    self._outage.back(before, self.queue_manager_name, self.generation)
                    return session
            for scope in self._impatient:
                if scope is not impatient:
                    scope.cancel()
            self._walking = True
            try:
                return await self._reconnect(user, owner, before, patient=impatient is None, pauses=pauses)
            finally:
                self._walking = False

    async def connect_now(self, *, owner: str = "", before: Session | None = None, pauses: bool = True) -> Session:
        """As `connect`, but raise where one attempt after the first delay fails, or somebody else is attempting already.

        For who holds another session meanwhile: a queue manager that quiesces waits for that one, and both would for ever.
        Unless it `pauses`, the attempt is made at once: for who would have lost a unit of work with the connection.
        """
        if not self._walking:
            with anyio.CancelScope() as scope:
                self._impatient[scope] = None
                try:
                    return await self._connect("", owner, before, scope, pauses=pauses)
                finally:
                    del self._impatient[scope]
        said = "The connection is being got back, and this cannot wait for that"
        if not pauses:
            said += ": a unit of work goes with its connection, and what was delivered in it comes again"
        raise error_for(Reason.CONNECTION_BROKEN, "MQCONNX", queue_manager=self.queue_manager_name, detail=said)

    def lost(self, error: MQIError, session: Session | None = None) -> None:
        """Note that a connection broke: the next `connect` is a reconnect.

        Who loses a session of an earlier generation comes late: another connection has been had since, and is had at once.
        """
        if session is not None:
            self._outage.waits(session)
            if session.generation < self.generation:
                return
        self._note_quiescing(error)
        if self._outage.begins(error) and self.mode is not ReconnectMode.NO and not self._gone_for_good:
            self._broadcast(
                Reconnecting(queue_manager=self.queue_manager_name, attempt=0, reason=int(error.reason), delay_s=0.0)
            )

    def rests(self, let_go: Callable[[], Awaitable[None]]) -> None:
        """Note who holds a session between two uses of it, and how it is asked to let go: while the queue manager quiesces.

        A queue manager that quiesces ends when the last connection has, and a connection that is not used does not notice.
        """
        self._resting.append(let_go)

    def expects(self, session: Session) -> None:
        """Note that this session may be lost as well: the outage is not over before its owner is back, or releases it."""
        self._outage.waits(session)

    def release(self, session: Session | None) -> None:
        """Note that nobody comes back with this session."""
        self._outage.back(session, self.queue_manager_name, self.generation)

    def stop(self) -> None:
        """Wait for no queue manager any more: who waits for one is told 2202."""
        self._stopping.set()
        self.readiness.stopped()

    @property
    def away(self) -> bool:
        """Whether the connection is lost, and no other was had since."""
        return self._outage.lasts

    @property
    def ended(self) -> bool:
        """Whether the connection is lost and is not to be got again."""
        return self._outage.lasts and self.mode is ReconnectMode.NO

    @property
    def mode(self) -> ReconnectMode:
        """What is done when a connection is lost, as far as is known by now."""
        return self._mode()

    @property
    def trying(self) -> tuple[int, float]:
        """Which attempt is under way, 0 outside of outages, and how long was waited before it."""
        return self._trying

    @property
    def _was_reached(self) -> bool:
        """Whether a connection was ever had: MQCONNX was answered, even if what came next found it broken."""
        return self._reached or getattr(self.queue_manager, "reached", False)

    @property
    def _gone_for_good(self) -> bool:
        return isinstance(self.queue_manager, InlineQueueManager) and self.queue_manager.stopped

    async def _pause(self, delay_s: float) -> None:
        with anyio.move_on_after(delay_s):
            await self._stopping.wait()
            said = "The application is stopping, and waits for no queue manager any more"
            raise error_for(Reason.CONNECTION_QUIESCING, "MQCONNX", queue_manager=self.queue_manager_name, detail=said)

    def _next_delay_s(self, attempt: int, lost_at: float) -> float | None:
        """Return how long to wait before this attempt; None where the time limit is over."""
        lost_for_s = self._clock.monotonic() - lost_at
        random = self._random.random()
        return next_delay_s(attempt, random, ladder=self._delays, lost_for_s=lost_for_s, limit_s=self._limit_s)

    def _timed_out(self, lost_at: float) -> MQIError:
        lost_for_s = self._clock.monotonic() - lost_at
        said = f"The connection was lost {lost_for_s:.0f} s ago, and the limit for getting it back is {self._limit_s:g} s"
        return error_for(Reason.RECONNECT_TIMED_OUT, "MQCONNX", queue_manager=self.queue_manager_name, detail=said)

    async def _reconnect(self, user: str, owner: str, before: Session | None, *, patient: bool, pauses: bool) -> Session:
        lost_at, error = self._outage.began
        if self.mode is ReconnectMode.NO:
            where = f"{error.verb} on {error.object_name}" if error.object_name else error.verb
            said = f"{where} found the connection lost, and it is not to be got again (reconnect.mode, or DefRecon, says so)"
            raise error_for(int(error.reason), "MQCONNX", queue_manager=self.queue_manager_name, detail=said)
        attempt, delay_s = 0, self._next_delay_s(1, lost_at) if pauses else 0.0
        while delay_s is not None:
            attempt += 1
            if self._quiesces:
                self._quiesces = False
                for let_go in self._resting:
                    await let_go()
            if pauses and not self._gone_for_good:
                await self._pause(delay_s)
            try:
                session = await self._try(user, owner, before, attempt, delay_s)
            except MQIError as error:
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
                        lost_for_s=self._clock.monotonic() - lost_at,
                        next_in_s=following_s or 0.0,
                    )
                )
                if not patient:
                    raise
                delay_s = following_s
                continue
            self.generation = session.generation
            self._outage.connected(attempt)
            self._outage.back(before, self.queue_manager_name, self.generation)
            return session
        raise self._timed_out(lost_at)

    def _note_quiescing(self, error: MQIError) -> None:
        self._quiesces = self._quiesces or error.reason in _QUIESCING

    async def _try(self, user: str, owner: str, before: Session | None, attempt: int = 0, delay_s: float = 0.0) -> Session:
        """As `_connect_once`, and tell how it went; an `attempt` above 0 makes a new generation."""
        self._trying = (attempt, delay_s)
        try:
            session = await self._connect_once(user, owner, before, again=attempt > 0)
        except MQIError as error:
            self._tried(error)
            raise
        self._tried(None)
        return session

    def _tried(self, error: MQIError | None) -> None:
        if hasattr(self.queue_manager, "tell") or not self._broadcast.wanted(ConnectionTried):  # a table tells by entry
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
        """Return a session with what the one before had open; `again` where it is the first of a new generation."""
        session = await open_session(self.queue_manager, self._runner, self._name, user, owner=owner, numbers=self._numbers)
        self._reached = True
        session.generation = self.generation + again
        try:
            await self._check(session, again=again)
            if before is not None:
                await self._take_over(session, before)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await session.close()
            raise
        return session

    async def _take_over(self, session: Session, before: Session) -> None:
        taken = await session.call(session.openings.take_over, before.openings)
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
        """Raise 2546 where another queue manager than the first answers, and only that one will do.

        The QMID is asked for once in a generation: later connections go by the name, which costs nothing.
        """
        keeps_to_one = isinstance(self.queue_manager, InlineQueueManager) or hasattr(self.queue_manager, "default_reconnect")
        if keeps_to_one or self.mode is not ReconnectMode.Q_MGR:  # a channel table looks at the QMID itself, entry by entry
            return
        asked = again or self._first is None
        now = Reached(session.connection.queue_manager_name, await _identifier(session) if asked else "")
        if self._first is None:
            self._first = now
        error = admit(ReconnectMode.Q_MGR, self._first, now)
        if error is not None:
            raise error


async def _identifier(session: Session) -> str:
    """Return the QMID; nothing where this user may not inquire it: the name has to do then."""
    try:
        return (await session.call(inquire_queue_manager, session.connection)).identifier
    except MQIError as error:
        if classify(int(error.reason)) is Class.RECONNECT:
            raise
        return ""
