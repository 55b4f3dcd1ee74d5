"""A month of real flights through a queue, a typed handler and a backout queue: `python -m examples.flights.demo`.

Runs the commands that a new user types, then counts the messages. Exits with 1 if a message is lost or doubled.
"""

import logging
import os
import shlex
import shutil
import sys
from collections import Counter
from pathlib import Path

import anyio
from msgspec import Struct

from examples.flights.app import app
from mqflow import MQIError, open_queue_manager
from mqflow.app.config.settings import load
from mqflow.cli.main import main as mqflow
from mqflow.cli.text.terminal import note, progress, show_table
from mqflow.many_verbs import inquire_base_queue
from mqflow.mqi.options import GetOption, OpenOption
from mqflow.policy.poison.moved_message import why
from mqflow.verbs import GetOptions, Got

HERE = Path(os.path.relpath(Path(__file__).parent))
DATA = Path(".demo")
URL = f"embedded:{DATA}?qmgr=QM1"
LOOK_EVERY_S = 0.1


class Counted(Struct, frozen=True):
    """The messages that were put, booked and poison, by MsgId."""

    put: Counter[bytes]
    booked: Counter[bytes]
    poison: Counter[bytes]
    #: The poison messages by their last queue and the reason.
    reasons: Counter[tuple[str, str]]

    @property
    def lost(self) -> int:
        return len(self.put - self.booked - self.poison)

    @property
    def twice(self) -> int:
        return (self.booked + self.poison - self.put).total()


def main() -> int:
    logging.getLogger("mqflow.poison").setLevel(logging.ERROR)  # the report at the end has these messages
    shutil.rmtree(DATA, ignore_errors=True)
    command("mqsc", str(HERE / "queues.mqsc"))
    command("put", "FLIGHTS.IN", "--jsonl", str(HERE / "flights-2013-01.jsonl.gz"))
    put = Counter(got.descriptor.message_id for got in browse("FLIGHTS.IN"))
    note("\n$ mqflow run examples.flights.app:app    # here until FLIGHTS.IN is empty")
    anyio.run(consume, put.total())
    counted = count(put)
    report(counted)
    command("browse", "FLIGHTS.BOQ", "--limit", "1")
    command("why", next(iter(counted.poison)).hex())
    return 1 if counted.lost or counted.twice else 0


def command(*arguments: str) -> None:
    """Run a command of mqflow, and print it as a user types it."""
    note(f"\n$ mqflow {shlex.join(arguments)}")
    mqflow([*arguments, "--url", URL], standalone_mode=False)


async def consume(total: int) -> None:
    """Run the application until every message is settled."""
    app.settings = load({"url": URL})
    async with app.running() as running:
        connection = running.queue_manager.connect()
        with progress("Consuming FLIGHTS.IN", total) as bar:
            while (left := inquire_base_queue(connection, "FLIGHTS.IN").depth) > 0:
                bar.reached(total - left, f"{total - left:,} of {total:,}")
                await anyio.sleep(LOOK_EVERY_S)
            bar.reached(total, f"{total:,} of {total:,}")
        connection.disconnect()


def count(put: Counter[bytes]) -> Counted:
    """Count the messages on the queues. The CorrelId of a booking is the MsgId of its flight."""
    booked = Counter(got.descriptor.correlation_id for got in browse("FLIGHTS.BOOKED"))
    dead = list(browse("FLIGHTS.BOQ"))
    poison = Counter(got.descriptor.message_id for got in dead)
    return Counted(put, booked, poison, Counter(("FLIGHTS.BOQ", reason(got)) for got in dead))


def reason(got: Got) -> str:
    cause = why(got.descriptor, got.body)
    return f"{cause.outcome}: {cause.text or cause.error}" if cause else "unknown"


def browse(queue: str) -> list[Got]:
    """Return all messages of a queue, and leave them on the queue."""
    look = GetOptions(options=GetOption.BROWSE_NEXT | GetOption.NO_SYNCPOINT)
    queue_manager = open_queue_manager(URL)
    try:
        connection = queue_manager.connect()
        handle = connection.open(queue, OpenOption.BROWSE)
        return list(iter(lambda: connection.get(handle, look), None))
    finally:
        queue_manager.close()


def report(counted: Counted) -> None:
    put, booked, poison = counted.put.total(), counted.booked.total(), counted.poison.total()
    rows = [("put", "FLIGHTS.IN", "", f"{put:,}"), ("booked", "FLIGHTS.BOOKED", "", f"{booked:,}")]
    rows += [("poison", queue, why_, f"{number:,}") for (queue, why_), number in counted.reasons.most_common()]
    print(flush=True)
    show_table(("what", "queue", "reason", "messages"), rows, numbers=frozenset({3}))
    print(f"\n{put:,} put = {booked:,} booked + {poison:,} poison; {counted.lost:,} lost, {counted.twice:,} twice.", flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except MQIError as error:
        sys.exit(f"The demo cannot go on: {error}")
