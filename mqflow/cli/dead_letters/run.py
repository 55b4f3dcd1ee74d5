"""The work of `mqflow dlq run`: reads the table, finds the queue, handles messages until WAIT is over, and prints the report.

The message numbers and the exit codes are those of runmqdlq; the sentences are not.
Source: IBM q083420 (invocation), q005670 (INPUTQ, INPUTQM); the behaviour of IBM's sample program amqsdlq.
"""

import getpass
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event as ThreadEvent
from types import FrameType
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from mqflow.app.channels.location import is_client_url, locate, reach_queue_manager, served_url
from mqflow.app.channels.reconnect_settings import client_configuration, reconnection
from mqflow.app.config.settings import ReconnectSettings, Secret, load
from mqflow.app.errors import ConfigurationError, shown_url
from mqflow.cli.connection_options import is_missing
from mqflow.cli.dead_letters.reconnecting_link import Link
from mqflow.cli.dead_letters.report import print_json, print_message, print_problems, prints_json, say
from mqflow.cli.text.json_lines import plain
from mqflow.cli.text.terminal import counted, note, read_text, safe
from mqflow.events import DeadLetterActed, Event, Warned
from mqflow.many_verbs import inquire_queue_manager
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import reason_name
from mqflow.policy.channels.client_ini import ClientConfiguration
from mqflow.policy.dead_letters.actions import Ignore, matchers
from mqflow.policy.dead_letters.rules import RulesTable, parse
from mqflow.policy.reconnect.mode import ReconnectMode
from mqflow.policy.reconnect.reason_classes import leaves_in_doubt, needs_reconnect
from mqflow.runtime.dead_letters.dead_letter_handler import DeadLetterHandler, Rules, run_to_end
from mqflow.runtime.decision_records import ConnectionRecorder
from mqflow.runtime.hooks import Broadcast
from mqflow.verbs import Connection, InlineQueueManager, QueueManager
from mqflow.world import SYSTEM_CLOCK, SYSTEM_WORLD

__all__ = ("DlqOptions", "EndedError", "exit_code_of", "read_table", "run_handler")

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
_POLL_FILE_S: Final = 1.0
_POLL_SIGNALS_S: Final = 0.1


class DlqOptions(Struct, frozen=True, kw_only=True):
    """The arguments and options of the command."""

    queue: str
    dead_letter_queue: bool
    queue_manager: str
    user: str
    client: bool
    rules: Path | None
    reloads: bool
    url: str | None


class EndedError(Exception):
    """The handler cannot continue. The error has the number and the text of the last message to print."""

    def __init__(self, number: int, text: str) -> None:
        self.number = number
        self.text = text
        super().__init__(number, text)


def exit_code_of(number: int) -> int:
    """Return the exit code for a message number, for example 0x41 for AMQ8741."""
    return int(str(number)[-2:], 16)


def run_handler(options: DlqOptions) -> int:
    """Handle messages until the end. Return the exit code."""
    password = _password(options.user) if options.user else ""
    if options.rules is None and sys.stdin.isatty():
        note("Type the rules table and end it with Ctrl-D, or use < FILE or --rules FILE:")
    text = read_text(options.rules)
    try:
        with ExitStack() as stack:
            table = read_table(text)
            stopping = stack.enter_context(_signals())
            link = stack.enter_context(_connected(options, table, password, stopping))
            _handle(options, table, link, stopping)
    except EndedError as ended:
        print_message(ended.number, ended.text)
        return exit_code_of(ended.number)
    return 0


def _password(user: str) -> str:
    """Return the password from a prompt, which does not show it, or without a terminal from the first line of stdin."""
    if sys.stdin.isatty():
        return getpass.getpass(f"Password of {user}: ")
    return sys.stdin.buffer.readline().decode().rstrip("\r\n")


def read_table(text: str) -> RulesTable:
    """Return the table. If it has errors, print each of them and raise `EndedError`."""
    found = parse(text)
    if isinstance(found, RulesTable):
        return found
    print_problems(found)
    if found[0].number and len(found) == 1 and exit_code_of(found[0].number) == exit_code_of(8750):
        raise EndedError(found[0].number, "The rules table has no rule. No message was handled.")
    errors = "1 error" if len(found) == 1 else f"{len(found)} errors"
    raise EndedError(_ERRORS, f"{errors} in the rules table. No message was handled.")


