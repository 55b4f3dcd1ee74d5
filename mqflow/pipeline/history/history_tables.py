"""Reads the silver tables for the history page with pyarrow: only the columns, files and rows of the wanted weeks.

It reads the state that `CURRENT.json` names, on a disk or in an object store, and needs no Spark and no Java. It groups rows
and counts them; `weekly_groups` decides what the counts mean.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict

from mqflow.folders import Folder, folder_at
from mqflow.pipeline.dead_letters.rules_columns import COLUMNS
from mqflow.pipeline.delta.log import DeltaFile, delta_snapshot
from mqflow.pipeline.extras import pa, pc, pq
from mqflow.pipeline.history.time_axis import step_s
from mqflow.pipeline.history.weekly_groups import (
    WEEK,
    AttemptsOf,
    Counted,
    FailedIn,
    Failure,
    RetryStep,
    Selection,
    SetAside,
    Span,
    Unended,
    UnendedOf,
)
from mqflow.pipeline.schemas import TABLES
from mqflow.pipeline.tables.silver import POISON
from mqflow.pipeline.tables.table_set import TableSet

__all__ = ("ROWS_MAX", "Failures", "HistoryTables", "LetterKind", "Letters", "TableMessage", "arrow_schema")

ROWS_MAX: Final = 500_000
"""The most failed deliveries, and the most dead letters, that are counted. If there are more, `is_cut` is true."""

_KEY: Final = ("qmgr", "queue", "msg_id", "put_ts")
_ATTEMPT: Final = (*_KEY, "handler", "event_ts", "outcome", "exc_class", "exc_fingerprint", "attempt_no", "attempts")
_COMMITTED: Final = "committed"
_FAILURE_COLUMNS: Final = {"queue": "queue", "handler": "handler", "exc_class": "exception", "exc_fingerprint": "fingerprint"}
"""The columns of `silver.attempt` that make a failure group, and their fields of `Failure`."""
_LETTER_COLUMNS: Final = {"dlq": "queue", "reason_name": "reason", "dlh_dest_q": "for_queue"}
"""The same for `silver.dead_letter`."""
_KIND: Final = ("dlq", "reason_name", *COLUMNS.values())
_LETTER: Final = ("qmgr", "msg_id", "dlh_put_ts", *_KIND)
_SECOND_US: Final = 1_000_000
_LATER_MAX: Final = timedelta(days=1)


class Failures(Struct, frozen=True, kw_only=True):
    """The failed deliveries of a span, counted."""

    counted: tuple[Counted, ...] = ()
    aside: dict[Failure, SetAside] = {}
    retries: tuple[RetryStep, ...] = ()
    #: The time of the first delivery of the span, failed or not; None without a delivery.
    first_at: datetime | None = None
    #: The length of the steps of time in seconds, and the failed deliveries of each step, by the number of the step since 1970.
    every_s: int = 1
    steps: dict[int, int] = {}
    is_cut: bool = False


class LetterKind(Struct, frozen=True):
    """Dead letters that are equal in every field that a rule can test."""

    failure: Failure
    #: The columns of `silver.dead_letter` by name; a null is left out.
    fields: dict[str, Any]  # texts and numbers
    messages: int


class Letters(Struct, frozen=True, kw_only=True):
    """The dead letters of a span, counted. A letter that landed several times counts once."""

    counted: tuple[Counted, ...] = ()
    kinds: tuple[LetterKind, ...] = ()
    is_cut: bool = False


class TableMessage(Struct, frozen=True, kw_only=True):
    """A message of a selection, as the tables know it."""

    message_id: bytes
    put_at: datetime | None
    #: The queue of the handler; of a dead letter, the dead-letter queue.
    queue: str
    #: The last selected event; of a message without an end, the first get, or None if the tables do not have it.
    at: datetime | None
    #: The number of the selected deliveries, or dead letters.
    times: int
    #: How the message ended, and the queue to which it was moved; empty if it has not ended, or was not moved.
    outcome: str = ""
    target_queue: str = ""


class HistoryTables:
    """The silver tables in the folder `tables`, as they are at each call.

    Each method raises `PipelineError` for a folder that holds something else, and `OSError` if the disk or the store does not
    answer. A table that was never written is empty.
    """

    def __init__(self, tables: str | Path, *, rows_max: int = ROWS_MAX) -> None:
        """Take the folder of all tables: a path, `file:///path` or `s3://bucket/prefix`."""
        self._set: Final = TableSet(folder_at(tables).folder("silver").uri)
        self._rows_max: Final = rows_max

    def last_event(self) -> tuple[datetime | None, int]:
        """Return the time of the last delivery or dead letter, and the number of those with an impossible time.

        A time is impossible if it is more than a day after the run that wrote the tables: a clock was wrong. The first value is
        None if no delivery and no dead letter has a possible time.
        """
        ended_s = self._set.current().ended_s
        latest = datetime.fromtimestamp(ended_s, UTC) + _LATER_MAX if ended_s else datetime.max.replace(tzinfo=UTC)
        found, impossible = list[datetime](), 0
        for name, column in (("attempt", "event_ts"), ("dead_letter", "dlh_put_ts")):
            for each in self._read(name, (column,), pc.field(column).is_valid()):
                possible = each.filter(_until(column, latest))
                impossible += each.num_rows - possible.num_rows
                if possible.num_rows:
                    found.append(pc.call_function("max", [possible[column]]).as_py())
        return max(found, default=None), impossible

    def failures(self, span: Span) -> Failures:
        """Return the counts of the deliveries in the span."""
        retries: Counter[tuple[str, str, int, str]] = Counter()
        firsts, kept, rows = list[datetime](), list["pa.Table"](), 0
        for each in self._read("attempt", _ATTEMPT, _within("event_ts", span.since, span.until)):
            if each.num_rows:
                firsts.append(pc.call_function("min", [each["event_ts"]]).as_py())
            single = each.filter(pc.field("attempts") == 1).group_by(["queue", "handler", "attempt_no", "outcome"])
            for row in single.aggregate([([], "count_all")]).to_pylist():
                retries[row["queue"] or "", row["handler"] or "", row["attempt_no"], row["outcome"]] += row["count_all"]
            kept.append(each.filter(_failed()).slice(0, self._rows_max - rows + 1))
            rows += kept[-1].num_rows
        if not firsts:
            return Failures()
        failed = pa.concat_tables(kept).slice(0, self._rows_max)
        every_s = step_s(min(firsts), span.until)
        return Failures(
            counted=tuple(_counted(failed, "event_ts", _FAILURE_COLUMNS, _KEY, span)),
            aside=self._aside(failed),
            retries=tuple(_retries(retries)),
            first_at=min(firsts),
            every_s=every_s,
            steps=_by_step(failed["event_ts"], every_s),
            is_cut=rows > self._rows_max,
        )

    def letters(self, span: Span) -> Letters:
        """Return the counts of the dead letters that were put on a dead-letter queue in the span."""
        times = pc.field("has_dlh") & _within("dlh_put_ts", span.since, span.until)
        found = self._all("dead_letter", _LETTER, times, most=self._rows_max + 1)
        once = found.slice(0, self._rows_max).group_by(list(_LETTER)).aggregate([])
        kinds = once.group_by(list(_KIND)).aggregate([([], "count_all")])
        return Letters(
            counted=tuple(_counted(once, "dlh_put_ts", _LETTER_COLUMNS, ("qmgr", "msg_id", "dlh_put_ts"), span)),
            kinds=tuple(
                LetterKind(
                    _failure(row, _LETTER_COLUMNS),
                    {name: row[name] for name in _KIND if row[name] is not None},
                    row["count_all"],
                )
                for row in kinds.to_pylist()
            ),
            is_cut=found.num_rows > self._rows_max,
        )

    def unended(self, span: Span) -> tuple[Unended, ...]:
        """Return the messages without an end by handler, the oldest first."""
        found = self._all("message", ("queue", "handler", "first_get_ts", "final_outcome"), _got_until(span.until), _unended())
        grouped = found.group_by(["queue", "handler"]).aggregate([([], "count_all"), ("first_get_ts", "min")])
        rows = grouped.sort_by([("first_get_ts_min", "ascending"), ("queue", "ascending"), ("handler", "ascending")])
        return tuple(
            Unended(UnendedOf(queue=row["queue"] or "", handler=row["handler"]), row["count_all"], row["first_get_ts_min"])
            for row in rows.to_pylist()
        )

    def messages(self, selection: Selection, most: int) -> tuple[tuple[TableMessage, ...], int]:
        """Return the newest messages that a number on the page counts, and that number: of messages, or of deliveries."""
        selected, what = self._selected(selection), selection.what
        grouped = selected.group_by(list(_KEY)).aggregate([("at", "max"), ([], "count_all")])
        number = selected.num_rows if isinstance(what, AttemptsOf | FailedIn) else grouped.num_rows
        newest = grouped.sort_by([("at_max", "descending"), ("msg_id", "ascending")]).slice(0, most)
        ends = {} if isinstance(what, Failure) and what.is_dead_letter else self._ends(newest)
        rows = []
        for row in newest.to_pylist():
            outcome, target = ends.get(tuple(row[name] for name in _KEY), ("", ""))
            rows.append(
                TableMessage(
                    message_id=row["msg_id"] or b"",
                    put_at=row["put_ts"],
                    queue=row["queue"] or "",
                    at=row["at_max"],
                    times=row["count_all"],
                    outcome=outcome,
                    target_queue=target,
                )
            )
        return tuple(rows), number

    def identifiers(self, selection: Selection) -> frozenset[bytes]:
        """Return the MsgId of every message that a number on the page counts."""
        return frozenset(self._selected(selection)["msg_id"].drop_null().unique().to_pylist())

    def _selected(self, selection: Selection) -> "pa.Table":
        """Return the key of each delivery, dead letter or message without an end, and its time as `at`."""
        what, (since, until) = selection.what, selection.bounds
        if isinstance(what, Failure) and what.is_dead_letter:
            columns = ("qmgr", "dlq", "msg_id", "dlh_put_ts", *_LETTER_COLUMNS)
            times = pc.field("has_dlh") & _within("dlh_put_ts", since, until)
            found = self._all("dead_letter", tuple(dict.fromkeys(columns)), times, _alike(what, _LETTER_COLUMNS))
            once = found.group_by(list(columns[:4])).aggregate([])
            return once.select(columns[:4]).rename_columns(list(_KEY)).append_column("at", once["dlh_put_ts"])
        if isinstance(what, UnendedOf):
            columns = (*_KEY, "handler", "first_get_ts", "final_outcome")
            where = _unended() & _equals("queue", what.queue) & _equals("handler", what.handler)
            found = self._all("message", columns, _got_until(until), where)
            return found.select((*_KEY, "first_get_ts")).rename_columns([*_KEY, "at"])
        if isinstance(what, Failure):
            where = _failed() & _alike(what, _FAILURE_COLUMNS)
        elif isinstance(what, FailedIn):
            where = _failed()
        else:
            where = _equals("queue", what.queue) & _equals("handler", what.handler) & _delivery(what.attempt_no)
            if what.has_succeeded:
                where &= pc.field("outcome") == _COMMITTED
        found = self._all("attempt", _ATTEMPT, _within("event_ts", since, until), where)
        chosen = found.select((*_KEY, "event_ts")).rename_columns([*_KEY, "at"])
        if not selection.is_aside:
            return chosen
        poison = {key for key, (outcome, _) in self._ends(chosen).items() if outcome in POISON}
        return chosen.filter(pa.array([tuple(row[name] for name in _KEY) in poison for row in chosen.to_pylist()], pa.bool_()))

    def _aside(self, failed: "pa.Table") -> dict[Failure, SetAside]:
        """Return, for each group, the number of its messages that ended as poison, and when the first of them ended."""
        columns = (*_KEY, "final_ts", "final_outcome")
        ended = self._all("message", columns, _put_as(failed), pc.field("final_outcome").isin(POISON))
        groups = failed.group_by(list(dict.fromkeys((*_KEY, *_FAILURE_COLUMNS)))).aggregate([])
        both = _without_nulls(groups).join(_without_nulls(ended), list(_KEY), join_type="inner")
        counted = both.group_by(list(_FAILURE_COLUMNS)).aggregate([([], "count_all"), ("final_ts", "min")])
        return {_failure(row, _FAILURE_COLUMNS): SetAside(row["count_all"], row["final_ts_min"]) for row in counted.to_pylist()}

    def _ends(self, messages: "pa.Table") -> dict[tuple[Any, ...], tuple[str, str]]:  # Any: the values of `_KEY`
        """Return the outcome and the target queue of each of these messages that has ended."""
        where = pc.field("msg_id").isin(messages["msg_id"].combine_chunks()) & pc.field("final_outcome").is_valid()
        rows = self._all("message", (*_KEY, "final_outcome", "target_queue"), _put_as(messages), where).to_pylist()
        return {tuple(row[name] for name in _KEY): (row["final_outcome"], row["target_queue"] or "") for row in rows}

    def _all(
        self,
        name: str,
        columns: Sequence[str],
        times: "pc.Expression | None",
        where: "pc.Expression | None" = None,
        *,
        most: int | None = None,
    ) -> "pa.Table":
        found = arrow_schema(name, columns).empty_table()
        for each in self._read(name, columns, times, where):
            found = pa.concat_tables([found, each])
            if most is not None and found.num_rows >= most:
                break
        return found

    def _read(
        self, name: str, columns: Sequence[str], times: "pc.Expression | None", where: "pc.Expression | None" = None
    ) -> "Iterator[pa.Table]":
        """Yield the rows of each file that meet both conditions. A column that an older file lacks is null.

        `times` is a condition on times, by which the read skips files and row groups. `where` is a condition on `columns`.
        """
        version = self._set.version_of(name)
        if version is None:
            return
        folder = self._set.folder.folder(name)
        # pyarrow finds a column of the condition only in the schema.
        schema = arrow_schema(name, TABLES[name].columns)
        for file in delta_snapshot(folder, version).files:
            read = pq.read_table(
                _source(folder, file),
                schema=schema,
                columns=list(columns),
                filters=times,
                partitioning=None,  # pyright: ignore[reportArgumentType] - a folder above the tables can have a name with `=`
            )
            # pyarrow cannot compare a text with the statistics of a file that has another kind of texts (string_view).
            yield read if where is None else read.filter(where)


def arrow_schema(name: str, columns: Sequence[str]) -> "pa.Schema":
    """Return the Arrow types of columns of a silver table, by their declaration in `mqflow.pipeline.schemas`."""
    types = {
        "string": pa.string(),
        "binary": pa.binary(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "boolean": pa.bool_(),
    }
    declared = dict(part.split() for part in TABLES[name].ddl.split(", "))
    return pa.schema([(column, types[declared[column]]) for column in columns])


def _source(folder: Folder, file: DeltaFile) -> "Path | pa.BufferReader":
    if folder.path is not None:
        return folder.path / file.path
    *parents, name = file.path.split("/")
    return pa.BufferReader(reduce(lambda parent, each: parent.folder(each), parents, folder).read(name))


def _within(column: str, since: datetime, until: datetime) -> "pc.Expression":
    return (pc.field(column) > pa.scalar(since, pa.timestamp("us", tz="UTC"))) & _until(column, until)


def _until(column: str, until: datetime) -> "pc.Expression":
    return pc.field(column) <= pa.scalar(until, pa.timestamp("us", tz="UTC"))


def _failed() -> "pc.Expression":
    """Return whether a delivery failed with an exception; a comparison with null is not true."""
    return (pc.field("exc_class") != "") & (pc.field("outcome") != _COMMITTED)


def _unended() -> "pc.Expression":
    """Return whether a handler got the message, and the message has no end."""
    return pc.field("final_outcome").is_null() & pc.field("handler").is_valid()


def _got_until(until: datetime) -> "pc.Expression":
    return _until("first_get_ts", until) | pc.field("first_get_ts").is_null()


def _delivery(attempt_no: int) -> "pc.Expression":
    """Return whether a row is one delivery with this number; some rows stand for many deliveries."""
    return (pc.field("attempt_no") == attempt_no) & (pc.field("attempts") == 1)


def _put_as(messages: "pa.Table") -> "pc.Expression | None":
    """Return a condition on the put time that all these messages meet; None if a put time is not known."""
    if not messages.num_rows or messages["put_ts"].null_count:
        return None
    bounds = pc.call_function("min_max", [messages["put_ts"]])
    return (pc.field("put_ts") >= bounds["min"]) & (pc.field("put_ts") <= bounds["max"])


def _equals(column: str, value: str) -> "pc.Expression":
    """Return whether the column has this text; null is the empty text."""
    same = pc.field(column) == value
    return same if value else same | pc.field(column).is_null()


def _alike(failure: Failure, columns: Mapping[str, str]) -> "pc.Expression":
    values = asdict(failure)
    return reduce(and_, (_equals(column, values[name]) for column, name in columns.items()))


def _failure(row: Mapping[str, Any], columns: Mapping[str, str]) -> Failure:  # Any: as in `LetterKind`
    return Failure(**{name: row[column] or "" for column, name in columns.items()})


def _counted(rows: "pa.Table", at: str, columns: Mapping[str, str], key: Sequence[str], span: Span) -> Iterator[Counted]:
    """Yield the messages of each failure and week; a message that failed several times counts once in a week."""
    ago_us = pc.call_function("subtract", [pa.scalar(span.until, pa.timestamp("us", tz="UTC")), rows[at]]).cast(pa.int64())
    weeks = rows.append_column("week", pc.call_function("divide", [ago_us, pa.scalar(WEEK // timedelta(microseconds=1))]))
    parts = [*columns, "week"]
    once = weeks.group_by(list(dict.fromkeys([*parts, *key]))).aggregate([(at, "min"), (at, "max")])
    counted = once.group_by(parts).aggregate([([], "count_all"), (f"{at}_min", "min"), (f"{at}_max", "max")])
    for row in counted.to_pylist():
        yield Counted(
            failure=_failure(row, columns),
            week=row["week"],
            messages=row["count_all"],
            first_at=row[f"{at}_min_min"],
            last_at=row[f"{at}_max_max"],
        )


def _retries(counts: Mapping[tuple[str, str, int, str], int]) -> Iterator[RetryStep]:
    entered, succeeded = Counter[tuple[str, str, int]](), Counter[tuple[str, str, int]]()
    for (queue, handler, attempt_no, outcome), count in counts.items():
        entered[queue, handler, attempt_no] += count
        succeeded[queue, handler, attempt_no] += count if outcome == _COMMITTED else 0
    for (queue, handler, attempt_no), count in sorted(entered.items()):
        done = succeeded[queue, handler, attempt_no]
        yield RetryStep(queue=queue, handler=handler, attempt_no=attempt_no, entered=count, succeeded=done)


def _by_step(times: "pa.ChunkedArray", every_s: int) -> dict[int, int]:
    numbers = pc.call_function("divide", [times.cast(pa.int64()), pa.scalar(every_s * _SECOND_US)])
    return {each["values"]: each["counts"] for each in numbers.value_counts().to_pylist()}


def _without_nulls(rows: "pa.Table") -> "pa.Table":
    """Return the rows with an empty value for each null of the key, because a join of Arrow never matches nulls."""
    empty: dict[str, object] = {"qmgr": "", "queue": "", "msg_id": b"", "put_ts": 0}
    for name, value in empty.items():
        column = rows[name].cast(pa.int64()) if name == "put_ts" else rows[name]
        rows = rows.set_column(rows.column_names.index(name), name, pc.fill_null(column, value))
    return rows
