"""The lists of the console: decisions, delayed messages, connections, rules tables; and the filter of a queue."""

import json
import re
from contextlib import nullcontext
from pathlib import Path
from typing import NoReturn

import pytest
from msgspec.structs import replace

from mqflow.cli.console import desk, lists
from mqflow.cli.console.desk import Desk
from mqflow.cli.console.lists import ChannelsPage, ConnectionsPage, ProcessRow, connections, delayed, rules
from mqflow.cli.watching.status_report import StatusReport
from mqflow.events import Attempt, DeadLetterActed, Disposed
from mqflow.mqi.errors import error_for
from mqflow.mqi.options import OpenOption, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.dead_letters.actions import Discard
from mqflow.policy.health.judge import judge
from mqflow.policy.health.records import ApplicationStatus, ProcessStatus
from mqflow.policy.poison.disposition import DeadLetter, Requeue
from mqflow.runtime.delay.stage import EMBEDDED_STAGING_QUEUE, Stager
from mqflow.testing.dead_letters import put_dead_letter
from mqflow.world import World
from tests.cli.console.conftest import TEXT, Bench
from tests.cli.queue_managers.test_ccdt import entry

pytestmark = pytest.mark.anyio


def acted(queue: str, rule: str, reason: int = 0) -> DeadLetterActed:
    return DeadLetterActed(queue=queue, message_id=b"m" * 24, rule=rule, intent=Discard(), attempt=1, reason=reason)


async def test_the_newest_decision_is_first_and_has_each_step_of_its_plan(bench: Bench) -> None:
    tried = (Attempt(Requeue("ORDERS.BOQ"), 2053), Attempt(DeadLetter("DEAD.LETTERS", 2053)))
    disposed = Disposed(queue="ORDERS.IN", message_id=b"m" * 24, listener="book", backout_count=3, attempts=tried)
    bench.record(acted("Q", "line 1"), disposed)
    browser = await bench.browser().log_in()

    page = (await browser.get("/decisions")).text

    rows = re.findall(r"<tr>.*?</tr>", page, re.DOTALL)[1:]
    assert "move it to ORDERS.BOQ: refused with MQRC_Q_FULL (2053)" in rows[0]
    assert "move it to the dead-letter queue DEAD.LETTERS: done" in rows[0]
    assert "by the rule of line 1" in rows[1]
    assert 2 == len(rows)


async def test_a_console_without_a_ledger_says_so(bench: Bench) -> None:
    browser = await bench.browser().log_in()

    assert f"no decision ledger at {bench.settings.ledger.file}" in (await browser.get("/decisions")).text


async def test_a_delayed_message_has_its_target_and_its_due_time(bench: Bench) -> None:
    stager = Stager(EMBEDDED_STAGING_QUEUE, World(bench.clock))
    put = stager.put_on(bench.connection, "ORDERS.IN", TEXT, b"later", 7_200_000)
    bench.connection.commit()
    bench.clock.advance(60)
    browser = await bench.browser().log_in()

    page = (await browser.get("/delayed")).text

    assert f"1 message on {EMBEDDED_STAGING_QUEUE}." in page
    assert put.descriptor.message_id.hex() in page
    assert '<td data-label="For">ORDERS.IN</td><td data-label="Due">in 119 min</td>' in page


@pytest.mark.parametrize(("shown_max", "is_cut"), [(2, True), (3, False)])
def test_the_list_of_delayed_messages_ends_at_its_limit(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, shown_max: int, *, is_cut: bool
) -> None:
    monkeypatch.setattr(lists, "_DELAYED_MAX", shown_max)
    stager = Stager(EMBEDDED_STAGING_QUEUE, World(bench.clock))
    sent = [stager.put_on(bench.connection, "ORDERS.IN", TEXT, b"later", 60_000).descriptor.message_id for _ in range(3)]
    bench.connection.commit()

    page = delayed(bench.desk)

    assert (EMBEDDED_STAGING_QUEUE, sent[:shown_max], is_cut) == (
        page.queue,
        [row.message_id for row in page.rows],
        page.is_cut,
    )


