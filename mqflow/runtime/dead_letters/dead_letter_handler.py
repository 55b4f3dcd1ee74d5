"""Carries out the rules of a rules table on the messages of a dead-letter queue.

For each message: browse it with a lock, get it, put it and commit, in a unit of work of its own. The browse is left out if the
rules match every message, the last action succeeded, and no message has stayed.

This module decides nothing: `policy.dead_letters.scan` decides which message is next, and `policy.dead_letters.actions` decides
what to do with it. The caller waits and settles: `run_to_end` on its own thread, `runtime.dead_letters.service` on an event
loop.
Source: IBM, "Processing the DLQ rules table"; the behaviour of IBM's sample program amqsdlq.
"""

import math
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
from mqflow.policy.dead_letters import actions
from mqflow.policy.dead_letters.rules import Control
from mqflow.policy.dead_letters.scan import HISTORY_MAX, History, Look, Scan
from mqflow.policy.poison.disposition import Settlement
from mqflow.policy.reconnect.reason_classes import needs_reconnect
from mqflow.runtime.connection.output_handles import OutputHandles
from mqflow.runtime.dead_letters.dead_letter_records import DeadLetterRecords
from mqflow.runtime.decision_records import ConnectionRecorder
from mqflow.verbs import Connection, GetOptions, Got, ObjectHandle
from mqflow.world import Clock

__all__ = ("DLQ_OPTIONS", "DeadLetterHandler", "EventSink", "Rules", "end_unit", "run_to_end")

DLQ_OPTIONS: Final = OpenOption.BROWSE | OpenOption.INPUT_AS_Q_DEF | OpenOption.SAVE_ALL_CONTEXT | OpenOption.FAIL_IF_QUIESCING
# The attribute PROPCTL can hide message properties from a get. A message that is moved must keep its properties.
_AS_IT_IS: Final = GetOption.FAIL_IF_QUIESCING | GetOption.PROPERTIES_FORCE_MQRFH2
_LOOK: Final = GetOption.LOCK | GetOption.ACCEPT_TRUNCATED_MSG | GetOption.NO_SYNCPOINT | _AS_IT_IS
_TAKE: Final = GetOptions(options=GetOption.MSG_UNDER_CURSOR | GetOption.SYNCPOINT | _AS_IT_IS)
_TAKE_NEXT: Final = GetOptions(options=GetOption.SYNCPOINT | _AS_IT_IS)
_NEXT_MESSAGE: Final = Look()
_UNLOCK: Final = GetOptions(options=GetOption.UNLOCK | GetOption.NO_SYNCPOINT)
_IDENTITY_BYTES: Final = 24


class EventSink(Protocol):
    """Receives the events of a DLQ handler."""

    @property
    def wanted(self) -> Callable[[type], bool]:
        """Returns a function that tells whether a hook wants a class of event."""
        ...

    def __call__(self, event: Event) -> None:
        """Receive the event."""


class Rules(Struct, frozen=True):
    """The rules of a handler."""

    control: Control
    matchers: Sequence[actions.Matcher]
    #: True if a rule needs more of a message than the descriptor and the MQDLH.
    whole: bool = False


class _Open(Struct):
    """A message whose action was carried out, in a unit of work that is not settled yet."""

    identity: bytes
    letter: actions.DeadLetter
    chosen: actions.Chosen
    attempt: int
    failure: MQIError | None = None


