"""`mqflow spark silver`: bronze into attempts, messages and dead letters."""

from pathlib import Path
from typing import Any

import click

from mqflow.cli.pipeline.spark import rules_option, spark_options, started, tables_there_option, told
from mqflow.cli.text.terminal import note
from mqflow.cli.text.text_input import read_text

__all__ = ("command",)


@click.command("silver")
@tables_there_option
@rules_option
@click.option("--payload", help="How much of bodies of other queues: none, hash, head:N or full. As last time; none at first.")
@click.option(
    "--dedupe/--no-dedupe",
    default=None,
    help="Count once what was landed twice, not by `mqflow land`. As last time; no at first.",
)
@click.option("--whole", is_flag=True, help="Make all attempts and messages anew, not only those with something new.")
@spark_options
def command(tables: Path, rules: Path | None, *, payload: str | None, dedupe: bool | None, whole: bool, **options: Any) -> None:
    """Make silver of what is in bronze: attempts repaired from BackoutCount, messages, dead letters, backed-out messages.

    Attempts and messages go on from where they were: only messages that something new was landed about are made anew.
    """
    from mqflow.pipeline.payload import payload_of  # noqa: PLC0415 - only who asks pays

    if payload is not None:
        payload_of(payload)
    from mqflow.pipeline import jobs  # noqa: PLC0415 - only who asks pays

    text = read_text(rules) if rules else None
    with started("silver", **options) as spark, told():
        jobs.silver(spark, tables, text, payload=payload, dedupe=dedupe, whole=whole)
    note(f"Silver is up to bronze, in {tables / 'silver'}.")
