"""Every failure counts once, also if one, two or three processes handle the messages of a queue manager on disk.

The processes open the queue manager itself, reach a served one, or reach it through ibmmq or pymqi on the stand-in library. The
messages are on a queue, or are publications.
The handlers follow random scripts. Their own log must agree with the queues, the records, the decision ledger and the spans.
MQFLOW_PROCESS_SEEDS=N runs N seeds for each row, instead of one.
"""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import TypeVar

import msgspec
import pytest

from mqflow.app.channels.location import SERVED_SOCKET
from mqflow.app.run.decision_ledger import story
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.wire.server.listener import serve
from mqflow.events import Event
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, ObjectType, OpenOption, Persistence, PutOption
from mqflow.policy.poison.disposition_record import DISPOSITION_QUEUE
from mqflow.runtime.delay.stage import EMBEDDED_STAGING_QUEUE
from mqflow.testing.kit import Found, carry_out
from mqflow.verbs import GetOptions, ObjectDescriptor
from tests.cli.processes.counted_app import (
    BATCHES_FILE,
    CALLS_FOLDER,
    COMPLETES,
    DURABLE_SUBSCRIPTION,
    ENDED,
    FORMS,
    FROM_STAGING_QUEUE,
    IN_A_BATCH,
    LEDGER_FILE,
    REAL_TIME_ACTS,
    RUN_FILE,
    SPANS_FILE,
    SUBSCRIBED_QUEUE,
    SUBSCRIPTION,
    TOPIC_FORMS,
    Run,
)
from tests.client_packages import PACKAGES, folder_of
from tests.stories.counting import THRESHOLD, Script, check, check_spans

ROOT = Path(__file__).parents[3]
DATA = Path("data")
SOCKET = Path("qm")
MESSAGES = 150
SEEDS = int(os.environ.get("MQFLOW_PROCESS_SEEDS", "1"))
E = TypeVar("E")
_QUEUE_NAME = 2016  # MQCA_Q_NAME


class Data:
    """The queue manager on disk, before the processes run and after they have ended."""

    def __init__(self) -> None:
        self.queue_manager = EmbeddedQueueManager("QM1", store=SqliteStore(DATA))
        self.connection = self.queue_manager.connect()

    def close(self) -> None:
        self.queue_manager.close()

    def browse(self, queue: str, events: Sequence[Event] = ()) -> Sequence[Found]:
        """Return the messages of the queue. Without events, their reasons come from their headers only."""
        handle = self.connection.open(queue, OpenOption.BROWSE)
        options = GetOptions(options=GetOption.BROWSE_NEXT | GetOption.NO_SYNCPOINT | GetOption.PROPERTIES_FORCE_MQRFH2)
        return [Found(got, queue, events) for got in iter(lambda: self.connection.get(handle, options), None)]

    def queue_of(self, form: str) -> str:
        """Return the queue that the handlers of this form get from. The first call makes a durable subscription."""
        if form != DURABLE_SUBSCRIPTION:
            return "IN"
        subscribed = self.connection.subscribe(SUBSCRIPTION.descriptor())
        return str(self.connection.inquire(subscribed.queue, [_QUEUE_NAME]).values[_QUEUE_NAME]).rstrip()

    def depths(self, *queues: str) -> list[int]:
        return [self.queue_manager.administration.queue_status(queue).depth for queue in queues]


class Told:
    """The evidence of a run: the messages, and the events in the decision ledger, which all processes write."""

    def __init__(self, data: Data, messages: Sequence[bytes], form: str) -> None:
        self._events = [entry.event for each in messages for entry in story(LEDGER_FILE, each)]
        # A publication has an MQRFH2 and is moved as it is, so its reason is in the ledger alone.
        self.browse = partial(data.browse, events=self._events if form in TOPIC_FORMS else ())

    def told(self, kind: type[E]) -> Sequence[E]:
        return [event for event in self._events if isinstance(event, kind)]


def script(dice: Random, kind: str) -> Script:
    if dice.random() < 0.1:
        return ["undecodable"], False
    # For "served", this process serves the queue manager without the delay processor that `mqflow qmgr serve` has.
    acts = sorted(REAL_TIME_ACTS.keys() - ({FROM_STAGING_QUEUE} if kind == "served" else set()))
    return dice.choices(acts, k=dice.randint(0, THRESHOLD)), dice.random() < 0.5


def define_and_put(data: Data, run: Run) -> list[bytes]:
    """Define the queues, put or publish a message for each script, and return the MsgIds."""
    queues = (f"DEFINE QLOCAL({name}) DEFPSIST(YES)" for name in ("OUT", "BOQ", DISPOSITION_QUEUE))
    carry_out(data.queue_manager.administration, [f"DEFINE QLOCAL(IN) BOTHRESH({THRESHOLD}) BOQNAME(BOQ)", *queues])
    if run.form == SUBSCRIBED_QUEUE:
        carry_out(data.queue_manager.administration, [f"DEFINE SUB(COUNTED) TOPICSTR('{SUBSCRIPTION.topic}') DEST(IN)"])
    queue = data.queue_of(run.form)
    topic = ObjectDescriptor(object_type=ObjectType.TOPIC, object_string="Orders/New")
    for number, (acts, _) in enumerate(run.scripts):
        body = f"broken {number}".encode() if acts == ["undecodable"] else msgspec.json.encode({"number": number})
        described = MessageDescriptor(persistence=Persistence.PERSISTENT)
        data.connection.put1(topic if run.form in TOPIC_FORMS else queue, described, body, PutOption.NO_SYNCPOINT)
    return [found.message_id for found in data.browse(queue)]


