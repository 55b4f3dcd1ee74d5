"""`python -m benchmarks.triage [ROWS]`: tries a rules table of 26 rules on generated dead letters, in local[2].

`--unlike` makes a rule read a field that differs in every letter. `--write` writes the figures into docs/performance.md. The
benchmark reads no data: Spark makes the letters as it applies the rules, and the cost of making them is measured too. A goal is
for the time on idle processors, which is the processor time divided by their number: other processes change it less.
"""

import argparse
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.machine import describe, wait_for_idle
from benchmarks.page import PAGE, replaced_between
from benchmarks.samples import Sample
from benchmarks.spark_processes import Processes, consumed, metered, processes, session
from benchmarks.tables import Bar

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ("RULES", "first_rules", "letters", "main")

BEGIN: Final = "<!-- triage: begin (python -m benchmarks.triage --write writes what stands between these two lines) -->"
END: Final = "<!-- triage: end -->"
FIRST: Final = "the first rule of each, by columns"
GOALS_S: Final = {FIRST: Bar(15.0, 12.0, at_most=True), "tried by": Bar(60.0, 30.0, at_most=True)}
_GOAL_ROWS: Final = 100_000_000

RULES: Final = "\n".join(
    (
        *(f"DESTQ(APP{number}.IN) REASON(MQRC_Q_FULL) ACTION(RETRY) RETRY(3)" for number in range(12)),
        *(f"DESTQ(APP{number}.*) APPLNAME('b?t*') ACTION(FWD) FWDQ(HELD{number}) HEADER(YES)" for number in range(6)),
        "REASON(MQRC_NOT_AUTHORIZED) USERID('bob') ACTION(DISCARD)",
        "DESTQ(*9.IN) ACTION(FWD) FWDQ(NINE)",
        "REASON(MQRC_UNKNOWN_OBJECT_NAME) ACTION(FWD) FWDQ(UNKNOWN)",
        "FORMAT(MQADMIN) ACTION(DISCARD)",
        "APPLNAME('main*') ACTION(RETRY)",
        "PERSIST(0) ACTION(DISCARD)",
        "DESTQ(APP1*) ACTION(FWD) FWDQ(X)",
        "REASON(2362) ACTION(IGNORE)",
    )
)
"""26 rules: some match many letters, some match none, and some are shadowed by others."""
UNLIKE: Final = RULES + "\nREPLYQ(AMQ.00000000000000*) REASON(2110) ACTION(DISCARD)"
_DAYS_S: Final = 30 * 86_400


