"""Remote queues and transmission queues: where a message to another queue manager waits, and the reasons of wrong definitions.

No channel takes a message from a transmission queue here. Source: IBM, DEFINE QREMOTE, MQXQH, MQOPEN; rc2087, rc2091, rc2092,
rc2184, rc2196 to rc2199.
"""

import pytest

from mqflow.embedded.mqsc import run
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.descriptor import NO_ID, MessageDescriptor
from mqflow.mqi.headers.dead_letter import parse
from mqflow.mqi.headers.transmission import XQH_BYTES
from mqflow.mqi.options import Encoding, Format, GetOption, MessageFlag, OpenOption, PutOption, Report
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import ObjectDescriptor
from tests.conformance.programs import Program
from tests.conformance.under_test import UnderTest, refused

SCRIPT = """
DEFINE QLOCAL(TO.FAR) USAGE(XMITQ)
DEFINE QLOCAL(NORMAL)
DEFINE QREMOTE(ORDERS) RNAME(ORDERS.IN) RQMNAME(FAR) XMITQ(TO.FAR) DEFPSIST(YES)
DEFINE QALIAS(ALIAS) TARGET(ORDERS)
"""


@pytest.fixture
def far(queue_manager: UnderTest) -> UnderTest:
    assert 0 == run(SCRIPT, queue_manager.administration).exit_code(strict=True)
    return queue_manager


def defined(far: UnderTest, script: str) -> None:
    assert 0 == run(script, far.administration).exit_code(strict=True)


@pytest.mark.parametrize("name", ["ORDERS", "ALIAS"])
def test_a_put_to_a_remote_queue_waits_on_its_transmission_queue_behind_an_mqxqh(
    far: UnderTest, program: Program, name: str
) -> None:
    put = program.connection.put1(name, MessageDescriptor(format=Format.STRING), b"an order", PutOption.NO_SYNCPOINT)

    got = program.got(program.open("TO.FAR", OpenOption.INPUT_SHARED), GetOption.NO_SYNCPOINT)
    assert ("ORDERS.IN", "FAR") == (put.resolved_queue, put.resolved_queue_manager)
    assert (Format.XMIT_Q_HEADER, put.descriptor.message_id) == (got.descriptor.format, got.descriptor.correlation_id)
    assert -1 == got.descriptor.original_length
    assert b"ORDERS.IN".ljust(48) + b"FAR".ljust(48) == got.body[8:104]
    assert b"an order" == got.body[XQH_BYTES:]
    assert put.descriptor.message_id in got.body[:XQH_BYTES]
    assert Format.STRING.ljust(8).encode() in got.body[:XQH_BYTES]


@pytest.mark.parametrize("definition", ["QALIAS(ALIAS)", "QREMOTE(ORDERS)", "QLOCAL(TO.FAR)"])
def test_a_definition_on_the_way_that_is_inhibited_for_puts_refuses_the_put(
    far: UnderTest, program: Program, definition: str
) -> None:
    defined(far, f"ALTER {definition} PUT(DISABLED)")

    with refused(Reason.PUT_INHIBITED):
        program.connection.put1("ALIAS", MessageDescriptor(), b"1", PutOption.NO_SYNCPOINT)


def test_the_first_definition_gives_the_default_persistence(far: UnderTest, program: Program) -> None:
    program.connection.put1("ORDERS", MessageDescriptor(), b"1", PutOption.NO_SYNCPOINT)

    assert 1 == program.got(program.open("TO.FAR", OpenOption.INPUT_SHARED), GetOption.NO_SYNCPOINT).descriptor.persistence


def test_the_transmission_queue_of_an_open_remote_queue_cannot_be_deleted(far: UnderTest, program: Program) -> None:
    program.open("ORDERS", OpenOption.OUTPUT)

    with refused(Reason.OBJECT_IN_USE):
        far.administration.delete("TO.FAR")


def test_a_put_in_a_unit_of_work_waits_for_its_commit(far: UnderTest, program: Program) -> None:
    far.administration.alter_queue_manager({"max_uncommitted_messages": 1})  # a put is one operation
    program.connection.put1("ORDERS", MessageDescriptor(), b"1", PutOption.SYNCPOINT)
    program.connection.backout()
    program.connection.put1("ORDERS", MessageDescriptor(), b"2", PutOption.SYNCPOINT)
    program.connection.commit()

    handle = program.open("TO.FAR", OpenOption.INPUT_SHARED)
    assert b"2" == program.got(handle, GetOption.NO_SYNCPOINT).body[XQH_BYTES:]
    assert program.get(handle) is None


