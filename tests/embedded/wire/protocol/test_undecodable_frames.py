"""Frames that cannot be decoded: each ends its connection in one line of the log, and harms no other connection."""

import logging
import socket
from collections.abc import Iterator

import msgspec
import pytest

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.frames import Frames, UndecodableError
from mqflow.embedded.wire.server.complaints import LINES_A_MINUTE, Complaints
from mqflow.embedded.wire.server.listener import Server, serve
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import PutOption
from mqflow.world import World
from tests.conformance.under_test import ManualClock
from tests.embedded.disk_faults.disk import memory_folder

NOT_UTF8 = msgspec.msgpack.encode({"type": "Hello"}).replace(b"Hello", b"Hell\xff")
MALICIOUS = {
    "not UTF-8": NOT_UTF8,
    "a key that is not UTF-8": b"\x82\xa4type\xa5Hello\xa2\xff\xff\x01",
    "nested a hundred thousand times": b"\x91" * 60_000,
    "a map nested in the type": b"\x81" * 60_000,
    "no record": b"\x01",
    "a length without its bytes": b"\xdb\xff\xff\xff\xff",
    "an unknown request": msgspec.msgpack.encode({"type": "Destroy"}),
}


@pytest.fixture
def server() -> Iterator[Server]:
    with memory_folder() as folder, EmbeddedQueueManager("QM1") as owner, serve(owner, folder / "qm") as server:
        owner.administration.define(QueueAttributes(name="ORDERS.IN"))
        yield server


@pytest.mark.parametrize("frame", MALICIOUS.values(), ids=MALICIOUS)
def test_a_first_frame_that_is_no_request_ends_its_connection_in_one_line(
    server: Server, caplog: pytest.LogCaptureFixture, frame: bytes
) -> None:
    with socket.socket(socket.AF_UNIX) as stream:
        stream.connect(str(server.path))
        frames = Frames(stream)
        frames.send(frame)
        assert frames.receive() is None

    [line] = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert line.startswith("A peer at the Unix socket sent bytes that are no request, and is disconnected: a frame of ")
    assert line.endswith("This is number 1 since the start.")
    assert len(line) < 600


@pytest.mark.parametrize("frame", MALICIOUS.values(), ids=MALICIOUS)
def test_a_later_frame_that_is_no_request_backs_out_its_own_unit_of_work_only(server: Server, frame: bytes) -> None:
    good, bad = ServedQueueManager(server.path).connect(), ServedQueueManager(server.path).connect()
    for connection in (good, bad):
        connection.put1("ORDERS.IN", MessageDescriptor(), b"an order", PutOption.SYNCPOINT)

    bad._line._frames.send(frame)
    assert bad._line._frames.receive() is None
    good.commit()

    assert 1 == _depth(server)
    good.disconnect()


def _depth(server: Server) -> int:
    manager = ServedQueueManager(server.path)
    try:
        return manager.administration.queue_status("ORDERS.IN").depth
    finally:
        manager.close()


@pytest.mark.parametrize("frame", MALICIOUS.values(), ids=MALICIOUS)
def test_a_reply_of_a_bad_server_that_cannot_be_decoded_has_one_type_of_error(frame: bytes) -> None:
    with pytest.raises(UndecodableError, match="cannot be decoded"):
        requests.decode_reply(requests.Commit(), frame)


def test_a_minute_has_at_most_ten_lines_and_the_next_says_how_many_were_left_out(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    complain = Complaints(World(clock))
    for _ in range(LINES_A_MINUTE + 990):
        complain("A peer is strange.")
    clock.advance(60.0)
    complain("A peer is strange.")

    lines = [record.getMessage() for record in caplog.records]
    assert LINES_A_MINUTE + 1 == len(lines)
    assert (
        "A peer is strange. (990 more lines of this kind were left out before.) This is number 1001 since the start."
        == lines[-1]
    )
    assert LINES_A_MINUTE + 991 == complain.count
