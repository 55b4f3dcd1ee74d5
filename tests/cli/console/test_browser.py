"""The console in a real Chromium: from red to redriven, live updates, keyboard, hostile texts, accessibility, and pictures.

MQFLOW_PICTURES=FOLDER writes the pictures of the docs there.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from mqflow.cli.console import desk, views
from mqflow.cli.console.history_desk import HistoryDesk
from mqflow.cli.console.views import console
from mqflow.cli.watching.server import serving_pages
from mqflow.cli.watching.status_report import StatusReport
from mqflow.events import WaitsOnQueue
from mqflow.pipeline.history.history_tables import HistoryTables
from mqflow.policy.health.judge import judge
from mqflow.policy.health.records import ApplicationStatus, Doing, ListenerStatus, ProcessStatus, WorkerStatus
from mqflow.policy.poison.moved_message import Why
from mqflow.testing.dead_letters import put_dead_letter
from mqflow.testing.virtual_clock import SeededRandom
from tests.cli.console.conftest import TEXT, UNDECODABLE, Bench
from tests.cli.console.test_access import hostile
from tests.cli.console.webdriver import Chromium, chromium
from tests.foreign.npm import unpacked
from tests.pipeline.history.test_history_tables import PRICE, SPAN, write_month

AXE = "axe-core@4.14.1"
AXE_SHA512 = (
    "1477dafa598d8d065f273d6af302aa203c02e83131707b7fa648cd41bd3d6b73"
    "4f8c22a0dab86ee6a6f64b8afbe804b214d36db85a2826965edfb3a0b9d546b5"
)
HOSTILE = "</pre></textarea><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
WAIT_FOR = """
const [xpath] = arguments;
const found = () => document.evaluate(xpath, document, null, XPathResult.BOOLEAN_TYPE, null).booleanValue;
return new Promise((done) => {
  if (found()) return done(true);
  new MutationObserver((_, observer) => { if (found()) { observer.disconnect(); done(true); } })
    .observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
});
"""
HIDDEN_COLUMNS = """
return [...document.querySelectorAll("[role=region]")]
  .filter((each) => each.scrollWidth > each.clientWidth).map((each) => each.ariaLabel);
"""
LINE_PIXELS = 1.45 * 16
"""The height of a line of text: line-height and font size of console.css."""
HEADING = "return document.querySelector('h1').textContent"
MARKUP_HERE = """
return [window.hacked ?? null, document.querySelectorAll("main img, main script, main math, main [onload]").length];
"""
MARKUP_OF = """
const [addresses] = arguments, reader = new DOMParser(), found = [];
for (const each of addresses) {
  const page = reader.parseFromString(await (await fetch(each)).text(), "text/html");
  found.push(page.querySelectorAll("main img, main script, main math, main svg").length);
}
return found;
"""
VIOLATIONS = """
return axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"] })
  .then((found) => found.violations.map((each) => each.id + ": " + each.nodes.map((node) => node.html).join(" | ")));
