"""Wireshark reads a whole conversation of a client program and the listener, and finds no malformed segment."""

from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from mqflow.embedded.channel.listener import serve_channel
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.protocol.addresses import TcpAddress
from mqflow.embedded.wire.server.users_file import UsersFile
from mqflow.fap.transmission_segments import segments_of
from tests.doubles import queue_manager_with
from tests.fap.client_half import ChannelClient, Golden, flow_of
from tests.foreign.dissecting import TSHARK, Conversations, wrong_conversations

pytestmark = pytest.mark.skipif(TSHARK is None, reason="there is no tshark to show flows to: apt-get install tshark")

FLOWS = Path(__file__).parents[1] / "embedded" / "channel" / "flows.json"


queue_manager = queue_manager_with("DEFINE QLOCAL(Q1)")


def test_wireshark_finds_no_malformed_segment_in_the_flows_of_ibms_jms_classes(
    queue_manager: EmbeddedQueueManager, tmp_path: Path
) -> None:
    users = UsersFile(tmp_path / "users.json", bytes, cost=2)
    users.set("app", "secret", administrator=True)
    heard = Conversations()
    with serve_channel(queue_manager, TcpAddress("127.0.0.1", 0), users, tap=heard.tap("golden")) as server:
        assert isinstance(server.address, TcpAddress)
        with closing(ChannelClient(server.address.port)) as client:
            for golden in msgspec.json.decode(FLOWS.read_bytes(), type=tuple[Golden, ...]):
                client.send_bytes(b"".join(segments_of(flow_of(golden), 32_748)))
                for _ in golden.answers:
                    client.receive()

    assert 1 == len(heard.kept)
    assert [] == wrong_conversations(heard, tmp_path)
