"""A Java program with IBM's JMS classes, which runs our scenarios one after the other, and the queue manager that it uses.

The classes come from Maven Central once, under IBM's licence for them, and are no part of this project. Knows the lines that
the program reads and writes, but no scenario.
"""

import contextlib
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Protocol

import pytest
from msgspec import Struct

__all__ = ("CACHE", "MQSC", "ClassPaths", "Program", "Scenario", "changed", "class_paths", "note")

HERE = Path(__file__).parent / "java"
CACHE = Path(__file__).parents[3] / ".cache" / "jms"
MQSC = """
DEFINE QLOCAL(Q1)
DEFINE QLOCAL(OUT)
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
#: Less than the time limit of a test, also on a busy machine.
_SCENARIO_S = 240.0
#: The classes for Jakarta Messaging differ in these names only, so the same scenarios use them.
_JAKARTA_NAMES = {
    "javax.jms": "jakarta.jms",
    "com.ibm.msg.client.jms": "com.ibm.msg.client.jakarta.jms",
    "com.ibm.msg.client.wmq": "com.ibm.msg.client.jakarta.wmq",
    "WMQConstants.WMQ_PROVIDER": "WMQConstants.JAKARTA_WMQ_PROVIDER",
}
_NOT_IN_JAKARTA = {"Main.java", "Frameworks.java"}


class Scenario(Protocol):
    """Runs a scenario, and returns the lines of its output."""

    def __call__(self, name: str, password: str = ..., *, stop: Callable[[], None] | None = ...) -> list[str]: ...


class ClassPaths(Struct, frozen=True):
    """The class paths of the program, and of the scenarios with IBM's classes for Jakarta Messaging."""

    program: str
    jakarta: tuple[str, ...]


def class_paths() -> ClassPaths:
    """Return the class paths of IBM's classes and of our compiled scenarios. Skips without a JDK, Maven or the classes."""
    if not all(shutil.which(program) for program in ("mvn", "javac", "java")):
        pytest.skip("there is no JDK with Maven to run IBM's JMS classes: apt-get install openjdk-17-jdk-headless maven")
    jars, compiled, pom = CACHE / "jars", CACHE / "classes", HERE / "pom.xml"
    if changed(jars, pom.read_text("utf-8")):
        shutil.rmtree(jars, ignore_errors=True)
        options = [f"-DoutputDirectory={jars}", "-Dmdep.useSubDirectoryPerScope=true"]
        command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", *options]
        try:
            subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
        except subprocess.SubprocessError as error:
            pytest.skip(f"there is no copy of IBM's JMS classes, and Maven cannot fetch one: {error}")
        note(jars, pom.read_text("utf-8"))
    apart = (compiled / "jakarta", *sorted((jars / "runtime").glob("*.jar")), *_of_both_clients(jars / "compile"))
    paths = ClassPaths(f"{compiled}:{jars}/compile/*", tuple(map(str, apart)))
    sources = {source.name: source.read_text("utf-8") for source in sorted(HERE.glob("*.java"))}
    cause = "".join((*sources.values(), *_JAKARTA_NAMES.values()))
    if changed(compiled, cause):
        _compile(sources, compiled, f"{jars}/compile/*")
        renamed = {name: text for name, text in sources.items() if name not in _NOT_IN_JAKARTA}
        for javax, jakarta in _JAKARTA_NAMES.items():
            renamed = {name: text.replace(javax, jakarta) for name, text in renamed.items()}
        _compile(renamed, compiled / "jakarta", f"{jars}/runtime/*")
        note(compiled, cause)
    return paths


def _of_both_clients(jars: Path) -> list[Path]:
    """Return the jars that both clients use: they have no class of JMS."""
    return [jar for pattern in ("bc*.jar", "json-*.jar") for jar in jars.glob(pattern)]


def _compile(sources: dict[str, str], compiled: Path, jars: str) -> None:
    """Compile copies of these sources."""
    copies = compiled / "sources"
    copies.mkdir(parents=True, exist_ok=True)
    for name, text in sources.items():
        (copies / name).write_text(text, "utf-8")
    command = ["javac", "-nowarn", "-Xlint:none", "-cp", jars, "-d", str(compiled)]
    subprocess.run([*command, *(str(copies / name) for name in sources)], check=True, capture_output=True, timeout=120)


def changed(folder: Path, cause: str) -> bool:
    """Return whether a folder was made for another cause, or not at all."""
    made_for = folder / "made-for"
    return not made_for.exists() or made_for.read_text("utf-8") != cause


def note(folder: Path, cause: str) -> None:
    """Keep the cause for which a folder was made."""
    (folder / "made-for").write_text(cause, "utf-8")


class Program:
    """The Java program. A scenario that takes much too long ends the program, and fails. The next one starts it again."""

    def __init__(self, paths: ClassPaths, folder: Path) -> None:
        # Few processors and no second compiler: the program starts sooner, and leaves the processors to the other tests.
        options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", f"-Duser.dir={folder}"]
        self._command = ["java", *options, "-cp", paths.program, "Main", *paths.jakarta]
        self._folder = folder
        self._process = self._started()

    def _started(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            encoding="utf-8", cwd=self._folder,
        )  # fmt: skip

    def run(self, port: int, user: str, password: str, scenario: str, stop: Callable[[], None] | None = None) -> list[str]:
        """Run the scenario; return the lines of its output. When the program says "stop", call `stop`, and tell it to go on."""
        if self._process.poll() is not None:
            self._output.close()
            with contextlib.suppress(BrokenPipeError):
                self._input.close()
            self._process = self._started()
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
