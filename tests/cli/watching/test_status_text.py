"""The status of applications as text: each line whole, for `mqflow status`, `ctl` and `top`, and the figures for scripts."""

import io
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.console import Console

from mqflow.cli.watching import ctl, sockets, status
from mqflow.cli.watching.control import Order, OrderError, QueueFigures
from mqflow.cli.watching.named_applications import every_report
from mqflow.cli.watching.sockets import ControlServer
from mqflow.cli.watching.status import headline
from mqflow.cli.watching.status_report import History, Scale, StatusReport, doing_now, report, scale, worker_rows
from mqflow.cli.watching.top import view
from mqflow.policy.health.records import ApplicationStatus, Doing, ListenerStatus, ProcessStatus, SilentProcess, WorkerStatus
from mqflow.world import SYSTEM_CLOCK
from tests.cli.conftest import Run

NOW = 100.0
STACK = 'File "app.py", line 7, in book\n    sell()\n'
FIGURES = (
    QueueFigures(queue="IN", depth=12, oldest_message_age_s=31),
    QueueFigures(queue="OUT", depth=0),
    QueueFigures(queue="SHUT", refused="MQRC_NOT_AUTHORIZED (2035)"),
)


def process(number: int, *workers: WorkerStatus, **changed: object) -> ProcessStatus:
    """Return a process with a listener on IN, and one on a topic."""
    listener = ListenerStatus(name="booking", queue="IN", concurrency=len(workers), workers=workers)
    topic = ListenerStatus(name="prices", queue="Prices/#", is_topic=True, concurrency=1)
    plain = ProcessStatus(process=70 + number, number=number, taken_at=NOW, ready=True, listeners=(listener, topic))
    return replace(plain, **changed)


def application(*processes: ProcessStatus, **changed: object) -> ApplicationStatus:
    plain = ApplicationStatus(application="orders", process=70, url="embedded:data", processes=processes)
    return replace(plain, **changed)


BUSY = WorkerStatus(number=0, doing=Doing.HANDLING, since=NOW - 14, message_id="AB12")
STUCK = WorkerStatus(number=1, doing=Doing.HANDLING, since=NOW - 61, message_id="CD34", stack=STACK)
DEAD = replace(STUCK, since=NOW - 121)
IDLE = WorkerStatus(number=2, doing=Doing.IDLE)


class Fixed:
    """An application with a state that the test sets."""

    def __init__(self, *states: ApplicationStatus, refused: str = "") -> None:
        self.states = list(states)
        self.refused = refused
        self.orders: list[Order] = []

    def status(self) -> ApplicationStatus:
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    def order(self, order: Order) -> None:
        if self.refused:
            raise OrderError(self.refused)
        self.orders.append(order)


Serve = Callable[..., Fixed]


@pytest.fixture
def serve(folder: Path) -> Iterator[Serve]:
    """Let an application with these states answer on the control socket of process 70."""
    with ExitStack() as stack:

        def serve_it(*states: ApplicationStatus, refused: str = "") -> Fixed:
            source = Fixed(*states, refused=refused)
            stack.enter_context(closing(ControlServer(folder / "orders.70.sock", source, lambda _: FIGURES)))
            return source

        yield serve_it


# -- the status of an application


def test_a_status_is_printed_whole(run: Run, serve: Serve, folder: Path) -> None:
    serve(application(process(0, BUSY, IDLE)))

    shown = run("status", "70")

    assert (0, "") == (shown.exit_code, shown.stderr)
    assert [
        "orders on embedded:data: ready, process 70",
        "process  listener  queue  worker  doing",
        "-------  --------  -----  ------  ---------------------------",
        "     70  booking   IN          0  in handler for 14 s: ..AB12",
        "     70  booking   IN          2  " + Doing.IDLE.value,
        "",
        "queue    depth  oldest",
        "-----  -------  ------",
        "IN          12    31 s",
        "OUT          0",
        "SHUT   unknown",
        "SHUT: MQRC_NOT_AUTHORIZED (2035)",
        f"Its control socket is {folder}/orders.70.sock.",
        "",
    ] == shown.stdout.splitlines()


