"""The server answers consecutive commit-and-next requests without the connection's own thread."""

import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.wire.client.connection import ServedConnection, ServedHandle
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.frames import FRAME_BYTES_MAX, FrameError, Frames
from mqflow.embedded.wire.protocol.wakeup import SocketSignal
from mqflow.embedded.wire.server import idle_poller
from mqflow.embedded.wire.server.commit_and_next import CommitAndNext, LeftOver
from mqflow.embedded.wire.server.idle_poller import EpollIdlePoller, idle_poller_of_system
from mqflow.embedded.wire.server.listener import Server, serve
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import GetOption, OpenOption, Persistence, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import WAIT_UNLIMITED, Exchange, GetOptions
from mqflow.world import SYSTEM_WORLD, Running
from tests.embedded.storage.scripted_store import FULL, UNKNOWN, ScriptedStore

pytestmark = pytest.mark.skipif(not hasattr(select, "epoll"), reason="lines are lent where the system has epoll: Linux")

QUEUE: Final = "ORDERS.IN"
INPUT: Final = OpenOption.INPUT_SHARED | OpenOption.SAVE_ALL_CONTEXT | OpenOption.INQUIRE
AT_ONCE: Final = GetOptions(options=GetOption.SYNCPOINT)
FOR_EVER: Final = GetOptions(options=GetOption.SYNCPOINT | GetOption.WAIT, wait_ms=WAIT_UNLIMITED)
DURABLE: Final = MessageDescriptor(persistence=Persistence.PERSISTENT)


@pytest.fixture(autouse=True)
def one_committer_is_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle_poller, "_COMMITTERS_MIN", 1)


@pytest.fixture
def store() -> ScriptedStore:
    return ScriptedStore()


@pytest.fixture
def owner(store: ScriptedStore) -> Iterator[EmbeddedQueueManager]:
    with EmbeddedQueueManager("QM1", store=store) as queue_manager:
        queue_manager.administration.define(QueueAttributes(name=QUEUE, max_message_bytes=8_000_000))
        yield queue_manager


@pytest.fixture
def server(owner: EmbeddedQueueManager, folder: Path) -> Iterator[Server]:
    with serve(owner, folder / "qm") as running:
        yield running


@pytest.fixture
def hand_overs(monkeypatch: pytest.MonkeyPatch) -> list[LeftOver | None]:
    """The left-over of each hand-over, in order; None for a refused hand-over."""
    ended: list[LeftOver | None] = []
    hand_over = CommitAndNext.hand_over

    def noting(line: CommitAndNext, request: requests.Exchange) -> LeftOver | None:
        left = hand_over(line, request)
        ended.append(left)
        return left

    monkeypatch.setattr(CommitAndNext, "hand_over", noting)
    return ended


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[CommitAndNext]:
    """The connections that the idle poller received from, once for each receive."""
    lines: list[CommitAndNext] = []
    hear = CommitAndNext.heard

    def noting(line: CommitAndNext) -> None:
        hear(line)
        lines.append(line)

    monkeypatch.setattr(CommitAndNext, "heard", noting)
    return lines


def connect(server: Server) -> tuple[ServedConnection, ServedHandle]:
    connection = ServedQueueManager(server.path).connect()
    return connection, connection.open(QUEUE, INPUT)


def put(owner: EmbeddedQueueManager, *bodies: bytes, descriptor: MessageDescriptor = DURABLE) -> None:
    local = owner.connect()
    for body in bodies:
        local.put1(QUEUE, descriptor, body, PutOption.NO_SYNCPOINT)
    local.disconnect()


def commit_and_get(
    connection: ServedConnection, handle: ServedHandle, options: GetOptions = AT_ONCE, most: int = 1
) -> Exchange:
    return connection.exchange(handle, options, commit=True, most=most)


def first(connection: ServedConnection, handle: ServedHandle) -> Exchange:
    return connection.exchange(handle, AT_ONCE, commit=None, most=1)


def first_got(owner: EmbeddedQueueManager, server: Server, *bodies: bytes) -> tuple[ServedConnection, ServedHandle]:
    """Put these messages, and get the first of them on a new connection."""
    put(owner, *bodies)
    connection, handle = connect(server)
    first(connection, handle)
    return connection, handle


