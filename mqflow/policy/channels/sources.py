"""Decides where the channel definitions come from: the first of seven sources that is set.

This module receives the environment as a mapping, and locations as text. It reads no file and fetches nothing.
Source: IBM on the order for MQI clients (q027440) and on CCDT URLs (q016735). The variables do not apply to IBM MQ classes for
JMS. In this respect mqflow is an MQI client.
"""

import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final
from urllib.parse import unquote, urlsplit, urlunsplit

from msgspec import Struct, field

from mqflow.policy.channels.client_ini import DATA_DIRECTORY, ClientConfiguration
from mqflow.policy.channels.table import Channel, ChannelTableError, server_channel

__all__ = (
    "PRECEDENCE",
    "Choice",
    "DefinedBy",
    "Given",
    "Origin",
    "TableAt",
    "TableLocation",
    "choose",
    "locate_table",
    "without_password",
)

#: The beginning of a URL. In a path, and in the URL of a folder or a socket, "@" is a letter of a name.
_URL: Final = re.compile(r"(?!embedded(?:\+unix)?:)(?:[A-Za-z][A-Za-z0-9+.-]*:|//|[^/]*\?)", re.IGNORECASE)
_SECRET: Final = re.compile(r"([?&](?:passw\w*|pwd|token|user)=)[^&#]*", re.IGNORECASE)
_USER: Final = re.compile(r"^((?:[A-Za-z][A-Za-z0-9+.-]*:)?/*).*@", re.DOTALL)
_ENCODED_AT: Final = re.compile(r"%40|%3f", re.IGNORECASE)
_KNOWN_KEYS: Final = ("channel", "ccdt", "binding", "qmgr", "ca", "cert", "key")
_QUERY_VALUE: Final = re.compile(rf"([?&](?!(?:{'|'.join(_KNOWN_KEYS)})=)[^=&#]*=)[^&#]*")

_DEFAULT_FILE: Final = "AMQCLCHL.TAB"


class Origin(Enum):
    """A source of channel definitions; the source with the highest precedence comes first."""

    CHANNEL = "the application's channel definition"
    URL = "the application's CCDT URL"
    SERVER_VARIABLE = "MQSERVER"
    SERVER_ATTRIBUTE = "ServerConnectionParms in mqclient.ini"
    TABLE_VARIABLE = "MQCCDTURL, or MQCHLLIB and MQCHLTAB"
    TABLE_ATTRIBUTE = "ChannelDefinitionDirectory and ChannelDefinitionFile in mqclient.ini"
    DEFAULT = "the default"


class Given(Struct, frozen=True, kw_only=True):
    """The values of all sources, for `choose` to choose from."""

    #: From the application: a channel (an MQCD), or the URL of a table.
    channel: Channel | None = None
    url: str = ""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    configuration: ClientConfiguration = ClientConfiguration()
    data_directory: str = DATA_DIRECTORY


class DefinedBy(Struct, frozen=True):
    """One channel, defined directly and not in a table."""

    channel: Channel
    origin: Origin


class TableAt(Struct, frozen=True):
    """A channel table at a path or a URL. `choose` does not check that the table exists."""

    location: str
    origin: Origin

    def __repr__(self) -> str:
        return f"TableAt({without_password(self.location)!r}, {self.origin})"


Choice = DefinedBy | TableAt


class TableLocation(Struct, frozen=True, kw_only=True):
    """The location of a table: a file, or a host with the path to request."""

    #: The path of the file; empty if the table must be fetched.
    path: str = ""
    secure: bool = False
    host: str = ""
    port: int = 0
    #: The path and query of the request.
    target: str = ""
    #: "user:password"; it is never shown to a person.
    credentials: str = ""
    #: The location as a person may see it, without the password.
    shown: str

    def __repr__(self) -> str:
        return f"TableLocation({self.shown!r})"


def choose(given: Given) -> Choice:
    """Return the channel or the table of the first source that is set. Raises `ChannelTableError` if its value cannot be used.

    If no source is set, the result is the table at the default path of IBM's own tools.
    """
    for origin, find in PRECEDENCE:
        found = find(given)
        if isinstance(found, str) and found:
            return TableAt(found, origin)
        if isinstance(found, Channel):
            return DefinedBy(found, origin)
    return TableAt(_below(given.data_directory, _DEFAULT_FILE), Origin.DEFAULT)


