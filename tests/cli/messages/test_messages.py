"""`mqflow put`, `get` and `browse`: messages are complete, and none of their control characters reaches the terminal."""

import gzip
import io
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import click
import pytest
from click.testing import Result as Ended

from mqflow.cli.connection_options import stager_for
from mqflow.cli.main import main
from mqflow.cli.messages.put import Result, put_all
from mqflow.cli.messages.put_bodies import bodies
from mqflow.embedded.connection import EmbeddedConnection
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import Connection
from tests.cli.conftest import Run

pytestmark = pytest.mark.usefixtures("queues")


def records(result: Ended) -> list[dict[str, object]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def depth(run: Run, queue: str) -> int:
    [record] = records(run("mqsc", "--json", stdin=f"DISPLAY QLOCAL('{queue}') CURDEPTH"))
    return int(str(record["CURDEPTH"]))


def test_a_message_is_put_and_got(run: Run) -> None:
    put = run("put", "ORDERS.IN", "first", "second")

    assert (0, 2) == (put.exit_code, len(put.stdout.split()))
    assert "first\n" == run("get", "ORDERS.IN").stdout
    assert "second\n" == run("get", "ORDERS.IN").stdout
    assert 3 == run("get", "ORDERS.IN").exit_code


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full, whose writes fail with ENOSPC")
@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "json"])
def test_a_message_that_cannot_be_written_out_stays_on_its_queue(run: Run, options: tuple[str, ...]) -> None:
    assert 0 == run("put", "ORDERS.IN", "one", "two", "--persistent").exit_code

    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "mqflow.cli", "get", "ORDERS.IN", "--limit", "2", *options]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.DEVNULL, check=False)

    assert 0 != ended.returncode
    assert 2 == depth(run, "ORDERS.IN")


class _WrittenAtFlush(io.StringIO):
    """A standard output whose reader sees text only after a flush."""

    written = ""

    def flush(self) -> None:
        self.written = self.getvalue()


