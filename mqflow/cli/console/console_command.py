"""`mqflow console`: the console in the browser, in its own process; and the console of `mqflow run --http --console`."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from msgspec.structs import replace

from mqflow.app.application import App
from mqflow.app.channels.location import locate, reach_queue_manager
from mqflow.app.config.settings import Settings, load
from mqflow.app.errors import ConfigurationError
from mqflow.cli.applications.application_loader import load_application
from mqflow.cli.connection_options import opened
from mqflow.cli.option_types import url_option
from mqflow.cli.pipeline.folder_uri import existing_folder_uri
from mqflow.cli.watching.control import Figures, Source
from mqflow.cli.watching.named_applications import every_report
from mqflow.cli.watching.server import LOOPBACK, http_address, serving_pages
from mqflow.cli.watching.status_report import StatusReport, report
from mqflow.folders import Folder
from mqflow.verbs import QueueManager
from mqflow.world import SYSTEM_CLOCK, SYSTEM_WORLD, THREADS

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from mqflow.cli.console.desk import Desk
    from mqflow.cli.console.history_desk import HistoryDesk

__all__ = ("command", "console_of_application")

_AUDIT: Final = Path("console-audit.jsonl")
_Opened = Callable[[], AbstractContextManager[QueueManager]]
_OpenedByName = Callable[[str], AbstractContextManager[QueueManager]]


@click.command("console")
@click.option("--http", default="127.0.0.1:8161", show_default=True, metavar="HOST:PORT", help="Where to serve the console.")
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="Show this queue too; repeatable.")
@click.option(
    "--rules",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    multiple=True,
    help="Show this rules table and its matches; repeatable.",
)
@click.option("--tables", type=existing_folder_uri, metavar="FOLDER", help="Show the history in these tables: a path or a URI.")
@click.option(
    "--owner", "owners", multiple=True, metavar="PREFIX=NAME", help="The owner of the queues with this prefix; repeatable."
)
@click.option("--allow-changes", is_flag=True, help="Allow redrive and edit, each after a dry run.")
@click.option(
    "--app",
    "application",
    metavar="MODULE:APP",
    help="Show bodies as the handlers of this application read them, and check edited bodies.",
)
@click.option(
    "--audit",
    type=click.Path(path_type=Path, dir_okay=False),
    default=_AUDIT,
    show_default=True,
    help="With --allow-changes: the file that gets two lines for each change.",
)
@click.option("--tls-certificate", type=click.Path(path_type=Path, exists=True), help="PEM file; needed beyond loopback.")
@click.option("--tls-key", type=click.Path(path_type=Path, exists=True), help="The private key of the certificate.")
@click.option("--host", "hosts", multiple=True, metavar="NAME", help="A host name of the console in browsers; repeatable.")
@url_option
def command(
    http: str,
    queues: tuple[str, ...],
    rules: tuple[Path, ...],
    tables: Folder | None,
    owners: tuple[str, ...],
    *,
    allow_changes: bool,
    application: str | None,
    audit: Path,
    tls_certificate: Path | None,
    tls_key: Path | None,
    hosts: tuple[str, ...],
    url: str | None,
) -> None:
    """Serve a console in the browser: queues, running applications, and why messages failed.

    The console prints a token at its start, and asks for it. Without --allow-changes the console is read-only. It shows the
    running applications of this user on this machine, and queues of the queue manager. For an embedded queue manager it shows
    all local queues whose names do not begin with SYSTEM, and the dead-letter queue. For IBM MQ it shows the queues of the
    applications, their backout requeue queues, the dead-letter queue and the queues of --queue.

    Ctrl-C ends the console.
    """
    settings = load({"url": url})
    tls = _tls(tls_certificate, tls_key)
    host, _ = http_address(http)
    known = _hosts(host, hosts, is_protected=tls is not None)

    app = None if application is None else load_application(application)
    applications: Mapping[str, tuple[App | None, Settings]]
    applications = {"": (None, settings)} if app is None else _with_urls(app, settings)
    openers = {name: _another(own) for name, (_, own) in applications.items() if name}
    first = applications[""][1].url
    openers[""] = _one_at_a_time(first, partial(opened, first))
    made = _console(
        lambda name: openers[name](),
        applications,
        partial(every_report, None),
        queues=queues,
        rules=rules,
        tables=tables,
        owners=_owners(owners),
        hosts=known,
        audit=audit if allow_changes else None,
    )
    with serving_pages(http, made, "The console is on", tls=tls):
        THREADS.event().wait()


def console_of_application(
    address: str, app: App, settings: Settings, *, allow_changes: bool
) -> "Callable[[Source, Figures, _OpenedByName], ASGIApp]":
    """Return the function that makes the console of one running application. This function prints the token.

    Raises `ConfigurationError` if the address is not on the loopback interface, because the pages of `mqflow run` have no TLS.
    """
    hosts = _hosts(http_address(address)[0], (), is_protected=False)

    def make(source: Source, figures: Figures, opened_there: _OpenedByName) -> "ASGIApp":
        def answering() -> list[StatusReport]:
            status = source.status()
            return [report(status, figures(status.queues))]

        there = _with_urls(app, settings)
        return _console(opened_there, there, answering, hosts=hosts, audit=_AUDIT if allow_changes else None)

    return make


def _with_urls(app: App, settings: Settings) -> dict[str, tuple[App, Settings]]:
    """Return the application and each included one, with its settings and the URL that `mqflow run` uses."""
    return {name: (each, replace(own, url=own.url_over(each.url))) for name, (each, own) in app.with_settings(settings).items()}


def _console(
    opened_there: _OpenedByName,
    applications: Mapping[str, tuple[App | None, Settings]],
    answering: Callable[[], list[StatusReport]],
    *,
    hosts: frozenset[str],
    audit: Path | None,
    queues: tuple[str, ...] = (),
    rules: tuple[Path, ...] = (),
    tables: Folder | None = None,
    owners: Mapping[str, str] | None = None,
) -> "ASGIApp":
    """Return the console of the first queue manager. It contains the consoles of the other queue managers."""
    try:
        from mqflow.cli.console.access import Access  # noqa: PLC0415 - an extra
        from mqflow.cli.console.views import console  # noqa: PLC0415 - as above
    except ImportError as error:
        text = f"The console needs starlette, uvicorn and jinja2 ({error.name} is missing): pip install 'mqflow[console]'."
        raise ConfigurationError(text) from error
    from mqflow.cli.console.audit import AuditLog  # noqa: PLC0415 - with the others
    from mqflow.cli.console.changes import Changes  # noqa: PLC0415 - as above
    from mqflow.cli.console.desk import Desk  # noqa: PLC0415 - as above

    access = Access(SYSTEM_CLOCK, hosts=hosts)
    parts = dict[str, tuple[Desk, Changes | None]]()
    for name, (app, settings) in applications.items():
        desk = Desk(
            partial(opened_there, name),
            settings,
            answering,
            SYSTEM_CLOCK,
            queues=() if name else queues,
            rules=() if name else rules,
            app=app,
            place=name,
        )
        parts[name] = (desk, None if audit is None else Changes(desk, AuditLog(audit, SYSTEM_CLOCK, name), app))
    # `echo` and not `note`: a note can go to a log, and then the token would be in the log.
    click.echo(f"The token of the console: {access.token}", err=True)
    if audit is not None:
        click.echo(f"The console allows changes. Its audit log is {audit.resolve()}.", err=True)
    places = tuple(parts) if len(parts) > 1 else ()
    others = {name: console(part[0], access, part[1], place=name, places=places) for name, part in parts.items() if name}
    desk, changes = parts[""]
    history = None if tables is None else _history(tables, desk, owners or {})
    return console(desk, access, changes, history, places=places, others=others)


def _history(tables: Folder, desk: "Desk", owners: Mapping[str, str]) -> "HistoryDesk":
    if find_spec("pyarrow") is None or find_spec("deltalake") is None:
        raise ConfigurationError("--tables needs pyarrow and deltalake: pip install 'mqflow[console,delta]'.")
    from mqflow.cli.console.history_desk import HistoryDesk  # noqa: PLC0415 - only consoles with tables load the pipeline
    from mqflow.pipeline.history.history_tables import HistoryTables  # noqa: PLC0415 - as above

    return HistoryDesk(HistoryTables(tables.uri), desk, owners)


def _owners(named: tuple[str, ...]) -> dict[str, str]:
    """Return the owner of each queue prefix. Raises `ConfigurationError` for a text without `=`."""
    for text in named:
        if "=" not in text:
            raise ConfigurationError(f"--owner {text}: give PREFIX=NAME, for example ORDERS.=sales.")
    return dict(text.split("=", 1) for text in named)


def _hosts(host: str, named: tuple[str, ...], *, is_protected: bool) -> frozenset[str]:
    """Return the host names that requests to the console may have. Raises `ConfigurationError` if the address needs TLS."""
    if host not in LOOPBACK and not is_protected:
        raise ConfigurationError(
            f"The console on {host} needs TLS, because its token and the messages cross the network: `mqflow console` takes "
            "--tls-certificate and --tls-key. Or serve it on 127.0.0.1, and reach it with `ssh -L 8161:127.0.0.1:8161 HOST`."
        )
    return LOOPBACK | {host, *named} - {"0.0.0.0", "::"}  # noqa: S104 - no browser names a host like this


def _tls(certificate: Path | None, key: Path | None) -> tuple[Path, Path] | None:
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise ConfigurationError("TLS needs both: --tls-certificate FILE and --tls-key FILE.")
    return certificate, key


def _one_at_a_time(url: str, opened_there: _Opened) -> _Opened:
    """Return a function that opens the queue manager. If no process serves its folder, only one caller opens it at a time."""
    lock = SYSTEM_WORLD.runner.lock()

    @contextmanager
    def opened_alone() -> Iterator[QueueManager]:
        with lock, opened_there() as queue_manager:
            yield queue_manager

    return opened_alone if locate(url).kind == "embedded" else opened_there


def _another(settings: Settings) -> _Opened:
    """Return a function that opens the queue manager of an included application."""
    return _one_at_a_time(settings.url, lambda: closing(reach_queue_manager(settings.url, settings=settings)))
