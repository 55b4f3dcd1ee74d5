"""A client channel definition table (CCDT): channels and addresses to connect to, as frozen records.

This module knows names and numbers; it reads no bytes (`table_json` does), and decides no order (`candidates` does).
"""

from typing import Final, Literal

from msgspec import Struct

from mqflow.mqi.names import is_channel_name
from mqflow.policy.reconnect.mode import DefaultReconnect

__all__ = ("DEFAULT_PORT", "Address", "Channel", "ChannelTable", "ChannelTableError", "server_channel")

_HEADER_COMPRESSIONS: Final = frozenset({"none", "system"})
_MESSAGE_BYTES_MOST: Final = 104_857_600

DEFAULT_PORT: Final = 1414
"""The port of an address without a port: CONNAME's default. IBM does not document whether JSON tables have it too."""


class ChannelTableError(ValueError):
    """A table, or a text that stands for a table, cannot be used; the error has the source, the place and the solution."""

    def __init__(self, source: str, problem: str, *, path: str = "") -> None:
        self.source = source
        #: The place in the table: "$.channel[3].clientConnection.connection[0].port".
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        where = f", at {self.path}" if self.path else ""
        return f"Channel table {self.source}{where}: {self.problem}"


class Address(Struct, frozen=True):
    """The address of a queue manager: one of the names in CONNAME."""

    host: str
    port: int = DEFAULT_PORT

    def __str__(self) -> str:
        return f"{self.host}({self.port})"


class Channel(Struct, frozen=True, kw_only=True):
    """A client-connection channel: one entry of a table, with the MQSC name above each field."""

    #: CHANNEL.
    name: str
    #: QMNAME: the queue manager, or the group of queue managers, that the channel leads to; may be empty.
    queue_manager: str = ""
    #: CONNAME, in the order of the attempts.
    addresses: tuple[Address, ...] = ()
    #: CLNTWGHT: 0 is tried first, in alphabetical order; 1 to 99 is drawn in proportion.
    client_weight: int = 0
    #: AFFINITY: "preferred" keeps the drawn order for the process, "none" draws for each connection.
    affinity: Literal["preferred", "none"] = "preferred"
    #: DEFRECON.
    default_reconnect: DefaultReconnect = DefaultReconnect.NO
    #: HBINT, in seconds.
    heartbeat_s: int = 300
    #: KAINT, in seconds; -1 derives it from HBINT.
    keep_alive_s: int = -1
    #: DISCINT, in seconds; None if the table has no value.
    disconnect_s: int | None = None
    #: SHARECNV; with 0 or 1 conversations share no connection.
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
    #: True if the entry names exits (SCYEXIT, SENDEXIT, RCVEXIT): mqflow loads no exits, so it does not use the entry.
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
        """The reason why the entry is never tried, as a sentence; empty if it can be tried."""
        if self.names_exits:
            return "It names exits, and mqflow loads no code that a table names. Without its exits the channel protects less."
        if not self.addresses:
            return "It names no address: clientConnection.connection is empty."
        return ""


class ChannelTable(Struct, frozen=True, kw_only=True):
    """A table: its entries, in the order of the file."""

    channels: tuple[Channel, ...]
    #: The origin of the table, for errors.
    source: str = "(no name)"
    #: The ignored parts, as sentences: unknown keys, entries that cannot be used.
    warnings: tuple[str, ...] = ()


def server_channel(text: str, source: str = "MQSERVER") -> Channel:
    """Return the channel that MQSERVER or ServerConnectionParms defines: "CHANNEL/TCP/host(port)[,host2(port2)]".

    The channel leads to any queue manager that the connect names, so the caller sets `queue_manager`. Like a channel from a
    URL, it leaves the maximum message length and the heartbeat to the server end. Raises `ChannelTableError`.
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
    known = port.isascii() and port.isdecimal() and len(port) < 6 and 1 <= int(port) <= 65_535  # noqa: PLR2004 - 1 to 65535
    if not host.strip() or (bracket and not rest.endswith(")")) or not known:
        raise ChannelTableError(source, f"{text!r} is not of the form host(port), with a port from 1 to 65535.")
    return Address(host.strip(), int(port))
