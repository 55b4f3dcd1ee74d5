"""`mqflow poison` as text and as records: each group whole, and its parts in words."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from mqflow.app.run.decision_ledger import LEDGER_FILE
from mqflow.cli.messages.poison import HEADERS_BYTES_MAX, cause, details, failed_messages, times_of, trend_of, with_failure
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.events import Attempt, Disposed
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import OpenOption, Persistence, PutOption
from mqflow.policy.poison import moved_message
from mqflow.policy.poison.disposition import Completed, Failed, Outcome, Requeue, Undecodable
from mqflow.policy.poison.failure_groups import FailedMessage, FailureGroup, Trend
from mqflow.policy.poison.failure_origin import Raised
from mqflow.policy.poison.moved_message import Why
from mqflow.testing.dead_letters import put_dead_letter
from mqflow.world import SYSTEM_CLOCK
from tests.cli.conftest import Run

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
FAILED = Why(
    queue="ORDERS.IN", outcome="failed", error="ValueError", text="no price", frame="shop.py:9 in [book]", handler="book"
)
UNDECODABLE = Why(queue="ORDERS.IN", outcome="undecodable", error="DecodeError", text="no JSON")
#: Without a time of the put, so that no line of the output depends on the clock.
TEXT = MessageDescriptor(persistence=Persistence.PERSISTENT, format="MQSTR", ccsid=1208)
ONE, TWO, THREE = ("01" * 24, "02" * 24, "03" * 24)


@pytest.fixture
def poison(run: Run, queues: None, tmp_path: Path) -> None:
    """Put two failed orders, one undecodable order and one message without a reason on the backout queue."""
    put_failed(tmp_path, FAILED, FAILED, UNDECODABLE, None)


def put_failed(folder: Path, *reasons: Why | None) -> None:
    with EmbeddedQueueManager("QM1", store=SqliteStore(folder / "data")) as queue_manager:
        connection = queue_manager.connect()
        handle = connection.open("ORDERS.BOQ", OpenOption.OUTPUT | OpenOption.SET_ALL_CONTEXT)
        for number, why in enumerate(reasons, 1):
            descriptor = replace(TEXT, message_id=bytes([number]) * 24)
            folders = () if why is None else (moved_message.folder(why),)
            moved, data = moved_message.to_backout_queue(descriptor, b"order", folders=folders)
            connection.put(handle, moved, data, PutOption.NO_SYNCPOINT | PutOption.SET_ALL_CONTEXT)


@pytest.mark.usefixtures("poison")
def test_the_groups_are_printed_with_their_samples_and_the_commands_that_move_them(run: Run) -> None:
    printed = run("poison", "ORDERS.BOQ")

    own = "'frame=shop.py:9 in [[]book]'"
    moves = "mqflow redrive ORDERS.BOQ --to origin --where queue=ORDERS.IN --where reason="
    assert (0, "") == (printed.exit_code, printed.stderr)
    assert [
        "ORDERS.BOQ: 4 messages in 3 groups",
        "",
        "2 messages: ValueError",
        "  from ORDERS.IN",
        "  raised at shop.py:9 in [book]",
        f"  {ONE}",
        "    no price",
        f"  {moves} --where outcome=failed --where error=ValueError --where {own}",
        "",
        "1 message: DecodeError",
        "  from ORDERS.IN",
        "  undecodable",
        f"  {THREE}",
        "    no JSON",
        f"  {moves} --where outcome=undecodable --where error=DecodeError --where frame=",
        "",
        "1 message: no reason is known",
        "  from an unknown queue",
        f"  {'04' * 24}",
    ] == printed.stdout.splitlines()


@pytest.mark.usefixtures("poison")
def test_a_group_for_a_script_has_its_parts_times_samples_and_filters(run: Run) -> None:
    first, second, third = (json.loads(line) for line in run("poison", "ORDERS.BOQ", "--json").stdout.splitlines())

    parts = {"queue": "ORDERS.BOQ", "origin": "ORDERS.IN", "reason": 0, "first_at": None, "last_at": None}
    where = ["queue=ORDERS.IN", "reason="]
    assert first == parts | {
        "messages": 2,
        "outcome": "failed",
        "exception": "ValueError",
        "frame": "shop.py:9 in [book]",
        "samples": [{"message_id": ONE, "at": None, "text": "no price"}],
        "where": [*where, "outcome=failed", "error=ValueError", "frame=shop.py:9 in [[]book]"],
    }
    assert second["where"] == [*where, "outcome=undecodable", "error=DecodeError", "frame="]
    assert ("", False) == (third["origin"], "where" in third)  # no filter finds messages from an unknown queue


@pytest.mark.usefixtures("poison")
def test_the_printed_command_repeats_the_filters_of_the_look(run: Run) -> None:
    printed = run("poison", "ORDERS.BOQ", "--where", "outcome=failed", "--by", "handler", "--samples", "2").stdout

    assert [
        "ORDERS.BOQ: 2 messages in 1 group",
        "",
        "2 messages: book",
        "  handled by book",
        f"  {ONE}",
        "    no price",
        f"  {TWO}",
        "    no price",
        "  mqflow redrive ORDERS.BOQ --to origin --where outcome=failed --where handler=book",
    ] == printed.splitlines()


@pytest.mark.usefixtures("poison")
def test_the_printed_command_has_each_filter_once(run: Run) -> None:
    printed = run("poison", "ORDERS.BOQ", "--where", "error=ValueError").stdout

    assert 1 == printed.count("--where error=ValueError")


@pytest.mark.usefixtures("poison")
@pytest.mark.parametrize(("where", "words"), [((), ""), (("--where", "body=none"), "matching ")])
def test_a_queue_without_groups_says_so(run: Run, where: tuple[str, ...], words: str) -> None:
    printed = run("poison", "ORDERS.IN", *where)

    assert (3, "", f"There is no {words}message on ORDERS.IN.\n") == (printed.exit_code, printed.stdout, printed.stderr)


def test_a_damaged_ledger_is_an_error_with_its_path(run: Run, queues: None, tmp_path: Path) -> None:
    (tmp_path / "data" / LEDGER_FILE).write_bytes(b"no ledger" * 1_000)

    refused = run("poison", "ORDERS.BOQ")

    assert (1, True) == (refused.exit_code, str(Path("data", LEDGER_FILE)) in refused.stderr)


# -- the parts of a group in words


def group(**parts: str | int | datetime | Trend | None) -> FailureGroup:
    nothing = dict.fromkeys(("queue", "reason", "outcome", "exception", "frame", "handler", "age", "first_at", "last_at"))
    return FailureGroup(**nothing | {"messages": 1, "samples": (), "has_reason": True} | parts)  # type: ignore[arg-type]  # by name


@pytest.mark.parametrize(
    ("parts", "title", "more"),
    [
        ({}, "all reasons", []),
        ({"reason": 0, "outcome": "", "exception": "", "frame": ""}, "no reason is known", []),
        ({"exception": "KeyError", "reason": 0, "outcome": "failed"}, "KeyError", []),
        ({"exception": "KeyError", "reason": 0, "outcome": "undecodable"}, "KeyError", ["undecodable"]),
        ({"exception": "KeyError", "reason": 2053}, "KeyError", ["put here because of MQRC_Q_FULL (2053)"]),
        ({"reason": 2053, "outcome": "failed"}, "MQRC_Q_FULL (2053)", []),
        ({"reason": 0, "outcome": "failed"}, "failed", []),
        ({"frame": "shop.py:9"}, "shop.py:9", ["raised at shop.py:9"]),
        ({"frame": "", "handler": "book"}, "book", ["handled by book"]),
        ({"age": "the last hour"}, "the last hour", ["moved in the last hour"]),
        ({"age": "older"}, "older", ["moved earlier (older)"]),
    ],
)
def test_the_title_of_a_group_is_its_exception_or_the_best_other_part(
    parts: dict[str, str | int], title: str, more: list[str]
) -> None:
    assert (title, more) == (cause(group(**parts)), list(details(group(**parts))))


@pytest.mark.parametrize(
    ("age_s", "words"),
    [(-5, "0 s ago"), (0, "0 s ago"), (119, "119 s ago"), (120, "2 min ago"), (7_199, "119 min ago"), (7_200, "2 h ago"),
     (172_799, "47 h ago"), (172_800, "2 days ago"), (400 * 86_400, "400 days ago")],
)  # fmt: skip
def test_the_time_of_one_message_is_a_moment_and_its_age(age_s: int, words: str) -> None:
    at = NOW - timedelta(seconds=age_s)

    assert f"at {at:%Y-%m-%d %H:%M:%S} UTC, {words}" == times_of(group(first_at=at, last_at=at), NOW)


def test_the_times_of_several_messages_are_the_first_and_the_last() -> None:
    first, last = NOW - timedelta(hours=5), NOW - timedelta(seconds=90)

    assert "first 2026-03-01 07:00:00, last 2026-03-01 11:58:30 UTC, 90 s ago" == times_of(
        group(first_at=first, last_at=last), NOW
    )
    assert "" == times_of(group(), NOW)


def test_a_trend_is_drawn_and_its_last_two_windows_are_in_words(
    run: Run, queues: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SYSTEM_CLOCK, "wall", NOW.timestamp)
    put_failed(tmp_path, *(replace(FAILED, at=NOW - timedelta(minutes=ago)) for ago in (1, 2, 7, 100)))

    text, record = (run("poison", "ORDERS.BOQ", *options).stdout for options in ((), ("--json",)))

    counts = [0] * 3 + [1] + [0] * 18 + [1, 2]
    assert f"  {'▁' * 3}▅{'▁' * 18}▅█  2 in the last 5 minutes, 1 in the 5 minutes before" in text.splitlines()
    assert {"window_s": 300, "messages": counts} == json.loads(record)["trend"]
    assert ["", ""] == [trend_of(group()), trend_of(group(trend=Trend(timedelta(days=7), (0, 1))))]  # one message
    assert "3 in the last week, 1,000 in the week before" == trend_of(
        group(messages=1_003, trend=Trend(timedelta(days=7), (1_000, 3)))
    )


# -- the failure from the ledger

DEAD = FailedMessage(message_id=b"m" * 24, why=Why(queue="", reason=2053), at=None)


def disposed(outcome: Outcome | None) -> Callable[[bytes], Disposed]:
    return lambda message_id: Disposed(
        queue="ORDERS.IN", message_id=message_id, listener="book", backout_count=1, attempts=(Attempt(Requeue("BOQ")),),
        outcome=outcome,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("outcome", "name", "frame"),
    [
        (Failed("KeyError", "'a'", raised=Raised("s.py:1")), "failed", "s.py:1"),
        (Undecodable("KeyError", "'a'"), "undecodable", ""),
    ],
)
def test_the_ledger_completes_a_dead_letter_without_an_exception(outcome: Outcome, name: str, frame: str) -> None:
    why = Why(queue="ORDERS.IN", reason=2053, outcome=name, error="KeyError", text="'a'", frame=frame, handler="book")

    assert FailedMessage(message_id=DEAD.message_id, why=why, at=None, has_reason=False) == with_failure(
        DEAD, disposed(outcome)
    )


def test_the_queue_and_the_handler_that_the_message_names_win_over_the_ledger() -> None:
    named = replace(DEAD, why=Why(queue="OTHER.IN", handler="sell"))

    why = with_failure(named, disposed(Failed("KeyError", ""))).why

    assert ("OTHER.IN", "sell", "KeyError") == (why.queue, why.handler, why.error)


@pytest.mark.parametrize("outcome", [None, Completed()])
def test_a_message_stays_as_it_is_if_the_ledger_has_no_failure(outcome: Outcome | None) -> None:
    own = replace(DEAD, why=FAILED)

    assert DEAD == with_failure(DEAD, disposed(outcome))
    assert DEAD == with_failure(DEAD, lambda _: None)
    assert own == with_failure(own, disposed(Failed("KeyError", "")))


def test_only_the_headers_of_a_message_are_read_unless_a_filter_needs_its_body() -> None:
    with EmbeddedQueueManager("QM1") as queue_manager:
        queue_manager.administration.define(QueueAttributes(name="DEAD"))
        connection = queue_manager.connect()
        put_dead_letter(connection, "DEAD", b"x" * HEADERS_BYTES_MAX + b"end", queue="IN", descriptor=TEXT)

        seen = [
            len(list(failed_messages(connection, "DEAD", wanted, lambda _: None)))
            for wanted in ([], [("body", "*end")], [("body", "*other")])
        ]

    assert [1, 1, 0] == seen
