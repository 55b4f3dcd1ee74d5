"""`mqflow poison`: shows why the messages of a backout or dead-letter queue failed, in groups. It removes no message."""

import re
import shlex
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import click
from msgspec.structs import replace

from mqflow.app.config.settings import Settings, load
from mqflow.app.errors import shown_url
from mqflow.app.run.decision_ledger import LedgerError, last_disposals, ledger_file
from mqflow.cli.connection_options import connected
from mqflow.cli.messages.browse import browse, condition, end_without_messages, matches
from mqflow.cli.option_types import json_option, queue_argument, url_option
from mqflow.cli.text.json_lines import json_line
from mqflow.cli.text.message_view import reason_words, view
from mqflow.cli.text.terminal import counted, safe, sparkline, wrapped
from mqflow.events import Disposed
from mqflow.policy.poison.disposition import Failed, Undecodable
from mqflow.policy.poison.failure_groups import DEFAULT_PARTS, FailedMessage, FailureGroup, Part, failed_message, failure_groups
from mqflow.verbs import Connection
from mqflow.world import SYSTEM_CLOCK

__all__ = (
    "HEADERS_BYTES_MAX",
    "LastDisposal",
    "ago",
    "cause",
    "command",
    "details",
    "disposals",
    "failed_messages",
    "redrive_command",
    "times_of",
    "trend_of",
    "with_failure",
)

HEADERS_BYTES_MAX: Final = 256 * 1024
"""The largest part of a message that is read for its headers, so that long bodies need not cross the network."""

_WINDOWS: Final = {
    timedelta(minutes=1): "minute",
    timedelta(minutes=5): "5 minutes",
    timedelta(hours=1): "hour",
    timedelta(hours=6): "6 hours",
    timedelta(days=1): "day",
    timedelta(days=7): "week",
}
"""The lengths of the windows of a trend, in words."""


@click.command("poison")
@queue_argument
@click.option(
    "--by",
    "parts",
    multiple=True,
    type=click.Choice([part.value for part in Part]),
    default=[part.value for part in DEFAULT_PARTS],
    show_default=True,
    help="What the messages of a group have in common; repeatable.",
)
@click.option("--where", multiple=True, metavar="NAME=PATTERN", help="Only matching messages, as in `mqflow browse`.")
@click.option(
    "--samples", "samples_max", type=click.IntRange(0), default=1, show_default=True, help="Messages to show of each group."
)
@json_option
@url_option
def command(
    queue: str, parts: tuple[str, ...], where: tuple[str, ...], samples_max: int, *, as_json: bool, url: str | None
) -> None:
    """Show why the messages on QUEUE failed, in groups: the largest group first.

    QUEUE is a backout requeue queue or a dead-letter queue. Messages with the same original queue, reason, exception and frame
    (the line of the application that raised) are one group. The reason comes from the headers of each message, and from the
    decision ledger if there is one. The command browses, so every message stays on QUEUE.

    After each group comes the command that moves its messages back, if --where can select exactly this group. Exits with 3 if
    there is no message.
    """
    wanted = [condition(text) for text in where]
    now = datetime.fromtimestamp(SYSTEM_CLOCK.wall(), UTC)
    chosen = [Part(part) for part in parts]
    with connected(url) as connection, disposals(load({"url": url})) as last_disposal:
        messages = failed_messages(connection, queue, wanted, last_disposal)
        groups = failure_groups(messages, now=now, parts=chosen, samples_max=samples_max)
    if as_json:
        for group in groups:
            click.echo(json_line(_facts(queue, group, _where(group, groups))))
    elif groups:
        total = counted(sum(group.messages for group in groups), "messages")
        click.secho(f"{safe(queue)}: {total} in {counted(len(groups), 'groups')}", bold=True)
        for group in groups:
            _show(group, now)
            own = _where(group, groups)
            if own is not None:
                click.echo(safe(f"  {redrive_command(queue, url, (*where, *own))}"))
    if not groups:
        end_without_messages(queue, where)


LastDisposal = Callable[[bytes], Disposed | None]


@contextmanager
def disposals(settings: Settings) -> Iterator[LastDisposal]:
    """Yield a function that finds the last `Disposed` event of a message in the decision ledger; None if there is no ledger."""
    path = ledger_file(settings.url, settings.ledger)
    if path is None or not path.is_file():  # most queue managers have no ledger: the first entry creates it
        yield lambda _: None
        return
    try:
        with last_disposals(path) as last_disposal:
            yield last_disposal
    except LedgerError as error:
        raise click.ClickException(str(error)) from error


def failed_messages(
    connection: Connection, queue: str, wanted: list[tuple[str, str]], last_disposal: LastDisposal
) -> Iterator[FailedMessage]:
    """Yield the messages of the queue that meet all conditions, each with the reason of its failure."""
    for got in browse(connection, queue, bytes_max=None if wanted else HEADERS_BYTES_MAX):
        if wanted:
            facts = view(queue, got.descriptor, got.body).facts
            if not all(matches(facts, name, pattern) for name, pattern in wanted):
                continue
        yield with_failure(failed_message(got.descriptor, got.body), last_disposal)


def with_failure(message: FailedMessage, last_disposal: LastDisposal) -> FailedMessage:
    """Return the message. If its headers name no exception, add the failure from the decision ledger."""
    if message.why.error:
        return message
    disposed = last_disposal(message.message_id)
    if disposed is None or not isinstance(disposed.outcome, Failed | Undecodable):
        return message
    outcome = disposed.outcome
    why = replace(
        message.why,
        queue=message.why.queue or disposed.queue,
        outcome=type(outcome).__name__.lower(),
        error=outcome.error,
        text=outcome.text,
        frame=outcome.frame,
        handler=message.why.handler or disposed.listener,
    )
    return replace(message, why=why, has_reason=False)


