"""`mqflow land`: queues into the lanes of a journal, exactly once, a thread for each lane, until told to stop."""

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Event
from types import FrameType
from typing import Any, Final

import click
from msgspec import Struct

from mqflow.app.channels.locate import OpenQueueManager
from mqflow.app.errors import ConfigurationError
from mqflow.cli.connection_options import duration_s, opened, url_option
from mqflow.cli.text.terminal import counted, note, safe
from mqflow.journal.consumers import Consumers
from mqflow.journal.errors import JournalError
from mqflow.journal.journal import Journal, Lane
from mqflow.journal.schemas import Kind
from mqflow.landing.keep_landing import Progress, Troubled, keep_landing
from mqflow.landing.lander import Lander, LanderOptions
from mqflow.landing.lane_repair import finish_lane
from mqflow.landing.recovery import STATE_QUEUE
from mqflow.many_verbs import disconnect_without_commit, inquire_queue_manager
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import OpenOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition_record import DISPOSITION_QUEUE
from mqflow.verbs import Connection, QueueManager
from mqflow.world import SYSTEM_CLOCK, SYSTEM_RANDOM, THREADS

__all__ = ("command",)

_TELL_EVERY_S: Final = 5.0
_LOOK_S: Final = 0.1


class _Wanted(Struct, frozen=True):
    queue: str
    kind: Kind | None


def _queue(text: str) -> _Wanted:
    """Return the queue and kind of ``QUEUE`` or ``QUEUE:KIND``."""
    queue, colon, kind = text.partition(":")
    try:
        return _Wanted(queue, Kind(kind) if colon else None)
    except ValueError:
        raise click.BadParameter(f"{kind!r} is no kind: {', '.join(Kind)}.", param_hint="QUEUE") from None


@click.command("land")
@click.argument("queues", nargs=-1, required=True, metavar="QUEUE[:KIND]...")
@click.option("--journal", required=True, type=click.Path(path_type=Path, file_okay=False), help="The folder; made if new.")
@click.option("--lane", help="The lane's name, for one queue; its queue's name otherwise.")
@click.option("--lanes", type=click.IntRange(1, 64), default=1, show_default=True, help="Lanes, so connections, of each queue.")
@click.option("--browse-first", is_flag=True, help="Browse, write, then get: BackoutCount stays as it is. One lane only.")
@click.option(
    "--linger",
    "linger_s",
    metavar="TIME",
    callback=duration_s,
    default="200ms",
    show_default=True,
    help="A segment waits so long.",
)
@click.option("--batch", type=click.IntRange(1), default=2_000, show_default=True, help="Messages in a segment at most.")
@click.option("--once", is_flag=True, help="End when the queues are empty.")
@click.option("--trim", is_flag=True, help="At the end, delete what every registered consumer has read.")
@click.option("--state-queue", default=STATE_QUEUE, show_default=True, help="Where the markers are.")
@url_option
def command(queues: tuple[str, ...], journal: Path, url: str | None, **options: Any) -> None:
    """Move the messages of each QUEUE into segments of a journal, exactly once.

    KIND says what they are, and so which columns a segment has: dead_letter (by default for the dead-letter queue), disposition
    (for MQFLOW.DISPOSITION), backout_message, or payload (for any other). Killed at any moment, the command goes on by being
    typed again. Ends on SIGTERM or Ctrl-C with the segment under way.
    """
    if find_spec("pyarrow") is None:
        raise ConfigurationError("A journal needs pyarrow, which is not installed: pip install 'mqflow[journal]'.")
    wanted = [_queue(text) for text in queues]
    if options["lane"] and len(wanted) > 1:
        raise click.UsageError("--lane names the lane of one queue.")
    if options["browse_first"] and options["lanes"] > 1:
        raise click.UsageError("--browse-first and --lanes exclude each other: two that browse see the same messages.")
    how = LanderOptions(
        batch=options["batch"],
        linger_ms=round(options["linger_s"] * 1_000),
        browse_first=options["browse_first"],
        state_queue=options["state_queue"],
    )
    with opened(url) as queue_manager, _signals() as stopping:
        there = Journal.create(journal)
        lanes = _lanes(there, queue_manager, wanted, options["lane"], options["lanes"])
        _finish_others(there, queue_manager, lanes, how.state_queue)
        _Landing(there, lanes, queue_manager, how, stopping, once=options["once"]).run()
    if options["trim"]:
        for trimmed in Consumers(there).trim():
            note(f"{safe(trimmed.lane)}: {counted(len(trimmed.segments), 'segments')} trimmed; {trimmed.why}.")


def _lanes(
    journal: Journal, queue_manager: OpenQueueManager, wanted: Sequence[_Wanted], name: str | None, count: int
) -> list[Lane]:
    """Return the lanes to land into, made where they are new."""
    connection = queue_manager.connect(application_name="mqflow land")
    try:
        reached = connection.queue_manager_name
        dead = inquire_queue_manager(connection).dead_letter_queue
        for each in wanted:
            _is_there(connection, each.queue)
    finally:
        disconnect_without_commit(connection)
    defaults = {dead: Kind.DEAD_LETTER, DISPOSITION_QUEUE: Kind.DISPOSITION}
    lanes = []
    for each in wanted:
        kind = each.kind or defaults.get(each.queue, Kind.PAYLOAD)
        for number in range(1, count + 1):
            lane = (name or each.queue) + (f"#{number}" if number > 1 else "")
            lanes.append(journal.add_lane(lane, kind, queue=each.queue, queue_manager=reached))
    return lanes