def test_get_commits_only_messages_that_it_has_written_out(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred messages are a unit of work. The command does not rely on click, whose `echo` flushes each line."""
    run("put", "ORDERS.IN", *(str(number) for number in range(150)))
    out, written_at_commit = _WrittenAtFlush(), list[int]()
    real = EmbeddedConnection.commit

    def commit(self: EmbeddedConnection) -> None:
        written_at_commit.append(out.written.count("\n"))
        real(self)

    monkeypatch.setattr(EmbeddedConnection, "commit", commit)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(click, "echo", print)
    main(["get", "ORDERS.IN", "--limit", "150"], standalone_mode=False)

    assert [100, 150] == written_at_commit[:2]


def test_a_message_is_got_by_its_identifier(run: Run) -> None:
    _, second = run("put", "ORDERS.IN", "first", "second").stdout.split()

    assert "second\n" == run("get", "ORDERS.IN", "--by-id", second).stdout


def test_an_invalid_identifier_is_wrong_usage(run: Run) -> None:
    result = run("get", "ORDERS.IN", "--by-id", "41")

    assert 2 == result.exit_code
    assert "give 48 hexadecimal digits" in result.stderr


def test_stdin_is_one_message_without_its_last_line_end(run: Run) -> None:
    run("put", "ORDERS.IN", stdin="one\ntwo\n")

    [message] = records(run("browse", "ORDERS.IN", "--json"))
    assert "one\ntwo" == message["body"]


def test_each_line_of_a_gzipped_file_is_a_message(run: Run, tmp_path: Path) -> None:
    (tmp_path / "orders.jsonl.gz").write_bytes(gzip.compress(b'{"n":1}\n\n{"n":2}\n'))

    result = run("put", "ORDERS.IN", "--jsonl", "orders.jsonl.gz")

    assert "2\n" == result.stdout
    assert 2 == depth(run, "ORDERS.IN")


def test_a_line_that_is_not_json_is_named_and_committed_units_stay(run: Run, tmp_path: Path) -> None:
    (tmp_path / "orders.jsonl").write_text('{"n":1}\n' * 700 + '{"n":\n')

    result = run("put", "ORDERS.IN", "--jsonl", "orders.jsonl")

    assert 1 == result.exit_code
    assert "Line 701: It is not JSON" in result.stderr
    assert "Committed: 500 messages. Continue with --from-line 501." in result.stderr
    assert 500 == depth(run, "ORDERS.IN")


def test_after_a_full_queue_from_line_continues_without_a_loss(run: Run, tmp_path: Path) -> None:
    (tmp_path / "orders.jsonl").write_text("".join(f'{{"n":{n}}}\n' for n in range(650)))

    full = run("put", "SMALL", "--jsonl", "orders.jsonl")
    run("mqsc", stdin="ALTER QLOCAL('SMALL') MAXDEPTH(1000)")
    rest = run("put", "SMALL", "--jsonl", "orders.jsonl", "--from-line", "501")

    assert "MQRC_Q_FULL (2053)" in full.stderr
    assert 0 == rest.exit_code
    bodies = [str(record["body"]) for record in records(run("browse", "SMALL", "--limit", "1000", "--json"))]
    assert [f'{{"n":{n}}}' for n in range(650)] == bodies


def test_a_truncated_gzip_file_is_a_sentence(run: Run, tmp_path: Path) -> None:
    (tmp_path / "orders.jsonl.gz").write_bytes(gzip.compress(b'{"n":1}\n' * 100)[:-10])

    result = run("put", "ORDERS.IN", "--jsonl", "orders.jsonl.gz")

    assert 1 == result.exit_code
    assert "Traceback" not in result.stderr


def test_properties_persistence_and_expiry_arrive(run: Run) -> None:
    run("put", "SMALL", "x", "--property", "customer=A17", "--expiry", "60")

    [message] = records(run("browse", "SMALL", "--json"))
    descriptor = message["descriptor"]
    assert isinstance(descriptor, dict)
    assert {"usr.customer": "A17"} == message["properties"]
    assert 1 == descriptor["persistence"]
    assert 0 < descriptor["expiry_tenths"] <= 600


def test_browse_removes_no_message(run: Run) -> None:
    run("put", "ORDERS.IN", "x")

    run("browse", "ORDERS.IN")

    assert 1 == depth(run, "ORDERS.IN")


def test_browse_shows_fields_by_their_mq_names_and_headers_decoded(run: Run) -> None:
    run("put", "ORDERS.IN", "x", "--property", "customer=A17")

    shown = run("browse", "ORDERS.IN").stdout

    assert "MQMT_DATAGRAM (8)" in shown
    assert "MQPER_PERSISTENT (1)" in shown
    assert "usr.customer  A17" in shown


@pytest.mark.parametrize("where", ["usr.customer=A*", "body=*ell*", "message_type=8"])
def test_browse_shows_only_matching_messages(run: Run, where: str) -> None:
    run("put", "ORDERS.IN", "hello", "--property", "customer=A17")
    run("put", "ORDERS.IN", "other", "--property", "customer=B1")

    wanted = ["hello", "other"] if where == "message_type=8" else ["hello"]
    assert wanted == [record["body"] for record in records(run("browse", "ORDERS.IN", "--where", where, "--json"))]


def test_control_characters_of_a_message_never_reach_the_terminal(run: Run) -> None:
    run("put", "ORDERS.IN", "\x1b[2Jgone\u202e", "--property", "p=\x9b")

    shown = run("browse", "ORDERS.IN").stdout + run("get", "ORDERS.IN").stdout

    assert not {"\x1b", "\x9b", "\u202e"} & set(shown)
    assert "\\x1b[2Jgone\\u202e" in shown


def test_bytes_that_are_not_text_are_dumped(run: Run) -> None:
    run("put", "ORDERS.IN", stdin=bytes(range(128, 160)))

    assert "00000010  90919293 94959697 98999a9b 9c9d9e9f" in run("browse", "ORDERS.IN").stdout


def test_non_persistent_messages_are_lost_with_the_command_and_a_warning(run: Run) -> None:
    result = run("put", "ORDERS.IN", "x", "--non-persistent")

    assert "non-persistent messages are lost when the command ends" in result.stderr
    assert 0 == depth(run, "ORDERS.IN")


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        (b'{"n":1}\n\n\nnope\n', (), "Line 4: It is not JSON"),
        (b'{"n":1}\n\n\nnope\n', ("--from-line", "4"), "Line 4: It is not JSON"),
        (b'{"n":1}\n{"n":"gr\xfcn"}\n', (), "Line 2: It is not UTF-8 at byte 8 (0xfc)."),
    ],
    ids=["after blank lines", "from a line on", "in another encoding"],
)
def test_an_unreadable_line_is_named_by_its_number(
    run: Run, queues: None, tmp_path: Path, text: bytes, options: tuple[str, ...], expected: str
) -> None:
    (tmp_path / "orders.jsonl").write_bytes(text)

    result = run("put", "ORDERS.IN", "--jsonl", "orders.jsonl", *options)

    assert 1 == result.exit_code
    assert f"mqflow: {expected}" in result.stderr
    assert "Nothing was put." in result.stderr


def test_a_gz_file_that_is_not_gzipped_is_an_error(run: Run, queues: None, tmp_path: Path) -> None:
    (tmp_path / "orders.jsonl.gz").write_bytes(b'{"n":1}\n')

    assert "Line 1: The file cannot be read: Not a gzipped file" in run("put", "ORDERS.IN", "--jsonl", "orders.jsonl.gz").stderr


class _Commits:
    """A connection that calls a function at the second commit, before or after its effect."""

    def __init__(self, connection: Connection, happens: Callable[[], None], *, after: bool) -> None:
        self._connection = connection
        self._happens = happens
        self._after = after
        self._number = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def commit(self) -> None:
        self._number += 1
        if self._number == 2 and not self._after:
            self._happens()
        self._connection.commit()
        if self._number == 2 and self._after:
            self._happens()


def _put_a_thousand(folder: Path, happens: Callable[[], None], *, after: bool) -> tuple[Result, int]:
    (folder / "orders.jsonl").write_text("".join(f'{{"n":{n}}}\n' for n in range(1_700)))
    with closing(EmbeddedQueueManager("QM1")) as queue_manager, bodies((), str(folder / "orders.jsonl"), 1) as source:
        queue_manager.administration.define(QueueAttributes(name="ORDERS.IN"))
        connection = queue_manager.connect()
        striking = cast("Connection", _Commits(connection, happens, after=after))
        result = put_all(striking, "ORDERS.IN", source, {}, stager_for("embedded::memory:"))
        connection.backout()
        [queue] = [each for each in queue_manager.administration.queues() if each.name == "ORDERS.IN"]
        return result, queue.depth


@pytest.mark.parametrize("after", [False, True], ids=["before its effect", "after it"])
def test_an_interrupt_in_a_commit_gives_the_count_and_the_next_line(tmp_path: Path, *, after: bool) -> None:
    result, depth = _put_a_thousand(tmp_path, lambda: signal.raise_signal(signal.SIGINT), after=after)

    assert (1_000, 1_000, True) == (depth, result.committed, result.interrupted)
    assert "Committed: 1,000 messages. Continue with --from-line 1001." in result.stopped


def test_a_commit_in_doubt_gives_the_doubt_and_the_count(tmp_path: Path) -> None:
    def lost() -> None:
        raise error_for(Reason.CALL_INTERRUPTED, "MQCMIT", queue_manager="QM1")

    result, _ = _put_a_thousand(tmp_path, lost, after=True)

    assert "In doubt, put or not: 500 messages up to this one. Committed: 500 messages." in result.stopped
    assert not result.interrupted
