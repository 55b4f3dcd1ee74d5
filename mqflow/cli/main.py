"""The command line: the group `main`. It imports the module of a command only when that command runs.

This file has the names and the help lines of all commands, so `mqflow --help` imports no command.
"""

import importlib
import os
import sys
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, Final

import click

from mqflow.cli.text.exit_codes import EXIT_CODES, EXIT_INTERRUPTED, epilog, exit_code_of, sentence_of

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = ("main",)

_COMMANDS: Final = {
    "run": ("applications.run:command", "Run an application until a signal stops it."),
    "status": ("watching.status:command", "Show running applications: listeners, workers, queues."),
    "top": ("watching.top:command", "Show running applications live."),
    "console": ("console.console_command:command", "Serve a console in the browser: queues, failures, redrive."),
    "ctl": ("watching.ctl:command", "Pause, resume, drain or resize a listener while it runs."),
    "put": ("messages.put:command", "Put messages on a queue."),
    "get": ("messages.get:command", "Get messages from a queue and print them."),
    "browse": ("messages.browse:command", "Show messages and leave them on their queue."),
    "poison": ("messages.poison:command", "Show why messages failed, in groups."),
    "dlq": ("dead_letters.dlq:command", "Handle dead-letter queues with rules tables."),
    "redrive": ("messages.redrive:command", "Move messages back to their original queues."),
    "edit": ("messages.edit:command", "Edit a failed message, and put it back."),
    "land": ("pipeline.land:command", "Move queues into a journal, exactly once."),
    "journal": ("pipeline.journal:command", "Show, check and trim a journal."),
    "capture": ("messages.capture:command", "Write whole messages to a file."),
    "replay": ("messages.replay:command", "Put captured messages, or pass them to a handler."),
    "delay": ("messages.delay:command", "List and cancel delayed messages."),
    "why": ("messages.tail:why", "Print the story of a message: deliveries, decisions, moves."),
    "tail": ("messages.tail:command", "Show what happens to messages, as it happens."),
    "mqsc": ("queue_managers.mqsc:command", "Define, alter and display queues with MQSC commands."),
    "qmgr": ("queue_managers.qmgr:command", "Create, start and stop queue managers in processes of their own."),
    "explain": ("applications.explain:command", "Show the effective settings of each listener, and their sources."),
    "docs": ("applications.docs:command", "Describe an application as an AsyncAPI document or page."),
    "init": ("applications.init:command", "Create a new application, with a test and a Containerfile."),
    "plugins": ("applications.plugins:command", "List the installed plugins, and say which cannot be used."),
    "doctor": ("queue_managers.doctor:command", "Check the installation, the settings and the queue manager."),
    "spark": ("pipeline.spark:command", "Run the data pipeline: copy journals to tables, and evaluate the tables."),
    "unsubscribe": ("messages.get:unsubscribe", "End a durable subscription, and delete its messages."),
    "ccdt": ("queue_managers.ccdt:command", "Show which channels a connection tries, in which order, and why."),
    "reason": ("queue_managers.reason:command", "Explain a reason code, and how mqflow reacts to it."),
    "standin": ("standin.command:command", "Run programs that use ibmmq or pymqi without IBM MQ."),
}
"""For each command: its module in `mqflow.cli` and the object there, and its line in the help."""