def _is_there(connection: Connection, queue: str) -> None:
    """Raise the `MQIError` of a queue that is not there: a mistyped one would be a lane of the journal for good."""
    try:
        handle = connection.open(queue, OpenOption.INPUT_SHARED | OpenOption.FAIL_IF_QUIESCING)
    except MQIError as error:
        if error.reason == Reason.UNKNOWN_OBJECT_NAME:
            raise
        return  # its lander says what else is wrong, and waits where waiting helps
    connection.close(handle)


def _finish_others(journal: Journal, queue_manager: OpenQueueManager, lanes: Sequence[Lane], state_queue: str) -> None:
    """Publish what lanes that are not landed now had committed when they were killed: nobody else would."""
    asked = {lane.name for lane in lanes}
    mine = lanes[0].queue_manager
    left = [lane for lane in journal.lanes() if lane.name not in asked and lane.queue_manager == mine and lane.pending()]
    if not left:
        return
    connection = queue_manager.connect(application_name="mqflow land")
    try:
        for lane in left:
            try:
                found = finish_lane(connection, journal, lane, state_queue)
            except (JournalError, MQIError) as error:  # of another lane: said, and in the way of none of these
                note(safe(str(error)))
            else:
                if found is not None:
                    said = f"segment {found.number:,} with {found.rows:,} messages was committed and not published; it is now"
                    note(f"{safe(lane.name)}: {said}.")
    finally:
        disconnect_without_commit(connection)


@contextmanager
def _signals() -> Iterator[Event]:
    """Give an event that SIGTERM and SIGINT set: the segments under way are finished first."""
    stopping = Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopping.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Landing:
    """The lanes at work, each in a thread of its own, and what they tell."""

    def __init__(
        self,
        journal: Journal,
        lanes: Sequence[Lane],
        queue_manager: QueueManager,
        how: LanderOptions,
        stopping: Event,
        *,
        once: bool,
    ) -> None:
        self._journal = journal
        self._lanes = lanes
        self._queue_manager = queue_manager
        self._how = how
        self._stopping = stopping
        self._once = once
        self._rows = [0] * len(lanes)
        self._segments = [0] * len(lanes)
        self._errors: list[Exception] = []

    def run(self) -> None:
        """Return when every lane has ended. Raises the first error that ended one; the others are stopped by it."""
        names = ", ".join(f"{safe(lane.name)} ({lane.kind})" for lane in self._lanes)
        note(f"Landing {names} in {self._journal.path}.")
        running = [
            THREADS.start(partial(self._keep_landing, number, lane), f"lane {lane.name}")
            for number, lane in enumerate(self._lanes)
        ]
        what = " and ".join(sorted({lane.kind.rows for lane in self._lanes}))
        told, next_at = 0, SYSTEM_CLOCK.monotonic() + _TELL_EVERY_S
        while any(thread.is_alive() for thread in running):
            for thread in running:
                thread.join(_LOOK_S / len(running))
            if SYSTEM_CLOCK.monotonic() >= next_at and sum(self._rows) != told:
                told, next_at = sum(self._rows), SYSTEM_CLOCK.monotonic() + _TELL_EVERY_S
                note(f"{told:,} {what} in {counted(sum(self._segments), 'segments')}.")
        for number, lane in enumerate(self._lanes):
            rows, segments = counted(self._rows[number], lane.kind.rows), counted(self._segments[number], "segments")
            click.echo(f"{safe(lane.name)}: {rows} in {segments} landed.")
        if self._errors:
            raise self._errors[0]

    def _keep_landing(self, number: int, lane: Lane) -> None:
        def make(connection: Connection) -> Lander:
            return Lander(connection, self._journal, lane, self._how, clock=SYSTEM_CLOCK, stopping=self._stopping.is_set)

        try:
            keep_landing(
                lambda: self._queue_manager.connect(application_name="mqflow land"),
                make,
                notify=partial(self._tell, number, lane),
                stopping=self._stopping.is_set,
                pause=self._pause,
                random=SYSTEM_RANDOM,
                once=self._once,
            )
        except Exception as error:  # noqa: BLE001 - the thread's last word: told by the command's own thread
            self._errors.append(error)
            self._stopping.set()

    def _pause(self, seconds: float) -> None:
        self._stopping.wait(seconds)

    def _tell(self, number: int, lane: Lane, progress: Progress) -> None:
        if isinstance(progress, Troubled):
            note(f"{safe(lane.name)}: {safe(str(progress.error))} Trying again in {progress.delay_s:.1f} s.")
            return
        self._rows[number] += progress.rows
        self._segments[number] += 1
