"""PCF commands about channels, namelists, processes, authentication information, listeners, services and connections."""

from typing import Any

import pytest

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.options import OpenOption
from mqflow.mqi.pcf.codes import CommandCode, FilterOperator, ParameterId, PCFReason
from mqflow.mqi.pcf.structures import CFBS, CFIF, CFIL, CFIN, CFSF, CFSL, CFST, Parameter
from mqflow.mqi.reason_codes import Reason
from tests.doubles import queue_manager_with
from tests.embedded.administration.commanding import Commander

CHANNEL, CHANNEL_TYPE, CHANNEL_DESCRIPTION = 3501, 1511, 3502
NAMELIST, NAMES, NAME_COUNT = 2010, 2020, 19
SVRCONN, CLNTCONN, SENDER = 7, 6, 1
REPLACE = CFIN(ParameterId.REPLACE, 1)


queue_manager = queue_manager_with()


# The name, the required parameters and two attributes.
LIVES = {
    "channel": ((CommandCode.CREATE_CHANNEL, CommandCode.CHANGE_CHANNEL, CommandCode.COPY_CHANNEL),
                (CommandCode.INQUIRE_CHANNEL, CommandCode.DELETE_CHANNEL),
                (CHANNEL, ParameterId.FROM_CHANNEL_NAME, ParameterId.TO_CHANNEL_NAME), (CFIN(CHANNEL_TYPE, SVRCONN),),
                (CFIN(1618, 5), CFST(3502, "changed"))),
    "namelist": ((CommandCode.CREATE_NAMELIST, CommandCode.CHANGE_NAMELIST, CommandCode.COPY_NAMELIST),
        (CommandCode.INQUIRE_NAMELIST, CommandCode.DELETE_NAMELIST),
        (NAMELIST, ParameterId.FROM_NAMELIST_NAME, ParameterId.TO_NAMELIST_NAME), (),
        (CFSL(NAMES, ("B", "C")), CFST(2009, "changed"))),
    "process": ((CommandCode.CREATE_PROCESS, CommandCode.CHANGE_PROCESS, CommandCode.COPY_PROCESS),
                (CommandCode.INQUIRE_PROCESS, CommandCode.DELETE_PROCESS),
                (2012, ParameterId.FROM_PROCESS_NAME, ParameterId.TO_PROCESS_NAME), (),
                (CFST(2001, "run it"), CFST(2011, "changed"))),
    "authentication information": ((CommandCode.CREATE_AUTH_INFO, CommandCode.CHANGE_AUTH_INFO, CommandCode.COPY_AUTH_INFO),
        (CommandCode.INQUIRE_AUTH_INFO, CommandCode.DELETE_AUTH_INFO),
        (2045, ParameterId.FROM_AUTH_INFO_NAME, ParameterId.TO_AUTH_INFO_NAME), (CFIN(66, 3),),
        (CFIN(259, 7), CFST(2046, "changed"))),
    "listener": ((CommandCode.CREATE_LISTENER, CommandCode.CHANGE_LISTENER, CommandCode.COPY_LISTENER),
        (CommandCode.INQUIRE_LISTENER, CommandCode.DELETE_LISTENER),
        (3554, ParameterId.FROM_LISTENER_NAME, ParameterId.TO_LISTENER_NAME), (), (CFIN(1522, 1415), CFST(3555, "changed"))),
    "service": ((CommandCode.CREATE_SERVICE, CommandCode.CHANGE_SERVICE, CommandCode.COPY_SERVICE),
                (CommandCode.INQUIRE_SERVICE, CommandCode.DELETE_SERVICE),
                (2077, ParameterId.FROM_SERVICE_NAME, ParameterId.TO_SERVICE_NAME), (),
                (CFST(2079, "/bin/false"), CFST(2078, "changed"))),
}  # fmt: skip


@pytest.mark.parametrize(("makes", "looks", "names", "required", "settings"), LIVES.values(), ids=LIVES)
def test_an_object_is_created_changed_copied_inquired_and_deleted(
    commander: Commander,
    makes: tuple[CommandCode, CommandCode, CommandCode],
    looks: tuple[CommandCode, CommandCode],
    names: tuple[int, int, int],
    required: tuple[Parameter, ...],
    settings: tuple[Parameter, ...],
) -> None:
    (create, change, copy), (inquire, delete), (name, source, target) = makes, looks, names
    first, second = settings

    commander.done(create, CFST(name, "A"), *required, first)
    commander.done(change, CFST(name, "A"), *required, second)
    commander.done(copy, CFST(source, "A"), CFST(target, "B"), *required)

    copied = commander.done(inquire, CFST(name, "B"))[0]
    assert {each.parameter: plain(each.value) for each in settings} == {
        each.parameter: plain(copied[each.parameter]) for each in settings
    }
    commander.done(delete, CFST(name, "A"))
    assert commander.refused(inquire, CFST(name, "A"))[1] == name
    assert commander.done(inquire, CFST(name, "B"))


