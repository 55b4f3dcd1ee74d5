"""The promises of every durable store, whatever happens to the process. Tests of disk faults are in a folder of their own."""

import os
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.folder import ForeignFolderError, UnsafeFolderError
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.storage.store import (
    BackoutCounted,
    Change,
    MemoryStore,
    MessageAdded,
    MessageRemoved,
    ObjectDefined,
    ObjectDeleted,
    QueueCleared,
    QueueDefined,
    QueueDeleted,
    QueueManagerDefined,
    Snapshot,
    StoredMessage,
)
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.attributes.queue_manager import QueueManagerAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason
from tests.embedded.storage.stored_messages import (
    DEFINITIONS,
    OTHER_QUEUE,
    QUEUE,
    added,
    defined,
    message,
    opened,
    reopened,
    serials,
    write,
)

OTHER = added(3, queue=OTHER_QUEUE)


def test_a_store_that_was_never_used_holds_nothing(tmp_path: Path) -> None:
    snapshot = reopened(tmp_path / "data")

    assert snapshot.queue_manager is None
    assert snapshot.queues == ()
    assert serials(snapshot) == []
    assert snapshot.next_serial == 1


def test_a_folder_that_is_another_queue_managers_is_let_go_of(tmp_path: Path) -> None:
    EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path / "data")).close()
    with pytest.raises(MQIError):
        EmbeddedQueueManager("QM2", store=SqliteStore(tmp_path / "data"))

    EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path / "data")).close()


def test_a_folder_with_objects_that_this_mqflow_does_not_know_is_let_go_of(tmp_path: Path) -> None:
    with EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path)):
        pass
    with opened(tmp_path) as (store, _):
        write(store, [ObjectDefined("one of tomorrow", "X", b"\x80")])

    with pytest.raises(MQIError) as refused:
        EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path))

    assert Reason.OBJECT_TYPE_ERROR == refused.value.reason
    reopened(tmp_path)


def test_a_folder_that_could_not_be_opened_whole_is_let_go_of(tmp_path: Path) -> None:
    with defined(tmp_path / "data"):
        pass
    (tmp_path / "data" / "in_flight").rename(tmp_path / "in_flight")
    (tmp_path / "data" / "in_flight").mkdir()
    with pytest.raises(IsADirectoryError) as refused:
        SqliteStore(tmp_path / "data")
    (tmp_path / "data" / "in_flight").rmdir()

    assert len(reopened(tmp_path / "data").queues) == 2
    del refused  # the error refers to the failed store


def test_definitions_come_back_as_they_were_last_made(tmp_path: Path) -> None:
    renamed = QueueManagerAttributes(name="QM1", dead_letter_queue="SYSTEM.DEAD.LETTER.QUEUE")
    altered = QueueAttributes(name=QUEUE, backout_threshold=3, backout_requeue_queue=OTHER_QUEUE)

    with defined(tmp_path) as store:
        write(store, [QueueManagerDefined(renamed), QueueDefined(altered)])
    snapshot = reopened(tmp_path)

    assert renamed == snapshot.queue_manager
    assert altered in snapshot.queues
    assert {QUEUE, OTHER_QUEUE} == {found.name for found in snapshot.queues}


def test_objects_come_back_as_they_were_last_made_in_the_order_of_their_first_definition(tmp_path: Path) -> None:
    with defined(tmp_path) as store:
        write(store, [ObjectDefined("topic", "PRICES", b"first"), ObjectDefined("channel", "PRICES", b"another kind")])
        write(store, [ObjectDefined("topic", "NEWS", b"news"), ObjectDefined("topic", "PRICES", b"altered")])
        write(store, [ObjectDeleted("topic", "NEWS"), ObjectDeleted("topic", "NEVER.WAS")])
    snapshot = reopened(tmp_path)

    assert (
        ObjectDefined("topic", "PRICES", b"altered"),
        ObjectDefined("channel", "PRICES", b"another kind"),
    ) == snapshot.objects


