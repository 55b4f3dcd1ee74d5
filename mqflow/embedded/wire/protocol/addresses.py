"""The address of a served queue manager: a Unix socket or a TCP port. This file only parses; `client.dial` connects."""

import contextlib
import ipaddress
from pathlib import Path
from typing import Final

from msgspec import Struct

from mqflow.mqi.names import port_of

__all__ = ("Address", "AddressError", "TcpAddress", "UnixAddress", "is_loopback", "parse_address")

_DEFAULT_PORT: Final = 1414
_FORMS: Final = "unix:PATH, HOST:PORT or [IPV6]:PORT"


class AddressError(ValueError):
    """The text is not an address. The message shows the valid forms."""


class UnixAddress(Struct, frozen=True):
    """A socket in the file system."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)


class TcpAddress(Struct, frozen=True):
    """A host and a port."""

    host: str
    port: int = _DEFAULT_PORT

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


Address = UnixAddress | TcpAddress


def parse_address(text: str) -> Address:
    """Return the address of ``unix:PATH``, ``HOST``, ``HOST:PORT`` or ``[IPV6]:PORT``. Raises `AddressError`."""
    if text.startswith("unix:"):
        path = text.removeprefix("unix:")
        if not path:
            raise AddressError(f"{text!r} names no socket; an address is {_FORMS}.")
        return UnixAddress(Path(path))
    host, _, port = text.rpartition(":") if not text.endswith("]") else (text, "", "")
    if ":" not in text:
        host, port = text, str(_DEFAULT_PORT)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    number = port_of(port or str(_DEFAULT_PORT))
    if number is None or not _is_host(host):
        raise AddressError(f"{text!r} is not an address; an address is {_FORMS}.")
    return TcpAddress(host, number)


def _is_host(text: str) -> bool:
    """Return whether the text can be the name or the address of a host. The system must be able to look up a name."""
    if any(c.isspace() or c in "/[]" for c in text):
        return False
    with contextlib.suppress(ValueError):
        return bool(ipaddress.ip_address(text) if ":" in text else text.encode("idna"))
    return False


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the host. A name other than ``localhost`` can belong to any machine."""
    if host == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False
