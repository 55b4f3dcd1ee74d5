"""`python -m benchmarks.jms`: IBM's JMS classes beside mqflow's own clients on one served queue manager, and its start.

Needs a JDK with Maven, as `tests/foreign/jms` does. `--page` writes the table into docs/performance.md. A producer calls MQPUT
and a consumer calls MQGET for each message, and both call MQCMIT for each unit of work. Messages have 500 bytes and are not
persistent. The two clients run in turns.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

from msgspec import Struct

from benchmarks.machine import IDLE_SHARE, wait_for_idle
from benchmarks.page import PAGE, replaced_between
from benchmarks.process_start import environment
from benchmarks.samples import cpu_s_of
from benchmarks.tables import Bar, Row, Table, markdown, shown
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.wire.client.connection import ServedConnection
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.protocol.addresses import UnixAddress
from mqflow.embedded.wire.server.users_file import USERS_FILE, UsersFile
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, OpenOption, Persistence, PutOption
from mqflow.verbs import GetOptions, ObjectHandle
from tests.foreign.jms.program import Program, class_paths

__all__ = ("tables",)

_FIRST: Final = "<!-- jms: begin (python -m benchmarks.jms writes what stands between these two lines) -->"
_LAST: Final = "<!-- jms: end -->"
_MQFLOW: Final = (sys.executable, "-m", "mqflow.cli")
_PASSWORD: Final = "secret"  # noqa: S105 - the queue manager lives only during the measurement
_BODY: Final = b"x" * 500
_DESCRIPTOR: Final = MessageDescriptor(persistence=Persistence.NOT_PERSISTENT)
_GET: Final = GetOptions(options=GetOption.SYNCPOINT)


class Served(Struct, frozen=True):
    """A queue manager in a process of its own, with a listener for MQ's clients."""

    folder: Path
    port: int
    process: int


@contextmanager
def _created() -> Iterator[Path]:
    """Yield the data folder of a new queue manager, which has the queue Q1 and a user."""
    with tempfile.TemporaryDirectory(prefix="mqflow-bench-", dir=Path.cwd()) as name:
        folder = Path(name) / "QM1"
        with EmbeddedQueueManager("QM1", store=SqliteStore(folder)) as queue_manager:
            queue_manager.administration.define(QueueAttributes(name="Q1", max_depth=1_000_000))
        UsersFile(folder / USERS_FILE, os.urandom).set("app", _PASSWORD, administrator=True)
        yield folder


@contextmanager
def _started(folder: Path) -> Iterator[Served]:
    port = 20_000 + os.getpid() % 20_000
    command = [*_MQFLOW, "qmgr", "serve", "QM1", "--data", str(folder), "--mq", f"127.0.0.1:{port}"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment())
    assert process.stderr is not None
    try:
        assert "is active" in process.stderr.readline()
        yield Served(folder, port, process.pid)
    finally:
        process.terminate()
        process.communicate()


def _theirs(java: Program, served: Served, kind: str, messages: int, unit: int) -> float:
    """Return the seconds that IBM's classes take."""
    said, end = java.run(served.port, "app", _PASSWORD, f"rate-{kind}:{messages}:{unit}")
    assert end == "end"
    return int(said) / 1e6


def _ours(served: Served, kind: str, messages: int, unit: int) -> float:
    """Return the seconds that a plain loop on mqflow's own protocol takes, with the same verbs."""
    manager = ServedQueueManager(UnixAddress(served.folder / "served.sock"))
    connection = manager.connect()
    handle = connection.open("Q1", OpenOption.OUTPUT if kind == "put" else OpenOption.INPUT_SHARED)
    began = time.perf_counter()
    for number in range(1, messages + 1):
        _verb(connection, handle, kind)
        if number % unit == 0:
            connection.commit()
    connection.commit()
    taken_s = time.perf_counter() - began
    connection.disconnect()
    manager.close()
    return taken_s


def _verb(connection: ServedConnection, handle: ObjectHandle, kind: str) -> None:
    if kind == "put":
        connection.put(handle, _DESCRIPTOR, _BODY, PutOption.SYNCPOINT)
    else:
        assert connection.get(handle, _GET) is not None


