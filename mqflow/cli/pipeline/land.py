"""`mqflow land`: moves queues into the lanes of a journal, exactly once, until a signal. Each lane has its own thread."""

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec import Struct

from mqflow.app.channels.location import OpenQueueManager
from mqflow.app.errors import ConfigurationError
from mqflow.cli.connection_options import connection_to, opened
from mqflow.cli.option_types import duration_s, json_option, url_option
from mqflow.cli.pipeline.folder_uri import folder_uri
from mqflow.cli.processes.stop_event import stop_event
from mqflow.cli.text.json_lines import json_line
from mqflow.cli.text.terminal import counted, note, safe
from mqflow.folders import Folder
from mqflow.journal.consumers import Consumers
from mqflow.journal.errors import JournalError
from mqflow.journal.journal import Journal, Lane
from mqflow.journal.schemas import Kind
from mqflow.landing.lander import Landed, Lander, LanderOptions
from mqflow.landing.landing_loop import Progress, Recovered, Troubled, keep_landing
from mqflow.landing.lane_repair import finish_lane
from mqflow.landing.recovery import STATE_QUEUE
from mqflow.many_verbs import inquire_queue_manager
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import OpenOption
from mqflow.policy.poison.disposition_record import DISPOSITION_QUEUE
from mqflow.policy.reconnect.reason_classes import Class, classify
from mqflow.verbs import Connection, QueueManager
from mqflow.world import SYSTEM_CLOCK, SYSTEM_RANDOM, THREADS, Event

if TYPE_CHECKING:
    from mqflow.cli.pipeline.progress_pages import PipelineProgress
    from mqflow.pipeline.stream.freshness import Level

__all__ = ("command",)

_NAME: Final = "mqflow land"
_REPORT_EVERY_S: Final = 5.0
_POLL_S: Final = 0.1
_MEASURED_S: Final = 30.0
"""The seconds for which a measured lag is shown."""


class _QueueArgument(Struct, frozen=True):
    """A queue to land, and the kind of the lanes for it."""

    queue: str
    kind: Kind | None


def _queue_argument(text: str) -> _QueueArgument:
    """Return the queue and the kind for ``QUEUE`` or ``QUEUE:KIND``."""
    queue, colon, kind = text.partition(":")
    try:
        return _QueueArgument(queue, Kind(kind) if colon else None)
    except ValueError:
        raise click.BadParameter(f"{kind!r} is not a kind: use {', '.join(Kind)}.", param_hint="QUEUE") from None


@click.command("land")
@click.argument("queues", nargs=-1, required=True, metavar="QUEUE[:KIND]...")
@click.option(
    "--journal", required=True, type=folder_uri, metavar="FOLDER", help="The folder: a path or a URI; created if new."
)
@click.option("--lane", help="The name of the lane, for one queue; by default the name of the queue.")
@click.option(
    "--lanes", type=click.IntRange(1, 64), default=1, show_default=True, help="Lanes of each queue, each with a connection."
)
@click.option("--browse-first", is_flag=True, help="Browse, write, then get: BackoutCount rises less often. One lane only.")
@click.option(
    "--linger",
    "linger_s",
    metavar="TIME",
    callback=duration_s,
    default="200ms",
    show_default=True,
    help="How long to wait for more messages in a segment.",
)
@click.option(
    "--batch", type=click.IntRange(1), default=2_000, show_default=True, help="Maximum number of messages in a segment."
)
@click.option("--once", is_flag=True, help="End when the queues are empty.")
@click.option("--trim", is_flag=True, help="At the end, delete the segments that every registered consumer has read.")
@click.option("--http", metavar="HOST:PORT", help="Serve probes, metrics and lag there; a port alone is on 127.0.0.1.")
@click.option("--state-queue", default=STATE_QUEUE, show_default=True, help="The queue of the markers.")
@json_option
@url_option
def command(queues: tuple[str, ...], journal: Folder, url: str | None, **options: Any) -> None:
    """Move the messages of each QUEUE into segments of a journal, exactly once.

    KIND selects the columns of a segment: dead_letter (default for the dead-letter queue), disposition (default for
    MQFLOW.DISPOSITION), backout_message, or payload (default for all other queues).

    After a kill at any moment, run the same command again: it continues. SIGTERM and Ctrl-C end it after the current segment.
    """
    if find_spec("pyarrow") is None:
        raise ConfigurationError("A journal needs pyarrow, which is not installed: pip install 'mqflow[journal]'.")
    wanted = [_queue_argument(text) for text in queues]
    if options["lane"] and len(wanted) > 1:
        raise click.UsageError("--lane names one lane: give one QUEUE.")
    if options["browse_first"] and options["lanes"] > 1:
        raise click.UsageError("--browse-first and --lanes exclude each other: two browsing lanes would see the same messages.")
    _check_names([each.queue for each in wanted], options["state_queue"])
    lander_options = LanderOptions(
        batch=options["batch"],
        linger_ms=round(options["linger_s"] * 1_000),
        browse_first=options["browse_first"],
        state_queue=options["state_queue"],
    )
    with opened(url) as queue_manager, stop_event(signal.SIGTERM, signal.SIGINT) as stopping:
        created = Journal.create(journal)
        lanes = _lanes(created, queue_manager, wanted, options["lane"], options["lanes"])
        _finish_others(created, queue_manager, lanes, lander_options.state_queue)
        with _watched(options["http"], queue_manager, lanes) as progress:
            landing = _Landing(created, lanes, queue_manager, lander_options, stopping, progress, once=options["once"])
            landing.run(as_json=options["as_json"])
    if options["trim"]:
        for trimmed in Consumers(created).trim():
            note(f"{safe(trimmed.lane)}: {counted(len(trimmed.segments), 'segments')} trimmed; {trimmed.why}.")


