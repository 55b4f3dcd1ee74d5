"""Runs an application for `mqflow run`, in this process or in several processes that share one queue manager."""

import logging
import math
import os
import shlex
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NoReturn, TextIO

import anyio
import click
from msgspec.structs import replace

from mqflow.app.application import App
from mqflow.app.channels.location import SERVED_SOCKET, locate
from mqflow.app.config.settings import Settings, load
from mqflow.app.errors import ConfigurationError, shown_url
from mqflow.app.run.signals import EXIT_CUT_OFF, end_process, run_until_signal, threads_left
from mqflow.cli.applications.application_loader import load_application
from mqflow.cli.applications.run_state import ReadyFile, ReconnectLine
from mqflow.cli.processes.child_process import WORKER, run_command, until_parent_ends
from mqflow.cli.processes.loading_progress import loading_line
from mqflow.cli.processes.recycling import Limits, Recycling, first_of
from mqflow.cli.processes.served_connections import raise_open_file_limit
from mqflow.cli.text.log_lines import NameTheMessage, log_handler
from mqflow.cli.text.terminal import NOTES, in_foreground, note
from mqflow.cli.watching.endpoints import MakeConsole, watched_process
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.folder import prepare_folder
from mqflow.embedded.wire.server.listener import ServingError, serve
from mqflow.events import Event, ListenerPaused, ListenerResumed, ListenerStarted
from mqflow.world import SYSTEM_CLOCK

__all__ = ("run_application",)

_logger: Final = logging.getLogger("mqflow.run")


def run_application(
    application: str,
    *,
    workers: int,
    only: tuple[str, ...],
    reloads: bool,
    messages_max: int | None,
    memory_mib_max: int | None,
    drain_s: float | None,
    start_limit_s: float | None,
    backend: str,
    log_format: str | None,
    ready_file: Path | None,
    http: str | None,
    has_console: bool,
    allow_changes: bool,
    parent_socket: Path | None,
    counts: bool,
    parent_pipe: int | None,
    url: str | None,
) -> None:
    """Run the application, then end the process with the exit code. With `reloads`, return after Ctrl-C has ended the run."""
    _check(workers=workers, reloads=reloads, backend=backend, has_ready_file=ready_file is not None)
    if allow_changes and not has_console:
        raise ConfigurationError("--allow-changes is for the console: add --console, or leave it out.")
    limits = Limits(messages=messages_max, memory_mib=memory_mib_max)
    if reloads:
        if limits:
            raise ConfigurationError("--reload ends with its process: leave out --recycle-after and --recycle-above.")
        if has_console:
            raise ConfigurationError("--console does not work with --reload: use `mqflow console` beside it.")
        _reload(application, drain_s, start_limit_s, backend, _more(only, log_format, http), url)
        return
    app = load_application(application, url=url, drain_s=drain_s, log_format=log_format)
    if only:
        app.listen_only(only)
    settings = app.settings = _waiting(app.settings or Settings(), start_limit_s)
    line = ReconnectLine(sys.stderr, SYSTEM_CLOCK) if in_foreground(sys.stderr) else None
    _start_log(app, settings, line or sys.stderr)
    for warning in settings.warnings:
        note(f"mqflow: {warning}")
    apps = (app, *app.included)
    if not any(each.listeners or each.dead_letter_handlers or each.schedules for each in apps):
        text = f"{application} has no listener, so there is nothing to run. Declare one with @app.listener(QUEUE)."
        raise ConfigurationError(text)
    # If there are worker processes, their parent serves the pages for all of them.
    address = "" if parent_socket is not None else settings.http.address if http is None else http
    console = _console(address, app, settings, allow_changes=allow_changes) if has_console else None
    if workers > 1:
        from mqflow.cli.processes.workers import WorkersOptions, run_workers  # noqa: PLC0415 - only several workers need it

        ready = None if ready_file is None else _ready_file_hook(ready_file)
        shared = WorkersOptions(
            application=application,
            name=settings.application_name or app.name or "mqflow",
            count=workers,
            url=settings.url_over(app.url),
            others={each.name: app.urls(settings)[each.name] for each in app.included},
            backend=backend,
            http=address,
            more=[*_more(only, settings.log_format), *limits.options()],
            recycles=bool(limits),
        )
        sys.exit(run_workers(shared, settings, ready, console))
    with watched_process(app, settings, http=address, parent_socket=parent_socket, counts=counts, console=console):
        code = _run_here(app, settings, line, ready_file, parent_pipe, backend, limits)
    _exit(code)


