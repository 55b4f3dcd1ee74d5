"""An application that cannot start leaves nothing open."""

from pathlib import Path

import anyio
import pytest

from mqflow import App, ConfigurationError, open_queue_manager
from mqflow.app.config.settings import ReconnectSettings, Settings


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
