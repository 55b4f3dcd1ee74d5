"""Reads the CHANNELS stanza of mqclient.ini, and decides where to search for this file.

This module receives the text of the file. It opens no file.
Source: IBM, "CHANNELS stanza of the client configuration file" (q016860), and on the location of that file (q016850).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from msgspec import Struct, field

from mqflow.mqi.lexer import capitals
from mqflow.policy.did_you_mean import closest
from mqflow.policy.reconnect.delays import DelaysError, Ladder, parse_delays
from mqflow.policy.reconnect.mode import DefaultReconnect

__all__ = ("DATA_DIRECTORY", "ClientConfiguration", "ClientConfigurationError", "parse_client_configuration", "places")

DATA_DIRECTORY: Final = "/var/mqm"
"""The data directory of IBM MQ."""

_FILE: Final = "mqclient.ini"


class ClientConfigurationError(ValueError):
    """A value in a client configuration file cannot be used. The error names the place, the value and the accepted values."""

    def __init__(self, source: str, problem: str, *, line: int = 0) -> None:
        self.source = source
        self.line = line
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.source}{f', line {self.line}' if self.line else ''}: {self.problem}"


class ClientConfiguration(Struct, frozen=True, kw_only=True):
    """The CHANNELS stanza. A comment above each field names its attribute. A missing attribute is None or empty."""

    #: ChannelDefinitionDirectory: a path or a URL.
    channel_definition_directory: str = ""
    #: ChannelDefinitionFile.
    channel_definition_file: str = ""
    #: ServerConnectionParms: "CHANNEL/TCP/host(port)".
    server_connection_parms: str = ""
    #: DefRecon, which replaces the DEFRECON of the channels.
    default_reconnect: DefaultReconnect | None = None
    #: ReconDelay.
    delays: Ladder | None = None
    #: MQReconnectTimeout, in seconds. IBM's client gives up after 1,800 seconds by default; mqflow gives up only if this value
    #: is set.
    reconnect_limit_s: int | None = None
    #: CCSID.
    ccsid: int | None = None
    #: Put1DefaultAlwaysSync.
    put1_always_synchronous: bool = False
    #: All other attributes of the stanza, with their names as written (PasswordProtection ...). Only IBM's libraries use them.
    others: Mapping[str, str] = field(default_factory=dict[str, str])
    #: The other stanzas of the file, by name: SSL, TCP, Security ...
    other_stanzas: tuple[str, ...] = ()
    #: The path of the file; empty if there is no file.
    source: str = ""
    #: Probable typing errors, as sentences.
    warnings: tuple[str, ...] = ()

    @property
    def not_used(self) -> tuple[str, ...]:
        """The names of the attributes and stanzas in the file that mqflow does not use. IBM's client reads the file itself."""
        channels = [
            *(["CCSID"] if self.ccsid is not None else []),
            *(["Put1DefaultAlwaysSync"] if self.put1_always_synchronous else []),
            *self.others,
        ]
        return (*(f"CHANNELS: {name}" for name in channels), *(f"{stanza}: all of it" for stanza in self.other_stanzas))


def places(environment: Mapping[str, str], *, current: str, home: str, data: str = DATA_DIRECTORY) -> tuple[str, ...]:
    """Return the paths where mqclient.ini can be, in order. The first file that can be read is used.

    Raises `ClientConfigurationError` if MQCLNTCF is a URL that does not name a local file.
    """
    named = (_local(text),) if (text := environment.get("MQCLNTCF", "").strip()) else ()
    return (*named, *(f"{folder.rstrip('/')}/{_FILE}" for folder in (current, data, home) if folder))


