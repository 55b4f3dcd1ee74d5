"""The commands of `mqflow qmgr` without a process of their own: their options, their order, their words and their errors."""

import json
import os
import ssl
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from shutil import copy, copytree
from types import SimpleNamespace
from typing import Any

import pytest

from mqflow.app.errors import ConfigurationError
from mqflow.cli.processes.queue_manager_process import HostOptions, rights_over_tcp
from mqflow.cli.queue_managers.expiry import expiry_lines
from mqflow.cli.queue_managers.orders import LOG, NotStartedError, until_ready
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.wire.protocol.addresses import TcpAddress, UnixAddress
from mqflow.embedded.wire.protocol.end_manner import End, Manner
from mqflow.embedded.wire.server.certificates import CertificateFiles, make_certificates, make_client_certificate
from mqflow.embedded.wire.server.listener import CONNECTIONS_MAX, serve
from mqflow.embedded.wire.server.users_file import USERS_FILE, UsersFile
from mqflow.mqi.attributes.queue import QueueAttributes
from tests.cli.conftest import Run

TIME = "2026-11-23 19:00:00Z"
DAY_S = 86_400.0


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template") / "QM1"
    EmbeddedQueueManager("QM1", store=SqliteStore(folder)).close()
    return folder


@pytest.fixture(autouse=True)
def created(run: Run, template: Path) -> None:
    copytree(template, "QM1")


@pytest.fixture
def owned() -> Iterator[EmbeddedQueueManager]:
    """Run QM1 in this process, as its owner, and serve it at its socket."""
    store = SqliteStore(Path("QM1"))
    with EmbeddedQueueManager("QM1", store=store) as queue_manager, closing(serve(queue_manager, Path("QM1/served.sock"))):
        yield queue_manager


def process(code: int | None = None, pid: int = 7) -> Any:
    return SimpleNamespace(pid=pid, poll=lambda: code, returncode=None)


def logged(*lines: str) -> int:
    """Write an old log and these lines; return the length of the old log."""
    old = f"{TIME} QM1 is active, at an older start\n"
    Path("QM1", LOG).write_text(old + "".join(f"{line}\n" for line in lines))
    return len(old)


def sleeps(monkeypatch: pytest.MonkeyPatch, module: str) -> list[float]:
    """Let the pauses of this module take no time; return their lengths."""
    slept: list[float] = []
    anyio = SimpleNamespace(sleep=None, run=lambda _, seconds: slept.append(seconds))
    monkeypatch.setattr(f"mqflow.cli.queue_managers.{module}.anyio", anyio)
    return slept


# -- the start of a process


@pytest.mark.parametrize(
    ("code", "lines", "error", "why"),
    [
        (2, [f"{TIME} said before", "mqflow: it is wrong."], ConfigurationError, "(exit code 2): it is wrong."),
        (1, ["mqflow: it failed."], NotStartedError, "(exit code 1): it failed."),
        (0, [], NotStartedError, "(exit code 0): its log has no reason."),
    ],
)
def test_the_end_of_a_started_process_is_an_error_with_its_last_line(
    code: int, lines: list[str], error: type[Exception], why: str
) -> None:
    with pytest.raises(error) as raised:
        until_ready(process(code), "QM1", Path("QM1"), logged(*lines))

    assert f"QM1 did not start {why}" == str(raised.value)


def test_a_standby_is_ready_when_it_stands_by(capsys: pytest.CaptureFixture[str]) -> None:
    started = process()
    lines = (f"{TIME} QM1 stands by: process 6 is the active one.", f"{TIME} carl has no CONNECT.", "QM1 is active, at x")

    assert "QM1 stands by as process 7." == until_ready(started, "QM1", Path("QM1"), logged(*lines))
    assert 0 == started.returncode
    assert "carl has no CONNECT.\n" == capsys.readouterr().err


def test_the_owner_is_ready_when_it_is_served(owned: EmbeddedQueueManager) -> None:
    length = logged(f"{TIME} QM1 is active, at QM1/served.sock")

    assert f"QM1 is active as process {os.getpid()}." == until_ready(process(pid=os.getpid()), "QM1", Path("QM1"), length)


