"""`mqflow journal`: shows, checks and trims a journal, shows the progress of its consumers, and repairs a lane."""

from contextlib import ExitStack, suppress
from functools import partial

import click
import msgspec

from mqflow.cli.connection_options import administered, connection_to, opened
from mqflow.cli.option_types import WholeLines, json_option, url_option
from mqflow.cli.pipeline.folder_uri import folder_uri
from mqflow.cli.text.exit_codes import EXIT_FAILED
from mqflow.cli.text.terminal import counted, note, safe, show_table
from mqflow.cli.watching.figures import ask_status
from mqflow.folders import Folder
from mqflow.journal.consumers import Consumers
from mqflow.journal.errors import LaneError
from mqflow.journal.journal import Journal, Lane
from mqflow.journal.schemas import SCHEMA_VERSION, Kind, columns_of
from mqflow.journal.verification import Markers, verify_journal
from mqflow.landing.lane_repair import Doubt, check_committed, find_doubt, settle_lane
from mqflow.landing.recovery import STATE_QUEUE
from mqflow.landing.state_queue import StateQueue, check_queue_manager
from mqflow.mqi.errors import MQIError
from mqflow.verbs import Connection, QueueManager
from mqflow.world import SYSTEM_CLOCK

__all__ = ("command",)

_MARKER_WAIT_MS = 5_000
"""The milliseconds to wait for a marker message, which can be in the open unit of work of a lander."""
_UNCOMMITTED_MSGS = 1027
"""MQIACF_UNCOMMITTED_MSGS (UNCOM)."""
_state_queue = click.option("--state-queue", default=STATE_QUEUE, show_default=True, help="The queue of the markers.")
_folder = click.argument("folder", type=folder_uri, metavar="FOLDER")


@click.group("journal", cls=WholeLines)
def command() -> None:
    """Show a journal and its consumers, and delete the segments that all consumers have read."""


