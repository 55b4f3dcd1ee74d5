"""The log lines about a message that cannot be handled: the reason, the backout count, and the final queue."""

import logging

import pytest

from mqflow import App, Context
from mqflow.events import InDoubt
from mqflow.runtime.hooks import LogEvents
from mqflow.testing.kit import QueueManagerKit


async def test_each_failure_is_a_line_and_so_is_the_queue_it_ends_on(
    mq: QueueManagerKit, caplog: pytest.LogCaptureFixture
) -> None:
    mq.mqsc("DEFINE QLOCAL('IN') BOTHRESH(2) BOQNAME('BAD')", "DEFINE QLOCAL('BAD')")
    app = App()

    @app.listener("IN")
    async def handle(body: bytes, ctx: Context) -> None:
        raise KeyError("price")

    with caplog.at_level(logging.WARNING, "mqflow"):
        async with mq.run(app):
            await mq.put("IN", b"an order")
            [letter] = await mq.drain("BAD")

    of = f"IN: message {letter.descriptor.message_id.hex()}"
    assert [
        f"{of} failed, 1 of 2: KeyError: 'price' (listener/test_log_events.py:21 in handle)",
        f"{of} failed, 2 of 2: KeyError: 'price' (listener/test_log_events.py:21 in handle)",
        f"{of} is on BAD now",
    ] == caplog.messages


async def test_a_message_that_is_handled_is_no_line(mq: QueueManagerKit, caplog: pytest.LogCaptureFixture) -> None:
    mq.mqsc("DEFINE QLOCAL('IN') BOTHRESH(2) BOQNAME('BAD')", "DEFINE QLOCAL('BAD')", "DEFINE QLOCAL('OUT')")
    app = App()

    @app.listener("IN")
    async def handle(body: bytes, ctx: Context) -> None:
        await ctx.put("OUT", body)

    with caplog.at_level(logging.INFO, "mqflow"):
        async with mq.run(app):
            await mq.put("IN", b"an order")
            await mq.drain("OUT")

    assert [] == [record.message for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize(
    ("got", "put", "said"),
    [
        ((b"\x01",), (), "messages got 01"),
        ((), (b"\x02", b"\x03"), "put 02, 03"),
        ((b"\x01",), (b"\x02",), "messages got 01; put 02"),
    ],
)
def test_a_commit_in_doubt_is_a_line_with_everything_that_was_in_it(
    caplog: pytest.LogCaptureFixture, got: tuple[bytes, ...], put: tuple[bytes, ...], said: str
) -> None:
    LogEvents()(InDoubt(queue="IN", listener="book", reason=2009, message_ids=got, put_message_ids=put))

    assert [f"book: commit in doubt, MQRC_CONNECTION_BROKEN (2009); {said}"] == caplog.messages
