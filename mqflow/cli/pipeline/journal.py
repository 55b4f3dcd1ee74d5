"""`mqflow journal`: what is in a journal, who reads it and how far, and what may go."""

from pathlib import Path

import click
import msgspec

from mqflow.cli.connection_options import json_option, opened, url_option
from mqflow.cli.text.terminal import counted, note, safe, show_table
from mqflow.journal.consumers import Consumers
from mqflow.journal.journal import Journal, Lane
from mqflow.journal.schemas import SCHEMA_VERSION, Kind, columns_of
from mqflow.journal.segments import read_table
from mqflow.landing.lane_repair import Doubt, find_doubt, settle_lane
from mqflow.landing.recovery import STATE_QUEUE
from mqflow.many_verbs import disconnect_without_commit
from mqflow.world import SYSTEM_CLOCK

__all__ = ("command",)

_MARKER_WAIT_MS = 5_000
"""How long to wait for a marker that a lander's unit of work holds."""
_folder = click.argument("folder", type=click.Path(path_type=Path, file_okay=False))


@click.group("journal")
def command() -> None:
    """Show what is in a journal, who reads it, and trim what all have read."""


@command.command("show", short_help="Show what each lane holds, and who is behind.")
@_folder
@json_option
def show(folder: Path, *, as_json: bool) -> None:
    """Say for each lane of the journal in FOLDER what it holds, and how far its consumers are behind.

    A row is a message; in a lane of kind disposition, a record of a decision, of which up to 64 share a message.
    """
    journal = Journal.open(folder)
    consumers = Consumers(journal).all()
    rows = []
    for lane in journal.lanes():
        segments = lane.all_segments()
        behind = {each.consumer: _behind(lane, each.offsets.get(lane.name, 0)) for each in consumers if each.reads(lane)}
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
    if not rows:
        note(f"{folder} is a journal, and no lane is in it yet: mqflow land QUEUE --journal {folder} makes one.")
    elif not as_json:
        columns = ("lane", "kind", "rows", "segments", "MB", "last", "rows still to read, by consumer")
        show_table(columns, rows, numbers=frozenset({2, 3, 4, 5}))


def _behind(lane: Lane, offset: int) -> int:
    return sum(segment.rows for segment in lane.all_segments() if segment.number > offset)


@command.command("verify", short_help="Read every segment; fail at the first that is damaged.")
@_folder
def verify(folder: Path) -> None:
    """Read every segment of the journal in FOLDER; fail at the first that is damaged or does not fit."""
    for lane in Journal.open(folder).lanes():
        segments = lane.all_segments()
        for segment in segments:
            read_table(segment, lane.kind)
        rows = sum(each.rows for each in segments)
        click.echo(f"{safe(lane.name)}: {counted(len(segments), 'segments')}, {counted(rows, lane.kind.rows)}, sound.")


@command.command("trim")
@_folder
@click.option("--dry-run", is_flag=True, help="Say what would be deleted, and delete nothing.")
def trim(folder: Path, *, dry_run: bool) -> None:
    """Delete the segments that every registered consumer has read. Nothing is deleted by its age."""
    for done in Consumers(Journal.open(folder)).trim(dry_run=dry_run):
        size = sum(segment.size_bytes for segment in done.segments) / 1_000_000
        said = "would be deleted" if dry_run else "deleted"
        segments = counted(len(done.segments), "segments")
        click.echo(f"{safe(done.lane)}: {segments}, {size:,.1f} MB {said}; {done.why}.")


@command.command("forget")
@_folder
@click.argument("consumer")
def forget(folder: Path, consumer: str) -> None:
    """Let CONSUMER keep no segment alive any more."""
    consumers = Consumers(Journal.open(folder))
    if consumers.find(consumer) is None:
        known = ", ".join(one.consumer for one in consumers.all()) or "none"
        raise click.BadParameter(f"{consumer!r} is not registered; those are: {known}.", param_hint="CONSUMER")
    consumers.forget(consumer)
    note(f"{safe(consumer)} is forgotten; `mqflow journal trim` may delete what only it had not read.")


@command.command("settle", short_help="Say what became of a lane whose marker is gone, and mend it.")
@_folder
@click.argument("lane")
@click.option("--publish", "does", flag_value="publish", help="Its last unit of work was committed: its segment counts.")
@click.option("--drop", "does", flag_value="drop", help="It was not: its messages are on their queue.")
@click.option("--state-queue", default=STATE_QUEUE, show_default=True, help="Where the markers are.")
@url_option
def settle(folder: Path, lane: str, does: str | None, state_queue: str, url: str | None) -> None:
    """Say of LANE, whose marker is gone, whether its last unit of work was committed, as far as its queue tells.

    With --publish or --drop do that, and put a new marker: landing can go on. Stop the lane's lander first.
    """
    journal = Journal.open(folder)
    there = journal.lane(lane)
    with opened(url) as queue_manager:
        connection = queue_manager.connect(application_name="mqflow journal settle")
        try:
            doubt = find_doubt(connection, journal, there, state_queue, wait_ms=_MARKER_WAIT_MS)
            click.echo(_told(there, doubt))
            if does is None:
                raise SystemExit(1)
            settle_lane(connection, journal, there, state_queue, doubt, publishes=does == "publish", clock=SYSTEM_CLOCK)
        finally:
            disconnect_without_commit(connection)
    note(f"{safe(there.name)} is settled, with segment {there.last:,} as its last; `mqflow land` goes on from there.")


def _told(lane: Lane, doubt: Doubt) -> str:
    last = f"{safe(lane.name)}: segment {doubt.last:,} is the last that counts"
    if doubt.written is None:
        return f"{last}, and no other one is whole. Nothing was committed that is not published: --drop."
    found = (
        f"{last}; {safe(doubt.pending.name if doubt.pending else '')} is whole, and {doubt.on_queue:,} of its "
        f"{doubt.written.rows:,} {lane.kind.rows} are on {safe(lane.queue)}."
    )
    match doubt.advice:
        case "publish":
            return f"{found} It was committed, or others have got them: --publish, for they are nowhere else."
        case "drop":
            return f"{found} It was backed out: --drop, and they are landed again."
        case _:
            return (
                f"{found} It was backed out and others have got some since, or it was committed and some were put again. "
                "--publish lands those twice that are on the queue; --drop loses sight of those that are not."
            )


@command.command("schema")
@click.argument("kind", type=click.Choice([kind.value for kind in Kind]))
def schema(kind: str) -> None:
    """Print the columns of a KIND of lane, as Spark writes them."""
    note(f"Schema version {SCHEMA_VERSION}.")
    for column in columns_of(Kind(kind)):
        click.echo(f"{column.name} {column.type}")
