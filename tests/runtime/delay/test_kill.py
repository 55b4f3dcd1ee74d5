"""No delayed message is lost or doubled by kill -9 or a power cut, at any call or write of a sender or a processor."""

import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.runtime.delay.stage import EMBEDDED_STAGING_QUEUE
from tests.embedded.disk_faults.disk import Kind, build_disk, memory_folder, recorded
from tests.queue_contents import taken
from tests.runtime.delay.kills import DLQ, LATER, MARKS, move_all

LIVES = 40
STATES = 16


def bodies(folder: Path, queue: str) -> list[str]:
    with EmbeddedQueueManager("QM1", store=SqliteStore(folder)) as queue_manager:
        return [got.body[172 if queue == DLQ else 0 :].decode() for got in taken(queue_manager, queue)]


def violations(said: Iterable[str], found: list[str]) -> list[str]:
    """Compare the marks of the lives with the messages that were found on the queues. Return the defects."""
    lines = [line.split() for line in said]
    asked, sent, undone = ({words[1] for words in lines if words[0] == what} for what in ("asked", "sent", "backed-out"))
    wrong = [f"{name} came {count} times" for name, count in Counter(found).items() if count > 1]
    wrong += [f"{name} is lost" for name in sorted(sent - set(found))]
    wrong += [f"{name} was backed out and came" for name in sorted(undone & set(found))]
    return wrong + [f"{name} was never sent" for name in sorted(set(found) - asked)]


def lives(seed: int, defect: str = "none") -> tuple[list[str], list[str]]:
    with memory_folder() as folder:
        ended = build_disk(folder).run("tests.runtime.delay.kills", str(seed), str(LIVES), defect, folder=folder / "data")
        assert (0, "") == (ended.returncode, ended.stderr)
        said = ended.stdout.splitlines()
        assert [] == bodies(folder / "data", EMBEDDED_STAGING_QUEUE)
        found = bodies(folder / "data", LATER) + bodies(folder / "data", DLQ)
    return said, violations(said, found)


@pytest.mark.parametrize("seed", [1, 2])
def test_no_delayed_message_is_lost_or_doubled_however_often_sender_and_processor_are_killed(seed: int) -> None:
    said, wrong = lives(seed)

    assert [] == wrong
    assert said.count("killed") > LIVES / 2, "too few deaths to prove anything"
    assert sum(line.startswith("sent") for line in said) > LIVES, "too little was sent to prove anything"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("defect", ["puts outside the unit of work", "commits before the put"])
def test_the_kill_loop_notices_a_processor_that(defect: str) -> None:
    assert any(lives(seed, defect)[1] for seed in (1, 2, 3))


def power_cuts(seed: int, states: int, defect: str = "none") -> list[str]:
    """Cut the power in each of `states` recordings while delayed messages are sent and moved. Return the defects."""
    wrong: list[str] = []
    chance = random.Random(seed)  # noqa: S311 - the same seed must give the same cuts
    with memory_folder() as folder:
        log, data = folder / "recording", folder / "data"
        data.mkdir(mode=0o700)
        ended = build_disk(folder).run("tests.runtime.delay.kills", str(seed), "0", defect, folder=data, log=log)
        assert (0, "") == (ended.returncode, ended.stderr)
        recording = recorded(log)
        events = recording.events
        first = next(index for index, event in enumerate(events) if event.kind == Kind.MARK)
        for state in range(states):
            cut = chance.randrange(first + 1, len(events) + 1)
            said = [
                f"{MARKS[event.offset // 1_000]} 0.{event.offset % 1_000}" for event in events[:cut] if event.kind == Kind.MARK
            ]
            where = folder / f"state-{state}"
            where.mkdir(mode=0o700)
            for name, content in recording.files_after_power_cut(cut, chance).items():
                (where / name).write_bytes(content)
            wrong += [f"state {state}, cut at {cut}: {each}" for each in violations(said, recovered(where))]
    return wrong


def recovered(folder: Path) -> list[str]:
    """Move the staged messages with a new queue manager on this store. Return the messages on the queues."""
    with EmbeddedQueueManager("QM1", store=SqliteStore(folder)) as queue_manager:
        move_all(queue_manager.connect())
    return bodies(folder, LATER) + bodies(folder, DLQ)


@pytest.mark.parametrize("seed", [1, 2])
def test_no_power_cut_loses_or_doubles_a_delayed_message(seed: int) -> None:
    assert [] == power_cuts(seed, STATES)


def test_the_power_cut_notices_a_store_that_answers_before_the_sync() -> None:
    assert power_cuts(1, STATES, "answers before the sync")


@pytest.mark.parametrize(
    ("said", "found", "expected"),
    [
        (["asked 1", "sent 1"], ["1"], []),
        (["asked 1", "sent 1"], [], ["1 is lost"]),
        (["asked 1", "sent 1"], ["1", "1"], ["1 came 2 times"]),
        (["asked 1"], [], []),
        (["asked 1"], ["1"], []),
        (["asked 1", "backed-out 1"], ["1"], ["1 was backed out and came"]),
        ([], ["1"], ["1 was never sent"]),
    ],
)
def test_the_judge(said: list[str], found: list[str], expected: list[str]) -> None:
    assert expected == violations(said, found)
