"""`mqflow tail` prints the events of messages when they happen; `mqflow why` prints the story of one message.

Both read the decision ledger beside the data.
"""

import fnmatch
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from string import hexdigits
from threading import Event
from typing import Any, Final, get_args

import click
from msgspec.structs import fields

from mqflow.app.config.settings import load
from mqflow.app.errors import ConfigurationError, shown_url
from mqflow.app.run.decision_ledger import Entry, MessageEvent, entries_after, known_messages, ledger_file, story
from mqflow.cli.messages.browse import named_condition
from mqflow.cli.option_types import duration_s, json_option, url_option
from mqflow.cli.text.exit_codes import EXIT_NOTHING
from mqflow.cli.text.json_lines import json_line, plain
from mqflow.cli.text.story import entry_lines
from mqflow.cli.text.terminal import note, safe, wrapped
from mqflow.policy.poison.disposition import OUTCOMES
from mqflow.world import SYSTEM_CLOCK

__all__ = ("EVENT_NAMES", "command", "entries_as_they_come", "matches_event", "why")

_LOOK_EVERY_S: Final = 0.5
_INDENT: Final = 14
_SHOWN_MAX: Final = 10
EVENT_NAMES: Final = frozenset(
    ("event", "frame", "message_id", *(each.name for kind in (*get_args(MessageEvent), *OUTCOMES) for each in fields(kind)))
) - {"raised"}
"""The names that `--where` accepts: the kind of the event, its fields, and the fields of its outcome."""


@click.command("tail")
@click.option("--where", multiple=True, metavar="NAME=PATTERN", help="Only matching events; * and ? match; repeatable.")
@click.option("--last", type=click.IntRange(0), default=10, show_default=True, help="Begin with this number of earlier events.")
@click.option(
    "--since", "since_s", callback=duration_s, metavar="TIME", help="Instead of --last, begin with the events of this time: 5m."
)
@click.option("--once", is_flag=True, help="Print the earlier events, and do not wait for more.")
@json_option
@url_option
def command(where: tuple[str, ...], last: int, since_s: float | None, *, once: bool, as_json: bool, url: str | None) -> None:
    """Print what happens to messages, as it happens, until Ctrl-C: deliveries, decisions, moves, pauses, edits.

    \b
    --where uses the names that --json prints:
      --where queue='ORDERS.*'       a field of the event
      --where event=Disposed         the kind of the event
      --where outcome=Failed         the kind of the outcome
      --where error='*Timeout*'      a field of the outcome: error, text, frame
      --where message_id='*60edde'   the message, in hexadecimal digits

    The events come from the ledger beside the data. The ledger has the messages that failed or needed a decision; with
    `record = "all"` in the section [ledger] of mqflow.toml, every message.
    """  # noqa: D301 - after a backspace click does not wrap the lines
    wanted = [named_condition(text, EVENT_NAMES, "no event has a field") for text in where]
    path = _ledger_of(url)
    if not path.is_file() and not once:
        why = "no application has had an event for it yet" if path.parent.is_dir() else f"there is no folder {path.parent} yet"
        note(f"Waiting for {path}: {why}.")
    begin = None if since_s is None else SYSTEM_CLOCK.wall() - since_s
    for entry in entries_as_they_come(path, _choice(wanted), last=last, begin=begin, pause=None if once else _pause):
        click.echo(json_line(entry) if as_json else _text(entry))


def _ledger_of(url: str | None) -> Path:
    """Return the ledger file of a queue manager, even if the file does not exist.

    Raises `ConfigurationError` if the queue manager has no data folder on this machine and no setting names a file.
    """
    settings = load({"url": url})
    path = ledger_file(settings.url, settings.ledger)
    if path is None:
        raise ConfigurationError(
            f"{shown_url(settings.url)} has no data folder on this machine, so it has no ledger beside the data. If "
            "the application has a ledger file (the setting ledger.file, or MQFLOW_LEDGER_FILE), name the same file for this "
            "command."
        )
    return path


def entries_as_they_come(
    path: Path, wanted: Callable[[Entry], bool], *, last: int, begin: float | None, pause: Callable[[], None] | None
) -> Iterator[Entry]:
    """Yield the last wanted entries, or those since `begin` (seconds since 1970). Then yield each new wanted entry.

    `pause` is called between two reads of the file. Without `pause`, the file is read only once. If the file does not exist
    yet, it has no entries. Raises `LedgerError` if the file is not a ledger, or if it is read only once and does not exist.
    """
    number = 0

    def look() -> Iterator[Entry]:
        nonlocal number
        if path.is_file() or pause is None:
            for found, entry in entries_after(path, number):
                number = found
                if wanted(entry):
                    yield entry

    yield from deque(look(), last) if begin is None else [entry for entry in look() if entry.at >= begin]
    while pause is not None:
        pause()
        yield from list(look())


def matches_event(facts: Mapping[str, Any], name: str, pattern: str) -> bool:
    """Return whether a value of this name, in the event or its outcome, matches. An empty pattern matches a missing value."""
    event = facts["event"]
    outcome = event.get("outcome") or {}
    parts = {**outcome, **(outcome.get("raised") or {}), **event, "message_id": facts["message_id"]}
    parts |= {"event": event["type"], "outcome": outcome.get("type", "")}
    value = parts.get(name)
    text = "" if value is None or value == [] else str(value)
    return fnmatch.fnmatchcase(text, pattern)


def _choice(conditions: list[tuple[str, str]]) -> Callable[[Entry], bool]:
    def wanted(entry: Entry) -> bool:
        if not conditions:
            return True
        facts = plain(entry)
        return all(matches_event(facts, name, pattern) for name, pattern in conditions)

    return wanted


def _text(entry: Entry) -> str:
    at, (first, *details) = entry_lines(entry)
    lines = [f"{at[11:]}  ..{entry.message_id.hex()[-12:]}  {first}", *(f"{'':{_INDENT}}{detail}" for detail in details)]
    return "\n".join(wrapped(safe(line), _INDENT) for line in lines)


def _pause() -> None:
    Event().wait(_LOOK_EVERY_S)


@click.command("why")
@click.argument("message_id", metavar="MSGID")
@json_option
@url_option
def why(message_id: str, *, as_json: bool, url: str | None) -> None:
    """Print the story of the message with identifier MSGID (hexadecimal digits).

    A unique beginning is enough, or at least 8 digits of a unique end.

    The ledger beside the data has the messages that failed or needed a decision; with `record = "all"` in the section [ledger]
    of mqflow.toml, every message. The application can run meanwhile. Exits with 3 if the ledger does not have the message.
    """
    message_id = message_id.removeprefix("..")  # lines of the log show a MsgId in this form
    if not all(letter in hexdigits for letter in message_id):
        text = "is not a part of a message identifier: give hexadecimal digits, as `mqflow browse` prints them"
        raise click.BadParameter(f"{message_id!r} {text}.")
    path = _ledger_of(url)
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
