"""The options of a connection to IBM MQ. A secret is a function, because files change under a running application.

Every application imports this, also one that never connects to IBM MQ. `mqcno` makes the arguments of MQCONNX from it.
"""

from collections.abc import Callable
from typing import Final, Literal

from msgspec import Struct

from mqflow.bindings.limits import MESSAGE_BYTES_MAX

__all__ = ("MESSAGE_BYTES_MAX", "ClientPackageError", "ConnectOptions", "ReadSecret")

_HANDLE_SHARE_NO_BLOCK: Final = 0x80
_LOCAL_BINDING: Final = 0x400
_CLIENT_BINDING: Final = 0x800
_RECONNECT_DISABLED: Final = 0x0200_0000

ReadSecret = Callable[[], str]


class ClientPackageError(Exception):
    """A client package cannot be used, or lacks a feature. The sentence names the missing part, and how to mend it."""


class ConnectOptions(Struct, frozen=True, kw_only=True):
    """The way to reach a queue manager. It holds functions that read secrets, and no secret."""

    #: The queue manager; "" for the default one, "*GROUP" for any of a group.
    queue_manager: str = ""
    #: SVRCONN channel and its hosts, tried in order; without a channel, IBM's client finds its own way.
    channel: str = ""
    hosts: tuple[tuple[str, int], ...] = ()
    #: A client channel definition table, for IBM's client to read: file:, http:, ftp: (CCDTUrl), or a path.
    ccdt_url: str = ""
    #: "local" through shared memory, "client" through a channel, "" by the default of the installed library.
    binding: Literal["", "local", "client"] = ""
    user: str = ""
    password: ReadSecret | None = None
    #: A JSON web token, instead of user and password (IBM MQ 9.3.4).
    token: ReadSecret | None = None
    #: SSLCIPH of the channel, "ANY_TLS12_OR_HIGHER"; empty for no TLS.
    cipher_spec: str = ""
    #: KeyRepository: the key file, by IBM's rules with or without its ending.
    key_repository: str = ""
    key_repository_password: ReadSecret | None = None
    certificate_label: str = ""
    #: SSLPEER: the pattern for the distinguished name in the queue manager's certificate.
    peer_name: str = ""

    #: HBINT and KAINT of the channel, in seconds; with a keep-alive of -1 the client decides. The longer one of the
    #: two HBINT counts (q108450), so with 1 the queue manager's HBINT decides how soon each end notices a dead peer.
    heartbeat_s: int = 1
    keep_alive_s: int = -1
    #: SHARECNV: the most connections that share one TCP connection.
    sharing_conversations: int = 10
    #: MAXMSGL of this end of the channel; at the maximum, the limit of the queue manager's end decides.
    message_bytes_max: int = MESSAGE_BYTES_MAX
    #: LOCLADDR: "192.0.2.1(1000,1999)".
    local_address: str = ""
    #: COMPHDR: its words in order of preference; "system" and "none" are known.
    header_compression: tuple[str, ...] = ()

    @property
    def connection_name(self) -> str:
        """The hosts as MQ writes them (CONNAME): ``mq1.example(1414),mq2.example(1414)``."""
        return ",".join(f"{host}({port})" for host, port in self.hosts)

    @property
    def cno_options(self) -> int:
        """MQCNO.Options: handles for any thread, one at a time; no reconnection by the client; the wanted binding."""
        options = _HANDLE_SHARE_NO_BLOCK | _RECONNECT_DISABLED
        match self.binding:
            case "local":
                return options | _LOCAL_BINDING
            case "client":
                return options | _CLIENT_BINDING
            case _:
                return options | (_CLIENT_BINDING if self.channel or self.ccdt_url else 0)
