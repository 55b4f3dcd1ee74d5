"""Plants many defects in one process of pytest: a child for each defect has the changed functions, and runs its tests.

It is a plugin of pytest. `pytest -p tests.planting.forking TESTS` collects the tests once, and forks for each defect that the
file of the variable PLANT_TASKS names. It writes a line of JSON for each defect to the file of PLANT_SAID.
Meanwhile the file has the defect too, for programs that a test starts, and for modules that a test imports late. Values that
a module made when it was loaded stay as they are.
"""

import gc
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import CodeType, FunctionType
from typing import Final

import msgspec
import pytest
from _pytest.runner import runtestprotocol
from msgspec import Struct

from tests.planting.results import HUNG, NOTICED, SURVIVED
from tests.planting.running import busy_s, environment, rewrite

__all__ = ("Said", "Task", "plant_in_children")

#: A child that takes so many times the processor time of its tests hangs.
_TIMES: Final = 3
#: So does a child that runs, or waits for a processor, for less time than this in so many seconds.
_IDLE_S: Final = 15.0
_NOTHING_S: Final = 0.75
#: A defect can give a C library a wrong address. A run of all tests names the test in which its process crashed.
_CRASHES: Final = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL)


class Task(Struct, frozen=True):
    """One defect: the whole changed text of a source, and the tests that may notice the change, in their order."""

    name: str
    source: str
    text: str
    tests: Sequence[str]
    #: The processor time of these tests in seconds. Several times of it and `more_s` seconds are the limit of a child.
    cost_s: float
    more_s: float = 10.0

    @property
    def limit_s(self) -> float:
        return self.more_s + _TIMES * self.cost_s


class Said(Struct, frozen=True):
    """The result of one defect: NOTICED with the test, SURVIVED, or HUNG with the test that was running."""

    name: str
    said: str
    by: str
    seconds: float = 0.0


def plant_in_children(folder: Path, tasks: Sequence[Task]) -> Iterator[Said]:
    """Run the tests of these defects in the folder, and yield a result for each defect in order, as soon as it is known.

    A defect whose tests cannot be collected has no result.
    """
    with tempfile.TemporaryDirectory(prefix="plant-") as temporary:
        wanted, given = Path(temporary, "wanted"), Path(temporary, "tasks")
        wanted.write_text("\n".join(dict.fromkeys(test for task in tasks for test in task.tests)), "utf-8")
        given.write_bytes(msgspec.json.encode(tasks))
        reading, writing = os.pipe()  # a run that cannot collect its tests closes it
        # Each child empties this folder. Otherwise the files of all children would stay: no child ends as pytest does.
        options = ["-q", "-p", "no:cacheprovider", "-p", __name__, "-o", "timeout=0", f"--basetemp={temporary}/t"]
        command = [sys.executable, "-m", "pytest", *options, f"@{wanted}"]
        variables = environment(folder) | {"PLANT_TASKS": str(given), "PLANT_SAID": f"/dev/fd/{writing}"}
        with Path(temporary, "output").open("wb") as output:
            process = subprocess.Popen(
                command, cwd=folder, env=variables, stdout=output, stderr=subprocess.STDOUT, pass_fds=(writing,)
            )
            os.close(writing)
            with os.fdopen(reading, "rb") as lines:
                for line in lines:
                    yield msgspec.json.decode(line, type=Said)
            process.wait()


