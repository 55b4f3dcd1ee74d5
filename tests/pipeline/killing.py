"""Kills Spark with kill -9, over and over, and counts what came through: nothing lost, nothing twice, but by the controls.

``python -m tests.pipeline.killing 40 [--design drain ...] [--controls] [--seed 7]``: so many lives of one driver with a query
for each design, while a producer puts and a thief takes. Some deaths come when chance says, to all processes, to the JVM alone
or to workers; others where it hurts: every query is led to its point, and killed there. Such a point is a file that gets its
name (`gate.c`), or a commit of the queue manager (`_Gates`).
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.serving import Server, serve
from mqflow.mqi.attributes import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import error_for
from mqflow.mqi.options import GetOption, OpenOption, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.pipeline.queue_sink import MARKER_QUEUE
from mqflow.policy.landing import STATE_QUEUE
from mqflow.verbs import GetOptions
from tests.embedded.disk import memory_folder
from tests.pipeline.names import CONTROLS, DESIGNS, IN, OVERLOADED, QUEUES, TARGETS
from tests.runtime.landing import bodies

__all__ = ("AIMS", "CHANCES", "Killing", "Verdict", "build_gate", "plans")

ROOT = Path(__file__).parents[2]
PER_LIFE = 420
"""How many messages each queue is given while Spark lives; in small units, so that they come all the time."""
PER_TICK = 6
TICK_S = 0.03
LIFE_S = 400.0
"""How long a life may take to come to its end, on a machine that has other things to do."""

AIMS: dict[str, dict[str, str]] = {
    "after the sink, before the commit log": {each: f"before:/{each}/checkpoint/commits/" for each in (*DESIGNS, *CONTROLS)},
    "in a batch, so that the log is all there is": {
        each: f"after:/{each}/checkpoint/offsets/" for each in (*DESIGNS, *CONTROLS)
    },
    "when the sink has committed, and nobody knows": {
        "journal": "after:/journal/table/_spark_metadata/",
        "delta": "after:/delta/delta/_delta_log/",
        "drain": "after:mqflow spark drain",
        "sink": "after:mqflow sink",
    },
    "just before the sink commits": {
        "journal": "before:/journal/table/_spark_metadata/",
        "delta": "before:/delta/delta/_delta_log/",
        "drain": "before:/drain/manifest/",
        "sink": "before:mqflow sink",
    },
    "in the midst of an acknowledgement": {
        "journal": "after:/journal/table/_spark_metadata/",
        "delta": "before:/delta/checkpoint/commits/",
        "drain": "before:mqflow spark drain",
        "sink": "before:/sink/checkpoint/commits/",
    },
}
"""By where it hurts: each design's gate. Without a slash it is a commit at the queue manager, by the application's name."""
CHANCES = ("all", "jvm", "worker")
"""Whom chance kills."""


class Plan(Struct, frozen=True, kw_only=True):
    """How a life ends."""

    name: str
    #: By design; none for chance.
    gates: dict[str, str] = field(default_factory=dict[str, str])
    #: How often each gate lets pass.
    skip: int = 0
    whom: str = "all"
    #: By chance: after so many batches, and so long.
    batches: int = 0
    seconds: float = 0.0


class Verdict(Struct, frozen=True):
    """What came through one design."""

    design: str
    rows: int
    lost: int
    doubled: int


def plans(rounds: int, designs: Sequence[str], seed: int) -> Iterator[Plan]:
    """Yield how each life ends: every aim in turn, and a death by chance after each."""
    chance = random.Random(seed)  # noqa: S311 - the same deaths for the same seed
    for number in range(rounds):
        if number % 2:
            whom = CHANCES[number // 2 % len(CHANCES)]
            yield Plan(name=f"chance: {whom}", whom=whom, batches=chance.randint(0, 12), seconds=chance.uniform(0.0, 1.0))
        else:
            name, gates = list(AIMS.items())[number // 2 % len(AIMS)]
            mine = {design: gate for design, gate in gates.items() if design in designs}
            yield Plan(name=name, gates=mine, skip=chance.randint(0, 2))


def build_gate(folder: Path) -> Path:
    """Compile `gate.c`; return the library. Raises `RuntimeError` where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        raise RuntimeError("The gate needs a C compiler on Linux: it is a preloaded library.")
    library = folder / "gate.so"
    source = str(Path(__file__).with_name("gate.c"))
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", str(library), source, "-ldl", "-lpthread"], check=True)
    return library