def test_a_body_for_a_remote_queue_that_is_no_bytes_is_2004(far: UnderTest, program: Program) -> None:
    del far
    orders = program.open("ORDERS", OpenOption.OUTPUT)

    with refused(Reason.BUFFER_ERROR):
        program.put(orders, "text")  # type: ignore[arg-type]  # the test needs a wrong type


def test_a_message_that_fits_only_without_its_mqxqh_is_2030(far: UnderTest, program: Program) -> None:
    defined(far, "ALTER QLOCAL(TO.FAR) MAXMSGL(500)")

    with refused(Reason.MSG_TOO_BIG_FOR_Q):
        program.connection.put1("ORDERS", MessageDescriptor(), b"1" * 100, PutOption.NO_SYNCPOINT)


def test_a_message_of_a_group_has_its_group_in_an_mqmde(far: UnderTest, program: Program) -> None:
    descriptor = MessageDescriptor(group_id=b"G" * 24, message_flags=MessageFlag.MSG_IN_GROUP)
    program.connection.put1("ORDERS", descriptor, b"1", PutOption.NO_SYNCPOINT)

    got = program.got(program.open("TO.FAR", OpenOption.INPUT_SHARED), GetOption.NO_SYNCPOINT)
    assert (b"MDE ", b"1") == (got.body[XQH_BYTES : XQH_BYTES + 4], got.body[-1:])
    assert (NO_ID, 1, 0, 0) == (
        got.descriptor.group_id,
        got.descriptor.sequence_number,
        got.descriptor.offset,
        got.descriptor.message_flags,
    )


def test_a_queue_of_another_queue_manager_is_reached_by_the_transmission_queue_of_its_name(
    far: UnderTest, program: Program
) -> None:
    defined(far, "DEFINE QLOCAL(FAR) USAGE(XMITQ)")
    target = ObjectDescriptor("ANY.QUEUE", queue_manager="FAR")

    program.connection.put1(target, MessageDescriptor(), b"1", PutOption.NO_SYNCPOINT)

    got = program.got(program.open("FAR", OpenOption.INPUT_SHARED), GetOption.NO_SYNCPOINT)
    assert b"ANY.QUEUE".ljust(48) + b"FAR".ljust(48) == got.body[8:104]


MANAGER_ALIASES = """
DEFINE QREMOTE(ITSELF) RNAME(' ') RQMNAME(QM1) XMITQ(NOT.THERE)
DEFINE QREMOTE(FURTHER) RNAME(' ') RQMNAME(FAR) XMITQ(TO.FAR)
DEFINE QREMOTE(LOST) RNAME(' ') RQMNAME(NOBODY)
"""


def test_a_queue_manager_alias_of_this_queue_manager_names_its_own_queues(far: UnderTest, program: Program) -> None:
    """q002730: "If the local queue manager is REALQM, it puts the messages to the queue THISQ, which is a local queue"."""
    defined(far, f"{MANAGER_ALIASES}DEFINE QALIAS(LIKE.NORMAL) TARGET(NORMAL)\nALTER QREMOTE(ITSELF) DEFPSIST(YES)")
    for name in ("NORMAL", "LIKE.NORMAL"):
        program.connection.put1(
            ObjectDescriptor(name, queue_manager="ITSELF"), MessageDescriptor(), b"1", PutOption.NO_SYNCPOINT
        )

    handle = program.open("NORMAL", OpenOption.INPUT_SHARED)
    assert [1, 1] == [program.got(handle, GetOption.NO_SYNCPOINT).descriptor.persistence for _ in range(2)]


def test_a_queue_manager_alias_gives_the_queue_manager_and_the_transmission_queue(far: UnderTest, program: Program) -> None:
    """q002730: "The queue manager changes the transmission header to say REALQM instead of YOURQM"."""
    defined(far, MANAGER_ALIASES)
    target = ObjectDescriptor("ANY.QUEUE", queue_manager="FURTHER")
    put = program.connection.put1(target, MessageDescriptor(), b"1", PutOption.NO_SYNCPOINT)

    got = program.got(program.open("TO.FAR", OpenOption.INPUT_SHARED), GetOption.NO_SYNCPOINT)
    assert ("ANY.QUEUE", "FAR") == (put.resolved_queue, put.resolved_queue_manager)
    assert b"ANY.QUEUE".ljust(48) + b"FAR".ljust(48) == got.body[8:104]


