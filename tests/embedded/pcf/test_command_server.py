"""The command server: commands on SYSTEM.ADMIN.COMMAND.QUEUE, their responses, and the errors of wrong commands."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.storage.store import Change, MessageRemoved
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.authorities import Authority, AuthorityKind
from mqflow.mqi.descriptor import NO_ID, MessageDescriptor
from mqflow.mqi.headers import dead_letter
from mqflow.mqi.headers.dead_letter import DeadLetterHeader
from mqflow.mqi.options import Encoding, Format, GetOption, MessageType, OpenOption, PutOption, Report
from mqflow.mqi.pcf.codes import CommandCode, FilterOperator, ParameterId, PCFReason, StructureType
from mqflow.mqi.pcf.structures import CFBS, CFH, CFIF, CFIL, CFIN, CFSF, CFST, Parameter, PCFMessage, to_bytes
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import GetOptions
from tests.doubles import queue_manager_with
from tests.embedded.administration.commanding import COMMAND_QUEUE, Commander, values_of
from tests.embedded.storage.scripted_store import FULL, ScriptedStore
from tests.queue_contents import put

NAME, TYPE, DESCRIPTION, DEPTH, MAX_DEPTH, GET = 2016, 20, 2013, 3, 15, 9
LOCAL, MODEL, ALIAS, REMOTE = 1, 2, 3, 6
PING = to_bytes(PCFMessage(CFH(command=CommandCode.PING_Q_MGR)))


queue_manager = queue_manager_with("DEFINE QLOCAL(Q) DESCR('the one')", dead_letter_queue="SYSTEM.DEAD.LETTER.QUEUE")


def defined(queue_manager: EmbeddedQueueManager, name: str) -> QueueAttributes:
    found = queue_manager.administration.queue(name)
    assert found is not None
    return found


def names(commander: Commander, *parameters: Parameter) -> list[str]:
    return [found[NAME] for found in commander.done(CommandCode.INQUIRE_Q, *parameters)]


# The form of a response


def test_a_command_is_answered_with_its_own_number_and_is_the_last_response(commander: Commander) -> None:
    (response,) = commander.command(CommandCode.PING_Q_MGR)

    expected = CFH(type=StructureType.RESPONSE, version=3, command=CommandCode.PING_Q_MGR)
    assert PCFMessage(expected) == response


def test_each_object_has_a_response_of_its_own_and_the_last_one_says_so(commander: Commander) -> None:
    responses = commander.command(CommandCode.INQUIRE_Q, CFST(NAME, "SYSTEM.*"))

    assert list(range(1, len(responses) + 1)) == [each.header.sequence_number for each in responses]
    assert [False] * (len(responses) - 1) + [True] == [each.header.last for each in responses]


def test_an_error_is_answered_with_its_parameter_and_then_with_command_failed(commander: Commander) -> None:
    first, second = commander.command(CommandCode.INQUIRE_Q, CFST(NAME, "NOT.THERE"))

    assert (2, Reason.UNKNOWN_OBJECT_NAME, False) == (first.header.completion, first.header.reason, first.header.last)
    assert (CFIN(ParameterId.PARAMETER_ID, NAME),) == first.parameters
    assert (2, PCFReason.COMMAND_FAILED, True) == (second.header.completion, second.header.reason, second.header.last)
    assert () == second.parameters


def test_the_reply_has_priority_persistence_and_identity_of_the_command(queue_manager: EmbeddedQueueManager) -> None:
    """Source: IBM, "Message descriptor for a response"."""
    with Commander(queue_manager, user="alice") as commander:
        sent = commander.send(PING, priority=7)
        reply = commander.got(sent).descriptor

    assert (MessageType.REPLY, Format.ADMIN, 7, 0) == (reply.message_type, reply.format, reply.priority, reply.persistence)
    assert sent == reply.correlation_id
    assert reply.message_id not in {sent, NO_ID}
    assert "alice" == reply.user_identifier


def test_the_report_options_of_the_command_decide_about_the_identifiers(commander: Commander) -> None:
    correlation_id = b"c" * 24
    report = Report.PASS_CORREL_ID | Report.PASS_MSG_ID

    sent = commander.send(PING, report=report, correlation_id=correlation_id)

    reply = commander.got(correlation_id).descriptor
    assert (sent, correlation_id) == (reply.message_id, reply.correlation_id)


def test_a_persistent_command_is_answered_persistently(queue_manager: EmbeddedQueueManager) -> None:
    queue_manager.administration.define(QueueAttributes(name="REPLIES"))
    with Commander(queue_manager) as commander:
        commander.replies = commander.connection.open("REPLIES", OpenOption.INPUT_SHARED)

        assert 1 == commander.got(commander.send(PING, persistence=1)).descriptor.persistence


@pytest.mark.parametrize(("encoding", "ccsid"), [(Encoding.NORMAL, 500), (Encoding.NATIVE, 1200), (Encoding.NORMAL, 819)])
def test_a_command_of_another_machine_is_understood(queue_manager: EmbeddedQueueManager, encoding: int, ccsid: int) -> None:
    body = to_bytes(PCFMessage(CFH(command=CommandCode.INQUIRE_Q), (CFST(NAME, "Q"),)), encoding=encoding, ccsid=ccsid)
    with Commander(queue_manager) as commander:
        (response,) = commander.responses(commander.send(body, encoding=encoding, ccsid=ccsid))

    assert "Q" == values_of(response)[NAME]


def test_extended_commands_of_a_mainframe_program_get_standard_responses(commander: Commander) -> None:
    (response,) = commander.command(CommandCode.PING_Q_MGR, kind=StructureType.COMMAND_XR)

    assert StructureType.RESPONSE is response.header.type


def test_a_response_that_the_character_set_of_the_queue_manager_cannot_express_is_in_utf_8(
    queue_manager: EmbeddedQueueManager, commander: Commander
) -> None:
    queue_manager.administration.alter_queue_manager({"ccsid": 819})
    queue_manager.administration.alter("Q", {"description": "10 €"})

    assert ["10 €"] == [found[DESCRIPTION] for found in commander.done(CommandCode.INQUIRE_Q, CFST(NAME, "Q"))]


# The queues of commands and responses


def test_a_command_is_carried_out_when_its_unit_of_work_is_committed(commander: Commander) -> None:
    body = to_bytes(PCFMessage(CFH(command=CommandCode.PING_Q_MGR)))
    connection = commander.connection
    descriptor = MessageDescriptor(format=Format.ADMIN, message_type=MessageType.REQUEST, reply_to_queue=commander.replies.name)
    put = connection.put1(COMMAND_QUEUE, descriptor, body, PutOption.SYNCPOINT)
    assert connection.get(commander.replies, GetOptions(options=GetOption.NO_SYNCPOINT)) is None

    connection.commit()

    assert [0] == [each.header.reason for each in commander.responses(put.descriptor.message_id)]


def test_a_command_without_a_reply_queue_is_carried_out(queue_manager: EmbeddedQueueManager, commander: Commander) -> None:
    create = PCFMessage(CFH(command=CommandCode.CREATE_Q), (CFST(NAME, "A"), CFIN(TYPE, LOCAL)))
    commander.send(to_bytes(create), reply_to_queue="", message_type=MessageType.DATAGRAM)

    commander.done(CommandCode.PING_Q_MGR)

    assert queue_manager.administration.queue("A") is not None


def died(commander: Commander) -> tuple[DeadLetterHeader, bytes]:
    """Return the header and the data of the next dead letter."""
    dead = commander.connection.open("SYSTEM.DEAD.LETTER.QUEUE", OpenOption.INPUT_SHARED)
    got = commander.connection.get(dead, GetOptions(options=GetOption.NO_SYNCPOINT))
    assert got is not None
    return dead_letter.parse(got.body, encoding=got.descriptor.encoding), got.body


def test_a_failed_command_without_a_reply_queue_goes_to_the_dead_letter_queue(commander: Commander) -> None:
    commander.send(b"no command", reply_to_queue="", message_type=MessageType.DATAGRAM)
    commander.done(CommandCode.PING_Q_MGR)

    header, body = died(commander)
    assert (PCFReason.MSG_LENGTH_ERROR, COMMAND_QUEUE) == (header.reason, header.destination_queue)
    assert body.endswith(b"no command")


def test_a_response_that_cannot_be_put_goes_to_the_dead_letter_queue(commander: Commander) -> None:
    commander.send(PING, reply_to_queue="NOT.THERE")
    commander.done(CommandCode.PING_Q_MGR)

    header, _ = died(commander)
    assert (Reason.UNKNOWN_OBJECT_NAME, "NOT.THERE") == (header.reason, header.destination_queue)


def test_open_commands_are_carried_out_after_a_restart(tmp_path: Path) -> None:
    create = to_bytes(PCFMessage(CFH(command=CommandCode.CREATE_Q), (CFST(NAME, "A"), CFIN(TYPE, LOCAL))))
    with EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path)) as before:
        before.administration.alter(COMMAND_QUEUE, {"get_inhibited": True})
        connection = before.connect()
        connection.put1(COMMAND_QUEUE, MessageDescriptor(format=Format.ADMIN, persistence=1), create, PutOption.NO_SYNCPOINT)
        assert before.administration.queue("A") is None

    with EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path)) as after, Commander(after) as commander:
        after.administration.alter(COMMAND_QUEUE, {"get_inhibited": False})
        commander.done(CommandCode.PING_Q_MGR)
        assert after.administration.queue("A") is not None


def test_a_definition_made_by_a_command_survives_a_restart(tmp_path: Path) -> None:
    with EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path)) as before, Commander(before) as commander:
        commander.done(CommandCode.CREATE_Q, CFST(NAME, "A"), CFIN(TYPE, LOCAL), CFIN(MAX_DEPTH, 3))

    with EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path)) as after:
        assert 3 == defined(after, "A").max_depth


def test_a_command_queue_that_is_altered_under_its_server_is_served_on(
    queue_manager: EmbeddedQueueManager, commander: Commander
) -> None:
    queue_manager.administration.alter(COMMAND_QUEUE, {"usage": 1}, force=True)

    assert [{}] == commander.done(CommandCode.PING_Q_MGR)
    assert [{}] == commander.done(CommandCode.PING_Q_MGR)


def test_there_is_no_thread_without_a_command(queue_manager: EmbeddedQueueManager) -> None:
    put(queue_manager, "Q", b"1")

    assert not [thread for thread in threading.enumerate() if thread.name == "mqflow command server QM1"]


def test_a_quiescing_queue_manager_does_not_wait_for_its_own_command_server(queue_manager: EmbeddedQueueManager) -> None:
    connection = queue_manager.connect()
    queue_manager.stop(immediate=False)

    connection.disconnect()

    assert queue_manager.stopped


# The errors of a command


WRONG = {
    "another format": ({"format": Format.STRING}, PING, PCFReason.MD_FORMAT_ERROR),
    "no PCF": ({}, b"no PCF", PCFReason.MSG_LENGTH_ERROR),
    "a response": ({}, to_bytes(PCFMessage(CFH(type=StructureType.RESPONSE))), PCFReason.CFH_TYPE_ERROR),
    "a later part": ({}, to_bytes(PCFMessage(CFH(sequence_number=2))), PCFReason.CFH_MSG_SEQ_NUMBER_ERR),
    "not the last part": ({}, to_bytes(PCFMessage(CFH(last=False))), PCFReason.CFH_CONTROL_ERROR),
    "no command of MQ": ({}, to_bytes(PCFMessage(CFH(command=9_999))), PCFReason.CFH_COMMAND_ERROR),
    "one that is not offered": ({}, to_bytes(PCFMessage(CFH(command=146))), Reason.FUNCTION_NOT_SUPPORTED),
}


@pytest.mark.parametrize(("descriptor", "body", "reason"), WRONG.values(), ids=WRONG)
def test_an_invalid_command_is_answered_with_its_reason(
    commander: Commander, descriptor: dict[str, str], body: bytes, reason: int
) -> None:
    responses = commander.responses(commander.send(body, **descriptor))

    assert [reason, PCFReason.COMMAND_FAILED] == [each.header.reason for each in responses]


A, LOCAL_TYPE = CFST(NAME, "A"), CFIN(TYPE, LOCAL)
REFUSED = {
    "nothing required": (CommandCode.CREATE_Q, (), PCFReason.PARM_COUNT_TOO_SMALL, NAME),
    "a type missing": (CommandCode.CREATE_Q, (A,), PCFReason.PARM_COUNT_TOO_SMALL, TYPE),
    "the type before the name": (CommandCode.CREATE_Q, (LOCAL_TYPE, A), PCFReason.PARM_SEQUENCE_ERROR, TYPE),
    "another parameter first": (CommandCode.CLEAR_Q, (CFIN(TYPE, 1),), PCFReason.CFIN_PARM_ID_ERROR, TYPE),
    "a name as a number": (CommandCode.CLEAR_Q, (CFIN(NAME, 1),), PCFReason.CFIN_PARM_ID_ERROR, NAME),
    "a type as a text": (CommandCode.CREATE_Q, (A, CFST(TYPE, "QLOCAL")), PCFReason.CFST_PARM_ID_ERROR, TYPE),
    "a type twice": (CommandCode.CREATE_Q, (A, LOCAL_TYPE, LOCAL_TYPE), PCFReason.CFIN_DUPLICATE_PARM, TYPE),
    "a text twice": (CommandCode.CREATE_Q, (A, A), PCFReason.CFST_DUPLICATE_PARM, NAME),
    "a type nobody knows": (CommandCode.CREATE_Q, (A, CFIN(TYPE, 55)), PCFReason.Q_TYPE_ERROR, TYPE),
    "a cluster queue": (CommandCode.CREATE_Q, (A, CFIN(TYPE, 7)), Reason.FUNCTION_NOT_SUPPORTED, TYPE),
    "no name": (CommandCode.CREATE_Q, (CFST(NAME, "NO NAME"), LOCAL_TYPE), PCFReason.OBJECT_NAME_ERROR, NAME),
    "a value too high": (CommandCode.CREATE_Q, (A, LOCAL_TYPE, CFIN(6, 10)), PCFReason.ATTR_VALUE_ERROR, 6),
    "a text too long": (CommandCode.CREATE_Q, (A, LOCAL_TYPE, CFST(2013, "x" * 65)), PCFReason.ATTR_VALUE_ERROR, 2013),
    "another kind's attribute": (CommandCode.CREATE_Q, (A, CFIN(TYPE, ALIAS), CFIN(MAX_DEPTH, 1)), PCFReason.CFIN_PARM_ID_ERROR,
        MAX_DEPTH),
    "an attribute that is only shown": (CommandCode.CREATE_Q, (A, LOCAL_TYPE, CFIN(DEPTH, 1)), PCFReason.CFIN_PARM_ID_ERROR,
        DEPTH),
    "bytes nobody asked for": (CommandCode.PING_Q_MGR, (CFBS(7_006, b""),), PCFReason.CFBS_PARM_ID_ERROR, 7_006),
    "a filter where there is nothing to filter": (CommandCode.CLEAR_Q, (CFST(NAME, "Q"), CFIF(DEPTH, FilterOperator.EQUAL, 0)),
        PCFReason.CFIF_PARM_ID_ERROR, DEPTH),
    "two filters": (CommandCode.INQUIRE_Q,
        (CFST(NAME, "*"), CFIF(DEPTH, FilterOperator.EQUAL, 0), CFSF(DESCRIPTION, FilterOperator.LIKE, "*")),
        PCFReason.FILTER_ERROR, DESCRIPTION),
    "an operator nobody knows": (CommandCode.INQUIRE_Q, (CFST(NAME, "*"), CFIF(DEPTH, 77, 0)), PCFReason.CFIF_OPERATOR_ERROR,
        DEPTH),
    "a number compared with a text": (CommandCode.INQUIRE_Q, (CFST(NAME, "*"), CFSF(DEPTH, FilterOperator.EQUAL, "1")),
        PCFReason.CFSF_OPERATOR_ERROR, DEPTH),
    "a yes or no compared with a text": (CommandCode.INQUIRE_Q, (CFST(NAME, "*"), CFSF(GET, FilterOperator.LESS, "1")),
        PCFReason.CFSF_OPERATOR_ERROR, GET),
    "a selector twice": (CommandCode.INQUIRE_Q, (CFST(NAME, "*"), CFIL(ParameterId.Q_ATTRS, (DEPTH, DEPTH))),
        PCFReason.CFIL_DUPLICATE_VALUE, ParameterId.Q_ATTRS),
    "a number that is no selector": (CommandCode.INQUIRE_Q, (CFST(NAME, "*"), CFIL(ParameterId.Q_ATTRS, (-5,))),
        Reason.SELECTOR_ERROR, -5),
    "a queue that is there": (CommandCode.CREATE_Q, (CFST(NAME, "Q"), LOCAL_TYPE), PCFReason.OBJECT_ALREADY_EXISTS, 0),
    "a queue of another kind": (CommandCode.CHANGE_Q, (CFST(NAME, "SYSTEM.DEFAULT.MODEL.QUEUE"), LOCAL_TYPE),
        PCFReason.OBJECT_WRONG_TYPE, 0),
    "a queue that is not there": (CommandCode.DELETE_Q, (CFST(NAME, "NOT.THERE"),), Reason.UNKNOWN_OBJECT_NAME, 0),
    "a queue that is open": (CommandCode.DELETE_Q, (CFST(NAME, COMMAND_QUEUE),), PCFReason.OBJECT_OPEN, 0),
    "a queue that is not empty": (CommandCode.DELETE_Q, (CFST(NAME, "FULL"),), Reason.Q_NOT_EMPTY, 0),
    "the status of a model": (CommandCode.INQUIRE_Q_STATUS, (CFST(NAME, "SYSTEM.DEFAULT.MODEL.QUEUE"),), PCFReason.Q_TYPE_ERROR,
        NAME),
    "handles that nobody has": (CommandCode.INQUIRE_Q_STATUS,
        (CFST(NAME, "Q"), CFIN(ParameterId.Q_STATUS_TYPE, ParameterId.Q_HANDLE)), PCFReason.Q_STATUS_NOT_FOUND, NAME),
    "no MQSC": (CommandCode.ESCAPE, (CFIN(ParameterId.ESCAPE_TYPE, 2), CFST(ParameterId.ESCAPE_TEXT, "PING QMGR")),
                PCFReason.ESCAPE_TYPE_ERROR, ParameterId.ESCAPE_TYPE),
}  # fmt: skip


@pytest.mark.parametrize(("command", "parameters", "reason", "fault"), REFUSED.values(), ids=REFUSED)
def test_a_command_is_refused_with_its_reason_and_the_parameter_at_fault(
    queue_manager: EmbeddedQueueManager,
    commander: Commander,
    command: CommandCode,
    parameters: tuple[Parameter, ...],
    reason: int,
    fault: int,
) -> None:
    queue_manager.administration.define(QueueAttributes(name="FULL"))
    put(queue_manager, "FULL", b"1")

    assert (reason, fault) == commander.refused(command, *parameters)
    assert queue_manager.administration.queue("A") is None


# Queues


def test_a_queue_is_created_with_the_values_of_the_command(queue_manager: EmbeddedQueueManager, commander: Commander) -> None:
    commander.done(CommandCode.CREATE_Q, CFST(NAME, "A".ljust(48)), LOCAL_TYPE, CFIN(MAX_DEPTH, 7), CFST(DESCRIPTION, "a  "))

    assert (7, "a", False) == (
        defined(queue_manager, "A").max_depth,
        defined(queue_manager, "A").description,
        defined(queue_manager, "A").get_inhibited,
    )


def test_a_create_with_replace_redefines_an_existing_queue(queue_manager: EmbeddedQueueManager, commander: Commander) -> None:
    commander.done(CommandCode.CREATE_Q, CFST(NAME, "Q"), LOCAL_TYPE, CFIN(ParameterId.REPLACE, 1), CFIN(MAX_DEPTH, 7))

    assert ("", 7) == (defined(queue_manager, "Q").description, defined(queue_manager, "Q").max_depth)


def test_a_copy_is_like_the_queue_except_for_the_values_of_the_command(
    queue_manager: EmbeddedQueueManager, commander: Commander
) -> None:
    source, target = CFST(ParameterId.FROM_Q_NAME, "Q"), CFST(ParameterId.TO_Q_NAME, "A")
    commander.done(CommandCode.COPY_Q, source, target, LOCAL_TYPE, CFIN(MAX_DEPTH, 7))

    assert ("the one", 7) == (defined(queue_manager, "A").description, defined(queue_manager, "A").max_depth)


def test_a_change_leaves_the_other_attributes(queue_manager: EmbeddedQueueManager, commander: Commander) -> None:
    commander.done(CommandCode.CHANGE_Q, CFST(NAME, "Q"), LOCAL_TYPE, CFIN(GET, 1))

    assert ("the one", True) == (defined(queue_manager, "Q").description, defined(queue_manager, "Q").get_inhibited)


def test_a_queue_is_cleared_and_deleted(queue_manager: EmbeddedQueueManager, commander: Commander) -> None:
    put(queue_manager, "Q", *[b"1"] * 3)

    commander.done(CommandCode.CLEAR_Q, CFST(NAME, "Q"))
    assert 0 == defined(queue_manager, "Q").depth

    put(queue_manager, "Q", b"1")
    commander.done(CommandCode.DELETE_Q, CFST(NAME, "Q"), CFIN(ParameterId.PURGE, 1))
    assert queue_manager.administration.queue("Q") is None


def test_an_inquiry_answers_the_wanted_attributes_and_the_name_and_type(commander: Commander) -> None:
    (found,) = commander.done(CommandCode.INQUIRE_Q, CFST(NAME, "Q"), CFIL(ParameterId.Q_ATTRS, (DESCRIPTION, DEPTH)))

    assert {NAME: "Q", TYPE: LOCAL, DESCRIPTION: "the one", DEPTH: 0} == found


@pytest.mark.parametrize("asked", [(), (CFIL(ParameterId.Q_ATTRS, (ParameterId.ALL,)),)], ids=["nothing", "all"])
def test_an_inquiry_that_asks_for_nothing_or_all_answers_every_attribute(
    commander: Commander, asked: tuple[Parameter, ...]
) -> None:
    (alias,) = commander.done(CommandCode.INQUIRE_Q, CFST(NAME, "SYSTEM.DEFAULT.ALIAS.QUEUE"), *asked)

    assert {NAME, TYPE, DESCRIPTION, 2002, 193} <= set(alias)
    # An alias has no depth, so the response leaves the depth out.
    assert not {DEPTH, MAX_DEPTH} & set(alias)


def test_texts_are_padded_to_the_length_of_the_attribute(commander: Commander) -> None:
    (response,) = commander.command(CommandCode.INQUIRE_Q, CFST(NAME, "Q"), CFIL(ParameterId.Q_ATTRS, (DESCRIPTION,)))

    assert CFST(NAME, "Q".ljust(48)) in response.parameters
    assert CFST(DESCRIPTION, "the one".ljust(64)) in response.parameters


def test_an_inquiry_takes_a_generic_name_and_a_kind(commander: Commander) -> None:
    assert ["SYSTEM.DEFAULT.MODEL.QUEUE"] == names(commander, CFST(NAME, "SYSTEM.DEF*"), CFIN(TYPE, MODEL))


FILTERS = {
    "greater": (CFIF(DEPTH, FilterOperator.GREATER, 1), ["B"]),
    "not less": (CFIF(DEPTH, FilterOperator.NOT_LESS, 1), ["A", "B"]),
    "less": (CFIF(DEPTH, FilterOperator.LESS, 2), ["A", "Q"]),
    "not greater": (CFIF(DEPTH, FilterOperator.NOT_GREATER, 0), ["Q"]),
    "equal": (CFIF(DEPTH, FilterOperator.EQUAL, 1), ["A"]),
    "not equal": (CFIF(DEPTH, FilterOperator.NOT_EQUAL, 1), ["B", "Q"]),
    "like": (CFSF(DESCRIPTION, FilterOperator.LIKE, "the*"), ["Q"]),
    "not like": (CFSF(DESCRIPTION, FilterOperator.NOT_LIKE, "the*"), ["A", "B"]),
    "text equal": (CFSF(DESCRIPTION, FilterOperator.EQUAL, "the one   "), ["Q"]),
    "a word that is one of two": (CFIF(GET, FilterOperator.EQUAL, 1), ["B"]),
}


@pytest.mark.parametrize(("condition", "expected"), FILTERS.values(), ids=FILTERS)
def test_a_filter_selects_the_matching_queues(
    queue_manager: EmbeddedQueueManager, commander: Commander, condition: Parameter, expected: list[str]
) -> None:
    queue_manager.administration.define(QueueAttributes(name="A"))
    queue_manager.administration.define(QueueAttributes(name="B", get_inhibited=True))
    put(queue_manager, "A", b"1")
    put(queue_manager, "B", *[b"1"] * 2)

    found = names(commander, CFST(NAME, "*"), CFIN(TYPE, LOCAL), condition)

    assert expected == [name for name in found if "." not in name]


def test_a_filter_without_a_match_is_answered_like_an_unknown_name(commander: Commander) -> None:
    nobody = CFIF(DEPTH, FilterOperator.GREATER, 1_000)

    assert (Reason.UNKNOWN_OBJECT_NAME, NAME) == commander.refused(CommandCode.INQUIRE_Q, CFST(NAME, "*"), nobody)


def test_the_names_and_types_of_queues_come_in_one_response(commander: Commander) -> None:
    (found,) = commander.done(CommandCode.INQUIRE_Q_NAMES, CFST(NAME, "SYSTEM.DEFAULT.*"))

    kinds = dict(zip(found[ParameterId.Q_NAMES], found[ParameterId.Q_TYPES], strict=True))
    expected = {"LOCAL": LOCAL, "ALIAS": ALIAS, "MODEL": MODEL, "REMOTE": REMOTE, "INITIATION": LOCAL}
    assert {f"SYSTEM.DEFAULT.{word}.QUEUE": kind for word, kind in expected.items()} == kinds


def test_the_status_of_a_queue_has_its_messages_and_its_handles(
    queue_manager: EmbeddedQueueManager, commander: Commander
) -> None:
    reader = queue_manager.connect(application_name="reader", user="bob")
    reader.open("Q", OpenOption.INPUT_SHARED | OpenOption.BROWSE)
    put(queue_manager, "Q", *[b"1"] * 2)
    name = CFST(NAME, "Q")

    # Datadog's check sends MQQT_ALL, which is no parameter of this command, and IBM MQ answers it.
    (status,) = commander.done(CommandCode.INQUIRE_Q_STATUS, name, CFIN(TYPE, 1001))
    (handle,) = commander.done(CommandCode.INQUIRE_Q_STATUS, name, CFIN(ParameterId.Q_STATUS_TYPE, ParameterId.Q_HANDLE))

    assert {DEPTH: 2, 17: 1, 18: 0, 1027: 0, ParameterId.Q_STATUS_TYPE: ParameterId.Q_STATUS}.items() <= status.items()
    # MQCACF_APPL_TAG, MQCACF_USER_IDENTIFIER, MQIACF_OPEN_BROWSE, MQIACF_OPEN_INPUT_TYPE: MQQSO_SHARED.
    assert {3058: "reader", 3025: "bob", 1102: 1, 1098: 1}.items() <= handle.items()


# The queue manager, and MQSC


def test_the_queue_manager_is_changed_and_inquired(queue_manager: EmbeddedQueueManager, commander: Commander) -> None:
    commander.done(CommandCode.CHANGE_Q_MGR, CFST(2014, "changed"), CFIN(11, 77))

    assert ("changed", 77) == (
        queue_manager.administration.queue_manager.description,
        queue_manager.administration.queue_manager.max_handles,
    )
    asked = CFIL(ParameterId.Q_MGR_ATTRS, (2014,))
    assert [{2015: "QM1", 2014: "changed"}] == commander.done(CommandCode.INQUIRE_Q_MGR, asked)


def test_mqsc_carried_in_pcf_is_carried_out_and_answered_in_words(
    queue_manager: EmbeddedQueueManager, commander: Commander
) -> None:
    mqsc = CFIN(ParameterId.ESCAPE_TYPE, 1)
    (answer,) = commander.done(CommandCode.ESCAPE, mqsc, CFST(ParameterId.ESCAPE_TEXT, "DEFINE QLOCAL(A) MAXDEPTH(7)"))

    assert "AMQ8006: QLOCAL(A) is defined." == answer[ParameterId.ESCAPE_TEXT]
    assert 7 == defined(queue_manager, "A").max_depth


def test_mqsc_in_a_command_may_be_longer_than_a_line_of_a_script(
    queue_manager: EmbeddedQueueManager, commander: Commander
) -> None:
    """Source: IBM, Escape: "The length of the string is limited only by the size of the message"."""
    text = f"DEFINE QLOCAL(A) {' ' * 2_048} MAXDEPTH(7)"

    commander.done(CommandCode.ESCAPE, CFIN(ParameterId.ESCAPE_TYPE, 1), CFST(ParameterId.ESCAPE_TEXT, text))

    assert 7 == defined(queue_manager, "A").max_depth


@pytest.mark.parametrize(
    ("text", "reason"), [("DEFINE QLOCAL(Q)", Reason.OBJECT_ALREADY_EXISTS), ("DEFNE QLOCAL(A)", PCFReason.PARM_SYNTAX_ERROR)]
)
def test_mqsc_that_fails_says_why_in_words_and_by_its_reason(commander: Commander, text: str, reason: int) -> None:
    mqsc = CFIN(ParameterId.ESCAPE_TYPE, 1)

    first, *_, last = commander.command(CommandCode.ESCAPE, mqsc, CFST(ParameterId.ESCAPE_TEXT, text))

    assert (reason, PCFReason.COMMAND_FAILED) == (first.header.reason, last.header.reason)
    assert values_of(first)[ParameterId.ESCAPE_TEXT]


def restricted(queue_manager: EmbeddedQueueManager) -> Commander:
    """Return a commander whose user may send commands and get responses, but does not administer the queue manager."""
    for kind, name, held in (
        (AuthorityKind.QMGR, "", (Authority.CONNECT,)),
        (AuthorityKind.QUEUE, "SYSTEM.**", (Authority.GET, Authority.PUT)),
    ):
        queue_manager.administration.authorities.set(kind, name, "app", group=False, add=held, remove=())
    return Commander(queue_manager, user="app")


def test_a_user_that_does_not_administer_the_queue_manager_commands_nothing(queue_manager: EmbeddedQueueManager) -> None:
    with restricted(queue_manager) as commander:
        responses = commander.responses(commander.send(PING))

    assert {CommandCode.PING_Q_MGR} == {response.header.command for response in responses}
    assert Reason.NOT_AUTHORIZED == responses[0].header.reason
    assert PCFReason.COMMAND_FAILED == responses[-1].header.reason


def test_a_response_is_put_with_the_authority_of_the_user_of_the_command(queue_manager: EmbeddedQueueManager) -> None:
    """Otherwise a user that may only send commands could put messages on every queue."""
    with restricted(queue_manager) as commander:
        commander.send(PING, reply_to_queue="Q")
        commander.responses(commander.send(PING))

    assert (0, 2) == (defined(queue_manager, "Q").depth, defined(queue_manager, "SYSTEM.DEAD.LETTER.QUEUE").depth)


class NoRemoval(ScriptedStore):
    """A store that has no room for the record of a removal."""

    def write(self, changes: Sequence[Change], done: Callable[[Exception | None], None] | None) -> None:
        if self.refuses is not None and done is not None and not any(isinstance(each, MessageRemoved) for each in changes):
            done(None)
        else:
            super().write(changes, done)


def test_a_command_that_a_full_disk_backed_out_does_not_end_the_command_server() -> None:
    store = NoRemoval(refuses=FULL)
    with EmbeddedQueueManager("QM1", store=store) as queue_manager, Commander(queue_manager) as commander:
        commander.send(PING, message_type=MessageType.DATAGRAM, reply_to_queue="", persistence=1)
        queue_manager._command_server.join()
        store.refuses = None

        assert 1 == len(commander.responses(commander.send(PING)))
        assert 0 == defined(queue_manager, COMMAND_QUEUE).depth


class RefusesOneRemoval(ScriptedStore):
    """Refuses to remove one message. Directly before that, `meanwhile` runs."""

    meanwhile: Callable[[], object] | None = None

    def write(self, changes: Sequence[Change], done: Callable[[Exception | None], None] | None) -> None:
        meanwhile = self.meanwhile
        if meanwhile is not None and any(isinstance(each, MessageRemoved) for each in changes) and done is not None:
            self.meanwhile = None
            meanwhile()
            done(FULL)
        else:
            super().write(changes, done)


def test_a_command_that_arrives_during_a_commit_that_fails_waits_for_no_further_command() -> None:
    store = RefusesOneRemoval()
    with EmbeddedQueueManager("QM1", store=store) as queue_manager, Commander(queue_manager) as commander:
        sent: list[bytes] = []
        store.meanwhile = lambda: sent.append(commander.send(PING))

        commander.send(PING, message_type=MessageType.DATAGRAM, reply_to_queue="", persistence=1)
        queue_manager._command_server.join()

        assert 1 == len(commander.responses(*sent))
        assert 0 == defined(queue_manager, COMMAND_QUEUE).depth


@pytest.mark.parametrize("removes", [None, 1, 0])
def test_a_queue_is_deleted_with_its_authority_records_unless_the_command_keeps_them(
    queue_manager: EmbeddedQueueManager, commander: Commander, removes: int | None
) -> None:
    """The parameter is MQIACF_REMOVE_AUTHREC."""
    authorities = queue_manager.administration.authorities
    authorities.set(AuthorityKind.QUEUE, "Q", "bob", group=False, add=[Authority.PUT], remove=[])
    asked = () if removes is None else (CFIN(1398, removes),)
    commander.done(CommandCode.DELETE_Q, CFST(NAME, "Q"), *asked)

    assert (removes == 0) == any(record.profile == "Q" for record in authorities.records())
