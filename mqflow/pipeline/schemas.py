"""The silver and gold tables: their columns and versions. Bronze has the columns of the journal (`mqflow.journal.ddl`).

This file has only data, in Spark's notation for schemas, and imports no Spark. A change of columns needs a new version of the
table. Columns that an older version lacks are null when it is read; the next run of silver makes the whole table again.
"""

from typing import Final

from msgspec import Struct

__all__ = ("DAY_US", "GOLD", "LENGTHS_US", "SILVER", "TABLES", "WINDOWS", "Table")

DAY_US: Final = 86_400_000_000
LENGTHS_US: Final = {"5 minutes": 300_000_000, "1 hour": 3_600_000_000}
"""The lengths of windows, in microseconds; a window begins at a whole multiple of its length since 1970."""
WINDOWS: Final = tuple(LENGTHS_US)
"""The window lengths of the gold tables; `window` in a row names its window."""


class Table(Struct, frozen=True, kw_only=True):
    """A silver or gold table: its name, columns and version."""

    name: str
    #: One sentence about what a row means.
    row: str
    #: The columns in order, in Spark's notation for schemas.
    ddl: str
    #: The column whose date (UTC) chooses the partition of a row: a timestamp, the window, or a `day`.
    dated: str
    version: int = 1

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(part.split()[0] for part in self.ddl.replace("struct<start: timestamp, end: timestamp>", "s").split(", "))


_WINDOW: Final = "window struct<start: timestamp, end: timestamp>"

SILVER: Final = (
    Table(
        name="attempt",
        row="One delivery of a message to a handler; recorded (`observed`), or proved by a later BackoutCount.",
        # `life` is 0 until the message first ends, 1 for the deliveries after the first redrive, and so on. A redriven message
        # keeps its MsgId and put time, and its counts begin again. `attempts` is 1, except for a row that stands for many
        # consecutive unobserved deliveries. Then `attempts` is the number of these deliveries, and `attempt_no` is the number
        # of the last one.
        version=2,
        dated="put_ts",
        ddl=(
            "qmgr string, queue string, msg_id binary, put_ts timestamp, life int, attempt_no int, attempts int, "
            "first_get_ts timestamp, event_ts timestamp, outcome string, observed boolean, handler string, exc_class string, "
            "exc_fingerprint string, handle_ms bigint, wait_ms bigint, consumer string"
        ),
    ),
    Table(
        name="message",
        row="One message and its outcome. MsgId alone is not a key, because applications can set it.",
        dated="put_ts",
        ddl=(
            "qmgr string, queue string, msg_id binary, put_ts timestamp, handler string, attempts int, final_outcome string, "
            "first_get_ts timestamp, final_ts timestamp, time_to_final_ms bigint, target_queue string, first_exc_class string, "
            "last_exc_class string, redrives int, redrive_outcome string, delay_req_ms bigint, delay_error_ms bigint"
        ),
    ),
    Table(
        name="message_end",
        row="One end of a message that a handler decided: the first, and another for each redrive after which it ended.",
        dated="put_ts",
        ddl=(
            "qmgr string, queue string, msg_id binary, put_ts timestamp, life int, handler string, final_outcome string, "
            "first_get_ts timestamp, final_ts timestamp, time_to_final_ms bigint, last_exc_class string, target_queue string"
        ),
    ),
    Table(
        name="delay",
        row="One ended delay: of a message sent with a delay, or of a delayed retry.",
        dated="put_ts",
        ddl=("qmgr string, queue string, msg_id binary, put_ts timestamp, over_ts timestamp, error_ms bigint"),
    ),
    Table(
        name="redriven_message",
        row="One message that a redrive with an id put back, and its outcome until the next redrive.",
        dated="put_ts",
        ddl=(
            "qmgr string, queue string, msg_id binary, put_ts timestamp, redrive_id string, outcome string, "
            "event_ts timestamp, took_ms bigint"
        ),
    ),
    Table(
        name="dead_letter",
        row="One dead letter, with the meaning of its reason and the action of the rules table.",
        dated="landed_ts",
        ddl=(
            "lane string, segment bigint, ordinal int, landed_ts timestamp, snapshot_id string, qmgr string, dlq string, "
            "has_dlh boolean, dlh_reason int, reason_name string, reason_group string, dlh_dest_q string, dlh_dest_qm string, "
            "dlh_format string, dlh_put_appl_type int, dlh_put_appl_name string, dlh_put_ts timestamp, age_s bigint, "
            "msg_id binary, correl_id binary, msg_type int, format string, persistence int, msg_len bigint, put_ts timestamp, "
            "put_appl_name string, put_appl_type int, user_id string, reply_q string, reply_qm string, feedback int, "
            "appl_identity_data string, backout_count int, rule_index int, rule_action string, duplicate_of binary"
        ),
    ),
    Table(
        name="backout_message",
        row="One message of a backout requeue queue, with the handler and the exception that caused the move, if known.",
        dated="landed_ts",
        ddl=(
            "lane string, segment bigint, ordinal int, landed_ts timestamp, snapshot_id string, qmgr string, boq string, "
            "source_queue string, msg_id binary, correl_id binary, msg_type int, format string, persistence int, "
            "msg_len bigint, put_ts timestamp, put_appl_name string, put_appl_type int, user_id string, "
            "reply_q string, reply_qm string, backout_count int, body_sha256 binary, handler string, attempts int, "
            "exc_class string, backed_out_ts timestamp, duplicate_of binary"
        ),
    ),
    Table(
        name="payload",
        row="One message of any other queue, with as much of its data as the option `payload` allows.",
        dated="landed_ts",
        ddl=(
            "lane string, segment bigint, ordinal int, landed_ts timestamp, qmgr string, queue string, msg_id binary, "
            "correl_id binary, group_id binary, msg_type int, format string, ccsid int, encoding int, persistence int, "
            "priority int, expiry_left_ms bigint, msg_len bigint, put_ts timestamp, put_appl_name string, put_appl_type int, "
            "user_id string, reply_q string, reply_qm string, backout_count int, rfh2 map<string,string>, body binary, "
            "body_sha256 binary, body_truncated boolean, duplicate_of binary"
        ),
    ),
)

