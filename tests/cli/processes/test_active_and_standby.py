"""The two processes of one data folder: which starts, which is started again, in which order they end, and what is printed.

A small script of the shell stands for each process. It owns the folder if no other process owns it, and stands by otherwise.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from mqflow.cli.processes import active_and_standby, child_process
from mqflow.cli.processes.active_and_standby import ActiveAndStandby
from mqflow.cli.processes.child_process import parent_pipe
from mqflow.cli.text.exit_codes import EXIT_ORDERED
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore

#: The processes have numbers, in the order of their starts. Number N ends with the code in the file orderN.
PROCESS = """#!/bin/sh
n=1; while ! mkdir $n 2>/dev/null; do n=$((n + 1)); done
echo "$@" > $n/arguments; echo "$SHOP" > $n/environment; echo $$ > pid$n
is() { cmp -s pid$n $1; }
leave() { is standby && rm standby; is owner && { mv standby owner 2>/dev/null || rm owner; }; echo "$n ends" > log; exit $1; }
trap 'echo "$n must end" > log; [ -e stubborn ] || leave 0' TERM
[ -e fails ] && exit 5
[ -e slow ] && { echo "$n begins" > log; sleep 0.05; echo "$n goes on" > log; }
role=owner; ln pid$n owner 2>/dev/null || { role=standby; ln -f pid$n standby; }
[ $role = owner ] && { sleep 0.01; : > served; }
echo "$n is $role" > log
turn=0
while [ $((turn += 1)) -lt 1000 ]; do
    [ -e order$n ] && leave $(cat order$n)
    [ $role = standby ] && is owner && { role=owner; echo "$n is owner" > log; }
    sleep 0.005
