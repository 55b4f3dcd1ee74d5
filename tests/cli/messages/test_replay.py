"""`mqflow replay`: units of work that can be continued, and the listener that takes each captured message."""

import json
import signal
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest
from msgspec.structs import replace

from mqflow.app.captures import Captured, written
from mqflow.cli.messages.replay import put_captures
from mqflow.cli.messages.units_of_work import Result
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import error_for
from mqflow.mqi.options import MessageFlag
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison import moved_message
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


def test_a_failed_definition_ends_the_replay_and_a_queue_that_exists_does_not(run: Run, tmp_path: Path) -> None:
    (tmp_path / "good.mqsc").write_text("DEFINE QLOCAL(OTHER)\nDEFINE QLOCAL(BOOKED)\n")
    (tmp_path / "bad.mqsc").write_text("DEFINE QLOCALE(BOOKED)\nDELETE QLOCAL(NOWHERE)\n")
    captured = replace(CAPTURED, queue="OTHER")

    good = passed(run, tmp_path, "defining_shop", captured, "--define", "good.mqsc")
    code, said, took = passed(run, tmp_path, "misdefining_shop", captured, "--define", "bad.mqsc")

    assert (0, "other an order\n") == (good[0], good[2])
    assert (1, "other an order\n") == (code, took)
    assert said.startswith("mqflow: bad.mqsc: AMQ8405: Syntax error in line 1, column 8: ")
    assert "DELETE on NOWHERE" in said
    assert said.endswith(" No message was passed.\n")


# -- the listener of each message

SHOP = """
from pathlib import Path
from mqflow import App
app = App()
def took(name: str, body: object) -> None:
    with Path("took.txt").open("a") as file:
        print(name, body, file=file)
@app.listener("OTHER")
async def other(body: str) -> None: took("other", body)
@app.listener("ORDERS.IN")
async def orders(body: str) -> None: took("orders", body)
@app.listener("CHOSEN", selector="JMSPriority > 5")
async def chosen(body: str) -> None: took("chosen", body)
@app.listener("GROUPS", groups=True)
async def groups(bodies: list[str]) -> None: took("groups", bodies)
@app.listener(topic="prices/#")
async def prices(body: str) -> None: took("prices", body)
archive = App("embedded:./archive?qmgr=ARCHIVE", name="archive")
@archive.listener("ARCHIVE.IN")
async def archived(body: str) -> None: took("archived", body)
@archive.listener("OTHER")
async def both(body: str) -> None: took("both", body)
whole = App()
whole.include_app(archive)
"""


def passed(run: Run, folder: Path, name: str, captured: Captured, *options: str, app: str = "app") -> tuple[int, str, str]:
    """Pass the message to the application. Return the exit code, stderr, and what the handlers took."""
    (folder / f"{name}.py").write_text(SHOP)
    (folder / "one.jsonl").write_bytes(written(captured))
    result = run("replay", "one.jsonl", "--app", f"{name}:{app}", *options)
    took = folder / "took.txt"
    return result.exit_code, result.stderr, took.read_text() if took.exists() else ""


def backed_out(origin: str) -> Captured:
    folder = moved_message.folder(moved_message.Why(queue=origin, count=3))
    descriptor, data = moved_message.to_backout_queue(CAPTURED.descriptor, CAPTURED.data, folders=(folder,))
    return replace(CAPTURED, queue="ORDERS.BOQ", descriptor=descriptor, data=data)


def test_a_message_of_a_backout_queue_goes_to_the_listener_of_its_original_queue(run: Run, tmp_path: Path) -> None:
    result = passed(run, tmp_path, "backed_shop", backed_out("ORDERS.IN"))

    assert (0, "1 of 1 message handled, 0 failed.\n", "orders an order\n") == result


def test_a_message_without_a_listener_is_passed_to_no_other_listener(run: Run, tmp_path: Path) -> None:
    code, said, took = passed(run, tmp_path, "misled_shop", backed_out("PAYMENTS.IN"))

    assert (2, "") == (code, took)
    assert "Line 1: no listener takes this message of ORDERS.BOQ, which came from PAYMENTS.IN. " in said
    assert "The application listens on CHOSEN, GROUPS, ORDERS.IN, OTHER." in said


