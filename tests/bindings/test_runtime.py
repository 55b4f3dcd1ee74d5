"""Applications on pymqi and ibmmq: the same results as on the embedded queue manager, and no unwanted commit.

In real time, with a thread for each session, in the process of the tests: the stand-in library under the real packages.
"""

import gzip
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

import anyio
import pytest

from examples.flights import app as flights
from mqflow import App, Context, Message, open_queue_manager
from mqflow.embedded import mqsc
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.storage.store import MemoryStore
from mqflow.events import Event, ListenerStarted, Reconnected, Warned
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.moved_message import why
from mqflow.runtime.connection import threaded_session
from mqflow.standin import install
from mqflow.verbs import QueueManager
from tests.client_packages import PACKAGES, import_here
from tests.doubles import queue_manager_with
from tests.queue_contents import browsed, put

FLIGHTS = Path(flights.__file__).parent
MANY = 250
DURABLE = MessageDescriptor(persistence=1)
URL = "{package}://mq.example:1414/QM1?channel=APP.SVRCONN"
pytestmark = pytest.mark.parametrize("backend", ["asyncio", "trio"])


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A waiting listener notices a stop after up to a second. With a shorter wait, the tests need not wait for that."""
    monkeypatch.setattr(threaded_session, "_THREADED_WAIT_MS", 50)


queue_manager = queue_manager_with()


@pytest.fixture(params=PACKAGES)
def url(request: pytest.FixtureRequest, queue_manager: EmbeddedQueueManager) -> Iterator[str]:
    """The URL by which the package reaches the queue manager."""
    import_here(request.param)
    with install(queue_manager):
        yield URL.format(package=request.param)


def define(queue_manager: EmbeddedQueueManager, *commands: str) -> None:
    results = mqsc.run("\n".join(commands), queue_manager.administration)
    assert not [each.text for each in results.responses if each.verdict is not mqsc.Verdict.DONE]


class Waiting:
    """A hook that lets a test go on once something is so."""

    def __init__(self, so: Callable[[], bool]) -> None:
        self._so = so
        self._reached: anyio.Event | None = None
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        if self._reached is not None and self._so():
            self._reached.set()

    async def wait(self) -> None:
        self._reached = anyio.Event()
        if not self._so():
            with anyio.fail_after(12):
                await self._reached.wait()


def depth(queue_manager: EmbeddedQueueManager, queue: str) -> int:
    return queue_manager.administration.queue_status(queue).depth


def results(behind: EmbeddedQueueManager, reached: QueueManager, backend: str) -> Counter[tuple[str, str]]:
    """Book a few flights, and return what became of them: by queue, and by why they are there."""
    define(behind, (FLIGHTS / "queues.mqsc").read_text())
    with gzip.open(FLIGHTS / "flights-2013-01.jsonl.gz") as lines:
        put(behind, "FLIGHTS.IN", *(line.rstrip() for line in islice(lines, 400, 400 + MANY)), descriptor=DURABLE)
    empty = Waiting(lambda: depth(behind, "FLIGHTS.IN") == 0)

    async def book() -> None:
        async with flights.app.running(reached):
            await empty.wait()

    flights.app.hooks.append(empty)
    try:
        anyio.run(book, backend=backend)
    finally:
        flights.app.hooks.remove(empty)
    counted = Counter(("FLIGHTS.BOOKED", "") for _ in browsed(behind, "FLIGHTS.BOOKED"))
    for dead in browsed(behind, "FLIGHTS.BOQ"):
        told = why(dead.descriptor, dead.body)
        counted["FLIGHTS.BOQ", f"{told.outcome}: {told.error}" if told else "unknown"] += 1
    return counted


def test_flights_are_booked_alike_in_memory_on_disk_and_through_both_packages(tmp_path: Path, backend: str) -> None:
    found: dict[str, Counter[tuple[str, str]]] = {}
    for name, store in ("memory", MemoryStore()), ("disk", SqliteStore(tmp_path / "data")):
        with closing(EmbeddedQueueManager("QM1", store=store)) as embedded:
            found[name] = results(embedded, embedded, backend)
    for package in PACKAGES:
        import_here(package)
        with closing(EmbeddedQueueManager("QM1")) as behind, install(behind):
            found[package] = results(behind, open_queue_manager(URL.format(package=package)), backend)

    assert (MANY, 2) == (found["memory"].total(), len(found["memory"]))
    assert dict.fromkeys(found, found["memory"]) == found


def test_a_handler_that_is_cut_off_is_backed_out_and_never_committed_by_the_disconnect(
    queue_manager: EmbeddedQueueManager, url: str, backend: str
) -> None:
    define(queue_manager, "DEFINE QLOCAL(IN)", "DEFINE QLOCAL(OUT)")
    put(queue_manager, "IN", b"1", descriptor=DURABLE)
    put(queue_manager, "IN", b"2", descriptor=DURABLE)
    app = App(url, name="cut-off")
    started = Waiting(lambda: depth(queue_manager, "OUT") == 1)
    app.hooks.append(started)

    @app.listener("IN", unit_of_work=2)
    async def handle(message: Message, ctx: Context) -> None:
        if message.body == b"2":  # the put of the first message is in the unit of work already
            started(Warned(text="put"))
            await anyio.sleep_forever()
        await ctx.put("OUT", message.body)

    async def main() -> None:
        async with app.running(open_queue_manager(url), drain_s=0):
            await started.wait()

    anyio.run(main, backend=backend)

    assert [] == browsed(queue_manager, "OUT")
    assert [1, 1] == [got.descriptor.backout_count for got in browsed(queue_manager, "IN")]


def test_a_listener_that_waits_for_a_message_stops_at_once(queue_manager: EmbeddedQueueManager, url: str, backend: str) -> None:
    define(queue_manager, "DEFINE QLOCAL(IN)")
    app = App(url, name="waits")
    listening = Waiting(lambda: any(isinstance(event, ListenerStarted) for event in listening.events))
    app.hooks.append(listening)

    @app.listener("IN", concurrency=3)
    async def handle(message: Message) -> None: ...

    async def main() -> None:
        with anyio.fail_after(10):
            async with app.running(open_queue_manager(url)):
                await listening.wait()

    anyio.run(main, backend=backend)

    assert not queue_manager._state.connections


def test_an_application_goes_on_after_its_connections_broke(
    queue_manager: EmbeddedQueueManager, url: str, backend: str
) -> None:
    define(queue_manager, "DEFINE QLOCAL(IN)")
    bodies: list[bytes] = []
    app = App(url, name="breaks")
    handled = Waiting(lambda: len(bodies) == 1)
    again = Waiting(lambda: any(isinstance(event, Reconnected) for event in again.events) and len(bodies) == 2)
    app.hooks.extend([handled, again])

    @app.listener("IN")
    async def handle(message: Message) -> None:
        bodies.append(message.body)

    async def main() -> None:
        async with app.running(open_queue_manager(url)):
            put(queue_manager, "IN", b"before", descriptor=DURABLE)
            await handled.wait()
            for connection in list(queue_manager._state.connections):
                connection.end(Reason.CONNECTION_BROKEN)
            put(queue_manager, "IN", b"after", descriptor=DURABLE)
            await again.wait()

    anyio.run(main, backend=backend)

    assert {b"before", b"after"} == set(bodies)
