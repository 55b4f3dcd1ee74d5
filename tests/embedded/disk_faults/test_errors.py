"""On a full disk the store refuses changes, after a failed sync it answers "unknown", and it quarantines damaged messages.

The preloaded `disk.c` makes the faults below SQLite: ENOSPC on a file system of a given size, EIO from the n-th sync on.
"""

import errno
import signal
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mqflow.embedded.storage.ballast import BALLAST_BYTES
from mqflow.embedded.storage.durable_store import DurableStore
from mqflow.embedded.storage.folder import DamagedFolderError
from mqflow.embedded.storage.medium import NoRoomError
from mqflow.embedded.storage.store import (
    BackoutCounted,
    Change,
    MessageAdded,
    MessageRemoved,
    ObjectDefined,
    QueueCleared,
    QueueDeleted,
)
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason
from tests.embedded.disk_faults.bit_flips import flip_bits
from tests.embedded.disk_faults.disk import Disk, build_disk
from tests.embedded.disk_faults.faulty_calls import Tried
from tests.embedded.disk_faults.scenario import after, found_in, steps
from tests.embedded.storage.stored_messages import (
    DEFINITIONS,
    OTHER_QUEUE,
    QUEUE,
    added,
    database_of,
    defined,
    message,
    opened,
    reopened,
    serials,
    write,
)
from tests.long import DAY, usually

DISK_BYTES = 24_000_000
FREE_BYTES_MIN = 1_000_000
EVERYTHING = 10**9


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Disk:
    return build_disk(tmp_path_factory.mktemp("disk"))


# ---- a call of the start fails


def test_a_start_that_fails_at_one_of_its_first_calls_has_an_error_of_mqflow(disk: Disk, folder: Path) -> None:
    ended = disk.run("tests.embedded.disk_faults.faulty_calls", "0", "0", "1", "12", folder=folder)

    tried = msgspec.json.decode(ended.stdout, type=Tried)
    assert [] == tried.wrong
    assert tried.counts["io error"] == 24
    assert tried.counts["refused to start"] > 0


# ---- the disk is full


def _filled(
    disk: Disk,
    folder: Path,
    others: int,
    ballast: int = BALLAST_BYTES,
    free_bytes_min: int = FREE_BYTES_MIN,
    error: int = errno.ENOSPC,
) -> dict[str, str]:
    arguments = [str(others), str(ballast), str(free_bytes_min)]
    (folder / "data").mkdir(mode=0o700)
    ended = disk.run("tests.embedded.disk_faults.full_disk", *arguments, folder=folder / "data", space=DISK_BYTES, full=error)
    assert (0, "") == (ended.returncode, ended.stderr)
    return {what: answer for what, _, answer in (line.rpartition(" ") for line in ended.stdout.splitlines())}


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT], ids=["full disk", "full quota"])
@pytest.mark.parametrize("others", [0, EVERYTHING], ids=["we filled it", "somebody else filled it"])
def test_a_full_disk_refuses_puts_and_lets_the_queue_be_drained(disk: Disk, folder: Path, others: int, error: int) -> None:
    said = _filled(disk, folder, others, error=error)

    assert said["put"] == said["move"] == "2192"
    assert said["not removed"] == "0"
    assert said["after"] == said["define"] == "done"
    assert said["left"] == "[20000]"


def test_without_ballast_a_full_disk_cannot_be_drained(disk: Disk, folder: Path) -> None:
    """The control test of the ballast, the disk space that the store reserves."""
    said = _filled(disk, folder, EVERYTHING, ballast=0, free_bytes_min=0)

    assert said["not removed"] == said["stored"] != "0"


