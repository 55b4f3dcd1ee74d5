"""Builds and runs programs in Go on a served queue manager: IBM's suite for JMS in Go, IBM's samples, and mq_prometheus.

The modules come from the Go module proxy, at fixed versions, and are compiled with mqflow's headers. This repository keeps none
of their files.
"""

import os
import re
import shutil
import socket
import subprocess
import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from mqflow.embedded import mqsc
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, OpenOption, PutOption
from mqflow.verbs import GetOptions
from tests.foreign.serving import MissingError, development_kit, ran, served

__all__ = ("exporter", "jms20", "samples")

_OF_IBM: Final = "github.com/ibm-messaging"
_LIBRARY: Final = f"{_OF_IBM}/mq-golang/v5"
_JMS20: Final = f"{_OF_IBM}/mq-golang-jms20"
_EXPORTER: Final = f"{_OF_IBM}/mq-metric-samples/v5"
# The newest version of each that the proxy serves.
_VERSIONS: Final = {_LIBRARY: "v5.7.2", _JMS20: "v1.11.0", _EXPORTER: "v5.7.1"}
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


def jms20(cache: Path, queues: Path) -> Iterator[tuple[str, str]]:
    """Yield each test of mq-golang-jms20, and why it failed; an empty text for a test that passed. Raises `MissingError`."""
    go = _Go(cache, "jms20", (_JMS20, _LIBRARY))
    folder, program = go.downloaded(_JMS20, "-test", _JMS20), go.folder / "jms20.test"
    go.run("test", "-c", "-o", str(program), _JMS20)
    with served(cache, queues) as (queue_manager, settings):
        results = mqsc.run(queues.with_name("jms20.mqsc").read_text(encoding="utf-8"), queue_manager.administration)
        assert results.exit_code() == 0, [each.text for each in results.responses]
        downloads = Path(settings["HOME"]) / "Downloads"
        downloads.mkdir()
        for name, text in _JSON.items():
            (downloads / name).write_text(text, encoding="utf-8")
        for file in sorted(folder.glob("*_test.go")):  # a failed test of this suite can end its process: one for each file
            names = [each for each in re.findall(r"^func (Test\w+)", file.read_text(), re.MULTILINE) if each not in _LEFT_OUT]
            _, said = ran([str(program), "-test.v", "-test.run", f"^({'|'.join(names)})$"], folder, settings)
            for name in names:
                yield name, "" if f"--- PASS: {name} (" in said else _why(said.partition(f"=== RUN   {name}\n")[2] or said)


def samples(cache: Path, queues: Path) -> Iterator[tuple[str, str]]:
    """Yield each sample of mq-golang, and why it failed; an empty text for a sample that succeeded. Raises `MissingError`."""
    go = _Go(cache, "samples", (_LIBRARY,))
    folder = go.downloaded(_LIBRARY, f"{_LIBRARY}/ibmmq") / "samples"
    for name in sorted({arguments.split()[0] for arguments, _ in _RUNS}):
        go.run("build", "-o", str(go.folder / name), str(folder / f"{name}.go"))
    with served(cache, queues) as (_, settings):
        for arguments, expected in _RUNS:
            name, *rest = arguments.split()
            code, said = ran([str(go.folder / name), *rest], go.folder, settings)
            yield name, "" if code is not None and all(words in said for words in expected) else _why(said)


