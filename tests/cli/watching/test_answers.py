"""Control sockets, workers, figures and pages: each answer whole, and each limit from both sides."""

import os
import socket
import ssl
import stat
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import uvicorn
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from mqflow import App, ConfigurationError
from mqflow.app.config.settings import Settings
from mqflow.cli.pipeline.progress_pages import PipelineProgress, served_progress
from mqflow.cli.watching import sockets
from mqflow.cli.watching.control import Order, OrderError, ProcessSource, QueueFigures
from mqflow.cli.watching.endpoints import watched_process, watched_workers
from mqflow.cli.watching.figures import figures, within
from mqflow.cli.watching.pages import pages
from mqflow.cli.watching.server import http_address, refusing_other_hosts, serving, serving_pages
from mqflow.cli.watching.sockets import Answer, ControlServer, Request, applications, ask, control_folder, socket_for
from mqflow.cli.watching.status_report import report
from mqflow.cli.watching.workers_source import WorkersSource, first_orders, worker_number, worker_socket
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.server.certificates import make_certificates
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.health.records import ApplicationStatus, Doing, ProcessStatus, SilentProcess, WorkerStatus
from mqflow.testing.virtual_clock import VirtualClock
from mqflow.world import SYSTEM_CLOCK, THREADS, World
from tests.cli.watching.sources import FIGURES, Named, serve, status_of
from tests.queue_contents import put

pytestmark = pytest.mark.anyio

STACK = 'File "app.py", line 7, in book\n'


# -- the folder and the sockets


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"MQFLOW_CONTROL_FOLDER": "named", "XDG_RUNTIME_DIR": ".", "TMPDIR": "."}, "named"),
        ({"XDG_RUNTIME_DIR": "session", "TMPDIR": "x"}, "session/mqflow"),
        ({"TMPDIR": "."}, f"mqflow-{os.getuid()}"),
    ],
)
def test_the_folder_belongs_to_the_user_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str
) -> None:
    monkeypatch.chdir(folder)
    Path("session").mkdir()
    for name in ("MQFLOW_CONTROL_FOLDER", "XDG_RUNTIME_DIR", "TMPDIR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert Path(expected) == control_folder() == control_folder()
    assert 0o700 == stat.S_IMODE((folder / expected).stat().st_mode)


@pytest.mark.parametrize(("mode", "allowed"), [(0o700, True), (0o755, True), (0o720, False), (0o702, False)])
def test_a_folder_in_which_others_can_write_is_refused(folder: Path, mode: int, *, allowed: bool) -> None:
    folder.chmod(mode)

    if allowed:
        assert folder == control_folder()
        return
    with pytest.raises(PermissionError) as refused:
        control_folder()
    assert f"{folder} must be a folder of user {os.getuid()} in which nobody else can write" == str(refused.value)


@pytest.mark.parametrize(("name", "file"), [("my orders/2", "my_orders_2"), ("x" * 40, "x" * 40), ("x" * 41, "x" * 40)])
def test_the_name_of_a_socket_is_that_of_the_application_without_unsafe_characters(folder: Path, name: str, file: str) -> None:
    assert folder / f"{file}.{os.getpid()}.sock" == socket_for(name)


def test_a_closed_server_leaves_no_file_and_answers_nobody(folder: Path) -> None:
    server = ControlServer(folder / "a.sock", Named(), lambda _: FIGURES)
    assert Answer(status=status_of(0)) == ask(folder / "a.sock", Request())

    server.close()

    assert [] == list(folder.iterdir())
    with pytest.raises(FileNotFoundError):
        ask(folder / "a.sock", Request())
    assert [] == [each.name for each in threading.enumerate() if each.name == "mqflow control"]


def test_a_path_that_is_too_long_is_an_error_and_leaves_no_file(folder: Path) -> None:
    with pytest.raises(OSError, match="too long"):
        ControlServer(folder / ("x" * 120), Named(), lambda _: FIGURES)

    assert [] == list(folder.iterdir())


def test_a_refused_order_has_no_status_and_the_depths_are_only_in_an_answer_that_wants_them(
    folder: Path, stack: ExitStack
) -> None:
    serve(stack, folder / "a.sock", Named(error=OrderError("no such listener")))

    answers = [
        ask(folder / "a.sock", request)
        for request in (Request(), Request(wants_queues=True), Request(Order(listener="x"), wants_queues=True))
    ]

    assert [
        Answer(status=status_of(0)),
        Answer(status=status_of(0), queues=FIGURES),
        Answer(refused="no such listener"),
    ] == answers


def test_a_request_can_come_in_pieces(folder: Path, stack: ExitStack) -> None:
    serve(stack, folder / "a.sock", Named())
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(folder / "a.sock"))
        for piece in (b'{"wants_', b'queues":tr', b"ue}\n"):
            caller.sendall(piece)
        answer = msgspec.json.decode(caller.makefile("rb").readline(), type=Answer)

    assert FIGURES == answer.queues


