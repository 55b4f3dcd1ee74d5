"""Compares tables, queues and report with the plain count; tables of messages are compared message by message.

Reads the tables with delta-rs and pyarrow, and the JSON file of the report.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
from deltalake import DeltaTable
from msgspec import Struct

from examples.flights_on_spark import planted
from examples.flights_on_spark.oracle import Expected, Fate, Key

__all__ = ("Check", "check_booked", "check_gold", "check_history", "check_messages", "check_report")

_POISON = ("backed_out", "dead_lettered")


class Check(Struct, frozen=True):
    """The result of one comparison."""

    what: str
    #: The count of the plain Python program.
    expected: int
    #: The count in the tables, queues or report.
    found: int
    #: The differences in words; empty if all agree.
    differs: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether both counts, and all messages, agree."""
        return self.expected == self.found and not self.differs


def check_messages(tables: Path, fates: Mapping[Key, Fate], poison: Mapping[str, int], what: str) -> Iterator[Check]:
    """Yield two checks for each queue: that `silver.message` has exactly the expected messages, and the poison messages."""
    numbers = _numbers(tables)
    found: dict[Key, list[dict[str, Any]]] = {}
    for row in _rows(tables, "silver", "message"):
        found.setdefault((row["queue"], numbers[row["msg_id"]]), []).append(row)
    for queue in sorted({queue for queue, _ in fates}):
        there = {key: rows for key, rows in found.items() if key[0] == queue}
        wanted = {key: fate for key, fate in fates.items() if key[0] == queue}
        differs = tuple(_differences(wanted, there))
        yield Check(f"{what}: messages of {queue}", len(wanted), sum(map(len, there.values())), differs)
        aside = sum(row["final_outcome"] in _POISON for rows in there.values() for row in rows)
        yield Check(f"{what}: poison of {queue}", poison[queue], aside)


def check_booked(numbers: Iterable[int], expected: Expected) -> Check:
    """Check that FLIGHTS.BOOKED has each flight that can be booked exactly once."""
    booked = Counter(numbers)
    wrong = [f"flight {number}: {booked[number]} times" for number in expected.booked | booked.keys() if booked[number] != 1]
    wrong += [f"flight {number}: should not be" for number in booked.keys() - expected.booked]
    return Check("flights on FLIGHTS.BOOKED, each once", len(expected.booked), booked.total(), tuple(wrong))


def check_gold(tables: Path, expected: Expected) -> Iterator[Check]:
    """Check the sums of the one-hour windows before the redrive, and the dead letters by reason."""
    hours = [row for row in _rows(tables, "gold", "poison_rate") if _is_hour(row) and row["exc_class"] is None]
    for queue in sorted({queue for queue, _ in expected.before}):
        poison = sum(row["poisoned"] for row in hours if row["queue"] == queue)
        yield Check(f"gold.poison_rate: poison of {queue}", expected.poison_before[queue], poison)
    reasons: Counter[tuple[int, str]] = Counter()
    for row in _rows(tables, "gold", "dlq_reason"):
        if _is_hour(row):
            reasons[row["dlh_reason"], row["dlh_dest_q"]] += row["arrived"]
    for (reason, queue), count in sorted(expected.dead_letters.items()):
        yield Check(f"gold.dlq_reason: {reason} for {queue}", count, reasons.pop((reason, queue), 0))
    yield Check("gold.dlq_reason: for other reasons", 0, reasons.total())


def check_history(tables: Path, expected: Expected, change: date) -> Iterator[Check]:
    """Check the history, which a redrive does not change: the poison messages by time, and the first unknown gate."""
    hours = [row for row in _rows(tables, "gold", "poison_rate") if _is_hour(row) and row["queue"] == "FLIGHTS.IN"]
    again = sum(fate.redrives and fate.poison for fate in expected.after.values())
    poison = sum(row["poisoned"] for row in hours if row["exc_class"] is None)
    yield Check("gold.poison_rate at the end: FLIGHTS.IN", expected.poison_before["FLIGHTS.IN"] + again, poison)
    began = min(row["window"]["start"] for row in hours if (row["exc_class"] or "").endswith("UnknownGateError"))
    night = change + timedelta(days=1)
    yield Check(f"gates are unknown since {night}: days off", 0, (began.date() - night).days)


