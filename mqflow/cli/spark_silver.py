"""`mqflow spark silver`: bronze into attempts, messages and dead letters."""

from pathlib import Path
from typing import Any

import click

from mqflow.cli.spark import rules_option, spark_options, started, tables_option, told
from mqflow.cli.terminal import note

__all__ = ("command",)


@click.command("silver")
@tables_option
@rules_option
@spark_options
def command(tables: Path, rules: Path | None, **options: Any) -> None:
    """Make silver of what is in bronze: attempts repaired from BackoutCount, messages, dead letters."""
    from mqflow.pipeline import jobs  # noqa: PLC0415 - only who asks pays

    with started("silver", **options) as spark, told():
        jobs.silver(spark, tables, rules.read_text("utf-8") if rules else None)
    note(f"Silver is up to bronze, in {tables / 'silver'}.")
