"""Control sockets: the users that may ask, the answers, and how the parent of worker processes gathers states."""

import errno
import os
import re
import socket
import stat
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import cast

import msgspec
import pytest
from msgspec.structs import replace

from mqflow.cli.watching import sockets
from mqflow.cli.watching.control import Order, OrderError, PartlyDoneError
from mqflow.cli.watching.sockets import ControlServer, Request, applications, ask, control_folder, socket_for
from mqflow.cli.watching.workers_source import WorkersSource, first_orders, worker_socket
from mqflow.policy.health.records import ApplicationStatus
from mqflow.world import THREADS, Runner, World
from tests.cli.watching.sources import Named, depths, serve


def test_an_order_is_carried_out_before_the_answer(folder: Path, stack: ExitStack) -> None:
    source = serve(stack, folder / "a.sock", Named())

    ask(folder / "a.sock", Request(Order(listener="booking", held=True)))

    assert [Order(listener="booking", held=True)] == source.orders


@pytest.mark.parametrize(
    ("error", "refused"),
    [(OrderError("no such listener"), "no such listener"), (RuntimeError("a defect"), "RuntimeError: a defect")],
)
def test_an_error_is_an_answer_and_the_socket_goes_on(folder: Path, stack: ExitStack, error: Exception, refused: str) -> None:
    serve(stack, folder / "a.sock", Named(error=error))

    assert refused in ask(folder / "a.sock", Request(Order(listener="x", held=True))).refused
    assert ask(folder / "a.sock", Request()).status is not None


def test_a_file_name_that_is_no_utf_8_is_shown_without_its_bytes(folder: Path, stack: ExitStack) -> None:
    class InACafe(Named):
        def status(self) -> ApplicationStatus:
            return replace(super().status(), url="embedded:caf\udce9")

    serve(stack, folder / "a.sock", InACafe())

    answers = [ask(folder / "a.sock", Request()) for _ in range(2)]

    assert ["embedded:caf?"] * 2 == [answer.status.url for answer in answers if answer.status is not None]


@pytest.mark.parametrize("sent", [b"", b"{", b"[1]\n", b"{}", b"GET / HTTP/1.1\r\n\r\n"])
def test_a_caller_that_sends_something_else_disturbs_no_other_caller(folder: Path, stack: ExitStack, sent: bytes) -> None:
    serve(stack, folder / "a.sock", Named())
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(folder / "a.sock"))
        caller.sendall(sent)

    assert ask(folder / "a.sock", Request()).status is not None


def test_only_the_user_of_the_application_can_open_the_socket(folder: Path, stack: ExitStack) -> None:
    serve(stack, folder / "a.sock", Named())

    assert 0o600 == stat.S_IMODE((folder / "a.sock").stat().st_mode)


