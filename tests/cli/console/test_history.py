"""The history pages of the console: weeks of real tables, lists of messages, and the redrive of those on a queue."""

import json
import re
from html import unescape
from pathlib import Path

import pytest
from msgspec.structs import replace

from mqflow.app.errors import ConfigurationError
from mqflow.cli.console import history_desk
from mqflow.cli.console.history_desk import HistoryDesk, rule_answers
from mqflow.cli.console.views import console
from mqflow.events import Disposed
from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.pipeline.errors import PipelineError
from mqflow.pipeline.history.history_tables import HistoryTables, LetterKind
from mqflow.pipeline.history.weekly_groups import Failure, Span
from mqflow.policy.dead_letters.rules import RulesTable, parse
from tests.cli.conftest import Run
from tests.cli.console.conftest import TEXT, Bench, Browser
from tests.pipeline.history.made_tables import DAY, END, attempt, identifier, letter, write_tables
from tests.pipeline.history.test_history_tables import FULL, GONE, PRICE, SPAN, write_month

pytestmark = pytest.mark.anyio

OWNERS = {"ORDERS.": "sales", "OLD": "nobody"}


def selected(until: str = "2026-01-31T00:00:00Z", **other: object) -> str:
    """The name of a number of the history, with other values than the page gives."""
    failure = {"type": "Failure", "queue": "Q", "exception": "E"}
    return json.dumps({"what": failure, "span": {"until": until, "weeks": 4}, **other})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("month")
    write_month(str(made))
    return made


@pytest.fixture
def desk(bench: Bench, folder: Path) -> HistoryDesk:
    return HistoryDesk(HistoryTables(folder), bench.desk, OWNERS)


async def browser(bench: Bench, desk: HistoryDesk | None, *, may_change: bool = True) -> Browser:
    app = console(bench.desk, bench.access, bench.changes if may_change else None, desk)
    return await Browser(app, bench.access.token).log_in()


def rows(page: str, heading: str) -> list[list[str]]:
    """The texts of the cells of the table below this heading."""
    table = page.partition(f">{heading}</h2>")[2].partition("</table>")[0]
    cells = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL) for row in table.split("<tr>")[2:]]
    return [[" ".join(re.sub(r"<[^>]*>", " ", cell).split()) for cell in row] for row in cells]


def links(page: str, heading: str) -> list[str]:
    """The addresses of the numbers of the table below this heading."""
    table = page.partition(f">{heading}</h2>")[2].partition("</table>")[0]
    return [unescape(each) for each in re.findall(r'href="(/history/messages[^"]*)"', table)]


async def test_each_group_has_this_week_the_week_before_ages_and_its_owner(bench: Bench, desk: HistoryDesk) -> None:
    page = (await (await browser(bench, desk)).get("/history?weeks=4")).text

    price, late = rows(page, "Failures of handlers")
    assert "ValueError book on ORDERS.IN , ValueError-p , owner sales" == price[0]
    assert ["1", "0", "+1"] == late[2:5]
    assert ["1", "2", "-1"] == price[2:5]
    assert "2026-01-22 12:00, 9 days ago 2026-01-31 00:00, 12 h ago" == price[5]
    assert "2 the first 8 days ago" == price[6]
    assert 'aria-label="Week by week: 0, 2, 1"' in page
    assert "From the first event, 2026-01-11 12:00, until 2026-01-31 12:00 UTC." in page


