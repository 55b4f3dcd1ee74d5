"""The progress of `mqflow spark stream`: a live table on a terminal, lines in a log, or records in JSON."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Any, Protocol

import click
import msgspec

from mqflow.cli.text.terminal import note, safe
from mqflow.pipeline.stream.freshness import Level
from mqflow.pipeline.stream.runner import Ran, StageFailed, StreamStep, Waits, said
from mqflow.policy.stream.rounds import Stage

__all__ = ("COLUMNS", "View", "level_cells", "level_record", "stream_view")

COLUMNS = ("step", "rows behind", "behind", "newest landing", "newest event")
"""The columns of the table of levels, which shows how far each step is behind."""
_MINUTE_S = 60
_HOUR_S = 3_600


class View(Protocol):
    """Shows the progress of a stream."""

    def show(self, event: StreamStep) -> None:
        """Show one step of the stream."""

    def show_levels(self, levels: Sequence[Level]) -> None:
        """Show how far the tables are behind, after a round."""


def level_record(level: Level) -> dict[str, Any]:  # Any: the values of a JSON record
    """Return a level as the fields of a JSON record. Times are ISO 8601 in UTC."""
    return {
        "step": level.name,
        "rows": level.rows,
        "rows_behind": level.rows_behind,
        "seconds_behind": None if level.seconds_behind is None else round(level.seconds_behind, 3),
        "newest_landing": _time(level.newest_landed_us),
        "newest_event": _time(level.newest_event_us),
    }


def level_cells(level: Level) -> tuple[str, ...]:
    """Return the cells for a level, in the order of `COLUMNS`."""
    newest = (_time(level.newest_landed_us), _time(level.newest_event_us))
    return (level.name, f"{level.rows_behind:,}", _age(level.seconds_behind), *(each or "" for each in newest))


@contextmanager
def stream_view(*, as_json: bool) -> Iterator[View]:
    """Yield a view: JSON records on stdout, or a live table if stderr is a terminal, or else lines on stderr."""
    if as_json:
        yield _Records()
    elif sys.stderr.isatty() and find_spec("rich") is not None:
        with _live_table() as view:
            yield view
    else:
        yield _Lines()


class _Records:
    """Prints a JSON record for each step and each level."""

    def show(self, event: StreamStep) -> None:
        match event:
            case Ran(stage, taken, seconds):
                self._print(
                    event="ran", stage=stage, rows=taken.rows, more=taken.more, seconds=round(seconds, 3), said=taken.said
                )
            case StageFailed():
                self._print(
                    event="failed",
                    stage=event.stage,
                    failure=event.failure.name,
                    kind=event.failure.kind,
                    failures=event.failures,
                    pause_s=None if event.pause_s is None else round(event.pause_s, 3),
                    error=said(event.error),
                )
            case Waits(seconds):
                self._print(event="waits", seconds=round(seconds, 3))

    def show_levels(self, levels: Sequence[Level]) -> None:
        for level in levels:
            self._print(event="level", **level_record(level))

    def _print(self, **record: Any) -> None:  # Any: as above
        click.echo(msgspec.json.encode(record))


class _Lines:
    """Prints a line for each step that has done something."""

    def show(self, event: StreamStep) -> None:
        if isinstance(event, Waits) or (isinstance(event, Ran) and not event.taken.rows and not event.taken.said):
            return
        note(_sentence(event))

    def show_levels(self, levels: Sequence[Level]) -> None:
        """Show nothing, because `mqflow spark status` shows the levels."""


@contextmanager
def _live_table() -> Iterator[View]:
    from rich.console import Console, Group  # noqa: PLC0415 - optional, and slow to import
    from rich.live import Live  # noqa: PLC0415 - as above
    from rich.table import Table  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415 - as above

    with Live(console=Console(stderr=True), auto_refresh=False) as live:

        class Shown:
            def __init__(self) -> None:
                self._rows = dict.fromkeys(Stage, 0)
                self._levels: Sequence[Level] = ()
                self._doing = ""

            def show(self, event: StreamStep) -> None:
                if isinstance(event, Ran):
                    self._rows[event.stage] += event.taken.rows
                if isinstance(event, StageFailed) or (isinstance(event, Ran) and event.taken.said):
                    live.console.print(_sentence(event), markup=False, highlight=False)
                self._doing = _sentence(event)
                self._refresh()

            def show_levels(self, levels: Sequence[Level]) -> None:
                self._levels = levels
                self._refresh()

            def _refresh(self) -> None:
                table = Table(*COLUMNS, box=None)
                for level in self._levels:
                    table.add_row(*map(safe, level_cells(level)))
                total = f"{self._rows[Stage.BRONZE]:,} rows taken, {self._rows[Stage.ALERTS]:,} alerts sent."
                live.update(Group(table, Text(safe(self._doing)), total), refresh=True)  # in `Text`, [b] is no markup

        yield Shown()


def _sentence(event: StreamStep) -> str:
    match event:
        case Ran(stage, taken, seconds):
            things = "alerts sent" if stage is Stage.ALERTS else "rows"
            done = (
                f"{stage}: {taken.rows:,} {things} in {seconds:.1f} s." if taken.rows else f"{stage}: done in {seconds:.1f} s."
            )
            return safe(f"{done} {taken.said}".strip())
        case StageFailed():
            text = f"{event.stage} failed ({event.failure.name}, attempt {event.failures}): {said(event.error)}"
            again = "" if event.pause_s is None else f" Trying again in {event.pause_s:.1f} s."
            return safe(text.partition("\n")[0]) + again
        case Waits(seconds):
            return f"Waiting {seconds:.0f} s."


def _time(us: int | None) -> str | None:
    if us is None:
        return None
    return f"{datetime.fromtimestamp(us // 1_000_000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _age(seconds: float | None) -> str:
    if seconds is None:
        return "unknown"
    if seconds < _MINUTE_S:
        return f"{seconds:.0f} s"
    if seconds < _HOUR_S:
        return f"{seconds / _MINUTE_S:.0f} min"
    return f"{seconds / _HOUR_S:.1f} h"
