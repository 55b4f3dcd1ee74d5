"""Runs programs of other projects for IBM MQ on the stand-in library, unmodified, and reports the results.

`python -m tests.foreign [CHECK ...]` runs the suites and the examples of pymqi and ibmmq, and programs by others that use these
packages. It also runs a monitor, the samples of the npm package ibmmq, and programs in Go. This repository keeps none of their
files. Packages come from the package indexes, suites and examples from their public repositories at the commits below. All go
into `.cache/foreign`, which is used again. A failure is ours to fix unless `theirs` excuses it.
"""

import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from msgspec import Struct

from mqflow.standin.library.development_kit import write_kit
from tests.foreign import go_programs, languages, node_samples
from tests.foreign.serving import MissingError, channel_program, served_at
from tests.foreign.theirs import ENDLESS, THEIRS

__all__ = ("CHECKS", "Outcome", "main", "prepare", "table")

ROOT: Final = Path(__file__).parents[2]
CACHE: Final = ROOT / ".cache" / "foreign"
PROGRAMS: Final = Path(__file__).with_name("programs")
QUEUES: Final = PROGRAMS / "queues.mqsc"
SOURCES: Final = {
    "pymqi": ("https://github.com/dsuch/pymqi", "16184a62f368fde6eaa17d80c818be1b2d4bdbe9"),
    "mq-mqi-python": ("https://github.com/ibm-messaging/mq-mqi-python", "e35541ae87939466095ddb0e608c5b4dcd74b77c"),
    "mq-dev-patterns": ("https://github.com/ibm-messaging/mq-dev-patterns", "bfff4419d60593f8d7b4f38e109628ba33ffc77d"),
}
PACKAGES: Final = {
    "packages": ("pymqi==1.12.13", "ibmmq==2.1.2", "ddt==1.7.2", "mock==5.2.0", "pytest>=8.3", "pytest-timeout>=2.3",
        "testfixtures==12.4.0", "faststream-mq==0.3.0", "robotframework==7.5", "robotframework-ibmmq==0.1.4",
        "stream-pymqi==0.1.0", "beautifultable==0.8.0", "python-slugify==9.2.0"),
    "airflow": ("apache-airflow-providers-ibm-mq[ibmmq]==0.1.0",),
}  # fmt: skip
# It wants an older pymqi, and needs none.
_WITHOUT_WHAT_THEY_WANT: Final = {"packages": ("punch-q==1.3.1",), "airflow": ()}
# ibmmq makes spans wherever OpenTelemetry is installed, as it is beside mqflow. ibmmq's code for spans compares text with
# bytes when an MQRFH2 is put. And it gets with a message handle by an MQGMO that has no place for one.
_NO_SPANS: Final = {"MQIPY_NOOTEL": "1"}
_ENDLESS_S: Final = 5
_LONGEST_S: Final = 300


class Outcome(Struct, frozen=True):
    """The result of one test, example or program."""

    check: str
    name: str
    #: "passed", "failed" or "skipped".
    verdict: str
    why: str = ""

    @property
    def theirs(self) -> str:
        """The reason why a failure is not ours to fix; empty if it is ours."""
        return THEIRS.get((self.check, self.name), "") if self.verdict == "failed" else ""


def prepare(environment: str) -> Path:
    """Return the Python of a virtual environment with the packages, and with mqflow from this folder."""
    folder = CACHE / environment
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        venv.create(folder, with_pip=True, clear=True)
        kit = CACHE / "kit"
        write_kit(kit)
        install = [str(python), "-m", "pip", "install", "--quiet", "--no-binary", "pymqi"]
        settings = os.environ | {"MQ_FILE_PATH": str(kit)}
        _fetch([*install, "--editable", str(ROOT), *PACKAGES[environment]], settings)
        for package in _WITHOUT_WHAT_THEY_WANT[environment]:
            _fetch([*install, "--no-deps", package], settings)
        (folder / "ready").touch()
    return python


