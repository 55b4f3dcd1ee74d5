"""`mqflow put` and `delay`: each body becomes one message, each option has its effect, and the printed result is whole."""

import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from mqflow.cli.connection_options import stager_for
from mqflow.cli.messages.delay import DelayedMessage, delayed_messages, due_in_words
from mqflow.cli.messages.put import put_all
from mqflow.cli.messages.put_bodies import Body, UnreadableLineError, bodies
from mqflow.cli.messages.units_of_work import Result
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.many_verbs import current_depth
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import PutOption
from mqflow.runtime.delay.stage import Stager
from mqflow.testing.virtual_clock import SeededRandom, VirtualClock
from mqflow.verbs import Connection
from mqflow.world import World
from tests.cli.conftest import Run


@pytest.fixture
def connection() -> Iterator[Connection]:
    with EmbeddedQueueManager("QM1") as queue_manager:
        queue_manager.administration.define(QueueAttributes(name="IN"))
        queue_manager.administration.define(QueueAttributes(name="TINY", max_depth=3))
        yield queue_manager.connect()


def put(connection: Connection, queue: str, *given: str, jsonl: str | None = None, from_line: int = 1) -> Result:
    with bodies(given, jsonl, from_line) as source:
        return put_all(connection, queue, source, {}, stager_for("embedded::memory:"))


# -- the bodies


def test_each_argument_is_a_body_with_its_number() -> None:
    with bodies(("a", "b"), None, 1) as source:
        assert (2, False, [Body("a", 1, 1), Body("b", 2, 2)]) == (source.total, source.lines, list(source.each))


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        ("", (), "There is no message in orders.jsonl.\n"),
        ("1\n2\n", ("--from-line", "9"), "There is no message in orders.jsonl from line 9 on.\n"),
    ],
)
def test_a_file_without_a_line_to_put_is_named(
    run: Run, queues: None, tmp_path: Path, content: str, options: tuple[str, ...], said: str
) -> None:
    (tmp_path / "orders.jsonl").write_text(content)

    done = run("put", "ORDERS.IN", "--jsonl", "orders.jsonl", *options)

    assert (0, "0\n", True) == (done.exit_code, done.stdout, done.stderr.endswith(said))


@pytest.mark.parametrize(("from_line", "numbers"), [(1, [1, 3, 4]), (3, [3, 4]), (4, [4]), (5, [])])
def test_each_line_that_is_not_blank_is_a_body_with_its_number_and_its_place(
    tmp_path: Path, from_line: int, numbers: list[int]
) -> None:
    file = tmp_path / "orders.jsonl"
    file.write_text('\ufeff{"n":1}\n \n{"n":3}\n{"n":4}\n')  # some editors on Windows begin a file with this mark

    with bodies((), str(file), from_line) as source:
        found = list(source.each)

    assert (29, True) == (source.total, source.lines)
    place = {1: 11, 3: 21, 4: 29}
    assert [Body(f'{{"n":{number}}}', number, place[number]) for number in numbers] == found


def test_a_gzipped_file_is_as_long_as_on_the_disk(tmp_path: Path) -> None:
    file = tmp_path / "orders.jsonl.gz"
    file.write_bytes(gzip.compress(b'{"n":1}\n"two"\n'))

    with bodies((), str(file), 1) as source:
        size = file.stat().st_size
        assert (size, True) == (source.total, source.lines)
        assert [Body('{"n":1}', 1, size), Body('"two"', 2, size)] == list(source.each)


class Stdin(io.TextIOWrapper):
    """Standard input with these bytes, at a terminal or not."""

    def __init__(self, data: bytes, *, terminal: bool = False) -> None:
        super().__init__(io.BytesIO(data))
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize(
    ("data", "payload"), [(b"one\n\n", "one\n"), (b"one", "one"), (b"", ""), (b"\xff\n", b"\xff\n")], ids=repr
)
def test_standard_input_is_one_body(monkeypatch: pytest.MonkeyPatch, data: bytes, payload: str | bytes) -> None:
    monkeypatch.setattr("sys.stdin", Stdin(data))

    with bodies((), None, 1) as source:
        assert (1, False, [Body(payload, 1, 1)]) == (source.total, source.lines, list(source.each))


