"""`mqflow spark stream`: keeps bronze, silver and gold up to date with a journal, in one Spark session, until a signal."""

import os
import shlex
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mqflow.app.config.settings import load
from mqflow.cli.option_types import duration_s, json_option
from mqflow.cli.pipeline.folder_uri import journal_uri
from mqflow.cli.pipeline.spark_session import (
    consumer_option,
    rules_option,
    spark_errors_as_sentences,
    spark_options,
    started,
    tables_option,
)
from mqflow.cli.processes.stop_event import stop_event
from mqflow.cli.text.exit_codes import EXIT_FAILED
from mqflow.cli.text.terminal import note, read_text, safe
from mqflow.folders import Folder
from mqflow.policy.stream.rounds import ATTEMPTS_MAX, Limits, Stage, Taken
from mqflow.world import SYSTEM_CLOCK, SYSTEM_WORLD

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mqflow.cli.pipeline.progress_pages import PipelineProgress
    from mqflow.cli.pipeline.stream_view import View
    from mqflow.journal import Journal
    from mqflow.otel.stream_metrics import StreamMetrics
    from mqflow.pipeline.stream.alert_sink import Sender
    from mqflow.pipeline.stream.runner import StreamStep
    from mqflow.pipeline.stream.stages import Job

__all__ = ("command",)


@click.command("stream")
@click.option("--journal", type=journal_uri, metavar="FOLDER", required=True, help="The journal to read: a path or a URI.")
@tables_option
@click.option(
    "--every", "every_s", metavar="TIME", callback=duration_s, default="30s", show_default=True, help="Time between rounds."
)
@click.option("--once", is_flag=True, help="End when everything in the journal is in the tables.")
@click.option(
    "--rows-per-round",
    type=click.IntRange(1),
    default=500_000,
    show_default=True,
    help="The most rows that a round takes of each kind.",
)
@click.option(
    "--bytes-per-round",
    type=click.IntRange(1),
    default=2**28,
    show_default=True,
    help="The most bytes of segments that a round takes of each kind.",
)
@click.option(
    "--attempts",
    type=click.IntRange(1),
    default=ATTEMPTS_MAX,
    show_default=True,
    help="End after this number of failures in a row.",
)
@click.option("--payload", default="full", show_default=True, help="How much of the bodies: none, hash, head:N or full.")
@consumer_option
@rules_option
@click.option("--http", metavar="HOST:PORT", help="Serve probes, metrics and lag there; a port alone is on 127.0.0.1.")
@click.option("--alert-webhook", envvar="MQFLOW_ALERT_WEBHOOK", metavar="URL", help="POST each new alert to this URL.")
@click.option("--alert-command", metavar="COMMAND", help="Run this program for each new alert, with JSON on its stdin.")
@json_option
@spark_options
def command(journal: Folder, tables: Folder, rules: Path | None, *, as_json: bool, **options: Any) -> None:
    """Keep bronze, silver and gold up to date with a journal, one round after the other.

    If a stage fails for a reason that can pass, the command tries the stage again after a growing pause. SIGTERM ends the
    command after the current stage. A kill at any moment loses and repeats nothing: run the same command again.

    Give a secret URL in MQFLOW_ALERT_WEBHOOK: the list of processes does not show it. With the setting `telemetry`, the command
    exports its metrics. Exits with 1 if a stage cannot succeed, or if a receiver has not accepted every alert before the end.
    """
    from mqflow.cli.pipeline.stream_view import stream_view  # noqa: PLC0415 - needs pyarrow
    from mqflow.journal import Journal  # noqa: PLC0415 - as above
    from mqflow.pipeline.payload import payload_of  # noqa: PLC0415 - as above
    from mqflow.pipeline.sources.hadoop_folder import HadoopFolder  # noqa: PLC0415 - as above
    from mqflow.pipeline.stream.runner import keep_up  # noqa: PLC0415 - as above
    from mqflow.pipeline.stream.stages import Job  # noqa: PLC0415 - as above

    limits = Limits(every_s=options.pop("every_s"), once=options.pop("once"), attempts_max=options.pop("attempts"))
    payload_of(options["payload"])
    job = Job(
        journal=journal.uri,
        tables=tables.uri,
        rules=read_text(rules) if rules else None,
        payload=options.pop("payload"),
        consumer=options.pop("consumer"),
        rows_max=options.pop("rows_per_round"),
        bytes_max=options.pop("bytes_per_round"),
        senders=_senders(options.pop("alert_webhook"), options.pop("alert_command")),
    )
    # Only Spark can read a journal on a Hadoop file system.
    found = None if isinstance(journal, HadoopFolder) else Journal.open(journal)
    tables.make()
    with ExitStack() as stack:
        metrics = stack.enter_context(_metrics())
        pages = stack.enter_context(_pages(options.pop("http")))
        view = stack.enter_context(stream_view(as_json=as_json))
        session = stack.enter_context(closing(_Session(options)))
        stopping = stack.enter_context(stop_event(signal.SIGTERM))
        if found is None:
            session.start()
            found = Journal.open(journal)
        work = _Work(found, job, session, view, metrics, pages)
        owes = keep_up(
            work.run,
            renew_session=session.renew,
            limits=limits,
            world=SYSTEM_WORLD,
            pause=stopping.wait,
            stopping=stopping.is_set,
            tell=work.on_step,
        )
        work.measure()
    if owes:
        note("Some alerts were not sent. Run the command again, and it sends them.")
        sys.exit(EXIT_FAILED)


