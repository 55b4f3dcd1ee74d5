"""Kills Spark, landers and redrives with kill -9 many times: only the controls may lose or double a message.

``python -m tests.pipeline.killing.campaign 40 --controls [--design drain ...] [--seed 7]`` runs this many lives. Each life is a
driver with a query for each design and a lander, or a redrive. Meanwhile a producer puts, a thief gets, and tasks fail. Some
deaths come at random, to all processes, to the JVM alone or to workers. Others come at the worst points (`aims`), where the
aimed processes are held and killed. At the end a last life takes the rest. The campaign counts the messages, also those that
the thief got. It exits with 1 if a design lost or doubled a message, or if a control did neither. It also does if no process
stood at a point that was aimed at.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from mqflow.cli.text.terminal import progress, show_table
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.server.listener import Server, serve
from mqflow.journal import Journal, Kind, TornSegmentError, read_table
from mqflow.landing.recovery import STATE_QUEUE
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import OpenOption, PutOption
from mqflow.pipeline.dead_letters.redrive import STATE_QUEUE as REDRIVE_STATE_QUEUE
from mqflow.pipeline.sinks.queue import MARKER_QUEUE
from mqflow.verbs import GetOptions
from tests.embedded.disk_faults.disk import memory_folder
from tests.leaving import end_by_exception
from tests.pipeline.dead_letters import redrive_process as redriving
from tests.pipeline.killing.aims import BEFORE_DRAIN, IN_A_TASK, Plan, plans
from tests.pipeline.killing.names import DESIGNS, LANDED, NOT_EXACT, OVERLOADED, QUEUES, REDRIVES, TARGETS
from tests.pipeline.killing.processes import is_held, kill, kill_session, session, standing, wait_for
from tests.pipeline.sources.gates import Gated, Gates, Identified, build_gate
from tests.queue_contents import browsed

__all__ = ("Killing", "Verdict")

ROOT = Path(__file__).parents[3]
PER_LIFE = 420
"""How many messages each queue is given while Spark lives; in small units, so that they come all the time."""
PER_TICK = 6
TICK_S = 0.03
LIFE_S = 400.0
"""How long a life may take to come to its end, on a machine that has other things to do."""
LETTERS = 400
LETTERS_PER_LIFE = 150
"""How many rows there are to redrive: more than its lives put before they end."""


class Verdict(Struct, frozen=True):
    """The result of one design."""

    design: str
    #: The number of its messages, and how many the thief got or the queue still has.
    given: int
    elsewhere: int
    rows: int
    lost: int
    doubled: int

    @property
    def name(self) -> str:
        """The name of the design, without its target."""
        return self.design.split()[0]

    @property
    def exact(self) -> bool:
        """Whether each message arrived exactly once."""
        return not self.lost and not self.doubled

    @property
    def control(self) -> bool:
        """Whether it must not be exact."""
        return self.name in NOT_EXACT


class _EndedByItselfError(Exception):
    """The driver ended because the machine was overloaded."""


class Killing:
    """A queue manager with a producer and a thief, and a Spark that the campaign kills."""

    def __init__(self, base: Path, designs: Sequence[str], *, gate: Path, thefts: int = 15, letters: int = 0) -> None:
        self.base = base
        self.designs = tuple(designs)
        #: The cause of each death, and at how many of the aimed points a live process stood when it was killed.
        self.deaths: list[tuple[Plan, int]] = []
        #: How many processes were killed.
        self.killed = 0
        self._gate = gate
        self._thefts = thefts
        self._letters = letters
        self._marks = base / "marks"
        self._marks.mkdir()
        self._gates = Gates(self._marks, patience_s=LIFE_S)
        self._stood: set[str] = set()
        self._produced = 0
        self._loot: dict[str, list[int]] = {design: [] for design in QUEUES}
        self._owner = EmbeddedQueueManager("QM1")
        state = (STATE_QUEUE, MARKER_QUEUE, REDRIVE_STATE_QUEUE)
        for name in (*state, *LANDED.values(), *QUEUES.values(), *TARGETS.values()):
            self._owner.administration.define(QueueAttributes(name=name, max_depth=1_000_000))
        gated: Any = Gated(self._owner, self._gates)
        self._server: Server = serve(gated, base / "qm")
        self._server._login = Identified()
        self._url = f"embedded+unix:{base / 'qm'}?qmgr=QM1"
        self._landers = ("lander", *(each for each in designs if each == "unmarked"))
        self._sources = (
            *(LANDED[lander] for lander in self._landers),
            *(queue for design, queue in QUEUES.items() if design in designs),
        )
        if letters:
            redriving.make_letters(base / "tables", letters)

    def close(self) -> None:
        self._gates.open()
        self._server.close()
        self._owner.close()

    def live(self, plan: Plan) -> int:
        """Start the processes of the plan, let them work, and kill them as planned; return how many were at their point.

        A point counts only if a live process stood there when it was killed. If the driver ended by itself, none counts.
        """
        self._before(plan)
        redrive = next((design for design in plan.gates if design in REDRIVES), "")
        started = self._redriving(redrive, plan) if redrive else self._spark("on", plan)
        with self._producing(), started as victim, suppress(_EndedByItselfError):
            if plan.name == IN_A_TASK:
                self._in_their_tasks(victim, plan)
            elif plan.gates:
                self._at_the_gates(victim, plan)
            else:
                self._by_chance(victim, plan)
        self.deaths.append((plan, len(self._stood)))
        self._steal()
        return len(self._stood)

    def judge(self) -> list[Verdict]:
        """Let Spark take the rest, and return the result of each design, the lander first."""
        found = self._taken()
        backed_out = found.pop("backed out", [])
        assert not backed_out or self._killed_in_a_unit, "a drained message was backed out, and no unit of work was cut off"
        self._redrive_the_rest()
        found |= {f"{design} queue": self._on(TARGETS[design]) for design in self.designs if design in TARGETS}
        found = {lander: self._landed(lander) for lander in self._landers} | dict(sorted(found.items()))
        return [self._judged(name, numbers) for name, numbers in found.items()]

    @property
    def _killed_in_a_unit(self) -> bool:
        """Whether a kill can have cut off the unit of work of the drain, which raises BackoutCount."""
        return any(not plan.gates or plan.gates.get("drain") == BEFORE_DRAIN for plan, _ in self.deaths)

    @property
    def produced(self) -> int:
        """The number of messages put on each queue."""
        return self._produced

    def _taken(self) -> dict[str, list[int]]:
        """Let Spark take the rest, and return the rows of its tables; repeat if a query ended by itself meanwhile."""
        result = self.base / "result.json"
        for _ in range(3):
            with suppress(_EndedByItselfError), self._spark("once") as victim:
                victim.wait(LIFE_S)
                self._check(victim, 0)
            if not result.exists():
                continue
            found: dict[str, list[int]] = json.loads(result.read_text())
            if "drain" not in self.designs or not self._on(QUEUES["drain"]):
                return found
        raise AssertionError("Spark has not drained the queue, three times")

    def _redrive_the_rest(self) -> None:
        """Run the same redrives again to their ends; a redrive that has put everything must put nothing more."""
        for design in self.designs:
            for _ in range({"redrive": 2, "forgetful": 1}.get(design, 0)):
                with self._redriving(design) as victim:
                    victim.wait(LIFE_S)
                    self._check(victim, 0)

    def _landed(self, lander: str) -> list[int]:
        """Return the messages in a lander's journal; the lander without a marker also publishes pending segments."""
        found: list[int] = []
        for segment in Journal.open(self.base / _JOURNALS[lander]).lane(LANDED[lander]).all_segments():
            with suppress(*((TornSegmentError,) if lander in NOT_EXACT else ())):
                found += [int(body) for body in read_table(segment, Kind.PAYLOAD, ["body"])["body"].to_pylist()]
        return found

    def _judged(self, name: str, found: list[int]) -> Verdict:
        design = name.split(maxsplit=1)[0]
        given = set(range(self._letters if design in REDRIVES else self._produced))
        # A message that the thief got, or that is still on its queue, must not have come through as well.
        elsewhere = [*self._on(QUEUES[design]), *self._loot[design]] if design in QUEUES else []
        everywhere = Counter([*found, *elsewhere])
        doubled = sum(count - 1 for count in everywhere.values())
        return Verdict(name, len(given), len(elsewhere), len(found), len(given - everywhere.keys()), doubled)

    # -- a life

    def _before(self, plan: Plan) -> None:
        for mark in self._marks.iterdir():
            mark.unlink()
        self._stood = set()
        # The first commit of the drain only takes its lane over.
        self._gates.arm({at: plan.skip + (design == "drain") for design, at in plan.gates.items() if "/" not in at})

    def _spark(self, how: str, plan: Plan | None = None) -> Any:
        spark = [design for design in self.designs if design not in REDRIVES]
        return self._started(["-m", "tests.pipeline.killing.victim", str(self.base), self._url, how, *spark], plan)

    def _redriving(self, design: str, plan: Plan | None = None) -> Any:
        return self._started(redriving.command(design, self.base / "tables", self._url), plan)

    @contextmanager
    def _started(self, arguments: Sequence[str], plan: Plan | None) -> Iterator[subprocess.Popen[bytes]]:
        """Yield a Python process in its own session, and end all processes of the session."""
        paths = os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))
        environment = os.environ | {"PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable} | self._aimed(plan)
        command = [sys.executable, *arguments]
        with (self.base / "victim.log").open("wb") as log:
            victim = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)
        try:
            yield victim
        finally:
            killed = kill_session(victim)
            self.killed += killed if plan else 0
            self._gates.open()
            wait_for(lambda: not self._server.connection_count, 30.0)
            shutil.rmtree(self.base / "local", ignore_errors=True)

    def _aimed(self, plan: Plan | None) -> dict[str, str]:
        """Return the environment of the processes of this life."""
        if plan is None:
            return {}
        if plan.name == IN_A_TASK:
            return {"VICTIM_TASKS": str(self._marks)}
        files = ";".join(gate for gate in plan.gates.values() if "/" in gate)
        gates = {"GATE_AT": files, "GATE_SKIP": str(plan.skip), "GATE_MARKS": str(self._marks)}
        return {"LD_PRELOAD": str(self._gate)} | gates

    def _at_the_gates(self, victim: subprocess.Popen[bytes], plan: Plan) -> None:
        """Kill all processes when each is at its gate, even if the first waits long for the last on a busy machine."""
        until = time.monotonic() + LIFE_S

        def crowded() -> bool:
            self._check(victim, None)
            return len(self._standing(victim)) >= len(plan.gates) or time.monotonic() > until

        wait_for(crowded, 2 * LIFE_S)
        self._stood = self._standing(victim)  # none of them can go on before it is killed

    def _in_their_tasks(self, victim: subprocess.Popen[bytes], plan: Plan) -> None:
        """Kill each worker within its task, while the others continue, and all processes after some more batches."""
        until = time.monotonic() + LIFE_S
        killed: set[str] = set()

        def done() -> bool:
            self._check(victim, None)
            for mark in self._marks.glob("task-*"):
                if mark.name not in killed:
                    killed.add(mark.name)
                    pid = int(mark.read_text())
                    stood = pid in session(victim.pid) and is_held(pid, pid)
                    self._stood |= {mark.name} if kill([pid]) and stood else set()
                    self.killed += 1
            return len(killed) >= len(plan.gates) or time.monotonic() > until

        wait_for(done, 2 * LIFE_S)
        self._go_on(victim, len(plan.gates))

    def _standing(self, victim: subprocess.Popen[bytes]) -> set[str]:
        """Return the gates at which a live process stands."""
        return set(standing(self._marks, victim.pid, self._gates.held))

    def _by_chance(self, victim: subprocess.Popen[bytes], plan: Plan) -> None:
        self._go_on(victim, plan.batches)
        threading.Event().wait(plan.seconds)
        members = session(victim.pid)
        match plan.whom:
            case "jvm":  # its Pythons see their sockets close, and may do what they like
                self.killed += kill([pid for pid, name in members.items() if "java" in name])
                threading.Event().wait(0.5)
            case "worker":
                workers = [pid for pid, name in members.items() if "pyspark" in name and "java" not in name]
                self.killed += kill(random.choices(workers, k=2) if workers else [])  # noqa: S311 - two of them die
                threading.Event().wait(1.5)
            case _:
                pass

    def _go_on(self, victim: subprocess.Popen[bytes], batches: int) -> None:
        before = self._batches()

        def far_enough() -> bool:
            self._check(victim, None)
            return self._batches() - before >= batches

        wait_for(far_enough, LIFE_S)

    def _check(self, victim: subprocess.Popen[bytes], expected: int | None) -> None:
        """Fail if the driver ended by itself, unless the machine was overloaded."""
        if victim.poll() != expected:
            said = (self.base / "victim.log").read_text(errors="replace")
            if any(reason in said for reason in OVERLOADED):
                raise _EndedByItselfError
            raise AssertionError(f"Spark ended by itself, with {victim.returncode}:\n{said[-6_000:]}")

    def _batches(self) -> int:
        return sum(len(list((self.base / design / "checkpoint").glob("commits/[0-9]*"))) for design in self.designs)

    # -- beside it

    @contextmanager
    def _producing(self) -> Iterator[None]:
        stop = threading.Event()
        thread = threading.Thread(target=self._produce, args=(stop,))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _produce(self, stop: threading.Event) -> None:
        connection = self._owner.connect(application_name="producer")
        handles = [connection.open(name, OpenOption.OUTPUT) for name in self._sources]
        descriptor = MessageDescriptor(persistence=1)
        last = self._produced + PER_LIFE
        while self._produced < last and not stop.wait(TICK_S):
            for number in range(self._produced, self._produced + PER_TICK):
                for handle in handles:
                    connection.put(handle, descriptor, b"%d" % number, PutOption.SYNCPOINT)
            connection.commit()
            self._produced += PER_TICK
        connection.disconnect()

    def _steal(self) -> None:
        """Get messages from the head of the drained queue, which has the messages just backed out or browsed."""
        connection = self._owner.connect(application_name="thief")
        for design, queue in QUEUES.items():
            handle = connection.open(queue, OpenOption.INPUT_SHARED)
            for _ in range(self._thefts if design in self.designs else 0):
                got = connection.get(handle, GetOptions())
                if got is not None:
                    self._loot[design].append(int(got.body))
            connection.close(handle)
        connection.disconnect()

    def _on(self, queue: str) -> list[int]:
        return [int(got.body) for got in browsed(self._owner, queue)]