@pytest.mark.parametrize(
    ("queue", "alias", "options", "reason"),
    [
        ("NORMAL", "ORDERS", OpenOption.OUTPUT, Reason.UNKNOWN_REMOTE_Q_MGR),  # q050110: its RNAME is not blank
        ("NORMAL", "LOST", OpenOption.OUTPUT, Reason.UNKNOWN_REMOTE_Q_MGR),
        ("NORMAL", "FURTHER", OpenOption.INPUT_SHARED, Reason.UNKNOWN_OBJECT_Q_MGR),
        ("NORMAL", "ITSELF", OpenOption.INQUIRE, Reason.OPTION_NOT_VALID_FOR_TYPE),  # rc2045
        ("NOT.THERE", "ITSELF", OpenOption.OUTPUT, Reason.UNKNOWN_OBJECT_NAME),
        ("SYSTEM.DEFAULT.MODEL.QUEUE", "ITSELF", OpenOption.OUTPUT, Reason.Q_TYPE_ERROR),  # rc2057
    ],
)
def test_a_wrong_queue_manager_alias_is_refused_with_its_reason(
    far: UnderTest, program: Program, queue: str, alias: str, options: OpenOption, reason: Reason
) -> None:
    defined(far, MANAGER_ALIASES)

    with refused(reason):
        program.connection.open(ObjectDescriptor(queue, queue_manager=alias), options)


@pytest.mark.parametrize("alias", ["ITSELF", "FURTHER"])
def test_a_queue_manager_alias_that_is_inhibited_for_puts_refuses_the_put(far: UnderTest, program: Program, alias: str) -> None:
    """q103260: "including any queue manager alias definitions"."""
    defined(far, f"{MANAGER_ALIASES}ALTER QREMOTE({alias}) PUT(DISABLED)")

    with refused(Reason.PUT_INHIBITED):
        program.connection.put1(
            ObjectDescriptor("NORMAL", queue_manager=alias), MessageDescriptor(), b"1", PutOption.NO_SYNCPOINT
        )


@pytest.mark.parametrize("alias", ["ITSELF", "FURTHER"])
def test_a_queue_manager_alias_in_use_is_altered_only_by_force_and_the_next_put_gets_2041(
    far: UnderTest, program: Program, alias: str
) -> None:
    """IBM, "Forcing changes to queue properties": if it is "open which resolved through this definition"."""
    defined(far, MANAGER_ALIASES)
    handle = program.connection.open(ObjectDescriptor("NORMAL", queue_manager=alias), OpenOption.OUTPUT)

    for command in (f"ALTER QREMOTE({alias}) RQMNAME(OTHER)", f"DELETE QREMOTE({alias})"):
        assert 0 != run(command, far.administration).exit_code(strict=True)
    program.connection.put(handle, MessageDescriptor(), b"1", PutOption.NO_SYNCPOINT)
    defined(far, f"ALTER QREMOTE({alias}) RQMNAME(OTHER) FORCE")
    with refused(Reason.OBJECT_CHANGED):
        program.connection.put(handle, MessageDescriptor(), b"1", PutOption.NO_SYNCPOINT)
    program.connection.close(handle)
    defined(far, f"DELETE QREMOTE({alias})")


def test_a_forced_alteration_of_a_transmission_queue_makes_older_handles_2041_and_no_later_one(
    far: UnderTest, program: Program
) -> None:
    older = program.open("ORDERS", OpenOption.OUTPUT)
    defined(far, "ALTER QLOCAL(TO.FAR) USAGE(NORMAL) FORCE\nALTER QLOCAL(TO.FAR) USAGE(XMITQ) FORCE")

    with refused(Reason.OBJECT_CHANGED):
        program.put(older)
    program.put(program.open("ORDERS", OpenOption.OUTPUT))

    assert 1 == far.depth("TO.FAR")