def test_the_caller_is_the_user_that_the_system_names_and_not_its_group() -> None:
    class Caller:
        def getsockopt(self, *_: int) -> bytes:
            process, user, group = 71, 1_001, 1_002
            return struct.pack("3i", process, user, group)

    assert 1_001 == sockets._user_of(Caller())  # type: ignore[arg-type]  # the part of a socket that is used


def test_the_applications_are_found_by_their_sockets_in_order(
    folder: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "_ALL_S", 0.5)
    for number, name in ((2, "b.2.sock"), (1, "a.1.sock")):
        serve(stack, folder / name, Named(number))
    stopped = stack.enter_context(socket.socket(socket.AF_UNIX))
    stopped.bind(str(folder / "c.3.sock"))
    stopped.listen()
    (folder / "notes.txt").touch()

    assert [
        (folder / "a.1.sock", Answer(status=status_of(1))),
        (folder / "b.2.sock", Answer(status=status_of(2))),
        (folder / "c.3.sock", None),
    ] == applications()
    assert [FIGURES, FIGURES] == [answer.queues for _, answer in applications(wants_queues=True) if answer is not None]


# -- the parent of worker processes


def workers(
    folder: Path, running: dict[int, int], clock: VirtualClock | None = None, *, is_stopping: bool = False
) -> WorkersSource:
    world = World(clock or VirtualClock())
    return WorkersSource(
        "MODULE:app", 1, "embedded:data", folder, 2, lambda: running, lambda: is_stopping, wait_s=30.0, world=world
    )


def test_the_path_of_a_worker_has_its_number(folder: Path) -> None:
    assert (folder / "worker-12.sock", 12) == (worker_socket(folder, 12), worker_number(worker_socket(folder, 12)))


def test_the_status_of_the_parent_has_all_processes_and_the_name_of_the_application(folder: Path, stack: ExitStack) -> None:
    for number in (2, 1):
        serve(stack, worker_socket(folder, number), Named(number))

    assert (
        ApplicationStatus(
            application="orders",
            process=1,
            url="embedded:data",
            expected=2,
            processes=(*status_of(1).processes, *status_of(2).processes),
            is_stopping=True,
        )
        == workers(folder, {2: 102, 1: 101}, is_stopping=True).status()
    )


def test_a_silent_process_has_the_time_since_its_last_answer(folder: Path, stack: ExitStack) -> None:
    clock, running = VirtualClock(), {1: 101, 2: 102}
    source = workers(folder, running, clock)

    def silent() -> list[SilentProcess]:
        return list(source.status().silent)

    def time_of(process: int, number: int, for_s: float) -> SilentProcess:
        return SilentProcess(process=process, number=number, for_s=for_s)

    with closing(ControlServer(worker_socket(folder, 1), Named(1), lambda _: FIGURES)):
        assert [time_of(102, 2, 0.0)] == silent()
        clock.advance(5)
        assert [time_of(102, 2, 5.0)] == silent()
    clock.advance(7)
    assert [time_of(101, 1, 7.0), time_of(102, 2, 12.0)] == silent()
    running[2] = 202  # a new process has the number
    assert [time_of(101, 1, 7.0), time_of(202, 2, 0.0)] == silent()
    assert "MODULE:app" == source.status().application


def test_the_orders_in_force_are_the_last_of_each_kind_for_each_listener(folder: Path, stack: ExitStack) -> None:
    serve(stack, worker_socket(folder, 1), Named(1))
    source = workers(folder, {1: 101})

    for order in (
        Order(listener="booking", held=True),
        Order(listener="selling", concurrency=4),
        Order(listener="booking", concurrency=2),
        Order(listener="booking", held=False),
    ):
        source.order(order)

    assert (
        Order(listener="selling", concurrency=4),
        Order(listener="booking", concurrency=2),
        Order(listener="booking", held=False),
    ) == first_orders(worker_socket(folder, 7))


# -- one process


