"""The pages of the console over HTTP, in process: what each shows, and what a change moves."""

import json
import re
from collections.abc import MutableMapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from starlette.types import ASGIApp

from mqflow import App
from mqflow.cli.console.views import live_events
from mqflow.cli.watching.named_applications import every_report
from mqflow.cli.watching.status_report import StatusReport
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, OpenOption
from mqflow.policy.health.judge import judge
from mqflow.policy.health.records import ApplicationStatus, Doing, ListenerStatus, ProcessStatus, WorkerStatus
from mqflow.testing.dead_letters import put_dead_letter
from mqflow.verbs import GetOptions
from tests.cli.console.conftest import TEXT, UNDECODABLE, Bench, Browser

pytestmark = pytest.mark.anyio


async def test_the_overview_has_the_queue_that_is_red_first(bench: Bench) -> None:
    bench.fail(b"order 1")
    browser = await bench.browser().log_in()

    page = (await browser.get("/")).text

    names = re.findall(r'href="/queue\?queue=([\w.]+)"', page)
    assert ["ORDERS.BOQ", "DEAD.LETTERS", "ORDERS.IN"] == names
    assert "backout queue of ORDERS.IN" in page
    assert "BOTHRESH&nbsp;1 BOQNAME&nbsp;ORDERS.BOQ MAXDEPTH&nbsp;5,000" in page


async def test_a_stuck_application_is_named_once_with_its_stack_above_the_queues(bench: Bench) -> None:
    worker = WorkerStatus(number=0, doing=Doing.HANDLING, since=0.0, message_id="AB", stack='File "<shop.py>", in book')
    listener = ListenerStatus(name="book", queue="ORDERS.IN", concurrency=1, workers=(worker,))
    process = ProcessStatus(process=71, taken_at=61.0, ready=True, listeners=(listener,))
    status = ApplicationStatus(application="orders", process=70, processes=(process,))
    bench.reports.append(StatusReport(status=status, health=judge(status), queues=()))
    browser = await bench.browser().log_in()

    above, _, below = (await browser.get("/")).text.partition("<h2>Queues</h2>")

    assert "<summary>orders: Worker 0 of book in process 71 has been in its handler for 61 s, above 60 s" in above
    assert "File &#34;&lt;shop.py&gt;&#34;, in book\n</pre>" in above
    assert "above 60 s" not in below


async def test_the_page_offers_no_edit_if_two_messages_have_the_identifier(bench: Bench) -> None:
    twin = MessageDescriptor(format="MQSTR", ccsid=1208, message_id=b"\xab" * 24)
    browser = await bench.browser().log_in()

    offers = []
    for _ in range(2):
        bench.fail(b"same", descriptor=twin)
        page = (await browser.get(f"/message?queue=ORDERS.BOQ&id={'ab' * 24}")).text
        offers.append("Edit and redrive..." in page)

    assert [True, False] == offers


@pytest.mark.parametrize("address", ["/", "/queue?queue=ORDERS.BOQ", "/search"])
async def test_the_instructions_of_a_template_leave_no_empty_lines(bench: Bench, address: str) -> None:
    bench.fail(b"order 1")
    browser = await bench.browser().log_in()

    main = (await browser.get(address)).text.partition("<main")[2]

    assert "</main>" in main
    assert "" not in main.partition("</main>")[0].splitlines()


@pytest.mark.parametrize("address", ["/", "/connections"])
async def test_a_folder_of_control_sockets_that_cannot_be_read_is_named_and_the_rest_of_the_page_is_there(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, address: str
) -> None:
    monkeypatch.setenv("MQFLOW_CONTROL_FOLDER", str(tmp_path / "missing" / "control"))
    monkeypatch.setattr(bench.desk, "_reports", partial(every_report, None))
    browser = await bench.browser().log_in()

    answer = await browser.get(address)

    assert (200, True) == (answer.status_code, {"/": "ORDERS.BOQ", "/connections": "mqflow console"}[address] in answer.text)
    assert f"The control sockets cannot be read: [Errno 2] No such file or directory: &#39;{tmp_path}/missing" in answer.text
    assert "No application of this user runs" not in answer.text


