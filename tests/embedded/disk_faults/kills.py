"""A queue manager that is used and killed, again and again. A process prints each call before the call and after its return.

Run as a program: each life is a forked child, killed at a point that the seed decides. The child opens the folder itself (the
owner is killed), or connects to the socket of a served queue manager (an application is killed). The printed lines, one system
call for each line, are the history that `failover.checking` reads.
"""

import ctypes
import os
import random
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

from mqflow.embedded.administration.interface import Administration
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.durable_store import DurableStore
from mqflow.embedded.storage.requests import Done
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.storage.store import Change
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, OpenOption, Persistence, PutOption
from mqflow.verbs import GetOptions, QueueManager
from tests.embedded.storage.stored_messages import say

IN, DONE = "ORDERS.IN", "ORDERS.DONE"
_PERSISTENT = MessageDescriptor(persistence=Persistence.PERSISTENT)
_GET = GetOptions(options=GetOption.SYNCPOINT)
_OPERATIONS = 30


class _Life:
    """The calls of one process until it is killed."""

    def __init__(self, queue_manager: QueueManager, life: int, chance: random.Random) -> None:
        self.connection = queue_manager.connect()
        self.source = self.connection.open(IN, OpenOption.INPUT_SHARED | OpenOption.OUTPUT)
        self.target = self.connection.open(DONE, OpenOption.OUTPUT)
        self.life = life
        self.chance = chance
        self.made = 0

    def put(self) -> None:
        name = self._new_name()
        say(self.life, "put", name)
        self._die_perhaps()
        self.connection.put(self.source, _PERSISTENT, name.encode(), PutOption.NO_SYNCPOINT)
        say(self.life, "put-done", name)

    def consume(self) -> None:
        """Get one to three messages under syncpoint, put as many on the other queue, and commit or back out."""
        moved: list[str] = []
        for _ in range(self.chance.randint(1, 3)):
            say(self.life, "get", 1)
            got = self.connection.get(self.source, _GET)
            if got is None:
                say(self.life, "got")
                break
            say(self.life, "got", f"{got.body.decode()}={got.descriptor.backout_count}")
            self._die_perhaps()
            moved.append(f"{got.body.decode()}>{self._new_name()}")
            self.connection.put(self.target, _PERSISTENT, moved[-1].encode(), PutOption.SYNCPOINT)
            self._die_perhaps()
        if self.chance.random() < 0.6:
            self.connection.commit()
            say(self.life, "move-done", *moved)
        else:
            self.connection.backout()
            say(self.life, "move-not", *moved)

    def _new_name(self) -> str:
        self.made += 1
        return f"{self.life}.{self.made}"

    def _die_perhaps(self) -> None:
        if self.chance.random() < 2 / _OPERATIONS:
            os.kill(os.getpid(), signal.SIGKILL)


def _live(place: Path, life: int, seed: int) -> None:
    chance = random.Random(f"{seed}/{life}")  # noqa: S311 - the same kills for the same seed
    if "DISK_LIBRARY" in os.environ and chance.random() < 0.7:
        ctypes.CDLL(os.environ["DISK_LIBRARY"]).disk_kill(ctypes.c_int64(chance.randint(1, 150)))
    queue_manager = ServedQueueManager(place) if place.is_socket() else EmbeddedQueueManager("QM1", store=SqliteStore(place))
    living = _Life(queue_manager, life, chance)
    while True:
        chance.choice([living.put, living.consume])()


def _forget_what_is_held() -> None:
    DurableStore.mark_in_flight = lambda *_, **__: 0  # type: ignore[method-assign]  # the defect


def _answer_before_writing() -> None:
    whole = DurableStore.write

    def write(self: DurableStore, changes: Sequence[Change], done: Done | None) -> None:
        if done is not None:
            done(None)
        whole(self, changes, None)

    DurableStore.write = write  # type: ignore[method-assign]  # the defect


DEFECTS: dict[str, Callable[[], None]] = {
    "none": lambda: None,
    "forgets what is held": _forget_what_is_held,
    "answers before writing": _answer_before_writing,
}
"""Defects that the harness must notice."""


def define_queues(administration: Administration) -> None:
    for name in (IN, DONE):
        administration.define(QueueAttributes(name=name, max_depth=100_000))


def _create(folder: Path) -> None:
    if os.fork() == 0:  # the process that forks the lives must have no part of the store open
        with EmbeddedQueueManager("QM1", store=SqliteStore(folder)) as queue_manager:
            define_queues(queue_manager.administration)
        os._exit(0)
    os.wait()


def _wait_until_noticed(socket_path: Path) -> None:
    """Wait until the owner has backed out the unit of work of the killed application."""
    administration = ServedQueueManager(socket_path).administration
    while administration.queue_status(IN).open_input_count:
        threading.Event().wait(0.001)
    administration.close()


def main(where: str, seed: str, lives: str, defect: str = "none") -> None:
    DEFECTS[defect]()
    warnings.filterwarnings(
        "ignore", "This process .* is multi-threaded", DeprecationWarning
    )  # of the fork, from Python 3.12 on
    place = Path(where)
    if not place.is_socket():
        _create(place)
    for life in range(int(lives)):
        child = os.fork()  # before the folder is opened: the child opens it
        if child == 0:
            try:
                _live(place, life, int(seed))
            except BaseException:  # noqa: BLE001 - a kill ends the child; any other end is a failure of the test
                traceback.print_exc()
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
        if place.is_socket():
            _wait_until_noticed(place)


if __name__ == "__main__":
    main(*sys.argv[1:])
