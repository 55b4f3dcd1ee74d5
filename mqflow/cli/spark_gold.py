"""`mqflow spark gold`: silver into rates, curves and alerts."""

from pathlib import Path

import click

from mqflow.cli.terminal import note

__all__ = ("command",)


@click.command("gold")
@click.option("--tables", type=click.Path(path_type=Path, file_okay=False), required=True, help="The folder of the tables.")
@click.option("--master", metavar="MASTER", help="Where Spark runs: local[2], yarn, k8s://..., spark://...")
def command(tables: Path, master: str | None) -> None:
    """Count silver in windows: poison rates and alerts, retries, times to backout, redrives, delays, dead letters, lag."""
    from mqflow.pipeline import jobs, spark_session  # noqa: PLC0415 - loads Spark

    spark = spark_session("mqflow spark gold", master=master)
    try:
        ran = jobs.gold(spark, tables)
    finally:
        spark.stop()
    closed = (
        "no window is closed yet" if ran.watermark is None else f"windows up to {ran.watermark:%Y-%m-%d %H:%M} UTC are closed"
    )
    note(f"Gold is up to silver, in {tables / 'gold'}: {closed}; {ran.late:,} records came too late for theirs.")
