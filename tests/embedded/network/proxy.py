"""A wire between a client and a served queue manager. It passes on every byte, until a test makes it fail."""

import contextlib
import socket
import struct
import threading
from enum import Enum
from typing import Final, Self

__all__ = ("Break", "Wire")

_CHUNK_BYTES: Final = 65536
_RESET: Final = struct.pack("ii", 1, 0)


class Break(Enum):
    """How a wire fails, from the next request on."""

    LOST_REQUEST = "what the client sends is lost, what the server sends arrives"
    LOST_ANSWER = "what the client sends arrives, what the server sends is lost"
    PARTITION = "nothing arrives any more, neither end notices"
    PARTITION_AFTERWARDS = "the request still arrives, then nothing does"
    RESET = "the request arrives, then both ends see a reset"
    CUT = "two bytes of the answer arrive, then the end of the stream"
    TRICKLE = "what the server sends arrives a byte at a time, and the last byte of an answer never"


class Wire:
    """Listens on this machine, and passes each connection to `port` on to the port of the server."""

    def __init__(self, server_port: int, *, byte_s: float = 0.35) -> None:
        self._server_port = server_port
        self._byte_s = byte_s
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: Final = int(self._listener.getsockname()[1])
        self._broken: Break | None = None
        self._open: list[socket.socket] = []
        #: The number of answers that trickled up to the last byte but one: their clients did not give up before.
        self.trickled_out = 0
        self._start(self._accept)

    def fail(self, how: Break) -> None:
        """Make the wire fail from now on."""
        self._broken = how

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _start(self, target: object, *arguments: object) -> None:
        assert callable(target)
        threading.Thread(target=target, args=arguments, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the end
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._server_port))
                self._open += [client, server]
                self._start(self._requests, client, server)
                self._start(self._answers, server, client)

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            cut_off = False
            while data := client.recv(_CHUNK_BYTES):
                how = self._broken
                if cut_off or how in {Break.LOST_REQUEST, Break.PARTITION}:
                    continue
                server.sendall(data)
                cut_off = how is Break.PARTITION_AFTERWARDS and any(data)  # a heartbeat is no request
                if how is Break.RESET and any(data):
                    self._reset(client, server)
                    return
            if self._broken not in {Break.PARTITION, Break.PARTITION_AFTERWARDS}:
                server.shutdown(socket.SHUT_WR)

    def _answers(self, server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            answered = False
            while data := server.recv(_CHUNK_BYTES):
                how = self._broken
                if answered or how in {Break.LOST_ANSWER, Break.PARTITION, Break.PARTITION_AFTERWARDS, Break.RESET}:
                    continue
                if how is Break.CUT and any(data):
                    client.sendall(data[:2])
                    break
                if how is Break.TRICKLE:
                    answered = any(data)
                    self._trickle(client, data[:-1] if answered else data)
                    self.trickled_out += answered
                else:
                    client.sendall(data)
            if self._broken not in {Break.LOST_ANSWER, Break.PARTITION, Break.PARTITION_AFTERWARDS}:
                client.shutdown(socket.SHUT_WR)

    def _trickle(self, client: socket.socket, data: bytes) -> None:
        for at in range(len(data)):
            client.sendall(data[at : at + 1])
            threading.Event().wait(self._byte_s)

    @staticmethod
    def _reset(*sockets: socket.socket) -> None:
        for each in sockets:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RD)  # wakes the other thread, which then releases the socket
            each.close()
