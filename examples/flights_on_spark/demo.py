"""Sends a year of real flights through queues, handlers with planted errors and the whole pipeline, and checks the counts.

`python -m examples.flights_on_spark.demo [--data FILE] [--days N] [--folder DIR]`. Runs the commands that a user types. At the
end the demo compares the counts of tables, queues and report with the counts of a plain Python program. Exits with 1 if they
differ.
"""

import logging
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final

import click
from msgspec import Struct

from examples.flights_on_spark import planted
from examples.flights_on_spark.app import make_app
from examples.flights_on_spark.checks import (
    Check,
    check_agreement,
    check_booked,
    check_deliveries,
    check_gold,
    check_history,
    check_messages,
    check_report,
)
from examples.flights_on_spark.nights import Night, run_nights
from examples.flights_on_spark.oracle import Expected, expected, read
from mqflow.app.channels.locate import open_queue_manager
from mqflow.cli.main import main as mqflow
from mqflow.cli.text.terminal import counted, note, progress, show_table
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import GetOption, OpenOption, Persistence, PutOption
from mqflow.verbs import GetOptions
from mqflow.world import SYSTEM_CLOCK

__all__ = ("Demo", "run_demo")

HERE: Final = Path(__file__).parent
SHIPPED: Final = HERE.parent / "flights" / "flights-2013-01.jsonl.gz"
LANDED: Final = ("DEAD.LETTERS", "MQFLOW.DISPOSITION", "FLIGHTS.BOQ:backout_message", "NIGHT.BOQ:backout_message")
_DIFFERENCES_SHOWN: Final = 5
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
    clocked = Clocked([])
    with clocked.part("count in plain Python"):
        days = read(demo.data, demo.days)
        change = planted.gates_change(list(days))
        wanted = expected(days, change)
    with clocked.part("queues and handlers"):
        command(demo, "mqsc", near("queues.mqsc"))
        consume(demo, [Night(day, records) for day, records in days.items()], change, repaired=False)
        strays(demo)
    with clocked.part("landing"):
        command(demo, "land", *LANDED, "--journal", str(demo.folder / "journal"), "--once")
    with clocked.part("tables"):
        for step, more in (("bronze", ("--journal", str(demo.folder / "journal"))), ("silver", ()), ("gold", ())):
            command(demo, "spark", step, "--tables", str(demo.tables), *more)
    checks = [*check_messages(demo.tables, wanted.before, wanted.poison_before, "before"), *check_gold(demo.tables, wanted)]
    checks += check_deliveries(demo.tables, wanted.lives, "before")
    checks += check_agreement(demo.tables, "before")
    with clocked.part("triage and redrive"):
        command(demo, "spark", "triage", near("rules.txt"), "--tables", str(demo.tables))
        redrive(demo, change)
    with clocked.part("queues and handlers, repaired"):
        consume(demo, [Night(max(days) + timedelta(days=1), ())], change, repaired=True)
    with clocked.part("report"):
        command(
            demo, "spark", "report", *LANDED, "--journal", str(demo.folder / "journal"), "--tables", str(demo.tables),
            "--rules", near("rules.txt"), "--output", str(demo.page),
        )  # fmt: skip
    checks += check_messages(demo.tables, wanted.after, wanted.poison_after, "after")
    checks += check_deliveries(demo.tables, [*wanted.lives, *wanted.lives_again], "after")
    checks += check_agreement(demo.tables, "after")
    checks += check_history(demo.tables, wanted, change)
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


def consume(demo: Demo, nights: Sequence[Night], change: date, *, repaired: bool) -> None:
    """Run the application, night by night, until every message is settled."""
    total = sum(len(night.records) for night in nights)
    note(f"\n# The application{', repaired,' if repaired else ''} runs {counted(len(nights), 'nights')} of virtual time")
    with progress("Flights", total) as bar:

        def reached(day: date, put: int) -> None:
            bar.reached(put, f"of {day}, {put:,} so far")

        run_nights(demo.folder / "data", make_app(change, repaired=repaired), nights, reached)


def strays(demo: Demo) -> None:
    """Put some messages without a header on the dead-letter queue, as an operator may do by hand."""
    queue_manager = open_queue_manager(demo.url)
    connection = queue_manager.connect()
    for number in range(planted.STRAYS):
        described = MessageDescriptor(persistence=Persistence.PERSISTENT)
        connection.put1("DEAD.LETTERS", described, b"kept for later %d" % number, PutOption.NO_SYNCPOINT)
    queue_manager.close()


def redrive(demo: Demo, change: date) -> None:
    """Redrive the messages that found a queue full, and the flights whose gates the repaired handler knows.

    Each redrive first runs as a dry run.
    """
    flights = (
        f"source_queue = 'FLIGHTS.IN' and put_ts >= '{change + timedelta(days=1)}' "
        f'and cast(body as string) like \'%"carrier":"{planted.GATES_CARRIER}"%\''
    )
    for kind, condition in (("dead_letter", "dlh_reason = 2053"), ("backout_message", flights)):
        asked = ("spark", "redrive", "--tables", str(demo.tables), "--kind", kind, "--where", condition)
        command(demo, *asked, "--dry-run")
        command(demo, *asked)


def booked(demo: Demo) -> list[int]:
    """Return the numbers of the flights on FLIGHTS.BOOKED; the CorrelId of a booking has the number of its flight."""
    look = GetOptions(options=GetOption.BROWSE_NEXT | GetOption.NO_SYNCPOINT)
    queue_manager = open_queue_manager(demo.url)
    try:
        connection = queue_manager.connect()
        handle = connection.open("FLIGHTS.BOOKED", OpenOption.BROWSE)
        found = iter(lambda: connection.get(handle, look), None)
        return [int.from_bytes(got.descriptor.correlation_id[6:]) for got in found]
    finally:
        queue_manager.close()


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