def _server_variable(given: Given) -> Channel | None:
    text = given.environment.get("MQSERVER", "").strip()
    return server_channel(text, "MQSERVER") if text else None


def _server_attribute(given: Given) -> Channel | None:
    text = given.configuration.server_connection_parms
    return server_channel(text, f"ServerConnectionParms in {given.configuration.source}") if text else None


def _table_variable(given: Given) -> str:
    whole, folder, file = (given.environment.get(name, "").strip() for name in ("MQCCDTURL", "MQCHLLIB", "MQCHLTAB"))
    if whole or not (folder or file):
        return whole
    return _below(folder or given.data_directory, file or _DEFAULT_FILE)


def _table_attribute(given: Given) -> str:
    folder, file = given.configuration.channel_definition_directory, given.configuration.channel_definition_file
    return _below(folder or given.data_directory, file or _DEFAULT_FILE) if folder or file else ""


PRECEDENCE: Final[tuple[tuple[Origin, Callable[[Given], Channel | str | None]], ...]] = (
    (Origin.CHANNEL, lambda given: given.channel),
    (Origin.URL, lambda given: given.url),
    (Origin.SERVER_VARIABLE, _server_variable),
    (Origin.SERVER_ATTRIBUTE, _server_attribute),
    (Origin.TABLE_VARIABLE, _table_variable),
    (Origin.TABLE_ATTRIBUTE, _table_attribute),
)
"""The order of the sources. If only the folder or only the file is set, the other one has its default. MQCCDTURL takes
precedence over MQCHLLIB. IBM's pages do not say these two things clearly."""


def locate_table(text: str, *, http_allowed: bool = False) -> TableLocation:
    """Return the location in a text such as "ccdt.json", "file:///etc/mq/ccdt.json" or "https://host/ccdt.json".

    Raises `ChannelTableError` for ftp, for a text that is not an address, and for http if `http_allowed` is false. With http,
    an attacker can change a table on its way, and so decide where messages go.
    """
    shown = without_password(text)
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        # The error text of Python is not used, because it can quote a password that was written in the place of the port.
        problem = "it is not a URL: its host or its port is invalid. In a user or a password, write / and @ as %2F and %40."
        raise ChannelTableError(shown, problem) from None
    if not text or "\0" in text or any(letter.isspace() and letter != " " for letter in text):
        raise ChannelTableError(shown, "it is neither a path nor a URL.")
    match parts.scheme.lower():
        case "":
            return TableLocation(path=text, shown=shown)
        case "file" if parts.netloc in {"", "localhost"} and parts.path:
            return TableLocation(path=unquote(parts.path), shown=shown)
        case "file":
            raise ChannelTableError(shown, "a file must be local: file:///path.")
        case "http" if not http_allowed:
            trusted = "ccdt_over_http or --http in a trusted network"
            problem = f"over http an attacker in the network can change it. Use https, or {trusted}."
            raise ChannelTableError(shown, problem)
        case ("http" | "https") as scheme if parts.hostname and " " not in text:
            secure = scheme == "https"
            user, at, _ = parts.netloc.rpartition("@")
            return TableLocation(
                secure=secure,
                host=parts.hostname,
                port=port or (443 if secure else 80),
                target=urlunsplit(("", "", parts.path or "/", parts.query, "")),
                credentials=unquote(user) if at else "",
                shown=shown,
            )
        case "ftp":
            raise ChannelTableError(shown, "mqflow does not use ftp. Use https, or a file.")
        case _:
            raise ChannelTableError(shown, "it takes a path, file:///path or https://host/path.")


def without_password(text: str) -> str:
    """Return the URL, even a mistyped one, as a person may see it: without users, passwords and the secrets of its query.

    Three asterisks replace the text between the scheme and the last "@", and each value in the query whose key is not known.
    """
    if not _URL.match(text):
        return _SECRET.sub(r"\1***", text)
    shown = unquote(text) if _ENCODED_AT.search(text) else text
    return _QUERY_VALUE.sub(r"\1***", _USER.sub(r"\1***@", shown, count=1))


def _below(folder: str, file: str) -> str:
    """Return the path of the file in the folder. The folder can be a URL."""
    return f"{folder.rstrip('/')}/{file.lstrip('/')}" if urlsplit(folder).scheme or not file.startswith("/") else file
