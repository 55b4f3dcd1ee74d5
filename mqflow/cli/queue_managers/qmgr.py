"""`mqflow qmgr`: an embedded queue manager in its own process, with a standby, for several applications.

The options have the same names as in crtmqm, strmqm, endmqm and dspmq.
"""

import getpass
import os
import secrets
import ssl
import subprocess
import sys
import warnings
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TextIO

import anyio
import click

from mqflow.app.channels.location import SERVED_SOCKET
from mqflow.app.config.settings import load
from mqflow.app.errors import ConfigurationError
from mqflow.cli.option_types import WholeLines, json_option, parent_pipe_option
from mqflow.cli.processes.loading_progress import loading_line
from mqflow.cli.processes.queue_manager_process import HostOptions, host
from mqflow.cli.processes.served_connections import lasting_owner
from mqflow.cli.queue_managers.expiry import expiry_lines
from mqflow.cli.queue_managers.folders import existing, existing_of, folder_of, status_of, statuses, words_for
from mqflow.cli.queue_managers.orders import LOG, back_up, end, until_ready
from mqflow.cli.text.exit_codes import EXIT_ORDERED
from mqflow.cli.text.json_lines import json_line
from mqflow.cli.text.terminal import note, safe, show_table
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.folder import DataFolder, prepare_folder
from mqflow.embedded.storage.owner_lock import take_ownership
from mqflow.embedded.storage.sqlite.folder_summary import name_in
from mqflow.embedded.storage.sqlite.synced_log import forget_lost_log, lost_changes
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.storage.standby import owner_pid
from mqflow.embedded.wire.protocol.addresses import Address, AddressError, TcpAddress, parse_address
from mqflow.embedded.wire.protocol.end_manner import End, Manner
from mqflow.embedded.wire.server.certificates import (
    CertificateError,
    CertificateFiles,
    make_certificates,
    make_client_certificate,
    server_context,
)
from mqflow.embedded.wire.server.listener import CONNECTIONS_MAX
from mqflow.embedded.wire.server.users_file import USERS_FILE, UsersFile, UsersFileError, why_no_user
from mqflow.mqi.names import is_object_name
from mqflow.world import SYSTEM_CLOCK, THREADS

__all__ = ("command",)

_END_S: Final = 10.0
"""The seconds that applications have to end after their drain."""

_data = click.option(
    "--data",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="The data folder; default: ./NAME.",
)
_max_connections = click.option(
    "--max-connections",
    "connections_max",
    type=click.IntRange(1),
    default=CONNECTIONS_MAX,
    show_default=True,
    metavar="NUMBER",
    help="The most connections; further connections get 2025.",
)


_mq = click.option(
    "--mq",
    multiple=True,
    metavar="HOST:PORT",
    help="An address for MQ's own client programs (JMS, Spring, .NET): users with a password, as for --listen.",
)
_backups = click.option(
    "--backups",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="The folder for backups that an administrator makes over TCP; default: such backups are refused.",
)


@click.group("qmgr", cls=WholeLines)
def command() -> None:
    """Create, start and stop embedded queue managers in processes of their own."""