def _used(data: Path) -> int:
    return sum(path.stat().st_size for path in data.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("arguments", "end", "found"),
    [((), "closed", [60]),
     (("11",), "closed", [60, 49, 38, 27, 16, 5]),
     (("10", "closed"), "closed", [60, 50, 40, 30, 20, 10]),
     (("10", "killed"), "killed", [60, 50, 40, 30, 20, 10])],
    ids=["at one start", "over several starts", "others take the room at each start", "each process is killed"],
)  # fmt: skip
def test_a_disk_that_was_full_before_the_start_can_be_drained_too(
    disk: Disk, folder: Path, arguments: tuple[str, ...], end: str, found: list[int]
) -> None:
    """The store itself has the room for removals, in its files: a disk that is full stays full."""
    data = folder / "data"
    with defined(data) as store:
        for serial in range(1, 61):
            write(store, [MessageAdded(message(serial, bytes(5_000)))])
    used = _used(data)

    said: list[str] = []
    for _ in found:
        used = _used(data) if len(arguments) == 2 else used
        ended = disk.run("tests.embedded.disk_faults.drain_full_disk", *arguments, folder=data, space=used)
        assert ("", 0 if end == "closed" else -signal.SIGKILL) == (ended.stderr, ended.returncode)
        said += ended.stdout.splitlines()

    assert [line for left in found for line in (f"found {left}", "kept 0")] == said
    assert [] == serials(reopened(data))


def test_a_full_disk_without_a_reserve_refuses_the_start_with_2192(disk: Disk, folder: Path) -> None:
    data = folder / "data"
    with defined(data):
        pass
    (data / "ballast").unlink(missing_ok=True)  # it is not there if another program took the room that the close freed

    ended = disk.run("tests.embedded.disk_faults.drain_full_disk", folder=data, space=_used(data))

    assert "MQRC_STORAGE_MEDIUM_FULL (2192)" in ended.stderr.splitlines()[-1]


def test_a_quota_that_refuses_a_write_is_2192_and_the_store_goes_on(disk: Disk, folder: Path) -> None:
    said = _filled(disk, folder, 0, free_bytes_min=-EVERYTHING, error=errno.EDQUOT)

    assert "2192" == said["put"]
    assert "0" == said["not removed"]
    assert said["after"] == said["define"] == "done"


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT], ids=["full disk", "full quota"])
def test_no_room_for_a_new_queue_manager_is_2192(disk: Disk, folder: Path, error: int) -> None:
    (folder / "data").mkdir(mode=0o700)

    ended = disk.run("tests.embedded.disk_faults.drain_full_disk", folder=folder / "data", space=5_000, full=error)

    assert "There is no room for a new queue manager in" in ended.stderr.splitlines()[-1]


def test_below_the_floor_puts_are_refused_and_everything_else_goes_on(tmp_path: Path) -> None:
    with defined(tmp_path) as store:
        write(store, added(1, 2))
    with opened(tmp_path, free_bytes_min=2**62) as (store, _):
        store.write([ObjectDefined("clock", "clock", b"later")], None)
        refused = write(store, added(3))
        removed = write(store, [MessageRemoved(1)])
        emptied = write(store, [QueueCleared(OTHER_QUEUE), QueueDeleted(OTHER_QUEUE)])
    snapshot = reopened(tmp_path)

    assert isinstance(refused, MQIError)
    assert refused.reason == Reason.STORAGE_MEDIUM_FULL
    assert str(tmp_path) in str(refused)
    assert removed is emptied is None
    assert [2] == serials(snapshot)


def test_a_refused_unit_of_work_does_not_take_its_neighbours_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All calls of a group are made together. If the group does not fit, each call gets its own answer."""
    answers: dict[str, Exception | None] = {}
    big = MessageAdded(message(3, bytes(200_000)))

    with defined(tmp_path) as store:
        write(store, added(1, 2))
        monkeypatch.setattr(store._medium, "make", NoRoomFor(store, lambda change: change == big))
        store.write([MessageRemoved(1)], lambda error: answers.update(small=error))
        store.write([big], lambda error: answers.update(big=error))
        store.write([MessageRemoved(2)], lambda error: answers.update(later=error))
        write(store, [])
    snapshot = reopened(tmp_path)

    assert answers["small"] is answers["later"] is None
    assert isinstance(answers["big"], MQIError)
    assert answers["big"].reason == Reason.STORAGE_MEDIUM_FULL
    assert [] == serials(snapshot)


def test_a_write_without_a_waiting_caller_is_made_when_the_disk_has_room_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with defined(tmp_path) as store:
        with monkeypatch.context() as no_room:
            no_room.setattr(store._medium, "make", NoRoomFor(store, lambda _: True))
            store.write(added(1), None)
            write(store, [])
        write(store, [])

    assert [1] == serials(reopened(tmp_path))


def test_a_transaction_without_room_is_refused_whole_and_later_ones_are_made(tmp_path: Path) -> None:
    with defined(tmp_path) as store:
        database_of(store).execute("PRAGMA max_page_count = 20")  # SQLite's own limit
        refused = write(store, [*added(1), MessageAdded(message(2, bytes(200_000)))])
        made = write(store, added(3))

    assert isinstance(refused, MQIError)
    assert made is None
    assert [3] == serials(reopened(tmp_path))


def test_a_delivery_is_noted_until_its_backout_is_counted_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk the count waits. Without the mark, a process killed meanwhile would forget the delivery."""

    def full(*_: object, **__: object) -> None:
        raise NoRoomError

    with defined(tmp_path) as store:
        write(store, added(1))
        mark = store.mark_in_flight(1, 0, harden=False)
        with monkeypatch.context() as no_room:
            no_room.setattr(store._medium, "make", full)
            store.write([BackoutCounted(1, 1)], None)
            store.release_in_flight([mark])
            assert write(store, []) is not None
            noted = store._marks.recorded()
        assert write(store, []) is None

        assert (noted, store._marks.recorded()) == ({1: 0}, {})