@settings(max_examples=15, deadline=None)
@given(
    messages=st.lists(
        st.builds(
            dict,
            queue=st.sampled_from([QUEUE, OTHER_QUEUE]),
            order_priority=st.integers(-(2**63), 2**63 - 1),  # the priority of a forged descriptor is not checked
            expires_at=st.none() | st.floats(0, 2**40),
            put_at=st.floats(0, 2**40),
            body=st.binary(max_size=200),
            descriptor=st.builds(
                MessageDescriptor,
                message_id=st.binary(min_size=24, max_size=24),
                format=st.text(st.characters(codec="latin-1"), max_size=8),
                report=st.integers(-(2**31), 2**31 - 1),
                reply_to_queue=st.text(max_size=48),
                put_application_name=st.text(max_size=28),
                put_date=st.text("0123456789", max_size=8),
                backout_count=st.integers(0, 100),
            ),
        ),
        max_size=8,
    )
)
def test_every_message_comes_back_as_it_was_put(
    tmp_path_factory: pytest.TempPathFactory, messages: list[dict[str, object]]
) -> None:
    folder = tmp_path_factory.mktemp("data")
    put = [
        msgspec.convert(parts | {"serial": serial, "body_bytes": len(parts["body"])}, StoredMessage)  # type: ignore[arg-type]  # bytes
        for serial, parts in enumerate(messages, start=1)
    ]

    with defined(folder) as store:
        assert write(store, [MessageAdded(each) for each in put]) is None

    assert put == list(reopened(folder).messages)


@pytest.mark.parametrize(
    ("calls", "left"),
    [
        pytest.param([added(5), added(2), added(9), added(1)], [1, 2, 5, 9], id="in order of arrival, however committed"),
        pytest.param([added(1, 2), [MessageRemoved(1)]], [2], id="without a removed message"),
        pytest.param([[*added(1, 2), *OTHER, QueueCleared(QUEUE)]], [3], id="CLEAR takes the messages of its queue only"),
        pytest.param([[*added(1, 2), *OTHER, QueueDeleted(QUEUE)]], [3], id="DELETE takes the messages of its queue only"),
        pytest.param([[*added(1, 2), *OTHER, QueueCleared(QUEUE, (1, 2))]], [3], id="CLEAR of known messages"),
        pytest.param([[*added(1, 2), *OTHER, QueueDeleted(QUEUE, (1, 2))]], [3], id="DELETE of known messages"),
        pytest.param([[*added(1), QueueCleared("TEMPORARY")]], [1], id="CLEAR of a queue that was never written"),
        pytest.param([[*added(1), QueueDeleted("TEMPORARY")]], [1], id="DELETE of a queue that was never written"),
        pytest.param([[*added(1), QueueCleared(QUEUE), *added(2)]], [2], id="with a message put after a CLEAR in one call"),
    ],
)
@pytest.mark.parametrize("waits", [True, False], ids=["each call waits", "no call waits"])
def test_the_messages_that_come_back(tmp_path: Path, calls: list[list[Change]], left: list[int], *, waits: bool) -> None:
    with defined(tmp_path) as store:
        for changes in calls:
            if waits:
                assert write(store, changes) is None
            else:
                store.write(changes, None)

    assert left == serials(reopened(tmp_path))


def test_a_queue_defined_again_starts_empty(tmp_path: Path) -> None:
    again = QueueDefined(QueueAttributes(name=QUEUE, max_depth=3))

    with defined(tmp_path) as store:
        write(store, added(1))
        write(store, [QueueDeleted(QUEUE), again, *added(2)])
    snapshot = reopened(tmp_path)

    assert [2] == serials(snapshot)
    assert again.attributes in snapshot.queues


