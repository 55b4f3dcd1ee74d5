"""The parts of `mqflow dlq` in this process: the tally of a check, the report of a run, and the end of a run."""

import json
import signal
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

from mqflow.cli.dead_letters.check import Tallies, Tally, run_check, tallied, target_check
from mqflow.cli.dead_letters.report import PRINTS_JSON, print_problems
from mqflow.cli.dead_letters.run import EndedError, _must_stop, _Report, exit_code_of, read_table
from mqflow.cli.dead_letters.run import _signals as caught_signals
from mqflow.embedded import mqsc
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.events import DeadLetterActed, Event, ListenerStarted, Warned
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.dead_letters.actions import Discard, Ignore, Intent, Redirect
from mqflow.policy.dead_letters.rules import RulesTable, parse
from mqflow.policy.poison.moved_message import to_dead_letter_queue

RULES = """DESTQ('ORDERS.*') ACTION(RETRY)
DESTQ(OLD) ACTION(DISCARD)
DESTQ(KEEP) ACTION(IGNORE)
DESTQ(F) ACTION(FWD) FWDQ(G) HEADER(NO)
"""
TO_Q = Redirect("Q")


def table(text: str = RULES) -> RulesTable:
    found = parse(text)
    assert isinstance(found, RulesTable)
    return found


def letter(number: int, queue: str) -> tuple[MessageDescriptor, bytes]:
    return to_dead_letter_queue(
        MessageDescriptor(message_id=bytes([number]) * 24, format="MQSTR", ccsid=1208), b"x", reason=Reason.Q_FULL,
        queue=queue, queue_manager="QM1", application_name="a", now=datetime(2026, 11, 23, tzinfo=UTC),
    )  # fmt: skip


def test_a_check_counts_the_first_action_of_each_rule() -> None:
    found = [letter(n, queue) for n, queue in enumerate(("ORDERS.1", "OLD", "ORDERS.1", "ORDERS.2", "KEEP", "F", "NOBODY"))]
    told: list[tuple[bytes, str, str]] = []
    checked: list[str] = []

    def check(to: Redirect) -> str:
        checked.append(to.queue)
        return "" if to.queue == "ORDERS.1" else "it is full"

    tallies = tallied(table(), iter([*found, (MessageDescriptor(), b"stray")]), check, lambda *each: told.append(each))

    first, second = "put to ORDERS.1 of QM1", "put to ORDERS.2 of QM1"
    assert {
        "line 1": Tally(3, Counter({first: 2, second: 1})),
        "line 2": Tally(1, Counter({"discarded": 1})),
        "line 3": Tally(1, Counter({"stays": 1})),
        "line 4": Tally(1, Counter({"put to G": 1})),
        "no rule": Tally(1, Counter({"stays": 1})),
    } == tallies.rules
    assert (1, {second: "it is full", "put to G": "it is full"}) == (tallies.strays, tallies.problems)
    assert ["ORDERS.1", "ORDERS.2", "G"] == checked  # each target once
    assert [(bytes([0]) * 24, "line 1", first), (bytes([1]) * 24, "line 2", "discarded")] == told[:2]


@pytest.mark.parametrize(
    ("targets", "shown"),
    [
        ({}, "never matched"),
        ({"a": 2_000}, "a (2,000)"),
        ({"a": 3, "b": 2, "c": 1}, "a (3), b (2), c (1)"),
        ({"a": 4, "b": 3, "c": 2, "d": 1, "e": 1}, "a (4), b (3), c (2) and 2 more"),
    ],
)
def test_a_tally_shows_its_three_most_frequent_targets(targets: dict[str, int], shown: str) -> None:
    assert shown == Tally(sum(targets.values()), Counter(targets)).shown
    assert Tallies({}) == Tallies({}, 0, {})


def test_the_target_of_a_rule_is_opened_and_must_not_lead_back() -> None:
    with EmbeddedQueueManager("QM1") as queue_manager:
        script = "DEFINE QLOCAL(DLQ)\nDEFINE QLOCAL(FREE)\nDEFINE QALIAS(BACK) TARGET(DLQ)"
        assert 0 == mqsc.run(script, queue_manager.administration).exit_code()
        connection = queue_manager.connect()
        check = target_check(connection, "DLQ")

        results = [check(Redirect(queue)) for queue in ("FREE", "BACK", "DLQ", "NOBODY")]
        opened = queue_manager.administration.queue_status("FREE").open_output_count

    back = "the move leads back to the queue of the messages, and would fail."
    assert ["", back, back, "the move would fail, MQRC_UNKNOWN_OBJECT_NAME (2085)."] == results
    assert 0 == opened


@pytest.fixture
def as_json() -> Iterator[None]:
    with click.Context(click.Command("dlq")) as context:
        context.meta[PRINTS_JSON] = True
        yield