def listening() -> App:
    app = App(name="orders")

    @app.listener("IN", name="booking")
    async def handle(body: str) -> None:
        return

    return app


def test_a_process_that_has_not_started_is_neither_ready_nor_blocked() -> None:
    clock = VirtualClock()
    clock.advance(3)
    source = ProcessSource(listening(), "embedded+tls://user:secret@host:1/QM1", number=2, world=World(clock))

    found = source.status()

    process = ProcessStatus(process=os.getpid(), number=2, taken_at=clock.monotonic(), ready=False)
    assert ("orders", os.getpid(), (process,)) == (found.application, found.process, found.processes)
    assert "secret" not in found.url
    assert "mqflow" == ProcessSource(App(), "embedded:data").status().application


# -- the figures


def test_figures_have_the_depth_and_the_age_or_the_refusal() -> None:
    clock = VirtualClock()
    with EmbeddedQueueManager("QM1", world=World(clock)) as queue_manager:
        for name in ("IN", "OUT"):
            queue_manager.administration.define(QueueAttributes(name=name))
        put(queue_manager, "IN", b"x", b"x")
        clock.advance(31)

        found = figures(queue_manager, ["IN", "MISSING", "OUT"])

    assert QueueFigures(queue="IN", depth=2, oldest_message_age_s=31, uncommitted=0) == found[0]
    assert (("MISSING", None), True) == (
        (found[1].queue, found[1].depth),
        "MQRC_UNKNOWN_OBJECT_NAME (2085)" in found[1].refused,
    )
    assert QueueFigures(queue="OUT", depth=0, uncommitted=0) == found[2]


def test_a_queue_manager_that_refuses_the_connection_refuses_each_figure() -> None:
    error = error_for(Reason.NOT_AUTHORIZED, "MQCONN", "", "QM1")

    class Closed:
        def connect(self, **_: object) -> None:
            raise error

    assert tuple(QueueFigures(queue=name, refused=str(error)) for name in ("A", "B")) == figures(Closed(), ["A", "B"])  # type: ignore[arg-type]  # the part that is used


def test_figures_within_a_limit_are_those_of_the_queue_manager_and_errors_are_refusals() -> None:
    asked: list[Sequence[str]] = []

    def inquire(queues: Sequence[str]) -> tuple[QueueFigures, ...]:
        asked.append(queues)
        if "BAD" in queues:
            raise RuntimeError("a defect")
        return FIGURES

    limited = within(30.0, inquire)

    assert [FIGURES, (QueueFigures(queue="BAD", refused="RuntimeError: a defect"),), FIGURES, ()] == [
        limited(queues) for queues in (["IN"], ["BAD"], ["IN"], [])
    ]
    assert [["IN"], ["BAD"], ["IN"]] == asked


def test_two_callers_at_the_same_time_both_get_their_figures() -> None:
    begun, may_end, found = threading.Event(), threading.Event(), list[tuple[QueueFigures, ...]]()

    def inquire(queues: Sequence[str]) -> tuple[QueueFigures, ...]:
        begun.set()
        assert may_end.wait(30.0)
        return tuple(QueueFigures(queue=queue, depth=1) for queue in queues)

    class Told(threading.Event):
        """An event that lets the first inquiry end if the second caller waits."""

        def wait(self, timeout: float | None = None) -> bool:
            if threading.current_thread() is threading.main_thread():
                may_end.set()
            return super().wait(timeout)

    class Runner:
        start, lock, event = THREADS.start, THREADS.lock, Told

    limited = within(30.0, inquire, World(runner=Runner()))  # type: ignore[arg-type]  # the part of a runner that is used
    first = THREADS.start(lambda: found.append(limited(["IN"])), "first caller")
    assert begun.wait(30.0)
    found.append(limited(["OUT"]))
    may_end.set()
    first.join(30.0)

    assert {("IN", 1), ("OUT", 1)} == {(each.queue, each.depth) for answered in found for each in answered}


# -- the pages


class Fixed(Named):
    """A source with a state that the test sets."""

    def __init__(self, status: ApplicationStatus) -> None:
        super().__init__()
        self.now = status

    def status(self) -> ApplicationStatus:
        return self.now


def with_worker(doing: Doing, for_s: float) -> ApplicationStatus:
    worker = WorkerStatus(number=0, doing=doing, since=1.0 - for_s, message_id="AB", stack=STACK)
    [process] = status_of(0).processes
    listeners = (replace(process.listeners[0], workers=(worker,)),)
    return status_of(0, processes=(replace(process, listeners=listeners),))


