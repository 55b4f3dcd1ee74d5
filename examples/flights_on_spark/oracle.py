"""The expected end of every message, counted in plain Python from the file of flights. The checks of the example use it.

This file imports nothing of mqflow, so that it cannot repeat mqflow's mistakes. It has its own version of the rules.
"""

import gzip
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date
from itertools import chain
from pathlib import Path
from typing import Any

from examples.flights_on_spark import planted

__all__ = ("Days", "Expected", "Fate", "Key", "Life", "curve", "deliveries", "expected", "failures", "read")

Key = tuple[str, int]
"""The queue and the number of the flight, which is the number of its line in the file, from 0."""
Days = dict[date, list[tuple[int, bytes]]]


@dataclass(frozen=True)
class Fate:
    """The expected end of one message."""

    #: The possible outcomes, each with its number of deliveries. There can be several outcomes, because the order of the
    #: messages decides which ones find a queue full.
    outcomes: dict[str, int]
    #: The class of the exception; None for no exception.
    error: str | None = None
    #: The number of redrives.
    redrives: int = 0

    @property
    def poison(self) -> bool:
        """Whether the message ends as a poison message."""
        return self.outcomes.keys() != {"committed"}


@dataclass(frozen=True)
class Life:
    """The deliveries of one message, from its put or its redrive to its next end."""

    queue: str
    deliveries: int
    committed: bool
    #: The class of the exception with which each failed delivery failed.
    error: str | None = None

    @property
    def failed(self) -> int:
        """The number of failed deliveries."""
        return self.deliveries - self.committed


@dataclass
class Expected:
    """The expected messages before and after the redrive."""

    before: dict[Key, Fate] = field(default_factory=dict)
    after: dict[Key, Fate] = field(default_factory=dict)
    #: The deliveries until the redrive, and the deliveries from the redrive on.
    lives: list[Life] = field(default_factory=list)
    lives_again: list[Life] = field(default_factory=list)
    #: The poison messages by queue; after the redrive without the messages that the redrive handled.
    poison_before: Counter[str] = field(default_factory=Counter)
    poison_after: Counter[str] = field(default_factory=Counter)
    #: The flights on FLIGHTS.BOOKED at the end.
    booked: set[int] = field(default_factory=set)
    #: Dead letters by reason and queue, before the redrive.
    dead_letters: Counter[tuple[int, str]] = field(default_factory=Counter)
    #: The redriven messages: flights of the carrier with new gates, and messages that found the backout queue full.
    flights_back: int = 0
    nights_back: int = 0


def read(path: Path, most: int | None = None) -> Days:
    """Return the flights of the file by day, in order; with `most`, only the flights of the first `most` days."""
    found: Days = {}
    with gzip.open(path) as lines:
        for number, line in enumerate(lines):
            found.setdefault(_day(json.loads(line)), []).append((number, line.rstrip(b"\n")))
    return {day: found[day] for day in sorted(found)[:most]}


def expected(days: Days, change: date) -> Expected:
    """Return the expected messages for these flights, if the gates change on the day `change`."""
    found = Expected()
    for number, line in chain.from_iterable(days.values()):
        flight = json.loads(line)
        cut = number % planted.CUT_EVERY == planted.CUT_AT
        strange_gate = flight["carrier"] == planted.GATES_CARRIER and _day(flight) >= change
        fates = dict(_flight(number, flight, cut=cut, strange_gate=strange_gate))
        found.before |= fates
        found.lives += [_life(queue, fate) for (queue, _), fate in fates.items()]
        if strange_gate and not cut:  # a cut line has no carrier
            found.flights_back += 1
            again = dict(_flight(number, flight, cut=False, strange_gate=False, repaired=True))
            found.lives_again += [_life(queue, fate) for (queue, _), fate in again.items()]
            tried, first = again["FLIGHTS.IN", number], fates["FLIGHTS.IN", number]
            [(_, before)] = first.outcomes.items()
            both = {outcome: before + attempts for outcome, attempts in tried.outcomes.items()}
            again["FLIGHTS.IN", number] = Fate(both, first.error, redrives=1)
            fates |= again
        if ("NIGHT.IN", number) in fates and fates[
            "NIGHT.IN", number
        ].poison:  # messages for which there was no room are redriven
            fates["NIGHT.IN", number] = Fate({"backed_out": 2, "committed": 2 + 1}, "UnknownAirportError")
        found.after |= fates
        if not fates["FLIGHTS.IN", number].poison:
            found.booked.add(number)
    _count(found)
    return found