class _EndedByItselfError(Exception):
    """The driver ended, for a reason of the machine's."""


class _Gates:
    """The gates at the queue manager: before or after an MQCMIT of an application."""

    def __init__(self, marks: Path) -> None:
        self._marks = marks
        self._guard = threading.Lock()
        self._armed: dict[str, int] = {}
        self._over = threading.Event()

    def arm(self, gates: Sequence[str], skip: int) -> None:
        with self._guard:
            self._armed = dict.fromkeys(gates, skip)
            self._over.clear()

    def open(self) -> None:
        """Let go of whoever stands there: its application is dead."""
        with self._guard:
            self._armed.clear()
        self._over.set()

    def stand(self, moment: str, application: str) -> bool:
        """Wait here for the end of the life where this is a gate, and return whether it was."""
        gate = f"{moment}:{application}"
        with self._guard:
            if gate not in self._armed:
                return False
            self._armed[gate] -= 1
            if self._armed[gate] >= 0:
                return False
        (self._marks / gate).touch()
        self._over.wait(LIFE_S)
        return True


class _GatedConnection:
    def __init__(self, inner: Any, application: str, gates: _Gates) -> None:
        self._inner = inner
        self._application = application
        self._gates = gates

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def commit(self) -> None:
        if self._gates.stand("before", self._application):
            raise error_for(Reason.CONNECTION_BROKEN, "MQCMIT")
        self._inner.commit()
        self._gates.stand("after", self._application)


class _Gated:
    """The queue manager as it is served."""

    def __init__(self, inner: EmbeddedQueueManager, gates: _Gates) -> None:
        self._inner = inner
        self._gates = gates

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def connect(self, *, application_name: str = "", user: str = "") -> Any:
        return _GatedConnection(
            self._inner.connect(application_name=application_name, user=user), application_name, self._gates
        )