def test_a_queue_manager_that_is_not_administered_here_shows_the_outages_alone(bench: Bench) -> None:
    far = desk.Desk(nullcontext, bench.settings, lambda: bench.reports, bench.clock)  # type: ignore[arg-type]  # as IBM MQ here

    page = connections(far)

    why = "The queue manager does not list its connections here: on IBM MQ, use DISPLAY CONN of runmqsc."
    assert ConnectionsPage(problem=why) == page


async def test_a_connection_has_its_open_objects_and_what_it_has_not_committed(bench: Bench) -> None:
    connection = bench.queue_manager.connect(application_name="orders")
    connection.open("ORDERS.IN", OpenOption.INPUT_SHARED)
    connection.put1("ORDERS.BOQ", TEXT, b"not committed", PutOption.SYNCPOINT)

    [row] = [row for row in connections(bench.desk).rows if row.application == "orders"]

    assert (["ORDERS.IN"], 1) == ([handle.name for handle in row.handles], row.operations)
    assert '<td class="whole">ORDERS.IN</td>' in (await (await bench.browser().log_in()).get("/connections")).text


def test_the_outages_of_a_process_are_the_sums_of_its_counts(bench: Bench) -> None:
    counts = {
        "reconnections": ((("QM1",), 2.0), (("QM2",), 1.0)),
        "reconnect_attempts": ((("QM1", "2538"), 7.0),),
        "outages_seconds": ((("QM1",), 31.5),),
        "away_seconds": ((("QM2",), 4.0),),
        "commits_in_doubt": ((("IN", "2009"), 1.0),),
    }
    processes = (
        ProcessStatus(process=7, taken_at=0.0, ready=True, counts=counts),
        ProcessStatus(process=8, taken_at=0.0, ready=True),
    )
    status = ApplicationStatus(application="orders", process=7, processes=processes)
    bench.reports.append(StatusReport(status=status, health=judge(status), queues=()))

    counted = ProcessRow(
        application="orders", process=7, reconnections=3, failed_attempts=7, outages_s=31.5, away_s=4.0, in_doubt=1
    )
    silent = replace(counted, process=8, reconnections=0, failed_attempts=0, outages_s=0.0, away_s=None, in_doubt=0)
    assert (counted, silent) == connections(bench.desk).processes


