"""A journal beside a queue manager for the tests of the lander, landers with and without a marker, and their results."""

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mqflow.folders import Folder
from mqflow.journal import Journal, Kind, Lane, read_table
from mqflow.journal.segments import Written, publish
from mqflow.landing.lander import Landed, Lander, LanderOptions
from mqflow.landing.recovery import STATE_QUEUE, Marker
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, OpenOption, Persistence, PutOption
from mqflow.verbs import Connection, GetOptions
from mqflow.world import Clock

__all__ = (
    "BROWSE", "GET", "MODES", "QUEUE", "STATE_QUEUE", "Forgetful", "Unmarked", "bodies", "column", "land_all", "lander_on",
    "lane_of", "left", "put", "steal",
)  # fmt: skip

QUEUE = "ORDERS.IN"
GET = LanderOptions(batch=7, linger_ms=0, claim_wait_ms=0)
BROWSE = LanderOptions(batch=7, linger_ms=0, claim_wait_ms=0, browse_first=True)
MODES = {"get": GET, "browse": BROWSE}


def lander_on(
    connection: Connection,
    folder: Folder | Path,
    clock: Clock,
    options: LanderOptions = GET,
    make: Callable[..., Lander] = Lander,
    queue: str = QUEUE,
) -> Lander:
    journal = Journal.create(folder)
    lane = journal.add_lane(queue, Kind.PAYLOAD, queue=queue, queue_manager=connection.queue_manager_name)
    return make(connection, journal, lane, options, clock=clock, stopping=lambda: True)  # never waits


def land_all(lander: Lander) -> list[Landed]:
    """Land until the queue is empty."""
    found = lander.open()
    done = [found] if found else []
    while not lander.idle:
        landed = lander.land()
        if landed is not None:
            done.append(landed)
    return done


class Unmarked(Lander):
    """A control: without the marker, pending segments are published, because they were probably committed."""

    def _claim(self) -> None:
        self._marker = Marker(journal="", lane=self._lane.name, epoch=1, segment=self._lane.last)

    def _recover(self) -> Landed | None:
        for name in self._lane.pending():
            number, owner = (int(part) for part in name.removesuffix(".pend").split("-"))
            data = self._lane.folder.read(name)
            publish(self._lane.folder, Written(number, 7, zlib.crc32(data), len(data), owner))
        self._claim()
        return None

    def _commit(self, written: Written) -> None:
        self._connection.commit()
        self._marker = Marker(journal="", lane=self._lane.name, epoch=1, segment=written.number)


class Forgetful(Unmarked):
    """Another control: pending segments are dropped, because they were probably backed out."""

    def _recover(self) -> Landed | None:
        self._lane.drop_pending()
        self._claim()
        return None


def lane_of(folder: Folder | Path, queue: str = QUEUE) -> Lane:
    return Journal.open(folder).lane(queue)


def bodies(folder: Folder | Path, queue: str = QUEUE) -> list[int]:
    """Return the numbers that were landed, in the order of the journal."""
    return [int(body) for body in column(folder, "body", queue)]


def column(folder: Folder | Path, name: str, queue: str = QUEUE) -> list[Any]:
    segments = lane_of(folder, queue).all_segments()
    return [value for segment in segments for value in read_table(segment, Kind.PAYLOAD, [name])[name].to_pylist()]


def put(connection: Connection, first: int, count: int, queue: str = QUEUE) -> None:
    handle = connection.open(queue, OpenOption.OUTPUT)
    descriptor = MessageDescriptor(persistence=Persistence.PERSISTENT)
    for number in range(first, first + count):
        connection.put(handle, descriptor, b"%d" % number, PutOption.NO_SYNCPOINT)
    connection.close(handle)


def left(connection: Connection, queue: str = QUEUE) -> list[int]:
    """Get the messages that are still on the queue, and return their numbers."""
    handle = connection.open(queue, OpenOption.INPUT_SHARED)
    found: list[int] = []
    while got := connection.get(handle, GetOptions()):
        found.append(int(got.body))
    connection.close(handle)
    return found


def steal(connection: Connection, wanted: Callable[[int], bool], queue: str = QUEUE) -> list[int]:
    """Get the messages with these numbers, as another consumer does; return the numbers."""
    handle = connection.open(queue, OpenOption.BROWSE | OpenOption.INPUT_SHARED)
    loot: list[int] = []
    while got := connection.get(handle, GetOptions(options=GetOption.BROWSE_NEXT)):
        if wanted(int(got.body)) and connection.get(handle, GetOptions(options=GetOption.MSG_UNDER_CURSOR)) is not None:
            loot.append(int(got.body))
    connection.close(handle)
    return loot