class NoRoomFor:
    """A disk that is full for each group with a change that `says` selects. Counts the attempts."""

    def __init__(self, store: DurableStore, says: Callable[[Change], bool]) -> None:
        self.tried = 0
        self._make = store._medium.make
        self._says = says

    def __call__(self, changes: Iterable[Change], *, synced: bool) -> None:
        said = list(changes)
        self.tried += 1
        if any(map(self._says, said)):
            raise NoRoomError
        self._make(said, synced=synced)


def test_a_count_that_had_to_wait_for_room_does_not_take_back_a_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with defined(tmp_path) as store:
        write(store, added(1))
        with monkeypatch.context() as no_room:
            no_room.setattr(store._medium, "make", NoRoomFor(store, lambda change: change == BackoutCounted(1, 1)))
            store.write([BackoutCounted(1, 1)], None)
            write(store, [])
            later = write(store, [BackoutCounted(1, 2)])
        write(store, [])
    [message_of_1] = reopened(tmp_path).messages

    assert (None, 2) == (later, message_of_1.descriptor.backout_count)


def test_a_queue_whose_deletion_had_to_wait_for_room_is_not_defined_again_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later deletion would also delete the new queue with its messages."""
    with defined(tmp_path) as store:
        write(store, added(1, 2))
        with monkeypatch.context() as no_room:
            no_room.setattr(store._medium, "make", NoRoomFor(store, lambda change: isinstance(change, QueueDeleted)))
            store.write([QueueDeleted(QUEUE)], None)
            write(store, [])
            meanwhile = [write(store, DEFINITIONS[1:2]), write(store, added(3)), write(store, [MessageRemoved(1)])]
            of_another = write(store, [QueueCleared(OTHER_QUEUE), *added(5, queue=OTHER_QUEUE)])
        again = [write(store, DEFINITIONS[1:2]), write(store, added(4))]
    snapshot = reopened(tmp_path)

    assert [True, True, False] == [isinstance(each, MQIError) for each in meanwhile]
    assert of_another is None
    assert ([None, None], [4, 5]) == (again, serials(snapshot))
    assert 2 == len(snapshot.queues)


def test_an_owed_write_that_was_made_delays_no_other_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with defined(tmp_path) as store:
        with monkeypatch.context() as no_room:
            no_room.setattr(store._medium, "make", NoRoomFor(store, lambda _: True))
            store.write([ObjectDefined("topic", "T", b"1")], None)
            store.write([QueueDeleted(QUEUE)], None)
            write(store, DEFINITIONS[:1])
        with monkeypatch.context() as no_room:
            no_room.setattr(store._medium, "make", NoRoomFor(store, lambda change: isinstance(change, QueueDeleted)))
            made = [write(store, [ObjectDefined("topic", "T", b"2")]), write(store, DEFINITIONS[1:2])]
    [found] = reopened(tmp_path).objects

    assert [True, False] == [error is None for error in made]
    assert b"2" == found.attributes


def test_owed_writes_cost_a_full_disk_one_attempt_and_are_made_in_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with defined(tmp_path) as store:
        write(store, added(*range(1, 503)))
        with monkeypatch.context() as no_room:
            full = NoRoomFor(store, lambda change: change != MessageRemoved(502))
            no_room.setattr(store._medium, "make", full)
            for serial in range(1, 501):
                store.write([MessageRemoved(serial)], None)
            write(store, [])
            full.tried = 0
            drained = write(store, [MessageRemoved(502)])
            while_full = full.tried
        room = NoRoomFor(store, lambda _: False)
        monkeypatch.setattr(store._medium, "make", room)
        write(store, [])

    assert drained is None
    assert while_full == 2
    assert room.tried < 12
    assert [501] == serials(reopened(tmp_path))


def test_a_backup_without_room_leaves_no_half_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = sqlite3.connect

    def small(*args: Any, **options: Any) -> sqlite3.Connection:
        made: sqlite3.Connection = connect(*args, **options)
        made.execute("PRAGMA max_page_count = 2")
        return made

    with defined(tmp_path / "data") as store:
        with monkeypatch.context() as no_room:
            no_room.setattr("sqlite3.connect", small)
            with pytest.raises(MQIError) as refused:
                store.backup(tmp_path / "copy")
        store.backup(tmp_path / "copy")

    assert refused.value.reason == Reason.STORAGE_MEDIUM_FULL
    assert len(reopened(tmp_path / "copy").queues) == 2


# ---- a sync fails


@pytest.mark.parametrize("at", [8, 13, 21, 34])
def test_after_a_failed_sync_every_answer_is_unknown_and_a_restart_finds_one_of_the_two(
    disk: Disk, folder: Path, at: int
) -> None:
    """SQLite reports the failed commit and hides its rows, but a crash can bring the rows back: "backed out" is wrong."""
    life = steps(5, 60)
    data = folder / "data"

    ended = disk.run("tests.embedded.disk_faults.scenario", "5", "60", "1", folder=data, log=folder / "recording", sync=at)
    refused = [line.split() for line in ended.stdout.splitlines() if line.startswith("refused")]
    snapshot = reopened(data)

    assert (0, "") == (ended.returncode, ended.stderr)
    assert refused
    assert {str(int(Reason.CALL_INTERRUPTED))} == {reason for _, _, reason in refused}
    first = int(refused[0][1])
    assert found_in(snapshot) in [after(life[:number]) for number in (first - 1, first)]


# ---- bits flip


def test_no_flipped_bit_ever_alters_a_message(folder: Path) -> None:
    """Each flip costs at most one message, or the start fails. The store never delivers a message that nobody put."""
    outcomes, wrong = flip_bits(folder, DAY.toordinal(), usually(150, long=300))

    assert [] == wrong
    assert {"harmless", "set aside", "refused"} == set(outcomes), "the flips did not reach everything there is to reach"


def test_without_its_crc_a_flipped_bit_would_be_delivered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control test: SQLite itself does not notice the flipped bit."""
    monkeypatch.setattr("zlib.crc32", lambda *_: 0)
    with defined(tmp_path) as store:
        write(store, [MessageAdded(message(1, b"a plain body"))])
    file = tmp_path / "queue_manager.db"
    file.write_bytes(file.read_bytes().replace(b"a plain body", b"a flain body"))
    [stored] = reopened(tmp_path).messages

    assert stored.body == b"a flain body"


@pytest.mark.parametrize(("right", "wrong"), [(b"body BLOB", b"bodx BLOB"), (b"descriptor BLOB", b"descriptor BLOC")])
def test_a_flipped_bit_in_the_definition_of_a_table_refuses_the_start(tmp_path: Path, right: bytes, wrong: bytes) -> None:
    with defined(tmp_path) as store:
        write(store, added(1))
    file = tmp_path / "queue_manager.db"
    file.write_bytes(file.read_bytes().replace(right, wrong))

    with pytest.raises(DamagedFolderError, match="the definition of a table is damaged"):
        reopened(tmp_path)


def test_a_table_that_another_program_added_does_not_refuse_the_start(tmp_path: Path) -> None:
    with defined(tmp_path) as store:
        write(store, added(1))
    with closing(sqlite3.connect(tmp_path / "queue_manager.db")) as other:
        other.execute("ANALYZE")

    assert [1] == serials(reopened(tmp_path))
