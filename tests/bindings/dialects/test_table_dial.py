"""A channel table over pymqi, which cannot hand one to IBM's client: each attempt names its channel."""

import json
import logging
import struct
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from msgspec.structs import replace

from mqflow.app.channels.location import open_queue_manager
from mqflow.app.channels.table_dial import by_table, channel_options
from mqflow.app.channels.table_queue_manager import TableQueueManager
from mqflow.app.config.settings import Settings, TLSSettings
from mqflow.app.errors import ConfigurationError
from mqflow.bindings.connect_options import MESSAGE_BYTES_MAX, ClientPackageError, ConnectOptions
from mqflow.bindings.dialects import base
from mqflow.bindings.mqcno import Prepared
from mqflow.policy.channels.candidates import Candidate
from mqflow.policy.channels.sources import DefinedBy, Origin
from mqflow.policy.channels.table import Address, Channel, ChannelTableError, server_channel
from mqflow.policy.reconnect.mode import ReconnectMode
from mqflow.world import SYSTEM_CLOCK
from tests.bindings.bound import connected
from tests.standin.harness import Program, only_in

pytestmark = pytest.mark.xdist_group("standin")

ATTEMPT = Candidate(
    channel=Channel(name="ORDERS", cipher_specification="ANY_TLS13", certificate_label="app", certificate_peer_name="CN=QM1"),
    address=Address("mq1", 1515),
    why="",
)


@pytest.mark.parametrize(("name", "asked"), [("QM1", "QM1"), ("*GRP", "*"), ("*", "*"), ("", "*")])
def test_an_attempt_is_a_channel_and_a_name_that_is_checked_or_an_asterisk(name: str, asked: str) -> None:
    options = channel_options(ConnectOptions(queue_manager=name, ccdt_url="file:///x", user="me"), ATTEMPT)

    assert (asked, "ORDERS", (("mq1", 1515),), "", "me") == (
        options.queue_manager, options.channel, options.hosts, options.ccdt_url, options.user,
    )  # fmt: skip


def test_the_tls_values_of_the_entry_override_the_settings() -> None:
    said = ConnectOptions(cipher_spec="ANY", certificate_label="other", peer_name="CN=*", key_repository="/k")
    plain = Candidate(channel=Channel(name="PLAIN"), address=Address("mq1"), why="")

    theirs, ours = channel_options(said, ATTEMPT), channel_options(said, plain)

    assert ("ANY_TLS13", "app", "CN=QM1", "/k") == (
        theirs.cipher_spec,
        theirs.certificate_label,
        theirs.peer_name,
        theirs.key_repository,
    )
    assert ("ANY", "other", "CN=*") == (ours.cipher_spec, ours.certificate_label, ours.peer_name)


def test_the_channel_attributes_of_the_entry_are_passed_on() -> None:
    channel = Channel(
        name="A", heartbeat_s=30, keep_alive_s=60, sharing_conversations=1, message_bytes_max=2_000_000,
        local_address="192.0.2.1(1000,1999)", header_compression=("system",),
    )  # fmt: skip

    options = channel_options(ConnectOptions(), Candidate(channel=channel, address=Address("mq1"), why=""))

    assert (30, 60, 1, 2_000_000, "192.0.2.1(1000,1999)", ("system",)) == (
        options.heartbeat_s, options.keep_alive_s, options.sharing_conversations, options.message_bytes_max,
        options.local_address, options.header_compression,
    )  # fmt: skip


def test_mqserver_leaves_the_length_of_messages_and_the_heartbeat_to_the_other_end() -> None:
    """The shorter MAXMSGL of two ends counts, and the longer HBINT (q108450)."""
    channel = server_channel("A/TCP/mq1")

    assert (MESSAGE_BYTES_MAX, 1) == (channel.message_bytes_max, channel.heartbeat_s)


def test_the_channel_that_is_asked_for_is_the_entry_s(program: Program) -> None:
    said: dict[str, Any] = {"heartbeat_s": 30, "keep_alive_s": 60, "sharing_conversations": 1, "message_bytes_max": 2_000_000}
    connected(program, "", local_address="192.0.2.1(1000)", header_compression=("new", "system"), **said).disconnect()
    connected(program).disconnect()

    fields = ("HeartbeatInterval", "KeepAliveInterval", "SharingConversations", "MaxMsgLength", "LocalAddress", "HdrCompList")
    entry, plain = ([request.channel[name] for name in fields] for request in program.kit.requests[-2:])
    assert [30, 60, 1, 2_000_000] == entry[:4]
    assert "192.0.2.1(1000)" in str(entry[4])
    assert [1, -1, 10, MESSAGE_BYTES_MAX] == plain[:4]
    assert (struct.pack("2i", 8, -1), struct.pack("2i", 0, -1)) == (_bytes(entry[5])[:8], _bytes(plain[5])[:8])


