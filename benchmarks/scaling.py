"""Checks the formulas of docs/scaling.md by simulation in virtual time: `python -m benchmarks.scaling [--share S]`.

The simulation makes the decisions of mqflow. They are the ladder of reconnect delays, the pauses between deliveries, and the
choice of a queue manager from a channel table. It has no sockets and no handlers: ten thousand applications run on one
processor. A queue manager accepts connections one after the other, at an assumed rate. The command writes the tables and the
pictures of the page.
"""

import argparse
import heapq
import math
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from benchmarks.page import replaced_between
from mqflow.policy.channels.candidates import Preference, candidates
from mqflow.policy.channels.table import Address, Channel, ChannelTable
from mqflow.policy.poison.redelivery_delay import REDELIVERY, Pace, pause_s
from mqflow.policy.reconnect.delays import LADDER, Ladder, delay_s
from mqflow.testing.virtual_clock import SeededRandom

if TYPE_CHECKING:
    import altair as alt

__all__ = (
    "Back", "Figure", "Moved", "Redriven", "figures", "group_without_one", "latest_attempt_s", "poison", "poison_s",
    "reconnect", "redrive",
)  # fmt: skip

_DOCS: Final = Path(__file__).parents[1] / "docs"
_BEGIN: Final = "<!-- simulated: begin (python -m benchmarks.scaling writes what stands between these two lines) -->"
_END: Final = "<!-- simulated: end -->"
INSTANCES: Final = 10_000
QUEUE_MANAGERS: Final = 8
ACCEPTS_PER_S: Final = 1_000.0
_PEAK_S: Final = 0.1
_WITHOUT_RANDOM: Final[Ladder] = tuple((fixed_s + random_s / 2, 0.0) for fixed_s, random_s in LADDER)


class Figure(Struct, frozen=True, kw_only=True):
    """One comparison of a formula with the simulation."""

    scenario: str
    quantity: str
    formula: float
    simulated: float
    unit: str

    @property
    def difference(self) -> float:
        """The difference as a part of the simulated figure."""
        return self.formula / self.simulated - 1 if self.simulated else 0.0


# -- reconnecting


class Back(Struct, frozen=True):
    """The reconnect of many applications: each attempt, and each moment when an application was back, in seconds."""

    attempts_s: Sequence[float]
    back_s: Sequence[float]

    @property
    def peak(self) -> int:
        """The most attempts within a tenth of a second."""
        return max(bisect_right(self.attempts_s, at_s + _PEAK_S) - place for place, at_s in enumerate(self.attempts_s))


def reconnect(
    instances: int,
    outage_s: float,
    random: Callable[[], float],
    *,
    ladder: Ladder = LADDER,
    accepts_per_s: float = ACCEPTS_PER_S,
) -> Back:
    """Simulate applications that lose a queue manager at the same moment and reconnect. Attempts during the outage fail."""
    attempts, arrivals = list[float](), list[float]()
    for _ in range(instances):
        at_s, attempt = 0.0, 0
        while at_s < outage_s or not attempt:
            attempt += 1
            at_s += delay_s(attempt, random(), ladder)
            attempts.append(at_s)
        arrivals.append(at_s)
    back, free_s = list[float](), 0.0
    for arrival_s in sorted(arrivals):
        free_s = max(free_s, arrival_s) + 1 / accepts_per_s
        back.append(free_s)
    return Back(sorted(attempts), back)


def latest_attempt_s(outage_s: float, ladder: Ladder = LADDER) -> float:
    """Return the latest moment of the first attempt after an outage, if every delay has its largest random part."""
    fixed_s, latest_s, attempt = 0.0, 0.0, 0
    while fixed_s < outage_s or not attempt:
        attempt += 1
        fixed_s += delay_s(attempt, 0.0, ladder)
        latest_s += delay_s(attempt, 1.0, ladder)
    return latest_s


# -- poison messages


class Moved(Struct, frozen=True):
    """A storm of poison messages: the seconds until all were moved, and the number of handler calls."""

    seconds: float
    calls: int


def poison(
    messages: int,
    workers: int,
    random: Callable[[], float],
    *,
    threshold: int = 3,
    handle_s: float = 0.005,
    pace: Pace = REDELIVERY,
) -> Moved:
    """Let every message fail until its backout count reaches the threshold. A worker keeps the message during each pause."""
    free, calls = [0.0] * workers, 0
    for _ in range(messages):
        at_s = heapq.heappop(free)
        for count in range(1, threshold + 1):
            calls += 1
            at_s += handle_s + (pause_s(pace, count, random()) if count < threshold else 0.0)
        heapq.heappush(free, at_s)
    return Moved(max(free), calls)