async def test_messages_without_an_end_and_the_bars_of_the_figure_lead_to_their_messages(
    bench: Bench, desk: HistoryDesk
) -> None:
    client = await browser(bench, desk)
    page = (await client.get("/history?weeks=4")).text

    there = bench.fail(b"order", descriptor=replace(TEXT, message_id=identifier(23)), queue="ORDERS.IN")

    first, second = rows(page, "Messages without an end")
    assert ["book on ORDERS.IN , owner sales", "3", "2025-12-22 12:00, 40 days ago"] == first
    assert ["bill on ORDERS.IN , owner sales", "1", "2026-01-29 12:00, 2 days ago"] == second
    _, bill = links(page, "Messages without an end")
    found = (await client.get(bill)).text
    assert "<h1>1 message without an end</h1>" in found
    assert f'href="/message?queue=ORDERS.IN&amp;id={there.hex()}"' in found
    assert "Redrive" not in found
    figure = page.partition(">Failed deliveries over time</h2>")[2].partition("</svg>")[0]
    bars = [(unescape(to), int(count)) for to, count in re.findall(r'<a href="([^"]*)" aria-label="(\d+) from', figure)]
    assert [1] * 5 == [count for _, count in bars]
    assert "<h1>1 failed delivery</h1>" in (await client.get(bars[0][0])).text
    assert "Messages without an end" in (await client.get("/history?owner=sales")).text
    assert [["Every message has an end."]] == rows((await client.get("/history?owner=nobody")).text, "Messages without an end")


async def test_each_attempt_has_the_share_of_its_successes(bench: Bench, desk: HistoryDesk) -> None:
    page = (await (await browser(bench, desk)).get("/history?weeks=4")).text

    found = [row[2:6] for row in rows(page, "Success of each attempt")]
    assert [["1", "5", "2", "40.0"], ["2", "2", "0", "0.0"], ["3", "1", "1", "100.0"]] == found


async def test_dead_letters_have_the_answer_of_the_rules_table(bench: Bench, desk: HistoryDesk) -> None:
    page = (await (await browser(bench, desk)).get("/history")).text

    found = {row[0].partition(" ")[0]: row[-1] for row in rows(page, "Dead letters")}
    assert {
        "MQRC_Q_FULL": "rules.tab, line 1: put to ORDERS.BOQ with its MQDLH ( 2 )",
        "MQRC_UNKNOWN_OBJECT_NAME": "rules.tab, no rule: stays ( 1 )",
    } == found


async def test_every_number_leads_to_as_many_messages_and_each_message_to_its_story(bench: Bench, desk: HistoryDesk) -> None:
    bench.record(Disposed(queue="ORDERS.IN", message_id=identifier(1), listener="book", backout_count=3, attempts=()))
    client = await browser(bench, desk)
    history = (await client.get("/history")).text
    headings = ("Failures of handlers", "Messages without an end", "Dead letters", "Success of each attempt")
    addresses = [address for heading in headings for address in links(history, heading)]
    tables = [history.partition(f">{heading}</h2>")[2].partition("</table>")[0] for heading in headings]
    numbers = [int(text) for table in tables for text in re.findall(r"/history/messages[^>]*>(\d+)</a>", table)]

    assert len(addresses) == len(numbers) > 10
    for address, number in list(zip(addresses, numbers, strict=True))[::3]:
        page = (await client.get(address)).text
        assert f"<h1>{number} " in page
    story = re.findall(r'href="(/story[^"]*)"', (await client.get(addresses[1])).text)[0]
    assert "Story of" in (await client.get(unescape(story))).text


async def test_the_messages_that_are_still_on_their_queue_are_redriven_from_the_list(bench: Bench, desk: HistoryDesk) -> None:
    there = bench.fail(b"order 1", descriptor=replace(TEXT, message_id=identifier(1)))
    bench.fail(b"of another failure")
    client = await browser(bench, desk)
    page = await client.get("/history/messages", params={"number": desk.number(PRICE, SPAN)})
    assert 1 == page.text.count("<td>ORDERS.BOQ</td>")
    assert f'href="/message?queue=ORDERS.BOQ&amp;id={there.hex()}"' in page.text

    plan = await client.press(page, "Redrive those that are on ORDERS.BOQ...")
    assert "Dry run: 1 message would move" in plan.text
    done = await client.press(plan, "Move 1 message")

    assert "1 message moved" in done.text
    assert (1, 1) == bench.depths("ORDERS.BOQ", "ORDERS.IN")
    assert "of the history counts" in bench.audit.read_text()