@pytest.mark.parametrize("manager", ["FAR", "FURTHER"])
def test_a_report_to_another_queue_manager_waits_on_the_transmission_queue(
    far: UnderTest, program: Program, manager: str
) -> None:
    defined(far, f"{MANAGER_ALIASES}ALTER QMGR DEFXMITQ(TO.FAR)")
    program.put("NORMAL", b"1", reply_to_queue="REPLIES", reply_to_queue_manager=manager, report=int(Report.COA))

    got = program.got("TO.FAR")
    assert b"REPLIES".ljust(48) + b"FAR".ljust(48) == got.body[8:104]


@pytest.mark.parametrize("name", ["ORDERS", "ALIAS"])
def test_a_report_to_a_remote_queue_waits_on_its_transmission_queue(far: UnderTest, program: Program, name: str) -> None:
    program.put("NORMAL", b"1", reply_to_queue=name, reply_to_queue_manager=far.name, report=int(Report.COA))

    assert b"ORDERS.IN".ljust(48) + b"FAR".ljust(48) == program.got("TO.FAR").body[8:104]


@pytest.mark.parametrize("definition", ["QALIAS(ALIAS)", "QREMOTE(ORDERS)", "QLOCAL(TO.FAR)"])
def test_a_report_to_a_remote_queue_that_is_inhibited_for_puts_is_a_dead_letter(
    far: UnderTest, program: Program, definition: str
) -> None:
    defined(far, f"ALTER {definition} PUT(DISABLED)\nALTER QMGR DEADQ(SYSTEM.DEAD.LETTER.QUEUE)")
    program.put("NORMAL", b"1", reply_to_queue="ALIAS", reply_to_queue_manager=far.name, report=int(Report.COA))

    header = parse(program.got("SYSTEM.DEAD.LETTER.QUEUE").body, encoding=Encoding.NATIVE)
    assert (Reason.PUT_INHIBITED, "ALIAS") == (header.reason, header.destination_queue)


def test_a_dead_letter_queue_that_is_a_remote_queue_takes_no_report(far: UnderTest, program: Program) -> None:
    defined(far, "ALTER QMGR DEADQ(ORDERS)")
    program.put("NORMAL", b"1", reply_to_queue="NOT.THERE", report=int(Report.COA))

    assert 0 == far.depth("TO.FAR")


def test_a_report_that_cannot_leave_is_a_dead_letter_for_its_queue_manager(far: UnderTest, program: Program) -> None:
    """The DLQ handler puts it to the queue of this queue manager again, and not to a queue of that name here."""
    far.administration.alter_queue_manager({"dead_letter_queue": "SYSTEM.DEAD.LETTER.QUEUE"})
    program.put("NORMAL", b"1", reply_to_queue="NORMAL", reply_to_queue_manager="NOBODY", report=int(Report.COA))

    header = parse(program.got("SYSTEM.DEAD.LETTER.QUEUE").body, encoding=Encoding.NATIVE)
    expected = (Reason.UNKNOWN_REMOTE_Q_MGR, "NORMAL", "NOBODY")
    assert expected == (header.reason, header.destination_queue, header.destination_queue_manager)


@pytest.mark.parametrize("alias", ["ITSELF", "FURTHER"])
def test_a_report_through_an_inhibited_queue_manager_alias_is_a_dead_letter(
    far: UnderTest, program: Program, alias: str
) -> None:
    defined(far, f"{MANAGER_ALIASES}ALTER QREMOTE({alias}) PUT(DISABLED)\nALTER QMGR DEADQ(SYSTEM.DEAD.LETTER.QUEUE)")
    program.put("NORMAL", b"1", reply_to_queue="NORMAL", reply_to_queue_manager=alias, report=int(Report.COA))

    header = parse(program.got("SYSTEM.DEAD.LETTER.QUEUE").body, encoding=Encoding.NATIVE)
    assert (Reason.PUT_INHIBITED, alias) == (header.reason, header.destination_queue_manager)


