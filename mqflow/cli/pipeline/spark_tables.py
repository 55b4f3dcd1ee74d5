"""`mqflow spark bronze`, `silver`, `gold` and `triage`: make tables from a journal, and evaluate these tables."""

from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import click

from mqflow.cli.pipeline.folder_uri import journal_uri
from mqflow.cli.pipeline.spark_session import (
    as_of_option,
    attempted,
    consumer_option,
    existing_tables_option,
    rules_option,
    spark_errors_as_sentences,
    spark_options,
    started,
    tables_option,
)
from mqflow.cli.text.terminal import Progress, counted, note, progress, read_text, safe, show_table
from mqflow.folders import Folder

__all__ = ("bronze", "gold", "silver", "triage")

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command("bronze")
@click.option("--journal", type=journal_uri, metavar="FOLDER", required=True, help="The journal to read: a path or a URI.")
@tables_option
@click.option(
    "--kind", multiple=True, help="disposition, dead_letter, backout_message or payload; default: every kind present."
)
@click.option("--payload", default="full", show_default=True, help="How much of the bodies: none, hash, head:N or full.")
@click.option(
    "--rows-per-batch",
    type=click.IntRange(1),
    default=500_000,
    show_default=True,
    help="The most rows in one commit to a table.",
)
@click.option(
    "--bytes-per-batch",
    type=click.IntRange(1),
    default=2**30,
    show_default=True,
    help="The most bytes of segments in one commit.",
)
@consumer_option
@click.option("--no-consumer", is_flag=True, help="Let `mqflow journal trim` delete segments that are not in the table yet.")
@spark_options
def bronze(journal: Folder, tables: Folder, kind: tuple[str, ...], payload: str, **options: Any) -> None:
    """Copy the new messages of a journal into the bronze tables, each message once.

    The tables are Delta tables. The next run continues after the last one. A killed run loses and repeats nothing.
    """
    from mqflow.journal import Kind  # noqa: PLC0415 - needs pyarrow
    from mqflow.pipeline import jobs  # noqa: PLC0415 - only commands that run Spark need it
    from mqflow.pipeline.payload import payload_of  # noqa: PLC0415 - as above
    from mqflow.pipeline.sources.hadoop_folder import HadoopFolder  # noqa: PLC0415 - as above
    from mqflow.pipeline.tables import bronze as work  # noqa: PLC0415 - as above

    payload_of(payload)
    # Only Spark can read a journal on a Hadoop file system.
    present = () if isinstance(journal, HadoopFolder) else work.kinds_of(journal.uri)
    if unknown := [each for each in kind if each not in set(Kind)]:
        raise click.BadParameter(f"{unknown[0]!r} is not a kind: use {', '.join(Kind)}.", param_hint="--kind")
    kinds = [Kind(each) for each in kind] or present
    for each in kinds:
        work.check_format(work.table_folder(tables.uri, each))
    limits = {name: options.pop(name) for name in ("rows_per_batch", "bytes_per_batch")}
    consumer = options.pop("consumer")
    if options.pop("no_consumer"):
        consumer = ""
    # Make the folder even if the journal has no messages, because from now on it is a folder of tables.
    tables.make()
    rows = []
    with started("bronze", **options) as spark, spark_errors_as_sentences():
        for each in kinds or work.kinds_of(journal.uri):
            with progress(f"Bronze {each}", 0) as bar:
                show = partial(_show_rows, bar)
                copy = partial(
                    jobs.bronze, spark, journal.uri, tables.uri, [each], payload=payload, consumer=consumer, tell=show
                )
                [written] = attempted(partial(copy, **limits))
            rows.append((each.value, f"{written.rows:,}", str(written.batches), written.table))
            if written.lacking:
                note(safe(work.lacking_sentence(written.table, written.lacking)))
    show_table(("Kind", "Rows", "Commits", "Table"), rows, numbers=frozenset({1, 2}))


def _show_rows(bar: Progress, _kind: str, rows: int) -> None:
    bar.reached(rows, f"{rows:,} rows")


