"""A client channel definition table (CCDT): the channels and addresses to connect to, as frozen records.

This module reads no bytes (`table_json` reads them), and decides no order (`candidates` decides it).
"""

from typing import Final, Literal

from msgspec import Struct

from mqflow.mqi.names import is_channel_name, port_of
from mqflow.policy.reconnect.mode import DefaultReconnect

__all__ = ("DEFAULT_PORT", "Address", "Channel", "ChannelTable", "ChannelTableError", "server_channel")

_HEADER_COMPRESSIONS: Final = frozenset({"none", "system"})
_MESSAGE_BYTES_MOST: Final = 104_857_600

DEFAULT_PORT: Final = 1414
"""The port of an address without a port: the default of CONNAME. IBM does not document the default of JSON tables."""


class ChannelTableError(ValueError):
    """A channel table or the definition of a channel cannot be used. The error names the source, the place and the remedy."""

    def __init__(self, source: str, problem: str, *, path: str = "") -> None:
        self.source = source
        #: The place in the table, for example "$.channel[3].clientConnection.connection[0].port".
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        where = f", at {self.path}" if self.path else ""
        return f"Channel table {self.source}{where}: {self.problem}"


class Address(Struct, frozen=True):
    """The address of a queue manager: one part of CONNAME."""

    host: str
    port: int = DEFAULT_PORT

    def __str__(self) -> str:
        return f"{self.host}({self.port})"


class Channel(Struct, frozen=True, kw_only=True):
    """A client-connection channel: one entry of a table. A comment above each field names its MQSC attribute."""

    #: CHANNEL.
    name: str
    #: QMNAME: the queue manager, or the group of queue managers, that the channel leads to; may be empty.
    queue_manager: str = ""
    #: CONNAME, in the order of the attempts.
    addresses: tuple[Address, ...] = ()
    #: CLNTWGHT: entries with 0 are tried first, in alphabetical order; from 1 to 99, a higher weight is likelier to come early.
    client_weight: int = 0
    #: AFFINITY: "preferred" keeps the same random order for the whole process; "none" draws an order for each connection.
    affinity: Literal["preferred", "none"] = "preferred"
    #: DEFRECON.
    default_reconnect: DefaultReconnect = DefaultReconnect.NO
    #: HBINT, in seconds.
    heartbeat_s: int = 300
    #: KAINT, in seconds; -1 means a value that is derived from HBINT.
    keep_alive_s: int = -1
    #: DISCINT, in seconds; None if the table has no value.
    disconnect_s: int | None = None
    #: SHARECNV. With 0 or 1, each conversation has a connection of its own.
    sharing_conversations: int = 10
    #: MAXMSGL, in bytes.
    message_bytes_max: int = 4_194_304
    #: SSLCIPH.
    cipher_specification: str = ""
    #: CERTLABL.
    certificate_label: str = ""
    #: SSLPEER.
    certificate_peer_name: str = ""
    #: LOCLADDR, as MQSC writes it: "192.0.2.1(1000,1999)".
    local_address: str = ""
    #: COMPHDR and COMPMSG.
    header_compression: tuple[str, ...] = ()
    message_compression: tuple[str, ...] = ()
    #: DESCR.
    description: str = ""
    #: True if the entry names exits (SCYEXIT, SENDEXIT, RCVEXIT). mqflow loads no exits, so it does not use such an entry.
    names_exits: bool = False
    #: The position of the entry in the file, from 0.
    position: int = 0

    @property
    def connection_name(self) -> str:
        """CONNAME as MQSC writes it: "host1(1414),host2(1414)"."""
        return ",".join(map(str, self.addresses))

    @property
    def not_used(self) -> tuple[str, ...]:
        """The keys of the entry that mqflow ignores when it connects."""
        keys = (
            ("connectionManagement.disconnectInterval", self.disconnect_s is not None),
            ("compression.header", bool(set(self.header_compression) - _HEADER_COMPRESSIONS)),
            ("compression.message", bool(set(self.message_compression) - {"none"})),
        )
        return tuple(key for key, is_set in keys if is_set)

    @property
    def unusable(self) -> str:
        """The reason why mqflow never tries the entry, as a sentence; empty if mqflow can try it."""
        if self.names_exits:
            return "It names exits, and mqflow loads no code that a table names. Without its exits the channel protects less."
        if not self.addresses:
            return "It names no address: clientConnection.connection is empty."
        return ""


class ChannelTable(Struct, frozen=True, kw_only=True):
    """A table: its entries, in the order of the file."""

    channels: tuple[Channel, ...]
    #: The place where the table came from, for errors.
    source: str = "(no name)"
    #: The ignored parts, as sentences: unknown keys, and entries that cannot be used.
    warnings: tuple[str, ...] = ()


def server_channel(text: str, source: str = "MQSERVER") -> Channel:
    """Return the channel that MQSERVER or ServerConnectionParms defines: "CHANNEL/TCP/host(port)[,host2(port2)]".

    The channel leads to any queue manager, so the caller must set `queue_manager`. As for a channel from a URL, the server end
    decides the maximum message length and the heartbeat. Raises `ChannelTableError` if the text has another form.
    """
    name, _, rest = text.strip().partition("/")
    transport, _, connection_name = rest.partition("/")
    if not is_channel_name(name) or transport.upper() != "TCP" or not connection_name:
        raise ChannelTableError(source, f"{text!r} is not of the form CHANNEL/TCP/host(port).")
    addresses = tuple(_address(each.strip(), source) for each in connection_name.split(","))
    return Channel(name=name, addresses=addresses, message_bytes_max=_MESSAGE_BYTES_MOST, heartbeat_s=1)


def _address(text: str, source: str) -> Address:
    host, bracket, rest = text.partition("(")
    port = rest.removesuffix(")") if bracket else str(DEFAULT_PORT)
    number = port_of(port)
    if not host.strip() or (bracket and not rest.endswith(")")) or not number:
        raise ChannelTableError(source, f"{text!r} is not of the form host(port), with a port from 1 to 65535.")
    return Address(host.strip(), number)