def test_the_owner_is_ready_also_if_its_log_has_no_room_for_the_line(
    owned: EmbeddedQueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([100.0, 100.0, 119.9, 120.0])
    monkeypatch.setattr("mqflow.cli.queue_managers.orders.SYSTEM_CLOCK", SimpleNamespace(monotonic=lambda: next(times)))
    sleeps(monkeypatch, "orders")

    assert f"QM1 is active as process {os.getpid()}." == until_ready(process(pid=os.getpid()), "QM1", Path("QM1"), logged())
    assert [] == list(times)


@pytest.mark.parametrize("line", ["QM1 is active, at QM1/served.sock", "QM2 stands by", "QM1 is loading"])
def test_a_process_that_is_not_ready_in_time_is_an_error_with_its_log(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([100.0, 100.0, 119.9, 120.0])
    monkeypatch.setattr("mqflow.cli.queue_managers.orders.SYSTEM_CLOCK", SimpleNamespace(monotonic=lambda: next(times)))
    slept = sleeps(monkeypatch, "orders")

    with pytest.raises(NotStartedError, match=r"^QM1 is not ready after 20 s; see its log QM1/qmgr.log\.$"):
        until_ready(process(), "QM1", Path("QM1"), logged(line))

    assert ([], [0.05, 0.05]) == (list(times), slept)


@pytest.fixture
def popen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], dict[str, Any]]]:
    """Collect the command lines of started processes, and say that each process is ready."""
    lines: list[tuple[list[str], dict[str, Any]]] = []

    def start(words: list[str], **more: Any) -> Any:
        lines.append((words, more))
        return process()

    monkeypatch.setattr("mqflow.cli.queue_managers.qmgr.subprocess.Popen", start)
    return lines


@pytest.mark.parametrize(
    ("given", "passed"),
    [([], ["--max-connections", str(CONNECTIONS_MAX)]),
     (["--listen", "unix:a", "--listen", "b:1", "--mq", "c:2", "--standby", "--backups", "d", "--max-connections", "3"],
      ["--listen", "unix:a", "--listen", "b:1", "--mq", "c:2", "--standby", "--backups", "{}/d", "--max-connections", "3"])],
)  # fmt: skip
def test_start_passes_its_options_to_a_process_in_the_background(
    run: Run, popen: list[Any], monkeypatch: pytest.MonkeyPatch, given: list[str], passed: list[str]
) -> None:
    logged()
    asked: list[object] = []

    def until_ready(*each: object) -> str:
        asked.append(each[1:])
        return "QM1 is ready."

    monkeypatch.setattr("mqflow.cli.queue_managers.qmgr.until_ready", until_ready)

    result = run("qmgr", "start", "QM1", *given)

    [(words, more)] = popen
    common = [sys.executable, "-m", "mqflow.cli", "qmgr", "serve", "QM1", "--data", "QM1"]
    assert [*common, *(word.format(Path.cwd()) for word in passed)] == words
    assert (True, Path.cwd(), more["stdout"]) == (more["start_new_session"], more["cwd"], more["stderr"])
    assert [("QM1", Path("QM1"), Path("QM1", LOG).stat().st_size)] == asked
    url = "embedded+unix:QM1/served.sock?qmgr=QM1"
    assert ("QM1 is ready.\n", f"Applications of this user connect with {url}\n") == (result.stdout, result.stderr)


@pytest.mark.parametrize(("ready", "state"), [("QM1 stands by as process 7.", "standby"), ("QM1 is active.", "active")])
def test_start_prints_json_for_scripts(
    run: Run, popen: list[Any], monkeypatch: pytest.MonkeyPatch, ready: str, state: str
) -> None:
    monkeypatch.setattr("mqflow.cli.queue_managers.qmgr.until_ready", lambda *_: ready)

    facts = {"queue_manager": "QM1", "status": state, "process": 7, "data": "QM1"}
    url = {"url": "embedded+unix:QM1/served.sock?qmgr=QM1"}
    assert facts | url == json.loads(run("qmgr", "start", "QM1", "--json").stdout)


# -- serve


