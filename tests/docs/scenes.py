"""The queues, files and messages that the lines of a page need, and the lines that no test of the pages types."""

import gzip
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final
from unittest.mock import patch

from msgspec import Struct

from mqflow.cli.text.exit_codes import EXIT_INTERRUPTED
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.journal import Journal
from mqflow.landing.recovery import STATE_QUEUE, Marker
from mqflow.mqi.options import MatchOption, OpenOption
from mqflow.verbs import GetOptions
from tests.docs.pages import Terminal, typed_on, write_files

__all__ = ("NOT_TYPED", "problems_of")

_WATCHED: Final = "tests/cli/watching/test_commands.py"
_LIBRARY: Final = "tests/standin/library/test_development_kit.py"
_SETTINGS: Final = "tests/app/config/test_settings.py"
_STAND_IN: Final = "tests/conformance/through_packages.py runs the same tests on the stand-in"
_IMAGE: Final = "tests/cli/applications/test_image.py"
_ELSEWHERE: Final = "tests/pipeline/test_commands.py"
NOT_TYPED: Final[Mapping[str, str]] = {
    "pip ": "installs from an index: tests/docs/test_newcomer.py",
    "uv ": "installs from an index: tests/docs/test_newcomer.py",
    "pipx ": "installs from an index: tests/docs/test_newcomer.py",
    "pytest": "tests/docs/test_docs.py, `test_the_python_of_a_page_runs`",
    "make demo-spark": "Spark, for minutes: tests/pipeline/test_flights_on_spark.py",
    "mqflow spark ": f"Spark: {_ELSEWHERE}",
    "MQFLOW_ALERT_WEBHOOK=": f"Spark: {_ELSEWHERE}",
    "python -m zipfile ": "for a cluster of Spark: tests/pipeline/cluster",
    "spark-submit ": "a cluster of Spark: tests/pipeline/cluster",
    "mqflow land ORDERS.IN --journal s3:": "an object store: tests/cli/pipeline/test_land_uris.py",
    "mqflow journal show s3:": "an object store: tests/cli/pipeline/test_land_uris.py",
    "echo 'eval ": "changes the files of a shell: tests/cli/test_completion.py",
    "_MQFLOW_COMPLETE=": "changes the files of a shell: tests/cli/test_completion.py",
    "mqflow run app:app &": "stays beside the terminal: tests/cli/processes/test_hosted_queue_manager.py",
    "mqflow qmgr user ": "reads a password from the keyboard: tests/cli/queue_managers/test_qmgr.py",
    "mqflow qmgr serve ": "keeps a port of the page: tests/cli/queue_managers/test_qmgr.py",
    "mqflow run app:app --workers ": "several processes, which Ctrl-C here does not reach: tests/cli/processes/test_workers.py",
    "mqflow status": f"an application beside the terminal: {_WATCHED}",
    "mqflow top": f"an application beside the terminal: {_WATCHED}",
    "mqflow ctl ": f"an application beside the terminal: {_WATCHED}",
    "mqflow console --tables": "the tables of Spark: tests/cli/console/test_history.py",
    "mqflow standin library ": f"compiles: {_LIBRARY}",
    "cc ": f"compiles: {_LIBRARY}",
    "mqflow standin run -- ./orders": f"a compiled program: {_LIBRARY}",
    "export CGO_CFLAGS=": f"Go, which no test runs; a C program has the same paths: {_LIBRARY}",
    "MQ_FILE_PATH=": "compiles a package from an index: tests/client_packages.py",
    "MQFLOW_URL='ibmmq:": f"IBM MQ, and a secret of its machine: {_SETTINGS}",
    "export MQFLOW_URL='ibmmq:": f"IBM MQ: {_SETTINGS}",
    "export MQFLOW_PASSWORD_FILE=": f"a secret of a machine: {_SETTINGS}",
    "export MQFLOW_TEST_": f"IBM MQ: {_STAND_IN}",
    "python -m pytest tests/conformance": f"IBM MQ: {_STAND_IN}",
    "python3 -m venv /srv": "changes the machine: tests/docs/test_newcomer.py",
    "/srv/": "changes the machine: tests/docs/test_newcomer.py",
    "systemctl ": "changes the machine: tests/docs/test_docs.py checks the unit",
    "journalctl ": "the log of systemd: tests/cli/text/test_log_lines.py",
    "cd orders-service": f"goes with the lines below it: {_IMAGE}",
    "podman ": f"builds from an index: {_IMAGE}",
}
"""The beginnings of lines that are not typed, each with the reason and the test that runs such a command."""