def test_lines_on_standard_input_have_no_known_total(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Stdin(b"1\n2\n"))

    with bodies((), "-", 1) as source:
        assert (0, True, [Body("1", 1, 0), Body("2", 2, 0)]) == (source.total, source.lines, list(source.each))


def test_no_body_and_two_inputs_are_wrong_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Stdin(b"", terminal=True))

    with pytest.raises(click.UsageError, match=r"There is nothing to put: give a BODY, --jsonl FILE, or text on stdin\."):
        bodies((), None, 1).__enter__()
    with pytest.raises(click.UsageError, match=r"Give either BODY or --jsonl FILE, not both\."):
        bodies(("a",), "-", 1).__enter__()


@pytest.mark.parametrize("given", [(), ("a", "b", "c")])
def test_a_first_line_without_a_file_of_lines_is_wrong_usage(given: tuple[str, ...]) -> None:
    with pytest.raises(click.UsageError, match=r"--from-line needs --jsonl FILE\. A BODY has no lines\."):
        bodies(given, None, 3).__enter__()


@pytest.mark.parametrize(
    ("lines", "number", "text"),
    [
        (b"1\n{\n", 2, "Line 2: It is not JSON: Input data was truncated."),
        (b'"\xe4"\n', 1, "Line 1: It is not UTF-8 at byte 1 (0xe4)."),
        pytest.param(b"1\n" + b"[" * 20_000, 2, "Line 2: Its JSON is nested too deeply to be read.", id="nested"),
    ],
)
def test_an_unreadable_line_has_its_number_and_its_reason(tmp_path: Path, lines: bytes, number: int, text: str) -> None:
    (tmp_path / "orders.jsonl").write_bytes(lines)

    with bodies((), str(tmp_path / "orders.jsonl"), 1) as source, pytest.raises(UnreadableLineError) as refused:
        list(source.each)

    assert (number, text) == (refused.value.number, str(refused.value))


def test_a_file_that_breaks_off_names_the_line_after_the_last_whole_one(tmp_path: Path) -> None:
    whole = gzip.compress(b"1\n2\n")
    (tmp_path / "cut.gz").write_bytes(whole[:-8])

    with bodies((), str(tmp_path / "cut.gz"), 1) as source, pytest.raises(UnreadableLineError) as refused:
        list(source.each)

    assert (3, True) == (refused.value.number, refused.value.why.startswith("The file cannot be read: "))


# -- the units of work


def test_all_arguments_are_committed_and_named(connection: Connection) -> None:
    result = put(connection, "IN", "a", "b")

    assert (2, 0, "", False) == (result.committed, result.in_doubt, result.stopped, result.interrupted)
    assert [24, 24] == [len(message_id) for message_id in result.message_ids]


def test_lines_are_counted_and_not_named(connection: Connection, tmp_path: Path) -> None:
    (tmp_path / "orders.jsonl").write_text("1\n2\n")

    assert Result(committed=2) == put(connection, "IN", jsonl=str(tmp_path / "orders.jsonl"))


def test_a_refused_argument_is_named_by_its_place_and_nothing_is_put(connection: Connection) -> None:
    result = put(connection, "TINY", "a", "b", "c", "d")
    connection.backout()

    assert (0, [], 0) == (result.committed, result.message_ids, result.in_doubt)
    assert result.stopped.startswith("Message 4: MQPUT on TINY (QM1) failed: MQRC_Q_FULL (2053).")
    assert result.stopped.endswith(" Nothing was put.")


def test_a_refused_line_is_named_by_its_place(connection: Connection, tmp_path: Path) -> None:
    (tmp_path / "orders.jsonl").write_text("1\n\n2\n3\n4\n")

    stopped = put(connection, "TINY", jsonl=str(tmp_path / "orders.jsonl")).stopped

    assert (True, True) == (stopped.startswith("Line 5: MQPUT on TINY"), stopped.endswith(" Nothing was put."))