@pytest.fixture
def hosted(monkeypatch: pytest.MonkeyPatch) -> list[HostOptions]:
    """Collect the options of the served queue managers. Each says a line, and ends permanently."""
    seen: list[HostOptions] = []

    async def host(options: HostOptions, say: Callable[[str], None]) -> bool:
        seen.append(options)
        say("QM1 is active, at x")
        return True

    monkeypatch.setattr("mqflow.cli.queue_managers.qmgr.host", host)
    return seen


def test_serve_without_options_serves_at_its_socket_only(run: Run, hosted: list[HostOptions]) -> None:
    result = run("qmgr", "serve", "QM1")

    [options] = hosted
    assert 0 == result.exit_code
    assert ("QM1", Path("QM1"), (), (), False, 0.0) == (
        options.name, options.folder, options.addresses, options.mq_addresses, options.standby, options.drain_s
    )  # fmt: skip
    assert (CONNECTIONS_MAX, None, None, None) == (
        options.connections_max, options.tls, options.backups, options.parent_pipe
    )  # fmt: skip
    assert "Z QM1 is active, at x\n" == result.stderr[19:]


def test_serve_passes_each_option_on(run: Run, hosted: list[HostOptions], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("DRAIN_S", "7"), ("DISPOSITION_QUEUE", "RECORDS"), ("DELAY_QUEUE", "STAGE")):
        monkeypatch.setenv(f"MQFLOW_{name}", value)
    addresses = ("--listen", "unix:a.sock", "--listen", "127.0.0.1:1", "--mq", "127.0.0.1:2")

    result = run(
        "qmgr", "serve", "QM1", *addresses, "--standby", "--backups", "copies", "--max-connections", "3", "--lifeline", "9"
    )

    [options] = hosted
    assert (76, "") == (result.exit_code, result.stderr.partition("mqflow: no user has a password or a certificate yet")[0])
    assert [UnixAddress(Path("a.sock")), TcpAddress("127.0.0.1", 1), TcpAddress("127.0.0.1", 2)] == [
        *options.addresses, *options.mq_addresses
    ]  # fmt: skip
    assert (True, 3, Path("copies"), 9, 17.0) == (
        options.standby, options.connections_max, options.backups, options.parent_pipe, options.drain_s
    )  # fmt: skip
    assert ("RECORDS", "STAGE") == (options.disposition_queue, options.delay_queue)


def test_serve_warns_only_about_tcp_without_users(run: Run, hosted: list[HostOptions]) -> None:
    remedy = "add a user with mqflow qmgr user QM1 USER."
    warning = f"mqflow: no user has a password or a certificate yet, so no connection over TCP is accepted: {remedy}\n"
    tcp, local = ("qmgr", "serve", "QM1", "--mq", "127.0.0.1:2"), ("qmgr", "serve", "QM1", "--listen", "unix:a")

    assert warning in run(*tcp).stderr
    assert "mqflow:" not in run(*local).stderr
    UsersFile(Path("QM1", USERS_FILE), os.urandom).set("alice", "correct horse", administrator=False)
    assert "mqflow:" not in run(*tcp).stderr


@pytest.mark.parametrize("name", ["/", "../QM1", "A/B", ".", ".."])
@pytest.mark.parametrize("command", ["create", "start", "stop", "serve"])
def test_a_queue_manager_gets_no_folder_outside_the_current_one_by_its_name(run: Run, command: str, name: str) -> None:
    refused = run("qmgr", command, name)

    hint = "Give the queue manager's name, and --data."
    assert (2, f"mqflow: {name} cannot be the name of the data folder. {hint}\n") == (refused.exit_code, refused.stderr)


