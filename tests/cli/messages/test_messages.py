"""`mqflow put`, `get` and `browse`: messages are complete, and none of their control characters reaches the terminal."""

import errno
import gzip
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import Result as Ended

from mqflow.cli.connection_options import connected, stager_for
from mqflow.cli.messages.get import UnitsOfWork
from mqflow.cli.messages.put import put_all
from mqflow.cli.messages.put_bodies import bodies
from mqflow.cli.messages.units_of_work import Result
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import error_for
from mqflow.mqi.options import GetOption, OpenOption, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import Connection, GetOptions
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


def test_an_invalid_identifier_is_wrong_usage(run: Run) -> None:
    result = run("get", "ORDERS.IN", "--by-id", "41")

    assert 2 == result.exit_code
    assert "give 48 hexadecimal digits" in result.stderr


def test_zeros_are_no_identifier_and_get_nothing(run: Run) -> None:
    run("put", "ORDERS.IN", "one")

    refused = run("get", "ORDERS.IN", "--by-id", "00" * 24)

    assert (2, "", 1) == (refused.exit_code, refused.stdout, depth(run, "ORDERS.IN"))
    assert "is not a message identifier: zeros stand for any message." in refused.stderr


def test_after_a_full_queue_from_line_continues_without_a_loss(run: Run, tmp_path: Path) -> None:
    (tmp_path / "orders.jsonl").write_text("".join(f'{{"n":{n}}}\n' for n in range(650)))

    full = run("put", "SMALL", "--jsonl", "orders.jsonl")
    run("mqsc", stdin="ALTER QLOCAL('SMALL') MAXDEPTH(1000)")
    rest = run("put", "SMALL", "--jsonl", "orders.jsonl", "--from-line", "501")

    assert "MQRC_Q_FULL (2053)" in full.stderr
    assert 0 == rest.exit_code
    bodies = [str(record["body"]) for record in records(run("browse", "SMALL", "--limit", "1000", "--json"))]
    assert [f'{{"n":{n}}}' for n in range(650)] == bodies


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


def test_control_characters_of_a_message_never_reach_the_terminal(run: Run) -> None:
    run("put", "ORDERS.IN", "\x1b[2Jgone\u202e", "--property", "p=\x9b")

    shown = run("browse", "ORDERS.IN").stdout + run("get", "ORDERS.IN").stdout

    assert not {"\x1b", "\x9b", "\u202e"} & set(shown)
    assert "\\x1b[2Jgone\\u202e" in shown


def test_get_prints_the_codes_of_control_characters_that_are_no_line_end(run: Run) -> None:
    run("put", "ORDERS.IN", "a\x0bb\x1cc\nd")

    assert "a\\x0bb\\x1cc\nd\n" == run("get", "ORDERS.IN").stdout


def test_get_prints_an_empty_line_for_an_empty_message(run: Run) -> None:
    run("put", "ORDERS.IN", "one", "", "two")

    got = run("get", "ORDERS.IN", "--limit", "3")

    assert (0, "one\n\ntwo\n", "") == (got.exit_code, got.stdout, got.stderr)


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
    """A connection that calls a function at one of its commits, before or after its effect."""

    def __init__(self, connection: Connection, happens: Callable[[], None], *, after: bool, nth: int) -> None:
        self._connection = connection
        self._happens = happens
        self._after = after
        self._nth = nth
        self._number = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def commit(self) -> None:
        self._number += 1
        if self._number == self._nth and not self._after:
            self._happens()
        self._connection.commit()
        if self._number == self._nth and self._after:
            self._happens()


def _put_a_thousand(
    folder: Path, happens: Callable[[], None], *, after: bool, lines: int = 1_700, nth: int = 2, from_line: int = 1
) -> tuple[Result, int]:
    (folder / "orders.jsonl").write_text("".join(f'{{"n":{n}}}\n' for n in range(lines)))
    with closing(EmbeddedQueueManager("QM1")) as queue_manager, bodies((), str(folder / "orders.jsonl"), from_line) as source:
        queue_manager.administration.define(QueueAttributes(name="ORDERS.IN"))
        connection = queue_manager.connect()
        striking = cast("Connection", _Commits(connection, happens, after=after, nth=nth))
        result = put_all(striking, "ORDERS.IN", source, {}, stager_for("embedded::memory:"))
        connection.backout()
        [queue] = [each for each in queue_manager.administration.queues() if each.name == "ORDERS.IN"]
        return result, queue.depth


