"""The common part of all measured programs: arguments, publishers, the count of handled orders, and the printed sample.

Each program is a process of its own: `python -m benchmarks.peers.programs.NAME WORK MESSAGES WIDTH`. `load` puts messages.
`put` measures publishers, `consume` measures workers on a full queue, and `both` measures publishers and one worker. `late`
measures the time from put to handler at 500 messages a second. This module knows no peer.
"""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from cProfile import Profile
from threading import Lock
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from benchmarks.hotspots import Hotspot, dearest
from benchmarks.orders import BODY, Order, decode
from benchmarks.samples import cpu_s, cpu_s_of, rss_bytes

__all__ = ("ORDER", "QUEUE", "Measured", "Tally", "Threaded", "run", "run_with_threads")

ORDER: Final = decode(BODY)
QUEUE: Final = os.environ.get("PEER_QUEUE", "orders")
"""The queue of this run; each run has its own."""
_LOADERS: Final = 32
_LATE_PER_S: Final = 500


class Measured(Struct, frozen=True):
    """The sample of one process."""

    messages: int
    wall_s: float
    #: The processor time of the process, and of its server, during the measured part.
    cpu_s: float
    server_s: float
    rss_kb: int
    #: From the start of the process to the first handled message; 0 if the process handles no message.
    first_ms: float
    #: The memory that the process added during the later half of the messages, for each message.
    grown_bytes: float
    #: The time of each message from put to handler, in microseconds; only `late` measures it.
    late_us: list[float]
    #: The functions in which the time goes, if `PEER_PROFILE` asks for them: such a sample is slower.
    profile: list[Hotspot] = []


class Tally:
    """Counts handled messages, and measures from the first to the last, or from `start` to the last. Threads may call it."""

    def __init__(self, messages: int, *, late: bool = False) -> None:
        self._messages = messages
        self._late = late
        self._handled = 0
        self._first_at = 0.0
        self._half_bytes = 0
        self._began: tuple[float, float, float] | None = None
        self._late_us: list[float] = []
        self._lock = Lock()
        self._profile = Profile() if os.environ.get("PEER_PROFILE") else None

    def start(self) -> None:
        """Begin the measurement, unless it has begun."""
        if self._began is None:
            if self._profile is not None:
                self._profile.enable()
            self._began = (time.perf_counter(), cpu_s(), _server_s())

    def order(self, order: Order) -> None:
        """Count a handled order. The last order ends this process."""
        with self._lock:
            self._handled += 1
            if self._late:
                self._late_us.append((time.time_ns() - order.id) / 1_000)
            if self._handled == 1:
                self._first_at = time.time()
                self.start()
            if self._handled == self._messages // 2:
                self._half_bytes = rss_bytes()
            if self._handled == self._messages:
                self.end()

    def end(self) -> None:
        """Print the sample, and end this process without its usual end, which some peers delay for seconds."""
        assert self._began is not None
        began, own_s, server_s = self._began
        used_bytes = rss_bytes()
        sample = Measured(
            messages=self._messages,
            wall_s=time.perf_counter() - began,
            cpu_s=cpu_s() - own_s,
            server_s=_server_s() - server_s,
            rss_kb=used_bytes // 1_024,
            first_ms=(self._first_at - float(os.environ["PEER_STARTED"])) * 1e3 if self._first_at else 0.0,
            grown_bytes=(used_bytes - self._half_bytes) / (self._messages / 2) if self._half_bytes else 0.0,
            late_us=self._late_us,
            profile=[] if self._profile is None else dearest(self._profile, self._messages),
        )
        sys.stdout.write(msgspec.json.encode(sample).decode() + "\n")
        sys.stdout.flush()
        os._exit(0)


Publish = Callable[[Order], Awaitable[object]]
"""Puts an order, and returns when the server has it."""


def run(opened: Callable[[Tally | None, int], AbstractAsyncContextManager[Publish]]) -> None:
    """Do the work that the arguments name. `opened` connects, and listens with workers if it gets a tally."""
    work, messages, width = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    asyncio.run(_run(opened, work, messages, width))


async def _run(
    opened: Callable[[Tally | None, int], AbstractAsyncContextManager[Publish]], work: str, messages: int, width: int
) -> None:
    tally = Tally(messages, late=work == "late")
    listens = work in {"consume", "both", "late"}
    async with opened(tally if listens else None, width if work == "consume" else 1) as publish:
        if work == "late":
            await _paced(publish, messages)
        elif work != "consume":
            if work != "load":
                tally.start()
            publishers = width if work != "load" else _LOADERS
            await asyncio.gather(*(_several(publish, share) for share in _shares(messages, publishers)))
            if work == "put":
                tally.end()
        if listens:
            await asyncio.Event().wait()


async def _several(publish: Publish, messages: int) -> None:
    for _ in range(messages):
        await publish(ORDER)


async def _paced(publish: Publish, messages: int) -> None:
    began = time.perf_counter()
    for number in range(messages):
        await asyncio.sleep(began + number / _LATE_PER_S - time.perf_counter())
        await publish(replace(ORDER, id=time.time_ns()))


Threaded = tuple[Callable[[Order], object], Callable[[], object]]
"""A function that puts an order, and a function that serves the queue for ever, in the main thread."""


def run_with_threads(opened: Callable[[Tally | None, int], Threaded]) -> None:
    """Do the work that the arguments name, like `run`, for a peer without an event loop: its publishers are threads."""
    work, messages, width = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    tally = Tally(messages)
    publish, serve = opened(tally if work in {"consume", "both"} else None, width if work == "consume" else 1)
    if work == "consume":
        serve()

    def several(share: int) -> None:
        for _ in range(share):
            publish(ORDER)

    publishers = width if work != "load" else _LOADERS
    with ThreadPoolExecutor(publishers) as pool:
        if work != "load":
            tally.start()
        all_put = pool.map(several, _shares(messages, publishers))
        if work == "both":
            serve()
        list(all_put)
    if work == "put":
        tally.end()


def _shares(messages: int, publishers: int) -> list[int]:
    return [messages // publishers + (number < messages % publishers) for number in range(publishers)]


def _server_s() -> float:
    return cpu_s_of(int(pid)) if (pid := os.environ.get("PEER_SERVER")) else 0.0
