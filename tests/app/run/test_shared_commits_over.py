"""`test_shared_commits` on sessions with threads (a served queue manager, pymqi and ibmmq), and on a disk. Source: as there."""

import logging
from pathlib import Path

import anyio
import pytest

from mqflow import App, MQIError
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.testing.kit import carry_out
from mqflow.verbs import QueueManager
from tests.queue_contents import taken
from tests.runtime.connection.breaking import WAYS, Behind, application, fixtures

PUBLISHERS, EACH = 16, 5
pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def quiet() -> None:
    logging.getLogger("mqflow").setLevel(logging.CRITICAL)


behind, reached = fixtures("DEFINE QLOCAL(OUT)", "DEFINE QLOCAL(FULL) MAXDEPTH(1)")


async def publish(app: App, publisher: int, refused: list[str]) -> None:
    for number in range(EACH):
        await app.put("OUT", f"{publisher}.{number}")
        try:
            await app.put("FULL", f"{publisher}.{number}")
        except MQIError as error:
            refused.append(f"{error.reason}")


@pytest.mark.parametrize("way", WAYS)
async def test_publishers_on_a_thread_share_commits_and_each_gets_its_own_result(behind: Behind, reached: QueueManager) -> None:
    app, refused = application("publishers"), list[str]()
    async with app.running(reached, listen=False), anyio.create_task_group() as group:
        for publisher in range(PUBLISHERS):
            group.start_soon(publish, app, publisher, refused)

    found = behind.bodies("OUT")
    assert sorted(f"{publisher}.{number}" for publisher in range(PUBLISHERS) for number in range(EACH)) == sorted(found)
    for publisher in range(PUBLISHERS):
        mine = [body for body in found if body.startswith(f"{publisher}.")]
        assert sorted(mine) == mine
    assert 1 == behind.depth("FULL")
    assert ["2053"] * (PUBLISHERS * EACH - 1) == refused


@pytest.mark.parametrize("way", WAYS)
async def test_when_the_connection_breaks_at_any_call_of_a_shared_unit_each_message_is_there_once_or_in_doubt(
    behind: Behind, reached: QueueManager
) -> None:
    app = application("breaking")
    ends: dict[str, MQIError | None] = {}

    async def put(body: str) -> None:
        try:
            await app.put("OUT", body)
        except MQIError as error:
            ends[body] = error
        else:
            ends[body] = None

    async with app.running(reached, listen=False):
        for call in range(1, 14):
            await put(f"{call} first")
            behind.break_at(call, behind._moment)
            async with anyio.create_task_group() as group:
                for number in range(4):
                    group.start_soon(put, f"{call}.{number}")

    found = behind.bodies("OUT")
    assert len(found) == len(set(found))
    assert [body for body, end in ends.items() if end is None and body not in found] == []
    assert {"MQCMIT"} >= {end.verb for end in ends.values() if end is not None}
    assert all("may be on OUT" in str(end) for end in ends.values() if end is not None)


async def test_what_publishers_have_put_on_a_disk_is_there_after_a_restart(tmp_path: Path) -> None:
    app, refused = application("disk"), list[str]()
    with EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path / "data")) as queue_manager:
        carry_out(queue_manager.administration, ("DEFINE QLOCAL(OUT)", "DEFINE QLOCAL(FULL) MAXDEPTH(1)"))
        async with app.running(queue_manager, listen=False), anyio.create_task_group() as group:
            for publisher in range(PUBLISHERS):
                group.start_soon(publish, app, publisher, refused)

    with EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path / "data")) as queue_manager:
        found = [got.body.decode() for got in taken(queue_manager, "OUT")]
    assert sorted(f"{publisher}.{number}" for publisher in range(PUBLISHERS) for number in range(EACH)) == sorted(found)
    assert ["2053"] * (PUBLISHERS * EACH - 1) == refused
