"""`mqflow status`, `mqflow ctl` and `mqflow top`, with applications that answer on control sockets of this process."""

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from mqflow.app.errors import ConfigurationError
from mqflow.cli.watching import ctl as ctl_command
from mqflow.cli.watching.control import Order, OrderError, PartlyDoneError, QueueFigures
from mqflow.cli.watching.server import http_address, serving
from mqflow.cli.watching.sockets import ControlServer
from mqflow.cli.watching.status_report import History, report
from mqflow.cli.watching.top import view
from mqflow.policy.health.records import ApplicationStatus, Doing, ListenerStatus, ProcessStatus, WorkerStatus
from tests.cli.conftest import Run

NOW = 100.0


class Steered:
    """An application with two workers. Each look after a pause brings one worker nearer to its end."""

    def __init__(self, *, ready: bool = True, name: str = "orders") -> None:
        self.name, self.ready = name, ready
        self.orders: list[Order] = []
        self.busy = 2
        self.is_endless = False
        self.looks = 0

    def status(self) -> ApplicationStatus:
        self.looks += 1
        is_held = any(order.held for order in self.orders)
        if is_held and self.busy and not self.is_endless:
            self.busy -= 1
        workers = tuple(
            WorkerStatus(
                number=n, doing=Doing.HANDLING, since=NOW - 14, message_id="AB12", at="shop.py:9 in book", stack="the\nstack"
            )
            if n < self.busy
            else WorkerStatus(number=n, doing=Doing.PAUSED)
            for n in range(2)
        )
        paused = "an operator has paused it" if is_held else ""
        listener = ListenerStatus(name="booking", queue="IN", concurrency=2, held=is_held, paused=paused, workers=workers)
        process = ProcessStatus(process=71, taken_at=NOW, ready=self.ready, missing=("IN",), listeners=(listener,))
        return ApplicationStatus(application=self.name, process=71, url="embedded:data", processes=(process,))

    def order(self, order: Order) -> None:
        if order.listener != "booking":
            raise OrderError(f"There is no listener '{order.listener}'. The listeners are: booking.")
        self.orders.append(order)


def depths(queues: object, /) -> tuple[QueueFigures, ...]:
    return (QueueFigures(queue="IN", depth=12, oldest_message_age_s=31),)


Serve = Callable[..., Steered]


@pytest.fixture
def serve(folder: Path) -> Iterator[Serve]:
    """Let an application answer on a control socket."""
    with ExitStack() as stack:

        def serve_it(socket: str = "orders.71.sock", **options: bool | str) -> Steered:
            source = Steered(**options)  # type: ignore[arg-type]  # options of different kinds
            stack.enter_context(closing(ControlServer(folder / socket, source, depths)))
            return source

        yield serve_it


def test_an_application_that_is_not_ready_gives_exit_code_1_and_the_reason(run: Run, serve: Serve) -> None:
    serve(ready=False)

    shown = run("status", "orders")

    assert 1 == shown.exit_code
    assert "Process 71 is not ready: it has not opened IN." in shown.stdout


def test_scripts_read_the_status_as_json(run: Run, serve: Serve) -> None:
    serve()

    found = json.loads(run("status", "--json").stdout)

    assert ("orders", 12, True) == (found["status"]["application"], found["queues"][0]["depth"], found["health"]["ready"])


def test_no_application_is_exit_code_1(run: Run, folder: Path) -> None:
    shown = run("status")

    assert (1, "No application of this user runs on this machine.\n") == (shown.exit_code, shown.stderr)


def test_an_unknown_name_lists_the_running_applications(run: Run, serve: Serve) -> None:
    serve()

    shown = run("status", "oders")

    assert shown.exit_code != 0
    assert "Running: 71 or orders." in shown.stderr