def tables(messages: int, pairs: int, patience_s: float) -> Iterator[Table]:
    """Measure, and yield one table."""
    with _created() as folder, tempfile.TemporaryDirectory() as place:
        java = Program(class_paths(), Path(place))
        rows: list[Row] = []
        with _started(folder) as served:
            for kind in ("put", "get"):  # not measured: both clients become warm
                _theirs(java, served, kind, messages, 1)
                _ours(served, kind, messages, 1)
            for unit in (1, 32):
                rows += _beside(java, served, messages, unit, pairs, wait_for_idle(patience_s))
        rows += _starts(java, folder, pairs, wait_for_idle(patience_s))
        java.close()
    yield Table(
        title="IBM's JMS classes, and mqflow's own clients",
        before="The queue manager is a process of its own. IBM's classes use TCP, mqflow's client a Unix socket. "
        + _load(rows),
        columns=("best", "of", "processor time of the server"),
        figure="median",
        rows=rows,
    )


def _beside(java: Program, served: Served, messages: int, unit: int, pairs: int, busy: float | None) -> Iterator[Row]:
    """Yield the rates of producers and consumers with this unit of work."""
    whole = messages // unit * unit
    sides: dict[str, Callable[[Served, str, int, int], float]] = {"IBM's classes": partial(_theirs, java), "mqflow": _ours}
    taken: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for _ in range(pairs):
        for whose, run in sides.items():
            for kind in ("put", "get"):
                before = cpu_s_of(served.process)
                taken.setdefault((kind, whose), []).append((run(served, kind, whole, unit), cpu_s_of(served.process) - before))
    for (kind, whose), times in taken.items():
        rates = [whole / taken_s for taken_s, _ in times]
        server_us = median(cpu_s for _, cpu_s in times) / whole * 1e6
        cells = (shown(max(rates), "messages/s"), str(pairs), shown(server_us, "µs/message"))
        name = f"{'producer' if kind == 'put' else 'consumer'}, unit of work {unit}: {whose}"
        yield Row(name=name, figure=median(rates), unit="messages/s", cells=cells, busy=busy)


def _load(rows: Sequence[Row]) -> str:
    """Return a sentence about the load during the measurement."""
    most = max(row.busy or 0.0 for row in rows)
    if most <= IDLE_SHARE:
        return "The machine was idle."
    return f"**Not an idle machine:** other processes used up to {most:.0%} of it, so the figures are worse than without load."


def _starts(java: Program, folder: Path, pairs: int, busy: float | None) -> Iterator[Row]:
    """Yield the times from the start of the process until it is active, and until a JMS program has put and got a message."""
    actives, walls, cpus = list[float](), list[float](), list[float]()
    for _ in range(pairs):
        began = time.perf_counter()
        with _started(folder) as served:
            actives.append((time.perf_counter() - began) * 1_000)
            for kind in ("put", "get"):
                _theirs(java, served, kind, 1, 1)
            walls.append((time.perf_counter() - began) * 1_000)
            cpus.append(cpu_s_of(served.process) * 1_000)
    name, bar = "start of the queue manager until the first JMS message", Bar(500, 250, at_most=True)
    why = "The imports take most of this time."
    for part, times, must in (
        ("", walls, None),
        (": its process is active", actives, bar),
        (": processor time of its process", cpus, bar),
    ):
        cells = (shown(min(times), "ms"), str(pairs), "")
        yield Row(
            name=f"{'- ' * bool(part)}{name}{part}", figure=median(times), unit="ms", cells=cells, bar=must, busy=busy, why=why
        )


def main(arguments_given: list[str]) -> int:
    """Measure, print the table, and write it into the page if asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.jms", description=__doc__)
    parser.add_argument("--messages", type=int, default=6_400, help="messages of each run (6400)")
    parser.add_argument("--pairs", type=int, default=5, help="runs of each client (5)")
    parser.add_argument("--patience", type=float, default=30.0, help="seconds to wait for an idle machine (30)")
    parser.add_argument("--page", type=Path, nargs="?", const=PAGE, help="write into this page (docs/performance.md)")
    given = parser.parse_args(arguments_given)
    lines = [line for table in tables(given.messages, given.pairs, given.patience) for line in markdown(table)]
    text = "\n".join([f"Measured on {datetime.now(UTC):%Y-%m-%d %H:%M UTC} by `python -m benchmarks.jms`.", "", *lines])
    print(text)
    if given.page is not None:
        given.page.write_text(replaced_between(given.page.read_text(), text, _FIRST, _LAST))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
