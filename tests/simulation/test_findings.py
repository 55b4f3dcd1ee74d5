"""Defects of mqflow that seeds found. Each defect has a test without chance, so that it does not return."""

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio
import pytest

from mqflow import App
from mqflow.app.config.settings import Settings
from mqflow.app.run.running_application import RunningApplication
from mqflow.embedded.wire.protocol.end_manner import End, Manner
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import PutOption
from mqflow.testing.virtual_clock import SeededRandom
from mqflow.testing.virtual_time import Backend
from tests.embedded.disk_faults.disk import memory_folder
from tests.simulation.defects import idle_sessions_are_kept
from tests.simulation.history import BAD, IN
from tests.simulation.loops import run
from tests.simulation.scenario import PERSISTENT, Life
from tests.simulation.world import Process


@pytest.fixture
def life() -> Iterator[Life]:
    logging.getLogger("mqflow").setLevel(logging.CRITICAL)  # the outages are expected here
    with memory_folder() as root:
        made = Life(0, Path(root))
        yield made
        made.close()


def put(life: Life, *names: str) -> None:
    """Put messages, and disconnect."""
    process = Process(life.world, "producer")

    def produce() -> None:
        connection = life.manager(process).connect()
        for name in names:
            life.history.asks([name])
            connection.put1(IN, PERSISTENT, name.encode(), PutOption.NO_SYNCPOINT)
        connection.disconnect()

    process.start(produce, "producer").join()


def connections(life: Life) -> int:
    """Return the number of connections of the active queue manager."""
    active = life.active
    assert active is not None
    assert active.queue_manager is not None
    return len(active.queue_manager._state.connections)


async def fail_after_a_second(body: str) -> None:
    del body
    await anyio.sleep(1.0)
    raise ValueError("always")


async def live(life: Life, story: Callable[[Life, RunningApplication], Awaitable[None]]) -> None:
    app = App("embedded::memory:", name="simulated", settings=Settings())
    app.listener(IN)(fail_after_a_second)
    application = app.running(
        life.manager(life.application), clock=life.world.clock, random=SeededRandom(0), runner=life.application, drain_s=60.0
    )
    async with application as running:
        await running.wait_ready()
        await story(life, running)
    assert not running.incidents


async def ends_and_is_followed(life: Life, running: RunningApplication) -> None:
    """End the active queue manager in a controlled way: it must end, and the application must continue with the standby."""
    life.owners[0].end(End(Manner.CONTROLLED))
    with anyio.fail_after(120):
        while not (life.owners[0].ended and life.owners[1].active and running.ready):  # noqa: ASYNC110 - threads of the world change it
            await anyio.sleep(0.5)


async def end_beside_an_idle_session(life: Life, running: RunningApplication) -> None:
    with pytest.raises(MQIError, match="MQRC_UNKNOWN_OBJECT_NAME"):
        await running.put("NO.SUCH.QUEUE", b"so the session for puts outside of deliveries is connected and idle")
    await ends_and_is_followed(life, running)


def test_a_controlled_end_does_not_wait_for_an_idle_session(life: Life, backend: Backend) -> None:
    run(life.world, partial(live, life, end_beside_an_idle_session), backend, 0)


def test_an_idle_session_that_is_kept_is_found(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    idle_sessions_are_kept(monkeypatch)

    with pytest.raises(TimeoutError):
        run(life.world, partial(live, life, end_beside_an_idle_session), "asyncio", 0)


def test_a_controlled_end_does_not_keep_a_poison_message_from_its_move(life: Life, backend: Backend) -> None:
    async def story(life: Life, running: RunningApplication) -> None:
        put(life, "m5")
        await anyio.sleep(2.5)  # its third delivery is being handled, after which it is poison
        await ends_and_is_followed(life, running)
        while not any(each.queue == BAD for each in life.history.there.values()):  # noqa: ASYNC110 - threads of the world change it
            await anyio.sleep(0.5)

    run(life.world, partial(live, life, story), backend, 0)


def test_a_client_without_the_answer_to_its_hello_is_not_connected(life: Life) -> None:
    owner, process = life.owners[0], Process(life.world, "impatient")
    owner.process.stop()
    came_back: list[float] = []

    def connect() -> None:
        with suppress(MQIError):
            life.manager(process).connect()
        came_back.append(life.world.now)

    process.start(connect, "impatient").join()
    owner.process.go_on()
    life.world.sleep(5.0)

    assert came_back
    assert connections(life) == 0