@command.command("show", short_help="Show the content of each lane, and the lag of its consumers.")
@_folder
@json_option
def show(folder: Folder, *, as_json: bool) -> None:
    """Show the content of each lane of the journal in FOLDER, and the lag of its consumers.

    A row is a message. In a lane of kind disposition a row is the record of a decision; a message has up to 64 of them.
    """
    journal = Journal.open(folder)
    consumers = Consumers(journal).all()
    rows = []
    for lane in journal.lanes():
        segments = lane.all_segments()
        behind = {each.consumer: _behind(lane, each.offsets.get(lane.name, 0)) for each in consumers if each.reads(lane)}
        if as_json:
            record = {
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
            click.echo(msgspec.json.encode(record))
        lag = ", ".join(f"{name} {count:,}" for name, count in behind.items())
        size = sum(segment.size_bytes for segment in segments) / 1_000_000
        total = sum(segment.rows for segment in segments)
        rows.append((lane.name, lane.kind, f"{total:,}", f"{len(segments):,}", f"{size:,.1f}", f"{lane.last}", lag))
    if not rows:
        note(f"The journal {folder.uri} has no lane yet: mqflow land QUEUE --journal {folder.uri} creates one.")
    elif not as_json:
        columns = ("lane", "kind", "rows", "segments", "MB", "last", "rows still to read, by consumer")
        show_table(columns, rows, numbers=frozenset({2, 3, 4, 5}))


def _behind(lane: Lane, offset: int) -> int:
    return sum(segment.rows for segment in lane.all_segments() if segment.number > offset)


@command.command("verify", short_help="Read every segment; name every damage.")
@_folder
@click.option("--url", metavar="URL", help="Also compare with the markers of the lanes on this queue manager.")
@_state_queue
def verify(folder: Folder, url: str | None, state_queue: str) -> None:
    """Read every published segment of the journal in FOLDER; name each damaged, missing, doubled, swapped or renamed segment.

    The exit code is 1 if there is any damage. Without --url, the command cannot see the loss of segments together with all
    records of them. A journal that was restored from an old copy is an example.
    """
    journal = Journal.open(folder)
    with ExitStack() as stack:
        markers: Markers | None = None
        if url is not None:
            connection = stack.enter_context(connection_to(stack.enter_context(opened(url)), "mqflow journal verify"))
            markers = StateQueue(connection, journal.id, state_queue, wait_ms=_MARKER_WAIT_MS)
        damages, in_files = 0, False
        compared, elsewhere = False, ""
        for lane in verify_journal(journal, markers):
            damages += len(lane.findings)
            in_files = in_files or any(finding.in_files for finding in lane.findings)
            compared, elsewhere = compared or not lane.elsewhere, lane.elsewhere or elsewhere
            if lane.elsewhere:
                note(f"{safe(lane.lane)}: not compared with its marker, which is on {lane.elsewhere}.")
            for finding in lane.findings:
                click.echo(f"{safe(lane.lane)}: {safe(finding.text.removesuffix('.'))}.")
            if lane.kind is not None and not lane.findings:
                rows = counted(lane.rows, lane.kind.rows)
                click.echo(f"{safe(lane.lane)}: {counted(lane.segments, 'segments')}, {rows}, sound.")
    if damages:
        remedy = "Restore the named files from a copy of the journal" if in_files else "No file of the journal is damaged"
        note(f"{counted(damages, 'damages')}. {remedy}; nothing was changed.")
        raise SystemExit(EXIT_FAILED)
    if elsewhere and not compared:
        raise LaneError(f"No lane was compared with its marker: name the queue manager of the lanes, {elsewhere}, with --url.")


@command.command("trim")
@_folder
@click.option("--dry-run", is_flag=True, help="Show what the command would delete, and delete nothing.")
def trim(folder: Folder, *, dry_run: bool) -> None:
    """Delete the segments that every registered consumer has read. The age of a segment does not matter.

    Without a registered consumer, the command deletes nothing and exits with 1.
    """
    for trimmed in Consumers(Journal.open(folder)).trim(dry_run=dry_run):
        size = sum(segment.size_bytes for segment in trimmed.segments) / 1_000_000
        verb = "would be deleted" if dry_run else "deleted"
        segments = counted(len(trimmed.segments), "segments")
        click.echo(f"{safe(trimmed.lane)}: {segments}, {size:,.1f} MB {verb}; {trimmed.why}.")


@command.command("forget", short_help="Remove a consumer.")
@_folder
@click.argument("consumer")
def forget(folder: Folder, consumer: str) -> None:
    """Remove CONSUMER from the journal, so that no segment is kept for it."""
    consumers = Consumers(Journal.open(folder))
    if consumers.find(consumer) is None:
        known = ", ".join(each.consumer for each in consumers.all()) or "none"
        raise click.BadParameter(f"{consumer!r} is not registered. Registered consumers: {known}.", param_hint="CONSUMER")
    consumers.forget(consumer)
    note(f"{safe(consumer)} is removed. `mqflow journal trim` no longer keeps segments for it.")


@command.command("settle", short_help="Repair a lane whose marker is lost.")
@_folder
@click.argument("lane")
@click.option("--publish", "decision", flag_value="publish", help="The last unit of work was committed: keep its segment.")
@click.option(
    "--drop",
    "decision",
    flag_value="drop",
    help="The last unit of work was backed out: drop its segment; its messages are on the queue.",
)
@_state_queue
@url_option
def settle(folder: Folder, lane: str, decision: str | None, state_queue: str, url: str | None) -> None:
    """Show whether the last unit of work of LANE was committed, after the marker of LANE was lost.

    The messages on the queue of LANE do not always show this. --publish or --drop repairs the lane and puts a new marker, so
    that landing can continue. First stop the lander of the lane, and wait until the queue manager has backed out its unit of
    work. An open unit of work hides its messages and the marker. If there is an open unit of work, the command refuses; if
    nobody knows, it warns. Exits with 1 without --publish and --drop.
    """
    journal = Journal.open(folder)
    if journal.is_new(lane):
        known = ", ".join(each.name for each in journal.lanes()) or "none"
        raise click.BadParameter(f"The journal {folder.uri} has no lane {lane!r}. It has: {known}.", param_hint="LANE")
    found = journal.lane(lane)
    with opened(url) as queue_manager, connection_to(queue_manager, "mqflow journal settle") as connection:
        check_queue_manager(connection, found)
        if said := check_committed(found, state_queue, partial(_uncommitted, queue_manager, connection)):
            note(said)
        doubt = find_doubt(connection, journal, found, state_queue, wait_ms=_MARKER_WAIT_MS)
        click.echo(_doubt_text(found, doubt))
        if decision is None:
            raise SystemExit(1)
        settle_lane(connection, journal, found, state_queue, doubt, publishes=decision == "publish", clock=SYSTEM_CLOCK)
    note(f"{safe(found.name)} is repaired, with segment {found.last:,} as its last; `mqflow land` continues after it.")


def _uncommitted(queue_manager: QueueManager, connection: Connection, queue: str) -> int | None:
    """Return how many messages of the queue are uncommitted; None if the queue manager does not say it."""
    with administered(queue_manager) as administration, suppress(MQIError):
        if administration is not None:
            return administration.queue_status(queue).uncommitted
        return ask_status(connection, [queue], _UNCOMMITTED_MSGS)[0].get(queue)
    return None


def _doubt_text(lane: Lane, doubt: Doubt) -> str:
    last = f"{safe(lane.name)}: segment {doubt.last:,} is the last published one"
    if doubt.written is None:
        return f"{last}, and no later one is complete. All committed messages are published: --drop."
    found = (
        f"{last}; {safe(doubt.pending)} is complete, and {doubt.on_queue:,} of its "
        f"{doubt.written.rows:,} {lane.kind.rows} are on {safe(lane.queue)}."
    )
    match doubt.advice:
        case "publish":
            said = "Its unit of work was committed, or other applications have got its messages."
            return f"{found} {said} Use --publish: no other segment has them."
        case "drop":
            return f"{found} Its unit of work was backed out. Use --drop: the lander lands these messages again."
        case _:
            return (
                f"{found} Either it was backed out and other applications have got some messages since, or it was "
                "committed and some messages were put again. --publish lands the messages on the queue twice; --drop loses the "
                "other messages."
            )


@command.command("schema")
@click.argument("kind", metavar="KIND", type=click.Choice([kind.value for kind in Kind]))
def schema(kind: str) -> None:
    """Print the columns of a lane of this KIND, with their Spark types.

    KIND is disposition, dead_letter, backout_message or payload.
    """
    note(f"Schema version {SCHEMA_VERSION}.")
    for column in columns_of(Kind(kind)):
        click.echo(f"{column.name} {column.type}")
