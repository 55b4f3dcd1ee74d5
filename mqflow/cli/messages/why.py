"""`mqflow why`: prints the story of a message from the decision ledger: its deliveries, decisions and moves."""

import sys
from string import hexdigits

import click

from mqflow.app.run.decision_ledger import Entry, known_messages, story
from mqflow.cli.messages.tail import ledger_of
from mqflow.cli.option_types import json_option, url_option
from mqflow.cli.text.exit_codes import EXIT_NOTHING
from mqflow.cli.text.json_lines import json_line
from mqflow.cli.text.story import entry_lines
from mqflow.cli.text.terminal import note, safe, wrapped

__all__ = ("command",)

_SHOWN_MAX = 10


@click.command("why")
@click.argument("message_id", metavar="MSGID")
@json_option
@url_option
def command(message_id: str, *, as_json: bool, url: str | None) -> None:
    """Print the story of the message with identifier MSGID (hexadecimal digits).

    A unique beginning is enough, or at least 8 digits of a unique end.

    The ledger beside the data has the messages that failed or needed a decision; with `record = "all"` in the section [ledger]
    of mqflow.toml, every message. The application can run meanwhile. Exits with 3 if the ledger does not have the message.
    """
    message_id = message_id.removeprefix("..")  # lines of the log show a MsgId in this form
    if not all(letter in hexdigits for letter in message_id):
        text = "is not a part of a message identifier: give hexadecimal digits, as `mqflow browse` prints them"
        raise click.BadParameter(f"{message_id!r} {text}.")
    path = ledger_of(url)
    found = known_messages(path, message_id, limit=_SHOWN_MAX)
    if len(found) > 1:
        note(f"At least {len(found)} messages have {safe(message_id)}:")
        for each in found:
            click.echo(each.hex())
        sys.exit(EXIT_NOTHING)
    if not found:
        note(f"{path} has no entry for {safe(message_id)}: it succeeded, or was never delivered, or is too old.")
        sys.exit(EXIT_NOTHING)
    for entry in story(path, found[0]):
        _print(entry, as_json=as_json)


def _print(entry: Entry, *, as_json: bool) -> None:
    if as_json:
        click.echo(json_line(entry))
        return
    at, (first, *details) = entry_lines(entry)
    indent = len(at) + 2
    click.echo(wrapped(f"{at}  {safe(first)}", indent))
    for detail in details:
        click.echo(wrapped(f"{'':{indent}}  {safe(detail)}", indent + 2))