def _check_names(queues: Sequence[str], state_queue: str) -> None:
    """Raise `click.UsageError` for a queue that is named twice, and for the queue of the markers."""
    if twice := next((queue for queue in queues if queues.count(queue) > 1), ""):
        raise click.UsageError(f"{twice} is named twice: two landers would share one lane. Name each QUEUE once.")
    if marked := next((queue for queue in queues if queue in {state_queue, STATE_QUEUE}), ""):
        raise click.UsageError(f"{marked} has the markers of the lanes: a lander must not get them. Name other queues.")


def _lanes(
    journal: Journal, queue_manager: OpenQueueManager, wanted: Sequence[_QueueArgument], name: str | None, count: int
) -> list[Lane]:
    """Return the lanes for the queues. Lanes that do not exist yet are created."""
    with connection_to(queue_manager, _NAME) as connection:
        reached = connection.queue_manager_name
        dead_letter_queue = inquire_queue_manager(connection).dead_letter_queue
        for each in wanted:
            _check_queue(connection, each.queue)
    defaults = {dead_letter_queue: Kind.DEAD_LETTER, DISPOSITION_QUEUE: Kind.DISPOSITION}
    lanes = []
    for each in wanted:
        kind = each.kind or defaults.get(each.queue, Kind.PAYLOAD)
        for number in range(1, count + 1):
            lane = (name or each.queue) + (f"#{number}" if number > 1 else "")
            lanes.append(Consumers(journal).add_lane(lane, kind, queue=each.queue, queue_manager=reached))
    return lanes


def _check_queue(connection: Connection, queue: str) -> None:
    """Raise the `MQIError` for a queue that no lander can open, because a mistyped name would become a lane forever."""
    try:
        connection.open(queue, OpenOption.INPUT_SHARED | OpenOption.FAIL_IF_QUIESCING)  # closed with the connection
    except MQIError as error:
        if classify(int(error.reason)) is Class.CONFIGURATION:  # the lander reports any other error, and waits
            raise


def _finish_others(journal: Journal, queue_manager: OpenQueueManager, lanes: Sequence[Lane], state_queue: str) -> None:
    """Publish the committed segments of other lanes whose landers were killed, because no other lander publishes them."""
    current = {lane.name for lane in lanes}
    own = lanes[0].queue_manager
    unfinished = [lane for lane in journal.lanes() if lane.name not in current and lane.queue_manager == own and lane.pending()]
    if not unfinished:
        return
    with connection_to(queue_manager, _NAME) as connection:
        for lane in unfinished:
            try:
                found = finish_lane(connection, journal, lane, state_queue)
            except (JournalError, MQIError) as error:  # an error of another lane must not stop these lanes
                note(safe(str(error)))
            else:
                if found is not None:
                    rows = counted(found.rows, lane.kind.rows)
                    text = f"segment {found.number:,} with {rows} was committed but not published; it is now"
                    note(f"{safe(lane.name)}: {text}.")


@contextmanager
def _watched(http: str | None, queue_manager: QueueManager, lanes: Sequence[Lane]) -> "Iterator[PipelineProgress | None]":
    """Serve the pages in the block, and measure the lag of the journal meanwhile. Yields None if no pages are wanted."""
    if not http:
        yield None
        return
    from mqflow.cli.pipeline.progress_pages import PipelineProgress, served_progress  # noqa: PLC0415 - only pages need it

    over = THREADS.event()
    with served_progress(http, PipelineProgress(SYSTEM_CLOCK, valid_s=_MEASURED_S)) as progress:
        measuring = THREADS.start(partial(_keep_measuring, progress, queue_manager, lanes, over), "mqflow land lag")
        try:
            yield progress
        finally:
            over.set()
            measuring.join(_REPORT_EVERY_S)


