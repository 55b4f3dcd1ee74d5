"""`mqflow top`: shows the running applications live in the terminal, with depths, rates and the state of each worker."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from mqflow.app.errors import ConfigurationError
from mqflow.cli.option_types import Seconds
from mqflow.cli.text.terminal import safe, sparkline
from mqflow.cli.watching.named_applications import every_report
from mqflow.cli.watching.status import headline
from mqflow.cli.watching.status_report import History, StatusReport, worker_rows
from mqflow.world import SYSTEM_CLOCK, THREADS

if TYPE_CHECKING:
    from rich.console import Group

__all__ = ("command", "view")


def view(found: Sequence[StatusReport], history: History) -> "Group":
    """Return the text for the terminal: applications, queues and workers."""
    from rich.console import Group  # noqa: PLC0415 - optional, and slow to import
    from rich.table import Table  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415 - as above

    parts: list[Table | Text] = []
    for report in found:
        process = report.status.process
        style = "bold green" if report.health.ready else "bold yellow" if report.health.live else "bold red"
        parts.append(Text(safe(headline(report)), style=style))
        parts.extend(Text(safe(sentence), style="yellow") for sentence in report.health.why)
        queues = Table("queue", "depth", "", "messages/s", "", "oldest", box=None, pad_edge=False)
        for each in report.queues:
            depths, rates = history.depths(process, each.queue), history.rates(process, each.queue)
            queues.add_row(
                Text(safe(each.queue)),
                Text("?" if each.depth is None else str(each.depth)),
                Text(sparkline(depths)),
                Text(f"{rates[-1]:.0f}" if rates else "-"),
                Text(sparkline(rates)),
                Text(each.oldest),
            )
        workers = Table("process", "listener", "queue", "worker", "doing", box=None, pad_edge=False)
        for row in worker_rows(report.status):
            workers.add_row(*(Text(safe(cell)) for cell in row))
        parts += [queues, workers, Text()]
    return Group(*parts) if parts else Group(Text("No application of this user runs on this machine."))


@click.command("top")
@click.argument("application", required=False, metavar="[APP]")
@click.option(
    "--every", "every_s", type=Seconds(0.1), default=1.0, show_default=True, metavar="SECONDS", help="The time between updates."
)
@click.option(
    "--turns", type=click.IntRange(1), help="End after N updates; default: Ctrl-C ends the command, or 1 without a terminal."
)
def command(application: str | None, every_s: float, turns: int | None) -> None:
    """Show the running applications live: depth and rate of each queue, and what each worker does.

    Only an application that runs with `--http` counts its messages. For any other application, the rate is "-".
    """
    try:
        from rich.live import Live  # noqa: PLC0415 - optional, and slow to import
    except ImportError as error:
        raise ConfigurationError("mqflow top needs rich: pip install 'mqflow[cli]'. `mqflow status` needs nothing.") from error
    if turns is None and not sys.stdout.isatty():
        turns = 1
    history, waiting, turn = History(), THREADS.event(), 0
    with Live(auto_refresh=False) as live:
        while True:
            found = every_report(application)
            for report in found:
                history.note(report, SYSTEM_CLOCK.monotonic())
            live.update(view(found, history), refresh=True)
            turn += 1
            if turn == turns:
                break
            waiting.wait(every_s)
    if not live.console.is_terminal:
        live.console.line()  # rich ends the last line only in a terminal
