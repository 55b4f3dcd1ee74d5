"""Sends a year of real flights through queues, handlers with planted errors and the whole pipeline, and checks the counts.

`python -m examples.flights_on_spark.demo [--data FILE] [--days N] [--folder DIR] [--real-time]`. Runs the commands that a user
types. At the end the demo compares the counts of tables, queues and report with the counts of a plain Python program. It also
compares the calls of the handlers with their records. In real time it compares the decision ledger and the spans too. Exits
with 1 if they differ.
"""

import logging
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import click
from msgspec import Struct

from examples.flights_on_spark import planted
from examples.flights_on_spark.app import Calls, make_app
from examples.flights_on_spark.checks import (
    Check,
    check_agreement,
    check_booked,
    check_deliveries,
    check_durations,
    check_gold,
    check_history,
    check_messages,
    check_report,
)
from examples.flights_on_spark.identifiers import flight_number
from examples.flights_on_spark.instruments import SpanCounter, check_calls, check_depths, check_ledger, check_spans
from examples.flights_on_spark.nights import Moments, Night, run_nights, run_nights_in_real_time
from examples.flights_on_spark.oracle import Expected, expected, read
from mqflow.app.channels.location import open_queue_manager
from mqflow.app.config.settings import load
from mqflow.app.run.decision_ledger import LEDGER_FILE
from mqflow.cli.main import main as mqflow
from mqflow.cli.text.terminal import counted, note, progress, show_table
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import GetOption, OpenOption, Persistence, PutOption
from mqflow.verbs import Connection, GetOptions
from mqflow.world import SYSTEM_CLOCK

__all__ = ("Demo", "run_demo")

HERE: Final = Path(__file__).parent
SHIPPED: Final = HERE.parent / "flights" / "flights-2013-01.jsonl.gz"
LANDED: Final = ("DEAD.LETTERS", "MQFLOW.DISPOSITION", "FLIGHTS.BOQ:backout_message", "NIGHT.BOQ:backout_message")
_DIFFERENCES_SHOWN: Final = 5
_LEDGER_ENTRIES_MAX: Final = 10_000_000
#: Each query of the demo takes only seconds, so a thorough compilation would take more time than it saves.
_SETTINGS: Final = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.memory": "2g",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}


class Demo(Struct, frozen=True, kw_only=True):
    """The input and output of a run."""

    #: The flights: a gzipped file of JSON lines.
    data: Path
    #: The folder of the queue manager, the journal, the tables and the report. The demo deletes and creates it.
    folder: Path
    #: The number of days to use, from the first day on; None for all days.
    days: int | None = None
    #: Whether pauses and delays are real, and the ledger and the spans are compared too.
    real_time: bool = False

    @property
    def url(self) -> str:
        """The URL of the queue manager."""
        return f"embedded:{self.folder / 'data'}?qmgr=QM1"

    @property
    def tables(self) -> Path:
        """The folder of the tables."""
        return self.folder / "tables"

    @property
    def page(self) -> Path:
        """The folder of the report."""
        return self.folder / "report"


class Counts(Struct, frozen=True, kw_only=True):
    """The counts of handlers and spans, over all runs of the application."""

    calls: Calls
    spans: SpanCounter


class CommandFailedError(Exception):
    """A command of mqflow ended with an error, which it has printed."""


class Clocked(Struct):
    """The duration of each part, in seconds."""

    parts: list[tuple[str, float]]

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        began = SYSTEM_CLOCK.monotonic()
        try:
            yield
        finally:
            self.parts.append((name, SYSTEM_CLOCK.monotonic() - began))


