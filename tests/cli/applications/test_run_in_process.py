"""`mqflow run` in this process: options that exclude each other, its output, and the options of its worker processes."""

import json
import logging
import math
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mqflow import App
from mqflow.app.config.settings import Settings
from mqflow.app.run import signals
from mqflow.cli.applications import run_application as module
from mqflow.cli.applications.run_state import ReconnectLine
from mqflow.cli.processes import workers
from mqflow.cli.processes.recycling import Recycling
from mqflow.cli.processes.workers import WorkersOptions
from mqflow.cli.text.log_lines import NameTheMessage, log_handler
from mqflow.embedded.storage.folder import DataFolder
from mqflow.events import ListenerPaused, ListenerResumed, ListenerStarted
from tests.cli.conftest import Run

_numbers = count()
_PATIENCE_S = 14.0

IDLE = """
from mqflow import App
app = App()
"""
#: It puts messages to itself and notes what it finds while it handles them.
BUSY = """
from pathlib import Path
from mqflow import App
from mqflow.mqi.attributes.queue import QueueAttributes

app = App(name="orders"MORE)
seen = []

@app.on_start
async def begin() -> None:
    for name in ("IN", "OTHER"):
        app.queue_manager.administration.define(QueueAttributes(name=name))
    for number in range(3):
        await app.put("IN", f"order {number}")

@app.listener("IN", name="booking")
async def book(order: str) -> None:
    seen.append((order, Path("ready").exists(), Path("data/served.sock").is_socket()))

@app.listener("OTHER")
async def other(order: str) -> None: ...
"""

#: It handles three messages of its second queue manager, and notes whether both queue managers can be reached.
SEVERAL = """
from pathlib import Path
from mqflow import App
from mqflow.mqi.attributes.queue import QueueAttributes

app, archive = App("embedded:./orders?qmgr=QM1", name="orders"), App("embedded:./archive?qmgr=QM2", name="archive")
app.include_app(archive)
seen = []

async def book(order: str) -> None:
    seen.append([Path(folder, "served.sock").is_socket() for folder in ("orders", "archive")])

@app.on_start
async def begin() -> None:
    for each in (app, archive):
        each.queue_manager.administration.define(QueueAttributes(name="IN"))
    for number in range(3):
        await archive.put("IN", f"order {number}")

for each in (app, archive):
    each.listener("IN")(book)
"""


RECYCLED = "This process drains and ends, because it has handled 3 messages."


@pytest.fixture(autouse=True)
def level() -> Iterator[None]:
    """Give the root logger its level and handlers back."""
    root = logging.getLogger()
    before = root.level, root.handlers[:]
    yield
    root.level, root.handlers[:] = before


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    """End an application that does not end by itself, so that its test fails instead of waiting for ever."""
    timer = threading.Timer(_PATIENCE_S, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    yield
    timer.cancel()


def written(text: str) -> str:
    """Write the application to a module that no other test has imported, and return its name."""
    name = f"run_in_process_{next(_numbers)}"
    Path(f"{name}.py").write_text(text)
    return name


def busy(more: str = "") -> str:
    return written(BUSY.replace("MORE", more))


# -- options


@pytest.mark.parametrize(
    ("options", "said"),
    [(("--allow-changes",), "--allow-changes is for the console: add --console, or leave it out."),
     (("--reload", "--workers", "2"), "--reload works with one process: leave out --workers."),
     (("--reload", "--ready-file", "x"), "--ready-file does not work with --reload: leave one of them out."),
     (("--reload", "--recycle-after", "1"), "--reload ends with its process: leave out --recycle-after and --recycle-above."),
     (("--reload", "--recycle-above", "1"), "--reload ends with its process: leave out --recycle-after and --recycle-above."),
     (("--reload", "--console"), "--console does not work with --reload: use `mqflow console` beside it."),
     (("--console",), "--console needs an address: add --http 8080, for example."),
     (("--ready-file", "nowhere/ready"), "--ready-file nowhere/ready: No such file or directory.")],
)  # fmt: skip
def test_options_that_cannot_be_used_together_are_wrong_usage(
    run: Run, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], said: str
) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)  # the refusal comes before the search for the package

    refused = run("run", f"{busy()}:app", *options, "--url", "embedded::memory:")

    assert (2, f"mqflow: {said}\n") == (refused.exit_code, refused.stderr)


