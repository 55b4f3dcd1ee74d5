"""`mqflow spark silver`: bronze into attempts, messages and dead letters."""

from pathlib import Path

import click

from mqflow.cli.terminal import note

__all__ = ("command",)


@click.command("silver")
@click.option("--tables", type=click.Path(path_type=Path, file_okay=False), required=True, help="The folder of the tables.")
@click.option(
    "--rules", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="A rules table to try on dead letters."
)
@click.option("--master", metavar="MASTER", help="Where Spark runs: local[2], yarn, k8s://..., spark://...")
def command(tables: Path, rules: Path | None, master: str | None) -> None:
    """Make silver of what is in bronze: attempts repaired from BackoutCount, messages, dead letters."""
    from mqflow.pipeline import jobs, spark_session  # noqa: PLC0415 - loads Spark

    spark = spark_session("mqflow spark silver", master=master)
    try:
        jobs.silver(spark, tables, rules.read_text("utf-8") if rules else None)
    finally:
        spark.stop()
    note(f"Silver is up to bronze, in {tables / 'silver'}.")
