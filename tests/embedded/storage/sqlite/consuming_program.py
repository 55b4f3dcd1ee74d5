"""A program for `test_syncs`: consumes durable messages one by one, and prints the number of commits in each of their groups.

`getpriority` marks the measured part for strace. The first call is in the first handler, before any commit; the second call
comes after the last commit.
"""

import os
import sys
from pathlib import Path
from typing import Final

import anyio

from mqflow import App, Backout
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.group_commit import GroupCommit
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import OpenOption, Persistence, PutOption

_QUEUE: Final = "SYSTEM.DEFAULT.LOCAL.QUEUE"
_groups: list[int] = []


def main(folder: str, messages: int, workers: int, backend: str) -> None:
    with EmbeddedQueueManager("QM1", store=SqliteStore(Path(folder))) as queue_manager:
        connection = queue_manager.connect()
        handle = connection.open(_QUEUE, OpenOption.OUTPUT)
        for _ in range(messages):
            connection.put(handle, MessageDescriptor(persistence=Persistence.PERSISTENT), bytes(1_024), PutOption.SYNCPOINT)
        connection.commit()
        connection.disconnect()
        anyio.run(_consume, queue_manager, messages, workers, backend=backend)
        _mark()
        sys.stdout.write(" ".join(map(str, _groups)))


async def _consume(queue_manager: EmbeddedQueueManager, messages: int, workers: int) -> None:
    app, over, handled = App(), anyio.Event(), 0

    @app.listener(_QUEUE, concurrency=workers, backout=Backout(threshold=3, queue="SYSTEM.DEAD.LETTER.QUEUE"))
    async def handle(body: bytes) -> None:
        nonlocal handled
        handled += 1
        if handled == 1:
            _mark()
            _groups.clear()
        if handled == messages:
            over.set()

    async with app.running(queue_manager):
        await over.wait()


def _mark() -> None:
    os.getpriority(os.PRIO_PROCESS, 0)


def _counted(group_commit: GroupCommit, made: int, took_s: float) -> None:
    _groups.append(made)
    _synced(group_commit, made, took_s)


_synced = GroupCommit.synced
GroupCommit.synced = _counted  # type: ignore[assignment, method-assign]  # a count of the groups, beside the code under test

if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
