"""Messages of backout requeue queues have their failed handler; other messages keep only the requested part of their data."""

from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from mqflow.journal.schemas import Kind
from mqflow.pipeline.dead_letters.rules_columns import compile_rules
from mqflow.pipeline.payload import payload_of
from mqflow.pipeline.tables import silver
from mqflow.pipeline.tables.medallion import BronzeFrames, run_silver
from mqflow.pipeline.tables.silver_messages import backout_messages, payloads
from mqflow.pipeline.tables.table_set import TableSet
from tests.pipeline.tables import oracle

pytestmark = pytest.mark.usefixtures("interpreted")


def landed(spark: SparkSession, kind: Kind, *rows: dict[str, Any]) -> DataFrame:
    common = {"lane": "L", "segment": 1, "landed_ts": 9, "qmgr": "QM1", "put_ts": 7, "body_truncated": False}
    return oracle.frame(spark, [common | {"ordinal": at} | row for at, row in enumerate(rows)], kind)


def backed_out(queue: str, msg_id: bytes, error: str, at: int) -> list[oracle.Record]:
    common = {"queue": queue, "handler": queue.lower(), "msg_id": msg_id, "put_ts": 7, "bothresh": 1}
    return [
        oracle._record("rolled_back", at, **common, get_ts=at, done_ts=at, backout_count=0, exc_class=error),
        oracle._record("backed_out", at + 1, **common, get_ts=at, done_ts=None, backout_count=1, target_queue="BOQ"),
    ]


def test_a_backed_out_message_says_who_failed_where_that_is_certain(spark: SparkSession) -> None:
    """Applications can set MsgId: two queues had a message "b", and only its source queue can tell which one it is."""
    told = (
        backed_out("A", b"a", "OSError", 1)
        + backed_out("A", b"a", "ValueError", 3)  # put back, and failed again
        + backed_out("A", b"a", "KeyError", 40)  # again, long after this message landed
        + backed_out("A", b"b", "KeyError", 20)
        + backed_out("B", b"b", "OSError", 30)
    )
    records = silver.lives(oracle.frame(spark, told))
    kept = landed(
        spark, Kind.BACKOUT_MESSAGE,
        {"boq": "BOQ", "msg_id": b"a", "body_sha256": b"1"},
        {"boq": "BOQ", "msg_id": b"b", "source_queue": "B", "body_sha256": b"1"},
        {"boq": "BOQ", "msg_id": b"b"},
        {"boq": "BOQ", "msg_id": b"nobody's"},
        {"boq": "OTHER", "msg_id": b"a"},
    )  # fmt: skip

    found = backout_messages(kept, silver.ends(records), silver.attempts(records)).orderBy("ordinal").collect()

    assert [
        ("A", "a", 2, "ValueError"), ("B", "b", 1, "OSError"), (None, None, None, None), (None, None, None, None),
        (None, None, None, None),
    ] == [(row["source_queue"], row["handler"], row["attempts"], row["exc_class"]) for row in found]  # fmt: skip
    assert [None, b"a", None, None, None] == [row["duplicate_of"] and bytes(row["duplicate_of"]) for row in found]


def test_a_backed_out_message_gets_its_handler_when_only_its_records_are_new(spark: SparkSession, tmp_path: Path) -> None:
    """And a run with records of other messages leaves the tables of queues at their versions."""
    tables = TableSet(tmp_path)
    first, moves, others = (
        [row | {"segment": at} for row in backed_out("A", name, "KeyError", 3)]
        for at, name in enumerate((b"first", b"moved", b"other"), start=1)
    )
    kinds = (Kind.DEAD_LETTER, Kind.BACKOUT_MESSAGE, Kind.PAYLOAD)
    where = {"msg_id": b"moved", "lane": "B", "boq": "BOQ", "dlq": "DLQ", "queue": "Q", "has_dlh": False}
    letters, kept, payloads = (landed(spark, kind, where) for kind in kinds)

    told, found = [], []
    for rows in (first, moves, others):
        told += rows
        dispositions = oracle.frame(spark, told)
        run_silver(spark, tables, BronzeFrames(dispositions=dispositions, letters=letters, backed_out=kept, payloads=payloads))
        [row] = tables.read(spark, "backout_message").collect()
        versions = [tables.current().tables[name].delta for name in ("dead_letter", "backout_message", "payload")]
        found.append((row["handler"], versions))

    assert [(None, [0, 0, 0]), ("a", [0, 1, 0]), ("a", [0, 1, 0])] == found


