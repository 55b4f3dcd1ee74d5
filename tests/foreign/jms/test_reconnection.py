"""IBM's JMS classes reconnect by themselves to a queue manager that has moved to another port."""

import json
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pytest

from mqflow.embedded.mqsc import run
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.protocol.end_manner import End, Manner, reason_of
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.policy.channels.table import DEFAULT_PORT
from tests.foreign.jms.closing import closing_sockets
from tests.foreign.jms.conftest import Serve
from tests.foreign.jms.program import Program
from tests.long import usually
from tests.queue_contents import browsed, put

pytestmark = pytest.mark.xdist_group("jms")  # one worker fetches, compiles and starts the program


def unused_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as two:
        for each in (one, two):
            each.bind(("127.0.0.1", 0))
        first, second = one.getsockname()[1], two.getsockname()[1]
    return first, second


RECONNECT: Final = ("no", "yes", "queueManager", "disabled")
PASSES: Final = usually(3, long=7)
#: The document adds up to a quarter to each. The first pass of the client comes at once.
WAITS_S: Final = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 25.0)


def channel_table(path: Path, ports: Sequence[int], changes: Mapping[str, object] = MappingProxyType({})) -> str:
    """Write a JSON channel table with the addresses in one channel; return its URL."""
    connection = [{"host": "127.0.0.1", "port": port} for port in ports]
    channel = {
        "name": "DEV.APP.SVRCONN",
        "type": "clientConnection",
        "clientConnection": {"queueManager": "QM1", "connection": connection},
        "connectionManagement": {"heartbeatInterval": 5, "sharingConversations": 10},
        **changes,
    }
    path.write_text(json.dumps({"channel": [channel]}))
    return path.as_uri()


@pytest.mark.parametrize("table", [False, True], ids=["a list of addresses", "a channel table"])
def test_a_program_goes_on_after_its_queue_manager_has_moved(
    java: Program, queue_manager: EmbeddedQueueManager, serve: Serve, tmp_path: Path, *, table: bool
) -> None:
    """The commit that meets the outage fails: 2549 (unknown outcome), or 2003 if the client has noticed the outage before.

    Messages of an earlier commit are there, once.
    """
    ports = unused_ports()
    where = f"reconnect-ccdt:{channel_table(tmp_path / 'ccdt.json', ports)}" if table else f"reconnect-list:{ports[1]}"
    _, first = serve(queue_manager, ports[0])

    def move() -> None:
        first.close()
        serve(queue_manager, ports[1])

    said = java.run(ports[0], "app", "secret", where, move)

    assert said[1] in {"commit 2549", "commit 2003"}
    assert ["stop", said[1], "received committed", "left null", "end"] == said
    assert [] == browsed(queue_manager, "Q1")


def test_with_reconnection_disabled_the_program_gets_exceptions(
    java: Program, queue_manager: EmbeddedQueueManager, serve: Serve
) -> None:
    """The second address of its list would answer."""
    (port, first), (second, _) = serve(queue_manager), serve(queue_manager)

    said = java.run(port, "app", "secret", f"reconnect-off:{second}", first.close)

    assert {"commit 2009", "exception 2009"} <= set(said)
    assert not any(line.startswith("received") for line in said)


@pytest.mark.parametrize(
    ("mode", "managers", "default", "answer", "reached"),
    [
        ("ANY", ("QM2",), "no", "sent", "QM2"),
        ("QMGR", ("QM2", "QM1"), "no", "sent", "QM1"),
        ("ASDEF", ("QM1",), "no", "refused 2009", ""),
        ("ASDEF", ("QM1",), "yes", "sent", "QM1"),
    ],
)
def test_the_option_says_which_queue_manager_a_program_reaches_after_an_outage(
    java: Program,
    queue_manager: EmbeddedQueueManager,
    serve: Serve,
    tmp_path: Path,
    mode: str,
    managers: tuple[str, ...],
    default: str,
    answer: str,
    reached: str,
) -> None:
    """During the outage the table gets other addresses, so the client reads it again. The program connects to `*QM1`."""
    changes = {"connectionManagement": {"defaultReconnect": default}}
    with EmbeddedQueueManager("QM2") as other:
        assert 0 == run("DEFINE QLOCAL(Q1)", other.administration).exit_code()
        named = {"QM1": queue_manager, "QM2": other}
        port, first = serve(queue_manager)
        where = channel_table(tmp_path / "ccdt.json", (port,), changes)

        def move() -> None:
            channel_table(tmp_path / "ccdt.json", [serve(named[manager])[0] for manager in managers], changes)
            first.close()

        assert ["stop", answer, "end"] == java.run(port, "app", "secret", f"modes:{mode}:*QM1:{where}", move)
        assert reached == "".join(name for name, manager in named.items() if browsed(manager, "Q1"))


