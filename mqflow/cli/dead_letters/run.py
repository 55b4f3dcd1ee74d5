"""`mqflow dlq run` at work: the table read, the queue found, messages handled until WAIT says it is the end, and the report.

Message numbers and exit codes are those of runmqdlq where they are known; its sentences are not, and these are our own.
Source: IBM q083420 (invocation), q005670 (INPUTQ, INPUTQM); facts 1.1 and 1.7.
"""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event as Waiting
from types import FrameType
from typing import Final

import click
from msgspec import Struct
from msgspec.structs import replace

from mqflow.app.channels.locate import is_client_url, locate, reach_queue_manager, served_url
from mqflow.app.channels.reconnect_settings import client_configuration, reconnection
from mqflow.app.config.settings import ReconnectSettings, Secret, load
from mqflow.app.errors import ConfigurationError
from mqflow.cli.dead_letters.reconnecting_link import Link
from mqflow.cli.text.terminal import note, safe
from mqflow.cli.text.text_input import read_text
from mqflow.events import DeadLetterActed, Event, Warned
from mqflow.many_verbs import inquire_queue_manager
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import reason_name
from mqflow.policy.channels.client_ini import ClientConfiguration
from mqflow.policy.dead_letters.actions import Ignore, matchers
from mqflow.policy.dead_letters.rules import Problem, RulesTable, parse
from mqflow.policy.reconnect.mode import ReconnectMode
from mqflow.policy.reconnect.reason_classes import Class, classify, leaves_in_doubt
from mqflow.runtime.dead_letters.handler import DeadLetterHandler, Rules, run_to_end
from mqflow.runtime.decision_records import ConnectionRecorder
from mqflow.runtime.hooks import Broadcast
from mqflow.verbs import Connection, InlineQueueManager, QueueManager
from mqflow.world import SYSTEM_CLOCK, SYSTEM_WORLD

__all__ = ("DlqOptions", "EndedError", "exit_code_of", "read_table", "run_handler", "tell_problems")

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
_LOOK_AT_SIGNALS_EVERY_S: Final = 0.1


class DlqOptions(Struct, frozen=True, kw_only=True):
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


def run_handler(wishes: DlqOptions) -> int:
    """Handle messages until the end; return the exit code."""
    password = sys.stdin.buffer.readline().decode().rstrip("\r\n") if wishes.user else ""
    if wishes.rules is None and sys.stdin.isatty():
        note("The rules table, and Ctrl-D at its end (< FILE or --rules FILE reads one):")
    text = read_text(wishes.rules)
    try:
        with ExitStack() as stack:
            table = read_table(text)
            stopping = stack.enter_context(_signals())
            link = stack.enter_context(_connected(wishes, table, password, stopping))
            _handle(wishes, table, link, stopping)
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
def _connected(wishes: DlqOptions, table: RulesTable, password: str, stopping: list[int]) -> Iterator[Link]:
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
        link = _link(queue_manager, wishes.user, settings.reconnect, url, stopping)
        try:
            wanted, name = wishes.queue_manager or table.control.input_queue_manager, link.connection.queue_manager_name
            if wanted and wanted != name:
                said = f"{url} leads to the queue manager {name}, not to {wanted}: --url says where."
                raise EndedError(_NOT_CONNECTED, said)
            yield link
        finally:
            link.leave()
    finally:
        queue_manager.close()


def _link(queue_manager: QueueManager, user: str, settings: ReconnectSettings, url: str, stopping: list[int]) -> Link:
    configuration = client_configuration() if is_client_url(url) else ClientConfiguration()
    how = reconnection(settings, queue_manager, configuration)
    if isinstance(queue_manager, InlineQueueManager):  # it lives in this process: when it is gone, it is gone for good
        how = replace(how, mode=lambda: ReconnectMode.NO)

    def pause(seconds: float) -> bool:
        until = SYSTEM_CLOCK.monotonic() + seconds
        while not stopping and (left_s := until - SYSTEM_CLOCK.monotonic()) > 0:
            Waiting().wait(min(left_s, _LOOK_AT_SIGNALS_EVERY_S))
        return not stopping

    try:
        return Link(
            lambda: queue_manager.connect(application_name="mqflow dlq", user=user),
            how,
            world=SYSTEM_WORLD,
            pause=pause,
        )
    except MQIError as error:
        raise EndedError(_NOT_CONNECTED, str(error)) from error


