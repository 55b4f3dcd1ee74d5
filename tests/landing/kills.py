"""Kills a lander on a queue manager of its own again and again. The seed selects the call or the step of the storage.

Run as a program: ``python -m tests.landing.kills FOLDER SEED LIVES MODE JOURNAL``. The mode is one of `MODES`, or "unmarked",
which has no marker and shows that the judge notices a defect. JOURNAL is a path, or a URI of an object store. Each life is a
forked child; in some lives a thief gets messages, and before each life a producer puts more. In every second life only the
steps of the storage count. `tests.landing.test_kill` judges the result.
"""

import importlib
import os
import random
import sys
from functools import partial
from pathlib import Path

import obstore

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.folders import folder_at
from mqflow.landing.lander import Lander
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import OpenOption, PutOption
from mqflow.verbs import Connection, GetOptions
from mqflow.world import SYSTEM_CLOCK
from tests.landing.journals import GET, MODES, QUEUE, STATE_QUEUE, Unmarked, land_all, lander_on, put
from tests.runtime.mortal import Death, in_a_child, mortal

_STORAGE: dict[object, tuple[str, ...]] = {
    os: ("fsync",),
    Path: ("rename", "replace", "unlink", "hardlink_to"),
    obstore: ("put", "get", "head", "delete", "list_with_delimiter"),
}
"""The functions through which a folder changes or reads its files: on a disk, and in an object store."""
PER_LIFE = 40
LOOT = "LOOT"


def _define(folder: Path) -> None:
    with EmbeddedQueueManager("QM1", store=SqliteStore(folder / "qm")) as queue_manager:
        for name in (QUEUE, STATE_QUEUE, LOOT):
            queue_manager.administration.define(QueueAttributes(name=name))


def _live(
    folder: Path, life: int, death: Death | None, mode: str, thefts: int, journal: str, *, storage_only: bool = False
) -> None:
    with EmbeddedQueueManager("QM1", store=SqliteStore(folder / "qm")) as queue_manager:
        mine = queue_manager.connect()
        put(mine, life * PER_LIFE, PER_LIFE)
        _steal(mine, thefts)
        connection: Connection = queue_manager.connect()
        make: type[Lander] = Unmarked if mode == "unmarked" else Lander
        if death is not None:
            if not storage_only:
                connection = mortal(connection, death)
            # The syncs of the queue manager do not count: SQLite makes them in C.
            for owner, steps in _STORAGE.items():
                for name in steps:
                    setattr(owner, name, death.around(name, getattr(owner, name)))
        land_all(lander_on(connection, folder_at(journal), SYSTEM_CLOCK, MODES.get(mode, GET), make))
        connection.disconnect()


def _steal(connection: Connection, count: int) -> None:
    """Another consumer gets messages from the head, among them those just backed out, and keeps them for the judge."""
    handle = connection.open(QUEUE, OpenOption.INPUT_SHARED)
    for _ in range(count):
        got = connection.get(handle, GetOptions())
        if got is not None:
            connection.put1(LOOT, MessageDescriptor(persistence=1), got.body, PutOption.NO_SYNCPOINT)


def main(where: str, seed: str, lives: str, mode: str, journal: str) -> None:
    for module in ("pandas", "pyarrow.ipc"):  # loaded once, not in each fork: the import takes longer than a life
        importlib.import_module(module)
    folder, chance = Path(where), random.Random(seed)  # noqa: S311 - the same deaths for the same seed
    assert in_a_child(lambda: _define(folder))
    for life in range(int(lives)):
        only = life % 2 == 1
        death = Death(chance.randint(1, 80 if only else 330), says=True)
        ended = in_a_child(partial(_live, folder, life, death, mode, chance.choice((0, 0, 3)), journal, storage_only=only))
        print("ended" if ended else "killed", life, flush=True)  # noqa: T201 - what it is run for
    assert in_a_child(lambda: _live(folder, int(lives), None, mode, 0, journal))


if __name__ == "__main__":
    main(*sys.argv[1:])