def bodies(exchange: Exchange) -> list[bytes]:
    return [got.body for got in exchange.unit]


@contextmanager
def beside(work: Callable[[], Exchange]) -> Iterator[list[Exchange]]:
    """Call `work` on another thread while the block runs. The call has ended at the end of the block."""
    found: list[Exchange] = []
    thread = threading.Thread(target=lambda: found.append(work()), daemon=True)
    thread.start()
    yield found
    thread.join(10)
    assert not thread.is_alive()


def until(condition: Callable[[], object]) -> None:
    for _ in range(15_000):  # half a minute, or longer on a busy machine
        if condition():
            return
        threading.Event().wait(0.002)
    pytest.fail("the condition never became true")


def test_any_number_of_units_of_work_is_one_hand_over(
    owner: EmbeddedQueueManager, server: Server, hand_overs: list[LeftOver | None]
) -> None:
    put(owner, *(b"%d" % number for number in range(50)))
    connection, handle = connect(server)

    got = bodies(first(connection, handle))
    while unit := bodies(commit_and_get(connection, handle)):
        got += unit

    assert [b"%d" % number for number in range(50)] == got
    assert 1 == len(hand_overs)  # the last request came back, because the queue had no more messages
    assert 0 == owner.administration.queue_status(QUEUE).uncommitted