def _console(address: str, app: App, settings: Settings, *, allow_changes: bool) -> MakeConsole:
    """Return the function that makes the console. Raises `ConfigurationError` if no address is set for the console."""
    from mqflow.cli.console.console_command import console_of_application  # noqa: PLC0415 - only a console needs it

    if not address:
        raise ConfigurationError("--console needs an address: add --http 8080, for example.")
    return console_of_application(address, app, settings, allow_changes=allow_changes)


def _run_here(
    app: App,
    settings: Settings,
    line: ReconnectLine | None,
    ready_file: Path | None,
    parent_pipe: int | None,
    backend: str,
    limits: Limits,
) -> int:
    """Run the application in this process, and return the exit code."""
    raise_open_file_limit()
    export_telemetry = _add_telemetry(app, settings)
    ends = [] if parent_pipe is None else [partial(until_parent_ends, parent_pipe)]
    recycling = Recycling(limits) if limits else None
    if recycling is not None:
        ends.append(partial(_until_recycled, recycling))
    stops_serving = ExitStack()
    for each, url in zip((app, *app.included), app.urls(settings).values(), strict=True):
        each.hooks.append(_Announcement(url))
        each.hooks.extend(hook for hook in (line, recycling) if hook is not None)
        stops_serving.callback(_serve_while_running(each, url, shows_progress=each is app))
    if ready_file is not None:
        app.hooks.append(_ready_file_hook(ready_file))
    try:
        until = partial(first_of, *ends) if ends else None
        beside = None if line is None else line.keep_current
        return anyio.run(run_until_signal, app.running, app.stop, until, beside, backend=backend)
    finally:
        stops_serving.close()
        export_telemetry()
        if recycling is not None:
            recycling.close()
        if line is not None:
            line.clear()


async def _until_recycled(recycling: Recycling) -> None:
    """Wait until a limit of the process is reached, and print the reason."""
    await recycling.reached()
    note(f"This process drains and ends, because {recycling.why}.")


def _start_log(app: App, settings: Settings, stream: ReconnectLine | TextIO) -> None:
    """Write the log to stderr, if the application has no log of its own. A JSON log also has the notes of the command."""
    columns = (lambda: os.get_terminal_size(sys.stderr.fileno()).columns) if sys.stderr.isatty() else None
    handler = log_handler(settings.log_format, stream, columns=columns, worker=os.environ.get(WORKER, ""))
    logging.basicConfig(level=settings.log_level.upper(), handlers=[handler])
    if settings.log_format == "json":
        for each in (app, *app.included):
            each.middleware.insert(0, NameTheMessage())
        click.get_current_context().meta[NOTES] = _logger.info


def _exit(code: int) -> NoReturn:
    """End the process with this code, even if the thread of a cancelled handler still runs.

    A normal end waits for that thread, possibly forever. The message of the handler is already back on its queue.
    """
    if code == EXIT_CUT_OFF and threads_left():
        end_process(code)
    sys.exit(code)


def _check(*, workers: int, reloads: bool, backend: str, has_ready_file: bool) -> None:
    """Raise `ConfigurationError` for options that exclude each other, and for a package that is not installed."""
    if has_ready_file and reloads:
        raise ConfigurationError("--ready-file does not work with --reload: leave one of them out.")
    if reloads and workers > 1:
        raise ConfigurationError("--reload works with one process: leave out --workers.")
    if backend == "trio" and find_spec("trio") is None:
        raise ConfigurationError("--backend trio needs trio: pip install 'mqflow[trio]'.")