def plain(value: Any) -> Any:
    return tuple(text.rstrip() for text in value) if isinstance(value, tuple) else value


@pytest.mark.parametrize("names", [(), ("One",), ("One", "Two", "Three")])
def test_a_namelist_has_the_names_it_was_given_and_their_count(commander: Commander, names: tuple[str, ...]) -> None:
    commander.done(CommandCode.CREATE_NAMELIST, CFST(NAMELIST, "A"), CFSL(NAMES, names), REPLACE)

    asked = CFIL(ParameterId.NAMELIST_ATTRS, (NAMES, NAME_COUNT))
    (found,) = commander.done(CommandCode.INQUIRE_NAMELIST, CFST(NAMELIST, "A"), asked)

    assert {NAMELIST: "A", NAMES: names, NAME_COUNT: len(names)} == found


LISTS = {
    "contains": (FilterOperator.CONTAINS, "ONE", ["A"]),
    "excludes": (FilterOperator.EXCLUDES, "ONE", ["B", "SYSTEM.DEFAULT.NAMELIST"]),
    "contains a generic one": (FilterOperator.CONTAINS_GEN, "T*", ["A", "B"]),
    "excludes a generic one": (FilterOperator.EXCLUDES_GEN, "T*", ["SYSTEM.DEFAULT.NAMELIST"]),
}


@pytest.mark.parametrize(("operator", "value", "expected"), LISTS.values(), ids=LISTS)
def test_a_filter_looks_into_a_list(commander: Commander, operator: int, value: str, expected: list[str]) -> None:
    commander.done(CommandCode.CREATE_NAMELIST, CFST(NAMELIST, "A"), CFSL(NAMES, ("ONE", "TWO")))
    commander.done(CommandCode.CREATE_NAMELIST, CFST(NAMELIST, "B"), CFSL(NAMES, ("TEN",)))

    found = commander.done(CommandCode.INQUIRE_NAMELIST, CFST(NAMELIST, "*"), CFSF(NAMES, operator, value))

    assert expected == [each[NAMELIST] for each in found]


def test_channels_are_inquired_by_type_and_by_filter(commander: Commander) -> None:
    by_type = commander.done(CommandCode.INQUIRE_CHANNEL, CFST(CHANNEL, "SYSTEM.AUTO*"), CFIN(CHANNEL_TYPE, SVRCONN))
    like = CFIF(CHANNEL_TYPE, FilterOperator.EQUAL, SVRCONN)
    by_filter = commander.done(CommandCode.INQUIRE_CHANNEL, CFST(CHANNEL, "SYSTEM.AUTO*"), like)

    assert ["SYSTEM.AUTO.SVRCONN"] == [each[CHANNEL] for each in by_type] == [each[CHANNEL] for each in by_filter]


def test_the_names_and_types_of_channels_come_in_one_response(commander: Commander) -> None:
    (found,) = commander.done(CommandCode.INQUIRE_CHANNEL_NAMES, CFST(CHANNEL, "SYSTEM.AUTO*"))

    assert {3512: ("SYSTEM.AUTO.RECEIVER", "SYSTEM.AUTO.SVRCONN"), 1582: (3, 7)} == found


def test_a_client_connection_channel_is_deleted_from_its_own_table(
    queue_manager: EmbeddedQueueManager, commander: Commander
) -> None:
    for kind in (SVRCONN, CLNTCONN):
        commander.done(CommandCode.CREATE_CHANNEL, CFST(CHANNEL, "A"), CFIN(CHANNEL_TYPE, kind))

    commander.done(CommandCode.DELETE_CHANNEL, CFST(CHANNEL, "A"), CFIN(1526, 2))

    assert [SVRCONN] == [each[CHANNEL_TYPE] for each in commander.done(CommandCode.INQUIRE_CHANNEL, CFST(CHANNEL, "A"))]


