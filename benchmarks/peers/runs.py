"""The programs that `make bench-peers` runs, and the samples that it takes of each."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from benchmarks.peers.measured import Measured
from benchmarks.peers.servers import Server

__all__ = ("EMBEDDED", "IN_MEMORY", "PROGRAMS", "TEST_BROKER", "UNITS", "Cell", "Program", "Runner", "cells")

_ROOT: Final = Path(__file__).parents[2]
_TIMEOUT_S: Final = 120.0
_LATE: Final = 1_000


class Program(Struct, frozen=True, kw_only=True):
    """A program with its settings."""

    name: str
    module: str
    #: The Debian package of its server; empty for mqflow.
    server: str = ""
    #: Whether the disk is forced before a put or an acknowledgement succeeds.
    disk: str
    messages: int
    unit_of_work: int = 0


_NATS: Final = "no; the server syncs every 2 minutes"
_RABBIT: Final = "no; a client does not wait for its acknowledgements"
_REDIS: Final = "no; the server syncs every second"
_FORCED: Final = "yes, each commit"

EMBEDDED: Final = Program(
    name="mqflow, one commit a message", module="mqflow_embedded", disk=_FORCED, messages=4_000, unit_of_work=1
)
UNITS: Final = Program(name="mqflow, unit of work 32", module="mqflow_embedded", disk=_FORCED, messages=16_000, unit_of_work=32)

PROGRAMS: Final = (
    EMBEDDED,
    UNITS,
    Program(name="FastStream on NATS", module="faststream_nats", server="nats-server", disk=_NATS, messages=5_000),
    Program(
        name="FastStream on RabbitMQ", module="faststream_rabbitmq", server="rabbitmq-server", disk=_RABBIT, messages=3_000
    ),
    Program(name="FastStream on Redis", module="faststream_redis", server="redis-server", disk=_REDIS, messages=3_000),
    Program(name="taskiq on NATS", module="taskiq_nats", server="nats-server", disk=_NATS, messages=2_000),
    Program(name="dramatiq on RabbitMQ", module="dramatiq_rabbitmq", server="rabbitmq-server", disk=_RABBIT, messages=2_000),
    Program(name="Celery on Redis", module="celery_redis", server="redis-server", disk=_REDIS, messages=800),
)

IN_MEMORY: Final = Program(name="mqflow in memory", module="mqflow_embedded", disk="-", messages=20_000, unit_of_work=1)
TEST_BROKER: Final = Program(name="FastStream's test broker", module="faststream_test", disk="-", messages=4_000)
"""Goal 8: publish and handle, without a server."""


class Cell(Struct, frozen=True):
    """The work of one sample, and the number of its workers or publishers."""

    work: str
    width: int
    #: The number of messages; 0 for the number of the program.
    messages: int = 0


def cells(program: Program) -> list[Cell]:
    """Return the cells of a program."""
    both_widths = [Cell(work, width) for work in ("consume", "put", "both") for width in (1, 32)]
    if program is UNITS:
        return [cell for cell in both_widths if cell.work != "put"]
    if program in (IN_MEMORY, TEST_BROKER):
        return [Cell("both", 1)]
    first_and_late = [Cell("consume", 1, 1), Cell("late", 1, _LATE)]
    if program is EMBEDDED:
        return [*both_widths, Cell("consume", 16), *first_and_late]
    return [*both_widths, *first_and_late] if program.module == "faststream_nats" else both_widths


class Runner:
    """Runs programs on the given servers."""

    def __init__(self, python_of_the_peers: Path, servers: Mapping[str, Server], folder: Path, messages: int = 0) -> None:
        self._python = python_of_the_peers
        self._servers = servers
        self._folder = folder
        self._messages = messages
        self._numbers = count(1)

    def sample(self, program: Program, cell: Cell, *, profiled: bool = False) -> Measured:
        """Return a sample of the program. A program that consumes finds a full queue. A profile makes the sample slower."""
        messages = cell.messages or self._messages or program.messages
        queue = f"orders{next(self._numbers)}"
        with tempfile.TemporaryDirectory(prefix="mqflow-bench-", dir=self._folder) as folder:
            url = "embedded::memory:" if program is IN_MEMORY else f"embedded:{folder}/data"
            environment = {"PEER_QUEUE": queue, "PEER_URL": url, "PEER_UNIT": str(program.unit_of_work)}
            if program.server:
                server = self._servers[program.server]
                environment |= {"PEER_URL": server.url, "PEER_SERVER": str(server.pid)}
            if cell.work == "consume":
                self._run(program, ("load", messages, 1), environment)
            if profiled:
                environment["PEER_PROFILE"] = "1"
            output = self._run(program, (cell.work, messages, cell.width), environment)
        return msgspec.json.decode(output.splitlines()[-1], type=Measured)

    def _run(self, program: Program, work: tuple[str, int, int], environment: Mapping[str, str]) -> bytes:
        python = sys.executable if program.module == EMBEDDED.module else str(self._python)
        done = subprocess.run(
            [python, "-m", f"benchmarks.peers.programs.{program.module}", *map(str, work)],
            check=False,
            capture_output=True,
            timeout=_TIMEOUT_S,
            cwd=_ROOT,
            env={**os.environ, **environment, "PYTHONPATH": str(_ROOT), "PEER_STARTED": str(time.time())},
        )
        if done.returncode or (work[0] != "load" and not done.stdout):
            raise RuntimeError(f"{program.name} failed with {work}:\n{done.stderr.decode()[-2_000:]}")
        return done.stdout

    def import_ms(self, program: Program, statement: str) -> float:
        """Return the time of a process that only runs the statement, in milliseconds."""
        python = sys.executable if program.module == EMBEDDED.module else str(self._python)
        began = time.perf_counter()
        subprocess.run([python, "-c", statement], check=True, cwd=_ROOT)
        return (time.perf_counter() - began) * 1e3