def test_a_process_of_another_user_gets_no_answer(folder: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    source = serve(stack, folder / "a.sock", Named())
    monkeypatch.setattr(sockets, "_user_of", lambda _: os.getuid() + 1)

    with pytest.raises(ConnectionError):
        ask(folder / "a.sock", Request(Order(listener="booking", held=True)))
    assert [] == source.orders


def test_an_application_of_a_service_is_found_from_a_session_and_the_other_way_round(
    folder: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service has no XDG_RUNTIME_DIR, and the shell of the same user has one."""
    (folder / "session").mkdir()
    monkeypatch.delenv("MQFLOW_CONTROL_FOLDER")
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(sockets, "_TEMPORARY", str(folder))
    monkeypatch.setattr(sockets, "_SESSIONS", folder / "none")
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    serve(stack, socket_for("service"), Named(1))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder / "session"))
    serve(stack, socket_for("session"), Named(2))
    from_a_session = {path.name.split(".")[0] for path, _ in applications()}
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setattr(sockets, "_SESSIONS", folder)
    (folder / "session").rename(folder / str(os.getuid()))
    from_a_service = {path.name.split(".")[0] for path, _ in applications()}

    assert [{"service", "session"}] * 2 == [from_a_session, from_a_service]


def test_a_link_in_place_of_the_folder_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "link").symlink_to(folder)
    monkeypatch.setenv("MQFLOW_CONTROL_FOLDER", str(folder / "link"))

    with pytest.raises(PermissionError):
        control_folder()


def test_the_socket_of_a_process_that_has_ended_is_removed(folder: Path, stack: ExitStack) -> None:
    serve(stack, socket_for("orders"), Named())
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(folder / "old.7.sock"))
    (folder / "folder.8.sock").mkdir()

    found = applications()

    assert ["orders"] == [answer.status.application for _, answer in found if answer is not None and answer.status is not None]
    assert not (folder / "old.7.sock").exists()


def test_an_application_removes_the_sockets_of_its_killed_predecessors_and_no_other(folder: Path, stack: ExitStack) -> None:
    serve(stack, folder / "orders.8.sock", Named())
    for ended in ("orders.7.sock", "others.7.sock"):
        with socket.socket(socket.AF_UNIX) as killed:
            killed.bind(str(folder / ended))

    assert folder / f"orders.{os.getpid()}.sock" == socket_for("orders")
    assert {"orders.8.sock", "others.7.sock"} == {path.name for path in folder.iterdir()}


def test_a_process_that_accepts_no_call_any_more_does_not_answer(folder: Path, stack: ExitStack) -> None:
    stopped = stack.enter_context(socket.socket(socket.AF_UNIX))
    stopped.bind(str(folder / "a.sock"))
    stopped.listen(0)
    with suppress(BlockingIOError):
        while True:
            caller = stack.enter_context(socket.socket(socket.AF_UNIX))
            caller.setblocking(False)
            caller.connect(str(folder / "a.sock"))

    assert [(folder / "a.sock", None)] == applications()


@pytest.mark.parametrize("look", [lambda: socket_for("orders"), applications], ids=["at a start", "mqflow status"])
def test_a_socket_that_another_process_removes_meanwhile_is_no_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch, look: Callable[[], object]
) -> None:
    (folder / "orders.7.sock").touch()
    called: list[str] = []

    def gone(_: socket.socket, path: str) -> None:
        called.append(path)
        Path(path).unlink()
        raise ConnectionRefusedError

    monkeypatch.setattr(socket.socket, "connect", gone)

    assert (folder / f"orders.{os.getpid()}.sock" if look is not applications else []) == look()
    assert [str(folder / "orders.7.sock")] == called


def test_a_socket_has_its_name_only_when_it_answers(folder: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    listen = socket.socket.listen

    def noting(bound: socket.socket) -> None:
        seen.extend(path.name for path in folder.glob("*.sock"))
        listen(bound)

    monkeypatch.setattr(socket.socket, "listen", noting)
    serve(stack, folder / "a.sock", Named())

    assert ([], ["a.sock"]) == (seen, [path.name for path in folder.iterdir()])


@pytest.mark.parametrize("answer", [b"{}}\n", b'{"status": 1}\n', b"[]\n"])
def test_an_application_with_another_format_of_answers_does_not_hide_the_others(
    folder: Path, stack: ExitStack, answer: bytes
) -> None:
    serve(stack, folder / "orders.8.sock", Named())
    other = stack.enter_context(socket.socket(socket.AF_UNIX))
    other.bind(str(folder / "old.7.sock"))
    other.listen()

    def answer_once() -> None:
        caller, _ = other.accept()
        with caller:
            caller.recv(1_000)
            caller.sendall(answer)

    thread = threading.Thread(target=answer_once)
    thread.start()
    [(_, unreadable), (_, readable)] = applications()
    thread.join()

    assert unreadable is not None
    assert (None, True) == (unreadable.status, "cannot be read" in unreadable.refused)
    assert readable is not None
    assert readable.status == Named().status()


# -- the parent of worker processes


def workers(folder: Path, running: dict[int, int]) -> WorkersSource:
    return WorkersSource("orders", 1, "embedded:data", folder, 2, lambda: running, wait_s=0.05)


def test_slow_worker_processes_are_asked_at_the_same_time(folder: Path, stack: ExitStack) -> None:
    both = threading.Barrier(2, timeout=20.0)

    class Slow(Named):
        def status(self) -> ApplicationStatus:
            both.wait()
            return super().status()

        def order(self, order: Order) -> None:
            both.wait()
            super().order(order)

    sources = [serve(stack, worker_socket(folder, number), Slow(number)) for number in (1, 2)]
    parent = WorkersSource("orders", 1, "embedded:data", folder, 2, lambda: {1: 101, 2: 102}, wait_s=30.0)

    status = parent.status()
    parent.order(Order(listener="booking", held=True))

    assert [101, 102] == [each.process for each in status.processes]
    assert [1, 1] == [len(each.orders) for each in sources]


def test_a_killed_worker_process_disappears(folder: Path, stack: ExitStack) -> None:
    serve(stack, worker_socket(folder, 1), Named(1))
    running = {1: 101, 2: 102}
    source = workers(folder, running)
    assert [102] == [each.process for each in source.status().silent]

    del running[2]

    assert ([101], ()) == ([each.process for each in source.status().processes], source.status().silent)


def test_a_worker_process_that_ends_while_it_is_asked_disappears(folder: Path) -> None:
    looks = [{2: 102}, dict[int, int]()]
    source = WorkersSource("orders", 1, "embedded:data", folder, 1, lambda: looks.pop(0), wait_s=0.05)

    status = source.status()

    assert ((), ()) == (status.processes, status.silent)


def test_a_worker_process_that_does_not_answer_is_named(folder: Path, stack: ExitStack) -> None:
    serve(stack, worker_socket(folder, 1), Named(1))
    stopped = stack.enter_context(socket.socket(socket.AF_UNIX))
    stopped.bind(str(worker_socket(folder, 2)))
    stopped.listen()

    status = workers(folder, {1: 101, 2: 102}).status()

    assert [101] == [each.process for each in status.processes]
    assert [(102, 2)] == [(each.process, each.number) for each in status.silent]


def test_an_order_goes_to_all_worker_processes_and_to_those_that_start_later(folder: Path, stack: ExitStack) -> None:
    sources = [serve(stack, worker_socket(folder, number), Named(number)) for number in (1, 2)]
    parent = workers(folder, {1: 101, 2: 102})

    parent.order(Order(listener="booking", concurrency=3))
    parent.order(Order(listener="booking", held=True))

    assert [[Order(listener="booking", concurrency=3), Order(listener="booking", held=True)]] * 2 == [
        each.orders for each in sources
    ]
    assert (Order(listener="booking", concurrency=3), Order(listener="booking", held=True)) == first_orders(
        worker_socket(folder, 1)
    )


def test_a_worker_process_that_starts_later_carries_out_the_last_order_last(folder: Path, stack: ExitStack) -> None:
    """The name of a listener and its queue can both name it, so the sequence of the orders decides."""
    serve(stack, worker_socket(folder, 1), Named(1))
    parent = workers(folder, {1: 101})

    for order in (
        Order(listener="booking", held=True),
        Order(listener="booking", concurrency=8),
        Order(listener="IN", held=False, concurrency=4),
        Order(listener="booking", held=True),
    ):
        parent.order(order)

    listener, held, concurrency = "booking or IN", None, None
    for each in first_orders(worker_socket(folder, 1)):
        assert each.listener in listener
        held = held if each.held is None else each.held
        concurrency = concurrency if each.concurrency is None else each.concurrency
    assert (True, 4) == (held, concurrency)


def test_an_order_that_only_some_worker_processes_refuse_names_those_that_carried_it_out(
    folder: Path, stack: ExitStack
) -> None:
    willing = [serve(stack, worker_socket(folder, number), Named(number)) for number in (1, 3)]
    serve(stack, worker_socket(folder, 2), Named(2, OrderError("The event loop is blocked.")))
    parent = workers(folder, {1: 101, 2: 102, 3: 103})

    said = "Worker 2 refused the order: The event loop is blocked. Only worker 1 and 3 carried it out. Give the order again."
    with pytest.raises(PartlyDoneError, match=f"^{re.escape(said)}$"):
        parent.order(Order(listener="booking", held=True))
    assert [1, 1] == [len(each.orders) for each in willing]
    assert () == first_orders(worker_socket(folder, 1))


def test_a_refused_order_is_not_remembered(folder: Path, stack: ExitStack) -> None:
    serve(stack, worker_socket(folder, 1), Named(1, OrderError("no such listener")))

    with pytest.raises(OrderError, match="no such listener"):
        workers(folder, {1: 101}).order(Order(listener="x", held=True))
    assert () == first_orders(worker_socket(folder, 1))


def test_an_order_names_the_worker_process_that_did_not_take_it(folder: Path, stack: ExitStack) -> None:
    source = serve(stack, worker_socket(folder, 1), Named(1))

    said = "Worker 2 does not answer, and gets the order at its next start. The others have carried it out."
    with pytest.raises(PartlyDoneError, match=f"^{said}$"):
        workers(folder, {1: 101, 2: 102}).order(Order(listener="booking", held=True))
    assert 1 == len(source.orders)
    assert (Order(listener="booking", held=True),) == first_orders(worker_socket(folder, 2))


def test_an_order_that_no_worker_process_takes_now_says_so(folder: Path) -> None:
    said = "Worker 1 and 2 does not answer, and gets the order at its next start. No other has carried it out."

    with pytest.raises(PartlyDoneError, match=f"^{said}$"):
        workers(folder, {1: 101, 2: 102}).order(Order(listener="booking", held=True))


def test_a_worker_process_that_reads_the_orders_while_they_change_reads_whole_orders(folder: Path, stack: ExitStack) -> None:
    serve(stack, worker_socket(folder, 1), Named(1))
    parent, pause = workers(folder, {1: 101}), Order(listener="booking", held=True)
    parent.order(pause)

    with (folder / "orders.json").open("rb") as begun:
        parent.order(Order(listener="booking", held=False))
        read = msgspec.json.decode(begun.read(), type=tuple[Order, ...])

    assert (pause,) == read


def test_an_order_reaches_a_worker_process_that_starts_while_the_order_is_carried_out(folder: Path, stack: ExitStack) -> None:
    running, order = {1: 101}, Order(listener="booking", held=True)

    class Starting(Named):
        """A worker process during whose order another one starts, with the orders that were in force before."""

        def order(self, order: Order) -> None:
            super().order(order)
            running[2] = 102

    serve(stack, worker_socket(folder, 1), Starting(1))
    started = serve(stack, worker_socket(folder, 2), Named(2))

    workers(folder, running).order(order)

    assert [order] == started.orders


def test_if_no_file_descriptor_is_free_the_thread_rests_before_it_accepts_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rests: list[float | None] = []

    class EndsAtRest(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            rests.append(timeout)
            self.set()
            return True

    class Threads:
        event, lock, mailbox, start = EndsAtRest, THREADS.lock, THREADS.mailbox, staticmethod(THREADS.start)

    def refuse(_: socket.socket) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(socket.socket, "accept", refuse)
    server = ControlServer(folder / "a.sock", Named(), depths, World(runner=cast("Runner", Threads())))
    server._thread.join(1)
    server.close()

    assert [1.0] == rests