A = CFST(CHANNEL, "A")
REFUSED = {
    # PCF has reasons for channels only. Source: IBM, the error codes of the commands about channels.
    "a channel that is there": (
        CommandCode.CREATE_CHANNEL,
        (CFST(CHANNEL, "SYSTEM.DEF.SVRCONN"), CFIN(CHANNEL_TYPE, SVRCONN)),
        PCFReason.CHANNEL_ALREADY_EXISTS,
    ),
    "a channel that is not there": (CommandCode.DELETE_CHANNEL, (A,), PCFReason.CHANNEL_NOT_FOUND),
    "no channel to inquire": (CommandCode.INQUIRE_CHANNEL, (A,), PCFReason.CHANNEL_NOT_FOUND),
    "another type of channel": (
        CommandCode.CHANGE_CHANNEL,
        (CFST(CHANNEL, "SYSTEM.DEF.SVRCONN"), CFIN(CHANNEL_TYPE, SENDER)),
        PCFReason.WRONG_CHANNEL_TYPE,
    ),
    "an unknown type": (CommandCode.CREATE_CHANNEL, (A, CFIN(CHANNEL_TYPE, 99)), PCFReason.CHANNEL_TYPE_ERROR),
    "a name that is too long": (
        CommandCode.CREATE_CHANNEL,
        (CFST(CHANNEL, "A" * 21), CFIN(CHANNEL_TYPE, SVRCONN)),
        PCFReason.CHANNEL_NAME_ERROR,
    ),
    "an attribute of another type": (
        CommandCode.CREATE_CHANNEL,
        (A, CFIN(CHANNEL_TYPE, SVRCONN), CFST(3505, "Q")),
        PCFReason.CFST_PARM_ID_ERROR,
    ),
    "a type missing": (CommandCode.CREATE_CHANNEL, (A,), PCFReason.PARM_COUNT_TOO_SMALL),
    "the status of a channel": (CommandCode.INQUIRE_CHANNEL_STATUS, (CFST(CHANNEL, "*"),), PCFReason.CHL_STATUS_NOT_FOUND),
    "a namelist that is not there": (CommandCode.INQUIRE_NAMELIST, (CFST(NAMELIST, "A"),), Reason.UNKNOWN_OBJECT_NAME),
    "a namelist that is there": (
        CommandCode.CREATE_NAMELIST,
        (CFST(NAMELIST, "SYSTEM.DEFAULT.NAMELIST"),),
        PCFReason.OBJECT_ALREADY_EXISTS,
    ),
    "a list with a text that is no name": (
        CommandCode.CREATE_NAMELIST,
        (CFST(NAMELIST, "A"), CFSL(NAMES, ("NO NAME",))),
        PCFReason.ATTR_VALUE_ERROR,
    ),
    "numbers for names": (CommandCode.CREATE_NAMELIST, (CFST(NAMELIST, "A"), CFIL(NAMES, (1,))), PCFReason.CFIL_PARM_ID_ERROR),
    "no connection": (CommandCode.INQUIRE_CONNECTION, (CFBS(ParameterId.CONNECTION_ID, b"x" * 24),), PCFReason.NONE_FOUND),
}


@pytest.mark.parametrize(("command", "parameters", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_command_is_refused_with_its_reason(
    commander: Commander, command: CommandCode, parameters: tuple[Parameter, ...], reason: int
) -> None:
    assert reason == commander.refused(command, *parameters)[0]


# Connections


def test_connections_are_inquired_with_user_and_application(queue_manager: EmbeddedQueueManager, commander: Commander) -> None:
    queue_manager.connect(application_name="reader", user="bob")
    everybody = CFBS(ParameterId.GENERIC_CONNECTION_ID, b"")
    users = CFIF(1, FilterOperator.EQUAL, 25)

    found = commander.done(CommandCode.INQUIRE_CONNECTION, everybody, users)

    # MQCACF_APPL_TAG and MQCACF_USER_IDENTIFIER.
    assert ("reader", "bob") in [(each[3058], each[3025]) for each in found]
    assert "mqflow command server" not in [each[3058] for each in found]
    assert {24} == {len(each[ParameterId.CONNECTION_ID]) for each in found}


def test_one_connection_is_inquired_with_its_open_objects(queue_manager: EmbeddedQueueManager, commander: Commander) -> None:
    queue_manager.connect(application_name="reader").open("SYSTEM.DEFAULT.LOCAL.QUEUE", OpenOption.BROWSE)
    everybody = CFBS(ParameterId.GENERIC_CONNECTION_ID, b"")
    by_name = CFSF(3058, FilterOperator.EQUAL, "reader")
    (reader,) = commander.done(CommandCode.INQUIRE_CONNECTION, everybody, by_name)

    found = commander.done(
        CommandCode.INQUIRE_CONNECTION,
        CFBS(ParameterId.CONNECTION_ID, reader[ParameterId.CONNECTION_ID]),
        CFIN(ParameterId.CONN_INFO_TYPE, ParameterId.CONN_INFO_HANDLE),
        CFIL(ParameterId.CONNECTION_ATTRS, (3046, 1022)),
    )

    # MQCACF_OBJECT_NAME and MQIACF_OPEN_OPTIONS.
    assert [("SYSTEM.DEFAULT.LOCAL.QUEUE", 8)] == [(each[3046], each[1022]) for each in found]
