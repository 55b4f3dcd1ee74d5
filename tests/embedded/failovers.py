"""Failovers, one after the other: an owner is killed or ended at any moment, its standby goes on, and nothing may be lost.

`python -m tests.embedded.failovers 10000` does so many and says what it saw, `--paced` waits each time until every
application is back by the ladder of IBM MQ. Everything is a process of its own, forked from this one, which has loaded all and
opened nothing.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.sqlite_store import SqliteStore
from mqflow.mqi.attributes import QueueAttributes
from mqflow.mqi.options import GetOption, OpenOption
from mqflow.verbs import GetOptions
from tests.embedded import failing_over
from tests.embedded.failing_over import DONE, IN
from tests.embedded.failover_checking import violations
from tests.embedded.failover_defects import DEFECTS
from tests.embedded.stage import LOOK_S, NeverError, Stage

__all__ = ("Result", "fail_over", "percentile")

_PATIENCE_S: Final = 20.0
"""How long anything may take before it counts as never happening."""
_FAST: Final = "(3,2)"
"""Delays of an application that is to be back soon, in milliseconds; none for those of IBM MQ."""


class Result(Struct, kw_only=True):
    """What was seen."""

    failovers: int = 0
    messages: int = 0
    #: Calls whose outcome was unknown.
    unknown: int = 0
    #: From the kill, or from the request, until the standby served, in milliseconds.
    killed_ms: list[float] = []
    ended_ms: list[float] = []
    #: From the same moment until an application had done something again, or had everything open again.
    client_back_ms: list[float] = []
    application_back_ms: list[float] = []
    wrong: list[str] = []


class _Run:
    """One series of failovers."""

    def __init__(self, stage: Stage, result: Result, chance: random.Random, *, paced: bool) -> None:
        self.stage = stage
        self.result = result
        self.chance = chance
        self.paced = paced
        self.states: dict[int, dict[str, float]] = {}
        self.away: dict[str, float] = {}
        self.clients: dict[str, int] = {}
        self.started: set[str] = set()
        self.named = 0

    def listen(self, until: Callable[[], bool], what: str) -> None:
        """Take in what is said until this is so."""
        patience = time.monotonic() + self.stage.patience_s
        while True:
            for line in self.stage.heard():
                self._hear(*line.split())
            if until():
                return
            if time.monotonic() > patience:
                raise NeverError(f"{what}: not within {self.stage.patience_s:g} s")
            time.sleep(LOOK_S)

    def _hear(self, who: str, what: str, *words: str) -> None:
        if who == "owner":
            self.states.setdefault(int(what), {})[words[0]] = float(words[1])
        elif what == "started":
            self.started.add(who)
        elif what == "back" and float(words[0]) >= self.away.get(who, float("inf")):  # not of the outage before
            back_ms = (float(words[0]) - self.away.pop(who)) * 1_000
            (self.result.application_back_ms if who.startswith("app") else self.result.client_back_ms).append(back_ms)

    def begin(self) -> None:
        """Start an owner, a standby, and everybody else."""
        self.active = self._owner("active")
        self.standby = self._owner("standby")
        for kind in ("producer", "producer", "mover", "collector", "application"):
            self._client(kind)
        self.listen(lambda: any(who.startswith("app") for who in self.started), "the application starts")

    def _owner(self, state: str) -> int:
        pid = self.stage.fork("owner", partial(failing_over.owner, self.stage.data))
        self.states.pop(pid, None)  # of a process long gone that had the same number
        self.listen(lambda: state in self.states.get(pid, ()), f"an owner is {state}")
        return pid

    def _client(self, kind: str) -> None:
        self.named += 1
        who = f"{'app' if kind == 'application' else kind}{self.named}"
        act: Callable[..., None] = getattr(failing_over, kind)
        more = (("" if self.paced else _FAST),) if kind == "application" else ()
        self.clients[who] = self.stage.fork(who, partial(act, who, self.stage.data, *more))

    def fail_over(self) -> None:
        """One failover, and everybody goes on."""
        time.sleep(self.chance.random() * 0.04)
        if self.chance.random() < 0.3:
            self._lose_a_client()
        how = self.chance.choice(("kill", "kill", "stop and kill", "end", "switch over"))
        # Who is still away from the last time is not measured: it has two outages in one.
        began = time.monotonic()
        self.away = {who: began for who in self.clients if who not in self.away}
        old, self.active = self.active, self.standby
        match how:
            case "kill":
                self.stage.end(old, signal.SIGKILL)
            case "stop and kill":
                os.kill(old, signal.SIGSTOP)
                time.sleep(0.01)
                began = time.monotonic()
                self.stage.end(old, signal.SIGKILL)
            case "end":
                self.stage.end(old, signal.SIGTERM)
            case _:
                order = self.stage.fork("order", partial(failing_over.switch_over, self.stage.data))
                self.stage.wait(order)
                self.stage.wait(old)
        self.listen(lambda: "active" in self.states[self.active], f"the standby takes over after {how!r}")
        took_ms = (self.states[self.active]["active"] - began) * 1_000
        (self.result.killed_ms if "kill" in how else self.result.ended_ms).append(took_ms)
        self.result.failovers += 1
        if self.paced:
            self.listen(lambda: not self.away, f"everybody is back after {how!r}; away: {sorted(self.away)}")
        self.standby = self._owner("standby")

    def _lose_a_client(self) -> None:
        """Kill an application in the middle of whatever it does; another of its kind takes its place."""
        who = self.chance.choice([name for name in self.clients if not name.startswith("app")])
        self.stage.end(self.clients.pop(who), signal.SIGKILL)
        self.away.pop(who, None)
        self._client(who.rstrip("0123456789"))

    def finish(self) -> None:
        """End producers first, then the others, then the queue manager."""
        for kind in ("producer", "app", "mover", "collector"):
            for who in [name for name in self.clients if name.startswith(kind)]:
                self.stage.end(self.clients.pop(who), signal.SIGTERM)
        self.stage.end(self.standby, signal.SIGTERM)
        self.stage.end(self.active, signal.SIGTERM)


def fail_over(count: int, *, seed: int, paced: bool = False, defect: str = "none", patience_s: float = _PATIENCE_S) -> Result:
    """Do so many failovers, and return what was seen."""
    failing_over.prepare()
    DEFECTS[defect]()
    result = Result()
    folder = Path(tempfile.mkdtemp(prefix="mqflow-failovers-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))  # noqa: S108 - the processes die, not the machine
    stage = Stage(folder, patience_s)
    try:
        stage.wait(stage.fork("creator", partial(_create, stage.data)))
        run = _Run(stage, result, random.Random(seed), paced=paced)  # noqa: S311 - repeatable, not secret
        try:
            run.begin()
            for _ in range(count):
                run.fail_over()
            run.finish()
        except NeverError as error:
            result.wrong.append(str(error))
        else:
            said, result.wrong = violations(stage.all_said(), *_left(stage.data))
            result.messages = len(said.put)
            result.unknown = said.unknown
    finally:
        stage.kill_all()
        shutil.rmtree(folder, ignore_errors=True)
    return result


def _create(data: Path, *, persistent: bool = True) -> None:
    with EmbeddedQueueManager("QM1", store=SqliteStore(data)) as queue_manager:
        for name in (IN, DONE):
            queue_manager.administration.define(
                QueueAttributes(name=name, max_depth=1_000_000, default_persistence=int(persistent))
            )


def _left(data: Path) -> tuple[list[str], list[str]]:
    found: dict[str, list[str]] = {IN: [], DONE: []}
    with EmbeddedQueueManager("QM1", store=SqliteStore(data)) as queue_manager:
        connection = queue_manager.connect()
        for name, messages in found.items():
            handle = connection.open(name, OpenOption.INPUT_SHARED)
            while got := connection.get(handle, GetOptions(options=GetOption.NO_SYNCPOINT)):
                messages.append(got.body.decode())
    return found[IN], found[DONE]


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the value that so many percent of them are not above."""
    return sorted(values)[min(len(values) - 1, int(len(values) * percent / 100))]


