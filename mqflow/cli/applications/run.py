"""`mqflow run`: the options of the command. `run_application` does the work; it is imported late, so that the help is fast."""

from pathlib import Path
from typing import Any

import click

from mqflow.cli.option_types import Seconds, parent_pipe_option, url_option

__all__ = ("command",)


@click.command("run")
@click.argument("application", metavar="MODULE:APP")
@click.option("--workers", type=click.IntRange(1), default=1, show_default=True, help="Number of worker processes.")
@click.option("--only", multiple=True, metavar="LISTENER", help="Run only this listener, by name or queue; repeatable.")
@click.option("--reload", "reloads", is_flag=True, help="Restart when a Python file in this folder changes (mqflow[reload]).")
@click.option(
    "--recycle-after", "messages_max", type=click.IntRange(1), metavar="N", help="Replace a process after N messages."
)
@click.option(
    "--recycle-above", "memory_mib_max", type=click.IntRange(1), metavar="MIB", help="Replace a process that used more memory."
)
@click.option("--drain", "drain_s", type=Seconds(0), metavar="SECONDS", help="How long handlers have to finish.")
@click.option(
    "--wait",
    "start_limit_s",
    type=Seconds(0),
    metavar="SECONDS",
    help="Give up if the queue manager cannot be reached in this time; default: never; 0: immediately.",
)
@click.option("--backend", type=click.Choice(["asyncio", "trio"]), default="asyncio", show_default=True, help="The event loop.")
@click.option(
    "--log-format",
    type=click.Choice(["console", "json"]),
    help="Log lines for people, or JSON; default: log_format in the settings, or console.",
)
@click.option("--ready-file", type=click.Path(path_type=Path), help="A file that exists while every queue is open.")
@click.option("--http", metavar="HOST:PORT", help="Serve probes, metrics and status there; a port alone is on 127.0.0.1.")
@click.option("--console", "has_console", is_flag=True, help="With --http: serve the console in the browser at /console/.")
@click.option("--allow-changes", is_flag=True, help="With --console: allow redrive and edit, with an audit log.")
@click.option("--watched-at", "parent_socket", type=click.Path(path_type=Path), hidden=True)
@click.option("--counts", is_flag=True, hidden=True)
@parent_pipe_option
@url_option
def command(application: str, **options: Any) -> None:
    """Run the listeners of MODULE:APP until SIGTERM, SIGHUP or Ctrl-C.

    The first signal drains: the listeners get no new message, handlers finish, and their units of work commit. The exit code is
    then 0. The second signal backs out all open units of work; the exit code is then 75. The third signal ends the process
    immediately.

    If the queue manager cannot be reached yet, the command waits and tries again, as after a lost connection.

    With --only, the other listeners and the DLQ handlers of the application do not run.

    With --recycle-after or --recycle-above, a worker process drains and ends at its limit, and a new process takes its place.
    Without --workers, the command itself drains and ends with exit code 0, and the service manager starts it again.

    With several workers, two more processes serve an embedded queue manager to the workers, if no other process serves it yet.
    If one of these two processes dies, the other process serves the workers. A process that dies is started again. If this
    command dies, all processes drain and end.
    """
    from mqflow.cli.applications.run_application import run_application  # noqa: PLC0415 - `mqflow run --help` needs no application

    run_application(application, **options)