def letters(spark: "SparkSession", rows: int) -> "DataFrame":
    """Return dead letters, made as they are read, with the fields that a rules table and a sample need."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - only processes that measure load Spark

    def of(salt: int, *values: object) -> "Column":
        number = f.pmod(f.xxhash64("id", f.lit(salt)), f.lit(len(values))).cast("int")
        return f.element_at(f.array(*(f.lit(value) for value in values)), number + 1)

    return spark.range(rows).select(
        f.lit(True).alias("has_dlh"),
        of(1, 2053, 2085, 2035, 2030, 2110, 2362).alias("dlh_reason"),
        of(2, *(f"APP{number}.IN" for number in range(20))).alias("dlh_dest_q"),
        f.lit("QM1").alias("dlh_dest_qm"),
        f.lit("MQSTR").alias("dlh_format"),
        of(3, "web", "batch", "mainframe").alias("put_appl_name"),
        f.lit(6).alias("put_appl_type"),
        of(4, "amelie", "bob").alias("user_id"),
        f.concat(f.lit("AMQ."), f.lpad(f.hex("id"), 16, "0")).alias("reply_q"),
        f.lit("").alias("reply_qm"),
        f.lit(0).alias("feedback"),
        f.lit("").alias("appl_identity_data"),
        f.lit(8).alias("msg_type"),
        f.lit(1).alias("persistence"),
        f.pmod(f.xxhash64("id", f.lit(5)), f.lit(5_000)).alias("msg_len"),
        f.timestamp_seconds(f.lit(1_767_225_600) + f.col("id") % _DAYS_S).alias("dlh_put_ts"),
        f.unhex(f.lpad(f.hex("id"), 48, "0")).alias("msg_id"),
        f.lit("DLQ").alias("dlq"),
    )


def generated(rows: int) -> Sample:
    """Make the letters with all columns that the rules read, and apply no rule."""
    from mqflow.pipeline.dead_letters.rules_columns import compile_rules  # noqa: PLC0415 - as above

    wanted = ("has_dlh", "msg_len", "dlh_put_ts", *compile_rules(RULES).columns)
    return metered(rows, lambda: consumed(letters(session(), rows).select(*wanted)))


def first_rules(rows: int) -> Sample:
    """Find the first rule of each letter."""
    from mqflow.pipeline.dead_letters.rules_columns import compile_rules  # noqa: PLC0415 - as above

    return metered(rows, lambda: consumed(letters(session(), rows).select(compile_rules(RULES).first_match())))


def tried(rows: int, table: str) -> Sample:
    """Try the table: counts and bytes by rule, all matches, shadowed matches, the oldest, a sample of unmatched letters."""
    from mqflow.pipeline.dead_letters.rules_columns import compile_rules  # noqa: PLC0415 - as above
    from mqflow.pipeline.dead_letters.triage import triage, unmatched  # noqa: PLC0415

    compiled, made = compile_rules(table), letters(session(), rows)

    def work() -> None:
        found = triage(made, compiled)
        shown = unmatched(made, compiled, known=found)
        assert rows == found.messages
        assert bool(found.unmatched) == bool(shown)

    return metered(rows, work)


def compared(
    rows: int, sides: dict[str, Callable[[int], Sample]], on: Processes, patience_s: float
) -> list[tuple[str, Sample, float]]:
    """Return the time of each side after a warm-up, and the share of the processors that other processes used before."""
    master, warm = "local[2]", max(1, rows // 20)
    found = []
    for what, work in sides.items():
        on.on(master, work, warm)
        busy = wait_for_idle(patience_s)
        found.append((what, on.on(master, work, rows), busy))
    return found


def render(found: list[tuple[str, Sample, float]], date: str) -> str:
    """Return the table, in Markdown. The goal is only for a hundred million letters."""
    machine = describe()
    lines = [
        f"Measured on {date} by `python -m benchmarks.triage`.",
        "",
        f"{machine.cpus} x {machine.cpu}; load average at the end {os.getloadavg()[0]:.2f}.",
        "",
        "| what | letters | s | processor time, s | on idle processors, s | must | moonshot | | others' CPU |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for what, sample, busy in found:
        idle_s = sample.cpu_s / machine.cpus
        goal = next((goal for words, goal in GOALS_S.items() if words in what and sample.messages >= _GOAL_ROWS), None)
        bar = f"{goal.must:g} s | {goal.moonshot:g} s | {goal.met(idle_s)}" if goal else "| | "
        lines.append(
            f"| {what} | {sample.messages:,} | {sample.wall_s:.1f} | {sample.cpu_s:.1f} | {idle_s:.1f} | {bar} | {busy:.0%} |"
        )
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Measure, print the figures, and write them into the page if the arguments ask for it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.triage", description=__doc__)
    parser.add_argument("rows", nargs="?", type=lambda text: int(float(text)), default=_GOAL_ROWS, metavar="ROWS")
    parser.add_argument("--unlike", action="store_true", help="also with a rule about a field that differs in every letter")
    parser.add_argument("--patience", type=float, default=30.0, help="seconds to wait for an idle machine, each time (30)")
    parser.add_argument("--write", action="store_true", help="write the figures into the page")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to write into")
    given = parser.parse_args(arguments)
    sides: dict[str, Callable[[int], Sample]] = {
        "made, and nothing else": generated,
        FIRST: first_rules,
        "tried by 26 rules": partial(tried, table=RULES),
    }
    if given.unlike:
        sides["tried by 27, one of them about ReplyToQ"] = partial(tried, table=UNLIKE)
    with processes() as on:
        found = compared(given.rows, sides, on, given.patience)
    text = render(found, datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))
    if given.write:
        given.page.write_text(replaced_between(given.page.read_text(), text, BEGIN, END))
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
