"""The fixtures of the command line: a data folder with three queues, and a function that runs a command."""

from collections.abc import Callable, Iterator
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


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Run a command in an empty folder, without the settings of this machine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MQFLOW_URL", "embedded:./data?qmgr=QM1")

    def run_command(*arguments: str, stdin: str | bytes | None = None) -> Result:
        return CliRunner().invoke(main, list(arguments), input=stdin)

    with imports_of(tmp_path):
        yield run_command


@pytest.fixture
def queues(run: Run) -> None:
    """Define the queues."""
    assert 0 == run("mqsc", stdin=QUEUES).exit_code