def test_stuck_workers_and_silent_processes_are_shown_with_the_reason_and_the_stack(run: Run, serve: Serve) -> None:
    silent = SilentProcess(process=72, number=2, for_s=31.4)
    serve(application(process(1, STUCK), silent=(silent,), expected=2))

    shown = run("status")

    lines = shown.stdout.splitlines()
    stuck = "Worker 1 of booking in process 71 has been in its handler for 61 s, above 60 s, with message CD34."
    assert [
        "orders on embedded:data: not ready, 1 of 2 processes",
        "  1 of 2 processes answer.",
        "  Process 72 has not answered for 31 s.",
        f"  {stuck}",
    ] == lines[:4]
    assert "     72                           the process does not answer for 31 s" in lines
    at = lines.index("The stack of worker 1 of booking in process 71:")
    assert ["", *STACK.splitlines()] == [lines[at - 1], *lines[at + 1 : at + 3]]
    assert 1 == shown.stdout.count(stuck)
    assert 1 == shown.exit_code


def test_a_process_that_does_not_answer_is_one_line_or_one_record(
    run: Run, serve: Serve, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "_ALL_S", 0.05)
    monkeypatch.setattr(status, "_RATE_S", 0.0)
    with socket.socket(socket.AF_UNIX) as stopped:
        stopped.bind(str(folder / "shop.9.sock"))
        stopped.listen()

        shown, record, rates = (run("status", *more) for more in ((), ("--json",), ("--rates",)))
        order = run("ctl", "9", "pause", "booking")

    assert [(1, "shop.9 does not answer.\n")] * 2 == [(each.exit_code, each.stdout) for each in (shown, rates)]
    assert {"silent": "shop.9"} == json.loads(record.stdout)
    assert f"shop.9 does not answer on {folder}/shop.9.sock. A process that is stopped (SIGSTOP) does not." in order.stderr


def test_an_application_that_cannot_tell_its_status_says_why_and_its_name_is_shown_in_one_line(run: Run, serve: Serve) -> None:
    source = serve(application(process(0), application="\x1b[31m"))
    unknown = run("status", "oders")
    source.states.clear()

    shown, record = run("status"), run("status", "--json")

    assert "Running: 70 or \\x1b[31m." in unknown.stderr
    why = "The application could not answer: IndexError: list index out of range"
    assert (1, f"orders.70 shows no status: {why}\n") == (shown.exit_code, shown.stdout)
    assert {"silent": "orders.70", "reason": why} == json.loads(record.stdout)


def test_top_and_the_console_show_an_application_that_does_not_answer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "_ALL_S", 0.05)
    with socket.socket(socket.AF_UNIX) as stopped:
        stopped.bind(str(folder / "shop.9.sock"))
        stopped.listen()
        [found] = every_report(None)

    assert ("shop: not ready, process 9", ("0 of 1 processes answer.",)) == (headline(found), found.health.why)
    assert [("9", "", "", "", "the process does not answer")] == list(worker_rows(found.status))


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (application(process(0)), "orders on embedded:data: ready, process 70"),
        (application(process(0, ready=False)), "orders on embedded:data: not ready, process 70"),
        (application(process(0, DEAD)), "orders on embedded:data: stuck: it must be started again, process 70"),
        (application(process(1), process(2), expected=2), "orders on embedded:data: ready, 2 of 2 processes"),
    ],
    ids=["ready", "not ready", "stuck", "several"],
)
def test_the_first_line_says_whether_the_application_is_ready(found: ApplicationStatus, line: str) -> None:
    assert line == status.headline(report(found, FIGURES))


@pytest.mark.parametrize(
    ("worker", "held", "words"),
    [(IDLE, False, Doing.IDLE.value),
     (replace(IDLE, since=NOW - 2.4), False, f"{Doing.IDLE.value} for 2 s"),
     (replace(IDLE, since=NOW + 5), False, f"{Doing.IDLE.value} for 0 s"),
     (BUSY, True, "in handler for 14 s: ..AB12"),
     (replace(BUSY, message_id="414D5120514D312020202020202020200006615A0C028E17"), True,
      "in handler for 14 s: ..615A0C028E17"),
     (replace(IDLE, doing=Doing.PAUSED), False, f"{Doing.PAUSED.value}: the queue is inhibited"),
     (replace(IDLE, doing=Doing.SETTLING), True, f"{Doing.SETTLING.value}: the queue is inhibited"),
     (replace(IDLE, doing=Doing.SETTLING), False, Doing.SETTLING.value)],
)  # fmt: skip
def test_the_activity_of_a_worker_is_in_words(worker: WorkerStatus, words: str, *, held: bool) -> None:
    listener = ListenerStatus(name="booking", queue="IN", concurrency=1, held=held, paused="the queue is inhibited")

    assert words == doing_now(worker, listener, process(0))


