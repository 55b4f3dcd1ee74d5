"""The options of a connection, field by field, as they reach the library: MQCNO, MQCD, MQSCO and MQCSP.

Source: the structures that the stand-in received from the real packages.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mqflow.bindings.connect_options import MESSAGE_BYTES_MAX, ClientPackageError
from mqflow.bindings.mqcno import Prepared
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import OpenOption
from mqflow.mqi.reason_codes import Reason
from mqflow.standin import ConnectRequest
from tests.bindings.bound import bound, connected, options
from tests.standin.harness import Program, only_in

pytestmark = pytest.mark.xdist_group("standin")

SHARE_NO_BLOCK, LOCAL, CLIENT, NO_RECONNECT = 0x80, 0x400, 0x800, 0x0200_0000


def secret(text: str) -> Callable[[], str]:
    return lambda: text


def asked(program: Program, application_name: str = "", **fields: Any) -> ConnectRequest:
    """Connect so, and return what arrived."""
    connected(program, application_name, **fields).disconnect()
    return program.kit.requests[-1]


def told(values: Any, *names: str) -> list[object]:
    return [value.rstrip(b"\0").decode() if isinstance(value, bytes) else value for value in map(values.__getitem__, names)]


def test_the_channel_and_its_hosts(program: Program) -> None:
    request = asked(program, hosts=(("a.example", 1414), ("b.example", 1415)))

    names = ("ChannelName", "ConnectionName", "Version", "ChannelType", "TransportType", "MaxMsgLength", "StrucLength")
    expected = ["APP.SVRCONN", "a.example(1414),b.example(1415)", 11, 6, 2, MESSAGE_BYTES_MAX, 1984]
    assert expected == told(request.channel, *names)


def test_everything_else_in_the_channel_is_as_the_package_has_it(program: Program) -> None:
    """Against the initial values of the package's own MQCD."""
    usual = program.mq.CD(Version=11).get()
    ours = asked(program).channel
    ignored = {
        "ChannelName", "ConnectionName", "MaxMsgLength", "HeartbeatInterval", "StrucLength", "Version", "HdrCompList",
        "MsgCompList",
    }  # fmt: skip

    same = {name: value for name, value in ours.items() if name in usual and name not in ignored}

    assert len(same) > 50
    assert {name: _bare(usual[name]) for name in same} == {name: _bare(value) for name, value in same.items()}


def _bare(value: object) -> object:
    return value.rstrip(b"\0") if isinstance(value, bytes) else value


def test_a_client_shares_its_handles_with_any_thread_and_does_not_reconnect_by_itself(program: Program) -> None:
    assert SHARE_NO_BLOCK | CLIENT | NO_RECONNECT == asked(program).options


def test_local_bindings_have_no_channel(program: Program) -> None:
    request = asked(program, channel="", hosts=(), binding="local")

    assert (SHARE_NO_BLOCK | LOCAL | NO_RECONNECT, {}) == (request.options, request.channel)


def test_without_channel_and_binding_the_library_decides(program: Program) -> None:
    request = asked(program, channel="", hosts=())

    assert (SHARE_NO_BLOCK | NO_RECONNECT, {}) == (request.options, request.channel)


def test_a_connect_without_settings_names_no_user(program: Program) -> None:
    request = asked(program)

    assert ({}, {}, "") == (request.security, request.tls, request.user)


def test_user_and_password(program: Program) -> None:
    security = asked(program, user="app", password=secret("a long one: " + "p" * 200)).security

    assert [1, "app", "a long one: " + "p" * 200] == told(security, "AuthenticationType", "CSPUserId", "CSPPassword")


def test_a_user_without_a_password_has_an_empty_one(program: Program) -> None:
    """pymqi would follow the pointer to the password that is missing."""
    security = asked(program, user="app").security

    assert [1, "app", ""] == told(security, "AuthenticationType", "CSPUserId", "CSPPassword")


def test_another_user_does_not_get_the_password(program: Program) -> None:
    bound(program, user="app", password=secret("hunter2")).connect(user="other")

    assert ["other", ""] == told(program.kit.requests[-1].security, "CSPUserId", "CSPPassword")


@only_in("ibmmq", "pymqi makes an MQCSP of version 1 by itself")
def test_a_token(program: Program) -> None:
    security = asked(program, token=secret("header.payload.signature")).security

    assert [2, "header.payload.signature", ""] == told(security, "AuthenticationType", "Token", "CSPUserId")