_EXIT_CODES: Final = {
    "mqflow journal settle journal ORDERS.IN --publish": 0,
    "mqflow journal settle": 1,
    "mqflow console": EXIT_INTERRUPTED,
    "mqflow journal verify": 1,
    "echo": 10,
}
"""The exit codes of lines that do not end with 0, by the beginning of the line."""


def problems_of(page: str, terminal: Terminal, *, skipped: tuple[str, ...] = tuple(NOT_TYPED)) -> Iterator[str]:
    """Write the files of a page into the current folder, type its lines, and yield each that fails or prints other text."""
    scene = SCENES.get(page, Scene())
    write_files(page, Path())
    scene.prepare(terminal)
    before = dict(scene.before)
    with ExitStack() as stack:
        for name, value in scene.constants.items():
            stack.enter_context(patch(name, value))
        for typed in typed_on(page):
            if typed.line.startswith(skipped):
                continue
            for beginning in [each for each in before if typed.line.startswith(each)]:
                prepare = before.pop(beginning)
                _type(prepare, terminal) if isinstance(prepare, str) else prepare(terminal)
            code, printed = terminal.type(typed.line, typed.answers)
            expected = next((code for begin, code in _EXIT_CODES.items() if typed.line.startswith(begin)), 0)
            if code != expected or not typed.is_shown_by(printed):
                yield f"{page}: {typed.line}: {code}\n{printed}"


class Scene(Struct, frozen=True, kw_only=True):
    """The state that a page describes before it shows a line."""

    files: Mapping[str, str] = {}
    #: MQSC commands for the queue manager QM1 in the folder.
    mqsc: str = ""
    #: By the beginning of a line of the page: lines that are typed before it, or a function that is called before it. The
    #: empty text is the beginning of every line, so it stands for the first one.
    before: Mapping[str, str | Callable[[Terminal], None]] = {}
    #: The values of constants, by their names, so that no line waits for long.
    constants: Mapping[str, int] = {}

    def prepare(self, terminal: Terminal) -> None:
        """Write the files into the current folder, and define the queues."""
        for name, text in self.files.items():
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_text(text)
        if self.mqsc:
            Path("scene.mqsc").write_text(self.mqsc)
            _type("mqflow mqsc scene.mqsc", terminal)


_APPLICATION: Final = """
from mqflow import App, Backout

app = App(name="orders")


@app.listener("ORDERS.IN", backout=Backout(threshold=3, queue="ORDERS.BOQ"))
async def book(order: dict[str, int]) -> None:
    return
"""

_FAILING: Final = """
from mqflow import App

app = App(name="orders")


@app.listener("ORDERS.IN")
async def book(order: dict[str, int]) -> None:
    if order["customer"] == 4711:
        raise ValueError("no such customer: 4711")
    raise TimeoutError("the customer database does not answer")
"""
_FAILING_QUEUES: Final = "DEFINE QLOCAL(ORDERS.BOQ)\nDEFINE QLOCAL(ORDERS.IN) BOTHRESH(1) BOQNAME(ORDERS.BOQ)\n"
_FAIL: Final = """\
mqflow put ORDERS.IN '{"customer": 1}' '{"customer": 2}' '{"customer": 4711}'
mqflow run shop.orders:app
"""
_UNDECODABLE: Final = """
from mqflow import App

app = App()


@app.listener("ORDERS.IN")
@app.listener("FLIGHTS.IN")
async def book(order: dict[str, int]) -> None:
    return
"""
_LEGACY: Final = """
import ibmmq

ibmmq.connect("QM1").put1("ORDERS.IN", b"order 1")
"""
_GRANTS: Final = "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('alice') AUTHADD(CONNECT)"
_LANDED: Final = "mqflow put ORDERS.IN one\nmqflow land ORDERS.IN --journal journal --once\n"


def _queues(*names: str) -> str:
    return "".join(f"DEFINE QLOCAL({each}) DEFPSIST(YES)\n" for each in names)


def _type(lines: str, terminal: Terminal) -> None:
    for line in lines.splitlines():
        code, printed = terminal.type(line)
        assert code == 0, f"{line}\n{printed}"