_JOURNALS = {"lander": "journal", "unmarked": "unmarked"}


def main() -> int:
    reading = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reading.add_argument("rounds", type=int)
    exact = (*DESIGNS, "redrive")
    reading.add_argument("--design", action="append", choices=(*exact, *NOT_EXACT))
    reading.add_argument("--controls", action="store_true", help="run the controls too, which lose and double")
    reading.add_argument("--seed", type=int, default=1)
    asked = reading.parse_args()
    end_by_exception()
    designs = tuple(dict.fromkeys(("lander", *(asked.design or exact), *(NOT_EXACT if asked.controls else ()))))
    return _campaign(list(plans(asked.rounds, designs, asked.seed)), designs, asked.seed)


def _campaign(lives: Sequence[Plan], designs: Sequence[str], seed: int) -> int:
    redrives = sum(1 for plan in lives if set(plan.gates) & set(REDRIVES))
    began = time.monotonic()
    with memory_folder() as base:
        letters = LETTERS + LETTERS_PER_LIFE * redrives if set(designs) & set(REDRIVES) else 0
        killing = Killing(base, designs, gate=build_gate(base), letters=letters)
        try:
            _killed(killing, lives)
            verdicts = killing.judge()
        finally:
            killing.close()
    return _told(killing, verdicts, f"seed {seed}, {time.monotonic() - began:,.0f} s")


