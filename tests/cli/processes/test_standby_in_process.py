"""A standby in this process: its sentences before its turn, its takeover, and a queue manager that ends by itself."""

import os
import signal
from pathlib import Path

import anyio
import pytest

from mqflow.cli.processes import queue_manager_process, takeover_rehearsal
from mqflow.cli.processes.queue_manager_process import StoppedByItselfError
from mqflow.cli.processes.takeover_rehearsal import rehearse
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.folder import prepare_folder
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.storage.standby import first_in_line
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.protocol.end_manner import End, Manner
from mqflow.many_verbs import current_depth
from mqflow.world import THREADS
from tests.cli.processes.test_hosted_queue_manager import SOCKET, Hosted, created, hosting, options_for, short

__all__ = ("short",)


@pytest.fixture
def rehearsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the names of the queue managers whose takeover a standby has prepared."""
    names: list[str] = []
    monkeypatch.setattr(takeover_rehearsal, "rehearse", names.append)
    return names


def test_a_standby_prepares_itself_and_takes_over_when_the_owner_has_gone(short: Path, rehearsed: list[str]) -> None:
    owner = EmbeddedQueueManager("QM1", store=SqliteStore(created(short / "qm")))

    async def steps(hosted: Hosted) -> None:
        await hosted.until("stands by")
        assert ["QM1"] == rehearsed
        await anyio.to_thread.run_sync(owner.close)
        await hosted.until("is active")
        await hosted.end(End(Manner.IMMEDIATE))

    hosted = hosting(options_for(short / "qm", standby=True), steps)

    assert [
        f"QM1 stands by: process {os.getpid()} is the active one.",
        f"QM1 is active, at {short / 'qm' / SOCKET}.",
        "QM1 ends (immediate).",
    ] == hosted.said
    assert ["QM1"] == rehearsed


@pytest.mark.parametrize(
    ("number", "for_good", "last"),
    [(signal.SIGUSR1, True, ["QM1 was ended, so this standby ends too."]), (signal.SIGTERM, False, [])],
)
def test_a_standby_ends_with_the_queue_manager_or_at_a_signal(
    short: Path, rehearsed: list[str], number: signal.Signals, last: list[str], *, for_good: bool
) -> None:
    async def steps(hosted: Hosted) -> None:
        await hosted.until("stands by")
        os.kill(os.getpid(), number)

    with EmbeddedQueueManager("QM1", store=SqliteStore(created(short / "qm"))):
        hosted = hosting(options_for(short / "qm", standby=True), steps)

    assert (last, for_good) == (hosted.said[1:], hosted.for_good)


def test_a_second_standby_waits_in_line_and_prepares_itself_once(
    short: Path, rehearsed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = EmbeddedQueueManager("QM1", store=SqliteStore(created(short / "qm")))
    monkeypatch.setattr(queue_manager_process, "standby_pid", lambda _: 7)
    before = first_in_line(prepare_folder(short / "qm", create=False), THREADS, lambda: None)

    async def steps(hosted: Hosted) -> None:
        await hosted.until("in line")
        assert ["QM1"] == rehearsed
        await anyio.to_thread.run_sync(before.__exit__, None, None, None)
        await hosted.until("is the active one")
        os.kill(os.getpid(), signal.SIGTERM)

    with before:
        hosted = hosting(options_for(short / "qm", standby=True), steps)
    owner.close()

    assert [
        "QM1 stands by in line: process 7 is before this one.",
        f"QM1 stands by: process {os.getpid()} is the active one.",
    ] == hosted.said
    assert ["QM1"] == rehearsed


def test_a_queue_manager_that_stops_by_itself_is_an_error(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[EmbeddedQueueManager] = []

    class Recorded(EmbeddedQueueManager):
        def __init__(self, name: str, *, store: SqliteStore) -> None:
            super().__init__(name, store=store)
            made.append(self)

    async def steps(hosted: Hosted) -> None:
        await hosted.until("is active")
        await anyio.to_thread.run_sync(made[0].stop)

    monkeypatch.setattr(queue_manager_process, "EmbeddedQueueManager", Recorded)
    said: list[Hosted] = []

    async def with_hosted(hosted: Hosted) -> None:
        said.append(hosted)
        await steps(hosted)

    with pytest.raises(ExceptionGroup) as raised:
        hosting(options_for(created(short / "qm")), with_hosted)

    assert raised.group_contains(StoppedByItselfError, match="QM1 has stopped by itself: no reason is known")
    assert "QM1 has stopped by itself." == said[0].said[-1]


def test_a_standby_does_not_end_if_the_path_of_the_temporary_folder_is_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (long := tmp_path / ("a" * 100)).mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    frozen: list[bool] = []
    monkeypatch.setattr("gc.freeze", lambda: frozen.append(True))

    takeover_rehearsal.rehearse("QM1")

    assert ([], [True]) == (list(long.iterdir()), frozen)


def test_the_second_takeover_of_a_rehearsal_finds_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    depths: list[int] = []
    use = takeover_rehearsal._use

    def used(queue_manager: ServedQueueManager) -> None:
        connection = queue_manager.connect()
        depths.append(current_depth(connection, "REHEARSED"))
        connection.disconnect()
        use(queue_manager)

    monkeypatch.setattr("gc.freeze", lambda: None)
    monkeypatch.setattr(takeover_rehearsal, "_use", used)

    rehearse("QM1")

    assert [0, 1] == depths