@pytest.mark.parametrize("after", [False, True], ids=["before its effect", "after it"])
def test_an_interrupt_in_a_commit_gives_the_count_and_the_next_line(tmp_path: Path, *, after: bool) -> None:
    result, depth = _put_a_thousand(tmp_path, lambda: signal.raise_signal(signal.SIGINT), after=after)

    assert (1_000, 1_000, True) == (depth, result.committed, result.interrupted)
    assert "Committed: 1,000 messages. Continue with --from-line 1001." in result.stopped


def no_answer() -> None:
    raise error_for(Reason.CALL_INTERRUPTED, "MQCMIT", queue_manager="QM1")


def test_a_commit_in_doubt_gives_the_doubt_and_the_count(tmp_path: Path) -> None:
    result, _ = _put_a_thousand(tmp_path, no_answer, after=True)

    assert result.stopped.endswith(
        " Committed: 500 messages. The commit got no answer, so 500 messages up to this one may be put: look at the queue."
        " Continue with --from-line 501 if they are not there, else with --from-line 1001."
    )
    assert not result.interrupted


@pytest.mark.parametrize("lines", [3, 1_700], ids=["the only commit", "the first of several"])
def test_a_first_commit_without_an_answer_never_says_that_nothing_was_put(tmp_path: Path, lines: int) -> None:
    result, depth = _put_a_thousand(tmp_path, no_answer, after=True, lines=lines, nth=1)

    count = min(lines, 500)
    assert (count, 0, count) == (depth, result.committed, result.in_doubt)
    assert "Nothing was put" not in result.stopped
    assert f"The commit got no answer, so {count} messages up to this one may be put: look at the queue." in result.stopped
    assert f"Continue with --from-line 1 if they are not there, else with --from-line {count + 1}." in result.stopped


def test_a_first_commit_without_an_answer_never_continues_before_the_given_line(tmp_path: Path) -> None:
    result, depth = _put_a_thousand(tmp_path, no_answer, after=True, nth=1, from_line=1_001)

    assert (500, 0, 500) == (depth, result.committed, result.in_doubt)
    assert "Continue with --from-line 1001 if they are not there, else with --from-line 1501." in result.stopped


def test_a_commit_that_was_backed_out_put_nothing(tmp_path: Path) -> None:
    def backed_out() -> None:
        raise error_for(Reason.BACKED_OUT, "MQCMIT", queue_manager="QM1")

    result, depth = _put_a_thousand(tmp_path, backed_out, after=False, nth=1)

    assert (0, 0) == (depth, result.in_doubt)
    assert result.stopped.endswith(" Nothing was put.")


class _Unwritable(io.StringIO):
    """A file on a full disk. The text stays in the buffer, and the error comes when the buffer is written out."""

    def flush(self) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_get_commits_nothing_that_it_could_not_write_out() -> None:
    with closing(EmbeddedQueueManager("QM1")) as queue_manager:
        queue_manager.administration.define(QueueAttributes(name="ORDERS.IN"))
        connection = queue_manager.connect()
        connection.put1("ORDERS.IN", MessageDescriptor(), b"x", PutOption.NONE)
        handle = connection.open("ORDERS.IN", OpenOption.INPUT_SHARED)
        connection.get(handle, GetOptions(options=GetOption.SYNCPOINT))

        with pytest.raises(OSError, match="No space left"):
            UnitsOfWork(connection, _Unwritable()).commit()
        connection.backout()

        assert connection.get(handle, GetOptions()) is not None


