"""`mqflow spark gold`: silver into rates, curves and alerts."""

from pathlib import Path
from typing import Any

import click

from mqflow.cli.pipeline.spark import spark_options, started, tables_there_option, told
from mqflow.cli.text.terminal import note

__all__ = ("command",)


@click.command("gold")
@tables_there_option
@spark_options
def command(tables: Path, **options: Any) -> None:
    """Count silver in windows: poison rates and alerts, retries, times to backout, redrives, delays, dead letters, lag."""
    from mqflow.pipeline import jobs  # noqa: PLC0415 - only who asks pays

    with started("gold", **options) as spark, told():
        ran = jobs.gold(spark, tables)
    closed = (
        "no window is closed yet" if ran.watermark is None else f"windows up to {ran.watermark:%Y-%m-%d %H:%M} UTC are closed"
    )
    note(f"Gold is up to silver, in {tables / 'gold'}: {closed}; {ran.late:,} records came too late for theirs.")
