"""A settlement and the next get in one round trip: the result, and the error of the client when the connection breaks."""

import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from mqflow.embedded.connection import EmbeddedConnection
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.state.objects import LocalQueue
from mqflow.embedded.wire.client.connection import ServedConnection, ServedHandle
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.frames import Frames
from mqflow.embedded.wire.protocol.wakeup import HasDescriptor, SocketSignal, Waited
from mqflow.embedded.wire.server.answer_parts import MESSAGES_MAX, PART_BYTES, AnswerParts
from mqflow.embedded.wire.server.client_connection import ClientConnection
from mqflow.embedded.wire.server.listener import serve
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import GetOption, OpenOption, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.runtime.connection.session import open_session
from mqflow.verbs import WAIT_UNLIMITED, Exchange, FusedConnection, GetOptions, Got, ObjectHandle
from mqflow.world import THREADS
from tests.queue_contents import put

QUEUE = "ORDERS.IN"
BOTH = OpenOption.INPUT_SHARED | OpenOption.OUTPUT
AT_ONCE = GetOptions(options=GetOption.SYNCPOINT)
PATIENT = GetOptions(options=GetOption.SYNCPOINT | GetOption.WAIT, wait_ms=60_000)
NO_HANDLE = cast("ObjectHandle", None)  # an object that is not a handle of the connection is sent as the number -1
BRIEF = GetOptions(options=GetOption.SYNCPOINT | GetOption.WAIT, wait_ms=10)


@pytest.fixture
def connection(owner: EmbeddedQueueManager, folder: Path) -> Iterator[ServedConnection]:
    with serve(owner, folder / "qm"):
        connected = ServedQueueManager(folder / "qm").connect()
        yield connected
        connected.abandon()


def _depth(owner: EmbeddedQueueManager) -> int:
    found = owner.administration.queue(QUEUE)
    assert found is not None
    return found.depth


def test_a_served_connection_is_fused(connection: ServedConnection) -> None:
    assert isinstance(connection, FusedConnection)


def test_the_unit_is_committed_and_the_next_is_got(owner: EmbeddedQueueManager, connection: ServedConnection) -> None:
    put(owner, QUEUE, b"one", b"two", b"three")
    handle = connection.open(QUEUE, BOTH)

    first = connection.exchange(handle, PATIENT, commit=None, most=1)
    second = connection.exchange(handle, PATIENT, commit=True, most=2)
    connection.backout()

    assert ([b"one"], [b"two", b"three"]) == ([got.body for got in first.unit], [got.body for got in second.unit])
    assert 2 == owner.administration.queue_status(QUEUE).depth


def test_a_unit_that_is_backed_out_comes_again_one_by_one(owner: EmbeddedQueueManager, connection: ServedConnection) -> None:
    put(owner, QUEUE, b"one", b"two")
    handle = connection.open(QUEUE, BOTH)
    connection.exchange(handle, PATIENT, commit=None, most=2)

    again = connection.exchange(handle, PATIENT, commit=False, most=2)

    assert [(b"one", 1)] == [(got.body, got.descriptor.backout_count) for got in again.unit]


def test_a_unit_goes_on_over_a_message_that_is_special(owner: EmbeddedQueueManager, connection: ServedConnection) -> None:
    local = owner.connect()
    expiring = MessageDescriptor(expiry_tenths=100_000)
    for descriptor, body in ((MessageDescriptor(), b"one"), (expiring, b"two"), (MessageDescriptor(), b"three")):
        local.put1(QUEUE, descriptor, body, PutOption.NO_SYNCPOINT)

    exchange = connection.exchange(connection.open(QUEUE, BOTH), AT_ONCE, commit=True, most=10)

    assert [b"one", b"two", b"three"] == [got.body for got in exchange.unit]


def test_without_a_next_message_the_commit_is_made_nevertheless(
    owner: EmbeddedQueueManager, connection: ServedConnection
) -> None:
    put(owner, QUEUE, b"one")
    handle = connection.open(QUEUE, BOTH)

    exchanges = [connection.exchange(handle, AT_ONCE, commit=True, most=1) for _ in range(2)]
    connection.abandon()

    assert [1, 0] == [len(exchange.unit) for exchange in exchanges]
    assert 0 == owner.administration.queue_status(QUEUE).depth


