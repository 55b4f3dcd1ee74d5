"""`python -m benchmarks.landing`: the lander with and without its marker, its lanes, and the cost of decision records.

Both sides of a ratio run in turns, and the best rate of several rounds is used. A lander without its marker is not safe; it
only shows the cost of the marker. With `--call-us`, each get waits the given time, like a get over a network. Rates are per
second of processor time, because other processes change this figure less. Rates of lanes that wait are per second of the clock.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event
from time import perf_counter, process_time
from typing import Any

import anyio

from benchmarks.transports import embedded, fill
from mqflow import App
from mqflow.app.config.settings import Settings
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.journal import Journal, Kind
from mqflow.journal.segments import Written
from mqflow.landing.lander import Lander, LanderOptions
from mqflow.landing.recovery import STATE_QUEUE, Marker
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.policy.poison.disposition_record import DISPOSITION_QUEUE
from mqflow.verbs import Connection, GetOptions, Got
from mqflow.world import SYSTEM_CLOCK, THREADS

QUEUE = "ORDERS.IN"
BODY = b"x" * 300


class Unmarked(Lander):
    """A lander that commits without exchanging its marker."""

    def _commit(self, written: Written) -> None:
        self._connection.commit()
        self._marker = Marker(journal="", lane=self._lane.name, epoch=1, segment=written.number)


class Slow:
    """A connection whose gets wait, like those of a client; during the wait other threads run."""

    def __init__(self, inner: Connection, call_us: float) -> None:
        self._inner = inner
        self._call_s = call_us / 1_000_000
        self._never = Event()

    def __getattr__(self, name: str) -> Any:
        if name == "get_many":  # a client has no such verb, and one wait for many gets would distort the comparison
            raise AttributeError(name)
        return getattr(self._inner, name)

    def get(self, handle: Any, options: GetOptions) -> Got | None:
        self._never.wait(self._call_s)
        return self._inner.get(handle, options)


@contextmanager
def filled(messages: int) -> Iterator[EmbeddedQueueManager]:
    """Yield a queue manager in memory with a full queue."""
    with embedded(QUEUE, STATE_QUEUE, DISPOSITION_QUEUE) as queue_manager:
        fill(queue_manager, QUEUE, messages, MessageDescriptor(format="MQSTR"), BODY)
        yield queue_manager


def landed(
    messages: int,
    *,
    make: Callable[..., Lander] = Lander,
    lanes: int = 1,
    batch: int = 2_000,
    call_us: float = 0,
    where: str | None = None,
) -> float:
    """Return the messages that the lander lands a second."""
    with filled(messages) as queue_manager, tempfile.TemporaryDirectory(dir=where) as folder:
        journal = Journal.create(Path(folder) / "journal")

        def work(number: int) -> None:
            inner = queue_manager.connect()
            connection: Any = Slow(inner, call_us) if call_us else inner
            lane = journal.add_lane(f"L{number}", Kind.PAYLOAD, queue=QUEUE, queue_manager="QM1")
            options = LanderOptions(batch=batch, linger_ms=0)
            lander = make(connection, journal, lane, options, clock=SYSTEM_CLOCK, stopping=lambda: True)
            lander.open()
            while not lander.idle:
                lander.land()

        clock = perf_counter if call_us else process_time
        started = clock()
        running = [THREADS.start(partial(work, number), f"lane {number}") for number in range(lanes)]
        for thread in running:
            thread.join()
        took = clock() - started
        rows = sum(segment.rows for lane in journal.lanes() for segment in lane.all_segments())
        assert messages == rows, f"{rows} of {messages} landed"
        return messages / took


def handled(messages: int, *, recorded: bool) -> float:
    """Return the messages that a listener with an empty handler handles a second."""
    with filled(messages) as queue_manager:
        done = 0
        app = App(settings=Settings(disposition_queue=DISPOSITION_QUEUE if recorded else ""))

        @app.listener(QUEUE, unit_of_work=32)
        async def handle(_body: bytes) -> None:
            nonlocal done
            done += 1

        async def run() -> float:
            started = process_time()
            async with app.running(queue_manager):
                while done < messages:  # noqa: ASYNC110 - an event would take time in the handler for each message
                    await anyio.sleep(0.005)
            return messages / (process_time() - started)

        return anyio.run(run)


def compared(title: str, goal: str, sides: tuple[Callable[[], float], Callable[[], float]], rounds: int) -> None:
    """Measure both sides in turns and print the ratio of their best rates."""
    best = [0.0, 0.0]
    for _ in range(rounds):
        for at, side in enumerate(sides):
            best[at] = max(best[at], side())
    print(f"{title}: {best[0]:,.0f} / {best[1]:,.0f} a second = {best[0] / best[1]:.2f} ({goal})", flush=True)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.landing", description=__doc__)
    parser.add_argument("--messages", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--call-us", type=float, default=50)
    parser.add_argument("--folder", help="the folder of the journal; with /dev/shm the disk has no effect")
    given = parser.parse_args(arguments)
    few = max(given.messages // 4, 1)
    rounds = given.rounds
    land = partial(landed, given.messages, where=given.folder)
    slow = partial(landed, few, call_us=given.call_us, where=given.folder)
    compared("with / without the marker, 2,000 a segment", "goal 0.9", (land, partial(land, make=Unmarked)), rounds)
    small = partial(land, batch=250)
    compared("with / without the marker, 250 a segment", "no goal", (small, partial(small, make=Unmarked)), rounds)
    wait = f"each get waits {given.call_us:g} us"
    compared(f"2 lanes / 1 lane, {wait}", "goal 1.6", (partial(slow, lanes=2), slow), rounds)
    compared(f"4 lanes / 1 lane, {wait}", "no goal", (partial(slow, lanes=4), slow), rounds)
    consume = partial(handled, given.messages)
    compared(
        "records of decisions on / off", "no goal", (partial(consume, recorded=True), partial(consume, recorded=False)), rounds
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
