"""MQCB and MQCTL, by the real ibmmq: the calls of the stand-in, their arguments, and their end. pymqi has neither call."""

import tempfile
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.server.listener import serve
from mqflow.standin.calls.callbacks import Consumers
from mqflow.verbs import GetOptions
from mqflow.world import give_way
from tests.standin.harness import Program, only_in

pytestmark = [pytest.mark.xdist_group("standin"), only_in("ibmmq", "pymqi has no MQCB")]


class Consumer:
    """A callback that remembers the arguments of its calls."""

    def __init__(self, program: Program, *, calls: int = 1) -> None:
        self.c = program.c
        self.manager = program.manager
        self.mq = program.mq
        self.queue = program.open()
        self.calls: list[Any] = []
        self.bodies: list[bytes | None] = []
        self.enough = threading.Event()
        self._wanted = calls

    def __call__(self, *, msg: bytes | None, cbc: Any, **_: Any) -> None:
        self.calls.append(cbc)
        self.bodies.append(msg)
        if len(self.calls) == self._wanted:
            self.enough.set()

    def register(self, options: int = 0, *, wait_ms: int = -1, function: Any = None, **more: Any) -> None:
        """Register this callback, or another function in its place."""
        gmo = self.mq.GMO(Options=self.c.MQGMO_WAIT | options, WaitInterval=wait_ms)
        description = self.mq.CBD(CallbackFunction=function or self, **more)
        self.queue.cb(operation=self.c.MQOP_REGISTER, md=self.mq.MD(), gmo=gmo, cbd=description)

    def control(self, operation: int) -> None:
        self.manager.ctl(operation, self.mq.CTLO())

    def run(self) -> None:
        """Start, wait until it was called often enough, stop."""
        self.control(self.c.MQOP_START)
        assert self.enough.wait(30)
        self.control(self.c.MQOP_STOP)


def test_a_message_is_removed_and_its_context_says_so(program: Program) -> None:
    consumer = Consumer(program)
    consumer.register()
    program.other.put1(b"Q", b"body")

    consumer.run()

    said = consumer.calls[0]
    assert (b"body", 4, 4) == (consumer.bodies[0], said.DataLength, said.BufferLength)
    assert (program.c.MQCBCT_MSG_REMOVED, program.c.MQCC_OK) == (said.CallType, said.CompCode)
    assert 0 == program.depth()


def test_a_message_that_is_browsed_is_not_removed(program: Program) -> None:
    consumer = Consumer(program)
    consumer.register(program.c.MQGMO_BROWSE_NEXT)
    program.other.put1(b"Q", b"body")

    consumer.run()

    assert (program.c.MQCBCT_MSG_NOT_REMOVED, 1) == (consumer.calls[0].CallType, program.depth())


def test_a_message_longer_than_the_consumer_wants_stays_and_suspends_it(program: Program) -> None:
    consumer, c = Consumer(program), program.c
    consumer.register(MaxMsgLength=4)
    program.other.put1(b"Q", b"0123456789")

    consumer.run()

    said = consumer.calls[0]
    assert (c.MQCBCT_MSG_NOT_REMOVED, c.MQRC_TRUNCATED_MSG_FAILED) == (said.CallType, said.Reason)
    assert (c.MQCS_SUSPENDED_USER_ACTION, 10, 1) == (said.State, said.DataLength, program.depth())


def test_a_callback_is_called_at_the_end_of_its_wait(program: Program) -> None:
    consumer, c = Consumer(program, calls=2), program.c
    consumer.register(wait_ms=1)

    consumer.run()

    assert [(c.MQCC_FAILED, c.MQRC_NO_MSG_AVAILABLE, None)] * 2 == [
        (said.CompCode, said.Reason, body or None) for said, body in zip(consumer.calls, consumer.bodies, strict=True)
    ][:2]


def test_an_inhibited_queue_calls_the_consumer_and_suspends_it_for_a_while(program: Program) -> None:
    consumer, c = Consumer(program), program.c
    consumer.register()
    program.kit.mqsc("ALTER QLOCAL(Q) GET(DISABLED)")

    consumer.run()

    said = consumer.calls[0]
    assert (c.MQCBCT_EVENT_CALL, c.MQRC_GET_INHIBITED) == (said.CallType, said.Reason)
    assert c.MQCS_SUSPENDED_TEMPORARY == said.State


def test_a_suspended_consumer_is_not_called_until_it_is_resumed(program: Program) -> None:
    resting, active, c = Consumer(program), Consumer(program), program.c
    program.kit.define("Q2")
    active.queue = program.open(name="Q2")
    resting.register()
    active.register()
    resting.queue.cb(operation=c.MQOP_SUSPEND)
    for queue in (b"Q", b"Q2"):
        program.other.put1(queue, b"body")

    active.run()
    assert [] == resting.bodies

    resting.queue.cb(operation=c.MQOP_RESUME)
    resting.run()
    assert [b"body"] == resting.bodies


