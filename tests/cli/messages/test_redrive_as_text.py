"""`mqflow redrive` and `replay` as text, as records and as exit codes; and the journal of moves."""

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import click
import pytest

from mqflow.app.config.settings import Settings
from mqflow.cli import connection_options
from mqflow.cli.messages.redrive import pause, per_second, records_of
from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import Connection
from tests.cli.conftest import Run
from tests.cli.messages.conftest import DLQ
from tests.cli.messages.test_messages import _Commits
from tests.cli.messages.test_redrive import on

NO_ORIGIN = "The message does not name the queue that it came from"


# -- the rate


@pytest.mark.parametrize(
    ("text", "rate"),
    [(None, 0.0), ("50", 50.0), ("50/s", 50.0), ("600/m", 10.0), ("600/min", 10.0), ("1800/h", 0.5), ("0.5", 0.5),
     (str(1 / 86_400), 1 / 86_400)],
)  # fmt: skip
def test_a_rate_is_in_messages_each_second(text: str | None, rate: float) -> None:
    assert rate == per_second(click.Context(click.Command("redrive")), click.Option(["--rate"]), text)


@pytest.mark.parametrize(
    "text", ["0", "0/s", "1e-6", "1e-9/h", "x/s", "fast", "5/d", "nan", "nan/h", "inf", "inf/h", "-inf", "-1", "-1/s"]
)
def test_a_rate_of_less_than_a_message_a_day_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter) as refused:
        per_second(click.Context(click.Command("redrive")), click.Option(["--rate"]), text)

    assert f"{text!r} is not a rate; examples are 50/s, 600/m and 1000/h." == refused.value.message


def test_no_pause_takes_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    class Waiting:
        def wait(self, seconds: float) -> None:
            waits.append(seconds)

    monkeypatch.setattr("mqflow.cli.messages.redrive.Event", Waiting)
    for seconds in (-1.0, 0.0, 0.5, 1.0):
        pause(seconds)

    assert [0.5, 1.0] == waits


def test_without_a_disposition_queue_there_are_no_records() -> None:
    assert records_of(Settings(), "mqflow redrive") is None
    assert records_of(Settings(disposition_queue="D"), "mqflow redrive") is not None


# -- the result of a redrive


def test_the_result_has_a_row_for_each_target_and_each_reason(run: Run, dead: None) -> None:
    printed = run("redrive", DLQ, "--to", "origin")

    head, rule, *rows = printed.stdout.splitlines()
    assert ["to", "messages", "result"] == head.split()
    assert {"-", " "} == set(rule)
    shown = [(row.split("  ")[0], [part for part in row.split("  ")[1:] if part]) for row in rows]
    assert ["ORDERS.IN (QM1)", "SHUT (QM1)", "no origin"] == [target for target, _ in shown]
    assert ["2", "moved"] == [part.strip() for part in shown[0][1]]
    assert "MQRC_PUT_INHIBITED (2051)" in shown[1][1][-1]
    assert shown[2][1][-1].startswith(NO_ORIGIN)
    reached = ((20, "1 message"), (50, "2 messages"), (70, "2 messages"), (100, "2 messages"))
    assert [f"Redriving {DLQ}: {percent} %, {moved}" for percent, moved in reached] == printed.stderr.splitlines()
    assert 1 == printed.exit_code


def test_a_script_reads_a_record_for_each_message(run: Run, dead: None) -> None:
    dry, real = (
        [json.loads(line) for line in run("redrive", DLQ, "--to", "origin", "--json", *more).stdout.splitlines()]
        for more in (("--dry-run",), ())
    )

    def facts(records: list[dict[str, object]]) -> list[tuple[object, ...]]:
        return [(each["to"], each["queue_manager"], each["result"], each["reason"]) for each in records]

    to_orders, nowhere = ("ORDERS.IN", "QM1"), (None, None)
    assert [(*to_orders, "would be moved", 0)] * 2 == facts(dry)[:2]
    assert [(*to_orders, "moved", 0)] * 2 == facts(real)[:2]
    assert [("SHUT", "QM1", "stays", 2051), (*nowhere, "stays", 0)] == facts(real)[2:]
    assert ["", "", True] == [real[0]["why_not"], real[1]["why_not"], str(real[3]["why_not"]).startswith(NO_ORIGIN)]
    assert [each["message_id"] for each in dry] == [each["message_id"] for each in real]


