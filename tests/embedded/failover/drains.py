"""SIGTERM to an application at full load, again and again. It finishes the handlers that run; no message is delivered twice.

`python -m tests.campaign drains` makes thousands. Each application is a process of its own with eight workers on a served queue
manager. Its handlers take up to 20 ms. A signal ends the application at any moment after its first message.
"""

import logging
import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import anyio
from msgspec import Struct

from mqflow import App, Message
from mqflow.app.config.settings import Settings
from mqflow.cli.processes.stop_event import stop_event
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.server.listener import serve
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import Persistence, PutOption
from tests.embedded.failover.stage import NeverError, Stage
from tests.embedded.storage.stored_messages import say
from tests.queue_contents import with_counts

__all__ = ("Drained", "drain", "violations")

IN: Final = "ORDERS.IN"
_HANDLING_S: Final = 0.02
_WORKERS: Final = 8
_BACKLOG: Final = 400
_PERSISTENT: Final = MessageDescriptor(persistence=Persistence.PERSISTENT, format="MQSTR")


class Drained(Struct, kw_only=True):
    """The counts of a run."""

    ended: int = 0
    handled: int = 0
    #: Handlers that were running when the signal came.
    under_way: int = 0
    #: The time from the signal to the end of the process, in milliseconds.
    exit_ms: list[float] = []
    wrong: list[str] = []


def violations(lines: Iterable[str], left: Sequence[tuple[str, int]]) -> list[str]:
    """Return the errors: handlers that were cut off, messages delivered twice, wrong BackoutCounts, lost messages.

    `left` has the messages on the queue at the end, each with its name and BackoutCount.
    """
    begun: Counter[str] = Counter()
    ended: Counter[str] = Counter()
    counted: list[str] = []
    put: set[str] = set()
    for line in lines:
        _, what, name, *more = line.split()
        match what:
            case "put":
                put.add(name)
            case "begin":
                begun[name] += 1
                if int(more[0]):
                    counted.append(name)
            case _:
                ended[name] += 1
    remaining = Counter(name for name, _ in left)
    wrong = [f"{name} was begun and not finished" for name, count in begun.items() if ended[name] < count]
    wrong += [f"{name} was begun {count} times" for name, count in begun.items() if count > 1]
    wrong += [f"{name} was delivered after a backout" for name in counted]
    wrong += [f"{name} lies there after a backout" for name, count in left if count]
    wrong += [f"{name} was handled and is there" for name in begun if remaining[name]]
    return wrong + [f"{name} is lost" for name in put if not begun[name] and not remaining[name]]


def _owner(folder: Path) -> None:
    store = SqliteStore(folder / "data")
    with stop_event(signal.SIGTERM) as ended, EmbeddedQueueManager("QM1", store=store) as queue_manager:
        queue_manager.administration.define(QueueAttributes(name=IN, max_depth=100_000))
        with serve(queue_manager, folder / "qm"):
            say("owner", "ready", "-")
            ended.wait()


def _producer(folder: Path) -> None:
    manager = ServedQueueManager(folder / "qm")
    connection, administration = manager.connect(), manager.administration
    number = 0
    with stop_event(signal.SIGTERM) as ended:
        while not ended.is_set():
            if administration.queue_status(IN).depth > _BACKLOG:
                ended.wait(0.005)
                continue
            for _ in range(50):
                number += 1
                say("producer", "put", number)
                connection.put1(IN, _PERSISTENT, str(number).encode(), PutOption.SYNCPOINT)
            connection.commit()


def _application(folder: Path, drain_s: float) -> None:
    logging.getLogger("mqflow").setLevel(logging.CRITICAL)
    chance = random.Random(os.getpid())  # noqa: S311 - no test depends on these numbers
    app = App(f"embedded+unix:{folder / 'qm'}?qmgr=QM1", settings=Settings(drain_s=drain_s))

    @app.listener(IN, concurrency=_WORKERS)
    async def handle(body: str, message: Message) -> None:
        say("app", "begin", body, message.backout_count)
        await anyio.sleep(chance.random() * _HANDLING_S)
        say("app", "end", body)

    code = app.run()
    if code:
        os._exit(code)


def drain(count: int, *, seed: int, cut: bool = False) -> Drained:
    """End `count` applications, and return the counts. `cut` plants the defect: handlers get no time to finish."""
    result = Drained()
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    folder = Path(tempfile.mkdtemp(prefix="mqflow-drains-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))  # noqa: S108 - the processes end, not the machine
    stage = Stage(folder, 20.0)
    try:
        owner = stage.fork("owner", partial(_owner, folder))
        _wait(stage, "owner ready", 1)
        producer = stage.fork("producer", partial(_producer, folder))
        for _ in range(count):
            _end_one(stage, result, chance, folder, cut=cut)
        stage.end(producer, signal.SIGTERM)
        stage.end(owner, signal.SIGTERM)
        lines = [line for line in (folder / "history").read_text().splitlines() if not line.startswith("owner")]
        result.wrong += violations(lines, _left(folder / "data"))
        result.handled = sum(" end " in line for line in lines)
    except NeverError as error:
        result.wrong.append(str(error))
    finally:
        stage.kill_all()
        shutil.rmtree(folder, ignore_errors=True)
    return result


def _wait(stage: Stage, start: str, count: int) -> None:
    until = time.monotonic() + stage.patience_s
    seen = 0
    while seen < count:
        seen += sum(line.startswith(start) for line in stage.heard())
        if time.monotonic() > until:
            raise NeverError(f"{start!r}: not said")
        time.sleep(0.001)


def _end_one(stage: Stage, result: Drained, chance: random.Random, folder: Path, *, cut: bool) -> None:
    stage.heard()
    application = stage.fork("app", partial(_application, folder, 0.001 if cut else 20.0))
    _wait(stage, "app begin", _WORKERS)
    time.sleep(chance.random() * 0.05)
    stage.heard()
    began = time.monotonic()
    os.kill(application, signal.SIGTERM)
    _, status = os.waitpid(application, 0)
    result.exit_ms.append((time.monotonic() - began) * 1_000)
    del stage.running[application]
    result.ended += 1
    result.under_way += sum(line.startswith("app end") for line in stage.heard())
    if code := os.waitstatus_to_exitcode(status):
        result.wrong.append(f"an application ended with {code}")


def _left(data: Path) -> list[tuple[str, int]]:
    with EmbeddedQueueManager("QM1", store=SqliteStore(data)) as queue_manager:
        return with_counts(queue_manager, IN)
