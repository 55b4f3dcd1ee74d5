"""`mqflow spark triage`: what a rules table would do with landed dead letters."""

from pathlib import Path
from typing import Any

import click

from mqflow.cli.pipeline.spark import spark_options, started, tables_there_option, told
from mqflow.cli.text.terminal import counted, note, safe, show_table
from mqflow.cli.text.text_input import read_text

__all__ = ("command",)


@click.command("triage")
@tables_there_option
@click.option(
    "--against", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Another rules table: what differs."
)
@click.option("--retries", is_flag=True, help="With --against: also what is tried next, where what comes first fails.")
@click.argument("rules", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@spark_options
def command(tables: Path, rules: Path, against: Path | None, *, retries: bool, **options: Any) -> None:
    """Say what the table RULES would do with the dead letters in bronze. Moves none."""
    if retries and against is None:
        raise click.UsageError("--retries compares two tables: --against says with which.")
    from mqflow.pipeline import jobs  # noqa: PLC0415 - only who asks pays

    text, other = read_text(rules), read_text(against) if against else None
    with started("triage", **options) as spark, told():
        found = jobs.triage(spark, tables, text, other, retries=retries)
    rows = [
        (str(use.number), str(use.line), use.action, f"{use.first:,}", f"{use.matching:,}", use.note)
        for use in found.triage.rules
    ]
    show_table(("rule", "line", "action", "messages", "would match", ""), rows, numbers=frozenset({0, 1, 3, 4}))
    click.echo(f"{found.triage.unmatched:,} match no rule and {found.triage.strays:,} have no MQDLH: they would stay.")
    if not (tables / "bronze" / "dead_letter").exists():
        note(f"No dead letter has landed in {tables} yet: mqflow spark bronze copies them there.")
    if found.unmatched:
        click.echo(f"Of those that match no rule, {'the oldest' if found.triage.unmatched > len(found.unmatched) else 'all'}:")
    for one in found.unmatched:
        click.echo(safe("  " + "  ".join(f"{name}={value}" for name, value in one.columns.items() if value)))
    for each in found.differences:
        click.echo(safe(f"{counted(each.messages, 'messages')}: {each.before} becomes {each.after} (as {each.example.hex()})"))