@contextmanager
def _connected(options: DlqOptions, table: RulesTable, password: str, stopping: list[int]) -> Iterator[Link]:
    """Yield the connection. Raises `EndedError` if the connect fails, or if it reaches another queue manager."""
    settings = load({"url": options.url})
    if options.user:
        # The options replace all other settings of the user.
        settings = replace(settings, user=options.user, password=Secret(password), password_file="", token_file="")
    location = locate(settings.url)
    if location.kind == "embedded" and is_missing(location):
        raise ConfigurationError(f"{settings.url}: there is no queue manager at {location.path} yet.")
    url = served_url(location) if options.client and location.kind == "embedded" else settings.url
    try:
        queue_manager = reach_queue_manager(url, settings=settings)
    except MQIError as error:
        raise EndedError(_NOT_CONNECTED, str(error)) from error
    try:
        link = _link(queue_manager, options.user, settings.reconnect, url, stopping)
        try:
            wanted, name = options.queue_manager or table.control.input_queue_manager, link.connection.queue_manager_name
            if wanted and wanted != name:
                text = f"{shown_url(url)} leads to the queue manager {name}, not to {wanted}: check --url."
                raise EndedError(_NOT_CONNECTED, text)
            yield link
        finally:
            link.leave()
    finally:
        queue_manager.close()


def _link(queue_manager: QueueManager, user: str, settings: ReconnectSettings, url: str, stopping: list[int]) -> Link:
    configuration = client_configuration() if is_client_url(url) else ClientConfiguration()
    policy = reconnection(settings, queue_manager, configuration)
    if isinstance(queue_manager, InlineQueueManager):  # if it ends, it does not come back: it is in this process
        policy = replace(policy, mode=lambda: ReconnectMode.NO)

    def pause(seconds: float) -> bool:
        until = SYSTEM_CLOCK.monotonic() + seconds
        while not stopping and (left_s := until - SYSTEM_CLOCK.monotonic()) > 0:
            ThreadEvent().wait(min(left_s, _POLL_SIGNALS_S))
        return not stopping

    try:
        return Link(
            lambda: queue_manager.connect(application_name="mqflow dlq", user=user), policy, world=SYSTEM_WORLD, pause=pause
        )
    except MQIError as error:
        raise EndedError(_NOT_CONNECTED, str(error)) from error


def _queue(options: DlqOptions, table: RulesTable, connection: Connection) -> str:
    """Return the queue to handle: the argument, or INPUTQ, or DEADQ of the queue manager."""
    named = "" if options.dead_letter_queue else options.queue or table.control.input_queue
    if named:
        return named
    try:
        queue = inquire_queue_manager(connection).dead_letter_queue
    except MQIError as error:
        raise EndedError(_NOT_INQUIRED, str(error)) from error
    if not queue:
        name = connection.queue_manager_name
        raise EndedError(_NOT_OPENED, f"{name} has no dead-letter queue: give QUEUE, or run ALTER QMGR DEADQ('...').")
    return queue


def _handle(options: DlqOptions, table: RulesTable, link: Link, stopping: list[int]) -> None:
    queue = _queue(options, table, link.connection)
    report = _Report()
    handler = DeadLetterHandler(
        _rules(table), queue, clock=SYSTEM_CLOCK, broadcast=Broadcast((report,)), records=_records(options.url)
    )
    try:
        handler.open(link.connection)
    except MQIError as error:
        raise EndedError(_NOT_OPENED, str(error)) from error
    name = link.connection.queue_manager_name
    print_message(_STARTED, f"Handling {queue} of {name}.")
    rules_file = _RulesFile(options.rules, handler) if options.reloads and options.rules else None
    try:
        _handle_through_outages(handler, link, lambda: _must_stop(stopping, rules_file))
    finally:
        for line in report.summary():
            note(line)
    print_message(_ENDING, f"The handler of {queue} of {name} ends.")


def _records(url: str | None) -> ConnectionRecorder | None:
    """Return the recorder for the actions; None if the settings name no queue for records."""
    queue = load({"url": url}).disposition_queue
    if not queue:
        return None
    return ConnectionRecorder(queue, consumer="mqflow dlq/DLQ handler", world=SYSTEM_WORLD)


