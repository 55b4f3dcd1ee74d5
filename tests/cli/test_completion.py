"""The completion of a shell: commands with their lines, options, and the queues of a queue manager that a process serves."""

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from mqflow.app.channels.location import SERVED_SOCKET
from mqflow.cli.connection_options import served_queues
from mqflow.cli.main import main
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.wire.server.listener import serve
from mqflow.mqi.attributes.queue import QueueAttributes
from tests.cli.conftest import Run


def completed(*words: str) -> list[str]:
    *before, incomplete = words
    return [item.value for item in ShellComplete(main, {}, "mqflow", "_MQFLOW_COMPLETE").get_completions(before, incomplete)]


def test_a_command_is_completed_with_its_line() -> None:
    [item] = ShellComplete(main, {}, "mqflow", "_MQFLOW_COMPLETE").get_completions([], "poi")

    assert ("poison", "Show why messages failed, in groups.") == (item.value, item.help)
    assert ["--limit"] == completed("browse", "--li")
    assert ["--debug"] == completed("--de")


@pytest.mark.parametrize("command", ["put", "get", "browse", "poison", "redrive", "edit", "capture"])
def test_a_queue_of_a_served_queue_manager_is_completed(tmp_path: Path, command: str) -> None:
    with EmbeddedQueueManager("QM1") as queue_manager:
        for name in ("ORDERS.IN", "ORDERS.BOQ", "OTHER"):
            queue_manager.administration.define(QueueAttributes(name=name))
        server = serve(queue_manager, tmp_path / "s")
        url = f"embedded+unix:{tmp_path / 's'}?qmgr=QM1"
        try:
            assert ["ORDERS.BOQ", "ORDERS.IN"] == completed(command, "--url", url, "ORD")
            assert ["ORDERS.BOQ", "ORDERS.IN", "OTHER"] == completed(command, "--url", url, "")
            assert "SYSTEM.ADMIN.COMMAND.QUEUE" in completed(command, "--url", url, "SYSTEM.")
        finally:
            server.close()


def test_the_queues_of_a_folder_are_known_while_a_process_serves_it(run: Run, queues: None, tmp_path: Path) -> None:
    url = f"embedded:{tmp_path}/data?qmgr=QM1"
    with EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path / "data")) as queue_manager:  # the folder has one owner
        assert [] == served_queues(url)
        server = serve(queue_manager, tmp_path / "data" / SERVED_SOCKET)
        try:
            assert "SYSTEM.ADMIN.COMMAND.QUEUE" in served_queues(url)
        finally:
            server.close()
    assert [] == served_queues(url)


@pytest.mark.parametrize("url", ["embedded:./nowhere?qmgr=QM1", "embedded+unix:./nowhere?qmgr=QM1", "nonsense", "mq://h:1/QM1"])
def test_what_cannot_be_reached_completes_nothing_and_prints_nothing(
    run: Run, capsys: pytest.CaptureFixture[str], url: str
) -> None:
    assert [] == completed("browse", "--url", url, "O")
    assert ("", "") == capsys.readouterr()