async def get(status: ApplicationStatus, path: str, figures: tuple[QueueFigures, ...] = FIGURES) -> httpx.Response:
    console = Starlette(routes=[Route("/", lambda _: PlainTextResponse("the console"))])
    transport = httpx.ASGITransport(app=pages(Fixed(status), lambda _: figures, console))
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        return await client.get(path)


def text_of(for_s: float) -> str:
    return f"Worker 0 of booking in process 100 has been in its handler for {for_s:.0f} s, above 60 s, with message AB."


@pytest.mark.parametrize(
    ("status", "path", "code", "text"),
    [(status_of(0), "/livez", 200, "ok\n"),
     (status_of(0), "/readyz", 200, "ok\n"),
     (status_of(0), "/", 200, "/livez\n/readyz\n/metrics\n/scale\n/status\n/console/\n"),
     (status_of(0), "/console/", 200, "the console"),
     (status_of(0), "/wombat", 404, "Not Found"),
     (with_worker(Doing.HANDLING, 61.0), "/livez", 200, "ok\n"),
     (with_worker(Doing.HANDLING, 61.0), "/readyz", 503, f"{text_of(61)}\n{STACK}\n"),
     (with_worker(Doing.HANDLING, 121.0), "/livez", 503, f"{text_of(121)}\n{STACK}\n"),
     (status_of(0, expected=2), "/livez", 200, "ok\n"),
     (status_of(0, expected=2), "/readyz", 503, "1 of 2 processes answer.\n"),
     (status_of(0, silent=(SilentProcess(process=9, number=1, for_s=61.0),)), "/livez", 503,
      "Process 9 has not answered for 61 s.\n")],
)  # fmt: skip
async def test_a_probe_answers_ok_or_the_whole_reason(status: ApplicationStatus, path: str, code: int, text: str) -> None:
    answer = await get(status, path)

    assert (code, text) == (answer.status_code, answer.text)


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
async def test_a_stack_of_a_file_whose_name_is_no_utf_8_fails_no_probe(path: str) -> None:
    stuck = with_worker(Doing.HANDLING, 121.0)
    [process] = stuck.processes
    [listener] = process.listeners
    worker = replace(listener.workers[0], stack='File "caf\udce9.py", line 7, in book\n')
    changed = replace(process, listeners=(replace(listener, workers=(worker,)),))

    answer = await get(replace(stuck, processes=(changed,)), path)

    assert (503, True) == (answer.status_code, 'File "caf?.py", line 7' in answer.text)


async def test_the_pages_for_programs_are_json_and_open_metrics() -> None:
    status = status_of(0)
    scale, refused, whole, metrics = (
        await get(status, "/scale"),
        await get(status, "/scale", (QueueFigures(queue="IN", refused="2035"),)),
        await get(status, "/status"),
        await get(status, "/metrics"),
    )

    waiting = {"messages_waiting": 3, "workers": 2, "messages_per_worker": 2, "refused": ""}
    none = {"messages_waiting": 0, "workers": 0, "messages_per_worker": 0, "refused": "2035"}
    assert ((200, waiting), (503, none)) == tuple((each.status_code, each.json()) for each in (scale, refused))
    assert (200, msgspec.json.encode(report(status, FIGURES))) == (whole.status_code, whole.content)
    assert ("application/json", "application/openmetrics-text") == tuple(
        each.headers["content-type"].partition(";")[0] for each in (whole, metrics)
    )
    assert 'mqflow_queue_depth{queue="IN"} 3.0' in metrics.text


# -- the server


@pytest.mark.parametrize(
    ("text", "address"),
    [("0", ("127.0.0.1", 0)), ("65535", ("127.0.0.1", 65_535)), ("[::1]:1", ("::1", 1)), ("here:1", ("here", 1))],
)
def test_an_address_is_a_host_and_a_port(text: str, address: tuple[str, int]) -> None:
    assert address == http_address(text)


