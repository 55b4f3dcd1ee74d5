"""`mqflow spark redrive`: rows of a table back on queues as the messages they were, each once over however many runs."""

import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from threading import Event
from typing import Any, Final

import click
from msgspec import Struct

from mqflow.app.config.settings import load
from mqflow.cli.connection_options import connected, url_option
from mqflow.cli.messages.redrive import ORIGIN, per_second
from mqflow.cli.pipeline.spark import spark_options, started, tables_option, told
from mqflow.cli.text.exit_codes import EXIT_FAILED, EXIT_NOTHING
from mqflow.cli.text.terminal import note, progress, safe, show_table
from mqflow.mqi.errors import MQIError
from mqflow.world import SYSTEM_CLOCK

__all__ = ("command",)

_REFUSED_SHOWN: Final = 10


class _Done(Struct):
    """How far the run is."""

    put: int = 0
    #: Rows that an earlier run had put.
    before: int = 0
    refused: int = 0

    @property
    def words(self) -> str:
        return f"{self.put:,} put" + (f", {self.before:,} put before" if self.before else "")


@click.command("redrive")
@tables_option
@click.option("--where", "condition", required=True, metavar="SQL", help='Which rows: "dlh_reason = 2053"; true for all.')
@click.option(
    "--kind", type=click.Choice(["dead_letter", "backout_message"]), default="dead_letter", show_default=True, help="Of what."
)
@click.option(
    "--to",
    default=ORIGIN,
    show_default=True,
    metavar="origin|QUEUE",
    help="Where each came from, as it says itself; or a queue.",
)
@click.option("--id", "redrive_id", metavar="NAME", help="Names this redrive; made of what it is of otherwise.")
@click.option("--rate", callback=per_second, metavar="N/s", help="How many a second at most: 50/s, 600/m.")
@click.option("--unit", type=click.IntRange(1), default=100, show_default=True, help="Messages in a unit of work at most.")
@click.option("--dry-run", is_flag=True, help="Say what would be put where, and put nothing.")
@url_option
@spark_options
def command(tables: Path, condition: str, kind: str, to: str, url: str | None, **options: Any) -> None:
    """Put rows of bronze back on queues, as the messages they were: MsgId, context, priority and data.

    Each once: how far this redrive has come is a message on MQFLOW.REDRIVE.STATE, exchanged in the unit of work of the puts.
    Killed or refused at any point, the same command typed again goes on, and takes what has landed since. Another --id begins
    anew. With the setting disposition_queue each message that is put has a record there, in the same unit of work, by which
    gold.redrive says what became of it. Exits with 1 where rows could not be put, with 3 where none is chosen.
    """
    from mqflow.journal import Kind  # noqa: PLC0415 - only who asks pays
    from mqflow.pipeline import jobs  # noqa: PLC0415 - as above
    from mqflow.pipeline.dead_letters.redrive import TableRedriver, rows_of  # noqa: PLC0415 - as above
    from mqflow.pipeline.dead_letters.redrive_plan import chosen, planned  # noqa: PLC0415 - as above

    redrive_id, rate, unit, dry_run = (options.pop(name) for name in ("redrive_id", "rate", "unit", "dry_run"))
    queue = "" if to == ORIGIN else to
    of = f"{kind} in {tables.absolute()} where {condition} to {to}"
    name = redrive_id or sha256(of.encode()).hexdigest()[:12]
    table = tables / "bronze" / kind
    if not table.exists():
        note(f"There is no table {table}: nothing of the kind has landed yet (`mqflow spark bronze`), or --tables is another.")
        sys.exit(EXIT_NOTHING)
    with started("redrive", **options) as spark, told():
        rows = chosen(jobs.bronze_table(spark, tables, Kind(kind)), condition)
        plan = planned(rows, Kind(kind), queue)
        _show(plan, dry_run=dry_run)
        if not plan:
            note(f"No row of {table} is chosen.")
            sys.exit(EXIT_NOTHING)
        if dry_run:
            return
        with connected(url) as connection:
            redriver = TableRedriver(
                connection=connection,
                redrive_id=name,
                of=of,
                to=queue,
                rate=rate,
                records=load({} if url is None else {"url": url}).disposition_queue,
                tell=lambda said: note(safe(said)),
                unit=min(unit, max(1, int(rate))) if rate else unit,  # no burst is longer than a second's worth
                clock=SYSTEM_CLOCK,
                pause=_pause,
            )
            done = _carry_out(redriver, rows_of(rows), sum(one.messages for one in plan), name)
    click.echo(f"Redrive {safe(name)}: {done.words}, {done.refused:,} refused.")
    if done.refused:
        sys.exit(EXIT_FAILED)


def _show(plan: Sequence[Any], *, dry_run: bool) -> None:
    if not plan:
        return
    rows = [
        (
            f"{one.queue} on {one.queue_manager}" if one.queue_manager else one.queue or "no origin",
            f"{one.messages:,}",
            one.why_not or ("would be put" if dry_run else "to be put"),
        )
        for one in plan
    ]
    show_table(("to", "messages", ""), rows, numbers=frozenset({1}))


def _carry_out(redriver: Any, rows: Any, total: int, name: str) -> _Done:
    """Return what was put. Raises `MQIError` where a queue refuses, after it is said how far it came."""
    done = _Done()
    try:
        with progress("Redriving", total) as bar:
            for each in redriver.run(rows):
                done.put += each.put
                done.before += each.skipped
                for said in each.refused[: max(0, _REFUSED_SHOWN - done.refused)]:
                    note(f"Refused: {safe(said)}")
                done.refused += len(each.refused)
                bar.reached(done.put + done.before + done.refused, done.words)
    except MQIError:
        note(f"Redrive {safe(name)} stopped: {done.words}. They stay; the same command goes on after them.")
        raise
    return done


def _pause(seconds: float) -> None:
    if seconds > 0:
        Event().wait(seconds)
