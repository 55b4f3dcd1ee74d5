"""The connection of a command in outages: the delays, the limit, another queue manager, and an end during an outage."""

from typing import Any

import pytest

from mqflow.cli.dead_letters.reconnecting_link import Link
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.reconnect.mode import ReconnectMode
from mqflow.runtime.connection.supervisor import Reconnection
from mqflow.testing.virtual_clock import VirtualClock
from mqflow.verbs import Connection
from mqflow.world import World
from tests.conformance.under_test import refused

BROKEN = error_for(Reason.CONNECTION_BROKEN, "MQGET")


class NoChance:
    """A random source that always returns the same number."""

    def random(self) -> float:
        return 0.0


class Outage:
    """The results of the next attempts, one after the other: an error or a queue manager."""

    def __init__(self, *reached: EmbeddedQueueManager | Reason, stop_after: int = 100) -> None:
        self.clock = VirtualClock()
        self.waits: list[float] = []
        self._reached = list(reached)
        self._stop_after = stop_after

    def connect(self) -> Connection:
        reached = self._reached.pop(0)
        if isinstance(reached, Reason):
            raise error_for(reached, "MQCONNX")
        return reached.connect()

    def pause(self, seconds: float) -> bool:
        self.waits.append(seconds)
        self.clock.advance(seconds)
        return len(self.waits) < self._stop_after

    def link(self, *, limit_s: float | None = None, mode: ReconnectMode = ReconnectMode.Q_MGR) -> Link:
        how = Reconnection(delays=((0.0, 0.0), (1.0, 0.0), (2.0, 0.0)), limit_s=limit_s, mode=lambda: mode)
        return Link(self.connect, how, world=World(self.clock, NoChance()), pause=self.pause)


def test_the_first_connect_is_tried_once() -> None:
    with refused(Reason.Q_MGR_NOT_AVAILABLE):
        Outage(Reason.Q_MGR_NOT_AVAILABLE).link()


def test_the_ladder_is_walked_until_the_queue_manager_is_back() -> None:
    away = Reason.Q_MGR_NOT_AVAILABLE
    with EmbeddedQueueManager("QM1") as queue_manager:
        outage = Outage(queue_manager, away, away, away, queue_manager)
        link = outage.link()
        before = link.connection

        assert link.reconnect(BROKEN)

        assert before is not link.connection
        assert [0.0, 1.0, 2.0, 2.0] == outage.waits


def test_the_link_waits_for_a_queue_manager_without_resources() -> None:
    with EmbeddedQueueManager("QM1") as queue_manager:
        outage = Outage(queue_manager, Reason.RESOURCE_PROBLEM, queue_manager)

        assert outage.link().reconnect(BROKEN)


def test_a_connection_that_breaks_at_once_is_a_failed_attempt() -> None:
    with EmbeddedQueueManager("QM1") as queue_manager:
        outage = Outage(queue_manager, queue_manager, queue_manager)
        link = outage.link()
        broken = queue_manager.connect()
        broken.abandon()
        made = iter((broken, queue_manager.connect()))
        link._connect = made.__next__

        assert link.reconnect(BROKEN)

        assert link.connection is not broken
        assert [0.0, 1.0] == outage.waits


def test_the_link_gives_up_when_the_command_must_end() -> None:
    with EmbeddedQueueManager("QM1") as queue_manager:
        outage = Outage(queue_manager, Reason.Q_MGR_NOT_AVAILABLE, Reason.Q_MGR_NOT_AVAILABLE, stop_after=3)

        assert not outage.link().reconnect(BROKEN)

        assert 3 == len(outage.waits)


ENDS = [
    pytest.param(Reason.GET_INHIBITED, {}, (), Reason.GET_INHIBITED, id="no outage"),
    pytest.param(Reason.CONNECTION_BROKEN, {"mode": ReconnectMode.NO}, (), Reason.CONNECTION_BROKEN, id="switched off"),
    pytest.param(Reason.CONNECTION_BROKEN, {"limit_s": 2.5}, (Reason.Q_MGR_NOT_AVAILABLE,) * 9, Reason.RECONNECT_TIMED_OUT,
        id="the limit is over"),
    pytest.param(Reason.CONNECTION_BROKEN, {}, (Reason.NOT_AUTHORIZED,), Reason.NOT_AUTHORIZED,
        id="what no second attempt can change"),
]  # fmt: skip


@pytest.mark.parametrize(("lost", "how", "met", "ended"), ENDS)
def test_some_errors_end_the_link(lost: Reason, how: dict[str, Any], met: tuple[Reason, ...], ended: Reason) -> None:
    with EmbeddedQueueManager("QM1") as queue_manager:
        link = Outage(queue_manager, *met).link(**how)

        with pytest.raises(MQIError) as error:
            link.reconnect(error_for(lost, "MQGET"))

    assert ended == error.value.reason


def test_another_queue_manager_is_refused() -> None:
    with EmbeddedQueueManager("QM1") as one, EmbeddedQueueManager("QM2") as another:
        link = Outage(one, another).link()

        with pytest.raises(MQIError) as error:
            link.reconnect(BROKEN)

    assert Reason.RECONNECT_QMID_MISMATCH == error.value.reason


def test_another_queue_manager_is_accepted_if_any_is_allowed() -> None:
    with EmbeddedQueueManager("QM1") as one, EmbeddedQueueManager("QM2") as another:
        link = Outage(one, another).link(mode=ReconnectMode.ANY)

        assert link.reconnect(BROKEN)

        assert "QM2" == link.connection.queue_manager_name
