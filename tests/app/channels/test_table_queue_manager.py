"""A connection by a channel table: mqflow reads the table, tries all candidates in order and remembers failed entries."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mqflow.app.channels.source_reader import Tables
from mqflow.app.channels.table_queue_manager import TableQueueManager, Tried
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.options import OpenOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.channels.candidates import Candidate
from mqflow.policy.channels.sources import Origin, TableAt
from mqflow.policy.channels.table import ChannelTableError
from mqflow.policy.reconnect.mode import ReconnectMode
from mqflow.testing.faults import CONNECT, Fault, Faults
from mqflow.verbs import Connection, QueueManager
from tests.conformance.under_test import refused

ANY, Q_MGR = ReconnectMode.ANY, ReconnectMode.Q_MGR


class Half:
    """Random numbers that are always the same."""

    def random(self) -> float:
        return 0.5


class Network:
    """Hosts and their queue managers. Tests change the hosts; a missing host does not answer."""

    def __init__(self) -> None:
        self.hosts: dict[str, QueueManager] = {}
        self.dialled: list[str] = []
        self.attempts: list[Tried] = []
        self.warnings: list[str] = []

    def dial(self, attempt: Candidate, *, application_name: str, user: str) -> Connection:
        self.dialled.append(attempt.address.host)
        if attempt.address.host not in self.hosts:
            raise error_for(Reason.HOST_NOT_AVAILABLE, "MQCONNX", detail=f"{attempt.address} does not answer")
        return self.hosts[attempt.address.host].connect(application_name=application_name, user=user)


@pytest.fixture
def network() -> Network:
    return Network()


@pytest.fixture
def made() -> Iterator[Callable[[str], EmbeddedQueueManager]]:
    """Yield a function that makes queue managers; the fixture closes them."""
    all_of_them: list[EmbeddedQueueManager] = []

    def make(name: str) -> EmbeddedQueueManager:
        all_of_them.append(EmbeddedQueueManager(name))
        all_of_them[-1].administration.define(QueueAttributes(name="Q"))
        return all_of_them[-1]

    yield make
    for queue_manager in all_of_them:
        queue_manager.close()


def entry(name: str, *hosts: str, queue_manager: str = "GRP", weight: int = 0) -> dict[str, Any]:
    return {
        "name": name,
        "type": "clientConnection",
        "clientConnection": {"queueManager": queue_manager, "connection": [{"host": host} for host in hosts]},
        "connectionManagement": {"clientWeight": weight},
    }


def write(folder: Path, *entries: dict[str, Any]) -> Path:
    (folder / "ccdt.json").write_text(json.dumps({"channel": entries}))
    return folder / "ccdt.json"


def connecting(network: Network, folder: Path, name: str = "*GRP", mode: ReconnectMode = Q_MGR) -> TableQueueManager:
    return TableQueueManager(
        name, Tables(TableAt(str(folder / "ccdt.json"), Origin.URL), name=name), network.dial, random=Half(), host="host1",
        mode=mode, notify=network.attempts.append, warn=network.warnings.append,
    )  # fmt: skip


Made = Callable[[str], EmbeddedQueueManager]


def test_every_address_is_tried_in_order_until_one_answers(network: Network, made: Made, tmp_path: Path) -> None:
    write(tmp_path, entry("B", "three", "four"), entry("A", "one", "two"))
    network.hosts["three"] = made("QM1")

    connection = connecting(network, tmp_path).connect(application_name="orders")

    assert ["one", "two", "three"] == network.dialled
    assert "QM1" == connection.queue_manager_name
    assert [Reason.HOST_NOT_AVAILABLE, Reason.HOST_NOT_AVAILABLE, None] == [
        tried.error and tried.error.reason for tried in network.attempts
    ]


def test_a_pass_that_reaches_nothing_is_one_error_with_all_attempts(network: Network, tmp_path: Path) -> None:
    write(tmp_path, entry("A", "one", "two"))

    with refused(Reason.HOST_NOT_AVAILABLE) as caught:
        connecting(network, tmp_path).connect()

    assert "A at one(1414)" in str(caught.value)
    assert "A at two(1414)" in str(caught.value)


def test_a_name_without_a_matching_entry_is_2058_and_no_address_is_tried(network: Network, tmp_path: Path) -> None:
    write(tmp_path, entry("A", "one"))

    with pytest.raises(MQIError, match="no usable entry for queue manager QM9"):
        connecting(network, tmp_path, "QM9").connect()

    assert [] == network.dialled


def test_a_queue_manager_of_another_name_fails_its_entry_and_the_next_is_tried(
    network: Network, made: Made, tmp_path: Path
) -> None:
    write(tmp_path, entry("A", "one", queue_manager="QM1"), entry("B", "two", queue_manager="QM1"))
    network.hosts = {"one": made("QM2"), "two": made("QM1")}

    connection = connecting(network, tmp_path, "QM1").connect()

    assert "QM1" == connection.queue_manager_name
    assert Reason.Q_MGR_NAME_ERROR == getattr(network.attempts[0].error, "reason", None)


def test_with_an_asterisk_whichever_name_it_has_will_do(network: Network, made: Made, tmp_path: Path) -> None:
    write(tmp_path, entry("A", "one", queue_manager="QM1"))
    network.hosts["one"] = made("QM2")

    assert "QM2" == connecting(network, tmp_path, "*QM1").connect().queue_manager_name


def test_a_connection_that_will_not_do_is_given_back(network: Network, made: Made, tmp_path: Path) -> None:
    write(tmp_path, entry("A", "one", queue_manager="QM1"))
    wrong = made("QM2")
    faults = Faults()
    network.hosts["one"] = faults.wrap(wrong)

    with pytest.raises(MQIError, match="The queue manager there is called QM2"):
        connecting(network, tmp_path, "QM1").connect()

    assert ["MQCONNX", "MQBACK", "MQDISC"] == [call.verb for call in faults.calls]


def test_the_table_is_read_again_before_each_pass(network: Network, made: Made, tmp_path: Path) -> None:
    write(tmp_path, entry("A", "one"))
    table = connecting(network, tmp_path)
    with pytest.raises(MQIError):
        table.connect()
    network.hosts["elsewhere"] = made("QM1")
    write(tmp_path, entry("A", "elsewhere"))

    assert "QM1" == table.connect().queue_manager_name


def test_a_table_that_became_unreadable_stays_in_use_with_a_warning(network: Network, made: Made, tmp_path: Path) -> None:
    network.hosts["one"] = made("QM1")
    file = write(tmp_path, entry("A", "one"))
    table = connecting(network, tmp_path)
    table.connect()
    file.write_text('{"channel":[')

    assert "QM1" == table.connect().queue_manager_name
    [trouble] = network.warnings
    assert "it is not JSON" in trouble


def test_an_unreadable_table_gives_one_warning_and_another_after_it_was_readable(
    network: Network, made: Made, tmp_path: Path
) -> None:
    network.hosts["one"] = made("QM1")
    write(tmp_path, entry("A", "one"))
    table = connecting(network, tmp_path)
    told = []

    for readable in (True, False, False, False, True, False):
        if readable:
            write(tmp_path, entry("A", "one"))
        else:
            (tmp_path / "ccdt.json").write_text("half")
        table.connect()
        told.append(len(network.warnings))

    assert [0, 1, 1, 1, 1, 2] == told


def test_a_connect_without_any_table_raises_the_reason(network: Network, tmp_path: Path) -> None:
    with pytest.raises(ChannelTableError):
        connecting(network, tmp_path).connect()


def test_an_entry_that_failed_is_tried_last_from_then_on(network: Network, made: Made, tmp_path: Path) -> None:
    names = "ABCD"
    write(tmp_path, *(entry(name, name.lower(), weight=10) for name in names))
    table = connecting(network, tmp_path)
    with pytest.raises(MQIError):
        table.connect()
    order = list(network.dialled)
    network.hosts[order[1]] = made("QM1")
    network.dialled.clear()

    table.connect()
    table.connect()

    # All entries had failed before, so they were tried in the order of their failures. Only the second answered.
    assert [*order[:2], order[1]] == network.dialled


def test_an_entry_with_one_address_that_answers_has_not_failed(network: Network, made: Made, tmp_path: Path) -> None:
    write(tmp_path, entry("A", "gone", "here", weight=10), entry("B", "other", weight=1))
    network.hosts = {"here": made("QM1"), "other": made("QM1")}
    table = connecting(network, tmp_path, mode=ANY)
    table.connect()
    first = list(network.dialled)
    network.dialled.clear()

    table.connect()

    assert first == network.dialled


# -- the same queue manager again: 2546, CROPT (q111980)


@pytest.mark.parametrize("mode", [Q_MGR, ReconnectMode.NO])
def test_the_first_queue_manager_reached_is_the_only_one_from_then_on(
    network: Network, made: Made, tmp_path: Path, mode: ReconnectMode
) -> None:
    write(tmp_path, entry("A", "one"), entry("B", "two"))
    network.hosts = {"one": made("QM1"), "two": made("QM2")}
    table = connecting(network, tmp_path, mode=mode)
    table.connect()
    del network.hosts["one"]

    with refused(Reason.HOST_NOT_AVAILABLE) as caught:
        table.connect()

    assert "MQRC_RECONNECT_QMID_MISMATCH (2546)" in str(caught.value)


def test_a_standby_at_another_address_is_the_same_queue_manager(network: Network, made: Made, tmp_path: Path) -> None:
    write(tmp_path, entry("A", "active", "standby"))
    network.hosts["active"] = same = made("QM1")
    table = connecting(network, tmp_path)
    table.connect()
    network.hosts = {"standby": same}

    assert "QM1" == table.connect().queue_manager_name


def test_where_any_queue_manager_will_do_another_one_does(network: Network, made: Made, tmp_path: Path) -> None:
    write(tmp_path, entry("A", "one"), entry("B", "two"))
    network.hosts = {"one": made("QM1"), "two": made("QM2")}
    table = connecting(network, tmp_path, mode=ANY)
    table.connect()
    del network.hosts["one"]

    assert "QM2" == table.connect().queue_manager_name


def test_the_name_is_compared_if_the_user_may_not_inquire_the_queue_manager(
    network: Network, made: Made, tmp_path: Path
) -> None:
    write(tmp_path, entry("A", "one"))
    faults = Faults()
    faults.add(Fault(verb="MQOPEN", reason=Reason.NOT_AUTHORIZED, times=2))
    network.hosts["one"] = faults.wrap(made("QM1"))
    table = connecting(network, tmp_path)
    table.connect()

    assert "QM1" == table.connect().queue_manager_name


def test_a_connection_that_breaks_while_it_is_checked_fails_its_entry(network: Network, made: Made, tmp_path: Path) -> None:
    write(tmp_path, entry("A", "one"), entry("B", "two"))
    faults = Faults()
    faults.add(Fault(verb="MQOPEN", reason=Reason.CONNECTION_BROKEN))
    network.hosts = {"one": faults.wrap(made("QM1")), "two": made("QM1")}

    connection = connecting(network, tmp_path).connect()

    connection.close(connection.open("Q", OpenOption.INPUT_SHARED))
    assert ["one", "two"] == network.dialled


def test_a_standby_that_says_so_is_passed_over(network: Network, made: Made, tmp_path: Path) -> None:
    write(tmp_path, entry("A", "standby", "active"))
    faults = Faults()
    faults.add(Fault(verb=CONNECT, reason=Reason.STANDBY_Q_MGR))
    network.hosts = {"standby": faults.wrap(made("QM1")), "active": made("QM1")}

    connecting(network, tmp_path).connect()

    assert ["standby", "active"] == network.dialled
