"""The streams that transport frames: a plain socket, or a socket with TLS, with the same few methods.

Two threads can send a heartbeat and a reply while a third thread receives. OpenSSL does not allow this on one connection. So
TLS works on buffers under a lock, and the threads share only the socket itself. This module knows no frame.
"""

import contextlib
import socket
import ssl
import threading
from typing import Any, Final, Protocol

__all__ = ("Stream", "TlsStream")

_READ_BYTES: Final = 64 * 1024


class Stream(Protocol):
    """A connected stream."""

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        """Receive bytes like `socket.recv`."""
        ...

    def send(self, data: bytes | bytearray | memoryview, flags: int = 0, /) -> int:
        """Send bytes like `socket.send`."""
        ...

    def setsockopt(self, level: int, option: int, value: int | bytes, /) -> None:
        """Set an option like `socket.setsockopt`."""

    def fileno(self) -> int:
        """Return the file descriptor, for a wait."""
        ...

    def shutdown(self, how: int, /) -> None:
        """Shut the stream down like `socket.shutdown`."""

    def close(self) -> None:
        """Close the stream like `socket.close`."""


class TlsStream:
    """A socket with TLS. Call `handshake` first: `send` and `recv` do not make it."""

    def __init__(self, raw: socket.socket, context: ssl.SSLContext, *, server_side: bool, host: str | None = None) -> None:
        self._raw: Final = raw
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=server_side, server_hostname=host)
        self._lock = threading.Lock()
        self._flushing = threading.Lock()
        self._unsent = b""
        self._shaken = False

    def handshake(self) -> None:
        """Make the handshake. Raises `ssl.SSLError` if the peer's certificate is wrong, and `OSError` if the peer is gone."""
        while not self._shaken:
            try:
                with self._lock:
                    self._tls.do_handshake()
                    self._shaken = True
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError:
                with contextlib.suppress(OSError):
                    self._flush(0)  # sends the alert, with the reason for the peer
                raise
            self._flush(0)
            if not self._shaken:
                self._feed(0)

    @property
    def peer_names(self) -> list[str]:
        """The common names in the peer's certificate; empty if the peer showed no certificate."""
        # Any: getpeercert() has a different type for each field.
        certificate: dict[str, Any] = self._tls.getpeercert() or {}
        fields: list[tuple[str, str]] = [field for group in certificate.get("subject", ()) for field in group]
        return [value for key, value in fields if key == "commonName"]

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        """Return bytes from the peer; no bytes at the end of the stream."""
        while True:
            with self._lock:
                try:
                    return self._tls.read(bufsize)
                except ssl.SSLWantReadError:
                    pass
                except ssl.SSLZeroReturnError:
                    return b""
                except ssl.SSLEOFError:  # the peer ended without a TLS close; `Frames` notices an incomplete frame
                    return b""
            if not self._feed(flags):
                return b""

    def send(self, data: bytes | bytearray | memoryview, flags: int = 0, /) -> int:
        """Send the bytes. Accepts all of them: the next call sends the bytes for which the socket has no room."""
        with self._lock:
            self._tls.write(data)
        try:
            self._flush(flags)
        except BlockingIOError:
            if not flags & socket.MSG_DONTWAIT:  # if the send must not block, the rest stays in the buffer
                raise
        return len(data)

    def setsockopt(self, level: int, option: int, value: int | bytes, /) -> None:
        """Set an option like `socket.setsockopt`."""
        self._raw.setsockopt(level, option, value)

    def fileno(self) -> int:
        """Return the file descriptor of the socket."""
        return self._raw.fileno()

    def shutdown(self, how: int, /) -> None:
        """Shut the socket down without TLS's closing message, because this breaks the connection off."""
        self._raw.shutdown(how)

    def close(self) -> None:
        """Close the socket."""
        self._raw.close()

    def _feed(self, flags: int) -> bool:
        more = self._raw.recv(_READ_BYTES, flags)
        with self._lock:
            if more:
                self._incoming.write(more)
            else:
                self._incoming.write_eof()
        return bool(more)

    def _flush(self, flags: int) -> None:
        """Send the output of TLS, in order. If the call must not block, the bytes that do not fit stay in the buffer."""
        with self._flushing:
            while True:
                with self._lock:
                    due = self._unsent + self._outgoing.read()
                if not due:
                    return
                self._unsent = due
                self._unsent = due[self._raw.send(due, flags) :]