def test_trio_must_be_installed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda _: None)

    refused = run("run", f"{busy()}:app", "--backend", "trio")

    assert (2, "mqflow: --backend trio needs trio: pip install 'mqflow[trio]'.\n") == (refused.exit_code, refused.stderr)


def test_an_application_with_nothing_to_run_is_wrong_usage(run: Run) -> None:
    name = written(IDLE)

    refused = run("run", f"{name}:app", "--url", "embedded::memory:")

    said = f"mqflow: {name}:app has no listener, so there is nothing to run. Declare one with @app.listener(QUEUE).\n"
    assert (2, said) == (refused.exit_code, refused.stderr)


@pytest.mark.parametrize(
    "declared",
    [
        "app.schedule(60, 'IN', name='x')",
        "app.dead_letter_handler('rules.tbl')",
        "@app.listener('IN')\nasync def take(body: bytes) -> None: ...",
    ],
)
def test_an_application_with_any_declaration_can_run(run: Run, monkeypatch: pytest.MonkeyPatch, declared: str) -> None:
    Path("rules.tbl").write_text("ACTION(RETRY)")
    monkeypatch.setattr(module, "_run_here", lambda *_: 7)

    assert 7 == run("run", f"{written(IDLE + declared)}:app", "--url", "embedded::memory:").exit_code


# -- a run


def test_a_run_says_where_it_listens_and_why_it_ends(run: Run, tmp_path: Path, backend: str) -> None:
    name = busy()

    options = ("--only", "booking", "--backend", backend, "--recycle-after", "3", "--ready-file", "ready")
    done = run("run", f"{name}:app", *options, "--url", "embedded::memory:")

    said = ["Listening on IN of embedded::memory:; Ctrl-C drains and stops.", RECYCLED]
    assert (0, "", said) == (done.exit_code, done.stdout, sorted(done.stderr.splitlines()))
    assert ["order 0", "order 1", "order 2"] == [order for order, *_ in sys.modules[name].seen]
    assert not (tmp_path / "ready").exists()


def test_the_line_about_a_listener_hides_a_secret_in_the_url(capsys: pytest.CaptureFixture[str]) -> None:
    announce = module._Announcement("ibmmq:///QM1?ccdt=https://app:hunter2@mq.example/t.json")

    announce(ListenerStarted(queue="IN", listener="book", concurrency=1))

    said = capsys.readouterr().err
    assert (True, False) == (said.startswith("Listening on IN of ibmmq://"), "hunter2" in said)


def test_the_line_about_a_listener_says_whether_it_is_paused(capsys: pytest.CaptureFixture[str]) -> None:
    announce, started = module._Announcement("embedded::memory:"), ListenerStarted(queue="IN", listener="h", concurrency=2)
    paused = ListenerPaused(queue="IN", listener="h", why="2042", delay_s=1.0, reason=2042)

    for event in (paused, started, ListenerResumed(queue="IN", listener="h"), started):
        announce(event)

    of = "IN of embedded::memory:; Ctrl-C drains and stops."
    assert [f"Not yet listening on {of}", f"Listening on {of}"] == capsys.readouterr().err.splitlines()