def test_a_started_connection_can_be_stopped_by_its_own_callback(program: Program) -> None:
    consumer, c = Consumer(program), program.c
    bodies: list[bytes | None] = []

    def once(*, msg: bytes | None, queue_manager: Any, **_: Any) -> None:
        bodies.append(msg)
        queue_manager.ctl(c.MQOP_STOP, program.mq.CTLO())

    consumer.register(function=once)
    for body in (b"one", b"two"):
        program.other.put1(b"Q", body)

    consumer.control(c.MQOP_START_WAIT)

    assert ([b"one"], 1) == (bodies, program.depth())


def test_stopping_waits_for_the_call_under_way(program: Program) -> None:
    consumer, c = Consumer(program), program.c
    inside, release = threading.Event(), threading.Event()
    order: list[str] = []

    def slow(**_: Any) -> None:
        inside.set()
        release.wait(30)
        order.append("called")

    consumer.register(function=slow)
    program.other.put1(b"Q", b"body")
    consumer.control(c.MQOP_START)
    inside.wait(30)

    def stop() -> None:
        consumer.control(c.MQOP_STOP)
        order.append("stopped")

    stopping = threading.Thread(target=stop)
    stopping.start()
    hconn = program.kit._installed._host.hconn(program.manager.get_handle(), "MQCTL")
    while not (isinstance(hconn.consumers, Consumers) and hconn.consumers._stopping):
        pass  # until the other thread has said so
    release.set()
    stopping.join()

    assert ["called", "stopped"] == order


def test_the_first_callback_waits_for_the_end_of_mqctl(program: Program) -> None:
    """npm's ibmmq notes after MQCTL that it is called back; a callback before that note stops it for ever."""
    consumer, began = Consumer(program), []
    consumer.register()
    program.other.put1(b"Q", b"body")
    consumers = program.kit._installed._host.hconn(program.manager.get_handle(), "MQCTL").consumers
    assert isinstance(consumers, Consumers)
    release = consumers.let_begin

    def let_begin() -> None:
        for _ in range(1000):  # the thread that calls back has many chances to begin
            give_way()
        began.append(consumers._thread is not None)
        release()

    consumers.let_begin = let_begin  # type: ignore[method-assign]  # as MQCTL calls it, after it has started the thread
    consumer.run()

    assert [False] == began
    assert [b"body"] == consumer.bodies


def test_nothing_to_start_is_2446_and_nothing_to_deregister_2448(program: Program) -> None:
    consumer, c = Consumer(program), program.c

    program.refused(c.MQRC_NO_CALLBACKS_ACTIVE, lambda: consumer.control(c.MQOP_START))
    program.refused(c.MQRC_CALLBACK_NOT_REGISTERED, lambda: consumer.queue.cb(operation=c.MQOP_DEREGISTER))


def test_disconnecting_stops_the_callbacks(program: Program) -> None:
    consumer = Consumer(program)
    consumer.register()
    program.other.put1(b"Q", b"one")
    consumer.control(program.c.MQOP_START)
    assert consumer.enough.wait(30)

    program.manager.disconnect()
    program.other.put1(b"Q", b"two")

    assert ([b"one"], 1) == (consumer.bodies, program.depth())


def test_a_callback_is_called_with_each_message_and_not_after_the_stop(program: Program) -> None:
    consumer, c = Consumer(program, calls=2), program.c
    consumer.register(c.MQGMO_NO_SYNCPOINT)
    consumer.control(c.MQOP_START)
    for body in (b"one", b"two"):
        program.other.put1(b"Q", body)
    assert consumer.enough.wait(30)
    program.refused(c.MQRC_HCONN_ASYNC_ACTIVE, program.manager.commit)

    consumer.control(c.MQOP_STOP)
    program.other.put1(b"Q", b"three")

    assert [b"one", b"two"] == consumer.bodies
    program.manager.commit()


def test_a_callback_commits_its_own_unit_of_work(program: Program) -> None:
    consumer, c = Consumer(program), program.c
    counts: list[int] = []
    done = threading.Event()

    def consume(*, md: Any, queue_manager: Any, **_: Any) -> None:
        counts.append(md.BackoutCount)
        if len(counts) == 1:
            queue_manager.backout()
        else:
            queue_manager.commit()
            done.set()

    consumer.register(c.MQGMO_SYNCPOINT, function=consume)
    program.other.put1(b"Q", b"twice")
    consumer.control(c.MQOP_START)

    assert done.wait(30)
    consumer.control(c.MQOP_STOP)
    assert ([0, 1], 0) == (counts, program.depth())