@click.command("silver")
@existing_tables_option
@rules_option
@click.option(
    "--payload", help="How much of bodies of other queues: none, hash, head:N or full. Default: as in the last run, or none."
)
@click.option(
    "--dedupe/--no-dedupe",
    default=None,
    help="Count a message once if another tool than `mqflow land` landed it twice. Default: as in the last run, or no.",
)
@click.option("--whole", is_flag=True, help="Rebuild all attempts and messages, not only those with new records.")
@spark_options
def silver(
    tables: Folder, rules: Path | None, *, payload: str | None, dedupe: bool | None, whole: bool, **options: Any
) -> None:
    """Make silver from bronze: tables of attempts, messages, dead letters and backed-out messages.

    BackoutCount shows attempts that have no record. The command rebuilds only the attempts and messages with new records in
    bronze.
    """
    from mqflow.pipeline.payload import payload_of  # noqa: PLC0415 - only this command needs it

    if payload is not None:
        payload_of(payload)
    from mqflow.pipeline import jobs  # noqa: PLC0415 - only commands that run Spark need it

    text = read_text(rules) if rules else None
    with started("silver", **options) as spark, spark_errors_as_sentences():
        attempted(lambda: jobs.silver(spark, tables.uri, text, payload=payload, dedupe=dedupe, whole=whole))
    note(f"Silver is up to date with bronze, in {tables.uri_of('silver')}.")


@click.command("gold")
@existing_tables_option
@spark_options
def gold(tables: Folder, **options: Any) -> None:
    """Count silver in windows: poison rates and alerts, retries, times to backout, redrives, delays, dead letters, lag."""
    from mqflow.pipeline import jobs  # noqa: PLC0415 - only commands that run Spark need it

    with started("gold", **options) as spark, spark_errors_as_sentences():
        result = attempted(lambda: jobs.gold(spark, tables.uri))
    if result.watermark is None:
        closed = "no window is closed yet"
    else:
        closed = f"windows up to {result.watermark:%Y-%m-%d %H:%M} UTC are closed"
    note(
        f"Gold is up to date with silver, in {tables.uri_of('gold')}: {closed}; "
        f"{result.late:,} records were too late for theirs."
    )


@click.command("triage")
@existing_tables_option
@click.option("--against", type=_FILE, help="Compare with another rules table.")
@click.option("--retries", is_flag=True, help="With --against: compare also the actions that follow if the first action fails.")
@as_of_option
@click.argument("rules", type=_FILE)
@spark_options
def triage(tables: Folder, rules: Path, against: Path | None, as_of: datetime | None, *, retries: bool, **options: Any) -> None:
    """Show the actions of the rules table RULES for the dead letters in bronze. Moves no message."""
    if retries and against is None:
        raise click.UsageError("--retries compares two tables: name the other one with --against.")
    from mqflow.journal import Kind  # noqa: PLC0415 - needs pyarrow
    from mqflow.pipeline import jobs  # noqa: PLC0415 - only commands that run Spark need it
    from mqflow.pipeline.delta.log import has_log  # noqa: PLC0415 - as above
    from mqflow.pipeline.tables.bronze import table_folder  # noqa: PLC0415 - as above

    text, other = read_text(rules), read_text(against) if against else None
    with started("triage", **options) as spark, spark_errors_as_sentences():
        found = attempted(lambda: jobs.triage(spark, tables.uri, text, other, retries=retries, as_of=as_of))
    rows = [
        (str(use.number), str(use.line), use.action, f"{use.first:,}", f"{use.matching:,}", use.note)
        for use in found.triage.rules
    ]
    show_table(("rule", "line", "action", "messages", "would match", ""), rows, numbers=frozenset({0, 1, 3, 4}))
    click.echo(f"{found.triage.unmatched:,} match no rule and {found.triage.strays:,} have no MQDLH: they would stay.")
    if not has_log(table_folder(tables.uri, Kind.DEAD_LETTER)):
        note(f"No dead letter has landed in {tables.uri} yet: mqflow spark bronze copies them there.")
    if found.unmatched:
        shown = "the oldest" if found.triage.unmatched > len(found.unmatched) else "all"
        click.echo(f"Messages that match no rule, {shown}:")
    for one in found.unmatched:
        click.echo(safe("  " + "  ".join(f"{name}={value}" for name, value in one.columns.items() if value)))
    for each in found.differences:
        said = f"{counted(each.messages, 'messages')}: {each.before} becomes {each.after} (for example {each.example.hex()})"
        click.echo(safe(said))
