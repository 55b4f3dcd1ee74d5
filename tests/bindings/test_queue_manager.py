"""A connect to IBM MQ: which queue manager was reached, and the sentence of a refusal. The library records its calls."""

from typing import Any

import pytest

from mqflow.bindings.connect_options import ClientPackageError, ConnectOptions
from mqflow.bindings.mqcno import Prepared
from mqflow.bindings.queue_manager import BoundQueueManager, ProcessTls
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import CompletionCode, Reason
from mqflow.verbs import ObjectDescriptor
from tests.bindings.dialects.recorder import Recorder

FAILED, WARNING = 2, 1
CHANNEL: dict[str, Any] = {"channel": "APP.SVRCONN", "hosts": (("a", 1414), ("b", 1415))}


def reached(library: Recorder, **fields: Any) -> BoundQueueManager:
    dialect: Any = library
    return BoundQueueManager(dialect, ConnectOptions(**fields), process=ProcessTls())


def test_a_queue_manager_has_the_name_and_the_package_of_its_settings() -> None:
    manager = reached(Recorder(), queue_manager="QM1")
    manager.close()

    assert ("QM1", "recorder", "QM1") == (manager.name, manager.package, manager.options.queue_manager)


@pytest.mark.parametrize(("name", "said"), [("QM1", "QM1"), ("", "This queue manager")])
def test_ibm_mq_is_administrated_with_its_own_tools(name: str, said: str) -> None:
    with pytest.raises(ClientPackageError) as raised:
        reached(Recorder(), queue_manager=name).administration  # noqa: B018 - the attribute raises

    assert f"{said} is IBM MQ's: mqflow neither defines nor lists its objects. runmqsc does." == str(raised.value)


def test_settings_that_the_package_cannot_take_are_refused_before_any_connect() -> None:
    class Limited(Recorder):
        def check(self, options: ConnectOptions) -> None:
            raise ClientPackageError(f"no table for {options.queue_manager}")

    with pytest.raises(ClientPackageError, match="no table for QM1"):
        reached(Limited(), queue_manager="QM1")


@pytest.mark.parametrize("name", ["", "*", "*GROUP"])
def test_the_name_of_the_default_queue_manager_is_inquired(name: str) -> None:
    library = Recorder(inquire=({2015: b"QM7"}, 0, 0))

    connection = reached(library, queue_manager=name).connect(application_name="orders", user="app")

    assert "QM7" == connection.queue_manager_name
    connect, opened, *rest = library.calls
    wanted: Prepared = connect[1]
    assert ("connect", b"orders", b"app") == (connect[0], wanted.application_name, wanted.user)
    assert ("open", 5, 0x20) == (opened[0], opened[1], opened[3])
    assert int(ObjectDescriptor().object_type) != 5 == opened[2][8]  # MQOT_Q_MGR
    assert [("inquire", 5, 7, (2015,)), ("close", 5, 7, 0)] == rest


@pytest.mark.parametrize("call", ["open", "inquire"])
def test_a_queue_manager_that_the_user_must_not_inquire_keeps_the_wanted_name(call: str) -> None:
    refusals = {
        "open": lambda _hconn, od, _options: (0, od, FAILED, Reason.NOT_AUTHORIZED),
        "inquire": ({}, FAILED, Reason.NOT_AUTHORIZED),
    }
    library = Recorder(**{call: refusals[call]})

    assert "*GROUP" == reached(library, queue_manager="*GROUP").connect().queue_manager_name
    assert ("close" in [each[0] for each in library.calls]) == (call == "inquire")


def test_a_queue_manager_of_a_name_is_not_inquired() -> None:
    library = Recorder()

    assert "QM1" == reached(library, queue_manager="QM1").connect().queue_manager_name
    assert ["connect"] == [call for call, *_ in library.calls]


@pytest.mark.parametrize(
    ("fields", "how"),
    [
        (CHANNEL, "recorder, by APP.SVRCONN to a(1414),b(1415)"),
        ({"channel": "APP.SVRCONN"}, "recorder, by APP.SVRCONN to no host"),
        ({"ccdt_url": "ftp://me:hunter2@mq/ccdt.json"}, "recorder, by the CCDT ftp://***@mq/ccdt.json"),
        ({}, "recorder, as IBM's client finds it (local bindings, MQSERVER, mqclient.ini)"),
    ],
)
@pytest.mark.parametrize("completion", [WARNING, FAILED])
def test_a_refused_connect_says_the_way_that_it_took(fields: dict[str, Any], how: str, completion: int) -> None:
    library = Recorder(connect=(5, completion, Reason.Q_MGR_NAME_ERROR))

    with pytest.raises(MQIError) as raised:
        reached(library, queue_manager="QM1", **fields).connect()

    ended = "ended with a warning" if completion == WARNING else "failed"
    advice = "Check the name of the queue manager in the URL."
    assert f"MQCONNX on QM1 {ended}: MQRC_Q_MGR_NAME_ERROR (2058). {how}. {advice}" == str(raised.value)
    assert (Reason.Q_MGR_NAME_ERROR, CompletionCode(completion)) == (raised.value.reason, raised.value.completion)
    assert (["connect", "disconnect"] if completion == WARNING else ["connect"]) == [call for call, *_ in library.calls]


def test_a_warning_about_tls_is_one_only_if_the_settings_are_others() -> None:
    """2391: IBM's library sets TLS up once in a process, and ignores other settings of a later connection."""
    process, first = ProcessTls(), ConnectOptions(key_repository="/keys")
    assert [False, True] == [process.are_in_force(first), process.are_in_force(ConnectOptions())]

    process.note(first)
    process.note(ConnectOptions())

    others = (ConnectOptions(), ConnectOptions(key_repository="/other"), ConnectOptions(certificate_label="app"))
    assert [True, False, False, False] == [process.are_in_force(options) for options in (first, *others)]


def test_another_warning_is_refused_though_the_tls_settings_are_in_force() -> None:
    library = Recorder()
    manager = reached(library, queue_manager="QM1", key_repository="/keys")
    manager.connect()
    library.answers["connect"] = (6, WARNING, Reason.SSL_ALREADY_INITIALIZED)
    assert "QM1" == manager.connect().queue_manager_name
    library.answers["connect"] = (7, WARNING, Reason.ALREADY_CONNECTED)

    with pytest.raises(MQIError) as raised:
        manager.connect()

    assert (Reason.ALREADY_CONNECTED, ("disconnect", 7)) == (raised.value.reason, library.calls[-1])
