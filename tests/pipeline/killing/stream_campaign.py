"""Kills `mqflow spark stream` with kill -9 at aimed moments: only the controls may lose or double a row.

``python -m tests.pipeline.killing.stream_campaign 60 --controls [--seed 7]`` makes this many kills. Each kill has an aim: a
file operation of the driver or of a Python worker, at which a gate (`gate.c`) holds the process. The campaign kills the worker,
the JVM, the driver, or all of them while that process stands there. A kill counts only if it did. At the end the stream takes
the rest, and delta-rs counts the rows of each table, without Spark.

It exits with 1 if a row is lost or doubled, if an aim was never hit, or if a control is exact.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable
from msgspec import Struct

from mqflow.cli.text.terminal import show_table
from mqflow.journal import Journal, Kind
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.policy.poison import disposition_record
from mqflow.policy.poison.disposition_record import DispositionRecord, RecordOutcome
from mqflow.testing.journals import START_US, add_segment
from mqflow.verbs import Got
from tests.embedded.disk_faults.disk import memory_folder
from tests.leaving import end_by_exception
from tests.pipeline import jvm
from tests.pipeline.killing.processes import kill, kill_session, session, wait_for
from tests.pipeline.sources.gates import build_gate

__all__ = ("AIMS", "Aim", "Streaming", "Verdict")

ROOT = Path(__file__).parents[3]
LANE = "MQFLOW.DISPOSITION"
ROWS = 40
"""How many rows a segment has."""
LIFE_S = 600.0
"""How long a kill may take to come about, on a machine that has other things to do."""
WORKER = "pyspark.worker"
COMMITS = ""
"""Any process: Spark commits a table in a Python of its own, and mqflow commits others in the driver."""


class Aim(Struct, frozen=True):
    """The point at which a process is held, and the process that dies then."""

    name: str
    #: The gate, as `gate.c` reads it, and a part of the command line of the processes that it holds.
    gate: str
    of: str
    #: The processes that are killed: `worker`, `jvm`, `driver` or `all`.
    victim: str


AIMS = (
    Aim("a worker, while its task writes rows", "within:/bronze/disposition/", WORKER, "worker"),
    Aim("the JVM, while a task writes rows", "within:/bronze/disposition/", WORKER, "jvm"),
    Aim("the driver, while a task writes rows", "within:/bronze/disposition/", WORKER, "driver"),
    Aim("the driver, before bronze is committed", "before:/bronze/disposition/_delta_log/", COMMITS, "driver"),
    Aim("the driver, after bronze is committed", "after:/bronze/disposition/_delta_log/", COMMITS, "driver"),
    Aim("all, before bronze is committed", "before:/bronze/disposition/_delta_log/", COMMITS, "all"),
    Aim("the driver, before silver is committed", "before:/silver/", COMMITS, "driver"),
    Aim("all, after silver has committed a table", "after:/silver/", COMMITS, "all"),
    Aim("the driver, before gold is committed", "before:/gold/", COMMITS, "driver"),
    Aim("all, after gold has committed a table", "after:/gold/", COMMITS, "all"),
)
QUICK = (AIMS[4],)
"""The kill of the quick form: the driver between its commit and its answer, where a repeated batch would double rows."""
CONTROLS: Final = {"forgets": AIMS[4], "hurries": AIMS[3]}
"""A bronze that records its segments after its commit, one that records them before, and the kill that each of them needs."""


class Verdict(Struct, frozen=True):
    """The rows of a table against the plain count."""

    table: str
    given: int
    found: int
    lost: int
    doubled: int

    @property
    def exact(self) -> bool:
        """Whether each row is there once."""
        return not self.lost and not self.doubled and self.given == self.found


class Streaming:
    """A journal that grows, and a stream that the campaign kills."""

    def __init__(self, base: Path, gate: Path, *, control: str = "") -> None:
        self.base = base
        #: The aim of each kill, and whether a process stood there.
        self.kills: list[tuple[Aim, bool]] = []
        self.produced = 0
        self._gate = gate
        self._control = control
        self._marks = base / "marks"
        self._marks.mkdir()
        journal = Journal.create(base / "journal")
        self._lane = journal.add_lane(LANE, Kind.DISPOSITION, queue=LANE, queue_manager="QM1")

    def land(self, segments: int = 1) -> None:
        """Add segments, each with the records of other messages."""
        for _ in range(segments):
            unit = [_recorded(number) for number in range(self.produced, self.produced + ROWS)]
            add_segment(self._lane, unit)
            self.produced += ROWS

    def live(self, aims: Sequence[Aim]) -> None:
        """Run one driver, and kill as the aims say, one after the other. All aims have the same gate."""
        self._arm()
        with self._started("--every", "1s", aim=aims[0]) as driver:
            for aim in aims:
                self.land(2)
                stood = self._stands(driver)
                self.kills.append((aim, stood is not None))
                if stood is None:
                    return
                self._kill(driver, aim, stood)
                if driver.poll() is not None or aim.victim in {"driver", "all"}:
                    return
                self._pass(driver)

    def finish(self) -> None:
        """Let a stream without gates take the rest."""
        for _ in range(3):
            with self._started("--once") as driver:
                driver.wait(LIFE_S)
            if not driver.returncode:
                return
        raise AssertionError(f"The stream does not end:\n{self._said()[-6_000:]}")

    def judge(self) -> list[Verdict]:
        """Compare the tables with the plain count."""
        return [self._bronze(), self._silver(), self._gold()]

    def _bronze(self) -> Verdict:
        found = Counter(self._column("bronze/disposition", "disp_id"))
        given = {f"{number}" for number in range(self.produced)}
        return _compared("bronze.disposition", given, found)

    def _silver(self) -> Verdict:
        found = Counter(int.from_bytes(each) for each in self._column("silver/message", "msg_id"))
        return _compared("silver.message", {*range(self.produced)}, found)

    def _gold(self) -> Verdict:
        table = self._table("gold/poison_rate").to_pylist()
        sizes = Counter(each["window"]["end"] - each["window"]["start"] for each in table)
        found = sum(
            each["deliveries"]
            for each in table
            if each["exc_class"] is None and each["window"]["end"] - each["window"]["start"] == min(sizes)
        )
        return Verdict("gold.poison_rate", self.produced, found, max(0, self.produced - found), max(0, found - self.produced))

    def _column(self, table: str, name: str) -> list[Any]:  # Any: the values of any column
        found: list[Any] = self._table(table)[name].to_pylist()
        return found

    def _table(self, name: str) -> pa.Table:
        path = self.base / "tables" / name
        return DeltaTable(path).to_pyarrow_table()

    # -- a life

    @contextmanager
    def _started(self, *options: str, aim: Aim | None = None) -> Iterator[subprocess.Popen[bytes]]:
        module = "tests.pipeline.killing.careless_stream" if self._control else "mqflow.cli"
        where = ["--journal", str(self.base / "journal"), "--tables", str(self.base / "tables"), "--master", "local[2]"]
        settings = jvm.interpreted() | {"spark.local.dir": str(self.base / "local")}
        confs = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
        command = [sys.executable, "-m", module, "spark", "stream", *where, "--json", *options, *confs]
        paths = os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))
        environment = os.environ | {"PYTHONPATH": paths, "CARELESS": self._control}
        if aim is not None:
            gate = {"GATE_AT": aim.gate, "GATE_OF": aim.of, "GATE_MARKS": str(self._marks), "LD_PRELOAD": str(self._gate)}
            environment |= gate
        with (self.base / "driver.log").open("wb") as log:
            driver = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)
        try:
            yield driver
        finally:
            kill_session(driver)

    def _arm(self) -> None:
        for mark in self._marks.iterdir():
            mark.unlink()

    def _stands(self, driver: subprocess.Popen[bytes]) -> int | None:
        """Return the process at the gate; None if none came, or if it died there by itself."""
        until = time.monotonic() + LIFE_S

        def arrived() -> bool:
            if driver.poll() is not None:
                raise AssertionError(f"The stream ended by itself, with {driver.returncode}:\n{self._said()[-6_000:]}")
            return bool(self._marked()) or time.monotonic() > until

        wait_for(arrived, 2 * LIFE_S)
        return next((pid for pid in self._marked() if pid in session(driver.pid)), None)

    def _marked(self) -> list[int]:
        return [int(mark.name.partition("-")[0]) for mark in self._marks.iterdir() if mark.name != "open"]

    def _kill(self, driver: subprocess.Popen[bytes], aim: Aim, stood: int) -> None:
        members = session(driver.pid)
        (self._marks / "open").touch()  # nobody else stops from now on
        match aim.victim:
            case "worker":
                kill([stood])
            case "jvm":
                kill([pid for pid, name in members.items() if "java" in name])
                kill(self._marked())
            case "driver":
                os.kill(driver.pid, signal.SIGKILL)
                driver.wait()
                kill(self._marked())
            case _:
                kill_session(driver)

    def _pass(self, driver: subprocess.Popen[bytes]) -> None:
        """Wait until the stream has finished a round after the kill, and close the gate again."""
        before = self._rounds()

        def went_on() -> bool:
            if driver.poll() is not None:
                raise AssertionError(f"The stream ended by itself, with {driver.returncode}:\n{self._said()[-6_000:]}")
            return self._rounds() > before

        wait_for(went_on, LIFE_S)
        self._arm()

    def _rounds(self) -> int:
        told = [json.loads(line) for line in self._said().splitlines() if line.startswith("{") and line.endswith("}")]
        return sum(each["event"] == "ran" and each["stage"] == "gold" for each in told)

    def _said(self) -> str:
        return (self.base / "driver.log").read_text(errors="replace")


def _recorded(number: int) -> Got:
    at = START_US + number * 1_000
    record = DispositionRecord(
        disp_id=f"{number}", event_ts=at, qmgr="QM1", queue="ORDERS.IN", handler="on_orders", consumer="c",
        msg_id=number.to_bytes(24), put_ts=at, get_ts=at, done_ts=at, backout_count=0, outcome=RecordOutcome.COMMITTED,
    )  # fmt: skip
    body = disposition_record.to_bytes(record)
    return Got(descriptor=MessageDescriptor(format=disposition_record.FORMAT), body=body, data_bytes=len(body))


def _compared(table: str, given: Collection[Any], found: Counter[Any]) -> Verdict:  # Any: identifiers of any type
    doubled = sum(count - 1 for count in found.values())
    return Verdict(table, len(given), found.total(), len(set(given) - set(found)), doubled)


def plans(kills: int, seed: int) -> Iterator[list[Aim]]:
    """Yield the aims of each life, until there are as many kills as asked: every aim in turn, in the order of the seed."""
    order = list(AIMS)
    random.Random(seed).shuffle(order)  # noqa: S311 - the same order for the same seed
    made = 0
    while made < kills:
        for aim in order:
            again = 3 if aim.victim in {"worker", "jvm"} else 1  # the driver survives these
            lives = [aim] * min(again, kills - made)
            if lives:
                made += len(lives)
                yield lives


def campaign(base: Path, lives: Sequence[Sequence[Aim]], *, control: str = "") -> Streaming:
    """Run the lives and let the stream take the rest; return it for the judgement."""
    streaming = Streaming(base, build_gate(base), control=control)
    streaming.land(2)
    if control:
        streaming.finish()  # a first table: a kill before it shows nothing
    for number, aims in enumerate(lives, 1):
        began = time.monotonic()
        streaming.live(aims)
        stood = sum(hit for _, hit in streaming.kills[-len(aims) :])
        took = time.monotonic() - began
        sys.stdout.write(f"{number:4}/{len(lives)}  {took:6.1f} s  {aims[0].name:<48} {stood} of {len(aims)} stood there\n")
        sys.stdout.flush()
    streaming.finish()
    return streaming


def main() -> int:
    reading = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reading.add_argument("kills", type=int)
    reading.add_argument("--controls", action="store_true", help="run the controls too, which lose and double")
    reading.add_argument("--seed", type=int, default=1)
    asked = reading.parse_args()
    end_by_exception()
    wrong = False
    for control in ("", *(CONTROLS if asked.controls else ())):
        lives = list(plans(asked.kills, asked.seed)) if not control else [[CONTROLS[control]]]
        with memory_folder() as base:
            streaming = campaign(base, lives, control=control)
            verdicts = streaming.judge()
        hits = Counter(aim.name for aim, hit in streaming.kills if hit)
        show_table(("killed", "times"), [(name, f"{count}") for name, count in hits.items()], numbers=frozenset({1}))
        rows = [
            (control or "stream", one.table, *(f"{n:,}" for n in (one.given, one.found, one.lost, one.doubled)))
            for one in verdicts
        ]
        show_table(("", "table", "given", "found", "lost", "doubled"), rows, numbers=frozenset({2, 3, 4, 5}))
        wrong |= all(one.exact for one in verdicts) is bool(control)
        wrong |= len(hits) < len({aim.name for life in lives for aim in life})
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
