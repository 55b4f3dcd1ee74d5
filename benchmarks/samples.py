"""Samples, and the two figures of pairs of samples: the ratio of rates, and the added processor time.

Candidate and baseline run in turns, so that load of other processes falls on both. Figures are medians, never single runs.
"""

import gc
import os
import resource
import time
from collections.abc import Callable, Sequence
from math import floor, sqrt
from pathlib import Path
from statistics import median

from msgspec import Struct

from benchmarks.tables import Bar, Row

__all__ = ("Meter", "Pairs", "Sample", "cpu_s", "cpu_s_of", "interleaved", "rss_bytes")


class Sample(Struct, frozen=True):
    """The measurement of one run."""

    messages: int
    wall_s: float
    #: The processor time of all threads of the process: getrusage, user and system.
    cpu_s: float

    @property
    def rate(self) -> float:
        """The messages a second."""
        return self.messages / self.wall_s

    @property
    def cpu_us(self) -> float:
        """The processor time for each message, in microseconds."""
        return self.cpu_s / self.messages * 1e6


class Meter:
    """Measures the time and the processor time from the first message to the last."""

    def __init__(self) -> None:
        self._wall_s = 0.0
        self._cpu_s = 0.0

    def start(self) -> None:
        """Begin the measurement."""
        self._cpu_s = cpu_s()
        self._wall_s = time.perf_counter()

    def sample(self, messages: int) -> Sample:
        """Return the sample since the start, for this number of messages."""
        return Sample(messages, time.perf_counter() - self._wall_s, cpu_s() - self._cpu_s)


class Pairs(Struct, frozen=True):
    """Candidate and baseline, run in turns."""

    candidates: Sequence[Sample]
    baselines: Sequence[Sample]
    #: The share of the processors that other processes used before the first run; None if it was not measured.
    busy: float | None = None

    @property
    def rate(self) -> float:
        """The median of the candidate's messages a second."""
        return median(sample.rate for sample in self.candidates)

    @property
    def baseline_rate(self) -> float:
        """The median of the baseline's messages a second."""
        return median(sample.rate for sample in self.baselines)

    @property
    def ratio(self) -> float:
        """The median of the ratios of the pairs, because load of other processes falls on both samples of a pair."""
        return median(one.rate / other.rate for one, other in zip(self.candidates, self.baselines, strict=True))

    @property
    def cpu_us(self) -> float:
        """The median of the candidate's processor time for each message, in microseconds."""
        return median(sample.cpu_us for sample in self.candidates)

    @property
    def baseline_cpu_us(self) -> float:
        """The median of the baseline's processor time for each message, in microseconds."""
        return median(sample.cpu_us for sample in self.baselines)

    @property
    def added_us(self) -> float:
        """The processor time that the candidate adds to each message, in microseconds."""
        return self.cpu_us - self.baseline_cpu_us

    @property
    def differences_us(self) -> tuple[float, float, float]:
        """The median of the differences in processor time for each message, and the ends of its interval, in microseconds.

        The true median is in the interval with a probability of about 95 %, for any distribution of the differences. With fewer
        than 8 pairs, the interval reaches from the smallest to the largest difference.
        """
        found = sorted(one.cpu_us - other.cpu_us for one, other in zip(self.candidates, self.baselines, strict=True))
        below = max(0, floor(len(found) / 2 - 0.98 * sqrt(len(found))))
        return median(found), found[below], found[-1 - below]

    def row(self, name: str, bar: Bar | None = None, *, goal: int = 0, unit: str = "") -> Row:
        """Return the row of the ratio, with both rates in its cells."""
        cells = (f"{self.rate:,.0f}{unit}", f"{self.baseline_rate:,.0f}{unit}")
        return Row(goal=goal, name=name, cells=cells, figure=self.ratio, bar=bar, busy=self.busy)


def interleaved(candidate: Callable[[], Sample], baseline: Callable[[], Sample], pairs: int) -> Pairs:
    """Run candidate and baseline in turns and return the pairs. A first run of each is not measured."""
    candidate()
    baseline()
    measured = [(_settled(candidate), _settled(baseline)) for _ in range(pairs)]
    return Pairs([one for one, _ in measured], [other for _, other in measured])


def _settled(run: Callable[[], Sample]) -> Sample:
    gc.collect()
    return run()


def cpu_s() -> float:
    """Return the processor time of this process so far, user and system, of all threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def cpu_s_of(pid: int) -> float:
    """Return the processor time of a process so far. Linux counts it in hundredths of a second."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_bytes(pid: int | str = "self") -> int:
    """Return the present memory of a process; by default, of this process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) * 1_024
