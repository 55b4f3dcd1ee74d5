"""`mqflow qmgr`: an embedded queue manager in a process of its own, with a standby, for many applications.

The words are those of crtmqm, strmqm, endmqm and dspmq.
"""

import getpass
import secrets
import subprocess
import sys
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import anyio
import click
import msgspec

from mqflow.app.channels.locate import SERVED_SOCKET
from mqflow.app.config.settings import load
from mqflow.app.errors import ConfigurationError
from mqflow.cli.connection_options import json_option
from mqflow.cli.processes.loading_progress import while_reading
from mqflow.cli.processes.parent_pipe import lifeline_option
from mqflow.cli.processes.queue_manager_process import Hosting, host
from mqflow.cli.queue_managers.folders import existing, existing_of, folder_of, status_of, statuses
from mqflow.cli.queue_managers.orders import back_up, end
from mqflow.cli.queue_managers.start import LOG, until_ready
from mqflow.cli.text.exit_codes import EXIT_ORDERED
from mqflow.cli.text.terminal import note, safe, show_table
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.folder import DataFolder
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.storage.standby import owner_pid
from mqflow.embedded.wire.protocol.addresses import AddressError, TcpAddress, parse_address
from mqflow.embedded.wire.protocol.ending import End, Manner
from mqflow.embedded.wire.server.certificates import CertificateError, CertificateFiles, make_certificates, server_context
from mqflow.embedded.wire.server.listener import CONNECTIONS_MAX
from mqflow.embedded.wire.server.users_file import USERS_FILE, UsersFile, why_no_user
from mqflow.mqi.names import is_object_name
from mqflow.world import SYSTEM_CLOCK

__all__ = ("command",)

_ALONE_S: Final = 10.0
"""How much longer than they may drain applications may take to end."""

_data = click.option(
    "--data",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Where its data is; ./NAME if left out.",
)
_max_connections = click.option(
    "--max-connections",
    "connections_max",
    type=click.IntRange(1),
    default=CONNECTIONS_MAX,
    show_default=True,
    metavar="NUMBER",
    help="One more is refused with 2025.",
)


@click.group("qmgr")
def command() -> None:
    """Create, start and stop embedded queue managers that run by themselves."""


