"""Carries out a rules table on a dead-letter queue: browse with a lock, get, put, and settle, a unit of work for each message.

Where the table takes everything, the last message was dealt with and none has stayed, the browse is left out.

Decides nothing: where to look is said by `policy.dead_letters.scan`, what to do by `policy.dead_letters.actions`. Whoever
drives it waits and settles: `run_to_end` here for a thread of its own, `runtime.dead_letters.service` for an event loop.
Source: IBM, "Processing the DLQ rules table"; facts 1.6.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol, assert_never

from msgspec import Struct
from msgspec.structs import replace

from mqflow.events import DeadLetterActed, Event, Warned
from mqflow.mqi.errors import MQIError
from mqflow.mqi.headers.dead_letter import DLH_BYTES
from mqflow.mqi.options import GetOption, MatchOption, OpenOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.dead_letters.actions import (
    Chosen,
    DeadLetter,
    Discard,
    Ignore,
    Intent,
    Matcher,
    Redirect,
    UnjudgedError,
    choose,
    dead_letter,
    redirected,
    takes_everything,
)
from mqflow.policy.dead_letters.rules import Control
from mqflow.policy.dead_letters.scan import HISTORY_MAX, History, Look, Scan
from mqflow.policy.poison.disposition import Settlement
from mqflow.policy.reconnect.reason_classes import Class, classify
from mqflow.runtime.connection.output_handles import Targets
from mqflow.runtime.dead_letters.dead_letter_records import DeadLetterRecords
from mqflow.runtime.decision_records import ConnectionRecorder
from mqflow.verbs import Connection, GetOptions, Got, ObjectHandle
from mqflow.world import Clock

__all__ = ("DLQ_OPTIONS", "DeadLetterHandler", "Rules", "Telling", "run_to_end")

DLQ_OPTIONS: Final = OpenOption.BROWSE | OpenOption.INPUT_AS_Q_DEF | OpenOption.SAVE_ALL_CONTEXT | OpenOption.FAIL_IF_QUIESCING
# A message that is moved keeps its properties, whatever PROPCTL hides.
_AS_IT_IS: Final = GetOption.FAIL_IF_QUIESCING | GetOption.PROPERTIES_FORCE_MQRFH2
_LOOK: Final = GetOption.LOCK | GetOption.ACCEPT_TRUNCATED_MSG | GetOption.NO_SYNCPOINT | _AS_IT_IS
_TAKE: Final = GetOptions(options=GetOption.MSG_UNDER_CURSOR | GetOption.SYNCPOINT | _AS_IT_IS)
_TAKE_NEXT: Final = GetOptions(options=GetOption.SYNCPOINT | _AS_IT_IS)
_WHATEVER_IS_NEXT: Final = Look()
_UNLOCK: Final = GetOptions(options=GetOption.UNLOCK | GetOption.NO_SYNCPOINT)
_IDENTITY_BYTES: Final = 24


class Telling(Protocol):
    """Whom the handler tells what it did: a `Broadcast`, or what keeps it for one."""

    @property
    def wanted(self) -> Callable[[type], bool]:
        """Says whether anybody wants this class of event."""
        ...

    def __call__(self, event: Event) -> None:
        """Take note."""
        ...


class Rules(Struct, frozen=True):
    """What a handler goes by."""

    control: Control
    matchers: Sequence[Matcher]
    #: Whether a rule looks at more of a message than the descriptor and the MQDLH.
    whole: bool = False


class _Open(Struct):
    """A message that an action was carried out on, in a unit of work that is not settled."""

    identity: bytes
    letter: DeadLetter
    chosen: Chosen
    attempt: int
    failure: MQIError | None = None


class DeadLetterHandler:
    """Handles one dead-letter queue on one connection. Call `look`, get with `options`, `act`, settle, `settled`; again.

    Several of them may work on one queue: the lock of the browse keeps each message to one.
    """

    def __init__(
        self,
        rules: Rules,
        queue: str,
        *,
        clock: Clock,
        broadcast: Telling,
        history_max: int = HISTORY_MAX,
        records: ConnectionRecorder | None = None,
    ) -> None:
        self.queue: Final = queue
        self._rules = rules
        self._clock = clock
        self._broadcast = broadcast
        #: Puts a record of each action, in its unit of work; None for none.
        self._records = None if records is None else DeadLetterRecords(records, queue)
        if records is not None:
            records.tell = broadcast
        self._history = History(history_max)
        self._scan = self._new_scan()
        self._connection: Connection | None = None
        self._opened: Targets | None = None
        self._handle: ObjectHandle | None = None
        self._open: _Open | None = None
        self._strays = 0
        self._first_stray = b""
        # Whether the message looked at last is locked, and was left where it is.
        self._holding = False
        self._told_overflow = False
        #: The rules whose functions have raised.
        self._stumbled: set[str] = set()
        self._options: dict[Look, GetOptions] = {}
        self._takes_everything = takes_everything(rules.matchers)
        #: Whether the last message was a dead letter, and was dealt with: what is next probably is as well.
        self._flows = False
        #: Whether the next message is taken without a look at it first.
        self._at_once = False
        #: Messages were taken from the head since the cursor was placed: browse from there.
        self._behind = False
        #: The message that stayed when it was taken: it is met again, and its time has not come.
        self._stayed = b""

    @property
    def connection(self) -> Connection:
        """What it works on; `open` comes first."""
        assert self._connection is not None  # noqa: S101 - the order of the calls is this module's
        return self._connection

    @property
    def handle(self) -> ObjectHandle:
        """The dead-letter queue."""
        assert self._handle is not None  # noqa: S101 - as above
        return self._handle

    @property
    def _targets(self) -> Targets:
        assert self._opened is not None  # noqa: S101 - as above
        return self._opened

    def open(self, connection: Connection, hold: Callable[[str, OpenOption], ObjectHandle] | None = None) -> None:
        """Open the dead-letter queue on a connection, the first one or the next after an outage. Raises what MQOPEN raises.

        `hold` opens what the next connection is to have open too.
        """
        self._handle = (hold or connection.open)(self.queue, DLQ_OPTIONS)
        self._connection = connection
        self._opened = Targets(connection, self._handle)
        self._open = None
        self._holding = False
        self._scan = self._new_scan()  # the cursor of a new handle is at the head

    def reload(self, rules: Rules) -> None:
        """Go by other rules from the next message on, from the head of the queue. What was attempted so far still counts."""
        self._rules = rules
        self._takes_everything = takes_everything(rules.matchers)
        self._options.clear()
        self._scan = self._new_scan()

    def look(self) -> Look | None:
        """Return where to look next, or None where the handler has done."""
        self._at_once = self._flows and self._takes_everything and not self._history
        return _WHATEVER_IS_NEXT if self._at_once else self._scan.next(self._clock.monotonic())

    def options(self, look: Look) -> GetOptions:
        """Return how to get what the look is for: browsing with a lock, or at once; and waiting where the look says so."""
        if self._at_once:
            return _TAKE_NEXT
        if self._behind and not look.identity:
            look = replace(look, from_head=True)
        found = self._options.get(look)
        if found is None:
            found = self._look_options(look)
            if not look.wait_s and not look.identity:  # the few that come again for every message
                self._options[look] = found
        return found

    def act(self, look: Look, got: Got | None) -> Settlement | None:
        """Do what is to be done with what the look found; None where there is nothing to settle.

        Raises `MQIError` where the connection is lost, or the dead-letter queue refuses; a target that refuses is an attempt
        that failed.
        """
        if self._at_once:
            return self._taken(got)
        if got is None:
            self._nothing(look)
            return None
        self._scan.found()
        self._holding = True
        self._behind = self._behind and bool(look.identity)
        identity = got.descriptor.message_id + got.descriptor.correlation_id
        known = identity in self._history
        if known and (look.new_only or (identity == self._stayed and not look.identity)):
            self._stayed = b""
            self._history.attempts(identity)  # it is still there
            return None
        letter = dead_letter(got.descriptor, got.body)
        if letter is None:
            self._stray(identity, known=known)
            return None
        attempts = self._history.attempts(identity)
        chosen = self._chosen(letter, attempts)
        if isinstance(chosen.intent, Ignore):
            self._ignored(identity, letter, chosen, attempts, known=known)
            return None
        return self._carry_out(identity, chosen, attempts + 1, letter)

    def settled(self, error: MQIError | None = None) -> None:
        """Note how the unit of work that `act` wanted settled has ended; an error is one that backed it out (2003)."""
        done, self._open = self._open, None
        if done is None:  # a message that no rule is for: it is back in its place
            return
        now = self._clock.monotonic()
        failure = done.failure or error
        self._flows = failure is None
        if failure is None:
            self._history.forget(done.identity)
            self._scan.worked(now)
        else:
            self._scan.failed(done.identity, now)
            if not self._history.keep(done.identity, done.attempt):
                self._tell_overflow()
        self._tell(done.letter, done.chosen, done.attempt, failure)
        if failure is not None:
            if self._records is not None:
                self._records.stays(done.letter, done.chosen, failure)
            self._tell_given_up(done)

    @property
    def owes_records(self) -> bool:
        """Whether messages stay of which that is not recorded yet: call `record_left`, between units of work."""
        return self._records is not None and self._records.owes

    def record_left(self) -> None:
        """Have a record of each message that stays: in a unit of work of its own, since that of its action was backed out."""
        if self._records is not None:
            self._records.put_left(self.connection)

    def rest(self) -> None:
        """Let others have the message that was looked at last, whose lock would stay, and the queues that are open."""
        self._targets.close()
        if self._holding:
            self._holding = False
            with suppress(MQIError):  # 2209, where it is gone meanwhile
                self.connection.get(self.handle, _UNLOCK)

    # -- one message

    def _taken(self, got: Got | None) -> Settlement | None:
        """Act on a message that was got without a look: there is a rule for whatever begins with an MQDLH."""
        if got is None:
            self._flows = False
            return None
        self._scan.found()
        self._behind = True
        identity = got.descriptor.message_id + got.descriptor.correlation_id
        letter = dead_letter(got.descriptor, got.body)
        if letter is None:
            self._stayed = identity
            self._flows = False
            self._stray(identity, known=False)
            return Settlement.BACKOUT
        chosen = self._chosen(letter, 0)
        if isinstance(chosen.intent, Ignore):  # a function stumbled over it
            self._stayed = identity
            self._flows = False
            self._ignored(identity, letter, chosen, 0, known=False)
            return Settlement.BACKOUT
        settlement = self._act_on(identity, chosen, 1, letter)
        if settlement is Settlement.BACKOUT:
            self._stayed = identity
        return settlement

    def _chosen(self, letter: DeadLetter, attempts: int) -> Chosen:
        """Return what the rules say; a message that a function stumbles over stays: the rules behind it may be for others."""
        try:
            return choose(self._rules.matchers, letter, attempts)
        except UnjudgedError as error:
            if error.rule not in self._stumbled:
                self._stumbled.add(error.rule)
                first = letter.descriptor.message_id.hex()
                text = (
                    f"A message stays on {self.queue}, because a rule cannot say whether it is for it: {error}. It is {first}."
                )
                self._broadcast(Warned(text=f"{text} Said once.", queue=self.queue, details={"message_id": first}))
            return Chosen(Ignore())

    def _carry_out(self, identity: bytes, chosen: Chosen, attempt: int, seen: DeadLetter) -> Settlement | None:
        try:
            got = self.connection.get(self.handle, _TAKE)
        except MQIError as error:
            if error.reason == Reason.NO_MSG_UNDER_CURSOR:  # it expired since it was looked at
                return None
            raise
        if got is None:
            return None
        self._holding = False
        return self._act_on(identity, chosen, attempt, DeadLetter(got.descriptor, seen.header, got.body))

    def _act_on(self, identity: bytes, chosen: Chosen, attempt: int, letter: DeadLetter) -> Settlement:
        """Do what was chosen with a message that is held."""
        self._open = _Open(identity, letter, chosen, attempt)
        try:
            self._do(chosen.intent, letter)
        except MQIError as error:
            if _lost(error):
                raise
            self._open.failure = error
            return Settlement.BACKOUT
        if self._records is not None:
            self._records.acted(self.connection, letter, chosen)
        return Settlement.COMMIT

    def _do(self, intent: Intent, letter: DeadLetter) -> None:
        match intent:
            case Redirect():
                self._targets.put(intent, *redirected(letter, intent))
            case Discard() | Ignore():
                return
            case _:
                assert_never(intent)

    def _ignored(self, identity: bytes, letter: DeadLetter, chosen: Chosen, attempts: int, *, known: bool) -> None:
        if known:
            return
        if self._history.keep(identity, attempts):
            self._scan.worked(self._clock.monotonic())
            self._tell(letter, chosen, attempts, None)
            if self._records is not None:
                self._records.stays(letter, chosen)
        else:  # it may have been met before, so it does not put the end off
            self._tell_overflow()

    # -- the way through the queue

    def _new_scan(self) -> Scan:
        control = self._rules.control
        return Scan(control.retry_interval_s, control.wait_s, self._clock.monotonic())

    def _look_options(self, look: Look) -> GetOptions:
        how = _LOOK | (GetOption.BROWSE_FIRST if look.from_head else GetOption.BROWSE_NEXT)
        wait_ms = round(look.wait_s * 1_000)
        return GetOptions(
            options=how | GetOption.WAIT if wait_ms else how,
            wait_ms=wait_ms,
            match=MatchOption.MSG_ID | MatchOption.CORREL_ID if look.identity else MatchOption.NONE,
            message_id=look.identity[:_IDENTITY_BYTES] or bytes(_IDENTITY_BYTES),
            correlation_id=look.identity[_IDENTITY_BYTES:] or bytes(_IDENTITY_BYTES),
            buffer_bytes_max=None if self._rules.whole else DLH_BYTES,
        )

    def _nothing(self, look: Look) -> None:
        before = self._scan.rounds
        self._flows = False
        self._scan.found_nothing(self._clock.monotonic())
        self.rest()
        if look.identity:
            return
        if self._scan.rounds > before:
            self._history.scanned()
        strays, self._strays = self._strays, 0
        if strays:
            self._tell_strays(strays)

    def _stray(self, identity: bytes, *, known: bool) -> None:
        """Count a message without an MQDLH: when it is first seen, and each time the whole queue is looked through."""
        self._history.attempts(identity)
        if known and not self._scan.in_round:
            return
        if not known and self._history.keep(identity, 0):
            self._scan.worked(self._clock.monotonic())
        if not self._strays:
            self._first_stray = identity[:_IDENTITY_BYTES]
        self._strays += 1

    # -- telling

    def _tell(self, letter: DeadLetter, chosen: Chosen, attempt: int, failure: MQIError | None) -> None:
        if not self._broadcast.wanted(DeadLetterActed):
            return
        self._broadcast(
            DeadLetterActed(
                queue=self.queue,
                message_id=letter.descriptor.message_id,
                rule=chosen.matcher.name if chosen.matcher else "",
                intent=chosen.intent,
                attempt=attempt,
                reason=0 if failure is None else int(failure.reason),
                detail="" if failure is None else str(failure),
                repeated=failure is not None and _says_header(letter, chosen.intent, int(failure.reason)),
            )
        )

    def _tell_given_up(self, failed: _Open) -> None:
        """Tell that the message stays from now on, where its last attempt has failed."""
        left = self._chosen(failed.letter, failed.attempt)
        if isinstance(left.intent, Ignore):
            self._tell(failed.letter, left, failed.attempt, None)

    def _tell_strays(self, count: int) -> None:
        said = (
            f"{count} messages on {self.queue} do not begin with an MQDLH and stay there"
            if count > 1
            else f"A message on {self.queue} does not begin with an MQDLH and stays there"
        )
        first = self._first_stray.hex()
        self._broadcast(Warned(text=f"{said}; the first is {first}.", queue=self.queue, details={"message_id": first}))

    def _tell_overflow(self) -> None:
        if self._told_overflow:
            return
        self._told_overflow = True
        text = (
            f"More messages stay on {self.queue} than the {len(self._history):,} that are remembered: a rule may be attempted "
            f"on the others more often than its RETRY says. A last rule that forwards everything ends that."
        )
        self._broadcast(Warned(text=text, queue=self.queue))


def run_to_end(
    handler: DeadLetterHandler,
    connection: Connection,
    *,
    stopping: Callable[[], bool] = lambda: False,
    wait_ms_max: int = 1_000,
) -> None:
    """Handle messages until WAIT says it is the end, or until it is to stop; waits are cut so that a stop is soon noticed.

    Raises `MQIError` where the connection is lost or the dead-letter queue refuses; its unit of work is backed out then.
    """
    while not stopping():
        look = handler.look()
        if look is None:
            return
        cut = replace(look, wait_s=min(look.wait_s, wait_ms_max / 1_000))
        settlement = handler.act(look, connection.get(handler.handle, handler.options(cut)))
        if settlement is not None:
            handler.settled(_settle(connection, settlement))
        if handler.owes_records:
            handler.record_left()
    handler.rest()


def _settle(connection: Connection, settlement: Settlement) -> MQIError | None:
    """End the unit of work; return 2003, with which a commit says that it is backed out."""
    try:
        if settlement is Settlement.COMMIT:
            connection.commit()
        else:
            connection.backout()
    except MQIError as error:
        if error.reason != Reason.BACKED_OUT:
            raise
        return error
    return None


def _lost(error: MQIError) -> bool:
    return classify(int(error.reason)) is Class.RECONNECT


def _says_header(letter: DeadLetter, intent: Intent, reason: int) -> bool:
    """Whether the MQDLH names this queue and this reason already."""
    header = letter.header
    return isinstance(intent, Redirect) and (intent.queue, reason) == (header.destination_queue, header.reason)
