"""Channels, namelists, processes, authentication information, listeners, services and connections, by MQSC."""

import os
from pathlib import Path
from typing import Any

import pytest

from mqflow.embedded.catalogue.kinds import DEFINED_KINDS, DefinedObject, Noun
from mqflow.embedded.catalogue.system_objects import SYSTEM_OBJECTS
from mqflow.embedded.mqsc import Verdict, run
from mqflow.embedded.mqsc.display import as_json
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.rules.attribute_values import accepts
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.server.listener import serve
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import OpenOption
from mqflow.mqi.reason_codes import Reason
from tests.doubles import queue_manager_with

queue_manager = queue_manager_with()


def shown(queue_manager: EmbeddedQueueManager, command: str) -> list[dict[str, Any]]:
    """Run commands that succeed, and return the records of the last command."""
    results = run(command, queue_manager.administration)
    assert [] == [response.text for response in results.responses if response.verdict is not Verdict.DONE]
    return [as_json(record) for record in results.responses[-1].records]


def refused(queue_manager: EmbeddedQueueManager, command: str) -> str:
    """Return the text of the last command's failure."""
    response = run(command, queue_manager.administration).responses[-1]
    assert response.verdict in {Verdict.FAILED, Verdict.SYNTAX_ERROR}
    return response.text


DEFINED = {
    "CHANNEL": ("DEFINE CHANNEL(A) CHLTYPE(SVRCONN) MCAUSER('app')", {"CHLTYPE": "SVRCONN", "MCAUSER": "app", "KAINT": "AUTO"}),
    "NAMELIST": ("DEFINE NAMELIST(A) NAMES(B,C)", {"NAMES": "B,C", "NAMCOUNT": 2, "DESCR": ""}),
    "PROCESS": ("DEFINE PROCESS(A) APPLICID('run it')", {"APPLICID": "run it", "APPLTYPE": "UNIX"}),
    "AUTHINFO": ("DEFINE AUTHINFO(A) AUTHTYPE(IDPWOS) FAILDLAY(0)", {"AUTHTYPE": "IDPWOS", "FAILDLAY": 0, "CHCKLOCL": "NONE"}),
    "LISTENER": ("DEFINE LISTENER(A) TRPTYPE(TCP) PORT(1415)", {"TRPTYPE": "TCP", "PORT": 1415, "CONTROL": "MANUAL"}),
    "SERVICE": ("DEFINE SERVICE(A) STARTCMD('/bin/false')", {"STARTCMD": "/bin/false", "SERVTYPE": "COMMAND"}),
}


@pytest.mark.parametrize(("noun", "command", "expected"), [(noun, *rest) for noun, rest in DEFINED.items()], ids=DEFINED)
def test_an_object_has_the_values_of_its_definition_and_of_the_default_object(
    queue_manager: EmbeddedQueueManager, noun: str, command: str, expected: dict[str, Any]
) -> None:
    (found,) = shown(queue_manager, f"{command}\nDISPLAY {noun}(A)")

    assert {noun: "A", **expected}.items() <= found.items()


@pytest.mark.parametrize(("noun", "command"), [(noun, rest[0]) for noun, rest in DEFINED.items()], ids=DEFINED)
def test_an_object_is_altered_and_deleted(queue_manager: EmbeddedQueueManager, noun: str, command: str) -> None:
    (altered,) = shown(queue_manager, f"{command}\nALTER {noun}(A) DESCR('changed')\nDISPLAY {noun}(A)")
    assert "changed" == altered["DESCR"]

    shown(queue_manager, f"DELETE {noun}(A)")

    assert "2085" in refused(queue_manager, f"DISPLAY {noun}(A)")


@pytest.mark.parametrize(("noun", "command"), [(noun, rest[0]) for noun, rest in DEFINED.items()], ids=DEFINED)
def test_an_object_that_is_there_is_defined_again_only_with_replace(
    queue_manager: EmbeddedQueueManager, noun: str, command: str
) -> None:
    shown(queue_manager, f"{command}\nALTER {noun}(A) DESCR('changed')")
    assert "2100" in refused(queue_manager, command)

    (found,) = shown(queue_manager, f"{command} REPLACE\nDISPLAY {noun}(A)")

    assert "" == found["DESCR"]


@pytest.mark.parametrize(("noun", "command"), [(noun, rest[0]) for noun, rest in DEFINED.items()], ids=DEFINED)
def test_objects_survive_a_restart(tmp_path: Path, noun: str, command: str) -> None:
    with EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path)) as before:
        defined = shown(before, f"{command}\nDISPLAY {noun}(A)")

    with EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path)) as after:
        assert defined == shown(after, f"DISPLAY {noun}(A)")


