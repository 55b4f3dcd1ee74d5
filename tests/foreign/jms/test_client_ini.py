"""IBM's JMS classes and mqflow read the same mqclient.ini: DefRecon, and the waits of ReconDelay.

The classes read the file once. So each file has a Java program of its own, which finds it in its current folder.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Literal

import pytest

from mqflow.app.channels.reconnect_settings import reconnection
from mqflow.app.config.settings import ReconnectSettings
from mqflow.embedded.mqsc import run
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.policy.channels.client_ini import parse_client_configuration
from mqflow.policy.reconnect.delays import delay_s
from mqflow.policy.reconnect.mode import ReconnectMode
from mqflow.verbs import Connection
from tests.foreign.jms.closing import closing_sockets
from tests.foreign.jms.conftest import Serve
from tests.foreign.jms.program import Program, class_paths
from tests.foreign.jms.test_reconnection import channel_table
from tests.long import of_the_day, usually
from tests.queue_contents import browsed

pytestmark = pytest.mark.xdist_group("jms")  # one worker fetches, compiles and starts the program

Mode = Literal["ANY", "ASDEF", "QMGR"]
OPTIONS: Final[tuple[Mode, ...]] = ("ASDEF", "ANY", "QMGR")
#: CLIENTRECONNECTOPTIONS and DefRecon.
MODES: Final = [(mode, default) for default in ("YES", "QMGR", "NO", "DISABLED") for mode in OPTIONS]
#: What the program sees after the outage, and the queue manager that gets its message.
OUTCOMES: Final = {
    ReconnectMode.NO: ("refused 2009", ""),
    ReconnectMode.ANY: ("sent", "QM2"),
    ReconnectMode.Q_MGR: ("sent", "QM1"),
}
PASSES: Final = usually(3, long=6)
Start = Callable[[str], Program]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Return a function that starts a Java program with this text in its mqclient.ini."""
    with ExitStack() as programs:

        def start(text: str) -> Program:
            (tmp_path / "mqclient.ini").write_text(text)
            program = Program(class_paths(), tmp_path)
            programs.callback(program.close)
            return program

        yield start


class Remote:
    """A queue manager that mqflow reaches by addresses without a DEFRECON."""

    name = "*QM1"

    def connect(self, *, application_name: str = "", user: str = "") -> Connection:
        raise NotImplementedError


@pytest.fixture
def other() -> Iterator[EmbeddedQueueManager]:
    with EmbeddedQueueManager("QM2") as made:
        assert 0 == run("DEFINE QLOCAL(Q1)", made.administration).exit_code()
        yield made


def reached(*managers: EmbeddedQueueManager) -> str:
    return "".join(manager.name for manager in managers if browsed(manager, "Q1"))


@pytest.mark.parametrize(("mode", "default"), of_the_day(MODES, 1, name="DefRecon"))
def test_with_a_list_of_addresses_defrecon_decides_as_in_mqflow(
    start: Start, queue_manager: EmbeddedQueueManager, other: EmbeddedQueueManager, serve: Serve, mode: Mode, default: str
) -> None:
    """The program has lost QM1. The second address leads to QM2, and the third one to QM1."""
    text = f"CHANNELS:\n   DefRecon={default}\n"
    ours = reconnection(ReconnectSettings(mode=mode), Remote(), parse_client_configuration(text)).mode()
    (port, first), (second, _), (third, _) = serve(queue_manager), serve(other), serve(queue_manager)

    said = start(text).run(port, "app", "secret", f"modes:{mode}:*QM1:list={second},{third}", first.close)

    assert (["stop", OUTCOMES[ours][0], "end"], OUTCOMES[ours][1]) == (said, reached(queue_manager, other))


@pytest.mark.parametrize(
    ("mode", "default", "outcome"),
    of_the_day([("ASDEF", "YES", ReconnectMode.NO), ("ANY", "DISABLED", ReconnectMode.ANY)], 1, name="DefRecon"),
)
def test_with_a_channel_table_ibms_classes_ignore_defrecon(
    start: Start,
    queue_manager: EmbeddedQueueManager,
    other: EmbeddedQueueManager,
    serve: Serve,
    tmp_path: Path,
    mode: str,
    default: str,
    outcome: ReconnectMode,
) -> None:
    """The difference: the documents say that DefRecon overrides the DEFRECON of the channel, and mqflow does it."""
    port, first = serve(queue_manager)
    where = channel_table(tmp_path / "ccdt.json", (port,))

    def move() -> None:
        channel_table(tmp_path / "ccdt.json", [serve(other)[0]])
        first.close()

    said = start(f"CHANNELS:\n   DefRecon={default}\n").run(port, "app", "secret", f"modes:{mode}:*QM1:{where}", move)

    assert (["stop", OUTCOMES[outcome][0], "end"], OUTCOMES[outcome][1]) == (said, reached(queue_manager, other))


@pytest.mark.parametrize("pairs", of_the_day(["(1300)(100)", "(1300,200)(100,100)(700)(50,1)"], 1, name="ReconDelay"))
def test_the_waits_of_recondelay_are_those_of_mqflow(
    start: Start, queue_manager: EmbeddedQueueManager, serve: Serve, tmp_path: Path, pairs: str
) -> None:
    """Without the file, the first wait is shorter. The difference: the first pass comes at once."""
    text = f"CHANNELS:\n   ReconDelay={pairs}\n"
    ladder = reconnection(ReconnectSettings(), Remote(), parse_client_configuration(text)).delays
    (port, first), waits = serve(queue_manager), list[float]()
    where = channel_table(tmp_path / "ccdt.json", (port,))

    def move() -> None:
        begin = time.monotonic()
        with closing_sockets(0) as sockets:
            channel_table(tmp_path / "ccdt.json", sockets.ports)
            first.close()
            waits.extend(sockets.waits(begin, PASSES))
            channel_table(tmp_path / "ccdt.json", [serve(queue_manager)[0]])

    said = start(text).run(port, "app", "secret", f"modes:ANY:*QM1:{where}", move)

    assert ["stop", "sent", "end"] == said
    least = [0.0, *(delay_s(attempt, 0, ladder) for attempt in range(1, PASSES))]
    assert all(wait >= fixed_s for wait, fixed_s in zip(waits, least, strict=True)), waits
