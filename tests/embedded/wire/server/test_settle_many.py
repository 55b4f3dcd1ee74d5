"""One request commits several units of work of a served connection, each by itself, and gets others."""

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.store import Change
from mqflow.embedded.wire.client.connection import ServedConnection, ServedHandle
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.server.listener import Server, serve
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, OpenOption, Persistence, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import GetOptions, SettledMany
from tests.embedded.disk_faults.disk import memory_folder
from tests.embedded.storage.scripted_store import FULL, ScriptedStore
from tests.queue_contents import put, taken

QUEUE: Final = "ORDERS.IN"
AT_ONCE: Final = GetOptions(options=GetOption.SYNCPOINT)
DURABLE: Final = MessageDescriptor(persistence=Persistence.PERSISTENT)
LATEST_S: Final = 20.0
Done = Callable[[Exception | None], None]


class AnnouncingStore(ScriptedStore):
    """Lets a test wait until calls have come that need an answer."""

    def __init__(self) -> None:
        super().__init__()
        self._calls = threading.Semaphore(0)

    def write(self, changes: Sequence[Change], done: Done | None) -> None:
        super().write(changes, done)
        if done is not None and self.holds:
            self._calls.release()

    def await_calls(self, count: int) -> None:
        for _ in range(count):
            assert self._calls.acquire(timeout=LATEST_S)


class Rig:
    """An application with a served connection, and the owner with five durable messages and a scripted store."""

    def __init__(self, folder: Path) -> None:
        self.store = AnnouncingStore()
        self.owner = EmbeddedQueueManager("QM1", store=self.store)
        for name in (QUEUE, "OUT"):
            self.owner.administration.define(QueueAttributes(name=name))
        put(self.owner, QUEUE, *(b"%d" % number for number in range(5)), descriptor=DURABLE)
        self.server: Server = serve(self.owner, folder / "qm")
        self.connection: ServedConnection = ServedQueueManager(self.server.path).connect()
        self.handle: ServedHandle = self.connection.open(QUEUE, OpenOption.INPUT_SHARED | OpenOption.OUTPUT)
        self.store.calls.clear()

    def settle(self, commits: int, units: int, most: int = 1) -> SettledMany:
        return self.connection.settle_many(self.handle, AT_ONCE, commits=commits, most=most, units=units)

    def left(self) -> list[tuple[bytes, int]]:
        """Get every message that is available, with its BackoutCount."""
        return [(got.body, got.descriptor.backout_count) for got in taken(self.owner, QUEUE)]

    def close(self) -> None:
        self.store.holds = False
        while self.store.unanswered:
            self.store.answer()
        self.connection.abandon()
        self.server.close()
        self.owner.close()


@pytest.fixture
def rig() -> Iterator[Rig]:
    with memory_folder() as folder:
        made = Rig(folder)
        yield made
        made.close()


def bodies(settled: SettledMany) -> list[list[bytes]]:
    return [[got.body for got in unit] for unit in settled.units]


def reasons(settled: SettledMany) -> list[int]:
    return [0 if error is None else int(error.reason) for error in settled.errors]


class Calling(threading.Thread):
    """Makes a call in a thread of its own."""

    def __init__(self, rig: Rig, commits: int, units: int) -> None:
        super().__init__()
        self._rig, self._commits, self._units = rig, commits, units
        self.settled: SettledMany | None = None
        self.start()

    def run(self) -> None:
        self.settled = self._rig.settle(self._commits, self._units)

    def result(self) -> SettledMany:
        self.join(LATEST_S)
        assert self.settled is not None
        return self.settled


def test_units_are_committed_apart_and_in_order_in_one_request(rig: Rig) -> None:
    assert [[b"0"], [b"1"], [b"2"]] == bodies(rig.settle(0, 3))

    settled = rig.settle(2, 1)

    assert [0, 0] == reasons(settled)
    assert [[b"3"]] == bodies(settled)
    assert [["MessageRemoved"]] * 2 == rig.store.calls
    rig.connection.backout()
    assert [(b"2", 1), (b"3", 0), (b"4", 0)] == rig.left()