def test_objects_are_defined_and_shown_from_another_process(tmp_path: Path) -> None:
    with EmbeddedQueueManager("QM1") as owner, serve(owner, tmp_path / "socket"):
        other = ServedQueueManager(tmp_path / "socket").administration
        for command, _ in DEFINED.values():
            run(command, other)
        run("ALTER NAMELIST(A) NAMES(D)\nDELETE CHANNEL(A)", other)

        assert [("D",)] == [each.values["names"] for each in other.objects.all("NAMELIST") if each.name == "A"]
        assert owner.administration.objects.all("CHANNEL") == other.objects.all("CHANNEL")
        assert owner.administration.objects.connections() == other.objects.connections()


def test_every_kind_has_a_default_object_for_each_of_its_types() -> None:
    names = {(made.noun, made.name): made.kind for made in SYSTEM_OBJECTS}

    for kind in DEFINED_KINDS.values():
        assert {number: number for number in kind.defaults} == {
            number: names[kind.noun, name] for number, name in kind.defaults.items()
        }


@pytest.mark.parametrize("noun", DEFINED_KINDS)
def test_each_attribute_of_a_kind_has_a_field_a_keyword_and_a_number_of_its_own(noun: Noun) -> None:
    specs = DEFINED_KINDS[noun].specs

    for names in ({spec.field for spec in specs}, {spec.keyword for spec in specs}, {spec.selector for spec in specs}):
        assert len(specs) == len(names)


@pytest.mark.parametrize("noun", DEFINED_KINDS)
def test_every_default_is_a_value_that_its_attribute_takes(noun: Noun) -> None:
    specs = [spec for spec in DEFINED_KINDS[noun].specs if spec.field != "kind" and not spec.read_only]

    assert [] == [spec.keyword for spec in specs if not accepts(spec, spec.default)]


def test_an_object_that_is_no_object_is_refused_from_another_process(tmp_path: Path) -> None:
    with EmbeddedQueueManager("QM1") as owner, serve(owner, tmp_path / "socket"):
        other = ServedQueueManager(tmp_path / "socket").administration
        with pytest.raises(MQIError) as error:
            other.objects.define(DefinedObject("LISTENER", {"name": "A", "port": "a number"}))

    assert Reason.ITEM_VALUE_ERROR == error.value.reason


# Channels


def test_a_server_and_a_client_connection_of_one_name_are_two(queue_manager: EmbeddedQueueManager) -> None:
    both = "DEFINE CHANNEL(A) CHLTYPE(SVRCONN)\nDEFINE CHANNEL(A) CHLTYPE(CLNTCONN) CONNAME('host(1414)')\n"

    assert ["SVRCONN", "CLNTCONN"] == [each["CHLTYPE"] for each in shown(queue_manager, f"{both}DISPLAY CHANNEL(A)")]
    assert ["SVRCONN"] == [
        each["CHLTYPE"] for each in shown(queue_manager, "DELETE CHANNEL(A) CHLTABLE(CLNTTAB)\nDISPLAY CHANNEL(A)")
    ]


WRONG = {
    "no type": ("DEFINE CHANNEL(A)", "needs CHLTYPE"),
    "an unknown type": ("DEFINE CHANNEL(A) CHLTYPE(FAX)", "CHLTYPE takes SDR or SVR"),
    "an attribute of another type": ("DEFINE CHANNEL(A) CHLTYPE(SVRCONN) XMITQ(Q)", "XMITQ"),
    "a name that is too long": ("DEFINE CHANNEL(A234567890.234567890.1) CHLTYPE(SVRCONN)", "20 characters"),
    "another type on alter": ("DEFINE CHANNEL(A) CHLTYPE(SVRCONN)\nALTER CHANNEL(A) CHLTYPE(SDR)", "2043"),
    "another type's attribute on alter": ("DEFINE CHANNEL(A) CHLTYPE(SVRCONN)\nALTER CHANNEL(A) XMITQ(Q)", "XMITQ"),
    "a password": ("DEFINE NAMELIST(A) PASSWORD(X)", "does not take 'PASSWORD'"),
    "too many names": ("DEFINE NAMELIST(A) NAMES(" + "N, +\n" * 256 + "N)", "up to 256"),
    "a text that is no name": ("DEFINE NAMELIST(A) NAMES(B,'C D')", "is not a name"),
    "a missing LIKE object": ("DEFINE NAMELIST(A) LIKE(NOT.THERE)", "2085"),
    "a condition on a list": ("DISPLAY NAMELIST(*) WHERE(NAMES EQ A)", "lists are not compared"),
    "the status of a channel": ("DISPLAY CHSTATUS(*)", "AMQ8420"),
}


