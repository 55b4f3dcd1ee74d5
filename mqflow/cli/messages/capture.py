"""`mqflow capture`: writes whole messages to a file, and leaves them on the queue."""

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Final

import click

from mqflow.app.captures import Captured, redacted, written
from mqflow.cli.connection_options import connected
from mqflow.cli.messages.browse import browse, condition, matches
from mqflow.cli.messages.get import write_out
from mqflow.cli.option_types import json_option, queue_argument, url_option
from mqflow.cli.text.exit_codes import EXIT_NOTHING
from mqflow.cli.text.json_lines import json_line
from mqflow.cli.text.message_view import view
from mqflow.cli.text.terminal import counted, note, safe

__all__ = ("command",)

_REDACT: Final = "Leave this out of the file: body, a property (usr.NAME), a field (user_identifier); repeatable."


@click.command("capture")
@queue_argument
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Append to this file; by default stdout.")
@click.option("--where", multiple=True, metavar="NAME=PATTERN", help="Only matching messages, as in `mqflow browse`.")
@click.option("--limit", type=click.IntRange(1), help="Maximum number of messages.")
@click.option("--redact", multiple=True, metavar="NAME", help=_REDACT)
@json_option
@url_option
def command(
    queue: str,
    out: Path | None,
    where: tuple[str, ...],
    limit: int | None,
    redact: tuple[str, ...],
    *,
    as_json: bool,
    url: str | None,
) -> None:
    """Write the messages of QUEUE as JSON lines: every field of the descriptor, every byte of the data.

    `mqflow replay` puts the captured messages on a queue or passes them to a handler. `mqflow dlq check --against` tries a
    rules table on them. A test reads them with `mqflow.app.captures.read_captures`.
    """
    if as_json and out is None:
        raise click.UsageError("--json needs --out FILE: stdout has the messages, which are JSON already.")
    wanted = [condition(text) for text in where]
    count = 0
    unseen = {name for name in redact if "." in name}
    with ExitStack() as stack:
        connection = stack.enter_context(connected(url))
        lines: BinaryIO = stack.enter_context(out.open("ab")) if out else sys.stdout.buffer
        if out and _is_cut_off(out):
            lines.write(b"\n")
        for got in browse(connection, queue):
            facts = view(queue, got.descriptor, got.body).facts if wanted else {}
            if not all(matches(facts, name, pattern) for name, pattern in wanted):
                continue
            name = connection.queue_manager_name
            captured = Captured(queue=queue, queue_manager=name, descriptor=got.descriptor, data=got.body)
            unseen -= {name for name in unseen if redacted(captured, (name,)).data != captured.data}
            lines.write(written(redacted(captured, redact) if redact else captured))
            count += 1
            if count == limit:
                break
        write_out(lines)
    if not count:
        note(f"There is no {'matching ' if where else ''}message on {safe(queue)}.")
        sys.exit(EXIT_NOTHING)
    for name in sorted(unseen):
        note(f"warning: no captured message has a value of {safe(name)}, so --redact {safe(name)} left out nothing.")
    if as_json:
        click.echo(json_line({"queue": queue, "messages": count, "file": str(out)}))
        return
    stays = "the message stays" if count == 1 else "the messages stay"
    note(f"{counted(count, 'messages')} of {safe(queue)} captured; {stays} on the queue.")


def _is_cut_off(file: Path) -> bool:
    """Return whether the last line of the file has no end, because the disk was full or the command was killed."""
    if not file.is_file() or not file.stat().st_size:
        return False
    with file.open("rb") as captures:
        captures.seek(-1, os.SEEK_END)
        return captures.read() != b"\n"
