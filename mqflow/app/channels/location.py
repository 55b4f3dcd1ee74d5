"""Finds and opens the queue manager of a URL.

`embedded:./data?qmgr=QM1` keeps its data in that folder, and `embedded::memory:?qmgr=QM1` in memory. The queue manager of
`embedded+unix:PATH?qmgr=QM1` is served by another process. `ibmmq://mq.example:1414/QM1?channel=APP.SVRCONN` is IBM MQ (see
`client_urls`). The code for a kind of queue manager is imported only when a URL needs it.
"""

from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Final, Protocol, TypeVar
from urllib.parse import parse_qs, urlsplit

from msgspec import Struct

from mqflow.app.channels.client_urls import CLIENT_FORMS, CLIENT_SCHEMES, client_options, where_to
from mqflow.app.channels.reconnect_settings import client_configuration, mode_by_channel
from mqflow.app.channels.served_urls import SERVED_FORMS, SERVED_SCHEMES, ServedAt, served_at
from mqflow.app.config.settings import Settings, load, password_reader, shown_key
from mqflow.app.errors import ConfigurationError, shown_name, shown_url, split
from mqflow.mqi.names import is_object_name
from mqflow.verbs import QueueManager
from mqflow.world import SYSTEM_WORLD, Clock, World

if TYPE_CHECKING:
    from mqflow.embedded.administration.interface import Administration
    from mqflow.embedded.storage.sqlite_store import SqliteStore

__all__ = (
    "SERVED_SOCKET",
    "Location",
    "OpenQueueManager",
    "is_client_url",
    "locate",
    "open_now",
    "open_queue_manager",
    "reach_queue_manager",
    "served_url",
    "store_of",
    "when_free",
)

T = TypeVar("T")

SERVED_SOCKET: Final = "served.sock"
"""The name of the socket through which a process serves an embedded queue manager. It is in the queue manager's folder."""
_LOOKS: Final = 50
_LOOK_S: Final = 0.1
"""How often and how long to wait for a process that owns a folder and does not serve it."""
_DIAL_S: Final = 1.0
_DEFAULT_NAME: Final = "QM1"
_EMBEDDED_SCHEMES: Final = ("embedded", "embedded+unix")
_FORMS: Final = (
    "embedded:FOLDER?qmgr=NAME (data in a folder), embedded::memory:?qmgr=NAME (in memory) or "
    f"embedded+unix:SOCKET?qmgr=NAME (served by another process), {SERVED_FORMS}; of IBM MQ: {CLIENT_FORMS}"
)


class OpenQueueManager(QueueManager, Protocol):
    """An open queue manager. The caller must close it."""

    @property
    def administration(self) -> "Administration":
        """The administration of the queue manager, for MQSC commands."""
        ...

    def close(self) -> None:
        """Close the queue manager. When this method returns, all commits of an embedded queue manager are on the disk."""


class Location(Struct, frozen=True, kw_only=True):
    """The parts of a URL."""

    #: "embedded", "memory", "served" or "client".
    kind: str
    queue_manager: str
    #: The folder of the data, or the socket; None for other kinds.
    path: Path | None = None
    #: The addresses of a queue manager that is served over TCP; None for other kinds.
    at: ServedAt | None = None


def locate(url: str) -> Location:
    """Return the parts of the URL. Raises `ConfigurationError`, with the accepted forms, if the URL has another form.

    If the URL is that of a setting, the error names the setting and its source.
    """
    try:
        return _located(url)
    except ConfigurationError as error:
        settings = load()
        urls = {shown_key(("queue_managers", name, "url")): each.url for name, each in settings.queue_managers.items()}
        for key, source in settings.sources.items():
            if url == (settings.url if key == "url" else urls.get(key)):
                raise ConfigurationError(f"Setting {key} from {source}: {error}") from error
        raise