def test_a_worker_process_names_itself_and_not_the_url_that_its_parent_has_printed(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQFLOW_WORKER", "2")

    done = run("run", f"{busy()}:app", "--only", "booking", "--recycle-after", "3", "--url", "embedded::memory:")

    assert ["Listening on IN in worker 2.", RECYCLED] == sorted(done.stderr.splitlines())


def test_other_commands_reach_the_queue_manager_while_the_application_runs(run: Run, queues: None, tmp_path: Path) -> None:
    name = busy()

    done = run("run", f"{name}:app", "--recycle-after", "3", "--only", "booking")

    assert 0 == done.exit_code, done.output
    assert [True] * 3 == [served for *_, served in sys.modules[name].seen]
    assert ["Listening on IN of embedded:./data?qmgr=QM1; Ctrl-C drains and stops."] == [
        line for line in done.stderr.splitlines() if line.startswith("Listening")
    ]
    assert not (tmp_path / "data" / "served.sock").exists()


def test_in_a_log_of_json_the_notes_are_records_too(run: Run) -> None:
    name = busy()
    logging.getLogger().handlers[:] = []  # those of pytest: the command leaves the log of an application as it is

    done = run(
        "run", f"{name}:app", "--only", "IN", "--recycle-after", "3", "--log-format", "json", "--url", "embedded::memory:"
    )

    records = [json.loads(line) for line in done.stderr.splitlines()]
    notes = sorted(record["text"] for record in records if record["logger"] == "mqflow.run")
    assert (0, ["Listening on IN of embedded::memory:; Ctrl-C drains and stops.", RECYCLED]) == (done.exit_code, notes)
    assert 1 == len(sys.modules[name].app.middleware)


def test_a_log_for_people_adds_no_middleware_and_a_warning_of_the_settings_is_a_note(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQFLOW_DRIAN_S", "3")
    name = busy()

    done = run("run", f"{name}:app", "--recycle-after", "1", "--url", "embedded::memory:")

    said = "mqflow: MQFLOW_DRIAN_S is not a setting, so it is ignored. Did you mean MQFLOW_DRAIN_S?"
    assert (said, 0) == (done.stderr.splitlines()[0], len(sys.modules[name].app.middleware))


@pytest.mark.parametrize(("left", "code", "ended"), [(1, 75, True), (0, 75, False), (1, 0, False)])
def test_a_handler_that_still_runs_after_a_cut_off_does_not_delay_the_end(
    run: Run, monkeypatch: pytest.MonkeyPatch, left: int, code: int, *, ended: bool
) -> None:
    ends: list[int] = []
    monkeypatch.setattr(module, "threads_left", lambda: left)
    monkeypatch.setattr(module, "end_process", ends.append)
    monkeypatch.setattr(module, "_run_here", lambda *_: code)

    assert code == run("run", f"{busy()}:app", "--url", "embedded::memory:").exit_code
    assert ([code] if ended else []) == ends
    assert 75 == signals.EXIT_CUT_OFF


# -- what other processes get


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[WorkersOptions, Settings, object, object]]:
    """Record the worker processes that would start."""
    given: list[tuple[WorkersOptions, Settings, object, object]] = []

    def note(*arguments: Any) -> int:
        given.append(arguments)
        return 4

    monkeypatch.setattr(workers, "run_workers", note)
    return given


def test_worker_processes_get_the_options_of_the_command(
    run: Run, started: list[tuple[WorkersOptions, Settings, object, object]], tmp_path: Path
) -> None:
    name = f"{busy()}:app"

    done = run(
        "run", name, "--workers", "3", "--url", "embedded::memory:", "--backend", "trio", "--http", "0", "--drain", "7",
        "--only", "booking", "--log-format", "json", "--recycle-after", "5", "--recycle-above", "90", "--ready-file", "ready",
        "--wait", "11",
    )  # fmt: skip

    [(options, settings, ready, console)] = started
    assert 4 == done.exit_code
    assert options == WorkersOptions(
        application=name, name="orders", count=3, url="embedded::memory:", backend="trio", http="0",
        more=["--only", "booking", "--log-format", "json", "--recycle-after", "5", "--recycle-above", "90"],
        recycles=True,
    )  # fmt: skip
    assert (7.0, 11.0, True, None) == (settings.drain_s, settings.reconnect.start_limit_s, callable(ready), console)


def test_worker_processes_of_a_plain_command_have_the_settings(
    run: Run, started: list[tuple[WorkersOptions, Settings, object, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQFLOW_HTTP_ADDRESS", "127.0.0.1:9")
    monkeypatch.setenv("MQFLOW_APPLICATION_NAME", "shop")
    nameless = written(BUSY.replace('name="orders"MORE', ""))

    for name in (busy(), nameless):
        run("run", f"{name}:app", "--workers", "2")

    [(options, settings, ready, _), (other, *_)] = started
    assert ("shop", "shop", 2, False, None) == (options.name, other.name, options.count, options.recycles, ready)
    assert ("127.0.0.1:9", math.inf) == (options.http, settings.reconnect.start_limit_s)
    assert ["--log-format", "console"] == list(options.more)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Record the process that would be restarted when a file changes."""
    given: list[dict[str, Any]] = []
    fake = ModuleType("watchfiles")
    # setattr: the names of another module.
    for name, value in {
        "PythonFilter": lambda: "Python",
        "run_process": lambda *paths, **more: given.append({"paths": paths, **more}),
    }.items():
        setattr(fake, name, value)
    monkeypatch.setitem(sys.modules, "watchfiles", fake)
    return given


def test_a_process_that_reloads_gets_the_options_of_the_command(
    run: Run, watched: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = (
        "--backend", "trio", "--drain", "7.5", "--wait", "3", "--url", "embedded::memory:", "--only", "a b", "--http", "0",
    )  # fmt: skip

    plain, full = run("run", "shop:app", "--reload"), run("run", "shop:app", "--reload", "--log-format", "json", *options)

    monkeypatch.setenv("MQFLOW_DRAIN_S", "40")
    patient = run("run", "shop:app", "--reload")

    assert [0] * 3 == [each.exit_code for each in (plain, full, patient)]
    command = f"{sys.executable} -m mqflow.cli run shop:app --backend"
    more = "--url embedded::memory: --only 'a b' --log-format json --http 0 --wait 3"
    same = {"paths": (".",), "target_type": "command", "watch_filter": "Python"}
    assert [
        same | {"target": f"{command} asyncio --drain 25", "sigint_timeout": 30},
        same | {"target": f"{command} trio --drain 7.5 {more}", "sigint_timeout": 13},
        same | {"target": f"{command} asyncio --drain 40", "sigint_timeout": 45},
    ] == watched


def test_reload_needs_its_package(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)

    refused = run("run", "shop:app", "--reload")

    assert (2, "mqflow: --reload needs watchfiles: pip install 'mqflow[reload]'.\n") == (refused.exit_code, refused.stderr)


# -- what runs beside the application


def test_an_application_ends_with_the_process_that_started_it(run: Run) -> None:
    reading, writing = os.pipe()
    os.close(writing)

    done = run("run", f"{busy()}:app", "--lifeline", str(reading), "--url", "embedded::memory:")
    os.close(reading)

    assert (0, False) == (done.exit_code, RECYCLED in done.stderr)


def test_an_application_on_several_queue_managers_announces_serves_and_counts_each(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MQFLOW_URL")
    name = written(SEVERAL)

    done = run("run", f"{name}:app", "--recycle-after", "3")

    assert (0, [[True, True]] * 3) == (done.exit_code, sys.modules[name].seen)
    assert {
        "Listening on IN of embedded:./orders?qmgr=QM1; Ctrl-C drains and stops.",
        "Listening on IN of embedded:./archive?qmgr=QM2; Ctrl-C drains and stops.",
        RECYCLED,
    } <= {*done.stderr.splitlines()}


def test_an_application_whose_socket_cannot_be_served_runs_and_says_so(run: Run, queues: None, tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 90)  # no room for a socket

    done = run("run", f"{busy()}:app", "--recycle-after", "3", "--url", f"embedded:{folder}?qmgr=QM1")

    said = "mqflow: other commands cannot reach this queue manager while the application runs. "
    assert (0, 1) == (done.exit_code, sum(line.startswith(said) for line in done.stderr.splitlines()))


@pytest.mark.parametrize("wanted", ["true", "false"])
def test_telemetry_is_added_only_if_the_settings_ask_for_it_and_exported_at_the_end(
    run: Run, monkeypatch: pytest.MonkeyPatch, wanted: str
) -> None:
    happened: list[object] = []

    def add(app: App, environment: object) -> Callable[[], None]:
        happened.append((app.name, environment is os.environ))
        return lambda: happened.append("exported")

    monkeypatch.setattr("mqflow.otel.configuration.add_telemetry", add)
    monkeypatch.setenv("MQFLOW_TELEMETRY", wanted)

    run("run", f"{busy()}:app", "--recycle-after", "3", "--url", "embedded::memory:")

    assert ([("orders", True), "exported"] if wanted == "true" else []) == happened


@pytest.mark.parametrize("is_terminal", [True, False])
def test_only_a_terminal_has_a_line_for_an_outage(run: Run, monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool) -> None:
    monkeypatch.setattr(module, "in_foreground", lambda _: is_terminal)
    logging.getLogger().handlers[:] = []  # those of pytest
    name = busy()

    done = run("run", f"{name}:app", "--recycle-after", "3", "--url", "embedded::memory:")

    assert (0, True) == (
        done.exit_code,
        "IN has no backout threshold" in done.stderr,
    )  # the log goes to the terminal nevertheless

    assert "Traceback" not in done.stderr
    hooks = [type(hook).__name__ for hook in sys.modules[name].app.hooks]
    assert ["_Announcement", *(["ReconnectLine"] if is_terminal else []), "Recycling"] == hooks


def test_a_run_may_open_many_files_and_closes_all_that_runs_beside_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    acts: list[str] = []
    for owner, name in ((module, "raise_open_file_limit"), (Recycling, "close"), (ReconnectLine, "clear")):
        before = getattr(owner, name)  # a function of a module, or a method

        def noted(*each: Any, name: str = name, before: Callable[..., None] = before) -> None:
            acts.append(name)
            before(*each)

        monkeypatch.setattr(owner, name, noted)
    monkeypatch.setattr(module, "in_foreground", lambda _: True)

    assert 0 == run("run", f"{busy()}:app", "--recycle-after", "3", "--url", "embedded::memory:").exit_code
    assert ["raise_open_file_limit", "close", "clear"] == acts


def test_a_log_of_json_names_the_message_before_all_middleware_of_the_application(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[object, ...]] = []

    def handled(*each: Any, columns: Callable[[], int] | None, worker: str) -> logging.Handler:
        asked.append((each[0], columns, worker))
        return log_handler(*each, columns=columns)

    monkeypatch.setattr(module, "log_handler", handled)
    monkeypatch.setattr(module, "_run_here", lambda *_: 0)
    name = written(f"{IDLE}app.schedule(60, 'IN', name='x')\napp.middleware += ['first', 'second']\n")

    assert 0 == run("run", f"{name}:app", "--log-format", "json", "--url", "embedded::memory:").exit_code

    named, *others = sys.modules[name].app.middleware
    assert (NameTheMessage, ["first", "second"]) == (type(named), others)
    assert [("json", None, "")] == asked


@pytest.mark.parametrize("is_terminal", [True, False])
def test_only_a_terminal_shows_the_load_of_a_queue_manager_that_exists(
    run: Run, queues: None, monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool
) -> None:
    shown: list[tuple[str, Path]] = []

    def line(name: str, folder: DataFolder) -> AbstractContextManager[None]:
        shown.append((name, folder.path.resolve()))
        return nullcontext()

    monkeypatch.setattr(module, "in_foreground", lambda _: is_terminal)
    monkeypatch.setattr(module, "loading_line", line)

    for url in ("embedded:./data?qmgr=QM1", "embedded:./new?qmgr=QM2"):
        assert 0 == run("run", f"{busy()}:app", "--recycle-after", "3", "--url", url).exit_code

    assert ([("QM1", Path("data").resolve())] if is_terminal else []) == shown


def test_only_the_parent_of_worker_processes_serves_pages(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    short = tmp_path_factory.mktemp("c")
    monkeypatch.setenv("MQFLOW_CONTROL_FOLDER", str(short))
    monkeypatch.setenv("MQFLOW_HTTP_ADDRESS", "0")
    options = ("--recycle-after", "3", "--url", "embedded::memory:")

    alone, without, worker = (
        run("run", f"{busy()}:app", *options, *more)
        for more in ((), ("--http", ""), ("--watched-at", str(short / "worker-1.sock"), "--counts"))
    )

    assert [True, False, False] == ["http://127.0.0.1:" in done.stderr for done in (alone, without, worker)]
    assert [0, 0, 0] == [done.exit_code for done in (alone, without, worker)]
