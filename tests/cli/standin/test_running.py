"""`mqflow standin run` and the fixture `mq_standin`: unmodified programs and tests that know nothing of mqflow."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from tests.cli.conftest import Run
from tests.standin.harness import ROOT, environment

pytest_plugins = "pytester"
pytestmark = [pytest.mark.xdist_group("standin"), pytest.mark.sampled(1)]

LEGACY = """\
import sys
import {package} as mq
manager = mq.QueueManager(None)
manager.connect_with_options(b"QM1", opts=mq.CMQC.MQCNO_HANDLE_SHARE_BLOCK)
"""
DEFINITIONS = "DEFINE QLOCAL(Q) BOTHRESH(3)\n"


class Runner:
    """Runs `mqflow standin run` in a folder."""

    def __init__(self, folder: Path, package: str, search: list[str]) -> None:
        self.folder = folder
        self.package = package
        self._environment = environment(search)

    def run(self, program: str, *options: str, command: tuple[str, ...] = ()) -> "subprocess.CompletedProcess[str]":
        (self.folder / "legacy.py").write_text(LEGACY.format(package=self.package) + program)
        (self.folder / "queues.mqsc").write_text(DEFINITIONS)
        wanted = command or (sys.executable, "legacy.py")
        return subprocess.run(
            [sys.executable, "-c", "from mqflow.cli.main import main; main()", "standin", "run", *options, "--", *wanted],
            cwd=self.folder, env=self._environment, capture_output=True, text=True, check=False,
        )  # fmt: skip


@pytest.fixture
def runner(package_search: tuple[str, list[str]], tmp_path: Path) -> Runner:
    return Runner(tmp_path, *package_search)


IN_MEMORY = ("--url", "embedded::memory:?qmgr=QM1", "--mqsc", "queues.mqsc")
ON_DISK = ("--url", "embedded:data?qmgr=QM1")


def test_a_program_puts_and_gets_on_the_queues_that_were_defined_for_it(runner: Runner) -> None:
    program = 'manager.put1(b"Q", b"as it is")\nprint(mq.Queue(manager, "Q").get(), sys.argv)'

    ended = runner.run(program, *IN_MEMORY, command=(sys.executable, "legacy.py", "--mqsc", "-x"))

    assert (0, "b'as it is' ['legacy.py', '--mqsc', '-x']\n") == (ended.returncode, ended.stdout), ended.stderr


def test_the_end_of_a_program_backs_out_its_open_unit_of_work(runner: Runner) -> None:
    pmo = "mq.PMO(Options=mq.CMQC.MQPMO_SYNCPOINT)"
    persistent = "mq.MD(Persistence=1)"
    program = f'manager.put1(b"Q", b"kept", {persistent}, {pmo}); manager.commit()\n'
    program += f'manager.put1(b"Q", b"lost", {persistent}, {pmo})\n'

    ended = runner.run(program, *ON_DISK, "--mqsc", "queues.mqsc")

    assert 0 == ended.returncode, ended.stderr
    with EmbeddedQueueManager("QM1", store=SqliteStore(runner.folder / "data")) as queue_manager:
        assert 1 == queue_manager.administration.queue_status("Q").depth


def test_the_exit_code_is_that_of_the_program(runner: Runner) -> None:
    assert 7 == runner.run("sys.exit(7)", *IN_MEMORY).returncode


def test_a_program_runs_a_second_time_on_the_queues_that_are_there_since_the_first(runner: Runner) -> None:
    put = 'manager.put1(b"Q", b"kept", mq.MD(Persistence=1))\n'
    first = runner.run(put, *ON_DISK, "--mqsc", "queues.mqsc")

    second = runner.run('print(mq.Queue(manager, "Q").get())', *ON_DISK, "--mqsc", "queues.mqsc")

    assert (0, 0, "b'kept'\n") == (first.returncode, second.returncode, second.stdout), second.stderr
    assert "Q (QM1) failed: MQRC_OBJECT_ALREADY_EXISTS" in second.stderr
    assert "DEFINE ... REPLACE" in second.stderr


def test_the_sitecustomize_that_was_there_is_imported_as_well(runner: Runner) -> None:
    (runner.folder / "sitecustomize.py").write_text("import sys; sys.was_there = True")
    runner._environment["PYTHONPATH"] += f":{runner.folder}"

    ended = runner.run("print(sys.was_there)", *IN_MEMORY)

    assert "True\n" == ended.stdout, ended.stderr


def test_the_fixture_gives_a_test_the_queue_manager_that_its_program_reaches(
    package_search: tuple[str, list[str]], pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, search = package_search
    monkeypatch.setenv("PYTHONPATH", environment(search)["PYTHONPATH"])
    pytester.makepyfile(
        f"""
        import pytest

        @pytest.mark.parametrize("time", [1, 2])
        def test_it(mq_standin, time):
            import {name} as mq
            mq_standin.define("Q", bothresh=3)
            manager = mq.QueueManager(None)
            manager.connect_with_options(b"QM1", user="alice", password="")
            manager.put1(b"Q", b"body")
            assert b"body" == mq.Queue(manager, "Q").get()
            assert ["alice"] == [request.user for request in mq_standin.requests]
        """
    )

    ended = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider")

    ended.assert_outcomes(passed=2)


def test_the_example_of_the_documentation_passes(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("ibmmq") is None:
        pytest.skip("ibmmq is not installed")
    monkeypatch.setenv("PYTHONPATH", environment([str(ROOT)])["PYTHONPATH"])
    page = (ROOT / "docs" / "client-packages.md").read_text()
    example = re.search(r'```py title="test_legacy.py"\n(.*?)```', page, re.DOTALL)
    assert example is not None
    pytester.makepyfile(test_legacy=example[1])

    ended = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider")

    ended.assert_outcomes(passed=1)


def test_a_folder_that_cannot_be_written_is_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    ended = run("standin", "kit", str(tmp_path / "file" / "headers"))

    assert 2 == ended.exit_code
    assert f"The files cannot be written to {tmp_path}/file/headers: Not a directory. Name another folder." in ended.stderr
