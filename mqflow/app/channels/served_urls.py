"""The URLs of queue managers that are served over TCP: ``embedded+tls://host:1414,other:1414/QM1?ca=ca.pem``.

If a URL has several addresses, they belong to an active queue manager and its standby: a client tries them in turn. The user
and the password are in the settings, because logs show URLs. This file makes no connection.
"""

from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

from msgspec import Struct

from mqflow.app.errors import ConfigurationError, shown_name, shown_url
from mqflow.embedded.wire.protocol.addresses import AddressError, TcpAddress, is_loopback, parse_address
from mqflow.mqi.names import is_object_name

__all__ = ("SERVED_FORMS", "SERVED_SCHEMES", "ServedAt", "served_at")

SERVED_SCHEMES: Final = frozenset({"embedded+tcp", "embedded+tls"})
SERVED_FORMS: Final = (
    "embedded+tls://HOST:PORT[,HOST:PORT]/NAME[?ca=FILE&cert=FILE&key=FILE] or embedded+tcp://... (on this machine)"
)


class ServedAt(Struct, frozen=True, kw_only=True):
    """The name and the addresses of a queue manager that is served over TCP."""

    queue_manager: str
    addresses: tuple[TcpAddress, ...]
    tls: bool
    #: The file with the certificate authority of the server; None for the authorities of the operating system.
    authority: Path | None = None
    #: The files with the client's certificate and its key; None for a user with a password.
    certificate: tuple[Path, Path] | None = None


def served_at(url: str) -> ServedAt:
    """Return the parts of the URL. Raises `ConfigurationError`, with the accepted form, if the URL has another form."""
    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise ConfigurationError(
            f"{parts.scheme}://...: a URL must not have the user or the password, because logs show URLs: set user and "
            "password_file."
        )
    query = parse_qs(parts.query, keep_blank_values=True)
    files = {name: query.pop(name)[-1] for name in ("ca", "cert", "key") if name in query}
    tls = parts.scheme == "embedded+tls"
    if query or (files and not tls):
        unknown = ", ".join(sorted(query) or files)
        raise ConfigurationError(f"{shown_url(url)!r}: {unknown} is not known in such a URL. It is {SERVED_FORMS}.")
    if ("cert" in files) != ("key" in files):
        raise ConfigurationError(f"{shown_url(url)!r}: cert and key belong together. A URL is {SERVED_FORMS}.")
    name = parts.path.removeprefix("/")
    if not is_object_name(name):
        raise ConfigurationError(
            f"{shown_url(url)!r}: {shown_name(name)} cannot be the name of a queue manager. A URL is {SERVED_FORMS}."
        )
    try:
        addresses = tuple(_tcp(text) for text in parts.netloc.split(","))
    except AddressError as error:
        raise ConfigurationError(f"{shown_url(url)!r}: {error} A URL is {SERVED_FORMS}.") from error
    if not tls and (others := [address.host for address in addresses if not is_loopback(address.host)]):
        raise ConfigurationError(
            f"{shown_url(url)!r}: {', '.join(others)} may be another machine, and without TLS everybody on the network can "
            f"read passwords and messages: use embedded+tls. A URL is {SERVED_FORMS}."
        )
    return ServedAt(
        queue_manager=name,
        addresses=addresses,
        tls=tls,
        authority=Path(files["ca"]) if files.get("ca") else None,
        certificate=(Path(files["cert"]), Path(files["key"])) if "cert" in files else None,
    )


def _tcp(text: str) -> TcpAddress:
    address = parse_address(text)
    if not isinstance(address, TcpAddress):
        raise AddressError(f"{text!r} is a socket in the file system: embedded+unix:PATH.")
    return address
