"""Wireshark reads what IBM's classes and the listener say to each other about topics, delays and puts without an answer."""

from pathlib import Path

import pytest

from mqflow.embedded.channel.listener import serve_channel
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.protocol.addresses import TcpAddress
from mqflow.embedded.wire.server.users_file import UsersFile
from mqflow.fap.transmission_segments import Flow, segments_of
from tests.foreign.dissecting import TSHARK, malformed_frames
from tests.foreign.jms.program import Program

pytestmark = [
    pytest.mark.xdist_group("jms"),  # one worker fetches, compiles and starts the program
    pytest.mark.skipif(TSHARK is None, reason="there is no tshark to show flows to: apt-get install tshark"),
]


@pytest.mark.parametrize("scenario", ["topic", "delay", "base-status"])
def test_wireshark_finds_no_malformed_segment(
    java: Program, queue_manager: EmbeddedQueueManager, tmp_path: Path, scenario: str
) -> None:
    users = UsersFile(tmp_path / "users.json", bytes, cost=2)
    users.set("app", "secret", administrator=True)
    heard: list[tuple[bool, bytes]] = []

    def tap(from_client: bool, flow: Flow) -> None:  # noqa: FBT001 - as the listener calls it
        heard.extend((from_client, segment) for segment in segments_of(flow, 32_748))

    with serve_channel(queue_manager, TcpAddress("127.0.0.1", 0), users, tap=tap) as server:
        assert isinstance(server.address, TcpAddress)
        assert "end" == java.run(server.address.port, "app", "secret", scenario)[-1]

    malformed, types = malformed_frames(heard, tmp_path)
    assert (0, len(heard)) == (malformed, len(" ".join(types).replace(",", " ").split()))
