"""The log of `mqflow run`: a line on a terminal, a line in a file, and JSON with the fields of the message."""

import io
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mqflow import App, Incoming, Message, Outcome, Reject
from mqflow.app.handlers.middleware import Call
from mqflow.cli.text.log_lines import LogFormat, NameTheMessage, log_handler
from mqflow.events import Attempt, Disposed
from mqflow.policy.poison.disposition import Failed, Requeue
from mqflow.policy.poison.failure_origin import raised_by
from mqflow.runtime.hooks import LogEvents
from mqflow.testing.kit import QueueManagerKit

MESSAGE_ID = bytes(range(24))
Written = Callable[[], str]


@pytest.fixture
def log() -> Iterator[Callable[..., Written]]:
    """Give a function that sends the log of mqflow to a text in this format, and returns the function that reads the text."""
    added: list[logging.Handler] = []

    def start(log_format: LogFormat, columns: int | None = None) -> Written:
        stream = io.StringIO()
        added.append(log_handler(log_format, stream, columns=None if columns is None else lambda: columns))
        logging.getLogger("mqflow").addHandler(added[-1])
        return stream.getvalue

    yield start
    for handler in added:
        logging.getLogger("mqflow").removeHandler(handler)


def ended(error: Exception, message_id: bytes = MESSAGE_ID) -> Disposed:
    outcome = Failed(type(error).__name__, str(error), raised=raised_by(error))
    attempts = (Attempt(Requeue("ORDERS.BOQ")),)
    return Disposed(
        queue="ORDERS.IN", message_id=message_id, listener="book", backout_count=3, attempts=attempts, outcome=outcome
    )


def raised(text: str) -> Exception:
    try:
        raise ValueError(text)  # noqa: TRY301 - the traceback needs a line that raises
    except ValueError as error:
        return error


@pytest.mark.parametrize("columns", [80, 0])
def test_no_line_on_a_terminal_is_wider_than_the_terminal(log: Callable[..., Written], columns: int) -> None:
    written = log("console", columns)

    LogEvents()(ended(raised("no order " * 40)))

    first, *frames = written().splitlines()
    assert "!  ORDERS.IN: ..121314151617 failed 3 times, on ORDERS.BOQ now: Value" in first
    assert (80, True) == (len(first), first.endswith("…"))
    assert any("raise ValueError(text)" in line for line in frames)
    assert 80 >= max(map(len, frames))


def test_the_same_failure_has_its_traceback_once_on_a_terminal(log: Callable[..., Written]) -> None:
    written = log("console", 200)
    tell = LogEvents()

    for number in range(3):
        tell(ended(raised("no order"), bytes([number]) * 24))

    assert (3, 1) == (written().count(" failed 3 times"), written().count("raise ValueError(text)"))


async def test_a_terminal_shows_the_exception_of_each_message_that_a_codec_refuses(
    mq: QueueManagerKit, log: Callable[..., Written]
) -> None:
    mq.mqsc("DEFINE QLOCAL('ORDERS.IN') BOTHRESH(2) BOQNAME('ORDERS.BAD')", "DEFINE QLOCAL('ORDERS.BAD')")
    written = log("console", 80)
    app = App()

    @app.listener("ORDERS.IN")
    async def handle(order: dict[str, int]) -> None:
        """Get none of these."""

    async with mq.run(app):
        for body in (b"oops", b"{"):
            await mq.put("ORDERS.IN", body)
        await mq.drain("ORDERS.BAD")

    lines = written().splitlines()
    assert [True, False, True, False] == [line.endswith("…") for line in lines]
    assert "msgspec.DecodeError: JSON is malformed: invalid character (byte 0)" == lines[1]
    assert "msgspec.DecodeError: Input data was truncated" == lines[3]


@pytest.mark.parametrize(("log_format", "columns"), [("console", None), ("console", 80), ("json", None)])
def test_the_text_of_an_exception_writes_no_line_and_no_escape_of_its_own(
    log: Callable[..., Written], log_format: LogFormat, columns: int | None
) -> None:
    written = log(log_format, columns)
    outcome = Failed("ValueError", "x\n2026-01-01 ERROR all is lost \x1b[2J")
    attempts = (Attempt(Requeue("BOQ")),)

    LogEvents()(Disposed(queue="Q", message_id=b"1", listener="l", backout_count=1, attempts=attempts, outcome=outcome))

    assert 1 == len(written().splitlines())
    assert "\x1b" not in written()


def test_a_line_of_a_file_has_the_whole_identifier_and_the_process(log: Callable[..., Written]) -> None:
    written = log("console")

    LogEvents()(ended(raised("no order")))

    assert f"mqflow.poison: ORDERS.IN: message {MESSAGE_ID.hex()} failed 3 times, on ORDERS.BOQ now: " in written()


