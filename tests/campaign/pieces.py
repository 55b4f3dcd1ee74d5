"""One piece of each campaign: what one seed does, over the harnesses of the other folders.

A piece returns its counts and its findings. An exception is a finding too: the command notes it with the seed.
"""

import os
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.testing.virtual_time import Backend
from tests.campaign.parsers import read_at_random
from tests.campaign.soaking import soak
from tests.embedded.disk_faults.bit_flips import flip_bits
from tests.embedded.disk_faults.disk import Disk, build_disk, memory_folder
from tests.embedded.disk_faults.faulty_calls import Tried
from tests.embedded.disk_faults.histories import kill_applications, kill_owners
from tests.embedded.disk_faults.power_cuts import Found, recording, violations
from tests.embedded.failover.drains import drain
from tests.embedded.failover.failovers import fail_over
from tests.embedded.network.breaking import break_over
from tests.embedded.network.cable import Fault, why_none
from tests.embedded.network.calls_under_way import EXPECTED, define
from tests.embedded.network.partitions import break_all_calls, expected
from tests.embedded.network.proxy import Break
from tests.journal.damages import Template, campaign
from tests.model.actions import walk
from tests.model.application_runs import simulated
from tests.model.machine import DurableMachine, QueueManagerMachine
from tests.simulation.scenario import simulate

__all__ = (
    "SMALL", "Piece", "application", "bit_flips", "drains", "failovers", "journals", "kills", "model", "network", "parsers",
    "power_cuts", "simulation", "soaks", "system_calls",
)  # fmt: skip

SMALL: Final = "MQFLOW_CAMPAIGN_SMALL"
"""With this variable, a piece does a tenth: the size of the tests and of the zoo."""
_LIFE_PARTS: Final = 8


class Piece(Struct, kw_only=True):
    """The result of one seed."""

    #: How much was done, in the unit of the campaign.
    done: int
    counts: dict[str, int] = field(default_factory=dict)
    #: Measured times in milliseconds, by name.
    times_ms: dict[str, list[float]] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)


