"""Builds and runs programs in Go on a served queue manager: IBM's suite for JMS in Go, IBM's samples, and mq_prometheus.

The sources are public repositories, cloned at fixed commits. Their package for MQ is the clone of mq-golang, and is not taken
from a registry. It is compiled with mqflow's headers.
"""

import os
import re
import shutil
import subprocess
import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from mqflow.embedded import mqsc
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, OpenOption, PutOption
from mqflow.verbs import GetOptions
from tests.foreign.serving import MissingError, development_kit, ran, served

__all__ = ("exporter", "jms20", "samples")

_MODULE: Final = "github.com/ibm-messaging/mq-golang/v5"
# The arguments of each run in order, and the words that its output has if its calls succeeded.
_RUNS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("amqsconn QM1 DEV.APP.SVRCONN localhost(1414)", ("Connection to QM1 succeeded.", "Done.")),
    ("amqsinq DEV.QUEUE.1 QM1", ("MQCA_ALTERATION_DATE",)),
    ("amqsput DEV.QUEUE.1 QM1", ("Put message to",)),
    ("amqsget DEV.QUEUE.1 QM1", ("Got message of length",)),
    ("amqsput DEV.QUEUE.1 QM1", ("Put message to",)),
    ("amqsgbr DEV.QUEUE.1 QM1", ("Got message of length",)),
    ("amqscb DEV.QUEUE.1 QM1", ("In callback",)),
    ("amqsprop DEV.QUEUE.1 QM1", ("Property",)),
    ("amqsdlh DEV.QUEUE.2 QM1", ("DLH Structure", "Got message of total length")),
    ("amqsbo DEV.QUEUE.3 QM1", ("ackout",)),
    ("amqspcf DEV.QUEUE.1 QM1", ("QUEUE.1",)),
    ("amqspub dev.topic QM1", ("Published message",)),
    ("amqsset DEV.QUEUE.2 QM1", ("Object attributes successfully changed",)),
)
_FIGURES: Final = re.compile(r'^ibmmq_(queue_[a-z0-9_]+)\{.*queue="DEV\.QUEUE\.1".*\} ([0-9.e+]+)$', re.MULTILINE)
_LEFT_OUT: Final = frozenset({"TestAsyncPutComparison", "TestAsyncPutPersistentTransactedComparison"})
"""Their results are chance: they expect that asynchronous puts take less than 90 % of the time of the puts just before.

The library waits for the queue manager in an asynchronous put too.
"""
_CONFIGURATION: Final = """\
global: {useObjectStatus: true, usePublications: true, logLevel: ERROR}
connection: {queueManager: QM1}
objects: {queues: ["DEV.QUEUE.1"]}
prometheus: {host: 127.0.0.1, port: "%d"}
"""
_JSON: Final = {
    "connection_info.json": '{"queueManagerName": "QM1", "hostname": "localhost", "listenerPort": 1414, '
    '"applicationChannelName": "DEV.APP.SVRCONN", "applicationName": "tests"}',
    "applicationApiKey.json": '{"mqUsername": "app", "apiKey": "passw0rd"}',
}
_PORT: Final = 39157


def jms20(cache: Path, queues: Path, source: Callable[[str], Path]) -> Iterator[tuple[str, str]]:
    """Yield each test of mq-golang-jms20, and why it failed; an empty text for a test that passed. Raises `MissingError`."""
    library, folder, program = source("mq-golang"), source("mq-golang-jms20"), cache / "jms20.test"
    work = cache / "jms20"
    shutil.copytree(folder, work, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".git"))
    _go(cache, work, "mod", "edit", f"-replace={_MODULE}={library.resolve()}")
    _go(cache, work, "test", "-c", "-o", str(program.resolve()), ".")
    names = re.findall(r"^func (Test\w+)", "".join(each.read_text() for each in sorted(work.glob("*_test.go"))), re.MULTILINE)
    with served(cache, queues) as (queue_manager, settings):
        results = mqsc.run(queues.with_name("jms20.mqsc").read_text(encoding="utf-8"), queue_manager.administration)
        assert results.exit_code() == 0, [each.text for each in results.responses]
        downloads = Path(settings["HOME"]) / "Downloads"
        downloads.mkdir()
        for name, text in _JSON.items():
            (downloads / name).write_text(text, encoding="utf-8")
        for name in (
            each for each in names if each not in _LEFT_OUT
        ):  # one process for each test: a failed test of this suite can end its process
            code, said = ran([str(program.resolve()), "-test.run", f"^{name}$"], work, settings)
            yield name, "" if code == 0 else _why(said)


