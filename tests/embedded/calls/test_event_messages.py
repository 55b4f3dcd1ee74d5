"""Event messages: their queues, their data, their number, and what switches them.

Source: IBM q036430 and its two examples (queue depth events), q036370 and its rules (service interval events), "Get Inhibited",
"Put Inhibited", "Not Authorized (type 1)" and "(type 2)", "Unknown Object Name", "Queue Manager Active", q049820 (Command).
"""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from mqflow.embedded.connection import EmbeddedConnection
from mqflow.embedded.mqsc import run
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.rules.performance_events import after_get, after_put
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.storage.store import Store
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import ApplicationType, Format, GetOption, MessageType, OpenOption, PutOption
from mqflow.mqi.pcf.codes import CommandCode, StructureType
from mqflow.mqi.pcf.pcf_reader import parse
from mqflow.mqi.pcf.structures import CFGR, CFST, PCFMessage
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import GetOptions, Got
from mqflow.world import World
from tests.conformance.under_test import ManualClock
from tests.embedded.administration.commanding import Commander, values_of
from tests.embedded.disk_faults.disk import memory_folder
from tests.queue_contents import taken

PERFORMANCE, MANAGER, COMMAND = "SYSTEM.ADMIN.PERFM.EVENT", "SYSTEM.ADMIN.QMGR.EVENT", "SYSTEM.ADMIN.COMMAND.EVENT"
HIGH, LOW, FULL = Reason.Q_DEPTH_HIGH, Reason.Q_DEPTH_LOW, Reason.Q_FULL
LATE, IN_TIME = Reason.Q_SERVICE_INTERVAL_HIGH, Reason.Q_SERVICE_INTERVAL_OK
OUTSIDE, UNIT = GetOptions(options=GetOption.NO_SYNCPOINT), GetOptions(options=GetOption.SYNCPOINT)
BASE_Q_NAME, Q_NAME, Q_MGR_NAME, USER, QUALIFIER = 2002, 2016, 2015, 3025, 1020


class Rig:
    """A queue manager with a clock that the test advances, and one program."""

    def __init__(self, script: str, store: Store | None = None) -> None:
        self.clock = ManualClock()
        self.queue_manager = EmbeddedQueueManager("QM1", world=World(self.clock), store=store)
        self.run(script)
        self.program: EmbeddedConnection = self.queue_manager.connect(application_name="program")

    def run(self, script: str) -> None:
        results = run(script, self.queue_manager.administration)
        assert 0 == results.exit_code(strict=True), [response.text for response in results.responses]

    def put(self, count: int = 1, options: PutOption = PutOption.NO_SYNCPOINT, name: str = "Q") -> None:
        for _ in range(count):
            self.program.put1(name, MessageDescriptor(), b"1", options)

    def get(self, count: int = 1, options: GetOptions = OUTSIDE) -> None:
        handle = self.program.open("Q", OpenOption.INPUT_SHARED)
        for _ in range(count):
            self.program.get(handle, options)
        self.program.close(handle)

    def messages(self, name: str) -> list[Got]:
        """Get every message of an event queue, without an event about it."""
        return taken(self.queue_manager, name)

    def events(self, name: str = PERFORMANCE) -> list[PCFMessage]:
        return [parse(got.body, encoding=got.descriptor.encoding, ccsid=got.descriptor.ccsid) for got in self.messages(name)]

    def reasons(self, name: str = PERFORMANCE) -> list[int]:
        return [event.header.reason for event in self.events(name)]

    def attributes(self) -> Any:
        found = self.queue_manager.administration.queue("Q")
        assert found is not None
        return found


DEPTHS = "ALTER QMGR PERFMEV(ENABLED)\nDEFINE QLOCAL(Q) MAXDEPTH(10) QDPMAXEV(DISABLED) QDPHIEV(ENABLED) QDPLOEV(DISABLED)"


@pytest.fixture
def depths() -> Iterator[Rig]:
    rig = Rig(DEPTHS)
    with rig.queue_manager:
        yield rig


