"""The URLs of IBM MQ: ``ibmmq://host:1414/QM1?channel=APP.SVRCONN``, and the values that the settings add.

A URL names the queue manager and its address. The user and the protection of the channel are in the settings. So logs may show
a URL; a URL with a password is refused. This file loads no client package.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from msgspec.structs import replace

from mqflow.app.config.settings import Settings, password_reader, secret_in
from mqflow.app.errors import ConfigurationError, shown_name, shown_url, split
from mqflow.bindings.connect_options import ConnectOptions
from mqflow.mqi.names import is_object_name, port_of

__all__ = ("CLIENT_FORMS", "CLIENT_SCHEMES", "client_options", "where_to")

CLIENT_SCHEMES: Final = ("ibmmq", "pymqi", "auto")
"""The client package to use. `auto` means pymqi if it is installed, otherwise ibmmq."""
CLIENT_FORMS: Final = (
    "ibmmq://HOST:PORT/QMGR?channel=NAME (more hosts after commas), ibmmq:///QMGR?ccdt=URL (a CCDT), ibmmq:///QMGR (as IBM's "
    "client finds it), the same with pymqi: or auto:"
)
_PORT: Final = 1414
_NOT_IN_HOSTS: Final = frozenset("(), ")
_CHANNEL_CHARS: Final = 20
_BINDINGS: Final = ("local", "client")
_KEYS: Final = ("channel", "ccdt", "binding")
_SECRET_KEYS: Final = frozenset({"password", "token", "user", "passwd", "pwd"})
_CREDENTIALS: Final = (
    "A URL must not have the user or the password, because logs show URLs. Set user and password_file (or token_file) in "
    "mqflow.toml, or MQFLOW_USER and MQFLOW_PASSWORD."
)


def where_to(url: str) -> ConnectOptions:
    """Return the connect options of the URL. Raises `ConfigurationError`, without any secret, if the URL has another form."""
    parts = split(url)
    if "@" in parts.netloc:
        raise ConfigurationError(f"{parts.scheme}://...@{parts.netloc.rpartition('@')[2]}: {_CREDENTIALS}")
    query = parse_qs(parts.query, keep_blank_values=True)
    if _SECRET_KEYS & query.keys():
        raise ConfigurationError(
            f"{parts.scheme}://{parts.netloc}{parts.path}?{'=...&'.join(sorted(query))}=...: {_CREDENTIALS}"
        )
    values = {key: all_values[-1] for key, all_values in query.items()}
    if unknown := sorted(values.keys() - set(_KEYS)):
        raise ConfigurationError(f"{shown_url(url)!r}: {', '.join(unknown)} is not known here; {', '.join(_KEYS)} are.")
    hosts = tuple(_host(url, host) for host in parts.netloc.split(",")) if parts.netloc else ()
    _check_address(url, values, hosts)
    return ConnectOptions(
        queue_manager=_queue_manager(url, parts.path),
        channel=values.get("channel", ""),
        hosts=hosts,
        ccdt_url=values.get("ccdt", ""),
        binding=values.get("binding", ""),  # type: ignore[arg-type]  # checked above
    )


def client_options(url: str, settings: Settings) -> ConnectOptions:
    """Return the connect options of the URL, with the user and the protection of the channel from the settings.

    Files with secrets are read at each connection, not here, because they can change while an application runs. Raises the
    errors of `where_to`. Raises `ConfigurationError` for settings that exclude each other or would not protect the channel.
    Also raises it for a channel table over ftp, or over http without permission. With pymqi, mqflow reads the table itself when
    it connects, and checks the permission then.
    """
    where, tls = where_to(url), settings.tls
    client_reads_table = bool(where.ccdt_url) and urlsplit(url).scheme != "pymqi"  # IBM's client, and not mqflow
    if where.ccdt_url:
        _check_table(where.ccdt_url, http_allowed=settings.ccdt_over_http or not client_reads_table)
    if settings.token_file and (settings.user or settings.password or settings.password_file):
        raise ConfigurationError(
            "token_file takes the place of user and password: the token names the user. Leave out token_file, or else user, "
            "password_file, MQFLOW_USER and MQFLOW_PASSWORD."
        )
    if (settings.password or settings.password_file) and not settings.user:
        raise ConfigurationError(
            "There is a password, but no user: set user, or MQFLOW_USER. For an included application, set it below "
            "queue_managers.NAME."
        )
    if where.channel and tls.key_repository and not tls.cipher_spec:
        raise ConfigurationError(
            "tls.key_repository has no effect without tls.cipher_spec: set it too, for example ANY_TLS12_OR_HIGHER."
        )
    if client_reads_table and (tls.cipher_spec or tls.peer_name):
        raise ConfigurationError(
            "tls.cipher_spec and tls.peer_name would have no effect, because with ibmmq a channel table decides about TLS. Set "
            "them in the table, and leave them out of the settings; or use a pymqi: URL."
        )
    return replace(
        where,
        user=settings.user,
        password=password_reader(settings),
        token=_from_file(settings.token_file),
        cipher_spec=tls.cipher_spec,
        key_repository=tls.key_repository,
        key_repository_password=_from_file(tls.key_repository_password_file),
        certificate_label=tls.certificate_label,
        peer_name=tls.peer_name,
    )


def _queue_manager(url: str, path: str) -> str:
    name = unquote(path.removeprefix("/"))
    group = name.removeprefix("*")
    if group and not is_object_name(group):
        raise ConfigurationError(
            f"{shown_url(url)!r}: {shown_name(name)} cannot be the name of a queue manager: 1 to 48 of A-Z a-z 0-9 . _ / %, "
            "with an asterisk before the name of a group; no name for the default queue manager."
        )
    return name


def _host(url: str, text: str) -> tuple[str, int]:
    """Return the host and port of ``mq.example:1414``, ``mq.example(1414)`` (as in MQ), ``[::1]:1414`` or ``mq.example``."""
    host, port = text, str(_PORT)
    if text.endswith(")"):
        host, _, port = text[:-1].partition("(")
    elif text.startswith("["):
        host, _, rest = text[1:].partition("]")
        port = rest.removeprefix(":") or port
    elif ":" in text:
        host, _, port = text.rpartition(":")
        host = "" if ":" in host else host  # an IPv6 address without brackets: its last part is not a port
    if not host or set(host) & _NOT_IN_HOSTS or not (number := port_of(port)):
        raise ConfigurationError(
            f"{shown_url(url)!r}: {text!r} is not a host and port; write mq.example:1414, and more after commas."
        )
    return host, number


def _check_address(url: str, values: Mapping[str, str], hosts: tuple[tuple[str, int], ...]) -> None:
    """Raise `ConfigurationError` if a host, channel, CCDT or binding is invalid, or if they exclude each other."""
    channel, ccdt, binding = values.get("channel", ""), values.get("ccdt", ""), values.get("binding", "")
    if hosts and not channel:
        raise ConfigurationError(f"{shown_url(url)!r}: a host needs a channel: ?channel=APP.SVRCONN.")
    if channel and not hosts:
        raise ConfigurationError(
            f"{shown_url(url)!r}: the channel {channel} needs a host: {urlsplit(url).scheme}://mq.example:1414/QMGR."
        )
    if channel and not (is_object_name(channel) and len(channel) <= _CHANNEL_CHARS):
        raise ConfigurationError(
            f"{shown_url(url)!r}: {channel!r} cannot be the name of a channel: 1 to 20 of A-Z a-z 0-9 . _ / %."
        )
    if ccdt and hosts:
        raise ConfigurationError(f"{shown_url(url)!r}: hosts and ccdt exclude each other; give one of them.")
    if binding and binding not in _BINDINGS:
        raise ConfigurationError(f"{shown_url(url)!r}: binding={binding} is not known; local and client are.")
    if binding == "local" and (hosts or ccdt):
        raise ConfigurationError(f"{shown_url(url)!r}: a local binding has no channel; leave out binding, or the host or CCDT.")


def _check_table(location: str, *, http_allowed: bool) -> None:
    from mqflow.policy.channels.sources import locate_table  # noqa: PLC0415 - loaded only for a URL with a table
    from mqflow.policy.channels.table import ChannelTableError  # noqa: PLC0415 - as above

    try:
        locate_table(location, http_allowed=http_allowed)
    except ChannelTableError as error:
        raise ConfigurationError(str(error)) from error


def _from_file(path: str) -> Callable[[], str] | None:
    return partial(secret_in, path) if path else None
