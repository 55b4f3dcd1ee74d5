"""`mqflow put`: puts messages from arguments, from stdin or from a file of JSON lines, at most 500 in a unit of work."""

import sys
from collections.abc import Sequence
from typing import Any, Final

import click
import msgspec

from mqflow.app.handlers.outgoing_message import EXPIRY_TENTHS_MAX, PutKeywords, framed, outgoing
from mqflow.cli.connection_options import connected, stager_for
from mqflow.cli.messages.put_bodies import Bodies, bodies
from mqflow.cli.messages.units_of_work import Result, put_in_units
from mqflow.cli.option_types import Seconds, duration_s, json_option, queue_argument, url_option
from mqflow.cli.text.exit_codes import EXIT_FAILED, EXIT_INTERRUPTED
from mqflow.cli.text.terminal import note, safe
from mqflow.mqi.options import OpenOption, PutOption
from mqflow.runtime.delay.stage import Stager
from mqflow.verbs import Connection, InlineConnection, ObjectHandle, Put

__all__ = ("command", "put_all")

_SYNCPOINT: Final = PutOption.SYNCPOINT | PutOption.FAIL_IF_QUIESCING

_EXPIRY: Final = Seconds(0, EXPIRY_TENTHS_MAX // 10, min_open=True)
_PERSISTENT: Final = "Default: DEFPSIST of the queue, or persistent if the queue manager runs inside this command."


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
    if jsonl is not None and not (result.committed or result.in_doubt or result.stopped):
        note(f"There is no message in {safe(jsonl)}{f' from line {from_line} on' if from_line > 1 else ''}.")
    if result.stopped:
        note(f"mqflow: {result.stopped}")
        sys.exit(EXIT_INTERRUPTED if result.interrupted else EXIT_FAILED)


def put_all(connection: Connection, queue: str, source: Bodies[str | bytes], wishes: PutKeywords, stager: Stager) -> Result:
    """Put all messages as `put_in_units` does. The caller must back out the open unit of work after an early end."""

    def put(handle: ObjectHandle, payload: str | bytes) -> Put:
        message = outgoing(queue, payload, **wishes)
        descriptor, data = framed(message)
        if message.delay_ms:
            return stager.put_on(connection, queue, descriptor, data, message.delay_ms)
        return connection.put(handle, descriptor, data, _SYNCPOINT)

    return put_in_units(connection, queue, source, OpenOption.OUTPUT | OpenOption.FAIL_IF_QUIESCING, put)


def _default_to_persistent(wishes: PutKeywords) -> None:
    """Make messages persistent by default, because a queue manager in this process ends with the command.

    If `wishes` says that messages are not persistent, print a warning instead.
    """
    if wishes.get("persistent") is None:
        wishes["persistent"] = True
    elif not wishes.get("persistent"):
        note("warning: the queue manager runs inside this command; non-persistent messages are lost when the command ends.")


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
