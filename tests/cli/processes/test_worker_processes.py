"""The parent of worker processes: the options of each worker, the next start of a worker that ends, and the exit code.

A small script of the shell stands for Python, so a worker starts in a few milliseconds. It notes its arguments.
"""

import errno
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import anyio
import pytest
from msgspec.structs import replace

from mqflow.app.channels.location import locate
from mqflow.app.config.settings import ReconnectSettings, Settings
from mqflow.app.errors import ConfigurationError
from mqflow.cli.processes import child_process, workers
from mqflow.cli.processes.workers import WorkersOptions, _owner, run_workers
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.folder import FolderInUseError
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.wire.server.listener import serve
from mqflow.events import Event, ReadinessChanged

OPTIONS = WorkersOptions(
    application="shop:app", name="shop", count=1, url="embedded::memory:", backend="trio", http="", more=["--only", "x"]
)
NOTE = """#!/bin/sh
echo "$@" >> arguments
echo "$MQFLOW_WORKER,$MQFLOW_DRAIN_S,$MQFLOW_DISPOSITION_QUEUE,$MQFLOW_DELAY_QUEUE,$MQFLOW_LEDGER_FILE" >> environment
for last; do :; done
"""
_PATIENCE_S = 14.0
#: Such a process dies of the signal, but only when its parent has received all signals.
DIES_OF_TERM = "trap 'sleep 0.1; trap - TERM; kill -TERM $$' TERM; touch $last; while :; do sleep 0.01; done"
UNTIL_TERM = "trap 'exit 0' TERM; touch $last; while :; do sleep 0.01; done"


@pytest.fixture(autouse=True)
def short(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a folder with a short path, and make it the current one; and make all delays short."""
    path = tmp_path_factory.mktemp("w")
    monkeypatch.chdir(path)
    monkeypatch.setenv("MQFLOW_CONTROL_FOLDER", str(path / "control"))
    monkeypatch.setattr(child_process, "_FIRST_DELAY_S", 0.01)
    monkeypatch.setattr(child_process, "_LONGEST_DELAY_S", 0.01)
    monkeypatch.setattr(workers, "_READY_S", 0.005)
    monkeypatch.delenv("MQFLOW_LEDGER_FILE", raising=False)
    monkeypatch.delenv("MQFLOW_NOTES_FILE", raising=False)
    return path


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    """End a command that does not end by itself, so that its test fails instead of waiting for ever."""
    timer = threading.Timer(_PATIENCE_S, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    yield
    timer.cancel()


@pytest.fixture
def python(short: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that makes the script that stands for Python; its argument are the last lines."""

    def make(lines: str) -> None:
        script = short / "python"
        script.write_text(NOTE + lines)
        script.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(script))

    return make


def arguments() -> list[list[str]]:
    return [line.split() for line in Path("arguments").read_text().splitlines()]


def numbers() -> list[int]:
    """Return the number of each started worker, in the order of the starts."""
    return [int(line.split(",")[0]) for line in Path("environment").read_text().splitlines()]


def options_of(line: list[str]) -> dict[str, str]:
    """Return the options of a started worker with their values."""
    assert ["-m", "mqflow.cli", "run", "shop:app"] == line[:4]
    return dict(zip(line[4::2], line[5::2], strict=True))