@pytest.mark.parametrize(
    ("queue_manager_name", "expected"),
    [("", ("ORDERS.IN", "FAR")), ("QM9", ("ORDERS", "QM9"))],
    ids=["q023100: If you leave the ReplyToQMgr field blank", "otherwise"],
)
def test_a_reply_to_queue_that_is_a_remote_queue_is_replaced(
    far: UnderTest, program: Program, queue_manager_name: str, expected: tuple[str, str]
) -> None:
    del far
    program.put("NORMAL", b"1", reply_to_queue="ORDERS", reply_to_queue_manager=queue_manager_name)

    got = program.got("NORMAL").descriptor
    assert expected == (got.reply_to_queue, got.reply_to_queue_manager)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("ALTER QREMOTE(ORDERS) XMITQ(NOT.THERE)", Reason.UNKNOWN_XMIT_Q),
        ("ALTER QREMOTE(ORDERS) XMITQ(ALIAS)", Reason.XMIT_Q_TYPE_ERROR),
        ("ALTER QREMOTE(ORDERS) XMITQ(NORMAL)", Reason.XMIT_Q_USAGE_ERROR),
        ("ALTER QREMOTE(ORDERS) XMITQ(' ')", Reason.UNKNOWN_REMOTE_Q_MGR),
        ("ALTER QREMOTE(ORDERS) XMITQ(' ')\nALTER QMGR DEFXMITQ(NOT.THERE)", Reason.UNKNOWN_DEF_XMIT_Q),
        ("ALTER QREMOTE(ORDERS) XMITQ(' ')\nALTER QMGR DEFXMITQ(ALIAS)", Reason.DEF_XMIT_Q_TYPE_ERROR),
        ("ALTER QREMOTE(ORDERS) XMITQ(' ')\nALTER QMGR DEFXMITQ(NORMAL)", Reason.DEF_XMIT_Q_USAGE_ERROR),
        ("ALTER QREMOTE(ORDERS) RNAME(' ')", Reason.REMOTE_Q_NAME_ERROR),
        pytest.param(
            "ALTER QREMOTE(ORDERS) RQMNAME(QM1)", Reason.UNKNOWN_REMOTE_Q_MGR, id="q050110: even if the XmitQName is not blank"
        ),
    ],
)
def test_a_wrong_definition_is_refused_with_its_reason(far: UnderTest, program: Program, script: str, reason: Reason) -> None:
    defined(far, script)

    with refused(reason):
        program.connection.open("ORDERS", OpenOption.OUTPUT)


def test_defxmitq_takes_the_messages_of_a_definition_without_a_transmission_queue(far: UnderTest, program: Program) -> None:
    defined(far, "ALTER QREMOTE(ORDERS) XMITQ(' ')\nALTER QMGR DEFXMITQ(TO.FAR)")

    program.connection.put1("ORDERS", MessageDescriptor(), b"1", PutOption.NO_SYNCPOINT)

    assert 1 == far.administration.queue_status("TO.FAR").depth


def test_nobody_gets_from_a_remote_queue(far: UnderTest, program: Program) -> None:
    with refused(Reason.OPTION_NOT_VALID_FOR_TYPE):
        program.connection.open("ORDERS", OpenOption.INPUT_SHARED)


def test_mqinq_answers_the_attributes_of_the_definition(far: UnderTest, program: Program) -> None:
    handle = program.connection.open("ORDERS", OpenOption.INQUIRE)

    answer = program.connection.inquire(handle, [20, 2018, 2017, 2024])

    names = {2018: "ORDERS.IN".ljust(48), 2017: "FAR".ljust(48), 2024: "TO.FAR".ljust(48)}
    assert {20: 6, **names} == answer.values


def test_a_queue_elsewhere_needs_the_authority_on_its_transmission_queue() -> None:
    """A user that may put to a queue here may not put to the queue of that name elsewhere."""
    with EmbeddedQueueManager("QM1") as queue_manager:
        script = f"""{SCRIPT}
            DEFINE QLOCAL(FAR) USAGE(XMITQ)
            SET AUTHREC PROFILE(SELF) OBJTYPE(QMGR) PRINCIPAL('app') AUTHADD(CONNECT)
            SET AUTHREC PROFILE(NORMAL) OBJTYPE(QUEUE) PRINCIPAL('app') AUTHADD(PUT)"""
        run(script, queue_manager.administration)
        connection, target = queue_manager.connect(user="app"), ObjectDescriptor("NORMAL", queue_manager="FAR")

        with refused(Reason.NOT_AUTHORIZED):
            connection.put1(target, MessageDescriptor(), b"1", PutOption.NO_SYNCPOINT)
        run("SET AUTHREC PROFILE(FAR) OBJTYPE(QUEUE) PRINCIPAL('app') AUTHADD(PUT)", queue_manager.administration)
        connection.put1(target, MessageDescriptor(), b"1", PutOption.NO_SYNCPOINT)
