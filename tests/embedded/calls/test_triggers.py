"""Trigger messages on the initiation queue. Source: IBM q026930 (conditions), q026940 (types), q027000 (properties), MQTM."""

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqflow.embedded.calls.pending_answer import begin, finish
from mqflow.embedded.calls.put import put_message
from mqflow.embedded.mqsc import run
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.storage.store import Snapshot, StoredSerials
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.attributes.queue_manager import QueueManagerAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.headers.trigger import TriggerMessage, to_bytes
from mqflow.mqi.options import Encoding, Format, GetOption, MessageFlag, OpenOption, PutOption, Report
from mqflow.verbs import GetOptions, Got
from mqflow.world import World
from tests.conformance.under_test import ManualClock
from tests.embedded.storage.scripted_store import ScriptedStore

OUTSIDE = GetOptions(options=GetOption.NO_SYNCPOINT)
SCRIPT = """
DEFINE QLOCAL(INIT) DEFPRTY(3)
DEFINE PROCESS(RUN) APPLTYPE(UNIX) APPLICID('/bin/orders') ENVRDATA('env') USERDATA('user')
DEFINE QLOCAL(Q) TRIGGER TRIGTYPE(FIRST) PROCESS(RUN) INITQ(INIT) TRIGDATA('desk 1')
"""
TO_INIT = "TRIGGER TRIGTYPE(EVERY) PROCESS(RUN) INITQ(INIT)"


