"""`mqflow redrive`: moves messages back to their original queues, or to another queue, without the header of the last move."""

import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any, Final

import click

from mqflow import events
from mqflow.app.config.settings import Settings, load
from mqflow.cli.connection_options import connected
from mqflow.cli.messages.browse import condition, end_without_messages, matches
from mqflow.cli.messages.units_of_work import uninterrupted
from mqflow.cli.option_types import json_option, queue_argument, url_option
from mqflow.cli.text.exit_codes import EXIT_FAILED
from mqflow.cli.text.json_lines import json_line
from mqflow.cli.text.message_view import view
from mqflow.cli.text.terminal import counted, note, progress, safe, show_table
from mqflow.many_verbs import current_depth
from mqflow.mqi.errors import MQIError
from mqflow.runtime.dead_letters.redriver import RedrivenMessage, Redriver, Target
from mqflow.runtime.decision_records import ConnectionRecorder
from mqflow.verbs import Connection, Got
from mqflow.world import SYSTEM_CLOCK, SYSTEM_WORLD

__all__ = ("ORIGIN", "command", "is_wanted", "pause", "per_second", "records_of", "redrive_name")

ORIGIN: Final = "origin"
_RATE_MIN: Final = 1 / 86_400
"""The lowest rate, one message a day. A lower rate is a mistake, and its pauses would be too long for the system."""
_IDENTITY_DIGITS: Final = 16
_MOVES: Final = re.compile(r"([0-9a-f]{0,16}\n)*[0-9a-f]{0,16}")
"""The format of a journal of moves: each line is the identity of a message. A crash can leave an incomplete line."""


def per_second(_ctx: click.Context, _param: click.Parameter, value: str | None) -> float:
    """Return the number of messages in a second for ``50/s``, ``600/m`` or ``50``. This is the callback of an option."""
    if value is None:
        return 0.0
    number, _, unit = value.partition("/")
    try:
        rate = float(number) / {"": 1, "s": 1, "m": 60, "min": 60, "h": 3_600}[unit]
    except (ValueError, KeyError):
        rate = 0.0
    if not _RATE_MIN <= rate < math.inf:
        raise click.BadParameter(f"{value!r} is not a rate; examples are 50/s, 600/m and 1000/h.")
    return rate


@click.command("redrive")
@queue_argument
@click.option(
    "--to", "to", required=True, metavar="origin|QUEUE", help="A queue; origin is the queue that each message came from."
)
@click.option("--where", multiple=True, metavar="NAME=PATTERN", help="Only matching messages, as in `mqflow browse`.")
@click.option("--rate", callback=per_second, metavar="N/s", help="The highest rate: 50/s, 600/m.")
@click.option("--limit", type=click.IntRange(1), help="Maximum number of messages.")
@click.option("--dry-run", is_flag=True, help="Show what the command would move, and move nothing. Opens no target.")
@click.option(
    "--journal",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Record each move in this file, and skip messages that earlier runs have moved.",
)
@click.option(
    "--id", "redrive_id", metavar="NAME", help="The name of this redrive in its records; default: the queue and the time."
)
@click.option(
    "--again",
    "times_max",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="How many times to move the same message.",
)
@json_option
@url_option
def command(queue: str, to: str, where: tuple[str, ...], url: str | None, **options: Any) -> None:
    """Move the messages of QUEUE back, as they were before they were moved to QUEUE.

    The command removes the MQDLH or the MQRFH2 that the last move added. Identifiers, context, priority and the rest of the
    expiry stay. Each message has a unit of work of its own. After a stop at any point, run the same command again.

    A message that returns to QUEUE is not moved again in the same run. With --journal it is not moved again in a later run
    either. The file also has a move whose commit got no answer. It can lack the last move of a run that was killed. With the
    setting disposition_queue, each move puts a record on that queue in the same unit of work. Exits with 1 if a message could
    not be moved, or if the connection is lost. The table is printed also after a lost connection or Ctrl-C.
    """
    wanted = [condition(text) for text in where]
    target = None if to == ORIGIN else Target(to)
    counts: Counter[tuple[str, str]] = Counter()
    redrive_id = options["redrive_id"] or redrive_name(queue)
    records = records_of(load({"url": url}), "mqflow redrive")
    try:
        with _journal(options["journal"]) as (before, write), connected(url) as connection:
            redriver = Redriver(
                connection=connection,
                queue=queue,
                wanted=lambda got: is_wanted(queue, got, wanted),
                to=target,
                rate=0.0 if options["dry_run"] else options["rate"],
                clock=SYSTEM_CLOCK,
                pause=pause,
                dry_run=options["dry_run"],
                moved_before=before,
                times_max=options["times_max"],
                records=records,
                redrive_id=redrive_id,
                whole=uninterrupted,
            )
            _carry_out(connection, redriver, counts, options["limit"], write, as_json=options["as_json"])
    finally:  # also after a lost connection and after Ctrl-C
        if not options["as_json"]:
            _show(counts, dry_run=options["dry_run"])
        if records is not None and counts and not options["dry_run"]:
            note(f"The name of this redrive in the records is {safe(redrive_id)}.")
    if not counts:
        end_without_messages(queue, where)
    if any(why for _, why in counts):
        sys.exit(EXIT_FAILED)


