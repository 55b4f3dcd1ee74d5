"""After a failover an application is back by the first delay of IBM MQ's ladder. Time is virtual, so no machine is too busy.

99 % of the failovers take at most 1.5 s. `python -m tests.campaign failovers` measures real processes.
"""

import logging
from functools import partial
from pathlib import Path

import anyio

from mqflow import App
from mqflow.app.config.settings import Settings
from mqflow.events import Event, Reconnected
from mqflow.testing.virtual_clock import SeededRandom
from mqflow.testing.virtual_time import Backend
from tests.embedded.disk_faults.disk import memory_folder
from tests.simulation.history import IN
from tests.simulation.loops import run
from tests.simulation.scenario import Life

FAILOVERS = 100
BACK_S = 1.5
TAKEOVER_S = 0.1


async def ignore(body: str) -> None:
    del body


def is_served(life: Life) -> bool:
    return life.active is not None


async def fail_over(life: Life, took_s: list[float], taken_over_s: list[float]) -> None:
    """Kill the active queue manager again and again, and note when its standby serves, and when the application is back."""
    world, back = life.world, anyio.Event()

    def tell(event: Event) -> None:
        if isinstance(event, Reconnected):
            took_s.append(world.now - killed)
            back.set()

    app = App("embedded::memory:", name="simulated", hooks=[tell], settings=Settings())
    app.listener(IN)(ignore)
    running = app.running(
        life.manager(life.application), clock=world.clock, random=SeededRandom(0), runner=life.application, drain_s=60.0
    )
    async with running as application:
        await application.wait_ready()
        for _ in range(FAILOVERS):
            await anyio.sleep(1 + life.chance.random() * 30)
            back, killed = anyio.Event(), world.now
            assert life.active is not None
            life.active.process.kill()
            while not is_served(life):  # noqa: ASYNC110 - the owners are threads of the world
                await anyio.sleep(0.001)
            taken_over_s.append(world.now - killed)
            await back.wait()
            life.repair()


def test_a_killed_queue_manager_is_replaced_and_its_application_back_within_the_promised_times(backend: Backend) -> None:
    logging.getLogger("mqflow").setLevel(logging.CRITICAL)  # the outages are expected here
    took_s: list[float] = []
    taken_over_s: list[float] = []
    with memory_folder() as root:
        life = Life(1, Path(root))
        try:
            run(life.world, partial(fail_over, life, took_s, taken_over_s), backend, 1)
        finally:
            life.close()

    assert FAILOVERS == len(took_s) == len(taken_over_s)
    assert max(taken_over_s) <= TAKEOVER_S
    assert min(took_s) >= 1.0, "that is faster than the first delay of the ladder"
    assert max(took_s) <= BACK_S
