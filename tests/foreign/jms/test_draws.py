"""IBM's JMS classes and mqflow choose entries of the same channel table: the weights are compared over many draws.

The addresses are sockets that close each connection at once. So a program tries all entries of its table, and each attempt
leaves its place in a list.
"""

import json
import selectors
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Final

import pytest

from mqflow.policy.channels.candidates import Preference, candidates
from mqflow.policy.channels.table_json import parse
from tests.foreign.jms.program import Program
from tests.long import usually

pytestmark = pytest.mark.xdist_group("jms")  # one worker fetches, compiles and starts the program

DRAWS: Final = usually(300, long=10_000)
#: The share of a first place may be wrong by five standard deviations of that many draws.
TOLERANCE: Final = 5 * 0.5 / DRAWS**0.5
_RESET: Final = struct.pack("ii", 1, 0)


class Closing:
    """Sockets that close each connection at once, and the order of these connections."""

    def __init__(self, count: int) -> None:
        self.tried: list[int] = []
        self.sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
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
                    self.tried.append(place)
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                    connection.close()

    def close(self) -> None:
        self._end.send(b".")
        for each in (*self.sockets, self._end):
            each.close()


@contextmanager
def closing_sockets(count: int) -> Iterator[Closing]:
    closing = Closing(count)
    thread = threading.Thread(target=closing.serve)
    thread.start()
    try:
        yield closing
    finally:
        closing.close()
        thread.join()


def table(ports: list[int], weights: list[int], affinity: str) -> str:
    """Return a JSON table: entries with these weights, for the group QMS. Their names are in the reverse order."""
    return json.dumps({
        "channel": [
            {
                "name": f"CHANNEL.{9 - place}",
                "type": "clientConnection",
                "clientConnection": {"queueManager": "QMS", "connection": [{"host": "127.0.0.1", "port": port}]},
                "connectionManagement": {"clientWeight": weight, "affinity": affinity},
            }
            for place, (port, weight) in enumerate(zip(ports, weights, strict=True))
        ]
    })  # fmt: skip


def theirs(java: Program, path: Path, weights: list[int], affinity: str, draws: int) -> list[tuple[int, ...]]:
    """Return the orders in which IBM's classes try the entries."""
    with closing_sockets(len(weights)) as closing:
        path.write_text(table(closing.ports, weights, affinity))
        said = java.run(1, "app", "secret", f"draws:{draws}:*QMS:{path.as_uri()}")
    print(said, len(closing.tried))
    tried = closing.tried
    return [tuple(tried[at : at + len(weights)]) for at in range(0, len(tried), len(weights))]


def ours(weights: list[int], affinity: str, draws: int) -> list[tuple[int, ...]]:
    """Return the orders of mqflow."""
    read = parse(table(list(range(1, len(weights) + 1)), weights, affinity).encode(), "ccdt.json")
    start, random = Preference(table=read), Random(18)
    return [
        tuple(each.channel.position for each in candidates(start, "*QMS", random=random.random, host="here"))
        for _ in range(draws)
    ]


def first_places(orders: list[tuple[int, ...]]) -> list[float]:
    counted = Counter(order[0] for order in orders)
    return [counted[place] / len(orders) for place in range(len(orders[0]))]


def test_draw(java: Program, tmp_path: Path) -> None:
    for affinity in ("none", "preferred"):
        for weights in ([2, 4, 14], [0, 3, 0, 1]):
            found = theirs(java, tmp_path / "ccdt.json", weights, affinity, 100)
            print(affinity, weights, Counter(found).most_common(8), Counter(ours(weights, affinity, 100)).most_common(8))
    assert 0