def _name(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if not is_object_name(value):
        raise click.BadParameter(f"{value!r} is not a name: it takes 1 to 48 of A-Z a-z 0-9 . _ / %.", ctx, param)
    return value


_name_argument = click.argument("name", callback=_name)


def _dead_letter_queue(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if value and not is_object_name(value):
        raise click.BadParameter(f"{value!r} is not a valid name of a queue.", ctx, param)
    return value


@command.command("create")
@_name_argument
@_data
@click.option(
    "--dead-letter-queue",
    "-u",
    default="SYSTEM.DEAD.LETTER.QUEUE",
    show_default=True,
    callback=_dead_letter_queue,
    help="Its dead-letter queue (DEADQ).",
)
def create(name: str, folder: Path | None, dead_letter_queue: str) -> None:
    """Create a queue manager without starting it (crtmqm)."""
    place = folder_of(name, folder)
    if known := _created(name, place):
        raise ConfigurationError(
            f"{place} has a queue manager already: start it with mqflow qmgr start {words_for(known, place)}."
        )
    EmbeddedQueueManager(name, store=SqliteStore(place), dead_letter_queue=dead_letter_queue).close()
    click.echo(f"{name} is created in {place}. Start it with mqflow qmgr start {words_for(name, place)}.")


@command.command("serve")
@_name_argument
@_data
@click.option(
    "--listen", multiple=True, metavar="ADDRESS", help="A further address: unix:PATH, or HOST:PORT for users with a password."
)
@_mq
@click.option("--standby", is_flag=True, help="If another process is active, stand by and take over.")
@click.option(
    "--tls",
    "tls_folder",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="The folder of the certificates; default: tls in the data folder.",
)
@_backups
@_max_connections
@parent_pipe_option
def serve_command(
    name: str,
    folder: Path | None,
    listen: tuple[str, ...],
    mq: tuple[str, ...],
    *,
    standby: bool,
    tls_folder: Path | None,
    backups: Path | None,
    connections_max: int,
    parent_pipe: int | None,
) -> None:
    """Run the queue manager in this process.

    SIGTERM and Ctrl-C end it immediately. SIGHUP ends it when all applications have disconnected. Exits with 1 if its storage
    failed.
    """
    place, _ = existing_of(name, folder)
    options = HostOptions(
        name=name,
        folder=place,
        addresses=_addresses(listen),
        mq_addresses=_mq_addresses(mq),
        standby=standby,
        users=_users(place),
        connections_max=connections_max,
        tls=_server_context(place, tls_folder),
        backups=backups,
        parent_pipe=parent_pipe,
        drain_s=0.0 if parent_pipe is None else load().drain_s + _END_S,
        disposition_queue=load().disposition_queue,
        delay_queue=load().delay_queue,
    )
    _warn_without_users(options)
    if options.tls is not None:
        for line in expiry_lines(CertificateFiles(tls_folder or place / "tls").all_certificates(), SYSTEM_CLOCK.wall()):
            note(f"mqflow: {line}")
    # If there is a parent process, the parent prints the messages.
    say = (lambda _: None) if parent_pipe is not None else note if sys.stderr.isatty() else _note_with_time
    ended_for_good = anyio.run(host, options, say, backend="asyncio")
    if ended_for_good and parent_pipe is not None:
        sys.exit(EXIT_ORDERED)


@command.command("start", short_help="Run the queue manager in the background (strmqm).")
@_name_argument
@_data
@click.option("--listen", multiple=True, metavar="ADDRESS", help="As for `mqflow qmgr serve`.")
@_mq
@click.option("--standby", is_flag=True, help="As for `mqflow qmgr serve`.")
@_backups
@_max_connections
@json_option
def start(
    name: str,
    folder: Path | None,
    listen: tuple[str, ...],
    mq: tuple[str, ...],
    *,
    standby: bool,
    backups: Path | None,
    connections_max: int,
    as_json: bool,
) -> None:
    """Run the queue manager in the background (strmqm).

    The queue manager writes its log to qmgr.log in its data folder. Applications of this user connect with the printed URL.
    """
    place, data = existing_of(name, folder)
    command_line = [sys.executable, "-m", "mqflow.cli", "qmgr", "serve", name, "--data", str(place)]
    command_line += [argument for address in listen for argument in ("--listen", address)]
    command_line += [argument for address in mq for argument in ("--mq", address)]
    command_line += ["--standby"] if standby else []
    command_line += ["--backups", str(backups.absolute())] if backups else []
    command_line += ["--max-connections", str(connections_max)]
    if not standby and (owner := lasting_owner(place)) is not None:
        raise ConfigurationError(f"{name} is active already, as process {owner}. Start a second process with --standby.")
    with (place / LOG).open("ab") as log:
        log_start = log.tell()
        process = subprocess.Popen(  # noqa: S603 - our own command
            command_line, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd=Path.cwd()
        )
    with loading_line(name, data):
        ready = until_ready(process, name, place, log_start)
    url = f"embedded+unix:{place / SERVED_SOCKET}?qmgr={name}"
    if as_json:
        state = "standby" if "stands by" in ready else "active"
        click.echo(json_line({"queue_manager": name, "status": state, "process": process.pid, "data": str(place), "url": url}))
        return
    click.echo(ready)
    note(f"Applications of this user connect with {url}")


@command.command("stop", short_help="End a queue manager and its standbys (endmqm).")
@_name_argument
@_data
@click.option(
    "--controlled", "-c", "manner", flag_value="controlled", default=True, help="Wait until applications disconnect (default)."
)
@click.option("--immediate", "-i", "manner", flag_value="immediate", help="Back out open units of work, and end.")
@click.option("--switchover", "-s", is_flag=True, help="Hand over to a standby, or fail without one; implies -r and -i.")
@click.option("--reconnect", "-r", is_flag=True, help="Make applications reconnect.")
@json_option
def stop(name: str, folder: Path | None, manner: str, *, switchover: bool, reconnect: bool, as_json: bool) -> None:
    """End a queue manager (endmqm) and its standbys; with -s, end only the active process, and a standby takes over.

    The command returns when the queue manager has ended, or immediately if the end must wait for applications.
    """
    place, data = existing_of(name, folder)
    pid = owner_pid(data)
    if pid is None:
        raise ConfigurationError(f"{name} in {place} is not active.")
    how = End(Manner.IMMEDIATE if switchover else Manner(manner), reconnect=reconnect or switchover, switchover=switchover)
    applications = end(place, name, how)
    if applications and as_json:
        click.echo(json_line({"queue_manager": name, "status": "ends", "process": pid, "applications": list(applications)}))
        return
    if applications:
        click.echo(f"{name} ends when these applications have disconnected: {', '.join(map(safe, applications))}.")
        return
    while owner_pid(data) == pid:
        anyio.run(anyio.sleep, 0.02)
    if as_json:
        click.echo(json_line({"queue_manager": name, "status": "ended", "process": pid, "applications": []}))
        return
    click.echo(f"The active process of {name} has ended, and a standby takes over." if switchover else f"{name} has ended.")


@command.command("status")
@click.argument("name", required=False, callback=lambda ctx, param, value: value and _name(ctx, param, value))
@_data
@json_option
def status(name: str | None, folder: Path | None, **options: Any) -> None:
    """Show the state of a queue manager and its standbys (dspmq).

    Without NAME, show every queue manager whose folder is in the current folder.
    """
    places = [] if name or folder else sorted(path.parent for path in Path().glob("*/queue_manager.db"))
    rows = [status_of(existing(name or "NAME", folder)[0])] if name or folder else list(statuses(places))
    if options["as_json"]:
        for row in rows:
            click.echo(json_line(row))
        return
    if not rows and places:  # a note names each folder that cannot be used
        return
    if not rows:
        closed = ", ".join(
            safe(each.name) for each in sorted(Path().iterdir()) if each.is_dir() and not os.access(each, os.X_OK)
        )
        except_in = f" that you may read (you may not read {closed})" if closed else ""
        note(f"There is no queue manager in the folders here{except_in}; name its folder with --data.")
        return
    columns = ("queue manager", "status", "process", "standby", "data")
    show_table(columns, [tuple(str(value or "") for value in row.values()) for row in rows], numbers=frozenset({2, 3}))


@command.command("backup", short_help="Copy the durable data to a new folder.")
@_name_argument
@click.argument("target", type=click.Path(path_type=Path))
@_data
def backup(name: str, target: Path, folder: Path | None) -> None:
    """Copy the durable data to a new folder TARGET, also while the queue manager runs.

    You can start a queue manager on the copy. The copy has no passwords (users.json) and no certificates (tls).
    """
    place, data = existing_of(name, folder)
    if owner_pid(data) is not None:
        back_up(place, name, target)
    else:
        store = SqliteStore(place, create=False)
        try:
            store.load()
            store.backup(target)
        finally:
            store.close()
    click.echo(f"{name} is copied to {target}.")


@command.command("accept-loss", short_help="Let a queue manager start without the lost part of its log.")
@_name_argument
@_data
def accept_loss(name: str, folder: Path | None) -> None:
    """Let a queue manager with a damaged log start, without the changes behind the damage.

    If you have a backup, use the backup instead. A copy of the log stays in the data folder.
    """
    _, data = existing_of(name, folder)
    lock = take_ownership(data, lambda: None, THREADS.event().wait)
    try:
        if not lost_changes(data):
            click.echo(f"The log of {name} has no damage, so there is no loss to accept. Nothing was changed.")
            return
        kept = forget_lost_log(data)
    finally:
        lock.release()
    copy = f" {kept} is a copy of its log." if kept else ""
    click.echo(f"The next start of {name} accepts the loss of all changes behind the damage.{copy}")


@command.command("tls", short_help="Make certificates for connections over TCP.")
@_name_argument
@click.argument("host", nargs=-1)
@_data
@click.option("--client", "clients", multiple=True, metavar="USER", help="Make a certificate for this user, too.")
@click.option("--replace", is_flag=True, help="Replace the certificates; applications then need the new ca.pem.")
def tls(name: str, host: tuple[str, ...], folder: Path | None, clients: tuple[str, ...], *, replace: bool) -> None:
    """Make certificates for HOST: every name and address that applications use to connect.

    `mqflow qmgr serve` finds the certificates in the data folder. With --client, make certificates with which users connect
    without a password; each user has the authorities that SET AUTHREC grants to its name.
    """
    place, _ = existing_of(name, folder)
    if not host and not clients:
        raise ConfigurationError("Name the hosts of the server's certificate, or a user with --client.")
    for user in clients:
        _make_client_certificate(place, name, user)
    if not host:
        return
    if (place / "tls" / "server.pem").exists() and not replace:
        raise ConfigurationError(
            f"There are certificates in {place / 'tls'}, and applications can depend on them: replace them with --replace."
        )
    try:
        files = make_certificates(place / "tls", host, name=name, now=datetime.fromtimestamp(SYSTEM_CLOCK.wall(), UTC))
    except CertificateError as error:
        raise ConfigurationError(str(error)) from error
    click.echo(
        f"Made for {', '.join(host)}. Applications connect with embedded+tls://{host[0]}:PORT/{name}?ca={files.authority}"
    )


@command.command("user", short_help="Give a user a password for connections over TCP.")
@_name_argument
@click.argument("user")
@_data
@click.option("--remove", is_flag=True, help="Remove the user.")
@click.option(
    "--password-file", type=click.File(encoding="utf-8-sig"), help="Read the password from this file; default: a prompt."
)
@click.option("--administrator", is_flag=True, help="Let the user administer the queue manager over TCP.")
def user_command(
    name: str, user: str, folder: Path | None, *, remove: bool, password_file: TextIO | None, administrator: bool
) -> None:
    """Give USER a password for connections over TCP.

    The user has no authority until SET AUTHREC grants one (mqflow mqsc), unless it is an administrator.
    """
    place, _ = existing_of(name, folder)
    users = _users(place)
    if remove:
        if not users.remove(user):
            raise ConfigurationError(f"There is no user {user!r}. Users: {', '.join(users.names()) or 'none'}.")
        click.echo(f"{user} is removed.")
        return
    if problem := why_no_user(user):
        raise ConfigurationError(f"{problem}.")
    password = password_file.read().rstrip("\r\n") if password_file else _prompt_for_password(user)
    if not password:
        raise ConfigurationError("The password must not be empty.")
    users.set(user, password, administrator=administrator)
    click.echo(f"{user} has a password{' and administers ' + name + ' over TCP' if administrator else ''}.")
    if not administrator:
        grant = f"SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('{user}') AUTHADD(CONNECT,INQ)"
        note(f"{user} has only the authorities that you grant with mqflow mqsc, beginning with {grant}")


def _created(name: str, place: Path) -> str:
    """Return the name of the queue manager in the folder, or an empty text. `name` is returned if nobody can read the name now.

    If a creation was killed or found no room, there can be a store without a queue manager.
    """
    if not DataFolder(place).in_use:
        return ""
    data = prepare_folder(place, create=False)
    if (known := name_in(data)) or owner_pid(data) is not None:
        return known or name
    store = SqliteStore(place)
    try:
        queue_manager = store.load().queue_manager
    finally:
        store.close()
    return "" if queue_manager is None else queue_manager.name


def _make_client_certificate(place: Path, name: str, user: str) -> None:
    if problem := why_no_user(user):
        raise ConfigurationError(f"{problem}.")
    now = datetime.fromtimestamp(SYSTEM_CLOCK.wall(), UTC)
    try:
        made = make_client_certificate(place / "tls", user, name=name, now=now)
    except CertificateError as error:
        raise ConfigurationError(str(error)) from error
    key = made.with_suffix(".key")
    click.echo(f"Made for {user}: {made} and {key}. Give both to {user}, whose URL ends in &cert={made.name}&key={key.name}")
    note(f"{name} trusts such certificates from its next start on.")


def _prompt_for_password(user: str) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", getpass.GetPassWarning)  # without a terminal, the password would be visible
            try:
                return getpass.getpass(f"Password of {user}: ")
            except getpass.GetPassWarning:
                return input()
    except EOFError as error:
        raise ConfigurationError("stdin ended before the password: name a file with --password-file.") from error


def _addresses(texts: Sequence[str]) -> tuple[Address, ...]:
    try:
        return tuple(parse_address(text) for text in texts)
    except AddressError as error:
        raise ConfigurationError(str(error)) from error


def _mq_addresses(texts: Sequence[str]) -> tuple[TcpAddress, ...]:
    addresses = _addresses(texts)
    for address in addresses:
        if not isinstance(address, TcpAddress):
            raise ConfigurationError(f"{address} is no address for MQ's clients: they connect to HOST:PORT.")
    return tuple(address for address in addresses if isinstance(address, TcpAddress))


def _server_context(place: Path, tls_folder: Path | None) -> ssl.SSLContext | None:
    """Return the TLS context for the certificates. None if there are no certificates and the user has named no folder."""
    files = CertificateFiles(tls_folder or place / "tls")
    if not files.certificate.exists() and tls_folder is None:
        return None
    try:
        trusted = files.client_authority if files.client_authority.exists() else None
        return server_context(files.certificate, files.key, trusted)
    except CertificateError as error:
        raise ConfigurationError(str(error)) from error


def _warn_without_users(options: HostOptions) -> None:
    over_tcp = any(isinstance(address, TcpAddress) for address in (*options.addresses, *options.mq_addresses))
    takes_certificates = options.tls is not None and options.tls.verify_mode is not ssl.CERT_NONE
    if over_tcp and not takes_certificates and not _has_users(options.users):
        remedy = f"add a user with mqflow qmgr user {words_for(options.name, options.folder)} USER."
        note(f"mqflow: no user has a password or a certificate yet, so no connection over TCP is accepted: {remedy}")


def _has_users(users: UsersFile) -> bool:
    try:
        return bool(users.names())
    except UsersFileError:  # the queue manager says so when it is active
        return True


def _note_with_time(text: str) -> None:
    """Print the text with the time, for a log: qmgr.log, or any stderr that is not a terminal."""
    note(f"{datetime.fromtimestamp(SYSTEM_CLOCK.wall(), UTC):%Y-%m-%d %H:%M:%S}Z {text}")


def _users(folder: Path) -> UsersFile:
    return UsersFile(folder / USERS_FILE, secrets.token_bytes)
