"""`mqflow spark redrive`: puts rows of a table back on queues as the original messages. Over all runs, each row is put once."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from os.path import normpath
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec import Struct

from mqflow.app.config.settings import load
from mqflow.cli.connection_options import connected
from mqflow.cli.messages.redrive import ORIGIN, pause, per_second
from mqflow.cli.option_types import url_option
from mqflow.cli.pipeline.spark_session import spark_errors_as_sentences, spark_options, started, tables_option
from mqflow.cli.text.exit_codes import EXIT_FAILED, EXIT_NOTHING
from mqflow.cli.text.terminal import note, progress, safe, show_table
from mqflow.folders import Folder
from mqflow.mqi.errors import MQIError
from mqflow.world import SYSTEM_CLOCK

if TYPE_CHECKING:
    from mqflow.pipeline.dead_letters.redrive import TableRedriver
    from mqflow.pipeline.dead_letters.redrive_plan import Planned

__all__ = ("command",)

_REFUSED_SHOWN: Final = 10


class _Done(Struct):
    """The number of rows so far: put in this run, put by an earlier run, refused."""

    put: int = 0
    #: The number of rows that an earlier run has put.
    before: int = 0
    refused: int = 0

    @property
    def text(self) -> str:
        return f"{self.put:,} put" + (f", {self.before:,} put before" if self.before else "")


class _Rate(Struct, frozen=True):
    """How fast to put: messages in a second (0 for no limit), and messages in a unit of work."""

    per_second: float
    unit: int


@click.command("redrive")
@tables_option
@click.option("--where", "condition", required=True, metavar="SQL", help='Which rows: "dlh_reason = 2053"; true for all.')
@click.option(
    "--kind", type=click.Choice(["dead_letter", "backout_message"]), default="dead_letter", show_default=True, help="The table."
)
@click.option(
    "--to",
    default=ORIGIN,
    show_default=True,
    metavar="origin|QUEUE",
    help="The queue; origin is the queue that each message came from.",
)
@click.option("--id", "redrive_id", metavar="NAME", help="The name of this redrive; derived from the other options by default.")
@click.option("--rate", callback=per_second, metavar="N/s", help="The highest rate: 50/s, 600/m.")
@click.option(
    "--unit", type=click.IntRange(1), default=100, show_default=True, help="Maximum number of messages in a unit of work."
)
@click.option("--dry-run", is_flag=True, help="Show what the command would put, and put nothing.")
@url_option
@spark_options
def command(tables: Folder, condition: str, kind: str, to: str, url: str | None, **options: Any) -> None:
    """Put rows of bronze back on queues, as the original messages: MsgId, context, priority and data.

    Each row is put once. A message on MQFLOW.REDRIVE.STATE stores the progress of this redrive, in the unit of work of the
    puts. After a kill or a refusal, run the same command again: it continues, and includes rows that have landed since. Another
    --id starts from the beginning.

    With the setting disposition_queue, each message gets a record there in the same unit of work; gold.redrive reports the
    outcome from these records. Exits with 1 if rows could not be put, with 3 if no row matches.
    """
    from mqflow.journal import Kind  # noqa: PLC0415 - only commands that run Spark need it
    from mqflow.pipeline import jobs  # noqa: PLC0415 - as above
    from mqflow.pipeline.dead_letters.redrive import rows_of  # noqa: PLC0415 - as above
    from mqflow.pipeline.dead_letters.redrive_plan import chosen, planned  # noqa: PLC0415 - as above
    from mqflow.pipeline.delta.log import has_log  # noqa: PLC0415 - as above
    from mqflow.pipeline.tables.bronze import check_format, table_folder  # noqa: PLC0415 - as above

    redrive_id, rate, unit, dry_run = (options.pop(name) for name in ("redrive_id", "rate", "unit", "dry_run"))
    queue = "" if to == ORIGIN else to
    # The identifier of a redrive without --id is a hash of this text. So this text must never change, and `../here/tables` must
    # give the same text as `tables`.
    of = f"{kind} in {normpath(tables.path) if tables.path else tables.uri} where {condition} to {to}"
    name = redrive_id or sha256(of.encode()).hexdigest()[:12]
    table = table_folder(tables.uri, Kind(kind))
    check_format(table)
    if not has_log(table):
        note(f"There is no table {table.uri}: no such message has landed yet (`mqflow spark bronze`), or --tables is wrong.")
        sys.exit(EXIT_NOTHING)
    with started("redrive", **options) as spark, spark_errors_as_sentences():
        rows = chosen(jobs.bronze_table(spark, tables.uri, Kind(kind)), condition)
        plan = planned(rows, Kind(kind), queue)
        _show(plan, dry_run=dry_run)
        if not plan:
            note(f"No row of {table.uri} matches.")
            sys.exit(EXIT_NOTHING)
        if dry_run:
            return
        total = sum(each.messages for each in plan)
        done = _put(url, name, of, queue, _Rate(rate, unit), rows_of(rows), total)
    click.echo(f"Redrive {safe(name)}: {done.text}, {done.refused:,} refused.")
    if done.refused:
        sys.exit(EXIT_FAILED)


def _show(plan: "Sequence[Planned]", *, dry_run: bool) -> None:
    if not plan:
        return
    rows = [
        (
            f"{each.queue} on {each.queue_manager}" if each.queue_manager else each.queue or "no origin",
            f"{each.messages:,}",
            each.why_not or ("would be put" if dry_run else "to be put"),
        )
        for each in plan
    ]
    show_table(("to", "messages", ""), rows, numbers=frozenset({1}))


def _put(url: str | None, name: str, of: str, queue: str, rate: _Rate, rows: Iterable[Mapping[str, Any]], total: int) -> _Done:
    """Put the rows on a connection of this command. Return the counts."""
    from mqflow.pipeline.dead_letters.redrive import TableRedriver  # noqa: PLC0415 - only commands that run Spark need it

    with connected(url) as connection:
        redriver = TableRedriver(
            connection=connection,
            redrive_id=name,
            of=of,
            to=queue,
            rate=rate.per_second,
            records=load().disposition_queue,
            tell=lambda text: note(safe(text)),
            # A unit of work has at most the messages of one second, so that no burst is larger.
            unit=min(rate.unit, max(1, int(rate.per_second))) if rate.per_second else rate.unit,
            clock=SYSTEM_CLOCK,
            pause=pause,
        )
        return _run(redriver, rows, total, name)


def _run(redriver: "TableRedriver", rows: Iterable[Mapping[str, Any]], total: int, name: str) -> _Done:
    """Run the redrive and return the counts. If a queue refuses a put, print the progress and raise the `MQIError`."""
    done = _Done()
    try:
        with progress("Redriving", total) as bar:
            for unit in redriver.run(rows):
                done.put += unit.put
                done.before += unit.skipped
                for text in unit.refused[: max(0, _REFUSED_SHOWN - done.refused)]:
                    note(f"Refused: {safe(text)}")
                done.refused += len(unit.refused)
                bar.reached(done.put + done.before + done.refused, done.text)
    except MQIError:
        note(f"Redrive {safe(name)} stopped: {done.text}. These messages stay on their queues; the same command continues.")
        raise
    return done