def test_a_worker_gets_the_options_and_the_settings_of_its_parent(
    python: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    python("exit 2")
    reconnect = replace(Settings().reconnect, start_limit_s=2.5)
    settings = Settings(drain_s=7.5, disposition_queue="DISPOSED", delay_queue="LATER", reconnect=reconnect)

    code = run_workers(OPTIONS, settings, None)

    [line] = arguments()
    found = options_of(line)
    assert {"--backend": "trio", "--drain": "7.5", "--only": "x", "--wait": "2.5"} == {
        name: found[name] for name in ("--backend", "--drain", "--only", "--wait")
    }
    assert found["--url"].startswith("embedded+unix:")
    assert found["--url"].endswith("/served.sock?qmgr=" + found["--url"].rpartition("=")[2])
    assert "worker-1.sock" == Path(found["--watched-at"]).name
    assert {"--backend", "--drain", "--only", "--wait", "--url", "--watched-at", "--lifeline"} == set(found)
    assert "1,7.5,DISPOSED,LATER," == Path("environment").read_text().strip()
    assert 2 == code
    said = "1 workers on embedded::memory:, in the memory of this process, without a standby; Ctrl-C drains and stops.\n"
    assert said == capsys.readouterr().err


@pytest.mark.parametrize(
    ("http", "ready", "limit_s", "more"),
    [("", False, None, set()), ("", True, float("inf"), {"--ready-file"}), ("0", False, 0.0, {"--counts", "--wait"})],
)
def test_a_worker_counts_only_for_pages_and_is_ready_only_for_a_file(
    python: Callable[[str], None], http: str, limit_s: float | None, more: set[str], *, ready: bool
) -> None:
    python("exit 2")
    settings = Settings(reconnect=ReconnectSettings(start_limit_s=limit_s))

    def hook(event: Event) -> None:
        assert isinstance(event, ReadinessChanged)

    run_workers(replace(OPTIONS, http=http), settings, hook if ready else None)

    given = {part for part in arguments()[0] if part.startswith("--")}
    assert more == given & {"--ready-file", "--counts", "--wait"}


def test_a_worker_that_cannot_start_stops_all_others(python: Callable[[str], None]) -> None:
    """They went on, although the command said that it stops, and no worker was started again."""
    first_runs = "while ! grep -q ^1 environment; do sleep 0.01; done; exit 2"
    python(f'[ "$MQFLOW_WORKER" = 2 ] && {{ {first_runs}; }}\n{UNTIL_TERM}')

    assert 2 == run_workers(replace(OPTIONS, count=2), Settings(), None)
    assert [1, 2] == sorted(numbers())


@pytest.mark.parametrize(
    ("codes", "recycles", "said"),
    [
        ((1, 1, 2), False, ["Worker 1 ended with 1; it starts again in 0.01 s."] * 2),
        ((0, 2), False, ["Worker 1 ended with 0; it starts again in 0.01 s."]),
        ((0, 0, 2), True, []),
        ((1, 0, 2), True, ["Worker 1 ended with 1; it starts again in 0.01 s."]),
    ],
)
def test_a_worker_that_ends_is_started_again_and_at_once_if_it_reached_a_limit(
    python: Callable[[str], None],
    capsys: pytest.CaptureFixture[str],
    codes: tuple[int, ...],
    said: list[str],
    *,
    recycles: bool,
) -> None:
    python(f"set -- {' '.join(map(str, codes))}; shift $(($(wc -l < environment) - 1)); exit $1")

    assert 2 == run_workers(replace(OPTIONS, recycles=recycles), Settings(), None)

    assert (len(codes), said) == (len(numbers()), capsys.readouterr().err.splitlines()[1:])


@pytest.mark.parametrize(
    ("lines", "signals", "code"),
    [
        (UNTIL_TERM, 1, 0),
        (UNTIL_TERM.replace("exit 0", "exit 75"), 1, 75),
        (UNTIL_TERM.replace("exit 0", "exit 1"), 1, 1),
        (DIES_OF_TERM, 2, 0),
        (DIES_OF_TERM, 3, 75),
    ],
)
def test_a_signal_reaches_each_worker_and_the_worst_exit_code_is_that_of_the_command(
    python: Callable[[str], None], lines: str, signals: int, code: int
) -> None:
    python(lines)
    seen: list[bool] = []

    def ready(event: Event) -> None:
        assert isinstance(event, ReadinessChanged)
        if not seen or seen[-1] != event.ready:
            seen.append(event.ready)
            if event.ready:
                for _ in range(signals):
                    os.kill(os.getpid(), signal.SIGTERM)

    assert code == run_workers(replace(OPTIONS, count=2), Settings(), ready)

    assert [1, 2] == sorted(numbers())
    assert [True, False] == seen[-2:]


def test_a_ready_file_that_cannot_be_changed_ends_no_worker(
    python: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """For example, its disk is full, or its folder is gone."""
    python(UNTIL_TERM)
    tries: list[bool] = []

    def ready(event: Event) -> None:
        assert isinstance(event, ReadinessChanged)
        tries.append(event.ready)
        if tries.count(True) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        raise OSError(errno.ENOSPC, "No space left on device", "ready")

    assert 0 == run_workers(OPTIONS, Settings(), ready)

    said = "mqflow: the ready file is not kept, because it cannot be changed. ready: No space left on device.\n"
    assert (False, 1) == (tries[-1], capsys.readouterr().err.count(said))


@pytest.mark.parametrize(
    ("numbers", "ended_with", "stops", "code"),
    [
        ([signal.SIGTERM, signal.SIGTERM], -signal.SIGTERM, 2, 0),
        ([signal.SIGTERM, signal.SIGINT, signal.SIGTERM], -signal.SIGTERM, 3, 75),
        ([signal.SIGHUP, signal.SIGHUP, signal.SIGTERM], -signal.SIGTERM, 2, 0),
        ([], 2, 1, 2),
    ],
    ids=["drained", "cut off by the third signal", "a terminal hangs up twice", "wrong usage stops the others"],
)
def test_each_signal_stops_the_workers_once_and_a_worker_that_cannot_start_stops_the_others(
    short: Path, monkeypatch: pytest.MonkeyPatch, numbers: list[signal.Signals], ended_with: int, stops: int, code: int
) -> None:
    told: list[Event] = []

    def ready(event: Event) -> None:
        told.append(event)

    kept = workers._Workers([], {}, 0, Settings(), short, ready, recycles=False)
    assert "" == kept.url

    async def run_once(_: int) -> int:
        async def all_numbers() -> AsyncIterator[signal.Signals]:
            for number in numbers:
                yield number

        await kept._pass_on(all_numbers())
        return ended_with

    async def main() -> None:
        kept._stopping = anyio.Event()
        with anyio.fail_after(_PATIENCE_S):
            await kept._keep(1)

    monkeypatch.setattr(kept, "_run_once", run_once)
    anyio.run(main)

    assert [ReadinessChanged(ready=False)] * stops == told
    assert (True, code) == (kept.is_stopping(), kept._worst)


@pytest.mark.parametrize(
    ("code", "exit_code"), [(0, 0), (75, 75), (-signal.SIGTERM, 0), (-signal.SIGHUP, 1), (-signal.SIGKILL, 1)]
)
def test_a_process_that_died_of_another_signal_than_the_one_that_stops_it_has_failed(code: int, exit_code: int) -> None:
    assert exit_code == workers._exit_code_after_stop(code)


class Pair:
    """The two processes of a queue manager. Process 7 is the active one; an operator or a signal can end it."""

    failed = None
    active = 7
    signal_comes_first = False
    ends: ClassVar[list[Callable[[], None]]] = []

    def __init__(self, name: str, folder: Path, _pipe: int, _environment: object, end: Callable[[], None]) -> None:
        assert ("QM1", Path("qm")) == (name, folder)
        self.ends[:] = [end]

    @asynccontextmanager
    async def serve(self, stopping: anyio.Event) -> AsyncIterator[None]:
        if self.signal_comes_first:
            stopping.set()
        yield


def test_if_an_operator_ends_the_queue_manager_the_workers_end_and_the_command_says_so(
    python: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    python(UNTIL_TERM)
    monkeypatch.setattr(workers, "ActiveAndStandby", Pair)

    def ready(event: Event) -> None:
        assert isinstance(event, ReadinessChanged)
        if event.ready:
            for _ in range(2):
                Pair.ends[0]()

    assert 0 == run_workers(replace(OPTIONS, url="embedded:./qm?qmgr=QM1"), Settings(), ready)

    assert [
        "1 workers on embedded:./qm?qmgr=QM1, served by process 7 with a standby; Ctrl-C drains and stops.",
        "The queue manager was ended by mqflow qmgr stop, so the workers drain and end too.",
    ] == capsys.readouterr().err.splitlines()
    assert f"embedded+unix:{Path('qm', 'served.sock')}?qmgr=QM1" == options_of(arguments()[0])["--url"]


def test_no_worker_starts_after_a_signal(
    python: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    python("exit 2")
    monkeypatch.setattr(workers, "ActiveAndStandby", Pair)
    monkeypatch.setattr(Pair, "signal_comes_first", True)

    assert 0 == run_workers(replace(OPTIONS, url="embedded:./qm?qmgr=QM1"), Settings(), None)

    assert ("", False) == (capsys.readouterr().err, Path("arguments").exists())


def test_a_folder_that_cannot_be_served_ends_the_command_with_the_code_of_its_process(
    python: Callable[[str], None], short: Path
) -> None:
    python("exit 5")

    assert 5 == run_workers(replace(OPTIONS, url="embedded:./qm?qmgr=QM1"), Settings(), None)

    [line] = arguments()
    lifeline = line.pop()
    assert lifeline.isdecimal()
    assert ["-m", "mqflow.cli", "qmgr", "serve", "QM1", "--data", str(short / "qm"), "--standby", "--lifeline"] == line


def test_a_served_queue_manager_needs_no_other_process(
    python: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    python("exit 2")

    assert 2 == run_workers(replace(OPTIONS, url="embedded+unix:qm/served.sock?qmgr=QM1"), Settings(), None)

    [line] = arguments()
    assert "embedded+unix:qm/served.sock?qmgr=QM1" == options_of(line)["--url"]
    assert "1 workers on embedded+unix:qm/served.sock?qmgr=QM1; Ctrl-C drains and stops.\n" == capsys.readouterr().err


def test_the_line_about_the_workers_hides_a_secret_in_the_url(
    python: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    python("exit 2")

    url = "ibmmq:///QM1?ccdt=https://app:hunter2@mq.example/t.json"
    assert 2 == run_workers(replace(OPTIONS, url=url), Settings(), None)

    said = capsys.readouterr().err
    assert (True, False) == (said.startswith("1 workers on ibmmq://"), "hunter2" in said)


@pytest.mark.parametrize("other", ["embedded:./archive?qmgr=QM2", "embedded::memory:"])
def test_another_queue_manager_of_the_application_must_be_served(python: Callable[[str], None], other: str) -> None:
    python("exit 2")

    with pytest.raises(ConfigurationError) as refused:
        run_workers(replace(OPTIONS, others={"served": "embedded+unix:a.sock", "archive": other}), Settings(), None)

    assert (
        f"archive is {other}: only one process can open it, and --workers starts several. Serve it in a process of its own, "
        "with mqflow qmgr start, and set its embedded+unix: URL as url below queue_managers.archive."
    ) == str(refused.value)
    assert not Path("arguments").exists()


def test_a_folder_whose_owner_does_not_serve_it_cannot_be_shared(
    python: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    python("exit 2")
    waits: list[float] = []
    monkeypatch.setattr("mqflow.cli.processes.served_connections.Event", lambda: SimpleNamespace(wait=waits.append))

    with EmbeddedQueueManager("QM1", store=SqliteStore(Path("qm"))), pytest.raises(FolderInUseError, match=f" {os.getpid()}"):
        run_workers(replace(OPTIONS, url="embedded:./qm?qmgr=QM1"), Settings(), None)

    assert 5.0 == pytest.approx(sum(waits))
    assert not Path("arguments").exists()


def test_a_command_that_owns_the_folder_for_a_moment_does_not_keep_the_workers_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    owner = EmbeddedQueueManager("QM1", store=SqliteStore(Path("qm")))
    monkeypatch.setattr("mqflow.cli.processes.served_connections.Event", lambda: SimpleNamespace(wait=lambda _: owner.close()))

    assert _owner(locate("embedded:./qm?qmgr=QM1")) is None


def test_a_folder_that_is_served_already_is_used(
    python: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    python("exit 2")
    monkeypatch.setattr(workers, "ActiveAndStandby", Pair)

    with (
        EmbeddedQueueManager("QM1", store=SqliteStore(Path("qm"))) as queue_manager,
        closing(serve(queue_manager, Path("qm", "served.sock"))),
    ):
        assert 2 == run_workers(replace(OPTIONS, url="embedded:./qm?qmgr=QM1"), Settings(), None)

    said = f"1 workers on embedded:./qm?qmgr=QM1, which process {os.getpid()} serves already; Ctrl-C drains and stops.\n"
    assert said == capsys.readouterr().err
    assert f"embedded+unix:{Path('qm', 'served.sock')}?qmgr=QM1" == options_of(arguments()[0])["--url"]
