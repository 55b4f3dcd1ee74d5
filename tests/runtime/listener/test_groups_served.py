"""A listener of groups over a served queue manager: one request gets a whole new group, and one message of a failed group."""

import anyio
import pytest

from mqflow import App, Backout, Pace
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.server.listener import serve
from mqflow.events import Disposed
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import MessageFlag, PutOption
from mqflow.testing.kit import carry_out
from tests.embedded.disk_faults.disk import memory_folder
from tests.queue_contents import taken
from tests.runtime.listener.staged import LATEST_S

pytestmark = pytest.mark.anyio

LAST = MessageFlag.LAST_MSG_IN_GROUP


def put_group(owner: EmbeddedQueueManager, letter: str, last: int) -> None:
    connection = owner.connect()
    for number in range(1, last + 1):
        flags = int(MessageFlag.MSG_IN_GROUP | (LAST if number == last else 0))
        group = letter.encode() * 24
        descriptor = MessageDescriptor(group_id=group, sequence_number=number, message_flags=flags)
        connection.put1("IN", descriptor, f"{letter}{number}".encode(), PutOption.NO_SYNCPOINT)
    connection.disconnect()


async def test_groups_are_handled_moved_and_settled_whole_over_a_served_queue_manager() -> None:
    owner = EmbeddedQueueManager("QM1")
    carry_out(owner.administration, ["DEFINE QLOCAL(BOQ)", "DEFINE QLOCAL(IN) BOTHRESH(2) BOQNAME(BOQ)"])
    app, seen, told = App(), list[list[bytes]](), list[Disposed]()
    app.hooks.append(lambda event: told.append(event) if isinstance(event, Disposed) else None)

    @app.listener("IN", groups=True, backout=Backout(pace=Pace(first_s=0.0)))
    async def handle(bodies: list[bytes]) -> None:
        seen.append(bodies)
        if bodies[0].startswith(b"B"):
            raise ValueError("never")

    for letter, last in (("A", 2), ("B", 3), ("C", 4)):
        put_group(owner, letter, last)
    with memory_folder() as folder, serve(owner, folder / "s") as server:
        async with app.running(ServedQueueManager(server.path)):
            with anyio.fail_after(LATEST_S):
                while len(seen) < 4 or len(told) < 3:  # noqa: ASYNC110 - a hook adds the events
                    await anyio.sleep(0.005)
    moved = taken(owner, "BOQ")
    owner.close()

    group_b = [b"B1", b"B2", b"B3"]
    assert [[b"A1", b"A2"], group_b, group_b, [b"C1", b"C2", b"C3", b"C4"]] == sorted(seen)
    assert [(b"B" * 24, number) for number in (1, 2, 3)] == [
        (got.descriptor.group_id, got.descriptor.sequence_number) for got in moved
    ]
    assert [False, False, True] == [bool(got.descriptor.message_flags & LAST) for got in moved]
