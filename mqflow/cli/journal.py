"""`mqflow journal`: what is in a journal, who reads it and how far, and what may go."""

from pathlib import Path

import click
import msgspec

from mqflow.cli.target import json_option
from mqflow.cli.terminal import note, safe, show_table
from mqflow.journal.consumers import Consumers
from mqflow.journal.journal import Journal, Lane
from mqflow.journal.schemas import SCHEMA_VERSION, Kind, columns_of
from mqflow.journal.segments import read_table

__all__ = ("command",)

_folder = click.argument("folder", type=click.Path(path_type=Path, file_okay=False))


@click.group("journal")
def command() -> None:
    """Show what is in a journal, who reads it, and trim what all have read."""


@command.command("show")
@_folder
@json_option
def show(folder: Path, *, as_json: bool) -> None:
    """Say for each lane of the journal in FOLDER what it holds, and how far its consumers are behind."""
    journal = Journal.open(folder)
    consumers = Consumers(journal).all()
    rows = []
    for lane in journal.lanes():
        segments = lane.all_segments()
        behind = {each.consumer: _behind(lane, each.offsets.get(lane.name, 0)) for each in consumers}
        if as_json:
            said = {
                "lane": lane.name,
                "kind": lane.kind,
                "queue": lane.queue,
                "queue_manager": lane.queue_manager,
                "segments": len(segments),
                "rows": sum(segment.rows for segment in segments),
                "bytes": sum(segment.size_bytes for segment in segments),
                "last": lane.last,
                "trimmed": lane.trimmed,
                "rows_behind": behind,
            }
            click.echo(msgspec.json.encode(said))
        held = ", ".join(f"{name} {count:,}" for name, count in behind.items())
        size = sum(segment.size_bytes for segment in segments) / 1_000_000
        total = sum(segment.rows for segment in segments)
        rows.append((lane.name, lane.kind, f"{total:,}", f"{len(segments):,}", f"{size:,.1f}", f"{lane.last}", held))
    if not as_json:
        columns = ("lane", "kind", "messages", "segments", "MB", "last", "messages still to read, by consumer")
        show_table(columns, rows, numbers=frozenset({2, 3, 4, 5}))


def _behind(lane: Lane, offset: int) -> int:
    return sum(segment.rows for segment in lane.all_segments() if segment.number > offset)


@command.command("verify")
@_folder
def verify(folder: Path) -> None:
    """Read every segment of the journal in FOLDER; fail at the first that is damaged or does not fit."""
    for lane in Journal.open(folder).lanes():
        segments = lane.all_segments()
        for segment in segments:
            read_table(segment, lane.kind)
        click.echo(f"{safe(lane.name)}: {len(segments):,} segments, {sum(each.rows for each in segments):,} messages, sound.")


@command.command("trim")
@_folder
@click.option("--dry-run", is_flag=True, help="Say what would be deleted, and delete nothing.")
def trim(folder: Path, *, dry_run: bool) -> None:
    """Delete the segments that every registered consumer has read. Nothing is deleted by its age."""
    for done in Consumers(Journal.open(folder)).trim(dry_run=dry_run):
        size = sum(segment.size_bytes for segment in done.segments) / 1_000_000
        said = "would be deleted" if dry_run else "deleted"
        click.echo(f"{safe(done.lane)}: {len(done.segments):,} segments, {size:,.1f} MB {said}; the slowest is {done.held_by}.")


@command.command("forget")
@_folder
@click.argument("consumer")
def forget(folder: Path, consumer: str) -> None:
    """Let CONSUMER keep no segment alive any more."""
    Consumers(Journal.open(folder)).forget(consumer)
    note(f"{safe(consumer)} is forgotten; `mqflow journal trim` may delete what only it had not read.")


@command.command("schema")
@click.argument("kind", type=click.Choice([kind.value for kind in Kind]))
def schema(kind: str) -> None:
    """Print the columns of a KIND of lane, as Spark writes them."""
    note(f"Schema version {SCHEMA_VERSION}.")
    for column in columns_of(Kind(kind)):
        click.echo(f"{column.name} {column.type}")