class _Session:
    """The Spark session of the command. It starts with the first stage, and again after its JVM or its server has ended."""

    def __init__(self, options: Mapping[str, Any]) -> None:  # Any: the options of `started`
        self._options = options
        self._stack = ExitStack()
        self._spark: SparkSession | None = None

    def start(self) -> "SparkSession":
        """Return the session. If no session runs, start one."""
        if self._spark is None:
            self._spark = self._stack.enter_context(started("stream", **self._options))
        return self._spark

    def renew(self) -> None:
        """End the session. The next stage starts a new session."""
        self._spark = None
        self._stack.close()

    close = renew


class _Work:
    """Runs the stages of the stream on its Spark session, and shows their progress."""

    def __init__(
        self,
        journal: "Journal",
        job: "Job",
        session: _Session,
        view: "View",
        metrics: "StreamMetrics | None",
        pages: "PipelineProgress | None" = None,
    ) -> None:
        self._journal = journal
        self._job = job
        self._session = session
        self._view = view
        self._metrics = metrics
        self._pages = pages
        self._began = False

    def run(self, stage: Stage) -> Taken:
        """Run the stage. If Spark raises a known error, raise a sentence with the remedy instead."""
        from mqflow.pipeline.stream.stages import begin_alerts, run_stage  # noqa: PLC0415 - needs pyarrow

        spark = self._session.start()
        with spark_errors_as_sentences():
            if not self._began:
                begin_alerts(spark, self._job)
                self._began = True
            return run_stage(spark, self._job, stage)

    def on_step(self, event: "StreamStep") -> None:
        """Show and count the step. Before each wait, measure how far the tables are behind."""
        from mqflow.pipeline.stream.runner import Ran, StageFailed  # noqa: PLC0415 - as above

        if isinstance(event, Ran):
            if self._metrics is not None:
                self._metrics.ran(event.stage, event.taken.rows, event.seconds)
        elif isinstance(event, StageFailed):
            if self._metrics is not None:
                self._metrics.failed(event.stage, event.failure.name)
        else:
            self.measure()
        if self._pages is not None:
            from mqflow.cli.pipeline.progress_pages import count_stage  # noqa: PLC0415 - as above

            count_stage(self._pages, event)
        self._view.show(event)

    def measure(self) -> None:
        """Measure how far each table is behind. If that fails, the error is only printed, so that the stream continues."""
        from mqflow.journal import JournalError  # noqa: PLC0415 - as above
        from mqflow.pipeline import PipelineError  # noqa: PLC0415 - as above
        from mqflow.pipeline.stream.freshness import table_levels  # noqa: PLC0415 - as above

        try:
            levels = table_levels(self._journal, self._job.tables, round(SYSTEM_CLOCK.wall() * 1e6))
        except (JournalError, PipelineError, OSError) as error:
            note(f"The lag of the tables is unknown: {safe(str(error))}")
            return
        self._view.show_levels(levels)
        if self._pages is not None:
            self._pages.measured(levels)
        if self._metrics is not None:
            for level in levels:
                self._metrics.measured(level.name, level.rows_behind, level.seconds_behind)


def _senders(webhook: str | None, program: str | None) -> "tuple[Sender, ...]":
    from mqflow.pipeline.stream.alert_sink import Command, Webhook  # noqa: PLC0415 - as above

    senders: list[Sender] = []
    if webhook:
        senders.append(Webhook(webhook))
        Webhook(webhook).check()
    if program:
        try:
            arguments = tuple(shlex.split(program))
        except ValueError as error:
            raise click.BadParameter(f"{program!r} is not a command: {error}.", param_hint="--alert-command") from None
        if not arguments or shutil.which(arguments[0]) is None:
            raise click.BadParameter(f"There is no program for {program!r}.", param_hint="--alert-command")
        senders.append(Command(arguments))
    return tuple(senders)


@contextmanager
def _pages(http: str | None) -> "Iterator[PipelineProgress | None]":
    """Serve the HTTP pages in the block, if an address for them is given."""
    if not http:
        yield None
        return
    from mqflow.cli.pipeline.progress_pages import PipelineProgress, served_progress  # noqa: PLC0415 - only pages need it

    # A round can take long, so its levels are shown until the next round.
    with served_progress(http, PipelineProgress(SYSTEM_CLOCK, valid_s=inf)) as progress:
        yield progress


@contextmanager
def _metrics() -> "Iterator[StreamMetrics | None]":
    """Yield the metrics if the setting `telemetry` asks for them. At the end, export the remaining data."""
    if not load({}).telemetry:
        yield None
        return
    from mqflow.otel.configuration import stream_metrics  # noqa: PLC0415 - optional

    metrics, export_the_rest = stream_metrics(os.environ)
    try:
        yield metrics
    finally:
        export_the_rest()
