"""PCF by the packages' own classes: pymqi.PCFExecute and ibmmq.PCFExecute on the command server, unmodified."""

from typing import Any

import pytest

from tests.standin.harness import Program, only_in

pytestmark = pytest.mark.xdist_group("standin")


def pcf(program: Program) -> Any:
    return program.mq.PCFExecute(program.manager, response_wait_interval=20_000)


def names(program: Program, results: list[dict[int, Any]]) -> list[bytes]:
    return [result[program.c.MQCA_Q_NAME].strip() for result in results]


def test_the_queue_manager_answers_a_ping(program: Program) -> None:
    assert not any(pcf(program).MQCMD_PING_Q_MGR())


@only_in("pymqi", "ibmmq has no is_connected")
def test_a_connected_queue_manager_is_connected(program: Program) -> None:
    assert program.manager.is_connected


def test_a_queue_is_created_changed_inquired_and_deleted(program: Program) -> None:
    mq, c, commands = program.mq, program.c, pcf(program)
    name = {c.MQCA_Q_NAME: b"MADE.BY.PCF"}

    commands.MQCMD_CREATE_Q({**name, c.MQIA_Q_TYPE: c.MQQT_LOCAL, c.MQIA_MAX_Q_DEPTH: 7})
    commands.MQCMD_CHANGE_Q({**name, c.MQIA_Q_TYPE: c.MQQT_LOCAL, c.MQCA_Q_DESC: b"by hand"})

    (found,) = commands.MQCMD_INQUIRE_Q(name)
    assert (7, b"by hand") == (found[c.MQIA_MAX_Q_DEPTH], found[c.MQCA_Q_DESC].strip())
    commands.MQCMD_DELETE_Q({**name, mq.CMQCFC.MQIACF_PURGE: mq.CMQCFC.MQPO_YES})
    error = program.refused(c.MQRC_UNKNOWN_OBJECT_NAME, lambda: commands.MQCMD_INQUIRE_Q(name))
    assert c.MQCC_FAILED == error.comp


def test_a_create_of_a_queue_that_is_there_is_refused_with_its_reason(program: Program) -> None:
    c, commands = program.c, pcf(program)
    arguments = {c.MQCA_Q_NAME: b"Q", c.MQIA_Q_TYPE: c.MQQT_LOCAL}

    program.refused(program.mq.CMQCFC.MQRCCF_OBJECT_ALREADY_EXISTS, lambda: commands.MQCMD_CREATE_Q(arguments))

    assert [b"Q"] == names(program, commands.MQCMD_INQUIRE_Q({c.MQCA_Q_NAME: b"Q"}))


def test_structures_and_filters_of_the_packages_are_understood(program: Program) -> None:
    mq, c = program.mq, program.c
    program.open().put(b"one")
    arguments = [
        mq.CFST(Parameter=c.MQCA_Q_NAME, String=b"*"),
        mq.CFIN(Parameter=c.MQIA_Q_TYPE, Value=c.MQQT_LOCAL),
        mq.CFIL(Parameter=mq.CMQCFC.MQIACF_Q_ATTRS, Values=[c.MQCA_Q_DESC]),
    ]
    deep = mq.CFIF(Parameter=c.MQIA_CURRENT_Q_DEPTH, Operator=mq.CMQCFC.MQCFOP_GREATER, FilterValue=0)

    results = pcf(program).MQCMD_INQUIRE_Q(arguments, [deep])

    # The command is not over while it is carried out, so it counts as a message on the command queue.
    assert [b"Q", b"SYSTEM.ADMIN.COMMAND.QUEUE"] == names(program, results)
    # The name, the type and the attribute of the filter come whether asked for or not.
    assert {c.MQCA_Q_NAME, c.MQIA_Q_TYPE, c.MQCA_Q_DESC, c.MQIA_CURRENT_Q_DEPTH} == set(results[0])


def test_a_filter_by_text_takes_a_generic_value(program: Program) -> None:
    mq, c = program.mq, program.c
    program.kit.define("A", descr="Orders of today")
    like = mq.Filter(c.MQCA_Q_DESC).like(b"Orders*")

    results = pcf(program).MQCMD_INQUIRE_Q({c.MQCA_Q_NAME: b"*"}, [like])

    assert [b"A"] == names(program, results)


