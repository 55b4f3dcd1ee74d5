"""An application that cannot start leaves nothing open. An application that must wait for its start blocks no other task."""

from pathlib import Path

import anyio
import pytest

from mqflow import App, ConfigurationError, open_queue_manager
from mqflow.app.channels import location
from mqflow.app.config.settings import ReconnectSettings, Settings
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.testing.virtual_time import Backend


def test_an_application_that_cannot_start_closes_the_queue_manager_that_it_opened(tmp_path: Path) -> None:
    url = f"embedded:{tmp_path}/data?qmgr=QM1"
    app = App(url, settings=Settings(reconnect=ReconnectSettings(mode="ANY")))

    async def start() -> None:
        async with app.running():
            pass

    with pytest.raises(ConfigurationError, match="ANY") as refused:
        anyio.run(start)

    assert refused.value.__traceback__ is not None  # so the reference to the application is alive
    open_queue_manager(url).close()  # its folder is locked while it is open


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_other_tasks_run_while_a_start_waits_for_a_command_that_owns_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: Backend
) -> None:
    command = SqliteStore(tmp_path / "data")
    app = App(f"embedded:{tmp_path}/data?qmgr=QM1", settings=Settings())

    async def main() -> None:
        refused = anyio.Event()
        monkeypatch.setattr(location, "_is_served", lambda _: refused.set())

        async def end_command() -> None:
            await refused.wait()
            command.close()

        async with anyio.create_task_group() as group:
            group.start_soon(end_command)
            async with app.running():
                assert refused.is_set()
                await app.put("SYSTEM.DEFAULT.LOCAL.QUEUE", b"1")

    anyio.run(main, backend=backend)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_two_starts_that_wait_for_a_command_make_only_one_running_application(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: Backend
) -> None:
    command = SqliteStore(tmp_path / "data")
    app = App(f"embedded:{tmp_path}/data?qmgr=QM1", settings=Settings())
    looks: list[Path] = []
    errors: list[ConfigurationError] = []

    def look(socket: Path) -> None:
        looks.append(socket)
        if len(looks) == 2:
            command.close()

    async def main() -> None:
        second_is_refused = anyio.Event()

        async def start() -> None:
            try:
                async with app.running():
                    await second_is_refused.wait()
            except ConfigurationError as error:
                errors.append(error)
                second_is_refused.set()

        async with anyio.create_task_group() as group:
            group.start_soon(start)
            group.start_soon(start)

    monkeypatch.setattr(location, "_is_served", look)
    anyio.run(main, backend=backend)

    [refused] = errors
    assert "is running already" in str(refused)
