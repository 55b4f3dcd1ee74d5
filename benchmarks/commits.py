"""Measures goals 9, 10 and 20: durable units of work beside plain writes to the disk, shared commits, and a long run."""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from cProfile import Profile
from pathlib import Path
from typing import Final

import anyio
from anyio.lowlevel import checkpoint
from msgspec.structs import replace

from benchmarks.consumption import framework
from benchmarks.effort import Effort, print_tables
from benchmarks.hotspots import hotspots
from benchmarks.machine import wait_for_idle
from benchmarks.orders import BODY, Order
from benchmarks.samples import Meter, Sample, rss_bytes
from benchmarks.tables import Bar, Row, Table, missed
from benchmarks.transports import QUEUE, durable
from mqflow import App
from mqflow.many_verbs import get_many, put_many
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, OpenOption, Persistence, PutOption
from mqflow.verbs import GetOptions

__all__ = ("floor", "soak", "tables", "through_the_engine")

_GET: Final = GetOptions(options=GetOption.SYNCPOINT)
_DESCRIPTOR: Final = MessageDescriptor(persistence=Persistence.PERSISTENT)
#: The messages that stay on the queue during the measurement.
_WAITING: Final = 1_000
_OVER_THE_FLOOR: Final = (
    (1, 1_000, Bar(0.70, 0.75)),
    (10, 5_000, Bar(0.45, 0.55)),
    (100, 20_000, Bar(0.17, 0.30)),
)
_SHARED: Final = ((16, Bar(8, 10)), (64, Bar(15, 22)))
_SOAK: Final = 1_000_000
_TENTHS: Final = 10
#: The most messages that wait during the long run.
_AHEAD: Final = 320


def tables(effort: Effort) -> Iterator[Table]:
    """Measure, and yield one table."""
    rows = [_over_the_floor(*each, effort) for each in _OVER_THE_FLOOR]
    rows += [_shared(workers, bar, effort) for workers, bar in _SHARED]
    yield Table(
        title="Durable commits",
        before=(
            "*The floor* is a program that appends the same bytes to a file and forces them to the disk. It does this twice "
            "for each unit of work: for the puts and for the gets. The long run puts and consumes messages in units of 32, and "
            "compares its last tenth with its first."
        ),
        columns=("measured", "against"),
        figure="figure",
        rows=[*rows, *soak(effort.scaled(_SOAK, least=_TENTHS * 32), effort)],
    )


def _over_the_floor(unit_of_work: int, most: int, bar: Bar, effort: Effort) -> Row:
    messages = effort.scaled(most, least=unit_of_work)
    with tempfile.TemporaryDirectory(prefix="mqflow-bench-", dir=Path.cwd()) as folder:
        pairs = effort.compared(
            f"goal 9, unit of work {unit_of_work}",
            lambda: through_the_engine(messages, unit_of_work),
            lambda: floor(Path(folder), messages, unit_of_work),
        )
    row = pairs.row(f"put, commit, get, commit over the floor, unit of work {unit_of_work}", bar, goal=9, unit="/s")
    return _with_profile(row, lambda profile: through_the_engine(messages, unit_of_work, profile), messages)


def _with_profile(row: Row, run: Callable[[Profile], object], messages: int) -> Row:
    return replace(row, profile=hotspots(run, messages)) if missed(row) else row


def through_the_engine(messages: int, unit_of_work: int, profile: Profile | None = None) -> Sample:
    """Put, commit, get and commit durable messages, unit after unit, in one thread, with 1,000 other messages on the queue."""
    unit, meter = [(_DESCRIPTOR, BODY)] * unit_of_work, Meter()
    with durable(_WAITING) as queue_manager:
        connection = queue_manager.connect()
        handle = connection.open(QUEUE, OpenOption.INPUT_SHARED | OpenOption.OUTPUT)
        if profile is not None:
            profile.enable()
        meter.start()
        for _ in range(messages // unit_of_work):
            assert put_many(connection, handle, unit, PutOption.SYNCPOINT).error is None
            connection.commit()
            assert len(get_many(connection, handle, _GET, unit_of_work)) == unit_of_work
            connection.commit()
        sample = meter.sample(messages)
        if profile is not None:
            profile.disable()
        connection.disconnect()
    return sample


def floor(folder: Path, messages: int, unit_of_work: int) -> Sample:
    """Append the bytes of each unit of work to a file, and force them to the disk twice."""
    data, meter = bytes(len(BODY) * unit_of_work), Meter()
    file = os.open(folder / "floor", os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
    try:
        meter.start()
        for _ in range(messages // unit_of_work):
            os.write(file, data)
            os.fdatasync(file)
            os.write(file, data)
            os.fdatasync(file)
        return meter.sample(messages)
    finally:
        os.close(file)


def _shared(workers: int, bar: Bar, effort: Effort) -> Row:
    many, one = effort.scaled(8_000), effort.scaled(2_000)
    pairs = effort.compared(
        f"goal 10, {workers} workers",
        lambda: framework(durable, many, 1, concurrency=workers),
        lambda: framework(durable, one, 1),
    )
    row = pairs.row(f"consume durable messages one by one, {workers} workers over 1 worker", bar, goal=10, unit="/s")
    return _with_profile(row, lambda profile: framework(durable, many, 1, concurrency=workers, profile=profile), many)


def soak(messages: int, effort: Effort) -> Iterator[Row]:
    """Put and consume durable messages in ten parts. Yield the last part's rate over the first part's, and the added memory."""
    effort.say(f"goal 20, {messages:,} messages")
    busy = wait_for_idle(effort.patience_s)
    rates, memory_mb = anyio.run(_soak, messages // _TENTHS)
    yield Row(
        goal=20,
        name="a long run of durable messages: the last tenth over the first",
        cells=(f"{rates[-1]:,.0f}/s", f"{rates[0]:,.0f}/s"),
        figure=rates[-1] / rates[0],
        bar=Bar(0.95, 0.98),
        busy=busy,
    )
    yield Row(
        goal=20,
        name="a long run of durable messages: memory added after the first tenth",
        cells=(f"{memory_mb[-1]:.1f} MB", f"{memory_mb[0]:.1f} MB"),
        figure=memory_mb[-1] - memory_mb[0],
        unit="MB",
        bar=Bar(5.0, 1.0, at_most=True),
    )


async def _soak(part: int) -> tuple[list[float], list[float]]:
    """Return the rate of each part, and the memory of the process after each part."""
    rates, memory_mb, over, handled = [], [], anyio.Event(), 0

    app = App()

    @app.listener(QUEUE, unit_of_work=32)
    async def handle(order: Order) -> None:
        nonlocal handled
        assert order.id
        handled += 1
        if handled % part == 0:
            over.set()

    with durable(0) as queue_manager:
        connection = queue_manager.connect()
        handle_to_put = connection.open(QUEUE, OpenOption.OUTPUT)
        unit = [(_DESCRIPTOR, BODY)] * 32
        async with app.running(queue_manager):
            for tenth in range(_TENTHS):
                over = anyio.Event()
                began = time.perf_counter()
                for number in range(0, part, 32):
                    put_many(connection, handle_to_put, unit[: part - number], PutOption.SYNCPOINT)
                    connection.commit()
                    while tenth * part + number - handled > _AHEAD:
                        await checkpoint()
                await over.wait()
                rates.append(part / (time.perf_counter() - began))
                memory_mb.append(rss_bytes() / 1e6)
        connection.disconnect()
    return rates, memory_mb


if __name__ == "__main__":
    sys.exit(print_tables(tables, "python -m benchmarks.commits", __doc__, sys.argv[1:]))
