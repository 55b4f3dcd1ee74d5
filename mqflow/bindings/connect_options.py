"""The options of a connection to IBM MQ. A secret is a function that reads the secret when the application connects.

Every application imports this file, also an application that never connects to IBM MQ. `mqcno` makes the arguments of MQCONNX
from these options.
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
    """A client package cannot be used, or lacks a feature. The text names the missing part, and the remedy."""


class ConnectOptions(Struct, frozen=True, kw_only=True):
    """The way to reach a queue manager. The record holds functions that read secrets, and no secret."""

    #: The name of the queue manager; "" is the default queue manager, "*GROUP" is any queue manager of a group.
    queue_manager: str = ""
    #: The SVRCONN channel and its hosts, in the order of the attempts. Without a channel, IBM's client finds the address.
    channel: str = ""
    hosts: tuple[tuple[str, int], ...] = ()
    #: A client channel definition table, for IBM's client to read: file:, http:, ftp: (CCDTUrl), or a path.
    ccdt_url: str = ""
    #: "local" connects through shared memory, "client" through a channel, "" as the installed library does by default.
    binding: Literal["", "local", "client"] = ""
    user: str = ""
    password: ReadSecret | None = None
    #: Reads a JSON web token, which replaces user and password (needs IBM MQ 9.3.4).
    token: ReadSecret | None = None
    #: SSLCIPH of the channel, for example "ANY_TLS12_OR_HIGHER"; empty for no TLS.
    cipher_spec: str = ""
    #: KeyRepository: the path of the key file, with or without the file's ending, as IBM's rules allow.
    key_repository: str = ""
    key_repository_password: ReadSecret | None = None
    certificate_label: str = ""
    #: SSLPEER: the pattern for the distinguished name in the queue manager's certificate.
    peer_name: str = ""

    #: HBINT and KAINT of the channel, in seconds; if the keep-alive is -1, the client decides. Both ends use
    #: the longer HBINT (q108450). So with HBINT 1, the queue manager's HBINT decides how soon each end notices a dead peer.
    heartbeat_s: int = 1
    keep_alive_s: int = -1
    #: SHARECNV: the most connections that share one TCP connection.
    sharing_conversations: int = 10
    #: MAXMSGL of this end of the channel; at the maximum, the limit of the queue manager's end decides.
    message_bytes_max: int = MESSAGE_BYTES_MAX
    #: LOCLADDR: the local address and ports, such as "192.0.2.1(1000,1999)".
    local_address: str = ""
    #: COMPHDR: the compressions of headers in order of preference: "system" or "none".
    header_compression: tuple[str, ...] = ()

    @property
    def connection_name(self) -> str:
        """The hosts as MQ writes them (CONNAME): ``mq1.example(1414),mq2.example(1414)``."""
        return ",".join(f"{host}({port})" for host, port in self.hosts)

    @property
    def cno_options(self) -> int:
        """MQCNO.Options: threads share the handles, one at a time; the client never reconnects; `binding` applies."""
        options = _HANDLE_SHARE_NO_BLOCK | _RECONNECT_DISABLED
        match self.binding:
            case "local":
                return options | _LOCAL_BINDING
            case "client":
                return options | _CLIENT_BINDING
            case _:
                return options | (_CLIENT_BINDING if self.channel or self.ccdt_url else 0)
