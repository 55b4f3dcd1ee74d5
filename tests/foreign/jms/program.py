"""A Java program with IBM's JMS classes, which runs our scenarios one after the other, and the queue manager that it uses.

The classes come from Maven Central once, under IBM's licence for them, and are no part of this project. Knows the lines that
the program reads and writes, but no scenario.
"""

import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Protocol

import pytest

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.options import GetOption, OpenOption
from mqflow.verbs import GetOptions, Got

__all__ = ("MQSC", "Program", "Scenario", "class_path", "messages")

HERE = Path(__file__).parent
CACHE = Path(__file__).parents[3] / ".cache" / "jms"
MQSC = """
DEFINE QLOCAL(Q1)
DEFINE QLOCAL(BOQ)
DEFINE QLOCAL(DLQ)
DEFINE QLOCAL(ONE) MAXDEPTH(1)
DEFINE QLOCAL(FULL) MAXDEPTH(0)
DEFINE QLOCAL(SMALL) MAXMSGL(4000)
DEFINE QLOCAL(CLOSED) GET(DISABLED) PUT(DISABLED)
DEFINE QLOCAL(DEAD) BOTHRESH(2)
DEFINE QLOCAL(POISON) BOTHRESH(2) BOQNAME(BOQ)
DEFINE TOPIC(ALL) TOPICSTR('delayed/all') PMSGDLV(ALLAVAIL) NPMSGDLV(ALLAVAIL)
DEFINE TOPIC(DURONLY) TOPICSTR('durable/only') PMSGDLV(ALLDUR)
ALTER QMODEL(SYSTEM.DURABLE.MODEL.QUEUE) BOTHRESH(2) BOQNAME(BOQ)
ALTER QMGR DEADQ(DLQ)
"""
_BROWSE = GetOptions(options=GetOption.BROWSE_NEXT | GetOption.NO_SYNCPOINT | GetOption.PROPERTIES_FORCE_MQRFH2)
_SCENARIO_S = 60.0


class Scenario(Protocol):
    """Runs a scenario, and returns the lines of its output."""

    def __call__(self, name: str, password: str = ...) -> list[str]: ...


def class_path() -> str:
    """Return the class path of IBM's classes and of our compiled scenarios. Skips without a JDK, Maven or the classes."""
    if not all(shutil.which(program) for program in ("mvn", "javac", "java")):
        pytest.skip("there is no JDK with Maven to run IBM's JMS classes: apt-get install openjdk-17-jdk-headless maven")
    jars, compiled = CACHE / "jars", CACHE / "classes"
    if not tuple(jars.glob("com.ibm.mq.allclient-*.jar")):
        command = ["mvn", "-q", "-B", "-f", str(HERE / "pom.xml"), "dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
        try:
            subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
        except subprocess.SubprocessError as error:
            pytest.skip(f"there is no copy of IBM's JMS classes, and Maven cannot fetch one: {error}")
    sources = sorted(HERE.glob("*.java"))
    stamp = compiled / "newest"
    newest = str(max(source.stat().st_mtime_ns for source in sources))
    if not stamp.exists() or stamp.read_text() != newest:
        compiled.mkdir(parents=True, exist_ok=True)
        command = ["javac", "-nowarn", "-Xlint:none", "-cp", f"{jars}/*", "-d", str(compiled), *map(str, sources)]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        stamp.write_text(newest)
    return f"{compiled}:{jars}/*"


class Program:
    """The Java program. A scenario that takes longer than a minute ends the program, and its test fails."""

    def __init__(self, classes: str, folder: Path) -> None:
        # Few processors and no second compiler: the program starts sooner, and leaves the processors to the other tests.
        options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", f"-Duser.dir={folder}"]
        self._process = subprocess.Popen(
            ["java", *options, "-cp", classes, "Scenarios"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            cwd=folder,
        )

    def run(self, port: int, user: str, password: str, scenario: str, stop: Callable[[], None] | None = None) -> list[str]:
        """Run the scenario; return the lines of its output. When the program says "stop", call `stop`, and tell it to go on."""
        guard = threading.Timer(_SCENARIO_S, self._process.kill)
        guard.start()
        try:
            self._input.write(f"{port} {user} {password} {scenario}\n")
            self._input.flush()
            lines: list[str] = []
            for line in self._output:
                lines.append(line.removesuffix("\n"))
                if lines[-1] == "end":
                    return lines
                if lines[-1] == "stop" and stop is not None:
                    stop()
                    self._input.write("go\n")
                    self._input.flush()
        finally:
            guard.cancel()
        raise AssertionError(f"the Java program ended in {scenario} after {lines}")

    def close(self) -> None:
        """End the program."""
        self._input.close()
        self._process.wait(timeout=120)
        self._output.close()

    @property
    def _input(self) -> IO[str]:
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def _output(self) -> IO[str]:
        assert self._process.stdout is not None
        return self._process.stdout


def messages(queue_manager: EmbeddedQueueManager, queue: str) -> list[Got]:
    """Return the messages of a queue, which stay there."""
    connection = queue_manager.connect()
    found = connection.get_many(connection.open(queue, OpenOption.BROWSE), _BROWSE, 100)
    connection.disconnect()
    return found
