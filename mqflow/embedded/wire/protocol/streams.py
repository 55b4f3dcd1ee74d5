"""What frames travel over: a socket as it is, or one behind TLS, as the same small set of calls.

A heartbeat and an answer may be sent from two threads while a third receives, which OpenSSL does not allow on one connection:
so TLS works on buffers under a lock, and only the socket itself is shared. Knows no frame.
"""

import socket
import ssl
import threading
from typing import Final, Protocol

__all__ = ("Stream", "TlsStream")

_READ_BYTES: Final = 64 * 1024


class Stream(Protocol):
    """A connected stream."""

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        """As `socket.recv`."""
        ...

    def send(self, data: bytes | bytearray | memoryview, flags: int = 0, /) -> int:
        """As `socket.send`."""
        ...

    def setsockopt(self, level: int, option: int, value: int | bytes, /) -> None:
        """As `socket.setsockopt`."""
        ...

    def fileno(self) -> int:
        """What to wait for."""
        ...

    def shutdown(self, how: int, /) -> None:
        """As `socket.shutdown`."""
        ...

    def close(self) -> None:
        """As `socket.close`."""
        ...


class TlsStream:
    """A socket behind TLS. The handshake is made by the first call that sends or receives."""

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
        """Make the handshake. Raises `ssl.SSLError` where the peer is not who it should be, `OSError` where it is gone."""
        while not self._shaken:
            with self._lock:
                try:
                    self._tls.do_handshake()
                    self._shaken = True
                except ssl.SSLWantReadError:
                    pass
            self._flush(0)
            if not self._shaken:
                self._feed(0)

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        """Return what the peer sent; empty at the end of the stream."""
        while True:
            with self._lock:
                try:
                    return self._tls.read(bufsize)
                except ssl.SSLWantReadError:
                    pass
                except ssl.SSLZeroReturnError:
                    return b""
                except ssl.SSLEOFError:  # the peer is gone without a goodbye: a frame it cut is noticed by who reads frames
                    return b""
            if not self._feed(flags):
                return b""

    def send(self, data: bytes | bytearray | memoryview, flags: int = 0, /) -> int:
        """Send it; all of it is taken, and what the socket has no room for goes with the next call."""
        with self._lock:
            self._tls.write(data)
        try:
            self._flush(flags)
        except BlockingIOError:
            if not flags & socket.MSG_DONTWAIT:  # else it is taken all the same
                raise
        return len(data)

    def setsockopt(self, level: int, option: int, value: int | bytes, /) -> None:
        """As `socket.setsockopt`."""
        self._raw.setsockopt(level, option, value)

    def fileno(self) -> int:
        """The socket's."""
        return self._raw.fileno()

    def shutdown(self, how: int, /) -> None:
        """As `socket.shutdown`, without TLS's goodbye: who ends like this was not asked."""
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
        """Send what TLS has made, in order. Without blocking, what does not fit waits."""
        with self._flushing:
            while True:
                with self._lock:
                    due = self._unsent + self._outgoing.read()
                if not due:
                    return
                self._unsent = due
                self._unsent = due[self._raw.send(due, flags) :]
