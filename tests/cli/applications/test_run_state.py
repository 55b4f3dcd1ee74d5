"""The state of `mqflow run`: one line on a terminal while it reconnects, and a file while the application is ready."""

import io
import logging
import os
import pty
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from mqflow.cli.applications.run_state import ReadyFile, ReconnectLine
from mqflow.cli.text.terminal import in_foreground
from mqflow.events import Event, ReadinessChanged, Reconnected, Reconnecting
from mqflow.runtime.hooks import LogEvents
from mqflow.testing.kit import QueueManagerKit
from mqflow.testing.virtual_clock import VirtualClock


def attempt(number: int, reason: int = 2059) -> Reconnecting:
    return Reconnecting(queue_manager="QM1", attempt=number, reason=reason, delay_s=25.0, lost_for_s=25.0 * number)


BACK = Reconnected(
    queue_manager="QM1", generation=1, objects=("IN",), gone=("Prices/#: publications",), attempts=3, downtime_ms=1234.0
)


def rows(written: str) -> list[str]:
    """Return the final rows of a terminal: a carriage return and "erase line" begin a row again."""
    shown = [""]
    for piece in written.replace("\x1b[2K", "").split("\n"):
        shown[-1] = piece.rpartition("\r")[2]
        shown.append("")
    return shown[:-1]


def test_an_outage_of_a_thousand_attempts_is_one_row() -> None:
    terminal = io.StringIO()
    line = ReconnectLine(terminal, VirtualClock())

    line(attempt(0, 2009))
    for number in range(1, 1_001):
        line(attempt(number))

    assert ["QM1: reconnecting, 6 h 56 min away; attempt 1000 failed, MQRC_Q_MGR_NOT_AVAILABLE (2059)"] == rows(
        terminal.getvalue()
    )


def test_the_row_counts_down_to_the_next_attempt_and_up_since_the_loss() -> None:
    terminal, clock, seen = io.StringIO(), VirtualClock(), []
    line = ReconnectLine(terminal, clock)

    line(replace(attempt(1), next_in_s=2.25))
    for _ in range(4):
        seen.append(rows(terminal.getvalue())[-1])
        clock.advance(1)
        line.tick()
    line(BACK)
    line.tick()

    failed = "attempt 1 failed, MQRC_Q_MGR_NOT_AVAILABLE (2059)"
    assert [
        f"QM1: reconnecting, 25 s away; {failed}; next in 3 s",
        f"QM1: reconnecting, 26 s away; {failed}; next in 2 s",
        f"QM1: reconnecting, 27 s away; {failed}; next in 1 s",
        f"QM1: reconnecting, 28 s away; {failed}; trying",
    ] == seen
    assert [""] == rows(terminal.getvalue())


def test_the_row_stays_while_another_queue_manager_is_back() -> None:
    terminal = io.StringIO()
    line = ReconnectLine(terminal, VirtualClock())

    line(attempt(1))
    line(replace(BACK, queue_manager="QM2"))

    assert rows(terminal.getvalue())[-1].startswith("QM1: reconnecting")


def test_an_unchanged_row_is_not_written_again() -> None:
    terminal, clock = io.StringIO(), VirtualClock()
    line = ReconnectLine(terminal, clock)
    line(attempt(0, 2009))
    written = terminal.getvalue()

    clock.advance(1)
    line.tick()

    assert written == terminal.getvalue()


@pytest.mark.mq_backend("asyncio", "trio")
async def test_the_line_updates_itself_during_an_outage(mq: QueueManagerKit) -> None:
    terminal = io.StringIO()
    line = ReconnectLine(terminal, mq.clock)

    async with anyio.create_task_group() as group:
        group.start_soon(line.keep_current)
        await anyio.sleep(10)
        line(replace(attempt(1), next_in_s=4))
        await anyio.sleep(2.5)
        group.cancel_scope.cancel()

    assert "27 s away" in rows(terminal.getvalue())[-1]
    assert "next in 2 s" in rows(terminal.getvalue())[-1]


def test_log_lines_are_above_the_line_which_is_removed_at_the_end() -> None:
    terminal = io.StringIO()
    line = ReconnectLine(terminal, VirtualClock())

    line(attempt(1))
    line.write("something else\n")
    during = rows(terminal.getvalue())
    line(BACK)
    line.write("and on\n")

    assert ["something else", "QM1: reconnecting, 25 s away; attempt 1 failed, MQRC_Q_MGR_NOT_AVAILABLE (2059)"] == during
    assert ["something else", "and on", ""] == rows(terminal.getvalue())


def test_an_application_that_ends_in_an_outage_removes_the_line() -> None:
    terminal = io.StringIO()
    line = ReconnectLine(terminal, VirtualClock())

    line(attempt(1))
    line.clear()
    line.clear()
    terminal.write("mqflow: why it ended\n")

    assert ["mqflow: why it ended", ""] == rows(terminal.getvalue())


def test_a_log_of_an_outage_has_a_line_for_each_change(caplog: pytest.LogCaptureFixture) -> None:
    log = LogEvents(logging.getLogger("mqflow.test"))
    happened: list[Event] = [attempt(0, 2009), *(attempt(number) for number in range(1, 1_000)), attempt(1_000, 2538), BACK]

    with caplog.at_level(logging.WARNING):
        for event in happened:
            log(event)

    assert [
        "QM1: the connection is lost, MQRC_CONNECTION_BROKEN (2009); getting it back",
        "QM1: attempt 1 failed, MQRC_Q_MGR_NOT_AVAILABLE (2059)",
        "QM1: attempt 1000 failed, MQRC_HOST_NOT_AVAILABLE (2538)",
        "QM1: connected again after 3 attempts and 1.2 s; open again: IN; gone: Prices/#: publications",
    ] == caplog.messages


def test_a_log_does_not_call_a_queue_manager_lost_that_was_never_there(caplog: pytest.LogCaptureFixture) -> None:
    log = LogEvents(logging.getLogger("mqflow.test"))

    with caplog.at_level(logging.WARNING):
        log(Reconnecting(queue_manager="QM1", attempt=0, reason=2059, delay_s=0.0, was_connected=False))

    assert ["QM1: it is not there yet, MQRC_Q_MGR_NOT_AVAILABLE (2059); waiting for it"] == caplog.messages


def test_the_file_exists_while_the_application_is_ready(tmp_path: Path) -> None:
    path = tmp_path / "ready"
    path.touch()

    hook = ReadyFile(path)
    seen = [path.exists()]
    for ready in (True, False, True, False, False):
        hook(ReadinessChanged(ready=ready))
        seen.append(path.exists())

    assert [False, True, False, True, False, False] == seen


def test_a_file_with_content_is_no_ready_file_and_stays(tmp_path: Path) -> None:
    (path := tmp_path / "app.py").write_text("app = 1")

    with pytest.raises(OSError, match="the file is not empty, so it is not a ready file"):
        ReadyFile(path)

    assert "app = 1" == path.read_text()


def test_a_file_that_cannot_be_written_is_an_error_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        ReadyFile(tmp_path / "nowhere" / "ready")


def test_a_stream_that_is_not_a_terminal_has_no_line() -> None:
    assert not in_foreground(io.StringIO())


def test_a_terminal_that_cannot_erase_a_line_has_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.tcgetpgrp", lambda _: os.getpgrp())
    owner, terminal = pty.openpty()
    seen: list[bool] = []

    with os.fdopen(owner), os.fdopen(terminal) as shown:
        for term in ("xterm", "dumb"):
            monkeypatch.setenv("TERM", term)
            seen.append(in_foreground(shown))

    assert [True, False] == seen