def test_a_message_that_comes_later_is_waited_for(owner: EmbeddedQueueManager, connection: ServedConnection) -> None:
    handle = connection.open(QUEUE, BOTH)
    later = threading.Thread(target=put, args=(owner, QUEUE, b"late"))
    later.start()

    exchange = connection.exchange(handle, PATIENT, commit=True, most=1)
    later.join()

    assert [b"late"] == [got.body for got in exchange.unit]


def test_a_waiting_connection_keeps_no_memory_for_long_units(
    owner: EmbeddedQueueManager, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(owner, QUEUE, *[bytes(150_000)] * 2)
    with serve(owner, folder / "qm") as server:
        connection = ServedQueueManager(folder / "qm").connect()
        while not server.connection_count:  # the call is answered, and noted
            threading.Event().wait(0.001)
        (answering,) = server._served
        assert isinstance(answering, ClientConnection)
        handle = connection.open(QUEUE, BOTH)
        while_it_waits: list[int] = []
        listen = SocketSignal.heard_beside

        def listening(signal: SocketSignal, stream: HasDescriptor, wait_s: float | None) -> Waited:
            if signal is answering._arrived:
                while_it_waits.append(sys.getsizeof(answering._answer))
            return listen(signal, stream, wait_s)

        monkeypatch.setattr(SocketSignal, "heard_beside", listening)
        for _ in range(2):
            assert connection.exchange(handle, BRIEF, commit=True, most=1).unit
        busy = sys.getsizeof(answering._answer), sys.getsizeof(connection._line._frames._room)
        assert not connection.exchange(handle, BRIEF, commit=True, most=1).unit

        assert min(busy) > 150_000
        assert max(*while_it_waits, sys.getsizeof(connection._line._frames._room)) < 1_000
        connection.abandon()


def test_if_no_message_comes_the_get_returns_none(connection: ServedConnection) -> None:
    exchange = connection.exchange(connection.open(QUEUE, BOTH), BRIEF, commit=True, most=1)

    assert ((), None, None) == (exchange.unit, exchange.settle_error, exchange.get_error)


def test_the_result_distinguishes_a_refused_get_from_the_settlement(
    owner: EmbeddedQueueManager, connection: ServedConnection
) -> None:
    handle = connection.open(QUEUE, BOTH)
    owner.administration.alter(QUEUE, {"get_inhibited": True})

    exchange = connection.exchange(handle, PATIENT, commit=True, most=1)

    assert exchange.get_error is not None
    assert (None, Reason.GET_INHIBITED) == (exchange.settle_error, exchange.get_error.reason)


def test_a_unit_ends_before_it_is_too_long_for_a_frame(
    owner: EmbeddedQueueManager, connection: ServedConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqflow.embedded.wire.server.client_connection.UNIT_BYTES_MAX", 10)
    put(owner, QUEUE, b"12345", b"1234", b"12", b"longer than all may be", b"1")
    handle = connection.open(QUEUE, BOTH)

    units = [connection.exchange(handle, AT_ONCE, commit=True, most=100).unit for _ in range(4)]

    assert [[5, 4], [2], [22], [1]] == [[len(got.body) for got in unit] for unit in units]


_UNITS = st.lists(st.lists(st.one_of(st.integers(0, 2_000), st.integers(0, 3_000_000)), max_size=120), min_size=1, max_size=4)


@given(_UNITS)
@example([[300] * 32, [300] * 33, [40_000] * 40, [300] * 70])
def test_a_unit_is_sent_in_parts_with_bounded_messages_and_bytes(units: list[list[int]]) -> None:
    parts = AnswerParts()
    for lengths in units:
        unit = tuple(_got(number) for number in range(len(lengths)))
        sent: list[requests.Exchanged] = []

        def send(part: requests.Exchanged) -> int:
            sent.append(part)  # noqa: B023 - called before the loop goes on
            return sum(lengths[int(got.body)] for got in part.unit)  # noqa: B023 - called before the loop goes on

        last = parts.send_all_but_last(unit, send)

        assert unit == tuple(got for part in (*sent, last) for got in part.unit)
        assert [True] * len(sent) + [False] == [part.more for part in (*sent, last)]
        assert all(0 < len(part.unit) <= MESSAGES_MAX for part in sent)
        assert len(last.unit) <= MESSAGES_MAX


def test_parts_of_equally_long_messages_settle_at_the_size_that_a_socket_takes() -> None:
    splitter, counts = AnswerParts(), list[int]()
    for length in (10_000, 10_000, 200_000, 100):
        parts: list[int] = []

        def send(part: requests.Exchanged) -> int:
            parts.append(len(part.unit))  # noqa: B023 - called before the loop goes on
            return length * len(part.unit)  # noqa: B023 - called before the loop goes on

        splitter.send_all_but_last([_got(number) for number in range(200)], send)
        counts.append(parts[-1])

    assert [PART_BYTES // 10_000, PART_BYTES // 10_000, 1, MESSAGES_MAX] == counts


def _got(number: int) -> Got:
    return Got(descriptor=MessageDescriptor(), body=b"%d" % number, data_bytes=len(str(number)))


def test_a_unit_in_many_parts_is_one_unit_of_work(owner: EmbeddedQueueManager, connection: ServedConnection) -> None:
    bodies = [b"%d" % number for number in range(300)]
    put(owner, QUEUE, *bodies)
    handle = connection.open(QUEUE, BOTH)

    first = connection.exchange(handle, PATIENT, commit=None, most=200).unit
    second = connection.exchange(handle, PATIENT, commit=True, most=200).unit

    assert bodies == [got.body for got in (*first, *second)]
    assert 100 == _depth(owner)  # only the second unit is on the queue
    connection.backout()
    assert bodies[200] == connection.exchange(handle, AT_ONCE, commit=None, most=200).unit[0].body


def test_a_unit_after_a_wait_comes_in_parts_too(owner: EmbeddedQueueManager, connection: ServedConnection) -> None:
    handle = connection.open(QUEUE, BOTH)
    bodies = [b"%d" % number for number in range(MESSAGES_MAX + 1)]
    taken: list[bytes] = []

    def take() -> None:
        taken.extend(got.body for got in connection.exchange(handle, PATIENT, commit=True, most=100).unit)

    consumer = threading.Thread(target=take)
    queue = owner._state.local_queue(QUEUE)
    consumer.start()
    while not queue.waiters:
        threading.Event().wait(0.001)
    local = owner.connect()
    for body in bodies:
        local.put1(QUEUE, MessageDescriptor(), body, PutOption.SYNCPOINT)
    local.commit()
    consumer.join()

    assert bodies == taken


def test_a_connection_cut_between_two_parts_leaves_no_doubt_and_returns_no_part_of_a_unit(folder: Path) -> None:
    def a_part_and_gone(frames: Frames) -> None:
        frames.send(requests.encode(requests.Reply(None, requests.Exchanged(unit=(_got(1),), more=True))))

    exchange = cut_after(folder, a_part_and_gone).exchange(NO_HANDLE, PATIENT, commit=True, most=2)

    assert exchange.get_error is not None
    assert (None, (), Reason.CONNECTION_BROKEN) == (exchange.settle_error, exchange.unit, exchange.get_error.reason)


def test_a_client_that_dies_between_two_parts_leaves_the_whole_unit_to_others(
    owner: EmbeddedQueueManager, folder: Path
) -> None:
    bodies = [b"%d" % number for number in range(MESSAGES_MAX + 1)]
    put(owner, QUEUE, *bodies)
    with serve(owner, folder / "qm") as server:
        with socket.socket(socket.AF_UNIX) as stream:
            stream.connect(str(folder / "qm"))
            frames = Frames(stream)
            frames.exchange(requests.encode(requests.Hello(requests.PROTOCOL_VERSION, "", "raw", "")))
            opening = requests.Open(QUEUE, options=int(BOTH))
            opened = requests.decode_reply(opening, frames.exchange(requests.encode(opening))).value
            assert isinstance(opened, requests.Opened)
            request = requests.Exchange(opened.handle, AT_ONCE, commit=True, most=100)
            part = requests.decode_reply(request, frames.exchange(requests.encode(request))).value
            assert isinstance(part, requests.Exchanged)
            assert part.more
        while server.connection_count:
            threading.Event().wait(0.001)

        local = owner.connect()
        handle = local.open(QUEUE, BOTH)
        back = [local.get(handle, AT_ONCE) for _ in bodies]
        assert [(body, 1) for body in bodies] == [(got.body, got.descriptor.backout_count) for got in back if got is not None]


def test_several_puts_are_parted_into_frames(
    owner: EmbeddedQueueManager, connection: ServedConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqflow.embedded.wire.protocol.requests.UNIT_BYTES_MAX", 3_000)  # a descriptor counts for a kilobyte
    asked: list[object] = []
    encode = requests.encode

    def noting(request: object) -> bytes:
        asked.append(request)
        return encode(request)

    monkeypatch.setattr(requests, "encode", noting)
    messages = [(MessageDescriptor(), bytes(size)) for size in (10, 900, 5_000, 10)]

    made = connection.put_many(connection.open(QUEUE, BOTH), messages, PutOption.SYNCPOINT)
    connection.commit()

    assert (4, None) == (len(made.puts), made.error)
    assert [2, 1, 1] == [len(each.runs) for each in asked if isinstance(each, requests.PutMany)]


def test_another_thread_is_kept_off_the_line_until_the_last_reply(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = cut_after(folder, lambda frames: frames.send(requests.encode(requests.Reply(None, requests.Exchanged()))))
    told: list[int] = []

    class FirstReply:
        """Tries to commit between this reply and the next reply, like another thread."""

        settle = get = None
        unit = ()

        def _another(self) -> bool:
            try:
                connection.commit()
            except MQIError as error:
                told.append(error.reason)
            return False

        waits, more = property(_another), property(_another)

    monkeypatch.setattr(requests, "decode_reply", lambda *_: requests.Reply(None, FirstReply()))
    connection.exchange(NO_HANDLE, PATIENT, commit=True, most=1)

    assert [Reason.CALL_IN_PROGRESS] * 2 == told


Script = Callable[[Frames], None]


def cut_after(folder: Path, script: Script) -> ServedConnection:
    """Return a connection to a server that closes the connection after this script."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "qm"))
    listener.listen()

    def serve_badly() -> None:
        stream, _ = listener.accept()
        with listener, stream:
            frames = Frames(stream)
            frames.receive()
            frames.send(requests.encode(requests.Reply(None, "QM1")))
            frames.receive()
            script(frames)

    threading.Thread(target=serve_badly, daemon=True).start()
    return ServedQueueManager(folder / "qm").connect()


def test_a_connection_cut_before_the_settlement_is_known_leaves_the_commit_in_doubt(folder: Path) -> None:
    exchange = cut_after(folder, lambda _: None).exchange(NO_HANDLE, PATIENT, commit=True, most=1)

    assert exchange.settle_error is not None
    assert (Reason.CALL_INTERRUPTED, "MQCMIT") == (exchange.settle_error.reason, exchange.settle_error.verb)


def test_a_connection_cut_during_the_wait_for_the_next_leaves_nothing_in_doubt(folder: Path) -> None:
    def settled_and_gone(frames: Frames) -> None:
        frames.send(requests.encode(requests.Reply(None, requests.Exchanged(waits=True))))

    exchange = cut_after(folder, settled_and_gone).exchange(NO_HANDLE, PATIENT, commit=True, most=1)

    assert exchange.get_error is not None
    assert (None, Reason.CONNECTION_BROKEN) == (exchange.settle_error, exchange.get_error.reason)


def test_a_backout_that_is_cut_is_not_in_doubt_because_the_cut_backs_out(folder: Path) -> None:
    exchange = cut_after(folder, lambda _: None).exchange(NO_HANDLE, PATIENT, commit=False, most=1)

    assert exchange.settle_error is not None
    assert Reason.CONNECTION_BROKEN == exchange.settle_error.reason


def test_a_get_that_does_not_wait_is_one_frame_however_often_it_was_asked_for(
    connection: ServedConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    send = Frames.send_made

    def note(self: Frames, frame: bytes) -> None:
        sent.append(len(frame))
        send(self, frame)

    handle = connection.open(QUEUE, BOTH)
    monkeypatch.setattr(Frames, "send_made", note)
    for _ in range(3):  # the records are equal but not identical: each comes from its own frame
        assert not connection.exchange(handle, AT_ONCE, commit=True, most=1).unit

    assert 3 * 2 == len(sent)


# ---- a wait that is interrupted

FOR_EVER = GetOptions(options=GetOption.SYNCPOINT | GetOption.WAIT, wait_ms=WAIT_UNLIMITED)


def until_it_waits(owner: EmbeddedQueueManager) -> None:
    while not owner._state.local_queue(QUEUE).waiters:
        threading.Event().wait(0.005)


_WAITS: dict[str, Callable[[ServedConnection, ServedHandle], object]] = {
    "MQGET": lambda connection, handle: connection.get(handle, FOR_EVER),
    "many": lambda connection, handle: connection.get_many(handle, FOR_EVER, 2),
    "settle and get": lambda connection, handle: connection.exchange(handle, FOR_EVER, commit=True, most=2),
}


@pytest.mark.parametrize("call", _WAITS)
def test_a_wait_that_is_interrupted_ends_with_nothing_and_the_next_does_not_begin(
    owner: EmbeddedQueueManager, connection: ServedConnection, call: str
) -> None:
    handle = connection.open(QUEUE, BOTH)
    found: list[object] = []
    waiting = threading.Thread(target=lambda: found.append(_WAITS[call](connection, handle)))
    waiting.start()
    until_it_waits(owner)

    connection.interrupt()
    waiting.join()
    found.append(_WAITS[call](connection, handle))

    nothing: dict[str, object] = {"MQGET": None, "many": [], "settle and get": Exchange()}
    assert [nothing[call]] * 2 == found


def test_an_interrupt_loses_no_message_that_is_there(owner: EmbeddedQueueManager, connection: ServedConnection) -> None:
    handle = connection.open(QUEUE, BOTH)
    connection.interrupt()
    put(owner, QUEUE, b"one")

    assert [b"one"] == [got.body for got in connection.exchange(handle, FOR_EVER, commit=None, most=2).unit]


@pytest.mark.anyio
async def test_a_session_that_waits_is_interrupted_at_once(owner: EmbeddedQueueManager, folder: Path) -> None:
    with serve(owner, folder / "qm"):
        session = await open_session(ServedQueueManager(folder / "qm"), THREADS)
        handle = await session.call(session.connection.open, QUEUE, BOTH)
        async with anyio.create_task_group() as group:
            group.start_soon(partial(session.exchange, None, handle, FOR_EVER, most=1))
            await anyio.to_thread.run_sync(until_it_waits, owner)
            session.interrupt()
        await session.close()


def test_a_call_that_was_left_before_its_answer_ends_the_connection(
    owner: EmbeddedQueueManager, connection: ServedConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After Ctrl-C in a backout, the answer of the backout must not count as that of the next commit, which is not durable."""
    handle = connection.open(QUEUE, BOTH)
    connection.put(handle, MessageDescriptor(), b"an order", PutOption.SYNCPOINT)
    monkeypatch.setattr(connection._line._frames, "answer", _interrupted)
    with pytest.raises(KeyboardInterrupt):
        connection.backout()
    monkeypatch.undo()

    with pytest.raises(MQIError) as told:
        connection.commit()

    assert told.value.reason == Reason.CONNECTION_BROKEN


def test_an_exchange_that_was_left_between_its_answers_ends_the_connection(
    owner: EmbeddedQueueManager, connection: ServedConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = connection.open(QUEUE, BOTH)
    replied = connection._line.reply

    def first_only(request: requests.Exchange, frame: bytes | None, *args: Any, **options: Any) -> object:
        return _interrupted() if frame is None else replied(request, frame, *args, **options)

    monkeypatch.setattr(connection._line, "reply", first_only)
    with pytest.raises(KeyboardInterrupt):
        connection.exchange(handle, BRIEF, commit=None, most=1)
    monkeypatch.undo()
    put(owner, QUEUE, b"for the next call")

    error = connection.exchange(handle, AT_ONCE, commit=True, most=1).settle_error

    assert error is not None
    assert error.reason == Reason.CONNECTION_BROKEN


def _interrupted() -> bytes:
    raise KeyboardInterrupt


def test_a_message_wakes_one_of_two_connections_that_wait(
    owner: EmbeddedQueueManager, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wait that is withdrawn before its get would pass the message on, and wake the second connection in vain."""
    waits = count()
    waited = EmbeddedConnection.on_arrival
    queue = owner._state.queues[QUEUE]
    assert isinstance(queue, LocalQueue)

    def counted(*args: Any) -> Callable[[], None] | None:
        next(waits)
        return waited(*args)

    def both_wait() -> None:
        while len(queue.waiters) < 2 or queue.depth:
            threading.Event().wait(0.001)

    monkeypatch.setattr(EmbeddedConnection, "on_arrival", counted)
    with serve(owner, folder / "qm") as server:
        consumers = [threading.Thread(target=_consume, args=(server.path,)) for _ in range(2)]
        for consumer in consumers:
            consumer.start()
        both_wait()
        for _ in range(5):
            put(owner, QUEUE, b"for one")
            both_wait()
    for consumer in consumers:
        consumer.join()

    assert next(waits) == 2 + 5


def _consume(path: Path) -> None:
    connection = ServedQueueManager(path).connect()
    handle = connection.open(QUEUE, BOTH)
    with suppress(MQIError):  # the connection is not served any more
        while connection.get(handle, replace(PATIENT, options=GetOption.NO_SYNCPOINT | GetOption.WAIT)):
            pass