def source(name: str) -> Path:
    """Return the folder with the public repository, at the pinned commit."""
    url, commit = SOURCES[name]
    folder = CACHE / name
    if not folder.exists():
        _fetch(["git", "clone", "--quiet", url, str(folder)])
    _fetch(["git", "-C", str(folder), "checkout", "--quiet", commit])
    return folder


def _fetch(command: Sequence[str], settings: Mapping[str, str] | None = None) -> None:
    """Run a command that fetches. Raises `MissingError` with its last line if it fails."""
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines()
        raise MissingError(f"{' '.join(command[:3])} failed: {said[-1] if said else 'without a word'}")


def compiled(check: str, results: Iterable[tuple[str, str]]) -> Iterator[Outcome]:
    """Run programs with compiled code: the names, each with the reason of its failure or an empty text."""
    for name, why in results:
        yield Outcome(check, name, "failed" if why else "passed", why)


def suite(check: str, repository: str) -> Iterator[Outcome]:
    """Run the tests of a package."""
    folder = source(repository) / "code" / "tests"
    with tempfile.TemporaryDirectory() as reports:
        report = Path(reports) / "report.xml"
        _run([str(prepare("packages")), "-m", "tests.foreign.inside", "suite", str(folder), str(report)], _LONGEST_S)
        for case in ET.parse(report).iter("testcase"):  # noqa: S314 - pytest wrote it, just now
            name = f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name')}"
            yield _verdict(check, name, [*case.findall("failure"), *case.findall("error")], case.findall("skipped"))


def _verdict(check: str, name: str, failures: Sequence[ET.Element], skips: Sequence[ET.Element]) -> Outcome:
    if failures:
        return Outcome(check, name, "failed", failures[0].get("message", ""))
    return Outcome(check, name, "skipped", skips[0].get("message", "")) if skips else Outcome(check, name, "passed")


def examples(check: str, repository: str) -> Iterator[Outcome]:
    """Run the examples of a package, each on a queue manager of its own."""
    python = prepare("packages")
    for file in sorted((source(repository) / "code" / "examples").glob("*.py")):
        endless = (check, file.name) in ENDLESS
        command = [str(python), "-m", "tests.foreign.inside", "example", str(file)]
        yield _ended(check, file.name, *_run(command, _ENDLESS_S if endless else 60), endless=endless)


def program(
    check: str, environment: str, *command: str, url: str = "embedded::memory:?qmgr=QM1", place: str = ""
) -> Iterator[Outcome]:
    """Run a program of ours that uses a package of another project, as a user of the stand-in runs it.

    With `place`, a queue manager is served at this URL; otherwise the program has a queue manager of its own, in memory.
    """
    python = prepare(environment)
    queues = () if place else ("--mqsc", str(QUEUES))
    run = [str(python.with_name("mqflow")), "standin", "run", "--url", url, *queues, "--"]
    ended = _run([*run, str(python), *command[:-1], str(PROGRAMS / command[-1])], 120)
    yield _ended(check, f"{command[-1]}{place}", *ended)


def in_both_places(check: str, environment: str, command: str) -> Iterator[Outcome]:
    """Run a program of ours with a queue manager in its process, and with a served one, to which a channel program connects."""
    yield from program(check, environment, command)
    with served_at(QUEUES) as (queue_manager, url), channel_program(queue_manager):
        yield from program(check, environment, command, url=url, place=", served")


def patterns(check: str) -> Iterator[Outcome]:
    """Run IBM's patterns for developers. They have a process each, so the queue manager is in none of them."""
    source("mq-dev-patterns")
    with served_at(QUEUES) as (_, url):
        yield from program(check, "packages", "patterns.py", url=url, place=", served")


def _run(command: Sequence[str], longest_s: int) -> tuple[int | None, str]:
    """Return the exit code, or None after a timeout, and the last line of the output."""
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=os.environ | _NO_SPANS, capture_output=True, text=True, timeout=longest_s, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return None, f"it was ended after {longest_s} s"
    said = (done.stdout + done.stderr).strip().splitlines()
    return done.returncode, said[-1] if said else ""


