"""`mqflow ccdt`: explains channel tables. It connects to no queue manager."""

import os
import platform
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

import click
import msgspec
from msgspec import Struct

from mqflow.app.channels.source_reader import Tables, read_client_configuration
from mqflow.cli.option_types import WholeLines, json_option
from mqflow.cli.text.exit_codes import EXIT_NOTHING
from mqflow.cli.text.terminal import note, safe, show_table
from mqflow.policy.channels.candidates import Candidate, Preference, candidates, connect_name, nothing_matches
from mqflow.policy.channels.client_ini import ClientConfiguration
from mqflow.policy.channels.sources import DefinedBy, Given, choose, without_password
from mqflow.policy.channels.table import Channel, ChannelTable
from mqflow.policy.reconnect.mode import ReconnectOption, default_reconnect, reconnect_mode
from mqflow.world import SYSTEM_RANDOM

__all__ = ("COLUMNS", "Explained", "command", "explained", "explained_rows")

COLUMNS: Final = ("", "channel", "address", "reconnects", "why")


class Explained(Struct, frozen=True):
    """The entries of a channel table, as one connection uses them."""

    #: The place of the table, and the setting that names it.
    source: str
    table: ChannelTable
    configuration: ClientConfiguration
    #: The addresses that the connection tries, in this order.
    attempts: tuple[Candidate, ...]
    #: The entries that the connection does not try.
    others: tuple[Channel, ...]


@click.group("ccdt", cls=WholeLines)
def command() -> None:
    """Explain client channel definition tables (CCDT)."""


@command.command("explain", short_help="Show which entries a connection tries, in which order, and why.")
@click.argument("table", metavar="[FILE]", default="")
@click.option("--connect", "name", metavar="NAME", default="*", show_default=True, help="The name to connect with.")
@click.option("--host", metavar="HOST", default="", help="The host that connects; default: this host.")
@click.option("--http", "http_allowed", is_flag=True, help="Allow a table over http, which anyone on the network can change.")
@json_option
def explain(table: str, name: str, host: str, *, http_allowed: bool, as_json: bool) -> None:
    """Show which entries of FILE a connection to NAME tries, in which order, and why.

    FILE is a path or a URL. Without FILE, the environment and mqclient.ini name the channels, as for every MQI client. NAME is
    the name of a queue manager, '*GROUP' for any queue manager of a group, or '*' for entries without a name. Exits with 3 if
    no entry matches.
    """
    found = explained(table, name, host=host, http_allowed=http_allowed)
    if as_json:
        _print_json(found.attempts, found.others, name, found.configuration)
    else:
        click.echo(safe(f"Channels: {found.source}"))
        click.echo(_name_rule(name))
        click.echo()
        show_table(COLUMNS, explained_rows(found, name), numbers=frozenset({0}))
    for warning in (*found.configuration.warnings, *found.table.warnings, *_not_used(found.attempts, found.configuration)):
        note(f"warning: {safe(warning)}")
    if not found.attempts:
        note(f"mqflow: {safe(str(nothing_matches(found.table, name)))}")
        sys.exit(EXIT_NOTHING)


def explained(table: str, name: str, *, host: str = "", http_allowed: bool = False) -> Explained:
    """Return the entries that a connection to `name` tries. `table` is a path or a URL; empty for the environment's table.

    Each call draws a new random order of the entries with a weight, as each connection does. Raises `ChannelTableError` for a
    table that cannot be used, and `ClientConfigurationError` for such an mqclient.ini.
    """
    configuration = read_client_configuration()
    choice = choose(Given(url=table, environment=os.environ, configuration=configuration))
    found = Tables(choice, name=name, http_allowed=http_allowed).read().table
    attempts = candidates(Preference(table=found), name, random=SYSTEM_RANDOM.random, host=host or platform.node())
    tried = {attempt.channel for attempt in attempts}
    place = choice.channel.name if isinstance(choice, DefinedBy) else without_password(choice.location)
    others = tuple(each for each in found.channels if each not in tried)
    return Explained(f"{place} ({choice.origin.value})", found, configuration, attempts, others)


def explained_rows(found: Explained, name: str) -> list[tuple[str, ...]]:
    """Return the rows for the table (`COLUMNS`): first the attempts, then the entries that the connection does not try."""
    tried = [
        (str(number), each.channel.name, str(each.address), _reconnects(each.channel, found.configuration), each.why)
        for number, each in enumerate(found.attempts, start=1)
    ]
    return [*tried, *(("-", each.name, each.connection_name, "-", _why_not(each, name)) for each in found.others)]


def _not_used(attempts: Sequence[Candidate], configuration: ClientConfiguration) -> Iterator[str]:
    """Yield a warning for each entry that has attributes which mqflow ignores, and one for mqclient.ini."""
    for channel in dict.fromkeys(attempt.channel for attempt in attempts):
        if channel.not_used:
            yield f"Entry {channel.position} ({channel.name}): mqflow does not use {', '.join(channel.not_used)}."
    if configuration.not_used:
        ignored = "; ".join(configuration.not_used)
        yield f"{configuration.source}: mqflow does not use {ignored}. IBM's client library reads the file itself."


def _name_rule(name: str) -> str:
    rule = connect_name(name)
    if rule.name_checked:
        return safe(f"Connecting with {name}: the queue manager must have the name {rule.queue_manager}.")
    return safe(f"Connecting with {name or 'a blank name'}: a queue manager of any name is accepted.")


def _print_json(
    attempts: Sequence[Candidate], others: Sequence[Channel], name: str, configuration: ClientConfiguration
) -> None:
    for number, attempt in enumerate(attempts, start=1):
        tried: dict[str, Any] = {
            "attempt": number,
            "channel": attempt.channel.name,
            "entry": attempt.channel.position,
            "queue_manager": attempt.channel.queue_manager,
            "host": attempt.address.host,
            "port": attempt.address.port,
            "reconnects": _reconnects(attempt.channel, configuration),
            "why": attempt.why,
        }
        click.echo(msgspec.json.encode(tried))
    for each in others:
        rest: dict[str, Any] = {
            "attempt": None,
            "channel": each.name,
            "entry": each.position,
            "queue_manager": each.queue_manager,
            "why": _why_not(each, name),
        }
        click.echo(msgspec.json.encode(rest))


def _reconnects(channel: Channel, configuration: ClientConfiguration) -> str:
    """Return the reconnect mode for the channel, if the application sets no mode."""
    default = default_reconnect(configuration.default_reconnect, channel.default_reconnect)
    return reconnect_mode(default, ReconnectOption.AS_DEF).value


def _why_not(channel: Channel, name: str) -> str:
    if channel.unusable:
        return channel.unusable
    return f"Its queue manager is {channel.queue_manager or '(blank)'}, not {connect_name(name).queue_manager or '(blank)'}."
