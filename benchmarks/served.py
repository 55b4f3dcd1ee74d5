"""`python -m benchmarks.served`: a queue manager served over a Unix socket (goals 17 and 18), and the cost of idle listeners.

`python -m benchmarks` writes the figures too. `--idle-only` measures only the idle listeners, embedded, over a Unix socket and
over TCP.

The server is a process of its own. A client is a plain loop on the served connection, which settles a unit of work and gets the
next unit in one round trip. Goal 18 compares sixteen clients with sixteen threads in the process of the queue manager that
commit and get; all messages are durable. Both sides run in turns, so that load of other processes falls on both.
"""

import argparse
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final

import anyio
from msgspec import Struct

from benchmarks.effort import Effort, arguments, effort_of
from benchmarks.floor import floor
from benchmarks.machine import wait_for_idle
from benchmarks.orders import BODY
from benchmarks.samples import cpu_s, cpu_s_of, rss_bytes
from benchmarks.tables import Bar, Row, Table, markdown, shown
from benchmarks.transports import embedded, fill
from mqflow import App
from mqflow.app.channels.location import OpenQueueManager
from mqflow.cli.processes.served_connections import raise_open_file_limit
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.client.connection import ServedConnection
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.protocol.addresses import TcpAddress, UnixAddress
from mqflow.embedded.wire.server.listener import serve, serve_tcp
from mqflow.embedded.wire.server.users_file import UsersFile
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, OpenOption, Persistence, PutOption
from mqflow.verbs import Connection, Exchange, FusedConnection, GetOptions, Got, ObjectHandle, QueueManager

__all__ = ("Idle", "Rate", "fused", "idle", "idling", "shared", "tables", "through")

QUEUE: Final = "ORDERS.IN"
_PASSWORD: Final = "idle"  # noqa: S105 - the queue manager lives only during the measurement
_GET: Final = GetOptions(options=GetOption.SYNCPOINT)
_SETTLED_AFTER_S: Final = 2.0
"""The time after the start of idle listeners until they only wait."""


class Idle(Struct, frozen=True):
    """The cost of idle listeners: processor time in ms a second, and their memory."""

    application_ms: float
    application_kib: float
    server_ms: float = 0.0
    server_kib: float = 0.0


class Rate(Struct, frozen=True):
    """The rate of one client, and the processor time of a message on both sides."""

    per_second: float
    client_us: float
    server_us: float


@contextmanager
def _filled(folder: Path, messages: int, *, durable: bool) -> Iterator[EmbeddedQueueManager]:
    persistence = Persistence.PERSISTENT if durable else Persistence.NOT_PERSISTENT
    with embedded(QUEUE, folder=folder if durable else None) as queue_manager:
        fill(queue_manager, QUEUE, messages, MessageDescriptor(persistence=persistence))
        yield queue_manager


@contextmanager
def _server(messages: int, *, durable: bool, tcp: bool = False) -> Iterator[tuple[ServedQueueManager, int]]:
    """Yield a served queue manager with the given number of messages, and its process."""
    with tempfile.TemporaryDirectory(prefix="mqflow-bench-", dir=Path.cwd()) as folder:
        words = [sys.executable, "-m", "benchmarks.served", "--serve", folder, str(messages), str(int(durable))]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout is not None
        try:
            said, port = process.stdout.readline().split()
            assert said == b"ready"
            address = TcpAddress("127.0.0.1", int(port)) if tcp else UnixAddress(Path(folder) / "qm")
            manager = ServedQueueManager(address, user="bench", password=_PASSWORD)
            yield manager, process.pid
            manager.close()
        finally:
            process.communicate()


def _serve(folder: Path, messages: int, *, durable: bool) -> None:
    users = UsersFile(folder / "users.json", os.urandom)
    users.set("bench", _PASSWORD, administrator=True)
    raise_open_file_limit()
    with (
        _filled(folder, messages, durable=durable) as queue_manager,
        serve(queue_manager, folder / "qm"),
        serve_tcp(queue_manager, TcpAddress("127.0.0.1", 0), users) as server,
    ):
        assert isinstance(server.address, TcpAddress)
        sys.stdout.write(f"ready {server.address.port}\n")
        sys.stdout.flush()
        sys.stdin.read()


def fused(messages: int, unit_of_work: int) -> Rate:
    """Return the rate at which one client consumes nonpersistent messages, with one round trip for each unit of work."""

    def consume(connection: ServedConnection) -> None:
        handle, handled = connection.open(QUEUE, OpenOption.INPUT_SHARED), 0
        while handled < messages:
            exchange = connection.exchange(handle, _GET, commit=True, most=unit_of_work)
            assert exchange.unit
            handled += len(exchange.unit)
        connection.commit()

    return _timed(consume, messages, waiting=messages)


