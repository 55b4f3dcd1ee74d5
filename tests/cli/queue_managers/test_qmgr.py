"""`mqflow qmgr`: create, start, take over, end, copy a queue manager, and serve it to users with a password."""

import fcntl
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.folder import DataFolder
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.storage.standby import owner_pid
from mqflow.embedded.wire.client.connection import ServedConnection
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.server.users_file import USERS_FILE, UsersFile
from mqflow.fap.connection_flows import Credentials
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import GetOption, OpenOption, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import WAIT_UNLIMITED, GetOptions
from tests.cli.conftest import Run, free_port
from tests.fap.client_half import ChannelClient
from tests.leaving import popen_with_parent

BOTH = OpenOption.INPUT_SHARED | OpenOption.OUTPUT
FOR_EVER = GetOptions(options=GetOption.SYNCPOINT | GetOption.WAIT, wait_ms=WAIT_UNLIMITED)


@pytest.fixture
def created(run: Run, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Create QM1 in ./QM1, and end its processes after the test, or when the test run is killed."""
    monkeypatch.setattr(subprocess, "Popen", popen_with_parent())
    monkeypatch.setenv("MQFLOW_URL", "embedded+unix:QM1/served.sock?qmgr=QM1")
    assert 0 == run("qmgr", "create", "QM1").exit_code
    yield
    while pid := row(run)["process"] or row(run)["standby"]:
        os.kill(int(pid), signal.SIGKILL)
        threading.Event().wait(0.02)


def row(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("qmgr", "status", "QM1", "--json").stdout)
    return found


def started(run: Run, *more: str) -> int:
    result = run("qmgr", "start", "QM1", *more, "--json")
    assert 0 == result.exit_code, result.output
    facts = json.loads(result.stdout)
    assert ("QM1", "standby" if "--standby" in more else "active") == (facts["queue_manager"], facts["status"])
    return int(facts["process"])


def active_after(run: Run, pid: int) -> dict[str, Any]:
    """Return the status when a process other than this one is active."""
    while (now := row(run))["process"] in {None, pid} or now["status"] != "active":
        threading.Event().wait(0.01)
    return now


def connected() -> ServedConnection:
    return ServedQueueManager(Path("QM1/served.sock")).connect()


pytestmark = [
    pytest.mark.usefixtures("created"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),  # Python 3.12 and later
]


def test_a_queue_manager_is_created_started_and_ended(run: Run) -> None:
    assert "ended" == row(run)["status"]

    pid = started(run)

    assert ("active", pid, None) == (row(run)["status"], row(run)["process"], row(run)["standby"])
    stopped = json.loads(run("qmgr", "stop", "QM1", "-i", "--json").stdout)
    assert {"queue_manager": "QM1", "status": "ended", "process": pid, "applications": []} == stopped
    assert "ended" == row(run)["status"]


def test_create_needs_a_free_folder_and_start_an_existing_queue_manager(run: Run) -> None:
    assert "has a queue manager already" in run("qmgr", "create", "QM1").stderr
    assert "mqflow qmgr create QM2" in run("qmgr", "serve", "QM2").stderr
    assert "not active" in run("qmgr", "stop", "QM1").stderr


def test_a_standby_takes_over_when_the_active_one_is_killed_and_nothing_is_lost(run: Run) -> None:
    active = started(run)
    standby = started(run, "--standby")
    run("mqsc", stdin="DEFINE QLOCAL(Q1) DEFPSIST(YES)")
    run("put", "Q1", "an order")

    os.kill(active, signal.SIGKILL)

    assert standby == active_after(run, active)["process"]
    assert "an order\n" == run("get", "Q1").stdout


def test_a_stopped_process_is_still_the_active_one(run: Run) -> None:
    active = started(run)
    started(run, "--standby")
    os.kill(active, signal.SIGSTOP)
    try:
        threading.Event().wait(0.1)  # many times as long as a standby takes to look
        assert active == int(Path("QM1/owner.lock").read_text().split()[0])
    finally:
        os.kill(active, signal.SIGCONT)


def test_a_switchover_makes_applications_reconnect_to_the_standby(run: Run) -> None:
    active = started(run)
    standby = started(run, "--standby")
    run("mqsc", stdin="DEFINE QLOCAL(Q1)")
    connection = connected()
    heard: list[MQIError] = []
    waiting = threading.Thread(target=_wait, args=(connection, heard))
    waiting.start()
    while not json.loads(run("mqsc", "--json", stdin="DISPLAY QLOCAL(Q1) IPPROCS").stdout)["IPPROCS"]:
        threading.Event().wait(0.01)

    stopped = run("qmgr", "stop", "QM1", "-s")
    waiting.join()

    assert "The active process of QM1 has ended, and a standby takes over.\n" == stopped.stdout
    assert [Reason.Q_MGR_RECONNECT_REQUESTED] == [error.reason for error in heard]
    assert standby == active_after(run, active)["process"]


def test_stop_with_reconnect_makes_applications_reconnect(run: Run) -> None:
    """This works without a standby too: the applications can find another queue manager."""
    started(run)
    run("mqsc", stdin="DEFINE QLOCAL(Q1)")
    connection = connected()
    heard: list[MQIError] = []
    waiting = threading.Thread(target=_wait, args=(connection, heard))
    waiting.start()
    while not json.loads(run("mqsc", "--json", stdin="DISPLAY QLOCAL(Q1) IPPROCS").stdout)["IPPROCS"]:
        threading.Event().wait(0.01)

    run("qmgr", "stop", "QM1", "-i", "-r")
    waiting.join()

    assert [Reason.Q_MGR_RECONNECT_REQUESTED] == [error.reason for error in heard]


def test_without_switchover_the_standbys_end_too(run: Run) -> None:
    active = started(run)
    standbys = [started(run, "--standby"), started(run, "--standby")]

    assert 0 == run("qmgr", "stop", "QM1").exit_code
    for process in (active, *standbys):
        assert (process, 0) == os.waitpid(process, 0)

    assert ("ended", None) == (row(run)["status"], row(run)["standby"])
    printed = Path("QM1/qmgr.log").read_text()
    assert 1 == printed.count("QM1 is active, at")
    assert 2 == printed.count("QM1 was ended, so this standby ends too.")


def _wait(connection: ServedConnection, heard: list[MQIError]) -> None:
    try:
        connection.get(connection.open("Q1", BOTH), FOR_EVER)
    except MQIError as error:
        heard.append(error)


def test_a_switchover_without_a_standby_is_refused(run: Run) -> None:
    started(run)

    result = run("qmgr", "stop", "QM1", "-s")

    assert "No standby can go on" in result.stderr
    assert "host and port" not in result.stderr  # it is there, and was reached
    assert "active" == row(run)["status"]


def test_a_controlled_end_waits_for_applications(run: Run) -> None:
    started(run)
    connection = connected()

    program = Path(sys.argv[0]).name
    assert f"QM1 ends when these applications have disconnected: {program}.\n" == run("qmgr", "stop", "QM1").stdout
    with pytest.raises(MQIError) as refused:
        connected()
    assert Reason.Q_MGR_QUIESCING == refused.value.reason
    assert "active until its applications disconnect (2161)" == row(run)["status"]
    connection.disconnect()
    while row(run)["status"] != "ended":
        threading.Event().wait(0.02)


def test_an_immediate_stop_ends_a_waiting_controlled_stop(run: Run) -> None:
    started(run)
    connection = connected()
    run("qmgr", "stop", "QM1")

    assert "QM1 has ended.\n" == run("qmgr", "stop", "QM1", "-i").stdout
    with pytest.raises(MQIError):
        connection.commit()


def test_a_controlled_stop_without_applications_returns_after_the_end(run: Run) -> None:
    started(run)

    assert "QM1 has ended.\n" == run("qmgr", "stop", "QM1").stdout
    assert "ended" == row(run)["status"]
    times = [line.partition("Z ")[0] for line in Path("QM1/qmgr.log").read_text().splitlines()]
    assert sorted(times) == times  # each line has one
    assert datetime.fromisoformat(times[-1])


def test_a_queue_manager_whose_storage_fails_exits_with_1(run: Run) -> None:
    words = (sys.executable, "-m", "mqflow.cli", "qmgr", "serve", "QM1")
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as serving:
        assert serving.stderr is not None
        assert "QM1 is active" in serving.stderr.readline()
        Path("QM1/owner.lock").unlink()
        assert 10 == run("mqsc", stdin="DEFINE QLOCAL(NEW)").exit_code
        printed = serving.stderr.read()

    assert 1 == serving.returncode
    assert "QM1 has stopped by itself: " in printed
    assert "its lock was deleted, replaced" in printed


def test_a_queue_manager_whose_log_cannot_be_written_serves(run: Run) -> None:
    """The log can be on the full disk that an application must drain."""
    words = (sys.executable, "-m", "mqflow.cli", "qmgr", "serve", "QM1")
    with Path("/dev/full").open("w") as full, subprocess.Popen(words, stderr=full) as serving:
        try:
            while row(run)["status"] != "active":
                assert serving.poll() is None
                threading.Event().wait(0.02)
            assert 0 == run("mqsc", stdin="DEFINE QLOCAL(NEW)").exit_code
            assert 0 == run("qmgr", "stop", "QM1").exit_code
        except BaseException:
            serving.kill()  # the end of the block would wait for it for ever
            raise


def test_a_second_start_is_refused(run: Run) -> None:
    first = run("qmgr", "start", "QM1", "--listen", "127.0.0.1:0")
    pid = owner_pid(DataFolder(Path("QM1")))

    assert first.stderr.startswith("mqflow: no user has a password or a certificate yet, so no connection over TCP is accepted")
    assert f"QM1 is active as process {pid}.\n" == first.stdout
    for again in (run("qmgr", "start", "QM1"), run("qmgr", "serve", "QM1")):
        assert 2 == again.exit_code
        assert f"mqflow: QM1 is active already, as process {pid}. Start a second process with --standby." in again.stderr


def test_a_start_waits_for_a_command_that_owns_the_folder_for_a_moment(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    command = SqliteStore(Path("QM1"))
    monkeypatch.setattr(
        "mqflow.cli.processes.served_connections.Event", lambda: SimpleNamespace(wait=lambda _: command.close())
    )

    started(run)


def test_standbys_form_a_line_and_each_takes_over_in_its_turn(run: Run) -> None:
    owners = [started(run), *(started(run, "--standby") for _ in range(3))]
    lines = Path("QM1/qmgr.log").read_text().splitlines()
    assert [
        f"QM1 stands by: process {owners[0]} is the active one.",
        f"QM1 stands by in line: process {owners[1]} is before this one.",
        f"QM1 stands by in line: process {owners[1]} is before this one.",
    ] == [line.partition("Z ")[2] for line in lines[1:]]
    run("mqsc", stdin="DEFINE QLOCAL(Q1) DEFPSIST(YES)")

    assert 0 == run("qmgr", "stop", "QM1", "-s").exit_code
    first = active_after(run, owners[0])
    run("put", "Q1", "an order")
    os.kill(owners[1], signal.SIGKILL)
    second = active_after(run, owners[1])

    assert owners[1] == first["process"]
    assert {second["process"]} < set(owners[2:])
    assert "an order\n" == run("get", "Q1").stdout
    while row(run)["standby"] not in set(owners[2:]) - {second["process"]}:
        threading.Event().wait(0.01)


def sql(*statements: str) -> None:
    with closing(sqlite3.connect("QM1/queue_manager.db")) as database:
        for statement in statements:
            database.execute(statement)


@contextmanager
def active_elsewhere() -> Iterator[None]:
    """Hold the lock of the owner."""
    with Path("QM1/owner.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def test_a_standby_refuses_the_folder_of_a_newer_mqflow_before_it_is_needed(run: Run) -> None:
    sql("PRAGMA user_version = 99")

    with active_elsewhere():
        refused = run("qmgr", "serve", "QM1", "--standby")

    assert 0 != refused.exit_code
    assert "has format version 99; this mqflow knows versions up to 2. Nothing was changed." in refused.stderr


def test_a_standby_ends_if_a_newer_mqflow_has_upgraded_the_folder(run: Run) -> None:
    with active_elsewhere():
        started(run, "--standby")
        sql("PRAGMA user_version = 99")

    while "has format version 99" not in Path("QM1/qmgr.log").read_text():  # the standby logs the reason before it ends
        threading.Event().wait(0.02)
    assert row(run)["standby"] is None
    assert "ended" == row(run)["status"]


def test_a_standby_waits_for_the_sockets_of_a_dying_owner(run: Run) -> None:
    """The lock of a killed process is free before its sockets are closed. Found by failovers on a busy machine."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("QM1/served.sock")
        listening.listen()
        with active_elsewhere():
            standby = started(run, "--standby")
        while standby != owner_pid(DataFolder(Path("QM1"))):
            threading.Event().wait(0.01)

        listening.accept()[0].close()  # it has tried

    assert standby == active_after(run, 0)["process"]


def test_a_newer_standby_takes_over_the_folder_of_an_older_mqflow(run: Run) -> None:
    sql("DROP TABLE object", "PRAGMA user_version = 1")
    with active_elsewhere():
        standby = started(run, "--standby")

    assert standby == active_after(run, 0)["process"]
    assert 0 == run("qmgr", "stop", "QM1", "-i").exit_code
    with closing(sqlite3.connect("QM1/queue_manager.db")) as database:
        assert [(2,)] == database.execute("PRAGMA user_version").fetchall()


@pytest.mark.parametrize("active", [True, False], ids=["while it runs", "while it does not"])
def test_a_backup_can_be_started(run: Run, *, active: bool) -> None:
    started(run)
    run("mqsc", stdin="DEFINE QLOCAL(Q1) DEFPSIST(YES)")
    run("put", "Q1", "an order")
    if not active:
        run("qmgr", "stop", "QM1", "-i")

    assert 0 == run("qmgr", "backup", "QM1", "copy").exit_code

    assert "an order\n" == run("get", "Q1", "--url", "embedded:copy?qmgr=QM1").stdout
    assert "There is already a queue manager" in run("qmgr", "backup", "QM1", "copy").stderr


@pytest.mark.parametrize("words", [("stop",), ("stop", "-i"), ("backup", "copy")])
def test_an_application_that_has_opened_the_folder_itself_takes_no_orders(run: Run, words: tuple[str, ...]) -> None:
    command, *more = words
    with EmbeddedQueueManager("QM1", store=SqliteStore(Path("QM1"))):
        refused = run("qmgr", command, "QM1", *more)

    assert 1 == refused.exit_code
    assert f"Process {os.getpid()} has opened QM1, but does not answer at QM1/served.sock." in refused.stderr
    assert "End an application that has opened the folder itself." in refused.stderr
    assert "listener" not in refused.stderr
    assert not Path("copy").exists()


def test_a_dead_letter_queue_needs_a_valid_name(run: Run) -> None:
    refused = run("qmgr", "create", "QM2", "-u", "BAD NAME!!")
    without = run("qmgr", "create", "QM3", "-u", "")

    assert (2, False, 0) == (refused.exit_code, Path("QM2").exists(), without.exit_code)
    assert "'BAD NAME!!' is not a valid name of a queue" in refused.stderr


def test_a_log_without_damage_has_no_loss_to_accept(run: Run) -> None:
    pid = started(run)
    run("mqsc", stdin="DEFINE QLOCAL(Q1) DEFPSIST(YES)")
    run("put", "Q1", "an order")
    os.kill(pid, signal.SIGKILL)
    while row(run)["process"]:
        threading.Event().wait(0.02)
    note = Path("QM1/queue_manager.db-synced").read_bytes()

    accepted = run("qmgr", "accept-loss", "QM1")

    assert (0, "The log of QM1 has no damage, so there is no loss to accept. Nothing was changed.\n") == (
        accepted.exit_code,
        accepted.stdout,
    )
    assert note == Path("QM1/queue_manager.db-synced").read_bytes()
    assert [] == list(Path("QM1").glob("*.damaged-*"))


def test_a_damaged_log_stops_the_start_until_the_loss_is_accepted(run: Run) -> None:
    pid = started(run)
    run("mqsc", stdin="DEFINE QLOCAL(Q1) DEFPSIST(YES)")
    run("put", "Q1", "an order")
    run("put", "Q1", "the last order")
    os.kill(pid, signal.SIGKILL)
    log = Path("QM1/queue_manager.db-wal")
    damaged = log.read_bytes().replace(b"the last order", b"the lost order")
    while row(run)["process"]:
        threading.Event().wait(0.02)
    log.write_bytes(damaged)

    refused = run("qmgr", "start", "QM1")
    accepted = run("qmgr", "accept-loss", "QM1")

    assert 1 == refused.exit_code
    assert "synced transactions would be lost" in refused.stderr
    assert "mqflow qmgr accept-loss NAME --data" in refused.stderr
    assert "QM1/queue_manager.db-wal.damaged-1 is a copy of its log" in accepted.stdout
    assert damaged == Path("QM1/queue_manager.db-wal.damaged-1").read_bytes()
    started(run)
    assert "an order\n" == run("get", "Q1").stdout
    assert 3 == run("get", "Q1").exit_code


def test_a_user_name_that_is_too_long_for_a_message_is_refused(run: Run) -> None:
    Path("password").write_text("correct horse")

    refused = run("qmgr", "user", "QM1", "a" * 13, "--password-file", "password")

    assert 2 == refused.exit_code
    assert refused.stderr.endswith("and a user identifier of MQ (MQMD.UserIdentifier) at most 12.\n")


def test_without_a_terminal_the_password_is_read_from_stdin() -> None:
    words = (sys.executable, "-m", "mqflow.cli", "qmgr", "user", "QM1", "alice")

    given = subprocess.run(words, input="correct horse\n", capture_output=True, text=True, check=False, start_new_session=True)

    grant = "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('alice') AUTHADD(CONNECT,INQ)"
    said = f"alice has only the authorities that you grant with mqflow mqsc, beginning with {grant}\n"
    assert (0, "alice has a password.\n", said) == (given.returncode, given.stdout, given.stderr)
    assert UsersFile(Path("QM1") / USERS_FILE, os.urandom).knows("alice", "correct horse")


def test_a_certificate_is_made_for_names_that_a_host_can_have(run: Run) -> None:
    refused = run("qmgr", "tls", "QM1", "localhost", "bad host")

    assert 2 == refused.exit_code
    assert "'bad host' is neither an address nor the name of a host" in refused.stderr
    assert not Path("QM1/tls").exists()
    assert 0 == run("qmgr", "tls", "QM1", "*.mq.example", "node_1", "xn--bcher-kva.example", "10.0.0.7", "::1").exit_code


def test_certificates_are_replaced_only_with_replace(run: Run) -> None:
    assert 0 == run("qmgr", "tls", "QM1", "localhost").exit_code
    before = Path("QM1/tls/ca.pem").read_bytes()

    refused = run("qmgr", "tls", "QM1", "localhost")
    kept = Path("QM1/tls/ca.pem").read_bytes()

    assert 2 == refused.exit_code
    assert "There are certificates in QM1/tls" in refused.stderr
    assert before == kept
    assert 0 == run("qmgr", "tls", "QM1", "localhost", "--replace").exit_code
    assert before != Path("QM1/tls/ca.pem").read_bytes()


def test_users_with_a_password_connect_over_tls(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    Path("password").write_text("correct horse\n")
    run("qmgr", "user", "QM1", "alice", "--password-file", "password")
    run("qmgr", "tls", "QM1", "localhost", "127.0.0.1")
    started(run, "--listen", f"127.0.0.1:{port}")
    run("mqsc", stdin="DEFINE QLOCAL(Q1)")
    url = f"embedded+tls://localhost:{port}/QM1?ca=QM1/tls/ca.pem"
    assert "alice has no CONNECT, so over TCP it is refused (2035)." in Path("QM1/qmgr.log").read_text()

    assert "needs a user and a password" in run("put", "Q1", "x", "--url", url).stderr
    monkeypatch.setenv("MQFLOW_USER", "alice")
    monkeypatch.setenv("MQFLOW_PASSWORD", "wrong")
    assert "MQRC_NOT_AUTHORIZED" in run("put", "Q1", "x", "--url", url).stderr
    monkeypatch.setenv("MQFLOW_PASSWORD", "correct horse")
    assert "User alice lacks CONNECT on the queue manager" in run("put", "Q1", "x", "--url", url).stderr
    monkeypatch.delenv("MQFLOW_USER")
    grants = "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('alice') AUTHADD(CONNECT)"
    assert (
        0
        == run("mqsc", stdin=f"{grants}\nSET AUTHREC PROFILE(Q1) OBJTYPE(QUEUE) PRINCIPAL('alice') AUTHADD(GET,PUT)").exit_code
    )
    monkeypatch.setenv("MQFLOW_USER", "alice")
    assert 0 == run("put", "Q1", "x", "--persistent", "--url", url).exit_code
    assert "x\n" == run("get", "Q1", "--url", url).stdout


def test_a_user_with_a_certificate_connects_without_a_password(run: Run) -> None:
    port = free_port()
    made = run("qmgr", "tls", "QM1", "localhost", "--client", "alice")
    started(run, "--listen", f"127.0.0.1:{port}")
    grant = "SET AUTHREC {} PRINCIPAL('alice') AUTHADD({})"
    run("mqsc", stdin=grant.format("OBJTYPE(QMGR)", "CONNECT"))
    run("mqsc", stdin="DEFINE QLOCAL(Q1)\n" + grant.format("PROFILE(Q1) OBJTYPE(QUEUE)", "GET,PUT"))
    url = f"embedded+tls://localhost:{port}/QM1?ca=QM1/tls/ca.pem"
    certificate = "&cert=QM1/tls/clients/alice.pem&key=QM1/tls/clients/alice.key"

    assert "Made for alice: QM1/tls/clients/alice.pem" in made.stdout
    assert 0 == run("put", "Q1", "x", "--persistent", "--url", url + certificate).exit_code
    assert "x\n" == run("get", "Q1", "--url", url + certificate).stdout
    assert "cert and key belong together" in run("get", "Q1", "--url", f"{url}&cert=alice.pem").stderr
    log = Path("QM1/qmgr.log").read_text()
    for name in ("ca.pem", "server.pem", "clients-ca.pem", "clients/alice.pem"):
        assert f"QM1/tls/{name} is valid for " in log


def test_tls_without_a_host_and_without_a_client_is_wrong_usage(run: Run) -> None:
    refused = run("qmgr", "tls", "QM1")

    assert 2 == refused.exit_code
    assert "Name the hosts of the server's certificate, or a user with --client" in refused.stderr


def test_a_client_program_of_mq_connects_to_the_address_for_it(run: Run) -> None:
    port = free_port()
    Path("password").write_text("correct horse\n")
    run("qmgr", "user", "QM1", "alice", "--password-file", "password", "--administrator")
    started(run, "--mq", f"127.0.0.1:{port}")
    run("mqsc", stdin="DEFINE QLOCAL(Q1)")

    with closing(ChannelClient(port)) as client:
        client.begin(Credentials("alice", "correct horse"))
        handle = client.open("Q1", OpenOption.OUTPUT).handle
        assert 0 == client.put(handle, b"x", PutOption.NO_SYNCPOINT).reason

    assert "x\n" == run("get", "Q1").stdout


def test_an_address_for_client_programs_is_a_host_and_a_port(run: Run) -> None:
    result = run("qmgr", "serve", "QM1", "--mq", "unix:here.sock")

    assert 2 == result.exit_code
    assert "here.sock is no address for MQ's clients: they connect to HOST:PORT." in result.stderr


OWNS_AND_DOES_NOT_SERVE = """#!{python}
import fcntl, os, sys, time
lock = open("QM1/owner.lock", "a+")
fcntl.flock(lock, fcntl.LOCK_EX)
lock.truncate(0)
print(f"{{os.getpid():<19}}", file=lock, flush=True)
time.sleep(0.5)
sys.exit("it never served")
"""


def test_the_socket_of_a_dead_server_does_not_count_as_ready(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind("QM1/served.sock")
    Path("python").write_text(OWNS_AND_DOES_NOT_SERVE.format(python=sys.executable))
    Path("python").chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(Path("python").absolute()))

    result = run("qmgr", "start", "QM1")

    assert "did not start (exit code 1): it never served" in result.stderr


@pytest.mark.parametrize(
    "words",
    [(each, "QM2") for each in ("start", "stop", "status")] + [(each, "QM2", "x") for each in ("backup", "tls", "user")],
)
def test_a_folder_without_a_queue_manager_is_an_error_with_a_remedy(run: Run, words: tuple[str, ...]) -> None:
    Path("QM2").mkdir()

    result = run("qmgr", *words)

    assert 2 == result.exit_code
    assert (
        "There is no queue manager in QM2: create it with mqflow qmgr create QM2, or name another folder with --data.\n"
        in result.stderr
    )


@pytest.mark.parametrize(
    "words", [("serve",), ("start",), ("stop",), ("backup", "copy"), ("tls", "localhost"), ("user", "alice")]
)
def test_the_folder_of_another_queue_manager_is_an_error(run: Run, words: tuple[str, ...]) -> None:
    result = run("qmgr", words[0], "QM2", *words[1:], "--data", "QM1")

    assert 2 == result.exit_code
    assert "QM1 holds the data of QM1, not of QM2: check the name, or --data.\n" in result.stderr


def test_start_fails_if_an_address_cannot_be_used(run: Run) -> None:
    result = run("qmgr", "start", "QM1", "--listen", "198.51.100.1:1414")

    assert 2 == result.exit_code
    assert "QM1 did not start (exit code 2): 198.51.100.1:1414 can be reached from other machines" in result.stderr


def test_status_shows_the_name_of_an_ended_queue_manager(run: Run) -> None:
    assert 0 == run("qmgr", "create", "ORDERS", "--data", "data").exit_code

    for words in (("--data", "data"), ("data",)):
        found = json.loads(run("qmgr", "status", *words, "--json").stdout)
        expected = {"queue_manager": "ORDERS", "status": "ended", "process": None, "standby": None, "data": "data"}
        assert expected == found


@pytest.mark.parametrize(
    ("content", "expected"),
    [(b"notes", "it is not an SQLite database"), (b"SQLite format 3\0".ljust(68, b"\0") + b"gpkg", "another application's")],
    ids=["text", "another application's database"],
)
def test_other_data_is_not_listed_as_a_queue_manager(run: Run, content: bytes, expected: str) -> None:
    Path("other").mkdir()
    Path("other/queue_manager.db").write_bytes(content)

    listed = run("qmgr", "status", "--json")
    asked = run("qmgr", "status", "other")

    assert ["QM1"] == [json.loads(line)["queue_manager"] for line in listed.stdout.splitlines()]
    assert "is not a queue manager's data" in listed.stderr
    assert 1 == asked.exit_code
    assert expected in asked.stderr


def connected_unless_full() -> ServedConnection | None:
    try:
        return connected()
    except MQIError as error:
        if error.reason != Reason.MAX_CONNS_LIMIT_REACHED:
            raise
        return None


def test_a_connection_above_max_connections_is_refused_with_2025(run: Run) -> None:
    started(run, "--max-connections", "1")
    while (connection := connected_unless_full()) is None:  # the connection of the start command ends soon
        pass

    refused = run("put", "Q1", "an order")
    status = row(run)["status"]
    defined = run("mqsc", stdin="DEFINE QLOCAL(NEW)")
    copied = run("qmgr", "backup", "QM1", "copy")
    ended = run("qmgr", "stop", "QM1", "-i")

    assert 1 == refused.exit_code
    assert "MQRC_MAX_CONNS_LIMIT_REACHED (2025). The limit of 1 served connections is reached" in refused.stderr
    assert "active, with the highest number of connections (2025)" == status
    assert [0, 0, 0] == [each.exit_code for each in (defined, copied, ended)]
    with pytest.raises(MQIError):
        connection.commit()