def test_writes_without_a_waiting_caller_are_on_the_disk_after_a_close(tmp_path: Path) -> None:
    with defined(tmp_path) as store:
        for serial in range(1, 50):
            store.write(added(serial), None)

    assert list(range(1, 50)) == serials(reopened(tmp_path))


def test_answers_come_in_the_order_of_the_calls(tmp_path: Path) -> None:
    answered: list[int] = []

    with defined(tmp_path) as store:
        for serial in range(1, 200):
            store.write(added(serial), partial(_note, answered, serial))
        write(store, [])

    assert list(range(1, 200)) == answered


def _note(answered: list[int], serial: int, error: Exception | None) -> None:
    assert error is None
    answered.append(serial)


@pytest.mark.parametrize(
    ("held_at", "harden", "written", "released", "expected"),
    [
        pytest.param(None, False, 2, False, 2, id="it was written"),
        pytest.param(0, False, None, False, 1, id="the message was held when the owner ended"),
        pytest.param(4, True, None, False, 5, id="it was held on a queue with HARDENBO"),
        pytest.param(0, False, None, True, 0, id="it was released"),
        pytest.param(0, False, 1, False, 1, id="the owner ended between the write of the backout and the release of the mark"),
    ],
)
def test_a_backout_count_comes_back_and_is_the_same_however_often_the_store_is_opened(
    tmp_path: Path, held_at: int | None, *, harden: bool, written: int | None, released: bool, expected: int
) -> None:
    with defined(tmp_path) as store:
        write(store, added(1, 2))
        marks = [] if held_at is None else [store.mark_in_flight(2, held_at, harden=harden)]
        store.write([] if written is None else [BackoutCounted(2, written)], None)
        store.release_in_flight(marks if released else [])
    reopened(tmp_path)

    assert [0, expected] == [stored.descriptor.backout_count for stored in reopened(tmp_path).messages]


def test_a_serial_is_never_given_again_after_its_message_is_gone(tmp_path: Path) -> None:
    with defined(tmp_path) as store:
        write(store, added(41))
        write(store, [MessageRemoved(41)])

    assert reopened(tmp_path).next_serial > 41


def test_a_serial_far_ahead_is_noted_as_given(tmp_path: Path) -> None:
    with defined(tmp_path) as store:
        write(store, added(10**9))
        write(store, [MessageRemoved(10**9)])

    assert reopened(tmp_path).next_serial > 10**9


def test_messages_stay_on_the_disk_until_they_are_asked_for(tmp_path: Path) -> None:
    put = [message(1, bytes(100_000)), message(2, b"short", queue=OTHER_QUEUE), message(3)]

    with defined(tmp_path) as store:
        write(store, [MessageAdded(each) for each in put])
    with opened(tmp_path) as (store, snapshot):
        found = {entry.queue: (entry.order_priority, list(entry.serials)) for entry in snapshot.serials}
        messages = store.read_messages([3, 1, 2], 1_000_000)

    assert {QUEUE: (0, [1, 3]), OTHER_QUEUE: (0, [2])} == found
    assert [put[2], put[0], put[1]] == list(messages.values())


def test_messages_can_be_read_from_any_thread_while_others_write(tmp_path: Path) -> None:
    read: list[StoredMessage | None] = []

    with defined(tmp_path) as store:
        write(store, added(1))
        reader = threading.Thread(target=lambda: read.extend(store.read_messages([1], 0)[1] for _ in range(200)))
        reader.start()
        for serial in range(2, 100):
            write(store, added(serial))
        reader.join()

    assert [message(1)] * 200 == read


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("not a folder")

    with pytest.raises(ForeignFolderError, match="it is a file"):
        SqliteStore(tmp_path / "data")


def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data").chmod(0o777)

    with pytest.raises(UnsafeFolderError, match="chmod go-w"):
        SqliteStore(tmp_path / "data")