def test_a_name_that_runs_twice_must_be_a_process(run: Run, serve: Serve) -> None:
    sources = [serve(), serve("orders.72.sock")]

    shown = run("ctl", "orders", "pause", "booking")

    assert shown.exit_code != 0
    assert "orders runs 2 times. Name the process instead: 71 or 72." in shown.stderr
    assert [[], []] == [source.orders for source in sources]


def test_an_application_that_ends_during_a_drain_is_named(
    run: Run, serve: Serve, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = serve()
    source.is_endless = True
    order = source.order

    def end_after(given: Order) -> None:
        order(given)
        (folder / "orders.71.sock").unlink()

    monkeypatch.setattr(source, "order", end_after)

    shown = run("ctl", "orders", "drain", "booking")

    assert 1 == shown.exit_code
    assert "orders.71 gave no answer" in shown.stderr
    assert "If the application still runs, the listener stays paused." in shown.stderr


def test_an_order_without_an_answer_is_a_failure_because_it_may_have_been_carried_out(
    run: Run, serve: Serve, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctl_command, "_ANSWER_S", 0.05)
    source, ended = serve(), threading.Event()
    monkeypatch.setattr(source, "order", lambda _: ended.wait(10))

    shown = run("ctl", "orders", "pause", "booking")
    ended.set()

    said = "timed out. The order may have been carried out. `mqflow status` shows it."
    assert (1, f"mqflow: orders.71 gave no answer on {folder / 'orders.71.sock'}: {said}\n") == (shown.exit_code, shown.stderr)


@pytest.mark.parametrize(
    ("error", "code"), [(OrderError("There is no listener."), 2), (PartlyDoneError("Worker 2 does not answer."), 1)]
)
def test_only_an_order_that_did_nothing_is_wrong_usage(
    run: Run, serve: Serve, monkeypatch: pytest.MonkeyPatch, error: OrderError, code: int
) -> None:
    def fail(_: Order) -> None:
        raise error

    monkeypatch.setattr(serve(), "order", fail)

    shown = run("ctl", "orders", "pause", "booking")

    assert (code, True) == (shown.exit_code, str(error) in shown.stderr)


def test_top_without_a_terminal_shows_the_applications_once_and_ends(run: Run, serve: Serve) -> None:
    source = serve()

    shown = run("top")

    assert (0, 1) == (shown.exit_code, source.looks)
    assert shown.stdout.startswith("orders on embedded:data: ready, process 71\n")
    assert shown.stdout.endswith("\n")


def test_top_without_rich_names_the_extra(run: Run, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    serve()
    monkeypatch.setitem(sys.modules, "rich.live", None)

    shown = run("top")

    assert shown.exit_code != 0
    assert "pip install 'mqflow[cli]'" in shown.stderr


def test_without_counts_there_is_no_rate() -> None:
    history = History()
    for now in (0.0, 1.0):
        history.note(report(Steered().status(), depths(())), now)

    assert () == history.rates(71, "IN")
    assert view([report(Steered().status(), depths(()))], history).renderables


# -- the address of the pages


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("8080", ("127.0.0.1", 8080)),
        (":8080", ("127.0.0.1", 8080)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),  # noqa: S104 - what a user can ask for
        ("[::1]:8080", ("::1", 8080)),
    ],
)
def test_the_pages_are_on_the_loopback_interface_by_default(text: str, address: tuple[str, int]) -> None:
    assert address == http_address(text)


def test_a_port_in_use_is_named() -> None:
    with (
        serving("0", Steered(), depths) as port,
        pytest.raises(ConfigurationError, match=f"port {port} of 127.0.0.1 cannot be used"),
        serving(str(port), Steered(), depths),
    ):
        raise AssertionError("two servers on one port")


@pytest.mark.parametrize("package", ["uvicorn", "starlette.applications", "prometheus_client.metrics_core"])
def test_a_missing_package_names_the_extra(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("mqflow.cli.watching.pages", "mqflow.cli.watching.metrics"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(ConfigurationError, match=r"pip install 'mqflow\[http\]'"), serving("0", Steered(), depths):
        raise AssertionError("served without its packages")
