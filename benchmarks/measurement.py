"""Measures every budget once, in order, when the machine is as idle as possible. `page` makes the page from the figures."""

import os
from collections.abc import Callable
from cProfile import Profile
from importlib.util import find_spec
from typing import Final

from msgspec import Struct

from benchmarks import dead_letters, process_start
from benchmarks.budgets import ADDED_CPU_US, CONSUMING, STARTING, Consuming
from benchmarks.consumption import framework
from benchmarks.hotspots import Hotspot, hotspots
from benchmarks.machine import Machine, describe, wait_for_idle
from benchmarks.process_start import Phase
from benchmarks.samples import Pairs, Sample, interleaved
from benchmarks.telemetry_cost import OBSERVING, Observing, observe, sdk_us
from benchmarks.transports import in_memory

__all__ = ("Compared", "Effort", "Handled", "Measured", "Observed", "Started", "measure", "missed")


_OBSERVED: Final = 16_000
_DEAD: Final = {"memory": 8_000, "disk": 1_000}
"""The number of dead letters in a sample."""


class Effort(Struct, frozen=True, kw_only=True):
    """The size of the measurement for each figure."""

    #: The number of pairs of framework and raw loop.
    pairs: int = 5
    #: The number of new processes.
    processes: int = 7
    #: The part of the messages of a full sample.
    share: float = 1.0
    #: The longest wait for an idle machine before each comparison, in seconds.
    patience_s: float = 30.0


class Compared(Struct, frozen=True):
    """The figures of one comparison with the raw loop."""

    budget: Consuming
    pairs: Pairs
    #: The share of the processors that other processes used at the start.
    busy: float
    #: The functions in which the framework spends its time, if it missed the budget.
    profile: list[Hotspot]


class Observed(Struct, frozen=True):
    """The cost of one kind of telemetry, compared with no telemetry."""

    budget: Observing
    pairs: Pairs
    busy: float


class Handled(Struct, frozen=True):
    """The figures of the DLQ handler, compared with a loop that gets, puts and commits messages."""

    where: str
    pairs: Pairs
    busy: float


class Started(Struct, frozen=True):
    """The figures of whole processes, in the order of `STARTING`."""

    figures: list[float]
    phases: list[Phase]
    #: The times of `python -c pass` and `import mqflow`, in milliseconds.
    interpreter_ms: float
    bare_import_ms: float
    #: The time to import FastStream with NATS, in milliseconds; None if it is not installed.
    faststream_import_ms: float | None
    busy: float


class Measured(Struct, frozen=True):
    """All figures of the page."""

    machine: Machine
    effort: Effort
    load_average: float
    compared: list[Compared]
    observed: list[Observed]
    #: The time of the OpenTelemetry SDK alone for a span that is not sampled, in microseconds.
    sdk_us: float
    handled: list[Handled]
    started: Started


def measure(effort: Effort, say: Callable[[str], None]) -> Measured:
    """Measure every budget; `say` receives the name of each measurement when it begins."""
    compared = []
    for budget in CONSUMING:
        say(f"{budget.goal}: {budget.transport}, unit of work {budget.unit_of_work}, connections {budget.connections}")
        compared.append(_compare(budget, effort))
    observed = []
    for observing in OBSERVING:
        say(f"{observing.goal}: {observing.what}")
        observed.append(_observe(observing, effort))
    say("dead letters")
    handled = [_handle(where, messages, effort) for where, messages in _DEAD.items()]
    say("14 to 16: processes")
    started = _start(effort)
    return Measured(describe(), effort, os.getloadavg()[0], compared, observed, sdk_us(), handled, started)


def missed(compared: Compared) -> bool:
    """Return whether the comparison misses its budget: by its ratio, or on the transport of goal 4 also by the added time."""
    ratio, pairs = compared.budget.ratio, compared.pairs
    slow = ratio is not None and pairs.ratio < ratio.must
    return slow or (compared.budget.make is in_memory and pairs.added_us > ADDED_CPU_US.must)


def _compare(budget: Consuming, effort: Effort) -> Compared:
    messages = max(budget.unit_of_work, round(budget.messages * effort.share))
    unit = budget.unit_of_work

    def candidate(profile: Profile | None = None) -> Sample:
        return framework(budget.make, messages, unit, concurrency=budget.connections, profile=profile)

    busy = wait_for_idle(effort.patience_s)
    pairs = interleaved(candidate, lambda: budget.loop(budget.make, messages, unit), effort.pairs)
    compared = Compared(budget, pairs, busy, [])
    return Compared(budget, pairs, busy, hotspots(candidate, messages)) if missed(compared) else compared


def _observe(observing: Observing, effort: Effort) -> Observed:
    busy = wait_for_idle(effort.patience_s)
    return Observed(observing, observe(observing, max(1, round(_OBSERVED * effort.share)), effort.pairs), busy)


def _handle(where: str, messages: int, effort: Effort) -> Handled:
    busy = wait_for_idle(effort.patience_s)
    return Handled(where, dead_letters.compared(where, max(1, round(messages * effort.share)), effort.pairs), busy)


def _start(effort: Effort) -> Started:
    busy, processes = wait_for_idle(effort.patience_s), effort.processes
    phases = process_start.phases(processes)
    figures = [
        phases[-1].after_ms,
        process_start.rss_mb(max(1, processes // 2), messages=max(1, round(1_000 * effort.share))),
        process_start.import_ms("from mqflow import App", processes),
    ]
    assert len(figures) == len(STARTING)
    faststream = None
    if find_spec("faststream") and find_spec("nats"):
        faststream = process_start.import_ms("import faststream.nats", processes)
    return Started(
        figures,
        phases,
        process_start.import_ms("pass", processes),
        process_start.import_ms("import mqflow", processes),
        faststream,
        busy,
    )
