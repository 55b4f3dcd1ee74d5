"""Lets operators watch and control `mqflow run`: opens the control socket, and the HTTP pages if they are wanted.

If an application is one process, this process has both. If it has worker processes, the parent has both, and each worker has a
control socket that only the parent uses. This file starts the threads for them, and handles no request itself.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mqflow.app.application import App
from mqflow.app.channels.location import OpenQueueManager, locate, open_queue_manager
from mqflow.app.config.settings import Settings
from mqflow.cli.text.terminal import note
from mqflow.cli.watching.control import Figures, ProcessSource, QueueFigures, Source, shown_urls
from mqflow.cli.watching.sockets import ControlServer, socket_for
from mqflow.cli.watching.workers_source import WorkersSource, first_orders, worker_number
from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import QueueManager

if TYPE_CHECKING:
    from starlette.types import ASGIApp

__all__ = ("MakeConsole", "watched_process", "watched_workers")

_FIGURES_S: Final = 3.0
"""The longest wait for the depths of all queues, in seconds."""
_NO_OTHERS: Final[Mapping[str, str]] = {}


MakeConsole = Callable[[Source, Figures, Callable[[str], AbstractContextManager[QueueManager]]], "ASGIApp"]
"""A function that makes the console. It takes a source, figures, and a function that opens queue managers by name."""


@contextmanager
def watched_process(
    app: App, settings: Settings, *, http: str, parent_socket: Path | None, counts: bool, console: MakeConsole | None = None
) -> Iterator[None]:
    """Watch the application in this process, while the block runs.

    With `parent_socket`, this process is a worker, and answers its parent on this socket. With `counts`, it counts events.
    Raises `ConfigurationError` if the pages cannot be served.
    """
    counted = None
    if counts or http:
        from mqflow.cli.watching.counts import EventCounts, counts_of_all  # noqa: PLC0415 - most applications do not count

        counters = {"": EventCounts(), **{each.name: EventCounts() for each in app.included}}
        for each, counter in zip((app, *app.included), counters.values(), strict=True):
            each.hooks.append(counter)
        counted = partial(counts_of_all, counters)
    source = ProcessSource(
        app,
        *app.urls(settings).values(),
        number=0 if parent_socket is None else worker_number(parent_socket),
        counts=counted,
        first=() if parent_socket is None else first_orders(parent_socket),
    )
    app.on_start(source.started)

    apps = {"": app, **{each.name: each for each in app.included}}

    def opened_here(name: str) -> AbstractContextManager[QueueManager]:
        return nullcontext(apps[name].queue_manager)

    inquire = _figures_of(apps, opened_here, settings)
    made = console(source, inquire, opened_here) if console else None
    with _answering(source, app.name or "mqflow", parent_socket, inquire), _pages(http, source, inquire, made):
        yield


@contextmanager
def watched_workers(
    name: str,
    process: int,
    url: str,
    settings: Settings,
    folder: Path,
    count: int,
    *,
    http: str,
    running: Callable[[], Mapping[int, int]],
    served_url: Callable[[], str],
    is_stopping: Callable[[], bool],
    console: MakeConsole | None = None,
    others: Mapping[str, str] = _NO_OTHERS,
) -> Iterator[None]:
    """Watch the worker processes while the block runs. Their control sockets are in `folder`.

    `served_url` returns the URL of the queue manager for the workers. While this URL names a folder, no process serves the
    folder yet, and this process does not open it.

    `others` has the URLs for the queue managers of included applications, by name. Raises `ConfigurationError` if the pages
    cannot be served.
    """
    source = WorkersSource(name, process, shown_urls(url, *others.values()), folder, count, running, is_stopping)

    def opened_there(other: str = "") -> AbstractContextManager[OpenQueueManager]:
        if other:
            return closing(open_queue_manager(others[other], settings=settings.of_queue_manager(other)))
        there = served_url()
        location = locate(there)
        if location.kind == "embedded":  # one process can open a folder, and it must be the process that serves it
            detail = "The process that serves it has not started yet."
            raise error_for(Reason.Q_MGR_NOT_AVAILABLE, "MQCONNX", "", location.queue_manager, detail)
        return closing(open_queue_manager(there, settings=settings))

    inquire = _figures_of(("", *others), opened_there, settings)
    made = console(source, inquire, opened_there) if console else None
    with _answering(source, name, None, inquire), _pages(http, source, inquire, made):
        yield


def _figures_of(
    names: Iterable[str], opened: Callable[[str], AbstractContextManager[QueueManager]], settings: Settings
) -> Figures:
    """Return the figures for queues of these queue managers. The code that inquires is loaded only when it is first needed."""

    @cache
    def made() -> Figures:
        from mqflow.cli.watching.figures import OldestAges, figures, figures_of_all, within  # noqa: PLC0415 - as above

        ages = {name: OldestAges() if settings.queue_status else None for name in names}

        def inquire(name: str, queues: Sequence[str]) -> tuple[QueueFigures, ...]:
            with opened(name) as queue_manager:
                return figures(queue_manager, queues, ages[name])

        return figures_of_all({name: within(_FIGURES_S, partial(inquire, name)) for name in ages})

    def inquire_all(queues: Sequence[str], /) -> tuple[QueueFigures, ...]:
        return made()(queues)

    return inquire_all


@contextmanager
def _answering(source: Source, name: str, path: Path | None, inquire: Figures) -> Iterator[None]:
    """Answer on the control socket while the block runs. If there is no socket, the application runs without it."""
    with ExitStack() as stack:
        try:
            stack.enter_context(closing(ControlServer(path or socket_for(name), source, inquire)))
        except OSError as error:
            note(f"mqflow: `mqflow status` and `mqflow ctl` cannot reach this application. {error}")
        yield


@contextmanager
def _pages(http: str, source: Source, inquire: Figures, console: "ASGIApp | None") -> Iterator[None]:
    if not http:
        yield
        return
    from mqflow.cli.watching.server import serving  # noqa: PLC0415 - only an application with pages needs it

    with serving(http, source, inquire, console):
        yield