def _keep_measuring(progress: "PipelineProgress", queue_manager: QueueManager, lanes: Sequence[Lane], over: Event) -> None:
    """Measure the lag until `over` is set. If the queue manager does not answer, the pages show no lag after a while."""
    while not over.is_set():
        progress.measured(_lag(queue_manager, lanes))
        over.wait(_REPORT_EVERY_S)


def _lag(queue_manager: QueueManager, lanes: Sequence[Lane]) -> "list[Level]":
    """Return how far the journal is behind each queue; empty if that is not known."""
    from mqflow.pipeline.stream.freshness import queue_levels  # noqa: PLC0415 - as above

    try:
        with connection_to(queue_manager, _NAME) as connection:
            return queue_levels(connection, lanes, round(SYSTEM_CLOCK.wall() * 1e6))
    except MQIError:  # the landers report the error of a connect
        return []


class _Landing:
    """Lands the lanes, each in its own thread, and prints their progress."""

    def __init__(
        self,
        journal: Journal,
        lanes: Sequence[Lane],
        queue_manager: QueueManager,
        options: LanderOptions,
        stopping: Event,
        progress: "PipelineProgress | None" = None,
        *,
        once: bool,
    ) -> None:
        self._progress = progress
        self._journal = journal
        self._lanes = lanes
        self._queue_manager = queue_manager
        self._options = options
        self._stopping = stopping
        self._once = once
        self._rows = [0] * len(lanes)
        self._segments = [0] * len(lanes)
        self._errors: list[Exception] = []

    def run(self, *, as_json: bool = False) -> None:
        """Land every lane to its end. If a lane fails, stop all other lanes and raise the first error."""
        names = ", ".join(f"{safe(lane.name)} ({lane.kind})" for lane in self._lanes)
        note(f"Landing {names} in {self._journal.folder.uri}.")
        running = [
            THREADS.start(partial(self._keep_landing, number, lane), f"lane {lane.name}")
            for number, lane in enumerate(self._lanes)
        ]
        things = " and ".join(sorted({lane.kind.rows for lane in self._lanes}))
        reported, next_at = 0, SYSTEM_CLOCK.monotonic() + _REPORT_EVERY_S
        while any(thread.is_alive() for thread in running):
            for thread in running:
                thread.join(_POLL_S / len(running))
            if SYSTEM_CLOCK.monotonic() >= next_at and sum(self._rows) != reported:
                reported, next_at = sum(self._rows), SYSTEM_CLOCK.monotonic() + _REPORT_EVERY_S
                note(f"{reported:,} {things} in {counted(sum(self._segments), 'segments')}.")
        for number, lane in enumerate(self._lanes):
            if as_json:
                facts = {"lane": lane.name, "kind": lane.kind, "rows": self._rows[number], "segments": self._segments[number]}
                click.echo(json_line(facts))
                continue
            rows, segments = counted(self._rows[number], lane.kind.rows), counted(self._segments[number], "segments")
            click.echo(f"{safe(lane.name)}: {rows} in {segments} landed.")
        if self._errors:
            raise self._errors[0]

    def _keep_landing(self, number: int, lane: Lane) -> None:
        def new_lander(connection: Connection) -> Lander:
            return Lander(connection, self._journal, lane, self._options, clock=SYSTEM_CLOCK, stopping=self._stopping.is_set)

        try:
            keep_landing(
                lambda: self._queue_manager.connect(application_name=_NAME),
                new_lander,
                notify=partial(self._tell, number, lane),
                stopping=self._stopping.is_set,
                pause=self._pause,
                random=SYSTEM_RANDOM,
                once=self._once,
            )
        except Exception as error:  # noqa: BLE001 - the end of the thread; the main thread reports the error
            self._errors.append(error)
            self._stopping.set()

    def _pause(self, seconds: float) -> None:
        self._stopping.wait(seconds)

    def _tell(self, number: int, lane: Lane, progress: Progress) -> None:
        match progress:
            case Troubled(error, delay_s):
                note(f"{safe(lane.name)}: {safe(str(error))} Trying again in {delay_s:.1f} s.")
            case Landed():
                self._rows[number] += progress.rows
                self._segments[number] += 1
            case Recovered():
                pass
        if self._progress is not None:
            from mqflow.cli.pipeline.progress_pages import count_lane  # noqa: PLC0415 - as above

            count_lane(self._progress, lane.name, progress)
