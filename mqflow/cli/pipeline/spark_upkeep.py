"""`mqflow spark optimize`: keeps the tables small. It starts no Spark and no Java."""

from datetime import timedelta
from typing import TYPE_CHECKING

import click
import msgspec

from mqflow.cli.connection_options import json_option
from mqflow.cli.pipeline.spark_session import existing_tables_option
from mqflow.cli.text.terminal import note, show_table
from mqflow.folders import Folder

if TYPE_CHECKING:
    from mqflow.pipeline.tables.upkeep import Upkept

__all__ = ("optimize",)

_COLUMNS = ("table", "files before", "bytes before", "files", "bytes", "deleted files", "deleted bytes")


@click.command("optimize")
@existing_tables_option
@click.option(
    "--keep-days",
    type=click.IntRange(min=1, max=30),  # Delta engines delete entries of logs after thirty days
    default=30,
    show_default=True,
    metavar="N",
    help="Keep every state of the last N days, for --as-of.",
)
@json_option
def optimize(tables: Folder, keep_days: int, *, as_json: bool) -> None:
    """Join the small files of bronze, silver and gold, and delete versions and runs that are older than --keep-days.

    No row changes. The command can run beside readers; beside a writer of silver or gold, one of them gets an error and
    changes nothing. Needs mqflow[delta].
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


def _cells(done: "Upkept") -> tuple[str, ...]:
    sizes = (done.before, done.after, done.removed)
    return (done.table, *(f"{number:,}" for size in sizes for number in (size.files, size.bytes)))
