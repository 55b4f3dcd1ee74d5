"""`mqflow run`: an application until it is told to stop, in this process or in several that share one queue manager."""

import logging
import os
import shlex
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NoReturn

import anyio
import click

from mqflow.app.application import App
from mqflow.app.channels.locate import SERVED_SOCKET, locate
from mqflow.app.config.settings import Settings
from mqflow.app.errors import ConfigurationError
from mqflow.app.run.signals import EXIT_CUT_OFF, run_until_signal, threads_left
from mqflow.cli.applications.load import application
from mqflow.cli.applications.run_state import ReadyFile, ReconnectLine, in_foreground
from mqflow.cli.connection_options import url_option
from mqflow.cli.processes.file_limit import allow_all_descriptors
from mqflow.cli.processes.loading_progress import while_reading
from mqflow.cli.processes.parent_pipe import lifeline_option, until_alone
from mqflow.cli.text.terminal import note
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.folder import prepare_folder
from mqflow.embedded.wire.server.listener import ServingError, serve
from mqflow.events import Event, ListenerStarted
from mqflow.world import SYSTEM_CLOCK

__all__ = ("command",)

_LOG_FORMAT: Final = "%(asctime)s %(levelname)-7s %(process)d %(name)s: %(message)s"


@click.command("run")
@click.argument("target", metavar="MODULE:APP")
@click.option("--workers", type=click.IntRange(1), default=1, show_default=True, help="How many processes.")
@click.option("--reload", "reloads", is_flag=True, help="Start again whenever a file here changes (mqflow[reload]).")
@click.option("--drain", "drain_s", type=click.FloatRange(0), metavar="SECONDS", help="How long handlers may finish.")
@click.option("--backend", type=click.Choice(["asyncio", "trio"]), default="asyncio", show_default=True, help="The event loop.")
@click.option("--ready-file", type=click.Path(path_type=Path), help="A file that is there while every queue is open.")
@lifeline_option
@url_option
def command(
    target: str,
    workers: int,
    reloads: bool,  # noqa: FBT001 - click passes options by name
    drain_s: float | None,
    backend: str,
    ready_file: Path | None,
    alone_by: int | None,
    url: str | None,
) -> None:
    """Run the listeners of MODULE:APP until SIGTERM, SIGHUP or Ctrl-C.

    The first signal drains: no new message is got, handlers finish, their units of work commit, exit code 0. A second one backs
    out what is under way and exits with 75; a third ends the process where it stands. With several workers two more processes
    serve them the data, where nobody else does: when one of those dies the other goes on. Whichever process dies is started
    again; if this one does, all drain and end.
    """
    _check(workers=workers, reloads=reloads, backend=backend, tells_ready=ready_file is not None)
    if reloads:
        _reload(target, drain_s, backend, url)
        return
    app = application(target, url=url, drain_s=drain_s)
    settings = app.settings or Settings()
    line = ReconnectLine(sys.stderr, SYSTEM_CLOCK) if in_foreground(sys.stderr) else None
    logging.basicConfig(level=settings.log_level.upper(), format=_LOG_FORMAT, stream=line)  # None is stderr
    for warning in settings.warnings:
        note(f"mqflow: {warning}")
    if not app.listeners and not app.dead_letter_handlers:
        raise ConfigurationError(f"{target} has no listener: nothing would ever run. Declare one with @app.listener(QUEUE).")
    if workers > 1:
        from mqflow.cli.processes.workers import run_workers  # noqa: PLC0415 - only who has several pays

        sys.exit(run_workers(target, workers, settings.url_over(app.url), settings, backend))
    allow_all_descriptors()
    export_the_rest = _observe(app, settings)
    url = settings.url_over(app.url)
    app.hooks.append(_Announcement(url))
    if line is not None:
        app.hooks.append(line)
    if ready_file is not None:
        app.hooks.append(_ready(ready_file))
    stop_serving = _serve_while_running(app, url)
    try:
        until = None if alone_by is None else partial(until_alone, alone_by)
        beside = None if line is None else line.ticking
        ended = anyio.run(run_until_signal, app.running, app.stop, until, beside, backend=backend)
    finally:
        stop_serving()
        export_the_rest()
        if line is not None:
            line.clear()
    _leave(ended)