def test_a_program_inquires_and_changes_the_queue_manager(program: Program) -> None:
    c, commands = program.c, pcf(program)

    commands.MQCMD_CHANGE_Q_MGR({c.MQCA_Q_MGR_DESC: b"changed by PCF"})

    (found,) = commands.MQCMD_INQUIRE_Q_MGR({program.mq.CMQCFC.MQIACF_Q_MGR_ATTRS: [c.MQCA_Q_MGR_DESC]})
    assert (b"QM1", b"changed by PCF") == (found[c.MQCA_Q_MGR_NAME].strip(), found[c.MQCA_Q_MGR_DESC].strip())


def test_a_namelist_is_created_with_names_inquired_and_deleted(program: Program) -> None:
    mq, c, commands = program.mq, program.c, pcf(program)
    name = {c.MQCA_NAMELIST_NAME: b"NAMES.OF.MINE"}

    commands.MQCMD_CREATE_NAMELIST({**name, c.MQCA_NAMES: [b"One", b"Two"], mq.CMQCFC.MQIACF_REPLACE: mq.CMQCFC.MQRP_YES})

    (found,) = commands.MQCMD_INQUIRE_NAMELIST(name)
    assert ([b"One", b"Two"], 2) == ([each.strip() for each in found[c.MQCA_NAMES]], found[c.MQIA_NAME_COUNT])
    commands.MQCMD_DELETE_NAMELIST(name)
    program.refused(c.MQRC_UNKNOWN_OBJECT_NAME, lambda: commands.MQCMD_INQUIRE_NAMELIST(name))


def test_a_channel_is_created_inquired_and_deleted(program: Program) -> None:
    cfc, commands = program.mq.CMQCFC, pcf(program)
    name, svrconn = {cfc.MQCACH_CHANNEL_NAME: b"MADE.BY.PCF"}, 7

    commands.MQCMD_CREATE_CHANNEL({**name, cfc.MQIACH_CHANNEL_TYPE: svrconn, cfc.MQCACH_DESC: b"by hand"})

    (found,) = commands.MQCMD_INQUIRE_CHANNEL(name)
    assert (svrconn, b"by hand") == (found[cfc.MQIACH_CHANNEL_TYPE], found[cfc.MQCACH_DESC].strip())
    commands.MQCMD_DELETE_CHANNEL(name)
    program.refused(cfc.MQRCCF_CHANNEL_NOT_FOUND, lambda: commands.MQCMD_INQUIRE_CHANNEL(name))


def test_the_authentication_that_the_queue_manager_names_is_there(program: Program) -> None:
    c, cfc, commands = program.c, program.mq.CMQCFC, pcf(program)
    (manager,) = commands.MQCMD_INQUIRE_Q_MGR()
    arguments = {c.MQCA_AUTH_INFO_NAME: manager[c.MQCA_CONN_AUTH], c.MQIA_AUTH_INFO_TYPE: c.MQAIT_IDPW_OS}

    (found,) = commands.MQCMD_INQUIRE_AUTH_INFO({**arguments, cfc.MQIACF_AUTH_INFO_ATTRS: [c.MQIA_CHECK_CLIENT_BINDING]})

    assert cfc.MQCHK_NONE == found[c.MQIA_CHECK_CLIENT_BINDING]


def test_connections_are_inquired_by_a_generic_identifier(program: Program) -> None:
    mq, c, cfc = program.mq, program.c, program.mq.CMQCFC
    arguments = {
        cfc.MQBACF_GENERIC_CONNECTION_ID: mq.ByteString(b""),
        cfc.MQIACF_CONN_INFO_TYPE: cfc.MQIACF_CONN_INFO_CONN,
        cfc.MQIACF_CONNECTION_ATTRS: [cfc.MQCACH_CONNECTION_NAME, cfc.MQCACH_CHANNEL_NAME],
    }

    results = pcf(program).MQCMD_INQUIRE_CONNECTION(arguments, [mq.Filter(c.MQIA_APPL_TYPE).equal(c.MQAT_USER)])

    assert results
    assert all({cfc.MQCACH_CONNECTION_NAME, cfc.MQCACH_CHANNEL_NAME} <= set(result) for result in results)


