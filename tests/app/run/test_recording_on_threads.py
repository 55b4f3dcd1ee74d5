"""Decision records with sessions on threads: the thread puts the record, and the event loop receives the events."""

import threading
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import anyio
import pytest

from mqflow import App
from mqflow.app.config.settings import Settings
from mqflow.cli.processes.queue_manager_process import HostOptions, host
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.wire.server.users_file import UsersFile
from mqflow.events import Event, Warned
from mqflow.policy.poison.disposition_record import DISPOSITION_QUEUE, DispositionRecord, RecordOutcome, many_from_bytes
from mqflow.testing.kit import carry_out
from tests.doubles import Blocking
from tests.queue_contents import taken

ON = Settings(disposition_queue=DISPOSITION_QUEUE)


def define(queue_manager: EmbeddedQueueManager, *queues: str) -> None:
    carry_out(queue_manager.administration, [f"DEFINE QLOCAL('{queue}') DEFPSIST(YES)" for queue in queues])


def recorded(queue_manager: EmbeddedQueueManager) -> Sequence[DispositionRecord]:
    read = list(chain.from_iterable(many_from_bytes(got.body) for got in taken(queue_manager, DISPOSITION_QUEUE)))
    return [each for each in read if each.outcome is not RecordOutcome.HEARTBEAT]


@pytest.mark.parametrize("queues", [("IN", DISPOSITION_QUEUE), ("IN",)], ids=["recorded", "refused"])
def test_a_consumer_records_on_its_thread_and_hooks_stay_on_the_loop(backend: str, queues: Sequence[str]) -> None:
    threads: list[int] = []

    def note(event: Event) -> None:
        if isinstance(event, Warned):
            threads.append(threading.get_ident())

    app = App(name="orders", settings=ON, hooks=[note])

    async def main(queue_manager: EmbeddedQueueManager) -> None:
        async with app.running(Blocking(queue_manager)):
            await app.put("IN", b"one")
            async with app.consumer("IN") as consumer:
                await consumer.receive()
                await consumer.backout()
                await consumer.receive()
                await consumer.commit()

    with EmbeddedQueueManager("QM1") as queue_manager:
        define(queue_manager, *queues)
        anyio.run(main, queue_manager, backend=backend)

        if DISPOSITION_QUEUE in queues:
            told = [(each.outcome, each.backout_count) for each in recorded(queue_manager)]
            assert [(RecordOutcome.ROLLED_BACK, 0), (RecordOutcome.COMMITTED, 1)] == told
            assert [] == threads
        else:
            assert [threading.get_ident()] == threads


def test_the_server_of_a_queue_manager_records_each_release(tmp_path: Path) -> None:
    """The server must record the release: the application that sent the message can have ended when the delay ends."""
    with EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path)) as queue_manager:
        define(queue_manager, "LATER", DISPOSITION_QUEUE)
    users = UsersFile(tmp_path / "users", bytes)
    wanted = HostOptions(name="QM1", folder=tmp_path, addresses=(), users=users, disposition_queue=DISPOSITION_QUEUE)
    app = App(f"embedded+unix:{tmp_path / 'served.sock'}?qmgr=QM1", settings=Settings())
    active = anyio.Event()

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(host, wanted, lambda said: active.set() if "is active" in said else None)
            await active.wait()
            async with app.running():
                await app.put("LATER", b"x", delay=0.01)
                async with app.consumer("LATER") as consumer:
                    assert await consumer.receive(wait_ms=60_000) is not None
                    await consumer.commit()
            group.cancel_scope.cancel()

    anyio.run(main)

    with EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path)) as queue_manager:
        [record] = recorded(queue_manager)
    assert (RecordOutcome.RELEASED, "LATER", "mqflow qmgr/delay processor") == (record.outcome, record.queue, record.consumer)