def _name(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if not is_object_name(value):
        raise click.BadParameter(f"{value!r} cannot be the name of a queue manager; --data names a folder.", ctx, param)
    return value


_name_argument = click.argument("name", callback=_name)


@command.command("create")
@_name_argument
@_data
@click.option("--dead-letter-queue", "-u", default="SYSTEM.DEAD.LETTER.QUEUE", show_default=True, help="Its DEADQ.")
def create(name: str, folder: Path | None, dead_letter_queue: str) -> None:
    """Make a queue manager, and do not start it (crtmqm)."""
    place = folder_of(name, folder)
    if (place / "queue_manager.db").exists():
        raise ConfigurationError(f"{place} holds a queue manager already: mqflow qmgr start {name} starts it.")
    EmbeddedQueueManager(name, store=SqliteStore(place), dead_letter_queue=dead_letter_queue).close()
    click.echo(f"{name} is created in {place}. mqflow qmgr start {name} starts it.")


@command.command("serve")
@_name_argument
@_data
@click.option("--listen", multiple=True, metavar="ADDRESS", help="unix:PATH, or HOST:PORT for users with a password.")
@click.option("--standby", is_flag=True, help="Where it is active elsewhere, wait and take over.")
@click.option(
    "--tls", "tls_folder", type=click.Path(path_type=Path), metavar="FOLDER", help="Certificates; FOLDER/tls if there."
)
@_max_connections
@lifeline_option
def serve_command(
    name: str,
    folder: Path | None,
    listen: tuple[str, ...],
    standby: bool,  # noqa: FBT001 - click passes options by name
    tls_folder: Path | None,
    connections_max: int,
    alone_by: int | None,
) -> None:
    """Run the queue manager here.

    Until SIGTERM or Ctrl-C, which end it immediately, or SIGHUP (controlled). Exits with 1 where its storage failed.
    """
    place, data = existing_of(name, folder)
    _check_not_active(name, data, standby=standby)
    try:
        addresses = tuple(parse_address(text) for text in listen)
        files = CertificateFiles(tls_folder or place / "tls")
        tls = server_context(files.certificate, files.key) if files.certificate.exists() or tls_folder else None
    except (AddressError, CertificateError) as error:
        raise ConfigurationError(str(error)) from error
    users = _users(place)
    if any(isinstance(address, TcpAddress) for address in addresses) and not users.names():
        note(f"mqflow: nobody has a password yet, so nobody gets in over TCP: mqflow qmgr user {name} NAME gives one.")
    wanted = Hosting(
        name=name,
        folder=place,
        addresses=addresses,
        standby=standby,
        users=users,
        connections_max=connections_max,
        tls=tls,
        lifeline=alone_by,
        alone_s=0.0 if alone_by is None else load().drain_s + _ALONE_S,
        disposition_queue=load().disposition_queue,
        delay_queue=load().delay_queue,
    )
    # Who starts it with a lifeline says what there is to say.
    say = _say_nothing if alone_by is not None else note if sys.stderr.isatty() else _note_with_time
    ended_for_good = anyio.run(host, wanted, say, backend="asyncio")
    if ended_for_good and alone_by is not None:
        sys.exit(EXIT_ORDERED)


@command.command("start")
@_name_argument
@_data
@click.option("--listen", multiple=True, metavar="ADDRESS", help="As of serve.")
@click.option("--standby", is_flag=True, help="As of serve.")
@_max_connections
def start(name: str, folder: Path | None, listen: tuple[str, ...], standby: bool, connections_max: int) -> None:  # noqa: FBT001 - click passes options by name
    """Run the queue manager in the background (strmqm).

    What it says goes to qmgr.log in its folder. Applications of this user reach it by the URL that is printed.
    """
    place, data = existing_of(name, folder)
    words = [sys.executable, "-m", "mqflow.cli", "qmgr", "serve", name, "--data", str(place)]
    words += [word for address in listen for word in ("--listen", address)] + (["--standby"] if standby else [])
    words += ["--max-connections", str(connections_max)]
    _check_not_active(name, data, standby=standby)
    with (place / LOG).open("ab") as log:
        said_before = log.tell()
        process = subprocess.Popen(  # noqa: S603 - our own command
            words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd=Path.cwd()
        )
    with while_reading(name, data):
        ready = until_ready(process, name, place, said_before)
    click.echo(ready)
    note(f"Applications of this user reach it by embedded+unix:{place / SERVED_SOCKET}?qmgr={name}")


@command.command("stop", short_help="End a queue manager and its standbys (endmqm).")
@_name_argument
@_data
@click.option(
    "--controlled", "-c", "manner", flag_value="controlled", default=True, help="Wait for applications to end (default)."
)
@click.option("--immediate", "-i", "manner", flag_value="immediate", help="Back their units of work out, and end.")
@click.option("--switchover", "-s", is_flag=True, help="Only where a standby goes on; implies -r and -i.")
@click.option("--reconnect", "-r", is_flag=True, help="Tell applications to reconnect.")
def stop(name: str, folder: Path | None, manner: str, switchover: bool, reconnect: bool) -> None:  # noqa: FBT001 - click passes options by name
    """End a queue manager (endmqm), and who stands by for it, unless that is to take over (-s).

    Returns when it has ended, unless it waits for applications.
    """
    place, data = existing_of(name, folder)
    pid = owner_pid(data)
    if pid is None:
        raise ConfigurationError(f"{name} in {place} is not active.")
    how = End(Manner.IMMEDIATE if switchover else Manner(manner), reconnect=reconnect or switchover, switchover=switchover)
    if applications := end(place, name, how):
        click.echo(f"{name} ends when its applications have disconnected: {', '.join(map(safe, applications))}.")
        return
    while owner_pid(data) == pid:
        anyio.run(anyio.sleep, 0.02)
    click.echo(f"{name} has ended.")


@command.command("status")
@click.argument("name", required=False, callback=lambda ctx, param, value: value and _name(ctx, param, value))
@_data
@json_option
def status(name: str | None, folder: Path | None, **options: Any) -> None:
    """Say whether it is active, and whether a standby waits (dspmq)."""
    if name or folder:
        rows = [status_of(existing(name or "NAME", folder)[0])]
    else:
        rows = list(statuses(sorted(path.parent for path in Path().glob("*/queue_manager.db"))))
    if options["as_json"]:
        for row in rows:
            click.echo(msgspec.json.encode(row))
        return
    if not rows:
        note("There is no queue manager in the folders here; --data names one elsewhere.")
        return
    columns = ("queue manager", "status", "process", "standby", "data")
    show_table(columns, [tuple(str(row[column]) for column in columns) for row in rows], numbers=frozenset({2, 3}))


@command.command("backup")
@_name_argument
@click.argument("target", type=click.Path(path_type=Path))
@_data
def backup(name: str, target: Path, folder: Path | None) -> None:
    """Copy what is durable now to a new folder, while it runs or not. A queue manager can be started there."""
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


@command.command("tls")
@_name_argument
@click.argument("host", nargs=-1, required=True)
@_data
@click.option("--replace", is_flag=True, help="Make new ones; applications are to be given the new ca.pem.")
def tls(name: str, host: tuple[str, ...], folder: Path | None, replace: bool) -> None:  # noqa: FBT001 - click passes options by name
    """Make certificates for HOST, names or addresses.

    Those by which applications connect; `serve` finds the certificates in the folder.
    """
    place, _ = existing_of(name, folder)
    if (place / "tls" / "server.pem").exists() and not replace:
        raise ConfigurationError(
            f"There are certificates in {place / 'tls'}, which applications may trust: --replace makes others."
        )
    try:
        files = make_certificates(place / "tls", host, name=name, now=datetime.fromtimestamp(SYSTEM_CLOCK.wall(), UTC))
    except CertificateError as error:
        raise ConfigurationError(str(error)) from error
    click.echo(
        f"Made for {', '.join(host)}. Applications trust it by embedded+tls://{host[0]}:PORT/{name}?ca={files.authority}"
    )


@command.command("user")
@_name_argument
@click.argument("user")
@_data
@click.option("--remove", is_flag=True, help="Let the user in no more.")
@click.option("--password-file", type=click.File("r"), help="A file with the password; asked for otherwise.")
def user_command(name: str, user: str, folder: Path | None, remove: bool, password_file: Any) -> None:  # noqa: FBT001 - click passes options by name
    """Give a user a password for connections over TCP. What it may do is said by SET AUTHREC (mqflow mqsc)."""
    users = _users(existing_of(name, folder)[0])
    if remove:
        if not users.remove(user):
            raise ConfigurationError(f"There is no user {user!r}; there are: {', '.join(users.names()) or 'none'}.")
        click.echo(f"{user} is removed.")
        return
    if said := why_no_user(user):
        raise ConfigurationError(f"{said}.")
    password = password_file.read().rstrip("\n") if password_file else _asked_for(user)
    if not password:
        raise ConfigurationError("An empty password is none.")
    users.set(user, password)
    click.echo(f"{user} has a password.")


def _asked_for(user: str) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", getpass.GetPassWarning)  # there is no terminal, and so nobody who could see it
            try:
                return getpass.getpass(f"Password of {user}: ")
            except getpass.GetPassWarning:
                return input()
    except EOFError as error:
        raise ConfigurationError("Nobody is there to ask for the password: --password-file names a file with it.") from error


def _check_not_active(name: str, data: DataFolder, *, standby: bool) -> None:
    owner = None if standby else owner_pid(data)
    if owner is not None:
        raise ConfigurationError(f"{name} is active already, as process {owner}. A second one stands by: --standby.")


def _note_with_time(text: str) -> None:
    """Say it with the time, for who reads it later: in qmgr.log, or wherever stderr goes that is no terminal."""
    note(f"{datetime.fromtimestamp(SYSTEM_CLOCK.wall(), UTC):%Y-%m-%d %H:%M:%S}Z {text}")


def _say_nothing(_: str) -> None:
    """Tell nobody."""


def _users(folder: Path) -> UsersFile:
    return UsersFile(folder / USERS_FILE, secrets.token_bytes)
