"""The statuses that monitors ask for, by PCF and by MQSC. Their figures are those of the queues and topics.

Source: IBM, "Reset Queue Statistics" (q088310), "Inquire Queue Manager Status", "Inquire Topic Status", "Inquire Subscription
Status", "Inquire Entity Authority"; DISPLAY QMSTATUS, PUBSUB, TPSTATUS, SBSTATUS.
"""

from typing import Any

import pytest

from mqflow.embedded.connection import EmbeddedConnection
from mqflow.embedded.mqsc import Verdict, run
from mqflow.embedded.mqsc.display import as_json
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, ObjectType, OpenOption, PutOption, SubscribeOption
from mqflow.mqi.pcf.codes import CommandCode, ParameterId, PCFReason
from mqflow.mqi.pcf.structures import CFBS, CFIL, CFIN, CFST
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.subscription import SubscriptionDescriptor
from mqflow.verbs import GetOptions, ObjectDescriptor
from mqflow.world import World
from tests.conformance.under_test import ManualClock, refused
from tests.embedded.administration.commanding import Commander

Q_NAME, Q_MGR_NAME, TOPIC_STRING, SUB_NAME, SUB_ID = 2016, 2015, 2094, 3152, 7016
SINCE_RESET, HIGH_DEPTH, ENQUEUED, DEQUEUED = 35, 36, 37, 38
SUB_COUNT, PUB_COUNT, RETAINED, PUBLISH_COUNT, MESSAGE_COUNT = 204, 215, 1300, 1304, 1290
STATUS, CONNECTIONS, COMMAND_SERVER, CHANNEL_INITIATOR = 1149, 1230, 1233, 1232
SYNCPOINT = GetOptions(options=GetOption.SYNCPOINT)


@pytest.fixture
def program(queue_manager: EmbeddedQueueManager) -> EmbeddedConnection:
    return queue_manager.connect(application_name="program")


def put(program: EmbeddedConnection, count: int, options: PutOption = PutOption.NO_SYNCPOINT) -> None:
    for _ in range(count):
        program.put1("Q", MessageDescriptor(), b"1", options)


def statistics(commander: Commander, name: str = "Q") -> list[tuple[str, int, int, int]]:
    found = commander.done(CommandCode.RESET_Q_STATS, CFST(Q_NAME, name))
    return [(each[Q_NAME], each[HIGH_DEPTH], each[ENQUEUED], each[DEQUEUED]) for each in found]


def shown(queue_manager: EmbeddedQueueManager, command: str) -> list[dict[str, Any]]:
    (response,) = run(command, queue_manager.administration).responses
    assert response.verdict is Verdict.DONE, response.text
    return [as_json(record) for record in response.records]


# Reset Queue Statistics


def test_the_statistics_of_a_queue_are_what_was_put_and_got_since_the_last_reset(
    commander: Commander, program: EmbeddedConnection
) -> None:
    put(program, 5)
    handle = program.open("Q", OpenOption.INPUT_SHARED)
    for _ in range(2):
        program.get(handle, SYNCPOINT)
    program.commit()

    assert [("Q", 5, 5, 2)] == statistics(commander)
    assert [("Q", 3, 0, 0)] == statistics(commander), "the highest depth since the reset is the depth at the reset"


def test_a_unit_of_work_counts_before_its_end_and_also_after_a_backout(
    commander: Commander, program: EmbeddedConnection
) -> None:
    put(program, 1)
    handle = program.open("Q", OpenOption.INPUT_SHARED)
    program.get(handle, SYNCPOINT)
    put(program, 2, PutOption.SYNCPOINT)
    program.backout()

    assert [("Q", 3, 3, 1)] == statistics(commander)


@pytest.mark.parametrize("most", [1, 3, 7])
def test_messages_that_are_got_together_count_like_messages_got_one_by_one(
    commander: Commander, program: EmbeddedConnection, most: int
) -> None:
    put(program, 7)
    handle = program.open("Q", OpenOption.INPUT_SHARED)
    while program.get_many(handle, SYNCPOINT, most):
        program.commit()

    assert [("Q", 7, 7, 7)] == statistics(commander)


