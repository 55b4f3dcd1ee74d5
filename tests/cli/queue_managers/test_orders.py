"""The orders to a served queue manager: the request of each, its result, and that it leaves no connection behind."""

from pathlib import Path

import pytest

from mqflow.app.channels.location import SERVED_SOCKET
from mqflow.cli.queue_managers import orders
from mqflow.embedded.administration.interface import ConnectionStatus
from mqflow.embedded.wire.protocol.end_manner import End, Manner
from mqflow.embedded.wire.protocol.requests import Backup, EndQueueManager
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason

CONTROLLED = End(Manner.CONTROLLED)
IMMEDIATE = End(Manner.IMMEDIATE, reconnect=True)


class Served:
    """A served queue manager with four connections; it can be over directly after an order, or refuse it."""

    made: "Served"
    is_over = False
    refuses = False

    def __init__(self, socket: Path, *, name: str) -> None:
        self.named = (socket, name)
        self.ordered: list[object] = []
        self.is_closed = False
        Served.made = self

    @property
    def administration(self) -> "Served":
        return self

    @property
    def objects(self) -> "Served":
        return self

    def order(self, request: object) -> None:
        if self.refuses:
            raise error_for(Reason.FUNCTION_NOT_SUPPORTED, "EndQueueManager")
        self.ordered.append(request)

    def connections(self) -> list[ConnectionStatus]:
        if self.is_over:
            raise error_for(Reason.CONNECTION_BROKEN, "DISPLAY CONN")
        made = [("shop", False), ("command server", True), ("book", False), ("shop", False)]
        return [
            ConnectionStatus(identifier="", application=name, user="", system=system, operations=0) for name, system in made
        ]

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture(autouse=True)
def served(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every order go to `Served`."""
    monkeypatch.setattr(orders, "ServedQueueManager", Served)


@pytest.mark.parametrize(
    ("how", "is_over", "waits_for"),
    [
        pytest.param(CONTROLLED, False, ["book", "shop"], id="it waits for its applications"),
        pytest.param(CONTROLLED, True, [], id="it had no application"),
        pytest.param(IMMEDIATE, False, [], id="it waits for nobody"),
    ],
)
def test_an_end_is_ordered_and_names_the_applications_that_the_queue_manager_waits_for(
    monkeypatch: pytest.MonkeyPatch, how: End, waits_for: list[str], *, is_over: bool
) -> None:
    monkeypatch.setattr(Served, "is_over", is_over)

    assert waits_for == list(orders.end(Path("QM1"), "QM1", how))

    made = Served.made
    assert ((Path("QM1") / SERVED_SOCKET, "QM1"), [EndQueueManager(how)], True) == (made.named, made.ordered, made.is_closed)


def test_a_backup_is_ordered_with_the_whole_path_of_its_folder() -> None:
    orders.back_up(Path("QM1"), "QM1", Path("copies/monday"))

    assert ([Backup(str(Path.cwd() / "copies/monday"))], True) == (Served.made.ordered, Served.made.is_closed)


def test_a_refused_order_is_an_error_and_closes_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Served, "refuses", True)

    with pytest.raises(MQIError, match="MQRC_FUNCTION_NOT_SUPPORTED"):
        orders.end(Path("QM1"), "QM1", CONTROLLED)

    assert Served.made.is_closed