class DeadLetterHandler:
    """Handles one dead-letter queue on one connection.

    The caller repeats these steps: `look`, get with `options`, `act`, settle, `settled`. Several handlers can work on one
    queue, because the lock of the browse gives each message to only one handler.
    """

    def __init__(
        self,
        rules: Rules,
        queue: str,
        *,
        clock: Clock,
        broadcast: EventSink,
        history_max: int = HISTORY_MAX,
        records: ConnectionRecorder | None = None,
    ) -> None:
        self.queue: Final = queue
        self._rules = rules
        self._clock = clock
        self._broadcast = broadcast
        #: Puts a record of each action, in the unit of work of that action; None for no records.
        self._records = None if records is None else DeadLetterRecords(records, queue)
        if records is not None:
            records.notify = broadcast
        self._history = History(history_max)
        self._scan = self._new_scan()
        self._connection: Connection | None = None
        self._opened: OutputHandles | None = None
        self._handle: ObjectHandle | None = None
        self._open: _Open | None = None
        self._strays = 0
        self._first_stray = b""
        # True if the message that was browsed last is locked, because it stays on the queue.
        self._holding = False
        self._overflow_reported = False
        #: The rules whose functions have raised an exception.
        self._broken_rules: set[str] = set()
        self._options: dict[Look, GetOptions] = {}
        self._takes_everything = actions.takes_everything(rules.matchers)
        #: True if the last message was a dead letter, and its action succeeded. Then the next message is probably similar.
        self._flows = False
        #: True if the next message is got without a browse.
        self._at_once = False
        #: True if messages were got from the head of the queue after the last browse. Then the next browse starts at the head.
        self._behind = False
        #: The message that was got without a browse and backed out. The next browse finds it before its retry interval is over.
        self._stayed = b""

    @property
    def connection(self) -> Connection:
        """The connection of the handler. Call `open` first."""
        assert self._connection is not None  # noqa: S101 - this module calls `open` first
        return self._connection

    @property
    def handle(self) -> ObjectHandle:
        """The handle of the dead-letter queue. Call `open` first."""
        assert self._handle is not None  # noqa: S101 - as above
        return self._handle

    @property
    def _targets(self) -> OutputHandles:
        assert self._opened is not None  # noqa: S101 - as above
        return self._opened

    def open(self, connection: Connection, hold: Callable[[str, OpenOption], ObjectHandle] | None = None) -> None:
        """Open the dead-letter queue on a connection: the first connection, or a new connection after an outage.

        `hold` is a function that opens the queue, and opens it again on the next connection. Raises the errors of MQOPEN.
        """
        self._handle = (hold or connection.open)(self.queue, DLQ_OPTIONS)
        self._connection = connection
        self._opened = OutputHandles(connection, self._handle)
        self._open = None
        self._holding = False
        self._scan = self._new_scan()  # the cursor of a new handle is at the head of the queue

    def reload(self, rules: Rules) -> None:
        """Use these rules from the next message on, and start again at the head of the queue. Earlier attempts still count."""
        self._rules = rules
        self._takes_everything = actions.takes_everything(rules.matchers)
        self._options.clear()
        self._scan = self._new_scan()

    def look(self) -> Look | None:
        """Return which message to look for next, or None if the handler has ended its work."""
        self._at_once = self._flows and self._takes_everything and not self._history
        return _NEXT_MESSAGE if self._at_once else self._scan.next(self._clock.monotonic())

    def options(self, look: Look) -> GetOptions:
        """Return the options for the next MQGET: a browse with a lock, or a get. It waits if `look` asks for a wait."""
        if self._at_once:
            return _TAKE_NEXT
        if self._behind and not look.identity:
            look = replace(look, from_head=True)
        found = self._options.get(look)
        if found is None:
            found = self._look_options(look)
            if not look.wait_s and not look.identity:  # without these two, the same few options return for every message
                self._options[look] = found
        return found

    def act(self, look: Look, got: Got | None) -> Settlement | None:
        """Carry out the action on the message that was found. Return the settlement to make, or None for no settlement.

        Raises `MQIError` if the connection is lost, or if the dead-letter queue refuses a call. If the target refuses the
        message, the attempt has failed, and no error is raised.
        """
        if self._at_once:
            return self._act_without_browse(got)
        if got is None:
            self._note_empty(look)
            return None
        self._scan.found()
        self._holding = True
        self._behind = self._behind and bool(look.identity)
        identity = got.descriptor.message_id + got.descriptor.correlation_id
        known = identity in self._history
        if known and (look.new_only or (identity == self._stayed and not look.identity)):
            self._stayed = b""
            self._history.attempts(identity)  # records that the message is still on the queue
            return None
        letter = actions.dead_letter(got.descriptor, got.body)
        if letter is None:
            self._note_stray(identity, known=known)
            return None
        attempts = self._history.attempts(identity)
        chosen = self._chosen(letter, attempts)
        if isinstance(chosen.intent, actions.Ignore):
            self._leave(identity, letter, chosen, attempts, known=known)
            return None
        return self._carry_out(identity, chosen, attempts + 1, letter)

    def settled(self, error: MQIError | None = None) -> None:
        """Record that the unit of work of `act` has ended. `error` is 2003 if the queue manager backed it out at the commit."""
        done, self._open = self._open, None
        if done is None:  # no rule matches the message, so it is back in its place on the queue
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
                self._report_overflow()
        self._report(done.letter, done.chosen, done.attempt, failure)
        if failure is not None:
            if self._records is not None:
                self._records.stays(done.letter, done.chosen, failure)
            self._report_given_up(done)

    @property
    def owes_records(self) -> bool:
        """True if there are messages that stay and have no record yet. If so, call `record_left` between units of work."""
        return self._records is not None and self._records.owes

    def record_left(self) -> None:
        """Put the missing records of the messages that stay. These puts are outside of a unit of work."""
        if self._records is not None:
            self._records.put_left(self.connection)

    def rest(self) -> None:
        """Unlock the message that was browsed last, and close the target queues, so that other programs can use them."""
        self._targets.close()
        if self._holding:
            self._holding = False
            with suppress(MQIError):  # 2209 if the message is no longer on the queue
                self.connection.get(self.handle, _UNLOCK)

    # -- one message: its action

    def _act_without_browse(self, got: Got | None) -> Settlement | None:
        """Act on a message that was got without a browse. The rules match every message with an MQDLH."""
        if got is None:
            self._flows = False
            return None
        self._scan.found()
        self._behind = True
        identity = got.descriptor.message_id + got.descriptor.correlation_id
        letter = actions.dead_letter(got.descriptor, got.body)
        if letter is None:
            self._stayed = identity
            self._flows = False
            self._note_stray(identity, known=False)
            return Settlement.BACKOUT
        chosen = self._chosen(letter, 0)
        if isinstance(chosen.intent, actions.Ignore):  # only if the function of a rule has raised an exception
            self._stayed = identity
            self._flows = False
            self._leave(identity, letter, chosen, 0, known=False)
            return Settlement.BACKOUT
        settlement = self._act_on(identity, chosen, 1, letter)
        if settlement is Settlement.BACKOUT:
            self._stayed = identity
        return settlement

    def _chosen(self, letter: actions.DeadLetter, attempts: int) -> actions.Chosen:
        """Return the decision of the rules. If the function of a rule raises an exception, the message stays."""
        try:
            return actions.choose(self._rules.matchers, letter, attempts)
        except actions.UnjudgedError as error:
            if error.rule not in self._broken_rules:
                self._broken_rules.add(error.rule)
                first = letter.descriptor.message_id.hex()
                text = f"A message stays on {self.queue}, because a rule cannot decide about it: {error}. Its MsgId is {first}."
                self._broadcast(
                    Warned(text=f"{text} This warning comes once.", queue=self.queue, details={"message_id": first})
                )
            return actions.Chosen(actions.Ignore())

    def _carry_out(self, identity: bytes, chosen: actions.Chosen, attempt: int, seen: actions.DeadLetter) -> Settlement | None:
        try:
            got = self.connection.get(self.handle, _TAKE)
        except MQIError as error:
            if error.reason == Reason.NO_MSG_UNDER_CURSOR:  # the message has expired since the browse
                return None
            raise
        if got is None:
            return None
        self._holding = False
        return self._act_on(identity, chosen, attempt, actions.DeadLetter(got.descriptor, seen.header, got.body))

    def _act_on(self, identity: bytes, chosen: actions.Chosen, attempt: int, letter: actions.DeadLetter) -> Settlement:
        """Carry out the chosen action on the message, which was got in the open unit of work."""
        self._open = _Open(identity, letter, chosen, attempt)
        try:
            self._do(chosen.intent, letter)
        except MQIError as error:
            if needs_reconnect(error):
                raise
            self._open.failure = error
            return Settlement.BACKOUT
        if self._records is not None:
            self._records.acted(self.connection, letter, chosen)
        return Settlement.COMMIT

    def _do(self, intent: actions.Intent, letter: actions.DeadLetter) -> None:
        match intent:
            case actions.Redirect():
                self._targets.put(intent, *actions.redirected(letter, intent))
            case actions.Discard() | actions.Ignore():
                return
            case _:
                assert_never(intent)

    def _leave(
        self, identity: bytes, letter: actions.DeadLetter, chosen: actions.Chosen, attempts: int, *, known: bool
    ) -> None:
        if known:
            return
        if self._history.keep(identity, attempts):
            self._scan.worked(self._clock.monotonic())
            self._report(letter, chosen, attempts, None)
            if self._records is not None:
                self._records.stays(letter, chosen)
        else:  # perhaps seen before, so the wait for new work does not begin again
            self._report_overflow()

    # -- which message is next

    def _new_scan(self) -> Scan:
        control = self._rules.control
        return Scan(control.retry_interval_s, control.wait_s, self._clock.monotonic())

    def _look_options(self, look: Look) -> GetOptions:
        how = _LOOK | (GetOption.BROWSE_FIRST if look.from_head else GetOption.BROWSE_NEXT)
        wait_ms = math.ceil(look.wait_s * 1_000)  # rounded up: a wait of 0 ms makes a busy loop
        return GetOptions(
            options=how | GetOption.WAIT if wait_ms else how,
            wait_ms=wait_ms,
            match=MatchOption.MSG_ID | MatchOption.CORREL_ID if look.identity else MatchOption.NONE,
            message_id=look.identity[:_IDENTITY_BYTES] or bytes(_IDENTITY_BYTES),
            correlation_id=look.identity[_IDENTITY_BYTES:] or bytes(_IDENTITY_BYTES),
            buffer_bytes_max=None if self._rules.whole else DLH_BYTES,
        )

    def _note_empty(self, look: Look) -> None:
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
            self._report_strays(strays)

    def _note_stray(self, identity: bytes, *, known: bool) -> None:
        """Count a message without an MQDLH: when it is first browsed, and in each pass through the whole queue."""
        self._history.attempts(identity)
        if known and not self._scan.in_round:
            return
        if not known and self._history.keep(identity, 0):
            self._scan.worked(self._clock.monotonic())
        if not self._strays:
            self._first_stray = identity[:_IDENTITY_BYTES]
        self._strays += 1

    # -- reports

    def _report(self, letter: actions.DeadLetter, chosen: actions.Chosen, attempt: int, failure: MQIError | None) -> None:
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

    def _report_given_up(self, failed: _Open) -> None:
        """If the last attempt on the message has failed, report that the message stays from now on."""
        left = self._chosen(failed.letter, failed.attempt)
        if isinstance(left.intent, actions.Ignore):
            self._report(failed.letter, left, failed.attempt, None)

    def _report_strays(self, count: int) -> None:
        text = (
            f"{count} messages on {self.queue} do not begin with an MQDLH and stay there"
            if count > 1
            else f"A message on {self.queue} does not begin with an MQDLH and stays there"
        )
        first = self._first_stray.hex()
        self._broadcast(Warned(text=f"{text}; the first is {first}.", queue=self.queue, details={"message_id": first}))

    def _report_overflow(self) -> None:
        if self._overflow_reported:
            return
        self._overflow_reported = True
        text = (
            f"More messages stay on {self.queue} than the {len(self._history):,} that the handler remembers. On the other "
            f"messages it can attempt a rule more often than its RETRY says. A last rule that forwards every message ends that."
        )
        self._broadcast(Warned(text=text, queue=self.queue))