def _located(url: str) -> Location:
    parts = split(url)
    if parts.scheme in SERVED_SCHEMES:
        at = served_at(url)
        return Location(kind="served", queue_manager=at.queue_manager, at=at)
    if parts.scheme in CLIENT_SCHEMES:
        return Location(kind="client", queue_manager=where_to(url).queue_manager)
    if parts.scheme not in _EMBEDDED_SCHEMES:
        raise ConfigurationError(f"{shown_url(url)!r} is not the URL of a queue manager. A URL is {_FORMS}.")
    query = parse_qs(parts.query, keep_blank_values=True)
    name = query.pop("qmgr", [_DEFAULT_NAME])[-1]
    if query:
        raise ConfigurationError(f"{shown_url(url)!r}: {', '.join(sorted(query))} is not known in a URL; only qmgr=NAME is.")
    if not is_object_name(name):
        raise ConfigurationError(
            f"{shown_url(url)!r}: {shown_name(name)} cannot be the name of a queue manager: 1 to 48 of A-Z a-z 0-9 . _ / %."
        )
    where = parts.netloc + parts.path
    match parts.scheme:
        case "embedded" if where == ":memory:":
            return Location(kind="memory", queue_manager=name)
        case "embedded" if where:
            return Location(kind="embedded", queue_manager=name, path=Path(where))
        case "embedded+unix" if where:
            return Location(kind="served", queue_manager=name, path=Path(where))
        case _:
            raise ConfigurationError(f"{shown_url(url)!r} is not the URL of a queue manager. A URL is {_FORMS}.")


def is_client_url(url: str) -> bool:
    """Return whether the URL names a queue manager of IBM MQ, which needs a client package."""
    return split(url).scheme in CLIENT_SCHEMES


def open_queue_manager(url: str, *, settings: Settings | None = None, world: World = SYSTEM_WORLD) -> OpenQueueManager:
    """Open the queue manager of the URL and return it. The caller must close it.

    The settings have the user and, for IBM MQ, TLS. Without settings, an embedded queue manager gets the user of this process.
    For IBM MQ and over TCP, the settings are then loaded with `load()`.

    A command owns a data folder only for a moment. So this function waits for another owner that does not serve the folder, for
    about 5 seconds. Raises `FolderError` if that owner stays, or serves the folder. Raises it also if the folder was made by a
    newer version, or is not that of a queue manager. Raises `ConfigurationError` for a URL of another form, and for a client
    package that cannot be used.
    """
    for _ in range(_LOOKS):
        try:
            return open_now(url, settings=settings, world=world)
        except Exception as error:
            if not _is_owned_for_a_moment(error):
                raise
        Event().wait(_LOOK_S)
    return open_now(url, settings=settings, world=world)


async def when_free(opened: Callable[[], T]) -> T:
    """Call the function and return its result. While a command owns the data folder for a moment, wait, and call it again.

    Like `open_queue_manager`, but the event loop goes on during the wait.
    """
    import anyio  # noqa: PLC0415 - loaded only by a caller in an event loop

    for _ in range(_LOOKS):
        try:
            return opened()
        except Exception as error:
            if not _is_owned_for_a_moment(error):
                raise
        await anyio.sleep(_LOOK_S)
    return opened()


def _is_owned_for_a_moment(error: Exception) -> bool:
    from mqflow.embedded.storage.folder import FolderInUseError  # noqa: PLC0415 - loaded only for an error

    return isinstance(error, FolderInUseError) and not error.is_served


def open_now(url: str, *, settings: Settings | None, world: World) -> OpenQueueManager:
    """Open the queue manager like `open_queue_manager`, but do not wait for another owner of a data folder."""
    location = locate(url)
    user = "" if settings is None else settings.user
    if location.kind == "client":
        return _client(url, load() if settings is None else settings, world.clock)
    if location.at is not None:
        return _served_over_tcp(location.at, load() if settings is None else settings, world)
    if location.kind == "served":
        from mqflow.embedded.wire.client.queue_manager import ServedQueueManager  # noqa: PLC0415 - loaded only for such a URL

        assert location.path is not None  # noqa: S101 - `locate` gives served ones a socket
        return ServedQueueManager(location.path, name=location.queue_manager, user=user)
    from mqflow.embedded.queue_manager import EmbeddedQueueManager  # noqa: PLC0415 - loaded only for such a URL

    if location.path is None:
        return EmbeddedQueueManager(location.queue_manager, world=world, user=user)
    store = store_of(location.path, world)
    try:
        return EmbeddedQueueManager(location.queue_manager, store=store, world=world, user=user)
    except BaseException:
        store.close()
        raise