@pytest.fixture
def other() -> Iterator[EmbeddedQueueManager]:
    """The queue manager that goes on. It has a message on Q1."""
    with EmbeddedQueueManager("QM2") as made:
        assert 0 == run("DEFINE QLOCAL(Q1)", made.administration).exit_code()
        put(made, "Q1", b"later", descriptor=MessageDescriptor(format="MQSTR", ccsid=1208))
        yield made


@pytest.mark.parametrize("switchover", [False, True])
def test_a_listener_goes_on_elsewhere_if_its_queue_manager_ends(
    java: Program,
    queue_manager: EmbeddedQueueManager,
    other: EmbeddedQueueManager,
    serve: Serve,
    tmp_path: Path,
    *,
    switchover: bool,
) -> None:
    port, first = serve(queue_manager)
    where = channel_table(tmp_path / "ccdt.json", (port,))

    def move() -> None:
        channel_table(tmp_path / "ccdt.json", [serve(other)[0]])
        queue_manager.stop(reason=reason_of(End(Manner.IMMEDIATE, switchover=switchover)))
        first.close()

    assert ["stop", "heard later", "end"] == java.run(port, "app", "secret", f"ends:{where}", move)


def test_a_call_while_its_queue_manager_quiesces_goes_on_elsewhere(
    java: Program, queue_manager: EmbeddedQueueManager, other: EmbeddedQueueManager, serve: Serve, tmp_path: Path
) -> None:
    """The call gets 2161. A listener that waits is not told: the client notes the notice of the queue manager, and waits on."""
    port, _ = serve(queue_manager)
    where = channel_table(tmp_path / "ccdt.json", (port,))

    def move() -> None:
        channel_table(tmp_path / "ccdt.json", [serve(other)[0]])
        queue_manager.quiesce()

    assert ["stop", "sent", "end"] == java.run(port, "app", "secret", f"modes:ANY:*QM1:{where}", move)
    assert 2 == len(browsed(other, "Q1"))


def test_a_program_that_was_never_connected_gets_an_exception_at_once(java: Program, tmp_path: Path) -> None:
    with closing_sockets(0) as sockets:
        where = channel_table(tmp_path / "ccdt.json", sockets.ports)

        assert ["refused 2009", "end"] == java.run(1, "app", "secret", f"modes:ANY:*QM1:{where}")
        assert 1 == len(sockets.tried)


def test_the_waits_of_the_client_double_from_one_second(
    java: Program, queue_manager: EmbeddedQueueManager, serve: Serve
) -> None:
    """The difference: the first pass over the addresses comes at once, and the first wait is before the second pass.

    The queue manager is gone, and its second address closes each connection at once. One attempt there is one pass.
    """
    ports, waits = unused_ports(), list[float]()
    _, first = serve(queue_manager, ports[0])

    def move() -> None:
        begin = time.monotonic()
        first.close()
        with closing_sockets(ports[1]) as sockets:
            waits.extend(sockets.waits(begin, PASSES))
        serve(queue_manager, ports[1])

    said = java.run(ports[0], "app", "secret", f"reconnect-list:{ports[1]}", move)

    assert "received committed" in said
    assert PASSES == len(waits)
    assert all(wait >= least for wait, least in zip(waits, WAITS_S[:PASSES], strict=True)), waits


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        ({"connectionManagement": {"heartbeatInterval": 400}}, "[connected]"),
        ({"connectionManagement": {"heartInterval": 400}}, "[2278]"),
        ({"unknown": 1}, "[2278]"),
        ({"compression": {"header": ["system"], "message": ["zlibfast", "zlibhigh", "rle", "any", "none"]}}, "[connected]"),
        ({"compression": {"message": ["ZLIBFAST"]}}, "[2278]"),
        *(({"connectionManagement": {"defaultReconnect": mode}}, "[connected]") for mode in RECONNECT),
        ({"connectionManagement": {"defaultReconnect": "never"}}, "[2278]"),
    ],
)
def test_the_keys_and_values_of_a_channel_table(
    java: Program, queue_manager: EmbeddedQueueManager, serve: Serve, tmp_path: Path, changes: dict[str, object], answer: str
) -> None:
    """IBM's classes refuse a whole table for one unknown key or value (2278); mqflow ignores unknown keys, and warns."""
    port, _ = serve(queue_manager)
    where = channel_table(tmp_path / "ccdt.json", (port,), changes)

    assert [answer, "end"] == java.run(port, "app", "secret", f"draws:1:QM1:{where}")


def test_an_address_without_a_port_has_port_1414(java: Program, tmp_path: Path) -> None:
    with closing_sockets(DEFAULT_PORT, host="127.77.14.14") as sockets:
        table = {
            "name": "DEV.APP.SVRCONN",
            "type": "clientConnection",
            "clientConnection": {"queueManager": "QM1", "connection": [{"host": "127.77.14.14"}]},
        }
        path = tmp_path / "ccdt.json"
        path.write_text(json.dumps({"channel": [table]}))

        assert ["[2009]", "end"] == java.run(1, "app", "secret", f"draws:1:QM1:{path.as_uri()}")
        assert [0] == [place for place, _ in sockets.tried]