@pytest.mark.parametrize("most", [1, 7])
def test_many_applications_take_everything_once(folder: Path, most: int) -> None:
    with EmbeddedQueueManager("QM1", store=SqliteStore(folder / "data")) as owner, serve(owner, folder / "qm") as server:
        owner.administration.define(QueueAttributes(name=QUEUE))
        put(owner, *(b"%d" % number for number in range(300)))
        taken: list[bytes] = []

        def consume() -> None:
            connection, handle = connect(server)
            while unit := bodies(commit_and_get(connection, handle, most=most)):
                taken.extend(unit)
            connection.disconnect()

        threads = [threading.Thread(target=consume) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert sorted(b"%d" % number for number in range(300)) == sorted(taken)
        assert 0 == owner.administration.queue_status(QUEUE).depth


def test_the_answer_waits_for_the_store(owner: EmbeddedQueueManager, server: Server, store: ScriptedStore) -> None:
    connection, handle = first_got(owner, server, b"one", b"two")
    store.holds = True

    with beside(lambda: commit_and_get(connection, handle)) as found:
        until(lambda: store.unanswered)
        assert [] == found
        assert 2 == owner.administration.queue_status(QUEUE).depth  # "one" is not gone yet
        store.holds = False
        store.answer()

    assert [b"two"] == bodies(found[0])


@pytest.mark.parametrize(
    ("answer", "reason", "depth"), [(FULL, Reason.BACKED_OUT, 2), (UNKNOWN, Reason.CALL_INTERRUPTED, None)]
)
def test_the_commit_raises_the_refusal_or_doubt_of_the_store(
    owner: EmbeddedQueueManager, server: Server, store: ScriptedStore, answer: MQIError, reason: Reason, depth: int | None
) -> None:
    connection, handle = first_got(owner, server, b"one", b"two")
    store.holds = True

    with beside(lambda: commit_and_get(connection, handle)) as found:
        until(lambda: store.unanswered)
        store.holds = False
        store.answer(answer)

    assert found[0].settle_error is not None
    assert (reason, ()) == (found[0].settle_error.reason, found[0].unit)
    if depth is not None:
        assert depth == owner.administration.queue_status(QUEUE).depth


def test_a_message_that_is_special_is_got_by_the_connection_itself(
    owner: EmbeddedQueueManager, server: Server, hand_overs: list[LeftOver | None]
) -> None:
    put(owner, b"one", b"two")
    put(owner, b"expires", descriptor=MessageDescriptor(persistence=Persistence.PERSISTENT, expiry_tenths=600))
    put(owner, b"four", b"five")
    connection, handle = connect(server)

    got = bodies(first(connection, handle))
    got += [body for _ in range(4) for body in bodies(commit_and_get(connection, handle))]

    assert [b"one", b"two", b"expires", b"four", b"five"] == got
    assert [True] == [left is not None and left.settled is not None for left in hand_overs]


def test_another_verb_is_done_by_the_connection_itself_and_then_it_goes_on(
    owner: EmbeddedQueueManager, server: Server, hand_overs: list[LeftOver | None]
) -> None:
    put(owner, b"one", b"two", b"three", b"four")
    connection, handle = connect(server)

    first(connection, handle)
    commit_and_get(connection, handle)
    connection.put1(QUEUE, DURABLE, b"put meanwhile", PutOption.SYNCPOINT)
    commit_and_get(connection, handle)
    connection.backout()

    assert [True, True] == [left is not None and left.frame is not None for left in hand_overs]
    assert [b"three", b"four", b"put meanwhile"] == [bodies(commit_and_get(connection, handle))[0] for _ in range(3)]


def test_a_commit_is_finished_and_answered_though_the_queue_manager_stops_serving(
    owner: EmbeddedQueueManager, server: Server, store: ScriptedStore
) -> None:
    connection, handle = first_got(owner, server, b"one", b"two")
    store.holds = True

    with beside(lambda: commit_and_get(connection, handle)) as found:
        until(lambda: store.unanswered)
        closing = threading.Thread(target=server.close)
        closing.start()
        until(lambda: server._listener.fileno() < 0)
        store.holds = False
        store.answer()
        closing.join()

    assert found[0].settle_error is None
    assert 1 == owner.administration.queue_status(QUEUE).depth
    assert 0 == owner.administration.queue_status(QUEUE).uncommitted


@pytest.mark.parametrize("stopped", [False, True], ids=["served no more", "stopped"])
def test_the_answer_reports_the_commit_also_if_no_get_is_possible_any_more(
    owner: EmbeddedQueueManager, server: Server, store: ScriptedStore, heard: list[CommitAndNext], *, stopped: bool
) -> None:
    """A switchover stops a queue manager like this. Without the answer the commit would be in doubt."""
    connection, handle = first_got(owner, server, b"one")
    store.holds = True

    with beside(lambda: commit_and_get(connection, handle, FOR_EVER)) as found:
        until(lambda: store.unanswered)
        if stopped:
            owner.stop()
        closing = threading.Thread(target=server.close)
        closing.start()
        until(lambda: heard)
        store.holds = False
        store.answer()
        closing.join()

    assert found[0].settle_error is None
    assert found[0].get_error is not None


def test_a_commit_takes_its_course_though_its_application_dies(
    owner: EmbeddedQueueManager, server: Server, store: ScriptedStore
) -> None:
    connection, handle = first_got(owner, server, b"one", b"two")
    store.holds = True

    with beside(lambda: commit_and_get(connection, handle)) as found:
        until(lambda: store.unanswered)
        connection.abandon()
        store.holds = False
        store.answer()
        until(lambda: not server.connection_count)

    assert found[0].settle_error is not None
    assert Reason.CALL_INTERRUPTED == found[0].settle_error.reason  # the unit is committed, but the answer was lost
    assert (1, 0) == (owner.administration.queue_status(QUEUE).depth, owner.administration.queue_status(QUEUE).uncommitted)


def test_nothing_is_got_for_an_application_that_is_known_to_be_gone(
    owner: EmbeddedQueueManager, server: Server, store: ScriptedStore, heard: list[CommitAndNext]
) -> None:
    """Otherwise the backout would be counted, although no application saw the message, and could make it a poison message."""
    connection, handle = first_got(owner, server, b"one", b"two")
    store.holds = True

    with beside(lambda: commit_and_get(connection, handle)):
        until(lambda: store.unanswered)
        connection.abandon()
        until(lambda: heard)
        store.holds = False
        store.answer()
        until(lambda: not server.connection_count)

    local = owner.connect()
    left = local.get(local.open(QUEUE, INPUT), GetOptions(options=GetOption.NO_SYNCPOINT))
    assert left is not None
    assert (b"two", 0) == (left.body, left.descriptor.backout_count)


def test_an_application_that_dies_between_two_is_backed_out(
    owner: EmbeddedQueueManager, server: Server, hand_overs: list[LeftOver | None]
) -> None:
    put(owner, b"one", b"two")
    connection, handle = connect(server)
    first(connection, handle)
    assert [b"two"] == bodies(commit_and_get(connection, handle))

    connection.abandon()
    until(lambda: not server.connection_count)

    assert (1, 0) == (owner.administration.queue_status(QUEUE).depth, owner.administration.queue_status(QUEUE).uncommitted)
    assert [True] == [left is not None and left.failure is not None for left in hand_overs]


@pytest.fixture
def raw(server: Server) -> Iterator[tuple[Frames, int]]:
    """A connection on which the test sends any request, and the number of its handle."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
        stream.connect(str(server.path))
        yield _begun(Frames(stream))


def _begun(frames: Frames) -> tuple[Frames, int]:
    say(frames, requests.Hello(requests.PROTOCOL_VERSION, "QM1", "raw", ""))
    opened = say(frames, requests.Open(QUEUE, options=int(INPUT)))
    assert isinstance(opened, requests.Opened)
    return frames, opened.handle


def say(frames: Frames, request: requests.Request) -> object:
    """Send the request and return its answer."""
    reply = requests.decode_reply(request, frames.exchange(requests.encode(request)))
    assert reply.failure is None
    return reply.value


def asked(number: int, *, commit: bool | None = True) -> requests.Exchange:
    return requests.Exchange(handle=number, options=AT_ONCE, commit=commit, most=1)


def test_a_client_that_receives_late_delays_no_other_client(
    owner: EmbeddedQueueManager, server: Server, raw: tuple[Frames, int], hand_overs: list[LeftOver | None]
) -> None:
    put(owner, b"small", b"x" * 4_000_000, b"third", b"fourth")
    slow, number = raw
    say(slow, asked(number, commit=None))
    slow.send(requests.encode(asked(number)))  # and the client receives nothing
    until(lambda: owner.administration.queue_status(QUEUE).uncommitted == 1 and hand_overs)
    quick, handle = connect(server)

    assert [b"third"] == bodies(first(quick, handle))
    assert [b"fourth"] == bodies(commit_and_get(quick, handle))
    exchanged = requests.decode_reply(asked(number), slow.answer()).value
    assert isinstance(exchanged, requests.Exchanged)
    assert [4_000_000] == [len(got.body) for got in exchanged.unit]
    assert [LeftOver(unsent=True)] == hand_overs
    assert requests.Exchanged() == say(slow, asked(number))  # and the connection continues


@pytest.mark.parametrize("said", [requests.encode(asked(1)), b"no request"], ids=["out of turn", "nonsense"])
def test_a_client_that_sends_out_of_turn_is_disconnected_after_its_commit(
    owner: EmbeddedQueueManager,
    server: Server,
    raw: tuple[Frames, int],
    store: ScriptedStore,
    heard: list[CommitAndNext],
    said: bytes,
) -> None:
    put(owner, b"one", b"two")
    frames, number = raw
    say(frames, asked(number, commit=None))
    store.holds = True
    frames.send(requests.encode(asked(number)))
    until(lambda: store.unanswered)

    frames.send(said)
    until(lambda: heard)
    store.holds = False
    store.answer()

    until(lambda: not server.connection_count)
    assert (1, 0) == (owner.administration.queue_status(QUEUE).depth, owner.administration.queue_status(QUEUE).uncommitted)


def test_a_frame_that_is_announced_too_long_ends_the_connection(
    owner: EmbeddedQueueManager, server: Server, raw: tuple[Frames, int]
) -> None:
    put(owner, b"one", b"two")
    frames, number = raw
    say(frames, asked(number, commit=None))
    say(frames, asked(number))

    frames.send_made((FRAME_BYTES_MAX + 1).to_bytes(4))

    until(lambda: not server.connection_count)
    assert 1 == owner.administration.queue_status(QUEUE).depth


def test_an_interrupt_during_the_commit_is_remembered(
    owner: EmbeddedQueueManager, server: Server, store: ScriptedStore, heard: list[CommitAndNext]
) -> None:
    connection, handle = first_got(owner, server, b"one")
    store.holds = True

    with beside(lambda: commit_and_get(connection, handle, FOR_EVER)) as found:
        until(lambda: store.unanswered)
        connection.interrupt()
        until(lambda: heard)
        store.holds = False
        store.answer()

    assert Exchange() == found[0]


def test_a_quiet_connection_goes_back_to_its_own_thread(
    owner: EmbeddedQueueManager, folder: Path, hand_overs: list[LeftOver | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle_poller, "QUIET_S", 0.01)
    put(owner, b"one", b"two", b"three")
    with serve(owner, folder / "qm") as server:
        connection, handle = connect(server)
        first(connection, handle)
        commit_and_get(connection, handle)
        until(lambda: hand_overs)

        assert [LeftOver()] == hand_overs
        assert [b"three"] == bodies(commit_and_get(connection, handle))


def test_one_application_is_answered_by_its_own_thread_and_several_lend_their_lines_while_they_are_several(
    owner: EmbeddedQueueManager,
    folder: Path,
    store: ScriptedStore,
    hand_overs: list[LeftOver | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(idle_poller, "_COMMITTERS_MIN", 2)
    put(owner, *(b"%d" % number for number in range(10)))
    with serve(owner, folder / "qm") as server:
        one, handle = connect(server)
        other, other_handle = connect(server)
        first(one, handle)
        first(other, other_handle)
        commit_and_get(one, handle)
        assert [] == hand_overs

        store.holds = True
        with beside(lambda: commit_and_get(one, handle)) as alone:
            until(lambda: len(store.unanswered) == 1)
            with beside(lambda: commit_and_get(other, other_handle)) as lent:
                until(lambda: len(store.unanswered) == 2)
                store.holds = False
                store.answer()
                until(lambda: alone)
                assert [] == hand_overs
                store.answer()
        assert [1, 1] == [len(found[0].unit) for found in (alone, lent)]

        assert 1 == len(commit_and_get(other, other_handle).unit)  # the only one again
        assert [True] == [left is not None and left.frame is not None for left in hand_overs]


def test_without_a_poller_thread_the_connection_does_all_work_itself(
    owner: EmbeddedQueueManager, server: Server, hand_overs: list[LeftOver | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(*_: object) -> Running:
        raise RuntimeError("can't start new thread")

    put(owner, b"one", b"two", b"three")
    connection, handle = connect(server)
    first(connection, handle)
    assert isinstance(server._idle_poller, EpollIdlePoller)
    monkeypatch.setattr(server._idle_poller, "_runner", type("NoThreads", (), {"start": no_thread})())

    assert [[b"two"], [b"three"]] == [bodies(commit_and_get(connection, handle)) for _ in range(2)]
    assert [None, None] == hand_overs


def test_a_switchboard_without_lines_ends_its_thread_and_starts_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle_poller, "QUIET_S", 0.01)
    board = EpollIdlePoller(SYSTEM_WORLD, SocketSignal())
    here, there = socket.socketpair()
    heard = threading.Semaphore(0)

    class Listened:
        stream = here

        def heard(self) -> None:
            here.recv(1)
            heard.release()

        def tick(self) -> None: ...

    with here, there:
        for _ in range(2):
            line = Listened()
            board.connect(line)
            there.send(b"x")
            assert heard.acquire(timeout=60)
            board.disconnect(line)
            until(lambda: board._running is None)
    board.close()


def test_a_line_that_cannot_go_on_ends_its_own_connection_and_no_other(
    owner: EmbeddedQueueManager, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(owner, b"one", b"two", b"three", b"four")
    sound, sound_handle = connect(server)
    first(sound, sound_handle)
    commit_and_get(sound, sound_handle)
    unsound, handle = connect(server)
    first(unsound, handle)
    with monkeypatch.context() as patch:

        def fails(*_: object) -> bool:
            raise FrameError("whatever it is")

        patch.setattr(Frames, "send_at_once", fails)
        assert commit_and_get(unsound, handle).settle_error is not None
    until(lambda: server.connection_count == 1)

    assert [b"four"] == bodies(commit_and_get(sound, sound_handle))


def test_there_is_a_switchboard_where_the_system_can_wait_for_many() -> None:
    board = idle_poller_of_system(SYSTEM_WORLD)
    assert board is not None
    board.close()