def _serve_while_running(app: App, url: str, *, shows_progress: bool) -> Callable[[], None]:
    """Serve an embedded queue manager while the application runs, so that other commands reach it.

    Return the function to call at the end. Call it even if the application did not start.
    """
    location = locate(url)
    folder = location.path
    if location.kind != "embedded" or folder is None:
        return lambda: None
    serving = ExitStack()
    if shows_progress and (folder / "queue_manager.db").exists() and in_foreground(sys.stderr):
        serving.enter_context(loading_line(location.queue_manager, prepare_folder(folder, create=False)))

    @app.on_start
    def start() -> None:
        serving.close()  # the queue manager has now loaded its messages
        queue_manager = app.queue_manager
        assert isinstance(queue_manager, EmbeddedQueueManager)  # noqa: S101 - the URL says so
        try:
            serving.enter_context(closing(serve(queue_manager, folder / SERVED_SOCKET)))
        except ServingError as error:  # the application can run without the server
            note(f"mqflow: other commands cannot reach this queue manager while the application runs. {error}")

    app.on_stop(serving.close)
    return serving.close


def _ready_file_hook(path: Path) -> ReadyFile:
    try:
        return ReadyFile(path)
    except OSError as error:
        raise ConfigurationError(f"--ready-file {path}: {error.strerror}.") from error


class _Announcement:
    """A hook that prints a line when a listener has started. Before this line, a signal does not drain the application.

    While the listener is paused, the line says that it does not listen yet. The log has the reason of the pause.
    """

    wants: Final = (ListenerPaused, ListenerResumed, ListenerStarted)

    def __init__(self, url: str) -> None:
        self._url = url
        self._paused: set[str] = set()

    def __call__(self, event: Event) -> None:
        if isinstance(event, ListenerPaused):
            self._paused.add(event.listener)
        elif isinstance(event, ListenerResumed):
            self._paused.discard(event.listener)
        elif isinstance(event, ListenerStarted):
            worker = os.environ.get(WORKER)
            # For a worker process, the parent process has printed the URL.
            more = f" in worker {worker}." if worker else f" of {shown_url(self._url)}; Ctrl-C drains and stops."
            note(f"{'Not yet listening on' if event.listener in self._paused else 'Listening on'} {event.queue}{more}")


def _add_telemetry(app: App, settings: Settings) -> Callable[[], None]:
    """Add OpenTelemetry if the settings ask for it. Return a function that exports the remaining data at the end."""
    if not settings.telemetry:
        return lambda: None
    from mqflow.otel.configuration import add_telemetry  # noqa: PLC0415 - only applications with telemetry need it

    return add_telemetry(app, os.environ)


def _waiting(settings: Settings, start_limit_s: float | None) -> Settings:
    """Return the settings with the limit of the command line. If no limit is set, the start waits without a limit."""
    known = settings.reconnect.start_limit_s
    limit_s = start_limit_s if start_limit_s is not None else math.inf if known is None else known
    return replace(settings, reconnect=replace(settings.reconnect, start_limit_s=limit_s))


def _more(only: tuple[str, ...], log_format: str | None, http: str | None = None) -> list[str]:
    """Return further options for a process that runs the same application."""
    chosen = [part for name in only for part in ("--only", name)]
    chosen += ["--log-format", log_format] if log_format else []
    return chosen + ([] if http is None else ["--http", http])


def _reload(
    application: str, drain_s: float | None, start_limit_s: float | None, backend: str, more: list[str], url: str | None
) -> None:
    """Run the application in a child process. If a file of this folder changes, drain and replace this process."""
    try:
        from watchfiles import PythonFilter, run_process  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ConfigurationError("--reload needs watchfiles: pip install 'mqflow[reload]'.") from error
    wait_s = load().drain_s if drain_s is None else drain_s
    more = [*(("--url", url) if url else ()), *more]
    command_line = run_command(application, *more, backend=backend, drain_s=wait_s, start_limit_s=start_limit_s)
    run_process(
        ".",
        target=shlex.join(command_line),
        target_type="command",
        watch_filter=PythonFilter(),
        sigint_timeout=round(wait_s) + 5,
    )
