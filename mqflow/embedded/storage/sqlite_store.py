"""Storage that survives: one SQLite file, one connection, one writer thread, many units of work to a sync.

Implements `store.Store`. Decides when to sync, what to do when the disk is full, and when to stop for good; how a change
becomes SQL is `rows`, how the file is opened is `database`, what it held is `loading`. Knows no rule of MQ.
"""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Final, assert_never

from mqflow.embedded.storage import rows
from mqflow.embedded.storage.ballast import Reserve
from mqflow.embedded.storage.database import PAGE_BYTES, is_full, open_database
from mqflow.embedded.storage.fence import Fence
from mqflow.embedded.storage.folder import DamagedFolderError, UnsafeFolderError, prepare_folder
from mqflow.embedded.storage.group_commit import Gathering
from mqflow.embedded.storage.in_flight import InFlightMarks
from mqflow.embedded.storage.loading import load_snapshot, read_catalogue, read_epoch
from mqflow.embedded.storage.owner_lock import take_ownership
from mqflow.embedded.storage.requests import Call, Close, Done, Item, Quarantine, Release, Subject
from mqflow.embedded.storage.store import Change, Snapshot
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.world import SYSTEM_CLOCK, THREADS, Clock, Mailbox, Runner, give_way

__all__ = ("FREE_BYTES_MIN", "SqliteStore")

FREE_BYTES_MIN: Final = 16 * 1024 * 1024
"""Below so much free space on the disk no message is added."""

# The log may get this long before it is copied into the database: the ballast has to cover what the database grows by then.
_LOG_PAGES_MAX: Final = 1000
# What a commit needs there beside its changes.
_COMMIT_PAGES: Final = 2


