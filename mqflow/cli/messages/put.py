"""`mqflow put`: messages from arguments, from stdin or from a file of JSON lines, in units of work of some hundreds."""

import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final

import click
import msgspec
from msgspec import Struct, field

from mqflow.app.handlers.outgoing import framed, outgoing
from mqflow.cli.connection_options import connected, duration_s, json_option, stager_for, url_option
from mqflow.cli.messages.put_bodies import Bodies, UnreadableLineError, bodies
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

_PERSISTENT: Final = "Otherwise as the queue says (DEFPSIST), or persistent where the queue manager ends with this command."


class Result(Struct):
    """What came of putting."""

    #: How many messages are committed.
    committed: int = 0
    #: Their MsgIds; not of lines of a file, of which there may be millions.
    message_ids: list[bytes] = field(default_factory=list[bytes])
    #: In sentences: what was refused or could not be read, and where to go on.
    stopped: str = ""
    #: Whether Ctrl-C stopped it.
    interrupted: bool = False


@click.command("put")
@click.argument("queue")
@click.argument("body", nargs=-1)
@click.option("--jsonl", metavar="FILE", help="A file of JSON lines (.gz is unpacked, - is stdin): a message of each.")
@click.option("--from-line", type=click.IntRange(1), default=1, metavar="N", help="Start at this line of the file.")
@click.option("--property", "properties", multiple=True, metavar="NAME=VALUE", help="A message property; may be repeated.")
@click.option("--persistent/--non-persistent", default=None, help=_PERSISTENT)
@click.option("--expiry", "expiry_s", type=float, metavar="SECONDS", help="How long the message is of use.")
@click.option(
    "--delay", "delay_s", callback=duration_s, metavar="TIME", help="How long before it can be got: 90s, 500ms, 5m, 2h, 3d."
)
@click.option("--count", is_flag=True, help="Print only how many were put, not their identifiers.")
@json_option
@url_option
def command(queue: str, body: tuple[str, ...], jsonl: str | None, from_line: int, url: str | None, **options: Any) -> None:
    """Put each BODY as a message on QUEUE; without any, what stdin says is one message.

    A file is put in units of work of 500. When a message is refused, what was committed stays, and the line to go on from is
    named.
    """
    wishes = {
        "properties": _properties(options["properties"]),
        "persistent": options["persistent"],
        "expiry": options["expiry_s"],
        "delay": options["delay_s"],
    }
    with bodies(body, jsonl, from_line) as source, connected(url) as connection:
        if isinstance(connection, InlineConnection):
            _outlive(wishes)
        result = put_all(connection, queue, source, wishes, stager_for(url))
    _print(queue, result, only_count=options["count"] or jsonl is not None, as_json=options["as_json"])
    if result.stopped:
        note(f"mqflow: {result.stopped}")
        sys.exit(EXIT_INTERRUPTED if result.interrupted else EXIT_FAILED)


def put_all(connection: Connection, queue: str, source: Bodies, wishes: Mapping[str, Any], stager: Stager) -> Result:
    """Put everything in units of work of 500; stop at what is refused or cannot be read. What is not committed is nowhere."""
    result = Result()
    unit: list[bytes] = []
    number, next_number = 0, 1

    def commit(last: int) -> None:
        nonlocal next_number
        with _whole():
            connection.commit()
            result.committed += len(unit)
            next_number = last + 1
            if not source.lines:
                result.message_ids.extend(unit)
            unit.clear()

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
                unit.append(put.descriptor.message_id)
                if len(unit) == _UNIT_OF_WORK:
                    commit(number)
                    bar.reached(reached, counted(result.committed, "messages"))
            commit(number)
            bar.reached(source.total, counted(result.committed, "messages"))
    except MQIError as error:
        doubt = f" So {len(unit):,} messages up to this one may be put, or not." if leaves_in_doubt(error) and unit else ""
        result.stopped = f"{_place(source, number)}{error}{doubt}{_rest(source, result.committed, next_number)}"
    except KeyboardInterrupt:
        result.stopped = f"Interrupted.{_rest(source, result.committed, next_number)}"
        result.interrupted = True
    except UnreadableLineError as error:
        result.stopped = f"{error}{_rest(source, result.committed, next_number)}"
    return result


@contextmanager
def _whole() -> Iterator[None]:
    """Let no Ctrl-C come between what the block does: it comes at its end. So what is told of a commit is so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt


def _outlive(wishes: dict[str, Any]) -> None:
    """Have messages outlive this process, in which the queue manager is; who wants them not to is told what that means."""
    if wishes["persistent"] is None:
        wishes["persistent"] = True
    elif not wishes["persistent"]:
        note("warning: the queue manager runs in this command and ends with it, and non-persistent messages with both.")


def _place(source: Bodies, number: int) -> str:
    return f"{'Line' if source.lines else 'Message'} {number:,}: " if number else ""


def _rest(source: Bodies, committed: int, next_number: int) -> str:
    if not committed:
        return " Nothing was put."
    again = f" --from-line {next_number} goes on from there." if source.lines else ""
    return f" {committed:,} messages before it are put, and stay.{again}"


class _NoBar:
    def reached(self, done: float, words: str) -> None:
        """Nobody watches a few messages go by."""


def _progress(queue: str, source: Bodies) -> AbstractContextManager[Progress]:
    return progress(f"Putting on {queue}", source.total) if source.lines else nullcontext(_NoBar())


def _properties(given: Sequence[str]) -> dict[str, str]:
    """Return the properties that ``NAME=VALUE`` options say. Raises `click.BadParameter` for one without a name or a `=`."""
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
        click.echo(msgspec.json.encode({"queue": queue, "put": result.committed, "message_ids": identifiers}))
    elif only_count:
        click.echo(f"{result.committed}")
    else:
        for identifier in identifiers:
            click.echo(identifier)
