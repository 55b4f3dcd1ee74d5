"""The server side of one application: its answers, how long it waits, and the state that it leaves behind.

The requests wait in a socket before the connection runs, so it runs in the thread of the test. The test makes the rest.
"""

import contextlib
import socket
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.frames import Frames, made
from mqflow.embedded.wire.protocol.wakeup import Waited
from mqflow.embedded.wire.server.client_connection import ClientConnection
from mqflow.embedded.wire.server.login import SameUser
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import error_for
from mqflow.mqi.options import GetOption, OpenOption
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import WAIT_UNLIMITED, GetOptions, Got
from tests.conformance.under_test import ManualClock

GOT = Got(descriptor=MessageDescriptor(), body=b"an order", data_bytes=8)
FULL = error_for(Reason.MAX_CONNS_LIMIT_REACHED, "MQCONNX", queue_manager="QM1")
OPEN = requests.Open("Q", OpenOption.INPUT_SHARED, 1, "", "", "")
TIME_OVER, SIGNALLED = Waited(readable=False, signalled=False), Waited(readable=False, signalled=True)


def hello(**changed: Any) -> requests.Hello:
    fields: dict[str, Any] = {
        "version": requests.PROTOCOL_VERSION,
        "queue_manager": "QM1",
        "application_name": "app",
        "user": "u",
    }
    return requests.Hello(**fields | changed)


def waiting(wait_ms: int) -> GetOptions:
    return GetOptions(options=GetOption.NO_SYNCPOINT | GetOption.WAIT, wait_ms=wait_ms)


