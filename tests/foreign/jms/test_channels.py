"""IBM's JMS classes meet definitions of channels, and report a refusal with the reason that IBM documents for it."""

import socket
import threading
from collections import deque
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from mqflow.embedded.mqsc import run
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.server.certificates import make_certificates, server_context
from mqflow.fap.transmission_segments import SegmentType
from tests.embedded.wire.server.test_strangers import SENT
from tests.foreign.jms.conftest import Serve
from tests.foreign.jms.program import Program, Scenario
from tests.foreign.jms.test_queues import EVERY_TYPE
from tests.foreign.jms.test_reconnection import channel_table
from tests.long import usually

pytestmark = pytest.mark.xdist_group("jms")  # one worker fetches, compiles and starts the program

#: The place of the type in a segment.
KIND_AT: Final = 9
FLOOD: Final = usually(320, long=10_000)
#: More than the listener has places for, and less than the files that a process can open.
HELD: Final = 300


@pytest.mark.parametrize(
    ("commands", "lines"),
    [pytest.param("DEFINE CHANNEL(ANOTHER) CHLTYPE(SVRCONN)", ["refused 2540", "end"], id="rc2540"),
     pytest.param("DEFINE CHANNEL(DEV.APP.SVRCONN) CHLTYPE(SVRCONN) MAXINST(0)", ["refused 2537", "end"], id="rc2537"),
     pytest.param("DEFINE CHANNEL(DEV.APP.SVRCONN) CHLTYPE(SVRCONN) MAXMSGL(100)", ["refused 2010", "end"], id="rc2010"),
     pytest.param("ALTER QMGR CHLAUTH(ENABLED)\nSET CHLAUTH('*') TYPE(USERMAP) CLNTUSER('app') USERSRC(NOACCESS)",
         ["refused 2035", "end"], id="rc2035"),
     pytest.param("DEFINE CHANNEL(DEV.APP.SVRCONN) CHLTYPE(SVRCONN) SSLCIPH(ANY_TLS12_OR_HIGHER)", ["refused 2393", "end"],
         id="rc2393"),
     pytest.param("DEFINE CHANNEL(DEV.APP.SVRCONN) CHLTYPE(RCVR)", ["refused 2539", "end"], id="rc2539"),
     pytest.param("DEFINE CHANNEL(DEV.APP.SVRCONN) CHLTYPE(SVRCONN) SHARECNV(0)", ["end"], id="shares nothing")],
)  # fmt: skip
def test_the_client_reports_the_reason_of_a_channel(
    jms: Scenario, queue_manager: EmbeddedQueueManager, commands: str, lines: list[str]
) -> None:
    assert 0 == run(commands, queue_manager.administration).exit_code()

    assert lines == jms("send")


def test_a_program_that_does_nothing_sends_heartbeats_and_goes_on(
    java: Program, queue_manager: EmbeddedQueueManager, serve: Serve, tmp_path: Path
) -> None:
    beaten = threading.Event()

    def hear(from_client: bool, data: bytes) -> None:  # noqa: FBT001 - as in `Tap`
        if not from_client and data[KIND_AT] == SegmentType.HEARTBEAT:  # the listener only answers heartbeats
            beaten.set()

    def wait() -> None:
        assert beaten.wait(60)

    assert 0 == run("DEFINE CHANNEL(DEV.APP.SVRCONN) CHLTYPE(SVRCONN) HBINT(1)", queue_manager.administration).exit_code()
    port, _ = serve(queue_manager, heard=hear)
    where = channel_table(tmp_path / "ccdt.json", (port,), {"connectionManagement": {"heartbeatInterval": 1}})

    assert ["stop", "sent", "end"] == java.run(port, "app", "secret", f"modes:ANY:*QM1:{where}", wait)


def test_a_program_is_served_during_a_flood_of_half_open_connections(
    java: Program, queue_manager: EmbeddedQueueManager, serve: Serve
) -> None:
    """The listener has room for 256 sockets that have not logged in. The program logs in while it has no place to spare."""
    port, _ = serve(queue_manager)
    kinds, opened = [*SENT.values()], deque[socket.socket](maxlen=HELD)

    def flood() -> None:
        for number in range(FLOOD):
            connection = socket.create_connection(("127.0.0.1", port))
            with suppress(OSError):  # the listener has ended it already
                connection.sendall(kinds[number % len(kinds)])
            if len(opened) == HELD:
                opened[0].close()
            opened.append(connection)

    flooding = threading.Thread(target=flood)
    flooding.start()
    served = 0
    while flooding.is_alive() or not served:
        assert [*EVERY_TYPE, "empty none", "end"] == java.run(port, "app", "secret", "types")
        served += 1
    flooding.join()
    for each in opened:
        each.close()


@pytest.mark.parametrize(
    ("attributes", "line"),
    [("", "connected"), ("SSLCAUTH(OPTIONAL)", "connected"), ("SSLCAUTH(REQUIRED)", "refused 2393")],
    ids=["no SSLCIPH", "a certificate is optional", "a certificate is required"],
)
def test_the_client_uses_tls(
    java: Program, queue_manager: EmbeddedQueueManager, serve: Serve, tmp_path: Path, attributes: str, line: str
) -> None:
    made = make_certificates(tmp_path / "tls", ["127.0.0.1"], name="QM1", now=datetime.now(UTC))
    cipher = f"SSLCIPH(ANY_TLS12_OR_HIGHER) {attributes}" if attributes else ""
    command = f"DEFINE CHANNEL(DEV.APP.SVRCONN) CHLTYPE(SVRCONN) {cipher}"
    assert 0 == run(command, queue_manager.administration).exit_code()

    port, _ = serve(queue_manager, tls=server_context(made.certificate, made.key))

    assert [line, "end"] == java.run(port, "app", "secret", f"tls:{made.authority}")
