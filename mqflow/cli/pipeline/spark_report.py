"""`mqflow spark report`: a page that shows what became of the messages; with queues and a journal, all the way to it."""

from pathlib import Path
from typing import Any

import click

from mqflow.cli.connection_options import url_option
from mqflow.cli.pipeline import land
from mqflow.cli.pipeline.spark import bronze, rules_option, spark_options, started, tables_option, told
from mqflow.cli.text.text_input import read_text

__all__ = ("command",)


@click.command("report")
@click.argument("queues", nargs=-1, metavar="[QUEUE[:KIND]]...")
@click.option("--journal", type=click.Path(path_type=Path, file_okay=False), help="First copy what is new in it to the tables.")
@tables_option
@rules_option
@click.option("--output", type=click.Path(path_type=Path, file_okay=False), default=Path("report"), show_default=True)
@url_option
@spark_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    queues: tuple[str, ...],
    journal: Path | None,
    tables: Path,
    rules: Path | None,
    output: Path,
    url: str | None,
    **options: Any,
) -> None:
    """Bring silver and gold up to bronze, and write report.html, report.json and pictures. Needs mqflow[report].

    With --journal bronze is brought up to the journal first; with QUEUEs, what is on them now is landed there before, as by
    `mqflow land --once`: one command from queues to the page.
    """
    if queues and journal is None:
        raise click.UsageError("QUEUEs are landed in a journal: --journal says which.")
    if journal is None and not tables.is_dir():
        raise click.UsageError(f"There is no folder {tables}: --journal says from where its tables are made.")
    text = read_text(rules) if rules else None  # before anything is landed for it
    from mqflow.pipeline import jobs  # noqa: PLC0415 - only who asks pays

    if queues:
        asked = [*queues, "--journal", str(journal), "--once", *(("--url", url) if url else ())]
        with land.command.make_context("land", asked, parent=ctx) as landing:
            land.command.invoke(landing)
    with started("report", **options) as spark, told():
        if journal is not None:
            ctx.invoke(bronze, journal=journal, tables=tables, **options)
        click.echo(str(jobs.report(spark, tables, output, text)))