@pytest.mark.parametrize(("script", "said"), WRONG.values(), ids=WRONG)
def test_a_wrong_command_is_refused_in_words(queue_manager: EmbeddedQueueManager, script: str, said: str) -> None:
    assert said in refused(queue_manager, script)


def test_ignstate_does_not_take_a_channel_of_the_other_table_for_the_channel(queue_manager: EmbeddedQueueManager) -> None:
    shown(queue_manager, "DEFINE CHANNEL(A) CHLTYPE(SVRCONN)\nDELETE CHANNEL(A) CHLTABLE(CLNTTAB) IGNSTATE(YES)")

    assert ["SVRCONN"] == [found["CHLTYPE"] for found in shown(queue_manager, "DISPLAY CHANNEL(A)")]


def test_a_definition_copies_the_object_of_its_like(queue_manager: EmbeddedQueueManager) -> None:
    (found,) = shown(queue_manager, "DEF NL(A) NAMES(X) DESCR('one')\nDEF NL(B) LIKE(A) DESCR('two')\nDIS NL(B)")

    assert ("X", "two") == (found["NAMES"], found["DESCR"])


def test_channels_are_shown_by_type_and_by_condition(queue_manager: EmbeddedQueueManager) -> None:
    by_type = shown(queue_manager, "DISPLAY CHANNEL(SYSTEM.AUTO*) TYPE(RCVR)")
    by_condition = shown(queue_manager, "DISPLAY CHANNEL(SYSTEM.AUTO*) WHERE(DISCINT EQ 0)")

    assert [{"CHANNEL": "SYSTEM.AUTO.RECEIVER", "CHLTYPE": "RCVR"}] == by_type
    assert ["SYSTEM.AUTO.SVRCONN"] == [each["CHANNEL"] for each in by_condition]


def test_the_authority_records_of_an_object_go_with_it(queue_manager: EmbeddedQueueManager) -> None:
    shown(queue_manager, "DEF NL(A)\nSET AUTHREC PROFILE(A) OBJTYPE(NAMELIST) PRINCIPAL('bob') AUTHADD(INQ)")

    shown(queue_manager, "DELETE NAMELIST(A)")

    assert "A" not in [record.profile for record in queue_manager.administration.authorities.records()]


# Connections


def test_connections_are_shown_with_user_application_and_unit_of_work(queue_manager: EmbeddedQueueManager) -> None:
    mine, other = queue_manager.connect(application_name="reader", user="bob"), queue_manager.connect(process=4711)
    mine.open("SYSTEM.DEFAULT.LOCAL.QUEUE", OpenOption.BROWSE)

    (found,) = shown(queue_manager, f"DISPLAY CONN({mine.identifier}) ALL")
    handles = shown(queue_manager, f"DISPLAY CONN({mine.identifier}) TYPE(HANDLE) OBJNAME OBJTYPE OPENOPTS")

    expected = {"CONN": mine.identifier, "APPLTAG": "reader", "USERID": "bob", "APPLTYPE": "USER", "UOWSTATE": "NONE"}
    assert expected.items() <= found.items()
    assert [os.getpid(), 4711] == [
        shown(queue_manager, f"DISPLAY CONN({each}) PID")[0]["PID"] for each in (mine.identifier, other.identifier)
    ]
    # EXTCONN begins with AMQC and the queue manager's name.
    assert "AMQCQM1" == bytes.fromhex(found["EXTCONN"]).decode().rstrip()
    assert {"OBJNAME": "SYSTEM.DEFAULT.LOCAL.QUEUE", "OBJTYPE": "QUEUE", "OPENOPTS": 8}.items() <= handles[0].items()


def test_the_command_server_is_a_connection_of_the_system(queue_manager: EmbeddedQueueManager) -> None:
    assert ["mqflow command server"] == [
        each["APPLTAG"] for each in shown(queue_manager, "DISPLAY CONN(*) APPLTAG WHERE(APPLTYPE EQ SYSTEM)")
    ]


def test_a_stopped_queue_manager_defines_nothing() -> None:
    with EmbeddedQueueManager("QM1") as queue_manager:
        administration = queue_manager.administration
    response = run("DEFINE NAMELIST(A)", administration).responses[-1]

    assert Reason.Q_MGR_NOT_AVAILABLE == response.reason
