"""How often a failing message is handled, on every queue manager behind the seam, by sixteen workers at the same time.

In real time. The handler's own log is compared with the events and with the messages on the backout requeue queue.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import anyio
import pytest

from mqflow import App, Backout, Pace, Reject, open_queue_manager
from mqflow.embedded import mqsc
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.storage.store import MemoryStore
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.server.listener import serve
from mqflow.events import Delivered, Disposed, Event
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, OpenOption, PutOption
from mqflow.policy.poison.moved_message import why
from mqflow.runtime.connection import threaded_session
from mqflow.standin import install
from mqflow.verbs import GetOptions, QueueManager
from tests.client_packages import PACKAGES, import_here

THRESHOLD = 3
MESSAGES = 100
WITHIN_S = 120.0
COMMANDS = f"DEFINE QLOCAL(BAD) DEFPSIST(YES)\nDEFINE QLOCAL(IN) DEFPSIST(YES) BOTHRESH({THRESHOLD}) BOQNAME(BAD)"


@contextmanager
def queue_managers(kind: str, folder: Path) -> Iterator[tuple[EmbeddedQueueManager, QueueManager]]:
    """Give the queue manager itself, and the queue manager as the application reaches it."""
    with ExitStack() as stack:
        store = MemoryStore() if kind in {"memory", *PACKAGES} else SqliteStore(folder / "data")
        behind = stack.enter_context(EmbeddedQueueManager("QM1", store=store))
        if kind == "served":
            server = stack.enter_context(serve(behind, folder / "qm"))
            served = ServedQueueManager(server.path, name="QM1")
            stack.callback(served.close)
            yield behind, served
        elif kind in PACKAGES:
            import_here(kind)
            stack.enter_context(install(behind))
            yield behind, open_queue_manager(f"{kind}://mq.example:1414/QM1?channel=APP.SVRCONN")
        else:
            yield behind, behind


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("kind", "is_plain"),
    [
        *((kind, False) for kind in ("memory", "sqlite", "served", *PACKAGES)),
        *((kind, True) for kind in ("served", *PACKAGES)),  # the connections on whose threads a plain handler runs
    ],
)
@pytest.mark.parametrize(("error", "attempts"), [(Reject, 1), (ValueError, THRESHOLD)])
def test_a_bad_message_is_handled_exactly_as_often_as_its_error_and_the_threshold_say(
    kind: str,
    *,
    is_plain: bool,
    backend: str,
    error: type[Exception],
    attempts: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threaded_session, "_THREADED_WAIT_MS", 50)  # a session of a package notices a stop after its wait
    handled, events, counting = Counter[str](), list[Event](), threading.Lock()

    async def run(reached: QueueManager) -> None:
        done = anyio.Event()

        def note(event: Event) -> None:
            events.append(event)
            if sum(isinstance(each, Disposed) for each in events) == MESSAGES:
                done.set()

        app = App(hooks=[note])

        def handle(body: str) -> None:
            with counting:
                handled[body] += 1
            raise error("always")

        async def handle_on_the_loop(body: str) -> None:
            handle(body)

        listen = app.listener("IN", concurrency=16, backout=Backout(pace=Pace(first_s=0.001, jitter=0)))
        listen(handle if is_plain else handle_on_the_loop)

        async with app.running(reached):
            with anyio.move_on_after(WITHIN_S):
                await done.wait()

    with queue_managers(kind, tmp_path) as (behind, reached):
        assert mqsc.run(COMMANDS, behind.administration).exit_code() == 0
        connection = behind.connect()
        for number in range(MESSAGES):
            connection.put1("IN", MessageDescriptor(format="MQSTR"), b"%d" % number, PutOption.NO_SYNCPOINT)
        anyio.run(run, reached, backend=backend)
        bad = connection.open("BAD", OpenOption.INPUT_SHARED)
        options = GetOptions(options=GetOption.PROPERTIES_FORCE_MQRFH2)
        moved = [why(got.descriptor, got.body) for got in iter(lambda: connection.get(bad, options), None)]

    assert dict.fromkeys(map(str, range(MESSAGES)), attempts) == handled
    assert [(error.__name__, attempts)] * MESSAGES == [(each.error, each.count) for each in moved if each is not None]
    assert [attempts] * MESSAGES == [event.backout_count for event in events if isinstance(event, Disposed)]
    assert attempts * MESSAGES == sum(isinstance(event, Delivered) for event in events), "another worker got a moved message"
