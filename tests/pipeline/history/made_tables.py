"""Writes small silver tables with delta-rs, as a run of the pipeline leaves them: no test that uses them starts Spark."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta

import msgspec
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from mqflow.folders import folder_at
from mqflow.pipeline.history.history_tables import arrow_schema
from mqflow.pipeline.schemas import TABLES
from mqflow.pipeline.tables.delta_writes import DATE
from mqflow.pipeline.tables.table_set import Current, Pinned

__all__ = ("END", "Row", "attempt", "ended", "identifier", "letter", "pin_last_versions", "waiting", "write_tables")

Row = dict[str, object]
DAY = timedelta(days=1)
END = datetime(2026, 1, 31, 12, tzinfo=UTC)


def attempt(
    number: int, ago: timedelta, outcome: str = "rolled_back", exception: str | None = "ValueError", **other: object
) -> Row:
    """A delivery of the message with this number, `ago` before `END`."""
    row: Row = {
        "qmgr": "QM1", "queue": "ORDERS.IN", "msg_id": identifier(number), "put_ts": END - timedelta(days=100),
        "handler": "book", "attempt_no": 1, "attempts": 1, "event_ts": END - ago, "outcome": outcome,
        "exc_class": exception, "exc_fingerprint": exception and f"{exception}-place",
    }  # fmt: skip
    return row | other


def ended(number: int, outcome: str | None, ago: timedelta, target_queue: str | None = None, **other: object) -> Row:
    """The last end of a message, `ago` before `END`."""
    return {
        "qmgr": "QM1", "queue": "ORDERS.IN", "msg_id": identifier(number), "put_ts": END - timedelta(days=100),
        "final_outcome": outcome, "final_ts": END - ago, "target_queue": target_queue, **other,
    }  # fmt: skip


def waiting(number: int, ago: timedelta | None, handler: str | None = "book") -> Row:
    """A message without an end that the handler first got `ago` before `END`."""
    return ended(number, None, DAY, handler=handler, first_get_ts=None if ago is None else END - ago, final_ts=None)


def letter(number: int, ago: timedelta, reason: int = 2053, name: str = "MQRC_Q_FULL", **other: object) -> Row:
    """A dead letter that was put on DEAD.LETTERS `ago` before `END`."""
    row: Row = {
        "qmgr": "QM1", "dlq": "DEAD.LETTERS", "has_dlh": True, "msg_id": identifier(number), "dlh_put_ts": END - ago,
        "dlh_reason": reason, "reason_name": name, "dlh_dest_q": "ORDERS.IN", "landed_ts": END,
    }  # fmt: skip
    return row | other


def identifier(number: int) -> bytes:
    return number.to_bytes(24, "big")


def write_tables(uri: str, *, run_ended: datetime | None = None, **tables: Iterable[Row]) -> None:
    """Write each table, and make its version the current one, with this end of the run."""
    folder = folder_at(uri).folder("silver")
    if folder.path is not None:
        folder.make()
    for name, rows in tables.items():
        table = TABLES[name]
        schema = arrow_schema(name, table.columns).append(pa.field(DATE, pa.date32()))
        dated = [{**row, DATE: _date(row.get(table.dated))} for row in rows]
        write_deltalake(folder.uri_of(name), pa.Table.from_pylist(dated, schema), partition_by=[DATE])
    pin_last_versions(uri, *tables, run_ended=run_ended)


def pin_last_versions(uri: str, *names: str, run_ended: datetime | None = None) -> None:
    """Make the last version of each table the current one."""
    folder = folder_at(uri).folder("silver")
    pinned = {name: Pinned(DeltaTable(folder.uri_of(name)).version(), TABLES[name].version) for name in names}
    ended_s = 0.0 if run_ended is None else run_ended.timestamp()
    folder.replace("CURRENT.json", msgspec.json.encode(Current(run=1, ended_s=ended_s, tables=pinned)))


def _date(at: object) -> date | None:
    return at.date() if isinstance(at, datetime) else None
