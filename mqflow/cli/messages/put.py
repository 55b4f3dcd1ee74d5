"""`mqflow put`: puts messages from arguments, from stdin or from a file of JSON lines, at most 500 in a unit of work."""

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final

import click
import msgspec
from msgspec import Struct, field

from mqflow.app.handlers.outgoing_message import EXPIRY_TENTHS_MAX, PutKeywords, framed, outgoing
from mqflow.cli.connection_options import connected, stager_for
from mqflow.cli.messages.put_bodies import Bodies, UnreadableLineError, bodies
from mqflow.cli.option_types import Seconds, duration_s, json_option, queue_argument, url_option
from mqflow.cli.text.exit_codes import EXIT_FAILED, EXIT_INTERRUPTED
from mqflow.cli.text.terminal import Progress, counted, note, progress
from mqflow.many_verbs import open_to_put
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import OpenOption, PutOption
from mqflow.policy.reconnect.reason_classes import leaves_in_doubt
from mqflow.runtime.delay.stage import Stager
from mqflow.verbs import Connection, InlineConnection

__all__ = ("Result", "command", "put_all")

_UNIT_OF_WORK: Final = 500
_SYNCPOINT: Final = PutOption.SYNCPOINT | PutOption.FAIL_IF_QUIESCING

_EXPIRY: Final = Seconds(0, EXPIRY_TENTHS_MAX // 10, min_open=True)
_PERSISTENT: Final = "Default: DEFPSIST of the queue, or persistent if the queue manager runs inside this command."


class Result(Struct):
    """The result of a put command."""

    #: The number of committed messages.
    committed: int = 0
    #: The MsgIds of the committed messages. Empty for lines of a file, because there can be millions of lines.
    message_ids: list[bytes] = field(default_factory=list[bytes])
    #: The number of messages that are in doubt, because their commit got no answer.
    in_doubt: int = 0
    #: Sentences: the reason of an early end, and how to continue; empty if all messages were put.
    stopped: str = ""
    #: True if Ctrl-C was the reason of the early end.
    interrupted: bool = False


@click.command("put")
@queue_argument
@click.argument("body", nargs=-1)
@click.option("--jsonl", metavar="FILE", help="Put each line of a file of JSON lines (.gz is unpacked, - is stdin).")
@click.option("--from-line", type=click.IntRange(1), default=1, metavar="N", help="Start at this line of the file.")
@click.option("--property", "properties", multiple=True, metavar="NAME=VALUE", help="A message property; repeatable.")
@click.option("--persistent/--non-persistent", default=None, help=_PERSISTENT)
@click.option("--expiry", "expiry_s", type=_EXPIRY, metavar="SECONDS", help="The message expires after this time.")
@click.option(
    "--delay",
    "delay_s",
    callback=duration_s,
    metavar="TIME",
    help="Deliver the message after this time: 90s, 500ms, 5m, 2h, 3d.",
)
@click.option("--count", is_flag=True, help="Print only the number of messages, not their identifiers.")
@json_option
@url_option
def command(queue: str, body: tuple[str, ...], jsonl: str | None, from_line: int, url: str | None, **options: Any) -> None:
    """Put each BODY as a message on QUEUE. Without BODY and --jsonl, the text on stdin is one message.

    A unit of work has at most 500 messages. If the queue manager refuses a message, the committed messages stay on the queue.
    With --jsonl, the command then also prints the number of the line from which to continue.
    """
    wishes: PutKeywords = {"persistent": options["persistent"]}
    if options["properties"]:
        wishes["properties"] = _properties(options["properties"])
    if options["expiry_s"] is not None:
        wishes["expiry"] = options["expiry_s"]
    if options["delay_s"] is not None:
        wishes["delay"] = options["delay_s"]
    with bodies(body, jsonl, from_line) as source, connected(url) as connection:
        if isinstance(connection, InlineConnection):
            _default_to_persistent(wishes)
        result = put_all(connection, queue, source, wishes, stager_for(url))
    _print(queue, result, only_count=options["count"] or jsonl is not None, as_json=options["as_json"])
    if result.stopped:
        note(f"mqflow: {result.stopped}")
        sys.exit(EXIT_INTERRUPTED if result.interrupted else EXIT_FAILED)


def put_all(connection: Connection, queue: str, source: Bodies, wishes: PutKeywords, stager: Stager) -> Result:
    """Put all messages, at most 500 in a unit of work. Stop when a put is refused, or a line cannot be read.

    After an early end, the caller must back out the open unit of work.
    """
    units = _UnitsOfWork(connection, source)
    result = units.result
    number = 0
    try:
        handle = open_to_put(connection, queue, OpenOption.OUTPUT | OpenOption.FAIL_IF_QUIESCING)
        with _progress(queue, source) as bar:
            for payload, number, reached in source.each:
                message = outgoing(queue, payload, **wishes)
                descriptor, data = framed(message)
                if message.delay_ms:
                    put = stager.put_on(connection, queue, descriptor, data, message.delay_ms)
                else:
                    put = connection.put(handle, descriptor, data, _SYNCPOINT)
                units.message_ids.append(put.descriptor.message_id)
                if len(units.message_ids) == _UNIT_OF_WORK:
                    units.commit(number)
                    bar.reached(reached, counted(result.committed, "messages"))
            units.commit(number)
            bar.reached(source.total, counted(result.committed, "messages"))
    except MQIError as error:
        result.in_doubt = len(units.message_ids) if leaves_in_doubt(error) else 0
        result.stopped = f"{_place(source, number)}{error}{units.progress_text(number)}"
    except KeyboardInterrupt:
        result.stopped = f"Interrupted.{units.progress_text()}"
        result.interrupted = True
    except UnreadableLineError as error:
        result.stopped = f"{error}{units.progress_text()}"
    return result


class _UnitsOfWork:
    """The units of work of one command: the open unit of work, and the result of the committed units."""

    def __init__(self, connection: Connection, source: Bodies) -> None:
        self._connection = connection
        self._source = source
        self.result = Result()
        #: The MsgIds in the open unit of work.
        self.message_ids: list[bytes] = []
        #: The number of the first line or argument that is not committed.
        self._next_number = source.first

    def commit(self, last: int) -> None:
        """Commit the messages up to the line or argument `last`, and count them."""
        with _uninterrupted():
            self._connection.commit()
            self.result.committed += len(self.message_ids)
            self._next_number = last + 1
            if not self._source.lines:
                self.result.message_ids.extend(self.message_ids)
            self.message_ids.clear()

    def progress_text(self, last: int = 0) -> str:
        """Return sentences about the messages so far and how to continue, with a blank in front.

        If a unit of work is in doubt, `last` is the number of its last line or argument.
        """
        result, resume = self.result, f" Continue with --from-line {self._next_number}"
        if not result.committed and not result.in_doubt:
            return " Nothing was put."
        said = f" Committed: {counted(result.committed, 'messages')}." if result.committed else ""
        if result.in_doubt:
            doubtful = counted(result.in_doubt, "messages")
            said += f" The commit got no answer, so {doubtful} up to this one may be put: look at the queue."
            resume += f" if they are not there, else with --from-line {last + 1}"
        return f"{said}{resume}." if self._source.lines else said


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block, so that the counts agree with the commits."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: received.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if received:
        raise KeyboardInterrupt


def _default_to_persistent(wishes: PutKeywords) -> None:
    """Make messages persistent by default, because a queue manager in this process ends with the command.

    If `wishes` says that messages are not persistent, print a warning instead.
    """
    if wishes.get("persistent") is None:
        wishes["persistent"] = True
    elif not wishes.get("persistent"):
        note("warning: the queue manager runs inside this command; non-persistent messages are lost when the command ends.")


def _place(source: Bodies, number: int) -> str:
    return f"{'Line' if source.lines else 'Message'} {number:,}: " if number else ""


class _NoBar:
    """A progress bar that shows nothing."""

    def reached(self, done: float, words: str) -> None:
        """Show nothing: the progress of a few messages need not be shown."""


def _progress(queue: str, source: Bodies) -> AbstractContextManager[Progress]:
    return progress(f"Putting on {queue}", source.total) if source.lines else nullcontext(_NoBar())


def _properties(given: Sequence[str]) -> dict[str, str]:
    """Return the properties that the ``NAME=VALUE`` options give. Raises `click.BadParameter` for a text of another form."""
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE.", param_hint="--property")
        found[name] = value
    return found


def _print(queue: str, result: Result, *, only_count: bool, as_json: bool) -> None:
    identifiers = [message_id.hex() for message_id in result.message_ids]
    if as_json:
        record = {"queue": queue, "put": result.committed, "in_doubt": result.in_doubt, "message_ids": identifiers}
        click.echo(msgspec.json.encode(record))
    elif only_count:
        click.echo(f"{result.committed}")
    else:
        for identifier in identifiers:
            click.echo(identifier)