def test_get_forces_a_file_to_the_disk_before_it_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some file systems report a full disk only when the file is forced to the disk."""

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with closing(EmbeddedQueueManager("QM1")) as queue_manager, (tmp_path / "got").open("w", encoding="utf-8") as output:
        connection = queue_manager.connect()
        connection.put1("SYSTEM.DEFAULT.LOCAL.QUEUE", MessageDescriptor(), b"x", PutOption.SYNCPOINT)

        with pytest.raises(OSError, match="No space left"):
            UnitsOfWork(connection, output).commit()
        connection.backout()

        handle = connection.open("SYSTEM.DEFAULT.LOCAL.QUEUE", OpenOption.INPUT_SHARED)
        assert connection.get(handle, GetOptions()) is None


def _get_into(output: int, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "mqflow.cli", "get", "ORDERS.IN", *arguments]
    return subprocess.run(command, stdout=output, stderr=subprocess.PIPE, text=True, check=False)


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_get_onto_a_full_disk_leaves_the_messages_on_the_queue(run: Run, form: tuple[str, ...]) -> None:
    run("put", "ORDERS.IN", "one", "two")

    with Path("/dev/full").open("wb") as full:
        ended = _get_into(full.fileno(), "--limit", "2", *form)

    assert (1, 2) == (ended.returncode, depth(run, "ORDERS.IN"))
    said = "The output cannot be written: No space left on device. Removed from ORDERS.IN: 0 messages; all others stay there."
    assert f"mqflow: {said}\n" == ended.stderr


def test_get_removes_the_units_of_work_that_a_reader_of_a_pipe_took(run: Run) -> None:
    """A pipe holds 64 KiB. So the first 100 messages are read, and fewer than 100 others are written before the pipe breaks."""
    line = f'"{"x" * 1_021}"\n'
    run("put", "ORDERS.IN", "--jsonl", "-", stdin=line * 250)
    command = [sys.executable, "-m", "mqflow.cli", "get", "ORDERS.IN", "--limit", "250"]

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert line * 100 == process.stdout.read(len(line) * 100)
        process.stdout.close()

    assert (1, 150) == (process.returncode, depth(run, "ORDERS.IN"))


def test_get_into_a_closed_pipe_leaves_the_messages_on_the_queue(run: Run) -> None:
    run("put", "ORDERS.IN", "one", "two")
    reader, writer = os.pipe()
    os.close(reader)

    ended = _get_into(writer, "--limit", "2")
    os.close(writer)

    assert (1, 2) == (ended.returncode, depth(run, "ORDERS.IN"))


@pytest.mark.parametrize("wait", ["inf", "nan", "-inf", "-1", "1e999", "2147484"])
def test_a_wait_that_is_no_time_is_wrong_usage(run: Run, wait: str) -> None:
    refused = run("get", "ORDERS.IN", "--wait", wait)

    assert (2, True) == (refused.exit_code, "Invalid value for '--wait'" in refused.stderr)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("--expiry", value) for value in ("inf", "nan", "0", "-1", "1e9")),
        *(("--delay", value) for value in ("INF", "NaN", "nan", "inf", "-5s", "1e999d")),
    ],
)
def test_an_invalid_time_is_wrong_usage_of_put(run: Run, option: str, value: str) -> None:
    refused = run("put", "ORDERS.IN", "x", option, value)

    assert (2, True) == (refused.exit_code, f"Invalid value for '{option}'" in refused.stderr)
    assert 0 == depth(run, "ORDERS.IN")


@pytest.mark.parametrize("drain", ["inf", "nan", "-1"])
def test_a_drain_that_is_no_time_is_wrong_usage(run: Run, drain: str) -> None:
    refused = run("run", "orders_app:app", "--drain", drain)

    assert (2, True) == (refused.exit_code, "Invalid value for '--drain'" in refused.stderr)


def _fail_to_write(monkeypatch: pytest.MonkeyPatch, error: BaseException, *, nth: int) -> None:
    """Raise the error at the nth unit of work that `get` writes out."""
    units: list[int] = []

    def write_out(output: object) -> None:
        units.append(1)
        if len(units) == nth:
            raise error

    monkeypatch.setattr("mqflow.cli.messages.get.write_out", write_out)


def _strike_at_a_commit(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], None], *, after: bool, nth: int) -> None:
    """Call the function at the nth commit of `get`, before or after its effect."""

    @contextmanager
    def striking(url: str | None) -> Iterator[Connection]:
        with connected(url) as connection:
            yield cast("Connection", _Commits(connection, happens, after=after, nth=nth))

    monkeypatch.setattr("mqflow.cli.messages.get.connected", striking)


@pytest.mark.parametrize(("interrupted_at", "removed"), [(1, "0 messages"), (2, "100 messages")])
def test_get_says_after_ctrl_c_how_many_messages_it_has_removed(
    run: Run, monkeypatch: pytest.MonkeyPatch, interrupted_at: int, removed: str
) -> None:
    run("put", "ORDERS.IN", "--jsonl", "-", stdin="1\n" * 250)
    _fail_to_write(monkeypatch, KeyboardInterrupt(), nth=interrupted_at)

    ended = run("get", "ORDERS.IN", "--limit", "2000")

    left = f"Removed from ORDERS.IN: {removed}; all others stay there."
    assert (130, f"mqflow: Interrupted. {left}\n") == (ended.exit_code, ended.stderr)
    assert 250 - 100 * (interrupted_at - 1) == depth(run, "ORDERS.IN")


@pytest.mark.parametrize("after", [False, True], ids=["before its effect", "after it"])
def test_ctrl_c_in_a_commit_of_get_counts_its_messages_as_removed(
    run: Run, monkeypatch: pytest.MonkeyPatch, *, after: bool
) -> None:
    run("put", "ORDERS.IN", "--jsonl", "-", stdin="1\n" * 250)
    _strike_at_a_commit(monkeypatch, lambda: signal.raise_signal(signal.SIGINT), after=after, nth=2)

    ended = run("get", "ORDERS.IN", "--limit", "2000")

    left = "Removed from ORDERS.IN: 200 messages; all others stay there."
    assert (130, f"mqflow: Interrupted. {left}\n", 200) == (ended.exit_code, ended.stderr, len(ended.stdout.split()))
    assert 50 == depth(run, "ORDERS.IN")


@pytest.mark.parametrize("after", [False, True], ids=["before its effect", "after it"])
def test_get_says_which_messages_are_in_doubt_if_a_commit_gets_no_answer(
    run: Run, monkeypatch: pytest.MonkeyPatch, *, after: bool
) -> None:
    run("put", "ORDERS.IN", "--jsonl", "-", stdin="1\n" * 250)
    _strike_at_a_commit(monkeypatch, no_answer, after=after, nth=2)

    ended = run("get", "ORDERS.IN", "--limit", "2000")

    assert (1, 200) == (ended.exit_code, len(ended.stdout.split()))
    assert ended.stderr.endswith(
        " Removed from ORDERS.IN: 100 messages. The commit got no answer, so the last 100 messages of the output may still be"
        " there: look at the queue.\n"
    )
    assert (50 if after else 150) == depth(run, "ORDERS.IN")


def test_get_says_how_many_messages_it_has_removed_when_a_commit_was_backed_out(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("put", "ORDERS.IN", "--jsonl", "-", stdin="1\n" * 250)

    def backed_out() -> None:
        raise error_for(Reason.BACKED_OUT, "MQCMIT", queue_manager="QM1")

    _strike_at_a_commit(monkeypatch, backed_out, after=False, nth=2)

    ended = run("get", "ORDERS.IN", "--limit", "2000")

    assert (1, 150) == (ended.exit_code, depth(run, "ORDERS.IN"))
    assert ended.stderr.startswith("mqflow: MQCMIT")
    assert ended.stderr.endswith(" Removed from ORDERS.IN: 100 messages; all others stay there.\n")


@pytest.mark.parametrize(("fails_at", "removed"), [(1, "0 messages"), (2, "100 messages"), (3, "200 messages")])
def test_get_says_how_many_messages_it_has_removed_when_the_output_fails(
    run: Run, monkeypatch: pytest.MonkeyPatch, fails_at: int, removed: str
) -> None:
    run("put", "ORDERS.IN", "--jsonl", "-", stdin="1\n" * 250)
    _fail_to_write(monkeypatch, OSError(errno.ENOSPC, "No space left on device"), nth=fails_at)

    ended = run("get", "ORDERS.IN", "--limit", "2000")

    left = f"Removed from ORDERS.IN: {removed}; all others stay there."
    assert (1, f"mqflow: The output cannot be written: No space left on device. {left}\n") == (ended.exit_code, ended.stderr)
    assert 250 - 100 * (fails_at - 1) == depth(run, "ORDERS.IN")


def test_get_ends_after_its_limit_and_says_that_a_queue_is_empty(run: Run) -> None:
    run("put", "ORDERS.IN", "one", "two", "three")

    seen = [run("get", "ORDERS.IN", "--limit", "2") for _ in range(3)]
    by_id = run("get", "ORDERS.IN", "--by-id", "ab" * 24)

    assert [(0, "one\ntwo\n", ""), (0, "three\n", ""), (3, "", "There is no message on ORDERS.IN.\n")] == [
        (each.exit_code, each.stdout, each.stderr) for each in seen
    ]
    assert "There is no message with that identifier on ORDERS.IN.\n" == by_id.stderr


def test_a_truncated_gzip_file_is_a_sentence(run: Run, tmp_path: Path) -> None:
    (tmp_path / "orders.jsonl.gz").write_bytes(gzip.compress(b'{"n":1}\n' * 100)[:-10])

    result = run("put", "ORDERS.IN", "--jsonl", "orders.jsonl.gz")

    assert 1 == result.exit_code
    assert "Traceback" not in result.stderr


def test_a_queue_that_cannot_be_opened_is_no_fault_of_a_message(run: Run) -> None:
    refused = run("put", "MISSING", "an order")

    assert 1 == refused.exit_code
    assert "mqflow: MQOPEN on MISSING" in refused.stderr


@pytest.mark.parametrize("where", ["usr.customer=A*", "body=*ell*", "message_type=8"])
def test_browse_shows_only_matching_messages(run: Run, where: str) -> None:
    run("put", "ORDERS.IN", "hello", "--property", "customer=A17")
    run("put", "ORDERS.IN", "other", "--property", "customer=B1")

    wanted = ["hello", "other"] if where == "message_type=8" else ["hello"]
    assert wanted == [record["body"] for record in records(run("browse", "ORDERS.IN", "--where", where, "--json"))]