class SqliteStore:
    """The storage of a queue manager in a folder, owned by this process from construction to `close`.

    `free_bytes_min`: below so much free space messages are refused with 2192, while removals go on. Raises a `FolderError`
    where the folder is another process's, a newer version's, or something else's.
    """

    durable = True

    def __init__(
        self,
        folder: Path,
        *,
        create: bool = True,
        runner: Runner = THREADS,
        clock: Clock = SYSTEM_CLOCK,
        free_bytes_min: int = FREE_BYTES_MIN,
    ) -> None:
        self._folder = prepare_folder(folder, create=create)
        self._clock = clock
        #: None while calls are taken; then what every later one is answered.
        self._ended: MQIError | None = None
        #: Held to look at `_ended` and post, or to set it: nothing is posted that nobody would answer.
        self._runner = runner
        self._gate = runner.lock()
        self._mailbox: Mailbox[Item] = runner.mailbox()
        self._gathering = Gathering(self._mailbox, clock, give_way)
        self._lock = take_ownership(self._folder, self._disown)
        try:
            #: Held while the connection is used.
            self._connection = runner.lock()
            self._database = open_database(self._folder)
            try:
                self._fence = Fence(self._lock, self._folder)
                self._marks = InFlightMarks(self._folder.in_flight)
            except BaseException:
                self._database.close()
                raise
        except BaseException:
            self._lock.release()
            raise
        self._reserve = Reserve(self._folder, free_bytes_min, self._reusable_bytes)
        self._catalogue = rows.Catalogue({}, set(), 0)
        #: Calls of the group under way that have no answer yet, in order.
        self._unanswered: dict[Call, None] = {}
        #: Calls nobody waits for that found the disk full, in order: tried again before the next group.
        self._owed: list[Call] = []
        #: What those are about.
        self._owed_subjects: frozenset[Subject] = frozenset()
        #: In-flight marks that are to be forgotten once nothing is owed: they stand for the counts that may be.
        self._outlived: list[int] = []
        self._log_pages = 0
        #: Set when the writer has closed everything, or has stopped for good.
        self._over = runner.event()
        runner.start(self._write_until_closed, f"mqflow-writer-{self._folder.path.name}")

    def load(self) -> Snapshot:
        """Return what is there; deliveries that a crash cut off are counted as backed out, durably.

        Raises `DamagedFolderError` where more than single messages is damaged, and `MQIError` 2192 where the disk is too full
        to note those deliveries. Either way the folder is let go.
        """
        try:
            with self._connection:
                snapshot = self._load()
                self._catalogue = read_catalogue(self._database)
                self._lock.claim(read_epoch(self._database))
            self._marks.clear()
        except (sqlite3.DatabaseError, rows.DamagedRowError, MQIError) as error:
            self._end(Close(write=False))
            raise self._not_loaded(error) from error
        return snapshot

    def write(self, changes: Sequence[Change], done: Done | None) -> None:
        """Have the changes made, all or nothing, after every earlier call's; see `Store.write` for what `done` is told.

        Once the store has ended, `done` is told so at once, from within this call.
        """
        if not self._post(Call(changes, done)) and done is not None:
            done(self._ended)

    def mark_in_flight(self, serial: int, backout_count: int, *, harden: bool) -> int:
        """Note that a unit of work holds this message; return the mark. With `harden` it is synced when this returns."""
        return self._marks.mark(serial, backout_count, harden=harden)

    def release_in_flight(self, marks: Sequence[int]) -> None:
        """Have these marks forgotten, after every earlier `write` is written."""
        self._post(Release(marks))

    def read_bodies(self, serials: Sequence[int]) -> Mapping[int, bytes | None]:
        """Return the bodies of these messages; None where one is damaged (it is quarantined). From any thread.

        Raises `MQIError` 2549 after `close`, and after the store has stopped.
        """
        found: dict[int, bytes | None] = {}
        with self._connection:
            if self._ended is not None:
                raise self._ended
            for serial in serials:
                try:
                    found[serial] = self._read_body(serial)
                except (rows.DamagedRowError, sqlite3.DatabaseError) as error:
                    found[serial] = None
                    self._post(Quarantine(serial, str(error)))
        return found

    def backup(self, folder: Path) -> None:
        """Copy what is durable now into a new folder, which a queue manager can be opened on. Writers wait meanwhile.

        Raises `FileExistsError` where something is there, `MQIError` 2192 or 2208 where it cannot be written, and 2549 after
        `close`.
        """
        target = prepare_folder(folder, create=True)
        if target.database.exists():
            raise FileExistsError(17, "There is a queue manager already", str(folder))
        with self._connection:
            if self._ended is not None:
                raise self._ended
            copy = sqlite3.connect(target.database)
            try:
                self._database.backup(copy)
            except sqlite3.Error as error:
                target.database.unlink(missing_ok=True)  # the half of a copy is none, and would be in the way of the next
                reason = Reason.STORAGE_MEDIUM_FULL if is_full(error) else Reason.FILE_SYSTEM_ERROR
                raise error_for(reason, "Copying", str(folder), detail=str(error)) from error
            finally:
                copy.close()

    def close(self) -> None:
        """Write and sync what is outstanding, and let go of the folder.

        Raises `MQIError` 2549 where that failed. After any failure the folder stays held until the process ends.
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
            return load_snapshot(self._database, held, now)
        except sqlite3.Error as error:
            if not is_full(error):
                raise
            # A queue on a full disk must not become impossible to drain because its owner was started again.
            self._roll_back()
            self._reserve.release()
            return load_snapshot(self._database, held, now)

    def _not_loaded(self, error: Exception) -> Exception:
        if isinstance(error, MQIError):
            return error
        if isinstance(error, sqlite3.Error) and is_full(error):
            return self._full("MQCONN")
        return DamagedFolderError(self._folder.database, str(error))

    def _roll_back(self) -> None:
        if self._database.in_transaction:  # SQLite may have done it itself
            self._database.execute("ROLLBACK")

    def _read_body(self, serial: int) -> bytes:
        row = self._database.execute("SELECT body, body_crc FROM message WHERE serial = ?", (serial,)).fetchone()
        if row is None:
            raise rows.DamagedRowError("it is gone")
        return rows.body_of(*row)

    def _post(self, item: Item) -> bool:
        with self._gate:
            if self._ended is not None:
                return False
            self._mailbox.put(item)
            return True

    def _disown(self) -> None:
        """Take part in nothing: this is a forked child, without the writer's thread and without the lock."""
        self._gate = self._runner.lock()
        self._ended = self._interrupted("this process was forked from the owner and has no part in its folder")

    # ---- everything below runs in the writer's thread

    def _write_until_closed(self) -> None:
        try:
            while self._work(self._gathering.next()):
                pass
        except Exception as error:  # noqa: BLE001 - whatever it was, callers wait: each gets the one answer that is true
            self._stop_for_good(error)

    def _work(self, items: Sequence[Item]) -> bool:
        """Do one mailbox-full: one transaction, one sync, then the answers. Return whether there is more to come."""
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
        if self._log_pages > _LOG_PAGES_MAX:
            self._checkpoint("PASSIVE")
        if closing is not None:
            self._close_everything(closing)
        return closing is None

    def _forget_marks(self) -> None:
        if not self._owed:
            self._marks.release(self._outlived)
            self._outlived.clear()

    def _make_all(self) -> None:
        """Make and answer the calls of the group: together, or one by one where the disk is full."""
        admitted = self._admitted(self._unanswered)
        try:
            self._make(admitted)
        except sqlite3.Error as error:
            if not is_full(error):
                raise
            self._make_room()
            for call in self._admitted(admitted):
                self._make_alone(call)

    def _make_alone(self, call: Call) -> None:
        if self._is_held_up(call):  # an earlier one of the group is owed by now
            self._refuse(call)
            return
        try:
            self._make([call])
        except sqlite3.Error as error:
            if not is_full(error):
                raise
            self._refuse(call)

    def _make_owed(self) -> None:
        """Make what is owed, in order, while there is room: first one call, to see, then ever more at once."""
        at_once = 1
        while self._owed:
            calls = self._owed[:at_once]
            try:
                self._make_together(calls)
            except sqlite3.Error as error:
                if not is_full(error):
                    raise
                return
            del self._owed[:at_once]
            self._owed_subjects = frozenset(chain.from_iterable(call.subjects for call in self._owed))
            at_once *= 2

    def _is_held_up(self, call: Call) -> bool:
        """Whether it has to wait for what is owed: changes to one object are made in order, and a message needs its queue.

        Counts and removals wait for nothing: a queue can be drained whatever is owed.
        """
        return not call.subjects.isdisjoint(self._owed_subjects)

    def _make(self, calls: Sequence[Call]) -> None:
        """Make these calls in one transaction, and answer them. Raises what SQLite raises, with nothing made."""
        if not calls:
            return
        began = self._clock.monotonic()
        self._make_together(calls)
        self._gathering.synced(len(calls), self._clock.monotonic() - began)
        for call in calls:
            self._answer(call, None)

    def _make_together(self, calls: Sequence[Call]) -> None:
        changes = chain.from_iterable(call.changes for call in calls)
        self._transact(self._catalogue.statements(changes), synced=any(_needs_sync(call) for call in calls))
        self._log_pages += _COMMIT_PAGES + sum(call.log_bytes for call in calls) // PAGE_BYTES

    def _transact(self, statements: Iterable[rows.Statement], *, synced: bool) -> None:
        with self._connection:
            self._database.execute(f"PRAGMA synchronous = {'FULL' if synced else 'NORMAL'}")
            self._database.execute("BEGIN IMMEDIATE")
            try:
                for sql, parameters in statements:
                    self._database.executemany(sql, parameters)
                self._database.execute("COMMIT")
            except sqlite3.Error as error:
                if is_full(error):
                    self._roll_back()
                    self._catalogue = read_catalogue(self._database)
                raise

    def _check_fence(self) -> None:
        if broken := self._fence.broken():
            raise UnsafeFolderError(self._folder.path, f"{broken} while it was in use", "Find out who did it")

    def _admitted(self, calls: Iterable[Call]) -> list[Call]:
        """Return the calls there is room for, and refuse the others: those that only take away always fit."""
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
        # It is written twice, into the log and into the database, which has not got yet what else is in the log.
        return self._reserve.admits(2 * added_bytes + self._log_pages * PAGE_BYTES)

    def _reusable_bytes(self) -> int:
        with self._connection:
            [(pages,)] = self._database.execute("PRAGMA freelist_count").fetchall()
        return int(pages) * PAGE_BYTES

    def _make_room(self) -> None:
        self._reserve.release()
        self._checkpoint("TRUNCATE")

    def _checkpoint(self, mode: str) -> None:
        """Copy the log into the database, so that it may start again. A full disk puts that off; any other failure is final."""
        with self._connection:
            try:
                self._database.execute(f"PRAGMA wal_checkpoint({mode})").fetchall()
            except sqlite3.Error as error:
                if not is_full(error):
                    raise
                self._reserve.release()
            else:
                self._log_pages = 0
            finally:
                self._fence.renew()

    def _set_aside(self, damaged: Sequence[Quarantine]) -> None:
        now = self._clock.wall()
        try:
            self._transact([(rows.QUARANTINE, [(found.serial, found.why, now) for found in damaged])], synced=False)
        except sqlite3.Error as error:
            if not is_full(error):
                raise
            # Not noted: the damage is still there to be found again.

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
        if how.write:
            self._checkpoint("TRUNCATE")
        with self._connection:
            self._database.close()
        self._marks.close()
        self._lock.release()
        self._over.set()

    def _stop_for_good(self, error: Exception) -> None:
        """Answer everybody that the outcome is unknown, now and from now on, and never touch the files again.

        After a failed sync the kernel may have dropped what it could not write, and a second sync would report success
        (PostgreSQL's finding of 2018); after a restart the unit of work is there or not. Even closing the connection would
        write, so this thread keeps it, and with it the folder, until the process ends.
        """
        with self._gate:
            self._ended = self._interrupted(f"{type(error).__name__}: {error}")
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
    """Whether somebody waits for it, or it counts a backout: nobody waits for that, but a power cut should not undo it."""
    return call.done is not None or call.counts_backouts
