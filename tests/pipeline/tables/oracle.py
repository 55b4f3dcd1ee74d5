"""Invented lives of messages as disposition records, and the tables that plain Python makes from them."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import groupby
from random import Random
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from mqflow.journal.schemas import Kind, arrow_schema

START_US = 1_767_225_600_000_000  # 2026-01-01 00:00 UTC
MINUTE_US = 60_000_000
SIZES_US = {"5 minutes": 5 * MINUTE_US, "1 hour": 60 * MINUTE_US}
POISON = {"backed_out", "dead_lettered", "discarded"}
FINAL = POISON | {"committed", "expired"}

Record = dict[str, Any]
Key = tuple[str, str, bytes, int]


def records(messages: int, *, seed: int = 1, minutes: int = 90) -> list[Record]:
    """Return records of messages with faults of every kind, by event time; some records of rollbacks are missing."""
    random = Random(seed)  # noqa: S311 - invented data
    made: list[Record] = []
    for number in range(messages):
        made += _life_of(random, number, START_US + random.randrange(minutes * MINUTE_US))
    made += [
        _record("heartbeat", START_US + at * MINUTE_US, queue="ORDERS.IN", msg_id=None, handler="orders")
        for at in range(minutes)
    ]
    made.sort(key=lambda record: (record["event_ts"], record["disp_id"]))
    return made


def _life_of(random: Random, number: int, at: int) -> list[Record]:
    queue = random.choice(["ORDERS.IN", "STOCK.IN"])
    # Applications may set MsgId: two messages with the same one are two messages.
    common = {
        "queue": queue,
        "handler": queue.split(".")[0].lower(),
        "msg_id": (number // 2 if number % 20 < 2 else number).to_bytes(24),
        "put_ts": at - 1_000_000,
        "bothresh": 3,
    }
    # The actions of other programs on the message.
    moved = {name: common[name] for name in ("queue", "msg_id", "put_ts")}
    told = []
    if random.random() < 0.1:
        told.append(_released(random, moved, due=at - random.randrange(1_000, 900_000), at=at - random.choice([0, 700])))
    if random.random() < 0.05:  # and no program that records got it from there
        return [_released(random, moved, due=at - 2_000, at=at), *([_record("expired", at + 1, **moved)] if number % 2 else [])]
    deliveries, at = _deliveries(random, common, at)
    told += deliveries
    if told[-1]["outcome"] == "dead_lettered":
        told += _dead(random, moved | {"queue": "DLQ"}, at)
    if told[-1]["outcome"] == "backed_out" and random.random() < 0.5:
        at += random.randrange(1_000, 10 * MINUTE_US)
        told.append(_record("redriven", at - 500, **moved, redrive_id="R1"))
        again, _ = _deliveries(random, common, at)
        told += again
    return told


def _released(random: Random, moved: Record, *, due: int, at: int) -> Record:
    # By name it would come last; a record without a delivery must come first.
    return _record("released", at, **moved, due_ts=due, delay_req_ms=random.choice([500, 700])) | {"disp_id": f"z{at}"}


def _dead(random: Random, moved: Record, at: int) -> list[Record]:
    """The actions of a DLQ handler on a dead letter: a failed put, and perhaps a discard."""
    left = [_record("left", at + 1_000 + number, **moved, mqrc=2053) for number in range(random.randrange(3))]
    return left + ([_record("discarded", at + 5_000, **moved)] if random.random() < 0.5 else [])


def _deliveries(random: Random, common: Record, at: int) -> tuple[list[Record], int]:
    doomed, told = random.random() < 0.2, []
    for count in range(4):
        got, at = at, at + random.choice([0, 1, 1, 1]) * random.randrange(1_000, 400_000)
        moment: dict[str, int | None] = {"get_ts": got, "done_ts": at, "backout_count": count}
        if count == 3:
            known = random.choice([None, "KeyError"])  # of the delivery before, which the worker may remember
            told.append(_record("backed_out", at, **common, **moment | {"done_ts": None}, target_queue="BOQ", exc_class=known))
            break
        error = random.choice(["ValueError", "KeyError"])
        if doomed and random.random() < 0.1:  # rejected by the handler, and disposed of while it failed
            told.append(_record("dead_lettered", at, **common, **moment, exc_class="Reject", target_queue="DLQ"))
            break
        if not doomed and random.random() < 0.8:
            told.append(_record("committed", at, **common, **moment))
            break
        waits = random.random() < 0.2
        shared = waits and random.random() < 0.5  # its unit of work was rolled back before it was staged
        if (not waits or shared) and random.random() < 0.9:  # otherwise a crash came before the record
            told.append(_record("rolled_back", at, **common, **moment, exc_class=error))
        if waits:
            due = {"due_ts": at + 50_000, "delay_req_ms": 50}
            moment |= {"done_ts": None if shared else at}
            told.append(_record("deferred", at + shared, **common | due, **moment, exc_class=error))
            if random.random() < 0.5:  # otherwise the program that moved it records nothing
                of = {name: common[name] for name in ("queue", "msg_id", "put_ts")}
                at += random.randrange(100, 80_000)
                told.append(_released(random, of, due=due["due_ts"], at=at))
        elif random.random() < 0.05:  # poison that no queue took: no handler got that delivery
            at += 1_000
            told = [*told[:-1], _record("left", at, **common, **moment | {"done_ts": None})]
        at += random.randrange(1_000, 200_000)
    return told or [_record("rolled_back", at, **common, get_ts=at, done_ts=at, backout_count=0)], at


_numbers = iter(range(10**9))


def _record(outcome: str, at: int, **more: Any) -> Record:
    record = {
        "schema_version": 1, "lane": "A", "segment": 1, "ordinal": 0, "landed_ts": at + 200_000,
        "disp_id": f"{next(_numbers):09}", "event_ts": at, "qmgr": "QM1", "outcome": outcome, "consumer": "c1",
    }  # fmt: skip
    return record | more


def frame(spark: SparkSession, rows: Sequence[Record], kind: Kind = Kind.DISPOSITION) -> DataFrame:
    """The rows in the columns of bronze."""
    return spark.createDataFrame(arrow(rows, kind))


def arrow(rows: Sequence[Record], kind: Kind = Kind.DISPOSITION) -> pa.Table:
    """The rows in the columns of bronze."""
    schema = arrow_schema(kind)
    return pa.table({name: [row.get(name) for row in rows] for name in schema.names}, schema=schema)


def attempts(rows: Iterable[Record]) -> list[Record]:
    """`silver.attempt`, for each message."""
    found: list[Record] = []
    for (key, life), told in lives(rows).items():
        seen: dict[int, Record] = {}
        for row in told:
            failed = row["outcome"] in POISON | {"deferred"} and row.get("done_ts") is not None
            if row["outcome"] in {"committed", "rolled_back"} or failed:
                seen[row["backout_count"] + 1] = row
        last = max(row["backout_count"] for row in told)
        nobodys = {row["backout_count"] + 1 for row in told if row["outcome"] == "left" and row.get("handler")}
        done = None
        for number in sorted((set(range(1, last + 1)) - nobodys) | set(seen)):
            one = seen.get(number)
            proof = one or min((each for each in told if each["backout_count"] >= number), key=lambda each: each["event_ts"])
            got = one["get_ts"] if one else None
            found.append({
                "key": key, "life": life, "attempt_no": number, "attempts": 1,
                "outcome": one["outcome"] if one else "unobserved",
                "observed": one is not None, "event_ts": proof["event_ts"], "handler": proof["handler"],
                "exc_class": one.get("exc_class") if one else None,
                "handle_ms": (one["done_ts"] - one["get_ts"]) // 1000 if one else None,
                "wait_ms": (got - done) // 1000 if got is not None and done is not None else None,
            })  # fmt: skip
            done = one["done_ts"] if one else None
    return found


def lives(rows: Iterable[Record]) -> dict[tuple[Key, int], list[Record]]:
    """The records of each message, separately for each redrive."""
    found: dict[tuple[Key, int], list[Record]] = defaultdict(list)
    told = [row for row in rows if row["outcome"] != "heartbeat"]
    told.sort(key=lambda row: (key_of(row), row["event_ts"], row.get("backout_count", -1), row["disp_id"]))
    told = [row | {"backout_count": row.get("backout_count", 0)} for row in told]
    for key, group in groupby(told, key_of):
        life = 0
        for row in group:
            found[key, life].append(row)
            life += row["outcome"] in FINAL
    return found


def key_of(row: Record) -> Key:
    return (row["qmgr"], row["queue"], row["msg_id"], row["put_ts"])


def messages(rows: Sequence[Record]) -> dict[Key, Record]:
    """`silver.message`, by key."""
    counts = Counter(attempt["key"] for attempt in attempts(rows))
    by_key: dict[Key, list[tuple[int, Record]]] = defaultdict(list)
    for (key, life), rows_of in lives(rows).items():
        by_key[key] += [(life, row) for row in rows_of]
    found = {}
    for key, told in by_key.items():
        final = [(life, row) for life, row in told if row["outcome"] in FINAL]
        errors = [row["exc_class"] for _, row in told if row.get("exc_class")]
        first = min((row["get_ts"] for _, row in told if row.get("get_ts")), default=None)
        again = [row["outcome"] for life, row in final if life]
        erred = [error for _, error in errors_of([row for _, row in told])]
        found[key] = {
            "handler": next((row["handler"] for _, row in told if row.get("handler")), None), "attempts": counts[key],
            "final_outcome": final[-1][1]["outcome"] if final else None,
            "final_ts": final[-1][1]["event_ts"] if final else None,
            "first_get_ts": first,
            "time_to_final_ms": (final[-1][1]["event_ts"] - first) // 1000 if final and first else None,
            "first_exc_class": errors[0] if errors else None, "last_exc_class": errors[-1] if errors else None,
            "redrives": max(life for life, _ in told), "redrive_outcome": again[-1] if again else None,
            "delay_error_ms": max(erred, default=None),
        }  # fmt: skip
    return found


def delays(rows: Iterable[Record]) -> list[tuple[str, int, int]]:
    """`silver.delays`: queue, end of the delay, and its lateness in milliseconds."""
    by_key: dict[Key, list[Record]] = defaultdict(list)
    for (key, _), told in lives(rows).items():
        by_key[key] += told
    return [(key[1], at, error) for key, told in by_key.items() for at, error in errors_of(told)]


def errors_of(told: Sequence[Record]) -> list[tuple[int, int]]:
    """The end of each delay of one message, and its error in milliseconds."""
    found = []
    for number, row in enumerate(told):
        at = row["event_ts"] if row["outcome"] == "released" else None
        if row["outcome"] == "deferred":
            after = next((one for one in told[number + 1 :] if one["outcome"] == "released" or one.get("get_ts")), None)
            at = after["get_ts"] if after and after["outcome"] != "released" else None
        if at is not None:
            found.append((at, (at - row["due_ts"]) // 1000))
    return found


def ends(rows: Sequence[Record]) -> list[Record]:
    """Each end of a message: the first, and another for each redrive."""
    found = []
    for (key, _), told in lives(rows).items():
        if told[-1]["outcome"] in FINAL and told[-1].get("handler"):
            first = min(row["get_ts"] for row in told if row.get("get_ts"))
            errors = [row["exc_class"] for row in told if row.get("exc_class")]
            found.append({
                "key": key, "handler": told[-1]["handler"], "final_outcome": told[-1]["outcome"],
                "final_ts": told[-1]["event_ts"], "last_exc_class": errors[-1] if errors else None,
                "time_to_final_ms": (told[-1]["event_ts"] - first) // 1000,
            })  # fmt: skip
    return found


def poison_rate(rows: Sequence[Record], size: str) -> dict[tuple[Any, ...], tuple[int, int, int, int]]:
    """`gold.poison_rate`: deliveries, messages, rolled back, poisoned; by window, queue, handler and exception."""
    length = SIZES_US[size]
    counts: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0, 0, 0])
    keys: dict[tuple[Any, ...], set[Key]] = defaultdict(set)
    for one in attempts(rows):
        whole = (one["event_ts"] // length * length, one["key"][1], one["handler"])
        keys[whole].add(one["key"])
        for at in {(*whole, None), (*whole, one["exc_class"])}:
            counts[at][0] += 1
            counts[at][1] += one["outcome"] != "committed"
    for one in ends(rows):
        if one["final_outcome"] in POISON:
            whole = (one["final_ts"] // length * length, one["key"][1], one["handler"])
            keys[whole].add(one["key"])
            for at in {(*whole, None), (*whole, one["last_exc_class"])}:
                counts[at][2] += 1
    return {at: (found[0], len(keys[at[:3]]), found[1], found[2]) for at, found in counts.items()}


def rank(values: Iterable[int], share: float) -> int:
    """The smallest value that this share of all values does not exceed."""
    ordered = sorted(values)
    return next(value for at, value in enumerate(ordered, start=1) if at / len(ordered) >= share)