class Rig:
    """A queue manager with one triggered queue, and a trigger monitor."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.queue_manager = EmbeddedQueueManager("QM1", world=World(self.clock), dead_letter_queue="SYSTEM.DEAD.LETTER.QUEUE")
        self.run(SCRIPT)
        self.program = self.queue_manager.connect()
        self.monitor = self.queue_manager.connect()
        self.initiation = self.monitor.open("INIT", OpenOption.INPUT_SHARED)

    def run(self, script: str) -> None:
        assert 0 == run(script, self.queue_manager.administration).exit_code(strict=True)

    def put(self, count: int = 1, options: PutOption = PutOption.NO_SYNCPOINT, priority: int = 0) -> None:
        for _ in range(count):
            self.program.put1("Q", MessageDescriptor(priority=priority), b"1", options)

    def drain(self, count: int) -> None:
        handle = self.program.open("Q", OpenOption.INPUT_SHARED)
        for _ in range(count):
            self.program.get(handle, OUTSIDE)
        self.program.close(handle)

    def triggers(self) -> list[Got]:
        found: list[Got] = []
        while (got := self.monitor.get(self.initiation, OUTSIDE)) is not None:
            found.append(got)
        return found


@pytest.fixture
def rig() -> Iterator[Rig]:
    made = Rig()
    with made.queue_manager:
        yield made


def test_a_trigger_message_names_the_queue_and_the_process(rig: Rig) -> None:
    rig.put()

    [message] = rig.triggers()

    assert (Format.TRIGGER, 0, 3) == (message.descriptor.format, message.descriptor.persistence, message.descriptor.priority)
    assert message.body == to_bytes(TriggerMessage(
        queue="Q", process="RUN", trigger_data="desk 1", application_type=6, application="/bin/orders",
        environment_data="env", user_data="user",
    ))  # fmt: skip


@pytest.mark.parametrize("encoding", [int(Encoding.NATIVE), 0x111])
def test_an_mqtm_has_684_bytes_in_the_byte_order_of_its_encoding(encoding: int) -> None:
    message = TriggerMessage(queue="Q", process="P", application_type=6)
    data = to_bytes(message, encoding=encoding)

    layout = f"{'>' if encoding == 0x111 else '='}4si48s48s64si256s128s128s"
    names = [name.ljust(bytes_of) for name, bytes_of in ((b"Q", 48), (b"P", 48), (b"", 64))]
    assert struct.pack(layout, b"TM  ", 1, *names, 6, b" " * 256, b" " * 128, b" " * 128) == data
    assert 684 == len(data)


def test_first_triggers_when_the_empty_queue_gets_a_message_and_not_again_before_it_was_empty(rig: Rig) -> None:
    rig.put(3)
    assert 1 == len(rig.triggers())

    rig.drain(3)
    rig.put(2)

    assert 1 == len(rig.triggers())


def test_every_triggers_for_each_message(rig: Rig) -> None:
    rig.run("ALTER QLOCAL(Q) TRIGTYPE(EVERY)")

    rig.put(3)

    assert 3 == len(rig.triggers())


def test_depth_triggers_once_and_then_switches_the_trigger_off(rig: Rig) -> None:
    rig.run("ALTER QLOCAL(Q) TRIGTYPE(DEPTH) TRIGDPTH(3)")

    rig.put(2)
    assert 0 == len(rig.triggers())
    rig.put(4)

    assert 1 == len(rig.triggers())
    found = rig.queue_manager.administration.queue("Q")
    assert found is not None
    assert not found.trigger


def test_a_depth_trigger_is_off_after_a_restart_too(folder: Path) -> None:
    with EmbeddedQueueManager("QM1", store=SqliteStore(folder / "data")) as queue_manager:
        script = f"{SCRIPT}ALTER QLOCAL(Q) TRIGTYPE(DEPTH) TRIGDPTH(1)"
        assert 0 == run(script, queue_manager.administration).exit_code(strict=True)
        connection = queue_manager.connect()
        connection.open("INIT", OpenOption.INPUT_SHARED)
        connection.put1("Q", MessageDescriptor(), b"1", PutOption.NO_SYNCPOINT)

    with EmbeddedQueueManager("QM1", store=SqliteStore(folder / "data")) as queue_manager:
        found = queue_manager.administration.queue("Q")
    assert found is not None
    assert not found.trigger


@pytest.mark.parametrize(("kind", "expected"), [("FIRST", 0), ("DEPTH", 0), ("EVERY", 1)])
def test_a_program_that_gets_from_the_queue_needs_no_trigger_except_every(rig: Rig, kind: str, expected: int) -> None:
    rig.run(f"ALTER QLOCAL(Q) TRIGTYPE({kind})")
    rig.queue_manager.connect().open("Q", OpenOption.INPUT_SHARED)

    rig.put()

    assert expected == len(rig.triggers())


def test_the_last_close_of_a_queue_with_messages_left_triggers(rig: Rig) -> None:
    handle = rig.program.open("Q", OpenOption.INPUT_SHARED)
    rig.put(2)
    assert 0 == len(rig.triggers())

    rig.program.close(handle)

    assert 1 == len(rig.triggers())


def test_trigint_triggers_again_for_a_queue_that_is_still_not_served(rig: Rig) -> None:
    rig.run("ALTER QMGR TRIGINT(10000)")
    rig.put()
    rig.clock.advance(9)
    rig.put()
    assert 1 == len(rig.triggers())

    rig.clock.advance(1)
    rig.put()

    assert 1 == len(rig.triggers())


def test_messages_below_trigmpri_do_not_count(rig: Rig) -> None:
    rig.run("ALTER QLOCAL(Q) TRIGMPRI(5)")

    rig.put(2, priority=4)
    assert 0 == len(rig.triggers())
    rig.put(1, priority=5)

    assert 1 == len(rig.triggers())


@pytest.mark.parametrize("order", ["PRIORITY", "FIFO"])
@pytest.mark.parametrize("uncommitted", ["put", "got", "got ahead"])
def test_uncommitted_messages_count_for_trigmpri_too(rig: Rig, uncommitted: str, order: str) -> None:
    """IBM q026930: "the queue manager counts both committed and uncommitted messages"."""
    rig.run(f"ALTER QLOCAL(Q) TRIGTYPE(DEPTH) TRIGDPTH(4) TRIGMPRI(5) DEFPRTY(0) MSGDLVSQ({order})")
    other = rig.queue_manager.connect()
    if uncommitted == "put":
        for priority in (4, 5, 9):
            other.put1("Q", MessageDescriptor(priority=priority), b"1", PutOption.SYNCPOINT)
    else:
        rig.put(1, priority=4)
        rig.put(2, priority=6)
        handle, options = other.open("Q", OpenOption.INPUT_SHARED), GetOptions(options=GetOption.SYNCPOINT)
        if uncommitted == "got":
            assert 3 == len(other.get_many(handle, options, 3))
        else:
            assert 3 == len(other.take_ahead(handle, options, most=1, units=3, bytes_max=1_000))
        other.close(handle)
    rig.put(1, priority=7)
    assert 0 == len(rig.triggers())

    rig.put(1, priority=7)

    assert 1 == len(rig.triggers())


def test_messages_of_a_commit_that_waits_for_the_store_count_for_trigmpri_once() -> None:
    store = ScriptedStore()
    with EmbeddedQueueManager("QM1", store=store) as queue_manager:
        run(f"{SCRIPT}ALTER QLOCAL(Q) TRIGTYPE(DEPTH) TRIGDPTH(3) TRIGMPRI(5)", queue_manager.administration)
        behind, program, monitor = (queue_manager.connect() for _ in range(3))
        initiation = monitor.open("INIT", OpenOption.INPUT_SHARED)
        store.holds = True
        behind.put1("Q", MessageDescriptor(priority=5, persistence=1), b"1", PutOption.SYNCPOINT)
        behind.begin_commit(lambda _: None, behind=True)

        counted = []
        for _ in range(2):
            program.put1("Q", MessageDescriptor(priority=5), b"2", PutOption.NO_SYNCPOINT)
            counted.append(monitor.get(initiation, OUTSIDE) is not None)
        store.answer()

        assert [False, True] == counted


@pytest.mark.parametrize("persistence", [0, 1])
def test_a_put_whose_commit_has_not_begun_counts_for_trigmpri(persistence: int) -> None:
    with EmbeddedQueueManager("QM1", store=ScriptedStore()) as queue_manager:
        run(f"{SCRIPT}ALTER QLOCAL(Q) TRIGTYPE(DEPTH) TRIGDPTH(2) TRIGMPRI(5)", queue_manager.administration)
        first, second, monitor = (queue_manager.connect() for _ in range(3))
        initiation, target = monitor.open("INIT", OpenOption.INPUT_SHARED), first.open("Q", OpenOption.OUTPUT)
        state = queue_manager._state
        descriptor = MessageDescriptor(priority=5, persistence=persistence, report=Report.COA, reply_to_queue="INIT")

        pending = put_message(state, target, descriptor, b"1", PutOption.NO_SYNCPOINT, None)
        answer = begin(state, pending)
        second.put1("Q", MessageDescriptor(priority=5), b"2", PutOption.NO_SYNCPOINT)
        found = monitor.get(initiation, OUTSIDE)
        finish(state, pending, answer)

        assert (Format.TRIGGER, set()) == (found.descriptor.format if found else None, state.in_commit)


@pytest.mark.parametrize("lowest", [0, 5])
def test_first_triggers_once_for_the_segments_of_a_message_outside_a_unit_of_work(rig: Rig, lowest: int) -> None:
    rig.run(f"ALTER QLOCAL(Q) MAXMSGL(16) TRIGMPRI({lowest})")
    descriptor = MessageDescriptor(priority=5, message_flags=MessageFlag.SEGMENTATION_ALLOWED)

    rig.program.put1("Q", descriptor, bytes(48), PutOption.NO_SYNCPOINT)

    assert 1 == len(rig.triggers())


def test_a_trigger_of_a_unit_of_work_waits_for_its_end_and_comes_also_after_a_backout(rig: Rig) -> None:
    for end in (rig.program.commit, rig.program.backout):
        rig.drain(1)
        rig.put(1, PutOption.SYNCPOINT)
        assert 0 == len(rig.triggers())

        end()

        assert 1 == len(rig.triggers())


def test_a_trigger_monitor_that_starts_gets_the_triggers_that_came_before(rig: Rig) -> None:
    rig.monitor.close(rig.initiation)
    rig.put()

    rig.initiation = rig.monitor.open("INIT", OpenOption.INPUT_SHARED)

    assert 1 == len(rig.triggers())


@pytest.mark.parametrize("use", [OpenOption.BROWSE, OpenOption.OUTPUT])
def test_an_open_of_the_initiation_queue_that_gets_no_message_triggers_nothing(rig: Rig, use: OpenOption) -> None:
    rig.put()
    assert 1 == len(rig.triggers())

    rig.program.open("INIT", use)

    assert 0 == len(rig.triggers())


def test_the_trigger_message_of_a_transmission_queue_without_a_process_names_none(rig: Rig) -> None:
    rig.run("ALTER QLOCAL(Q) USAGE(XMITQ) PROCESS(' ')")

    rig.put()

    [message] = rig.triggers()
    assert to_bytes(TriggerMessage(queue="Q", process="", trigger_data="desk 1", application_type=0)) == message.body


def test_switching_the_trigger_on_triggers_for_the_messages_that_are_there(rig: Rig) -> None:
    rig.run("ALTER QLOCAL(Q) NOTRIGGER")
    rig.put()
    assert 0 == len(rig.triggers())

    rig.run("ALTER QLOCAL(Q) TRIGGER")

    assert 1 == len(rig.triggers())


def test_switching_the_trigger_of_a_temporary_queue_on_triggers_too(rig: Rig) -> None:
    handle = rig.program.open("SYSTEM.DEFAULT.MODEL.QUEUE", OpenOption.OUTPUT)
    rig.program.put(handle, MessageDescriptor(persistence=0), b"1", PutOption.NO_SYNCPOINT)

    rig.run(f"ALTER QLOCAL({handle.name}) TRIGGER PROCESS(RUN) INITQ(INIT)")

    assert 1 == len(rig.triggers())


@pytest.mark.parametrize(
    "missing",
    ["ALTER QLOCAL(Q) PROCESS(NOT.THERE)", "ALTER QLOCAL(Q) PROCESS(' ')", "ALTER QLOCAL(Q) INITQ(NOT.THERE)",
     "ALTER QLOCAL(Q) TRIGTYPE(NONE)"],
)  # fmt: skip
def test_without_process_or_initiation_queue_nothing_triggers_and_the_put_succeeds(rig: Rig, missing: str) -> None:
    rig.run(missing)

    rig.put()

    assert 0 == len(rig.triggers())


def test_a_trigger_message_that_the_initiation_queue_refuses_goes_to_the_dead_letter_queue(rig: Rig) -> None:
    rig.run("ALTER QLOCAL(INIT) MAXDEPTH(0)")

    rig.put()

    assert 1 == rig.queue_manager.administration.queue_status("SYSTEM.DEAD.LETTER.QUEUE").depth


@pytest.mark.parametrize(
    "script",
    [f"ALTER QLOCAL(INIT) {TO_INIT}", f"ALTER QLOCAL('SYSTEM.DEAD.LETTER.QUEUE') {TO_INIT}\nALTER QLOCAL(INIT) MAXDEPTH(0)"],
    ids=["its own initiation queue", "the dead-letter queue of its own trigger messages"],
)
def test_a_queue_whose_trigger_messages_come_back_to_it_triggers_once_for_a_message(rig: Rig, script: str) -> None:
    rig.run(script)

    rig.put()

    queues = ("INIT", "SYSTEM.DEAD.LETTER.QUEUE")
    assert 2 == sum(rig.queue_manager.administration.queue_status(name).depth for name in queues)


@pytest.mark.parametrize(("sequence", "lowest"), [(0, 5), (1, 0)], ids=["PRIORITY", "FIFO, and each message counts"])
def test_a_count_for_trigmpri_reads_no_message_from_disk(sequence: int, lowest: int) -> None:
    known = QueueManagerAttributes(name="QM1")
    serials = (StoredSerials("Q", 0, (1, 2)), StoredSerials("Q", 7, (3,)))
    queue = QueueAttributes(
        name="Q", trigger=True, trigger_message_priority=lowest, process="RUN", initiation_queue="INIT",
        message_delivery_sequence=sequence,
    )  # fmt: skip
    snapshot = Snapshot(queue_manager=known, queues=(queue, QueueAttributes(name="INIT")), serials=serials, next_serial=4)
    store = ScriptedStore(snapshot=snapshot)
    with EmbeddedQueueManager("QM1", store=store) as queue_manager:
        run("DEFINE PROCESS(RUN)", queue_manager.administration)
        connection = queue_manager.connect()
        initiation = connection.open("INIT", OpenOption.INPUT_SHARED)
        connection.put1("Q", MessageDescriptor(priority=9), b"1", PutOption.NO_SYNCPOINT)

        assert connection.get(initiation, OUTSIDE) is not None
    assert [] == store.asked_for
