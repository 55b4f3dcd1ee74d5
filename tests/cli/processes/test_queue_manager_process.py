"""The process of a queue manager that `mqflow run` has started."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from mqflow.cli.processes import queue_manager_process
from mqflow.cli.processes.end_request import EndRequest
from mqflow.cli.processes.queue_manager_process import _end_after_applications, _end_standbys, _stop
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.folder import DataFolder
from mqflow.embedded.wire.protocol.end_manner import End, Manner

pytestmark = pytest.mark.anyio


async def test_the_queue_manager_ends_after_the_process_that_started_it() -> None:
    end = EndRequest()
    async with anyio.create_task_group() as group:
        group.start_soon(_end_after_applications, (), end, 0.0)
        await anyio.wait_all_tasks_blocked()
        assert not end.requested
        end.parent_ended.set()

    assert (True, False) == (end.requested, end.for_good)


NOBODY = [None] * 9
NO_ANSWER = "QM1: standby process {} does not answer; it ends when it runs again."


@pytest.mark.parametrize(
    ("first_in_line", "told", "left"),
    [
        ([*NOBODY, None, 5], [], [5]),
        ([*NOBODY, 5, *NOBODY, None, 6], [5], [6]),
        ([5, 5, None, 6, 6, *NOBODY, 5, *NOBODY, None], [5, 6], []),
        ([0, *NOBODY, 0, *NOBODY, None], [], []),
        ([4, 5, *NOBODY, None], [4, 5], []),
    ],
)
async def test_each_standby_gets_one_signal_until_the_line_is_empty_ten_times_in_a_row(
    monkeypatch: pytest.MonkeyPatch, first_in_line: Sequence[int | None], told: Sequence[int], left: Sequence[int]
) -> None:
    """Process 4 has ended before the signal; 0 is a process that has not written its number yet."""
    line, signals, said = list(first_in_line), list[tuple[int, int]](), list[str]()

    def kill(process: int, number: int) -> None:
        signals.append((process, number))
        if process == 4:
            raise ProcessLookupError

    monkeypatch.setattr(queue_manager_process, "_POLL_S", 0.0)
    monkeypatch.setattr(queue_manager_process, "standby_pid", lambda _: line.pop(0))
    monkeypatch.setattr(os, "kill", kill)

    await _end_standbys("QM1", DataFolder(Path("qm")), said.append)

    assert ([(each, signal.SIGUSR1) for each in told], left, []) == (signals, line, said)


@pytest.mark.parametrize(("process", "said"), [(5, NO_ANSWER.format(5)), (0, NO_ANSWER.format(0))])
async def test_a_standby_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch, process: int, said: str) -> None:
    lines: list[str] = []
    monkeypatch.setattr(queue_manager_process, "_GRACE_S", 0.05)
    monkeypatch.setattr(queue_manager_process, "standby_pid", lambda _: process)
    monkeypatch.setattr(os, "kill", lambda *_: None)

    await _end_standbys("QM1", DataFolder(Path("qm")), lines.append)

    assert [said] == lines


async def test_a_standby_of_another_user_does_not_stop_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []

    def refused(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(queue_manager_process, "standby_pid", lambda _: 5)
    monkeypatch.setattr(os, "kill", refused)

    await _end_standbys("QM1", DataFolder(Path("qm")), lines.append)

    assert ["QM1: standby process 5 runs as another user, so it cannot be ended from here, and takes over."] == lines


class Leaving:
    """An address with one connection that closes after some looks."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    @property
    def connection_count(self) -> int:
        self.looks -= 1
        return max(self.looks, 0)


@pytest.mark.parametrize(
    ("how", "waits"),
    [
        (End(Manner.CONTROLLED), True),
        (End(Manner.IMMEDIATE), False),
        (End(Manner.IMMEDIATE, reconnect=True), True),
        (End(Manner.IMMEDIATE, switchover=True), True),
    ],
)
async def test_an_end_waits_until_the_applications_have_left_unless_it_is_immediate_and_nobody_reconnects(
    how: End, *, waits: bool
) -> None:
    end, address = EndRequest(), Leaving(3)
    end.request(how)

    await _stop(EmbeddedQueueManager("QM1"), [address], end)  # type: ignore[list-item]  # as much of a server as it needs

    assert (0 if waits else 3) == address.looks