def test_units_of_work_that_are_given_back_were_never_got(commander: Commander, program: EmbeddedConnection) -> None:
    put(program, 6)
    handle = program.open("Q", OpenOption.INPUT_SHARED)
    units = program.take_ahead(handle, SYNCPOINT, most=2, units=3, bytes_max=1_000)
    program.give_back(len(units) - 1)

    assert [("Q", 6, 6, 2)] == statistics(commander)


def test_a_generic_name_resets_each_local_queue_and_an_unknown_name_is_2085(commander: Commander) -> None:
    local = {each[Q_NAME] for each in commander.done(CommandCode.INQUIRE_Q, CFST(Q_NAME, "SYSTEM.D*"), CFIN(20, 1))}

    assert local == {name for name, *_ in statistics(commander, "SYSTEM.D*")}
    assert (Reason.UNKNOWN_OBJECT_NAME, 0) == commander.refused(CommandCode.RESET_Q_STATS, CFST(Q_NAME, "NOT.THERE"))


def test_reset_qstats_shows_the_same_figures(queue_manager: EmbeddedQueueManager, program: EmbeddedConnection) -> None:
    put(program, 4)

    [record] = shown(queue_manager, "RESET QSTATS(Q)")

    assert ("Q", 4, 4, 0) == (record["QSTATS"], record["HIQDEPTH"], record["MSGSIN"], record["MSGSOUT"])


# The queue manager


def test_the_status_of_the_queue_manager_has_the_connections_that_display_conn_shows(
    queue_manager: EmbeddedQueueManager, commander: Commander, program: EmbeddedConnection
) -> None:
    [status] = commander.done(CommandCode.INQUIRE_Q_MGR_STATUS)

    assert {Q_MGR_NAME: "QM1", STATUS: 2, COMMAND_SERVER: 2, CHANNEL_INITIATOR: 0}.items() <= status.items()
    assert len(shown(queue_manager, "DISPLAY CONN(*)")) == status[CONNECTIONS]


def test_a_list_of_attributes_leaves_out_the_rest(commander: Commander) -> None:
    asked = CFIL(ParameterId.Q_MGR_STATUS_ATTRS, (CONNECTIONS,))

    assert [{Q_MGR_NAME: "QM1", STATUS: 2, CONNECTIONS: 2}] == commander.done(CommandCode.INQUIRE_Q_MGR_STATUS, asked)


def test_qmstatus_says_what_the_administrator_sees_first(queue_manager: EmbeddedQueueManager) -> None:
    [record] = shown(queue_manager, "DISPLAY QMSTATUS")

    assert {
        "QMNAME": "QM1", "STATUS": "RUNNING", "CMDSERV": "RUNNING", "CHINIT": "STOPPED", "CONNS": 1,
    }.items() <= record.items()  # fmt: skip


def test_a_quiescing_queue_manager_says_so(queue_manager: EmbeddedQueueManager) -> None:
    queue_manager.quiesce()

    assert [{"QMNAME": "QM1", "STATUS": "QUIESCE"}] == shown(queue_manager, "DISPLAY QMSTATUS STATUS")


def test_pubsub_counts_the_subscriptions(
    queue_manager: EmbeddedQueueManager, commander: Commander, program: EmbeddedConnection
) -> None:
    for name in "AB":
        subscribe(program, name)

    [record] = shown(queue_manager, "DISPLAY PUBSUB")
    [status] = commander.done(CommandCode.INQUIRE_PUBSUB_STATUS)

    assert ("LOCAL", "COMPAT", 2) == (record["TYPE"], record["STATUS"], record["SUBCOUNT"])
    assert record["TPCOUNT"] == len(shown(queue_manager, "DISPLAY TPSTATUS('#')"))
    assert (1, 4, 2, record["TPCOUNT"]) == (status[1314], status[1311], status[204], status[253])


def test_there_is_no_status_of_listeners_and_services_and_no_channel_authentication_record(commander: Commander) -> None:
    assert (PCFReason.LSTR_STATUS_NOT_FOUND, 0) == commander.refused(CommandCode.INQUIRE_LISTENER_STATUS, CFST(3554, "*"))
    assert (PCFReason.CHLAUTH_NOT_FOUND, 0) == commander.refused(CommandCode.INQUIRE_CHLAUTH_RECS, CFST(3501, "*"))
    assert (Reason.UNKNOWN_OBJECT_NAME, 0) == commander.refused(CommandCode.INQUIRE_CLUSTER_Q_MGR, CFST(2031, "*"))
    assert (PCFReason.SERV_STATUS_NOT_FOUND, 0) == commander.refused(CommandCode.INQUIRE_SERVICE_STATUS, CFST(2077, "*"))


