"""The answers of the console to requests that it cannot carry out: the status and the sentence of each."""

import re
from html import unescape
from importlib.resources import files
from urllib.parse import urlencode

import anyio
import httpx
import pytest

from mqflow.cli.console import views
from mqflow.cli.console.access import Session
from mqflow.cli.console.changes import _EDIT_BYTES_MAX
from mqflow.cli.console.views import _FORM_BYTES_MAX, _IDENTITY_BYTES, live_events
from tests.cli.console.conftest import Bench, Browser

pytestmark = pytest.mark.anyio

NO_PAGE = "The console has no such page. If it is read-only, it has no page that changes anything."
WRONG_ID = "A MsgId has 48 hexadecimal digits. Search finds a message by some of them."
NO_QUEUE = "The address names no queue. Choose one on the overview."
GONE = f"No message on ORDERS.BOQ has the MsgId {'ab' * 24}: it has left the queue."
UNKNOWN = "MQOPEN on NOWHERE (QM1) failed: MQRC_UNKNOWN_OBJECT_NAME (2085)."


def said(answer: httpx.Response) -> tuple[int, str]:
    """Return the status and the sentence of a refusal."""
    [sentence] = re.findall(r'role="alert">(.*?)</p>', answer.text, re.DOTALL)
    return answer.status_code, unescape(sentence)


@pytest.mark.parametrize(
    ("method", "path", "status", "why"),
    [
        ("GET", "/nowhere", 404, NO_PAGE),
        ("GET", "/static/console.html", 404, NO_PAGE),
        ("POST", "/queue", 405, "This page does not take such a request."),
        ("GET", "/queue", 409, NO_QUEUE),
        ("GET", "/message?queue=ORDERS.BOQ&id=abc", 409, WRONG_ID),
        ("GET", f"/message?queue=ORDERS.BOQ&id={'ab' * 23}", 409, WRONG_ID),
        ("GET", f"/message?queue=ORDERS.BOQ&id={'ab' * 25}", 409, WRONG_ID),
        ("GET", f"/message?queue=ORDERS.BOQ&id={'ab' * 24}", 404, GONE),
        ("GET", f"/message?queue=ORDERS.BOQ&id={'00' * 24}", 409, WRONG_ID),
        ("GET", f"/message?id={'ab' * 24}", 409, NO_QUEUE),
        ("GET", "/story?id=zz", 409, WRONG_ID),
        ("GET", "/queue?queue=NOWHERE", 409, UNKNOWN),
    ],
)
async def test_a_request_that_cannot_be_answered_is_a_sentence(
    bench: Bench, method: str, path: str, status: int, why: str
) -> None:
    browser = await bench.browser().log_in()

    code, sentence = said(await browser.request(method, path))

    assert (status, True) == (code, sentence.startswith(why)), sentence


@pytest.mark.parametrize(
    ("content", "status", "why"),
    [
        (b"&".join(b"f%d=1" % number for number in range(20)), 403, "This is not the token of this console."),
        (b"&".join(b"f%d=1" % number for number in range(21)), 400, "The request was refused."),
        (b"person=\xff", 400, "The request was refused."),
        (b"x" * (8 * 1024 * 1024), 403, "This is not the token of this console."),
        (b"x" * (8 * 1024 * 1024 + 1), 413, "The form is too large."),
    ],
    ids=["20 fields", "21 fields", "no text", "8 MiB", "a byte more"],
)
async def test_a_form_has_a_greatest_size_and_number_of_fields(bench: Bench, content: bytes, status: int, why: str) -> None:
    answer = await bench.browser(may_change=False).post("/login", content=content)

    assert (status, True) == (answer.status_code, why in unescape(answer.text))


@pytest.mark.parametrize("letter", ["\u00e9", "\r\n"])
def test_a_form_has_room_for_the_longest_body_that_can_be_edited(letter: str) -> None:
    """A letter of one byte, as in CCSID 819, becomes six characters; so does a line end."""
    thousand = urlencode({"body": letter * 1_000})

    assert len(thousand) * _EDIT_BYTES_MAX // 1_000 < _FORM_BYTES_MAX


async def test_a_form_of_another_session_is_refused_with_the_remedy(bench: Bench) -> None:
    browser = await bench.browser().log_in()

    refused = await browser.post("/redrive", data={"queue": "ORDERS.BOQ", "csrf": "another"})

    assert (403, "The form is too old, or does not come from this session. Load its page again.") == said(refused)


async def test_messages_of_the_tables_are_not_moved_by_a_console_without_tables(bench: Bench) -> None:
    bench.fail(b"order")
    browser = await bench.browser().log_in()
    [csrf, *_] = re.findall(r'name="csrf" value="([^"]*)"', (await browser.get("/")).text)

    refused = await browser.post("/redrive", data={"queue": "ORDERS.BOQ", "csrf": csrf, "number": "failed/7"})

    why = "The form names messages of the tables, and this console has no --tables. Nothing was moved."
    assert ((409, why), (1, 0)) == (said(refused), bench.depths("ORDERS.BOQ", "ORDERS.IN"))


