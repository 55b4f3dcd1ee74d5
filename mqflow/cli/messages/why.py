"""`mqflow why`: the story of a message from the decision ledger: each delivery, each decision, each destination tried."""

import sys
from string import hexdigits

import click
import msgspec

from mqflow.app.config.settings import load
from mqflow.app.errors import ConfigurationError
from mqflow.app.run.decision_ledger import Entry, known_messages, ledger_file, story
from mqflow.cli.connection_options import json_option, url_option
from mqflow.cli.text.exit_codes import EXIT_NOTHING
from mqflow.cli.text.story import told
from mqflow.cli.text.terminal import note, safe

__all__ = ("command",)

_SHOWN_MAX = 10


@click.command("why")
@click.argument("message_id", metavar="MSGID")
@json_option
@url_option
def command(message_id: str, as_json: bool, url: str | None) -> None:  # noqa: FBT001 - click passes options by name
    """Tell what became of the message with this identifier (in hexadecimal; its beginning is enough where it is the only one).

    The ledger beside the data has messages that failed or were decided about; with `record = "all"` below [ledger] in
    mqflow.toml, every message. It may be read while the application runs. Exits with 3 for a message it does not have.
    """
    if not all(letter in hexdigits for letter in message_id):
        said = "no message identifier, nor the beginning of one: it has hexadecimal digits, as `mqflow browse` shows it"
        raise click.BadParameter(f"{message_id!r} is {said}.")
    settings = load({"url": url})
    path = ledger_file(settings.url, settings.ledger)
    if path is None:
        raise ConfigurationError(
            f"{settings.url} keeps its data in no folder here, so no ledger is kept beside it. Where the application was given "
            "a file (ledger.file, or MQFLOW_LEDGER_FILE), name the same file here; without one it keeps no ledger."
        )
    found = known_messages(path, message_id, limit=_SHOWN_MAX)
    if len(found) > 1:
        note(f"{len(found)} messages or more begin with {safe(message_id)}:")
        for each in found:
            click.echo(each.hex())
        sys.exit(EXIT_NOTHING)
    if not found:
        note(f"{path} has nothing about {safe(message_id)}: it went well, or was never delivered, or is too long ago.")
        sys.exit(EXIT_NOTHING)
    for entry in story(path, found[0]):
        _print(entry, as_json=as_json)


def _print(entry: Entry, *, as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode({"at": entry.at, "message_id": entry.message_id.hex(), "event": entry.event}))
        return
    at, (first, *details) = told(entry)
    click.echo(f"{at}  {safe(first)}")
    for detail in details:
        click.echo(f"{'':{len(at)}}    {safe(detail)}")
