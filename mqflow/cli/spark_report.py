"""`mqflow spark report`: a page that shows what became of the messages."""

from pathlib import Path

import click

__all__ = ("command",)


@click.command("report")
@click.option("--tables", type=click.Path(path_type=Path, file_okay=False), required=True, help="The folder of the tables.")
@click.option(
    "--rules", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="A rules table to try on dead letters."
)
@click.option("--output", type=click.Path(path_type=Path, file_okay=False), default=Path("report"), show_default=True)
@click.option("--master", metavar="MASTER", help="Where Spark runs: local[2], yarn, k8s://..., spark://...")
def command(tables: Path, rules: Path | None, output: Path, master: str | None) -> None:
    """Bring silver and gold up to bronze, and write report.html, report.json and pictures. Needs mqflow[report]."""
    from mqflow.pipeline import jobs, spark_session  # noqa: PLC0415 - loads Spark

    spark = spark_session("mqflow spark report", master=master)
    try:
        click.echo(str(jobs.report(spark, tables, output, rules.read_text("utf-8") if rules else None)))
    finally:
        spark.stop()
