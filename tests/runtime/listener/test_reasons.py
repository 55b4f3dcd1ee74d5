"""The reason of a failure on its way: middleware, hooks, log, moved message, decision ledger and command line."""

import asyncio
import gc
import logging
import sqlite3
from contextlib import closing
from pathlib import Path
from types import TracebackType

import anyio
import pytest
from click.testing import CliRunner

from mqflow import App, Backout, Message, Pace, Reject
from mqflow.app.handlers.middleware import Call, Incoming
from mqflow.app.run.decision_ledger import DecisionLedger
from mqflow.cli.messages.tail import why
from mqflow.cli.text.message_view import view
from mqflow.events import Decided, Disposed, Settled
from mqflow.policy.poison.disposition import Failed, Outcome, Undecodable
from mqflow.testing.kit import Found, QueueManagerKit
from tests.running import defining

pytestmark = pytest.mark.mq_backend("asyncio", "trio")

AT_ONCE = Backout(pace=Pace(first_s=0, max_s=0))


class OutOfStockError(Exception):
    pass


class Sentry:
    """Middleware that collects exceptions, as the SDK of an error tracker does with `capture_exception`."""

    def __init__(self) -> None:
        self.captured: list[BaseException] = []

    async def consume(self, delivery: Incoming, call_next: Call) -> Outcome:
        outcome = await call_next(delivery)
        if isinstance(outcome, Failed | Undecodable) and outcome.exception is not None:
            self.captured.append(outcome.exception)
        return outcome


queues = defining("BOQ", bothresh=3, boqname="BOQ")


async def moved(mq: QueueManagerKit, app: App) -> Found:
    """Run the application until it has moved an order to the backout queue."""
    async with mq.run(app):
        await mq.put("IN", b"order")
        [dead] = await mq.drain("BOQ")
    return dead


def take(stock: dict[str, int]) -> None:
    raise OutOfStockError(f"{stock}")


def line_of_take() -> int:
    return take.__code__.co_firstlineno + 1


async def test_middleware_gets_the_exception_of_each_failure_with_its_traceback(mq: QueueManagerKit) -> None:
    sentry = Sentry()
    app = App(middleware=[sentry])

    @app.listener("IN", backout=AT_ONCE)
    async def handle(body: bytes) -> None:
        take({"item 7": 0})

    await moved(mq, app)

    assert [OutOfStockError] * 3 == [type(error) for error in sentry.captured]
    assert ["take"] * 3 == [last_name(error.__traceback__) for error in sentry.captured]


def last_name(traceback: TracebackType | None) -> str:
    assert traceback is not None
    return last_name(traceback.tb_next) if traceback.tb_next is not None else traceback.tb_frame.f_code.co_name


async def test_a_plain_function_in_its_thread_keeps_its_reason_too(mq: QueueManagerKit) -> None:
    sentry = Sentry()
    app = App(middleware=[sentry])

    @app.listener("IN", backout=AT_ONCE)
    def handle(body: bytes) -> None:
        take({})

    dead = await moved(mq, app)

    assert [OutOfStockError] * 3 == [type(error) for error in sentry.captured]
    assert f"listener/test_reasons.py:{line_of_take()} in take" == dead.why.frame


async def test_hooks_get_the_exception_with_the_events_of_the_failure(mq: QueueManagerKit) -> None:
    error = OutOfStockError("item 7")
    seen: list[tuple[str, BaseException | None]] = []

    def hook(event: object) -> None:
        if isinstance(event, Decided | Disposed | Settled) and isinstance(event.outcome, Failed):
            seen.append((type(event).__name__, event.outcome.exception))

    app = App(hooks=[hook])

    @app.listener("IN", backout=Backout(never_retry=(OutOfStockError,)))
    async def handle(body: bytes) -> None:
        raise error

    await moved(mq, app)

    assert {("Decided", error), ("Settled", error), ("Disposed", error)} == set(seen)


async def test_the_log_has_the_first_failure_and_the_traceback_of_the_last(
    mq: QueueManagerKit, caplog: pytest.LogCaptureFixture
) -> None:
    app = App()

    @app.listener("IN", backout=AT_ONCE)
    async def handle(body: bytes) -> None:
        take({})

    with caplog.at_level(logging.WARNING, "mqflow.poison"):
        await moved(mq, app)

    first, last = caplog.records
    assert ("failed, 1 of 3: " in first.message, "failed 3 times, on BOQ now: " in last.message) == (True, True)
    assert [False, True] == [bool(record.exc_info and record.exc_info[0]) for record in (first, last)]
    assert "in take" in logging.Formatter().format(last)


