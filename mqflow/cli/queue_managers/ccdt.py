"""`mqflow ccdt`: looks into channel tables. Connects to nothing."""

import os
import platform
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import click
import msgspec

from mqflow.app.channels.read_sources import Tables, read_client_configuration
from mqflow.cli.connection_options import json_option
from mqflow.cli.text.exit_codes import EXIT_NOTHING
from mqflow.cli.text.terminal import note, safe, show_table
from mqflow.policy.channels.candidates import Candidate, Preference, candidates, connect_name, nothing_matches
from mqflow.policy.channels.client_ini import ClientConfiguration
from mqflow.policy.channels.sources import DefinedBy, Given, choose, without_password
from mqflow.policy.channels.table import Channel
from mqflow.policy.reconnect.mode import ReconnectOption, default_reconnect, reconnect_mode
from mqflow.world import SYSTEM_RANDOM

__all__ = ("command",)


@click.group("ccdt")
def command() -> None:
    """Look into client channel definition tables (CCDT)."""


@command.command("explain", short_help="Say which entries would be tried, in which order, and why.")
@click.argument("table", metavar="[FILE]", default="")
@click.option("--connect", "name", metavar="NAME", default="*", show_default=True, help="The name that is connected with.")
@click.option("--host", metavar="HOST", default="", help="The host that it would happen on; this one by default.")
@click.option("--http", "http_allowed", is_flag=True, help="Fetch the table over http too, where anybody can change it.")
@json_option
def explain(table: str, name: str, host: str, http_allowed: bool, as_json: bool) -> None:  # noqa: FBT001 - click passes options by name
    """Say which entries of FILE would be tried for a NAME, in which order, and why.

    FILE is a path or a URL; without it the environment and mqclient.ini say where the channels are, as for every MQI client.
    NAME is the name of a queue manager, '*GROUP' for any of a group, or '*' for entries without a name. Exits with 3 where no
    entry matches.
    """
    configuration = read_client_configuration()
    choice = choose(Given(url=table, environment=os.environ, configuration=configuration))
    found = Tables(choice, name=name, http_allowed=http_allowed).read().table
    attempts = candidates(Preference(table=found), name, random=SYSTEM_RANDOM.random, host=host or platform.node())
    others = [each for each in found.channels if each not in {attempt.channel for attempt in attempts}]
    if as_json:
        _print_json(attempts, others, name, configuration)
    else:
        where = choice.channel.name if isinstance(choice, DefinedBy) else without_password(choice.location)
        click.echo(safe(f"Channels: {where} ({choice.origin.value})"))
        click.echo(_check(name))
        click.echo()
        _print_table(attempts, others, name, configuration)
    for warning in (*configuration.warnings, *found.warnings, *_not_used(attempts, configuration)):
        note(f"warning: {safe(warning)}")
    if not attempts:
        note(f"mqflow: {safe(str(nothing_matches(found, name)))}")
        sys.exit(EXIT_NOTHING)


def _not_used(attempts: Sequence[Candidate], configuration: ClientConfiguration) -> Iterator[str]:
    """Yield a sentence for the table's entries that say more than is done, and one for mqclient.ini."""
    for channel in dict.fromkeys(attempt.channel for attempt in attempts):
        if channel.not_used:
            yield f"Entry {channel.position} ({channel.name}): mqflow does not use {', '.join(channel.not_used)}."
    if configuration.not_used:
        said = "; ".join(configuration.not_used)
        yield f"{configuration.source}: mqflow does not use {said}. IBM's client library reads the file for itself."


def _check(name: str) -> str:
    asked = connect_name(name)
    if asked.name_checked:
        return safe(f"Connecting with {name}: the queue manager reached must be called {asked.queue_manager}.")
    return safe(f"Connecting with {name or 'a blank name'}: whichever queue manager answers will do, whatever it is called.")


def _print_table(
    attempts: Sequence[Candidate], others: Sequence[Channel], name: str, configuration: ClientConfiguration
) -> None:
    tried = [
        (str(number), attempt.channel.name, str(attempt.address), _reconnects(attempt.channel, configuration), attempt.why)
        for number, attempt in enumerate(attempts, start=1)
    ]
    rest = [("-", each.name, each.connection_name, "-", _why_not(each, name)) for each in others]
    show_table(("", "channel", "address", "reconnects", "why"), [*tried, *rest], numbers=frozenset({0}))


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
    """Return what happens to a connection that is lost, if the application leaves it to the default."""
    default = default_reconnect(configuration.default_reconnect, channel.default_reconnect)
    return reconnect_mode(default, ReconnectOption.AS_DEF).value


def _why_not(channel: Channel, name: str) -> str:
    if channel.unusable:
        return channel.unusable
    return f"Its queue manager is {channel.queue_manager or '(blank)'}, not {connect_name(name).queue_manager or '(blank)'}."