@pytest.mark.parametrize(("limit", "moved"), [(1, ["one"]), (2, ["one", "two"]), (3, ["one", "two", "three"])])
def test_the_limit_is_the_number_of_moved_messages(run: Run, dead: None, limit: int, moved: list[str]) -> None:
    done = run("redrive", DLQ, "--to", "OTHER", "--limit", str(limit))

    assert (0, moved) == (done.exit_code, on(run, "OTHER"))
    assert 4 - limit == len(on(run, DLQ))


def test_messages_that_stay_are_not_part_of_the_limit(run: Run, dead: None) -> None:
    done = run("redrive", DLQ, "--to", "origin", "--where", "body=[tf]*", "--limit", "2", "--json")

    results = [json.loads(line)["result"] for line in done.stdout.splitlines()]
    assert ["moved", "stays", "stays"] == results


def test_a_redrive_without_a_message_says_so(run: Run, dead: None) -> None:
    empty, none = run("redrive", "OTHER", "--to", DLQ), run("redrive", DLQ, "--to", "OTHER", "--where", "body=nothing")

    assert (3, "", "There is no message on OTHER.\n") == (empty.exit_code, empty.stdout, empty.stderr)
    assert (3, "", f"There is no matching message on {DLQ}.\n") == (none.exit_code, none.stdout, none.stderr)


def test_the_journal_has_one_line_for_each_move_and_a_dry_run_writes_none(run: Run, dead: None, tmp_path: Path) -> None:
    journal = tmp_path / "moved.txt"
    assert 0 == run("redrive", DLQ, "--to", "OTHER", "--journal", "moved.txt", "--dry-run").exit_code
    assert "" == journal.read_text()

    assert 1 == run("redrive", DLQ, "--to", "origin", "--journal", "moved.txt").exit_code  # two stay

    lines = journal.read_text().splitlines()
    assert [16, 16] == [len(line) for line in lines]
    assert 2 == len({int(line, 16) for line in lines})


def test_a_message_moves_as_often_as_the_option_says(run: Run, dead: None) -> None:
    results = []
    for _ in range(3):
        only_one = ("--where", "body=one", "--journal", "moved.txt", "--again", "2", "--json")
        results += [json.loads(line)["result"] for line in run("redrive", DLQ, "--to", "OTHER", *only_one).stdout.splitlines()]
        run("redrive", "OTHER", "--to", DLQ)

    assert ["moved", "moved", "stays"] == results


def test_a_redrive_names_itself_only_if_it_puts_records(run: Run, dead: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0 == run("mqsc", stdin="DEFINE QLOCAL(DISPOSED)").exit_code
    monkeypatch.setenv("MQFLOW_DISPOSITION_QUEUE", "DISPOSED")

    dry = run("redrive", DLQ, "--to", "OTHER", "--dry-run")
    named = run("redrive", DLQ, "--to", "OTHER", "--limit", "1")
    nothing = run("redrive", DLQ, "--to", "OTHER", "--where", "body=nothing")

    reached = ((20, "1 message"), (50, "2 messages"), (70, "3 messages"), (100, "4 messages"))
    assert [f"Looking at {DLQ}: {percent} %, {moved}" for percent, moved in reached] == dry.stderr.splitlines()
    assert f"There is no matching message on {DLQ}.\n" == nothing.stderr
    [record] = [json.loads(text) for text in on(run, "DISPOSED")]
    assert record["redrive_id"].startswith(f"{DLQ} 20")
    named_it = f"The name of this redrive in the records is {record['redrive_id']}."
    assert [f"Redriving {DLQ}: 100 %, 1 message", named_it] == named.stderr.splitlines()
    assert "mqflow redrive" == record["consumer"]


def test_without_a_depth_there_is_no_progress(run: Run, dead: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise error_for(Reason.NOT_AUTHORIZED, "MQINQ", DLQ, "QM1")

    monkeypatch.setattr("mqflow.cli.messages.redrive.current_depth", refused)

    moved = run("redrive", DLQ, "--to", "OTHER")

    assert (0, "") == (moved.exit_code, moved.stderr)
    assert ["OTHER", "4", "moved"] == moved.stdout.splitlines()[-1].split()


def test_each_record_of_a_redrive_is_whole(run: Run, dead: None) -> None:
    shown = run("redrive", DLQ, "--to", "OTHER", "--where", "body=one", "--json")
    stays = run("redrive", DLQ, "--to", "origin", "--where", "body=four", "--json")

    [moved], [left] = ([json.loads(line) for line in each.stdout.splitlines()] for each in (shown, stays))
    [identifier] = [
        json.loads(line)["descriptor"]["message_id"] for line in run("browse", "OTHER", "--json").stdout.splitlines()
    ]
    common = {"queue_manager": "", "reason": 0}
    assert common | {"message_id": identifier, "to": "OTHER", "result": "moved", "why_not": ""} == moved
    assert {"to": None, "queue_manager": None, "result": "stays", "reason": 0}.items() <= left.items()
    assert {"message_id", "to", "queue_manager", "result", "reason", "why_not"} == left.keys()


# -- an early end


def end_at_commit(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], None], nth: int) -> None:
    """Let this happen after a commit of the command."""

    @contextmanager
    def connected(url: str | None) -> Iterator[Connection]:
        with connection_options.connected(url) as connection:
            yield cast("Connection", _Commits(connection, happens, after=True, nth=nth))

    monkeypatch.setattr("mqflow.cli.messages.redrive.connected", connected)


