"""`mqflow get` removes messages; `mqflow unsubscribe` ends a durable subscription and removes its messages."""

import io
import os
import stat
import sys
from contextlib import suppress
from typing import IO, Any, Final

import click
import msgspec

from mqflow.cli.connection_options import connected, message_id_from
from mqflow.cli.option_types import Seconds, json_option, queue_argument, url_option
from mqflow.cli.text.exit_codes import EXIT_NOTHING
from mqflow.cli.text.message_view import MessageView, view
from mqflow.cli.text.terminal import counted, note, safe
from mqflow.mqi.descriptor import NO_ID
from mqflow.mqi.options import GetOption, MatchOption, OpenOption
from mqflow.verbs import Connection, GetOptions

__all__ = ("command", "commit_written", "unsubscribe")

_UNIT_OF_WORK: Final = 100
_WAIT_S_MAX: Final = 2_147_483
"""The longest wait: WaitInterval counts milliseconds in 32 bits."""


@click.command("get")
@queue_argument
@click.option("--limit", type=click.IntRange(1), default=1, show_default=True, help="Maximum number of messages.")
@click.option(
    "--wait", "wait_s", type=Seconds(0, _WAIT_S_MAX), default=0.0, metavar="SECONDS", help="How long to wait for each message."
)
@click.option("--by-id", "message_id", metavar="MSGID", help="Only the message with this identifier (48 hexadecimal digits).")
@json_option
@url_option
def command(queue: str, limit: int, wait_s: float, message_id: str | None, as_json: bool, url: str | None) -> None:  # noqa: FBT001 - click passes options by name
    """Get messages from QUEUE and print their bodies; with --json, also descriptor, headers and properties.

    The command removes a message only after the message is written; if the output is a file, only after a sync to the disk.
    After Ctrl-C, up to 100 printed messages are still on QUEUE, because a unit of work has 100 messages. Exits with 3 if there
    is no message.
    """
    options = _options(wait_s, message_id)
    with connected(url) as connection:
        handle = connection.open(queue, OpenOption.INPUT_SHARED | OpenOption.FAIL_IF_QUIESCING)
        number = removed = 0
        try:
            while number < limit and (got := connection.get(handle, options)) is not None:
                number += 1
                _print(view(queue, got.descriptor, got.body, shown_max=len(got.body)), as_json=as_json)
                if number % _UNIT_OF_WORK == 0:
                    commit_written(connection, sys.stdout)
                    removed = number
            commit_written(connection, sys.stdout)
        except BrokenPipeError:  # the reader of the pipe has ended; click ends the command without a text
            raise
        except OSError as error:
            left = f"Removed from {safe(queue)}: {counted(removed, 'messages')}; all others stay there"
            raise click.ClickException(f"The output cannot be written: {error.strerror}. {left}.") from error
    if not number:
        note(f"There is no message{' with that identifier' if message_id else ''} on {safe(queue)}.")
        sys.exit(EXIT_NOTHING)


def _options(wait_s: float, message_id: str | None) -> GetOptions:
    return GetOptions(
        options=GetOption.SYNCPOINT
        | GetOption.FAIL_IF_QUIESCING
        | GetOption.PROPERTIES_FORCE_MQRFH2
        | (GetOption.WAIT if wait_s else GetOption.NONE),
        wait_ms=round(wait_s * 1_000),
        match=MatchOption.MSG_ID if message_id else MatchOption.NONE,
        message_id=message_id_from(message_id) if message_id else NO_ID,
    )


def _print(shown: MessageView, *, as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode(shown.facts))
    else:
        for line in shown.body:
            click.echo(safe(line))


def commit_written(connection: Connection, output: IO[Any]) -> None:
    """Flush the output, then commit. If the disk is full, or the reader of a pipe has ended, the messages stay on the queue.

    A file is also synced, because some file systems report a full disk only then. `OSError` is raised before the commit.
    """
    output.flush()
    with suppress(io.UnsupportedOperation):  # not every stream has a file descriptor
        if stat.S_ISREG(os.fstat(descriptor := output.fileno()).st_mode):
            os.fsync(descriptor)
    connection.commit()


@click.command("unsubscribe")
@click.argument("name")
@url_option
def unsubscribe(name: str, url: str | None) -> None:
    """End the durable subscription NAME permanently, and delete the messages on its managed queue.

    The command fails while an application uses the subscription (2429), and for a subscription of another user (2434). DELETE
    SUB of `mqflow mqsc` works for every user.
    """
    from mqflow.runtime.listener.subscriber import end_subscription  # noqa: PLC0415 - only this command needs it

    with connected(url) as connection:
        end_subscription(connection, name)
    click.echo(f"The subscription {name} has ended.")