def test_tls(program: Program) -> None:
    request = asked(
        program,
        cipher_spec="ANY_TLS12_OR_HIGHER",
        key_repository="/keys/app.p12",
        certificate_label="app",
        peer_name="CN=mq.example,O=Example",
    )

    assert ["ANY_TLS12_OR_HIGHER", "CN=mq.example,O=Example", "app"] == told(
        request.channel, "SSLCipherSpec", "SSLPeerName", "CertificateLabel"
    )
    assert ["/keys/app.p12", "app", 0] == told(request.tls, "KeyRepository", "CertificateLabel", "FipsRequired")
    assert (1, 0, 0, 0) == tuple(memoryview(_raw(request.tls["EncryptionPolicySuiteB"])).cast("i"))
    assert "KeyRepoPassword" not in request.tls  # version 5, which every client since 8.0 takes


def _raw(value: object) -> bytes:
    assert isinstance(value, bytes)
    return value


def test_the_password_of_the_key_repository(program: Program) -> None:
    request = asked(program, cipher_spec="ANY", key_repository="/keys/app.p12", key_repository_password=secret("swordfish"))

    assert ["/keys/app.p12", "swordfish"] == told(request.tls, "KeyRepository", "KeyRepoPassword")


@only_in("ibmmq", "pymqi's MQCNO is of version 5, which has no application name")
def test_the_application_name(program: Program) -> None:
    assert "orders" == asked(program, "orders").application_name


@only_in("ibmmq", "pymqi's MQCNO is of version 5, which has no CCDT URL")
def test_a_ccdt_is_handed_to_the_client(program: Program) -> None:
    url = "file:///etc/mq/ccdt.json"
    request = asked(program, queue_manager="*GROUP", channel="", hosts=(), ccdt_url=url)

    assert ("*GROUP", url, {}) == (request.queue_manager, request.ccdt_url, request.channel)
    assert request.options & CLIENT


@pytest.mark.parametrize(
    ("said", "url"),
    [
        ("/etc/mq/ccdt.json", "file:///etc/mq/ccdt.json"),
        ("my ccdt.json", f"{Path.cwd().as_uri()}/my%20ccdt.json"),
        ("http://mq.example/ccdt.json", "http://mq.example/ccdt.json"),
        ("", ""),
    ],
)
def test_a_ccdt_is_handed_over_by_its_url_though_a_path_is_given(said: str, url: str) -> None:
    assert url.encode() == Prepared(options(ccdt_url=said)).ccdt_url


@only_in("pymqi", "ibmmq can do both")
def test_an_option_that_the_package_lacks_is_refused_with_the_alternative(program: Program) -> None:
    for fields, said in (
        ({"channel": "", "hosts": (), "ccdt_url": "file:///x"}, "Use ibmmq://, or leave ccdt out of the URL and set MQCCDTURL"),
        ({"token": secret("x")}, "use ibmmq://, or a user and a password"),
    ):
        with pytest.raises(ClientPackageError, match=said):
            bound(program, **fields)


def test_the_default_queue_manager_is_called_by_its_name_once_reached(program: Program) -> None:
    for name in ("", "*", "*GROUP"):
        connection = connected(program, queue_manager=name)

        with pytest.raises(MQIError) as raised:
            connection.open("NOT.THERE", OpenOption.OUTPUT)

        assert "MQOPEN on NOT.THERE (QM1) failed" in str(raised.value)
        connection.disconnect()


def test_the_error_of_a_failed_connect_names_the_way_and_no_user(program: Program) -> None:
    with pytest.raises(MQIError) as raised:
        connected(program, queue_manager="QM2", user="app", password=secret("hunter2"))

    sentence = str(raised.value)
    assert Reason.Q_MGR_NAME_ERROR == raised.value.reason
    assert f"MQCONNX on QM2 failed: MQRC_Q_MGR_NAME_ERROR (2058). {program.mq.__name__}, by APP.SVRCONN to" in sentence
    assert "hunter2" not in sentence + repr(raised.value)


def test_secrets_are_overwritten_when_the_connection_is_made() -> None:
    with Prepared(options(key_repository="k", key_repository_password=secret("swordfish"))) as wanted:
        address = wanted.pointer(b"hunter2")
        kept = list(wanted._kept)
        assert address
        assert {b"hunter2", b"swordfish"} == {each.value for each in kept}

    assert {b""} == {each.raw.strip(b"\0") for each in kept}
