"""The journal in a folder that fails or that other processes change: nothing is lost, doubled or overwritten."""

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import obstore
import pytest

from mqflow.folders import Folder, FolderError, check_store, folder_at
from mqflow.journal import ConsumerError, Consumers, Journal, Kind, Lane, TornSegmentError
from mqflow.landing.lander import Landed, LanderOptions
from mqflow.landing.landing_loop import Progress, Recovered, Troubled, keep_landing
from mqflow.landing.recovery import STATE_QUEUE
from mqflow.mqi.errors import MQIError
from mqflow.testing.journals import generate_journal
from mqflow.testing.kit import QueueManagerKit
from mqflow.testing.virtual_clock import SeededRandom
from mqflow.verbs import Connection
from tests.folders.watched import Around, FailAt, Watched
from tests.landing.journals import GET, MODES, QUEUE, bodies, column, land_all, lander_on, lane_of, left, put
from tests.object_store import new_bucket

COUNT = 12


class Landing:
    """A queue with messages; each landing uses a folder of its own."""

    def __init__(self) -> None:
        self.kit = QueueManagerKit()
        self.kit.define(QUEUE)
        self.kit.define(STATE_QUEUE)
        put(self.connect(), 0, COUNT)

    def connect(self) -> Connection:
        return self.kit.queue_manager.connect()

    def land(self, folder: Folder, options: LanderOptions = GET) -> None:
        """Land until the queue is empty, as one process."""
        connection = self.connect()
        try:
            land_all(lander_on(connection, folder, self.kit.clock, options))
        finally:
            with suppress(MQIError):
                connection.backout()
                connection.disconnect()

    def keep_landing(self, folder: Folder, *, once: bool) -> list[Progress]:
        """Land until there are 4 reports, or with `once` until the queue is empty; return the reports."""
        told: list[Progress] = []
        keep_landing(
            self.connect, lambda connection: lander_on(connection, folder, self.kit.clock), notify=told.append,
            stopping=lambda: len(told) > 3, pause=lambda _: None, random=SeededRandom(1), once=once,
        )  # fmt: skip
        return told


@pytest.fixture
def store(server: dict[str, str]) -> Folder:
    return folder_at(f"{new_bucket()}/journal")


def failing_once(pattern: str) -> Around:
    """Refuse the first operation whose text has the pattern."""
    fault = FailAt(1, happens=False)
    return lambda text, operation: fault(text, operation) if not fault.failed and re.search(pattern, text) else operation()


# -- failures


@pytest.mark.sampled(3)
@pytest.mark.parametrize("happens", [False, True], ids=["refused", "answer lost"])
@pytest.mark.parametrize("options", MODES.values(), ids=MODES)
def test_a_folder_that_fails_at_any_operation_loses_nothing_and_doubles_nothing(
    options: LanderOptions, *, happens: bool, folder: Folder
) -> None:
    failed = set()
    for nth in range(1, 200):
        landing, place, fault = Landing(), folder.folder(f"journal{nth}"), FailAt(nth, happens=happens)
        with suppress(FolderError):
            landing.land(Watched(place, fault), options)
        if not fault.failed:
            break  # there are no more operations
        failed.add(fault.failed.partition(" ")[0])
        landing.land(place, options)
        assert list(range(COUNT)) == sorted(bodies(place)), (nth, fault.failed)
        assert () == lane_of(place).pending(), (nth, fault.failed)
        assert [] == left(landing.connect()), (nth, fault.failed)

    assert {"make", "write", "read", "create", "replace", "publish", "files"} <= failed, "too few to prove anything"


@pytest.mark.parametrize("pattern", [r"write .*\.pend", "read .*pend", "publish"])
def test_after_a_refusal_landing_goes_on_by_itself(pattern: str, folder: Folder) -> None:
    landing = Landing()

    told = landing.keep_landing(Watched(folder, failing_once(pattern)), once=False)

    assert [Troubled, Recovered, Landed, Landed] == list(map(type, told))
    assert list(range(COUNT)) == bodies(folder)
    assert {0, 1} >= set(column(folder, "backout_count"))


def test_with_once_a_refusal_ends_the_landing(folder: Folder) -> None:
    landing = Landing()

    with pytest.raises(FolderError, match="The store refused: write"):
        landing.keep_landing(Watched(folder, failing_once(r"write .*\.pend")), once=True)

    landing.keep_landing(folder, once=True)
    assert list(range(COUNT)) == bodies(folder)


class Unconditional(Watched):
    """A store that overwrites an object that exists."""

    def create(self, name: str, data: bytes) -> None:
        self._inner.write(name, data)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (lambda store: Watched(store, failing_once("write")), "The store refused: write"),
        (lambda store: Unconditional(store, lambda _, operation: operation()), "ignores the condition If-None-Match"),
    ],
    ids=["accepts no object", "ignores conditions"],
)
def test_a_store_that_cannot_be_used_is_refused_before_a_message_is_got(
    store: Folder, broken: Callable[[Folder], Folder], said: str
) -> None:
    landing = Landing()
    Journal.create(store).add_lane(QUEUE, Kind.PAYLOAD, queue=QUEUE, queue_manager="QM1")

    with pytest.raises(FolderError, match=said):
        landing.land(broken(store))

    landing.land(store)
    assert {0} == set(column(store, "backout_count"))


