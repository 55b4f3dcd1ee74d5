"""Each typical mistake of a new user prints what was tried, and what to do. The tables beside this file have the sentences."""

import linecache
import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner

from mqflow import App
from mqflow.cli.main import main
from mqflow.cli.text.exit_codes import sentence_of
from mqflow.mqi.errors import UnknownObjectError
from mqflow.testing.kit import QueueManagerKit
from tests.imported import imports_of
from tests.mistakes.table import Mistake, mistakes, page

PRELUDE = """
from contextlib import asynccontextmanager, contextmanager
from typing import Annotated, Any
import anyio, msgspec
from mqflow import *
app = App("embedded::memory:?qmgr=QM1")
"""

QUEUES = """
DEFINE QLOCAL(Q) BOTHRESH(1) BOQNAME(BOQ)
DEFINE QLOCAL(BOQ)
DEFINE QLOCAL(OUT)
DEFINE QLOCAL(SMALL) MAXMSGL(100)
DEFINE QLOCAL(CLOSED) PUT(DISABLED)
DEFINE QLOCAL(NO.BOQ) BOTHRESH(1)
DEFINE QLOCAL(LOOP) BOTHRESH(1) BOQNAME(LOOP)
DEFINE QLOCAL(LOST) BOTHRESH(1) BOQNAME(NOWHERE)
DEFINE TOPIC(PRICES) TOPICSTR('prices')
DEFINE QALIAS(PRICES.ALIAS) TARGET(PRICES) TARGTYPE(TOPIC)
"""

APPLICATION = """
from mqflow import App

app = App("embedded:./data?qmgr=QM1")


@app.listener("Q")
async def book(order: bytes) -> None: ...
"""


def does(mistake: Mistake) -> str:
    return mistake.does


@pytest.mark.mq_backend("asyncio")
@pytest.mark.parametrize("mistake", mistakes("programs"), ids=does)
async def test_a_mistake_in_a_program_prints_what_to_do(
    mistake: Mistake, mq: QueueManagerKit, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    mq.mqsc(QUEUES)

    raised = await error_of(mistake.program, mq)

    assert mistake.prints in "\n".join((raised, *caplog.messages))


async def error_of(program: str, mq: QueueManagerKit) -> str:
    """Run the program as the file shop.py; return the sentence of its error."""
    names: dict[str, Any] = {"__name__": "shop"}
    exec(PRELUDE, names)  # noqa: S102 - the programs of the table beside this file
    linecache.cache["shop.py"] = (len(program), None, program.splitlines(keepends=True), "shop.py")
    try:
        exec(compile(program.lstrip("\n"), "shop.py", "exec"), names)  # noqa: S102 - as above
        if "main" in names:
            app: App = names["app"]
            async with mq.run(app):
                await names["main"]()
                await anyio.sleep(1)
    except Exception as error:  # noqa: BLE001 - a mistake raises an error of any class, and this test reads its text
        return sentence_of(error)
    return ""


@pytest.fixture
def port() -> Iterator[int]:
    """A port that another program uses."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield taken.getsockname()[1]


@pytest.mark.parametrize("mistake", mistakes("commands"), ids=does)
def test_a_mistake_on_the_command_line_prints_what_to_do(
    mistake: Mistake, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MQFLOW_URL", "embedded:./data?qmgr=QM1")
    (tmp_path / "app.py").write_text(APPLICATION)
    assert 0 == CliRunner().invoke(main, ["mqsc"], input="DEFINE QLOCAL(Q)").exit_code
    if mistake.file:
        (tmp_path / mistake.file).parent.mkdir(exist_ok=True)
        (tmp_path / mistake.file).write_text(mistake.text)

    with imports_of(tmp_path):
        result = CliRunner().invoke(main, mistake.command.format(port=port).split())

    assert 0 != result.exit_code
    assert mistake.prints.format(port=port) in result.output


def test_a_command_without_a_subcommand_prints_its_help_once() -> None:
    result = CliRunner().invoke(main, [])

    assert 1 == result.output.count("Usage:")
    assert "mqflow: Usage" not in result.output
    assert "run " in result.output


def test_a_wrong_value_of_mqflow_debug_is_refused_by_its_name() -> None:
    result = CliRunner().invoke(main, ["reason", "2085"], env={"MQFLOW_DEBUG": "maybe"})

    assert (2, True) == (result.exit_code, "mqflow: MQFLOW_DEBUG='maybe': it takes 1 or 0." in result.output)


def test_the_run_of_an_application_raises_its_error_and_no_group() -> None:
    app = App("embedded::memory:?qmgr=QM1")

    @app.listener("NOWHERE")
    async def book(order: bytes) -> None: ...

    with pytest.raises(UnknownObjectError, match="MQOPEN on NOWHERE"):
        app.run()


def test_the_page_of_errors_is_made_from_the_code() -> None:
    current = (Path(__file__).parents[2] / "docs" / "errors.md").read_text("utf-8")

    assert page() == current, "Make it again: python -m tests.mistakes.table > docs/errors.md"