def test_an_event_handler_hears_that_the_queue_manager_stops(program: Program) -> None:
    consumer, mq, c = Consumer(program), program.mq, program.c
    reasons: list[int] = []
    heard = threading.Event()

    def handle(*, cbc: Any, **_: Any) -> None:
        reasons.append(cbc.Reason)
        heard.set()

    consumer.register()
    handler = mq.CBD(CallbackFunction=handle, CallbackType=c.MQCBT_EVENT_HANDLER)
    program.manager.cb(operation=c.MQOP_REGISTER, cbd=handler)
    consumer.control(c.MQOP_START)

    program.kit.queue_manager.stop()

    assert heard.wait(30)
    assert [c.MQRC_Q_MGR_STOPPING] == reasons


def test_suspended_callbacks_free_the_connection_for_other_calls(program: Program) -> None:
    consumer, c = Consumer(program), program.c
    consumer.register()
    consumer.control(c.MQOP_START)
    program.refused(c.MQRC_HCONN_ASYNC_ACTIVE, program.manager.commit)

    consumer.control(c.MQOP_SUSPEND)
    program.manager.put1(b"Q", b"body")
    assert 1 == program.open().inquire(c.MQIA_CURRENT_Q_DEPTH)
    program.manager.commit()
    assert [] == consumer.bodies

    consumer.control(c.MQOP_RESUME)
    assert consumer.enough.wait(30)
    consumer.control(c.MQOP_STOP)
    assert [b"body"] == consumer.bodies


def test_stopped_callbacks_are_not_suspended_and_suspended_ones_not_started(program: Program) -> None:
    consumer, c = Consumer(program), program.c
    consumer.register()

    for operation in (c.MQOP_SUSPEND, c.MQOP_RESUME):
        program.refused(c.MQRC_OPERATION_NOT_ALLOWED, partial(consumer.control, operation))
    consumer.control(c.MQOP_START)
    consumer.control(c.MQOP_SUSPEND)
    program.refused(c.MQRC_OPERATION_NOT_ALLOWED, lambda: consumer.control(c.MQOP_START))

    consumer.control(c.MQOP_STOP)


def test_a_callback_may_suspend_its_connection_which_another_thread_uses_before_the_callback_ends(program: Program) -> None:
    consumer, c = Consumer(program), program.c
    suspended, committed = threading.Event(), threading.Event()
    bodies: list[bytes] = []

    def once(*, msg: bytes, queue_manager: Any, **_: Any) -> None:
        bodies.append(msg)
        queue_manager.ctl(c.MQOP_SUSPEND, program.mq.CTLO())
        suspended.set()
        committed.wait(30)

    consumer.register(function=once)
    for body in (b"one", b"two"):
        program.other.put1(b"Q", body)
    consumer.control(c.MQOP_START)
    assert suspended.wait(30)
    program.manager.commit()
    committed.set()
    consumer.control(c.MQOP_STOP)

    assert ([b"one"], 1) == (bodies, program.depth())


def test_callbacks_run_over_a_queue_manager_in_another_process_too(program: Program) -> None:
    """The server is in this process; the connection is the one to a queue manager in another process."""
    with tempfile.TemporaryDirectory() as folder, serve(program.kit.queue_manager, Path(folder) / "QM1") as server:
        host = program.kit._installed._host
        local, host.queue_manager = host.queue_manager, ServedQueueManager(server.path, name="QM1")
        try:
            program.manager = program.connect()
        finally:
            host.queue_manager = local
        program.kit.define("Q2")
        one, two, c = Consumer(program, calls=2), Consumer(program), program.c
        two.queue = program.open(name="Q2")
        for consumer in (one, two):
            consumer.register()
        waits = threading.Event()
        connection = host.hconn(program.manager.get_handle(), "MQCB").connection
        get = connection.get

        def noticed(handle: Any, options: GetOptions) -> Any:
            if options.wait_ms:
                waits.set()
            return get(handle, options)

        connection.get = noticed  # type: ignore[method-assign]  # the connection of the callbacks is made by the library
        one.control(c.MQOP_START)
        assert waits.wait(30), "an idle consumer waits in MQGET, and does not ask again and again"
        for queue in (b"Q", b"Q2", b"Q"):
            program.other.put1(queue, queue)
        assert one.enough.wait(30)
        assert two.enough.wait(30)
        one.control(c.MQOP_SUSPEND)
        program.manager.commit()
        one.control(c.MQOP_RESUME)
        one.control(c.MQOP_STOP)
        program.manager.disconnect()

        assert ([b"Q", b"Q"], [b"Q2"]) == (one.bodies, two.bodies)
