"""Reads a client channel definition table in JSON.

This module opens no file and fetches no address.
Source: IBM, "Configuring a JSON format CCDT" and its list of attributes (q132890, q132910). Keys and values are case-sensitive.
Unknown keys are ignored, but the `warnings` of the table name them, because a key may be a typing error. If a key occurs twice,
the last one counts. IBM's page does not show the spelling of every value; mqflow chose the missing spellings.
"""

import types
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Annotated, Any, Final, Literal, TypeVar, get_args, get_origin

import msgspec
from msgspec import Meta, Struct, field
from msgspec.structs import fields

from mqflow.mqi.names import CHANNEL_NAME_CHARS_MAX, OBJECT_NAME_CHARS_MAX, is_channel_name
from mqflow.policy.channels.table import DEFAULT_PORT, Address, Channel, ChannelTable, ChannelTableError
from mqflow.policy.did_you_mean import closest
from mqflow.policy.reconnect.mode import DefaultReconnect

__all__ = ("TABLE_BYTES_MAX", "parse")

TABLE_BYTES_MAX: Final = 1_048_576
"""The largest table that is read, for about 4,000 channels. A longer file is a mistake or an attack."""

_Text = Annotated[str, Meta(max_length=1_024)]
_Seconds = Annotated[int, Meta(ge=0, le=999_999)]
_Port = Annotated[int, Meta(ge=1, le=65_535)]


class _Connection(Struct):
    # The pattern refuses the characters that separate the names in CONNAME.
    host: Annotated[str, Meta(max_length=264, pattern=r"^[^\s,()]+\Z")]
    port: _Port = DEFAULT_PORT


class _ClientConnection(Struct, rename="camel"):
    connection: tuple[_Connection, ...] = ()
    queue_manager: Annotated[str, Meta(max_length=OBJECT_NAME_CHARS_MAX)] = ""


class _Compression(Struct):
    header: tuple[_Text, ...] = ()
    message: tuple[_Text, ...] = ()


class _PortRange(Struct):
    low: _Port
    high: _Port


class _LocalAddress(Struct, rename="camel"):
    host: _Text = ""
    port: _Port | None = None
    port_range: _PortRange | None = None


_RECONNECTS: Final[Mapping[str, DefaultReconnect]] = {
    "no": DefaultReconnect.NO,
    "yes": DefaultReconnect.YES,
    "queueManager": DefaultReconnect.Q_MGR,
    "disabled": DefaultReconnect.DISABLED,
}


class _Management(Struct, rename="camel"):
    affinity: Literal["preferred", "none"] = "preferred"
    client_weight: Annotated[int, Meta(ge=0, le=99)] = 0
    default_reconnect: Literal["no", "yes", "queueManager", "disabled"] = "no"
    disconnect_interval: _Seconds | None = None
    heartbeat_interval: _Seconds | None = None
    # IBM's page prints the key in this way. IBM's schema probably has the other spelling. Both are accepted.
    heart_interval: _Seconds | None = None
    keep_alive_interval: Annotated[int, Meta(ge=-1, le=99_999)] = -1
    local_address: tuple[_LocalAddress, ...] = ()
    sharing_conversations: Annotated[int, Meta(ge=0, le=999_999_999)] = 10


class _Exit(Struct, rename="camel"):
    name: _Text = ""
    user_data: _Text = ""


class _Exits(Struct):
    receive: tuple[_Exit, ...] = ()
    send: tuple[_Exit, ...] = ()
    security: _Exit | None = None


class _General(Struct, rename="camel"):
    description: _Text = ""
    maximum_message_length: Annotated[int, Meta(ge=0, le=104_857_600)] = 4_194_304


class _Timestamps(Struct):
    altered: _Text = ""


class _Security(Struct, rename="camel"):
    cipher_specification: _Text = ""
    certificate_label: _Text = ""
    certificate_peer_name: _Text = ""


class _Entry(Struct, rename="camel"):
    name: Annotated[str, Meta(min_length=1, max_length=CHANNEL_NAME_CHARS_MAX)]
    type: Literal["clientConnection"]
    client_connection: _ClientConnection = field(default_factory=_ClientConnection)
    compression: _Compression = field(default_factory=_Compression)
    connection_management: _Management = field(default_factory=_Management)
    exits: _Exits = field(default_factory=_Exits)
    general: _General = field(default_factory=_General)
    timestamps: _Timestamps = field(default_factory=_Timestamps)
    transmission_security: _Security = field(default_factory=_Security)


class _File(Struct):
    channel: tuple[_Entry, ...]


T = TypeVar("T")

#: The largest number of warnings for one table: a person does not read more.
_WARNINGS_MAX: Final = 100

#: The accepted values of each key that accepts only a few values, for errors.
_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    info.encode_name: tuple(
        word for each in (info.type, *get_args(info.type)) if get_origin(each) is Literal for word in get_args(each)
    )
    for record in (_Entry, _Management)
    for info in fields(record)
}