@pytest.mark.parametrize(
    ("queue", "code", "taker", "said"),
    [
        ("OTHER", 0, "other an order\n", "1 of 1 message handled, 0 failed."),
        ("MISSING", 2, "", "Line 1: no listener of MISSING takes this message. The application listens on CHOSEN, "),
    ],
)
def test_an_option_chooses_the_listener_of_all_messages(
    run: Run, tmp_path: Path, queue: str, code: int, taker: str, said: str
) -> None:
    name = f"chosen_shop_{queue.lower()}"

    result = passed(run, tmp_path, name, backed_out("ORDERS.IN"), "--queue", queue)

    assert (code, taker) == (result[0], result[2])
    assert said in result[1]


@pytest.mark.parametrize(("priority", "code", "taker"), [(9, 0, "chosen an order\n"), (0, 2, "")])
def test_a_message_that_no_selector_selects_is_refused(run: Run, tmp_path: Path, priority: int, code: int, taker: str) -> None:
    captured = replace(CAPTURED, queue="CHOSEN", descriptor=replace(CAPTURED.descriptor, priority=priority))

    result = passed(run, tmp_path, f"selecting_shop_{priority}", captured)

    assert (code, taker) == (result[0], result[2])


def test_a_message_of_a_group_is_refused_for_a_listener_that_waits_for_the_group(run: Run, tmp_path: Path) -> None:
    grouped = replace(CAPTURED.descriptor, group_id=b"g" * 24, message_flags=MessageFlag.MSG_IN_GROUP)

    code, said, took = passed(run, tmp_path, "grouped_shop", replace(CAPTURED, queue="GROUPS", descriptor=grouped))

    assert (2, "") == (code, took)
    assert "Line 1: the listener on GROUPS waits for a whole group" in said
    whole = passed(run, tmp_path, "ungrouped_shop", replace(CAPTURED, queue="GROUPS"))
    assert (0, "groups ['an order']\n") == (whole[0], whole[2])


def test_a_listener_of_an_included_application_takes_its_messages_in_memory(run: Run, tmp_path: Path) -> None:
    result = passed(run, tmp_path, "including_shop", replace(CAPTURED, queue="ARCHIVE.IN"), app="whole")

    assert (0, "1 of 1 message handled, 0 failed.\n", "archived an order\n") == result
    assert not (tmp_path / "archive").exists()


def test_a_queue_with_listeners_of_two_applications_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "double_shop.py").write_text(
        f"{SHOP}\napp.include_app(App(name='copy'))\napp.included[0].listener('OTHER')(both)\n"
    )
    (tmp_path / "one.jsonl").write_bytes(written(replace(CAPTURED, queue="OTHER")))

    refused = run("replay", "one.jsonl", "--app", "double_shop:app")

    assert (2, True) == (refused.exit_code, "Line 1: several applications have a listener on OTHER." in refused.stderr)


FAILING = """
from mqflow import App, Backout, Behaviour, CircuitBreaker
app = App()
async def fail(body: str) -> None:
    print("called")
    raise ValueError("always")
app.listener("PLAIN", backout=Backout(behaviour=Behaviour.PLAIN_MQI))(fail)
app.listener("ELSEWHERE", backout=Backout(queue="NOWHERE"))(fail)
app.listener("BROKEN", breaker=CircuitBreaker(failures=1, open_s=0.2))(fail)
app.listener("ORDERS.IN", backout=Backout(threshold=0))(fail)
"""


@pytest.mark.parametrize("queue", ["PLAIN", "ELSEWHERE", "ORDERS.IN"])
def test_a_message_that_fails_is_passed_once_whatever_the_listener_declares(run: Run, tmp_path: Path, queue: str) -> None:
    name = f"failing_{queue.partition('.')[0].lower()}"
    (tmp_path / f"{name}.py").write_text(FAILING)
    (tmp_path / "mqflow.toml").write_text('[listeners."ORDERS.IN"]\nbackout_threshold = 0\n')
    (tmp_path / "one.jsonl").write_bytes(written(replace(CAPTURED, queue=queue)))

    result = run("replay", "one.jsonl", "--app", f"{name}:app")

    assert (1, 1) == (result.exit_code, result.stdout.count("called"))
    assert "0 of 1 message handled, 1 failed." in result.stderr