async def test_a_read_only_console_shows_the_messages_and_no_redrive(bench: Bench, desk: HistoryDesk) -> None:
    bench.fail(b"order 1", descriptor=replace(TEXT, message_id=identifier(1)))
    client = await browser(bench, desk, may_change=False)

    page = (await client.get("/history/messages", params={"number": desk.number(PRICE, SPAN)})).text

    assert "<td>ORDERS.BOQ</td>" in page
    assert "Redrive" not in page


async def test_a_console_without_tables_never_takes_their_messages_for_the_whole_queue(bench: Bench, desk: HistoryDesk) -> None:
    bench.fail(b"order")
    client = await browser(bench, None)
    csrf = re.findall(r'name="csrf" value="([^"]*)"', (await client.get("/queue?queue=ORDERS.BOQ")).text)[0]

    form = {"csrf": csrf, "queue": "ORDERS.BOQ", "number": desk.number(PRICE, SPAN)}
    refused = await client.post("/redrive", data=form)

    assert 409 == refused.status_code
    assert 404 == (await client.get("/history")).status_code
    assert "History" not in (await client.get("/")).text


async def test_the_history_of_an_owner_has_only_the_queues_of_the_owner(bench: Bench, desk: HistoryDesk) -> None:
    page = (await (await browser(bench, desk)).get("/history?owner=nobody")).text

    assert ["MQRC_UNKNOWN_OBJECT_NAME"] == [row[0].split()[0] for row in rows(page, "Dead letters")]
    assert "No delivery failed in these weeks." in page
    every, own, others = (desk.page(owner=owner) for owner in ("", "sales", "nobody"))
    assert every.retries == own.retries != others.retries == ()
    assert {"sales", "nobody"} >= {each.owner for each in every.letters}
    assert [set(), {"nobody"}] == [{each.owner for each in page.letters} - {"sales"} for page in (own, others)]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        pytest.param("until=2026-01-23", "until 2026-01-24 00:00 UTC", id="the end of a day"),
        pytest.param("until=2026-01-23T06:00&weeks=1", "until 2026-01-23 06:00 UTC", id="a time"),
        pytest.param("until=2026-01-23T06:00%2B02:00", "until 2026-01-23 04:00 UTC", id="a time of another zone"),
        pytest.param("until=1970-02-26T00:00", "no delivery and no dead letter in these weeks", id="eight weeks from 1970 on"),
        pytest.param("until=1970-02-25T23:59", "is too early", id="a minute before them"),
        pytest.param("until=2020-01-01", "no delivery and no dead letter in these weeks", id="before everything"),
        pytest.param("until=soon", "&#39;soon&#39; is no time", id="no time"),
        pytest.param("until=0001-01-01", "is too early", id="weeks before the year 1"),
        pytest.param("until=9999-12-31", "is too late", id="the last day of the calendar"),
        pytest.param("weeks=0", "is no number of weeks", id="no weeks"),
        pytest.param("weeks=530", "until 2026-01-31 12:00 UTC", id="the most weeks"),
        pytest.param("weeks=531", "is no number of weeks", id="too many weeks"),
        pytest.param("weeks=" + "9" * 5_000, "is no number of weeks", id="a number of many digits"),
    ],
)
async def test_the_weeks_are_those_of_the_address(bench: Bench, desk: HistoryDesk, query: str, said: str) -> None:
    assert said in (await (await browser(bench, desk)).get(f"/history?{query}")).text