class Killing:
    """A queue manager with a producer and a thief, and a Spark that is killed beside them."""

    def __init__(self, base: Path, designs: Sequence[str], *, gate: Path, thefts: int = 15) -> None:
        self.base = base
        self.designs = tuple(designs)
        #: What each life died of, and how many queries stood where it was aimed.
        self.deaths: list[tuple[Plan, int]] = []
        self._gate = gate
        self._thefts = thefts
        self._marks = base / "marks"
        self._marks.mkdir()
        self._gates = _Gates(self._marks)
        self._produced = 0
        self._loot: dict[str, list[int]] = {design: [] for design in QUEUES}
        self._owner = EmbeddedQueueManager("QM1")
        for name in (IN, STATE_QUEUE, MARKER_QUEUE, *QUEUES.values(), *TARGETS.values()):
            self._owner.administration.define(QueueAttributes(name=name, max_depth=1_000_000))
        gated: Any = _Gated(self._owner, self._gates)
        self._server: Server = serve(gated, base / "qm")
        self._sources = (IN, *(queue for design, queue in QUEUES.items() if design in designs))

    def close(self) -> None:
        self._gates.open()
        self._server.close()
        self._owner.close()

    def live(self, plan: Plan) -> int:
        """Start Spark, let it work, and kill it as planned; return how many queries stood at the plan's point."""
        files = {design: gate for design, gate in plan.gates.items() if "/" in gate}
        commits = [gate for design, gate in plan.gates.items() if design not in files]
        for mark in self._marks.iterdir():
            mark.unlink()
        self._gates.arm(commits, plan.skip)
        more = {"GATE_AT": ";".join(files.values()), "GATE_SKIP": str(plan.skip), "GATE_MARKS": str(self._marks)}
        with self._producing(), self._spark("on", LD_PRELOAD=str(self._gate), **more) as victim:
            try:
                hits = self._at_the_gates(victim, plan) if plan.gates else self._by_chance(victim, plan)
            except _EndedByItselfError:
                hits = 0
        self.deaths.append((plan, hits))
        self._steal()
        return hits

    def judge(self) -> list[Verdict]:
        """Let Spark take what is left, and return what came through each design; the first is the lander's."""
        found = self._taken()
        assert [] == found.pop("backed out", []), "a drained message was backed out"
        found |= {f"{design} queue": self._on(TARGETS[design]) for design in self.designs if design in TARGETS}
        found = {"lander": bodies(self.base / "journal", IN)} | dict(sorted(found.items()))
        return [self._judged(name, numbers) for name, numbers in found.items()]

    @property
    def produced(self) -> int:
        """How many messages each queue was given."""
        return self._produced

    def _taken(self) -> dict[str, list[int]]:
        """Have Spark take what is left, and return what is in its tables; again, where a query ended by itself meanwhile."""
        result = self.base / "result.json"
        for _ in range(3):
            with suppress(_EndedByItselfError), self._spark("once") as victim:
                victim.wait(LIFE_S)
                self._check(victim, 0)
            if not result.exists():
                continue
            found: dict[str, list[int]] = json.loads(result.read_text())
            # A query that began anew has taken what was on the queue then, less what it was about to remove the first time.
            if "drain" not in self.designs or set(self._on(QUEUES["drain"])) <= set(found["drain"]):
                return found
        raise AssertionError("Spark has not drained the queue, three times")

    def _judged(self, design: str, found: list[int]) -> Verdict:
        if design not in QUEUES:
            return self._verdict(design, found, set())
        return self._verdict(design, found, set(self._on(QUEUES[design])) | set(self._loot[design]))

    def _verdict(self, design: str, found: list[int], elsewhere: set[int]) -> Verdict:
        lost = set(range(self._produced)) - set(found) - elsewhere
        return Verdict(design, len(found), len(lost), sum(count - 1 for count in Counter(found).values()))

    # -- a life

    @contextmanager
    def _spark(self, how: str, **more: str) -> Iterator[subprocess.Popen[bytes]]:
        """Give a driver in a session of its own; nobody of that session is left at the end."""
        paths = os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))
        environment = os.environ | {"PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable} | more
        url = f"embedded+unix:{self.base / 'qm'}?qmgr=QM1"
        command = [sys.executable, "-m", "tests.pipeline.victim", str(self.base), url, how, *self.designs]
        with (self.base / "victim.log").open("wb") as log:
            victim = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)
        try:
            yield victim
        finally:
            _kill_session(victim)
            self._gates.open()
            _wait_for(lambda: not self._server.connection_count, 30.0)
            shutil.rmtree(self.base / "local", ignore_errors=True)

    def _at_the_gates(self, victim: subprocess.Popen[bytes], plan: Plan) -> int:
        """Kill all when every query stands at its gate, however long the first waits for the last on a busy machine."""
        until = time.monotonic() + LIFE_S

        def crowded() -> bool:
            self._check(victim, None)
            return self._standing() >= len(plan.gates) or time.monotonic() > until

        _wait_for(crowded, 2 * LIFE_S)
        _kill_session(victim)
        return self._standing()

    def _standing(self) -> int:
        """Return at how many gates somebody stands: a mark's name ends with the gate's number, or is the gate."""
        return len({mark.name.rpartition("-")[2] for mark in self._marks.iterdir()})

    def _by_chance(self, victim: subprocess.Popen[bytes], plan: Plan) -> int:
        before = self._batches()

        def far_enough() -> bool:
            self._check(victim, None)
            return self._batches() - before >= plan.batches

        _wait_for(far_enough, LIFE_S)
        threading.Event().wait(plan.seconds)
        members = _session(victim.pid)
        match plan.whom:
            case "jvm":  # its Pythons see their sockets close, and may do what they like
                _kill([pid for pid, name in members.items() if "java" in name])
                threading.Event().wait(0.5)
            case "worker":
                workers = [pid for pid, name in members.items() if "pyspark" in name and "java" not in name]
                _kill(random.choices(workers, k=2) if workers else [])  # noqa: S311 - two of them die
                threading.Event().wait(1.5)
            case _:
                pass
        return 0

    def _check(self, victim: subprocess.Popen[bytes], expected: int | None) -> None:
        """Fail where the driver ended by itself, for any reason but the machine's."""
        if victim.poll() != expected:
            said = (self.base / "victim.log").read_text(errors="replace")
            if any(reason in said for reason in OVERLOADED):
                raise _EndedByItselfError
            raise AssertionError(f"Spark ended by itself, with {victim.returncode}:\n{said[-6_000:]}")

    def _batches(self) -> int:
        return sum(len(list((self.base / design / "checkpoint").glob("commits/[0-9]*"))) for design in self.designs)

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
        """Take messages from the head of what is drained, where those are that were just backed out or browsed."""
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
        connection = self._owner.connect()
        handle = connection.open(queue, OpenOption.BROWSE)
        found: list[int] = []
        while (got := connection.get(handle, GetOptions(options=GetOption.BROWSE_NEXT))) is not None:
            found.append(int(got.body))
        connection.disconnect()
        return found


