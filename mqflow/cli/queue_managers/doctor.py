"""`mqflow doctor`: shows the installed packages, the settings and the queue manager, and prints a warning for each problem."""

import sys
from collections.abc import Iterator, Sequence
from importlib import metadata

import click

from mqflow.app.channels.location import locate
from mqflow.app.config.plugins import installed
from mqflow.app.config.settings import load
from mqflow.app.handlers.listener_declaration import Listener
from mqflow.bindings.connect_options import ClientPackageError
from mqflow.bindings.dialects import base
from mqflow.cli.applications.application_loader import load_application
from mqflow.cli.applications.outputs import outputs
from mqflow.cli.connection_options import connected, opened
from mqflow.cli.option_types import json_option, url_option
from mqflow.cli.queue_managers.expiry import expiry_lines
from mqflow.cli.text.exit_codes import EXIT_FAILED, sentence_of
from mqflow.cli.text.json_lines import json_line
from mqflow.cli.text.terminal import safe, wrapped
from mqflow.embedded.wire.server.certificates import CertificateFiles
from mqflow.many_verbs import inquire_queue_manager
from mqflow.mqi.errors import NotAuthorizedError
from mqflow.mqi.options import QueueType
from mqflow.standin.library.shared_library import mapped_clients
from mqflow.world import SYSTEM_CLOCK

__all__ = ("command",)

_INQUIRE_AUTHORITY = "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('...') AUTHADD(INQ)"

_NO_DEAD_LETTER_QUEUE = (
    "warning            no dead-letter queue (ALTER QMGR DEADQ(...)): a poison message without a BOQNAME stays on its queue"
)

_NAME_COLUMNS = 18

_PACKAGES = (
    "mqflow", "anyio", "msgspec", "opentelemetry-sdk", "rich", "watchfiles", "trio", "cryptography", "pyarrow", "pyspark",
    "pymqi", "ibmmq",
)  # fmt: skip


@click.command("doctor")
@click.argument("application", metavar="[MODULE:APP]", required=False)
@json_option
@url_option
def command(application: str | None, *, as_json: bool, url: str | None) -> None:
    """Show the installed packages and the settings, open the queue manager, and warn about queues that look wrong.

    With MODULE:APP, also warn about each publisher that puts non-persistent results. Exits with 1 if the queue manager cannot
    be opened.
    """
    app = None if application is None else load_application(application, url=url)
    show = _show_json if as_json else _show_text
    show(f"{'Python':<18} {sys.version.split(maxsplit=1)[0]} on {sys.platform}")
    for package in _PACKAGES:
        show(f"{package:<18} {_version(package)}")
    for finding in _client_packages():
        show(safe(finding))
    for plugin in installed():
        show(f"plugin             {safe(str(plugin))}")
    settings = load({"url": url}) if app is None or app.settings is None else app.settings
    for key, source in settings.sources.items():
        show(f"set                {safe(key)} by {safe(source)}")
    for warning in settings.warnings:
        show(f"warning            {safe(warning)}")
    reached = settings.url if app is None else settings.url_over(app.url)
    try:
        for line in _certificate_lines(reached):
            show(f"warning            {safe(line.removeprefix('warning: '))}")
    except OSError as error:
        show(f"warning            the certificates cannot be looked at: {safe(sentence_of(error))}")
    check = _connection_findings if locate(reached).kind == "client" else _queue_findings
    try:
        findings = [*check(reached), *(_output_findings(reached, app.listeners) if app else ())]
    except Exception as error:  # noqa: BLE001 - every error here is a finding
        show(f"not opened         {safe(sentence_of(error))}")
        sys.exit(EXIT_FAILED)
    for finding in findings:
        show(finding)


def _show_text(finding: str) -> None:
    click.echo(wrapped(finding, _NAME_COLUMNS + 1))


def _show_json(finding: str) -> None:
    """Print a finding as JSON for a script. The first columns of a finding are its name, the rest is its text."""
    click.echo(json_line({"name": finding[:_NAME_COLUMNS].rstrip(), "text": finding[_NAME_COLUMNS + 1 :]}))


def _output_findings(url: str, listeners: Sequence[Listener]) -> Iterator[str]:
    """Yield a finding for each publisher of the listeners whose results a restart of the queue manager would remove."""
    with connected(url) as connection:
        for listener in listeners:
            yield from (f"warning            {each.warning}" for each in outputs(connection, listener) if each.warning)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _client_packages() -> Iterator[str]:
    """Yield a sentence for each installed client package: whether it can be used, and the path of its client library."""
    for package in filter(base.installed, base.PACKAGES):
        try:
            yield f"{package:<18} can be used, built for IBM MQ {base.load(package).built_for}"
        except ClientPackageError as error:
            yield f"warning            {error}"
    for library in mapped_clients():
        yield f"client library     {library}"


def _certificate_lines(url: str) -> Iterator[str]:
    """Yield a sentence for each certificate that expires soon, in the data folder or of this client."""
    location, now = locate(url), SYSTEM_CLOCK.wall()
    if location.kind == "embedded" and location.path is not None:
        yield from expiry_lines(CertificateFiles(location.path / "tls").all_certificates(), now, only_soon=True)
    elif location.at is not None and location.at.certificate is not None:
        yield from expiry_lines(location.at.certificate[:1], now, only_soon=True)


def _connection_findings(url: str | None) -> Iterator[str]:
    """Yield findings about a queue manager of IBM MQ, through a connection."""
    with connected(url) as connection:
        try:
            found = inquire_queue_manager(connection)
        except NotAuthorizedError as error:
            yield f"queue manager      {connection.queue_manager_name}, which this user cannot inquire"
            yield f"warning            without its DEADQ no poison message is moved; grant {_INQUIRE_AUTHORITY}: {error}"
            return
    yield f"queue manager      {found.name}, command level {found.command_level}: {found.description or 'no description'}"
    if not found.dead_letter_queue:
        yield _NO_DEAD_LETTER_QUEUE


def _queue_findings(url: str | None) -> Iterator[str]:
    with opened(url) as queue_manager:
        administration = queue_manager.administration
        queues = [queue for queue in administration.queues() if not queue.name.startswith("SYSTEM.")]
        yield f"queue manager      {queue_manager.name}, {len(queues)} {'queue' if len(queues) == 1 else 'queues'}"
        names = {queue.name for queue in administration.queues()}
        dead_letter_queue = administration.queue_manager.dead_letter_queue
        if not dead_letter_queue:
            yield _NO_DEAD_LETTER_QUEUE
        for queue in queues:
            if queue.kind == QueueType.LOCAL and queue.backout_threshold and queue.backout_requeue_queue not in names:
                missing = queue.backout_requeue_queue
                wanted = f"{missing} does not exist" if missing else "no BOQNAME"
                yield f"warning            {queue.name} has BOTHRESH({queue.backout_threshold}) but {wanted}"
            if queue.depth >= queue.max_depth:
                yield f"warning            {queue.name} is full: {queue.depth} messages"
