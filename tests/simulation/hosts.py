"""The owners of the folder of a queue manager in a world: an active process and its standby, with the real store and lock.

A killed process leaves its files as an operating system leaves them: data that was not written is lost. A process serves like
`wire.server`.
"""

import contextlib
import os
import shutil
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar, Final, cast

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.folder import FolderError, FolderInUseError
from mqflow.embedded.storage.requests import Call, Done, Item
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.storage.store import BackoutCounted, Change, MessageRemoved
from mqflow.embedded.wire.protocol import requests as calls
from mqflow.embedded.wire.protocol.addresses import Address
from mqflow.embedded.wire.protocol.end_manner import End, Manner, reason_of
from mqflow.embedded.wire.protocol.streams import Stream
from mqflow.embedded.wire.server.contract import no_host
from mqflow.embedded.wire.server.listener import Room, Server
from mqflow.mqi.errors import MQIError
from mqflow.testing.kit import carry_out
from mqflow.world import World as OutsideWorld
from tests.embedded.disk_faults.disk import memory_folder
from tests.finding import FindingError
from tests.simulation.history import Disk
from tests.simulation.wire import IdlePoller, Network, Signal
from tests.simulation.world import Clock, Process, Waiters, World

__all__ = ("QUEUE_MANAGER", "Folder", "Owner", "folder_with")

QUEUE_MANAGER: Final = "QM1"
_LOOK_S: Final = 0.01
_DISK_S: Final = 0.002


class Folder:
    """The folder that one process owns at a time, and the processes that wait for it."""

    def __init__(self, path: Path, world: World, disk: Disk) -> None:
        self.path: Final = path
        self.world: Final = world
        self.disk: Final = disk
        self.waiters: Waiters = deque()
        #: Every store that was opened on this folder.
        self.stores: Final[list[_Store]] = []
        #: Called with the queue manager of each owner before the owner serves it.
        self.owned: Callable[[EmbeddedQueueManager], None] = lambda _: None

    def freed(self) -> None:
        """Let a standby try again."""
        self.world.wake(self.waiters)


class _Store(SqliteStore):
    """The real store on a slow disk that reports its writes; the process can be killed before and after a write."""

    def __init__(self, folder: Folder, process: Process) -> None:
        self._world = folder.world
        self._told = folder.disk
        #: The serials of the marks, and of the messages that a posted change removes or counts as backed out.
        self._marked: dict[int, int] = {}
        self._settled: set[int] = set()
        super().__init__(folder.path, create=False, world=process.outside, free_bytes_min=0)
        self._process = process
        process.at_death.append(self.crash)
        folder.stores.append(self)

    @property
    def is_open(self) -> bool:
        """Whether a process that is alive has this store open."""
        return self._process.alive and not self._over.is_set()

    def crash(self) -> None:
        """Leave everything as it is: the operating system closes the files. A store that is already closed needs nothing."""
        if not self._over.is_set():
            self._medium.close(write=False)
            self._lock.release()
            self._marks.close()

    def mark_in_flight(self, serial: int, backout_count: int, *, harden: bool) -> int:
        self._tell(lambda: self._told.delivered(serial, backout_count))
        mark = super().mark_in_flight(serial, backout_count, harden=harden)
        self._marked[mark] = serial
        self._settled.discard(serial)
        return mark

    def write(self, changes: Sequence[Change], done: Done | None) -> None:
        self._settled.update(change.serial for change in changes if isinstance(change, MessageRemoved | BackoutCounted))
        super().write(changes, done)

    def release_in_flight(self, marks: Sequence[int]) -> None:
        for serial in (self._marked.pop(mark) for mark in marks):
            if serial not in self._settled:
                self._tell(partial(self._told.given_back, serial))
        super().release_in_flight(marks)

    def _work(self, items: Sequence[Item]) -> bool:
        if any(isinstance(item, Call) for item in items):
            self._world.sleep(self._world.chance.random() * _DISK_S)
        return super()._work(items)

    def _make(self, calls: Sequence[Call]) -> None:
        self._answers = []
        super()._make(calls)
        for call in calls:
            self._tell(partial(self._told.written, call.changes))
        if calls:
            self._world.sleep(self._world.chance.random() * _DISK_S)
        for call, error in self._answers:
            super()._answer(call, error)
            self._told.visible(call.changes)
        self._answers = None

    def _tell(self, tell: Callable[[], None]) -> None:
        """Report the defect, and let the run fail with it: an exception raised here would be taken for a failed disk."""
        try:
            tell()
        except FindingError as wrong:
            self._world.failures.append(wrong)

    _answers: Any = None

    def _answer(self, call: Call, error: MQIError | None) -> None:
        if self._answers is None:
            super()._answer(call, error)
        else:
            self._answers.append((call, error))


