"""The process of a queue manager, run in this process: its sentences, its addresses, its orders and its end."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from msgspec.structs import replace

from mqflow.app.channels import location
from mqflow.app.channels.location import locate
from mqflow.cli.processes import child_process, queue_manager_process, served_connections
from mqflow.cli.processes.child_process import RestartDelay, parent_pipe, until_parent_ends
from mqflow.cli.processes.delay_processors import DelayProcessors
from mqflow.cli.processes.end_request import EndRequest
from mqflow.cli.processes.queue_manager_process import HostOptions, StoppedByItselfError, host, rights_over_tcp
from mqflow.cli.processes.recycling import Limits
from mqflow.cli.processes.served_connections import is_served, queue_manager_name_at, too_few_open_files
from mqflow.cli.processes.stop_event import stop_event
from mqflow.cli.processes.takeover_rehearsal import rehearse
from mqflow.cli.processes.workers import _exit_code_after_stop, _owner
from mqflow.cli.queue_managers.orders import back_up, end
from mqflow.cli.text.exit_codes import exit_code_of, sentence_of
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.addresses import TcpAddress, UnixAddress
from mqflow.embedded.wire.protocol.end_manner import End, Manner
from mqflow.embedded.wire.server.listener import serve
from mqflow.embedded.wire.server.users_file import UsersFile
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.testing.kit import carry_out
from mqflow.world import SYSTEM_CLOCK

SOCKET = "served.sock"
_PATIENCE_S = 14.0
#: The longest test needs a tenth of this processor time.
_PROCESSOR_S = 5.0


@pytest.fixture(autouse=True)
def short(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give a folder with a short path, because the path of a socket is short, and make it the current one.

    A wait that never leaves the event loop fails after some seconds of processor time. No limit of anyio can end it.
    """

    def fail(*_: object) -> None:
        raise AssertionError("a wait computes without end")

    path = tmp_path_factory.mktemp("q")
    monkeypatch.chdir(path)
    before = signal.signal(signal.SIGPROF, fail)
    signal.setitimer(signal.ITIMER_PROF, _PROCESSOR_S)
    yield path
    signal.setitimer(signal.ITIMER_PROF, 0.0)
    signal.signal(signal.SIGPROF, before)


def options_for(folder: Path, **changed: object) -> HostOptions:
    plain = HostOptions(name="QM1", folder=folder, addresses=(), users=UsersFile(folder / "users", bytes))
    return replace(plain, **changed)


def created(folder: Path) -> Path:
    EmbeddedQueueManager("QM1", store=SqliteStore(folder)).close()
    return folder


