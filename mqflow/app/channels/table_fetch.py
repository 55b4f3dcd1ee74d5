"""Fetches a channel table over https, bounded in time and size, from the address that was named and from no other.

Follows no redirection, uses no proxy, and does not talk to link-local addresses (where clouds keep their secrets). Knows HTTP;
what the bytes mean is `policy.channels.table_json`'s business.
"""

import base64
import http.client
import io
import ssl
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from typing import Any, Final

from mqflow.policy.channels.sources import TableLocation
from mqflow.policy.channels.table import ChannelTableError
from mqflow.policy.channels.table_json import TABLE_BYTES_MAX
from mqflow.world import Clock

__all__ = ("FETCH_S", "fetch")

FETCH_S: Final = 5.0
"""How long a fetch may take from the first packet on; finding the host's address is the system's, and its own limits hold."""

_OK: Final = 200
_REDIRECTIONS: Final = range(300, 400)


def fetch(
    location: TableLocation, *, clock: Clock, limit_s: float = FETCH_S, context: Callable[[], ssl.SSLContext] | None = None
) -> bytes:
    """Return the bytes of the table, at the most one more than a table may have.

    Certificates are checked against the system's authorities (SSL_CERT_FILE names others), or as `context` says.
    Raises `ChannelTableError` for everything that goes wrong, in a sentence without a password.
    """
    until = clock.monotonic() + limit_s
    connection = _connection(location, limit_s, context)
    try:
        connection.connect()
        _refuse_link_local(connection.sock.getpeername()[0])
        connection.sock.settimeout(max(until - clock.monotonic(), 0.001))
        connection.request("GET", location.target, headers=_headers(location))
        return _body(_Until(connection.sock, until, clock))
    except TimeoutError as error:
        raise ChannelTableError(location.shown, f"it was not there within {limit_s:g} s.") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        said = str(error).rstrip(".") or type(error).__name__
        raise ChannelTableError(location.shown, f"it cannot be fetched: {said}.") from error
    finally:
        connection.close()


def _body(answer: "_Until") -> bytes:
    response = http.client.HTTPResponse(answer, method="GET")  # type: ignore[arg-type]  # of a socket it asks makefile only
    response.begin()
    if response.status != _OK:
        raise ValueError(_refused(response))
    return response.read(TABLE_BYTES_MAX + 1)


class _Until(io.RawIOBase):
    """What a socket says, until a moment: a server that sends a byte now and then does not get around the limit."""

    def __init__(self, sock: Any, until: float, clock: Clock) -> None:
        self._socket = sock
        self._until = until
        self._clock = clock

    def makefile(self, mode: str) -> io.BufferedReader:  # noqa: ARG002 - http.client asks for "rb"
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left_s = self._until - self._clock.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._socket.settimeout(left_s)
        return int(self._socket.recv_into(buffer))


def _connection(
    location: TableLocation, limit_s: float, context: Callable[[], ssl.SSLContext] | None
) -> http.client.HTTPConnection:
    if not location.secure:
        return http.client.HTTPConnection(location.host, location.port, timeout=limit_s)
    made = ssl.create_default_context() if context is None else context()
    return http.client.HTTPSConnection(location.host, location.port, timeout=limit_s, context=made)


def _refuse_link_local(peer: str) -> None:
    # Asked of the connection, not of the name: a name may have another address at the second look.
    address = ip_address(peer.partition("%")[0])
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if address.is_link_local:
        raise ValueError(f"the host is at {address}, a link-local address, where no table is")


def _headers(location: TableLocation) -> dict[str, str]:
    headers = {"Accept": "application/json", "User-Agent": "mqflow"}
    if location.credentials:
        headers["Authorization"] = f"Basic {base64.b64encode(location.credentials.encode()).decode('ascii')}"
    return headers


def _refused(response: http.client.HTTPResponse) -> str:
    if response.status in _REDIRECTIONS:
        there = (response.getheader("Location") or "nowhere")[:200]
        return f"the server points to {there!r}, and redirections are not followed: name the table where it is"
    return f"the server answered {response.status} {response.reason[:80]}"
