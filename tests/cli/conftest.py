"""The fixtures of the command line: a data folder with three queues, and a function that runs a command."""

import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import chdir
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mqflow.cli.main import main
from tests.imported import imports_of

Run = Callable[..., Result]

QUEUES = """
DEFINE QLOCAL('ORDERS.IN') BOTHRESH(1) BOQNAME('ORDERS.BOQ') DEFPSIST(YES)
DEFINE QLOCAL('ORDERS.BOQ') DEFPSIST(YES)
DEFINE QLOCAL('SMALL') MAXDEPTH(600)
"""


def free_port() -> int:
    """Return a port of this machine that no program uses now."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Run a command in an empty folder, without the settings of this machine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MQFLOW_URL", "embedded:./data?qmgr=QM1")

    def run_command(*arguments: str, stdin: str | bytes | None = None) -> Result:
        return CliRunner().invoke(main, list(arguments), input=stdin)

    with imports_of(tmp_path):
        yield run_command


@pytest.fixture(scope="session")
def defined(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of a queue manager with the queues."""
    with chdir(folder := tmp_path_factory.mktemp("defined")):
        assert 0 == CliRunner().invoke(main, ["mqsc", "--url", "embedded:./data?qmgr=QM1"], input=QUEUES).exit_code
    return folder / "data"


@pytest.fixture
def queues(run: Run, defined: Path, tmp_path: Path) -> None:
    """Define the queues. To copy a data folder takes less time than to make one."""
    shutil.copytree(defined, tmp_path / "data", dirs_exist_ok=True)