def _lose_the_marker(terminal: Terminal) -> None:
    """Land a segment. Then leave the state of a lander that died after its commit, and whose marker another program got."""
    _type(_LANDED, terminal)
    marker = Marker(journal=Journal.open(Path("journal")).id, lane="ORDERS.IN", epoch=0)
    with EmbeddedQueueManager("QM1", store=SqliteStore(Path("data"))) as queue_manager:
        connection = queue_manager.connect()
        handle = connection.open(STATE_QUEUE, OpenOption.INPUT_SHARED)
        assert connection.get(handle, GetOptions(match=MatchOption.CORREL_ID, correlation_id=marker.correlation_id))
    [published] = Path("journal/lanes/ORDERS.IN").glob("*.parquet")
    published.rename(published.with_name("000000000001-1.pend"))


def _damage_the_journal(terminal: Terminal) -> None:
    """Land three segments more. Then replace the second one by the third one, and delete the last two."""
    _type(_LANDED * 3, terminal)
    _, second, third, fourth = sorted(Path("journal/lanes/ORDERS.IN").glob("*.parquet"))
    third.replace(second)
    fourth.unlink()


def _write_flights(terminal: Terminal) -> None:
    with gzip.open("flights.jsonl.gz", "wt") as flights:
        flights.write('{"carrier":"UA"}\n' * 3)


SCENES: Final[Mapping[str, Scene]] = {
    "authorities.md": Scene(files={"orders.py": _APPLICATION}),
    "cli.md": Scene(
        files={"flights.py": _UNDECODABLE},
        mqsc=_queues("ORDERS.IN", "FLIGHTS.IN", "FLIGHTS.BOQ") + "ALTER QLOCAL(FLIGHTS.IN) BOTHRESH(3) BOQNAME(FLIGHTS.BOQ)",
        before={"": _write_flights, "mqflow browse": "mqflow run flights:app"},
    ),
    "client-packages.md": Scene(
        files={
            "queues.mqsc": "DEFINE QLOCAL(ORDERS.IN)",
            "legacy.py": _LEGACY,
            "several.sh": "python legacy.py\npython legacy.py\n",
        }
    ),
    "configuration.md": Scene(files={"app.py": _APPLICATION}),
    "console.md": Scene(files={"app.py": _APPLICATION, "dlq.tab": "ACTION(RETRY)\n"}, mqsc=_queues("ORDERS.IN", "ORDERS.BOQ")),
    "dead-letter-handler.md": Scene(
        files={"shop/orders.py": _FAILING},
        mqsc=_FAILING_QUEUES,
        before={"mqflow poison": _FAIL, "mqflow edit": "export EDITOR='sed -i s/4711/4712/'"},
    ),
    "delivery-delay.md": Scene(mqsc=_queues("REMINDERS")),
    "flights-on-spark.md": Scene(
        mqsc=_queues("MQFLOW.JOURNAL.STATE", "MQFLOW.DISPOSITION", "DEAD.LETTERS", "FLIGHTS.BOQ", "NIGHT.BOQ")
    ),
    "ibm-mq.md": Scene(
        # The settings of the page name files of another machine.
        files={
            "orders.py": _APPLICATION,
            "here.toml": "",
            "queues.mqsc": "DEFINE QLOCAL(ORDERS.BOQ)\nDEFINE QLOCAL(ORDERS.IN)\n",
        },
        before={"mqflow standin": "export MQFLOW_CONFIG=here.toml"},
    ),
    "landing.md": Scene(
        files={"orders.py": _APPLICATION},
        mqsc=f"{_queues('ORDERS.IN', 'ORDERS.BOQ', 'MQFLOW.DISPOSITION')}ALTER QMGR DEADQ(SYSTEM.DEAD.LETTER.QUEUE)",
        before={"mqflow journal settle": _lose_the_marker, "mqflow journal verify": _damage_the_journal},
        constants={"mqflow.cli.pipeline.journal._MARKER_WAIT_MS": 0},
    ),
    "mqsc.md": Scene(
        files={"queues.mqsc": "DEFINE QLOCAL(ORDERS.IN) REPLACE"}, before={"mqflow mqsc      ": "mqflow put ORDERS.IN one"}
    ),
    "observability.md": Scene(
        files={"app.py": _FAILING, "shop/orders.py": _FAILING}, mqsc=_FAILING_QUEUES, before={"mqflow why": _FAIL}
    ),
    "queue-manager-of-its-own.md": Scene(files={"grants.mqsc": _GRANTS}),
    "spark.md": Scene(mqsc=_queues("MQFLOW.JOURNAL.STATE", "ORDERS.DLQ")),
}
"""The scenes of the pages that need one."""