# Queue depth events


def test_the_put_that_reaches_qdepthhi_causes_one_event(depths: Rig) -> None:
    depths.put(7)
    assert [] == depths.reasons()

    depths.put(2)

    assert [HIGH] == depths.reasons()


def test_a_depth_high_event_switches_itself_off_and_the_others_on(depths: Rig) -> None:
    depths.put(8)

    now = depths.attributes()
    assert (False, True, True) == (now.depth_high_event, now.depth_low_event, now.depth_max_event)


def test_a_depth_low_event_comes_from_a_get_and_switches_depth_high_on_again(depths: Rig) -> None:
    depths.put(8)
    depths.get(8)
    depths.put(8)

    assert [HIGH, LOW, HIGH] == depths.reasons()


def test_the_depth_of_an_event_is_exact_in_a_long_queue_too() -> None:
    queue = QueueAttributes(
        name="Q", max_depth=10_000, depth_high_event=True, depth_high_percent=80, depth_low_event=True, depth_low_percent=20
    )

    assert (False, True) == tuple(after_put(queue, depth) is not None for depth in (7_999, 8_000))
    assert (True, False) == tuple(after_get(queue, depth) is not None for depth in (2_000, 2_001))


def test_a_full_queue_causes_one_event_until_its_depth_was_low(depths: Rig) -> None:
    """IBM's second example: High, Full, Low, and again."""
    for _ in range(2):
        depths.put(10)
        for _ in range(3):
            with pytest.raises(MQIError):
                depths.put()
        depths.get(10)

    assert [HIGH, FULL, LOW] * 2 == depths.reasons()


def test_a_get_in_a_unit_of_work_lowers_the_depth_with_its_commit(depths: Rig) -> None:
    depths.put(8)
    depths.events()
    depths.get(8, UNIT)
    assert [] == depths.reasons()

    depths.program.commit()

    assert [LOW] == depths.reasons()


def test_a_clear_is_a_get_that_lowers_the_depth(depths: Rig) -> None:
    depths.put(8)
    depths.run("CLEAR QLOCAL(Q)")

    assert [HIGH, LOW] == depths.reasons()


def test_many_gets_with_one_call_cause_the_events_of_single_gets(depths: Rig) -> None:
    depths.put(9)
    handle = depths.program.open("Q", OpenOption.INPUT_SHARED)
    depths.program.get_many(handle, UNIT, 9)
    depths.program.commit()

    assert [HIGH, LOW] == depths.reasons()


@pytest.mark.parametrize("trigger", ["NOTRIGGER", "TRIGGER"])
def test_without_perfmev_there_is_no_event(trigger: str) -> None:
    rig = Rig(f"{DEPTHS} {trigger}".replace("PERFMEV(ENABLED)", "PERFMEV(DISABLED)"))
    with rig.queue_manager:
        rig.put(10)

        assert [] == rig.reasons()


def test_a_performance_event_has_the_statistics_of_the_queue_and_resets_them(depths: Rig) -> None:
    depths.put(3)
    depths.get(1)
    depths.clock.advance(5)
    depths.put(6)

    [event] = depths.events()

    assert (StructureType.EVENT, 45, 1) == (event.header.type, event.header.command, event.header.completion)
    assert {Q_MGR_NAME: "QM1", BASE_Q_NAME: "Q", 35: 5, 36: 8, 37: 9, 38: 1} == values_of(event)
    statistics = depths.queue_manager.administration.reset_queue_statistics("Q")
    assert (8, 0, 0) == (statistics.high_depth, statistics.enqueued, statistics.dequeued)


def test_the_descriptor_of_an_event_says_that_the_queue_manager_put_it(depths: Rig) -> None:
    depths.put(8)

    [message] = depths.messages(PERFORMANCE)

    descriptor = message.descriptor
    assert (Format.EVENT, MessageType.DATAGRAM, ApplicationType.QMGR, "QM1", 0) == (
        descriptor.format,
        descriptor.message_type,
        descriptor.put_application_type,
        descriptor.put_application_name,
        descriptor.persistence,
    )