def test_a_backed_out_message_has_as_many_attempts_as_the_table_of_messages(spark: SparkSession) -> None:
    """Also if no retry can help it: a message that is moved at its first delivery was delivered once, not zero times."""
    common = {"queue": "A", "handler": "a", "put_ts": 7, "target_queue": "BOQ"}
    told = [
        oracle._record("backed_out", 2, **common, msg_id=b"undecodable", get_ts=1, done_ts=2, backout_count=0),
        oracle._record("backed_out", 9, **common, msg_id=b"unobserved", get_ts=8, done_ts=None, backout_count=3),
        oracle._record("rolled_back", 4, **common, msg_id=b"left", get_ts=3, done_ts=4, backout_count=0),
        oracle._record("left", 5, **common, msg_id=b"left", get_ts=5, done_ts=None, backout_count=1),
        oracle._record("backed_out", 7, **common, msg_id=b"left", get_ts=6, done_ts=None, backout_count=2),
        *backed_out("A", b"twice", "OSError", 1),
        *backed_out("A", b"twice", "OSError", 5),
    ]
    records = silver.lives(oracle.frame(spark, told))
    kept = landed(spark, Kind.BACKOUT_MESSAGE, *({"boq": "BOQ", "msg_id": name} for name in {row["msg_id"] for row in told}))
    attempted = silver.attempts(records)

    moved = backout_messages(kept, silver.ends(records), attempted).collect()
    told_of = silver.messages(records, attempted).collect()

    counts = {bytes(row["msg_id"]): row["attempts"] for row in moved}
    assert len(moved) == len(told_of) == len(counts)
    assert {b"undecodable": 1, b"unobserved": 3, b"left": 1, b"twice": 2} == counts
    assert counts == {bytes(row["msg_id"]): row["attempts"] for row in told_of}


def test_the_moves_of_many_messages_agree_with_the_tables_of_messages_and_attempts(spark: SparkSession) -> None:
    rows = oracle.records(150)
    expected = {key: row for key, row in oracle.messages(rows).items() if row["final_outcome"] == "backed_out"}
    records = silver.lives(oracle.frame(spark, rows))
    there = [
        {"qmgr": key[0], "boq": "BOQ", "source_queue": key[1], "msg_id": key[2], "put_ts": key[3], "landed_ts": 2**52}
        for key in expected
    ]
    kept = oracle.frame(spark, there, Kind.BACKOUT_MESSAGE)
    attempted = silver.attempts(records)

    moved = backout_messages(kept, silver.ends(records), attempted).collect()
    found = silver.messages(records, attempted).where("final_outcome = 'backed_out'").collect()

    def of(row: Any, queue: str) -> tuple[Any, ...]:
        return row[queue], bytes(row["msg_id"]), row["put_ts"]

    assert len(expected) == len(moved) == len(found) > 10
    assert Counter(row["attempts"] for row in expected.values()) == Counter(row["attempts"] for row in moved)
    assert {of(row, "queue"): (row["attempts"], row["handler"], row["final_ts"]) for row in found} == {
        of(row, "source_queue"): (row["attempts"], row["handler"], row["backed_out_ts"]) for row in moved
    }
    assert any(row["redrives"] for row in found)


