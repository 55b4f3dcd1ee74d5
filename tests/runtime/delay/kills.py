"""Kills a delay processor at a call or in a write that the seed selects. The processor has its own queue manager.

Run as a program: ``python -m tests.runtime.delay.kills FOLDER SEED LIVES DEFECT``. Each life is a forked child that sends
a few messages and moves the due messages. With 0 lives, one life runs without a kill, for a recording of the disk. Each life
prints a mark before and after each send. `tests.runtime.delay.test_kill` judges the marks.
"""

import ctypes
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, OpenOption, Persistence, PutOption
from mqflow.policy.poison.disposition import Settlement
from mqflow.runtime.connection.open_objects import INPUT
from mqflow.runtime.delay import delayed_move
from mqflow.runtime.delay.delayed_move import DelayedMove, DelayedResult
from mqflow.runtime.delay.stage import EMBEDDED_STAGING_QUEUE, Stager
from mqflow.testing.virtual_clock import SeededRandom
from mqflow.verbs import Connection, GetOptions
from mqflow.world import SYSTEM_CLOCK, World
from tests.embedded.disk_faults.scenario import DEFECTS as STORE_DEFECTS
from tests.embedded.storage.stored_messages import say
from tests.runtime.mortal import Death, in_a_child, mortal

LATER, SHUT, DLQ = "LATER", "SHUT", "SYSTEM.DEAD.LETTER.QUEUE"
_FIRST = GetOptions(options=GetOption.BROWSE_FIRST | GetOption.NO_SYNCPOINT)
_SENT_A_LIFE = 8
SENT_RECORDED = 25
MARKS = ("asked", "sent", "backed-out")
"""A mark is written as a number: 1000 times its index in this tuple, plus the number of the message."""


def create(folder: Path) -> None:
    with EmbeddedQueueManager("QM1", store=SqliteStore(folder), dead_letter_queue=DLQ) as queue_manager:
        queue_manager.administration.define(QueueAttributes(name=LATER))
        queue_manager.administration.define(QueueAttributes(name=SHUT))


def live(
    connection: Connection,
    life: int,
    chance: random.Random,
    *,
    sends: int = _SENT_A_LIFE,
    tell: Callable[[str, str], None] = say,
) -> None:
    """Send a few messages that are due now; some of the units of work are backed out. Move all messages after each send."""
    stager = Stager(EMBEDDED_STAGING_QUEUE, World(SYSTEM_CLOCK, SeededRandom(life)))
    descriptor = MessageDescriptor(persistence=Persistence.PERSISTENT)
    for number in range(sends):
        name = f"{life}.{number}"
        tell("asked", name)
        stager.put_on(connection, LATER if number % 3 else SHUT, descriptor, name.encode(), 1)
        if chance.random() < 0.2:
            connection.backout()
            tell("backed-out", name)
        else:
            connection.commit()
            tell("sent", name)
        move_all(connection)


def move_all(connection: Connection) -> None:
    """Move all messages on the staging queue, due or not due: this test does not check due times."""
    handle = connection.open(EMBEDDED_STAGING_QUEUE, INPUT)
    browse = connection.open(EMBEDDED_STAGING_QUEUE, OpenOption.BROWSE)
    shut = connection.open(SHUT, OpenOption.SET)
    connection.set(shut, {10: 1})  # MQIA_INHIBIT_PUT: set only now, because a send checks the target
    move = DelayedMove(connection, handle, EMBEDDED_STAGING_QUEUE, SYSTEM_CLOCK, "test")
    while got := connection.get(browse, _FIRST):
        moved = move.deliver(got.descriptor.message_id)
        assert moved is not None
        assert moved.settlement is Settlement.COMMIT
        connection.commit()
    connection.set(shut, {10: 0})
    for each in (handle, browse, shut):
        connection.close(each)


def _puts_outside() -> None:
    delayed_move._PASS = (  # type: ignore[misc]  # the defect
        delayed_move._PASS & ~PutOption.SYNCPOINT | PutOption.NO_SYNCPOINT
    )


def _commits_first() -> None:
    whole = DelayedMove.deliver

    def deliver(self: DelayedMove, message_id: bytes, *, own_unit: bool = True) -> DelayedResult | None:
        inner = self.connection

        class First:
            def __getattr__(self, name: str) -> Any:
                if name == "put1":
                    inner.commit()
                return getattr(inner, name)

        other: Any = First()
        return whole(
            DelayedMove(other, self.handle, self.staging_queue, self.clock, self.application_name),
            message_id,
            own_unit=own_unit,
        )

    DelayedMove.deliver = deliver  # type: ignore[method-assign]  # the defect


DEFECTS: dict[str, Callable[[], None]] = {
    "none": lambda: None,
    "puts outside the unit of work": _puts_outside,
    "commits before the put": _commits_first,
    "answers before the sync": STORE_DEFECTS["answers before the sync"],
}
"""Defects that are planted on purpose. Tests show that the harness finds them."""


def _life(folder: Path, life: int, seed: str) -> None:
    chance = random.Random(f"{seed}/{life}")  # noqa: S311 - the same seed must give the same kills
    dies_at = chance.randint(1, 260)
    if "DISK_LIBRARY" in os.environ and chance.random() < 0.5:
        dies_at = 1 << 30
        ctypes.CDLL(os.environ["DISK_LIBRARY"]).disk_kill(ctypes.c_int64(chance.randint(1, 120)))
    with EmbeddedQueueManager("QM1", store=SqliteStore(folder)) as queue_manager:
        connection = mortal(queue_manager.connect(), Death(dies_at))
        move_all(connection)
        live(connection, life, chance)


def _end(folder: Path) -> None:
    with EmbeddedQueueManager("QM1", store=SqliteStore(folder)) as queue_manager:
        move_all(queue_manager.connect())


def _recorded(folder: Path, seed: str) -> None:
    """Run one life without a kill, and record its marks between the writes to the disk (see `MARKS`)."""
    disk = ctypes.CDLL(os.environ["DISK_LIBRARY"])

    def mark(what: str, name: str) -> None:
        disk.disk_mark(ctypes.c_int64(MARKS.index(what) * 1_000 + int(name.partition(".")[2])))

    create(folder)
    with EmbeddedQueueManager("QM1", store=SqliteStore(folder)) as queue_manager:
        live(queue_manager.connect(), 0, random.Random(seed), sends=SENT_RECORDED, tell=mark)  # noqa: S311 - as above


def main(where: str, seed: str, lives: str, defect: str = "none") -> None:
    folder = Path(where)
    if int(lives):
        assert in_a_child(lambda: create(folder))
    DEFECTS[defect]()
    if not int(lives):
        _recorded(folder, seed)
        return
    for life in range(int(lives)):
        ended = in_a_child(lambda life=life: _life(folder, life, seed))  # type: ignore[misc]  # mypy cannot infer the default
        say("ended" if ended else "killed")
    assert in_a_child(lambda: _end(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