def _leave(code: int) -> NoReturn:
    """End the process with this code: also where the thread of a handler that was cut off is still at work.

    Python would wait for that thread, for ever if need be, although its message is on its queue again.
    """
    if code == EXIT_CUT_OFF and threads_left():
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _check(*, workers: int, reloads: bool, backend: str, tells_ready: bool) -> None:
    """Raise `ConfigurationError` for what does not go together, and for what is not installed."""
    if tells_ready and (reloads or workers > 1):
        raise ConfigurationError("--ready-file is about one process: leave out --reload, and --workers above 1.")
    if reloads and workers > 1:
        raise ConfigurationError("--reload is about one process: leave out --workers.")
    if backend == "trio" and find_spec("trio") is None:
        raise ConfigurationError("--backend trio needs trio: pip install 'mqflow[trio]'.")


def _serve_while_running(app: App, url: str) -> Callable[[], None]:
    """Have an embedded queue manager served while the application runs, so that other commands reach it.

    Return what is to be called at the end, also where it never came to run.
    """
    location = locate(url)
    folder = location.path
    if location.kind != "embedded" or folder is None:
        return lambda: None
    serving = ExitStack()
    if (folder / "queue_manager.db").exists() and in_foreground(sys.stderr):
        serving.enter_context(while_reading(location.queue_manager, prepare_folder(folder, create=False)))

    @app.on_start
    def start() -> None:
        serving.close()  # everything is read
        queue_manager = app.queue_manager
        assert isinstance(queue_manager, EmbeddedQueueManager)  # noqa: S101 - the URL says so
        try:
            serving.enter_context(closing(serve(queue_manager, folder / SERVED_SOCKET)))
        except ServingError as error:  # the application does not need it
            note(f"mqflow: other commands cannot reach this queue manager meanwhile. {error}")

    app.on_stop(serving.close)
    return serving.close


def _ready(path: Path) -> ReadyFile:
    try:
        return ReadyFile(path)
    except OSError as error:
        raise ConfigurationError(f"--ready-file {path}: {error.strerror}.") from error


class _Announcement:
    """A hook that says of each listener that it listens, when it does: a signal sent before that would not drain."""

    wants: Final = (ListenerStarted,)

    def __init__(self, url: str) -> None:
        self._url = url

    def __call__(self, event: Event) -> None:
        if isinstance(event, ListenerStarted):
            note(f"Listening on {event.queue} of {self._url}; Ctrl-C drains and stops.")


def _observe(app: App, settings: Settings) -> Callable[[], None]:
    """Give the application OpenTelemetry, where the settings want it; return what exports the rest at its end."""
    if not settings.telemetry:
        return lambda: None
    from mqflow.otel.configured import add_telemetry  # noqa: PLC0415 - only who wants it pays

    return add_telemetry(app, os.environ)


def _reload(target: str, drain_s: float | None, backend: str, url: str | None) -> None:
    """Run the application in a process that is drained and replaced whenever a file of this folder changes."""
    try:
        from watchfiles import PythonFilter, run_process  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ConfigurationError("--reload needs watchfiles: pip install 'mqflow[reload]'.") from error
    wait_s = Settings().drain_s if drain_s is None else drain_s
    words = [sys.executable, "-m", "mqflow.cli", "run", target, "--backend", backend, "--drain", f"{wait_s:g}"]
    words += ["--url", url] if url else []
    run_process(
        ".", target=shlex.join(words), target_type="command", watch_filter=PythonFilter(), sigint_timeout=round(wait_s) + 5
    )
