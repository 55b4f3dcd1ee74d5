"""`mqflow capture`: messages into a file, whole; nothing leaves its queue."""

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Final

import click

from mqflow.app.captures import Captured, redacted, written
from mqflow.cli.connection_options import connected, url_option
from mqflow.cli.messages.browse import condition, matches, messages
from mqflow.cli.text.exit_codes import EXIT_NOTHING
from mqflow.cli.text.message_view import view
from mqflow.cli.text.terminal import counted, note, safe

__all__ = ("command",)

_REDACT: Final = "What is not to be in the file: body, a property as usr.NAME, a field as user_identifier; may be repeated."


@click.command("capture")
@click.argument("queue")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="The file to add to; stdout otherwise.")
@click.option("--where", multiple=True, metavar="NAME=PATTERN", help="Only messages like this, as `mqflow browse` has it.")
@click.option("--limit", type=click.IntRange(1), help="How many at most.")
@click.option("--redact", multiple=True, metavar="NAME", help=_REDACT)
@url_option
def command(
    queue: str, out: Path | None, where: tuple[str, ...], limit: int | None, redact: tuple[str, ...], url: str | None
) -> None:
    """Write the messages of QUEUE to a file of JSON lines: every field of the descriptor, every byte of the data.

    `mqflow replay` puts them on a queue or gives them to a handler, `mqflow dlq check --against` asks a rules table about them,
    `mqflow.app.captures.read_captures` reads them in a test.
    """
    wanted = [condition(text) for text in where]
    count = 0
    with ExitStack() as stack:
        connection = stack.enter_context(connected(url))
        lines: BinaryIO = stack.enter_context(out.open("ab")) if out else sys.stdout.buffer
        for got in messages(connection, queue):
            facts = view(queue, got.descriptor, got.body).facts if wanted else {}
            if not all(matches(facts, name, pattern) for name, pattern in wanted):
                continue
            name = connection.queue_manager_name
            captured = Captured(queue=queue, queue_manager=name, descriptor=got.descriptor, data=got.body)
            lines.write(written(redacted(captured, redact) if redact else captured))
            count += 1
            if count == limit:
                break
        lines.flush()
    if not count:
        note(f"There is no {'such ' if where else ''}message on {safe(queue)}.")
        sys.exit(EXIT_NOTHING)
    still = "it is still there" if count == 1 else "they are still there"
    note(f"{counted(count, 'messages')} of {safe(queue)} captured; {still}.")