def _handle_through_outages(handler: DeadLetterHandler, link: Link, stops: Callable[[], bool]) -> None:
    """Handle messages to the end, with a new connection after each outage. Raises `EndedError` for any other error."""
    lost: MQIError | None = None
    while True:
        try:
            if lost is not None:
                handler.open(link.connection)
                name = link.connection.queue_manager_name
                note(f"Connected to {name} again. The handler continues from the head of the queue.")
                lost = None
            run_to_end(handler, link.connection, stopping=stops)
        except MQIError as error:
            if lost is None and needs_reconnect(error):
                doubt = (
                    f" The current message is in doubt: moved, or still on {handler.queue}." if leaves_in_doubt(error) else ""
                )
                note(safe(f"The connection is lost.{doubt} {error}"))
            lost = error
            if not _reconnect(link, error):
                return
        else:
            return


def _reconnect(link: Link, error: MQIError) -> bool:
    try:
        return link.reconnect(error)
    except MQIError as final:
        if final is not error:
            raise EndedError(_NOT_CONNECTED, str(final)) from final
        raise EndedError(_NOT_SETTLED if error.verb in {"MQCMIT", "MQBACK"} else _NOT_GOT, str(error)) from error


def _rules(table: RulesTable) -> Rules:
    return Rules(table.control, matchers(table.rules))


def _must_stop(stopping: list[int], rules_file: "_RulesFile | None") -> bool:
    if rules_file is not None:
        rules_file.check()
    return bool(stopping)


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Yield a list that receives each SIGTERM and SIGINT. So the handler can finish the current message before it ends."""
    received: list[int] = []

    def receive(number: int, _frame: FrameType | None) -> None:
        received.append(number)

    before = {number: signal.signal(number, receive) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _RulesFile:
    """The rules file of a handler that runs. If the file changes and has no errors, its new rules are loaded."""

    def __init__(self, path: Path, handler: DeadLetterHandler) -> None:
        self._path = path
        self._handler = handler
        self._seen = self._stamp()
        self._next_at = 0.0

    def check(self) -> None:
        """If the file has changed, load the new rules. The file is checked at most once a second."""
        now = SYSTEM_CLOCK.monotonic()
        if now < self._next_at:
            return
        self._next_at = now + _POLL_FILE_S
        stamp = self._stamp()
        if stamp in {self._seen, (0, 0)}:  # missing: an editor can replace the old file by a new one
            return
        self._seen = stamp
        try:
            found = parse(self._path.read_text("utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            say(f"{self._path} has changed but cannot be read; the previous rules still apply. {error}")
            return
        if isinstance(found, RulesTable):
            self._handler.reload(_rules(found))
            say(f"{self._path} has changed: the new rules apply, from the head of the queue.")
        else:
            print_problems(found)
            say(f"{self._path} has changed but has errors; the previous rules still apply.")

    def _stamp(self) -> tuple[int, int]:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return (0, 0)
        return (status.st_mtime_ns, status.st_size)


class _Report:
    """A hook that prints failed attempts and warnings, and counts the successful attempts for each rule."""

    wants: Final = (DeadLetterActed, Warned)

    def __init__(self) -> None:
        self._succeeded: dict[str, int] = {}
        self._failed: dict[str, int] = {}

    def __call__(self, event: Event) -> None:
        if isinstance(event, DeadLetterActed) and prints_json():
            print_json("action", **plain(event))
        match event:
            case DeadLetterActed(reason=0):
                rule = event.rule or "no rule left"
                self._succeeded[rule] = self._succeeded.get(rule, 0) + 1
            case DeadLetterActed():
                self._failed[event.rule] = self._failed.get(event.rule, 0) + 1
                if not event.repeated and not prints_json():
                    self._print_failure(event)
            case Warned(details=details) if "message_id" in details:
                print_message(_NO_MQDLH, event.text)
            case Warned():
                note(safe(event.text))
            case _:
                return

    def summary(self) -> Iterator[str]:
        """Yield a line for each rule that was applied."""
        for rule in sorted({*self._succeeded, *self._failed}):
            succeeded, failed = self._succeeded.get(rule, 0), self._failed.get(rule, 0)
            messages = counted(succeeded, "messages")
            yield f"{rule}: {messages}, {counted(failed, 'failed attempts')}"

    def _print_failure(self, event: DeadLetterActed) -> None:
        attempt = "" if isinstance(event.intent, Ignore) else f", attempt {event.attempt}"
        text = f"The rule of {event.rule} failed{attempt} on {event.message_id.hex()}: {reason_name(event.reason)}."
        print_message(_PUT_FAILED, f"{text} {event.detail}")