async def test_a_queue_shows_its_failure_groups_with_reason_exception_and_frame(bench: Bench) -> None:
    for _ in range(3):
        bench.fail(b"order")
    bench.fail(b"{", UNDECODABLE)
    browser = await bench.browser().log_in()

    page = (await browser.get("/queue?queue=ORDERS.BOQ")).text

    assert "4 messages in 2 groups." in page
    assert page.index("3 messages: ValueError") < page.index("1 message: DecodeError")
    assert "raised at shop.py:9 in book" in page
    assert f'aria-label="Trend of the group, the newest last: {"0, " * 23}3"' in page
    assert ["3 in the last minute, 0 in the minute before"] == re.findall(r"[^>]* in the minute before", page)


async def test_a_message_has_its_descriptor_headers_text_dump_and_reason(bench: Bench) -> None:
    put_dead_letter(bench.connection, "DEAD.LETTERS", b"an order", queue="ORDERS.IN", descriptor=TEXT)
    browser = await bench.browser().log_in()
    queue = (await browser.get("/queue?queue=DEAD.LETTERS")).text
    [address] = re.findall(r'href="(/message[^"]*)"', queue)

    page = (await browser.get(address.replace("&amp;", "&"))).text

    for shown in ("an order", "616e206f 72646572", "Message descriptor (MQMD)", "MQDLH", "MQRC_Q_FULL (2053)", "Story"):
        assert shown in page


@pytest.mark.parametrize("text", ["price: 7", "end of identifier", "corr"])
async def test_a_search_finds_a_message_by_each_of_its_parts(bench: Bench, text: str) -> None:
    bench.fail(b"another")
    found = bench.fail(b"the price: 7 EUR", descriptor=MessageDescriptor(format="MQSTR", ccsid=1208, correlation_id=b"c" * 24))
    sought = {"end of identifier": found.hex()[-9:], "corr": (b"c" * 5).hex()}.get(text, text)
    browser = await bench.browser().log_in()

    page = (await browser.get("/search", params={"text": sought})).text

    assert [found.hex()] == re.findall(r'class="hex" [^>]*>(\w+)<', page)


async def test_a_group_is_redriven_in_three_clicks_and_no_other_message_moves(bench: Bench) -> None:
    for number in range(3):
        bench.fail(b"order %d" % number)
    bench.fail(b"{", UNDECODABLE)
    browser = await bench.browser().log_in()
    overview = await browser.get("/")
    assert '"/queue?queue=ORDERS.BOQ"' in overview.text

    page = await browser.get("/queue?queue=ORDERS.BOQ")  # the first click
    group = page.text.split('aria-labelledby="g-')[1]
    name = group[:16]
    csrf = re.findall(r'name="csrf" value="([^"]*)"', group)[0]
    plan = await browser.post("/redrive", data={"csrf": csrf, "queue": "ORDERS.BOQ", "group": name})  # the second
    assert (4, 0) == bench.depths("ORDERS.BOQ", "ORDERS.IN")
    bench.fail(b"it came later")
    done = await browser.press(plan, "Move 3 messages")  # the third

    assert "3 messages moved" in done.text
    assert (2, 3) == bench.depths("ORDERS.BOQ", "ORDERS.IN")


async def test_a_plan_is_carried_out_once(bench: Bench) -> None:
    bench.fail(b"order")
    browser = await bench.browser().log_in()
    page = await browser.get("/queue?queue=ORDERS.BOQ")
    plan = await browser.press(page, "Redrive this group...")

    first = await browser.press(plan, "Move 1 message")
    again = await browser.press(plan, "Move 1 message")

    assert (200, 409) == (first.status_code, again.status_code)
    assert "carried out already" in again.text


async def test_the_result_counts_the_messages_that_left_before_the_change(bench: Bench) -> None:
    bench.fail(b"taken")
    bench.fail(b"stays")
    browser = await bench.browser().log_in()
    plan = await browser.press(await browser.get("/queue?queue=ORDERS.BOQ"), "Redrive this group...")
    handle = bench.connection.open("ORDERS.BOQ", OpenOption.INPUT_SHARED)
    bench.connection.get(handle, GetOptions(options=GetOption.NO_SYNCPOINT))

    done = await browser.press(plan, "Move 2 messages")

    assert "1 message moved" in done.text
    assert "1 message of the plan had left the queue meanwhile." in done.text