def deliveries(lives: Iterable[Life]) -> Counter[str]:
    """Return the number of deliveries by queue."""
    found: Counter[str] = Counter()
    for life in lives:
        found[life.queue] += life.deliveries
    return found


def failures(lives: Iterable[Life]) -> Counter[tuple[str, str]]:
    """Return the number of failed deliveries by queue and exception."""
    found: Counter[tuple[str, str]] = Counter()
    for life in lives:
        if life.error is not None:
            found[life.queue, life.error] += life.failed
    return found


def curve(lives: Iterable[Life]) -> dict[tuple[str, int], tuple[int, int]]:
    """Return how many messages reached each attempt, and how many succeeded in it, by queue and number of the attempt."""
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for life in lives:
        for number in range(1, life.deliveries + 1):
            entered, succeeded = found.get((life.queue, number), (0, 0))
            found[life.queue, number] = (entered + 1, succeeded + (life.committed and number == life.deliveries))
    return found


def _day(flight: dict[str, Any]) -> date:
    return date(flight["year"], flight["month"], flight["day"])


def _flight(
    number: int, flight: dict[str, Any], *, cut: bool, strange_gate: bool, repaired: bool = False
) -> Iterator[tuple[Key, Fate]]:
    """Yield the fate of a flight, and of the messages that its booking makes."""
    if cut or flight["arr_delay"] is None:
        yield ("FLIGHTS.IN", number), Fate({"backed_out": 1}, "msgspec.DecodeError" if cut else "msgspec.ValidationError")
        return
    if strange_gate:
        yield ("FLIGHTS.IN", number), Fate({"backed_out": 3}, "UnknownGateError")
        return
    yield ("FLIGHTS.IN", number), Fate({"committed": 1})
    if flight["arr_delay"] >= planted.CLAIM_MINUTES:
        yield ("CLAIMS.IN", number), _claim(flight["flight"])
    if flight["hour"] >= planted.NIGHT_HOUR:
        unknown = flight["dest"] in planted.NIGHT_UNKNOWN and not repaired
        poison = Fate({"backed_out": 2, "dead_lettered": 2}, "UnknownAirportError")
        yield ("NIGHT.IN", number), poison if unknown else Fate({"committed": 1})
    if flight["distance"] > planted.HAWAII_MILES:
        refused = flight["carrier"] == planted.HAWAII_CARRIER
        yield ("HAWAII.IN", number), Fate({"dead_lettered": 2}, "NotAdmittedError") if refused else Fate({"committed": 1})


def _claim(number: int) -> Fate:
    if number % planted.CLAIM_NEVER == 0:
        return Fate({"dead_lettered": 3}, "ClaimsServiceError")
    if number % 4 == planted.CLAIM_SECOND:
        return Fate({"committed": 2}, "Retry")
    if number % 4 == planted.CLAIM_THIRD:
        return Fate({"committed": 3}, "ClaimsServiceError")
    return Fate({"committed": 1})


def _life(queue: str, fate: Fate) -> Life:
    """Return the deliveries of a message that has not been redriven: each of its possible outcomes has the same number."""
    [number] = set(fate.outcomes.values())
    return Life(queue, number, not fate.poison, fate.error)


def _count(found: Expected) -> None:
    found.poison_before.update(queue for (queue, _), fate in found.before.items() if fate.poison)
    found.nights_back = max(0, found.poison_before["NIGHT.IN"] - planted.NIGHT_BACKOUT_DEPTH)
    found.lives_again += [Life("NIGHT.IN", 1, committed=True)] * found.nights_back
    found.poison_after.update(queue for (queue, _), fate in found.after.items() if fate.poison)
    found.poison_after["NIGHT.IN"] -= found.nights_back
    found.dead_letters = +Counter(
        {
            (2053, "NIGHT.IN"): found.nights_back,
            (2085, "HAWAII.IN"): found.poison_before["HAWAII.IN"],
            (2362, "CLAIMS.IN"): found.poison_before["CLAIMS.IN"],
        }
    )
