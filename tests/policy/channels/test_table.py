"""A channel table in JSON is read as IBM describes it; any other bytes give one typed error with place and cause."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqflow.policy.channels.table import Address, Channel, ChannelTableError, server_channel
from mqflow.policy.channels.table_json import TABLE_BYTES_MAX, parse
from mqflow.policy.reconnect.mode import DefaultReconnect

CHANNEL = "$.channel[0]"


def table(*entries: object) -> bytes:
    return json.dumps({"channel": entries}).encode()


def entry(**more: object) -> dict[str, Any]:
    return {"name": "APP.SVRCONN", "type": "clientConnection", **more}


def connected(*hosts: str, **more: object) -> dict[str, Any]:
    return entry(clientConnection={"connection": [{"host": host} for host in hosts], **more})


#: Path below an entry, its value, its field, the value of the field, the source.
ATTRIBUTES: list[tuple[str, object, str, object, str]] = [
    ("name", "A.B/C%1_", "name", "A.B/C%1_", "q132910"),
    ("clientConnection.queueManager", "QM1", "queue_manager", "QM1", "q132910"),
    ("clientConnection.connection", [{"host": "a", "port": 1515}], "addresses", (Address("a", 1515),), "q132910"),
    ("clientConnection.connection", [{"host": "a"}], "addresses", (Address("a", 1414),), "CONNAME's default, UNCERTAIN"),
    ("compression.header", ["system"], "header_compression", ("system",), "q132910"),
    ("compression.message", ["zlibfast"], "message_compression", ("zlibfast",), "q132910"),
    ("connectionManagement.affinity", "none", "affinity", "none", "q132910"),
    ("connectionManagement.clientWeight", 99, "client_weight", 99, "q132910"),
    ("connectionManagement.defaultReconnect", "no", "default_reconnect", DefaultReconnect.NO, "spelling from memory"),
    ("connectionManagement.defaultReconnect", "yes", "default_reconnect", DefaultReconnect.YES, "spelling from memory"),
    ("connectionManagement.defaultReconnect", "queueManager", "default_reconnect", DefaultReconnect.Q_MGR,
     "spelling from memory"),
    ("connectionManagement.defaultReconnect", "disabled", "default_reconnect", DefaultReconnect.DISABLED,
     "spelling from memory"),
    ("connectionManagement.disconnectInterval", 60, "disconnect_s", 60, "q132910"),
    ("connectionManagement.heartbeatInterval", 5, "heartbeat_s", 5, "the schema's key, UNCERTAIN"),
    ("connectionManagement.heartInterval", 5, "heartbeat_s", 5, "q132910's key"),
    ("connectionManagement.heartInterval", 0, "heartbeat_s", 0, "0 is no heartbeat, not the default"),
    ("connectionManagement.keepAliveInterval", 30, "keep_alive_s", 30, "q132910"),
    ("connectionManagement.sharingConversations", 0, "sharing_conversations", 0, "q132910"),
    ("connectionManagement.localAddress", [{"host": "h", "port": 5}], "local_address", "h(5)", "q132910"),
    ("connectionManagement.localAddress", [{"portRange": {"low": 1, "high": 2}}], "local_address", "(1,2)", "q132910"),
    ("general.description", "orders", "description", "orders", "from memory"),
    ("general.maximumMessageLength", 104_857_600, "message_bytes_max", 104_857_600, "from memory"),
    ("transmissionSecurity.cipherSpecification", "ANY_TLS12", "cipher_specification", "ANY_TLS12", "public tables"),
    ("transmissionSecurity.certificateLabel", "app", "certificate_label", "app", "public tables"),
    ("transmissionSecurity.certificatePeerName", "CN=QM1", "certificate_peer_name", "CN=QM1", "public tables"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "value", "field", "expected"), [row[:4] for row in ATTRIBUTES], ids=[f"{row[0]}: {row[4]}" for row in ATTRIBUTES]
)
def test_an_attribute_is_read(path: str, value: object, field: str, expected: object) -> None:
    group, _, key = path.rpartition(".")
    given_entry = entry(**{group: {key: value}}) if group else entry(**{key: value})

    [channel] = parse(table(given_entry)).channels

    assert expected == getattr(channel, field)
    # An attribute that is read wrongly changes other fields too, so only this field may differ from the defaults.
    others = {name: getattr(channel, name) for name in channel.__struct_fields__ if name != field}
    assert {name: getattr(Channel(name="APP.SVRCONN"), name) for name in others} == others


def test_an_entry_that_says_little_has_mq_s_defaults() -> None:
    [channel] = parse(table(entry())).channels

    assert (0, "preferred", 300, -1, 10, 4_194_304) == (
        channel.client_weight, channel.affinity, channel.heartbeat_s, channel.keep_alive_s, channel.sharing_conversations,
        channel.message_bytes_max,
    )  # fmt: skip


def test_several_entries_may_share_a_name_and_keep_the_order_of_the_file() -> None:
    channels = parse(table(connected("a"), connected("b"))).channels

    assert [("a(1414)", 0), ("b(1414)", 1)] == [(each.connection_name, each.position) for each in channels]


def test_the_last_of_two_equal_keys_counts() -> None:
    channels = parse(b'{"channel":[], "channel":[{"name":"A","name":"B","type":"clientConnection"}]}').channels

    assert ["B"] == [each.name for each in channels]


def test_unknown_keys_are_ignored_and_named() -> None:
    misspelt = entry(clientConection={}, connectionManagement={"ClientWeight": 5}, exits={"security": {"names": ""}})

    read = parse(table(misspelt))

    assert 0 == read.channels[0].client_weight  # keys are case-sensitive
    assert (
        f"{CHANNEL}.clientConection is not known and is ignored. Did you mean clientConnection?",
        f"{CHANNEL}.connectionManagement.ClientWeight is not known and is ignored. Did you mean clientWeight?",
        f"{CHANNEL}.exits.security.names is not known and is ignored. Did you mean name?",
    ) == read.warnings[:3]


def test_an_entry_that_names_an_exit_is_not_used_and_its_table_says_so() -> None:
    [channel] = (read := parse(table(connected("a") | {"exits": {"send": [{"name": "lib(entry)"}]}}))).channels

    assert channel.unusable.startswith("It names exits")
    assert read.warnings[-1].startswith("Entry 0 (APP.SVRCONN) is never tried. It names exits")


def test_an_entry_names_its_keys_that_have_no_effect() -> None:
    [plain, timed] = parse(
        table(connected("a"), connected("a") | {"connectionManagement": {"disconnectInterval": 60}})
    ).channels

    assert () == plain.not_used
    assert ("connectionManagement.disconnectInterval",) == timed.not_used


def test_an_entry_without_an_address_is_not_used() -> None:
    assert parse(table(entry())).channels[0].unusable.startswith("It names no address")


#: The mistake, its place, and a part of the error.
WRONG: list[tuple[bytes, str, str]] = [
    (b"[]", "$", "Expected `object`"),
    (b"{}", "$", "missing required field `channel`"),
    (table({"type": "clientConnection"}), CHANNEL, "missing required field `name`"),
    (table({"name": "A"}), CHANNEL, "missing required field `type`"),
    (table(entry(type="serverConnection")), f"{CHANNEL}.type", "it takes 'clientConnection'"),
    (table(entry(type="ClientConnection")), f"{CHANNEL}.type", "it takes 'clientConnection'"),
    (table(entry(name="A" * 21)), f"{CHANNEL}.name", "length <= 20"),
    (table(entry(), entry(name="A B")), "$.channel[1].name", "cannot be the name of a channel"),
    (table(connected("a", queueManager="Q" * 49)), f"{CHANNEL}.clientConnection.queueManager", "length <= 48"),
    (table(entry(clientConnection={"connection": [{"host": "a"}, {"host": "b", "port": 0}]})),
     f"{CHANNEL}.clientConnection.connection[1].port", "`int` >= 1"),
    (table(connected("a(1),b")), f"{CHANNEL}.clientConnection.connection[0].host", "matching regex"),
    (table(connected("")), f"{CHANNEL}.clientConnection.connection[0].host", "matching regex"),
    (table(connected("a\n")), f"{CHANNEL}.clientConnection.connection[0].host", "matching regex"),
    (table(entry(connectionManagement={"localAddress": [{"portRange": {"low": 1}}]})),
     f"{CHANNEL}.connectionManagement.localAddress[0].portRange", "missing required field `high`"),
    (table(entry(connectionManagement={"clientWeight": 100})), f"{CHANNEL}.connectionManagement.clientWeight", "<= 99"),
    (table(entry(connectionManagement={"clientWeight": "1"})), f"{CHANNEL}.connectionManagement.clientWeight", "got `str`"),
    (table(entry(connectionManagement={"affinity": "Preferred"})), f"{CHANNEL}.connectionManagement.affinity",
     "it takes 'preferred' or 'none'"),
    (table(entry(connectionManagement={"defaultReconnect": "QMGR"})), f"{CHANNEL}.connectionManagement.defaultReconnect",
     "it takes 'no' or 'yes' or 'queueManager' or 'disabled'"),
    (b"", "", "it is not JSON"),
    (b'{"channel":[', "", "it is not JSON"),
    (b'{"channel":' + b"[" * 300_000, "", "it is not JSON"),
    (b'{"x":' + b"[" * 300_000 + b"]" * 300_000 + b',"channel":[]}', "", "it is not JSON"),
    (b'{"channel":[], "x":"\xff"}', "", "it is not UTF-8 at byte 20 (0xff)"),
    (b" " * (TABLE_BYTES_MAX + 1), "", "1048577 bytes"),
    (b"AMQR\x00\x01", "", "binary table (AMQR)"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "path", "said"), WRONG, ids=[f"{row[1]}: {row[2]}" for row in WRONG])
def test_bytes_that_are_not_a_table_are_refused_with_the_place(data: bytes, path: str, said: str) -> None:
    with pytest.raises(ChannelTableError) as caught:
        parse(data, "orders.json")

    assert path == caught.value.path
    assert said in str(caught.value)
    assert "Channel table orders.json" in str(caught.value)


def test_a_binary_table_is_refused_with_the_way_out() -> None:
    with pytest.raises(ChannelTableError, match=r"Say the same in JSON.*runmqsc -n"):
        parse(b"AMQR" + bytes(500))


def test_a_byte_order_mark_does_not_matter() -> None:
    assert parse(b"\xef\xbb\xbf" + table(entry())).channels == parse(table(entry())).channels


def test_a_table_full_of_typing_errors_gives_a_bounded_number_of_warnings() -> None:
    assert 100 == len(
        [each for each in parse(table(entry(**{f"k{n}": n for n in range(5_000)}))).warnings if "ignored" in each]
    )


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["name", "type", "channel", "host"]), inner),
    max_leaves=20,
)


@given(st.binary() | json_values.map(lambda value: json.dumps({"channel": [value]}).encode()))
def test_any_bytes_give_a_table_or_the_typed_error(data: bytes) -> None:
    with suppress(ChannelTableError):
        parse(data)


@pytest.mark.parametrize(
    ("text", "name", "connection_name"),
    [
        ("APP.SVRCONN/TCP/mq1(1414)", "APP.SVRCONN", "mq1(1414)"),
        ("APP.SVRCONN/TCP/mq1(1414),mq2(1515)", "APP.SVRCONN", "mq1(1414),mq2(1515)"),
        ("APP.SVRCONN/tcp/mq1, mq2 ", "APP.SVRCONN", "mq1(1414),mq2(1414)"),
        ("A/TCP/::1(1414)", "A", "::1(1414)"),
        ("A/TCP/h(1)", "A", "h(1)"),
        ("A/TCP/h(65535)", "A", "h(65535)"),
    ],
)
def test_mqserver_defines_a_channel(text: str, name: str, connection_name: str) -> None:
    channel = server_channel(text)

    assert (name, connection_name, 1) == (channel.name, channel.connection_name, channel.heartbeat_s)


@pytest.mark.parametrize(
    "text",
    ["", "APP", "APP/TCP", "APP/TCP/", "APP/LU62/h(1)", "A B/TCP/h(1)", "A/TCP/h(0)", "A/TCP/h(65536)", "A/TCP/h(001414)",
     "A/TCP/h(00000199999)", "A/TCP/h(1", "A/TCP/(1)", "A/TCP/h(1),", "A/TCP/h(x)", f"A/TCP/h({'9' * 10_000})",
     f"{'A' * 21}/TCP/h(1)"],
)  # fmt: skip
def test_a_text_without_a_channel_is_refused(text: str) -> None:
    with pytest.raises(ChannelTableError, match="Channel table MQSERVER"):
        server_channel(text)