async def test_the_connections_have_the_channel_table_and_why_each_entry_is_tried(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQCLNTCF", str(tmp_path / "none.ini"))
    table = tmp_path / "ccdt.json"
    entries = [entry("FIRST", "QM1", "one", "two"), entry("OTHER", "QM2", "other"), entry("LOST", "QM1")]
    table.write_text(json.dumps({"channel": entries}))

    def page(url: str) -> ChannelsPage | None:
        bench.settings = replace(bench.settings, url=url)
        bench.use(None)
        return connections(bench.desk).channels

    shown = page(f"auto:///QM1?ccdt={table}")
    text = (await (await bench.browser().log_in()).get("/connections")).text
    missing = page(f"auto:///QM1?ccdt={tmp_path}/missing.json")

    assert shown is not None
    assert shown.source.startswith(f"{table} (")
    assert [("1", "FIRST", "one(1414)"), ("2", "FIRST", "two(1414)"), ("-", "OTHER", "other(1414)"), ("-", "LOST", "")] == [
        row[:3] for row in shown.rows
    ]
    assert "Its queue manager is QM2, not QM1." == shown.rows[2][-1]
    assert '<td class="number" data-label="Attempt">2</td><th scope="row">FIRST</th><td>two(1414)</td>' in text
    assert missing is not None
    assert "missing.json" in missing.problem
    assert [None, None] == [page("auto://one:1414/QM1?channel=C"), page("embedded::memory:?qmgr=QM1")]


def test_a_queue_manager_that_is_away_hides_no_outage(bench: Bench) -> None:
    def away() -> NoReturn:
        raise error_for(Reason.Q_MGR_NOT_AVAILABLE, "MQCONNX", "", "QM1")

    process = ProcessStatus(process=7, taken_at=0.0, ready=False)
    status = ApplicationStatus(application="orders", process=7, processes=(process,))
    reported = StatusReport(status=status, health=judge(status), queues=())

    page = connections(Desk(away, bench.settings, lambda: [reported], bench.clock))

    assert [7] == [row.process for row in page.processes]
    assert "MQRC_Q_MGR_NOT_AVAILABLE (2059)" in page.problem


async def test_a_rules_table_shows_what_each_rule_has_matched_and_would_match(bench: Bench) -> None:
    for queue in ("ORDERS.IN", "ORDERS.IN", "OTHER", "FOURTH"):
        put_dead_letter(bench.connection, "DEAD.LETTERS", b"order", queue=queue, descriptor=TEXT)
    bench.connection.put1("DEAD.LETTERS", TEXT, b"no header", PutOption.NO_SYNCPOINT)
    done = [acted("DEAD.LETTERS", "line 3"), acted("DEAD.LETTERS", "line 3", reason=2053), acted("ANOTHER", "line 3")]
    bench.record(*done)

    [page] = rules(bench.desk)

    found = [(row.name, row.matched, row.would_match) for row in page.rows]
    assert [("line 1", 0, 2), ("line 2", 0, 1), ("line 3", 1, 0)] == found
    assert ("DEAD.LETTERS", 1, 1) == (page.queue, page.unmatched, page.strays)
    assert any("NONE" in problem and "2085" in problem for problem in page.problems)
    assert (5,) == bench.depths("DEAD.LETTERS")
    shown = (await (await bench.browser().log_in()).get("/rules")).text
    assert "put to ORDERS.BOQ with its MQDLH (2)" in shown


async def test_a_rules_table_with_errors_shows_them(bench: Bench) -> None:
    bench.rules.write_text("REASON(MQRC_Q_FULL) ACTION(FLY)\n")

    shown = (await (await bench.browser().log_in()).get("/rules")).text

    assert "FLY" in shown
    assert "Would match now" not in shown


def test_a_rules_table_without_a_ledger_and_without_its_queue_says_why(bench: Bench) -> None:
    bench.rules.write_text("INPUTQ(NOWHERE)\nACTION(RETRY)\n")

    [page] = rules(bench.desk)

    assert ("NOWHERE", [("line 2", None, 0, "")]) == (
        page.queue,
        [(row.name, row.matched, row.would_match, row.first_action) for row in page.rows],
    )
    assert page.problems[-1].startswith("MQOPEN on NOWHERE (QM1) failed: MQRC_UNKNOWN_OBJECT_NAME (2085).")
    assert (0, 0, False) == (page.unmatched, page.strays, page.is_cut)


@pytest.mark.parametrize(("limit", "is_cut"), [(1, True), (2, False)])
def test_a_long_queue_is_matched_up_to_a_limit(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, limit: int, *, is_cut: bool
) -> None:
    for _ in range(2):
        put_dead_letter(bench.connection, "DEAD.LETTERS", b"order", queue="ORDERS.IN", descriptor=TEXT)
    monkeypatch.setattr(lists, "LOOKED_AT_MAX", limit)

    [page] = rules(bench.desk)

    assert (limit, is_cut) == (page.rows[0].would_match, page.is_cut)


async def test_a_redrive_of_a_filter_moves_its_messages_alone(bench: Bench) -> None:
    for body in (b"to LHR", b"to JFK", b"from LHR"):
        bench.fail(body)
    browser = await bench.browser().log_in()

    page = await browser.get("/queue", params={"queue": "ORDERS.BOQ", "where": "body=*LHR*"})
    plan = await browser.press(page, "Redrive this group...")
    done = await browser.press(plan, "Move 2 messages")

    assert "2 messages in 1 group." in page.text
    assert "with body=*LHR*" in plan.text
    assert "2 messages moved" in done.text
    assert (1, 2) == bench.depths("ORDERS.BOQ", "ORDERS.IN")


@pytest.mark.parametrize("where", ["LHR", "bodi=*LHR*"])
async def test_a_filter_that_no_message_can_meet_is_refused_with_the_names(bench: Bench, where: str) -> None:
    browser = await bench.browser().log_in()

    answer = await browser.get("/queue", params={"queue": "ORDERS.BOQ", "where": where})

    assert 409 == answer.status_code
    assert "is not NAME=PATTERN" in answer.text or "Did you mean body?" in answer.text
