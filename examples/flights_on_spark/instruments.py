"""Compares the handlers' own count of calls, the depths of the queues, the decision ledger and the spans with the plain count.

Reads the ledger with plain SQL, not with mqflow's reader.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final, TypeVar

import pyarrow.dataset as ds
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

from examples.flights_on_spark import planted
from examples.flights_on_spark.app import Calls
from examples.flights_on_spark.checks import Check, flight_numbers, rows_of
from examples.flights_on_spark.oracle import Expected
from mqflow.many_verbs import inquire_base_queue
from mqflow.otel import OpenTelemetry
from mqflow.verbs import Connection

__all__ = ("SpanCounter", "check_calls", "check_depths", "check_ledger", "check_spans")

T = TypeVar("T")

_UNDECODABLE: Final = "msgspec."
_LEDGER: Final = """
    SELECT message, sum(event ->> 'type' = 'Delivered'), sum(event ->> 'type' = 'Settled'),
        sum(event ->> 'type' = 'Decided' AND event ->> 'outcome' IS NOT NULL)
    FROM entry GROUP BY message
"""


class SpanCounter(SpanProcessor):
    """Counts the spans that end, by name, and exports none."""

    def __init__(self) -> None:
        self.ended = Counter[str]()

    def on_end(self, span: ReadableSpan) -> None:
        self.ended[span.name] += 1

    def telemetry(self) -> OpenTelemetry:
        """Return middleware whose spans this object counts."""
        provider = TracerProvider()
        provider.add_span_processor(self)
        return OpenTelemetry(tracer_provider=provider, meter_provider=MeterProvider())


def check_calls(tables: Path, calls: Calls) -> Iterator[Check]:
    """Check that each call of a handler has one record, and that `silver.message` counts no other attempts.

    The call of a message that cannot be decoded does not reach the handler, but has a record.
    """
    numbers = flight_numbers(tables)
    bronze = ds.dataset(tables / "bronze" / "disposition", partitioning="hive")
    columns = ("queue", "msg_id", "handler", "done_ts", "exc_class")
    records = Calls()
    for row in bronze.to_table(columns=list(columns)).to_pylist():
        if row["handler"] and row["done_ts"] and not _undecodable(row["exc_class"]):
            records[row["queue"], numbers[row["msg_id"]]] += 1
    yield _compared("handler calls: records of them", calls, records)
    attempts = {
        (row["queue"], numbers[row["msg_id"]]): row["attempts"]
        for row in rows_of(tables, "silver", "message")
        if not _undecodable(row["last_exc_class"])
    }
    yield _compared("handler calls: attempts in silver.message", calls, Counter(attempts))


def check_depths(connection: Connection, expected: Expected) -> Iterator[Check]:
    """Check the depth of each queue after the first run, when only the moved messages and the bookings are left."""
    letters = expected.dead_letters
    booked = sum(queue == "FLIGHTS.IN" and not fate.poison for (queue, _), fate in expected.before.items())
    wanted = dict.fromkeys(("FLIGHTS.IN", "CLAIMS.IN", "NIGHT.IN", "HAWAII.IN", "SYSTEM.DDELAY.LOCAL.QUEUE"), 0) | {
        "FLIGHTS.BOOKED": booked,
        "FLIGHTS.BOQ": expected.poison_before["FLIGHTS.IN"],
        "NIGHT.BOQ": expected.poison_before["NIGHT.IN"] - letters[2053, "NIGHT.IN"],
        "DEAD.LETTERS": letters.total() + planted.STRAYS,
    }
    for queue, depth in wanted.items():
        yield Check(f"depth of {queue}", depth, inquire_base_queue(connection, queue).depth)


def check_ledger(file: Path, tables: Path) -> Iterator[Check]:
    """Check that the ledger has each delivery once, settled once, and each failure with one decision."""
    with closing(sqlite3.connect(file)) as connection:
        found = {bytes.fromhex(message): tuple(counts) for message, *counts in connection.execute(_LEDGER)}
    wanted = {}
    for row in rows_of(tables, "silver", "message"):
        attempts, completed = row["attempts"], row["final_outcome"] == "committed"
        wanted[row["msg_id"]] = (attempts, attempts, attempts - completed)
    for at, what in enumerate(("deliveries", "settled deliveries", "decisions after failures")):
        yield _compared(
            f"ledger: {what}",
            Counter({key: counts[at] for key, counts in wanted.items()}),
            Counter({key: counts[at] for key, counts in found.items()}),
        )


def check_spans(spans: SpanCounter, tables: Path) -> Iterator[Check]:
    """Check that each attempt has a "process" span, and each failure a "settle" span."""
    attempts, failures = Counter[str](), Counter[str]()
    for row in rows_of(tables, "silver", "message"):
        attempts[row["queue"]] += row["attempts"]
        failures[row["queue"]] += row["attempts"] - (row["final_outcome"] == "committed")
    for queue in sorted(attempts):
        yield Check(f"spans: process {queue}", attempts[queue], spans.ended[f"process {queue}"])
        yield Check(f"spans: settle {queue}", failures[queue], spans.ended[f"settle {queue}"])


def _compared(what: str, expected: Mapping[T, int], found: Mapping[T, int]) -> Check:
    differs = tuple(
        f"{key!r}: {found.get(key, 0)}, should be {expected.get(key, 0)}"
        for key in sorted(expected.keys() | found.keys(), key=str)
        if expected.get(key, 0) != found.get(key, 0)
    )
    return Check(what, sum(expected.values()), sum(found.values()), differs)


def _undecodable(error: str | None) -> bool:
    return error is not None and error.startswith(_UNDECODABLE)
