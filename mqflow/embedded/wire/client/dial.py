"""Connects to the address of a served queue manager. This file knows sockets and TLS, but no verb."""

import socket
import ssl
from collections.abc import Callable

from mqflow.embedded.wire.protocol.addresses import Address, UnixAddress
from mqflow.embedded.wire.protocol.frames import time_limit
from mqflow.embedded.wire.protocol.streams import Stream, TlsStream

__all__ = ("Dial", "dial")

Dial = Callable[[Address, ssl.SSLContext | None, float], Stream]
"""A function like `dial`: connects to an address, within a time limit in seconds."""


def dial(address: Address, tls: ssl.SSLContext | None, timeout_s: float) -> Stream:
    """Return a stream to the address. Raises `OSError` (also `ssl.SSLError`) if the connection fails."""
    if isinstance(address, UnixAddress):
        unix = socket.socket(socket.AF_UNIX)
        try:
            # A suspended process accepts no connection. When its backlog is full, a connect would wait for ever.
            unix.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, time_limit(timeout_s))
            unix.connect(str(address.path))
        except BaseException:
            unix.close()
            raise
        return unix
    stream = socket.create_connection((address.host, address.port), timeout_s)
    try:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)  # send each request immediately: it is one small packet
        secured = None if tls is None else TlsStream(stream, tls, server_side=False, host=address.host)
        if secured is not None:
            secured.handshake()
        stream.settimeout(None)
    except BaseException:
        stream.close()
        raise
    return stream if secured is None else secured