class _LazyGroup(click.Group):
    """The group of all commands. It finds a command in mqflow or in a plugin, and prints each error with an exit code.

    If the context has a function as its object, the group calls it after the import of a command.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return [*_COMMANDS, *(name for name in _plugin_lines() if name not in _COMMANDS)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = self._found(cmd_name)
        if command is not None and ctx.obj is not None:
            ctx.obj()
        return command

    def _found(self, cmd_name: str) -> click.Command | None:
        if cmd_name in _COMMANDS:
            module, _, name = _COMMANDS[cmd_name][0].partition(":")
            # getattr: the table above names the object as text, so that `--help` imports no command.
            command: click.Command = getattr(importlib.import_module(f"mqflow.cli.{module}"), name)
            return command
        if cmd_name in _plugin_lines():
            return _plugin(cmd_name)
        return None

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that click finds. For an unknown command, raise `UsageError` with similar names."""
        name = args[0]
        if name.isalpha() and self.get_command(ctx, name) is None:
            from mqflow.policy.did_you_mean import closest  # noqa: PLC0415 - only a mistyped name needs it

            if close := closest(name, self.list_commands(ctx)):
                raise click.UsageError(f"No such command {name!r}. Did you mean {close}?", ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Return the commands that begin with `incomplete`, with their help lines. No command is imported."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only a completion needs it

        lines = {name: line for name, (_, line) in _COMMANDS.items()} | _plugin_lines()
        commands = [CompletionItem(name, help=line) for name, line in lines.items() if name.startswith(incomplete)]
        return commands or click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """Write the table of commands. No command is imported."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in _COMMANDS.items()])
        added = [(name, line) for name, line in _plugin_lines().items() if name not in _COMMANDS]
        if added:
            with formatter.section("Commands of plugins"):
                formatter.write_dl(added)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """Write the exit codes, as wide as the terminal."""
        with formatter.section("Exit codes"):
            formatter.write_dl([(f"{code:>3}", meaning) for code, meaning in EXIT_CODES.items()])

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Return click's context of `mqflow` itself. An error in its options is printed like any other error."""
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.BadParameter as error:
            # Only the environment variable can give --debug a wrong value, but click's text names the option.
            wrong = click.UsageError(f"MQFLOW_DEBUG={os.environ.get('MQFLOW_DEBUG')!r}: it takes 1 or 0.", error.ctx)
            raise _ClickError(wrong if error.param and error.param.name == "debug" else error) from error
        except click.NoSuchOption as error:
            wrong = click.UsageError(f"{error.format_message()} The options of a command come after its name.", error.ctx)
            raise _ClickError(wrong) from error
        except click.ClickException as error:
            raise _ClickError(error) from error

    def invoke(self, ctx: click.Context) -> object:
        """Run the command. Every exception of the command line ends here, as a sentence on stderr."""
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            raise _ClickError(error) from error
        except (click.exceptions.Exit, click.Abort, BrokenPipeError):  # click handles these
            raise
        except KeyboardInterrupt:
            ctx.exit(EXIT_INTERRUPTED)
        except Exception as error:
            if ctx.params["debug"]:
                raise
            with suppress(OSError):  # as in `_ClickError.show`
                click.echo(f"mqflow: {sentence_of(error)}", err=True)
            ctx.exit(exit_code_of(error))


_CLEARER: Final = {
    "is not a valid integer range": "is not a whole number",
    "is not a valid float range": "is not a number",
    "Missing argument 'MODULE:APP'.": "Missing argument 'MODULE:APP'. It is app:app for the `app` of app.py.",
}
"""Texts of click, and texts that a user understands more easily."""


class _ClickError(click.ClickException):
    """An error of click, printed like any other error. Before an error in the usage, the usage line is printed."""

    def __init__(self, error: click.ClickException) -> None:
        text = error.format_message()
        for unclear, clear in _CLEARER.items():
            text = text.replace(unclear, clear)
        super().__init__(text)
        self.exit_code = error.exit_code  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]  # click reads the code from the error
        self._ctx = error.ctx if isinstance(error, click.UsageError) else None
        # Compared by name, because only click 8.2 and later have this class. Its text is the help of a group without a command.
        self._is_help = type(error).__name__ == "NoArgsIsHelpError"

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the error on stderr. If stderr cannot be written, the text is lost, but not the exit code."""
        text = self.message if self._is_help else f"mqflow: {self.message}"
        if self._ctx is not None and not self._is_help:
            hint = f"Try '{self._ctx.command_path} {self._ctx.help_option_names[-1]}' for help."
            text = f"{self._ctx.get_usage()}\n{hint}\n\n{text}"
        with suppress(OSError):
            click.echo(text, file=file, err=True)


def _plugin_lines() -> dict[str, str]:
    """Return a help line for each command of a plugin. Only the metadata of the distributions is read.

    `mqflow.app.config.plugins` can read this too, but its import takes longer than the rest of `--help`.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415 - only the help and an unknown command need the metadata

    distributions = {entry.name: entry.dist for entry in entry_points(group="mqflow.commands")}
    return {name: f"From {dist.name} {dist.version}." if dist else "" for name, dist in sorted(distributions.items())}


def _plugin(name: str) -> click.Command:
    from mqflow.app.config.plugins import Group, find, load  # noqa: PLC0415 - only a command of a plugin needs it

    command = load(find(Group.COMMANDS, name))
    if not isinstance(command, click.Command):
        raise click.UsageError(f"The plugin command {name!r} must be a click command, but is {type(command).__qualname__}.")
    return command


@click.group(cls=_LazyGroup, epilog=epilog(), context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mqflow", message="mqflow %(version)s, Python " + sys.version.split(maxsplit=1)[0])
@click.option("--debug", is_flag=True, envvar="MQFLOW_DEBUG", help="Print the traceback of an error.")
@click.option(
    "--env-file", metavar="FILE", help="Read variables from this file, for example .env; the environment is stronger."
)
def main(debug: bool, env_file: str | None) -> None:  # noqa: ARG001, FBT001 - click passes options by name; `invoke` reads it
    """Consume IBM MQ from Python, with or without IBM MQ.

    --url, MQFLOW_URL or `url` in mqflow.toml names the queue manager of a command. The default is the embedded queue manager
    QM1 in ./data.
    """
    # https://no-color.org; rich reads these variables, click does not
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        click.get_current_context().color = False
    if env_file is not None:
        _read_variables(env_file)


def _read_variables(file: str) -> None:
    """Add the variables of a file to the environment. Variables that are already set stay. Worker processes inherit them.

    Raises `UsageError` if the file cannot be read, if a name has no value, or if the extra `mqflow[env]` is not installed.
    """
    try:
        from dotenv import dotenv_values  # noqa: PLC0415 - only --env-file needs it
    except ModuleNotFoundError as error:
        raise click.UsageError("--env-file needs python-dotenv: pip install 'mqflow[env]'.") from error
    try:
        with open(file, encoding="utf-8-sig") as stream:  # noqa: PTH123 - the name in the error is the name that was typed
            variables = dotenv_values(stream=stream)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise click.UsageError(f"--env-file {file} cannot be read: {why}.") from error
    for name, value in variables.items():
        if value is None:
            raise click.UsageError(f"--env-file {file}: {name} has no value. Write {name}=VALUE.")
        os.environ.setdefault(name, value)
