"""`mqflow doctor`: looks at what is installed, what is set, and the queue manager, and names what is wrong."""

import sys
from collections.abc import Iterator
from importlib import metadata

import click

from mqflow.app.channels.locate import locate
from mqflow.app.config.plugins import installed
from mqflow.app.config.settings import load
from mqflow.bindings.connect_options import ClientPackageError
from mqflow.bindings.dialects import base
from mqflow.cli.connection_options import connected, opened, url_option
from mqflow.cli.text.exit_codes import EXIT_FAILED, sentence_of
from mqflow.cli.text.terminal import safe
from mqflow.many_verbs import inquire_queue_manager
from mqflow.mqi.errors import NotAuthorizedError
from mqflow.mqi.options import QueueType
from mqflow.standin.library.shared_library import mapped_clients

__all__ = ("command",)

_MAY_INQUIRE = "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('...') AUTHADD(INQ)"

_PACKAGES = (
    "mqflow",
    "anyio",
    "msgspec",
    "opentelemetry-sdk",
    "rich",
    "watchfiles",
    "trio",
    "cryptography",
    "pyarrow",
    "pyspark",
    "pymqi",
    "ibmmq",
)


@click.command("doctor")
@url_option
def command(url: str | None) -> None:
    """Say what is installed and set, whether the queue manager can be opened, and which of its queues look wrong.

    Exits with 1 where the queue manager cannot be opened.
    """
    click.echo(f"{'Python':<18} {sys.version.split(maxsplit=1)[0]} on {sys.platform}")
    for package in _PACKAGES:
        click.echo(f"{package:<18} {_version(package)}")
    for finding in _client_packages():
        click.echo(safe(finding))
    for plugin in installed():
        click.echo(f"plugin             {safe(str(plugin))}")
    settings = load({"url": url})
    for key, source in settings.sources.items():
        click.echo(f"set                {safe(key)} by {safe(source)}")
    for warning in settings.warnings:
        click.echo(f"warning            {safe(warning)}")
    looked_at = _reached if locate(settings.url).kind == "client" else _queues
    try:
        findings = list(looked_at(url))
    except Exception as error:  # noqa: BLE001 - whatever keeps it from opening is the finding
        click.echo(f"not opened         {safe(sentence_of(error))}")
        sys.exit(EXIT_FAILED)
    for finding in findings:
        click.echo(finding)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _client_packages() -> Iterator[str]:
    """Say of each client package that is installed whether it can be used, and what it found of IBM's client."""
    for package in filter(base.installed, base.PACKAGES):
        try:
            yield f"{package:<18} can be used, built for IBM MQ {base.load(package).built_for}"
        except ClientPackageError as error:
            yield f"warning            {error}"
    for library in mapped_clients():
        yield f"client library     {library}"


def _reached(url: str | None) -> Iterator[str]:
    """Say what is at the other end of a connection to IBM MQ."""
    with connected(url) as connection:
        try:
            found = inquire_queue_manager(connection)
        except NotAuthorizedError as error:
            yield f"queue manager      {connection.queue_manager_name}, which may not be inquired"
            yield f"warning            without its DEADQ no poison is moved ({_MAY_INQUIRE} changes that): {error}"
            return
    yield f"queue manager      {found.name}, command level {found.command_level}: {found.description or 'no description'}"
    if not found.dead_letter_queue:
        yield "warning            without a dead-letter queue (ALTER QMGR DEADQ(...)), poison that no BOQNAME takes stays"


def _queues(url: str | None) -> Iterator[str]:
    with opened(url) as queue_manager:
        administration = queue_manager.administration
        queues = [queue for queue in administration.queues() if not queue.name.startswith("SYSTEM.")]
        yield f"queue manager      {queue_manager.name}, {len(queues)} {'queue' if len(queues) == 1 else 'queues'}"
        names = {queue.name for queue in administration.queues()}
        dead_letter_queue = administration.queue_manager.dead_letter_queue
        if not dead_letter_queue:
            yield "warning            without a dead-letter queue (ALTER QMGR DEADQ(...)), poison that no BOQNAME takes stays"
        for queue in queues:
            if queue.kind == QueueType.LOCAL and queue.backout_threshold and queue.backout_requeue_queue not in names:
                wanted = queue.backout_requeue_queue or "no BOQNAME"
                yield f"warning            {queue.name} has BOTHRESH({queue.backout_threshold}) but {wanted} is not there"
            if queue.depth >= queue.max_depth:
                yield f"warning            {queue.name} is full: {queue.depth} messages"