# Topics and subscriptions


def subscribe(program: EmbeddedConnection, name: str, topic: str = "prices/gold") -> None:
    options = SubscribeOption.CREATE | SubscribeOption.MANAGED | SubscribeOption.DURABLE
    program.subscribe(SubscriptionDescriptor(options=options, name=name, object_string=topic))


def publish(program: EmbeddedConnection, count: int, topic: str = "prices/gold") -> None:
    handle = program.open(ObjectDescriptor(object_type=ObjectType.TOPIC, object_string=topic), OpenOption.OUTPUT)
    for _ in range(count):
        program.put(handle, MessageDescriptor(), b"1", PutOption.NO_SYNCPOINT)


def topic_status(commander: Commander, topic: str, kind: int) -> list[dict[int, Any]]:
    parameters = CFST(TOPIC_STRING, topic), CFIN(ParameterId.TOPIC_STATUS_TYPE, kind)
    return commander.done(CommandCode.INQUIRE_TOPIC_STATUS, *parameters)


def test_the_status_of_a_topic_counts_its_subscribers_and_publishers(commander: Commander, program: EmbeddedConnection) -> None:
    subscribe(program, "A")
    subscribe(program, "B")
    publish(program, 3)

    [status] = topic_status(commander, "prices/#", ParameterId.TOPIC_STATUS)
    [publisher] = topic_status(commander, "prices/+", ParameterId.TOPIC_PUB)
    subscribers = topic_status(commander, "prices/gold", ParameterId.TOPIC_SUB)

    assert ("prices/gold", 2, 1, 0) == (status[TOPIC_STRING], status[SUB_COUNT], status[PUB_COUNT], status[RETAINED])
    assert ("prices/gold", 3) == (publisher[TOPIC_STRING], publisher[PUBLISH_COUNT])
    assert program.identifier == publisher[ParameterId.CONNECTION_ID][-8:].hex().upper()
    assert [3, 3] == [each[MESSAGE_COUNT] for each in subscribers]


def test_tpstatus_and_sbstatus_show_the_same_figures(queue_manager: EmbeddedQueueManager, program: EmbeddedConnection) -> None:
    subscribe(program, "A")
    publish(program, 2)

    [topic] = shown(queue_manager, "DISPLAY TPSTATUS('prices/gold') SUBCOUNT PUBCOUNT")
    [publisher] = shown(queue_manager, "DISPLAY TPSTATUS('prices/gold') TYPE(PUB) NUMPUBS ACTCONN")
    [subscriber] = shown(queue_manager, "DISPLAY TPSTATUS('#') TYPE(SUB) NUMMSGS")
    [status] = shown(queue_manager, "DISPLAY SBSTATUS(A) NUMMSGS")

    assert (1, 1) == (topic["SUBCOUNT"], topic["PUBCOUNT"])
    assert {"TPSTATUS": "prices/gold", "NUMPUBS": 2, "ACTCONN": program.identifier} == publisher
    assert (2, 2) == (subscriber["NUMMSGS"], status["NUMMSGS"])


def test_the_status_of_a_subscription_is_found_by_name_and_by_identifier(
    commander: Commander, program: EmbeddedConnection
) -> None:
    subscribe(program, "A")
    subscribe(program, "B", "prices/silver")
    publish(program, 4)

    [by_name] = commander.done(CommandCode.INQUIRE_SUB_STATUS, CFST(SUB_NAME, "A*"))
    [by_identifier] = commander.done(CommandCode.INQUIRE_SUB_STATUS, CFBS(SUB_ID, by_name[SUB_ID]))

    assert ("A", "prices/gold", 4) == (by_name[SUB_NAME], by_name[TOPIC_STRING], by_name[MESSAGE_COUNT])
    assert by_name == by_identifier


