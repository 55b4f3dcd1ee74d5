"""The page of all commands, made from their help: `python -m tests.docs.commands_page > docs/reference/commands.md`."""

import sys
from collections.abc import Iterator
from typing import Final

import click

from mqflow.app.config.plugins import Group, installed
from mqflow.cli.main import main

__all__ = ("page",)

_WIDTH: Final = 110
_HELP: Final = ["-h", "--help"]
_HEAD: Final = """# Help of each command

This page has the output of `mqflow COMMAND --help`. [The command line](../cli.md) lists all commands, rules and exit codes.
This page is made from the commands: `python -m tests.docs.commands_page > docs/reference/commands.md`.
"""


def page() -> str:
    """Return the page. Commands of plugins are not on it."""
    return _HEAD + "".join(
        f"\n## {name}\n\n```text\n{command.get_help(context).strip()}\n```\n"
        for name, command, context in _commands(main, None)
    )


def _commands(group: click.Group, parent: click.Context | None) -> Iterator[tuple[str, click.Command, click.Context]]:
    """Yield each command below the group, with its name and its context."""
    context = click.Context(
        group, parent, "mqflow" if parent is None else group.name, terminal_width=_WIDTH, help_option_names=_HELP
    )
    foreign = {plugin.name for plugin in installed(Group.COMMANDS)} if parent is None else set()
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or name in foreign:
            continue
        within = click.Context(command, context, name, terminal_width=_WIDTH, help_option_names=_HELP)
        yield within.command_path, command, within
        if isinstance(command, click.Group):
            yield from _commands(command, context)


if __name__ == "__main__":
    sys.stdout.write(page())
