"""`mqflow dlq run` at work: the table read, the queue found, messages handled until WAIT says it is the end, and the report.

Message numbers and exit codes are those of runmqdlq where they are known; its sentences are not, and these are our own.
Source: IBM q083420 (invocation), q005670 (INPUTQ, INPUTQM); facts 1.1 and 1.7.
"""

import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Final

import click
from msgspec import Struct
from msgspec.structs import replace

from mqflow.ambient import SYSTEM_CLOCK
from mqflow.app.errors import ConfigurationError
from mqflow.app.locate import locate, reach_queue_manager, served_url
from mqflow.app.settings import Secret, load
from mqflow.cli.terminal import note, safe
from mqflow.events import DeadLetterActed, Event, Warned
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import reason_name
from mqflow.policy.dead_letter_actions import Ignore, matchers
from mqflow.policy.dead_letter_rules import Problem, RulesTable, parse
from mqflow.runtime.broadcast import Broadcast
from mqflow.runtime.dead_letter_handler import DeadLetterHandler, Rules, run_to_end
from mqflow.verbs import Connection, QueueManager, inquire_queue_manager

__all__ = ("EndedError", "Wishes", "exit_code_of", "read_table", "run_handler", "tell_problems")

_STARTED: Final = 8708
_ENDING: Final = 8709
_NO_MQDLH: Final = 8721
_PUT_FAILED: Final = 8722
_NOT_CONNECTED: Final = 8741
_NOT_INQUIRED: Final = 8743
_NOT_OPENED: Final = 8745
_NOT_GOT: Final = 8748
_NOT_SETTLED: Final = 8749
_ERRORS: Final = 8758
_LOOK_AT_FILE_EVERY_S: Final = 1.0


class Wishes(Struct, frozen=True, kw_only=True):
    """What was typed."""

    queue: str
    dead_letter_queue: bool
    queue_manager: str
    user: str
    client: bool
    rules: Path | None
    reloads: bool
    url: str | None


class EndedError(Exception):
    """The handler cannot go on, and why."""

    def __init__(self, number: int, text: str) -> None:
        self.number = number
        self.text = text
        super().__init__(number, text)


def exit_code_of(number: int) -> int:
    """Return the exit code that goes with a message: AMQ8741 is 0x41."""
    return int(str(number)[-2:], 16)


def run_handler(wishes: Wishes) -> int:
    """Handle messages until the end; return the exit code."""
    password = sys.stdin.readline().rstrip("\r\n") if wishes.user else ""
    text = wishes.rules.read_text("utf-8") if wishes.rules else sys.stdin.read()
    try:
        with ExitStack() as stack:
            table = read_table(text)
            connection = stack.enter_context(_connected(wishes, table, password))
            _handle(wishes, table, connection)
    except EndedError as ended:
        _say(ended.number, ended.text)
        return exit_code_of(ended.number)
    return 0


def read_table(text: str) -> RulesTable:
    """Return the table. Raises `EndedError` for one with errors, after each was told."""
    found = parse(text)
    if isinstance(found, RulesTable):
        return found
    tell_problems(found)
    if found[0].number and len(found) == 1 and exit_code_of(found[0].number) == exit_code_of(8750):
        raise EndedError(found[0].number, "There is nothing to go by, and no message was touched.")
    errors = "1 error" if len(found) == 1 else f"{len(found)} errors"
    raise EndedError(_ERRORS, f"{errors} in the rules table, and no message was touched.")


def tell_problems(problems: tuple[Problem, ...]) -> None:
    """Print every error, with its line and a mark below its column."""
    for problem in problems:
        click.echo(safe(str(problem)))
        if problem.source:
            click.echo(f"    {safe(problem.source)}")
            click.echo(f"    {' ' * len(safe(problem.source[: problem.column - 1]))}^")


@contextmanager
def _connected(wishes: Wishes, table: RulesTable, password: str) -> Iterator[Connection]:
    """Give the connection. Raises `EndedError` where there is none to be had, or it is to another queue manager."""
    settings = load({"url": wishes.url})
    if wishes.user:
        # What was typed comes before every other way to say who connects.
        settings = replace(settings, user=wishes.user, password=Secret(password), password_file="", token_file="")
    location = locate(settings.url)
    if location.kind == "embedded" and location.path is not None and not location.path.exists():
        raise ConfigurationError(f"{settings.url}: there is nothing at {location.path} yet.")
    url = served_url(location) if wishes.client and location.kind == "embedded" else settings.url
    try:
        queue_manager = reach_queue_manager(url, settings=settings)
    except MQIError as error:
        raise EndedError(_NOT_CONNECTED, str(error)) from error
    try:
        connection = _connect(queue_manager, wishes.user)
        try:
            wanted = wishes.queue_manager or table.control.input_queue_manager
            if wanted and wanted != connection.queue_manager_name:
                said = f"{url} leads to the queue manager {connection.queue_manager_name}, not to {wanted}: --url says where."
                raise EndedError(_NOT_CONNECTED, said)
            yield connection
        finally:
            with suppress(MQIError):  # it may be lost
                connection.backout()  # MQDISC would commit (q101800)
                connection.disconnect()
    finally:
        queue_manager.close()


