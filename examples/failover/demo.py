"""Kills the active queue manager while an application works, and counts the orders: `python -m examples.failover.demo`.

Works in a temporary folder and ends all its processes. Exits with 1 if an order is lost or taken twice.
"""

import os
import shlex
import signal
import sys
import tempfile
from collections import Counter
from contextlib import redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path

import anyio
import msgspec

from examples.failover.app import app
from mqflow import Event, MQIError, open_queue_manager
from mqflow.cli.main import main as cli
from mqflow.events import Reconnected, Settled
from mqflow.many_verbs import inquire_base_queue
from mqflow.mqi.options import GetOption, OpenOption
from mqflow.verbs import GetOptions

QUEUES = Path(__file__).resolve().with_name("queues.mqsc")
URL = app.url or ""
ORDERS = 600


def main(orders: int = ORDERS) -> int:
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="mqflow-") as folder:
        os.chdir(folder)
        try:
            prepare(orders)
            anyio.run(Outage(orders).run)
            return report(orders)
        finally:
            for pid in processes():
                os.kill(pid, signal.SIGKILL)
            os.chdir(before)


def prepare(orders: int) -> None:
    """Start a queue manager and its standby, and put the orders."""
    mqflow("qmgr", "create", "QM1")
    mqflow("qmgr", "start", "QM1")
    mqflow("qmgr", "start", "QM1", "--standby")
    mqflow("mqsc", str(QUEUES), "--url", URL)
    Path("orders.jsonl").write_text("".join(f'{{"number":{number}}}\n' for number in range(orders)))
    mqflow("put", "ORDERS.IN", "--jsonl", "orders.jsonl", "--url", URL)


def mqflow(*arguments: str) -> None:
    """Run a command of mqflow, and print it as a user types it."""
    print(f"$ mqflow {shlex.join(arguments)}", flush=True)
    cli([*arguments], standalone_mode=False)


class Outage:
    """Runs the application, and kills the active queue manager when a third of the orders is taken."""

    def __init__(self, orders: int) -> None:
        self.orders = orders
        self.taken = 0
        self.back = anyio.Event()

    async def run(self) -> None:
        app.hooks.append(self.note)
        async with app.running():
            await self.back.wait()
            while depth("ORDERS.IN"):  # noqa: ASYNC110 - the queue is in another process
                await anyio.sleep(0.05)
        app.hooks.remove(self.note)

    def note(self, event: Event) -> None:
        match event:
            case Settled():
                self.taken += 1
                if self.taken == self.orders // 3:
                    active, standby = processes()
                    print(f"$ kill -9 {active}    # {self.taken} orders are taken; process {standby} stands by", flush=True)
                    os.kill(active, signal.SIGKILL)
            case Reconnected():
                print(f"Reconnected after {event.downtime_ms:.0f} ms: {', '.join(event.objects)}.", flush=True)
                self.back.set()
            case _:
                pass


def processes() -> list[int]:
    """Return the identifiers of the active process and of the standby, if they run."""
    output = TextIOWrapper(BytesIO())
    with redirect_stdout(output):
        cli(["qmgr", "status", "QM1", "--json"], standalone_mode=False)
    output.seek(0)
    found = msgspec.json.decode(output.read())
    return [found[key] for key in ("process", "standby") if found[key]]


def depth(queue: str) -> int:
    queue_manager = open_queue_manager(URL)
    try:
        connection = queue_manager.connect()
        return inquire_base_queue(connection, queue).depth
    finally:
        queue_manager.close()


def report(orders: int) -> int:
    """Count and print the orders that were taken, lost and taken twice. Return the exit code."""
    queue_manager = open_queue_manager(URL)
    connection = queue_manager.connect()
    handle = connection.open("ORDERS.TAKEN", OpenOption.BROWSE)
    look = GetOptions(options=GetOption.BROWSE_NEXT | GetOption.NO_SYNCPOINT)
    taken = Counter(got.body for got in iter(lambda: connection.get(handle, look), None))
    queue_manager.close()
    lost, twice = orders - len(taken), taken.total() - len(taken)
    print(f"{orders} orders put, {len(taken)} taken; {lost} lost, {twice} twice.")
    return 1 if lost or twice else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except MQIError as error:
        sys.exit(f"The demo cannot go on: {error}")