@pytest.mark.parametrize("text", ["65536", "1:70000", "-1", "1.5", "", "here", "here:", "here:http", "²", "1" * 5_000])
def test_a_port_is_a_number_up_to_65535(text: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        http_address(text)

    said = f"--http {text!r}: give HOST:PORT or PORT, for example 127.0.0.1:8080. The port is 0 to 65535."
    assert said == str(refused.value)


@pytest.mark.parametrize(("address", "host"), [("0", "127.0.0.1"), ("[::1]:0", "[::1]"), ("localhost:0", "localhost")])
def test_the_pages_are_announced_and_served_and_end_with_the_block(
    capsys: pytest.CaptureFixture[str], address: str, host: str
) -> None:
    page = Starlette(routes=[Route("/", lambda _: PlainTextResponse("a page"))])
    with serving_pages(address, page, "Pages are on") as port:
        assert f"Pages are on http://{host}:{port}/\n" == capsys.readouterr().err
        answer = httpx.get(f"http://{host}:{port}/")
        assert (200, "a page", False) == (answer.status_code, answer.text, "server" in answer.headers)

    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://{host}:{port}/")


ANY_HOST = ("127.0.0.1:8080", "localhost:8080", "[::1]:8080", "10.1.2.3:8080", "")
OTHER_HOSTS = ("evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "EVIL.EXAMPLE")


@pytest.mark.parametrize(
    ("address", "answering", "refused"),
    [
        ("8080", ANY_HOST, OTHER_HOSTS),
        ("localhost:8080", ANY_HOST, OTHER_HOSTS),
        ("[::1]:8080", ANY_HOST, OTHER_HOSTS),
        # Prometheus and KEDA call by the name of a service.
        ("0.0.0.0:8080", (*ANY_HOST, "orders.shop.svc:8080"), ()),
    ],
)
async def test_pages_on_loopback_answer_to_no_name_that_a_web_site_can_have(
    address: str, answering: tuple[str, ...], refused: tuple[str, ...]
) -> None:
    page = Starlette(routes=[Route("/livez", lambda _: PlainTextResponse("ok"))])
    transport = httpx.ASGITransport(app=refusing_other_hosts(address, page))

    async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        codes = {host: (await client.get("/livez", headers={"Host": host})).status_code for host in (*answering, *refused)}
        assert dict.fromkeys(answering, 200) | dict.fromkeys(refused, 403) == codes


def test_the_pages_of_an_application_refuse_a_request_by_dns_rebinding() -> None:
    with serving("0", Named(), lambda _: ()) as port:
        answer = httpx.get(f"http://127.0.0.1:{port}/livez", headers={"Host": f"evil.example:{port}"})

    said = "These pages do not answer to the host name evil.example. They answer to localhost and to IP addresses.\n"
    assert (403, said) == (answer.status_code, answer.text)


def test_the_pages_of_a_pipeline_refuse_a_request_by_dns_rebinding(capsys: pytest.CaptureFixture[str]) -> None:
    with served_progress("0", PipelineProgress(SYSTEM_CLOCK, valid_s=1.0)):
        address = capsys.readouterr().err.split()[-1]
        codes = [httpx.get(f"{address}livez", headers={"Host": host}).status_code for host in ("localhost", "evil.example")]

    assert [200, 403] == codes


def test_the_server_of_the_pages_ends_soon_tells_nothing_of_itself_and_writes_no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, object]] = []

    class Noting(uvicorn.Config):
        def __init__(self, app: Starlette, **options: Any) -> None:
            given.append(options)
            super().__init__(app, **options)

    monkeypatch.setattr(uvicorn, "Config", Noting)
    with serving_pages("0", Starlette(), "Pages are on"):
        pass

    quiet = {"log_config": None, "log_level": "warning", "access_log": False, "server_header": False}
    plain = {"lifespan": "off", "ws": "none", "ssl_certfile": None, "ssl_keyfile": None}
    assert [quiet | plain | {"timeout_graceful_shutdown": 1}] == given


@pytest.mark.parametrize(
    ("address", "why"),
    [("no-such-host.invalid:1", "port 1 of no-such-host.invalid cannot be used: "), ("192.0.2.1:1", "Cannot assign")],
)
def test_an_address_of_another_machine_is_an_error(address: str, why: str) -> None:
    with (
        pytest.raises(ConfigurationError, match=f"^--http {address}: port 1 of .* Choose another port.$") as refused,
        serving_pages(address, Starlette(), "Pages are on"),
    ):
        raise AssertionError("served on another machine")
    assert why in str(refused.value)


def test_a_certificate_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    missing = tmp_path / "missing.pem"
    with (
        pytest.raises(ConfigurationError, match=r"^The certificate or its key cannot be used: No such file or directory.$"),
        serving_pages("0", Starlette(), "Pages are on", tls=(missing, missing)),
    ):
        raise AssertionError("served without a certificate")