_NOT_BINARY: Final = (
    "it is a binary table (AMQR), whose layout IBM does not publish. Say the same in JSON, in a file that ends in .json: "
    "`runmqsc -n` with DISPLAY CHANNEL(*) shows what the binary table holds."
)


def parse(data: bytes, source: str = "(no name)") -> ChannelTable:
    """Return the table in these bytes.

    Raises `ChannelTableError`, with the JSON path of the mistake, if the bytes are not a valid JSON table. For a binary table
    the error says what to use instead. A wrong value in one entry refuses the whole table: a person must correct it anyway.
    """
    if data[:4] == b"AMQR":
        raise ChannelTableError(source, _NOT_BINARY)
    if len(data) > TABLE_BYTES_MAX:
        raise ChannelTableError(source, f"it has {len(data)} bytes; a table has {TABLE_BYTES_MAX} at most.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ChannelTableError(source, f"it is not UTF-8 at byte {error.start} (0x{data[error.start]:02x}).") from error
    value = _decoded(text, source)
    file = _checked(value, _File, source)
    channels = tuple(_channel(position, entry, source) for position, entry in enumerate(file.channel))
    unknown = islice(_unknown_keys(value, _File, "$"), _WARNINGS_MAX)
    unusable = (f"Entry {channel.position} ({channel.name}) is never tried. {channel.unusable}" for channel in channels)
    warnings = (*unknown, *(each for each, channel in zip(unusable, channels, strict=True) if channel.unusable))
    return ChannelTable(channels=channels, source=source, warnings=warnings)


def _decoded(text: str, source: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ChannelTableError(source, f"it is not JSON: {error}.") from error


def _checked(value: object, kind: type[T], source: str) -> T:
    """Return the value as a record of this kind. Raises `ChannelTableError` with the path of the mistake in the value."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `")
        path = path.removesuffix("`").removeprefix("$")
        words = _WORDS.get(path.rpartition(".")[2], ())
        accepted = f"; it takes {' or '.join(map(repr, words))}." if words else "."
        raise ChannelTableError(source, f"{problem}{accepted}", path=f"${path}") from error


def _channel(position: int, entry: _Entry, source: str) -> Channel:
    if not is_channel_name(entry.name):
        problem = f"{entry.name!r} cannot be the name of a channel: 1 to {CHANNEL_NAME_CHARS_MAX} of A-Z a-z 0-9 . _ / %."
        raise ChannelTableError(source, problem, path=f"$.channel[{position}].name")
    management, security, exits = entry.connection_management, entry.transmission_security, entry.exits
    intervals = (management.heartbeat_interval, management.heart_interval)
    return Channel(
        name=entry.name,
        queue_manager=entry.client_connection.queue_manager.rstrip(),
        addresses=tuple(Address(each.host, each.port) for each in entry.client_connection.connection),
        client_weight=management.client_weight,
        affinity=management.affinity,
        default_reconnect=_RECONNECTS[management.default_reconnect],
        heartbeat_s=next((each for each in intervals if each is not None), 300),
        keep_alive_s=management.keep_alive_interval,
        disconnect_s=management.disconnect_interval,
        sharing_conversations=management.sharing_conversations,
        message_bytes_max=entry.general.maximum_message_length,
        cipher_specification=security.cipher_specification,
        certificate_label=security.certificate_label,
        certificate_peer_name=security.certificate_peer_name,
        local_address=",".join(map(_local_address, management.local_address)),
        header_compression=entry.compression.header,
        message_compression=entry.compression.message,
        description=entry.general.description,
        names_exits=any(each is not None and each.name for each in (*exits.receive, *exits.send, exits.security)),
        position=position,
    )


def _local_address(local: _LocalAddress) -> str:
    if local.port_range is not None:
        return f"{local.host}({local.port_range.low},{local.port_range.high})"
    return local.host if local.port is None else f"{local.host}({local.port})"


# Any: JSON, and types at run time, which have no type of their own.
def _unknown_keys(value: object, kind: Any, path: str) -> Iterator[str]:
    """Yield a sentence for each key in the table that the format does not have."""
    match value:
        case list() if get_origin(kind) is tuple:
            for at, each in enumerate(value):
                yield from _unknown_keys(each, get_args(kind)[0], f"{path}[{at}]")
        case dict() if record := _record_of(kind):
            known = {info.encode_name: info.type for info in fields(record)}
            for key, below in value.items():
                if key in known:
                    yield from _unknown_keys(below, known[key], f"{path}.{key}")
                else:
                    close = closest(key, known)
                    yield f"{path}.{key[:64]} is not known and is ignored." + (f" Did you mean {close}?" if close else "")
        case _:
            return


# Any: as for `_unknown_keys`.
def _record_of(kind: Any) -> type[Struct] | None:
    choices = get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    return next((each for each in choices if isinstance(each, type) and issubclass(each, Struct)), None)