def records_of(settings: Settings, consumer: str) -> ConnectionRecorder | None:
    """Return the recorder for the disposition queue of the settings; None if they name no such queue."""
    queue = settings.disposition_queue
    return ConnectionRecorder(queue, consumer=consumer, world=SYSTEM_WORLD, notify=_note_warning) if queue else None


def redrive_name(queue: str) -> str:
    """Return a name for a redrive that begins now: the queue and the time."""
    return f"{queue} {datetime.fromtimestamp(SYSTEM_CLOCK.wall(), UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def _note_warning(event: events.Event) -> None:
    if isinstance(event, events.Warned):
        note(safe(event.text))


def pause(seconds: float) -> None:
    """Wait for this time, if it is more than 0."""
    if seconds > 0:
        Event().wait(seconds)


def is_wanted(queue: str, got: Got, conditions: Sequence[tuple[str, str]]) -> bool:
    """Return whether a message of this queue meets all conditions of `--where`."""
    if not conditions:
        return True
    facts = view(queue, got.descriptor, got.body).facts
    return all(matches(facts, name, pattern) for name, pattern in conditions)


def _carry_out(
    connection: Connection,
    redriver: Redriver,
    counts: Counter[tuple[str, str]],
    limit: int | None,
    write: Callable[[RedrivenMessage], None],
    *,
    as_json: bool,
) -> None:
    """Redrive the messages. Count them in `counts`, for each target and reason; the reason is empty for moved messages."""
    depth = _depth(connection, redriver.queue)
    moved = 0

    def count(done: RedrivenMessage, result: str) -> None:
        if result != "stays" and not redriver.dry_run:
            write(done)
        counts[str(done.target or "no origin"), done.why_not] += 1
        if as_json:
            click.echo(json_line(_facts(done, result)))

    with (
        progress(f"{'Looking at' if redriver.dry_run else 'Redriving'} {redriver.queue}", min(depth, limit or depth)) as bar,
        closing(redriver.run()) as moves,
    ):
        try:
            for done in moves:
                count(done, "stays" if done.why_not else _done(dry_run=redriver.dry_run))
                moved += not done.why_not
                bar.reached(counts.total(), counted(moved, "messages"))
                if moved == limit:
                    break
        except MQIError:
            if redriver.in_doubt is not None:
                count(redriver.in_doubt, "in doubt")
            raise


def _done(*, dry_run: bool) -> str:
    return "would be moved" if dry_run else "moved"


def _facts(done: RedrivenMessage, result: str) -> dict[str, object]:
    return {
        "message_id": done.message_id,
        "to": None if done.target is None else done.target.queue,
        "queue_manager": None if done.target is None else done.target.queue_manager,
        "result": result,
        "reason": done.reason,
        "why_not": done.why_not,
    }


def _depth(connection: Connection, queue: str) -> int:
    """Return the depth of the queue, for the progress bar; 0 if the depth cannot be inquired."""
    try:
        return current_depth(connection, queue)
    except MQIError:
        return 0


@contextmanager
def _journal(path: Path | None) -> Iterator[tuple[Counter[int], Callable[[RedrivenMessage], None]]]:
    """Yield the number of earlier moves of each message, and a function that records a move after its commit."""
    before: Counter[int] = Counter()
    if path is None:
        yield before, lambda _: None
        return
    text = path.read_text("ascii", errors="replace") if path.exists() else ""
    if _MOVES.fullmatch(text) is None:
        raise click.BadParameter(f"{path} is not a journal of a redrive. Nothing was moved.", param_hint="--journal")
    before.update(int(line, 16) for line in text.split() if len(line) == _IDENTITY_DIGITS)
    with path.open("a", encoding="ascii", buffering=1) as lines:
        if text and not text.endswith("\n"):  # a crash of the machine has left an incomplete last line
            print(file=lines)
        yield before, lambda moved: print(f"{moved.identity:016x}", file=lines)


def _target(entry: tuple[tuple[str, str], int]) -> str:
    return entry[0][0]  # keeps the order of a target's reasons: one can refer to the reason before


def _show(counts: Counter[tuple[str, str]], *, dry_run: bool) -> None:
    if not counts:
        return
    done = _done(dry_run=dry_run)
    rows = [(target, f"{count:,}", why or done) for (target, why), count in sorted(counts.items(), key=_target)]
    show_table(("to", "messages", "result"), rows, numbers=frozenset({1}))