class Hosted:
    """A queue manager that this process hosts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: list[str] = []
        self.for_good: bool | None = None
        self._changed = anyio.Event()

    def say(self, text: str) -> None:
        self.said.append(text)
        self._changed.set()

    async def until(self, words: str) -> None:
        """Return after a sentence with these words."""
        while not any(words in text for text in self.said):
            self._changed = anyio.Event()
            await self._changed.wait()

    async def run(self, options: HostOptions) -> None:
        self.for_good = await host(options, self.say)

    async def end(self, how: End) -> None:
        """Order the end of the queue manager."""

        await anyio.to_thread.run_sync(end, self.folder, "QM1", how)


def hosting(options: HostOptions, steps: Callable[[Hosted], Awaitable[None]]) -> Hosted:
    """Host the queue manager while these steps happen; return what it said, after its end."""
    hosted = Hosted(options.folder)

    async def main() -> None:
        with anyio.fail_after(_PATIENCE_S):
            async with anyio.create_task_group() as group:
                group.start_soon(hosted.run, options)
                await steps(hosted)

    anyio.run(main)
    return hosted


def order_end(how: End) -> Callable[[Hosted], Awaitable[None]]:
    async def steps(hosted: Hosted) -> None:
        await hosted.until("is active")
        await hosted.end(how)

    return steps


# -- the life of a queue manager


def test_an_order_ends_the_queue_manager_permanently(short: Path) -> None:
    hosted = hosting(options_for(created(short / "qm")), order_end(End(Manner.IMMEDIATE)))

    socket = short / "qm" / SOCKET
    assert [f"QM1 is active, at {socket}.", "QM1 ends (immediate)."] == hosted.said
    assert (True, False, False) == (hosted.for_good, socket.exists(), is_served(short / "qm"))


def test_a_process_waits_for_a_command_that_owns_the_folder_for_a_moment(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = SqliteStore(created(short / "qm"))
    monkeypatch.setattr(location, "_is_served", lambda _: command.close())

    hosted = hosting(options_for(short / "qm"), order_end(End(Manner.IMMEDIATE)))

    assert f"QM1 is active, at {short / 'qm' / SOCKET}." == hosted.said[0]


def test_a_second_process_that_is_no_standby_is_refused(short: Path) -> None:
    with (
        EmbeddedQueueManager("QM1", store=SqliteStore(short / "qm")) as owner,
        closing(serve(owner, short / "qm" / SOCKET)),
        pytest.raises(ExceptionGroup) as refused,
    ):
        anyio.run(host, options_for(short / "qm"), print)

    active = f"QM1 is active already, as process {os.getpid()}. Start a second process with --standby."
    assert (2, active) == (exit_code_of(refused.value), sentence_of(refused.value))


def test_a_standby_without_an_active_process_is_active_at_once(short: Path) -> None:
    hosted = hosting(options_for(short / "qm", standby=True), order_end(End(Manner.IMMEDIATE)))

    assert [f"QM1 is active, at {short / 'qm' / SOCKET}.", "QM1 ends (immediate)."] == hosted.said


@pytest.mark.parametrize(
    ("number", "manner", "for_good"),
    [
        (signal.SIGTERM, "immediate", False),
        (signal.SIGINT, "immediate", False),
        (signal.SIGHUP, "controlled", False),
        (signal.SIGUSR1, "immediate", True),
    ],
)
def test_a_signal_ends_the_process(
    short: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, manner: str, *, for_good: bool
) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored

    async def steps(hosted: Hosted) -> None:
        await hosted.until("is active")
        os.kill(os.getpid(), number)

    try:
        hosted = hosting(options_for(created(short / "qm")), steps)
    finally:
        signal.signal(signal.SIGHUP, before)

    assert (f"QM1 ends ({manner}).", for_good) == (hosted.said[-1], hosted.for_good)


def test_a_controlled_end_waits_for_the_last_application_and_a_second_order_does_not(short: Path) -> None:
    found: list[object] = []

    async def steps(hosted: Hosted) -> None:
        await hosted.until("is active")
        await anyio.to_thread.run_sync(partial(talk, hosted))

    def talk(hosted: Hosted) -> None:
        folder = hosted.folder
        with closing(ServedQueueManager(folder / SOCKET, name="QM1")) as queue_manager:
            connection = queue_manager.connect(application_name="booking")
            found.append(list(end(folder, "QM1", End(Manner.CONTROLLED))))
            with pytest.raises(MQIError, match="2161"):
                queue_manager.connect(application_name="late")
            anyio.from_thread.run(hosted.until, "ends (controlled)")  # an order that comes before this replaces the first one
            end(folder, "QM1", End(Manner.IMMEDIATE))
            found.append(connection)  # it is still open when the queue manager ends

    hosted = hosting(options_for(created(short / "qm")), steps)

    assert ["booking"] == found[0]
    assert ("QM1 ends (controlled).", True) == (hosted.said[-1], hosted.for_good)


def test_a_controlled_end_is_complete_when_the_last_application_disconnects(short: Path) -> None:
    async def steps(hosted: Hosted) -> None:
        await hosted.until("is active")
        queue_manager = ServedQueueManager(hosted.folder / SOCKET, name="QM1")
        connection = await anyio.to_thread.run_sync(queue_manager.connect)
        await hosted.end(End(Manner.CONTROLLED))
        assert hosted.for_good is None
        await anyio.to_thread.run_sync(connection.disconnect)

    assert hosting(options_for(created(short / "qm")), steps).for_good


def test_a_switchover_needs_a_standby(short: Path) -> None:
    errors: list[MQIError] = []

    async def steps(hosted: Hosted) -> None:
        await hosted.until("is active")
        try:
            await hosted.end(End(Manner.IMMEDIATE, switchover=True))
        except MQIError as error:
            errors.append(error)
        await hosted.end(End(Manner.IMMEDIATE))

    hosting(options_for(created(short / "qm")), steps)

    [error] = errors
    assert Reason.OPERATION_NOT_ALLOWED == error.reason
    assert "No standby can go on: start one with --standby, or stop without -s" in str(error)


def test_a_backup_goes_to_a_new_folder_and_a_failed_backup_is_an_error(short: Path) -> None:
    (short / "file").touch()

    async def steps(hosted: Hosted) -> None:
        await hosted.until("is active")
        await anyio.to_thread.run_sync(back_up, hosted.folder, "QM1", short / "copy")
        with pytest.raises(MQIError, match=r"MQRC_FILE_SYSTEM_ERROR \(2208\)"):
            await anyio.to_thread.run_sync(back_up, hosted.folder, "QM1", short / "file" / "copy")
        await hosted.end(End(Manner.IMMEDIATE))

    hosting(options_for(created(short / "qm")), steps)

    with EmbeddedQueueManager("QM1", store=SqliteStore(short / "copy", create=False)) as copied:
        assert "QM1" == copied.name


@pytest.mark.parametrize(
    ("backups", "target", "refused"),
    [
        (None, "backups/one", "the owner named no folder for it"),
        ("backups", "backups/one", ""),
        ("backups", "backups/deep/one", ""),
        ("backups", "backups", "it must go into {place}"),
        ("backups", "elsewhere", "it must go into {place}"),
        ("backups", "backups/../other", "it must go into {place}"),
    ],
)
def test_a_backup_over_tcp_goes_only_below_the_folder_of_the_owner(
    short: Path, backups: str | None, target: str, refused: str
) -> None:
    obeyed: list[object] = []
    options = options_for(short, backups=None if backups is None else short / backups)
    obey = queue_manager_process._over_tcp(options, obeyed.append)
    order = requests.Backup(str(short / target))

    if refused:
        with pytest.raises(MQIError) as error:
            obey(order)
        assert Reason.NOT_AUTHORIZED == error.value.reason
        said = refused.format(place=(short / "backups").resolve())
        assert f"A backup ordered over TCP: {said} (mqflow qmgr serve --backups FOLDER)" in str(error.value)
    else:
        obey(order)
    ended = requests.EndQueueManager(End())
    obey(ended)

    assert [ended] if refused else [order, ended] == obeyed


def test_a_queue_manager_with_a_port_says_what_its_users_may_do(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_manager_process, "raise_open_file_limit", lambda: 1_024)
    users = UsersFile(short / "users", bytes, cost=2)
    users.set("amelie", "secret", administrator=True)
    users.set("bob", "secret")
    own = UnixAddress(short / "qm" / SOCKET)
    options = options_for(
        created(short / "qm"),
        addresses=(own, UnixAddress(short / "more.sock"), TcpAddress("127.0.0.1", 0)),
        mq_addresses=(TcpAddress("127.0.0.1", 0),),
        users=users,
        connections_max=321,
    )

    hosted = hosting(options, order_end(End(Manner.IMMEDIATE)))

    warning, active, *rest = hosted.said
    assert too_few_open_files(1_024, 321) == warning
    first, second, *ports = active.removeprefix("QM1 is active, at ").removesuffix(".").split(", ")
    assert [f"{own}", f"{short / 'more.sock'}", 2] == [
        first,
        second,
        len({port for port in ports if port.startswith("127.0.0.1:")}),
    ]
    assert [
        "amelie administers QM1 over TCP.",
        "bob has no CONNECT, so over TCP it is refused (2035). Grant authorities with SET AUTHREC (mqflow mqsc).",
        "QM1 ends (immediate).",
    ] == rest


def test_a_queue_manager_without_a_port_says_nothing_about_rights(short: Path) -> None:
    users = UsersFile(short / "users", bytes, cost=2)
    users.set("bob", "secret")

    hosted = hosting(options_for(created(short / "qm"), users=users), order_end(End(Manner.IMMEDIATE)))

    assert 2 == len(hosted.said)


def test_the_rights_of_each_user_over_tcp_are_a_sentence(short: Path) -> None:
    users = UsersFile(short / "users", bytes, cost=2)
    for name in ("bob", "carol", "mqm"):
        users.set(name, "secret")
    users.set("amelie", "secret", administrator=True)
    with EmbeddedQueueManager("QM1") as queue_manager:
        queue_manager.require_authorities(users.administers)
        carry_out(queue_manager.administration, ["SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('bob') AUTHADD(CONNECT)"])

        assert [
            "amelie administers QM1 over TCP.",
            "bob can connect over TCP; DISPLAY AUTHREC shows its authorities.",
            "carol has no CONNECT, so over TCP it is refused (2035). Grant authorities with SET AUTHREC (mqflow mqsc).",
            "mqm administers QM1 on this machine only: over TCP it is refused (2035).",
        ] == list(rights_over_tcp(queue_manager, users))


def test_the_queue_manager_ends_after_the_applications_of_a_parent_that_has_ended(short: Path) -> None:
    reading, writing = os.pipe()

    async def steps(hosted: Hosted) -> None:
        await hosted.until("is active")
        queue_manager = ServedQueueManager(hosted.folder / SOCKET, name="QM1")
        connection = await anyio.to_thread.run_sync(queue_manager.connect)
        os.close(writing)
        await anyio.wait_all_tasks_blocked()
        assert 1 == len(hosted.said)
        await anyio.to_thread.run_sync(connection.disconnect)

    hosted = hosting(options_for(created(short / "qm"), parent_pipe=reading), steps)
    os.close(reading)

    assert ("QM1 ends (immediate).", False) == (hosted.said[-1], hosted.for_good)


@pytest.mark.parametrize(("failure", "said"), [("The disk is full.", "The disk is full."), ("", "no reason is known.")])
def test_a_queue_manager_that_stopped_by_itself_says_why_and_how_to_go_on(failure: str, said: str) -> None:
    error = StoppedByItselfError("QM1", Path("/srv/my data"), failure)

    assert ("QM1", Path("/srv/my data"), failure) == (error.name, error.folder, error.failure)
    assert (
        f"QM1 has stopped by itself: {said} Each commit that got its answer was synced to the disk. The commits that were "
        "under way are in doubt. When the folder is usable again, mqflow qmgr start QM1 --data '/srv/my data' goes on."
    ) == str(error)


# -- requests, signals and pipes


def test_a_later_request_replaces_the_manner_but_an_end_permanently_stays() -> None:
    async def main() -> list[tuple[End, bool, bool]]:
        request = EndRequest()
        seen = [(request.how, request.requested, request.for_good)]
        for how, for_good in ((Manner.CONTROLLED, False), (Manner.IMMEDIATE, True), (Manner.CONTROLLED, False)):
            request.request(End(how), for_good=for_good)
            seen.append((request.how, request.requested, request.for_good))
        with anyio.fail_after(_PATIENCE_S):
            await request.wait(lambda: False)
        return seen

    assert [
        (End(Manner.IMMEDIATE), False, False),
        (End(Manner.CONTROLLED), True, False),
        (End(Manner.IMMEDIATE), True, True),
        (End(Manner.CONTROLLED), True, True),
    ] == anyio.run(main)


def test_another_thread_wakes_a_wait_for_a_condition(backend: str) -> None:
    happened: list[str] = []

    async def main() -> None:
        request = EndRequest()

        def work() -> None:
            request.wake()
            happened.append("it")
            request.wake()

        thread = threading.Thread(target=work)
        thread.start()
        with anyio.fail_after(_PATIENCE_S):
            await request.wait(lambda: bool(happened))
        thread.join()
        assert not request.requested

    anyio.run(main, backend=backend)


def test_a_wait_for_a_request_looks_once_for_each_call_of_wake(backend: str) -> None:
    looks: list[int] = []

    def nothing() -> bool:
        assert len(looks) < 10, "the wait looks again and again"
        looks.append(len(looks))
        return False

    async def main() -> list[int]:
        request = EndRequest()
        seen: list[int] = []
        with anyio.fail_after(_PATIENCE_S):
            async with anyio.create_task_group() as group:
                group.start_soon(request.wait, nothing)
                for change in (None, request.wake, request.wake, partial(request.request, End(Manner.IMMEDIATE))):
                    if change is not None:
                        change()
                    await anyio.wait_all_tasks_blocked()
                    seen.append(len(looks))
        return seen

    assert [1, 2, 3, 3] == anyio.run(main, backend=backend)


def test_the_end_of_the_parent_is_the_end_of_its_pipe_and_not_a_byte() -> None:
    async def main() -> list[str]:
        reading, writing = os.pipe()
        os.set_inheritable(reading, True)
        seen: list[str] = []

        async def wait() -> None:
            await until_parent_ends(reading)
            seen.append("ended")

        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            os.write(writing, b"xx")
            for _ in range(20):
                await anyio.lowlevel.checkpoint()
            seen.append("alive")
            os.close(writing)
        assert not os.get_inheritable(reading)
        os.close(reading)
        return seen

    assert ["alive", "ended"] == anyio.run(main)


def test_a_pipe_for_children_is_closed_at_its_end() -> None:
    with parent_pipe() as descriptor:
        os.fstat(descriptor)

    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_the_delay_before_a_restart_doubles_up_to_half_a_minute_and_begins_again_after_a_stable_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(type(SYSTEM_CLOCK), "monotonic", lambda _: now[0])

    async def main() -> None:
        stopping = anyio.Event()
        stopping.set()  # so that no delay takes time
        delay = RestartDelay()
        for ran_s in (0.0, 1.0, 59.9, 1.0, 1.0, 1.0, 1.0, 60.0, 0.0):
            delay.started()
            now[0] += ran_s
            await delay.wait("It starts again", stopping)

    asyncio.run(main())

    delays = [line.removeprefix("It starts again in ").removesuffix(" s.") for line in capsys.readouterr().err.splitlines()]
    assert ["1", "2", "4", "8", "16", "30", "30", "1", "2"] == delays


def test_a_restart_waits_for_its_delay_or_until_the_command_must_end(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[str] = []

    async def main() -> None:
        stopping = anyio.Event()

        async def wait() -> None:
            await RestartDelay().wait("It starts again", stopping)
            happened.append("starts")

        with anyio.fail_after(_PATIENCE_S):
            async with anyio.create_task_group() as group:
                group.start_soon(wait)
                await anyio.wait_all_tasks_blocked()
                happened.append("must end")
                stopping.set()
            monkeypatch.setattr(child_process, "_FIRST_DELAY_S", 0.01)
            await RestartDelay().wait("It starts again", anyio.Event())

    monkeypatch.setattr(child_process, "_FIRST_DELAY_S", 60.0)
    anyio.run(main, backend=backend)

    assert ["must end", "starts"] == happened


def test_each_signal_sets_the_event_and_the_handlers_come_back() -> None:
    numbers = (signal.SIGUSR1, signal.SIGUSR2)
    before = [signal.getsignal(number) for number in numbers]

    seen = []
    for number in numbers:
        with stop_event(*numbers) as stopping:
            assert not stopping.is_set()
            with stopping._cond:  # type: ignore[attr-defined]
                signal.raise_signal(number)
            seen.append(stopping.wait(60))

    assert [True, True] == seen
    assert before == [signal.getsignal(number) for number in numbers]


# -- small parts


def test_the_name_of_a_served_queue_manager_is_that_of_its_connection(short: Path) -> None:
    with EmbeddedQueueManager("QM7") as queue_manager, closing(serve(queue_manager, short / SOCKET)) as server:
        assert ("QM7", True) == (queue_manager_name_at(short), is_served(short))
        while server.connection_count:
            os.sched_yield()
    assert not is_served(short)
    assert not is_served(short / "nowhere")


@pytest.mark.parametrize(
    ("reason", "served"),
    [(Reason.Q_MGR_NOT_AVAILABLE, False), (Reason.CONNECTION_BROKEN, False), (Reason.NOT_AUTHORIZED, True)],
)
def test_a_queue_manager_that_refuses_with_a_reason_is_served(
    monkeypatch: pytest.MonkeyPatch, reason: Reason, *, served: bool
) -> None:
    def refuse(_: Path) -> str:
        raise error_for(reason, "MQCONN", "", "QM1")

    monkeypatch.setattr(served_connections, "queue_manager_name_at", refuse)

    assert served is is_served(Path("qm"))


@pytest.mark.parametrize(
    ("limits", "options"),
    [
        (Limits(), []),
        (Limits(messages=1), ["--recycle-after", "1"]),
        (Limits(memory_mib=2), ["--recycle-above", "2"]),
        (Limits(messages=1, memory_mib=2), ["--recycle-after", "1", "--recycle-above", "2"]),
    ],
)
def test_limits_are_options_of_a_worker(limits: Limits, options: list[str]) -> None:
    assert (options, bool(options)) == (limits.options(), bool(limits))


def test_a_rehearsal_leaves_no_folder_behind(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(short))
    frozen: list[bool] = []
    monkeypatch.setattr("gc.freeze", lambda: frozen.append(True))

    rehearse("QM1")
    monkeypatch.setattr("tempfile.tempdir", str(short / "nowhere"))
    rehearse("QM1")

    assert ([], [True, True]) == (list(short.iterdir()), frozen)


@pytest.mark.parametrize(
    ("code", "expected"), [(0, 0), (1, 1), (75, 75), (-signal.SIGTERM, 0), (-signal.SIGKILL, 1), (-signal.SIGHUP, 1)]
)
def test_a_process_that_had_to_stop_and_was_killed_before_its_first_message_ended_well(code: int, expected: int) -> None:
    assert expected == _exit_code_after_stop(code)


def test_a_folder_that_no_process_owns_can_be_served(short: Path) -> None:
    assert [None, None, None] == [
        _owner(locate(url)) for url in ("embedded:./qm?qmgr=QM1", "embedded::memory:", "embedded+unix:qm/served.sock?qmgr=QM1")
    ]


def test_the_delay_processors_of_a_queue_manager_are_its_own_and_that_of_the_setting() -> None:
    with EmbeddedQueueManager("QM1") as queue_manager:
        counts = [
            len(DelayProcessors(queue_manager, disposition_queue="", delay_queue=queue)._processors)
            for queue in ("", queue_manager.staging_queue, "LATER")
        ]

    assert [1, 1, 2] == counts


_LIMITED = """
import resource
from mqflow.cli.processes.served_connections import raise_open_file_limit
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
raise_open_file_limit()
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


def test_the_limit_of_open_files_is_raised_to_the_hard_limit() -> None:
    printed = subprocess.run([sys.executable, "-c", _LIMITED], capture_output=True, text=True, check=True).stdout

    assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] == int(printed)


@pytest.mark.parametrize(
    ("allowed", "wanted", "room"),
    [(1_024, 2_048, "320"), (63, 1, "0"), (66, 1, "0"), (1_023, 320, "319"), (69, 2, "1"), (6_207, 2_048, "2,047")],
)
def test_a_low_limit_of_open_files_is_a_warning_with_the_possible_connections(allowed: int, wanted: int, room: str) -> None:
    assert (
        f"The system allows {allowed:,} open files. That is enough for {room} connections, not for {wanted:,}: "
        "raise the hard limit (ulimit -Hn, LimitNOFILE), or lower --max-connections."
    ) == too_few_open_files(allowed, wanted)


@pytest.mark.parametrize(("allowed", "wanted"), [(67, 1), (6_208, 2_048), (None, 1_000_000)])
def test_a_sufficient_limit_gives_no_warning(allowed: int | None, wanted: int) -> None:
    assert not too_few_open_files(allowed, wanted)