def test_the_status_of_a_subscription_has_the_time_of_its_last_resume() -> None:
    clock = ManualClock()
    with EmbeddedQueueManager("QM1", world=World(clock)) as queue_manager:
        first, second = queue_manager.connect(), queue_manager.connect()
        subscribe(first, "A")
        first.disconnect()
        [created] = shown(queue_manager, "DISPLAY SBSTATUS(A) RESMDATE RESMTIME")
        clock.advance(86_405)
        second.subscribe(SubscriptionDescriptor(options=SubscribeOption.RESUME, name="A", object_string="prices/gold"))
        [resumed] = shown(queue_manager, "DISPLAY SBSTATUS(A) RESMDATE RESMTIME")

    assert ("", "") == (created["RESMDATE"], created["RESMTIME"])
    assert ("2026-01-03", "03.04.10") == (resumed["RESMDATE"], resumed["RESMTIME"])


# Authorities


def test_the_authorities_of_a_user_on_a_queue_are_those_of_its_records(
    queue_manager: EmbeddedQueueManager, commander: Commander
) -> None:
    run("SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('app') AUTHADD(GET,INQ)", queue_manager.administration)
    asked = (
        CFIN(ParameterId.ENTITY_TYPE, 1),
        CFIN(ParameterId.OBJECT_TYPE, 1),
        CFIL(ParameterId.AUTH_OPTIONS, (1,)),
        CFST(ParameterId.ENTITY_NAME, "app"),
        CFST(ParameterId.OBJECT_NAME, "Q"),
    )

    [answer] = commander.done(CommandCode.INQUIRE_ENTITY_AUTH, *asked)

    assert ("Q", "app", (9, 10)) == (
        answer[ParameterId.OBJECT_NAME],
        answer[ParameterId.ENTITY_NAME],
        answer[ParameterId.AUTHORIZATION_LIST],
    )


# Connections


def test_a_stopped_connection_loses_its_unit_of_work_and_its_next_call_is_2009(
    queue_manager: EmbeddedQueueManager, program: EmbeddedConnection
) -> None:
    put(program, 1, PutOption.SYNCPOINT)

    shown(queue_manager, f"STOP CONN({program.identifier})")

    with refused(Reason.CONNECTION_BROKEN):
        put(program, 1)
    assert 0 == queue_manager.administration.queue_status("Q").depth


def test_stopping_an_unknown_connection_is_3174(commander: Commander) -> None:
    parameter = CFBS(ParameterId.CONNECTION_ID, b"AMQC".ljust(24, b"0"))

    assert PCFReason.CONNECTION_ID_ERROR == commander.refused(CommandCode.STOP_CONNECTION, parameter)[0]


def test_display_conn_of_every_type_shows_connections_and_their_handles(
    queue_manager: EmbeddedQueueManager, program: EmbeddedConnection
) -> None:
    program.open("Q", OpenOption.INPUT_SHARED)

    types = [record["TYPE"] for record in shown(queue_manager, f"DISPLAY CONN({program.identifier}) TYPE(*)")]

    assert ["CONN", "HANDLE"] == types


# Commands that only IBM MQ has


@pytest.mark.parametrize("number", [104, 190, 205, 220], ids=str)
def test_a_command_that_mq_has_and_this_queue_manager_does_not_have_is_2298(commander: Commander, number: int) -> None:
    assert (Reason.FUNCTION_NOT_SUPPORTED, 0) == commander.refused(number)


@pytest.mark.parametrize("number", [0, 14, 15, 99, 222, 5_000], ids=str)
def test_a_number_that_is_no_command_is_3007(commander: Commander, number: int) -> None:
    assert (PCFReason.CFH_COMMAND_ERROR, 0) == commander.refused(number)


def test_refresh_security_takes_an_asterisk(queue_manager: EmbeddedQueueManager) -> None:
    assert [] == shown(queue_manager, "REFRESH SECURITY(*)")


def test_refresh_security_does_not_promise_new_certificates(queue_manager: EmbeddedQueueManager) -> None:
    [response] = run("REFRESH SECURITY TYPE(SSL)", queue_manager.administration).responses

    assert "reads its certificates only when it starts" in response.text


@pytest.mark.parametrize("noun", ["CLUSQMGR", "QCLUSTER", "TCLUSTER", "COMMINFO", "POLICY"])
def test_objects_that_no_command_makes_here_are_not_found(queue_manager: EmbeddedQueueManager, noun: str) -> None:
    (response,) = run(f"DISPLAY {noun}(*)", queue_manager.administration).responses

    assert (Verdict.FAILED, Reason.UNKNOWN_OBJECT_NAME) == (response.verdict, response.reason)
    assert response.text.startswith(f"AMQ8147: DISPLAY {noun} on *")