def test_all_commits_of_a_request_are_under_way_together_and_the_answer_comes_after_the_last(rig: Rig) -> None:
    rig.settle(0, 3)
    rig.store.holds = True

    call = Calling(rig, 3, 1)
    rig.store.await_calls(3)
    rig.store.answer()
    rig.store.answer(FULL)
    assert call.is_alive()
    rig.store.answer()
    rig.store.holds = False

    settled = call.result()
    assert [0, Reason.BACKED_OUT, 0] == reasons(settled)
    assert [[b"3"]] == bodies(settled)
    assert [(b"1", 1), (b"4", 0)] == rig.left()


def test_a_unit_with_a_put_is_answered_before_the_next_commit_begins(rig: Rig) -> None:
    rig.settle(0, 2)
    rig.connection.put1("OUT", DURABLE, b"out", PutOption.SYNCPOINT)
    assert [False] == [rig.connection.only_removes]
    rig.store.holds = True

    call = Calling(rig, 2, 0)
    rig.store.await_calls(1)
    assert [["MessageAdded", "MessageRemoved"]] == rig.store.calls
    rig.store.holds = False
    rig.store.answer()

    assert [0, 0] == reasons(call.result())
    assert [True] == [rig.connection.only_removes]
    assert [["MessageAdded", "MessageRemoved"], ["MessageRemoved"]] == rig.store.calls


@pytest.mark.parametrize("ends", ["commit", "backout", "exchange", "get", "get_many", "disconnect"])
def test_any_other_end_of_a_unit_first_returns_the_units_ahead_uncounted(rig: Rig, ends: str) -> None:
    rig.settle(0, 3)
    calls: dict[str, Any] = {
        "commit": rig.connection.commit,
        "backout": rig.connection.backout,
        "exchange": lambda: rig.connection.exchange(rig.handle, AT_ONCE, commit=True, most=1),
        "get": lambda: rig.connection.get(rig.handle, AT_ONCE),
        "get_many": lambda: rig.connection.get_many(rig.handle, AT_ONCE, 1),
        "disconnect": rig.connection.disconnect,
    }

    calls[ends]()

    untouched = [(b"2", 0), (b"3", 0), (b"4", 0)]
    match ends:
        case "backout":
            assert [(b"0", 1), (b"1", 0), *untouched] == rig.left()
        case "commit" | "disconnect":
            assert [(b"1", 0), *untouched] == rig.left()
        case _:  # the next message was got
            assert untouched == rig.left()


def test_units_are_given_back_from_the_last_one(rig: Rig) -> None:
    rig.settle(0, 4)

    rig.connection.give_back(2)

    assert [(b"2", 0), (b"3", 0), (b"4", 0)] == rig.left()


def test_the_end_of_a_process_counts_a_backout_of_each_of_its_units(rig: Rig) -> None:
    rig.settle(0, 2)

    rig.connection.abandon()
    rig.server.close()  # waits until every connection has ended

    assert [(b"0", 1), (b"1", 1), (b"2", 0), (b"3", 0), (b"4", 0)] == rig.left()


def test_without_an_answer_every_commit_of_the_request_is_in_doubt(rig: Rig) -> None:
    rig.settle(0, 2)
    rig.store.holds = True

    call = Calling(rig, 2, 1)
    rig.store.await_calls(2)
    rig.connection.abandon()

    settled = call.result()
    assert [Reason.CALL_INTERRUPTED] * 2 == reasons(settled)
    assert [] == bodies(settled)


def test_a_request_that_was_not_sent_is_not_in_doubt(rig: Rig) -> None:
    rig.settle(0, 2)
    rig.server.close()

    assert [Reason.CALL_INTERRUPTED] == reasons(rig.settle(1, 0))
    assert [Reason.CONNECTION_BROKEN] * 2 == reasons(rig.settle(2, 0))


def test_commits_without_a_unit_do_nothing(rig: Rig) -> None:
    settled = rig.settle(2, 1)

    assert [0, 0] == reasons(settled)
    assert [[b"0"]] == bodies(settled)
    assert [] == rig.store.calls
