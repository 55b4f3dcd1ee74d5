"""`mqflow dlq` has the tables, arguments, report and exit codes of runmqdlq. `facts` are its known numbers."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mqflow.app.config.settings import Settings
from mqflow.cli.dead_letters.run import _RulesFile
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.wire.server.listener import serve
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import error_for
from mqflow.mqi.options import GetOption, OpenOption, Persistence, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.dead_letters.rules import Action
from mqflow.runtime.dead_letters.dead_letter_handler import Rules, run_to_end
from mqflow.testing.dead_letters import put_dead_letter
from mqflow.verbs import GetOptions
from tests.cli.conftest import Run

DLQ = "DEAD.LETTERS"
WAITING = GetOptions(options=GetOption.NO_SYNCPOINT | GetOption.WAIT, wait_ms=60_000)
QUEUES = f"""
DEFINE QLOCAL('{DLQ}') DEFPSIST(YES)
DEFINE QLOCAL('OTHER') DEFPSIST(YES)
DEFINE QLOCAL('SHUT') PUT(DISABLED)
ALTER QMGR DEADQ('{DLQ}')
"""


@pytest.fixture
def dead(run: Run, queues: None, tmp_path: Path) -> None:
    """Put two messages for ORDERS.IN, one for SHUT, one without an MQDLH."""
    assert 0 == run("mqsc", stdin=QUEUES).exit_code
    persistent = MessageDescriptor(persistence=Persistence.PERSISTENT, format="MQSTR")
    with EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path / "data")) as queue_manager:
        connection = queue_manager.connect()
        for body, queue in ((b"one", "ORDERS.IN"), (b"two", "ORDERS.IN"), (b"three", "SHUT")):
            put_dead_letter(connection, DLQ, body, reason=Reason.Q_FULL, queue=queue, descriptor=persistent)
        connection.put1(DLQ, persistent, b"four", PutOption.NO_SYNCPOINT)


pytestmark = pytest.mark.usefixtures("dead")


def on(run: Run, queue: str) -> list[str]:
    return [json.loads(line)["body"] for line in run("browse", queue, "--json").stdout.splitlines()]


def test_a_table_on_stdin_handles_the_dead_letter_queue_of_the_queue_manager(run: Run) -> None:
    result = run("dlq", "run", stdin="WAIT(NO)\nREASON(MQRC_Q_FULL) DESTQ('ORDERS.*') ACTION(RETRY)\n")

    assert 0 == result.exit_code
    assert ["one", "two"] == on(run, "ORDERS.IN")
    assert ["three", "four"] == on(run, DLQ)
    lines = result.stdout.splitlines()
    assert lines[0] == f"AMQ8708: Handling {DLQ} of QM1."
    assert any(line.startswith(f"AMQ8721: A message on {DLQ} does not begin with an MQDLH") for line in lines)
    assert lines[-1].startswith("AMQ8709")
    assert "line 2: 2 messages, 0 failed attempts" in result.stderr


def test_a_run_that_an_error_ends_has_its_counts_too(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_at_the_end(*given: Any, **named: Any) -> None:
        run_to_end(*given, **named)
        raise error_for(Reason.GET_INHIBITED, "MQGET", DLQ, "QM1")

    monkeypatch.setattr("mqflow.cli.dead_letters.run.run_to_end", fail_at_the_end)

    result = run("dlq", "run", stdin="WAIT(NO)\nREASON(MQRC_Q_FULL) DESTQ('ORDERS.*') ACTION(RETRY)\n")

    assert 0x48 == result.exit_code
    assert "line 2: 2 messages, 0 failed attempts" in result.stderr
    assert result.stdout.splitlines()[-1].startswith("AMQ8748")


def test_with_the_setting_each_action_has_a_record(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0 == run("mqsc", stdin="DEFINE QLOCAL(MQFLOW.DISPOSITION)").exit_code
    monkeypatch.setenv("MQFLOW_DISPOSITION_QUEUE", "MQFLOW.DISPOSITION")

    run("dlq", "run", stdin="WAIT(NO)\nDESTQ('ORDERS.*') ACTION(RETRY)\nACTION(FWD) FWDQ(SHUT)\n")

    records = [json.loads(text) for text in on(run, "MQFLOW.DISPOSITION")]
    assert [("redriven", "ORDERS.IN")] * 2 + [("left", DLQ)] == [(one["outcome"], one["queue"]) for one in records]
    assert 2051 == records[-1]["mqrc"]


def test_a_put_that_is_refused_is_reported_with_line_and_reason(run: Run) -> None:
    result = run("dlq", "run", DLQ, stdin="WAIT(NO)\nDESTQ(SHUT) ACTION(RETRY)\n")

    [failed] = [line for line in result.stdout.splitlines() if line.startswith("AMQ8722")]
    assert "line 2" in failed
    assert "MQRC_PUT_INHIBITED (2051)" in failed


@pytest.mark.parametrize(
    ("arguments", "table", "left"),
    [
        pytest.param(("OTHER", "QM1"), f"INPUTQ({DLQ}) INPUTQM(QM9) WAIT(NO)\nACTION(DISCARD)", 4, id="arguments first"),
        pytest.param((), "INPUTQ(OTHER) INPUTQM(QM1) WAIT(NO)\nACTION(DISCARD)", 4, id="then INPUTQ and INPUTQM"),
        pytest.param((), "INPUTQ(' ') WAIT(NO)\nACTION(DISCARD)", 1, id="then DEADQ"),
        pytest.param((" ",), "INPUTQ(OTHER) WAIT(NO)\nACTION(DISCARD)", 1, id="amqsdlq: a name of blanks is DEADQ at once"),
    ],
)
def test_which_queue_is_handled(run: Run, arguments: tuple[str, ...], table: str, left: int) -> None:
    assert 0 == run("dlq", "run", *arguments, stdin=table).exit_code
    assert left == len(on(run, DLQ))


ENDS = [
    pytest.param((), "ACTION(X)\nRETRY(0)", 0x58, "AMQ8758: 3 errors", id="amqsdlq: 8758, errors in the input"),
    pytest.param((), "", 0x50, "AMQ8750", id="amqsdlq: 8750, no valid input"),
    pytest.param(("NOBODY",), "ACTION(RETRY)", 0x45, "AMQ8745", id="amqsdlq: 8745, the queue cannot be opened"),
    pytest.param(("OTHER", "QM9"), "ACTION(RETRY)", 0x41, "AMQ8741", id="amqsdlq: 8741, cannot connect"),
]


@pytest.mark.parametrize(
    ("url", "code", "said"),
    [
        ("embedded:./nowhere?qmgr=QM1", 2, "mqflow: embedded:./nowhere?qmgr=QM1: there is no queue manager at nowhere yet.\n"),
        ("embedded+unix:./a.sock?qmgr=QM1", 0x41, ""),
    ],
)
def test_a_queue_manager_that_cannot_be_reached_ends_the_handler(run: Run, url: str, code: int, said: str) -> None:
    ended = run("dlq", "run", "--url", url, stdin="ACTION(RETRY)")

    assert (code, said) == (ended.exit_code, ended.stderr)
    assert [] == [line for line in ended.stdout.splitlines() if not line.startswith("AMQ8741: MQCONN")]
    assert bool(said) is not ended.stdout.startswith("AMQ8741")


def test_a_queue_manager_without_a_dead_letter_queue_ends_the_handler(run: Run) -> None:
    run("mqsc", stdin="ALTER QMGR DEADQ(' ')")

    ended = run("dlq", "run", stdin="ACTION(RETRY)")

    said = "AMQ8745: QM1 has no dead-letter queue: give QUEUE, or run ALTER QMGR DEADQ('...').\n"
    assert (0x45, said, "") == (ended.exit_code, ended.stdout, ended.stderr)


def test_a_queue_manager_that_cannot_be_inquired_ends_the_handler(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = error_for(Reason.NOT_AUTHORIZED, "MQINQ", "", "QM1")

    def inquire(_: object) -> None:
        raise refused

    monkeypatch.setattr("mqflow.cli.dead_letters.run.inquire_queue_manager", inquire)

    ended = run("dlq", "run", stdin="ACTION(RETRY)")

    assert (0x43, f"AMQ8743: {refused}\n", "") == (ended.exit_code, ended.stdout, ended.stderr)


@pytest.mark.parametrize(("arguments", "table", "code", "expected"), ENDS)
def test_the_exit_code_is_that_of_runmqdlq(run: Run, arguments: tuple[str, ...], table: str, code: int, expected: str) -> None:
    result = run("dlq", "run", *arguments, stdin=table)

    assert code == result.exit_code
    assert expected in result.stdout
    assert 4 == len(on(run, DLQ))


def test_the_first_line_is_the_password_of_the_user(run: Run) -> None:
    result = run("dlq", "run", "-u", "amelie", stdin="secret\nWAIT(NO)\nACTION(FWD) FWDQ(OTHER)\n")

    assert 0 == result.exit_code
    assert 3 == len(on(run, "OTHER"))


def test_the_password_on_stdin_comes_before_the_one_in_the_settings(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text("another")
    monkeypatch.setenv("MQFLOW_PASSWORD_FILE", "secret")
    monkeypatch.setenv("MQFLOW_USER", "bert")
    used: list[Settings] = []

    def reach(_: str, *, settings: Settings) -> None:
        used.append(settings)
        raise error_for(Reason.NOT_AUTHORIZED, "MQCONNX")

    monkeypatch.setattr("mqflow.cli.dead_letters.run.reach_queue_manager", reach)

    result = run("dlq", "run", "-u", "amelie", stdin="secret\nACTION(RETRY)")

    assert 0x41 == result.exit_code
    [settings] = used
    assert settings.password is not None
    assert ("amelie", "secret", "") == (settings.user, settings.password.reveal(), settings.password_file)


def test_a_table_in_a_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "rules.tbl").write_text("WAIT(NO)\nACTION(DISCARD)\n")

    assert 0 == run("dlq", "run", "--rules", "rules.tbl", "--reload").exit_code
    assert ["four"] == on(run, DLQ)


def test_reload_without_a_file_is_wrong_usage(run: Run) -> None:
    assert 2 == run("dlq", "run", "--reload", stdin="ACTION(RETRY)").exit_code


def test_a_changed_file_is_loaded_unless_it_has_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rules.tbl"
    path.write_text("ACTION(RETRY)")
    gone_by: list[Rules] = []
    handler = SimpleNamespace(reload=gone_by.append)
    watched = _RulesFile(path, handler)  # type: ignore[arg-type]  # only the method that it calls

    for text in ("ACTION(DISCARD)", "ACTION(X)", "ACTION(DISCARD)"):
        path.write_text(text)
        os.utime(path, ns=(len(text), len(text)))
        watched._next_at = 0.0
        watched.check()

    assert [Action.DISCARD, Action.DISCARD] == [rules.matchers[0].rule.action for rules in gone_by]
    printed = capsys.readouterr().out
    assert "has errors; the previous rules still apply" in printed
    assert "AMQ8747" in printed


@pytest.mark.parametrize("unreadable", ["in another encoding", "a folder"])
def test_an_unreadable_file_does_not_end_the_handler(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], unreadable: str
) -> None:
    path = tmp_path / "rules.tbl"
    path.write_text("ACTION(RETRY)")
    gone_by: list[Rules] = []
    watched = _RulesFile(path, SimpleNamespace(reload=gone_by.append))  # type: ignore[arg-type]  # only the method that it calls

    if unreadable == "a folder":
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes("ACTION(FWD) FWDQ('\xfc')".encode("latin-1"))
    os.utime(path, ns=(7, 7))
    watched.check()

    assert [] == gone_by
    assert "cannot be read; the previous rules still apply" in capsys.readouterr().out


def test_sigterm_ends_a_handler_that_waits_for_ever(tmp_path: Path) -> None:
    table = tmp_path / "rules.tbl"
    table.write_text("WAIT(YES)\nACTION(DISCARD)\n")
    command = [sys.executable, "-m", "mqflow.cli", "dlq", "run", "--rules", str(table)]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("AMQ8708")
        while not process.stdout.readline().startswith("AMQ8721"):  # printed at the end of the queue
            pass
        process.send_signal(signal.SIGTERM)
        left = process.stdout.read()

    assert 0 == process.returncode
    assert left.startswith("AMQ8709")


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedQueueManager]:
    """Serve a queue manager with a dead-letter queue at a socket, and keep SIGTERM from ending the test."""
    monkeypatch.setenv("MQFLOW_URL", f"embedded+unix:{tmp_path / 'a.sock'}?qmgr=QM1")
    monkeypatch.setenv("MQFLOW_RECONNECT_DELAYS", "(10)")
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    with EmbeddedQueueManager("QM1") as queue_manager:
        for name in (DLQ, "ORDERS.IN"):
            queue_manager.administration.define(QueueAttributes(name=name))
        yield queue_manager
    signal.signal(signal.SIGTERM, before)


def died(queue_manager: EmbeddedQueueManager, body: bytes) -> None:
    put_dead_letter(queue_manager.connect(), DLQ, body, reason=Reason.Q_FULL, queue="ORDERS.IN")


def arrival(queue_manager: EmbeddedQueueManager) -> bytes:
    """Return the next message that the handler has put back."""
    connection = queue_manager.connect()
    got = connection.get(connection.open("ORDERS.IN", OpenOption.INPUT_SHARED), WAITING)
    assert got is not None
    connection.disconnect()
    return got.body


def test_a_handler_continues_when_its_queue_manager_comes_back(run: Run, served: EmbeddedQueueManager, tmp_path: Path) -> None:
    arrived: list[bytes] = []

    def outage() -> None:
        try:
            for body in (b"before", b"after"):
                with closing(serve(served, tmp_path / "a.sock")):
                    serving.set()
                    died(served, body)
                    arrived.append(arrival(served))
                    if body == b"after":
                        os.kill(os.getpid(), signal.SIGTERM)
                        ended.wait(60)
        finally:
            serving.set()

    serving, ended = threading.Event(), threading.Event()
    away = threading.Thread(target=outage, daemon=True)
    away.start()
    serving.wait(60)
    result = run("dlq", "run", DLQ, stdin="WAIT(YES)\nACTION(RETRY)\n")
    ended.set()
    assert 0 == result.exit_code, result.output
    away.join(60)

    assert [b"before", b"after"] == arrived
    assert "The connection is lost." in result.stderr
    assert "Connected to QM1 again. The handler continues" in result.stderr
    assert "line 2: 2 messages, 0 failed attempts" in result.stderr


def test_a_handler_without_reconnection_ends_with_its_queue_manager(
    run: Run, served: EmbeddedQueueManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQFLOW_RECONNECT_MODE", "DISABLED")
    server = serve(served, tmp_path / "a.sock")
    died(served, b"one")

    def end() -> None:
        arrival(served)
        server.close()

    ending = threading.Thread(target=end, daemon=True)
    ending.start()
    result = run("dlq", "run", DLQ, stdin="WAIT(YES)\nACTION(RETRY)\n")
    assert result.exit_code in {0x48, 0x49}
    ending.join(60)

    assert result.stdout.splitlines()[-1].startswith(("AMQ8748", "AMQ8749"))


# -- check


def check(run: Run, table: str, *arguments: str) -> tuple[int, str]:
    Path("rules.tbl").write_text(table)
    result = run("dlq", "check", "rules.tbl", *arguments)
    return result.exit_code, result.stdout


def test_errors_fail_the_check(run: Run) -> None:
    code, printed = check(run, "ACTION(X)")

    assert 1 == code
    assert "line 1, column 8" in printed


def test_warnings_do_not_fail_the_check(run: Run) -> None:
    code, printed = check(run, "ACTION(DISCARD)\nDESTQ(A) ACTION(RETRY)")

    assert 0 == code
    assert "line 2: It is never reached: line 1 (DISCARD)" in printed


def test_against_shows_the_action_of_each_rule(run: Run) -> None:
    table = "DESTQ('ORDERS.*') ACTION(RETRY)\nDESTQ(NONE) ACTION(DISCARD)\nACTION(FWD) FWDQ(NOBODY)"
    code, printed = check(run, table, "--against", DLQ, "--each")

    assert 0 == code
    rows = [line.split(maxsplit=3) for line in printed.splitlines() if line.startswith("line")]
    assert ["line", "1", "2", "put to ORDERS.IN of QM1 (2)"] in rows
    assert ["line", "2", "0", "never matched"] in rows
    assert ["line", "3", "1", "put to NOBODY with its MQDLH (1)"] in rows
    each = ["line 1: put to ORDERS.IN of QM1"] * 2 + ["line 3: put to NOBODY with its MQDLH"]
    assert each == [line[50:] for line in printed.splitlines() if line[48:50] == "  " and line[0] in "0123456789abcdef"]
    assert "1 message does not begin with an MQDLH" in printed
    assert "put to NOBODY with its MQDLH: the move would fail, MQRC_UNKNOWN_OBJECT_NAME (2085)." in printed
    assert 4 == len(on(run, DLQ))


def test_a_check_of_captured_messages_is_a_table_and_knows_no_queue(run: Run) -> None:
    run("capture", DLQ, "--out", "OTHER")

    code, printed = check(run, "DESTQ('ORDERS.*') ACTION(RETRY)\nACTION(FWD) FWDQ(OTHER)", "--against", "OTHER")

    assert (0, [
        "rule    messages  first action",
        "------  --------  -------------------------------",
        "line 1         2  put to ORDERS.IN of QM1 (2)",
        "line 2         1  put to OTHER with its MQDLH (1)",
        "1 message does not begin with an MQDLH, and would stay.",
    ]) == (code, printed.splitlines())  # fmt: skip


@pytest.mark.parametrize(
    ("options", "asks", "prompts"),
    [
        ((), True, []),
        (("--rules", "rules.tbl"), False, []),
        (("-u", "amelie", "--rules", "rules.tbl"), False, ["Password of amelie: "]),
    ],
)
def test_a_person_at_a_terminal_is_asked_for_the_table_and_the_password(
    run: Run, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], prompts: list[str], *, asks: bool
) -> None:
    prompted: list[str] = []

    def ask(prompt: str) -> str:
        prompted.append(prompt)
        return "secret"

    monkeypatch.setattr("getpass.getpass", ask)
    Path("rules.tbl").write_text("WAIT(NO)\nACTION(DISCARD)\n")
    terminal = SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("mqflow.cli.dead_letters.run.sys", terminal)

    handled = run("dlq", "run", *options, stdin="WAIT(NO)\nACTION(DISCARD)\n")

    said = "Type the rules table and end it with Ctrl-D, or use < FILE or --rules FILE:"
    assert (0, asks, prompts) == (handled.exit_code, handled.stderr.splitlines()[0] == said, prompted)


def test_a_table_in_another_encoding_is_refused_with_the_place(run: Run, tmp_path: Path) -> None:
    (tmp_path / "rules.tbl").write_bytes(b"* r\xfcckw\xe4rts\nACTION(RETRY)\n")

    checked, handled = ("dlq", "check", "rules.tbl"), ("dlq", "run", "--rules", "rules.tbl")
    silver, report = (("spark", name, "--tables", ".", "--rules", "rules.tbl") for name in ("silver", "report"))
    for command in (checked, handled, ("spark", "triage", "rules.tbl", "--tables", "."), silver, report):
        assert "rules.tbl is not UTF-8 in line 1, column 4 (byte 0xfc)" in run(*command).stderr
