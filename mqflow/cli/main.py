"""The command line: the group `main`, which imports a command's module only when that command is asked for.

Knows the commands' names and one line of each, so that `mqflow --help` is fast; what they do is in the modules beside.
"""

import importlib
import os
import sys
from typing import IO, Any, Final

import click

from mqflow.cli.text.exit_codes import EXIT_INTERRUPTED, epilog, exit_code_of, sentence_of

__all__ = ("main",)

_COMMANDS: Final = {
    "run": ("applications.run", "Run an application until it is told to stop."),
    "put": ("messages.put", "Put messages on a queue."),
    "get": ("messages.get", "Take messages off a queue."),
    "browse": ("messages.browse", "Look at messages, and leave them where they are."),
    "dlq": ("dead_letters.dlq", "Handle dead-letter queues by rules tables."),
    "redrive": ("messages.redrive", "Put messages back to where they came from."),
    "land": ("pipeline.land", "Move queues into a journal, exactly once."),
    "journal": ("pipeline.journal", "Show what is in a journal, and trim it."),
    "capture": ("messages.capture", "Write messages to a file, whole."),
    "replay": ("messages.replay", "Put captured messages, or give them to a handler."),
    "delay": ("messages.delay", "Show what waits for its delay to be over, and take it back."),
    "why": ("messages.why", "Tell the story of a message."),
    "mqsc": ("queue_managers.mqsc", "Define, alter and display queues with MQSC commands."),
    "qmgr": ("queue_managers.qmgr", "Create, start and stop queue managers that run by themselves."),
    "explain": ("applications.explain", "Say what applies to each listener, and where it was set."),
    "init": ("applications.init", "Make a new application, with a test and a Containerfile."),
    "doctor": ("queue_managers.doctor", "Look for what is wrong here."),
    "spark": ("pipeline.spark", "Run the data pipeline: journals into tables, and tables into insight."),
    "unsubscribe": ("messages.unsubscribe", "End a durable subscription, with what waits on its queue."),
    "ccdt": ("queue_managers.ccdt", "Say which channels would be tried, in which order, and why."),
    "reason": ("queue_managers.reason", "Say what a reason code means and what is done about it."),
    "standin": ("standin.command", "Run programs that use ibmmq or pymqi without IBM MQ."),
}
"""For each command its module below `mqflow.cli`, whose object `command` is the command, and its line in the help."""


class _LazyGroup(click.Group):
    """Finds its commands by name, ours first, then those of plugins; turns every error into a sentence and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return [*_COMMANDS, *(name for name in _plugin_lines() if name not in _COMMANDS)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name in _COMMANDS:
            command: click.Command = importlib.import_module(f"mqflow.cli.{_COMMANDS[cmd_name][0]}").command
            return command
        if cmd_name in _plugin_lines():
            return _plugin(cmd_name)
        return None

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Return what click finds. Raises `UsageError`, with what may have been meant, for a command that is none."""
        name = args[0]
        if name.isalpha() and self.get_command(ctx, name) is None:
            from mqflow.policy.did_you_mean import closest  # noqa: PLC0415 - only who mistypes pays

            if close := closest(name, self.list_commands(ctx)):
                raise click.UsageError(f"No such command {name!r}. Did you mean {close}?", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """Write the table of commands without importing one of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in _COMMANDS.items()])
        added = [(name, line) for name, line in _plugin_lines().items() if name not in _COMMANDS]
        if added:
            with formatter.section("Commands of plugins"):
                formatter.write_dl(added)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Return click's context of `mqflow` itself; what is wrong with its own options is told as everything is."""
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.ClickException as error:
            raise _Told(error) from error

    def invoke(self, ctx: click.Context) -> object:
        """Run the command. The one place of the command line where every exception ends, as a sentence on stderr."""
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            raise _Told(error) from error
        except (click.exceptions.Exit, click.Abort, BrokenPipeError):  # click ends each as it should
            raise
        except KeyboardInterrupt:
            ctx.exit(EXIT_INTERRUPTED)
        except Exception as error:
            if ctx.params["debug"]:
                raise
            click.echo(f"mqflow: {sentence_of(error)}", err=True)
            ctx.exit(exit_code_of(error))


class _Told(click.ClickException):
    """What click refuses, told as all other errors are; below how the command is used, where that is what was wrong."""

    def __init__(self, error: click.ClickException) -> None:
        super().__init__(error.format_message())
        self.exit_code = error.exit_code  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]  # click reads it of the error
        self._ctx = error.ctx if isinstance(error, click.UsageError) else None

    def show(self, file: IO[Any] | None = None) -> None:
        """Write it to stderr."""
        if self._ctx is not None:
            hint = f"Try '{self._ctx.command_path} {self._ctx.help_option_names[-1]}' for help."
            click.echo(f"{self._ctx.get_usage()}\n{hint}\n", file=file, err=True)
        click.echo(f"mqflow: {self.message}", file=file, err=True)


def _plugin_lines() -> dict[str, str]:
    """Return a line for each command that a plugin offers; reads metadata only."""
    from mqflow.app.config.plugins import Group, installed  # noqa: PLC0415 - reading metadata costs more than all the rest of --help

    return {plugin.name: f"From {plugin.distribution} {plugin.version}." for plugin in installed(Group.COMMANDS)}


def _plugin(name: str) -> click.Command:
    from mqflow.app.config.plugins import Group, find, load  # noqa: PLC0415 - as above

    command = load(find(Group.COMMANDS, name))
    if not isinstance(command, click.Command):
        raise click.UsageError(f"The plugin command {name!r} is no click command but {type(command).__qualname__}.")
    return command


@click.group(cls=_LazyGroup, epilog=epilog(), context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mqflow", message="mqflow %(version)s, Python " + sys.version.split(maxsplit=1)[0])
@click.option("--debug", is_flag=True, envvar="MQFLOW_DEBUG", help="Show where an error came from (a traceback).")
def main(debug: bool) -> None:  # noqa: ARG001, FBT001 - click passes options by name; `invoke` reads it
    """Consume IBM MQ from Python, with or without IBM MQ.

    Which queue manager a command works on is said by --url, by MQFLOW_URL, or by `url` in mqflow.toml;
    without any of them it is the embedded queue manager QM1 in ./data.
    """
    if os.environ.get("NO_COLOR"):  # https://no-color.org; rich knows it, click does not
        click.get_current_context().color = False
