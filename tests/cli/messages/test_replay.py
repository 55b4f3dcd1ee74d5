"""`mqflow replay`: units of work that can be continued, and the listener that takes each captured message."""

import json
import signal
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from mqflow.app.captures import Captured, written
from mqflow.cli.messages.replay import put_captures
from mqflow.cli.messages.units_of_work import Result
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import Connection
from tests.cli.conftest import Run
from tests.cli.messages.test_messages import _Commits

CAPTURED = Captured(
    queue="ORDERS.IN",
    queue_manager="QM1",
    descriptor=MessageDescriptor(format="MQSTR", ccsid=1208, message_id=b"m" * 24, persistence=1, priority=0),
    data=b"an order",
)
NOTHING: Callable[[], None] = lambda: None  # noqa: E731 - a constant of the tests


def replayed(messages: int, happens: Callable[[], None] = NOTHING, *, nth: int = 0, from_line: int = 1) -> tuple[Result, int]:
    """Put copies of the message with this event after a commit. Return the result and the depth of the queue."""
    with closing(EmbeddedQueueManager("QM1")) as queue_manager:
        queue_manager.administration.define(QueueAttributes(name="OTHER", max_depth=100_000))
        connection = queue_manager.connect()
        striking = cast("Connection", _Commits(connection, happens, after=True, nth=nth))
        captures = [(number, CAPTURED) for number in range(from_line, from_line + messages)]
        result = put_captures(striking, "OTHER", captures)
        connection.backout()
        return result, queue_manager.administration.queue_status("OTHER").depth


def no_answer() -> None:
    raise error_for(Reason.CONNECTION_BROKEN, "MQCMIT", queue_manager="QM1")


# -- the units of work


def test_more_messages_than_a_unit_of_work_can_have_are_put() -> None:
    result, depth = replayed(10_001)

    assert (10_001, 10_001, "") == (depth, result.committed, result.stopped)


def test_after_a_commit_without_an_answer_the_text_has_the_numbers_and_the_line_to_continue_from() -> None:
    result, depth = replayed(1_700, no_answer, nth=2, from_line=11)

    assert (1_000, 500, 500) == (depth, result.committed, result.in_doubt)
    assert result.stopped.endswith(
        " Committed: 500 messages. The commit got no answer, so 500 messages up to this one may be put: look at the queue."
        " Continue with --from-line 511 if they are not there, else with --from-line 1011."
    )


def test_ctrl_c_in_a_commit_gives_the_count_and_the_line_to_continue_from() -> None:
    result, depth = replayed(1_700, lambda: signal.raise_signal(signal.SIGINT), nth=2)

    assert (1_000, 1_000, True) == (depth, result.committed, result.interrupted)
    assert "Interrupted. Committed: 1,000 messages. Continue with --from-line 1001." == result.stopped


@pytest.fixture
def many(run: Run, queues: None, tmp_path: Path) -> None:
    """Make a queue for 600 messages, and a file with 700, the first of them in line 2."""
    (tmp_path / "many.jsonl").write_bytes(b"\n" + written(CAPTURED) * 700)


@pytest.mark.usefixtures("many")
def test_a_refused_replay_can_be_continued_and_puts_each_message_once(run: Run) -> None:
    refused = run("replay", "many.jsonl", "--to", "SMALL", "--json")
    run("mqsc", stdin="ALTER QLOCAL(SMALL) MAXDEPTH(5000)")
    continued = run("replay", "many.jsonl", "--to", "SMALL", "--from-line", "502")

    assert (1, 500) == (refused.exit_code, len(refused.stdout.splitlines()))
    assert "mqflow: Line 602: MQPUT on SMALL" in refused.stderr
    assert refused.stderr.endswith(" Committed: 500 messages. Continue with --from-line 502.\n")
    assert (0, "200 messages put on SMALL.") == (continued.exit_code, continued.stderr.splitlines()[-1])
    assert 700 == len(run("browse", "SMALL", "--limit", "9999", "--json").stdout.splitlines())


@pytest.mark.usefixtures("many")
def test_a_line_after_the_last_message_puts_nothing(run: Run) -> None:
    nothing = run("replay", "many.jsonl", "--to", "SMALL", "--from-line", "702")

    assert (3, "There is no message in many.jsonl from line 702 on.\n") == (nothing.exit_code, nothing.stderr)


@pytest.mark.usefixtures("many")
def test_messages_in_doubt_are_no_messages_that_were_put(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    doubt = Result(committed=2, in_doubt=1, stopped="It broke.")
    monkeypatch.setattr("mqflow.cli.messages.replay.put_captures", lambda *_: doubt)

    result = run("replay", "many.jsonl", "--to", "SMALL", "--json")

    assert (1, "mqflow: It broke.\n") == (result.exit_code, result.stderr)
    assert ["put", "put", "in doubt"] == [json.loads(line)["result"] for line in result.stdout.splitlines()]


@pytest.mark.usefixtures("many")
def test_definitions_are_refused_for_a_real_queue(run: Run, tmp_path: Path) -> None:
    (tmp_path / "more.mqsc").write_text("DEFINE QLOCAL(BOOKED)")

    refused = run("replay", "many.jsonl", "--to", "SMALL", "--define", "more.mqsc")

    assert (2, True) == (refused.exit_code, "--define is for --app" in refused.stderr)
    assert 3 == run("browse", "SMALL").exit_code