def test_while_the_event_loop_is_blocked_the_rows_say_who_blocks_it() -> None:
    blocked = replace(
        process(1, replace(BUSY, is_running=True), BUSY, IDLE, replace(IDLE, doing=Doing.SETTLING)), blocked_since=NOW
    )

    assert [
        "in handler for 14 s: ..AB12, blocks the event loop",
        "in handler for 14 s: ..AB12",
        "waits for the blocked event loop",
        "waits for the blocked event loop",
    ] == [row[-1] for row in worker_rows(application(blocked))]


def test_each_worker_and_each_silent_process_has_a_row() -> None:
    found = application(process(1, BUSY), process(2, IDLE), silent=(SilentProcess(process=9, number=3, for_s=2.6),))

    assert [
        ("71", "booking", "IN", "0", "in handler for 14 s: ..AB12"),
        ("72", "booking", "IN", "2", Doing.IDLE.value),
        ("9", "", "", "", "the process does not answer for 3 s"),
    ] == list(worker_rows(found))


# -- figures for an autoscaler, and rates


@pytest.mark.parametrize(
    ("depths", "workers", "expected"),
    [
        ((7,), 4, Scale(messages_waiting=7, workers=6, messages_per_worker=2)),
        ((6, 6), 4, Scale(messages_waiting=12, workers=6, messages_per_worker=2)),
        ((13,), 4, Scale(messages_waiting=13, workers=6, messages_per_worker=3)),
        ((0,), 4, Scale(messages_waiting=0, workers=6, messages_per_worker=0)),
    ],
)
def test_the_messages_for_each_worker_are_rounded_up(depths: tuple[int, ...], workers: int, expected: Scale) -> None:
    half = (IDLE,) * (workers // 2)
    found = application(process(1, *half), process(2, *half), expected=2)

    assert expected == scale(found, [QueueFigures(queue=f"Q{depth}", depth=depth) for depth in depths])


def test_an_application_without_workers_counts_all_messages_for_one() -> None:
    assert Scale(messages_waiting=7, workers=0, messages_per_worker=7) == scale(
        application(), [QueueFigures(queue="IN", depth=7)]
    )
    assert Scale(messages_waiting=0, workers=0, messages_per_worker=0, refused="2035") == scale(
        application(process(0, IDLE)), [QueueFigures(queue="IN", depth=7), QueueFigures(queue="OUT", refused="2035")]
    )


@pytest.mark.parametrize("processes", [(), (ProcessStatus(process=7, taken_at=0.0, ready=False),)], ids=["none", "starting"])
def test_without_a_listener_that_answers_no_number_of_messages_is_known(processes: tuple[ProcessStatus, ...]) -> None:
    refused = "No listener of the application answers, so nobody knows how many messages wait."

    assert Scale(messages_waiting=0, workers=0, messages_per_worker=0, refused=refused) == scale(application(*processes), ())


def test_an_application_with_topics_alone_has_no_message_that_waits() -> None:
    topic = ListenerStatus(name="news", queue="news/#", is_topic=True, concurrency=1)
    found = application(ProcessStatus(process=7, taken_at=0.0, ready=True, listeners=(topic,)))

    assert Scale(messages_waiting=0, workers=1, messages_per_worker=0) == scale(found, ())


def test_the_queues_of_an_application_are_those_of_its_listeners_without_topics() -> None:
    other = ListenerStatus(name="selling", queue="OUT", concurrency=1)
    more = replace(process(2, IDLE), listeners=(*process(2, IDLE).listeners, other))

    assert ("IN", "OUT") == application(process(1, BUSY), more).queues


def delivered(*counts: float) -> ApplicationStatus:
    """Return a status whose processes have delivered so many messages from IN."""
    return application(
        *(process(number, IDLE, counts={"messages_delivered": ((("IN",), count),)}) for number, count in enumerate(counts, 1))
    )


def test_the_rate_is_over_all_processes_and_the_time_between_two_looks() -> None:
    history = History()
    for now, counts in ((10.0, (5.0, 5.0)), (10.0, (9.0, 9.0)), (14.0, (19.0, 19.0)), (16.0, (1.0, 19.0))):
        history.note(report(delivered(*counts), FIGURES), now)

    assert ((5.0, 0.0), (0.0, 0.0)) == (history.rates(70, "IN"), history.rates(70, "OUT"))
    assert ((12,) * 4, ()) == (history.depths(70, "IN"), history.depths(70, "SHUT"))
    assert ((31,) * 4, (0,) * 4) == (history.ages(70, "IN"), history.ages(70, "OUT"))
    assert ((), (), ()) == (history.depths(71, "IN"), history.ages(71, "IN"), history.rates(71, "IN"))


def test_a_process_that_did_not_answer_for_a_look_adds_only_the_messages_since_its_last_answer() -> None:
    history, silent = History(), replace(delivered(104.0), silent=(SilentProcess(process=72, number=2, for_s=1.0),))
    for now, found in ((0.0, delivered(100.0, 1_000.0)), (2.0, silent), (4.0, delivered(104.0, 1_006.0))):
        history.note(report(found, FIGURES), now)

    assert (2.0, 3.0) == history.rates(70, "IN")


def test_a_process_is_in_the_rate_from_its_second_answer_on() -> None:
    history = History()
    for now, found in ((0.0, delivered(100.0)), (2.0, delivered(104.0, 1_000.0)), (4.0, delivered(104.0, 1_006.0))):
        history.note(report(found, FIGURES), now)

    assert (2.0, 3.0) == history.rates(70, "IN")


def test_a_history_forgets_a_queue_that_a_look_does_not_have() -> None:
    """Each requester has a dynamic queue with a new name, and a console can run for months."""
    history = History()
    for number in range(3):
        history.note(report(delivered(1.0), (QueueFigures(queue=f"AMQ.{number}", depth=1),)), float(number))

    assert [(), (), (1,)] == [history.depths(70, f"AMQ.{number}") for number in range(3)]


def test_a_depth_or_an_age_that_is_not_known_is_no_zero_in_the_history() -> None:
    history, known = History(), QueueFigures(queue="IN", depth=7, oldest_message_age_s=9)
    looks = (known, replace(known, depth=None, oldest_message_age_s=None), replace(known, oldest_message_age_s=None))
    for now, found in enumerate((*looks, QueueFigures(queue="IN", depth=0))):
        history.note(report(delivered(1.0), (found,)), float(now))

    assert ((7, 7, 0), (9, 0)) == (history.depths(70, "IN"), history.ages(70, "IN"))


def test_a_history_keeps_the_last_thirty_looks() -> None:
    history = History()
    for now in range(40):
        figures = (QueueFigures(queue="IN", depth=now, oldest_message_age_s=2 * now),)
        history.note(report(delivered(float(now * now)), figures), float(now))

    assert (tuple(range(10, 40)), tuple(range(20, 80, 2))) == (history.depths(70, "IN"), history.ages(70, "IN"))
    assert tuple(float(2 * now - 1) for now in range(10, 40)) == history.rates(70, "IN")


def test_the_rates_of_a_status_are_those_between_its_two_looks(run: Run, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "_RATE_S", 0.0)
    times = iter((10.0, 12.0))
    monkeypatch.setattr(type(SYSTEM_CLOCK), "monotonic", lambda _: next(times))
    serve(delivered(100.0), delivered(151.0))

    shown = run("status", "--rates", "--json")

    found = json.loads(shown.stdout)
    assert ({"IN": 25.5, "OUT": 0.0, "SHUT": 0.0}, 0) == (found["rates"], shown.exit_code)


def test_the_rates_are_in_the_table(run: Run, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "_RATE_S", 0.0)
    times = iter((10.0, 12.0))
    monkeypatch.setattr(type(SYSTEM_CLOCK), "monotonic", lambda _: next(times))
    serve(delivered(100.0), delivered(151.0))

    rows = [line.split() for line in run("status", "--rates").stdout.splitlines()]

    assert [["IN", "12", "31", "s", "25.5"], ["OUT", "0", "0.0"]] == [row for row in rows if row[:1] in (["IN"], ["OUT"])]


def test_the_rate_of_an_application_that_does_not_count_is_a_dash(
    run: Run, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "_RATE_S", 0.0)
    serve(application(process(0, IDLE)))

    rows = [line.split() for line in run("status", "--rates").stdout.splitlines()]

    assert [["IN", "12", "31", "s", "-"], ["OUT", "0", "-"]] == [row for row in rows if row[:1] in (["IN"], ["OUT"])]


# -- orders


@pytest.mark.parametrize(
    ("words", "order", "said"),
    [(("pause", "booking"), Order(listener="booking", held=True),
      "booking of orders is paused. `mqflow ctl orders resume booking` ends the pause."),
     (("resume", "booking"), Order(listener="booking", held=False), "booking of orders gets messages again."),
     (("concurrency", "booking", "8"), Order(listener="booking", concurrency=8),
      "booking of orders has 8 workers in each of 2 processes.")],
)  # fmt: skip
def test_an_order_says_its_effect(run: Run, serve: Serve, words: tuple[str, ...], order: Order, said: str) -> None:
    source = serve(application(process(1, BUSY), process(2, IDLE), expected=2))

    done = run("ctl", "orders", *words)

    assert (0, f"{said}\n", "", [order]) == (done.exit_code, done.stdout, done.stderr, source.orders)


def test_the_workers_of_one_process_need_no_number_of_processes(run: Run, serve: Serve) -> None:
    serve(application(process(0, BUSY)))

    assert "booking of 70 has 1 worker.\n" == run("ctl", "70", "concurrency", "booking", "1").stdout
    assert 2 == run("ctl", "70", "concurrency", "booking", "0").exit_code


PAUSED = replace(IDLE, doing=Doing.PAUSED)


@pytest.mark.parametrize(
    ("found", "left"),
    [
        (application(process(1, PAUSED, PAUSED)), 0),
        (application(process(1, BUSY, PAUSED), process(2, BUSY, IDLE)), 3),
        (application(process(1, PAUSED), silent=(SilentProcess(process=9, number=2, for_s=0.0),)), 1),
    ],
)
@pytest.mark.parametrize("listener", ["booking", "IN"])
def test_a_listener_is_drained_if_all_its_workers_pause_in_processes_that_answer(
    found: ApplicationStatus, left: int, listener: str
) -> None:
    assert left == ctl.in_units(found, listener)
    assert len(found.silent) == ctl.in_units(found, "selling")


def test_a_drain_says_each_second_how_many_workers_it_waits_for_and_where_the_longest_is(
    run: Run, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctl, "_LOOK_S", 0.0)
    times = iter((10.0, 10.0, 10.9, 11.0, 12.0))
    monkeypatch.setattr(type(SYSTEM_CLOCK), "monotonic", lambda _: next(times))
    longest = replace(BUSY, since=NOW - 20, message_id="EF56", at="shop.py:9 in book")
    settling = replace(IDLE, doing=Doing.SETTLING)
    looks = [(BUSY, longest), (BUSY, longest), (BUSY, longest), (BUSY, PAUSED), (settling, PAUSED), (PAUSED, PAUSED)]
    source = serve(*(application(process(0, *workers)) for workers in looks))  # the first is the look for the application

    done = run("ctl", "orders", "drain", "booking")

    assert [Order(listener="booking", held=True)] == source.orders
    again = "`mqflow ctl orders resume booking` starts it again."
    assert (0, f"booking of orders is drained. {again}\n") == (done.exit_code, done.stdout)
    assert [
        "Waiting for 2 workers of booking: in handler for 20 s: ..EF56 at shop.py:9 in book",
        "Waiting for 1 worker of booking: in handler for 14 s: ..AB12",
        "Waiting for 1 worker of booking ...",
    ] == done.stderr.splitlines()


def test_a_drain_ends_at_its_limit(run: Run, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctl, "_LOOK_S", 0.0)
    times = iter((10.0, 14.9, 15.0))
    monkeypatch.setattr(type(SYSTEM_CLOCK), "monotonic", lambda _: next(times))
    source = serve(application(process(0, BUSY)))

    done = run("ctl", "orders", "drain", "booking", "--wait", "5")

    left = "1 worker of booking: in handler for 14 s: ..AB12"
    said = f"Waiting for {left}\nNot drained: {left}\nThe listener stays paused.\n"
    assert (1, "", said, [Order(listener="booking", held=True)]) == (done.exit_code, done.stdout, done.stderr, source.orders)


def test_an_order_that_the_application_refuses_is_an_error(run: Run, serve: Serve) -> None:
    serve(application(process(0, BUSY)), refused="There is no listener 'x'.")

    refused = run("ctl", "orders", "pause", "x")

    assert (2, "", "mqflow: There is no listener 'x'.\n") == (refused.exit_code, refused.stdout, refused.stderr)


@pytest.mark.parametrize("command", [("status", "oders"), ("ctl", "oders", "pause", "x")])
def test_an_unknown_application_is_an_error_with_the_folder(run: Run, folder: Path, command: tuple[str, ...]) -> None:
    refused = run(*command)

    assert (
        "mqflow: No application 'oders' of this user runs on this machine. Running: none. "
        f"`mqflow run` has its control socket in {folder}; MQFLOW_CONTROL_FOLDER names another folder for both commands.\n"
    ) == refused.stderr
    assert 2 == refused.exit_code


def test_a_folder_that_cannot_be_used_is_an_error(run: Run, folder: Path) -> None:
    folder.chmod(0o777)

    refused = run("status")

    assert (2, True) == (refused.exit_code, f"The control sockets cannot be read: {folder} must be a folder" in refused.stderr)
    assert "MQFLOW_CONTROL_FOLDER names another folder" in refused.stderr


# -- top


def shown(*reports: StatusReport, history: History) -> list[str]:
    console = Console(file=io.StringIO(), width=120)
    console.print(view(reports, history))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_top_shows_depths_rates_and_workers() -> None:
    history = History()
    for now, count in ((0.0, 0.0), (1.0, 10.0), (2.0, 40.0)):
        last = report(delivered(count), FIGURES)
        history.note(last, now)

    lines = shown(last, history=history)

    assert "orders on embedded:data: ready, process 70" == lines[0]
    assert [
        ["queue", "depth", "messages/s", "oldest"],
        ["IN", "12", "███", "30", "▃█", "31", "s"],
        ["OUT", "0", "▁▁▁", "0", "▁▁"],
        ["SHUT", "?", "0", "▁▁"],
        ["process", "listener", "queue", "worker", "doing"],
        ["71", "booking", "IN", "2", *Doing.IDLE.value.split()],
    ] == [line.split() for line in lines[1:] if line]


def test_top_shows_why_an_application_is_not_ready_and_that_none_runs() -> None:
    found = application(process(0, ready=False, missing=("IN", "OUT")))

    assert [
        "orders on embedded:data: not ready, process 70",
        "Process 70 is not ready: it has not opened IN, OUT.",
    ] == shown(report(found, ()), history=History())[:2]
    assert ["No application of this user runs on this machine."] == shown(history=History())


@pytest.mark.parametrize(
    ("found", "style"),
    [(process(0), "bold green"), (process(0, ready=False), "bold yellow"), (process(0, DEAD), "bold red")],
    ids=["ready", "not ready", "stuck"],
)
def test_top_shows_the_health_as_a_colour(found: ProcessStatus, style: str) -> None:
    first = view([report(application(found), ())], History()).renderables[0]

    assert style == getattr(first, "style", "")  # a text of rich


def test_top_ends_after_its_turns(run: Run, serve: Serve) -> None:
    states = [delivered(count) for count in (0.0, 1.0, 2.0, 3.0)]
    source = serve(*states)

    assert 0 == run("top", "--turns", "3", "--every", "0.1").exit_code
    assert [states[3]] == source.states
