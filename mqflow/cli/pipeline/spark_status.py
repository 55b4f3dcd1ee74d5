"""`mqflow spark status`: shows how far each step of the pipeline is behind the step before. It starts no Spark and no Java."""

import click
import msgspec

from mqflow.cli.connection_options import connected
from mqflow.cli.option_types import json_option, url_option
from mqflow.cli.pipeline.folder_uri import folder_uri
from mqflow.cli.pipeline.spark_session import existing_tables_option
from mqflow.cli.pipeline.stream_view import COLUMNS, level_cells, level_record
from mqflow.cli.text.terminal import show_table
from mqflow.folders import Folder
from mqflow.world import SYSTEM_CLOCK

__all__ = ("command",)


@click.command("status")
@click.option("--journal", type=folder_uri, metavar="FOLDER", required=True, help="The journal of the tables: a path or a URI.")
@existing_tables_option
@json_option
@url_option
def command(journal: Folder, tables: Folder, url: str | None, *, as_json: bool) -> None:
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