async def test_a_defect_of_the_console_is_named_without_its_details(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise KeyError("secret")

    app = bench.app()
    browser = await Browser(app, bench.access.token).log_in()
    browser._transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    monkeypatch.setattr(bench.desk, "overview", broken)

    assert (500, "The console has a defect (KeyError). Its log has the traceback.") == said(await browser.get("/"))


@pytest.mark.parametrize(("name", "kind"), [("console.css", "text/css"), ("console.js", "text/javascript")])
async def test_the_style_and_the_script_are_files_of_the_console(bench: Bench, name: str, kind: str) -> None:
    answer = await bench.browser().get(f"/static/{name}")

    content = (files("mqflow.cli.console") / "static" / name).read_bytes()
    assert (200, True, content) == (answer.status_code, answer.headers["content-type"].startswith(kind), answer.content)


async def test_the_last_fifty_plans_can_be_carried_out(bench: Bench) -> None:
    browser = await bench.browser().log_in()
    bench.fail(b"order")
    page = await browser.get("/queue?queue=ORDERS.BOQ")
    plans = [await browser.press(page, "Redrive this group...") for _ in range(51)]

    oldest = await browser.press(plans[0], "Move 1 message")
    kept = await browser.press(plans[1], "Move 1 message")

    why = "This plan is carried out already, or too old. Nothing was moved now. Look at the queue again."
    assert ((409, why), 200, (0, 1)) == (said(oldest), kept.status_code, bench.depths("ORDERS.BOQ", "ORDERS.IN"))


def test_one_tab_can_carry_out_a_plan_while_another_tab_makes_one(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = views._Pages(bench.desk, bench.access, bench.changes, None, place="", places=())
    session, plan = Session("amelie", "secret", 1.0), bench.changes.plan_redrive("ORDERS.BOQ")
    first = pages._keep(session, plan)
    # The console counts the bytes of each plan in turn: the other tab is faster than the count.
    monkeypatch.setattr(views._Planned, "bytes_held", property(lambda _: int(pages._plans.pop(first, None) is None)))

    assert [pages._keep(session, plan)] == list(pages._plans)


async def test_plans_of_large_queues_are_dropped_before_they_fill_the_memory(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "_PLANS_BYTES_MAX", 5 * _IDENTITY_BYTES)
    browser = await bench.browser().log_in()
    for _ in range(3):
        bench.fail(b"order")
    page = await browser.get("/queue?queue=ORDERS.BOQ")
    older, newer = [await browser.press(page, "Redrive this group...") for _ in range(2)]

    dropped = await browser.press(older, "Move 3 messages")
    kept = await browser.press(newer, "Move 3 messages")

    why = "This plan is carried out already, or too old. Nothing was moved now. Look at the queue again."
    assert ((409, why), 200, (0, 3)) == (said(dropped), kept.status_code, bench.depths("ORDERS.BOQ", "ORDERS.IN"))


async def test_a_plan_that_is_larger_than_the_limit_is_kept_until_the_next_plan(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "_PLANS_BYTES_MAX", 1)
    browser = await bench.browser().log_in()
    bench.fail(b"order")
    plan = await browser.press(await browser.get("/queue?queue=ORDERS.BOQ"), "Redrive this group...")

    assert 200 == (await browser.press(plan, "Move 1 message")).status_code


@pytest.mark.parametrize(("person", "shown"), [("amelie", 303), ("  ", 403)])
async def test_a_person_that_may_change_messages_has_a_name(bench: Bench, person: str, shown: int) -> None:
    answer = await bench.browser().post("/login", data={"person": person, "token": bench.access.token})
    reader = await bench.browser(may_change=False).post("/login", data={"person": person, "token": bench.access.token})

    assert (shown, 303) == (answer.status_code, reader.status_code)
    assert (shown == 403) is ("Type your name: the audit log has it beside each change." in answer.text)


async def test_the_story_of_a_message_need_not_be_on_a_queue(bench: Bench) -> None:
    browser = await bench.browser().log_in()

    page = (await browser.get(f"/story?id={'ab' * 24}")).text

    assert f'<h1>Story of <span class="hex">{"ab" * 24}</span></h1>' in page
    assert f"no decision ledger at {bench.settings.ledger.file}" in page


async def test_the_overview_is_sent_again_every_two_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(anyio, "sleep", pause)
    is_open = iter([True, True, False])

    assert 2 == len([event async for event in live_events(lambda: "x", lambda: next(is_open))])
    assert [2.0, 2.0] == pauses