def poison_s(messages: int, workers: int, *, threshold: int = 3, handle_s: float = 0.005, pace: Pace = REDELIVERY) -> float:
    """Return the seconds by the formula: messages x (threshold x handling + mean pauses) / workers."""
    pauses_s = sum(pause_s(pace, count, 0.5) for count in range(1, threshold))
    return messages * (threshold * handle_s + pauses_s) / workers


# -- redrive beside live traffic


class Redriven(Struct, frozen=True):
    """A redrive beside live traffic: the greatest depth of the queue, and the seconds until the queue was empty again."""

    depth_max: int
    seconds: float
    depths: Sequence[tuple[float, int]]


def redrive(
    messages: int, per_s: float, live_per_s: float, workers: int, random: Callable[[], float], *, handle_s: float = 0.005
) -> Redriven:
    """Put the messages back at a steady rate, beside live messages that come at random. Each handling takes `handle_s`."""
    arrivals = [number / per_s for number in range(messages)]
    end_s = messages / per_s
    capacity_per_s = workers / handle_s
    live_until_s = end_s + 2 * max(0.0, (live_per_s + per_s - capacity_per_s) * end_s) / (capacity_per_s - live_per_s) + 10
    at_s = 0.0
    while at_s < live_until_s:
        at_s -= math.log(1 - random()) / live_per_s
        arrivals.append(at_s)
    arrivals.sort()
    free, starts = [0.0] * workers, list[float]()
    for arrival_s in arrivals:
        start_s = max(heapq.heappop(free), arrival_s)
        starts.append(start_s)
        heapq.heappush(free, start_s + handle_s)
    depths = [(arrival_s, place + 1 - bisect_right(starts, arrival_s)) for place, arrival_s in enumerate(arrivals)]
    empty_s = next((at_s for at_s, depth in depths if at_s > end_s and depth <= 0), math.inf)
    return Redriven(max(depth for _, depth in depths), empty_s, depths[:: max(1, len(depths) // 400)])


# -- a group that loses a member


def group_without_one(instances: int, members: int, random: Callable[[], float]) -> Counter[str]:
    """Return the applications of each remaining queue manager after one member of a group of equal weights is lost."""
    channels = tuple(
        Channel(
            name=f"QM{number}",
            queue_manager="GROUP",
            client_weight=1,
            affinity="none",
            addresses=(Address(f"qm{number}.example"),),
            position=number,
        )
        for number in range(members)
    )
    preference = Preference(table=ChannelTable(channels=channels))
    placed = Counter[str]()
    for _ in range(instances):
        places = (each.channel.name for each in candidates(preference, "*GROUP", random=random))
        placed[next(name for name in places if name != "QM0")] += 1
    return placed


# -- the page


def figures(share: float = 1.0) -> Iterator[Figure]:
    """Yield each comparison. `share` makes the number of applications and of messages smaller."""
    random = SeededRandom(1).random
    instances, messages = int(INSTANCES * share), int(1_000_000 * share)
    each = instances // QUEUE_MANAGERS
    random_s = LADDER[0][1]
    for name, lost, count in (("one queue manager fails over", each, 1), ("all eight fail over", each, QUEUE_MANAGERS)):
        backs = [reconnect(lost, 0.1, random) for _ in range(count)]
        every = sorted(at_s for back in backs for at_s in back.back_s)
        together = Back(sorted(at_s for back in backs for at_s in back.attempts_s), every)
        peak = lost * count * _PEAK_S / random_s
        yield Figure(scenario=name, quantity="most attempts in 0.1 s", formula=peak, simulated=together.peak, unit="")
        yield Figure(
            scenario=name,
            quantity="all are back after",
            formula=LADDER[0][0] + max(random_s, lost / ACCEPTS_PER_S),
            simulated=every[-1],
            unit="s",
        )
    alike = reconnect(instances, 0.1, random, ladder=_WITHOUT_RANDOM)
    yield Figure(
        scenario="all eight fail over, delays without a random part",
        quantity="most attempts in 0.1 s",
        formula=instances,
        simulated=alike.peak,
        unit="",
    )
    long = reconnect(each, 30.0, random)
    yield Figure(
        scenario="one queue manager is away for 30 s",
        quantity="all are back after",
        formula=latest_attempt_s(30.0),
        simulated=long.back_s[-1],
        unit="s",
    )
    for workers in (16, 64):
        yield Figure(
            scenario=f"{messages:,} poison messages, {workers} workers",
            quantity="all are moved after",
            formula=poison_s(messages, workers),
            simulated=poison(messages, workers, random).seconds,
            unit="s",
        )
    live_per_s, per_s, workers, handle_s = 1_200.0, 1_000.0, 10, 0.005
    capacity_per_s = workers / handle_s
    done = redrive(messages, per_s, live_per_s, workers, random, handle_s=handle_s)
    name = f"{messages:,} redriven at {per_s:,.0f}/s beside {live_per_s:,.0f}/s, capacity {capacity_per_s:,.0f}/s"
    depth = (live_per_s + per_s - capacity_per_s) * messages / per_s
    yield Figure(scenario=name, quantity="deepest queue", formula=depth, simulated=done.depth_max, unit="messages")
    yield Figure(
        scenario=name,
        quantity="the queue is empty again after",
        formula=messages / (capacity_per_s - live_per_s),
        simulated=done.seconds,
        unit="s",
    )
    placed = group_without_one(instances, QUEUE_MANAGERS, random)
    left = QUEUE_MANAGERS - 1
    yield Figure(
        scenario="a group of eight loses a member",
        quantity="most applications on one of seven",
        formula=instances / left + 2 * math.sqrt(instances / left * (1 - 1 / left)),
        simulated=max(placed.values()),
        unit="applications",
    )


def _table(rows: Sequence[Figure]) -> str:
    lines = ["| scenario | quantity | by the formula | simulated | difference |", "|---|---|---:|---:|---:|"]
    for row in rows:
        decimals = 2 if row.unit == "s" else 0
        shown = (f"{value:,.{decimals}f} {row.unit}".strip() for value in (row.formula, row.simulated))
        lines.append(
            f"| {row.scenario} | {row.quantity} | {' | '.join(shown)} | {row.difference:+.1%} |".replace(
                "-0.0%", "0.0%"
            ).replace("+0.0%", "0.0%")
        )
    return "\n".join(lines)


def _storm_picture(share: float) -> "alt.Chart":
    """Return the attempts of each tenth of a second after all queue managers failed over, with and without the random part."""
    import altair as alt  # noqa: PLC0415 - only this command draws

    rows = []
    accepts_per_s = ACCEPTS_PER_S * QUEUE_MANAGERS
    for name, ladder in (("with the random part", LADDER), ("without it", _WITHOUT_RANDOM)):
        random = SeededRandom(2).random
        back = reconnect(int(INSTANCES * share), 5.0, random, ladder=ladder, accepts_per_s=accepts_per_s)
        counted = Counter(round(at_s, 1) for at_s in back.attempts_s)
        rows += [{"seconds": at_s, "attempts": count, "delays": name} for at_s, count in sorted(counted.items())]
    drawn: alt.Chart = (
        alt.Chart(alt.InlineData(values=rows), width=640, height=220)
        .mark_bar(width=5)
        .encode(
            x=alt.X("seconds:Q", title="seconds after the loss (an outage of 5 s)"),
            y=alt.Y("attempts:Q", title="attempts in a tenth of a second"),
            color=alt.Color("delays:N", title=None, scale=alt.Scale(range=["#0072b2", "#d55e00"])),
            row=alt.Row("delays:N", title=None),
        )
    )
    return drawn


def _redrive_picture(share: float) -> "alt.Chart":
    """Return the depth of the queue during a redrive that is faster than the capacity that live traffic leaves."""
    import altair as alt  # noqa: PLC0415 - as above

    done = redrive(int(1_000_000 * share), 1_000.0, 1_200.0, 10, SeededRandom(3).random)
    rows = [{"seconds": at_s, "messages": depth} for at_s, depth in done.depths]
    drawn: alt.Chart = (
        alt.Chart(alt.InlineData(values=rows), width=640, height=220)
        .mark_line(color="#0072b2")
        .encode(
            x=alt.X("seconds:Q", title="seconds since the redrive began"), y=alt.Y("messages:Q", title="messages on the queue")
        )
    )
    return drawn


def main(arguments: Sequence[str]) -> None:
    """Write the table and the pictures of docs/scaling.md."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="a part of the applications and messages, such as 0.01")
    parser.add_argument("--docs", type=Path, default=_DOCS, help="the folder with scaling.md")
    given = parser.parse_args(arguments)
    page: Path = given.docs / "scaling.md"
    text = f"Simulated on {datetime.now(UTC).date().isoformat()}.\n\n{_table(list(figures(given.share)))}"
    page.write_text(replaced_between(page.read_text("utf-8"), text, _BEGIN, _END), "utf-8")
    (given.docs / "images").mkdir(exist_ok=True)
    _storm_picture(given.share).save(given.docs / "images/scaling-reconnect.svg")
    _redrive_picture(given.share).save(given.docs / "images/scaling-redrive.svg")


if __name__ == "__main__":
    main(sys.argv[1:])
