"""Fetches a channel table over https, from the named address only, with limits of time and size.

A fetch follows no redirection, uses no proxy, and refuses link-local addresses, where clouds keep their secrets.
`policy.channels.table_json` parses the bytes.
"""

import base64
import http.client
import io
import ssl
from ipaddress import IPv6Address, ip_address
from typing import Any, Final

from mqflow.policy.channels.sources import TableLocation
from mqflow.policy.channels.table import ChannelTableError
from mqflow.policy.channels.table_json import TABLE_BYTES_MAX
from mqflow.world import Clock

__all__ = ("FETCH_S", "fetch")

FETCH_S: Final = 5.0
"""The time limit of a fetch in seconds, from the first packet of the address that answers.

Before that, the system resolves the host name. Each address that does not answer can take this time too, because the standard
library tries one address after another. A TLS handshake can also take this time.
"""

_OK: Final = 200
_REDIRECTIONS: Final = range(300, 400)


def fetch(location: TableLocation, *, clock: Clock, limit_s: float = FETCH_S) -> bytes:
    """Return the bytes of the table. If the table is too large, return one byte more than the limit, so that it is refused.

    Certificates must be signed by the system's authorities, or by those of SSL_CERT_FILE.
    Raises `ChannelTableError` for every failure, with a text that has no password.
    """
    connection = _connection(location, limit_s)
    try:
        connection.connect()
        until = clock.monotonic() + limit_s  # not earlier: addresses that do not answer must not use up the time
        _refuse_link_local(connection.sock.getpeername()[0])
        connection.request("GET", location.target, headers=_headers(location))
        return _body(_Until(connection.sock, until, clock))
    except TimeoutError as error:
        raise ChannelTableError(location.shown, f"it did not arrive within {limit_s:g} s.") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        cause = str(error).rstrip(".") or type(error).__name__
        raise ChannelTableError(location.shown, f"it cannot be fetched: {cause}.") from error
    finally:
        connection.close()


def _body(answer: "_Until") -> bytes:
    with http.client.HTTPResponse(answer, method="GET") as response:  # type: ignore[arg-type]  # only makefile of a socket
        response.begin()
        if response.status != _OK:
            raise ValueError(_refused(response))
        return response.read(TABLE_BYTES_MAX + 1)


class _Until(io.RawIOBase):
    """Reads from a socket until a deadline, even if a slow server sends its bytes one by one."""

    # `Any` for the socket: http.client makes it, and this module must not import `socket`.
    def __init__(self, sock: Any, until: float, clock: Clock) -> None:
        self._socket = sock
        self._until = until
        self._clock = clock

    def makefile(self, mode: str) -> io.BufferedReader:  # noqa: ARG002 - http.client asks for "rb"
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # `Any`, as typeshed has no public name for a writable buffer
        left_s = self._until - self._clock.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._socket.settimeout(left_s)
        return int(self._socket.recv_into(buffer))


def _connection(location: TableLocation, limit_s: float) -> http.client.HTTPConnection:
    if not location.secure:
        return http.client.HTTPConnection(location.host, location.port, timeout=limit_s)
    context = ssl.create_default_context()
    return http.client.HTTPSConnection(location.host, location.port, timeout=limit_s, context=context)


def _refuse_link_local(peer: str) -> None:
    # Check the address of the connection and not the name: a second look-up of the name can give another address.
    address = ip_address(peer.partition("%")[0])
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if address.is_link_local:
        raise ValueError(f"the host is at {address}, and link-local addresses are not allowed")


def _headers(location: TableLocation) -> dict[str, str]:
    headers = {"Accept": "application/json", "User-Agent": "mqflow"}
    if location.credentials:
        headers["Authorization"] = f"Basic {base64.b64encode(location.credentials.encode()).decode('ascii')}"
    return headers


def _refused(response: http.client.HTTPResponse) -> str:
    if response.status in _REDIRECTIONS:
        target = (response.getheader("Location") or "nowhere")[:200]
        return f"the server redirects to {target!r}, and redirections are not followed: use the URL of the table itself"
    return f"the server answered {response.status} {response.reason[:80]}"
