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
from mqflow.cli.messages.units_of_work import uninterrupted
from mqflow.cli.option_types import Seconds, json_option, queue_argument, url_option
from mqflow.cli.text.exit_codes import EXIT_INTERRUPTED, EXIT_NOTHING
from mqflow.cli.text.message_view import MessageView, view
from mqflow.cli.text.terminal import counted, note, safe
from mqflow.mqi.descriptor import NO_ID
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import GetOption, MatchOption, OpenOption
from mqflow.policy.reconnect.reason_classes import leaves_in_doubt
from mqflow.verbs import Connection, GetOptions

__all__ = ("UnitsOfWork", "command", "unsubscribe", "write_out")

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
def command(queue: str, limit: int, wait_s: float, message_id: str | None, *, as_json: bool, url: str | None) -> None:
    """Get messages from QUEUE and print their bodies; with --json, also descriptor, headers and properties.

    The command removes a message only after the message is written; if the output is a file, only after a sync to the disk.
    After Ctrl-C, up to 100 printed messages are still on QUEUE, because a unit of work has 100 messages. The command then says
    how many messages it has removed. Exits with 3 if there is no message.
    """
    options = _options(wait_s, message_id)
    with connected(url) as connection:
        handle = connection.open(queue, OpenOption.INPUT_SHARED | OpenOption.FAIL_IF_QUIESCING)
        units = UnitsOfWork(connection, sys.stdout)
        try:
            while units.got < limit and (got := connection.get(handle, options)) is not None:
                units.got += 1
                _print(view(queue, got.descriptor, got.body, shown_max=len(got.body)), as_json=as_json)
                if units.got % _UNIT_OF_WORK == 0:
                    units.commit()
            units.commit()
        except BrokenPipeError:  # the reader of the pipe has ended; click ends the command without a text
            raise
        except OSError as error:
            left = units.removed_text(queue)
            raise click.ClickException(f"The output cannot be written: {error.strerror}. {left}") from error
        except MQIError as error:
            if units.got:
                error.add_note(units.removed_text(queue, in_doubt=leaves_in_doubt(error)))
            raise
        except KeyboardInterrupt:
            if units.got:
                note(f"mqflow: Interrupted. {units.removed_text(queue)}")
            sys.exit(EXIT_INTERRUPTED)
    if not units.got:
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
        for line in shown.body or ("",):  # an empty message is an empty line, so that the user sees it
            click.echo(safe(line))


class UnitsOfWork:
    """The messages that one command gets and writes. A unit of work is committed only after its messages are written."""

    def __init__(self, connection: Connection, output: IO[Any]) -> None:
        self._connection = connection
        self._output = output
        #: The number of messages that the command has got.
        self.got: int = 0
        #: The number of messages of committed units of work.
        self.removed: int = 0

    def commit(self) -> None:
        """Write the output out, then commit. `OSError` is raised before the commit, so the messages stay on the queue."""
        write_out(self._output)
        with uninterrupted():
            self._connection.commit()
            self.removed = self.got

    def removed_text(self, queue: str, *, in_doubt: bool = False) -> str:
        """Return sentences about the messages that are removed, and about the others."""
        removed = f"Removed from {safe(queue)}: {counted(self.removed, 'messages')}"
        if not in_doubt:
            return f"{removed}; all others stay there."
        last = counted(self.got - self.removed, "messages")
        return f"{removed}. The commit got no answer, so the last {last} of the output may still be there: look at the queue."


def write_out(output: IO[Any]) -> None:
    """Flush the output. Raises `OSError` if the disk is full, or the reader of a pipe has ended.

    A file is also synced, because some file systems report a full disk only then.
    """
    output.flush()
    with suppress(io.UnsupportedOperation):  # not every stream has a file descriptor
        if stat.S_ISREG(os.fstat(descriptor := output.fileno()).st_mode):
            os.fsync(descriptor)


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