def test_the_status_names_the_folders_that_it_may_not_read(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("closed", "empty"):
        Path("others", name).mkdir(parents=True)
    monkeypatch.chdir("others")
    monkeypatch.setattr(os, "access", lambda path, _: Path(path).name != "closed")

    said = run("qmgr", "status").stderr

    assert "There is no queue manager in the folders here that you may read (you may not read closed); name its folder" in said


def test_a_damaged_file_of_users_keeps_serve_from_nothing_but_the_passwords(run: Run, hosted: list[HostOptions]) -> None:
    path = Path("QM1", USERS_FILE)
    path.write_text("{")

    served = run("qmgr", "serve", "QM1", "--mq", "127.0.0.1:2")
    refused = run("qmgr", "user", "QM1", "alice", stdin="correct horse")
    with EmbeddedQueueManager("QM1") as queue_manager:
        [said] = rights_over_tcp(queue_manager, UsersFile(path, os.urandom))

    assert (0, False) == (served.exit_code, "no user has a password" in served.stderr)
    assert (1, True) == (refused.exit_code, refused.stderr.endswith(f"mqflow: {said}\n"))
    assert said.startswith(f"{path} cannot be read: it is damaged (")


@pytest.mark.parametrize("option", ["--listen", "--mq"])
def test_serve_does_not_warn_about_users_if_a_certificate_can_prove_a_user(
    run: Run, hosted: list[HostOptions], option: str
) -> None:
    assert 0 == run("qmgr", "tls", "QM1", "localhost").exit_code
    without = run("qmgr", "serve", "QM1", option, "127.0.0.1:2").stderr
    assert 0 == run("qmgr", "tls", "QM1", "--client", "alice").exit_code

    assert "mqflow: no user has a password or a certificate yet" in without
    assert "mqflow: no user" not in run("qmgr", "serve", "QM1", option, "127.0.0.1:2").stderr


def test_serve_uses_the_certificates_of_its_folder_or_of_the_option(run: Run, hosted: list[HostOptions]) -> None:
    assert 0 == run("qmgr", "tls", "QM1", "localhost", "--client", "alice").exit_code
    Path("QM1/tls").rename("certificates")

    shown = run("qmgr", "serve", "QM1", "--tls", "certificates").stderr
    missing = run("qmgr", "serve", "QM1", "--tls", "nowhere")

    [options] = hosted
    assert isinstance(options.tls, ssl.SSLContext)
    assert ssl.CERT_OPTIONAL == options.tls.verify_mode
    names = ("ca", "server", "clients-ca", "clients/alice")
    assert [f"mqflow: certificates/{name}.pem is valid for " for name in names] == [
        line[: line.index("for ") + 4] for line in shown.splitlines() if "valid" in line
    ]
    assert (2, True) == (missing.exit_code, missing.stderr.startswith("mqflow: "))


@pytest.mark.parametrize("words", [("--listen", "here:many"), ("--mq", "here:many")])
def test_an_address_that_cannot_be_read_is_wrong_usage(run: Run, hosted: list[HostOptions], words: tuple[str, str]) -> None:
    refused = run("qmgr", "serve", "QM1", *words)

    assert (2, []) == (refused.exit_code, hosted)
    assert "'here:many'" in refused.stderr


# -- an active queue manager


def test_status_has_a_row_for_each_queue_manager(run: Run, owned: EmbeddedQueueManager) -> None:
    assert 0 == run("qmgr", "create", "OTHER").exit_code

    lines = run("qmgr", "status").stdout.splitlines()

    pid = str(os.getpid())
    width = max(len(pid), len("process"))
    assert [
        f"queue manager  status  {'process':>{width}}  standby  data",
        f"OTHER          ended   {'':{width}}           OTHER",
        f"QM1            active  {pid:>{width}}           QM1",
    ] == [lines[0], *lines[2:]]


def test_status_shows_the_other_queue_managers_if_a_file_of_one_cannot_be_opened(run: Run) -> None:
    Path("LINKED").mkdir(mode=0o700)
    Path("LINKED/queue_manager.db").symlink_to(Path("QM1/queue_manager.db").absolute())

    result = run("qmgr", "status", "--json")

    assert ("QM1", 0) == (json.loads(result.stdout)["queue_manager"], result.exit_code)
    assert result.stderr.startswith("mqflow: ")
    assert "LINKED/queue_manager.db: Too many levels of symbolic links." in result.stderr


def test_status_without_a_queue_manager_is_a_note(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")

    result = run("qmgr", "status")

    assert ("", 0) == (result.stdout, result.exit_code)
    assert "There is no queue manager in the folders here; name its folder with --data.\n" == result.stderr
    Path("LINKED").mkdir(mode=0o700)
    Path("LINKED/queue_manager.db").symlink_to(tmp_path / "QM1/queue_manager.db")
    [note] = run("qmgr", "status").stderr.splitlines()
    assert note.endswith("Too many levels of symbolic links.")


def test_an_owner_that_does_not_answer_is_active_with_the_reason(run: Run) -> None:
    with EmbeddedQueueManager("QM1", store=SqliteStore(Path("QM1"))):
        found = json.loads(run("qmgr", "status", "QM1", "--json").stdout)

    status = "active, but does not answer (2059)"
    expected = {"queue_manager": "QM1", "status": status, "process": os.getpid(), "standby": None, "data": "QM1"}
    assert expected == found


def test_a_folder_that_is_not_there_is_an_error_with_a_remedy(run: Run) -> None:
    result = run("qmgr", "status", "--data", "nowhere")

    expected = "There is no queue manager in nowhere: create it with mqflow qmgr create NAME --data nowhere, or check --data."
    assert (2, f"mqflow: {expected}\n") == (result.exit_code, result.stderr)


def test_a_name_that_mq_does_not_allow_is_refused(run: Run) -> None:
    refused = run("qmgr", "create", "no name")

    assert 2 == refused.exit_code
    assert "'no name' is not a name: it takes 1 to 48 of A-Z a-z 0-9 . _ / %." in refused.stderr
    assert not Path("no name").exists()


def test_a_creation_without_room_fails_and_can_be_repeated(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the start would find a store without a queue manager, and make one without a dead-letter queue."""
    with monkeypatch.context() as full:
        full.setattr("os.statvfs", lambda _: SimpleNamespace(f_bavail=0, f_frsize=1))
        refused = run("qmgr", "create", "QM2")
    assert (1, "") == (refused.exit_code, refused.stdout)
    assert "MQRC_STORAGE_MEDIUM_FULL (2192). There is no room left in" in refused.stderr
    assert Path("QM2/queue_manager.db").exists()

    assert 0 == run("qmgr", "create", "QM2").exit_code

    with EmbeddedQueueManager("QM2", store=SqliteStore(Path("QM2"))) as queue_manager:
        assert "SYSTEM.DEAD.LETTER.QUEUE" == queue_manager.administration.queue_manager.dead_letter_queue
    assert 2 == run("qmgr", "create", "QM2").exit_code


def test_create_sets_the_dead_letter_queue(run: Run) -> None:
    for words, expected in (((), "SYSTEM.DEAD.LETTER.QUEUE"), (("-u", "DEAD"), "DEAD")):
        made = run("qmgr", "create", "QM2", "--data", expected, *words).output
        assert f"QM2 is created in {expected}. Start it with mqflow qmgr start QM2 --data {expected}.\n" == made
        shown = run("mqsc", "--json", "--url", f"embedded:{expected}?qmgr=QM2", stdin="DISPLAY QMGR DEADQ").stdout
        assert expected == json.loads(shown)["DEADQ"]


@pytest.mark.parametrize(("folder", "words"), [("QM1", "QM1"), ("my folder", "QM1 --data 'my folder'")])
def test_the_advice_of_a_second_creation_starts_the_queue_manager_that_is_there(run: Run, folder: str, words: str) -> None:
    if folder != "QM1":
        Path("QM1").rename(folder)

    refused = run("qmgr", "create", "OTHER", "--data", folder)

    assert f"{folder} has a queue manager already: start it with mqflow qmgr start {words}.\n" in refused.stderr


def test_a_copy_has_the_messages_and_is_announced(run: Run) -> None:
    run("mqsc", "--url", "embedded:QM1?qmgr=QM1", stdin="DEFINE QLOCAL(Q) DEFPSIST(YES)")
    run("put", "Q", "x", "--url", "embedded:QM1?qmgr=QM1")

    assert "QM1 is copied to copy.\n" == run("qmgr", "backup", "QM1", "copy").stdout
    assert ["x\n"] * 2 == [run("get", "Q", "--url", f"embedded:{folder}?qmgr=QM1").stdout for folder in ("copy", "QM1")]


def test_accepting_a_loss_without_a_log_keeps_no_copy(run: Run) -> None:
    with EmbeddedQueueManager("QM1", store=SqliteStore(Path("QM1"))) as queue_manager:
        queue_manager.administration.define(QueueAttributes(name="Q"))
        copytree("QM1", "killed")
    Path("killed/queue_manager.db-wal").unlink()
    command = ("qmgr", "accept-loss", "QM1", "--data", "killed")

    assert "The next start of QM1 accepts the loss of all changes behind the damage.\n" == run(*command).stdout
    # The folder has no owner left behind, and the loss is accepted once.
    assert "The log of QM1 has no damage, so there is no loss to accept. Nothing was changed.\n" == run(*command).stdout


# -- users and certificates


def test_a_user_is_added_and_removed(run: Run) -> None:
    Path("password").write_text("correct horse\n")
    Path("empty").write_text("\n")
    words = ("qmgr", "user", "QM1", "alice")

    added = run(*words, "--password-file", "password", "--administrator")
    again = run(*words, "--password-file", "empty")
    Path("of Windows").write_bytes(b"\xef\xbb\xbfcorrect horse\r\n")
    assert 0 == run(*words, "--password-file", "of Windows").exit_code
    assert UsersFile(Path("QM1") / USERS_FILE, os.urandom).knows("alice", "correct horse")
    removed = run(*words, "--remove")
    missing = run(*words, "--remove")

    assert ("alice has a password and administers QM1 over TCP.\n", "") == (added.stdout, added.stderr)
    assert (2, "mqflow: The password must not be empty.\n") == (again.exit_code, again.stderr)
    assert (0, "alice is removed.\n") == (removed.exit_code, removed.output)
    assert (2, "mqflow: There is no user 'alice'. Users: none.\n") == (missing.exit_code, missing.stderr)


def test_certificates_are_announced_with_the_url_of_applications(run: Run) -> None:
    made = run("qmgr", "tls", "QM1", "localhost", "127.0.0.1")
    client = run("qmgr", "tls", "QM1", "--client", "alice")
    refused = run("qmgr", "tls", "QM1", "--client", "a" * 13)

    url = "embedded+tls://localhost:PORT/QM1?ca=QM1/tls/ca.pem"
    assert f"Made for localhost, 127.0.0.1. Applications connect with {url}\n" == made.stdout
    pem, key = "QM1/tls/clients/alice.pem", "QM1/tls/clients/alice.key"
    ends = "whose URL ends in &cert=alice.pem&key=alice.key"
    assert f"Made for alice: {pem} and {key}. Give both to alice, {ends}\n" == client.stdout
    assert "QM1 trusts such certificates from its next start on.\n" == client.stderr
    assert (2, False) == (refused.exit_code, Path("QM1/tls/clients", "a" * 13 + ".pem").exists())


def test_a_certificate_needs_a_successor_thirty_days_before_its_end(tmp_path: Path) -> None:
    now = 1_795_000_000.0
    server = make_certificates(tmp_path / "tls", ["localhost"], name="QM1", now=datetime.fromtimestamp(now, UTC)).certificate
    broken = tmp_path / "broken.pem"
    broken.write_text("no certificate")

    def lines(days: int, *, only_soon: bool = False) -> list[str]:
        return list(expiry_lines([server], now + days * DAY_S, only_soon=only_soon))

    remedy = (
        "If mqflow made it, mqflow qmgr tls NAME HOST --replace makes a new one, and a new ca.pem for the applications. If "
        "your company made it, replace it yourself, because that command would overwrite it."
    )
    assert [f"{server} is valid for 30 more days."] == lines(367)
    assert [] == lines(367, only_soon=True)
    assert [f"warning: {server} expires in 29 days. {remedy}"] == lines(368) == lines(368, only_soon=True)
    assert [f"warning: {server} expires in 0 days. {remedy}"] == lines(397)
    assert [f"warning: {server} has expired. {remedy}"] == lines(398)
    assert [True, False] == [line.startswith(f"{broken} is not a certificate") for line in expiry_lines([broken, server], now)]


def test_each_kind_of_certificate_has_its_own_remedy_when_it_ends(tmp_path: Path) -> None:
    now = datetime.fromtimestamp(1_795_000_000.0, UTC)
    make_certificates(tmp_path, ["localhost"], name="QM1", now=now)
    make_client_certificate(tmp_path, "alice", name="QM1", now=now)
    elsewhere = tmp_path / "app.pem"
    copy(tmp_path / "clients" / "alice.pem", elsewhere)

    all_certificates = [*CertificateFiles(tmp_path).all_certificates(), elsewhere]
    authority, server, client_authority, client, other = expiry_lines(all_certificates, now.timestamp() + 5_000 * DAY_S)

    for line in (authority, server):
        assert "mqflow qmgr tls NAME HOST --replace makes a new one" in line
    assert "move it away. mqflow qmgr tls NAME --client USER then makes a new one" in client_authority
    for line in (client, other):
        assert "mqflow qmgr tls NAME --client USER makes a new one" in line
    assert all("company made it" in line for line in (authority, server, client_authority, client, other))


def test_without_cryptography_no_certificate_has_an_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)

    said = "The package cryptography is missing, so nobody says when the certificates expire: pip install 'mqflow[tls]'."
    assert [said] == list(expiry_lines([tmp_path / "a.pem", tmp_path / "b.pem"], 0.0))


@pytest.mark.parametrize(
    ("options", "applications", "how", "status", "said"),
    [((), ["shop", "b\x07k"], End(Manner.CONTROLLED), "ends",
      "QM1 ends when these applications have disconnected: shop, b\\x07k."),
     ((), [], End(Manner.CONTROLLED), "ended", "QM1 has ended."),
     (("-i",), [], End(Manner.IMMEDIATE), "ended", "QM1 has ended."),
     (("-r",), [], End(Manner.CONTROLLED, reconnect=True), "ended", "QM1 has ended."),
     (("-s",), [], End(Manner.IMMEDIATE, reconnect=True, switchover=True), "ended",
      "The active process of QM1 has ended, and a standby takes over.")],
)  # fmt: skip
def test_stop_orders_an_end_and_says_what_it_waits_for(
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    applications: list[str],
    how: End,
    status: str,
    said: str,
) -> None:
    orders: list[object] = []
    pids = iter([7, 7, 8] * 2)

    def end(*order: object) -> list[str]:
        orders.append(order)
        return applications

    slept = sleeps(monkeypatch, "qmgr")
    monkeypatch.setattr("mqflow.cli.queue_managers.qmgr.end", end)
    monkeypatch.setattr("mqflow.cli.queue_managers.qmgr.owner_pid", lambda _: 7 if applications else next(pids))

    shown, record = run("qmgr", "stop", "QM1", *options), run("qmgr", "stop", "QM1", *options, "--json")

    assert (0, f"{said}\n", "") == (shown.exit_code, shown.stdout, shown.stderr)
    facts = {"queue_manager": "QM1", "status": status, "process": 7, "applications": applications}
    assert facts == json.loads(record.stdout)
    assert ([(Path("QM1"), "QM1", how)] * 2, [] if applications else [0.02] * 2) == (orders, slept)


def test_stop_of_a_queue_manager_that_is_not_active_is_wrong_usage(run: Run) -> None:
    refused = run("qmgr", "stop", "QM1")

    assert (2, "mqflow: QM1 in QM1 is not active.\n") == (refused.exit_code, refused.stderr)


def test_a_password_comes_from_a_prompt_or_from_stdin(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def prompt(text: str) -> str:
        asked.append(text)
        return "correct horse"

    with monkeypatch.context() as patched:
        patched.setattr("getpass.getpass", prompt)
        typed = run("qmgr", "user", "QM1", "alice")
    without = run("qmgr", "user", "QM1", "bob", stdin="")

    grant = "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('alice') AUTHADD(CONNECT,INQ)"
    said = f"alice has only the authorities that you grant with mqflow mqsc, beginning with {grant}\n"
    assert (["Password of alice: "], "alice has a password.\n", said) == (asked, typed.stdout, typed.stderr)
    assert (2, True) == (without.exit_code, "mqflow: stdin ended before the password: name a file" in without.stderr)