def test_a_dead_letter_says_what_its_reason_means_how_old_it_is_and_which_rule_would_take_it(spark: SparkSession) -> None:
    groups = [(2053, "space"), (2035, "auth"), (2085, "unknown_object"), (2030, "size"), (2110, "convert"), (258, "expiry")]
    of = {"dlq": "DLQ", "has_dlh": True, "dlh_dest_q": "A", "dlh_put_ts": 500_000, "landed_ts": 91_400_000}
    kept = landed(
        spark, Kind.DEAD_LETTER,
        *(of | {"msg_id": name.encode(), "dlh_reason": reason} for reason, name in groups),
        of | {"msg_id": b"app", "dlh_reason": 2362, "body_sha256": b"1"},
        of | {"msg_id": b"again", "dlh_reason": 2362, "body_sha256": b"1", "dlh_put_ts": 600_000},
        of | {"msg_id": b"elsewhere", "dlh_reason": 2362, "body_sha256": b"1", "dlh_dest_q": "B"},
        of | {"msg_id": b"ahead", "dlh_reason": 2053, "dlh_put_ts": 99_000_000},
        {"dlq": "DLQ", "has_dlh": False, "msg_id": b"none"},
    )  # fmt: skip
    rules = compile_rules("REASON(MQRC_NOT_AUTHORIZED) ACTION(DISCARD)\nDESTQ(A) REASON(MQRC_Q_FULL) ACTION(RETRY)")

    every = silver.dead_letters(kept, rules).collect()
    found = {bytes(row["msg_id"]).decode(): row for row in every}

    assert len(groups) + 5 == len(every) == len(found)
    assert {name: name for _, name in groups} == {name: found[name]["reason_group"] for _, name in groups}
    assert ["app", "space", None] == [found[name]["reason_group"] for name in ("again", "ahead", "none")]
    assert ["MQRC_Q_FULL", "MQRC_BACKOUT_THRESHOLD_REACHED"] == [found[name]["reason_name"] for name in ("space", "app")]
    assert [90, 0, None] == [found[name]["age_s"] for name in ("space", "ahead", "none")]
    assert [(1, "DISCARD"), (2, "RETRY"), (None, "IGNORE"), (None, None)] == [
        (found[name]["rule_index"], found[name]["rule_action"]) for name in ("auth", "space", "size", "none")
    ]
    assert [None, b"app", None] == [found[name]["duplicate_of"] for name in ("app", "again", "elsewhere")]


BODY = b"0123456789"


@pytest.mark.parametrize(
    ("asked", "body", "digest", "truncated"),
    [
        ("none", None, None, True),
        ("hash", None, sha256(BODY).digest(), True),
        ("head:4", b"0123", sha256(BODY).digest(), True),
        ("head:10", BODY, sha256(BODY).digest(), False),
        ("full", BODY, sha256(BODY).digest(), False),
    ],
)
def test_so_much_of_the_data_is_kept(
    spark: SparkSession, asked: str, body: bytes | None, digest: bytes | None, truncated: object
) -> None:
    frame = landed(
        spark, Kind.PAYLOAD, {"queue": "Q", "body": BODY, "body_sha256": sha256(BODY).digest(), "rfh2": [("usr.a", "1")]}
    )

    [row] = payloads(frame, payload_of(asked)).collect()

    assert (body, digest, truncated) == (
        row["body"] and bytes(row["body"]), row["body_sha256"] and bytes(row["body_sha256"]), row["body_truncated"],
    )  # fmt: skip
    assert ({"usr.a": "1"} if asked == "full" else None) == row["rfh2"], "properties are data too"


def test_silver_has_every_kind_that_was_landed(spark: SparkSession, tmp_path: Path) -> None:
    tables = TableSet(tmp_path)
    kept = landed(spark, Kind.BACKOUT_MESSAGE, {"boq": "BOQ", "msg_id": b"a"}, {"boq": "BOQ", "msg_id": b"a"})
    of_applications = landed(spark, Kind.PAYLOAD, {"queue": "Q", "msg_id": b"a", "body": BODY})

    run_silver(spark, tables, BronzeFrames(backed_out=kept, payloads=of_applications), dedupe=True)

    assert 1 == tables.read(spark, "backout_message").count()
    assert [None] == [row["body"] for row in tables.read(spark, "payload").collect()]
    assert 0 == tables.read(spark, "message").count()