# -- the output


def _facts(queue: str, group: FailureGroup, where: list[str] | None) -> dict[str, Any]:
    """Return the group as a record for a script. Parts that were not chosen are left out. Identifiers are hexadecimal."""
    parts = ("reason", "outcome", "exception", "frame", "handler", "age")
    facts: dict[str, Any] = {"queue": queue, "messages": group.messages}
    if group.queue is not None:
        facts["origin"] = group.queue
    # getattr: the names are the names of fields of the group.
    facts |= {name: value for name in parts if (value := getattr(group, name)) is not None}
    facts |= {"first_at": group.first_at, "last_at": group.last_at}
    if group.trend is not None:
        facts["trend"] = {"window_s": int(group.trend.window.total_seconds()), "messages": group.trend.messages}
    facts["samples"] = [{"message_id": sample.message_id, "at": sample.at, "text": sample.text} for sample in group.samples]
    return facts if where is None else facts | {"where": where}


def _show(group: FailureGroup, now: datetime) -> None:
    click.echo()
    click.secho(safe(f"{counted(group.messages, 'messages')}: {cause(group)}"), bold=True)
    origin = "" if group.queue is None else f"from {group.queue or 'an unknown queue'}"
    trend = trend_of(group)
    drawn = f"{sparkline(group.trend.messages)}  {trend}" if group.trend and trend else ""
    for line in (origin, *details(group), times_of(group, now), drawn):
        if line:
            click.echo(wrapped(safe(f"  {line}"), 4))
    for sample in group.samples:
        click.echo(f"  {sample.message_id.hex()}")
        if sample.text:
            click.echo(wrapped(safe(f"    {sample.text}"), 4))


def redrive_command(queue: str, url: str | None, where: Sequence[str]) -> str:
    """Return the command that moves the messages back. A password in the URL is not shown: the user must add it."""
    words = ["mqflow", "redrive", queue, "--to", "origin"]
    for text in dict.fromkeys(where):
        words += ["--where", text]
    if url is not None:
        words += ["--url", shown_url(url)]
    return shlex.join(words)


def cause(group: FailureGroup) -> str:
    """Return the title of the group: its exception, or otherwise its reason."""
    if group.exception:
        return group.exception
    if group.reason:
        return reason_words(group.reason)
    if group.outcome:
        return group.outcome
    parts = (group.frame, group.handler, group.age)
    return next((part for part in parts if part), "no reason is known" if group.reason == 0 else "all reasons")


def details(group: FailureGroup) -> Iterator[str]:
    """Yield in words the other facts that all messages of the group have in common."""
    if group.exception and group.reason:
        yield f"put here because of {reason_words(group.reason)}"
    if group.exception and group.outcome and group.outcome != "failed":
        yield group.outcome
    if group.frame:
        yield f"raised at {group.frame}"
    if group.handler:
        yield f"handled by {group.handler}"
    if group.age:
        yield f"moved in {group.age}" if group.age.startswith("the ") else f"moved earlier ({group.age})"


def times_of(group: FailureGroup, now: datetime) -> str:
    """Return in words the times of the first and the last message of the group."""
    if group.first_at is None or group.last_at is None:
        return ""
    since = ago(now - group.last_at)
    if group.first_at == group.last_at:
        return f"at {group.last_at:%Y-%m-%d %H:%M:%S} UTC, {since}"
    return f"first {group.first_at:%Y-%m-%d %H:%M:%S}, last {group.last_at:%Y-%m-%d %H:%M:%S} UTC, {since}"


def trend_of(group: FailureGroup) -> str:
    """Return in words how many messages of the group came lately; empty for a group of one message."""
    if group.trend is None or group.messages == 1:
        return ""
    before, last = group.trend.messages[-2:]
    window = _WINDOWS[group.trend.window]
    return f"{last:,} in the last {window}, {before:,} in the {window} before"


def ago(age: timedelta) -> str:
    """Return the age in words; "0 s" for a time in the future."""
    seconds = max(0, int(age.total_seconds()))
    for size, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit} ago"
    return f"{seconds} s ago"


def _where(group: FailureGroup, groups: Collection[FailureGroup]) -> list[str] | None:
    """Return the filters for `--where` that select exactly this group; None if no filters can select it."""
    if not group.has_reason or group.age is not None or group.queue == "" or any(_hides_in(group, each) for each in groups):
        return None
    values: tuple[tuple[str, str | int | None], ...] = (
        ("queue", group.queue),
        ("reason", group.reason),
        ("outcome", group.outcome),
        ("error", group.exception),
        ("frame", group.frame),
        ("handler", group.handler),
    )
    return [f"{name}={_as_pattern(str(value or ''))}" for name, value in values if value is not None]


def _hides_in(group: FailureGroup, other: FailureGroup) -> bool:
    """Return whether filters for the group can select messages of the other group too.

    `--where` does not know the ledger. For it, a message has no exception if its exception is only in the ledger.
    """
    same = (group.queue, group.reason) == (other.queue, other.reason) and group.handler in {None, "", other.handler}
    return same and not group.exception and not other.has_reason


def _as_pattern(value: str) -> str:
    """Return a pattern that matches only this value."""
    return re.sub(r"([*?[])", r"[\1]", value)
