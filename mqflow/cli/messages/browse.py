"""`mqflow browse`: shows whole messages with decoded headers, and why each message is on its queue. It removes no message."""

import fnmatch
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn

import click
import msgspec
from msgspec.structs import replace

from mqflow.app.config.settings import load
from mqflow.app.run.decision_ledger import LedgerError, ledger_file, story
from mqflow.cli.connection_options import connected
from mqflow.cli.option_types import json_option, queue_argument, url_option
from mqflow.cli.text.exit_codes import EXIT_NOTHING
from mqflow.cli.text.message_view import FACT_NAMES, MessageView, view
from mqflow.cli.text.story import last_disposal
from mqflow.cli.text.terminal import note, safe, show_message
from mqflow.mqi.options import GetOption, MatchOption, OpenOption
from mqflow.policy.did_you_mean import closest
from mqflow.verbs import Connection, GetOptions, Got

__all__ = ("browse", "command", "condition", "end_without_messages", "matches", "named_condition", "still_there")

_BROWSE: Final = GetOption.NO_SYNCPOINT | GetOption.FAIL_IF_QUIESCING | GetOption.PROPERTIES_FORCE_MQRFH2
_FIRST: Final = GetOptions(options=GetOption.BROWSE_FIRST | _BROWSE)
_NEXT: Final = GetOptions(options=GetOption.BROWSE_NEXT | _BROWSE)


@click.command("browse")
@queue_argument
@click.option("--limit", type=click.IntRange(1), default=10, show_default=True, help="Maximum number of messages.")
@click.option("--where", multiple=True, metavar="NAME=PATTERN", help="Only matching messages; * and ? match; repeatable.")
@json_option
@url_option
def command(queue: str, limit: int, where: tuple[str, ...], *, as_json: bool, url: str | None) -> None:
    """Show the messages on QUEUE: descriptor, headers, body, and why each is on this queue.

    \b
    --where uses the names that --json prints:
      --where outcome=undecodable    the cause: outcome, error, text, handler, reason, queue
      --where usr.customer='A*'      a message property
      --where priority=9             a field of the descriptor
      --where body='*LHR*'           the body
      --where error=                 messages without this value
    """  # noqa: D301 - after a backspace click does not wrap the lines
    wanted = [condition(text) for text in where]
    number = 0
    with connected(url) as connection:
        for got in browse(connection, queue):
            if number == limit:
                note(f"There are more messages on {safe(queue)}; --limit shows more than {limit:,}.")
                break
            shown = view(queue, got.descriptor, got.body)
            if not all(matches(shown.facts, name, pattern) for name, pattern in wanted):
                continue
            number += 1
            _print(_with_story(shown, queue, url), number, as_json=as_json)
    if not number:
        end_without_messages(queue, where)


def end_without_messages(queue: str, where: Collection[str]) -> NoReturn:
    """Print that the queue has no message, or none that matches `where`, and end the command."""
    note(f"There is no {'matching ' if where else ''}message on {safe(queue)}.")
    sys.exit(EXIT_NOTHING)


def browse(
    connection: Connection, queue: str, *, bytes_max: int | None = None, message_id: bytes | None = None
) -> Iterator[Got]:
    """Yield the messages on the queue, in order, and remove none. Message data is cut off after `bytes_max`.

    With `message_id`, yield only messages with this MsgId.
    """
    handle = connection.open(queue, OpenOption.BROWSE | OpenOption.FAIL_IF_QUIESCING)
    first, following = _FIRST, _NEXT
    if bytes_max is not None:
        first, following = (
            replace(each, options=each.options | GetOption.ACCEPT_TRUNCATED_MSG, buffer_bytes_max=bytes_max)
            for each in (_FIRST, _NEXT)
        )
    if message_id is not None:
        first, following = (replace(each, match=MatchOption.MSG_ID, message_id=message_id) for each in (first, following))
    options = first
    while (got := connection.get(handle, options)) is not None:
        yield got
        options = following


def still_there(connection: Connection, queue: str, identifiers: Collection[bytes]) -> frozenset[bytes]:
    """Return those of these MsgIds that are still on the queue. No message body is read."""
    handle = connection.open(queue, OpenOption.BROWSE | OpenOption.FAIL_IF_QUIESCING)
    options = replace(
        _FIRST, options=_FIRST.options | GetOption.ACCEPT_TRUNCATED_MSG, buffer_bytes_max=0, match=MatchOption.MSG_ID
    )
    found = frozenset(each for each in identifiers if connection.get(handle, replace(options, message_id=each)) is not None)
    connection.close(handle)
    return found


def _print(shown: MessageView, number: int, *, as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode(shown.facts))
    else:
        show_message(shown, number)


def _with_story(shown: MessageView, queue: str, url: str | None) -> MessageView:
    """Return the message. If it does not have a reason itself, add the reason from the decision ledger."""
    if shown.why:
        return shown
    settings = load({"url": url})
    ledger = ledger_file(settings.url, settings.ledger)
    try:
        entries = story(ledger, shown.message_id) if ledger is not None else ()
    except LedgerError:
        return shown  # most queue managers have no ledger: the first entry creates it
    return replace(shown, why=last_disposal(entries, queue))


def condition(text: str) -> tuple[str, str]:
    """Return the name and the pattern of a `--where` for messages.

    Raises `click.BadParameter` for a text of another form, and for an unknown name. A name with a dot is a property.
    """
    name = text.partition("=")[0]
    example = f"A property is FOLDER.NAME, for example usr.{name}. "
    return named_condition(text, FACT_NAMES if "." not in name else {name}, "no message has a field", example)


def named_condition(text: str, names: Collection[str], unknown: str, example: str = "") -> tuple[str, str]:
    """Return the name and the pattern of a `--where`. For an unknown name, raise `click.BadParameter` with all names."""
    name, equals, pattern = text.partition("=")
    if not name or not equals:
        raise click.BadParameter(f"{text!r} is not NAME=PATTERN.", param_hint="--where")
    if name not in names:
        close = closest(name, names)
        meant = f"Did you mean {close}? " if close else ""
        known = ", ".join(sorted(names))
        raise click.BadParameter(f"{unknown} {name!r}. {meant}{example}The fields: {known}.", param_hint="--where")
    return name, pattern


def matches(facts: Mapping[str, Any], name: str, pattern: str) -> bool:
    """Return whether a fact of this name, in any part of `facts`, matches the pattern.

    An empty pattern matches if no part has a value of this name.
    """
    values = [value for value in _values(facts, name) if value]
    if not pattern:
        return not values
    return any(fnmatch.fnmatchcase(value, pattern) for value in values)


def _values(facts: Mapping[str, Any], name: str) -> Iterator[str]:
    parts: Sequence[Mapping[str, Any]] = (facts["why"], facts["properties"], facts["descriptor"], facts)
    for part in parts:
        if name in part:
            yield str(part[name])