@pytest.mark.parametrize(
    "number",
    ["", "{}", "[1]", '{"what": {"type": "Failure"}}', "\ud800", selected(week=530), selected(until="0001-01-01T00:00:00Z"),
     selected(what={"type": "AttemptsOf", "queue": "Q", "handler": "h", "attempt_no": 2**31}), '{"x":' * 3_000],
    ids=range(9),
)  # fmt: skip
async def test_an_address_without_a_number_of_the_history_is_refused(bench: Bench, desk: HistoryDesk, number: str) -> None:
    address = "/history/messages?number=" + "".join(f"%{each:02x}" for each in number.encode(errors="surrogatepass"))

    page = await (await browser(bench, desk)).get(address)

    assert (409, True) == (page.status_code, "The address does not name a number of the page History." in page.text)


async def test_the_weeks_do_not_end_at_an_event_of_the_far_future_and_the_page_says_so(bench: Bench, tmp_path: Path) -> None:
    future = attempt(1, -4_000 * DAY)
    write_tables(str(tmp_path / "some"), run_ended=END, attempt=[future, attempt(2, DAY)], message=[], dead_letter=[])
    write_tables(str(tmp_path / "all"), run_ended=END, attempt=[future, future], message=[], dead_letter=[])

    async def page(of: str, query: str = "") -> str:
        history = HistoryDesk(HistoryTables(tmp_path / of), bench.desk, {})
        return (await (await browser(bench, history)).get(f"/history{query}")).text

    assert "1 delivery or dead letter has a time of the future, because a clock was wrong." in await page("some")
    assert "until 2026-01-30 12:00 UTC." in await page("some")
    assert "2 deliveries and dead letters have a time of the future" in await page("all")
    assert "no delivery and no dead letter in these weeks" in await page("all")
    shown = await page("some", "?until=2037-01-15")
    assert ["1"] == [row[2] for row in rows(shown, "Failures of handlers")]
    assert "a time of the future" not in shown


async def test_empty_tables_say_which_command_fills_them(bench: Bench, tmp_path: Path) -> None:
    write_tables(str(tmp_path))

    page = (await (await browser(bench, HistoryDesk(HistoryTables(tmp_path), bench.desk, {}))).get("/history")).text

    assert "<code>mqflow spark silver</code>" in page


async def test_hostile_texts_of_the_tables_are_escaped(bench: Bench, tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>\u202e"
    write_tables(
        str(tmp_path),
        attempt=[attempt(1, DAY, exception=hostile, handler=hostile, queue=hostile)],
        message=[],
        dead_letter=[letter(2, DAY, name=hostile, dlh_dest_q=hostile)],
    )
    client = await browser(bench, HistoryDesk(HistoryTables(tmp_path), bench.desk, {}))

    history = (await client.get("/history")).text
    messages = (await client.get(links(history, "Failures of handlers")[0])).text

    for page in (history, messages):
        assert "&lt;script&gt;" in page
        assert "<script>alert" not in page
        assert "\u202e" not in page


@pytest.mark.parametrize(
    ("table", "answers"),
    [
        pytest.param(
            "REASON(MQRC_Q_FULL) ACTION(RETRY)",
            {FULL: {"line 1: put to ORDERS.IN": 2}, GONE: {"no rule: stays": 1}},
            id="by reason",
        ),
        pytest.param(
            "PERSIST(MQPER_PERSISTENT) ACTION(DISCARD)\nACTION(IGNORE)",
            {FULL: {"line 1: discarded": 2}, GONE: {"line 2: stays": 1}},
            id="by a field of the descriptor",
        ),
    ],
)
def test_the_rules_answer_as_the_dead_letter_handler_does(table: str, answers: dict[Failure, dict[str, int]]) -> None:
    kinds = [
        LetterKind(FULL, {"dlh_reason": 2053, "dlh_dest_q": "ORDERS.IN", "persistence": 1}, 2),
        LetterKind(GONE, {"dlh_reason": 2085, "dlh_dest_q": "OLD", "persistence": 0}, 1),
    ]
    parsed = parse(table)
    assert isinstance(parsed, RulesTable)

    assert answers == rule_answers(parsed, kinds)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(("--tables", "no/such/folder"), "does not exist", id="no folder"),
        pytest.param(("--owner", "sales"), "give PREFIX=NAME", id="an owner without a prefix"),
    ],
)
def test_a_console_with_wrong_tables_or_owners_does_not_start(run: Run, arguments: tuple[str, ...], said: str) -> None:
    done = run("console", "--http", "0", *arguments)

    assert said in done.output
    assert 2 == done.exit_code