done
leave 9
"""
_PATIENCE_S = 14.0
#: So many looks, two after each pause, take longer than the patience.
_POLLS_MAX = 20_000


class Log:
    """The lines that the processes write, in their order."""

    def __init__(self) -> None:
        os.mkfifo("log")
        self._pipe = os.open("log", os.O_RDWR | os.O_NONBLOCK)
        self._lines: list[str] = []

    async def until(self, *lines: str) -> None:
        while not set(lines) <= set(self.lines()):
            await anyio.wait_readable(self._pipe)

    @contextmanager
    def until_next(self, _seconds: float) -> Iterator[anyio.CancelScope]:
        """Give a block up as soon as there is a line that nobody has read: in the place of `move_on_after`."""
        loop = asyncio.get_running_loop()
        with anyio.CancelScope() as scope:
            loop.add_reader(self._pipe, scope.cancel)
            try:
                yield scope
            finally:
                loop.remove_reader(self._pipe)
                self.lines()

    def lines(self) -> list[str]:
        with suppress(BlockingIOError):
            self._lines += os.read(self._pipe, 65_536).decode().splitlines()
        return self._lines

    def close(self) -> None:
        os.close(self._pipe)


@pytest.fixture
def log(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    """Make the script stand for Python, in a folder of its own; give the log of the processes."""
    monkeypatch.chdir(tmp_path_factory.mktemp("p"))
    script = Path("python").resolve()
    script.write_text(PROCESS)
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    polls = count()
    monkeypatch.setattr(child_process, "_FIRST_DELAY_S", 0.01)
    monkeypatch.setattr(active_and_standby, "_POLL_S", 0.002)
    monkeypatch.setattr(active_and_standby, "owner_pid", lambda _: polled("owner", polls))
    monkeypatch.setattr(active_and_standby, "standby_pid", lambda _: polled("standby", polls))
    monkeypatch.setattr(active_and_standby, "is_served", is_served)
    log = Log()
    yield log
    log.close()


def pid(file: str) -> int | None:
    try:
        return int(Path(file).read_text())
    except FileNotFoundError:
        return None


def polled(file: str, polls: Iterator[int]) -> int | None:
    assert next(polls) < _POLLS_MAX, "a wait polls without a pause"
    return pid(file)


def is_served(_: object = None) -> bool:
    return Path("served").exists()


def touch(file: str) -> None:
    Path(file).touch()


def is_free() -> bool:
    """Return whether the folder has a queue manager QM1 that no process has open."""
    EmbeddedQueueManager("QM1", store=SqliteStore(Path("qm").resolve(), create=False)).close()
    return True


def order(number: int, code: int) -> None:
    """Make the process with this number end with this code."""
    Path("ordered").write_text(str(code))
    Path("ordered").rename(f"order{number}")


def runs(number: int) -> bool:
    """Return whether the process with this number runs."""
    try:
        os.kill(int(Path(f"pid{number}").read_text()), 0)
    except ProcessLookupError:
        return False
    return True


def serving(
    steps: Callable[[ActiveAndStandby], Awaitable[None]], ended: Callable[[], None] = lambda: None, *, stops: bool = False
) -> ActiveAndStandby:
    """Serve the folder while these steps happen; return the two processes after their end. `stops`: they must end at once."""
    pairs: list[ActiveAndStandby] = []

    async def main(lifeline: int) -> None:
        stopping = anyio.Event()
        if stops:
            stopping.set()
        pair = ActiveAndStandby("QM1", Path("qm"), lifeline, {"PATH": os.environ["PATH"], "SHOP": "books"}, ended)
        pairs.append(pair)
        with anyio.fail_after(_PATIENCE_S):
            async with pair.serve(stopping):
                await steps(pair)

    with parent_pipe() as lifeline:
        anyio.run(main, lifeline)
    return pairs[0]


def test_one_process_serves_a_new_folder_and_its_standby_ends_before_it(log: Log, capfd: pytest.CaptureFixture[str]) -> None:
    async def steps(pair: ActiveAndStandby) -> None:
        assert is_served()
        await log.until("2 is standby")
        assert (pid("pid1"), pid("pid1")) == (pair.active, os.getsid(pair.active))  # Ctrl-C does not reach it
        assert is_free()

    assert serving(steps).failed is None

    assert ["1 is owner", "2 is standby", "2 must end", "2 ends", "1 must end", "1 ends"] == log.lines()
    for number in "12":
        arguments, _, lifeline = Path(number, "arguments").read_text().strip().rpartition(" ")
        assert f"-m mqflow.cli qmgr serve QM1 --data {Path('qm').resolve()} --standby --lifeline" == arguments
        assert ("books\n", True) == (Path(number, "environment").read_text(), lifeline.isdecimal())
    assert ("", "") == capfd.readouterr()


@pytest.mark.parametrize(("dead", "role", "other"), [(1, "served", 2), (2, "stood by for", 1)])
def test_a_dead_process_is_replaced_by_a_standby(
    log: Log, capfd: pytest.CaptureFixture[str], dead: int, role: str, other: int
) -> None:
    async def steps(pair: ActiveAndStandby) -> None:
        await log.until("2 is standby")
        order(dead, 1)
        await log.until(f"{other} is owner", "3 is standby")
        assert pid(f"pid{other}") == pair.active
        order(3, 1)
        await log.until("4 is standby")

    serving(steps)

    assert ["4 must end", "4 ends", f"{other} must end", f"{other} ends"] == log.lines()[-4:]
    goes_on = f"process {pid(f'pid{other}')} goes on. Another process starts in"
    assert [
        f"Process {pid(f'pid{dead}')}, which {role} QM1, ended with 1; {goes_on} 0.01 s.",
        f"Process {pid('pid3')}, which stood by for QM1, ended with 1; {goes_on} 0.02 s.",
    ] == capfd.readouterr().err.splitlines()


def test_a_dead_process_served_the_folder_though_the_file_of_the_owner_still_names_it(
    log: Log, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The standby has the lock already, and writes its own process identifier a moment later."""
    monkeypatch.setattr(active_and_standby, "owner_pid", lambda _: pid("pid1"))

    async def steps(_: ActiveAndStandby) -> None:
        await log.until("2 is standby")
        order(1, 1)
        await log.until("2 is owner", "3 is standby")

    serving(steps)

    said = f"Process {pid('pid1')}, which served QM1, ended with 1; process {pid('pid2')} goes on. Another process starts in"
    assert said in capfd.readouterr().err


def test_a_cancelled_block_ends_both_processes(log: Log) -> None:
    async def main(lifeline: int) -> None:
        with anyio.CancelScope() as scope:
            async with ActiveAndStandby("QM1", Path("qm"), lifeline, os.environ, lambda: None).serve(anyio.Event()):
                await log.until("2 is standby")
                scope.cancel()
                await anyio.sleep_forever()

    with parent_pipe() as lifeline:
        anyio.run(main, lifeline)

    assert ["2 must end", "2 ends", "1 must end", "1 ends"] == log.lines()[2:]