GOLD: Final = (
    Table(
        name="poison_rate",
        row="One handler of one queue in one window: a row for each exception, and one (`exc_class` null) for all of them.",
        dated="window.start",
        ddl=(
            f"{_WINDOW}, qmgr string, queue string, handler string, exc_class string, deliveries bigint, messages bigint, "
            "rolled_back bigint, poisoned bigint, poison_rate double, retry_amplification double"
        ),
    ),
    Table(
        name="poison_alert",
        row="One window in which a handler had more poison messages than its history predicts, and the first such message.",
        dated="window.start",
        ddl=(
            f"{_WINDOW}, qmgr string, queue string, handler string, messages bigint, poisoned bigint, poison_rate double, "
            "expected_rate double, history_messages bigint, score double, first_msg_id binary, first_ts timestamp, "
            "exc_class string"
        ),
    ),
    Table(
        name="retry_curve",
        row="One attempt number of one handler on one day: how many messages reached it, and how many of them succeeded.",
        dated="day",
        ddl="day date, queue string, handler string, attempt_no int, entered bigint, succeeded bigint, p_success double",
    ),
    Table(
        name="time_to_backout",
        row="One queue in one window: the time from the first delivery of a poison message to its removal from the queue.",
        dated="window.start",
        ddl=f"{_WINDOW}, queue string, n bigint, p50_ms bigint, p95_ms bigint, p99_ms bigint, max_ms bigint",
    ),
    Table(
        name="redrive",
        row="One redrive of one queue on one day, and the outcomes of the messages that it put back.",
        dated="day",
        ddl=(
            "day date, queue string, redrive_id string, redriven bigint, succeeded bigint, poisoned_again bigint, "
            "dead_lettered bigint, p50_ms bigint"
        ),
    ),
    Table(
        name="delay_accuracy",
        row="One queue in one window: how late delayed messages were delivered, and how many were early.",
        dated="window.start",
        ddl=f"{_WINDOW}, queue string, n bigint, early bigint, p50_error_ms bigint, p99_error_ms bigint, max_error_ms bigint",
    ),
    Table(
        name="dlq_reason",
        row="One reason, destination and application in one window: dead letters that arrived, left and remained.",
        dated="window.start",
        ddl=(
            f"{_WINDOW}, qmgr string, dlq string, dlh_reason int, dlh_dest_q string, put_appl_name string, arrived bigint, "
            "removed bigint, depth_end bigint, oldest_s bigint"
        ),
    ),
    Table(
        name="pipeline_health",
        row="One lane of the journal in one window: landed rows, their lag, and rows that landed twice.",
        dated="window.start",
        ddl=f"{_WINDOW}, lane string, landed_rows bigint, journal_lag_s double, segments bigint, replays_skipped bigint",
    ),
    Table(
        name="late_data",
        row="One window that was closed when more rows of it landed: they are in silver, but in no other gold table.",
        dated="window.start",
        ddl=f"{_WINDOW}, lane string, rows bigint",
    ),
)

TABLES: Final = {table.name: table for table in (*SILVER, *GOLD)}
"""All silver and gold tables, by name."""