def parse_client_configuration(text: str, source: str = _FILE) -> ClientConfiguration:
    """Return the CHANNELS stanza of this text. Of the other stanzas, return only the names.

    The case of names does not matter. If an attribute occurs twice, its last value counts. IBM's page says nothing about these
    two points. Raises `ClientConfigurationError` with the line of a value that cannot be used.
    """
    # Any: each field of the record has its own type.
    found: dict[str, Any] = {}
    others: dict[str, str] = {}
    warnings: list[str] = []
    stanzas: dict[str, None] = {}
    for line, name, value in _attributes(text, source, stanzas):
        known = _ATTRIBUTES.get(name.lower())
        if known is None:
            others[name] = value
            close = closest(name.lower(), _ATTRIBUTES, alike=0.75)
            warnings += [f"{source}, line {line}: {name} is not known. Did you mean {_SPELLINGS[close]}?"] if close else []
            continue
        field_name, convert = known
        try:
            found[field_name] = convert(value)
        except ValueError as error:
            raise ClientConfigurationError(source, f"{name}: {error}", line=line) from error
    return ClientConfiguration(**found, others=others, other_stanzas=tuple(stanzas), source=source, warnings=tuple(warnings))


def _local(text: str) -> str:
    """Return the local path in the text of MQCLNTCF, which may begin with "file:"."""
    parts = urlsplit(text)
    if not parts.scheme:
        return text
    if parts.scheme != "file" or parts.netloc not in {"", "localhost"}:
        raise ClientConfigurationError("MQCLNTCF", f"{text!r} is not a local file; it takes a path, or file:///path.")
    return unquote(parts.path)


def _attributes(text: str, source: str, others: dict[str, None]) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the name and the value of each attribute in CHANNELS. Add the names of other stanzas to `others`."""
    inside = False
    for number, written in enumerate(text.splitlines(), start=1):
        line = written.strip()
        if not line or line[0] in "#;":
            continue
        if line.endswith(":") and "=" not in line:
            stanza = line[:-1].strip()
            inside = stanza.lower() == "channels"
            if not inside:
                others[stanza] = None
        elif inside:
            name, equals, value = line.partition("=")
            if not equals or not name.strip():
                raise ClientConfigurationError(source, f"{line[:80]!r} is not of the form attribute=value.", line=number)
            yield number, name.strip(), value.strip()


def _number(least: int, most: int) -> Callable[[str], int]:
    def convert(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) <= len(str(most)) and least <= int(text) <= most):
            raise ValueError(f"{text[:80]!r} is not accepted; it takes a whole number from {least} to {most}.")
        return int(text)

    return convert


def _word(accepted: Mapping[str, object]) -> Callable[[str], object]:
    def convert(text: str) -> object:
        if capitals(text) not in accepted:
            raise ValueError(f"{text[:80]!r} is not accepted; it takes {', '.join(accepted)}.")
        return accepted[capitals(text)]

    return convert


_RECONNECTS: Final = {
    "NO": DefaultReconnect.NO,
    "YES": DefaultReconnect.YES,
    "QMGR": DefaultReconnect.Q_MGR,
    "DISABLED": DefaultReconnect.DISABLED,
}


def _delays(text: str) -> Ladder:
    try:
        return parse_delays(text)
    except DelaysError as error:
        raise ValueError(str(error)) from error


_SPELLINGS: Final = {
    name.lower(): name
    for name in (
        "CCSID",
        "ChannelDefinitionDirectory",
        "ChannelDefinitionFile",
        "DefRecon",
        "MQReconnectTimeout",
        "Put1DefaultAlwaysSync",
        "ReconDelay",
        "ServerConnectionParms",
    )
}
_ATTRIBUTES: Final[Mapping[str, tuple[str, Callable[[str], object]]]] = {
    "ccsid": ("ccsid", _number(1, 65_535)),
    "channeldefinitiondirectory": ("channel_definition_directory", str),
    "channeldefinitionfile": ("channel_definition_file", str),
    "defrecon": ("default_reconnect", _word(_RECONNECTS)),
    "mqreconnecttimeout": ("reconnect_limit_s", _number(0, 999_999_999)),
    "put1defaultalwayssync": ("put1_always_synchronous", _word({"NO": False, "YES": True})),
    "recondelay": ("delays", _delays),
    "serverconnectionparms": ("server_connection_parms", str),
}