async def test_a_refused_target_is_named_and_the_message_stays(bench: Bench) -> None:
    bench.fail(b"order")
    browser = await bench.browser().log_in()
    page = await browser.get("/queue?queue=ORDERS.BOQ")
    plan = await browser.press(page, "Redrive this group...", to="NO.SUCH.QUEUE")

    done = await browser.press(plan, "Move 1 message")

    assert "0 messages moved" in done.text
    assert "MQRC_UNKNOWN_OBJECT_NAME (2085)" in done.text
    assert (1,) == bench.depths("ORDERS.BOQ")


async def test_each_change_has_two_lines_in_the_audit_log(bench: Bench) -> None:
    bench.fail(b"order")
    browser = await bench.browser().log_in()
    plan = await browser.press(await browser.get("/queue?queue=ORDERS.BOQ"), "Redrive this group...")
    assert "" == bench.audit.read_text()  # a dry run is no change

    await browser.press(plan, "Move 1 message")

    began, ended = map(json.loads, bench.audit.read_text().splitlines())
    assert ("began", "redrive", "amelie", "ORDERS.BOQ", 1) == tuple(
        began[name] for name in ("event", "action", "by", "queue", "messages")
    )
    assert ("ended", 1, 0, 0, "") == tuple(ended[name] for name in ("event", "moved", "stayed", "gone", "error"))
    assert 0o600 == bench.audit.stat().st_mode & 0o777


