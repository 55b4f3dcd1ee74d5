"""`mqflow status`: shows the running applications of this user on this machine, with listeners, workers and queues."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import msgspec
from msgspec.structs import replace

from mqflow.cli.option_types import json_option
from mqflow.cli.text.exit_codes import EXIT_FAILED
from mqflow.cli.text.terminal import note, safe, show_table, wrapped
from mqflow.cli.watching.named_applications import reports
from mqflow.cli.watching.status_report import History, StatusReport, worker_rows
from mqflow.world import SYSTEM_CLOCK, THREADS

__all__ = ("command", "headline")

_RATE_S: Final = 1.0


@click.command("status")
@click.argument("application", required=False, metavar="[APP]")
@click.option("--rates", is_flag=True, help="Measure for a second, and show the messages each second.")
@json_option
def command(application: str | None, *, rates: bool, as_json: bool) -> None:
    """Show the running applications, or only APP: a name, or the number of a process.

    The command shows the processes and listeners of each application, what each worker does now, and the depth of each queue.
    The exit code is 1 if an application is not ready or does not answer, or if no application runs. It is 2 if no application
    has the name APP. Only an application that runs with `--http` counts messages.
    """
    is_well, is_any = True, False
    for path, report in _with_rates(application) if rates else reports(application):
        is_any = True
        is_well = is_well and not isinstance(report, str) and report.health.ready
        if as_json and isinstance(report, str):
            click.echo(msgspec.json.encode({"silent": path.stem} | ({"reason": report} if report else {})))
        elif as_json:
            click.echo(msgspec.json.encode(report))
        elif isinstance(report, str):
            click.echo(
                f"{safe(path.stem)} shows no status: {safe(report)}" if report else f"{safe(path.stem)} does not answer."
            )
        else:
            _show(path, report, rates=rates)
    if not is_any:
        note("No application of this user runs on this machine.")
    if not (is_well and is_any):
        raise click.exceptions.Exit(EXIT_FAILED)


def _with_rates(application: str | None) -> Iterator[tuple[Path, StatusReport | str]]:
    """Ask the applications twice. Yield their second reports, with the rates between the two answers."""
    history = History()
    for _, report in reports(application):
        if not isinstance(report, str):
            history.note(report, SYSTEM_CLOCK.monotonic())
    THREADS.event().wait(_RATE_S)
    for path, report in reports(application):
        if isinstance(report, str):
            yield path, report
            continue
        history.note(report, SYSTEM_CLOCK.monotonic())
        found = {each.queue: history.rates(report.status.process, each.queue) for each in report.queues}
        yield path, replace(report, rates={queue: rates[-1] for queue, rates in found.items() if rates})


def headline(report: StatusReport) -> str:
    """Return one line: the application, its queue manager, and whether it is ready and alive."""
    status, health = report.status, report.health
    state = "ready" if health.ready else "not ready" if health.live else "stuck: it must be started again"
    processes = (
        f"{len(status.processes)} of {status.expected} processes" if status.expected > 1 else f"process {status.process}"
    )
    place = f" on {status.url}" if status.url else ""
    return f"{status.application}{place}: {state}, {processes}"


def _show(path: Path, report: StatusReport, *, rates: bool) -> None:
    click.secho(safe(headline(report)), bold=True)
    for sentence in report.health.why:
        click.echo(f"  {safe(sentence)}")
    show_table(("process", "listener", "queue", "worker", "doing"), worker_rows(report.status), numbers=frozenset({0, 3}))
    click.echo()
    columns = ("queue", "depth", "oldest", "messages/s")[: 4 if rates else 3]
    show_table(columns, (row[: len(columns)] for row in _queue_rows(report)), numbers=frozenset({1, 2, 3}))
    for refused, queues in _refusals(report).items():
        click.echo(wrapped(f"{', '.join(map(safe, queues))}: {safe(refused)}", 2))
    for stuck in report.health.stuck:
        if stuck.stack:
            of = f"worker {stuck.worker} of {safe(stuck.listener)} in " if stuck.listener else ""
            click.echo(f"\nThe stack of {of}process {stuck.process}:")
            for line in stuck.stack.splitlines():
                click.echo(safe(line))
    click.echo(f"Its control socket is {path}.\n")


def _queue_rows(report: StatusReport) -> Iterator[tuple[str, ...]]:
    for each in report.queues:
        rate = f"{report.rates[each.queue]:.1f}" if each.queue in report.rates else "-"
        yield each.queue, "unknown" if each.depth is None else str(each.depth), each.oldest, rate


def _refusals(report: StatusReport) -> dict[str, list[str]]:
    """Return why depths are unknown, each reason with its queues."""
    found: dict[str, list[str]] = {}
    for each in report.queues:
        if each.depth is None:
            found.setdefault(each.refused, []).append(each.queue)
    return found
