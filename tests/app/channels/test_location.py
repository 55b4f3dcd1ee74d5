"""A folder that another process owns: for a moment, for a long time, or to serve it."""

import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from mqflow.app.channels import location
from mqflow.app.channels.location import SERVED_SOCKET, open_queue_manager, reach_queue_manager
from mqflow.app.errors import ConfigurationError
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.folder import FolderInUseError
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.wire.server.listener import Server, serve

URL = "embedded:./qm?qmgr=QM1"


@pytest.fixture
def owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EmbeddedQueueManager:
    """Own the folder `qm`."""
    monkeypatch.chdir(tmp_path)
    return EmbeddedQueueManager("QM1", store=SqliteStore(Path("qm")))


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[float], None]], None]:
    """Give a function that makes each wait a call of another function, so that no time passes."""
    return lambda wait: monkeypatch.setattr(location, "Event", lambda: SimpleNamespace(wait=wait))


@pytest.mark.parametrize("opened", [open_queue_manager, reach_queue_manager])
@pytest.mark.parametrize("left_behind", [False, True])
def test_a_command_that_owns_the_folder_for_a_moment_is_waited_for(
    owner: EmbeddedQueueManager,
    waits: Callable[[Callable[[float], None]], None],
    opened: Callable[[str], location.OpenQueueManager],
    *,
    left_behind: bool,
) -> None:
    if left_behind:  # the socket of a killed process
        with socket.socket(socket.AF_UNIX) as killed:
            killed.bind(str(Path("qm", SERVED_SOCKET)))
    waits(lambda _: owner.close())

    with closing(opened(URL)) as queue_manager:
        assert isinstance(queue_manager, EmbeddedQueueManager)


@pytest.mark.parametrize("opened", [open_queue_manager, reach_queue_manager])
def test_a_process_that_keeps_the_folder_is_waited_for_five_seconds(
    owner: EmbeddedQueueManager,
    waits: Callable[[Callable[[float], None]], None],
    opened: Callable[[str], location.OpenQueueManager],
) -> None:
    waited: list[float] = []
    waits(waited.append)

    with owner, pytest.raises(FolderInUseError):
        opened(URL)

    assert 5.0 == pytest.approx(sum(waited))


def test_a_process_that_serves_the_folder_is_not_waited_for(
    owner: EmbeddedQueueManager, waits: Callable[[Callable[[float], None]], None]
) -> None:
    waited: list[float] = []
    waits(waited.append)

    with owner, closing(serve(owner, Path("qm", SERVED_SOCKET))):
        with pytest.raises(FolderInUseError):
            open_queue_manager(URL)
        with closing(reach_queue_manager(URL)) as queue_manager:
            queue_manager.connect().disconnect()

    assert [] == waited


def test_a_process_that_starts_to_serve_the_folder_is_reached(
    owner: EmbeddedQueueManager, waits: Callable[[Callable[[float], None]], None]
) -> None:
    servers: list[Server] = []
    waits(lambda _: servers.append(serve(owner, Path("qm", SERVED_SOCKET))))

    with owner, closing(reach_queue_manager(URL)) as queue_manager:
        queue_manager.connect().disconnect()
        [server] = servers
        server.close()


@pytest.mark.parametrize(
    ("variable", "key"),
    [("MQFLOW_URL", "url"), ("MQFLOW_QUEUE_MANAGERS_ARCHIVE_URL", "queue_managers.ARCHIVE.url")],
)
@pytest.mark.parametrize("url", ["embeded:./data", "embedded:./data?qmgr=no%20name", "ibmmq://host:99999/QM1", "embedded://["])
def test_an_invalid_url_of_a_variable_is_refused_with_the_name_of_the_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str, key: str, url: str
) -> None:
    monkeypatch.setenv(variable, url)

    with pytest.raises(ConfigurationError, match=rf"^Setting {key} from environment \({variable}\): '"):
        open_queue_manager(url)


def test_an_invalid_url_that_no_setting_has_is_refused_without_a_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQFLOW_URL", "embedded:./data")

    with pytest.raises(ConfigurationError, match=r"^'embeded:./data' is not the URL"):
        open_queue_manager("embeded:./data")
