"""Options that several commands have, and the types of their values. This file imports little, so that help is fast."""

import math
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

__all__ = (
    "Seconds",
    "WholeLines",
    "complete_queue",
    "duration_s",
    "json_option",
    "parent_pipe_option",
    "queue_argument",
    "url_option",
)

F = TypeVar("F", bound=Callable[..., Any])  # Any: a click command has any parameters
parent_pipe_option: Final = click.option("--lifeline", "parent_pipe", type=int, hidden=True, metavar="DESCRIPTOR")
"""An option for child processes of mqflow: the descriptor of a pipe that shows the end of the parent process."""
_LINE_CHARS: Final = 200
_UNITS_S: Final = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0}


class Seconds(click.FloatRange):
    """The type of an option in seconds: a number in a range, never `nan` or `inf`. The range type of click accepts `nan`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # Any, as in click
        """Return the number. Raises `click.BadParameter` for a text that is not a number, or is outside of the range."""
        found: float = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value} is not a number of seconds.", param, ctx)
        return found


class WholeLines(click.Group):
    """A group whose help has the whole line of each command, also on a narrow terminal. Click would cut the lines off."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """Write the table of commands."""
        with formatter.section("Commands"):
            lines = [(name, command.get_short_help_str(limit=_LINE_CHARS)) for name, command in sorted(self.commands.items())]
            formatter.write_dl(lines)


def complete_queue(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the queues that begin with `incomplete`, for shell completion; none if no process serves the queue manager.

    The completion never opens a data folder, because only one process can open it. It prints no error. It shows queues whose
    names begin with `SYSTEM` only if `incomplete` begins with `SYSTEM` too.
    """
    from mqflow.cli.connection_options import served_queues  # noqa: PLC0415 - only the completion needs it

    names = served_queues(ctx.params.get("url"))
    shown = [name for name in names if name.startswith(incomplete)]
    return shown if incomplete.startswith("SYSTEM") else [name for name in shown if not name.startswith("SYSTEM.")]


queue_argument: Final = click.argument("queue", shell_complete=complete_queue)
"""The argument QUEUE of a command."""


def url_option(function: F) -> F:
    """Add the option `--url` to the command."""
    return click.option("--url", metavar="URL", help="The queue manager; default: MQFLOW_URL, or url in mqflow.toml.")(function)


def json_option(function: F) -> F:
    """Add the option `--json` to the command, as the parameter `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts, one record on each line.")(function)


def duration_s(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Return a time span in seconds, as the callback of an option: ``90``, ``90s``, ``500ms``, ``5m``, ``2h``, ``3d``."""
    if value is None:
        return None
    number = value.rstrip("abcdefghijklmnopqrstuvwxyz")
    try:
        found_s = float(number) * _UNITS_S[value[len(number) :]]
    except (ValueError, KeyError):
        found_s = math.nan
    if not 0 <= found_s < math.inf:
        raise click.BadParameter(f"{value!r} is not a time span; examples are 90s, 500ms, 5m, 2h and 3d.", ctx, param)
    return found_s
