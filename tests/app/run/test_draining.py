"""A drain says each second which handlers it waits for, with the line that each runs."""

import threading

import anyio
import pytest

from mqflow import App
from mqflow.events import Draining, HandlerRuns
from mqflow.runtime.hooks import LogEvents
from mqflow.runtime.watchdog import place_of
from mqflow.testing.kit import QueueManagerKit


async def wait_for_the_bank() -> None:
    await anyio.sleep(3.5)


LINE = wait_for_the_bank.__code__.co_firstlineno + 1


async def test_each_second_of_a_drain_names_the_handlers_that_run_and_their_lines(mq: QueueManagerKit) -> None:
    mq.define("IN")
    app = App()
    handled = anyio.Event()

    @app.listener("IN")
    async def book(body: bytes) -> None:
        handled.set()
        await wait_for_the_bank()

    async with mq.run(app, drain_s=10):
        put = await mq.put("IN", b"order")
        await handled.wait()

    events = mq.told(Draining)
    assert [9.0, 8.0, 7.0] == [round(event.left_s, 1) for event in events]
    for event in events:
        [runs] = event.handlers
        assert ("IN", "book", put.descriptor.message_id) == (runs.queue, runs.listener, runs.message_id)
        assert f"run/test_draining.py:{LINE} in wait_for_the_bank" == runs.frame
    assert [1.0, 2.0, 3.0] == [round(event.handlers[0].running_s, 1) for event in events]
    assert 0 == mq.depth("IN")


async def test_a_drain_of_less_than_a_second_says_nothing(mq: QueueManagerKit) -> None:
    mq.define("IN")
    app = App()

    @app.listener("IN")
    async def book(body: bytes) -> None:
        await anyio.sleep(0.5)

    async with mq.run(app, drain_s=10):
        await mq.put("IN", b"order")

    assert [] == mq.told(Draining)


@pytest.mark.parametrize("running_s", [0.0, 0.003, 0.011, 0.2])
async def test_a_drain_at_full_load_takes_as_long_as_a_handler_and_100_ms_more_at_most(
    mq: QueueManagerKit, running_s: float
) -> None:
    """Goal R11 in virtual time; `python -m tests.campaign drains` measures it on processes."""
    mq.define("IN")
    app, begun = App(), anyio.Event()
    longest_s = 0.02

    @app.listener("IN", concurrency=8)
    async def book(body: str) -> None:
        begun.set()
        await anyio.sleep(longest_s * int(body) / 400)

    for number in range(1, 401):
        await mq.put("IN", str(number))
    async with mq.run(app, drain_s=10):
        await begun.wait()
        await anyio.sleep(running_s)
        signalled_s = mq.clock.monotonic()

    assert mq.clock.monotonic() - signalled_s <= longest_s + 0.1
    assert 0 < mq.depth("IN"), "the queue was empty: no load"


def test_the_place_of_a_thread_is_the_line_of_the_application_and_not_of_python() -> None:
    begun, end = threading.Event(), threading.Event()

    def waits_in_python() -> None:
        begun.set()
        end.wait(60)

    thread = threading.Thread(target=waits_in_python)
    thread.start()
    begun.wait(60)
    try:
        place = place_of(thread.ident)
        assert place.startswith("run/test_draining.py:")
        assert place.endswith(" in waits_in_python")
    finally:
        end.set()
        thread.join()
    assert "" == place_of(thread.ident)


def test_a_line_names_the_handler_and_its_message(caplog: pytest.LogCaptureFixture) -> None:
    runs = HandlerRuns(queue="IN", listener="book", message_id=b"\x01", running_s=4.2, frame="shop.py:9 in book")

    LogEvents()(Draining(left_s=8.0, handlers=(runs,) * 12, waits_for=("listener book",)))
    LogEvents()(Draining(left_s=7.0, handlers=(), waits_for=("listener book", "delay processor")))

    assert ["draining, 8 s left: book has run for 4 s at shop.py:9 in book: message 01"] * 10 == caplog.messages[:10]
    assert [
        "draining, 8 s left: and 2 more handlers",
        "draining, 7 s left: waiting for listener book, delay processor",
    ] == caplog.messages[10:]
