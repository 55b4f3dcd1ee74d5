"""`python -m benchmarks.delays`: the lateness of delayed messages at a thousand a second, and the cost of a million of them.

A program sends messages whose delays end evenly over some seconds, and the queue manager in its process delivers them.
`DelayedDelivered` has the lateness, by the monotonic clock. `--page` writes the figures into docs/performance.md.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

import anyio
from msgspec import Struct

from benchmarks.machine import wait_for_idle
from benchmarks.page import PAGE, replaced_between
from benchmarks.samples import rss_bytes
from benchmarks.transports import embedded
from mqflow import App
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.events import DelayedDelivered, Event
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import Persistence
from mqflow.runtime.delay.stage import EMBEDDED_STAGING_QUEUE, Stager
from mqflow.world import SYSTEM_WORLD

BEGIN = "<!-- delays: begin (python -m benchmarks.delays writes what stands between these two lines) -->"
END = "<!-- delays: end -->"
TARGET = "LATER"
BODY = b"x" * 500
_UNIT = 100


class Lateness(Struct, frozen=True):
    """The lateness in one run, in milliseconds."""

    where: str
    rate: int
    processors: int
    messages: int
    p50_ms: int
    p99_ms: int
    worst_ms: int
    #: The share of the processors that other processes used at the start.
    busy: float


class Million(Struct, frozen=True):
    """Many waiting messages: the memory of each in bytes, the rate of sending them, and the time to find and move the first."""

    where: str
    messages: int
    bytes_each: float
    puts_per_s: float
    first_ms: float


@contextmanager
def opened(where: str) -> Iterator[EmbeddedQueueManager]:
    with (
        tempfile.TemporaryDirectory() as folder,
        embedded(TARGET, folder=Path(folder) if where == "disk" else None) as queue_manager,
    ):
        yield queue_manager


def send(queue_manager: EmbeddedQueueManager, delays_ms: Iterator[int], *, persistent: bool) -> int:
    """Send a message with each of these delays, and return their number."""
    connection, count = queue_manager.connect(), 0
    stager = Stager(EMBEDDED_STAGING_QUEUE, SYSTEM_WORLD)
    descriptor = MessageDescriptor(persistence=Persistence.PERSISTENT if persistent else Persistence.NOT_PERSISTENT)
    for count, delay_ms in enumerate(delays_ms, start=1):
        stager.put_on(connection, TARGET, descriptor, BODY, delay_ms)
        if not count % _UNIT:
            connection.commit()
    connection.commit()
    connection.disconnect()
    return count


def lateness(where: str, rate: int, seconds: int, processors: int, patience_s: float = 10.0) -> Lateness:
    """Send messages so that `rate` of them are due each second for `seconds`, and return their lateness."""
    late: list[int] = []
    busy = wait_for_idle(patience_s)

    async def deliver(queue_manager: EmbeddedQueueManager) -> None:
        over = anyio.Event()

        def note(event: Event) -> None:
            if isinstance(event, DelayedDelivered):
                late.append(event.late_ms)
                if len(late) == rate * seconds:
                    over.set()

        app = App(hooks=[note])
        app.delay_processor(concurrency=processors)
        async with app.running(queue_manager):
            with anyio.fail_after(seconds * 10 + 60):
                await over.wait()

    with opened(where) as queue_manager:
        begun = perf_counter()
        lead_ms = 2_000 + round(rate * seconds / 2.5)  # all messages are sent before the first is due.
        # A delay counts from the send of its message, but due times count from the first send.
        due = (lead_ms + number * 1_000 // rate - round((perf_counter() - begun) * 1_000) for number in range(rate * seconds))
        send(queue_manager, due, persistent=where == "disk")
        anyio.run(deliver, queue_manager)
    late.sort()
    return Lateness(where, rate, processors, len(late), late[len(late) // 2], late[len(late) * 99 // 100], late[-1], busy)


def million(where: str, messages: int) -> Million:
    """Let many messages wait for an hour or more, send one that is due, and return their costs and the time to move it."""

    async def deliver(queue_manager: EmbeddedQueueManager) -> float:
        over = anyio.Event()

        def note(event: Event) -> None:
            if isinstance(event, DelayedDelivered):
                over.set()

        async with App(hooks=[note]).running(queue_manager):
            begun = perf_counter()
            send(queue_manager, iter([1]), persistent=False)
            await over.wait()
            return (perf_counter() - begun) * 1_000

    with opened(where) as queue_manager:
        before, begun = rss_bytes(), perf_counter()
        send(queue_manager, (3_600_000 + number * 7_919 % 86_400_000 for number in range(messages)), persistent=where == "disk")
        took_s, bytes_each = perf_counter() - begun, (rss_bytes() - before) / messages
        first_ms = anyio.run(deliver, queue_manager)
    return Million(where, messages, bytes_each, messages / took_s, first_ms)


def text(runs: list[Lateness], many: list[Million], date: str) -> str:
    """Return the part of the page with these figures."""
    lines = [
        f"Measured on {date} by `python -m benchmarks.delays`. Bodies have 500 bytes; messages are persistent only on disk.",
        "",
        "| where | due a second | processors | messages | p50 late, ms | p99 late, ms | worst, ms | others' CPU |",
        "|---|---|---|---|---|---|---|---|",
        *(
            f"| {run.where} | {run.rate:,} | {run.processors} | {run.messages:,} | {run.p50_ms} | {run.p99_ms} "
            f"| {run.worst_ms} | {run.busy:.0%} |"
            for run in runs
        ),
        "",
        "| where | waiting | memory each, bytes | sent, messages/s | a due message moved after, ms |",
        "|---|---|---|---|---|",
        *(
            f"| {each.where} | {each.messages:,} | {each.bytes_each:,.0f} | {each.puts_per_s:,.0f} | {each.first_ms:.0f} |"
            for each in many
        ),
    ]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Measure, print the figures, and write the page if the arguments ask for it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.delays", description=__doc__)
    parser.add_argument("--rate", type=int, default=1_000, help="messages due each second (1000)")
    parser.add_argument("--seconds", type=int, default=10, help="seconds of the measurement (10)")
    parser.add_argument("--waiting", type=int, default=1_000_000, help="messages that wait (1000000)")
    parser.add_argument("--processors", type=int, nargs="*", default=[1, 4], help="numbers of connections (1 4)")
    parser.add_argument("--patience", type=float, default=10.0, help="seconds to wait for an idle machine, each time (10)")
    parser.add_argument("--page", type=Path, nargs="?", const=PAGE, help="write into this page (docs/performance.md)")
    given = parser.parse_args(arguments)
    runs = [
        lateness(where, given.rate, given.seconds, each, given.patience)
        for where in ("memory", "disk")
        for each in given.processors
    ]
    many = [million(where, given.waiting) for where in ("memory", "disk")] if given.waiting else []
    made = text(runs, many, datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))
    if given.page is not None:
        given.page.write_text(replaced_between(given.page.read_text(), made, BEGIN, END))
    print(made)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