def run_demo(demo: Demo) -> list[Check]:
    """Run everything and return the comparisons."""
    shutil.rmtree(demo.folder, ignore_errors=True)
    clocked, counts = Clocked([]), Counts(calls=Calls(), spans=SpanCounter())
    with clocked.part("count in plain Python"):
        days = read(demo.data, demo.days)
        change = planted.gates_change(list(days))
        wanted = expected(days, change)
    with clocked.part("queues and handlers"):
        command(demo, "mqsc", near("queues.mqsc"))
        moments = consume(demo, [Night(day, records) for day, records in days.items()], counts, change, repaired=False)
        with connected(demo) as connection:
            strays(connection)
            checks = [*check_depths(connection, wanted)]
    with clocked.part("landing"):
        command(demo, "land", *LANDED, "--journal", str(demo.folder / "journal"), "--once")
    with clocked.part("tables"):
        for step, more in (("bronze", ("--journal", str(demo.folder / "journal"))), ("silver", ()), ("gold", ())):
            command(demo, "spark", step, "--tables", str(demo.tables), *more)
    checks += check_messages(demo.tables, wanted.before, wanted.poison_before, "before")
    checks += check_gold(demo.tables, wanted)
    checks += check_deliveries(demo.tables, wanted.lives, "before")
    checks += check_agreement(demo.tables, "before")
    checks += [] if demo.real_time else [check_durations(demo.tables, "before")]
    with clocked.part("triage and redrive"):
        command(demo, "spark", "triage", near("rules.txt"), "--tables", str(demo.tables))
        redrive(demo, moments[change])
    with clocked.part("queues and handlers, repaired"):
        consume(demo, [Night(max(days) + timedelta(days=1), ())], counts, change, repaired=True)
    with clocked.part("report"):
        command(
            demo, "spark", "report", *LANDED, "--journal", str(demo.folder / "journal"), "--tables", str(demo.tables),
            "--rules", near("rules.txt"), "--output", str(demo.page),
        )  # fmt: skip
    checks += check_messages(demo.tables, wanted.after, wanted.poison_after, "after")
    checks += check_deliveries(demo.tables, [*wanted.lives, *wanted.lives_again], "after")
    checks += check_agreement(demo.tables, "after")
    checks += [] if demo.real_time else [check_durations(demo.tables, "after")]
    checks += check_history(demo.tables, wanted, moments[change])
    checks += check_calls(demo.tables, counts.calls)
    if demo.real_time:
        checks += check_ledger(demo.folder / "data" / LEDGER_FILE, demo.tables)
        checks += check_spans(counts.spans, demo.tables)
    checks.append(check_booked(booked(demo), wanted))
    checks += check_report(demo.page / "report.json", wanted)
    show_results(demo, wanted, checks, clocked)
    return checks


def near(name: str) -> str:
    """Return the path of a file of this example, relative to the current folder."""
    return os.path.relpath(HERE / name)


def command(demo: Demo, *arguments: str) -> None:
    """Run a command of mqflow, and print it as a user types it. Raises `CommandFailedError` if it fails."""
    where = ("--url", demo.url) if arguments[0] != "spark" or arguments[1] in {"redrive", "report"} else ()
    note(f"\n$ mqflow {shlex.join(arguments)}")
    if code := mqflow([*arguments, *where], standalone_mode=False):
        raise CommandFailedError(f"mqflow {' '.join(arguments[:2])} ended with {code}.")


def consume(demo: Demo, nights: Sequence[Night], counts: Counts, change: date, *, repaired: bool) -> Moments:
    """Run the application, night by night, until every message is settled. Return the moments of the puts."""
    total = sum(len(night.records) for night in nights)
    kind = "real" if demo.real_time else "virtual"
    note(f"\n# The application{', repaired,' if repaired else ''} runs {counted(len(nights), 'nights')} of {kind} time")
    app = make_app(change, counts.calls, repaired=repaired)
    ledger = {"record": "all", "entries_max": _LEDGER_ENTRIES_MAX}
    app.settings = load({"url": demo.url, "disposition_queue": "MQFLOW.DISPOSITION", "ledger": ledger})
    with progress("Flights", total) as bar:

        def reached(day: date, put: int) -> None:
            bar.reached(put, f"of {day}, {put:,} so far")

        if not demo.real_time:
            return run_nights(demo.folder / "data", app, nights, reached)
        app.middleware.append(counts.spans.telemetry())
        return run_nights_in_real_time(app, nights, reached)


def strays(connection: Connection) -> None:
    """Put some messages without a header on the dead-letter queue, as an operator may do by hand."""
    for number in range(planted.STRAYS):
        described = MessageDescriptor(persistence=Persistence.PERSISTENT)
        connection.put1("DEAD.LETTERS", described, b"kept for later %d" % number, PutOption.NO_SYNCPOINT)