def test_a_disk_needs_no_check_and_gets_no_file(disk: Folder) -> None:
    disk.make()
    check_store(disk)
    assert [] == disk.files()


def test_an_object_with_other_contents_under_the_final_name_is_an_error_and_no_message_is_lost(store: Folder) -> None:
    landing = Landing()

    with pytest.raises(TornSegmentError, match=r"000000000001-7-.*: its contents are not those of 000000000001-1\.pend"):
        landing.land(Occupied(store, lambda _, operation: operation()))

    lane = lane_of(store)
    assert ("000000000001-1.pend",) == lane.pending()
    lane.folder.remove(lane.all_segments()[0].name)
    landing.land(store)
    assert list(range(COUNT)) == bodies(store)


class Occupied(Watched):
    """A store in which another program puts an object under the final name before each publication."""

    def publish(self, name: str, final: str) -> None:
        self._inner.write(final, b"of another program")
        self._inner.publish(name, final)


def test_a_request_that_the_client_of_the_store_repeats_counts_once(store: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client repeats a request whose answer is lost: then a conditional put meets its own object."""
    landing = Landing()
    repeated: list[str] = []

    def twice(name: str) -> Callable[..., object]:
        once = getattr(obstore, name)

        def request(*arguments: object, **options: object) -> object:
            once(*arguments, **options)
            repeated.append(name)
            return once(*arguments, **options)

        return request

    with monkeypatch.context() as patched:
        for name in ("put", "delete"):
            patched.setattr(obstore, name, twice(name))
        landing.land(store)
        Consumers(Journal.open(store)).commit("one", {QUEUE: 1})
        Consumers(Journal.open(store)).commit("one", {QUEUE: 2})

    assert {"put", "delete"} == set(repeated)
    assert list(range(COUNT)) == bodies(store)
    assert () == lane_of(store).pending()
    assert {QUEUE: 2} == Consumers(Journal.open(store)).register("one").offsets


# -- other processes


def after_the_read(change: Callable[[], object]) -> Around:
    """Let another process make a change after the first read of a file that is about to be replaced."""
    changed: list[str] = []

    def around(text: str, operation: Callable[[], Any]) -> Any:
        found = operation()
        if text.startswith("read_version") and not changed:
            changed.append(text)
            change()
        return found

    return around


@pytest.fixture
def lane(folder: Folder) -> Lane:
    return generate_journal(folder, Kind.DEAD_LETTER, segments=3, rows=5)


def test_two_processes_that_change_a_lane_at_once_do_not_overwrite_each_other(lane: Lane) -> None:
    second = lane.segments()[1]
    watched = Watched(lane.journal, after_the_read(lambda: lane.note(trimmed=second)))

    Journal.open(watched).lane(lane.name).note(claimed=True)

    assert (True, 2) == (lane.reread().claimed, lane.reread().trimmed)


def test_a_lane_is_not_trimmed_back(lane: Lane) -> None:
    first, second, _ = lane.segments()
    lane.note(trimmed=second)
    lane.note(trimmed=first)

    assert 2 == lane.trimmed


def test_two_processes_that_commit_a_consumer_at_once_keep_both_offsets(lane: Lane) -> None:
    generate_journal(lane.journal, Kind.DEAD_LETTER, segments=3, rows=5, lane="OTHER")
    others = Consumers(Journal.open(lane.journal))
    watched = Watched(lane.journal, after_the_read(lambda: others.commit("one", {"OTHER": 3})))

    Consumers(Journal.open(watched)).commit("one", {lane.name: 2})

    assert {lane.name: 2, "OTHER": 3} == others.register("one").offsets


def test_an_offset_that_another_process_has_passed_is_refused(lane: Lane) -> None:
    others = Consumers(Journal.open(lane.journal))
    watched = Watched(lane.journal, after_the_read(lambda: others.commit("one", {lane.name: 3})))

    with pytest.raises(ConsumerError, match="cannot go back to 2"):
        Consumers(Journal.open(watched)).commit("one", {lane.name: 2})

    assert {lane.name: 3} == others.register("one").offsets


def test_the_lane_of_a_name_is_that_of_the_faster_process(folder: Folder) -> None:
    journal = Journal.create(folder)

    def make(text: str, operation: Callable[[], Any]) -> Any:
        if text == "create lane.json":
            journal.add_lane("L", Kind.PAYLOAD, queue="Q1", queue_manager="QM1")
        return operation()

    other = Journal.open(Watched(folder, make))
    assert "L" == other.add_lane("L", Kind.PAYLOAD, queue="Q1", queue_manager="QM1").name
    assert "Q1" == journal.lane("L").queue


@pytest.mark.parametrize("name", ["A/B%C", "..", ".", "A.B_C", "Q#2", "Ä ?"])
def test_a_lane_has_the_name_of_any_queue(name: str, folder: Folder) -> None:
    journal = Journal.create(folder)

    lane = generate_journal(folder, Kind.PAYLOAD, segments=1, rows=2, lane=name)

    assert [name] == [each.name for each in journal.lanes()] == [journal.lane(name).name]
    assert [1] == [segment.number for segment in lane.all_segments()]
