"""`python -m benchmarks.peers`: mqflow beside FastStream, taskiq, dramatiq and Celery, in one run, into docs/performance.md.

The command starts and stops the servers, on loopback, and makes a virtual environment for the peers in `.bench-peers`. All
programs take their samples in turns. Exits with 1 if a goal is missed that `known_misses.toml` does not name. Exits with 2 if a
server is not installed or no program is chosen.
"""

import argparse
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.known_misses import judge, known_misses
from benchmarks.machine import describe, wait_for_idle
from benchmarks.page import PAGE, PEERS_BEGIN, PEERS_END, replaced_between
from benchmarks.peers.comparison import Found, figures, goals
from benchmarks.peers.environment import FOLDER, python_of_the_peers
from benchmarks.peers.measured import Measured
from benchmarks.peers.runs import EMBEDDED, IN_MEMORY, PROGRAMS, TEST_BROKER, Cell, Program, Runner, cells
from benchmarks.peers.servers import SERVERS, install, missing_packages, versions
from benchmarks.tables import markdown, misses

_REQUIREMENTS: Final = Path(__file__).with_name("requirements.txt")
_SYNCS: Final = 300


def main(arguments: list[str]) -> int:
    """Measure, print the tables, and write them into the page unless only some programs were measured."""
    given, programs = _parsed(arguments), (*PROGRAMS, IN_MEMORY, TEST_BROKER)
    chosen = [each for each in programs if given.only.lower() in each.name.lower()]
    if not chosen:
        names = "\n".join(each.name for each in programs)
        print(f"--only {given.only!r}: no program has this in its name. The programs are:\n{names}", file=sys.stderr)
        return 2
    wanted = {each.server for each in chosen} - {""}
    if missing := missing_packages(wanted):
        if not given.install:
            print(f"These Debian packages are missing: {' '.join(missing)}. --install installs them.", file=sys.stderr)
            return 2
        install(missing)
    found, busy = _measure(chosen, wanted, given.runs, given.messages, given.patience)
    tables = list(goals(found))
    rows = [row for table in tables for row in table.rows]
    lines = [*_header(given.runs, busy, wanted), *figures(found)]
    lines += [line for table in tables for line in markdown(table)]
    lines += misses(rows, {miss.key: miss.said for miss in known_misses()})
    text = "\n".join(lines)
    print(text)
    if given.only or given.messages:
        print("Only a run of all programs at full size writes the page.", file=sys.stderr)
    else:
        given.page.write_text(replaced_between(given.page.read_text(), text, PEERS_BEGIN, PEERS_END))
    return judge(rows)


def _parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--only", default="", metavar="NAME", help="only programs with this word in their name")
    parser.add_argument(
        "--messages", type=int, default=0, metavar="N", help="messages of each sample (different for each program)"
    )
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="rounds; each takes one sample of everything (5)")
    parser.add_argument("--patience", type=float, default=30.0, help="seconds to wait for an idle machine before a round (30)")
    parser.add_argument("--install", action="store_true", help="install missing servers with apt-get")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to write into")
    return parser.parse_args(arguments)


def _measure(chosen: list[Program], wanted: set[str], rounds: int, messages: int, patience_s: float) -> tuple[Found, float]:
    """Return all samples, and the largest share of the processors that other processes used before a round."""
    python = python_of_the_peers() if any(each.module != EMBEDDED.module for each in chosen) else Path(sys.executable)
    samples: dict[tuple[str, Cell], list[Measured]] = {}
    sync_us, import_ms, busy = [], [], [0.0]
    FOLDER.mkdir(exist_ok=True)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="servers-", dir=FOLDER)))
        servers = {name: stack.enter_context(SERVERS[name](folder / name)) for name in sorted(wanted)}
        runner = Runner(python, servers, FOLDER, messages)
        todo = [(program, cell) for program in chosen for cell in cells(program)]
        todo.sort(key=lambda each: (each[1].work, each[1].width, each[1].messages))
        for number in range(rounds):
            busy.append(wait_for_idle(patience_s))
            for program, cell in todo:
                print(f"round {number + 1}: {program.name}, {cell.work}, {cell.width}", file=sys.stderr, flush=True)
                samples.setdefault((program.name, cell), []).append(runner.sample(program, cell))
            sync_us.append(_sync_us(folder))
            nats = [program for program in chosen if program.module == "faststream_nats"]
            if nats and EMBEDDED in chosen:
                both = (
                    runner.import_ms(EMBEDDED, "from mqflow import App"),
                    runner.import_ms(nats[0], "import faststream.nats"),
                )
                import_ms.append(both)
        profiles = {
            (program.name, cell): runner.sample(program, cell, profiled=True).profile
            for program, cell in todo
            if program.module == EMBEDDED.module and cell.messages != 1
        }
    return Found(samples, sync_us=sync_us, import_ms=import_ms, profiles=profiles), max(busy)


def _sync_us(folder: Path) -> float:
    """Return the median time to append a kibibyte to a file and to force it to the disk, in microseconds."""
    taken, data = [], bytes(1_024)
    file = os.open(folder / "syncs", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    try:
        for _ in range(_SYNCS):
            began = time.perf_counter()
            os.write(file, data)
            os.fdatasync(file)
            taken.append((time.perf_counter() - began) * 1e6)
    finally:
        os.close(file)
    return median(taken)


def _header(rounds: int, busy: float, servers: set[str]) -> list[str]:
    machine = describe()
    peers = ", ".join(line for line in _REQUIREMENTS.read_text().splitlines() if not line.startswith("#"))
    python, ours = f"Python {machine.python}", f"msgspec {metadata.version('msgspec')}"
    software = "; ".join(filter(None, (python, ours, peers, versions(servers))))
    return [
        f"Measured on {datetime.now(UTC).strftime('%Y-%m-%d %H:%M UTC')} by `python -m benchmarks.peers`.",
        "",
        "| | |",
        "|---|---|",
        f"| machine | {machine.cpus} x {machine.cpu}, {machine.memory_gib} GiB, {machine.system} |",
        f"| software | {software} |",
        f"| each figure | median of {rounds} rounds; a round takes one sample of everything |",
        f"| others' CPU before a round | up to {busy:.0%} |",
        "",
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