def test_the_weeks_of_a_page_begin_with_the_week_of_the_first_event(desk: HistoryDesk) -> None:
    assert Span(END, 3) == desk.page(weeks="4").span


def test_tables_that_cannot_be_read_are_a_sentence(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = HistoryTables("nowhere")

    def unreadable(*_: object) -> None:
        raise PipelineError("nowhere holds something else.")

    for method in ("last_event", "messages", "identifiers"):
        monkeypatch.setattr(tables, method, unreadable)
    desk = HistoryDesk(tables, bench.desk, {})
    number = desk.number(PRICE, SPAN)

    for ask in (desk.page, lambda: desk.messages(number), lambda: desk.identifiers(number)):
        with pytest.raises(ConfigurationError, match=r"^nowhere holds something else\.$"):
            ask()


def refuse(*_: object) -> None:
    raise error_for(Reason.NOT_AUTHORIZED, "MQOPEN", "ORDERS.BOQ", "QM1")


def test_queues_that_cannot_be_browsed_are_problems_of_the_list(
    bench: Bench, desk: HistoryDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_desk, "still_there", refuse)

    found = desk.messages(desk.number(PRICE, SPAN))

    assert ((), {""}, 1) == (found.queues, {row.queue for row in found.rows}, len(found.problems))
    assert found.problems[0].startswith("MQOPEN on ORDERS.BOQ (QM1) failed: MQRC_NOT_AUTHORIZED (2035).")


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("INPUTQ('DEAD.LETTERS')\nACTION(RETRY)", []),
        ("ACTION(RETRI)", ["rules.tab: line 1, column 8: AMQ8747: ACTION does not take 'RETRI'."]),
        ("ACTION(RETRY)", ["MQOPEN on ORDERS.BOQ (QM1) failed: MQRC_NOT_AUTHORIZED (2035)."]),
    ],
)
def test_a_rules_table_without_answers_is_a_problem_of_the_page(
    bench: Bench, desk: HistoryDesk, monkeypatch: pytest.MonkeyPatch, table: str, problem: list[str]
) -> None:
    bench.rules.write_text(table)
    monkeypatch.setattr(bench.desk, "dead_letter_queue", refuse)

    page = desk.page(weeks="4")

    found = [each.replace(str(bench.rules), "rules.tab") for each in page.problems]
    assert [True] * len(problem) == [each.startswith(said) for each, said in zip(found, problem, strict=True)], found
    assert bool(problem) is not bool(page.answers)


@pytest.mark.parametrize(("failures", "letters"), [(False, False), (True, False), (False, True)])
def test_one_table_with_too_many_failures_is_a_problem_of_the_page(
    bench: Bench, folder: Path, monkeypatch: pytest.MonkeyPatch, *, failures: bool, letters: bool
) -> None:
    tables = HistoryTables(folder)
    for name, is_cut in (("failures", failures), ("letters", letters)):
        found = replace(getattr(tables, name)(SPAN), is_cut=is_cut)  # the method of the row
        monkeypatch.setattr(tables, name, lambda _, found=found: found)

    said = "There are too many failures in these weeks: some are not counted. Choose fewer weeks."
    assert (failures or letters) is (said in HistoryDesk(tables, bench.desk, OWNERS).page(weeks="4").problems)


def test_failures_beyond_the_largest_number_are_a_problem_of_the_page(bench: Bench, folder: Path) -> None:
    page = HistoryDesk(HistoryTables(folder, rows_max=1), bench.desk, OWNERS).page(weeks="4")

    assert "There are too many failures in these weeks: some are not counted. Choose fewer weeks." == page.problems[-1]