def test_two_dead_processes_start_again_one_after_the_other(log: Log) -> None:
    """If both started at the same time, both would stand by."""

    async def steps(_: ActiveAndStandby) -> None:
        await log.until("2 is standby")
        touch("slow")
        order(1, 1)
        order(2, 1)
        await log.until("4 begins")

    serving(steps)

    assert ["3 begins", "3 goes on", "4 begins"] == [line for line in log.lines() if line.endswith(("begins", "goes on"))][:3]


def test_no_process_starts_during_the_end(log: Log, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(child_process, "_FIRST_DELAY_S", 60.0)
    said: list[str] = []

    async def steps(_: ActiveAndStandby) -> None:
        await log.until("2 is standby")
        for number in (2, 1):
            order(number, 1)
            while len(said) < 3 - number:
                said.extend(capfd.readouterr().err.splitlines())
                await anyio.lowlevel.checkpoint()

    serving(steps)

    first, second = (pid(f"pid{number}") for number in (1, 2))
    assert [
        f"Process {second}, which stood by for QM1, ended with 1; process {first} goes on. Another process starts in 60 s.",
        f"Process {first}, which served QM1, ended with 1; no process serves it now. Another process starts in 60 s.",
    ] == said
    assert ["1 is owner", "2 is standby", "2 ends", "1 ends"] == log.lines()


def test_the_order_of_an_operator_is_passed_on_once_and_no_process_starts_again(
    log: Log, capfd: pytest.CaptureFixture[str]
) -> None:
    calls: list[str] = []

    async def steps(_: ActiveAndStandby) -> None:
        await log.until("2 is standby")
        order(2, EXIT_ORDERED)
        while not calls:
            await anyio.lowlevel.checkpoint()
        order(1, EXIT_ORDERED)

    serving(steps, lambda: calls.append("ended"))

    assert ["ended"] == calls
    # The active process ends as the operator has ordered: it is not told to end at once.
    assert (["1 is owner", "2 is standby", "2 ends", "1 ends"], ("", "")) == (log.lines(), capfd.readouterr())


@pytest.mark.parametrize(("stops", "failed"), [(False, 5), (True, None)])
def test_without_a_first_process_there_is_no_standby(log: Log, *, stops: bool, failed: int | None) -> None:
    """The first process fails, or a signal comes before it serves the folder."""
    Path("slow" if stops else "fails").touch()
    seen: list[int | None] = []

    async def steps(pair: ActiveAndStandby) -> None:
        seen.append(pair.failed)

    serving(steps, stops=stops)

    assert ([failed], False) == (seen, Path("2").exists())
    assert "2 begins" not in log.lines()


@pytest.mark.parametrize("has_standby", [False, True])
def test_both_processes_stand_by_for_the_active_process_of_another_command_and_behind_its_standby(
    log: Log, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *, has_standby: bool
) -> None:
    """This command must not wait until the other one ends."""
    Path("owner").write_text("1")
    Path("served").touch()
    if has_standby:
        monkeypatch.setattr(active_and_standby, "standby_pid", lambda _: 77)

    async def steps(pair: ActiveAndStandby) -> None:
        assert (1, None) == (pair.active, pair.failed)
        await log.until("1 is standby", "2 is standby")
        order(1, 1)
        await log.until("3 is standby")

    serving(steps)

    assert ["3 must end", "3 ends", "2 must end", "2 ends"] == log.lines()[4:]
    assert (
        f"Process {pid('pid1')}, which stood by for QM1, ended with 1; process 1 goes on. Another process starts in 0.01 s.\n"
    ) == capfd.readouterr().err


def test_a_process_that_does_not_end_is_killed(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time that a process has to end is over as soon as the process has said that it must end."""
    monkeypatch.setattr("mqflow.cli.processes.active_and_standby.anyio.move_on_after", log.until_next)

    async def steps(_: ActiveAndStandby) -> None:
        await log.until("2 is standby")
        touch("stubborn")
        assert runs(1)
        assert runs(2)

    serving(steps)

    assert ["1 is owner", "2 is standby", "2 must end", "1 must end"] == log.lines()
    assert (False, False) == (runs(1), runs(2))
