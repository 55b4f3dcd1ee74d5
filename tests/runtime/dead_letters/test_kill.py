"""kill -9 at any call of a DLQ handler: no message is lost or doubled, and at the end every action is complete."""

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from tests.embedded.disk_faults.disk import memory_folder
from tests.own_programs import run_module
from tests.queue_contents import taken
from tests.runtime.dead_letters.kills import DLQ, IN, MESSAGES, OTHER

LIVES = 25


def test_nothing_is_lost_and_nothing_put_twice_however_often_the_handler_is_killed() -> None:
    with memory_folder() as folder:
        ended = run_module("tests.runtime.dead_letters.kills", folder / "data", 1, LIVES)
        assert (0, "") == (ended.returncode, ended.stderr)
        with EmbeddedQueueManager("QM1", store=SqliteStore(folder / "data")) as queue_manager:
            found = {queue: _numbers(queue_manager, queue) for queue in (DLQ, IN, OTHER)}

    assert ended.stdout.count("killed") > LIVES / 2, "too few deaths to prove anything"
    assert {DLQ: _every_third(2), IN: _every_third(0), OTHER: _every_third(1)} == found


def _every_third(first: int) -> list[int]:
    return list(range(first, MESSAGES, 3))


def _numbers(queue_manager: EmbeddedQueueManager, queue: str) -> list[int]:
    return sorted(int(got.body[172:] if queue != IN else got.body) for got in taken(queue_manager, queue))