def test_after_close_nothing_is_taken_any_more(tmp_path: Path) -> None:
    with opened(tmp_path) as (store, _):
        pass
    answer = write(store, DEFINITIONS)

    assert isinstance(answer, MQIError)
    assert answer.reason == Reason.CALL_INTERRUPTED
    with pytest.raises(MQIError, match="it was closed"):
        store.read_messages([1], 0)


def test_closing_twice_is_closing_once(tmp_path: Path) -> None:
    with opened(tmp_path) as (store, _):
        store.close()

    assert serials(reopened(tmp_path)) == []


_FORKING = """
import os, sys, warnings
from pathlib import Path
from tests.embedded.storage.stored_messages import added, defined, reopened, serials, write
warnings.simplefilter("ignore")
with defined(Path(sys.argv[1])) as store:
    write(store, added(1))
    if os.fork() == 0:
        sys.exit(0)  # an ordinary end: every object of the child is finalised
    os.wait()
    write(store, added(2))
    os.kill(os.getpid(), 9)
"""


def test_the_ordinary_end_of_a_forked_child_leaves_the_owners_log_alone(tmp_path: Path) -> None:
    """SQLite would copy the log into the database and delete the log, as if no other process used it."""
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    subprocess.run([sys.executable, "-c", _FORKING, str(tmp_path)], cwd=root, check=False, env=environment)

    assert [1, 2] == serials(reopened(tmp_path))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # Python 3.12 and later; this test forks on purpose
def test_a_forked_child_can_neither_write_nor_hurt_the_owner(tmp_path: Path) -> None:
    with defined(tmp_path) as store:
        write(store, added(1))
        child = os.fork()
        if child == 0:  # the exit status is the child's answer: no handler of the test run changes it
            answers: list[Exception | None] = []
            store.write(added(2), answers.append)
            store.close()
            os._exit(0 if isinstance(answers[0], MQIError) and "forked" in str(answers[0]) else 1)
        _, status = os.waitpid(child, 0)
        write(store, added(3))

    assert os.waitstatus_to_exitcode(status) == 0
    assert [1, 3] == serials(reopened(tmp_path))


def test_only_their_owner_can_read_the_files_of_a_store_and_of_its_backup(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with defined(tmp_path / "data") as store:
            store.backup(tmp_path / "copy")
    finally:
        os.umask(before)

    found = [*(tmp_path / "data").rglob("*"), *(tmp_path / "copy").rglob("*")]
    assert {0o600} == {path.stat().st_mode & 0o777 for path in found if path.is_file()}
    folders = [tmp_path / "data", tmp_path / "copy", *(path for path in found if path.is_dir())]
    assert {0o700} == {path.stat().st_mode & 0o777 for path in folders}


@settings(max_examples=25, deadline=None)
@given(wanted=st.lists(st.integers(1, 12), max_size=12, unique=True), gone=st.sets(st.integers(1, 12)))
def test_messages_are_read_in_the_asked_order_with_none_for_a_missing_message(
    tmp_path_factory: pytest.TempPathFactory, wanted: list[int], gone: set[int]
) -> None:
    with defined(tmp_path_factory.mktemp("data")) as store:
        write(store, [*added(*range(1, 13)), *(MessageRemoved(serial) for serial in gone)])
        found = store.read_messages(wanted, 10**6)

    assert [(serial, None if serial in gone else message(serial)) for serial in wanted] == list(found.items())


def test_a_store_in_memory_keeps_nothing_and_answers_at_once() -> None:
    store, answers = MemoryStore(), list[Exception | None]()
    store.write(added(1), answers.append)
    store.write(added(2), None)
    store.release_in_flight([store.mark_in_flight(1, 0, harden=True)])
    store.close()

    assert (Snapshot(queue_manager=None, queues=(), serials=(), next_serial=1), [None]) == (store.load(), answers)
    assert ({1: None, 2: None}, [], 0) == (
        store.read_messages([1, 2], 1),
        list(store.read_identifiers([1])),
        store.mark_in_flight(1, 0, harden=False),
    )
