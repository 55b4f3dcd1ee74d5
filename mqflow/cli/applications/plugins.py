"""`mqflow plugins`: lists the installed plugins, and loads each plugin to see whether it can be used."""

import click
import msgspec

from mqflow.app.config.plugins import Plugin, PluginError, installed, load
from mqflow.cli.option_types import json_option
from mqflow.cli.text.exit_codes import EXIT_FAILED
from mqflow.cli.text.terminal import note, show_table

__all__ = ("command",)

_COLUMNS = ("kind", "name", "object", "distribution", "state")


@click.command("plugins")
@json_option
def command(*, as_json: bool) -> None:
    """List the plugins of the installed distributions, and load each plugin. If a plugin fails, the list has the cause.

    Exits with 1 if a plugin cannot be used. An application uses only the plugins that it names.
    """
    problems = {plugin: _problem(plugin) for plugin in installed()}
    if as_json:
        for plugin, problem in problems.items():
            facts = {
                "kind": _kind(plugin),
                "name": plugin.name,
                "object": plugin.target,
                "distribution": plugin.distribution,
                "version": plugin.version,
                "problem": problem,
            }
            click.echo(msgspec.json.encode(facts))
    else:
        rows = [
            (
                _kind(plugin),
                plugin.name,
                plugin.target,
                f"{plugin.distribution} {plugin.version}",
                "failed" if problem else "ok",
            )
            for plugin, problem in problems.items()
        ]
        show_table(_COLUMNS, rows)
        if not rows:
            click.echo("No installed distribution offers a plugin.")
    for problem in filter(None, problems.values()):
        note(f"mqflow: {problem}")
    if any(problems.values()):
        click.get_current_context().exit(EXIT_FAILED)


def _kind(plugin: Plugin) -> str:
    return plugin.group.value.removeprefix("mqflow.")


def _problem(plugin: Plugin) -> str:
    """Return why the plugin cannot be used; empty if it can be used."""
    try:
        load(plugin)
    except PluginError as error:
        return str(error)
    return ""