def _connect(queue_manager: QueueManager, user: str) -> Connection:
    try:
        return queue_manager.connect(application_name="mqflow dlq", user=user)
    except MQIError as error:
        raise EndedError(_NOT_CONNECTED, str(error)) from error


def _queue(wishes: Wishes, table: RulesTable, connection: Connection) -> str:
    """Return the queue to handle: the argument, INPUTQ, or DEADQ of the queue manager."""
    named = "" if wishes.dead_letter_queue else wishes.queue or table.control.input_queue
    if named:
        return named
    try:
        queue = inquire_queue_manager(connection).dead_letter_queue
    except MQIError as error:
        raise EndedError(_NOT_INQUIRED, str(error)) from error
    if not queue:
        name = connection.queue_manager_name
        said = f"{name} has no dead-letter queue: name one, or ALTER QMGR DEADQ('...')."
        raise EndedError(_NOT_OPENED, said)
    return queue


def _handle(wishes: Wishes, table: RulesTable, connection: Connection) -> None:
    queue = _queue(wishes, table, connection)
    report = _Report()
    handler = DeadLetterHandler(_rules(table), queue, clock=SYSTEM_CLOCK, broadcast=Broadcast((report,)))
    try:
        handler.open(connection)
    except MQIError as error:
        raise EndedError(_NOT_OPENED, str(error)) from error
    _say(_STARTED, f"Handling {queue} of {connection.queue_manager_name}.")
    watched = _Watched(wishes.rules, handler) if wishes.reloads and wishes.rules else None
    with _signals() as stopping:
        try:
            run_to_end(handler, connection, stopping=lambda: _stops(stopping, watched))
        except MQIError as error:
            raise EndedError(_NOT_SETTLED if error.verb in {"MQCMIT", "MQBACK"} else _NOT_GOT, str(error)) from error
    for line in report.summary():
        note(line)
    _say(_ENDING, f"{queue} of {connection.queue_manager_name} is left as it is now.")


def _rules(table: RulesTable) -> Rules:
    return Rules(table.control, matchers(table.rules))


def _stops(stopping: list[int], watched: "_Watched | None") -> bool:
    if watched is not None:
        watched.look()
    return bool(stopping)


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Give a list that SIGTERM and SIGINT fill: the message under way is finished first."""
    received: list[int] = []

    def note_it(number: int, _frame: FrameType | None) -> None:
        received.append(number)

    before = {number: signal.signal(number, note_it) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Watched:
    """A rules file that may change while it is gone by; one with errors changes nothing."""

    def __init__(self, path: Path, handler: DeadLetterHandler) -> None:
        self._path = path
        self._handler = handler
        self._seen = self._stamp()
        self._next_at = 0.0

    def look(self) -> None:
        """Go by the new rules, where the file has changed; looked at once a second at most."""
        now = SYSTEM_CLOCK.monotonic()
        if now < self._next_at:
            return
        self._next_at = now + _LOOK_AT_FILE_EVERY_S
        stamp = self._stamp()
        if stamp in {self._seen, (0, 0)}:  # an editor may be between taking the old file away and moving the new one there
            return
        self._seen = stamp
        found = parse(self._path.read_text("utf-8"))
        if isinstance(found, RulesTable):
            self._handler.reload(_rules(found))
            click.echo(f"{self._path} has changed: the new rules apply, from the head of the queue.")
        else:
            tell_problems(found)
            click.echo(f"{self._path} has changed, and has errors: the rules of before go on.")

    def _stamp(self) -> tuple[int, int]:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return (0, 0)
        return (status.st_mtime_ns, status.st_size)


class _Report:
    """The hook that writes what an operator must see, and counts the rest by rule."""

    wants: Final = (DeadLetterActed, Warned)

    def __init__(self) -> None:
        self._held: dict[str, int] = {}
        self._refused: dict[str, int] = {}

    def __call__(self, event: Event) -> None:
        match event:
            case DeadLetterActed(reason=0):
                rule = event.rule or "no rule left"
                self._held[rule] = self._held.get(rule, 0) + 1
            case DeadLetterActed():
                self._refused[event.rule] = self._refused.get(event.rule, 0) + 1
                if not event.repeated:
                    self._tell(event)
            case Warned(details=details) if "message_id" in details:
                _say(_NO_MQDLH, event.text)
            case Warned():
                note(safe(event.text))
            case _:
                return

    def summary(self) -> Iterator[str]:
        """Yield a line for each rule that was applied."""
        for rule in sorted({*self._held, *self._refused}):
            yield f"{rule}: {self._held.get(rule, 0):,} messages, {self._refused.get(rule, 0):,} failed attempts"

    def _tell(self, event: DeadLetterActed) -> None:
        where = "" if isinstance(event.intent, Ignore) else f", attempt {event.attempt}"
        said = f"The rule of {event.rule} failed{where} on {event.message_id.hex()}: {reason_name(event.reason)}."
        _say(_PUT_FAILED, f"{said} {event.detail}")


def _say(number: int, text: str) -> None:
    click.echo(f"AMQ{number}: {safe(text)}")