async def test_nothing_moves_if_the_audit_log_takes_no_line(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.fail(b"order")
    browser = await bench.browser().log_in()
    plan = await browser.press(await browser.get("/queue?queue=ORDERS.BOQ"), "Redrive this group...")

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("mqflow.cli.console.audit.os.write", full)
        answer = await browser.press(plan, "Move 1 message")

    assert "so nothing was moved: No space left on device." in answer.text
    assert (1, 0) == bench.depths("ORDERS.BOQ", "ORDERS.IN")


async def test_an_edited_message_is_put_back_as_one_copy(bench: Bench) -> None:
    identifier = bench.fail(b'{"number": "7"}\n<b>\n').hex()
    browser = await bench.browser().log_in()
    form = await browser.get(f"/edit?queue=ORDERS.BOQ&id={identifier}")
    assert "&lt;b&gt;\n</textarea>" in form.text

    plan = await browser.press(form, "Compare...", body='{"number": 7}\r\n<b>\r\n')
    assert (1, 0) == bench.depths("ORDERS.BOQ", "ORDERS.IN")
    done = await browser.press(plan, "Put the edited message")

    assert "1 message moved" in done.text
    handle = bench.connection.open("ORDERS.IN", OpenOption.INPUT_SHARED)
    got = bench.connection.get(handle, GetOptions(options=GetOption.NO_SYNCPOINT))
    assert got is not None
    assert (b'{"number": 7}\n<b>\n', identifier) == (got.body, got.descriptor.message_id.hex())
    assert (0, 0) == bench.depths("ORDERS.BOQ", "ORDERS.IN")
    assert '"action":"edit"' in bench.audit.read_text()


async def test_an_edited_body_that_its_handler_cannot_read_is_not_put_and_can_be_edited_again(bench: Bench) -> None:
    app = App()

    @app.listener("ORDERS.IN")
    async def book(order: dict[str, int]) -> None: ...

    bench.use(app)
    identifier = bench.fail(b'{"number": "7"}').hex()
    browser = await bench.browser().log_in()
    form = await browser.get(f"/edit?queue=ORDERS.BOQ&id={identifier}")

    refused = await browser.press(form, "Compare...", body='{"number": "<8>"}')
    plan = await browser.press(refused, "Compare...", body='{"number": 7}')

    assert 409 == refused.status_code
    assert "book does not take it" in refused.text
    assert "--debug" not in refused.text
    assert "{&#34;number&#34;: &#34;&lt;8&gt;&#34;}</textarea>" in refused.text
    assert "1 message moved" in (await browser.press(plan, "Put the edited message")).text


@pytest.mark.parametrize("body", [b"\xff\x00", b"a\r\nb\n", b"bell \x07"], ids=["no text", "mixed line ends", "control"])
async def test_a_body_that_a_form_cannot_give_back_is_not_edited(bench: Bench, body: bytes) -> None:
    identifier = bench.fail(body, descriptor=MessageDescriptor()).hex()
    browser = await bench.browser().log_in()

    answer = await browser.get(f"/edit?queue=ORDERS.BOQ&id={identifier}")

    assert 409 == answer.status_code
    assert "mqflow capture" in answer.text


async def test_the_overview_comes_as_server_sent_events_until_the_session_ends(bench: Bench) -> None:
    answers = iter(["<p>\nfirst</p>", "second"])
    is_open = iter([True, True, False])

    events = [event async for event in live_events(lambda: next(answers), lambda: next(is_open), 0)]

    assert [b"event: overview\ndata: <p>\ndata: first</p>\n\n", b"event: overview\ndata: second\n\n"] == events


async def test_a_lost_queue_manager_is_an_event_and_the_stream_goes_on(bench: Bench) -> None:
    is_open = iter([True, False])

    def lost() -> str:
        raise ConnectionResetError(104, "Connection reset by peer")

    events = [event async for event in live_events(lost, lambda: next(is_open), 0)]

    assert [b"event: trouble\ndata: Connection reset by peer.\n\n"] == events


async def test_the_plots_are_drawn_from_the_second_look_on(bench: Bench) -> None:
    browser = await bench.browser().log_in()
    first = (await browser.get("/")).text
    bench.fail(b"order")
    bench.clock.advance(5)
    second = (await browser.get("/")).text

    assert "<svg" not in first
    rises, flat = "0.0,27.0 120.0,1.0", "0.0,27.0 120.0,27.0"
    assert [
        ("Depth of ORDERS.BOQ", rises),
        ("Age of the oldest message of ORDERS.BOQ", rises),
        ("Depth of DEAD.LETTERS", flat),
        ("Depth of ORDERS.IN", flat),
    ] == re.findall(r'<svg[^>]* aria-label="([^"]*)"[^>]*><polyline points="([^"]*)"/>', second)


class Stream:
    """A browser that reads the live overview of the console until it goes away."""

    def __init__(self, app: ASGIApp, cookies: httpx.Cookies, query: bytes = b"") -> None:
        self._app = app
        cookie = "; ".join(f"{name}={value}" for name, value in cookies.items())
        self._scope = {
            "type": "http", "method": "GET", "scheme": "http", "path": "/live", "raw_path": b"/live", "query_string": query,
            "headers": [(b"host", b"localhost:8161"), (b"cookie", cookie.encode())],
        }  # fmt: skip
        self.status = 0
        self.body = b""
        self.answered = anyio.Event()
        self._left = anyio.Event()
        self.ended = anyio.Event()

    async def run(self) -> None:
        await self._app(self._scope, self._receive, self._send)
        self.ended.set()

    async def leave(self) -> None:
        self._left.set()
        await self.ended.wait()

    async def _receive(self) -> dict[str, object]:
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        self.status = message.get("status", self.status)
        self.body += message.get("body", b"")
        if message["type"] == "http.response.body":
            self.answered.set()


@pytest.mark.parametrize(
    ("query", "has"), [(b"", b"MAXDEPTH&nbsp;5,000"), (b"page=decisions", b' role="region" aria-label="Decisions">')]
)
async def test_the_decisions_are_live_too(bench: Bench, query: bytes, has: bytes) -> None:
    app = bench.app()
    browser = await Browser(app, bench.access.token).log_in()
    stream = Stream(app, browser.cookies, query)

    async with anyio.create_task_group() as group:
        group.start_soon(stream.run)
        await stream.answered.wait()
        await stream.leave()

    assert (200, True) == (stream.status, has in stream.body)


async def test_twenty_browsers_read_the_live_overview_and_another_one_when_one_of_them_has_left(bench: Bench) -> None:
    app = bench.app()
    browser = await Browser(app, bench.access.token).log_in()

    async with anyio.create_task_group() as group:

        async def open_stream() -> Stream:
            stream = Stream(app, browser.cookies)
            group.start_soon(stream.run)
            await stream.answered.wait()
            return stream

        streams = [await open_stream() for _ in range(20)]
        refused = await open_stream()
        await streams[0].leave()
        again, one_more = await open_stream(), await open_stream()
        assert ([200] * 20, 503, 200, 503) == ([each.status for each in streams], refused.status, again.status, one_more.status)
        group.cancel_scope.cancel()