def _size(whole: int) -> int:
    return max(1, whole // 10) if os.environ.get(SMALL) else whole


def _backend(seed: int) -> Backend:
    return "trio" if seed % 2 else "asyncio"


@cache
def _disk() -> Disk:
    """Compile the faulty disk, once for this process."""
    made = tempfile.mkdtemp(prefix="mqflow-disk-")
    return build_disk(Path(made))


def simulation(seed: int) -> Piece:
    """Owners, a standby, producers and an application in virtual time."""
    with memory_folder() as root:
        report = simulate(seed, _backend(seed), root)
    counts = report.events + Counter(takeovers=report.owners - 2, unknown_puts=report.unknown_puts)
    counts["virtual seconds"] = int(report.virtual_s)
    return Piece(done=1, counts=dict(counts))


def application(seed: int) -> Piece:
    """An application with its runtime in virtual time."""
    return Piece(done=1, counts=dict(Counter(type(event).__name__ for event in simulated(seed, _backend(seed)))))


def kills(seed: int) -> Piece:
    """Lives of an owner, or of applications in each third piece, each ended by kill -9."""
    lives = _size(200)
    with memory_folder() as folder:
        said, wrong = kill_applications(folder, seed, lives) if seed % 3 == 2 else kill_owners(_disk(), folder, seed, lives)
    counts = {"put": len(said.put), "moved": len(said.moved), "backed out": len(said.not_moved), "delivered": said.delivered}
    return Piece(done=lives, counts=counts, findings=wrong)


def system_calls(seed: int) -> Piece:
    """An eighth of the points of one life: each system call with each fault."""
    life, part = divmod(seed, _LIFE_PARTS)
    with memory_folder() as folder:
        (folder / "data").mkdir(mode=0o700)
        parts = _LIFE_PARTS * 10 if os.environ.get(SMALL) else _LIFE_PARTS
        arguments = (str(life), str(part), str(parts))
        ended = _disk().run("tests.embedded.disk_faults.faulty_calls", *arguments, folder=folder / "data")
    if ended.returncode:
        raise AssertionError(ended.stderr)
    tried = msgspec.json.decode(ended.stdout, type=Tried)
    return Piece(done=tried.points, counts=tried.counts, findings=tried.wrong)


def power_cuts(seed: int) -> Piece:
    """A recorded life of a store, cut in many places."""
    states = _size(10_000)
    opened: dict[bytes, Found] = {}
    with memory_folder() as folder:
        wrong = list(violations(recording(_disk(), folder, seed), folder, seed, states, opened))
    return Piece(done=states, counts={"recorded runs": 1, "different files": len(opened)}, findings=wrong)


def bit_flips(seed: int) -> Piece:
    """Single bits of a file of a store, flipped one after the other."""
    with memory_folder() as folder:
        outcomes, wrong = flip_bits(folder, seed, _size(500))
    return Piece(done=outcomes.total(), counts=dict(outcomes), findings=wrong)


def failovers(seed: int) -> Piece:
    """Failovers with real processes. In each fifth piece the applications reconnect with the delays of IBM MQ."""
    paced = seed % 5 == 4
    result = fail_over(_size(8 if paced else 50), seed=seed, paced=paced)
    counts = {"messages": result.messages, "deliveries": result.delivered, "redeliveries": result.redelivered}
    return Piece(
        done=result.failovers,
        counts=counts | {"calls with an unknown outcome": result.unknown},
        times_ms={
            "takeover after a kill": result.killed_ms,
            "takeover after a kill of the owner and its standby": result.both_killed_ms,
            "takeover after an orderly end": result.ended_ms,
            "an application back, by IBM MQ's delays" if paced else "an application back": result.application_back_ms,
        },
        findings=result.wrong,
    )


def drains(seed: int) -> Piece:
    """Applications at full load, each ended by SIGTERM."""
    result = drain(_size(40), seed=seed)
    counts = {"handlers under way": result.under_way, "messages": result.handled}
    return Piece(done=result.ended, counts=counts, times_ms={"exit after SIGTERM": result.exit_ms}, findings=result.wrong)


def network(seed: int) -> Piece:
    """All calls at once over a wire that breaks. Each eighth seed uses the cable between two network namespaces."""
    cable = seed % 8 == 7 and not why_none()
    if cable:
        fault = (Fault.PARTITION, Fault.THERE_ONLY, Fault.BACK_ONLY)[seed // 8 % 3]
        noticed, let_go = break_all_calls(fault, 0.4)
        words, reasons, wanted = fault.value, noticed.reasons, expected(fault)
    else:
        how = tuple(Break)[seed % len(Break)]
        with EmbeddedQueueManager("QM1", user="alice") as owner:
            define(owner)
            _, reasons = break_over(owner, how)
        words, wanted, let_go = how.value, EXPECTED, True
    findings = [
        f"{words}: {name} ended with {reason}, not with {wanted[name]}"
        for name, reason in reasons.items()
        if reason != wanted[name]
    ]
    findings += [] if let_go else [f"{words}: handles are left"]
    return Piece(done=len(reasons), counts={"over the cable" if cable else "over the proxy": len(reasons)}, findings=findings)


def parsers(seed: int) -> Piece:
    """Inputs of one parser after the other, guided by coverage."""
    name, inputs, wrong = read_at_random(seed, _size(200_000))
    return Piece(done=inputs, counts={name: inputs}, findings=wrong)


def model(seed: int) -> Piece:
    """Random calls on the queue manager and on its model; each fourth walk is on disk, with restarts."""
    if seed % 4 == 3:
        return Piece(done=walk(DurableMachine, seed=seed, steps=_size(1_000)), counts={"walks on disk": 1})
    return Piece(done=walk(QueueManagerMachine, seed=seed, steps=_size(5_000)), counts={"walks in memory": 1})


def journals(seed: int) -> Piece:
    """Damaged and sound journals."""
    count = _size(200)
    with memory_folder() as folder:
        result = campaign(Template(folder), count, seed)
    return Piece(done=count, counts={"damages": result.damages.total(), "sound": result.sound}, findings=result.wrong)


def soaks(seed: int) -> Piece:
    """Messages through one queue manager, with its resources counted before and after."""
    with memory_folder() as folder:
        messages, wrong = soak(folder, 40_000)  # fewer show no growth on the disk
    return Piece(done=messages, findings=wrong)
