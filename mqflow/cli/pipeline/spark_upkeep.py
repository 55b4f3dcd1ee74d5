"""`mqflow spark optimize`, `erase` and `status`: upkeep of the tables and their state, without Spark and Java."""

from datetime import timedelta
from typing import TYPE_CHECKING

import click
import msgspec

from mqflow.cli.connection_options import connected
from mqflow.cli.option_types import json_option, url_option
from mqflow.cli.pipeline.folder_uri import existing_folder_uri, folder_uri
from mqflow.cli.pipeline.spark_session import existing_tables_option
from mqflow.cli.pipeline.stream_view import COLUMNS, level_cells, level_record
from mqflow.cli.text.terminal import note, show_table
from mqflow.folders import Folder
from mqflow.journal.errors import JournalError
from mqflow.world import SYSTEM_CLOCK

if TYPE_CHECKING:
    from mqflow.pipeline.tables.upkeep import Upkept

__all__ = ("erase", "optimize", "status")

_COLUMNS = ("table", "files before", "bytes before", "files", "bytes", "deleted files", "deleted bytes")


@click.command("optimize")
@existing_tables_option
@click.option(
    "--keep-days",
    type=click.IntRange(min=1, max=30),  # Delta engines delete old entries of logs after thirty days
    default=30,
    show_default=True,
    metavar="N",
    help="Keep every state of the last N days, for --as-of.",
)
@json_option
def optimize(tables: Folder, keep_days: int, *, as_json: bool) -> None:
    """Join the small files of bronze, silver and gold, and delete versions and runs that are older than --keep-days.

    No row changes. Other programs can read the tables meanwhile. If another process writes silver or gold meanwhile, one of the
    two processes gets an error and changes nothing. Needs mqflow[delta].
    """
    from mqflow.pipeline.tables import upkeep  # noqa: PLC0415 - needs pyarrow

    done: list[Upkept] = []
    for each in upkeep.optimize(tables.uri, timedelta(days=keep_days)):
        done.append(each)
        if as_json:
            click.echo(msgspec.json.encode(each))
    if not done:
        note(f"There is no table in {tables.uri}.")
    elif not as_json:
        show_table(_COLUMNS, [_cells(each) for each in done], numbers=frozenset(range(1, len(_COLUMNS))))


@click.command("erase")
@click.option("--journal", type=existing_folder_uri, metavar="FOLDER", required=True, help="The journal: a path or a URI.")
@existing_tables_option
@click.option("--key", "keys", multiple=True, required=True, metavar="COLUMN=VALUE", help="Chooses messages; repeatable.")
@click.option("--receipt", metavar="FILE", help="The new file for the receipt: a path or a URI.")
@click.option("--dry-run", is_flag=True, help="Count the rows that the command would erase, and change nothing.")
def erase(journal: Folder, tables: Folder, keys: tuple[str, ...], receipt: str | None, *, dry_run: bool) -> None:
    """Erase the messages of one person from the journal and from bronze, silver and gold, for ever.

    Keys: msg_id and correl_id (hexadecimal), user_id, put_appl_name, appl_identity_data, and body for a text that the data
    contains. If one key matches a message, the command erases the message with all rows about it. End landers and
    streams first. After a kill, run the same command again. Needs mqflow[delta].
    """
    from mqflow.journal.personal_data import key_of  # noqa: PLC0415 - only this command needs it
    from mqflow.pipeline.tables import erasure  # noqa: PLC0415 - needs pyarrow

    try:
        asked = erasure.Erasure(journal=journal.uri, tables=tables.uri, keys=tuple(key_of(key) for key in keys))
    except JournalError as error:
        raise click.BadParameter(str(error), param_hint="--key") from error
    if dry_run:
        rows = [(name, f"{count:,}") for name, count in erasure.find(asked).items()]
        show_table(("lane or table", "rows to erase"), rows, numbers=frozenset({1}))
        return
    if receipt is None:
        raise click.UsageError("--receipt FILE is missing: it gets the proof of the erasure. --dry-run needs no receipt.")
    parent, _, name = receipt.rpartition("/")
    folder = folder_uri(parent or ("/" if receipt.startswith("/") else "."))
    begun_s = SYSTEM_CLOCK.wall()
    said = erasure.erase(asked, (folder, name))
    erased = [(each.table, f"{each.rows_before - each.rows:,}") for each in said.tables]
    segments = [(lane.lane, f"{sum(each.rows_before - each.rows for each in lane.segments):,}") for lane in said.lanes]
    show_table(("lane or table", "rows erased"), [*segments, *erased], numbers=frozenset({1}))
    if said.ended_s is not None and said.ended_s < begun_s:
        note("This erasure ended before, and nothing was done now. To erase messages that came since, name another receipt.")
    note(f"The receipt is {folder.uri_of(name)}. Not covered: {'; '.join(said.not_covered)}.")


def _cells(done: "Upkept") -> tuple[str, ...]:
    sizes = (done.before, done.after, done.removed)
    return (done.table, *(f"{number:,}" for size in sizes for number in (size.files, size.bytes)))


@click.command("status")
@click.option("--journal", type=folder_uri, metavar="FOLDER", required=True, help="The journal of the tables: a path or a URI.")
@existing_tables_option
@json_option
@url_option
def status(journal: Folder, tables: Folder, url: str | None, *, as_json: bool) -> None:
    """Show how far each table is behind the journal: rows, and the time since the oldest of these rows landed.

    The command also shows the times of the newest landing and the newest event.

    With --url, the command also shows how far the journal is behind the queues of its lanes. Needs mqflow[journal], and
    mqflow[delta] for the tables.
    """
    from mqflow.journal import Journal  # noqa: PLC0415 - needs pyarrow
    from mqflow.pipeline.stream.freshness import queue_levels, table_levels  # noqa: PLC0415 - as above

    found = Journal.open(journal)
    now_us = round(SYSTEM_CLOCK.wall() * 1e6)
    levels = table_levels(found, tables.uri, now_us)
    if url is not None:
        with connected(url) as connection:
            levels = [*queue_levels(connection, found.lanes(), now_us), *levels]
    if as_json:
        for level in levels:
            click.echo(msgspec.json.encode(level_record(level)))
    else:
        show_table(COLUMNS, [level_cells(level) for level in levels], numbers=frozenset({1, 2}))