def store_of(folder: Path, world: World = SYSTEM_WORLD) -> "SqliteStore":
    """Return the storage of the folder. Raises `FolderInUseError`, which says whether the owner serves the folder."""
    from mqflow.embedded.storage.folder import FolderInUseError  # noqa: PLC0415 - loaded only for such a URL
    from mqflow.embedded.storage.sqlite_store import SqliteStore  # noqa: PLC0415 - as above

    try:
        return SqliteStore(folder, world=world)
    except FolderInUseError as error:
        raise FolderInUseError(error.path, error.pid, is_served=_is_served(folder / SERVED_SOCKET)) from None


def _is_served(socket: Path) -> bool:
    """Return whether a process listens at the socket. A killed process leaves its socket in the folder."""
    from mqflow.embedded.wire.client.dial import dial  # noqa: PLC0415 - loaded only for a folder that is in use
    from mqflow.embedded.wire.protocol.addresses import UnixAddress  # noqa: PLC0415 - as above

    try:
        dial(UnixAddress(socket), None, _DIAL_S).close()
    except BlockingIOError:  # a suspended process, with a full backlog
        return True
    except OSError:
        return False
    return True


def _served_over_tcp(at: ServedAt, settings: Settings, world: World) -> OpenQueueManager:
    from mqflow.embedded.wire.client.queue_manager import ServedQueueManager  # noqa: PLC0415 - as above
    from mqflow.embedded.wire.server.certificates import CertificateError, client_context  # noqa: PLC0415 - loaded only for such a URL

    password = password_reader(settings)
    if at.certificate is None and (not settings.user or password is None):
        raise ConfigurationError(
            f"A queue manager served over TCP ({', '.join(map(str, at.addresses))}) needs a user and a password: "
            "set user and password_file in mqflow.toml, or MQFLOW_USER and MQFLOW_PASSWORD. For an included application, set "
            "them below queue_managers.NAME. Or name the user's certificate in the URL: cert=FILE&key=FILE."
        )
    try:
        tls = client_context(at.authority, *(at.certificate or ())) if at.tls else None
    except CertificateError as error:
        raise ConfigurationError(str(error)) from error
    return ServedQueueManager(at.addresses, name=at.queue_manager, user=settings.user, password=password, tls=tls, world=world)


def _client(url: str, settings: Settings, clock: Clock) -> OpenQueueManager:
    from mqflow.app.channels.table_dial import by_table, readable_choice  # noqa: PLC0415 - loaded only for such a URL
    from mqflow.bindings.connect_options import ClientPackageError  # noqa: PLC0415 - as above
    from mqflow.bindings.dialects import base  # noqa: PLC0415 - loaded only for such a URL
    from mqflow.bindings.queue_manager import BoundQueueManager  # noqa: PLC0415 - as above

    options = client_options(url, settings)
    package = urlsplit(url).scheme
    try:
        dialect = base.load_any() if package == "auto" else base.load(package)
        configuration = client_configuration()
        choice = readable_choice(options, dialect.name, configuration)
        if choice is not None:
            mode = mode_by_channel(settings.reconnect, options.queue_manager, configuration)
            http_allowed = settings.ccdt_over_http
            return by_table(dialect, options, choice, clock=clock, mode=mode, http_allowed=http_allowed)
        return BoundQueueManager(dialect, options, clock=clock)
    except ClientPackageError as error:
        raise ConfigurationError(str(error)) from error


def reach_queue_manager(url: str, *, settings: Settings | None = None) -> OpenQueueManager:
    """Open the queue manager of the URL and return it. If another process serves it, connect to that process instead.

    Raises the errors of `open_queue_manager`.
    """
    from mqflow.embedded.storage.folder import FolderInUseError  # noqa: PLC0415 - loaded only for such a URL

    try:
        return open_queue_manager(url, settings=settings)
    except FolderInUseError as error:
        if not error.is_served:
            raise
        return open_queue_manager(served_url(locate(url)), settings=settings)


def served_url(location: Location) -> str:
    """Return the URL with which other processes reach the embedded queue manager that this process serves."""
    assert location.path is not None  # noqa: S101 - the caller has a folder
    return f"embedded+unix:{location.path / SERVED_SOCKET}?qmgr={location.queue_manager}"