def through(messages: int, unit_of_work: int) -> Rate:
    """Return the rate at which one client puts nonpersistent messages, commits and gets them, in two round trips."""
    unit = [(MessageDescriptor(persistence=Persistence.NOT_PERSISTENT), BODY)] * unit_of_work

    def put_and_get(connection: ServedConnection) -> None:
        handle = connection.open(QUEUE, OpenOption.INPUT_SHARED | OpenOption.OUTPUT)
        for _ in range(messages // unit_of_work):
            assert connection.put_many(handle, unit, PutOption.SYNCPOINT).error is None
            assert len(connection.exchange(handle, _GET, commit=True, most=unit_of_work).unit) == unit_of_work
        connection.commit()

    return _timed(put_and_get, messages, waiting=0)


def _timed(work: Callable[[ServedConnection], None], messages: int, waiting: int) -> Rate:
    with _server(waiting, durable=False) as (manager, pid):
        connection = manager.connect()
        began, own_s, other_s = time.perf_counter(), cpu_s(), cpu_s_of(pid)
        work(connection)
        taken_s = time.perf_counter() - began
        own_s, other_s = cpu_s() - own_s, cpu_s_of(pid) - other_s
        connection.disconnect()
    return Rate(messages / taken_s, own_s / messages * 1e6, other_s / messages * 1e6)


def shared(messages: int, clients: int, *, served: bool) -> float:
    """Return the messages a second of several clients together, with durable messages and one message in each unit of work."""
    if served:
        with _server(messages, durable=True) as (manager, _):
            return _together(manager, messages, clients)
    with (
        tempfile.TemporaryDirectory(prefix="mqflow-bench-", dir=Path.cwd()) as folder,
        _filled(Path(folder), messages, durable=True) as queue_manager,
    ):
        return _together(queue_manager, messages, clients)


def _together(queue_manager: QueueManager, messages: int, clients: int) -> float:
    taken: list[int] = []

    def consume() -> None:
        connection = queue_manager.connect()
        handle = connection.open(QUEUE, OpenOption.INPUT_SHARED)
        started.wait()
        settle_and_get = _fused if isinstance(connection, FusedConnection) else _one_by_one
        taken.append(sum(1 for _ in iter(lambda: settle_and_get(connection, handle), None)))
        connection.disconnect()

    started = threading.Barrier(clients + 1)
    threads = [threading.Thread(target=consume) for _ in range(clients)]
    for thread in threads:
        thread.start()
    started.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    taken_s = time.perf_counter() - began
    assert sum(taken) == messages
    return messages / taken_s


def _fused(connection: Any, handle: ObjectHandle) -> Got | None:
    exchange: Exchange = connection.exchange(handle, _GET, commit=True, most=1)
    assert exchange.settle_error is exchange.get_error is None
    return exchange.unit[0] if exchange.unit else None


def _one_by_one(connection: Connection, handle: ObjectHandle) -> Got | None:
    connection.commit()
    return connection.get(handle, _GET)


def idle(listeners: int, seconds: float, *, served: bool, tcp: bool = False) -> Idle:
    """Return the cost of listeners on empty queues."""
    raise_open_file_limit()
    if served:
        with _server(0, durable=False, tcp=tcp) as (manager, pid):
            return anyio.run(_idle, manager, listeners, seconds, pid)
    with EmbeddedQueueManager("QM1") as queue_manager:
        return anyio.run(_idle, queue_manager, listeners, seconds, None)


async def _idle(queue_manager: OpenQueueManager, listeners: int, seconds: float, server: int | None) -> Idle:
    app, processes = App(), [os.getpid(), *([server] if server else [])]
    logging.getLogger("mqflow").setLevel(logging.ERROR)  # no queue here needs a backout threshold
    administration = queue_manager.administration
    for number in range(listeners):
        administration.define(QueueAttributes(name=f"IDLE.{number}"))
        app.listener(f"IDLE.{number}")(_handle)
    memory_kib = [rss_bytes(each) / 1_024 for each in processes]
    async with app.running(queue_manager):
        await anyio.sleep(_SETTLED_AFTER_S)
        used_s = [cpu_s_of(each) for each in processes]
        await anyio.sleep(seconds)
        used_ms = [(cpu_s_of(each) - before) * 1_000 / seconds for each, before in zip(processes, used_s, strict=True)]
        added_kib = [rss_bytes(each) / 1_024 - before for each, before in zip(processes, memory_kib, strict=True)]
    return Idle(*used_ms, *added_kib) if server is None else Idle(used_ms[0], added_kib[0], used_ms[1], added_kib[1])


def _handle(body: bytes) -> None:
    assert body


def tables(effort: Effort) -> Iterator[Table]:
    """Measure the rates and the idle listeners, and yield one table."""
    rows = [*_one_client(effort), *_many_clients(effort), *idling(effort)]
    yield Table(
        title="Served over a Unix socket",
        before="The queue manager is a process of its own, behind a Unix socket. The median decides whether a goal is met.",
        columns=("best", "of"),
        figure="median",
        rows=rows,
    )


def _one_client(effort: Effort) -> Iterator[Row]:
    """Yield the rates of one client, and of the same frames without a queue manager."""

    def several(what: str, run: Callable[[], Rate], goal: int = 0, bar: Bar | None = None) -> Iterator[Row]:
        effort.say(f"served: {what}")
        busy = wait_for_idle(effort.patience_s)
        rates = [run() for _ in range(effort.pairs)]
        yield _row(what, [each.per_second for each in rates], "messages/s", goal=goal, bar=bar, busy=busy)
        for side, values in (("client", [each.client_us for each in rates]), ("server", [each.server_us for each in rates])):
            yield _row(f"- {what}: processor time of the {side}", values, "µs/message", at_most=True)

    few, many = effort.scaled(30_000), effort.scaled(200_000, least=100)
    yield from several(
        "one client, each message a round trip (commit, get the next)", lambda: fused(few, 1), 17, Bar(30_000, 45_000)
    )
    yield from several("one client, 100 messages a round trip", lambda: fused(many, 100), 17, Bar(300_000, 450_000))
    yield from several("floor: the same frames one by one, no queue manager", lambda: Rate(*floor(few, 1)))
    yield from several("floor: the same frames of 100, no queue manager", lambda: Rate(*floor(many, 100)))
    put = effort.scaled(100_000, least=100)
    yield from several("one client, 100 put in a round trip, committed and got in the next", lambda: through(put, 100))


def _many_clients(effort: Effort) -> Iterator[Row]:
    """Yield the rate of sixteen clients, the rate of sixteen threads in the queue manager's process, and the ratio."""
    effort.say("served: 16 clients, durable")
    messages, busy = effort.scaled(8_000, least=16), wait_for_idle(effort.patience_s)
    pairs = []
    for number in range(effort.pairs):
        sides = (True, False) if number % 2 else (False, True)
        rates = {served: shared(messages, 16, served=served) for served in sides}
        pairs.append((rates[True], rates[False]))
    yield _row("16 clients, durable", [one for one, _ in pairs], "messages/s", busy=busy)
    yield _row("16 threads in the queue manager's process, durable", [other for _, other in pairs], "messages/s", busy=busy)
    ratios = [one / other for one, other in pairs]
    yield _row("16 clients over 16 threads in process, pair by pair", ratios, "", goal=18, bar=Bar(0.8, 0.95), busy=busy)


def idling(effort: Effort) -> Iterator[Row]:
    """Yield the cost of a thousand idle listeners."""
    listeners = effort.scaled(1_000, least=16)
    for where, served, tcp in (("embedded", False, False), ("served", True, False), ("served over TCP", True, True)):
        effort.say(f"idle listeners, {where}")
        busy = wait_for_idle(effort.patience_s)
        cost = idle(listeners, max(1.0, 120 * effort.share), served=served, tcp=tcp)
        what = f"{listeners:,} idle listeners, {where}"
        yield _row(f"{what}: processor time", [cost.application_ms], "ms/s", busy=busy)
        yield _row(f"{what}: memory they add", [cost.application_kib / 1024], "MiB")
        if served:
            yield _row(f"{what}: processor time of the server", [cost.server_ms], "ms/s")
            yield _row(f"{what}: memory they add to the server", [cost.server_kib / 1024], "MiB")


def _row(
    name: str,
    values: Sequence[float],
    unit: str,
    *,
    goal: int = 0,
    bar: Bar | None = None,
    at_most: bool = False,
    busy: float | None = None,
) -> Row:
    best = min(values) if at_most else max(values)
    cells = (shown(best, unit), str(len(values)))
    return Row(goal=goal, name=name, cells=cells, figure=median(values), unit=unit, bar=bar, busy=busy)


def main(arguments_given: list[str]) -> int:
    """Measure, and print the table."""
    parser = arguments("python -m benchmarks.served", __doc__)
    parser.add_argument("--idle-only", action="store_true", help="measure only the idle listeners")
    parser.add_argument("--serve", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments_given)
    if given.serve:
        _serve(Path(given.serve[0]), int(given.serve[1]), durable=given.serve[2] == "1")
        return 0
    effort = effort_of(given)
    if given.idle_only:
        found = [Table(title="Idle listeners", columns=("best", "of"), figure="median", rows=list(idling(effort)))]
    else:
        found = list(tables(effort))
    for table in found:
        print("\n".join(markdown(table)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
