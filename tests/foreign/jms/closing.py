"""Sockets that close each connection at once: programs try one address after the other, and leave a trace of their attempts."""

import selectors
import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Final

__all__ = ("Closing", "closing_sockets")

_RESET: Final = struct.pack("ii", 1, 0)


class Closing:
    """Sockets at these ports; 0 means any free port."""

    def __init__(self, host: str, ports: Sequence[int]) -> None:
        #: The socket and the time of each connection, in order.
        self.tried: list[tuple[int, float]] = []
        self.sockets = [socket.create_server((host, port)) for port in ports]
        #: Is set after each connection.
        self.attempted = threading.Event()
        self._ends, self._end = socket.socketpair()

    @property
    def ports(self) -> list[int]:
        return [each.getsockname()[1] for each in self.sockets]

    def serve(self) -> None:
        """Accept until `close`."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._ends, selectors.EVENT_READ)
            for each in self.sockets:
                selector.register(each, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj is self._ends:
                        return
                    place = self.sockets.index(key.fileobj)  # type: ignore[arg-type]
                    connection, _ = self.sockets[place].accept()
                    self.tried.append((place, time.monotonic()))
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                    connection.close()
                    self.attempted.set()

    def waits(self, begin: float, count: int) -> list[float]:
        """Return the times in seconds between `begin` and this number of connections, when they have come.

        Raises `AssertionError` if a connection does not come for a minute: no wait between two passes takes as long.
        """
        while len(self.tried) < count:
            assert self.attempted.wait(60), f"no connection came for a minute after {self.tried}"
            self.attempted.clear()
        times = [begin, *(at for _, at in self.tried[:count])]
        return [after - before for before, after in pairwise(times)]

    def stop(self) -> None:
        self._end.send(b".")

    def close(self) -> None:
        for each in (*self.sockets, self._end, self._ends):
            each.close()


@contextmanager
def closing_sockets(*ports: int, host: str = "127.0.0.1") -> Iterator[Closing]:
    """Serve these ports inside the block."""
    closing = Closing(host, ports)
    thread = threading.Thread(target=closing.serve)
    thread.start()
    try:
        yield closing
    finally:
        closing.stop()
        thread.join()
        closing.close()
