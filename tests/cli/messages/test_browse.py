"""`mqflow browse`, `get` and `capture`: the chosen messages, whole, in order, up to a limit."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from msgspec.structs import replace

from mqflow.app.captures import read_captures
from mqflow.app.run.decision_ledger import LEDGER_FILE, DecisionLedger
from mqflow.cli.messages.browse import browse, condition, matches, named_condition, still_there
from mqflow.cli.messages.get import _options
from mqflow.cli.messages.tail import matches_event
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.events import Attempt, Disposed
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, MatchOption, OpenOption, Persistence, PutOption
from mqflow.policy.poison.disposition import Failed, Requeue
from mqflow.verbs import Connection, GetOptions
from tests.cli.conftest import Run

_TAKE = GetOption.SYNCPOINT | GetOption.FAIL_IF_QUIESCING | GetOption.PROPERTIES_FORCE_MQRFH2
NAMED = PutOption.NO_SYNCPOINT | PutOption.SET_ALL_CONTEXT
TEXT = MessageDescriptor(persistence=Persistence.PERSISTENT, format="MQSTR", ccsid=1208)


def put(connection: Connection, *bodies: bytes) -> None:
    """Put these bodies on ORDERS.IN; their identifiers are 0101..., 0202... and so on."""
    handle = connection.open("ORDERS.IN", OpenOption.OUTPUT | OpenOption.SET_ALL_CONTEXT)
    for number, body in enumerate(bodies, 1):
        connection.put(handle, replace(TEXT, message_id=bytes([number]) * 24), body, NAMED)


@pytest.fixture
def five(run: Run, queues: None, tmp_path: Path) -> None:
    """Put five messages."""
    with EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path / "data")) as queue_manager:
        put(queue_manager.connect(), b"a", b"b", b"long body", b"c", b"d")


@pytest.fixture
def connection() -> Iterator[Connection]:
    with EmbeddedQueueManager("QM1") as queue_manager:
        queue_manager.administration.define(QueueAttributes(name="ORDERS.IN"))
        yield queue_manager.connect()


def bodies(text: str) -> list[str]:
    return [json.loads(line)["body"] for line in text.splitlines()]


# -- which messages


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ((), ["a", "b", "long body", "c", "d"]),
        (("--limit", "2"), ["a", "b"]),
        (("--limit", "5"), ["a", "b", "long body", "c", "d"]),
        (("--where", "body=?", "--limit", "3"), ["a", "b", "c"]),
        (("--where", "body=*b*", "--where", "body=long*"), ["long body"]),
        (("--where", f"message_id={'04' * 24}"), ["c"]),
    ],
)
def test_browse_shows_the_matching_messages_up_to_the_limit(
    run: Run, five: None, options: tuple[str, ...], shown: list[str]
) -> None:
    browsed = run("browse", "ORDERS.IN", "--json", *options)

    assert shown == bodies(browsed.stdout)
    more = f"There are more messages on ORDERS.IN; --limit shows more than {len(shown)}.\n"
    assert (more if "--limit" in options and len(shown) < 5 else "") == browsed.stderr


def test_each_shown_message_has_its_number_among_the_shown_ones(run: Run, five: None) -> None:
    printed = run("browse", "ORDERS.IN", "--where", "body=[bc]").stdout.splitlines()

    assert ["== Message 1 on ORDERS.IN", "== Message 2 on ORDERS.IN"] == [line for line in printed if line.startswith("==")]
    assert ["  b", "  c"] == [line for line in printed if line in {"  a", "  b", "  c", "  d"}]


@pytest.mark.parametrize(("options", "words"), [((), ""), (("--where", "body=x"), "matching ")])
def test_a_queue_without_a_message_to_show_exits_with_3(run: Run, queues: None, options: tuple[str, ...], words: str) -> None:
    shown, captured = run("browse", "ORDERS.IN", *options), run("capture", "ORDERS.IN", *options)

    text = f"There is no {words}message on ORDERS.IN.\n"
    assert [(3, "", text)] * 2 == [(each.exit_code, each.stdout, each.stderr) for each in (shown, captured)]


def test_a_browse_yields_every_message_once_whole_or_cut_or_the_one_that_is_named(connection: Connection) -> None:
    put(connection, b"first", b"second", b"third")

    assert [b"first", b"second", b"third"] == [got.body for got in browse(connection, "ORDERS.IN")]
    assert [b"firs", b"seco", b"thir"] == [got.body for got in browse(connection, "ORDERS.IN", bytes_max=4)]
    assert [b"second"] == [got.body for got in browse(connection, "ORDERS.IN", message_id=b"\2" * 24)]
    assert [b"first"] == [got.body for got in browse(connection, "ORDERS.IN", bytes_max=5, message_id=b"\1" * 24)]


def test_the_messages_that_are_still_there_are_found_by_their_identifiers(connection: Connection) -> None:
    put(connection, b"first", b"second", b"third")
    identifiers = [bytes([number]) * 24 for number in (3, 1, 9)]

    assert {b"\3" * 24, b"\1" * 24} == still_there(connection, "ORDERS.IN", identifiers)
    assert set() == still_there(connection, "ORDERS.IN", [b"\x09" * 24])
    assert [b"first", b"second", b"third"] == [got.body for got in browse(connection, "ORDERS.IN")]


def test_a_look_for_messages_reads_no_body_and_closes_its_queue() -> None:
    acts: list[object] = []

    class Noting:
        def open(self, queue: str, options: OpenOption) -> int:
            acts.append((queue, options))
            return 7

        def get(self, handle: int, options: GetOptions) -> None:
            acts.append((handle, options))

        def close(self, handle: int) -> None:
            acts.append(handle)

    connection: Any = Noting()

    assert frozenset() == still_there(connection, "ORDERS.IN", [b"\1" * 24])
    look = GetOption.BROWSE_FIRST | GetOption.NO_SYNCPOINT | GetOption.FAIL_IF_QUIESCING | GetOption.PROPERTIES_FORCE_MQRFH2
    one = GetOptions(
        options=look | GetOption.ACCEPT_TRUNCATED_MSG, buffer_bytes_max=0, match=MatchOption.MSG_ID, message_id=b"\1" * 24
    )
    assert [("ORDERS.IN", OpenOption.BROWSE | OpenOption.FAIL_IF_QUIESCING), (7, one), 7] == acts


# -- conditions


@pytest.mark.parametrize(
    ("text", "found"),
    [("priority=9", ("priority", "9")), ("body=a=b", ("body", "a=b")), ("error=", ("error", "")), ("usr.x=1", ("usr.x", "1"))],
)
def test_a_condition_is_a_name_and_a_pattern(text: str, found: tuple[str, str]) -> None:
    assert found == condition(text)


@pytest.mark.parametrize("text", ["priority", "=9", ""])
def test_a_condition_without_a_name_or_an_equals_sign_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter) as refused:
        condition(text)

    assert (f"{text!r} is not NAME=PATTERN.", "--where") == (refused.value.message, refused.value.param_hint)


@pytest.mark.parametrize(("name", "meant"), [("colur", "Did you mean colour? "), ("wombat", "")])
def test_an_unknown_name_is_refused_with_the_nearest_and_all_known_names(name: str, meant: str) -> None:
    with pytest.raises(click.BadParameter) as refused:
        named_condition(f"{name}=x", {"size", "colour"}, "no shirt has a field", "Look at the label. ")

    said = f"no shirt has a field {name!r}. {meant}Look at the label. The fields: colour, size."
    assert (said, "--where") == (refused.value.message, refused.value.param_hint)


FACTS = {
    "queue": "BOQ",
    "body": "hello",
    "why": {"queue": "IN", "error": "KeyError"},
    "properties": {"usr.city": "", "priority": "high"},
    "descriptor": {"priority": 4, "reply_to_queue": "", "backout_count": 0},
}


@pytest.mark.parametrize(
    ("name", "pattern", "holds"),
    [
        ("queue", "BOQ", True),
        ("queue", "IN", True),
        ("queue", "OUT", False),
        ("priority", "4", True),
        ("priority", "hi*", True),
        ("priority", "5", False),
        ("backout_count", "0", True),
        ("body", "HELLO", False),
        ("body", "h?llo", True),
        ("reply_to_queue", "", True),
        ("usr.city", "", True),
        ("usr.town", "", True),
        ("usr.town", "*", False),
        ("error", "", False),
        ("error", "Key[A-E]rror", True),
    ],
)
def test_a_pattern_matches_a_value_of_any_part_of_a_message(name: str, pattern: str, *, holds: bool) -> None:
    assert holds is matches(FACTS, name, pattern)


@pytest.mark.parametrize(
    ("name", "pattern", "holds"),
    [("event", "Disposed", True), ("event", "Dis", False), ("outcome", "Failed", True), ("error", "KeyError", True),
     ("frame", "shop.py:9", True), ("message_id", "ab*", True), ("queue", "IN", True), ("queue", "", False),
     ("attempts", "", True), ("wombat", "", True)],
)  # fmt: skip
def test_a_pattern_matches_a_value_of_an_event_or_of_its_outcome(name: str, pattern: str, *, holds: bool) -> None:
    outcome = {"type": "Failed", "error": "KeyError", "raised": {"frame": "shop.py:9"}}
    facts = {"message_id": "abcd", "event": {"type": "Disposed", "queue": "IN", "attempts": [], "outcome": outcome}}

    assert holds is matches_event(facts, name, pattern)


def test_an_event_without_an_outcome_matches_the_empty_pattern() -> None:
    facts = {"message_id": "ab", "event": {"type": "Delivered", "outcome": None}}

    assert (True, True, False) == tuple(
        matches_event(facts, name, pattern) for name, pattern in (("outcome", ""), ("error", ""), ("event", ""))
    )


# -- the reason from the ledger


def test_browse_shows_the_last_disposal_of_the_ledger_for_a_message_without_a_reason(
    run: Run, five: None, tmp_path: Path
) -> None:
    ledger = DecisionLedger(tmp_path / "data" / LEDGER_FILE)
    for count, (message_id, queue, target) in enumerate(
        ((2, "FIRST.IN", "OTHER.BOQ"), (2, "FIRST.IN", "ORDERS.IN"), (1, "ORDERS.IN", "OTHER.BOQ")), 1
    ):
        ledger(
            Disposed(queue=queue, message_id=bytes([message_id]) * 24, listener="book", backout_count=count,
                     attempts=(Attempt(Requeue(target)),), outcome=Failed("KeyError", "'a'")),
        )  # fmt: skip
    ledger.close()

    printed = run("browse", "ORDERS.IN", "--limit", "2").stdout

    first, second = printed.split("== Message 2")
    assert "Disposed of" not in first
    assert [
        " on ORDERS.IN",
        "  Disposed of at count 2: move it to ORDERS.IN. The outcome of its handling: failed with KeyError: 'a'.",
        "  move it to ORDERS.IN: done.",
        "",
    ] == second.splitlines()[:4]


def test_browse_needs_no_ledger(run: Run, five: None, tmp_path: Path) -> None:
    (tmp_path / "data" / LEDGER_FILE).write_bytes(b"no ledger" * 1_000)

    assert ["a"] == bodies(run("browse", "ORDERS.IN", "--limit", "1", "--json").stdout)


# -- get


def test_get_removes_the_messages_up_to_the_limit_in_order(run: Run, five: None) -> None:
    assert ["a\n", "b\nlong body\n", "c\nd\n"] == [
        run("get", "ORDERS.IN", *limit).stdout for limit in ((), ("--limit", "2"), ("--limit", "9"))
    ]
    nothing = run("get", "ORDERS.IN", "--limit", "9")
    assert (3, "There is no message on ORDERS.IN.\n") == (nothing.exit_code, nothing.stderr)


def test_get_by_an_identifier_takes_only_that_message(run: Run, five: None) -> None:
    shown = [json.loads(run("get", "ORDERS.IN", "--by-id", "02" * 24, "--json").stdout)]
    gone = run("get", "ORDERS.IN", "--by-id", "02" * 24, "--wait", "0")

    assert [("b", "02" * 24)] == [(each["body"], each["descriptor"]["message_id"]) for each in shown]
    assert (3, "There is no message with that identifier on ORDERS.IN.\n") == (gone.exit_code, gone.stderr)
    assert ["a", "long body", "c", "d"] == bodies(run("browse", "ORDERS.IN", "--json").stdout)


def test_get_prints_the_whole_of_a_long_body(run: Run, queues: None) -> None:
    run("put", "ORDERS.IN", "x" * 5_000)

    assert "x" * 5_000 + "\n" == run("get", "ORDERS.IN").stdout


@pytest.mark.parametrize(
    ("wait_s", "message_id", "expected"),
    [
        (0.0, None, GetOptions(options=_TAKE)),
        (1.5, None, GetOptions(options=_TAKE | GetOption.WAIT, wait_ms=1_500)),
        (0.0, "0a" * 24, GetOptions(options=_TAKE, match=MatchOption.MSG_ID, message_id=b"\n" * 24)),
    ],
)
def test_a_get_waits_and_selects_as_its_options_say(wait_s: float, message_id: str | None, expected: GetOptions) -> None:
    assert expected == _options(wait_s, message_id)


# -- capture


def test_a_capture_does_not_continue_a_line_that_was_cut_off(run: Run, five: None, tmp_path: Path) -> None:
    (tmp_path / "some.jsonl").write_bytes(b'{"queue":"ORD')

    for _ in range(2):
        assert 0 == run("capture", "ORDERS.IN", "--out", "some.jsonl", "--limit", "1").exit_code

    cut, *whole = (tmp_path / "some.jsonl").read_text().splitlines()
    assert ('{"queue":"ORD', ["ORDERS.IN"] * 2) == (cut, [json.loads(line)["queue"] for line in whole])


def test_a_capture_appends_the_matching_messages_to_the_file_and_counts_them(run: Run, five: None, tmp_path: Path) -> None:
    both = run("capture", "ORDERS.IN", "--out", "some.jsonl", "--where", "body=?", "--limit", "2")
    one = run("capture", "ORDERS.IN", "--out", "some.jsonl", "--where", "body=long*")
    record = run("capture", "ORDERS.IN", "--out", "all.jsonl", "--json")

    assert ("", "2 messages of ORDERS.IN captured; the messages stay on the queue.\n") == (both.stdout, both.stderr)
    assert "1 message of ORDERS.IN captured; the message stays on the queue.\n" == one.stderr
    assert ({"queue": "ORDERS.IN", "messages": 5, "file": "all.jsonl"}, "") == (json.loads(record.stdout), record.stderr)
    captures = list(read_captures(tmp_path / "some.jsonl"))
    assert [b"a", b"b", b"long body"] == [each.data for each in captures]
    assert {("ORDERS.IN", "QM1", ())} == {(each.queue, each.queue_manager, each.redacted) for each in captures}
    assert 5 == len(bodies(run("browse", "ORDERS.IN", "--json").stdout))


def test_a_mistyped_property_that_was_to_be_left_out_is_named(run: Run, queues: None) -> None:
    run("put", "ORDERS.IN", "one", "two", "--property", "card=4711")

    captured = run("capture", "ORDERS.IN", "--redact", "usr.card", "--redact", "usr.crad", "--redact", "body")

    warning = "warning: no captured message has a value of usr.crad, so --redact usr.crad left out nothing."
    assert (0, warning) == (captured.exit_code, captured.stderr.splitlines()[0])
    assert 1 == captured.stderr.count("warning")


def test_a_capture_goes_to_standard_output_without_a_file(run: Run, five: None, tmp_path: Path) -> None:
    captured = run("capture", "ORDERS.IN", "--limit", "1")
    (tmp_path / "copy.jsonl").write_text(captured.stdout)

    assert [b"a"] == [each.data for each in read_captures(tmp_path / "copy.jsonl")]
    refused = run("capture", "ORDERS.IN", "--json")
    assert (2, True) == (refused.exit_code, "--json needs --out FILE" in refused.stderr)
