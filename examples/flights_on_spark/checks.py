"""Compares tables, queues and report with the plain count; tables of messages are compared message by message.

Reads the tables with delta-rs and pyarrow, and the JSON file of the report.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from msgspec import Struct

from examples.flights_on_spark import planted
from examples.flights_on_spark.identifiers import flight_number
from examples.flights_on_spark.oracle import Expected, Fate, Key, Life, curve, deliveries, failures

__all__ = (
    "Check",
    "check_agreement",
    "check_booked",
    "check_deliveries",
    "check_durations",
    "check_gold",
    "check_history",
    "check_messages",
    "check_report",
    "flight_numbers",
    "rows_of",
)

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
    numbers = flight_numbers(tables)
    found: dict[Key, list[dict[str, Any]]] = {}
    for row in rows_of(tables, "silver", "message"):
        found.setdefault((row["queue"], numbers[row["msg_id"]]), []).append(row)
    for queue in sorted({queue for queue, _ in fates}):
        there = {key: rows for key, rows in found.items() if key[0] == queue}
        wanted = {key: fate for key, fate in fates.items() if key[0] == queue}
        differs = tuple(_differences(wanted, there))
        yield Check(f"{what}: messages of {queue}", len(wanted), sum(map(len, there.values())), differs)
        aside = sum(row["final_outcome"] in _POISON for rows in there.values() for row in rows)
        yield Check(f"{what}: poison of {queue}", poison[queue], aside)


def check_deliveries(tables: Path, lives: Sequence[Life], what: str) -> Iterator[Check]:
    """Check every table that counts deliveries, by queue, by exception and by number of the attempt."""
    wanted, failed, tried = deliveries(lives), failures(lives), curve(lives)
    attempts, messages = rows_of(tables, "silver", "attempt"), rows_of(tables, "silver", "message")
    yield _counts(f"{what}: silver.attempt, deliveries", wanted, _sums(attempts, "attempts", "queue"))
    yield _counts(f"{what}: silver.message, deliveries", wanted, +_sums(messages, "attempts", "queue"))
    erred = [row | {"error": _error(row["exc_class"])} for row in attempts if row["outcome"] != "committed"]
    yield _counts(f"{what}: silver.attempt, failed deliveries", failed, _sums(erred, "attempts", "queue", "error"))
    rates = [row | {"error": _error(row["exc_class"])} for row in rows_of(tables, "gold", "poison_rate")]
    for length in (timedelta(minutes=5), timedelta(hours=1)):
        of = [row for row in rates if _length(row) == length]
        whole, parts = ([row for row in of if (row["error"] is None) is one] for one in (True, False))
        named = f"{what}: gold.poison_rate ({length})"
        yield _counts(f"{named}, deliveries", wanted, _sums(whole, "deliveries", "queue"))
        lost = Counter({queue: sum(n for (of, _), n in failed.items() if of == queue) for queue in wanted})
        yield _counts(f"{named}, failed deliveries", +lost, +_sums(whole, "rolled_back", "queue"))
        yield _counts(f"{named}, deliveries by exception", failed, _sums(parts, "deliveries", "queue", "error"))
        yield _counts(f"{named}, failed by exception", failed, _sums(parts, "rolled_back", "queue", "error"))
        poison = Counter((life.queue, life.error) for life in lives if not life.committed)
        yield _counts(f"{named}, poison by exception", poison, +_sums(parts, "poisoned", "queue", "error"))
    yield from _curve(f"{what}: gold.retry_curve", tried, rows_of(tables, "gold", "retry_curve"))


def check_durations(tables: Path, what: str) -> Check:
    """Check that no pause counts as handling. Virtual time stands still while a handler runs, so every handling takes 0 ms."""
    return _counts(
        f"{what}: silver.attempt, milliseconds in handlers", {}, +_sums(rows_of(tables, "silver", "attempt"), "handle_ms")
    )


def check_agreement(tables: Path, what: str) -> Iterator[Check]:
    """Check that the tables agree with each other, message by message."""
    tried: dict[Any, list[dict[str, Any]]] = {}
    for row in rows_of(tables, "silver", "attempt"):
        tried.setdefault(_message(row, "queue"), []).append(row)
    messages = {_message(row, "queue"): row for row in rows_of(tables, "silver", "message")}
    sums = {key: sum(row["attempts"] for row in rows) for key, rows in tried.items()}
    handled = {key: row["attempts"] for key, row in messages.items() if row["handler"] is not None}
    yield _counts(f"{what}: attempts of silver.message and silver.attempt", sums, handled)
    moved = rows_of(tables, "silver", "backout_message")
    until = [
        sum(row["attempts"] for row in tried.get(_message(one, "source_queue"), ()) if row["event_ts"] <= one["backed_out_ts"])
        for one in moved
    ]
    last = [messages[_message(one, "source_queue")] for one in moved]
    differs = [
        f"{one['boq']} {one['msg_id'].hex()}: {one['attempts']} attempts, {one['handler']}, {one['exc_class']}; should be "
        f"{count} attempts, {row['handler']}, {row['last_exc_class']}"
        for one, count, row in zip(moved, until, last, strict=True)
        if (one["attempts"], one["handler"], one["exc_class"]) != (count, row["handler"], row["last_exc_class"])
        or (one["backed_out_ts"] == row["final_ts"] and one["attempts"] != row["attempts"])
    ]
    total = sum(one["attempts"] for one in moved)
    yield Check(f"{what}: attempts of silver.backout_message and silver.attempt", sum(until), total, tuple(differs))
    ended = sum(row["n"] for row in rows_of(tables, "gold", "time_to_backout") if _is_hour(row))
    poison = sum(
        row["poisoned"] for row in rows_of(tables, "gold", "poison_rate") if _is_hour(row) and row["exc_class"] is None
    )
    yield Check(f"{what}: poison of gold.time_to_backout and gold.poison_rate", poison, ended)


def _message(row: Mapping[str, Any], queue: str) -> tuple[Any, ...]:
    """Return the key of the message of a row."""
    return row["qmgr"], row[queue], row["msg_id"], row["put_ts"]


def check_booked(numbers: Iterable[int], expected: Expected) -> Check:
    """Check that FLIGHTS.BOOKED has each flight that can be booked exactly once."""
    booked = Counter(numbers)
    wrong = [f"flight {number}: {booked[number]} times" for number in expected.booked | booked.keys() if booked[number] != 1]
    wrong += [f"flight {number}: should not be" for number in booked.keys() - expected.booked]
    return Check("flights on FLIGHTS.BOOKED, each once", len(expected.booked), booked.total(), tuple(wrong))


def check_gold(tables: Path, expected: Expected) -> Iterator[Check]:
    """Check the sums of the one-hour windows before the redrive, and the dead letters by reason."""
    hours = [row for row in rows_of(tables, "gold", "poison_rate") if _is_hour(row) and row["exc_class"] is None]
    for queue in sorted({queue for queue, _ in expected.before}):
        poison = sum(row["poisoned"] for row in hours if row["queue"] == queue)
        yield Check(f"gold.poison_rate: poison of {queue}", expected.poison_before[queue], poison)
    reasons: Counter[tuple[int, str]] = Counter()
    for row in rows_of(tables, "gold", "dlq_reason"):
        if _is_hour(row):
            reasons[row["dlh_reason"], row["dlh_dest_q"]] += row["arrived"]
    for (reason, queue), count in sorted(expected.dead_letters.items()):
        yield Check(f"gold.dlq_reason: {reason} for {queue}", count, reasons.pop((reason, queue), 0))
    yield Check("gold.dlq_reason: for other reasons", 0, reasons.total())


def check_history(tables: Path, expected: Expected, night: datetime) -> Iterator[Check]:
    """Check the history, which a redrive does not change: the poison messages by time, and the first unknown gate.

    `night` is the moment of the first put of a flight with an unknown gate.
    """
    hours = [row for row in rows_of(tables, "gold", "poison_rate") if _is_hour(row) and row["queue"] == "FLIGHTS.IN"]
    again = sum(fate.redrives and fate.poison for fate in expected.after.values())
    poison = sum(row["poisoned"] for row in hours if row["exc_class"] is None)
    yield Check("gold.poison_rate at the end: FLIGHTS.IN", expected.poison_before["FLIGHTS.IN"] + again, poison)
    began = min(row["window"]["start"] for row in hours if (row["exc_class"] or "").endswith("UnknownGateError"))
    yield Check(f"gates are unknown since {night:%Y-%m-%d}: days off", 0, (began.date() - night.date()).days)


def check_report(path: Path, expected: Expected) -> Iterator[Check]:
    """Check the values in report.json, after the redrive."""
    report = json.loads(path.read_text("utf-8"))
    letters = expected.dead_letters
    refused = letters[2362, "CLAIMS.IN"] + sum(key[0] == "CLAIMS.IN" for key in _new_poison(expected))
    others = letters.total() - letters[2362, "CLAIMS.IN"]
    yield Check("report: messages", len(expected.after), report["messages"])
    lives = [*expected.lives, *expected.lives_again]
    yield Check("report: deliveries", deliveries(lives).total(), report["deliveries"])
    over_time = sum(row["deliveries"] for row in report["poison_over_time"])
    yield Check("report: deliveries, over time", deliveries(lives).total(), over_time)
    culprits = [row | {"error": _error(row["exc_class"])} for row in report["culprits"]]
    yield _counts("report: failed deliveries", failures(lives), _sums(culprits, "deliveries", "queue", "error"))
    yield from _curve("report: retries", curve(lives), report["retry_curve"])
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


def _counts(what: str, wanted: Mapping[Any, int], found: Mapping[Any, int]) -> Check:
    """Return the comparison of two counts by the same keys."""
    keys = sorted(wanted.keys() | found.keys(), key=str)
    differs = [
        f"{key}: {found.get(key, 0)}; should be {wanted.get(key, 0)}" for key in keys if wanted.get(key) != found.get(key)
    ]
    return Check(what, sum(wanted.values()), sum(found.values()), tuple(differs))


def _curve(what: str, tried: Mapping[tuple[str, int], tuple[int, int]], rows: Iterable[Mapping[str, Any]]) -> Iterator[Check]:
    rows = list(rows)
    for at, name in enumerate(("entered", "succeeded")):
        wanted = Counter({key: both[at] for key, both in tried.items()})
        yield _counts(f"{what}, {name}", +wanted, +_sums(rows, name, "queue", "attempt_no"))


def _sums(rows: Iterable[Mapping[str, Any]], what: str, *by: str) -> Counter[Any]:
    """Return the sums of a column by the values of other columns: by one value, or by a tuple of values."""
    found: Counter[Any] = Counter()
    for row in rows:
        found[row[by[0]] if len(by) == 1 else tuple(row[name] for name in by)] += row[what] or 0
    return found


def _error(name: str | None) -> str | None:
    """Return the name of an exception as the count has it."""
    return (name or "").removeprefix("examples.flights_on_spark.app.") or None


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
        error = _error(row["last_exc_class"])
        if (row["final_outcome"], row["attempts"]) not in fate.outcomes.items() or fate.error != error:
            yield f"{name}: {row['final_outcome']} after {row['attempts']}, {error}; should be {fate}"


def flight_numbers(tables: Path) -> dict[bytes, int]:
    """Return the flight number of each MsgId. The MsgId of a flight has the number, or the CorrelId of any other message."""
    bronze = DeltaTable(tables / "bronze" / "disposition")
    columns = bronze.to_pyarrow_dataset().to_table(["queue", "msg_id", "correl_id"]).to_pydict()
    found = {}
    for queue, msg_id, correl_id in zip(columns["queue"], columns["msg_id"], columns["correl_id"], strict=True):
        if msg_id is not None:
            found[msg_id] = flight_number(msg_id if queue == "FLIGHTS.IN" else correl_id)
    return found


def rows_of(tables: Path, floor: str, name: str) -> list[dict[str, Any]]:
    """Return the rows of the last version of a table."""
    table = DeltaTable(tables / floor / name)
    rows: list[dict[str, Any]] = pa.table(table.to_pyarrow_dataset().to_table()).to_pylist()
    return rows


def _is_hour(row: Mapping[str, Any]) -> bool:
    return _length(row) == timedelta(hours=1)


def _length(row: Mapping[str, Any]) -> timedelta:
    length: timedelta = row["window"]["end"] - row["window"]["start"]
    return length