def exporter(cache: Path, queues: Path) -> Iterator[tuple[str, str]]:
    """Yield figures of mq_prometheus that agree with the queue, or the difference. Raises `MissingError`."""
    go = _Go(cache, "exporter", (_EXPORTER, _LIBRARY))
    program = go.folder / "mq_prometheus"
    go.downloaded(_EXPORTER, f"{_EXPORTER}/cmd/mq_prometheus")
    go.run("build", "-o", str(program), f"{_EXPORTER}/cmd/mq_prometheus")
    with served(cache, queues) as (queue_manager, settings):
        connection = queue_manager.connect()
        put = partial(connection.put1, "DEV.QUEUE.1", MessageDescriptor(), b"12345", PutOption.NO_SYNCPOINT)
        put()
        configuration = Path(settings["HOME"]) / "exporter.yaml"
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        configuration.write_text(_CONFIGURATION % port, encoding="utf-8")
        running = subprocess.Popen([str(program), "-f", str(configuration)], env=settings)
        try:
            _scraped(port, lambda figures: "queue_depth" in figures)
            for _ in range(3):
                put()
            handle = connection.open("DEV.QUEUE.1", OpenOption.INPUT_SHARED)
            connection.get(handle, GetOptions(options=GetOption.NO_SYNCPOINT))
            expected = {
                "queue_depth": 3, "queue_input_handles": 1, "queue_mqput_mqput1_count": 3, "queue_mqput_bytes": 15,
                "queue_mqget_count": 1, "queue_mqget_bytes": 5,
            }  # fmt: skip
            figures = _scraped(port, lambda figures: all(figures.get(name, 0) >= value for name, value in expected.items()))
        finally:
            running.terminate()
            running.wait()
        for name, value in expected.items():
            yield name, "" if figures.get(name) == value else f"{figures.get(name)}, and the queue has {value}"


def _scraped(port: int, is_enough: Callable[[Mapping[str, float]], bool]) -> dict[str, float]:
    """Read the page of the exporter each second, until it is enough or a minute is over. Return its figures of the queue.

    Each page counts the calls since the page before, so the counts of all pages are added.
    """
    figures: dict[str, float] = {}
    pause = threading.Event()
    for _ in range(60):
        pause.wait(1)
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as page:
                found = {name: float(value) for name, value in _FIGURES.findall(page.read().decode())}
        except OSError:
            continue
        counts = {name: figures.get(name, 0) + value for name, value in found.items() if name.startswith("queue_mq")}
        figures |= found | counts
        if is_enough(figures):
            break
    return figures


class _Go:
    """A module that requires modules of others, in a folder of its own. Go compiles their programs there."""

    def __init__(self, cache: Path, name: str, modules: Sequence[str]) -> None:
        kit, go = development_kit(cache), shutil.which("go")
        if go is None:
            raise MissingError("It needs Go and gcc: install them, and try again.")
        self._go = go
        self.folder = (cache / "go" / name).resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        required = "".join(f"require {module} {_VERSIONS[module]}\n" for module in modules)
        (self.folder / "go.mod").write_text(f"module strangers\n\ngo 1.24.0\n\n{required}", encoding="utf-8")
        # Without optimization, the compiler needs a fifth less time for the standard library.
        self._settings = os.environ | {
            "CGO_CFLAGS": f"-I{kit / 'inc'}",
            "CGO_LDFLAGS": f"-L{kit / 'lib64'}",
            "GOFLAGS": "-mod=mod -buildvcs=false '-gcflags=all=-N -l'",
            "GOTOOLCHAIN": "local",
        }

    def downloaded(self, module: str, *packages: str) -> Path:
        """Download what these packages need. Return the folder of the module. Raises `MissingError` if that fails."""
        self._called(MissingError, {}, "list", "-deps", *packages)
        return Path(self._called(MissingError, {}, "list", "-m", "-f", "{{.Dir}}", module).strip())

    def run(self, *arguments: str) -> None:
        """Compile without the network. A failure is ours: it is an `AssertionError`."""
        self._called(AssertionError, {"GOPROXY": "off"}, *arguments)

    def _called(self, failure: type[Exception], settings: dict[str, str], *arguments: str) -> str:
        command = [self._go, *arguments]
        done = subprocess.run(
            command, cwd=self.folder, env=self._settings | settings, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise failure(f"go {arguments[0]} failed: {done.stderr.strip()[-300:]}")
        return done.stdout


def _why(said: str) -> str:
    """Return the first words of the output about an error, or its last line."""
    found = re.search(r"Error:\s+(.+)|(MQRC_\w+)|(panic: .+)", said)
    return found.group(0).strip() if found else (said.strip().splitlines() or ["it said nothing"])[-1]
