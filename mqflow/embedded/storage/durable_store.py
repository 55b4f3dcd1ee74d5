"""The durable store: one folder, one medium, one writer thread, and one sync for many units of work.

It implements `store.Store`. It decides when to sync, what to do on a full disk, and when to stop permanently. A medium
(`medium.Medium`) writes the changes to files. A damaged message goes to quarantine: it stays in the files, but is on no queue.
This module knows no file format and no rule of MQ.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from errno import EEXIST
from itertools import chain
from pathlib import Path
from typing import Final, TypeVar, assert_never

from mqflow.embedded.storage.ballast import Reserve
from mqflow.embedded.storage.fence import Fence
from mqflow.embedded.storage.folder import DamagedFolderError, DataFolder, UnsafeFolderError, prepare_folder
from mqflow.embedded.storage.group_commit import GroupCommit
from mqflow.embedded.storage.in_flight_marks import InFlightMarks
from mqflow.embedded.storage.medium import DamagedError, Medium, NoRoomError
from mqflow.embedded.storage.owner_lock import take_ownership
from mqflow.embedded.storage.requests import Call, Close, Done, Item, Quarantine, Release, Subject
from mqflow.embedded.storage.store import Change, Snapshot, StoredIdentifiers, StoredMessage
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.world import SYSTEM_WORLD, Mailbox, World, give_way, woken_together

__all__ = ("FREE_BYTES_MIN", "DurableStore")

FREE_BYTES_MIN: Final = 16 * 1024 * 1024
"""The store adds no message while the disk has less free space."""

# The number of messages that a reader can read before it must let others use the medium.
_HEADS_AT_ONCE: Final = 1024

_Read = TypeVar("_Read")


class DurableStore:
    """The storage of a queue manager in a folder. This process owns the folder from construction to `close`.

    If the disk has less than `free_bytes_min` free bytes, the store refuses new messages with 2192, but never removals. Raises
    a `FolderError` if another process owns the folder, if a newer mqflow wrote it, or if it has other data.
    """

    durable = True

    def __init__(
        self,
        folder: Path,
        open_medium: Callable[[DataFolder], Medium],
        *,
        create: bool = True,
        world: World = SYSTEM_WORLD,
        free_bytes_min: int = FREE_BYTES_MIN,
    ) -> None:
        self._folder = prepare_folder(folder, create=create)
        self._clock = world.clock
        #: None while the store accepts calls; then the error for every later call.
        self._ended: MQIError | None = None
        self._runner = runner = world.runner
        #: Held to set `_ended`, and to read it before a post. Without this lock, a posted call could stay without an answer.
        self._gate = runner.lock()
        #: Held while a thread uses the medium.
        self._medium_free = runner.lock()
        self._mailbox: Mailbox[Item] = runner.mailbox()
        self._group_commit = GroupCommit(self._mailbox, world.clock, give_way)
        self._lock = take_ownership(self._folder, self._disown, runner.event().wait)
        try:
            self._medium = open_medium(self._folder)
            try:
                self._marks = InFlightMarks(self._folder.in_flight)
            except BaseException:
                self._medium.close(write=False)
                raise
        except BaseException:
            self._lock.release()
            raise
        self._fence = Fence(self._lock, self._medium.changed_by_others)
        self._reserve = Reserve(self._folder, free_bytes_min, self._reusable_bytes)
        #: The calls of the present group that have no answer yet, in order.
        self._unanswered: dict[Call, None] = {}
        #: Calls that found the disk full and have no waiting caller, in order. The writer retries them before the next group.
        self._owed: list[Call] = []
        #: The objects that the calls in `_owed` change.
        self._owed_subjects: frozenset[Subject] = frozenset()
        #: In-flight marks to release when `_owed` is empty, because `_owed` can have the backout counts that replace the marks.
        self._outlived: list[int] = []
        #: Set after the writer has closed everything, or has stopped permanently.
        self._over = runner.event()
        runner.start(self._write_until_closed, f"mqflow-writer-{self._folder.path.name}")

    def load(self) -> Snapshot:
        """Return the contents. First, durably increase the backout count of each delivery that a crash interrupted.

        Raises `DamagedFolderError` if the damage is not limited to single messages. Raises `MQIError` 2192 if the disk is too
        full to count those deliveries, and 2208 if the disk fails in another way. In each case the store releases the folder.
        """
        try:
            with self._medium_free:
                snapshot = self._load()
                self._lock.claim(self._medium.epoch())
            self._marks.clear()
        except Exception as error:
            self._end(Close(write=False))
            raise self._not_loaded(error) from error
        return snapshot

    def write(self, changes: Sequence[Change], done: Done | None) -> None:
        """Make the changes, all or nothing, after the changes of all earlier calls. `Store.write` documents `done`.

        After the store has ended, this method calls `done` with the error before it returns.
        """
        if not self._post(Call(changes, done)) and done is not None:
            done(self._ended)

    def mark_in_flight(self, serial: int, backout_count: int, *, harden: bool) -> int:
        """Record that a unit of work has got this message, and return the mark. With `harden`, sync the mark first."""
        return self._marks.mark(serial, backout_count, harden=harden)

    def release_in_flight(self, marks: Sequence[int]) -> None:
        """Release these marks after all earlier calls of `write` are written."""
        self._post(Release(marks))

    def read_messages(self, serials: Sequence[int], body_bytes_max: int) -> Mapping[int, StoredMessage | None]:
        """Return at least the first of these messages, until their bodies together have `body_bytes_max` bytes.

        `Store.read_messages` has the details. Raises `MQIError` 2549 after `close`, or if the store has stopped.
        """
        found: dict[int, StoredMessage | None] = {}
        with self._reading() as medium, closing(medium.read_messages(serials)) as messages:
            for serial, message in zip(serials, messages, strict=True):
                if isinstance(message, DamagedError):
                    found[serial] = None
                    self._post(Quarantine(serial, str(message)))
                    continue
                found[serial] = message
                body_bytes_max -= message.body_bytes
                if body_bytes_max <= 0:
                    break
        return found

    def read_identifiers(self, serials: Sequence[int]) -> Iterator[StoredIdentifiers]:
        """Yield the identifiers of these messages, without damaged messages. Raises like `read_messages`."""
        for start in range(0, len(serials), _HEADS_AT_ONCE):
            with self._reading() as medium:
                batch = serials[start : start + _HEADS_AT_ONCE]
                found = [self._checked(serial, medium.read_identifiers) for serial in batch]
            yield from filter(None, found)

    def backup(self, folder: Path) -> None:
        """Copy the durable contents into a new folder that a queue manager can open. Writers wait during the copy.

        Raises `FileExistsError` if the folder already has a queue manager or a file of one. Raises `MQIError` 2192 or 2208 if
        writing fails, and 2549 after `close`.
        """
        target = prepare_folder(folder, create=True)
        if target.in_use:
            raise FileExistsError(EEXIST, "There is already a queue manager", str(folder))
        if (found := target.remains) is not None:  # no queue manager could start there
            raise FileExistsError(EEXIST, "This file belongs to another queue manager. Name a new folder", str(found))
        with self._reading() as medium:
            try:
                medium.backup(target)
            except NoRoomError as error:
                raise error_for(Reason.STORAGE_MEDIUM_FULL, "Copying", str(folder), detail=str(error)) from error
            except OSError as error:
                raise error_for(Reason.FILE_SYSTEM_ERROR, "Copying", str(folder), detail=str(error)) from error

    def close(self) -> None:
        """Write and sync all pending changes, and release the folder.

        Raises `MQIError` 2549 if writing fails. After any failure the store keeps the folder until the process ends.
        """
        self._end(Close(write=True))

    def _end(self, how: Close) -> None:
        with self._gate:
            if self._ended is not None:
                return
            closed = self._ended = self._interrupted("it was closed")
            self._mailbox.put(how)
        self._over.wait()
        if self._ended is not closed:
            raise self._ended

    def _load(self) -> Snapshot:
        held, now = self._marks.recorded(), self._clock.wall()
        try:
            return self._medium.load(held, now)
        except NoRoomError:
            # The owner must be able to restart on a full disk, because an application may have to drain a queue.
            self._reserve.release()
            self._medium.make_room()
            return self._medium.load(held, now)

    def _not_loaded(self, error: Exception) -> Exception:
        match error:
            case NoRoomError():
                return self._full("MQCONN")
            case DamagedError():
                return DamagedFolderError(self._medium.path, str(error))
            case MQIError():
                return error
            case _:
                return error_for(Reason.FILE_SYSTEM_ERROR, "MQCONN", detail=f"{self._folder.path}: {error}")

    @contextmanager
    def _reading(self) -> Iterator[Medium]:
        """Lock the medium for the block, and yield it."""
        with self._medium_free:
            if self._ended is not None:
                raise self._ended
            yield self._medium

    def _checked(self, serial: int, read: Callable[[int], _Read]) -> _Read | None:
        """Return the record of a message; None for a damaged message, which goes to quarantine."""
        try:
            return read(serial)
        except DamagedError as error:
            self._post(Quarantine(serial, str(error)))
            return None

    def _post(self, item: Item) -> bool:
        with self._gate:
            if self._ended is not None:
                return False
            self._mailbox.put(item)
            return True

    def _disown(self) -> None:
        """End the store in a forked child: the child has neither the writer thread nor the lock of the folder."""
        # New locks, because a thread that exists only in the parent may hold the old ones.
        self._gate, self._medium_free = self._runner.lock(), self._runner.lock()
        self._ended = self._interrupted("this process was forked from the owner and has no part in its folder")

    # ---- everything below runs in the writer's thread

    def _write_until_closed(self) -> None:
        try:
            while self._work(self._group_commit.next()):
                pass
        except Exception as error:  # noqa: BLE001 - callers wait, and each must get an answer after any error
            self._stop_for_good(error)

    def _work(self, items: Sequence[Item]) -> bool:
        """Carry out one group: one transaction, one sync, then the answers. Return whether further groups can follow."""
        damaged: list[Quarantine] = []
        closing: Close | None = None
        for item in items:
            match item:
                case Call():
                    self._unanswered[item] = None
                case Release():
                    self._outlived.extend(item.marks)
                case Quarantine():
                    damaged.append(item)
                case Close():
                    closing = item
                case _:
                    assert_never(item)
        if self._unanswered or self._owed or damaged or (closing is not None and closing.write):
            self._check_fence()
        self._make_owed()
        self._make_all()
        self._forget_marks()
        if damaged:
            self._set_aside(damaged)
        self._tidy()
        if closing is not None:
            self._close_everything(closing)
        return closing is None

    def _forget_marks(self) -> None:
        if not self._owed:
            self._marks.release(self._outlived)
            self._outlived.clear()

    def _make_all(self) -> None:
        """Carry out the calls of the group together, and answer them.

        If the disk is full, carry them out one by one, and refuse each call that has no room.
        """
        admitted = self._admitted(self._unanswered)
        try:
            self._make(admitted)
        except NoRoomError:
            self._make_room()
            for call in self._admitted(admitted):
                self._make_alone(call)

    def _make_alone(self, call: Call) -> None:
        if self._is_held_up(call):  # an earlier call of the group is now in `_owed`
            self._refuse(call)
            return
        try:
            self._make([call])
        except NoRoomError:
            self._refuse(call)

    def _make_owed(self) -> None:
        """Retry the calls in `_owed`, in order, while the disk has room.

        The first transaction has one call, the second two, the third four.
        """
        at_once = 1
        while self._owed:
            calls = self._owed[:at_once]
            try:
                self._make_together(calls)
            except NoRoomError:
                return
            del self._owed[:at_once]
            self._owed_subjects = frozenset(chain.from_iterable(call.subjects for call in self._owed))
            at_once *= 2

    def _is_held_up(self, call: Call) -> bool:
        """Return whether the call must wait, because a call in `_owed` changes the same object.

        Changes to one object stay in order, and a message must not come before its queue. Backout counts and removals never
        wait, so an application can always drain a queue.
        """
        return not call.subjects.isdisjoint(self._owed_subjects)

    def _make(self, calls: Sequence[Call]) -> None:
        """Make these calls in one transaction, and answer them. On a full disk, make nothing and raise `NoRoomError`."""
        if not calls:
            return
        began = self._clock.monotonic()
        self._make_together(calls)
        self._group_commit.synced(len(calls), self._clock.monotonic() - began)
        with woken_together():
            for call in calls:
                self._answer(call, None)

    def _make_together(self, calls: Sequence[Call]) -> None:
        changes = chain.from_iterable(call.changes for call in calls)
        with self._medium_free:
            self._medium.make(changes, synced=any(_needs_sync(call) for call in calls))

    def _check_fence(self) -> None:
        if broken := self._fence.broken():
            raise UnsafeFolderError(self._folder.path, f"{broken} while it was in use", "Find the process that did it")

    def _admitted(self, calls: Iterable[Call]) -> list[Call]:
        """Return the calls for which the disk has room, and refuse all others. A call that only removes always has room."""
        calls = list(calls)
        total = sum(call.added_bytes for call in calls)
        if not self._owed and (not total or self._has_room_for(total)):
            return calls
        admitted, total = [], 0
        for call in calls:
            if self._is_held_up(call) or (call.added_bytes and not self._has_room_for(total + call.added_bytes)):
                self._refuse(call)
            else:
                admitted.append(call)
                total += call.added_bytes
        return admitted

    def _has_room_for(self, added_bytes: int) -> bool:
        needed_bytes = self._medium.needed_bytes(added_bytes)
        if self._reserve.admits(needed_bytes):
            return True
        if self._reserve.held or self._reusable_bytes() < needed_bytes:
            return False
        with self._medium_free, self._reserve.keeping():  # the queues are drained: the room of the log becomes the ballast file
            self._medium.shrink()
        return self._reserve.admits(self._medium.needed_bytes(added_bytes))

    def _reusable_bytes(self) -> int:
        with self._medium_free:
            return self._medium.reusable_bytes()

    def _make_room(self) -> None:
        self._reserve.release()
        with self._medium_free:
            self._medium.make_room()

    def _tidy(self) -> None:
        """Let the medium free disk space, if that is due. A full disk delays this. Any other failure ends the store."""
        try:
            with self._medium_free:
                self._medium.tidy()
        except NoRoomError:
            self._reserve.release()

    def _set_aside(self, damaged: Sequence[Quarantine]) -> None:
        # Without room for this record, the next load finds the damage again.
        with contextlib.suppress(NoRoomError), self._medium_free:
            self._medium.set_aside([(found.serial, found.why) for found in damaged], self._clock.wall())

    def _answer(self, call: Call, error: MQIError | None) -> None:
        del self._unanswered[call]
        if call.done is not None:
            call.done(error)

    def _refuse(self, call: Call) -> None:
        self._answer(call, self._full("MQCMIT"))
        if call.done is None:
            self._owed.append(call)
            self._owed_subjects |= call.subjects

    def _close_everything(self, how: Close) -> None:
        with self._medium_free, self._reserve.keeping():
            self._medium.close(write=how.write)
        self._marks.close()
        self._lock.release()
        self._over.set()

    def _stop_for_good(self, error: Exception) -> None:
        """Answer every present and later call with 2549 (outcome unknown), and never use the files again.

        After a failed sync, the kernel may have dropped the unwritten pages, and a second sync would report success
        (PostgreSQL's finding of 2018). After a restart, each unit of work is complete or absent. Even closing the medium would
        write, so this thread keeps the medium and the folder until the process ends.
        """
        with self._gate:
            self._ended = self._interrupted(f"{type(error).__name__}: {str(error).rstrip('.')}")
        while not self._mailbox.empty():
            item = self._mailbox.get()
            if isinstance(item, Call):
                self._unanswered[item] = None
        for call in self._unanswered:
            if call.done is not None:
                call.done(self._ended)
        self._over.set()
        self._runner.event().wait()

    def _full(self, verb: str) -> MQIError:
        return error_for(Reason.STORAGE_MEDIUM_FULL, verb, detail=f"There is no room left in {self._folder.path}")

    def _interrupted(self, why: str) -> MQIError:
        return error_for(
            Reason.CALL_INTERRUPTED, "MQCMIT", detail=f"The store in {self._folder.path} takes no more calls: {why}"
        )


def _needs_sync(call: Call) -> bool:
    """Return whether a power cut must not undo the call: a caller waits for it, or it counts a backout."""
    return call.done is not None or call.counts_backouts