def _wait_for(claim: Callable[[], bool], seconds: float) -> None:
    until = time.monotonic() + seconds
    while not claim():
        assert time.monotonic() < until, f"not so within {seconds:.0f} s"
        threading.Event().wait(0.01)


def _session(leader: int) -> dict[int, str]:
    """Return the processes of the session, each with its command line; workers have groups of their own."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                after_name = (folder / "stat").read_text().rpartition(")")[2].split()
                if int(after_name[3]) == leader and after_name[0] != "Z":
                    found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except (OSError, IndexError):
                continue  # it is gone
    return found


def _kill(pids: Sequence[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _kill_session(victim: subprocess.Popen[bytes]) -> None:
    """Kill every process of the session: the JVM first, which would clean up otherwise."""
    while members := _session(victim.pid):
        _kill(sorted(members, key=lambda pid: "java" not in members[pid]))
        threading.Event().wait(0.005)
    victim.wait()


def main() -> int:
    reading = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reading.add_argument("rounds", type=int)
    reading.add_argument("--design", action="append", choices=(*DESIGNS, *CONTROLS))
    reading.add_argument("--controls", action="store_true", help="run the controls too, which lose and double")
    reading.add_argument("--seed", type=int, default=1)
    asked = reading.parse_args()
    designs = (*(asked.design or DESIGNS), *(CONTROLS if asked.controls else ()))
    with memory_folder() as base:
        killing = Killing(base, designs, gate=build_gate(base))
        try:
            for number, plan in enumerate(plans(asked.rounds, designs, asked.seed), 1):
                began = time.monotonic()
                hits = killing.live(plan)
                aimed = f"{hits} of {len(plan.gates)} stood there" if plan.gates else ""
                took = time.monotonic() - began
                said = f"{number:4}/{asked.rounds}  {took:5.1f} s  {killing.produced:7,} messages  {plan.name:<46} {aimed}"
                sys.stdout.write(f"{said}\n")
                sys.stdout.flush()
            verdicts = killing.judge()
        finally:
            killing.close()
    sys.stdout.write(f"\n{'design':<16}{'rows':>9}{'lost':>7}{'doubled':>9}   of {killing.produced:,} messages\n")
    for one in verdicts:
        sys.stdout.write(f"{one.design:<16}{one.rows:>9,}{one.lost:>7,}{one.doubled:>9,}\n")
    return int(any(one.lost or one.doubled for one in verdicts if one.design.split()[0] not in CONTROLS))


if __name__ == "__main__":
    sys.exit(main())