def test_a_queue_that_cannot_be_opened_has_no_place(connection: Connection) -> None:
    assert put(connection, "MISSING", "a").stopped.startswith("MQOPEN on MISSING (QM1) failed: ")


def test_an_argument_that_cannot_be_encoded_is_named_with_the_committed_messages(connection: Connection) -> None:
    result = put(connection, "IN", *("x" for _ in range(500)), "\udcff")
    connection.backout()

    assert (500, 500, current_depth(connection, "IN")) == (result.committed, len(result.message_ids), 500)
    assert result.stopped.startswith("Message 501: ")
    assert "surrogates not allowed" in result.stopped
    assert result.stopped.endswith(" Committed: 500 messages.")


# -- the command


def test_a_line_that_is_nested_too_deeply_leaves_the_committed_units_and_names_the_next_line(
    run: Run, queues: None, tmp_path: Path
) -> None:
    (tmp_path / "orders.jsonl").write_text("1\n" * 600 + "[" * 20_000 + "]" * 20_000 + "\n")

    stopped = run("put", "ORDERS.IN", "--jsonl", "orders.jsonl")

    said = "Line 601: Its JSON is nested too deeply to be read. Committed: 500 messages. Continue with --from-line 501."
    assert (1, "500\n") == (stopped.exit_code, stopped.stdout)
    assert stopped.stderr.endswith(f"mqflow: {said}\n")


def put_ids(run: Run, *options: str) -> list[str]:
    return run("put", "ORDERS.IN", *options).stdout.split()


def test_the_result_is_the_identifiers_or_a_count_or_a_record(run: Run, queues: None, tmp_path: Path) -> None:
    (tmp_path / "orders.jsonl").write_text("1\n2\n3\n")

    named = put_ids(run, "a", "b")
    record = json.loads(run("put", "ORDERS.IN", "c", "--json").stdout)
    of_file = json.loads(run("put", "ORDERS.IN", "--jsonl", "orders.jsonl", "--json").stdout)

    assert ["1"] == put_ids(run, "d", "--count")
    assert ["3"] == put_ids(run, "--jsonl", "orders.jsonl")
    assert {"queue": "ORDERS.IN", "put": 3, "in_doubt": 0, "message_ids": []} == of_file
    shown = [json.loads(line) for line in run("browse", "ORDERS.IN", "--limit", "20", "--json").stdout.splitlines()]
    assert ["a", "b", "c", "1", "2", "3", "d", "1", "2", "3"] == [each["body"] for each in shown]
    assert [*named, *record.pop("message_ids")] == [each["descriptor"]["message_id"] for each in shown[:3]]
    assert {"queue": "ORDERS.IN", "put": 1, "in_doubt": 0} == record


@pytest.mark.parametrize(
    ("options", "expiry", "properties"),
    [
        ((), -1, {}),
        (("--property", "a=1=2", "--property", "b="), -1, {"usr.a": "1=2", "usr.b": ""}),
        (("--expiry", "100"), 1_000, {}),
    ],
)
def test_each_option_of_put_is_in_the_message(
    run: Run, queues: None, options: tuple[str, ...], expiry: int, properties: dict[str, str]
) -> None:
    put_ids(run, "x", *options)

    [message] = [json.loads(line) for line in run("browse", "ORDERS.IN", "--json").stdout.splitlines()]
    descriptor = message["descriptor"]
    assert (properties, 1) == (message["properties"], descriptor["persistence"])
    assert expiry - 300 < descriptor["expiry_tenths"] <= expiry


def test_a_message_can_be_persistent_on_any_queue_without_a_warning(run: Run, queues: None) -> None:
    explicit, silent = (run("put", "SMALL", "x", *option) for option in (("--persistent",), ()))

    assert (0, "", 0, "") == (explicit.exit_code, explicit.stderr, silent.exit_code, silent.stderr)
    shown = [json.loads(line)["descriptor"]["persistence"] for line in run("browse", "SMALL", "--json").stdout.splitlines()]
    assert [1, 1] == shown


@pytest.mark.parametrize("given", ["customer", "=A17", ""])
def test_a_property_without_a_name_or_an_equals_sign_is_wrong_usage(run: Run, queues: None, given: str) -> None:
    refused = run("put", "ORDERS.IN", "x", "--property", given)

    assert (2, True) == (refused.exit_code, f"--property: {given!r} is not NAME=VALUE." in refused.stderr)