def _sentence(name: str, values: Sequence[float]) -> str:
    if not values:
        return f"{name}: none"
    spread = ", ".join(f"p{percent:g} {percentile(values, percent):.0f} ms" for percent in (50, 99, 100))
    return f"{name}: {len(values):,}; {spread}"


def main(arguments: list[str]) -> int:
    """Do it, say what was seen."""
    parser = argparse.ArgumentParser(prog="python -m tests.embedded.failovers", description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--paced", action="store_true", help="wait until everybody is back, by IBM MQ's delays")
    parser.add_argument("--defect", choices=DEFECTS, default="none")
    parser.add_argument("--patience", type=float, default=_PATIENCE_S, help="seconds until what has not happened never will")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    result = fail_over(given.count, seed=given.seed, paced=given.paced, defect=given.defect, patience_s=given.patience)
    if given.json:
        sys.stdout.write(msgspec.json.encode(result).decode())
        return 0
    lines = [
        f"{result.failovers:,} failovers, {result.messages:,} messages, {result.unknown:,} outcomes unknown, seed {given.seed}",
        _sentence("takeovers after a kill", result.killed_ms),
        _sentence("takeovers after an orderly end", result.ended_ms),
        _sentence("clients back", result.client_back_ms),
        _sentence("applications back", result.application_back_ms),
        f"wrong: {len(result.wrong)}",
        *result.wrong[:20],
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return bool(result.wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
