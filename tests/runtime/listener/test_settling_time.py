"""How long a commit took is noted for an application that is watched, and for no other."""

import anyio
import pytest

from mqflow import App
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.server.listener import serve
from mqflow.events import Event, Settled
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.policy.poison.disposition import Completed
from mqflow.verbs import QueueManager

pytestmark = pytest.mark.anyio


async def settled_by(queue_manager: QueueManager, *, is_watched: bool, on_thread: bool) -> list[float]:
    """Return the times of the commits of three messages."""
    took: list[float] = []
    done = anyio.Event()

    def note(event: Event) -> None:
        if isinstance(event, Settled) and isinstance(event.outcome, Completed):
            took.extend([event.settle_s] * len(event.message_ids))
            if len(took) == 3:
                done.set()

    app = App(hooks=[note])
    if on_thread:

        @app.listener("IN")
        def handle(body: str) -> None:
            return

    else:

        @app.listener("IN")
        async def handle_here(body: str) -> None:
            return

    if is_watched:
        app.on_start(lambda: app.current.watch() if app.current else None)
    async with app.running(queue_manager):
        await app.put_many("IN", ["a", "b", "c"])
        await done.wait()
    return took


@pytest.mark.parametrize("served", [False, True], ids=["inline", "served"])
@pytest.mark.parametrize("on_thread", [False, True], ids=["async", "plain"])
@pytest.mark.parametrize("is_watched", [False, True], ids=["not watched", "watched"])
async def test_a_watched_application_knows_how_long_each_commit_took(
    tmp_path_factory: pytest.TempPathFactory, *, served: bool, on_thread: bool, is_watched: bool
) -> None:
    queue_manager = EmbeddedQueueManager("QM1")
    queue_manager.administration.define(QueueAttributes(name="IN", backout_threshold=3))
    path = tmp_path_factory.mktemp("s") / "s"
    server = serve(queue_manager, path)
    reached = ServedQueueManager(path, name="QM1", user="") if served else queue_manager
    try:
        took = await settled_by(reached, is_watched=is_watched, on_thread=on_thread)
    finally:
        if isinstance(reached, ServedQueueManager):
            reached.close()
        server.close()
        queue_manager.close()

    assert [is_watched] * 3 == [0.0 < each < 60.0 for each in took]