class Owner:
    """A process that owns the folder as soon as it is free, and then serves the queue manager."""

    def __init__(self, network: Network, folder: Folder, address: Address, name: str) -> None:
        self.process: Final = Process(network.world, name)
        self.address: Final = address
        self.queue_manager: EmbeddedQueueManager | None = None
        self.server: Server | None = None
        self._network = network
        self._folder = folder
        self._told = self.process.event()
        self._how = End(Manner.IMMEDIATE)
        self.ended = False
        self.process.at_death.append(folder.freed)
        self.process.start(self._live, "owner")

    @property
    def active(self) -> bool:
        """Whether the process owns the folder and is alive."""
        return self.process.alive and self.server is not None and not self.ended

    @property
    def usable(self) -> bool:
        """Whether the process is alive, or will be."""
        return self.process.alive and not self.ended

    def end(self, how: End) -> None:
        """Ask the process to end, as `mqflow qmgr stop` does."""
        self._how = how
        self._told.set()

    def _live(self) -> None:
        store = self._owned()
        self._folder.world.note("owns", self.process.name)
        world = self._network.world
        queue_manager = EmbeddedQueueManager(QUEUE_MANAGER, store=store, world=self.process.outside, groups=_nobody)
        self.queue_manager = queue_manager
        self._folder.owned(queue_manager)
        listener = self._network.listen(self.process, self.address)
        server = Server(
            queue_manager, cast("Any", listener), self.address, _Everybody(), host=no_host,
            world=self.process.outside, silence_s=4.0, room=Room(), signals=lambda: Signal(world),
            idle_poller=IdlePoller(world, self.process),
        )  # fmt: skip
        self.server = server
        while not self._told.wait(_LOOK_S * 100) and not queue_manager.stopped:
            pass
        self._end(queue_manager, server)
        self.ended = True
        self._folder.freed()

    def _end(self, queue_manager: EmbeddedQueueManager, server: Server) -> None:
        """End the queue manager like `cli.processes.queue_manager_process`."""
        how, world = self._how, self._network.world
        queue_manager.quiesce()
        queue_manager.stop(immediate=how.manner is Manner.IMMEDIATE, reason=reason_of(how))
        until = world.now + 2.0
        while not queue_manager.stopped:
            world.sleep(_LOOK_S)
        if how.switchover or how.reconnect or how.manner is not Manner.IMMEDIATE:
            while server.connection_count and world.now < until:
                world.sleep(_LOOK_S)
        server.close()
        with contextlib.suppress(MQIError):
            queue_manager.close()

    def _owned(self) -> _Store:
        while True:
            try:
                return _Store(self._folder, self.process)
            except FolderInUseError:
                self._network.world.wait((self._folder.waiters,))
                self._network.world.sleep(self._network.world.chance.random() * _LOOK_S)
            except FolderError as error:
                if any(store.is_open for store in self._folder.stores):
                    raise FindingError(f"{self.process.name} has the lock of a folder that another process owns") from error
                raise


class _Everybody:
    """Accepts every user name, as a Unix socket accepts the same user."""

    same_machine: ClassVar = False

    def admits(self, raw: Stream) -> bool:
        del raw
        return True

    def secured(self, raw: Stream) -> Stream:
        return raw

    def user_of(self, hello: calls.Hello, owner: str, address: str, stream: Stream) -> str:
        del address, stream
        return hello.user or owner

    def check_user(self, user: str) -> None: ...

    def close(self) -> None: ...


def _nobody(user: str) -> frozenset[str]:
    del user
    return frozenset()


@cache
def _template(commands: tuple[str, ...]) -> tuple[tuple[str, bytes], ...]:
    """Return the files of a queue manager with these definitions. The files are made once, and copied for each run."""
    with memory_folder() as made:
        outside = OutsideWorld(Clock())
        store = SqliteStore(made / "qm", world=outside)
        with EmbeddedQueueManager(QUEUE_MANAGER, store=store, world=outside, groups=_nobody) as queue_manager:
            carry_out(queue_manager.administration, commands)
        return tuple((path.name, path.read_bytes()) for path in (made / "qm").iterdir() if path.is_file())


def folder_with(root: Path, commands: tuple[str, ...]) -> Path:
    """Return a new folder with a queue manager that has these definitions."""
    folder = root / "qm"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    for name, content in _template(commands):
        path = folder / name
        path.write_bytes(content)
        os.chmod(path, 0o600)  # noqa: PTH101 - as the store leaves them
    return folder