def test_an_event_survives_a_restart_if_its_queue_makes_messages_persistent() -> None:
    with memory_folder() as folder:
        rig = Rig(f"{DEPTHS}\nALTER QLOCAL({PERFORMANCE}) DEFPSIST(YES)", SqliteStore(folder / "qm"))
        rig.put(8)
        rig.program.backout()
        rig.queue_manager.close()
        again = Rig("PING QMGR", SqliteStore(folder / "qm"))
        with again.queue_manager:
            assert [HIGH] == again.reasons()


@pytest.mark.parametrize("broken", ["PUT(DISABLED)", "MAXDEPTH(0)", "MAXMSGL(10)"])
def test_an_event_queue_that_takes_no_message_hinders_no_put(depths: Rig, broken: str) -> None:
    depths.run(f"ALTER QLOCAL({PERFORMANCE}) {broken}")

    depths.put(9)

    assert 9 == depths.attributes().depth
    assert [] == depths.reasons()


def test_the_number_of_events_is_exact_while_many_programs_put_and_get() -> None:
    """Each time that the depth passes both limits has one High and one Low, in turns, whatever the threads do."""
    rig = Rig(DEPTHS)

    def work() -> None:
        program = rig.queue_manager.connect()
        handle = program.open("Q", OpenOption.INPUT_SHARED | OpenOption.OUTPUT)
        for _ in range(60):
            for _ in range(3):
                with contextlib.suppress(MQIError):  # a full queue
                    program.put(handle, MessageDescriptor(), b"1", PutOption.NO_SYNCPOINT)
            for _ in range(3):
                program.get(handle, OUTSIDE)
        program.disconnect()

    with rig.queue_manager:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = [reason for reason in rig.reasons() if reason != FULL]
        now = rig.attributes()

    assert [HIGH, LOW] * (len(found) // 2) + [HIGH] * (len(found) % 2) == found
    assert bool(len(found) % 2) == now.depth_low_event


# Service interval events

SERVICE = "ALTER QMGR PERFMEV(ENABLED)\nDEFINE QLOCAL(Q) QSVCIEV(HIGH) QSVCINT(1000)"


@pytest.fixture
def service() -> Iterator[Rig]:
    rig = Rig(SERVICE)
    with rig.queue_manager:
        yield rig


def test_a_late_get_causes_high_and_the_next_get_in_time_causes_ok(service: Rig) -> None:
    """IBM's first example."""
    service.put()
    service.clock.advance(2)
    service.get()
    service.put()
    service.clock.advance(0.5)
    service.get()

    assert [LATE, IN_TIME] == service.reasons()


def test_messages_that_are_got_with_one_call_are_as_late_as_single_ones(service: Rig) -> None:
    service.put(2)
    service.clock.advance(2)
    handle = service.program.open("Q", OpenOption.INPUT_SHARED)
    service.program.get_many(handle, UNIT, 2)

    assert [LATE, IN_TIME] == service.reasons()


def test_a_put_causes_high_but_never_ok(service: Rig) -> None:
    """IBM's third example, up to P3: the third put finds the interval exceeded."""
    service.put(2)
    service.clock.advance(2)
    service.put(2)

    assert [LATE] == service.reasons()
    assert 2 == service.attributes().service_interval_event, "OK events are enabled now"


def test_the_service_timer_of_a_queue_with_messages_starts_with_the_queue_manager() -> None:
    with memory_folder() as folder:
        rig = Rig(SERVICE, SqliteStore(folder / "qm"))
        rig.program.put1("Q", MessageDescriptor(persistence=1), b"1", PutOption.NO_SYNCPOINT)
        rig.queue_manager.close()
        again = Rig("PING QMGR", SqliteStore(folder / "qm"))
        with again.queue_manager:
            again.clock.advance(2)
            again.get()

            assert [LATE] == again.reasons()


def test_the_service_timer_is_off_while_the_queue_is_empty(service: Rig) -> None:
    service.put()
    service.get()
    service.clock.advance(5)
    service.put()
    service.get()

    assert [] == service.reasons()


def test_a_get_that_leaves_messages_restarts_the_service_timer(service: Rig) -> None:
    service.put(2)
    service.clock.advance(0.8)
    service.get()
    service.clock.advance(1)  # not later than QSVCINT
    service.get()

    assert [] == service.reasons()


# Queue manager events


@pytest.mark.parametrize(
    ("switch", "script", "reason"),
    [
        ("INHIBTEV", "ALTER QLOCAL(Q) PUT(DISABLED)", Reason.PUT_INHIBITED),
        ("INHIBTEV", "ALTER QLOCAL(Q) GET(DISABLED)", Reason.GET_INHIBITED),
        ("LOCALEV", "DELETE QLOCAL(Q)", Reason.UNKNOWN_OBJECT_NAME),
        ("LOCALEV", "DELETE QLOCAL(Q)\nDEFINE QALIAS(Q) TARGET(NOT.THERE)", Reason.UNKNOWN_ALIAS_BASE_Q),
    ],
)
def test_a_refused_call_causes_one_event_if_its_kind_is_switched_on(switch: str, script: str, reason: Reason) -> None:
    rig = Rig(f"DEFINE QLOCAL(Q)\n{script}")
    with rig.queue_manager:
        for state in ("DISABLED", "ENABLED"):
            rig.run(f"ALTER QMGR {switch}({state})")
            with pytest.raises(MQIError) as error:
                rig.get() if reason is Reason.GET_INHIBITED else rig.put()
            assert reason == error.value.reason

        [event] = rig.events(MANAGER)

    assert (44, reason) == (event.header.command, event.header.reason)
    assert {Q_MGR_NAME: "QM1", Q_NAME: "Q", 3024: "program"}.items() <= values_of(event).items()


def test_a_missing_authority_causes_an_event_with_the_user_and_the_verb() -> None:
    rig = Rig(
        "DEFINE QLOCAL(Q)\nALTER QMGR AUTHOREV(ENABLED)\n"
        "SET AUTHREC PROFILE(SELF) OBJTYPE(QMGR) PRINCIPAL('app') AUTHADD(CONNECT)"
    )
    with rig.queue_manager:
        with pytest.raises(MQIError):
            rig.queue_manager.connect(user="other")
        with pytest.raises(MQIError):
            rig.queue_manager.connect(user="app").open("Q", OpenOption.OUTPUT)

        found = [values_of(event) for event in rig.events(MANAGER)]

    assert [("other", 1), ("app", 2)] == [(values[USER], values[QUALIFIER]) for values in found]
    assert "Q" == found[1][Q_NAME]


def test_a_start_and_a_stop_cause_an_event_each() -> None:
    with memory_folder() as folder:
        rig = Rig(f"ALTER QLOCAL({MANAGER}) DEFPSIST(YES)\nALTER QMGR STRSTPEV(ENABLED)", SqliteStore(folder / "qm"))
        rig.queue_manager.close()
        again = Rig("PING QMGR", SqliteStore(folder / "qm"))
        with again.queue_manager:
            assert [Reason.Q_MGR_NOT_ACTIVE, Reason.Q_MGR_ACTIVE] == again.reasons(MANAGER)


def test_a_quiesce_that_ends_in_a_stop_causes_one_event() -> None:
    with memory_folder() as folder:
        rig = Rig(f"ALTER QLOCAL({MANAGER}) DEFPSIST(YES)\nALTER QMGR STRSTPEV(ENABLED)", SqliteStore(folder / "qm"))
        rig.queue_manager.stop(immediate=False)
        rig.program.disconnect()
        rig.queue_manager.close()
        again = Rig("PING QMGR", SqliteStore(folder / "qm"))
        with again.queue_manager:
            stop, start = again.events(MANAGER)

    assert (Reason.Q_MGR_NOT_ACTIVE, 6) == (stop.header.reason, values_of(stop)[QUALIFIER])
    assert Reason.Q_MGR_ACTIVE == start.header.reason


# Command events


def test_a_pcf_command_that_succeeds_causes_an_event_with_its_parameters_and_its_sender() -> None:
    rig = Rig("ALTER QMGR CMDEV(ENABLED)")
    with rig.queue_manager, Commander(rig.queue_manager) as commander:
        rig.events(COMMAND)
        commander.done(CommandCode.INQUIRE_Q_MGR)
        commander.refused(CommandCode.CLEAR_Q, CFST(Q_NAME, "NOT.THERE"))

        [event] = rig.events(COMMAND)

    context, data = event.parameters
    assert isinstance(context, CFGR)
    assert isinstance(data, CFGR)
    assert (99, Reason.COMMAND_PCF) == (event.header.command, event.header.reason)
    values = values_of(PCFMessage(event.header, context.value))
    assert {1021: CommandCode.INQUIRE_Q_MGR, 1011: 3, 3047: "QM1"}.items() <= values.items()
    assert {1010, 1011, 1021, 3045, 3047, 3049, 3050, 3051, 7001} == values.keys()
    assert () == data.value
    texts = {each.parameter: len(each.value) for each in context.value if isinstance(each, CFST)}
    assert {3045: 12, 3047: 48, 3049: 32, 3050: 28, 3051: 4} == texts, "each text has the length of its field"


def test_a_command_event_names_the_administrator_who_ran_the_command() -> None:
    rig = Rig("ALTER QMGR CMDEV(ENABLED)")
    with rig.queue_manager:
        rig.events(COMMAND)
        run("PING QMGR", rig.queue_manager.administration_of("alice"))

        [event] = rig.events(COMMAND)

    context, _ = event.parameters
    assert isinstance(context, CFGR)
    assert CFST(3045, "alice".ljust(12)) in context.value


def test_nodisplay_leaves_out_the_commands_that_only_show_something() -> None:
    rig = Rig("ALTER QMGR CMDEV(NODISPLAY)\nDISPLAY QMGR\nDEFINE QLOCAL(Q)\nDISPLAY QLOCAL(Q)")
    with rig.queue_manager:
        assert [Reason.COMMAND_MQSC] * 2 == rig.reasons(COMMAND), "of ALTER and of DEFINE"


def test_an_event_that_the_character_set_of_the_queue_manager_cannot_express_is_in_utf_8() -> None:
    rig = Rig("ALTER QMGR CCSID(819) CMDEV(ENABLED)\nDEFINE QLOCAL(Q) DESCR('€')")
    with rig.queue_manager:
        *_, event = rig.events(COMMAND)

    _, data = event.parameters
    assert CFGR(8002, (CFST(3075, "DEFINE QLOCAL(Q) DESCR('€')"),)) == data


# The queues


def test_the_queues_that_programs_expect_are_there() -> None:
    expected = {
        *(f"SYSTEM.ADMIN.{name}.EVENT" for name in ("CHANNEL", "COMMAND", "CONFIG", "LOGGER", "PERFM", "PUBSUB", "QMGR")),
        *(f"SYSTEM.ADMIN.{name}.QUEUE" for name in ("ACCOUNTING", "ACTIVITY", "STATISTICS", "TRACE.ACTIVITY", "TRACE.ROUTE")),
        *("SYSTEM.JMS.TEMPQ.MODEL", "SYSTEM.MQEXPLORER.REPLY.MODEL", "SYSTEM.MQSC.REPLY.QUEUE"),
        *("SYSTEM.CHANNEL.INITQ", "SYSTEM.DEFAULT.INITIATION.QUEUE", "SYSTEM.CICS.INITIATION.QUEUE"),
        *("SYSTEM.BROKER.CONTROL.QUEUE", "SYSTEM.BROKER.DEFAULT.STREAM", "SYSTEM.BROKER.ADMIN.STREAM"),
    }
    with EmbeddedQueueManager("QM1") as queue_manager:
        assert expected <= {queue.name for queue in queue_manager.administration.queues()}