def check_report(path: Path, expected: Expected) -> Iterator[Check]:
    """Check the values in report.json, after the redrive."""
    report = json.loads(path.read_text("utf-8"))
    letters = expected.dead_letters
    refused = letters[2362, "CLAIMS.IN"] + sum(key[0] == "CLAIMS.IN" for key in _new_poison(expected))
    others = letters.total() - letters[2362, "CLAIMS.IN"]
    yield Check("report: messages", len(expected.after), report["messages"])
    yield Check("report: are poison", expected.poison_after.total(), report["poisoned"])
    twice = sum(fate.redrives and fate.poison for fate in expected.after.values())
    was = sum(row["poisoned"] for row in report["poison_over_time"])
    yield Check("report: were poison, over time", expected.poison_before.total() + twice + len(_new_poison(expected)), was)
    yield Check("report: dead letters with a reason", refused + others, sum(row["messages"] for row in report["dead_letters"]))
    yield Check("report: the rules would retry", letters[2053, "NIGHT.IN"], report["triage"]["rules"][0]["first"])
    yield Check("report: the rules would forward", refused, report["triage"]["rules"][1]["first"])
    yield Check("report: no rule takes", letters[2085, "HAWAII.IN"], report["triage"]["unmatched"])
    yield Check("report: without a header", planted.STRAYS, report["triage"]["strays"])
    back = sum(row["redriven"] for row in report["redrives"])
    yield Check("report: put back", expected.flights_back + expected.nights_back, back)
    again = sum(fate.redrives and not fate.poison for fate in expected.after.values()) + expected.nights_back
    yield Check("report: put back and handled then", again, sum(row["succeeded"] for row in report["redrives"]))
    waited = sum(fate.error == "Retry" for fate in expected.after.values())
    claims = sum(queue == "CLAIMS.IN" for queue, _ in expected.after)
    yield Check("report: claims sent with a delay, and retries", claims + waited, sum(row["n"] for row in report["delays"]))
    yield Check("report: of them too early", 0, sum(row["early"] for row in report["delays"]))


def _new_poison(expected: Expected) -> list[Key]:
    """Return the new poison messages after the redrive: messages of flights that were not booked before."""
    return [key for key, fate in expected.after.items() if fate.poison and key not in expected.before]


def _differences(wanted: Mapping[Key, Fate], there: Mapping[Key, list[dict[str, Any]]]) -> Iterator[str]:
    for key in sorted(wanted.keys() | there.keys()):
        name = f"{key[0]} of flight {key[1]}"
        fate, rows = wanted.get(key), there.get(key, [])
        if fate is None or len(rows) != 1:
            yield f"{name}: {len(rows)} times in the table, {int(fate is not None)} times by the count"
            continue
        [row] = rows
        error = (row["last_exc_class"] or "").removeprefix("examples.flights_on_spark.app.") or None
        if (row["final_outcome"], row["attempts"]) not in fate.outcomes.items() or fate.error != error:
            yield f"{name}: {row['final_outcome']} after {row['attempts']}, {error}; should be {fate}"


def _numbers(tables: Path) -> dict[bytes, int]:
    """Return the flight number of each MsgId. The MsgId of a flight has the number, or the CorrelId of any other message."""
    bronze = DeltaTable(tables / "bronze" / "disposition")
    columns = bronze.to_pyarrow_dataset().to_table(["queue", "msg_id", "correl_id"]).to_pydict()
    found = {}
    for queue, msg_id, correl_id in zip(columns["queue"], columns["msg_id"], columns["correl_id"], strict=True):
        if msg_id is not None:
            found[msg_id] = int.from_bytes((msg_id if queue == "FLIGHTS.IN" else correl_id)[6:])
    return found


def _rows(tables: Path, floor: str, name: str) -> list[dict[str, Any]]:
    current = json.loads((tables / floor / "CURRENT.json").read_text("utf-8"))
    rows: list[dict[str, Any]] = ds.dataset(tables / floor / f"snapshot-{current['snapshot']}" / name).to_table().to_pylist()
    return rows


def _is_hour(row: Mapping[str, Any]) -> bool:
    length: timedelta = row["window"]["end"] - row["window"]["start"]
    return length == timedelta(hours=1)
