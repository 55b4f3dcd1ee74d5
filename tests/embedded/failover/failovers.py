"""Failovers, one after the other: an owner is killed or ended at any moment, its standby takes over, and no message is lost.

`python -m tests.campaign failovers` makes thousands. If they are paced, applications reconnect with the delays of IBM MQ, and
each failover waits until all are back. Each part is a process of its own, forked from this process, which has loaded all
modules and opened nothing.
"""

import math
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.mqi.attributes.queue import QueueAttributes
from tests.embedded.failover import failover_life as failing_over
from tests.embedded.failover.checking import Lying, violations
from tests.embedded.failover.defects import DEFECTS
from tests.embedded.failover.failover_life import DONE, IN
from tests.embedded.failover.stage import LOOK_S, NeverError, Stage
from tests.queue_contents import with_counts

__all__ = ("Result", "fail_over", "percentile")

_PATIENCE_S: Final = 20.0
"""The time limit, in seconds, of each event that a test waits for."""
_FAST: Final = "(3,2)"
"""The reconnect delays, in milliseconds, of an application that must reconnect soon."""


class Result(Struct, kw_only=True):
    """The counts of a run."""

    failovers: int = 0
    messages: int = 0
    #: Calls whose outcome was unknown.
    unknown: int = 0
    #: Deliveries that a process saw, and how many of these were not the first delivery of their message.
    delivered: int = 0
    redelivered: int = 0
    #: Counted backouts of deliveries that no process saw, and the largest possible number of such deliveries.
    unseen: int = 0
    perhaps_delivered: int = 0
    #: The times from the kill, or from the request, until the standby served, in milliseconds.
    killed_ms: list[float] = []
    #: The same times, if the first standby in line was killed too.
    both_killed_ms: list[float] = []
    ended_ms: list[float] = []
    #: The times from the kill or request until an application completed a call again, or had all its queues open again.
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
        self.working: set[str] = set()
        self.named = 0

    def listen(self, until: Callable[[], bool], what: str) -> None:
        """Read lines of the processes until the condition holds."""
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
        elif what in {"started", "back"}:
            self.working.add(who)
        if what == "back" and float(words[0]) >= self.away.get(who, math.inf):  # and not from the outage before
            back_ms = (float(words[0]) - self.away.pop(who)) * 1_000
            (self.result.application_back_ms if who.startswith("app") else self.result.client_back_ms).append(back_ms)

    def begin(self) -> None:
        """Start an owner, a standby, and the applications."""
        self.active = self._owner("active")
        self.standbys = [self._owner("standby"), self._owner()]
        for kind in ("producer", "producer", "mover", "collector", "application"):
            self._client(kind)
        self.listen(lambda: any(who.startswith("app") for who in self.working), "the application starts")

    def _owner(self, state: str = "") -> int:
        """Start a process that takes over when it is its turn. Wait until it has reached `state`, or waits in line."""
        pid = self.stage.fork("owner", partial(failing_over.owner, self.stage.data))
        self.states.pop(pid, None)  # the state of an earlier process with the same number
        self.listen(lambda: state in self.states.get(pid, ()) or (not state and pid in self.states), f"an owner is {state}")
        return pid

    def _client(self, kind: str) -> None:
        self.named += 1
        who = f"{'app' if kind == 'application' else kind}{self.named}"
        act: Callable[..., None] = getattr(failing_over, kind)
        more = (("" if self.paced else _FAST),) if kind == "application" else ()
        self.clients[who] = self.stage.fork(who, partial(act, who, self.stage.data, *more))

    def fail_over(self) -> None:
        """Make one failover, and wait until the applications continue."""
        time.sleep(self.chance.random() * 0.04)
        if self.chance.random() < 0.3:
            self._lose_a_client()
        how = self.chance.choice(("kill", "kill", "stop and kill", "kill two", "end", "switch over"))
        # A client that is still away is not measured: its two outages are one. A client that has not begun has none.
        began = time.monotonic()
        self.away = {who: began for who in self.clients if who in self.working and who not in self.away}
        old, self.active = self.active, self.standbys.pop(0)
        match how:
            case "kill":
                self.stage.end(old, signal.SIGKILL)
            case "stop and kill":
                os.kill(old, signal.SIGSTOP)
                time.sleep(0.01)
                began = time.monotonic()
                self.stage.end(old, signal.SIGKILL)
            case "kill two":
                began = self._kill_with_its_standby(old)
            case "end":
                self.stage.end(old, signal.SIGTERM)
            case _:
                order = self.stage.fork("order", partial(failing_over.switch_over, self.stage.data))
                self.stage.wait(order)
                self.stage.wait(old)
        self.listen(lambda: "active" in self.states.get(self.active, ()), f"the standby takes over after {how!r}")
        took_ms = (self.states[self.active]["active"] - began) * 1_000
        took = (
            self.result.both_killed_ms
            if how == "kill two"
            else self.result.killed_ms
            if "kill" in how
            else self.result.ended_ms
        )
        took.append(took_ms)
        self.result.failovers += 1
        if self.paced or self.chance.random() < 0.25:  # the other failovers hit clients that are still away
            self.listen(lambda: not self.away, f"everybody is back after {how!r}; away: {sorted(self.away)}")
        if self.standbys:
            [following] = self.standbys
            self.listen(lambda: "standby" in self.states.get(following, ()), "the next one in line stands by")
        else:
            self.standbys.append(self._owner("standby"))
        self.standbys.append(self._owner())

    def _kill_with_its_standby(self, old: int) -> float:
        """Kill the owner and its standby, in either order; return the time of the second kill. The next standby takes over."""
        first, self.active = self.active, self.standbys.pop(0)
        victims = [old, first]
        if self.chance.random() < 0.5:
            victims.reverse()
        self.stage.end(victims[0], signal.SIGKILL)
        time.sleep(self.chance.random() * 0.012)  # the standby may be taking over now
        began = time.monotonic()
        self.stage.end(victims[1], signal.SIGKILL)
        return began

    def _lose_a_client(self) -> None:
        """Kill an application at any moment, and start another application of its kind."""
        who = self.chance.choice([name for name in self.clients if not name.startswith("app")])
        self.stage.end(self.clients.pop(who), signal.SIGKILL)
        self.away.pop(who, None)
        self._client(who.rstrip("0123456789"))

    def finish(self) -> None:
        """End the producers first, then the other applications, then the queue manager."""
        for kind in ("producer", "app", "mover", "collector"):
            for who in [name for name in self.clients if name.startswith(kind)]:
                self.stage.end(self.clients.pop(who), signal.SIGTERM)
        for owner in (*self.standbys[::-1], self.active):
            self.stage.end(owner, signal.SIGTERM)


