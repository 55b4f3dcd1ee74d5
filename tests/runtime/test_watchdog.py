"""The watchdog notices a blocked event loop."""

import logging
import threading
from collections.abc import Callable

import anyio.lowlevel
import pytest

from mqflow.runtime.watchdog import Watchdog
from mqflow.testing.kit import QueueManagerKit
from mqflow.world import THREADS


class Stopped:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def wall(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now

    def monotonic_epoch(self) -> bytes:
        return bytes(16)


@pytest.mark.parametrize(
    ("blocked_after_s", "beat_s"), [(60, 1.0), (5, 1.0), (4, 0.8), (0.5, 0.1), (0.25, 0.05), (0.1, 0.05), (0, 0.05)]
)
def test_a_watchdog_looks_five_times_before_a_report_at_most_each_second_and_never_without_a_pause(
    blocked_after_s: float, beat_s: float
) -> None:
    assert beat_s == pytest.approx(Watchdog(Stopped(), blocked_after_s=blocked_after_s)._beat_s)


def test_a_loop_that_turns_is_left_alone() -> None:
    clock = Stopped()
    watchdog = Watchdog(clock, blocked_after_s=5)

    for _ in range(100):
        clock.now += 4.9
        assert watchdog.check() is None
        watchdog.turned()


@pytest.mark.mq_backend("asyncio", "trio")
async def test_a_loop_that_turns_at_long_intervals_is_left_alone_too(mq: QueueManagerKit) -> None:
    class NoThread:
        def start(self, _: Callable[[], object], name: str) -> None:
            assert "mqflow watchdog" == name

    watchdog = Watchdog(mq.clock, blocked_after_s=5)
    async with watchdog.watch(NoThread()):  # type: ignore[arg-type]  # it starts no thread
        for _ in range(20):
            await anyio.sleep(4.5)
            assert watchdog.check() is None


def test_each_block_of_the_event_loop_is_reported_once_with_its_stack() -> None:
    clock = Stopped()
    watchdog = Watchdog(clock, blocked_after_s=5)

    clock.now += 6
    first, second = watchdog.check(), watchdog.check()
    watchdog.turned()
    clock.now += 6
    third = watchdog.check()

    assert first is not None
    assert "has not turned for 6 s" in first
    assert "test_each_block_of_the_event_loop_is_reported_once" in first
    assert second is None
    assert third is not None


def test_a_handlers_time_limit_shortens_the_time_until_a_block_is_reported() -> None:
    clock = Stopped()
    watchdog = Watchdog(clock, blocked_after_s=5)
    watchdog.report_after(60)
    clock.now += 4.9
    before = watchdog.check()

    watchdog.report_after(0.5)
    watchdog.turned()
    clock.now += 0.6
    after = watchdog.check()

    assert before is None
    assert after is not None


@pytest.mark.anyio
async def test_the_watchdog_ends_a_stop_that_is_overdue_while_the_loop_is_blocked() -> None:
    ended, texts = threading.Event(), list[str]()

    def end(text: str) -> None:
        texts.append(text)
        ended.set()

    watchdog = Watchdog(Stopped(), blocked_after_s=0.1, overdue=lambda: "listener orders", end=end)
    async with watchdog.watch(THREADS):
        assert ended.wait(10)  # blocks

    assert texts[0].startswith("listener orders\nThe event loop is here:\n")
    assert "ended.wait(10)  # blocks" in texts[0]


@pytest.mark.anyio
async def test_a_blocked_loop_is_written_to_the_log_while_it_is_blocked(caplog: pytest.LogCaptureFixture) -> None:
    clock = Stopped()
    told = threading.Event()
    watchdog = Watchdog(clock, blocked_after_s=5)

    def hear(record: logging.LogRecord) -> bool:
        if "has not turned" in record.getMessage():
            told.set()
        return True

    caplog.handler.addFilter(hear)
    async with watchdog.watch(THREADS):
        await anyio.lowlevel.checkpoint()
        clock.now += 60
        assert told.wait(10)  # this blocks the loop until the watchdog's thread has written to the log

    assert "told.wait(10)" in caplog.text