@contextmanager
def commands(kind: str) -> Iterator[tuple[list[str], str, list[str]]]:
    """Give the command before Python, the URL of the application, and the folders of its packages.

    "embedded" opens the folder of the data. "qmgr serve" reaches a queue manager in a process of its own, with its delay
    processor. "served" and each package reach a queue manager that this process serves.
    """
    if kind == "embedded":
        yield [], f"embedded:{DATA}?qmgr=QM1", []
        return
    if kind == "qmgr serve":
        words = [sys.executable, "-m", "mqflow.cli", "qmgr", "serve", "QM1", "--data", os.fspath(DATA)]
        with subprocess.Popen(
            words, stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": os.fspath(ROOT)}
        ) as own:
            assert own.stderr is not None
            try:
                assert "QM1 is active" in own.stderr.readline()
                yield [], f"embedded+unix:{DATA / SERVED_SOCKET}?qmgr=QM1", []
            finally:
                own.terminate()
                said = own.stderr.read()
        assert 0 == own.returncode, said
        return
    folders = folder_of(kind) if kind in PACKAGES else []
    with closing(Data()) as data, closing(serve(data.queue_manager, SOCKET)):
        if kind == "served":
            yield [], f"embedded+unix:{SOCKET}?qmgr=QM1", []
            return
        standin = [sys.executable, "-m", "mqflow.cli", "standin", "run", "--url", f"embedded+unix:{SOCKET}?qmgr=QM1", "--"]
        yield standin, f"{kind}://mq.example:1414/QM1?channel=APP.SVRCONN", folders


def run_processes(run: Run, processes: int, backend: str, kind: str = "embedded") -> list[bytes]:
    """Run the application until each message is handled or moved and all processes have drained. Return the MsgIds."""
    RUN_FILE.write_bytes(msgspec.json.encode(run))
    CALLS_FOLDER.mkdir()
    with closing(Data()) as data:
        messages = define_and_put(data, run)
    command = [sys.executable, "-m", "mqflow.cli", "run", "tests.cli.processes.counted_app:app"]
    with (
        commands(kind) as (before, url, folders),
        subprocess.Popen(
            [*before, *command, "--workers", str(processes), "--backend", backend, "--url", url],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join((os.fspath(ROOT), *folders))},
        ) as running,
    ):
        assert running.stdout is not None
        lines, left = [], len(messages)
        while left and (line := running.stdout.readline()):
            lines.append(line)
            left -= line == ENDED
        running.send_signal(signal.SIGTERM)
        lines.append(running.stdout.read())
        assert 0 == running.wait(), "".join(lines)
    return messages


def check_counts(run: Run, messages: Sequence[bytes]) -> None:
    calls = {int(path.name): Counter(path.read_text().splitlines()) for path in CALLS_FOLDER.iterdir()}
    completed, in_failed_batches = (
        +Counter({number: words.pop(word, 0) for number, words in calls.items()}) for word in (COMPLETES, IN_A_BATCH)
    )
    failed = +Counter({number: words.total() for number, words in calls.items()})
    sizes = map(int, BATCHES_FILE.read_text().splitlines()) if BATCHES_FILE.exists() else ()
    options = run.options | ({"batch": True} if run.form == "batches" else {})
    with closing(Data()) as data:
        told = Told(data, messages, run.form)
        check(told, run.scripts, failed, completed, options, in_failed_batches)
        check_spans(told, SPANS_FILE.read_text().splitlines(), sum(size - 1 for size in sizes))
        left = data.depths(data.queue_of(run.form), EMBEDDED_STAGING_QUEUE, "BOQ")
        assert [0, 0, len(messages) - len(completed)] == left


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("processes", [1, 2, 3])
@pytest.mark.parametrize("kind", ["embedded", "served", *PACKAGES])
def test_one_two_and_three_processes_count_each_failure_once_whatever_the_handler_does(
    kind: str, processes: int, form: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    dice = Random(f"{kind}, {processes} processes, {form}, seed {seed}")  # noqa: S311 - repeatable, not secret
    backend = dice.choice(["asyncio", "trio"])
    options = {"concurrency": dice.randint(1, 16), "unit_of_work": dice.choice([1, 1, 4])}
    run = Run([script(dice, kind) for _ in range(MESSAGES)], options, form)

    messages = run_processes(run, processes, backend, kind)

    check_counts(run, messages)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("kind", "form"),
    [("qmgr serve", "one handler"), *((kind, form) for kind in ("embedded", "qmgr serve") for form in TOPIC_FORMS)],
)
def test_processes_count_each_failure_once_on_topics_and_as_clients_of_a_queue_manager_process(
    kind: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A durable subscription has one process at a time. The processes share a queue that an administrator has subscribed."""
    monkeypatch.chdir(tmp_path)
    dice = Random(f"{kind}, {form}")  # noqa: S311 - repeatable, not secret
    scripts = [(["reject"], True), (["fail"] * THRESHOLD, True), *(script(dice, kind) for _ in range(48))]
    run = Run(scripts, {"concurrency": 4}, form)

    messages = run_processes(run, 2, dice.choice(["asyncio", "trio"]), kind)

    check_counts(run, messages)


@pytest.mark.rare
def test_the_counts_differ_if_the_next_worker_moves_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: with a planted defect the counts of two processes differ."""
    monkeypatch.chdir(tmp_path)
    run = Run([(["reject"], False)] * MESSAGES, {"concurrency": 2}, has_defect=True)

    messages = run_processes(run, 2, "asyncio")

    with pytest.raises(AssertionError):
        check_counts(run, messages)
