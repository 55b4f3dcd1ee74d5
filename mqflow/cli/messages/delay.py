"""`mqflow delay`: lists the messages on the staging queue, and cancels messages before their delivery."""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

import click
from msgspec import Struct
from msgspec.structs import replace

from mqflow.cli.connection_options import connected, message_id_from, staging_queue
from mqflow.cli.option_types import WholeLines, json_option, url_option
from mqflow.cli.text.exit_codes import EXIT_FAILED
from mqflow.cli.text.json_lines import json_line
from mqflow.cli.text.terminal import note, safe
from mqflow.mqi.errors import HeaderError
from mqflow.mqi.headers import delay as delay_header
from mqflow.mqi.headers.delay import DelayHeader
from mqflow.mqi.options import GetOption, MatchOption, OpenOption
from mqflow.policy.delivery_delay import due_in_ms
from mqflow.runtime.delay.stage import moment
from mqflow.verbs import Connection, GetOptions, Got, ObjectHandle
from mqflow.world import SYSTEM_CLOCK, Clock

__all__ = ("DelayedMessage", "command", "delayed_messages", "due_in_words")

_BROWSE: Final = OpenOption.BROWSE | OpenOption.FAIL_IF_QUIESCING
_NEXT: Final = GetOptions(
    options=GetOption.BROWSE_NEXT | GetOption.NO_SYNCPOINT | GetOption.ACCEPT_TRUNCATED_MSG | GetOption.PROPERTIES_FORCE_MQRFH2,
    buffer_bytes_max=delay_header.DELAY_HEADER_BYTES,
)
_REMOVE: Final = GetOptions(
    options=GetOption.SYNCPOINT | GetOption.FAIL_IF_QUIESCING | GetOption.PROPERTIES_FORCE_MQRFH2,
    match=MatchOption.MSG_ID | MatchOption.CORREL_ID,
)
_queue_option = click.option(
    "--queue", metavar="NAME", help="The staging queue; default: the setting delay_queue, or the default of the queue manager."
)


class DelayedMessage(Struct, frozen=True, kw_only=True):
    """A message on the staging queue."""

    #: The MsgId that the put has returned, which the delivered message has too.
    message_id: bytes
    target: str
    due_in_ms: int
    delay_ms: int
    body_bytes: int


@click.group("delay", cls=WholeLines)
def command() -> None:
    """List and cancel delayed messages."""


@command.command("list", short_help="List the delayed messages, and when each is due.")
@_queue_option
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Maximum number of messages.")
@json_option
@url_option
def show(queue: str | None, limit: int, url: str | None, **options: Any) -> None:
    """List the delayed messages in the order of the staging queue, and when each is due."""
    queue = queue or staging_queue(url)
    with connected(url) as connection:
        shown: list[DelayedMessage] = []
        more = False
        for each in delayed_messages(connection, queue, SYSTEM_CLOCK):
            more = len(shown) == limit
            if more:
                break
            shown.append(each)
    for each in shown:
        click.echo(json_line(each) if options["as_json"] else _as_text(each))
    if not shown:
        note(f"There is no delayed message on {safe(queue)}.")
    if more:
        note(f"There are more messages; --limit shows more than {limit}.")


@command.command("cancel", short_help="Cancel delayed messages.")
@click.argument("message_id", nargs=-1, required=True)
@_queue_option
@url_option
def cancel(message_id: tuple[str, ...], queue: str | None, url: str | None) -> None:
    """Cancel delayed messages by MESSAGE_ID, as `mqflow put` and `mqflow delay list` print it.

    Exits with 1 if one of them is not on the staging queue.
    """
    queue = queue or staging_queue(url)
    identifiers = [message_id_from(text) for text in message_id]
    missing = 0
    with connected(url) as connection:
        handle = connection.open(queue, OpenOption.INPUT_SHARED | OpenOption.FAIL_IF_QUIESCING)
        for identifier in identifiers:
            if _cancelled(connection, queue, handle, identifier):
                click.echo(identifier.hex())
            else:
                missing += 1
                note(f"{identifier.hex()} is not on {queue}: it was delivered, or cancelled, or never delayed.")
    if missing:
        sys.exit(EXIT_FAILED)


def delayed_messages(connection: Connection, queue: str, clock: Clock) -> Iterator[DelayedMessage]:
    """Yield the delayed messages in the order of the staging queue. Messages without a delay header are left out."""
    for got, header in _staged(connection, queue, _NEXT):
        yield DelayedMessage(
            message_id=got.descriptor.correlation_id,
            target=header.target,
            due_in_ms=due_in_ms(header, moment(clock)),
            delay_ms=header.delay_ms,
            body_bytes=got.data_bytes - delay_header.DELAY_HEADER_BYTES,
        )


def _staged(connection: Connection, queue: str, options: GetOptions) -> Iterator[tuple[Got, DelayHeader]]:
    """Browse the queue, and yield each message that has a delay header."""
    handle = connection.open(queue, _BROWSE)
    try:
        while got := connection.get(handle, options):
            header = _header(got.body) if got.descriptor.format == delay_header.FORMAT else None
            if header is not None:
                yield got, header
    finally:
        connection.close(handle)


def _cancelled(connection: Connection, queue: str, handle: ObjectHandle, identifier: bytes) -> bool:
    """Remove the delayed message with this identifier. Return False if it is not on the queue.

    A get without the browse could remove a message of another program, for example a reply with this CorrelId.
    """
    wanted = replace(_NEXT, match=MatchOption.CORREL_ID, correlation_id=identifier)
    cancelled = False
    # A publication has one copy for each subscription. The list ends the browse before the first get.
    for got, _ in list(_staged(connection, queue, wanted)):
        if connection.get(handle, replace(_REMOVE, message_id=got.descriptor.message_id, correlation_id=identifier)):
            connection.commit()
            cancelled = True
    return cancelled


def _header(body: bytes) -> DelayHeader | None:
    try:
        return delay_header.parse(body)
    except HeaderError:
        return None


def due_in_words(milliseconds: int) -> str:
    """Return in words when a message is due: "in 5 min", "now", "late 3.0 s"."""
    if milliseconds <= 0:
        return f"late {_span(-milliseconds)}" if milliseconds else "now"
    return f"in {_span(milliseconds)}"


def _span(milliseconds: int) -> str:
    seconds = milliseconds // 1_000
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{milliseconds / 1_000:.1f} s"


def _as_text(each: DelayedMessage) -> str:
    due = datetime.fromtimestamp(SYSTEM_CLOCK.wall() + each.due_in_ms / 1_000, UTC)
    return f"{each.message_id.hex()}  {due:%Y-%m-%d %H:%M:%S}Z  {due_in_words(each.due_in_ms):>12}  {safe(each.target)}"
