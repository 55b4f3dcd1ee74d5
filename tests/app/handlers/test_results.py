"""The result of a handler without a publisher and without a ReplyToQ goes nowhere. A warning names it once."""

import logging
from collections.abc import Callable
from typing import Any, NoReturn

import anyio
import pytest

from mqflow import App, Message
from mqflow.app.handlers.handler import Handler
from mqflow.events import Warned
from mqflow.policy.poison.disposition import Completed, Outcome
from mqflow.testing.kit import QueueManagerKit
from tests.running import defining, run_for

queues = defining("OUT", "BOQ", bothresh=3, boqname="BOQ")


def said(mq: QueueManagerKit) -> list[str]:
    return [event.text for event in mq.told(Warned) if "goes nowhere" in event.text]


@pytest.mark.mq_backend("asyncio", "trio")
async def test_a_result_that_goes_nowhere_is_reported_once(mq: QueueManagerKit) -> None:
    app = App()

    @app.listener("IN")
    async def book(body: str) -> dict[str, str]:
        return {"booked": body}

    async with mq.run(app):
        for body in ("one", "two"):
            await mq.put("IN", body)
        await anyio.sleep(5)

    [text] = said(mq)
    assert f"{__name__}.{test_a_result_that_goes_nowhere_is_reported_once.__qualname__}.<locals>.book returned a dict" in text
    assert "Declare @app.publisher('...') for the handler, or return None" in text
    assert ([], []) == (mq.browse("IN"), mq.browse("BOQ"))


@pytest.mark.mq_backend("asyncio", "trio")
@pytest.mark.parametrize("goes_to", ["publisher", "ReplyToQ", "nowhere"])
async def test_a_result_that_is_sent_is_not_reported(mq: QueueManagerKit, goes_to: str) -> None:
    app = App()

    async def book(body: str) -> str | None:
        return body if goes_to != "nowhere" else None

    app.listener("IN")(app.publisher("OUT")(book) if goes_to == "publisher" else book)
    await run_for(mq, 5, app, "one", reply_to_queue="OUT" if goes_to == "ReplyToQ" else "")

    assert [] == said(mq)
    assert (0 if goes_to == "nowhere" else 1) == len(mq.browse("OUT"))


@pytest.mark.mq_backend("asyncio", "trio")
async def test_a_batch_with_one_request_is_answered_and_not_reported(mq: QueueManagerKit) -> None:
    app = App()

    @app.listener("IN")
    async def book(bodies: list[str]) -> int:
        return len(bodies)

    await mq.put("IN", "one")
    await mq.put("IN", "two", reply_to_queue="OUT")
    await run_for(mq, 5, app)

    assert [] == said(mq)
    assert [b"2"] == [found.body for found in mq.browse("OUT")]


@pytest.mark.mq_backend("asyncio", "trio")
@pytest.mark.parametrize("published", [False, True])
async def test_the_start_says_it_if_the_annotation_shows_it(
    mq: QueueManagerKit, caplog: pytest.LogCaptureFixture, *, published: bool
) -> None:
    app = App()

    async def book(body: str) -> dict[str, str]:
        return {"booked": body}

    app.listener("IN")(app.publisher("OUT")(book) if published else book)
    with caplog.at_level(logging.INFO, "mqflow"):
        await run_for(mq, 1, app)

    lines = [record.message for record in caplog.records if "goes nowhere" in record.message]
    assert (0 if published else 1) == len(lines)
    assert all("book returns dict[str, str] and has no publisher" in line for line in lines)


def returns_nothing(message: Message) -> None: ...


def returns_an_outcome(message: Message) -> Outcome:
    raise NotImplementedError


def returns_completed_or_none(message: Message) -> Completed | None:
    raise NotImplementedError


def never_returns(message: Message) -> NoReturn:
    raise NotImplementedError


def says_nothing(message: Message):  # type: ignore[no-untyped-def]  # noqa: ANN201 - the case
    raise NotImplementedError


def returns_anything(message: Message) -> Any:
    raise NotImplementedError


def returns_a_text(message: Message) -> str:
    raise NotImplementedError


def may_return_a_text(message: Message) -> str | None:
    raise NotImplementedError


def returns_a_text_or_an_outcome(message: Message) -> str | Completed:
    raise NotImplementedError


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (returns_nothing, ""),
        (returns_an_outcome, ""),
        (returns_completed_or_none, ""),
        (never_returns, ""),
        (says_nothing, ""),
        (returns_anything, ""),
        (returns_a_text, "str"),
        (may_return_a_text, "str | None"),
    ],
)
def test_the_annotation_shows_a_payload(function: Callable[..., object], expected: str) -> None:
    assert expected == Handler(function, where=None, codec=None).result_type


def test_an_annotation_of_a_payload_or_an_outcome_shows_a_payload() -> None:
    assert "str" in Handler(returns_a_text_or_an_outcome, where=None, codec=None).result_type
