"""Code that cancels the task of a worker during its commit leaves the unit of work in doubt, and the worker says so."""

import asyncio
from pathlib import Path

import pytest

from mqflow import App
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.events import ConsumerFailed, Event, InDoubt, Settled
from mqflow.mqi.reason_codes import Reason
from mqflow.testing.kit import carry_out
from mqflow.verbs import QueueManager
from tests.doubles import Blocking


@pytest.mark.parametrize("on_a_thread", [False, True], ids=["inline", "on a thread"])
def test_a_cancellation_during_a_commit_is_reported_as_in_doubt(tmp_path: Path, *, on_a_thread: bool) -> None:
    events, seen = list[Event](), list[bytes]()
    done, failed = asyncio.Event(), asyncio.Event()

    def note(event: Event) -> None:
        events.append(event)
        if isinstance(event, ConsumerFailed):
            failed.set()

    app = App(hooks=[note])

    async def main(queue_manager: QueueManager) -> None:

        @app.listener("IN", concurrency=1)
        async def handle(body: bytes) -> None:
            seen.append(body)
            if body == b"last":
                done.set()
            elif len(seen) == 1:
                task = asyncio.current_task()
                assert task is not None
                asyncio.get_running_loop().call_soon(task.cancel)  # it takes effect when the worker waits for its commit

        async with app.running(queue_manager):
            await app.put("IN", b"first")
            await failed.wait()
            await app.put("IN", b"last")
            await done.wait()

    with EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path / "data")) as own:
        carry_out(own.administration, ["DEFINE QLOCAL(IN) DEFPSIST(YES)"])
        asyncio.run(main(Blocking(own) if on_a_thread else own))

    [doubt] = [event for event in events if isinstance(event, InDoubt)]
    assert Reason.CALL_INTERRUPTED == doubt.reason
    settled = [message for event in events if isinstance(event, Settled) for message in event.message_ids]
    assert doubt.message_ids[0] not in settled or seen.count(b"first") == 2
