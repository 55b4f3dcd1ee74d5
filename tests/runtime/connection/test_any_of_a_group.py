"""Reconnection to any queue manager of a group: attributes of one queue manager are not used for another.

Source: IBM, "Automatic JMS client reconnection with CCDTs", table 1 (ANY); q032280 for the attributes; q045540 for 2555.
"""

from collections.abc import Iterator

import anyio
import pytest

from mqflow import App
from mqflow.app.config.settings import ReconnectSettings, Settings
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.events import Disposed, Event, Reconnected
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Requeue
from mqflow.runtime.connection import threaded_session
from mqflow.testing.faults import Faults
from mqflow.testing.kit import carry_out
from mqflow.verbs import Connection
from tests.conformance.under_test import refused
from tests.queue_contents import put

pytestmark = pytest.mark.anyio
ANY = Settings(reconnect=ReconnectSettings(mode="ANY", delays="(1)"))
SCRIPTS = {
    "QM1": ("DEFINE QLOCAL(BOQ1)", "DEFINE QLOCAL(IN) BOTHRESH(1) BOQNAME(BOQ1)"),
    "QM2": ("DEFINE QLOCAL(BOQ2)", "DEFINE QLOCAL(IN) BOTHRESH(2) BOQNAME(BOQ2)"),
}


class Group:
    """A group of queue managers: each connect reaches the next queue manager of the group."""

    name = "*GRP"

    def __init__(self, *answering: EmbeddedQueueManager) -> None:
        self.answering = list(answering)
        self.faults = Faults()

    def connect(self, *, application_name: str = "", user: str = "") -> Connection:
        self.answering.append(self.answering.pop(0))
        return self.faults.wrap(self.answering[-1]).connect(application_name=application_name, user=user)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threaded_session, "_THREADED_WAIT_MS", 20)


@pytest.fixture
def two() -> Iterator[tuple[EmbeddedQueueManager, EmbeddedQueueManager]]:
    with EmbeddedQueueManager("QM1") as one, EmbeddedQueueManager("QM2") as other:
        for each in (one, other):
            carry_out(each.administration, SCRIPTS[each.name])
        yield one, other


def failing(told: list[Event], reached: anyio.Event, many: int) -> App:
    app = App(settings=ANY)

    def note(event: Event) -> None:
        told.append(event)
        if many == sum(isinstance(each, Disposed) for each in told):
            reached.set()

    app.hooks.append(note)

    @app.listener("IN", concurrency=2)
    async def fail(body: str) -> None:
        raise ValueError(body)

    return app


def depths(two: tuple[EmbeddedQueueManager, EmbeddedQueueManager]) -> list[int]:
    names = [("IN", "BOQ1"), ("IN", "BOQ2")]
    return [each.administration.queue_status(name).depth for each, both in zip(two, names, strict=True) for name in both]


async def test_each_message_is_moved_as_the_queue_manager_it_came_from_says(
    two: tuple[EmbeddedQueueManager, EmbeddedQueueManager],
) -> None:
    told: list[Event] = []
    moved = anyio.Event()
    for each in two:
        put(each, "IN", b"bad", descriptor=MessageDescriptor(format="MQSTR"))

    async with failing(told, moved, 2).running(Group(*two)):
        with anyio.fail_after(10):
            await moved.wait()

    disposed = [event for event in told if isinstance(event, Disposed)]
    assert {(1, Requeue("BOQ1")), (2, Requeue("BOQ2"))} == {(each.backout_count, each.disposition) for each in disposed}
    assert [0, 1, 0, 1] == depths(two)


async def test_after_an_outage_a_message_is_moved_wherever_its_worker_is_now(
    two: tuple[EmbeddedQueueManager, EmbeddedQueueManager],
) -> None:
    told: list[Event] = []
    moved = anyio.Event()
    group = Group(*two)

    async with failing(told, moved, 4).running(group):
        for _ in range(2):
            for each in two:
                put(each, "IN", b"bad", descriptor=MessageDescriptor(format="MQSTR"))
            group.faults.break_connections()
        with anyio.fail_after(10):
            await moved.wait()

    assert [0, 2, 0, 2] == depths(two)
    assert [] != [event for event in told if isinstance(event, Reconnected)]


@pytest.mark.parametrize("durable", ["desk", ""])
async def test_a_listener_on_a_topic_needs_one_queue_manager_and_says_so(
    two: tuple[EmbeddedQueueManager, EmbeddedQueueManager], durable: str
) -> None:
    app = App(settings=ANY)

    @app.listener(topic="Prices/#", durable=durable)
    async def book(body: str) -> None:
        raise AssertionError(body)

    with refused(Reason.RECONNECT_Q_MGR_REQD, match=r"2555.*set QMGR"):
        async with app.running(Group(*two)):
            await anyio.sleep_forever()