def _ended(check: str, name: str, code: int | None, said: str, *, endless: bool = False) -> Outcome:
    well = code is None if endless else code == 0
    return Outcome(check, name, "passed" if well else "failed", "" if well else said)


Check = Callable[[], Iterable[Outcome]]
CHECKS: Final[dict[str, Check]] = {
    "pymqi": partial(suite, "pymqi", "pymqi"), "ibmmq": partial(suite, "ibmmq", "mq-mqi-python"),
    "pymqi-examples": partial(examples, "pymqi-examples", "pymqi"),
    "ibmmq-examples": partial(examples, "ibmmq-examples", "mq-mqi-python"),
    "mq-dev-patterns": partial(patterns, "mq-dev-patterns"),
    "faststream-mq": partial(program, "faststream-mq", "packages", "faststream_app.py"),
    "punch-q": partial(program, "punch-q", "packages", "punch.py"),
    "stream-pymqi": partial(program, "stream-pymqi", "packages", "stream_app.py"),
    "robotframework-ibmmq": partial(program, "robotframework-ibmmq", "packages", "-m", "robot", "--output=NONE",
        "--report=NONE", "--log=NONE", "messages.robot"),
    "npm-ibmmq": lambda: compiled("npm-ibmmq", node_samples.samples(CACHE, QUEUES)),
    "jms20": lambda: compiled("jms20", go_programs.jms20(CACHE, QUEUES)),
    "go-samples": lambda: compiled("go-samples", go_programs.samples(CACHE, QUEUES)),
    "mq_prometheus": lambda: compiled("mq_prometheus", go_programs.exporter(CACHE, QUEUES)),
    "perl": lambda: compiled("perl", languages.language("perl", CACHE, QUEUES)),
    "csharp": lambda: compiled("csharp", languages.language("csharp", CACHE, QUEUES)),
    "monitor": partial(in_both_places, "monitor", "packages", "monitor.py"),
    "datadog": partial(in_both_places, "datadog", "packages", "datadog.py"),
    "airflow": partial(program, "airflow", "airflow", "airflow_hook.py"),
}  # fmt: skip
"""The checks, by name."""


def table(outcomes: Sequence[Outcome]) -> str:
    """Return the outcomes as Markdown: a row for each check, and a line for each failure."""
    lines = [
        "| program or test suite | passed | skipped | fails because of the program | fails because of mqflow |",
        "|---|---|---|---|---|",
    ]
    for check in dict.fromkeys(each.check for each in outcomes):
        of_check = [each for each in outcomes if each.check == check]
        verdicts = [each.verdict for each in of_check]
        theirs = sum(bool(each.theirs) for each in of_check)
        ours = verdicts.count("failed") - theirs
        lines.append(f"| {check} | {verdicts.count('passed')} | {verdicts.count('skipped')} | {theirs} | {ours} |")
    failed = [each for each in outcomes if each.verdict == "failed"]
    lines += ["", *(f"- {each.check}, {each.name}: {each.theirs or 'OURS: ' + each.why}" for each in failed)]
    return "\n".join(lines)


def main(names: Sequence[str]) -> int:
    """Run the checks. Return 1 if a failure is ours, and 2 if a check cannot run here or does not exist."""
    if strangers := [name for name in names if name not in CHECKS]:
        sys.stderr.write(f"There is no {', '.join(strangers)}. The checks are {', '.join(CHECKS)}.\n")
        return 2
    outcomes: list[Outcome] = []
    missing = False
    for name in names or CHECKS:
        sys.stderr.write(f"running {name}\n")
        try:
            outcomes += CHECKS[name]()
        except MissingError as error:
            sys.stderr.write(f"{name} cannot run here: {error}\n")
            missing = True
    sys.stdout.write(table(outcomes) + "\n")
    ours = any(each.verdict == "failed" and not each.theirs for each in outcomes)
    return 1 if ours else 2 if missing else 0