def samples(cache: Path, queues: Path, source: Callable[[str], Path]) -> Iterator[tuple[str, str]]:
    """Yield each sample of mq-golang, and why it failed; an empty text for a sample that succeeded. Raises `MissingError`."""
    folder, programs = source("mq-golang"), cache / "go-samples"
    for name in sorted({arguments.split()[0] for arguments, _ in _RUNS}):
        _go(cache, folder, "build", "-o", str((programs / name).resolve()), f"samples/{name}.go")
    with served(cache, queues) as (_, settings):
        for arguments, expected in _RUNS:
            name, *rest = arguments.split()
            _, said = ran([str((programs / name).resolve()), *rest], folder, settings)
            yield name, "" if all(words in said for words in expected) else _why(said)


def exporter(cache: Path, queues: Path, source: Callable[[str], Path]) -> Iterator[tuple[str, str]]:
    """Yield figures of mq_prometheus that agree with the queue, or the difference. Raises `MissingError`."""
    folder, program = source("mq-metric-samples"), (cache / "mq_prometheus").resolve()
    _go(cache, folder, "build", "-mod=vendor", "-o", str(program), "./cmd/mq_prometheus")
    with served(cache, queues) as (queue_manager, settings):
        connection = queue_manager.connect()
        put = partial(connection.put1, "DEV.QUEUE.1", MessageDescriptor(), b"12345", PutOption.NO_SYNCPOINT)
        put()
        configuration = Path(settings["HOME"]) / "exporter.yaml"
        configuration.write_text(_CONFIGURATION % _PORT, encoding="utf-8")
        running = subprocess.Popen([str(program), "-f", str(configuration)], env=settings)
        try:
            _scraped(lambda figures: "queue_depth" in figures)
            for _ in range(3):
                put()
            handle = connection.open("DEV.QUEUE.1", OpenOption.INPUT_SHARED)
            connection.get(handle, GetOptions(options=GetOption.NO_SYNCPOINT))
            expected = {
                "queue_depth": 3,
                "queue_input_handles": 1,
                "queue_mqput_mqput1_count": 3,
                "queue_mqput_bytes": 15,
                "queue_mqget_count": 1,
                "queue_mqget_bytes": 5,
            }
            figures = _scraped(lambda figures: figures.get("queue_mqput_mqput1_count", 0) > 0)
        finally:
            running.terminate()
            running.wait()
        for name, value in expected.items():
            yield name, "" if figures.get(name) == value else f"{figures.get(name)}, and the queue has {value}"


def _scraped(is_enough: Callable[[Mapping[str, float]], bool]) -> dict[str, float]:
    """Read the page of the exporter each second, until it is enough or a minute is over. Return its figures of the queue."""
    figures: dict[str, float] = {}
    pause = threading.Event()
    for _ in range(60):
        pause.wait(1)
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{_PORT}/metrics", timeout=30) as page:
                figures = {name: float(value) for name, value in _FIGURES.findall(page.read().decode())}
        except OSError:
            continue
        if is_enough(figures):
            break
    return figures


def _go(cache: Path, folder: Path, *arguments: str) -> None:
    go, kit = shutil.which("go"), development_kit(cache)
    if go is None:
        raise MissingError("It needs Go and gcc: install them, and try again.")
    settings = os.environ | {
        "CGO_CFLAGS": f"-I{kit / 'inc'}",
        "CGO_LDFLAGS": f"-L{kit / 'lib64'}",
        "GOFLAGS": "" if "-mod=vendor" in arguments else "-mod=mod",
    }
    done = subprocess.run([go, *arguments], cwd=folder, env=settings, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MissingError(f"go {arguments[0]} failed: {done.stderr.strip()[-300:]}")


def _why(said: str) -> str:
    """Return the first words of the output about an error, or its last line."""
    found = re.search(r"Error:\s+(.+)|(MQRC_\w+)|(panic: .+)", said)
    return found.group(0).strip() if found else (said.strip().splitlines() or [""])[-1]