"""


@pytest.fixture(scope="module")
def window() -> Iterator[Chromium]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> HistoryTables:
    folder = tmp_path_factory.mktemp("month")
    write_month(str(folder))
    return HistoryTables(folder)


def working_for(seconds: float, stack: str = "") -> StatusReport:
    """Return the report of an application whose only worker has been in its handler for so long."""
    worker = WorkerStatus(number=0, doing=Doing.HANDLING, since=0.0, message_id="414d5120" * 6, stack=stack)
    listener = ListenerStatus(name="book", queue="ORDERS.IN", concurrency=1, workers=(worker,))
    process = ProcessStatus(process=4711, taken_at=seconds, ready=True, listeners=(listener,))
    status = ApplicationStatus(application="orders", process=4711, url="QM1", processes=(process,))
    return StatusReport(status=status, health=judge(status), queues=())


@pytest.fixture
def address(bench: Bench, tables: HistoryTables, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(desk, "_NOTE_S", 0.0)  # the clock of the bench stands still, and each look must count
    bench.reports.append(working_for(3.0))
    history = HistoryDesk(tables, bench.desk, {"ORDERS.": "sales"})
    app = console(bench.desk, bench.access, bench.changes, history)
    with serving_pages("0", app, "The console is on") as port:
        yield f"http://127.0.0.1:{port}"


def log_in(window: Chromium, address: str, bench: Bench) -> None:
    window.open(address)
    window.type("//input[@name='token']", bench.access.token)
    window.type("//input[@name='person']", "amelie")
    window.click("//button[.='Log in']")
    assert window.shows("Overview - mqflow console")


def picture(window: Chromium, name: str) -> None:
    folder = os.environ.get("MQFLOW_PICTURES")
    if folder:
        window.picture(Path(folder) / f"{name}.png")


def test_a_red_queue_is_redriven_with_three_clicks(window: Chromium, address: str, bench: Bench) -> None:
    for number in range(3):
        bench.fail(b"order %d" % number)
    bench.fail(b"{", UNDECODABLE)
    window.size(1_100, 760, is_mobile=False, colours="light")
    log_in(window, address, bench)

    window.click("//a[.='ORDERS.BOQ']")
    picture(window, "console-groups")
    window.click("(//button[.='Redrive this group...'])[1]")
    assert window.shows("Dry run: 3 messages would move", HEADING)
    picture(window, "console-dry-run")
    window.click("//button[.='Move 3 messages']")

    assert window.shows("3 messages moved", HEADING)
    assert (1, 3) == bench.depths("ORDERS.BOQ", "ORDERS.IN")


def test_the_overview_changes_without_a_click_and_keeps_the_focus(window: Chromium, address: str, bench: Bench) -> None:
    window.size(1_100, 760, is_mobile=False, colours="light")
    log_in(window, address, bench)
    window.run("document.querySelector('a[href=\"/queue?queue=ORDERS.BOQ\"]').focus()")

    bench.fail(b"it has just failed")

    assert window.run(WAIT_FOR, "//tr[.//a[.='ORDERS.BOQ']]//span[.='failed']")
    assert window.run(WAIT_FOR, "//tr[.//a[.='ORDERS.BOQ']]//*[name()='svg']")
    assert "ORDERS.BOQ" == window.run("return document.activeElement.textContent")
    picture(window, "console-overview")


def test_a_page_whose_live_updates_the_console_refuses_says_that_it_must_be_loaded_again(
    window: Chromium, address: str, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "_STREAMS_MAX", 0)

    log_in(window, address, bench)

    assert window.run(WAIT_FOR, "//p[@id='trouble'][contains(., 'not live any more. Load it again.')]")


def test_a_stack_that_was_opened_stays_open_while_the_handler_runs_on(window: Chromium, address: str, bench: Bench) -> None:
    bench.reports[:] = [working_for(61.0, "shop.py, line 9")]
    window.size(1_100, 760, is_mobile=False, colours="light")
    log_in(window, address, bench)
    window.click("//summary")

    bench.reports[:] = [working_for(63.0, "shop.py, line 9")]

    assert window.run(WAIT_FOR, "//summary[contains(., 'for 63 s')]")
    assert "shop.py, line 9" in window.run("return document.querySelector('details[open]')?.textContent ?? 'closed'")


def test_the_overview_of_a_phone_hides_no_column_and_has_no_tall_row(window: Chromium, address: str, bench: Bench) -> None:
    bench.reports[:] = [working_for(61.0, "shop.py, line 9")]
    bench.fail(b"it failed")
    window.size(390, 844, is_mobile=True, colours="light")
    log_in(window, address, bench)

    hidden = window.run(HIDDEN_COLUMNS)
    heights = window.run("return [...document.querySelectorAll('tbody tr')].map((row) => row.getBoundingClientRect().height)")
    wide = window.run("return document.documentElement.scrollWidth")

    assert ([], 390) == (hidden, wide)
    assert 5 * LINE_PIXELS > max(heights)


def test_no_hostile_text_runs_as_a_script(window: Chromium, address: str, bench: Bench) -> None:
    why = Why(queue="ORDERS.IN", outcome="failed", error=HOSTILE, text=HOSTILE, frame=HOSTILE)
    identifier = bench.fail(HOSTILE.encode(), why).hex()
    bench.record(
        WaitsOnQueue(message_id=b"m" * 24, queue=HOSTILE, listener=HOSTILE, staging_queue=HOSTILE, after_s=1.0, backout_count=1)
    )
    log_in(window, address, bench)

    for page in (
        "/",
        "/decisions",
        "/queue?queue=ORDERS.BOQ",
        f"/message?queue=ORDERS.BOQ&id={identifier}",
        f"/edit?queue=ORDERS.BOQ&id={identifier}",
    ):
        window.open(address + page)
        assert [None, 0] == window.run(
            "return [window.hacked ?? null, document.querySelectorAll('main img, main script').length]"
        )
    assert HOSTILE == window.run("return document.querySelector('textarea').value")


def test_none_of_a_thousand_hostile_texts_runs_as_a_script(window: Chromium, address: str, bench: Bench) -> None:
    random = SeededRandom(19)
    texts = iter(hostile(random).replace("alert(1)", "window.hacked = 1") for _ in range(1_000))
    sent = []
    for error, text, frame, body in zip(*[texts] * 4, strict=True):
        why = Why(queue="ORDERS.IN", outcome="failed", error=error, text=text, frame=frame)
        sent.append(bench.fail(body.encode(), why).hex())
    log_in(window, address, bench)

    window.open(f"{address}/queue?queue=ORDERS.BOQ")
    on_the_page = window.run(MARKUP_HERE)
    in_messages = window.run(MARKUP_OF, [f"/message?queue=ORDERS.BOQ&id={each}" for each in sent[::5]])

    assert ([None, 0], [0] * 50) == (on_the_page, in_messages)


def test_an_edit_is_made_with_the_keyboard_alone(window: Chromium, address: str, bench: Bench) -> None:
    identifier = bench.fail(b'{"number": 77}\n{"number": 8}').hex()
    log_in(window, address, bench)
    window.open(f"{address}/edit?queue=ORDERS.BOQ&id={identifier}")
    tab, enter, backspace = "\ue004", "\ue007", "\ue003"

    window.run("const area = document.querySelector('textarea'); area.focus(); area.setSelectionRange(13, 13);")
    window.keys(backspace + tab + enter)
    assert window.shows("Edited: not put yet", HEADING)
    window.run("document.querySelector('pre[aria-label=\"Body after\"]').focus()")
    window.keys(tab + enter)

    assert window.shows("1 message moved", HEADING)
    assert (0, 1) == bench.depths("ORDERS.BOQ", "ORDERS.IN")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("colours", "width"), [("light", 1_100), ("dark", 390)])
def test_axe_finds_no_barrier_and_no_page_is_wider_than_the_screen(
    window: Chromium, address: str, bench: Bench, colours: str, width: int, tmp_path: Path
) -> None:
    axe = (unpacked(AXE, AXE_SHA512, tmp_path) / "axe.min.js").read_text("utf-8")
    identifier = bench.fail(b'{"number": "7"}').hex()
    bench.fail(b"{", UNDECODABLE)
    put_dead_letter(bench.connection, "DEAD.LETTERS", b"an order", queue="ORDERS.IN", descriptor=TEXT)
    window.size(width, 760, is_mobile=width < 500, colours=colours)
    window.open(address)
    found = {"/login": barriers(window, axe)}
    log_in(window, address, bench)
    window.run(WAIT_FOR, "//*[name()='svg']")

    message = f"queue=ORDERS.BOQ&id={identifier}"
    for page in (
        "/",
        "/decisions",
        "/queue?queue=ORDERS.BOQ",
        f"/message?{message}",
        "/search?text=order",
        f"/edit?{message}",
        "/queue?queue=NONE",
        "/decisions",
        "/delayed",
        "/connections",
        "/rules",
        "/history",
        f"/history/messages?{urlencode({'number': HistoryDesk.number(PRICE, SPAN)})}",
        f"/story?id={identifier}",
    ):
        if page != "/":
            window.open(address + page)
        found[page] = barriers(window, axe)
        if page.startswith("/message"):
            picture(window, f"console-message-{colours}")
            window.click("//button[.='Redrive this message...']")
            assert window.shows("Dry run: 1 message would move", HEADING)
            found["dry run"] = barriers(window, axe)

    assert {} == {page: problems for page, problems in found.items() if problems}


def barriers(window: Chromium, axe: str) -> list[str]:
    """Return what axe finds on the page, and a page that is wider than the screen."""
    window.run(axe)
    found: list[str] = window.run(VIOLATIONS)
    is_wide = window.run("return document.documentElement.scrollWidth > document.documentElement.clientWidth")
    return [*found, *(["the page is wider than the screen"] if is_wide else [])]
