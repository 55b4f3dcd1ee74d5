"""`mqflow spark report`: writes a page about the messages; with queues and a journal, it runs the whole pipeline first."""

from datetime import datetime
from pathlib import Path
from typing import Any

import click

from mqflow.cli.option_types import url_option
from mqflow.cli.pipeline import land
from mqflow.cli.pipeline.folder_uri import exists, folder_uri
from mqflow.cli.pipeline.spark_session import (
    as_of_option,
    attempted,
    consumer_option,
    rules_option,
    spark_errors_as_sentences,
    spark_options,
    started,
    tables_option,
)
from mqflow.cli.pipeline.spark_tables import bronze
from mqflow.cli.text.terminal import read_text
from mqflow.folders import Folder

__all__ = ("command",)

_FOLDER = click.Path(path_type=Path, file_okay=False)


@click.command("report")
@click.argument("queues", nargs=-1, metavar="[QUEUE[:KIND]]...")
@click.option("--journal", type=folder_uri, metavar="FOLDER", help="First copy the new messages of this journal to the tables.")
@tables_option
@click.option(
    "--payload",
    default="full",
    show_default=True,
    help="With --journal: how much of the bodies bronze gets: none, hash, head:N or full.",
)
@consumer_option
@rules_option
@as_of_option
@click.option("--output", type=_FOLDER, default=Path("report"), show_default=True, help="The folder of the page.")
@url_option
@spark_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    queues: tuple[str, ...],
    journal: Folder | None,
    tables: Folder,
    payload: str,
    consumer: str,
    rules: Path | None,
    as_of: datetime | None,
    output: Path,
    url: str | None,
    **options: Any,
) -> None:
    """Update silver and gold from bronze, and write report.html, report.json and pictures. Needs mqflow[report].

    With --journal, the command first updates bronze from the journal. Before that, it lands the messages of each QUEUE in this
    journal, as `mqflow land --once` does. If your runs of bronze have --payload or --consumer, give the same here. --as-of
    shows the tables as they were at that time, and changes no table.
    """
    if as_of is not None and (queues or journal is not None):
        raise click.UsageError("--as-of shows tables as they were: leave out --journal and the queues.")
    if queues and journal is None:
        raise click.UsageError("QUEUEs are landed in a journal: name it with --journal.")
    if journal is None and not exists(tables):
        raise click.UsageError(f"There is no folder {tables.uri}: name the journal for its tables with --journal.")
    from mqflow.pipeline.payload import payload_of  # noqa: PLC0415 - only this command needs it

    payload_of(payload)
    text = read_text(rules) if rules else None  # before the landing, so that a wrong file changes nothing
    from mqflow.pipeline import jobs  # noqa: PLC0415 - only commands that run Spark need it

    if queues and journal is not None:
        arguments = [*queues, "--journal", journal.uri, "--once", *(("--url", url) if url else ())]
        with land.command.make_context("land", arguments, parent=ctx) as landing:
            land.command.invoke(landing)
    with started("report", **options) as spark, spark_errors_as_sentences():
        if journal is not None:
            ctx.invoke(bronze, journal=journal, tables=tables, payload=payload, consumer=consumer, **options)
        click.echo(str(attempted(lambda: jobs.report(spark, tables.uri, output, text, as_of))))