def no_answer() -> None:
    raise error_for(Reason.CONNECTION_BROKEN, "MQCMIT", queue_manager="QM1")


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def test_after_ctrl_c_in_a_commit_the_table_and_the_journal_have_each_move(
    run: Run, dead: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    end_at_commit(monkeypatch, interrupt, 2)

    ended = run("redrive", DLQ, "--to", "OTHER", "--journal", "moved.txt")

    assert (130, ["one", "two"]) == (ended.exit_code, on(run, "OTHER"))
    assert ["OTHER", "2", "moved"] == ended.stdout.splitlines()[-1].split()
    assert 2 == len((tmp_path / "moved.txt").read_text().splitlines())


def test_a_move_in_doubt_is_in_the_table_and_in_the_journal(
    run: Run, dead: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    end_at_commit(monkeypatch, no_answer, 3)

    ended = run("redrive", DLQ, "--to", "OTHER", "--journal", "moved.txt")

    assert (1, True) == (ended.exit_code, "MQCMIT" in ended.stderr)
    moved, doubtful = ended.stdout.splitlines()[-2:]
    assert ["OTHER", "2", "moved"] == moved.split()
    assert ["OTHER", "1", "Nobody", "knows", "whether", "the", "commit", "took", "effect."] == doubtful.split()[:9]
    assert 3 == len((tmp_path / "moved.txt").read_text().splitlines())


def test_a_script_reads_which_move_is_in_doubt(run: Run, dead: None, monkeypatch: pytest.MonkeyPatch) -> None:
    end_at_commit(monkeypatch, no_answer, 2)

    ended = run("redrive", DLQ, "--to", "OTHER", "--json")

    found = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [("moved", 0), ("in doubt", 2009)] == [(each["result"], each["reason"]) for each in found]


# -- replay


def test_a_replay_of_less_than_a_unit_of_work_puts_the_whole_file_or_nothing(run: Run, dead: None) -> None:
    run("capture", DLQ, "--out", "dead.jsonl")
    run("mqsc", stdin="ALTER QLOCAL('SMALL') MAXDEPTH(3)")

    full = run("replay", "dead.jsonl", "--to", "SMALL")
    done = run("replay", "dead.jsonl", "--to", "OTHER")
    records = [json.loads(line) for line in run("replay", "dead.jsonl", "--to", "OTHER", "--json").stdout.splitlines()]

    assert (1, True, []) == (full.exit_code, "MQRC_Q_FULL (2053)" in full.stderr, on(run, "SMALL"))
    assert (0, "", "Putting on OTHER: 100 %, 4 messages\n4 messages put on OTHER.\n") == (
        done.exit_code,
        done.stdout,
        done.stderr,
    )
    assert 8 == len(on(run, "OTHER"))
    captured = [json.loads(line)["descriptor"]["message_id"] for line in run("browse", DLQ, "--json").stdout.splitlines()]
    assert [{"message_id": each, "queue": "OTHER", "result": "put"} for each in captured] == records


def test_redacted_messages_are_counted_in_the_refusal(run: Run, dead: None, tmp_path: Path) -> None:
    run("capture", DLQ, "--out", "dead.jsonl", "--limit", "2", "--redact", "body")
    run("capture", DLQ, "--out", "dead.jsonl", "--limit", "1")

    refused = run("replay", "dead.jsonl", "--to", "OTHER")

    assert (2, True) == (refused.exit_code, "2 of these messages are redacted: no application has put them" in refused.stderr)
    assert [] == on(run, "OTHER")


@pytest.mark.parametrize("where", [(), ("--to", "OTHER", "--app", "some:app")])
def test_a_replay_has_exactly_one_target(run: Run, dead: None, where: tuple[str, ...]) -> None:
    run("capture", DLQ, "--out", "dead.jsonl")

    refused = run("replay", "dead.jsonl", *where)

    assert (2, True) == (refused.exit_code, "Give either --to QUEUE or --app MODULE:APP." in refused.stderr)


APP = """
from mqflow import App

app = App()


@app.listener("OTHER")
@app.publisher("BOOKED")
async def first(order: str) -> str:
    return order


@app.listener("ORDERS.IN")
@app.publisher("BOOKED")
async def book(order: str) -> str:
    if order == "two":
        raise ValueError("no such order")
    return order
"""


def test_handlers_get_the_messages_with_the_queues_that_they_need(run: Run, dead: None, tmp_path: Path) -> None:
    for number in range(3):  # each run is a process of its own for its user, and loads the application again
        (tmp_path / f"replayed_shop_{number}.py").write_text(APP)
    (tmp_path / "more.mqsc").write_text("DEFINE QLOCAL(BOOKED)")
    run("redrive", DLQ, "--to", "origin")
    run("capture", "ORDERS.IN", "--out", "orders.jsonl")
    run("capture", DLQ, "--out", "orders.jsonl", "--where", "body=four")

    command, define = ("replay", "orders.jsonl", "--app"), ("--define", "more.mqsc")
    refused = run(*command, "replayed_shop_0:app", *define)
    assert (2, "") == (refused.exit_code, refused.stdout)
    assert f"Line 3: no listener takes this message of {DLQ}. The application listens on ORDERS.IN, OTHER." in refused.stderr
    run("capture", "ORDERS.IN", "--out", "known.jsonl")
    command = ("replay", "known.jsonl", "--app")
    shown = run(*command, "replayed_shop_0:app", *define)
    without = run(*command, "replayed_shop_1:app")
    printed = run(*command, "replayed_shop_2:app", *define, "--json")
    records = [json.loads(line) for line in printed.stdout.splitlines()]

    assert (1, "1 of 2 messages handled, 1 failed.\n") == (shown.exit_code, shown.stderr)
    assert (1, "0 of 2 messages handled, 2 failed.\n") == (without.exit_code, without.stderr)
    lines = shown.stdout.splitlines()
    assert ["ORDERS.IN", "ORDERS.IN"] == [line.split()[1] for line in lines if not line.startswith(" ")]
    assert ["    Committed: completed."] == [line for line in lines if "completed" in line]
    assert [("ORDERS.IN", "completed"), ("ORDERS.IN", "failed")] == [(each["queue"], each["result"]) for each in records]
    assert ["Completed", "Failed"] == [each["outcome"]["type"] for each in records]
    assert ["two"] == [each for each in on(run, "ORDERS.IN") if each == "two"]  # the real queue stays as it is


def test_an_application_without_a_listener_replays_nothing(run: Run, dead: None, tmp_path: Path) -> None:
    (tmp_path / "idle_shop.py").write_text("from mqflow import App\napp = App()\n")
    run("capture", DLQ, "--out", "dead.jsonl")

    refused = run("replay", "dead.jsonl", "--app", "idle_shop:app")

    assert (2, True) == (
        refused.exit_code,
        "The application has no listener on a queue, so no handler takes the messages." in refused.stderr,
    )
