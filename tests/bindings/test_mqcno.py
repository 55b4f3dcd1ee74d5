"""The structures of MQCONNX, whole: each option in its field, in the words and numbers of the MQI."""

import struct
from collections.abc import Callable
from typing import Any

import pytest

from mqflow.bindings.connect_options import ClientPackageError, ConnectOptions
from mqflow.bindings.mqcno import Prepared
from mqflow.bindings.structures import MQCD, MQSCO
from mqflow.mqi import c_structures
from tests.bindings.dialects.recorder import told

ALL_BYTES = 104_857_600
CARON = "\N{LATIN SMALL LETTER C WITH CARON}"


def secret(text: str) -> Callable[[], str]:
    return lambda: text


def test_a_channel_has_each_option_in_its_field() -> None:
    options = ConnectOptions(
        queue_manager="QM1", channel="APP.SVRCONN", hosts=(("a.example", 1414), ("b.example", 1415)), cipher_spec="ANY_TLS12",
        certificate_label="app", peer_name="CN=mq.example", heartbeat_s=7, keep_alive_s=8, sharing_conversations=9,
        message_bytes_max=4_096, local_address="192.0.2.1(1000,1999)", header_compression=("system", "none"),
    )  # fmt: skip

    with Prepared(options) as wanted:
        assert wanted.channel is not None
        found = told(MQCD, c_structures.MQCD, wanted.channel)

    expected = {
        "ChannelName": b"APP.SVRCONN", "ConnectionName": b"a.example(1414),b.example(1415)", "MaxMsgLength": 4_096,
        "HeartbeatInterval": 7, "KeepAliveInterval": 8, "SharingConversations": 9, "LocalAddress": b"192.0.2.1(1000,1999)",
        "HdrCompList": struct.pack("2i", 8, 0).rstrip(b"\0"), "SSLCipherSpec": b"ANY_TLS12", "SSLPeerName": b"CN=mq.example",
        "SSLPeerNameLength": 13, "CertificateLabel": b"app",
    }  # fmt: skip
    assert expected == found


def test_a_channel_without_options_sends_a_heartbeat_each_second_and_messages_of_any_length() -> None:
    with Prepared(ConnectOptions(channel="A", hosts=(("mq", 1414),))) as wanted:
        assert wanted.channel is not None
        found = told(MQCD, c_structures.MQCD, wanted.channel)

    expected = {"ChannelName": b"A", "ConnectionName": b"mq(1414)", "MaxMsgLength": ALL_BYTES, "HeartbeatInterval": 1}
    assert expected == found
    assert (b" " * 48, None, b"", b"", b"", b"") == (
        wanted.name, wanted.tls, wanted.user, wanted.password, wanted.token, wanted.ccdt_url
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "numbers"),
    [((), (0, -1)), (("none",), (0, -1)), (("system",), (8, -1)), (("none", "system"), (0, 8)), (("zlib",), (0, -1))],
)
def test_headers_are_compressed_as_the_table_says(words: tuple[str, ...], numbers: tuple[int, int]) -> None:
    """A compression that MQ has for messages only is left out."""
    wanted = Prepared(ConnectOptions(channel="A", header_compression=words))

    assert wanted.channel is not None
    assert numbers == struct.unpack("2i", MQCD.raw(wanted.channel, "HdrCompList"))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [({"key_repository": "/keys/äpp"}, {"KeyRepository": "/keys/äpp".encode()}),
     ({"certificate_label": "app"}, {"CertificateLabel": b"app"}),
     ({"key_repository_password": secret("swordfish")},
      {"Version": 6, "KeyRepoPassword": b"swordfish", "KeyRepoPasswordLength": 9})],
)  # fmt: skip
def test_each_setting_of_tls_makes_an_mqsco(fields: dict[str, Any], expected: dict[str, object]) -> None:
    """Version 6 needs a client of IBM MQ 9.3, so only the password asks for it."""
    with Prepared(ConnectOptions(**fields)) as wanted:
        assert wanted.tls is not None
        version = {"Version": MQSCO.number(wanted.tls, "Version")} if "Version" in expected else {}
        assert expected == told(MQSCO, c_structures.MQSCO, wanted.tls) | version
        assert MQSCO.number(wanted.tls, "Version") == expected.get("Version", 5)