def fail_over(count: int, *, seed: int, paced: bool = False, defect: str = "none", patience_s: float = _PATIENCE_S) -> Result:
    """Make `count` failovers, and return the counts."""
    failing_over.prepare()
    result = Result()
    folder = Path(tempfile.mkdtemp(prefix="mqflow-failovers-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))  # noqa: S108 - the processes die, not the machine
    stage = Stage(folder, patience_s)
    try:
        stage.wait(stage.fork("creator", partial(_create, stage.data)))
        DEFECTS[defect]()  # now that there are queues: what cannot even start shows nothing
        run = _Run(stage, result, random.Random(seed), paced=paced)  # noqa: S311 - repeatable, not secret
        try:
            run.begin()
            while result.failovers < count:
                run.fail_over()
            run.finish()
        except NeverError as error:
            result.wrong.append(str(error))
            stage.say_where()
        else:
            said, result.wrong = violations(stage.all_said(), *_left(stage.data))
            result.messages = len(said.put)
            result.unknown = said.unknown
            result.delivered, result.redelivered = said.delivered, said.redelivered
            result.unseen, result.perhaps_delivered = said.unseen, said.perhaps_delivered
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


def _left(data: Path) -> tuple[list[Lying], list[Lying]]:
    with EmbeddedQueueManager("QM1", store=SqliteStore(data)) as queue_manager:
        return with_counts(queue_manager, IN), with_counts(queue_manager, DONE)


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the value that `percent` of the values do not exceed."""
    return sorted(values)[min(len(values) - 1, int(len(values) * percent / 100))]