def test_a_check_counts_the_rules_or_the_errors(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rules = tmp_path / "rules.tbl"
    rules.write_text(RULES)
    url = f"embedded:{tmp_path / 'data'}?qmgr=QM1"
    (tmp_path / "data").mkdir()
    with click.Context(click.Command("dlq")):
        code = run_check(rules, None, url, each=False)

    printed, noted = capsys.readouterr()
    assert (0, f"{rules}: no errors in 4 rules.\n") == (code, noted)
    assert printed.startswith("line 4: No last rule forwards the rest of the messages")
    rules.write_text("ACTION(X)\nACTION(Y)")
    assert 1 == run_check(rules, None, url, each=False)
    assert f"{rules}: 2 errors. The DLQ handler would handle no message.\n" == capsys.readouterr().err
    rules.write_text("ACTION(X)")
    assert 1 == run_check(rules, None, url, each=False)
    assert f"{rules}: 1 error. The DLQ handler would handle no message.\n" == capsys.readouterr().err
    rules.write_text("ACTION(RETRY)")
    assert 0 == run_check(rules, None, url, each=False)
    assert f"{rules}: no errors in 1 rule.\n" == capsys.readouterr().err


def test_each_error_of_a_table_has_its_line_and_a_mark_below_the_place(capsys: pytest.CaptureFixture[str]) -> None:
    problems = parse("FORMAT(\x07) ACTION(X)")
    assert not isinstance(problems, RulesTable)

    print_problems(problems)

    lines = capsys.readouterr().out.splitlines()
    [at] = [place for place, line in enumerate(lines) if "ACTION does not take 'X'" in line]
    assert ["    FORMAT(\\x07) ACTION(X)", "                        ^"] == lines[at + 1 : at + 3]


def test_each_error_of_a_table_is_a_record_in_json(as_json: None, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(EndedError) as ended:
        read_table("ACTION(X)")

    [record] = map(json.loads, capsys.readouterr().out.splitlines())
    assert ("error", 1, 8, "AMQ8747", "ACTION(X)") == tuple(
        record[name] for name in ("kind", "line", "column", "number", "source")
    )
    assert (8758, "1 error in the rules table. No message was handled.") == (ended.value.number, ended.value.text)


@pytest.mark.parametrize(
    ("text", "number", "said"),
    [
        ("", 8750, "The rules table has no rule. No message was handled."),
        ("ACTION(X)\nACTION(Y)", 8758, "2 errors in the rules table. No message was handled."),
    ],
)
def test_a_table_with_errors_ends_the_handler(text: str, number: int, said: str) -> None:
    with pytest.raises(EndedError) as ended:
        read_table(text)

    assert (number, said) == (ended.value.number, ended.value.text)
    assert isinstance(read_table(RULES), RulesTable)


@pytest.mark.parametrize(("number", "code"), [(8741, 0x41), (8758, 0x58), (8700, 0)])
def test_the_last_two_digits_of_the_message_are_the_exit_code_in_hexadecimal(number: int, code: int) -> None:
    assert code == exit_code_of(number)


# -- the report of a run


def acted(rule: str, reason: int = 0, intent: Intent = TO_Q, **more: Any) -> DeadLetterActed:
    return DeadLetterActed(queue="DLQ", message_id=b"\xab", rule=rule, intent=intent, attempt=2, reason=reason, **more)


def test_a_report_counts_by_rule_and_prints_each_failure_once(capsys: pytest.CaptureFixture[str]) -> None:
    report = _Report()
    events: list[Event] = [
        *[acted("line 2")] * 2_000,
        acted("line 3", Reason.Q_FULL, detail="Q is full."),
        acted("line 3", Reason.Q_FULL, repeated=True),
        acted("line 4", Reason.Q_FULL, Ignore(), detail="It stays."),
        acted("", intent=Discard()),
        Warned(text="A message on DLQ does not begin with an MQDLH\x07.", details={"message_id": "ab"}),
        Warned(text="DLQ has no BOTHRESH\x07."),
        ListenerStarted(queue="Q", listener="l", concurrency=1),
    ]
    for event in events:
        report(event)

    assert [
        "line 2: 2,000 messages, 0 failed attempts",
        "line 3: 0 messages, 2 failed attempts",
        "line 4: 0 messages, 1 failed attempt",
        "no rule left: 1 message, 0 failed attempts",
    ] == list(report.summary())
    printed, noted = capsys.readouterr()
    assert [
        "AMQ8722: The rule of line 3 failed, attempt 2 on ab: MQRC_Q_FULL (2053). Q is full.",
        "AMQ8722: The rule of line 4 failed on ab: MQRC_Q_FULL (2053). It stays.",
        "AMQ8721: A message on DLQ does not begin with an MQDLH\\x07.",
    ] == printed.splitlines()
    assert "DLQ has no BOTHRESH\\x07.\n" == noted


def test_a_report_in_json_has_a_record_for_each_action(as_json: None, capsys: pytest.CaptureFixture[str]) -> None:
    report = _Report()
    report(acted("line 2"))
    report(acted("line 3", Reason.Q_FULL))
    report(Warned(text="No MQDLH.", details={"message_id": "ab"}))

    first, second, third = map(json.loads, capsys.readouterr().out.splitlines())
    assert ("action", "line 2", 0, "ab") == tuple(first[name] for name in ("kind", "rule", "reason", "message_id"))
    assert ("action", "line 3", 2053) == tuple(second[name] for name in ("kind", "rule", "reason"))
    assert {"kind": "message", "number": "AMQ8721", "text": "No MQDLH."} == third


def test_signals_are_collected_until_the_end_and_then_as_before() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    checked: list[int] = []
    rules_file: Any = SimpleNamespace(check=lambda: checked.append(1))

    with caught_signals() as received:
        asked = [_must_stop(received, None), _must_stop(received, rules_file)]
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.raise_signal(number)

    assert ([False, False], [1], [signal.SIGTERM, signal.SIGINT]) == (asked, checked, received)
    assert _must_stop(received, None)
    assert before == [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
