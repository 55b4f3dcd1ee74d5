"""`python -m benchmarks.served`: a queue manager served over a Unix socket (goals 17 and 18), and what idle listeners cost.

The server is a process of its own; a client is a plain loop on the served connection, settling a unit of work and getting the
next in one round trip. Goal 18 compares sixteen, durable, with the same sixteen threads in the process of the queue manager.
"""

import argparse
import logging
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Final

import anyio
from msgspec import Struct

from benchmarks.budgets import Bar
from benchmarks.machine import describe, wait_for_idle
from benchmarks.orders import BODY
from mqflow import App
from mqflow.app.locate import OpenQueueManager
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.served import ServedQueueManager
from mqflow.embedded.serving import serve
from mqflow.embedded.sqlite_store import SqliteStore
from mqflow.mqi.attributes import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, OpenOption, Persistence, PutOption
from mqflow.verbs import GetOptions, QueueManager, take_unit

__all__ = ("Figure", "fused", "idle", "render", "shared")

QUEUE: Final = "ORDERS.IN"
BEGIN: Final = "<!-- served: begin (python -m benchmarks.served writes what stands between these two lines) -->"
END: Final = "<!-- served: end -->"
_PAGE: Final = Path(__file__).parent.parent / "docs" / "performance.md"
_GET: Final = GetOptions(options=GetOption.SYNCPOINT)
_FILL_UNIT: Final = 1_000


class Figure(Struct, frozen=True):
    """One line of the table."""

    goal: str
    what: str
    value: float
    unit: str
    bar: Bar | None = None


@contextmanager
def _filled(folder: Path, messages: int, *, durable: bool) -> Iterator[EmbeddedQueueManager]:
    persistence = Persistence.PERSISTENT if durable else Persistence.NOT_PERSISTENT
    descriptor = MessageDescriptor(persistence=persistence)
    kept = EmbeddedQueueManager("QM1", store=SqliteStore(folder / "data")) if durable else EmbeddedQueueManager("QM1")
    with kept as queue_manager:
        queue_manager.administration.define(QueueAttributes(name=QUEUE, max_depth=10_000_000))
        connection = queue_manager.connect()
        handle = connection.open(QUEUE, OpenOption.OUTPUT)
        for number in range(messages):
            connection.put(handle, descriptor, BODY, PutOption.SYNCPOINT)
            if number % _FILL_UNIT == _FILL_UNIT - 1:
                connection.commit()
        connection.commit()
        connection.disconnect()
        yield queue_manager


@contextmanager
def _server(messages: int, *, durable: bool) -> Iterator[tuple[ServedQueueManager, int]]:
    """Give a served queue manager with so many messages, and the process it is in."""
    with tempfile.TemporaryDirectory(prefix="mqflow-bench-", dir=Path.cwd()) as folder:
        words = [sys.executable, "-m", "benchmarks.served", "--serve", folder, str(messages), str(int(durable))]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"ready\n"
            manager = ServedQueueManager(Path(folder) / "qm")
            yield manager, process.pid
            manager.close()
        finally:
            process.communicate()


def _serve(folder: Path, messages: int, *, durable: bool) -> None:
    with _filled(folder, messages, durable=durable) as queue_manager, serve(queue_manager, folder / "qm"):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.read()


def fused(messages: int, unit_of_work: int) -> float:
    """Return the messages a second of one client, non-persistent, each unit of work one round trip."""
    with _server(messages, durable=False) as (manager, _):
        connection = manager.connect()
        handle = connection.open(QUEUE, OpenOption.INPUT_SHARED)
        began, handled = time.perf_counter(), 0
        while handled < messages:
            exchange = connection.exchange(handle, _GET, commit=True, most=unit_of_work)
            assert exchange.unit
            handled += len(exchange.unit)
        taken_s = time.perf_counter() - began
        connection.commit()
        connection.disconnect()
    return messages / taken_s


def shared(messages: int, clients: int, *, served: bool) -> float:
    """Return the messages a second of so many clients together, durable, one message to a unit of work."""
    if served:
        with _server(messages, durable=True) as (manager, _):
            return _together(manager, messages, clients)
    with (
        tempfile.TemporaryDirectory(prefix="mqflow-bench-", dir=Path.cwd()) as folder,
        _filled(Path(folder), messages, durable=True) as queue_manager,
    ):
        return _together(queue_manager, messages, clients)


def _together(queue_manager: QueueManager, messages: int, clients: int) -> float:
    def consume() -> None:
        connection = queue_manager.connect()
        handle = connection.open(QUEUE, OpenOption.INPUT_SHARED)
        started.wait()
        while (got := connection.get(handle, _GET)) is not None:
            assert take_unit(connection, handle, got, _GET, 1)
            connection.commit()
        connection.disconnect()

    started = threading.Barrier(clients + 1)
    threads = [threading.Thread(target=consume) for _ in range(clients)]
    for thread in threads:
        thread.start()
    started.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    return messages / (time.perf_counter() - began)