def test_a_subscription_is_created_inquired_and_deleted(program: Program) -> None:
    c, cfc, commands = program.c, program.mq.CMQCFC, pcf(program)
    name = {cfc.MQCACF_SUB_NAME: b"desk 1"}
    queue = {cfc.MQIACF_DESTINATION_CLASS: c.MQDC_PROVIDED, cfc.MQCACF_DESTINATION: b"Q"}

    commands.MQCMD_CREATE_SUBSCRIPTION({**name, c.MQCA_TOPIC_STRING: b"Prices", **queue})

    (found,) = commands.MQCMD_INQUIRE_SUBSCRIPTION(name)
    assert (b"Q", b"Prices") == (found[cfc.MQCACF_DESTINATION].strip(), found[c.MQCA_TOPIC_STRING].strip(b"\0 "))
    commands.MQCMD_DELETE_SUBSCRIPTION(name)
    program.refused(c.MQRC_NO_SUBSCRIPTION, lambda: commands.MQCMD_INQUIRE_SUBSCRIPTION(name))


def test_authorities_are_given_to_a_user(program: Program) -> None:
    c, cfc = program.c, program.mq.CMQCFC
    on_queue = {cfc.MQCACF_AUTH_PROFILE_NAME: b"Q", cfc.MQIACF_OBJECT_TYPE: c.MQOT_Q}
    given = {cfc.MQIACF_AUTH_ADD_AUTHS: [cfc.MQAUTH_OUTPUT], cfc.MQCACF_PRINCIPAL_ENTITY_NAMES: [b"bob"]}

    pcf(program).MQCMD_SET_AUTH_REC({**on_queue, **given})

    records = program.kit.queue_manager.administration.authorities.records()
    assert [["PUT"]] == [sorted(record.authorities) for record in records if record.entity == "bob"]


def test_the_figures_of_a_monitor_agree_with_the_queue(program: Program) -> None:
    """The calls of Datadog's ibm_mq check and of pymqi monitors: MQINQ, and the statistics and statuses by PCF."""
    c, commands, cfc = program.c, pcf(program), program.mq.CMQCFC
    queue = program.open()
    for body in (b"1", b"2", b"3"):
        queue.put(body)
    queue.get()

    [status] = commands.MQCMD_INQUIRE_Q_STATUS({c.MQCA_Q_NAME: b"Q"})
    [statistics] = commands.MQCMD_RESET_Q_STATS({c.MQCA_Q_NAME: b"Q"})
    [manager] = commands.MQCMD_INQUIRE_Q_MGR_STATUS()

    assert (2, 2) == (status[c.MQIA_CURRENT_Q_DEPTH], program.depth())
    assert (3, 3, 1) == (statistics[c.MQIA_HIGH_Q_DEPTH], statistics[c.MQIA_MSG_ENQ_COUNT], statistics[c.MQIA_MSG_DEQ_COUNT])
    connections = program.kit.queue_manager.administration.objects.connections()
    assert len(connections) == manager[cfc.MQIACF_CONNECTION_COUNT]
    assert (0, 0) == tuple(program.manager.inquire(selector) for selector in (c.MQIA_PERFORMANCE_EVENT, c.MQIA_STATISTICS_MQI))


def test_the_text_of_an_attribute_is_utf_8_in_mqset_and_mqinq(program: Program) -> None:
    c = program.c
    queue = program.open(c.MQOO_SET | c.MQOO_INQUIRE)
    program.kit.mqsc("ALTER QLOCAL(Q) DESCR('Größe')")

    queue.set(c.MQCA_TRIGGER_DATA, "Ö".encode() * 32)

    defined = program.kit.queue_manager.administration.queue("Q")
    assert defined is not None
    assert "Ö" * 32 == defined.trigger_data
    assert ("Ö" * 32).encode() == queue.inquire(c.MQCA_TRIGGER_DATA)
    assert "Größe".encode() == queue.inquire(c.MQCA_Q_DESC).strip()


def test_a_text_of_mqset_ends_at_its_first_nul(program: Program) -> None:
    c = program.c
    queue = program.open(c.MQOO_SET | c.MQOO_INQUIRE)

    queue.set(c.MQCA_TRIGGER_DATA, b"desk 1\0rest".ljust(64))

    assert b"desk 1" == queue.inquire(c.MQCA_TRIGGER_DATA).strip()
