"""The same authorities are enough through a socket, pymqi and ibmmq: each of them names the queue behind an open alias.

In real time, with a thread for each session. A test waits for events, and never for a time.
"""

from collections.abc import Callable, Iterator, Sequence

import anyio
import pytest

from mqflow import App, Backout, Pace, open_queue_manager
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.server.listener import serve
from mqflow.events import Decided, Disposed, Event, ListenerPaused, Warned
from mqflow.policy.poison import redelivery_delay
from mqflow.runtime.connection import threaded_session
from mqflow.standin import install
from mqflow.testing.kit import carry_out
from mqflow.verbs import Connection, QueueManager
from tests.client_packages import PACKAGES, import_here
from tests.embedded.disk_faults.disk import memory_folder
from tests.queue_contents import browsed, put

SOON = Pace(first_s=0.001, factor=1, max_s=0.001)
DLQ = "SYSTEM.DEAD.LETTER.QUEUE"
THRESHOLD = 2


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threaded_session, "_THREADED_WAIT_MS", 50)
    monkeypatch.setattr(redelivery_delay, "REFUSED", SOON)


@pytest.fixture
def owner() -> Iterator[EmbeddedQueueManager]:
    """A queue manager on which the user `app` may get from an alias, and move poison messages."""
    with EmbeddedQueueManager("QM1") as queue_manager:
        commands = (
            f"ALTER QMGR DEADQ({DLQ})",
            "DEFINE QLOCAL(BOQ)",
            f"DEFINE QLOCAL(IN) BOTHRESH({THRESHOLD}) BOQNAME(BOQ)",
            "DEFINE QALIAS(ALIAS) TARGET(IN)",
            "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('app') AUTHADD(CONNECT,INQ)",
            "SET AUTHREC PROFILE('ALIAS') OBJTYPE(QUEUE) PRINCIPAL('app') AUTHADD(GET)",
            "SET AUTHREC PROFILE('IN') OBJTYPE(QUEUE) PRINCIPAL('app') AUTHADD(INQ)",
            "SET AUTHREC PROFILE('BOQ') OBJTYPE(QUEUE) PRINCIPAL('app') AUTHADD(PUT,PASSALL)",
            f"SET AUTHREC PROFILE('{DLQ}') OBJTYPE(QUEUE) PRINCIPAL('app') AUTHADD(PUT,PASSALL)",
        )
        carry_out(queue_manager.administration, commands)
        put(queue_manager, "IN", b"poison")
        yield queue_manager


def take_away(owner: EmbeddedQueueManager, on: str) -> str:
    """Take INQ away on the object. Return the command that grants it again."""
    carry_out(owner.administration, [f"SET AUTHREC {on} PRINCIPAL('app') AUTHRMV(INQ)"])
    return f"SET AUTHREC {on} PRINCIPAL('app') AUTHADD(INQ)"


class AsApp:
    """A queue manager to which every connection is made as the user `app`."""

    def __init__(self, inner: QueueManager) -> None:
        self._inner = inner
        self.name = inner.name

    def connect(self, *, application_name: str = "", user: str = "") -> Connection:
        del user
        return self._inner.connect(application_name=application_name, user="app")


@pytest.fixture(params=["served", *PACKAGES])
def reached(request: pytest.FixtureRequest, owner: EmbeddedQueueManager) -> Iterator[QueueManager]:
    if request.param != "served":
        import_here(request.param)
        with install(owner):
            yield AsApp(open_queue_manager(f"{request.param}://mq.example:1414/QM1?channel=APP.SVRCONN"))
        return
    with memory_folder() as folder, serve(owner, folder / "qm") as server:
        queue_manager = ServedQueueManager(server.path, name="QM1")
        yield AsApp(queue_manager)
        queue_manager.close()


class Story:
    """An application that fails on every message of the alias, and its events."""

    def __init__(self, *, concurrency: int = 1) -> None:
        self.calls: list[bytes] = []
        self.events: list[Event] = []
        self.app = App(name="failing", hooks=[self._note])
        self._changed = anyio.Event()

        async def handle(body: bytes) -> None:
            self.calls.append(body)
            raise ValueError("bad data")

        self.app.listener("ALIAS", backout=Backout(pace=SOON), concurrency=concurrency)(handle)

    def told(self, kind: type) -> Sequence[Event]:
        return [event for event in self.events if isinstance(event, kind)]

    async def until(self, so: Callable[[], bool]) -> None:
        with anyio.fail_after(20):
            while not so():
                self._changed = anyio.Event()
                await self._changed.wait()

    def _note(self, event: Event) -> None:
        self.events.append(event)
        self._changed.set()


def backout_counts(owner: EmbeddedQueueManager) -> Sequence[int]:
    return [got.descriptor.backout_count for got in browsed(owner, "IN")]


async def until_it_is_disposed_of(reached: QueueManager) -> Story:
    story = Story()
    async with story.app.running(reached):
        await story.until(lambda: bool(story.told(Disposed)))
    return story


def test_a_listener_on_an_alias_needs_get_on_it_and_inquire_on_the_queue_behind_it(
    owner: EmbeddedQueueManager, reached: QueueManager, backend: str
) -> None:
    story = anyio.run(until_it_is_disposed_of, reached, backend=backend)

    assert [b"poison"] * THRESHOLD == story.calls
    assert [] == story.told(Warned)
    assert {"BOTHRESH of IN"} == {event.threshold_source for event in story.events if isinstance(event, Decided)}
    assert 1 == owner.administration.queue_status("BOQ").depth


def test_without_inquire_on_that_queue_one_failure_stops_delivery_until_it_is_granted(
    owner: EmbeddedQueueManager, reached: QueueManager, backend: str
) -> None:
    granted = take_away(owner, "PROFILE('IN') OBJTYPE(QUEUE)")

    async def main() -> Story:
        story = Story()
        async with story.app.running(reached):
            await story.until(lambda: len(story.told(ListenerPaused)) >= 10)
            assert [b"poison"] == story.calls
            assert [1] == backout_counts(owner)
            assert [] == story.told(Decided)
            carry_out(owner.administration, [granted])
            await story.until(lambda: bool(story.told(Disposed)))
        return story

    story = anyio.run(main, backend=backend)

    assert [b"poison"] * THRESHOLD == story.calls
    assert 1 == owner.administration.queue_status("BOQ").depth


def test_several_workers_handle_a_message_once_meanwhile(owner: EmbeddedQueueManager, reached: QueueManager) -> None:
    take_away(owner, "PROFILE('IN') OBJTYPE(QUEUE)")

    async def main() -> Story:
        story = Story(concurrency=4)
        async with story.app.running(reached):
            await story.until(lambda: len(story.told(ListenerPaused)) >= 40)
        return story

    story = anyio.run(main)

    assert [b"poison"] == story.calls
    [count] = backout_counts(owner)
    assert 1 <= count <= 4


def test_without_inquire_on_the_queue_manager_the_backout_queue_takes_it(
    owner: EmbeddedQueueManager, reached: QueueManager
) -> None:
    take_away(owner, "OBJTYPE(QMGR)")

    story = anyio.run(until_it_is_disposed_of, reached)

    assert [b"poison"] * THRESHOLD == story.calls
    [warned] = (event for event in story.events if isinstance(event, Warned))
    assert "the name of the dead-letter queue cannot be inquired" in warned.text