class Recorder:
    """Stands for everything around the connection: records the calls, and returns what the test says."""

    name, queue_manager_name, owner, silence_s = "QM1", "QM1", "mqm", 5.0

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.results: dict[str, list[Any]] = {}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return the call of this name."""

        def call(*arguments: Any, **named: Any) -> Any:
            shown = [each for each in (*arguments, *named.values()) if isinstance(each, str | int | float)]
            self.calls.append((name, *shown))
            result = self.results[name].pop(0) if self.results.get(name) else None
            if isinstance(result, Exception):
                raise result
            return result

        return call


class Kit:
    """A connection that runs over requests sent before."""

    def __init__(self, raw: socket.socket, peer: socket.socket) -> None:
        self.raw, self.peer, self.clock = raw, peer, ManualClock()
        self.clock.now_s = 100.0
        self.around: Any = Recorder()
        handle = SimpleNamespace(name="Q", options=OpenOption.INPUT_SHARED, resolved_queue="Q", resolved_queue_manager="QM1")
        self.around.results |= {"connect": [self.around], "open": [handle], "join": [True]}

    def run(self, *asked: requests.Request, full: Any = None) -> list[requests.Reply[Any]]:
        """Return the replies to the requests."""
        around = self.around
        self.made = ClientConnection(
            around, self.raw, SameUser(), around.host, self.clock, around, around.admit, around.over, around.complain,
            around, around, around, None, hello_s=7.0, full=full,
        )  # fmt: skip
        assert 107.0 == self.made.unknown_until
        self.peer.sendall(b"".join(made(requests.encode(each)) for each in asked))
        self.peer.shutdown(socket.SHUT_WR)
        self.made.run()
        assert -1 == self.raw.fileno()
        frames, replies = Frames(self.peer), list[requests.Reply[Any]]()
        kinds = iter([each for each in asked if not isinstance(each, requests.Interrupt)])
        request = next(kinds, None)
        while (frame := frames.receive()) is not None:
            assert request is not None
            replies.append(requests.decode_reply(request, frame))
            if not (isinstance(replies[-1].value, requests.Exchanged) and replies[-1].value.waits):
                request = next(kinds, None)
        return replies

    def called(self, *left_out: str) -> list[tuple[Any, ...]]:
        return [call for call in self.around.calls if call[0] not in left_out]


@pytest.fixture
def kit() -> Iterator[Kit]:
    raw, peer = socket.socketpair()
    with contextlib.closing(raw), contextlib.closing(peer):
        peer.settimeout(5)
        yield Kit(raw, peer)


ENDS: list[tuple[Any, ...]] = [("remove",), ("leave", 0), ("abandon",), ("close",), ("over",)]


def test_an_application_takes_a_place_connects_and_leaves_nothing_behind(kit: Kit) -> None:
    assert [requests.Reply(None, "QM1")] == kit.run(hello())

    assert [("add",), ("admit", False), ("connect", "app", "u"), *ENDS] == kit.called()
    assert (None, False) == (kit.made.unknown_until, kit.made.is_checked)


@pytest.mark.parametrize(
    ("changed", "reason", "detail"),
    [
        ({"version": 0}, Reason.Q_MGR_NOT_AVAILABLE, "of the protocol, the application 0"),
        ({"queue_manager": "QM2"}, Reason.Q_MGR_NAME_ERROR, "The queue manager served here is QM1"),
    ],
)
@pytest.mark.parametrize("administers", [True, False])
def test_a_hello_for_another_server_is_refused(
    kit: Kit,
    changed: dict[str, Any],
    reason: Reason,
    detail: str,
    administers: bool,  # noqa: FBT001 - a column
) -> None:
    [reply] = kit.run(hello(**changed, administers=administers))

    assert reply.failure is not None
    assert reason == reply.failure.reason
    assert reply.failure.detail.endswith(detail)
    assert [("add",), ("remove",), ("leave", 0), ("close",), ("over",)] == kit.called()


def test_a_full_server_refuses_a_peer_that_says_hello_and_ends_others_without_an_answer(kit: Kit) -> None:
    assert [requests.Reply(requests.failure_of(FULL))] == kit.run(hello(), OPEN, full=FULL)
    assert [] == kit.called("add", *(end[0] for end in ENDS))


@pytest.mark.parametrize("full", [None, FULL])
def test_a_peer_that_begins_with_a_verb_gets_no_answer(kit: Kit, full: object) -> None:
    assert [] == kit.run(OPEN, full=full)


@pytest.mark.parametrize("administers", [True, False])
def test_a_hello_with_a_pulse_joins_it_and_sends_no_heartbeats_of_its_own(kit: Kit, administers: bool) -> None:  # noqa: FBT001
    assert [requests.Reply(None, "QM1")] == kit.run(hello(pulse=3, administers=administers))

    begin = [("administration_of", "u"), ("admit", True)] if administers else [("admit", False), ("connect", "app", "u")]
    end = [("remove",), ("leave", 3), *([] if administers else [("abandon",)]), ("close",), ("over",)]
    assert [("add",), *begin, ("join", 3), ("remove",), *end] == kit.called()


@pytest.mark.parametrize("administers", [True, False])
def test_a_pulse_that_has_stopped_is_2009(kit: Kit, administers: bool) -> None:  # noqa: FBT001 - a column
    kit.around.results["join"] = [False]
    [reply] = kit.run(hello(pulse=3, administers=administers))

    assert reply.failure is not None
    assert (Reason.CONNECTION_BROKEN, "No such pulse") == (reply.failure.reason, reply.failure.detail)
    assert [("abandon",)] * (not administers) == kit.called("add", "admit", "connect", "administration_of", "join")[:-4]


def test_bytes_that_are_no_request_are_reported_with_the_peer(kit: Kit) -> None:
    kit.peer.sendall(made(b"nonsense"))
    assert [] == kit.run()

    [(_, said)] = [call for call in kit.called() if call[0] == "complain"]
    assert said.startswith("A peer at the Unix socket sent bytes that are no request, and is disconnected: a frame of 8 bytes")


def got(kit: Kit, options: GetOptions, *before: requests.Request) -> list[Any]:
    """Return the values of the replies to a get after an open."""
    return [each.value for each in kit.run(hello(), OPEN, *before, requests.Get(1, options))[2:]]


AROUND_A_GET = ("add", "admit", "connect", "open", "get", "give_back", *(end[0] for end in ENDS))


@pytest.mark.parametrize(("wait_ms", "waits_s"), [(3_000, 3.0), (5_000, 5.0)])
def test_a_get_without_a_message_ends_when_its_wait_is_over(kit: Kit, wait_ms: int, waits_s: float) -> None:
    kit.around.results |= {"on_arrival": [kit.around.withdraw], "heard_beside": [TIME_OVER]}

    assert [None] == got(kit, waiting(wait_ms))
    assert [("on_arrival",), ("heard_beside", waits_s), ("withdraw",), ("clear",)] == kit.called(*AROUND_A_GET)


@pytest.mark.parametrize("wait_ms", [5_001, WAIT_UNLIMITED])
def test_a_waiting_application_that_is_silent_for_too_long_counts_as_dead(kit: Kit, wait_ms: int) -> None:
    kit.around.results |= {"on_arrival": [kit.around.withdraw], "heard_beside": [TIME_OVER]}

    assert [] == got(kit, waiting(wait_ms))
    waited = [("on_arrival",), ("heard_beside", 5.0), ("withdraw",), ("clear",), *ENDS]
    assert waited == kit.called("add", "admit", "connect", "open", "get", "give_back")


def test_a_get_waits_on_after_a_signal_for_a_message_that_another_took(kit: Kit) -> None:
    kit.around.results |= {
        "get": [None, None, None, None, GOT],
        "on_arrival": [kit.around.withdraw, None, kit.around.withdraw],
        "heard_beside": [SIGNALLED, SIGNALLED],
    }

    assert [GOT] == got(kit, waiting(3_000))
    once = [("on_arrival",), ("heard_beside", 3.0), ("withdraw",), ("clear",)]
    assert [*once, ("on_arrival",), *once] == kit.called(*AROUND_A_GET)


@pytest.mark.parametrize("options", [waiting(0), GetOptions(options=GetOption.NO_SYNCPOINT, wait_ms=3_000)])
def test_a_get_without_a_wait_waits_for_nothing(kit: Kit, options: GetOptions) -> None:
    assert [None] == got(kit, options)
    assert [] == kit.called(*AROUND_A_GET)


def test_an_interrupted_application_waits_for_no_message(kit: Kit) -> None:
    assert [None] == got(kit, waiting(3_000), requests.Interrupt())
    assert [] == kit.called(*AROUND_A_GET)


@pytest.mark.parametrize(("after", "replies"), [(requests.Interrupt(), [None]), (requests.Commit(), [])])
def test_a_waiting_application_may_interrupt_and_ask_nothing_else(
    kit: Kit, after: requests.Request, replies: list[object]
) -> None:
    kit.around.results["on_arrival"] = [kit.around.withdraw]
    values = kit.run(hello(), OPEN, requests.Get(1, waiting(3_000)), after)[2:]

    assert replies == [each.value for each in values]
    assert [("on_arrival",), ("withdraw",), ("clear",)] == kit.called(*AROUND_A_GET)


def test_a_commit_before_a_get_that_waits_is_answered_before_the_wait(kit: Kit) -> None:
    kit.around.results |= {
        "get_many": [[], [], [GOT]],
        "on_arrival": [kit.around.withdraw],
        "heard_beside": [SIGNALLED],
    }
    exchange = requests.Exchange(1, waiting(3_000), True, 16)
    values = [each.value for each in kit.run(hello(), OPEN, exchange)[2:]]

    assert [requests.Exchanged(waits=True), requests.Exchanged(unit=(GOT,))] == values
    verbs = [call[0] for call in kit.called("add", "admit", "connect", "open")]
    assert ["give_back", "exchange_at_once", "commit", "get_many", "get_many", "on_arrival"] == verbs[:6]