def redrive(demo: Demo, since: datetime) -> None:
    """Redrive the messages that found a queue full, and the flights since that moment whose gates the repaired handler knows.

    Each redrive first runs as a dry run.
    """
    flights = (
        f"source_queue = 'FLIGHTS.IN' and put_ts >= '{since:%Y-%m-%d %H:%M:%S.%f}' "
        f'and cast(body as string) like \'%"carrier":"{planted.GATES_CARRIER}"%\''
    )
    for kind, condition in (("dead_letter", "dlh_reason = 2053"), ("backout_message", flights)):
        asked = ("spark", "redrive", "--tables", str(demo.tables), "--kind", kind, "--where", condition)
        command(demo, *asked, "--dry-run")
        command(demo, *asked)


@contextmanager
def connected(demo: Demo) -> Iterator[Connection]:
    """Open the queue manager, and yield a connection."""
    queue_manager = open_queue_manager(demo.url)
    try:
        yield queue_manager.connect()
    finally:
        queue_manager.close()


def booked(demo: Demo) -> list[int]:
    """Return the numbers of the flights on FLIGHTS.BOOKED; the CorrelId of a booking has the number of its flight."""
    look = GetOptions(options=GetOption.BROWSE_NEXT | GetOption.NO_SYNCPOINT)
    with connected(demo) as connection:
        handle = connection.open("FLIGHTS.BOOKED", OpenOption.BROWSE)
        found = iter(lambda: connection.get(handle, look), None)
        return [flight_number(got.descriptor.correlation_id) for got in found]


def show_results(demo: Demo, wanted: Expected, checks: Sequence[Check], clocked: Clocked) -> None:
    rows = [(name, f"{seconds:.1f}") for name, seconds in clocked.parts]
    print(flush=True)
    show_table(
        ("part", "seconds"),
        [*rows, ("together", f"{sum(seconds for _, seconds in clocked.parts):.1f}")],
        numbers=frozenset({1}),
    )
    print(flush=True)
    compared = [(each.what, f"{each.expected:,}", f"{each.found:,}", "yes" if each.agrees else "NO") for each in checks]
    show_table(("what", "Python counts", "mqflow says", "agree"), compared, numbers=frozenset({1, 2}))
    for each in checks:
        for line in each.differs[:_DIFFERENCES_SHOWN]:
            print(f"  {line}")
    good = sum(each.agrees for each in checks)
    print(f"\n{len(wanted.after):,} messages, each compared; {good} of {len(checks)} counts agree.")
    print(f"The page: {demo.page / 'report.html'}", flush=True)


@contextmanager
def spark() -> Iterator[None]:
    """Start one Spark session for all commands, and stop it at the end."""
    from mqflow.pipeline import spark_session  # noqa: PLC0415 - half a gigabyte, which --help does not need

    note("Starting Spark ...")
    session = spark_session("flights on Spark", config=_SETTINGS)
    session.sparkContext.setLogLevel("OFF")
    try:
        yield
    finally:
        session.stop()


@click.command()
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A file of flights, in the form of the shipped month.",
)
@click.option("--real-time", is_flag=True, help="Run with real pauses and delays, and compare the ledger and the spans too.")
@click.option("--days", type=click.IntRange(4), help="Use only the first N days.")
@click.option("--folder", type=click.Path(path_type=Path, file_okay=False), default=Path(".demo-spark"), show_default=True)
def main(data: Path | None, **options: Any) -> None:
    """Send flights through queues and the pipeline, and compare the counts."""
    logging.getLogger("mqflow.poison").setLevel(logging.ERROR)  # the results at the end have these messages
    if data is None:
        note(f"There is no --data FILE, so the demo uses the shipped month: {SHIPPED.name}.")
    os.environ.pop("MQFLOW_DISPOSITION_QUEUE", None)  # the settings of the shell must not change the demo
    try:
        with spark():
            checks = run_demo(Demo(data=data or SHIPPED, **options))
    except (MQIError, CommandFailedError) as error:
        sys.exit(f"The demo cannot go on: {error}")
    sys.exit(0 if all(check.agrees for check in checks) else 1)


if __name__ == "__main__":
    main()