def run_to_end(
    handler: DeadLetterHandler,
    connection: Connection,
    *,
    stopping: Callable[[], bool] = lambda: False,
    wait_ms_max: int = 1_000,
) -> None:
    """Handle messages until WAIT of the rules table ends the handler, or until `stopping` returns True.

    A single wait takes at most `wait_ms_max`, so that a stop is noticed soon. Raises `MQIError` if the connection is lost or
    the dead-letter queue refuses a call. The open unit of work is then not committed.
    """
    while not stopping():
        look = handler.look()
        if look is None:
            return
        cut = replace(look, wait_s=min(look.wait_s, wait_ms_max / 1_000))
        settlement = handler.act(look, connection.get(handler.handle, handler.options(cut)))
        if settlement is not None:
            handler.settled(end_unit(connection, settlement))
        if handler.owes_records:
            handler.record_left()
    handler.rest()


def end_unit(connection: Connection, settlement: Settlement) -> MQIError | None:
    """End the unit of work. If the queue manager backed it out at the commit, return the error 2003."""
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


def _says_header(letter: actions.DeadLetter, intent: actions.Intent, reason: int) -> bool:
    """Return whether the MQDLH already names the queue of the redirection and this reason."""
    header = letter.header
    return isinstance(intent, actions.Redirect) and (intent.queue, reason) == (header.destination_queue, header.reason)
