"""`python -m benchmarks.producers`: tasks that put with `App.put`, against a loop that puts and commits with the same verbs.

One publisher commits each message, as the loop does. With 32 publishers, the loop puts 32 messages with one call and commits
them together. That is the strongest loop for producers that wait at the same time.
"""

import sys
from collections.abc import Iterator
from functools import partial
from typing import Final

import anyio
from msgspec import Struct, json

from benchmarks.effort import Effort, print_tables
from benchmarks.orders import BODY, decode
from benchmarks.samples import Meter, Pairs, Sample
from benchmarks.tables import Bar, Row, Table
from benchmarks.transports import QUEUE, Transport, durable, in_memory
from mqflow import App
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import Encoding, OpenOption, Persistence, PutOption
from mqflow.verbs import QueueManager

__all__ = ("PRODUCING", "Producing", "publish", "put_in_a_loop", "tables")

_PUT: Final = PutOption.SYNCPOINT | PutOption.FAIL_IF_QUIESCING
_MANY: Final = 32
_ORDER: Final = decode(BODY)
_GAIN: Final = Bar(4.0, 8.0)


class Producing(Struct, frozen=True):
    """A number of publishers on one transport, and the processor time that a message may take."""

    transport: str
    make: Transport
    publishers: int
    messages: int
    cpu_us: Bar | None = None

    @property
    def name(self) -> str:
        """The name of the row."""
        return f"{self.transport}, {self.publishers} publisher{'s' if self.publishers > 1 else ''}"


PRODUCING: Final = (
    Producing("embedded, durable", durable, 1, 1_600),
    Producing("embedded, durable", durable, _MANY, 9_600, Bar(80.0, 60.0, at_most=True)),
    Producing("embedded, in memory", in_memory, 1, 12_800, Bar(20.0, 15.0, at_most=True)),
    Producing("embedded, in memory", in_memory, _MANY, 12_800),
)


def publish(transport: Transport, messages: int, publishers: int) -> Sample:
    """Put orders with this number of tasks, each of which waits for its put before the next one."""
    with transport(0) as queue_manager:
        return anyio.run(_publish, queue_manager, messages, publishers)


async def _publish(queue_manager: QueueManager, messages: int, publishers: int) -> Sample:
    app, meter = App(), Meter()

    async def put(count: int) -> None:
        for _ in range(count):
            await app.put(QUEUE, _ORDER)

    async with app.running(queue_manager, listen=False):
        await app.put(QUEUE, _ORDER)
        meter.start()
        if publishers == 1:
            await put(messages)
        else:
            async with anyio.create_task_group() as group:
                for _ in range(publishers):
                    group.start_soon(put, messages // publishers)
        return meter.sample(messages)


def put_in_a_loop(transport: Transport, messages: int, at_once: int) -> Sample:
    """Encode and put `at_once` orders with one call, then commit, until all messages are put."""
    meter = Meter()
    with transport(0) as queue_manager:
        connection = queue_manager.connect(application_name="raw")
        handle = connection.open(QUEUE, OpenOption.OUTPUT | OpenOption.FAIL_IF_QUIESCING)
        descriptor = MessageDescriptor(format="MQSTR", ccsid=1208, encoding=Encoding.NATIVE, persistence=Persistence.PERSISTENT)
        put_many = getattr(connection, "put_many", None)  # a verb of the embedded queue manager
        meter.start()
        for _ in range(messages // at_once):
            if at_once == 1 or put_many is None:
                for _ in range(at_once):
                    connection.put(handle, descriptor, json.encode(_ORDER), _PUT)
            else:
                put_many(handle, [(descriptor, json.encode(_ORDER)) for _ in range(at_once)], _PUT)
            connection.commit()
        sample = meter.sample(messages)
        connection.disconnect()
    return sample


def tables(effort: Effort) -> Iterator[Table]:
    """Measure each number of publishers, and yield their processor time, their rates, and the gain of 32 publishers."""
    measured = [(producing, _measure(producing, effort)) for producing in PRODUCING]
    yield Table(
        title="Processor time of a put outside of deliveries",
        columns=("`app.put`, messages/s", "loop, messages/s", "loop, µs"),
        figure="`app.put`",
        rows=[
            Row(
                name=producing.name,
                cells=(f"{pairs.rate:,.0f}", f"{pairs.baseline_rate:,.0f}", f"{pairs.baseline_cpu_us:.1f}"),
                figure=pairs.cpu_us,
                unit="µs",
                bar=producing.cpu_us,
                busy=pairs.busy,
            )
            for producing, pairs in measured
        ],
        after="The loop of 32 publishers puts 32 messages with one call and commits them together.",
    )
    yield _gain(effort)


def _measure(producing: Producing, effort: Effort) -> Pairs:
    messages = effort.scaled(producing.messages, least=producing.publishers)
    candidate = partial(publish, producing.make, messages, producing.publishers)
    baseline = partial(put_in_a_loop, producing.make, messages, producing.publishers)
    return effort.compared(producing.name, candidate, baseline)


def _gain(effort: Effort) -> Table:
    """Return the table of 32 publishers over one publisher, measured in turns."""
    many = partial(publish, durable, effort.scaled(9_600, least=_MANY), _MANY)
    pairs = effort.compared("32 publishers over 1", many, partial(publish, durable, effort.scaled(1_600), 1))
    return Table(
        title="Publishers that share commits",
        columns=("32 publishers, messages/s", "1 publisher, messages/s"),
        figure="ratio",
        rows=[pairs.row("embedded, durable, 32 publishers over 1", _GAIN)],
    )


if __name__ == "__main__":
    sys.exit(print_tables(tables, "python -m benchmarks.producers", __doc__, sys.argv[1:]))