def _killed(killing: Killing, lives: Sequence[Plan]) -> None:
    """Run each life, with a progress bar on a terminal, otherwise with a line for each."""
    bar = sys.stderr.isatty()
    with progress("Killing", len(lives)) as shown:
        for number, plan in enumerate(lives, 1):
            began = time.monotonic()
            hits = killing.live(plan)
            aimed = f"{hits} of {len(plan.gates)} stood there" if plan.gates else ""
            if bar:
                shown.reached(number, f"{killing.killed} killed, {killing.produced:,} messages: {plan.name}")
                continue
            took = time.monotonic() - began
            said = f"{number:4}/{len(lives)}  {took:5.1f} s  {killing.produced:7,} messages  {plan.name:<46} {aimed}"
            sys.stdout.write(f"{said.rstrip()}\n")
            sys.stdout.flush()


def _told(killing: Killing, verdicts: Sequence[Verdict], how: str) -> int:
    """Print the kills and the results; return the exit code."""
    by_name: dict[str, list[int]] = {}
    for plan, hits in killing.deaths:
        each = by_name.setdefault(plan.name, [0, 0, 0])
        each[0] += 1
        each[1] += hits
        each[2] += len(plan.gates)
    lives = [(name, f"{n}", f"{stood} of {aimed}" if aimed else "by chance") for name, (n, stood, aimed) in by_name.items()]
    sys.stdout.write("\n")
    show_table(("killed", "lives", "stood there"), lives, numbers=frozenset({1}))
    wrong = {one.name for one in verdicts if not one.exact}
    rows = []
    for one in verdicts:
        counts = (one.given, one.rows, one.elsewhere, one.lost, one.doubled)
        rows.append((one.design, *(f"{count:,}" for count in counts), _said(one, wrong)))
    sys.stdout.write("\n")
    columns = ("design", "given", "came through", "elsewhere", "lost", "doubled", "")
    show_table(columns, rows, numbers=frozenset({1, 2, 3, 4, 5}))
    sys.stdout.write(f"\n{len(killing.deaths)} lives, {killing.killed} processes killed with kill -9; {how}.\n")
    missed = [name for name, (_, stood, aimed) in by_name.items() if aimed and not stood]
    if missed:
        sys.stdout.write(f"No process stood there: {', '.join(missed)}. Nothing is proved about it.\n")
    return int(bool(missed) or any((one.name in wrong) is not one.control for one in verdicts))


def _said(one: Verdict, wrong: set[str]) -> str:
    if not one.control:
        return "exact" if one.exact else "WRONG"
    if one.name not in wrong:
        return "PROVES NOTHING"
    return "right this time" if one.exact else "must be wrong, and is"


if __name__ == "__main__":
    sys.exit(main())
