"""The queue manager refuses calls of IBM's JMS classes: what starts a reconnection, or the attempt at another address?"""

from collections.abc import Callable
from functools import partial
from typing import Final

import pytest

from mqflow.embedded.connection import EmbeddedConnection
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.errors import error_for
from mqflow.policy.reconnect.reason_classes import CLASSES, Class
from tests.foreign.jms.conftest import Serve
from tests.foreign.jms.program import Program
from tests.long import of_the_day
from tests.queue_contents import browsed

pytestmark = pytest.mark.xdist_group("jms")  # one worker fetches, compiles and starts the program

#: After these reasons of an MQPUT, IBM's classes connect again. They do not repeat the put.
RECONNECT: Final = {2009, 2059, 2161, 2162, 2195, 2202, 2537, 2538, 2539}
#: After these, IBM's classes throw an exception with the reason.
THROW: Final = {
    2003, 2025, 2030, 2035, 2051, 2053, 2058, 2063, 2102, 2203, 2204, 2273, 2278, 2279, 2298, 2381, 2393, 2397, 2398, 2400,
    2528, 2540, 2543, 2546, 2547, 2548, 2549, 2555, 2556, 2568, 2577, 2600, 2601,
}  # fmt: skip
OF_THE_DAY: Final = of_the_day(sorted(RECONNECT | THROW), 8, name="reasons")
#: The connections of a program with one session.
CONNECTIONS: Final = 2


class Refusing:
    """Refuses the calls of the program with one reason after the other."""

    def __init__(self) -> None:
        self._left = list(OF_THE_DAY)
        self._armed = 0
        #: The number of connections until each refusal.
        self.connections: list[int] = [0]

    def arm(self) -> None:
        self._armed = self._left.pop(0)
        self.connections.append(0)

    def connect(self, connect: Callable[..., EmbeddedConnection], **given: str) -> EmbeddedConnection:
        self.connections[-1] += 1
        connection = connect(**given)
        connection.put = partial(self.once, "MQPUT", connection.put)  # type: ignore[assignment,method-assign] # the same arguments
        return connection

    def once(self, verb: str, call: Callable[..., object], *values: object, **options: object) -> object:
        reason, self._armed = self._armed, 0
        if reason:
            raise error_for(reason, verb)
        return call(*values, **options)


@pytest.mark.parametrize(("delivery_mode", "answer"), [(1, "sent"), (2, "2549")], ids=["not persistent", "persistent"])
def test_these_reasons_of_a_put_start_a_reconnection_that_loses_the_message(
    java: Program,
    queue_manager: EmbeddedQueueManager,
    serve: Serve,
    monkeypatch: pytest.MonkeyPatch,
    delivery_mode: int,
    answer: str,
) -> None:
    """For a message that is not persistent, `send` returns as if it had sent the message. A persistent message gets 2549.

    The difference: mqflow reconnects after more reasons, and not after 2539, which a person must mend.
    """
    refusing = Refusing()
    monkeypatch.setattr(queue_manager, "connect", partial(refusing.connect, queue_manager.connect))
    port, _ = serve(queue_manager)

    said = java.run(port, "app", "secret", f"reasons-put:{len(OF_THE_DAY)}:{delivery_mode}", refusing.arm)

    expected = [answer if reason in RECONNECT else str(reason) for reason in OF_THE_DAY]
    assert [*(line for each in expected for line in ("stop", each)), "end"] == said
    assert [] == browsed(queue_manager, "Q1")
    again = [count - CONNECTIONS for count in refusing.connections[1:-1]]  # each count has the next program's connections
    assert [CONNECTIONS * (reason in RECONNECT) for reason in OF_THE_DAY[:-1]] == again


def test_after_each_reason_of_a_connect_the_next_address_is_tried(
    java: Program, queue_manager: EmbeddedQueueManager, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after 2035 or 2540. mqflow tries every address too (`policy.channels.candidates`)."""
    refusing, (second, _) = Refusing(), serve(queue_manager)
    with EmbeddedQueueManager("QM1") as first:
        monkeypatch.setattr(first, "connect", partial(refusing.once, "MQCONNX", first.connect))
        port, _ = serve(first)

        said = java.run(port, "app", "secret", f"reasons-connect:{len(OF_THE_DAY)}:{second}", refusing.arm)

    assert [*(["stop", "connected"] * len(OF_THE_DAY)), "end"] == said


def test_mqflow_reconnects_after_these_reasons_and_more() -> None:
    differ = {reason for reason in RECONNECT | THROW if (reason in RECONNECT) is not (CLASSES.get(reason) is Class.RECONNECT)}

    assert {2025, 2203, 2204, 2273, 2279, 2528, 2539, 2543, 2549, 2568, 2601} == differ