DECIDING = """
from mqflow import App
from mqflow.policy.poison.disposition import Deliver
app = App(decide=lambda *_: (Deliver(),))
@app.listener("ORDERS.IN")
async def fail(body: str) -> None:
    print("called")
    raise ValueError("always")
"""


@pytest.mark.timeout(20)
def test_a_message_that_fails_is_passed_once_whatever_the_application_decides(run: Run, tmp_path: Path) -> None:
    (tmp_path / "deciding.py").write_text(DECIDING)
    (tmp_path / "one.jsonl").write_bytes(written(CAPTURED))

    result = run("replay", "one.jsonl", "--app", "deciding:app")

    assert (1, 1) == (result.exit_code, result.stdout.count("called"))


SERVING = """
from mqflow import App
app = App()
app.schedule(1, "ORDERS.IN")
app.dead_letter_handler()
@app.listener("ORDERS.IN")
async def book(body: str) -> None:
    print("booked")
whole = App()
archive = App(name="archive")
archive.schedule(1, "ARCHIVE.IN")
archive.dead_letter_handler()
archive.listener("ARCHIVE.IN")(book)
whole.include_app(archive)
"""


@pytest.mark.parametrize(("app", "queue"), [("app", "ORDERS.IN"), ("whole", "ARCHIVE.IN")])
def test_no_schedule_and_no_dlq_handler_of_an_application_runs(run: Run, tmp_path: Path, app: str, queue: str) -> None:
    (tmp_path / f"serving_{app}.py").write_text(SERVING)
    (tmp_path / "one.jsonl").write_bytes(written(replace(CAPTURED, queue=queue)))

    result = run("replay", "one.jsonl", "--app", f"serving_{app}:{app}")

    assert (0, "1 of 1 message handled, 0 failed.\n", 1) == (result.exit_code, result.stderr, result.stdout.count("booked"))


def test_a_message_does_not_expire_while_it_waits_for_its_handler(run: Run, tmp_path: Path) -> None:
    (tmp_path / "expiring.py").write_text(FAILING)
    soon = replace(CAPTURED, queue="BROKEN", descriptor=replace(CAPTURED.descriptor, expiry_tenths=1))
    (tmp_path / "two.jsonl").write_bytes(written(soon) * 2)

    result = run("replay", "two.jsonl", "--app", "expiring:app")

    assert (1, 2) == (result.exit_code, result.stdout.count("called"))


CHAIN = """
from mqflow import App, Context
app = App()
@app.listener("ORDERS.IN")
async def book(body: str, ctx: Context) -> None:
    print("booked")
    await ctx.put("NEXT", body)
@app.listener("NEXT")
async def fail(body: str) -> None:
    raise ValueError("always")
"""


def test_a_message_that_a_handler_puts_for_another_listener_is_no_message_of_the_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "chained.py").write_text(CHAIN)
    (tmp_path / "some.jsonl").write_bytes(written(CAPTURED) * 3)

    result = run("replay", "some.jsonl", "--app", "chained:app")

    assert (0, 3) == (result.exit_code, result.stdout.count("booked"))
    assert "3 of 3 messages handled, 0 failed.\n" == result.stderr.splitlines(keepends=True)[-1]


def test_a_message_as_large_as_a_queue_can_have_is_passed(run: Run, tmp_path: Path) -> None:
    (tmp_path / "failing_on_much.py").write_text(FAILING)
    (tmp_path / "big.jsonl").write_bytes(written(replace(CAPTURED, data=b"x" * 4_194_305)))

    result = run("replay", "big.jsonl", "--app", "failing_on_much:app")

    assert (1, 1) == (result.exit_code, result.stdout.count("called"))
