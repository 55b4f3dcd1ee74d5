"""From a URL of a queue manager that is served over TCP to its addresses: ``embedded+tls://host:1414,other:1414/QM1?ca=ca.pem``.

Several addresses are an active queue manager and its standby, asked in turn. Knows the grammar; reaches nothing. Who connects
is said by settings, because URLs are shown and logged.
"""

from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

from msgspec import Struct

from mqflow.app.errors import ConfigurationError, shown_url
from mqflow.embedded.wire.protocol.addresses import AddressError, TcpAddress, is_loopback, parse_address
from mqflow.mqi.names import is_object_name

__all__ = ("SERVED_FORMS", "SERVED_SCHEMES", "ServedAt", "served_at")

SERVED_SCHEMES: Final = frozenset({"embedded+tcp", "embedded+tls"})
SERVED_FORMS: Final = "embedded+tls://HOST:PORT[,HOST:PORT]/NAME[?ca=FILE] or embedded+tcp://... (on this machine)"


class ServedAt(Struct, frozen=True, kw_only=True):
    """Where a queue manager is served."""

    queue_manager: str
    addresses: tuple[TcpAddress, ...]
    tls: bool
    #: The file of the authority that its certificate comes from; None for those that the system trusts.
    authority: Path | None = None


def served_at(url: str) -> ServedAt:
    """Return what the URL says. Raises `ConfigurationError` with the form there is."""
    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise ConfigurationError(
            f"{parts.scheme}://...: who connects is not part of a URL, which is shown and logged: set user and password_file."
        )
    query = parse_qs(parts.query, keep_blank_values=True)
    authority = query.pop("ca", [""])[-1]
    tls = parts.scheme == "embedded+tls"
    if query or (authority and not tls):
        unknown = ", ".join(sorted(query)) or "ca"
        raise ConfigurationError(f"{shown_url(url)!r}: {unknown} is not known in such a URL. It is {SERVED_FORMS}.")
    name = parts.path.removeprefix("/")
    if not is_object_name(name):
        raise ConfigurationError(
            f"{shown_url(url)!r}: {name!r} cannot be the name of a queue manager. A URL is {SERVED_FORMS}."
        )
    try:
        addresses = tuple(_tcp(text) for text in parts.netloc.split(","))
    except AddressError as error:
        raise ConfigurationError(f"{shown_url(url)!r}: {error} A URL is {SERVED_FORMS}.") from error
    if not tls and (others := [address.host for address in addresses if not is_loopback(address.host)]):
        raise ConfigurationError(
            f"{shown_url(url)!r}: {', '.join(others)} may be another machine, and without TLS passwords and messages go there "
            f"for all to read: use embedded+tls. A URL is {SERVED_FORMS}."
        )
    return ServedAt(queue_manager=name, addresses=addresses, tls=tls, authority=Path(authority) if authority else None)


def _tcp(text: str) -> TcpAddress:
    address = parse_address(text)
    if not isinstance(address, TcpAddress):
        raise AddressError(f"{text!r} is a socket in the file system: embedded+unix:PATH.")
    return address
