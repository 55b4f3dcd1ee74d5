"""The log lines about a message that cannot be handled: the reason, the backout count, and the final queue."""

import logging

import anyio
import pytest

from mqflow import App, Context, Message
from mqflow.events import Attempt, Decided, Disposed, InDoubt, ListenerPaused, ListenerResumed, Warned
from mqflow.mqi.options import GetOption, OpenOption
from mqflow.policy.poison.disposition import Deliver, Failed, Return
from mqflow.runtime.hooks import LOG_FIELDS, LogEvents
from mqflow.testing.kit import QueueManagerKit
from mqflow.verbs import GetOptions
from tests.running import moved


async def test_a_message_has_a_line_at_its_first_failure_and_a_line_at_its_end(
    mq: QueueManagerKit, caplog: pytest.LogCaptureFixture
) -> None:
    mq.mqsc("DEFINE QLOCAL('IN') BOTHRESH(4) BOQNAME('BAD')", "DEFINE QLOCAL('BAD')")
    app = App()

    @app.listener("IN")
    async def handle(body: bytes, ctx: Context) -> None:
        raise KeyError("price\nlist")

    with caplog.at_level(logging.WARNING, "mqflow"):
        letter = await moved(mq, app, b"an order", "BAD")

    message_id = letter.descriptor.message_id.hex()
    because = "KeyError: 'price\\nlist' (listener/test_log_events.py:26 in handle)"
    assert [
        f"IN: message {message_id} failed, 1 of 4: {because}",
        f"IN: message {message_id} failed 4 times, on BAD now: {because}",
    ] == caplog.messages
    fields = {"queue": "IN", "message_id": message_id, "listener": "handle", "worker": 0}
    for record, kind, count in zip(caplog.records, ("Decided", "Disposed"), (1, 4), strict=True):
        written = {name: getattr(record, name) for name in LOG_FIELDS if hasattr(record, name)}
        assert fields | {"event": kind, "backout_count": count} == written


async def test_the_first_failure_has_a_line_if_other_backouts_came_before(
    mq: QueueManagerKit, caplog: pytest.LogCaptureFixture
) -> None:
    mq.mqsc("DEFINE QLOCAL('IN')")
    await mq.put("IN", b"an order")
    for _ in range(2):  # a connection that breaks backs its messages out
        connection = mq.queue_manager.connect()
        connection.get(connection.open("IN", OpenOption.INPUT_SHARED), GetOptions(options=GetOption.SYNCPOINT))
        connection.backout()
        connection.disconnect()
    app = App()
    seen: list[int] = []
    handled = anyio.Event()

    @app.listener("IN")
    async def handle(message: Message) -> None:
        seen.append(message.backout_count)
        if len(seen) < 3:
            raise KeyError("price")
        handled.set()

    with caplog.at_level(logging.WARNING, "mqflow.poison"):
        async with mq.run(app):
            await handled.wait()

    assert [2, 3, 4] == seen
    lines = [record.message for record in caplog.records if record.name == "mqflow.poison"]
    assert [True] == ["failed, 3 times: KeyError" in line for line in lines]


def failure(number: int) -> Decided:
    return Decided(
        queue="IN", message_id=b"\x01", listener="book", backout_count=number, threshold=0, backout_requeue_queue="",
        threshold_source="", queue_source="", plan=(Deliver(),), outcome=Failed("KeyError", f"attempt {number}"),
    )  # fmt: skip


def test_a_message_without_a_threshold_has_a_line_after_1_10_and_100_failures(caplog: pytest.LogCaptureFixture) -> None:
    log = LogEvents()
    for number in range(1, 112):
        log(failure(number))

    assert [1, 10, 100] == [record.__dict__["backout_count"] for record in caplog.records]


def test_a_pause_is_a_line_only_if_its_cause_is_new_and_its_end_is_a_line(caplog: pytest.LogCaptureFixture) -> None:
    log = LogEvents()
    for why in ("full", "full", "inhibited", *["full"] * 11):
        log(ListenerPaused(queue="IN", listener="book", why=why, delay_s=1))
    log(ListenerResumed(queue="IN", listener="book"))
    log(ListenerPaused(queue="IN", listener="book", why="full", delay_s=1))

    assert [
        "book: paused for 1 s: full",
        "book: paused for 1 s: inhibited",
        "book: paused for 1 s: full",
        "book: paused for 1 s, for the 10th time: full",
        "book: goes on after 11 pauses",
        "book: paused for 1 s: full",
    ] == caplog.messages


def test_an_equal_warning_is_counted_and_not_repeated(caplog: pytest.LogCaptureFixture) -> None:
    log = LogEvents()
    for _ in range(12):
        log(Warned(text="100 % full", queue="IN"))
    log(Warned(text="empty"))

    assert ["100 % full", "100 % full (10 times)", "empty"] == caplog.messages


def test_a_record_has_no_field_without_a_value(caplog: pytest.LogCaptureFixture) -> None:
    LogEvents()(Warned(text="empty"))

    [record] = caplog.records
    assert {"event": "Warned"} == {name: getattr(record, name) for name in LOG_FIELDS if hasattr(record, name)}


def test_a_message_that_stays_is_one_line_however_often_its_move_fails(caplog: pytest.LogCaptureFixture) -> None:
    log = LogEvents()
    attempts = (Attempt(Return("no queue takes it")),)
    for _ in range(3):
        log(
            Disposed(
                queue="IN", message_id=b"\x01", listener="book", backout_count=2, attempts=attempts, outcome=Failed("KeyError")
            )
        )

    assert ["IN: message 01 failed 2 times, still on IN: KeyError"] == caplog.messages


async def test_a_message_that_is_handled_is_no_line(mq: QueueManagerKit, caplog: pytest.LogCaptureFixture) -> None:
    mq.mqsc("DEFINE QLOCAL('IN') BOTHRESH(2) BOQNAME('BAD')", "DEFINE QLOCAL('BAD')", "DEFINE QLOCAL('OUT')")
    app = App()

    @app.listener("IN")
    async def handle(body: bytes, ctx: Context) -> None:
        await ctx.put("OUT", body)

    with caplog.at_level(logging.INFO, "mqflow"):
        await moved(mq, app, b"an order", "OUT")

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
