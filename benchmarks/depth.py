"""Goals 11 and 12: a queue of a million durable messages against a queue of a thousand, its memory, and the time to open it."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from random import Random
from typing import Final

from msgspec import Struct
from msgspec.json import decode, encode

from benchmarks.effort import Effort, print_tables
from benchmarks.orders import BODY
from benchmarks.samples import Meter, Pairs, Sample, rss_bytes
from benchmarks.tables import Bar, Row, Table
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.many_verbs import get_many, put_many
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, MatchOption, OpenOption, Persistence, PutOption
from mqflow.verbs import GetOptions

__all__ = ("Opened", "filled", "opened", "tables")

_QUEUE: Final = "DEEP"
_SHALLOW: Final = 1_000
_DEEP: Final = 1_000_000
_FILL: Final = 2_000
_FIRST: Final = 500
_GET: Final = GetOptions(options=GetOption.SYNCPOINT)
_RATES: Final = ((1, 1_000, Bar(0.9, 0.95)), (10, 5_000, Bar(0.85, 0.9)), (100, 20_000, Bar(0.75, 0.85)))
_BY_IDENTIFIER: Final = Bar(0.6, 0.75)


class Opened(Struct, frozen=True):
    """The state that a new process found when it opened a queue manager and got its first messages."""

    #: The time and the processor time until the first message was got, in seconds.
    wall_s: float
    cpu_s: float
    #: The memory that the process had then, beyond what it had with an empty queue manager.
    added_bytes: int
    #: The processor time of each of the first 500 gets, in microseconds, without commits.
    first_gets_us: float


class Deep(Struct, frozen=True):
    """A queue manager with a filled queue."""

    queue_manager: EmbeddedQueueManager
    #: The messages on the queue. The CorrelId of a message is random bytes, seeded with the number of the message.
    depth: int
    #: The memory that the messages added, in bytes.
    added_bytes: int


def tables(effort: Effort) -> Iterator[Table]:
    """Measure, and yield one table."""
    depth = effort.scaled(_DEEP, least=_FILL)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="mqflow-bench-", dir=Path.cwd()) as name:
        folder = Path(name)
        effort.say(f"goals 11 and 12, filling {depth:,} messages")
        with filled(folder / "shallow", _SHALLOW) as shallow, filled(folder / "deep", depth) as deep:
            per_message = deep.added_bytes / depth
            rows += [_rate(deep, shallow, *each, effort) for each in _RATES]
        with filled(folder / "other", _SHALLOW) as shallow, reopened(folder / "deep", depth) as deep:
            rows.append(_by_identifier(deep, shallow, effort))
        after_close = opened(folder / "deep")
        few = opened(folder / "shallow")
    rows += [
        _memory("memory for each durable message on a queue that is filled", per_message),
        _memory("memory for each durable message on a queue that is opened", after_close.added_bytes / depth),
        Row(
            goal=12,
            name="open after a close, until the first get",
            cells=(f"{after_close.cpu_s:.2f} s of processor time", f"{few.wall_s:.2f} s"),
            figure=after_close.wall_s,
            unit="s",
            bar=Bar(1.5, 0.1, at_most=True),
        ),
        Row(
            goal=11,
            name=f"processor time of the first {_FIRST} gets after opening, shallow over deep",
            cells=(f"{after_close.first_gets_us:.1f} µs", f"{few.first_gets_us:.1f} µs"),
            figure=few.first_gets_us / after_close.first_gets_us,
        ),
    ]
    yield Table(
        title="Deep queues",
        before=(
            f"The table compares a queue of {depth:,} durable messages of 1,024 bytes with a queue of {_SHALLOW:,}. The "
            "memory is the RSS of the process minus the RSS of a queue manager with an empty queue."
        ),
        columns=("deep", "shallow"),
        figure="figure",
        rows=rows,
    )


@contextmanager
def filled(folder: Path, depth: int) -> Iterator[Deep]:
    """Yield a queue manager in a new folder, with this number of durable messages on its queue."""
    with EmbeddedQueueManager("BENCH", store=SqliteStore(folder)) as queue_manager:
        queue_manager.administration.define(QueueAttributes(name=_QUEUE, max_depth=999_999_999))
        connection = queue_manager.connect()
        handle = connection.open(_QUEUE, OpenOption.OUTPUT)
        before = rss_bytes()
        for first in range(0, depth, _FILL):
            unit = [(_descriptor(number), BODY) for number in range(first, min(depth, first + _FILL))]
            assert put_many(connection, handle, unit, PutOption.SYNCPOINT).error is None
            connection.commit()
        yield Deep(queue_manager, depth, rss_bytes() - before)
        connection.disconnect()


@contextmanager
def reopened(folder: Path, depth: int) -> Iterator[Deep]:
    """Yield the queue manager of a folder that was filled."""
    before = rss_bytes()
    with EmbeddedQueueManager("BENCH", store=SqliteStore(folder)) as queue_manager:
        yield Deep(queue_manager, depth, rss_bytes() - before)


def opened(folder: Path) -> Opened:
    """Open the queue manager of a folder in a new process, which gets the first messages and backs them out."""
    command = [sys.executable, "-m", "benchmarks.depth", "--open", str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, cwd=Path(__file__).parent.parent)
    return decode(done.stdout, type=Opened)


def _open(folder: Path) -> Opened:
    with tempfile.TemporaryDirectory(dir=folder.parent) as empty:
        EmbeddedQueueManager("EMPTY", store=SqliteStore(Path(empty) / "data")).close()
    before, began, cpu = rss_bytes(), time.perf_counter(), time.process_time()
    with EmbeddedQueueManager("BENCH", store=SqliteStore(folder)) as queue_manager:
        connection = queue_manager.connect()
        handle = connection.open(_QUEUE, OpenOption.INPUT_SHARED)
        assert connection.get(handle, _GET) is not None
        wall_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu
        added_bytes, cpu = rss_bytes() - before, time.process_time()
        for _ in range(_FIRST):
            connection.get(handle, _GET)
        first_gets_us = (time.process_time() - cpu) / _FIRST * 1e6
        connection.backout()
        connection.disconnect()
    return Opened(wall_s, cpu_s, added_bytes, first_gets_us)


def _rate(deep: Deep, shallow: Deep, unit_of_work: int, most: int, bar: Bar, effort: Effort) -> Row:
    messages = effort.scaled(most, least=unit_of_work)
    pairs = effort.compared(
        f"goal 11, unit of work {unit_of_work}",
        lambda: _in_order(deep, messages, unit_of_work),
        lambda: _in_order(shallow, messages, unit_of_work),
    )
    return _ratio(f"put, commit, get, commit, unit of work {unit_of_work}", pairs, bar)


def _by_identifier(deep: Deep, shallow: Deep, effort: Effort) -> Row:
    messages, choices = effort.scaled(_SHALLOW // 10), Random(1)  # noqa: S311 - the same choices in each run
    pairs = effort.compared(
        "goal 11, random CorrelIds",
        lambda: _at_random(deep, messages, choices),
        lambda: _at_random(shallow, messages, choices),
    )
    return _ratio("get by a random CorrelId, commit, put, commit", pairs, _BY_IDENTIFIER)


def _ratio(name: str, pairs: Pairs, bar: Bar) -> Row:
    cells = (f"{pairs.rate:,.0f}/s, {pairs.cpu_us:.0f} µs", f"{pairs.baseline_rate:,.0f}/s, {pairs.baseline_cpu_us:.0f} µs")
    return Row(goal=11, name=name, cells=cells, figure=pairs.ratio, bar=bar, busy=pairs.busy)


def _memory(name: str, figure: float) -> Row:
    return Row(goal=12, name=name, cells=("", ""), figure=figure, unit="bytes", bar=Bar(120, 70, at_most=True))


def _in_order(deep: Deep, messages: int, unit_of_work: int) -> Sample:
    """Put and get units of messages; the depth stays the same."""
    meter, unit = Meter(), [(_descriptor(0), BODY)] * unit_of_work
    with closing(_Connected(deep.queue_manager)) as place:
        meter.start()
        for _ in range(messages // unit_of_work):
            assert put_many(place.connection, place.handle, unit, PutOption.SYNCPOINT).error is None
            place.connection.commit()
            assert len(get_many(place.connection, place.handle, _GET, unit_of_work)) == unit_of_work
            place.connection.commit()
        return meter.sample(messages)


def _at_random(deep: Deep, messages: int, choices: Random) -> Sample:
    """Get messages by their CorrelIds, and put each back at the end of the queue."""
    with closing(_Connected(deep.queue_manager)) as place:
        numbers: Iterator[int] = (choices.randrange(deep.depth // 2, deep.depth) for _ in count())
        place.swap(next(numbers))  # builds the index
        meter = Meter()
        meter.start()
        for _ in range(messages):
            place.swap(next(numbers))
        return meter.sample(messages)


class _Connected:
    """A connection with the queue open."""

    def __init__(self, queue_manager: EmbeddedQueueManager) -> None:
        self.connection = queue_manager.connect()
        self.handle = self.connection.open(_QUEUE, OpenOption.INPUT_SHARED | OpenOption.OUTPUT)
        self.close: Callable[[], None] = self.connection.disconnect

    def swap(self, number: int) -> None:
        """Get the message with this number's CorrelId, if it is still there, and put another."""
        descriptor = _descriptor(number)
        options = GetOptions(options=GetOption.SYNCPOINT, match=MatchOption.CORREL_ID, correlation_id=descriptor.correlation_id)
        self.connection.get(self.handle, options)
        self.connection.commit()
        self.connection.put(self.handle, descriptor, BODY, PutOption.SYNCPOINT)
        self.connection.commit()


def _descriptor(number: int) -> MessageDescriptor:
    return MessageDescriptor(
        persistence=Persistence.PERSISTENT,
        format="MQSTR",
        ccsid=1208,
        correlation_id=Random(number).randbytes(24),  # noqa: S311 - the same CorrelId in each process
    )


def _main(given: list[str]) -> int:
    if given[:1] == ["--open"]:
        os.write(1, encode(_open(Path(given[1]))))
        return 0
    return print_tables(tables, "python -m benchmarks.depth", __doc__, given)


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
