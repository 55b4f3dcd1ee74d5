"""`mqflow status`: the running applications of this user on this machine, with listeners, workers and queues."""

from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from mqflow.cli.option_types import json_option
from mqflow.cli.text.exit_codes import EXIT_FAILED
from mqflow.cli.text.terminal import note, safe, show_table
from mqflow.cli.watching.chosen import reports
from mqflow.cli.watching.report import Report, worker_rows

__all__ = ("command", "headline")


@click.command("status")
@click.argument("application", required=False, metavar="[APP]")
@json_option
def command(application: str | None, as_json: bool) -> None:  # noqa: FBT001 - click passes options by name
    """Show the running applications, or only APP: a name, or the number of a process.

    For each application: its processes, its listeners, what each worker does now, and the depth of each queue. The exit code is
    1 if an application is not ready, and for a script also if none runs.
    """
    is_well, is_any = True, False
    for path, report in reports(application):
        is_any = True
        is_well = is_well and report is not None and report.health.ready
        if as_json:
            click.echo(msgspec.json.encode(report if report is not None else {"silent": path.stem}))
        elif report is None:
            click.echo(f"{safe(path.stem)} does not answer.")
        else:
            _show(path, report)
    if not is_any:
        note("No application of this user runs on this machine.")
    if not (is_well and is_any):
        raise click.exceptions.Exit(EXIT_FAILED)


def headline(report: Report) -> str:
    """Return one line: the application, its queue manager, and whether it is ready and alive."""
    status, health = report.status, report.health
    state = "ready" if health.ready else "not ready" if health.live else "stuck: it must be started again"
    processes = (
        f"{len(status.processes)} of {status.expected} processes" if status.expected > 1 else f"process {status.process}"
    )
    return f"{status.application} on {status.url}: {state}, {processes}"


def _show(path: Path, report: Report) -> None:
    click.secho(safe(headline(report)), bold=True)
    for sentence in report.health.why:
        click.echo(f"  {safe(sentence)}")
    show_table(("process", "listener", "queue", "worker", "doing"), worker_rows(report.status), numbers=frozenset({0, 3}))
    click.echo()
    show_table(("queue", "depth", "oldest"), _queue_rows(report), numbers=frozenset({1, 2}))
    for stuck in report.health.stuck:
        if stuck.stack:
            click.echo(f"\n{safe(stuck.text)}")
            for line in stuck.stack.splitlines():
                click.echo(safe(line))
    click.echo(f"Its control socket is {path}.\n")


def _queue_rows(report: Report) -> Iterator[tuple[str, str, str]]:
    for each in report.queues:
        oldest = "" if each.oldest_message_age_s is None else f"{each.oldest_message_age_s} s"
        yield each.queue, each.refused if each.depth is None else str(each.depth), oldest
