"""Serves the HTTP pages of a running application, in a thread with its own event loop.

So a probe gets an answer even if a handler blocks the application's event loop, and the application can run on trio.
"""

import ipaddress
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from mqflow.app.errors import ConfigurationError
from mqflow.cli.text.terminal import note
from mqflow.cli.watching.control import Figures, Source
from mqflow.mqi.names import port_of
from mqflow.world import SYSTEM_WORLD, World

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ("LOOPBACK", "host_named", "http_address", "refusing_other_hosts", "serving", "serving_pages")

LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
"""The names for this machine on its loopback interface."""

_END_S: Final = 2.0
_FORBIDDEN: Final = 403


def http_address(text: str) -> tuple[str, int]:
    """Return host and port of "127.0.0.1:8080", "[::1]:8080" or "8080". A port alone is on the loopback interface.

    Raises `ConfigurationError` for any other text.
    """
    host, _, port = text.rpartition(":")
    if (number := port_of(port)) is None:
        raise ConfigurationError(
            f"--http {text!r}: give HOST:PORT or PORT, for example 127.0.0.1:8080. The port is 0 to 65535."
        )
    return (host.removeprefix("[").removesuffix("]") or "127.0.0.1", number)


def host_named(header: str) -> str:
    """Return the host in a Host header, in lower case and without the port; empty if the header has none."""
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""


def refusing_other_hosts(text: str, pages: "ASGIApp") -> "ASGIApp":
    """Return the pages for the address `text`. On the loopback interface, they refuse each request that names another host.

    By DNS rebinding, a web site can let the browser of a user read pages of the user's machine. Such a request has the host
    name of the web site. A request with an IP address as its host cannot come from there, and neither can one without a host.

    Pages on another interface answer to every name: everyone who can reach them can read them anyway. Probes of Kubernetes use
    the IP address of the pod, and Prometheus uses any name.
    """
    from starlette.datastructures import Headers  # noqa: PLC0415 - an extra, which the pages need too
    from starlette.responses import PlainTextResponse  # noqa: PLC0415 - as above

    if not _is_loopback(http_address(text)[0]):
        return pages

    async def guarded(scope: "Scope", receive: "Receive", send: "Send") -> None:
        host = host_named(Headers(scope=scope).get("host", "")) if scope["type"] == "http" else ""
        if not host or _is_loopback(host) or _is_address(host):
            await pages(scope, receive, send)
            return
        why = f"These pages do not answer to the host name {host}. They answer to localhost and to IP addresses.\n"
        await PlainTextResponse(why, _FORBIDDEN)(scope, receive, send)

    return guarded


def _is_loopback(host: str) -> bool:
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


@contextmanager
def serving(
    text: str, source: Source, figures: Figures, console: "ASGIApp | None" = None, world: World = SYSTEM_WORLD
) -> Iterator[int]:
    """Serve the pages in the block, and the console if there is one. Yield the port.

    Raises `ConfigurationError`, with the port, if a package is missing or the port cannot be used.
    """
    try:
        from mqflow.cli.watching.pages import pages  # noqa: PLC0415 - it needs the same extra
    except ImportError as error:
        text = f"--http needs starlette, uvicorn and prometheus-client ({error.name} is missing): pip install 'mqflow[http]'."
        raise ConfigurationError(text) from error
    guarded = refusing_other_hosts(text, pages(source, figures, console))
    with serving_pages(text, guarded, "Probes, metrics and status are on", world=world) as port:
        if console is not None:
            note(f"The console of the application is on {_url(text, port)}console/")
        yield port


@contextmanager
def serving_pages(
    text: str, pages: "ASGIApp", announcement: str, *, tls: tuple[Path, Path] | None = None, world: World = SYSTEM_WORLD
) -> Iterator[int]:
    """Serve the pages in the block, and yield the port. `tls` is a file with a certificate and a file with its key.

    Raises `ConfigurationError`, with the port, if uvicorn is missing, or if the port or a file of TLS cannot be used.
    """
    host, port = http_address(text)
    try:
        import uvicorn  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ConfigurationError(f"--http needs uvicorn ({error.name} is missing): pip install 'mqflow[http]'.") from error
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)  # a failed look-up is below 0
        raise ConfigurationError(f"--http {text}: port {port} of {host} cannot be used: {why}. Choose another port.") from error
    config = uvicorn.Config(
        pages,
        log_config=None,
        log_level="warning",
        access_log=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=1,
        server_header=False,
        ssl_certfile=tls[0] if tls else None,
        ssl_keyfile=tls[1] if tls else None,
    )
    try:
        config.load()
    except OSError as error:  # also for `SSLError`
        listening.close()
        raise ConfigurationError(f"The certificate or its key cannot be used: {error.strerror or error}.") from error
    server = uvicorn.Server(config)
    thread = world.runner.start(lambda: server.run(sockets=[listening]), "mqflow http")
    bound = int(listening.getsockname()[1])
    note(f"{announcement} {_url(text, bound, 'https' if tls else 'http')}")
    try:
        yield bound
    finally:
        server.should_exit = True
        thread.join(_END_S)
        listening.close()


def _url(text: str, port: int, scheme: str = "http") -> str:
    host, _ = http_address(text)
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/"