async def test_a_rejected_message_has_its_traceback_at_once(mq: QueueManagerKit, caplog: pytest.LogCaptureFixture) -> None:
    app = App()

    @app.listener("IN")
    async def handle(body: bytes) -> None:
        raise Reject("closed account")

    with caplog.at_level(logging.WARNING, "mqflow.poison"):
        await moved(mq, app)

    [failed] = caplog.records
    assert failed.exc_info is not None
    assert failed.exc_info[0] is Reject


async def test_a_traceback_that_is_no_unicode_text_is_in_the_log_with_escapes(
    mq: QueueManagerKit, caplog: pytest.LogCaptureFixture
) -> None:
    app = App()

    @app.listener("IN")
    async def handle(body: bytes) -> None:
        raise Reject("caf\udce9")

    with caplog.at_level(logging.WARNING, "mqflow.poison"):
        await moved(mq, app)

    written = logging.Formatter().format(caplog.records[0])
    assert "caf\\udce9" in written.encode().decode()
    assert "in handle" in written


async def test_the_moved_message_carries_the_innermost_frame_and_browse_shows_it(mq: QueueManagerKit) -> None:
    app = App()

    @app.listener("IN", backout=AT_ONCE)
    async def handle(body: bytes) -> None:
        take({})

    dead = await moved(mq, app)

    frame = f"listener/test_reasons.py:{line_of_take()} in take"
    shown = view("BOQ", dead.descriptor, dead.data)
    assert frame == shown.facts["why"]["frame"]
    assert f"Raised at {frame}." in shown.why


async def test_the_ledger_and_why_name_the_frame_and_hold_no_exception(
    mq: QueueManagerKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "decisions.db"
    ledger = DecisionLedger(file)
    app = App(hooks=[ledger])

    @app.listener("IN", backout=AT_ONCE)
    async def handle(body: bytes) -> None:
        secret = "4111 1111"  # noqa: F841, S105 - a local variable, as in any handler
        take({})

    dead = await moved(mq, app)
    ledger.close()

    monkeypatch.setenv("MQFLOW_LEDGER_FILE", str(file))
    told = CliRunner().invoke(why, [dead.message_id.hex(), "--url", "embedded://QM1"])
    frame = f"listener/test_reasons.py:{line_of_take()} in take"
    assert 0 == told.exit_code, told.output
    assert f"failed with {__name__}.OutOfStockError: {{}} ({frame})" in told.output
    with closing(sqlite3.connect(file)) as connection:
        written = b"".join(row[0] for row in connection.execute("SELECT event FROM entry"))
    assert b"4111" not in written
    assert b"Traceback" not in written


async def test_no_memory_of_the_listener_holds_the_exception_of_an_earlier_delivery(mq: QueueManagerKit) -> None:
    """A traceback holds the payload and all local variables, and a listener remembers 10,000 failures."""
    app = App()
    held: list[list[OutOfStockError]] = []

    @app.listener("IN", backout=AT_ONCE)
    async def handle(body: bytes, message: Message) -> None:
        if not message.backout_count:
            raise OutOfStockError(body)
        mq.events.clear()  # the test kit keeps all events
        gc.collect()
        held.append([each for each in gc.get_objects() if isinstance(each, OutOfStockError)])

    async with mq.run(app):
        await mq.put("IN", b"order")
        await anyio.sleep(1)

    assert [[]] == held


async def wait_for_stock() -> None:
    await anyio.sleep(3600)


async def test_a_handler_that_runs_out_of_time_has_the_line_of_its_wait(
    mq: QueueManagerKit, caplog: pytest.LogCaptureFixture
) -> None:
    app = App()

    @app.listener("IN", backout=Backout(threshold=1), time_limit_s=1.0)
    async def handle(body: bytes) -> None:
        await wait_for_stock()

    with caplog.at_level(logging.WARNING, "mqflow.poison"):
        dead = await moved(mq, app)

    line = wait_for_stock.__code__.co_firstlineno + 1
    assert ("TimeLimitExceeded", f"listener/test_reasons.py:{line} in wait_for_stock") == (dead.why.error, dead.why.frame)
    assert "in wait_for_stock" in logging.Formatter().format(caplog.records[0])


@pytest.mark.mq_backend("asyncio")
async def test_a_handler_whose_task_is_cancelled_has_the_line_too(mq: QueueManagerKit) -> None:
    sentry = Sentry()
    app = App(middleware=[sentry])

    @app.listener("IN", backout=Backout(threshold=1))
    async def handle(body: bytes) -> None:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    dead = await moved(mq, app)

    assert [asyncio.CancelledError] == [type(error) for error in sentry.captured]
    assert dead.why.frame.endswith("in handle")