def idle(listeners: int, seconds: float, *, served: bool) -> tuple[float, float]:
    """Return the processor time of so many listeners on an empty queue, of the application and of a server, in ms a second."""
    if served:
        with _server(0, durable=False) as (manager, pid):
            return anyio.run(_idle, manager, listeners, seconds, lambda: _cpu_s_of(pid))
    with EmbeddedQueueManager("QM1") as queue_manager:
        return anyio.run(_idle, queue_manager, listeners, seconds, lambda: 0.0)


async def _idle(
    queue_manager: OpenQueueManager, listeners: int, seconds: float, server_cpu_s: Callable[[], float]
) -> tuple[float, float]:
    app = App()
    logging.getLogger("mqflow").setLevel(logging.ERROR)  # no queue here needs a backout threshold
    for number in range(listeners):
        queue_manager.administration.define(QueueAttributes(name=f"IDLE.{number}"))
        app.listener(f"IDLE.{number}")(_handle)
    async with app.running(queue_manager):
        await anyio.sleep(2)
        own, other = _cpu_s(), server_cpu_s()
        await anyio.sleep(seconds)
        return (_cpu_s() - own) / seconds * 1_000, (server_cpu_s() - other) / seconds * 1_000


async def _handle(body: bytes) -> None:
    assert body


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _cpu_s_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(rounds: int, share: float, patience_s: float) -> list[Figure]:
    """Measure everything; medians of so many rounds."""
    wait_for_idle(patience_s)
    scale: Callable[[int], int] = lambda count: max(16, round(count * share))  # noqa: E731 - a word for one line
    single = median(fused(scale(20_000), 1) for _ in range(rounds))
    many = median(fused(scale(100_000), 100) for _ in range(rounds))
    pairs = [(shared(scale(8_000), 16, served=True), shared(scale(8_000), 16, served=False)) for _ in range(rounds)]
    inline, _ = idle(scale(1_000), 5 * share, served=False)
    own, server = idle(scale(200), 5 * share, served=True)
    return [
        Figure("17", "one client, each message a round trip (commit, get the next)", single, "messages/s", Bar(30_000, 45_000)),
        Figure("17", "one client, 100 messages a round trip", many, "messages/s", Bar(300_000, 450_000)),
        Figure("18", "16 clients, durable", median(one for one, _ in pairs), "messages/s"),
        Figure("18", "the same in the process of the queue manager", median(other for _, other in pairs), "messages/s"),
        Figure("18", "ratio", median(one / other for one, other in pairs), "", Bar(0.8, 0.95)),
        Figure("", f"{scale(1_000):,} idle listeners, embedded: processor time", inline, "ms/s"),
        Figure("", f"{scale(200):,} idle listeners, served: of the application", own, "ms/s"),
        Figure("", f"{scale(200):,} idle listeners, served: of the server", server, "ms/s"),
    ]


def render(figures: list[Figure], rounds: int, date: str) -> str:
    """Return the table, in Markdown."""
    machine = describe()
    lines = [
        f"Measured on {date} by `python -m benchmarks.served`.",
        "",
        f"{machine.cpus} x {machine.cpu}, medians of {rounds}; load average at the end {os.getloadavg()[0]:.2f}.",
        "",
        "| goal | | measured | must | moonshot | |",
        "|---|---|---|---|---|---|",
    ]
    for each in figures:
        value = f"{each.value:,.0f}" if each.value >= 100 else f"{each.value:.2f}"
        bar = f"{each.bar.must:,g} | {each.bar.moonshot:,g} | {each.bar.met(each.value)}" if each.bar else "| |"
        lines.append(f"| {each.goal} | {each.what} | {f'{value} {each.unit}'.strip()} | {bar} |")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Measure, print, and with --write put it into the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.served", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--share", type=float, default=1.0, help="part of a full measurement (1.0)")
    parser.add_argument("--patience", type=float, default=30.0, help="seconds to wait for an idle machine (30)")
    parser.add_argument("--write", action="store_true", help="into docs/performance.md")
    parser.add_argument("--serve", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.serve:
        _serve(Path(given.serve[0]), int(given.serve[1]), durable=given.serve[2] == "1")
        return 0
    figures = measure(given.rounds, given.share, given.patience)
    text = render(figures, given.rounds, datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))
    if given.write:
        page = _PAGE.read_text()
        before, begin, rest = page.partition(BEGIN)
        _, end, after = rest.partition(END)
        assert begin, "the page has no place for it"
        assert end, "the place for it has no end"
        _PAGE.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}")
    sys.stdout.write(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