def test_pages_with_a_certificate_are_served_over_tls_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = make_certificates(tmp_path, ["localhost"], name="QM1", now=datetime.now(UTC))
    page = Starlette(routes=[Route("/", lambda request: PlainTextResponse(request.url.scheme))])

    with serving_pages("localhost:0", page, "Pages are on", tls=(made.certificate, made.key)) as port:
        trusted = ssl.create_default_context(cafile=made.authority)
        assert "https" == httpx.get(f"https://localhost:{port}/", verify=trusted).text
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"http://localhost:{port}/")
        assert f"Pages are on https://localhost:{port}/\n" == capsys.readouterr().err


# -- what `mqflow run` opens


def names_of(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("http", "counts", "is_counting"),
    [("", False, False), ("", True, True), ("0", False, True)],
    ids=["plain", "worker", "pages"],
)
def test_an_application_counts_events_only_for_pages(folder: Path, http: str, *, counts: bool, is_counting: bool) -> None:
    app = listening()

    with watched_process(app, Settings(), http=http, parent_socket=None, counts=counts):
        [(path, answer)] = applications()

    assert folder / f"orders.{os.getpid()}.sock" == path
    assert answer is not None
    assert answer.status is not None
    assert [0] == [process.number for process in answer.status.processes]
    assert int(is_counting) == len(app.hooks)
    assert set() == names_of(folder)


def test_the_code_for_figures_is_loaded_with_the_first_question() -> None:
    program = (
        "import sys, mqflow.cli.watching.endpoints\n"
        "print([name for name in sys.modules if name.endswith(('.figures', '.judge', '.status_report'))])"
    )

    assert "[]\n" == subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


def test_a_worker_answers_its_parent_with_its_number(folder: Path) -> None:
    path = worker_socket(folder, 3)

    with watched_process(listening(), Settings(), http="", parent_socket=path, counts=False):
        answer = ask(path, Request())
        assert {path.name} == names_of(folder)

    assert answer.status is not None
    assert [3] == [process.number for process in answer.status.processes]


def test_an_application_without_a_control_folder_runs_and_says_so(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder.chmod(0o777)

    with watched_process(listening(), Settings(), http="", parent_socket=None, counts=False):
        pass

    said = capsys.readouterr().err
    assert said.startswith(f"mqflow: `mqflow status` and `mqflow ctl` cannot reach this application. {folder} must be")


def test_the_parent_of_workers_answers_with_the_depths_of_their_queue_manager(folder: Path, stack: ExitStack) -> None:
    (folder / "notes").mkdir()
    serve(stack, worker_socket(folder / "notes", 1), Named(1))
    seen: list[object] = []

    def console(source: object, inquire: Callable[[Sequence[str]], object], opened: object) -> Starlette:
        seen.extend((source, inquire(["MISSING"]), opened))
        return Starlette()

    with watched_workers(
        "shop",
        7,
        "embedded::memory:",
        Settings(),
        folder / "notes",
        2,
        http="",
        running=lambda: {1: 101},
        served_url=lambda: "embedded::memory:",
        is_stopping=lambda: True,
        console=console,
    ):
        answer = ask(folder / f"shop.{os.getpid()}.sock", Request(wants_queues=True))

    status = answer.status
    assert status is not None
    assert (("orders", 7, 2, True), [101]) == (
        (status.application, status.process, status.expected, status.is_stopping),
        [each.process for each in status.processes],
    )
    [refused] = answer.queues
    assert ("IN", True) == (refused.queue, "MQRC_UNKNOWN_OBJECT_NAME (2085)" in refused.refused)
    assert 3 == len(seen)


def test_the_parent_of_workers_never_opens_the_folder_that_it_has_others_serve(folder: Path) -> None:
    """A request can come before the process that serves the folder has started. The parent must not take the folder from it."""
    (folder / "notes").mkdir()
    there: list[Callable[[str], AbstractContextManager[object]]] = []

    def console(_source: object, _inquire: object, opened: Callable[[str], AbstractContextManager[object]]) -> Starlette:
        there.append(opened)
        return Starlette()

    url = f"embedded:{folder / 'data'}?qmgr=QM1"
    with watched_workers(
        "shop",
        7,
        url,
        Settings(),
        folder / "notes",
        2,
        http="",
        running=dict[int, int],
        served_url=lambda: url,
        is_stopping=lambda: False,
        console=console,
    ):
        with pytest.raises(MQIError, match=r"MQRC_Q_MGR_NOT_AVAILABLE \(2059\).*has not started yet"), there[0](""):
            pass
        assert not (folder / "data").exists()