@pytest.mark.parametrize(
    ("asked", "user", "password", "token"),
    [("", b"app", b"hunter2", b"a.b.c"), ("app", b"app", b"hunter2", b"a.b.c"), ("other", b"other", b"", b"")],
)
def test_the_secrets_belong_to_the_user_of_the_settings(asked: str, user: bytes, password: bytes, token: bytes) -> None:
    wanted = Prepared(ConnectOptions(user="app", password=secret("hunter2"), token=secret("a.b.c")), "orders" + "x" * 40, asked)

    assert (user, password, token) == (wanted.user, wanted.password, wanted.token)
    assert b"orders" + b"x" * 22 == wanted.application_name


@pytest.mark.parametrize(
    "fields",
    [
        {"queue_manager": "Q" * 48},
        {"channel": "C" * 20},
        {"channel": "C", "cipher_spec": "C" * 32},
        {"channel": "C", "certificate_label": "C" * 64},
        {"channel": "C", "local_address": "1" * 48},
        {"key_repository": "/" * 256},
        {"channel": "C", "hosts": (("h" * 258, 1414),)},
    ],
)
def test_a_value_may_fill_its_field(fields: dict[str, Any]) -> None:
    Prepared(ConnectOptions(**fields))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        *(
            (
                {"channel": "C", field: "x" * (room + 1)},
                f"The {words} '{'x' * (room + 1)}' has {room + 1} bytes, and MQ has room for {room}.",
            )
            for field, words, room in (
                ("queue_manager", "queue manager", 48),
                ("channel", "channel", 20),
                ("cipher_spec", "cipher spec", 32),
                ("certificate_label", "certificate label", 64),
                ("key_repository", "key repository", 256),
                ("local_address", "local address", 48),
            )
        ),
        (
            {"channel": "C", "hosts": (("h" * 259, 1414),)},
            (
                f"The connection name '{'h' * 259}(1414)' has 265 bytes, and MQ has room for 264. "
                "Name fewer hosts, or shorter ones, or use a CCDT."
            ),
        ),
        ({"channel": f"K{CARON}"}, f"The channel 'K{CARON}' contains '{CARON}', and MQ has no such character."),
        (
            {"channel": "C", "hosts": ((f"{CARON}.example", 1414),)},
            (
                f"The connection name '{CARON}.example(1414)' contains '{CARON}', and MQ has no such character. "
                "Name fewer hosts, or shorter ones, or use a CCDT."
            ),
        ),
    ],
)
def test_a_value_that_a_field_cannot_hold_is_refused_with_the_room_that_there_is(fields: dict[str, Any], sentence: str) -> None:
    """A certificate label of 65 characters, cut, may be that of another certificate."""
    with pytest.raises(ClientPackageError) as raised:
        Prepared(ConnectOptions(**fields))

    assert sentence == str(raised.value)


def missing() -> str:
    raise FileNotFoundError(2, "No such file or directory", "/run/secret")


def undecodable() -> str:
    return b"\xffhunter2".decode()


@pytest.mark.parametrize(
    ("option", "named"), [("password", "password"), ("token", "token"), ("key_repository_password", "key repository password")]
)
def test_a_secret_that_cannot_be_read_is_named_and_never_shown(option: str, named: str) -> None:
    without_file: dict[str, Any] = {option: missing}
    without_text: dict[str, Any] = {option: undecodable}

    with pytest.raises(ClientPackageError) as no_file:
        Prepared(ConnectOptions(**without_file))
    with pytest.raises(ClientPackageError) as no_text:
        Prepared(ConnectOptions(**without_text))

    assert f"The {named} cannot be read: [Errno 2] No such file or directory: '/run/secret'." == str(no_file.value)
    assert f"The {named} is not text: UnicodeDecodeError." == str(no_text.value)
    assert no_text.value.__suppress_context__


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, 0x0200_0080),
        ({"channel": "C"}, 0x0200_0880),
        ({"ccdt_url": "ccdt.json"}, 0x0200_0880),
        ({"binding": "client"}, 0x0200_0880),
        ({"binding": "local"}, 0x0200_0480),
        ({"binding": "local", "channel": "C"}, 0x0200_0480),
    ],
)
def test_the_binding_follows_from_the_channel_unless_it_is_given(fields: dict[str, Any], expected: int) -> None:
    assert expected == Prepared(ConnectOptions(**fields)).options