def _bytes(value: object) -> bytes:
    assert isinstance(value, bytes)
    return value


def test_a_local_address_that_is_too_long_is_refused_before_any_connection() -> None:
    options = ConnectOptions(channel="A", hosts=(("mq1", 1414),), local_address=",".join(["192.0.2.1(1000,1999)"] * 3))

    with pytest.raises(ClientPackageError, match="62 bytes, and MQ has room for 48"):
        Prepared(options)


def table(folder: Path) -> str:
    """Write a table of one entry and return its URL."""
    connection = [{"host": "mq1.example", "port": 1515}]
    client = {"queueManager": "GRP", "connection": connection}
    (folder / "ccdt.json").write_text(
        json.dumps({"channel": [{"name": "FROM.TABLE", "type": "clientConnection", "clientConnection": client}]})
    )
    return f"file://{folder}/ccdt.json"


@only_in("pymqi", "ibmmq hands the table to IBM's client")
def test_a_table_in_a_url_leads_to_the_queue_manager(program: Program) -> None:
    with TemporaryDirectory() as folder:
        reached = open_queue_manager(f"pymqi:///*GRP?ccdt={table(Path(folder))}", settings=Settings())
        connections = [reached.connect(application_name="orders") for _ in range(2)]

    assert ["QM1", "QM1"] == [connection.queue_manager_name for connection in connections]
    asked = [str(program.kit.requests[-1].channel[name]) for name in ("ChannelName", "ConnectionName")]
    assert "FROM.TABLE" in asked[0]
    assert "mq1.example(1515)" in asked[1]
    for connection in connections:
        connection.disconnect()


def test_a_key_repository_that_mqserver_would_leave_unused_is_refused(program: Program) -> None:
    """MQSERVER cannot say SSLCIPH: the password would go over the network for all to read."""
    choice = DefinedBy(server_channel("A/TCP/mq1"), Origin.SERVER_VARIABLE)
    said = ConnectOptions(queue_manager="QM1", key_repository="/keys")
    dialect = base.load(program.mq.__name__)

    def reach(options: ConnectOptions) -> TableQueueManager:
        return by_table(dialect, options, choice, clock=SYSTEM_CLOCK, mode=lambda _: ReconnectMode.Q_MGR)

    with pytest.raises(ClientPackageError, match=r"MQSERVER has no TLS.*set it too, for example ANY_TLS12_OR_HIGHER"):
        reach(said)
    reach(replace(said, cipher_spec="ANY_TLS12_OR_HIGHER")).connect().disconnect()


@only_in("pymqi", "ibmmq hands the table to IBM's client")
def test_a_channel_without_tls_gives_one_warning_if_keys_are_set(program: Program) -> None:
    heard: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: heard.append(record.getMessage())  # type: ignore[method-assign]  # all there is to it
    logging.getLogger("mqflow").addHandler(handler)
    try:
        with TemporaryDirectory() as folder:
            settings = Settings(tls=TLSSettings(key_repository="/keys"))
            reached = open_queue_manager(f"pymqi:///*GRP?ccdt={table(Path(folder))}", settings=settings)
            for _ in range(2):
                reached.connect().disconnect()
    finally:
        logging.getLogger("mqflow").removeHandler(handler)

    assert [True] == ["FROM.TABLE to mq1.example(1515) has no TLS" in each for each in heard]


@only_in("pymqi", "ibmmq hands the table to IBM's client")
def test_an_option_that_pymqi_lacks_is_refused_before_any_connection(program: Program) -> None:
    with pytest.raises(ConfigurationError, match="use ibmmq://, or a user and a password"):
        open_queue_manager("pymqi:///QM1?ccdt=file:///x", settings=Settings(token_file="/nowhere"))  # noqa: S106 - a path


@only_in("pymqi", "ibmmq hands the table to IBM's client")
def test_a_table_is_fetched_over_http_only_where_that_is_set(program: Program) -> None:
    url = "pymqi:///QM1?ccdt=http://127.0.0.1:9/ccdt.json"  # nobody listens there

    for settings, said in ((Settings(), "ccdt_over_http"), (Settings(ccdt_over_http=True), "it cannot be fetched")):
        with pytest.raises(ChannelTableError, match=said):
            open_queue_manager(url, settings=settings).connect()
