"""`python -m benchmarks.dead_letters`: the DLQ handler against a raw get-put-commit loop on its connection, and a long run.

The handler and the loop move each message from one queue to another with its context, in a unit of work of its own. With
`--steady N`, the handler handles N dead letters in ten parts, and prints rate and memory of each part. `--ignored` leaves all
letters on the queue.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

from benchmarks.effort import Effort
from benchmarks.samples import Meter, Pairs, Sample, rss_bytes
from benchmarks.tables import Table
from benchmarks.transports import embedded
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, OpenOption, Persistence, PutOption
from mqflow.policy.dead_letters.actions import matchers
from mqflow.policy.dead_letters.rules import RulesTable, parse
from mqflow.policy.poison.moved_message import to_dead_letter_queue
from mqflow.runtime.dead_letters.dead_letter_handler import DeadLetterHandler, Rules, run_to_end
from mqflow.runtime.hooks import Broadcast
from mqflow.verbs import Connection, GetOptions
from mqflow.world import SYSTEM_CLOCK

DLQ, TARGET = "DEAD.LETTERS", "ORDERS.IN"
BODY = b"x" * 500
TABLE = f"""WAIT(NO)
REASON(MQRC_Q_FULL) DESTQ('PAYMENTS.*') ACTION(RETRY) RETRY(5)
MSGTYPE(MQMT_REQUEST) REPLYQM('PART.*') ACTION(FWD) FWDQ(DEADQ) FWDQM(&REPLYQM)
APPLNAME('old*') ACTION(DISCARD)
ACTION(FWD) FWDQ({TARGET}) HEADER(NO)
"""
_GET = GetOptions(options=GetOption.SYNCPOINT)
_PASS = PutOption.SYNCPOINT | PutOption.PASS_ALL_CONTEXT


@contextmanager
def opened(where: str) -> Iterator[Connection]:
    with (
        tempfile.TemporaryDirectory() as folder,
        embedded(DLQ, TARGET, folder=Path(folder) if where == "disk" else None) as queue_manager,
    ):
        yield queue_manager.connect()


def fill(connection: Connection, messages: int, *, persistent: bool) -> None:
    persistence = Persistence.PERSISTENT if persistent else Persistence.NOT_PERSISTENT
    now = datetime.now(UTC)
    handle = connection.open(DLQ, OpenOption.OUTPUT)
    for number in range(messages):
        descriptor, data = to_dead_letter_queue(
            MessageDescriptor(persistence=persistence, format="MQSTR"),
            BODY,
            reason=2085,
            queue=f"ORDERS.{number}",  # each destination is different
            queue_manager="QM1",
            application_name="bench",
            now=now,
        )
        connection.put(handle, descriptor, data, PutOption.SYNCPOINT)
        if number % 500 == 499:
            connection.commit()
    connection.commit()
    connection.close(handle)


def raw(connection: Connection) -> None:
    source = connection.open(DLQ, OpenOption.INPUT_AS_Q_DEF | OpenOption.SAVE_ALL_CONTEXT)
    target = connection.open(TARGET, OpenOption.OUTPUT | OpenOption.PASS_ALL_CONTEXT)
    while (got := connection.get(source, _GET)) is not None:
        connection.put(target, got.descriptor, got.body, _PASS, context=source)
        connection.commit()
    connection.close(source)
    connection.close(target)


def handled(connection: Connection, table: str = TABLE) -> None:
    rules = parse(table)
    assert isinstance(rules, RulesTable)
    handler = DeadLetterHandler(Rules(rules.control, matchers(rules.rules)), DLQ, clock=SYSTEM_CLOCK, broadcast=Broadcast(()))
    handler.open(connection)
    run_to_end(handler, connection)
    connection.close(handler.handle)


def drain(connection: Connection, queue: str) -> None:
    handle = connection.open(queue, OpenOption.INPUT_SHARED)
    while connection.get(handle, _GET) is not None:
        connection.commit()
    connection.close(handle)


def compared(where: str, messages: int, effort: Effort) -> Pairs:
    """Return pairs of the handler and the raw loop on the same connection."""
    with opened(where) as connection:

        def sample(work: Callable[[Connection], None]) -> Sample:
            fill(connection, messages, persistent=where == "disk")
            meter = Meter()
            meter.start()
            work(connection)
            taken = meter.sample(messages)
            drain(connection, TARGET)
            return taken

        return effort.compared(f"the DLQ handler, {where}", lambda: sample(handled), lambda: sample(raw))


def tables(effort: Effort) -> Iterator[Table]:
    """Compare the handler with the loop in memory and on disk, and yield one table."""
    sides = (("memory", 8_000), ("disk", 1_000))
    yield Table(
        title="The DLQ handler against a loop that gets, puts and commits",
        before="Both sides use one connection, and a unit of work for each message. The handler has a table of four rules.",
        columns=("handler, messages/s", "loop, messages/s"),
        figure="ratio",
        rows=[compared(where, effort.scaled(most), effort).row(f"dead letters, {where}") for where, most in sides],
    )


def steady(where: str, messages: int, *, ignored: bool) -> None:
    """Fill and handle the queue in ten parts; a part ends when the handler has looked at every message on the queue."""
    table = "WAIT(NO)\nACTION(IGNORE)" if ignored else TABLE
    with opened(where) as connection:
        part = messages // 10
        for number in range(10):
            before = rss_bytes() / 1e6
            fill(connection, part, persistent=where == "disk")
            filled = rss_bytes() / 1e6
            begun = perf_counter()
            handled(connection, table)
            rate = part * (number + 1 if ignored else 1) / (perf_counter() - begun)
            print(
                f"{where}: {part * (number + 1):>9,} done, {rate:>8,.0f}/s, "
                f"{before:,.0f} MB, {filled:,.0f} MB filled, {rss_bytes() / 1e6:,.0f} MB handled",
                flush=True,
            )
            if not ignored:
                drain(connection, TARGET)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dead_letters", description=__doc__)
    parser.add_argument("--where", choices=["memory", "disk"], default="disk")
    parser.add_argument("--messages", type=int, default=2_000)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steady", type=int, metavar="N", help="handle N dead letters in ten parts")
    parser.add_argument("--ignored", action="store_true", help="with --steady: leave all of them on the queue")
    given = parser.parse_args(arguments)
    if given.steady:
        steady(given.where, given.steady, ignored=given.ignored)
    else:
        pairs = compared(given.where, given.messages, Effort(pairs=given.pairs, patience_s=0.0))
        for one, other in zip(pairs.candidates, pairs.baselines, strict=True):
            print(f"{given.where}: raw {other.rate:,.0f}/s, handler {one.rate:,.0f}/s, ratio {one.rate / other.rate:.2f}")
        print(f"{given.where}: median ratio {pairs.ratio:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