def logged_at_seven(name: str, text: str, level: int = logging.INFO) -> logging.LogRecord:
    record = logging.LogRecord(name, level, "shop.py", 1, text, (), None)
    record.created, record.process = 1_795_000_000.0625, 7
    return record


def test_each_format_has_its_whole_line() -> None:
    streams = [io.StringIO() for _ in range(3)]
    handlers = (
        log_handler("json", streams[0], columns=None),
        log_handler("console", streams[1], columns=None),
        log_handler("console", streams[2], columns=lambda: 17),
    )
    for handler in handlers:
        handler.handle(logged_at_seven("mqflow.shop", "booked it\nat once", logging.ERROR))

    as_json, plain, shown = (stream.getvalue() for stream in streams)
    head = {"time": "2026-11-18T11:06:40.062Z", "level": "error", "logger": "mqflow.shop", "process": 7}
    assert head | {"text": "booked it\nat once"} == json.loads(as_json)
    assert " ERROR   7 mqflow.shop: booked it\nat once\n" == plain[23:]
    assert " !! book…\nat once\n" == shown[8:]


def test_a_line_as_wide_as_the_terminal_is_not_cut() -> None:
    stream = io.StringIO()
    log_handler("console", stream, columns=lambda: 20).handle(logged_at_seven("shop", "12345678"))

    assert "    12345678\n" == stream.getvalue()[8:]


def test_on_a_terminal_a_line_of_a_worker_process_begins_with_its_number() -> None:
    stream = io.StringIO()
    handler = log_handler("console", stream, columns=lambda: 20, worker="2")
    handler.handle(logged_at_seven("shop", "1234567", logging.WARNING))

    assert " 2 !  12345…\n" == stream.getvalue()[8:]


def test_the_fields_of_a_record_come_first_and_stay_as_they_are() -> None:
    stream = io.StringIO()
    record = logged_at_seven("mqflow.shop", "booked")
    record.order, record.listener = 7, "own"
    log_handler("json", stream, columns=None).handle(record)

    fields = list(json.loads(stream.getvalue()).items())
    assert ["time", "level", "logger", "process", "text", "listener", "order"] == [name for name, _ in fields]
    assert [("listener", "own"), ("order", 7)] == fields[-2:]


def test_a_json_line_has_the_fields_of_the_event_and_the_traceback(log: Callable[..., Written]) -> None:
    written = log("json")

    LogEvents()(ended(raised("no order")))

    [line] = written().splitlines()
    record: dict[str, Any] = json.loads(line)
    fields = ("level", "event", "queue", "message_id", "listener", "worker", "backout_count")
    assert ["warning", "Disposed", "ORDERS.IN", MESSAGE_ID.hex(), "book", 0, 3] == [record[name] for name in fields]
    assert record["traceback"].endswith("ValueError: no order")
    assert ("Z", "mqflow.poison") == (record["time"][-1], record["logger"])


def test_a_json_line_has_the_extra_fields_of_the_application(log: Callable[..., Written]) -> None:
    written = log("json")

    logging.getLogger("mqflow.shop").error("booked %s", "it", extra={"order": 7, "place": {1}})

    record = json.loads(written())
    assert ("booked it", 7, "{1}") == (record["text"], record["order"], record["place"])
    assert not {"args", "msg", "message", "levelno", "exc_info"} & record.keys()


class Tracer:
    """A middleware that traces each delivery, inside of `NameTheMessage`."""

    async def consume(self, delivery: Incoming, call_next: Call) -> Outcome:
        delivery.belongs_to_trace("ab" * 16)
        return await call_next(delivery)


async def test_the_lines_of_a_handler_name_its_message_and_no_other_line_does(
    mq: QueueManagerKit, log: Callable[..., Written]
) -> None:
    mq.mqsc("DEFINE QLOCAL('IN') BOTHRESH(2) BOQNAME('BAD')", "DEFINE QLOCAL('BAD')")
    written = log("json")
    app = App(middleware=[NameTheMessage(), Tracer()])
    own = logging.getLogger("mqflow.shop")

    @app.listener("IN")
    def handle(message: Message) -> None:
        own.warning("booking", extra={"listener": "its own"})
        raise Reject("a secret body")

    async with mq.run(app):
        put = await mq.put("IN", b"the body")
        await mq.drain("BAD")
    own.warning("closed")

    booking, ended, closed = [json.loads(line) for line in written().splitlines()]
    message_id = put.descriptor.message_id.hex()
    assert ("IN", message_id, "its own") == (booking["queue"], booking["message_id"], booking["listener"])
    assert ("ab" * 16, "ab" * 16, "Disposed") == (booking["trace_id"], ended["trace_id"], ended["event"])
    assert not {"queue", "message_id", "trace_id"} & closed.keys()
    assert "the body" not in written()