def pytest_runtestloop(session: pytest.Session) -> bool:
    """Run the tests of each defect in a child of its own, instead of all tests once."""
    tasks = msgspec.json.decode(Path(os.environ["PLANT_TASKS"]).read_bytes(), type=list[Task])
    items = defaultdict[str, list[pytest.Item]](list)
    for item in session.items:
        for name in (item.nodeid.partition("[")[0], item.nodeid.partition("::")[0]):
            items[name].append(item)
    functions = defaultdict[str, list[FunctionType]](list)
    gc.unfreeze()  # after the collection; `get_objects` leaves out what is frozen
    for each in gc.get_objects():
        if type(each) is FunctionType:
            functions[each.__code__.co_filename].append(each)
    gc.freeze()  # a collection in a child would copy the memory of all these objects
    with Path(os.environ["PLANT_SAID"]).open("wb", buffering=0) as said:
        for task in tasks:
            began = time.monotonic()
            source = Path(task.source)
            whole = source.read_text("utf-8")
            rewrite(source, task.text)
            try:
                result = _in_child(task, functions[task.source], [item for test in task.tests for item in items.get(test, [])])
            finally:
                rewrite(source, whole)
            if result.said == NOTICED and _in_child(_unchanged(task), [], items[result.by]).said == NOTICED:
                result = Said(task.name, SURVIVED, "")  # the test fails without the defect too
            result = msgspec.structs.replace(result, seconds=time.monotonic() - began)
            said.write(msgspec.json.encode(result) + b"\n")
    return True


def _unchanged(task: Task) -> Task:
    return msgspec.structs.replace(task, text=Path(task.source).read_text("utf-8"))


def _in_child(task: Task, functions: Sequence[FunctionType], items: Sequence[pytest.Item]) -> Said:
    """Fork, plant the defect in the child, and run the tests there until one fails."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _run(task, functions, items, writing)
    os.close(writing)
    text = _until_ended(reading, child)
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError):
            kill(child, signal.SIGKILL)
    crashed = os.WTERMSIG(os.waitpid(child, 0)[1]) in _CRASHES
    os.close(reading)
    *_begun, last = [line.split("\t") for line in text.splitlines()] or [["", ""]]
    if last[0] == "ended":
        return Said(task.name, last[1], last[2])
    return Said(task.name, NOTICED if crashed else HUNG, last[1] if len(last) > 1 else "")


def _until_ended(reading: int, child: int) -> str:
    """Return the lines that the child writes until it ends, or until it waits for too long."""
    data, busy = bytearray(), 0.0
    while b"ended\t" not in data:
        if select.select([reading], [], [], _IDLE_S)[0]:
            more = os.read(reading, 65536)
            if not more:
                break
            data += more
        else:
            before, busy = busy, busy_s(child)
            if abs(busy - before) < _NOTHING_S:
                break
    return data.decode()


def _run(task: Task, functions: Sequence[FunctionType], items: Sequence[pytest.Item], writing: int) -> None:
    """Run the tests with the defect, write what happened, and end the process."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (round(task.limit_s), round(task.limit_s)))
    for sink in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sink)

    def say(*words: str) -> None:
        os.write(writing, ("\t".join(words) + "\n").encode())

    running = ""
    try:
        _plant(task, functions)
        for item, following in zip(items, [*items[1:], None], strict=True):
            running = item.nodeid.partition("[")[0]
            say("begins", running)
            if any(report.failed for report in runtestprotocol(item, log=False, nextitem=following)):
                say("ended", NOTICED, running)
                break
        else:
            say("ended", SURVIVED, "")
    except BaseException:  # noqa: BLE001 - the defect ended the runner itself
        if running:
            say("ended", NOTICED, running)
    finally:
        os._exit(0)


def _plant(task: Task, functions: Sequence[FunctionType]) -> None:
    """Give each function of the source its changed code."""
    changed = compile(task.text, task.source, "exec", dont_inherit=True)
    codes = {(code.co_qualname, code.co_firstlineno): code for code in _codes(changed)}
    for function in functions:
        old = function.__code__
        new = codes.get((old.co_qualname, old.co_firstlineno))
        if new is not None and new.co_freevars == old.co_freevars:
            function.__code__ = new


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    yield from _all(_codes(each) for each in code.co_consts if isinstance(each, CodeType))


def _all(parts: Iterable[Iterator[CodeType]]) -> Iterator[CodeType]:
    for part in parts:
        yield from part