def _queue(wishes: DlqOptions, table: RulesTable, connection: Connection) -> str:
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


def _handle(wishes: DlqOptions, table: RulesTable, link: Link, stopping: list[int]) -> None:
    queue = _queue(wishes, table, link.connection)
    report = _Report()
    handler = DeadLetterHandler(
        _rules(table), queue, clock=SYSTEM_CLOCK, broadcast=Broadcast((report,)), records=_records(wishes.url)
    )
    try:
        handler.open(link.connection)
    except MQIError as error:
        raise EndedError(_NOT_OPENED, str(error)) from error
    name = link.connection.queue_manager_name
    _say(_STARTED, f"Handling {queue} of {name}.")
    watched = _Watched(wishes.rules, handler) if wishes.reloads and wishes.rules else None
    _over_outages(handler, link, lambda: _stops(stopping, watched))
    for line in report.summary():
        note(line)
    _say(_ENDING, f"{queue} of {name} is left as it is now.")


def _records(url: str | None) -> ConnectionRecorder | None:
    """Return what puts records of what is done, where the settings name a queue for them; the handler says whom to tell."""
    queue = load({"url": url}).disposition_queue
    if not queue:
        return None
    return ConnectionRecorder(queue, consumer="mqflow dlq/DLQ handler", world=SYSTEM_WORLD)


def _over_outages(handler: DeadLetterHandler, link: Link, stops: Callable[[], bool]) -> None:
    """Handle messages to the end, on one connection after another. Raises `EndedError` for what is no outage."""
    lost: MQIError | None = None
    while True:
        try:
            if lost is not None:
                handler.open(link.connection)
                note(f"{link.connection.queue_manager_name} is reached again: the handler goes on, from the head of the queue.")
                lost = None
            run_to_end(handler, link.connection, stopping=stops)
        except MQIError as error:
            if lost is None and classify(int(error.reason)) is Class.RECONNECT:
                doubt = f" The message under way is moved, or still on {handler.queue}." if leaves_in_doubt(error) else ""
                note(safe(f"The connection is lost.{doubt} {error}"))
            lost = error
            if not _again(link, error):
                return
        else:
            return


def _again(link: Link, error: MQIError) -> bool:
    try:
        return link.again(error)
    except MQIError as final:
        if final is not error:
            raise EndedError(_NOT_CONNECTED, str(final)) from final
        raise EndedError(_NOT_SETTLED if error.verb in {"MQCMIT", "MQBACK"} else _NOT_GOT, str(error)) from error


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
        try:
            found = parse(self._path.read_text("utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            click.echo(safe(f"{self._path} has changed, and cannot be read: the rules of before go on. {error}"))
            return
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
            held, refused = self._held.get(rule, 0), self._refused.get(rule, 0)
            messages = "1 message" if held == 1 else f"{held:,} messages"
            yield f"{rule}: {messages}, {refused:,} failed attempt{'' if refused == 1 else 's'}"

    def _tell(self, event: DeadLetterActed) -> None:
        where = "" if isinstance(event.intent, Ignore) else f", attempt {event.attempt}"
        said = f"The rule of {event.rule} failed{where} on {event.message_id.hex()}: {reason_name(event.reason)}."
        _say(_PUT_FAILED, f"{said} {event.detail}")


def _say(number: int, text: str) -> None:
    click.echo(f"AMQ{number}: {safe(text)}")