def test_a_put_that_stops_exits_with_1_and_the_count(run: Run, queues: None, tmp_path: Path) -> None:
    (tmp_path / "orders.jsonl").write_text("1\n{\n")

    stopped = run("put", "ORDERS.IN", "--jsonl", "orders.jsonl")

    said = "mqflow: Line 2: It is not JSON: Input data was truncated. Nothing was put.\n"
    assert (1, "0\n", said) == (stopped.exit_code, stopped.stdout, stopped.stderr)


def test_the_lines_of_a_file_are_put_with_a_line_for_each_tenth(run: Run, queues: None, tmp_path: Path) -> None:
    (tmp_path / "orders.jsonl").write_text("1\n" * 500 + "\n" * 1_000)

    done = run("put", "ORDERS.IN", "--jsonl", "orders.jsonl")

    reached = ((50, "500 messages"), (100, "500 messages"))
    assert [f"Putting on ORDERS.IN: {percent} %, {words}" for percent, words in reached] == done.stderr.splitlines()
    assert (0, "500\n") == (done.exit_code, done.stdout)


# -- delayed messages


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [(0, "now"), (1, "in 0.0 s"), (-1, "late 0.0 s"), (-3_000, "late 3.0 s"), (119_999, "in 120.0 s"), (120_000, "in 2 min"),
     (7_199_999, "in 119 min"), (7_200_000, "in 2 h"), (172_799_999, "in 47 h"), (172_800_000, "in 2 d"),
     (-7_200_000, "late 2 h")],
)  # fmt: skip
def test_the_time_until_a_message_is_due_is_in_words(milliseconds: int, words: str) -> None:
    assert words == due_in_words(milliseconds)


def test_the_delayed_messages_are_listed_with_target_size_and_time() -> None:
    clock = VirtualClock()
    with EmbeddedQueueManager("QM1", world=World(clock)) as queue_manager:
        queue_manager.administration.define(QueueAttributes(name="IN"))
        queue_manager.administration.define(QueueAttributes(name="STAGED"))
        connection = queue_manager.connect()
        stager = Stager("STAGED", World(clock, SeededRandom(1)))
        sent = [
            stager.put_on(connection, "IN", MessageDescriptor(), body, delay_ms).descriptor.message_id
            for body, delay_ms in ((b"late", 60_000), (b"", 1_000))
        ]
        connection.put1("STAGED", MessageDescriptor(), b"another program's", PutOption.NO_SYNCPOINT)
        connection.put1("STAGED", MessageDescriptor(format="MFLDELAY"), b"damaged", PutOption.NO_SYNCPOINT)
        connection.commit()
        clock.advance(2)

        found = list(delayed_messages(connection, "STAGED", clock))

    assert [
        DelayedMessage(message_id=sent[0], target="IN", due_in_ms=58_000, delay_ms=60_000, body_bytes=4),
        DelayedMessage(message_id=sent[1], target="IN", due_in_ms=-1_000, delay_ms=1_000, body_bytes=0),
    ] == found


def test_the_queue_of_the_option_wins_over_the_setting(run: Run, queues: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQFLOW_DELAY_QUEUE", "SMALL")
    [message_id] = put_ids(run, "x", "--delay", "5m")

    assert "There is no delayed message on ORDERS.IN.\n" == run("delay", "list", "--queue", "ORDERS.IN").stderr
    assert 1 == run("delay", "cancel", message_id, "--queue", "ORDERS.IN").exit_code
    assert 0 == run("delay", "cancel", message_id, "--queue", "SMALL").exit_code


def test_a_wrong_identifier_cancels_nothing(run: Run, queues: None) -> None:
    [message_id] = put_ids(run, "x", "--delay", "5m")
    refused = run("delay", "cancel", "wombat", message_id)

    assert (2, True) == (refused.exit_code, "'wombat' is not a message identifier" in refused.stderr)
    assert message_id == run("delay", "list").stdout.split()[0]
