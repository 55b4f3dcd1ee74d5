"""The server side of one application: its answers, how long it waits, and the state that it leaves behind.

The requests wait in a socket before the connection runs, so it runs in the thread of the test. The test makes the rest.
"""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.administration_calls import Administer
from mqflow.embedded.wire.protocol.end_manner import End
from mqflow.embedded.wire.protocol.frames import Frames, made
from mqflow.embedded.wire.protocol.streams import TlsStream
from mqflow.embedded.wire.protocol.wakeup import Waited
from mqflow.embedded.wire.server.certificates import client_context, make_certificates, server_context
from mqflow.embedded.wire.server.client_connection import ClientConnection
from mqflow.embedded.wire.server.contract import Arrival
from mqflow.embedded.wire.server.login import SameUser
from mqflow.many_verbs import without_wait
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.options import GetOption, OpenOption
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import UNIT_BYTES_MAX, WAIT_UNLIMITED, GetOptions, Got
from tests.conformance.under_test import ManualClock

GOT = Got(descriptor=MessageDescriptor(), body=b"an order", data_bytes=8)
FULL = error_for(Reason.MAX_CONNS_LIMIT_REACHED, "MQCONNX", queue_manager="QM1")
OPEN = requests.Open("Q", options=OpenOption.INPUT_SHARED)
TIME_OVER, SIGNALLED = Waited(readable=False, signalled=False), Waited(readable=False, signalled=True)
READABLE = Waited(readable=True, signalled=False)


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
        #: The waits of the gets that wait in the queue manager, in milliseconds.
        self.waits_ms: list[int] = []
        #: Further effects of calls.
        self.acts: dict[str, Callable[[], object]] = {}
        #: The calls during which the peer gets heartbeats.
        self.beats: list[str] = []
        self.frames: Any = None

    def unwaiting(self, options: GetOptions) -> GetOptions:
        return without_wait(options)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return the call of this name."""

        def call(*arguments: Any, **named: Any) -> Any:
            shown = [each for each in (*arguments, *named.values()) if isinstance(each, str | int | float)]
            self.calls.append((name, *shown))
            asked = [each for each in arguments if isinstance(each, GetOptions)]
            self.waits_ms += [each.wait_ms for each in asked if each.options & GetOption.WAIT]
            self.frames = arguments[0] if name == "add" else self.frames
            if self.frames is not None and self.frames.beating:
                self.beats.append(name)
            self.acts.get(name, int)()
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
        self.login: Any = SameUser()
        handle = SimpleNamespace(name="Q", options=OpenOption.INPUT_SHARED, resolved_queue="Q", resolved_queue_manager="QM1")
        self.around.results |= {"connect": [self.around], "open": [handle], "join": [True]}

    def make(self, full: Any = None) -> None:
        around = self.around
        arrival = Arrival(
            raw=self.raw, clock=self.clock, complain=around.complain, complain_once=around, arrived=around, admit=around.admit,
            take_place=around, give_place_back=around, over=around.over, hello_s=7.0, full=full,
        )  # fmt: skip
        self.made = ClientConnection(around, arrival, self.login, around.host, around, around, around, None)

    def run(self, *asked: requests.Request, full: Any = None) -> list[requests.Reply[Any]]:
        """Return the replies to the requests."""
        self.make(full)
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
            value = replies[-1].value
            if not (isinstance(value, requests.Exchanged) and (value.waits or value.more)):
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

    assert [("add",), ("admit", False), ("connect", "app", "u", 0), *ENDS] == kit.called()
    assert (None, False) == (kit.made.unknown_until, kit.made.is_checked)


def test_the_connection_of_an_application_has_its_process(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    processes = {kit.raw: 4711}
    monkeypatch.setattr("mqflow.embedded.wire.server.client_connection.process_of_other", processes.__getitem__)

    kit.run(hello())

    assert [("connect", "app", "u", 4711)] == [call for call in kit.called() if call[0] == "connect"]


@pytest.mark.parametrize(
    ("changed", "reason", "detail"),
    [
        ({"version": 0}, Reason.Q_MGR_NOT_AVAILABLE, "of the protocol, the application 0"),
        ({"queue_manager": "QM2"}, Reason.Q_MGR_NAME_ERROR, "The queue manager served here is QM1"),
    ],
)
@pytest.mark.parametrize("administers", [True, False])
def test_a_hello_for_another_server_is_refused(
    kit: Kit, changed: dict[str, Any], reason: Reason, detail: str, *, administers: bool
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
def test_a_hello_with_a_pulse_joins_it_and_sends_no_heartbeats_of_its_own(kit: Kit, *, administers: bool) -> None:
    assert [requests.Reply(None, "QM1")] == kit.run(hello(pulse=3, administers=administers))

    begin = [("administration_of", "u"), ("admit", True)] if administers else [("admit", False), ("connect", "app", "u", 0)]
    end = [("remove",), ("leave", 3), *([] if administers else [("abandon",)]), ("close",), ("over",)]
    assert [("add",), *begin, ("join", 3), ("remove",), *end] == kit.called()


@pytest.mark.parametrize("administers", [True, False])
def test_a_pulse_that_has_stopped_is_2009(kit: Kit, *, administers: bool) -> None:
    kit.around.results["join"] = [False]
    [reply] = kit.run(hello(pulse=3, administers=administers))

    assert reply.failure is not None
    assert (Reason.CONNECTION_BROKEN, "No such pulse") == (reply.failure.reason, reply.failure.detail)
    assert [("abandon",)] * (not administers) == kit.called("add", "admit", "connect", "administration_of", "join")[:-4]


END, CLEAR = requests.EndQueueManager(End()), Administer("clear", {"name": "Q"})
NOT_NOW = error_for(Reason.FUNCTION_NOT_SUPPORTED, "EndQueueManager")


def test_an_administrator_asks_and_orders_until_it_ends_the_connection(kit: Kit) -> None:
    """The authority is checked for each request, because the user can have lost it."""
    lost = error_for(Reason.NOT_AUTHORIZED, "MQCONNX")
    kit.around.results |= {"administration_of": [None, kit.around, None, None, lost], "host": [None, NOT_NOW]}
    kit.around.acts["clear"] = lambda: limits.append(kit.made.unknown_until)
    limits: list[float | None] = []

    failures = [requests.Reply[None](requests.failure_of(error)) for error in (NOT_NOW, lost)]
    replies = [requests.Reply(None, "QM1"), requests.Reply(None), requests.Reply(None), *failures]
    assert replies == kit.run(hello(administers=True), CLEAR, END, END, CLEAR)
    asked = ("administration_of", "u")
    welcome = [("add",), asked, ("admit", True)]
    answers = [asked, ("clear", "Q"), asked, ("host",), asked, ("host",), asked]
    assert [*welcome, *answers, ("remove",), ("leave", 0), ("close",), ("over",)] == kit.called()
    assert ([None], ["administration_of", "clear"] + ["administration_of", "host"] * 2 + ["administration_of"]) == (
        limits,
        kit.around.beats,
    )


@pytest.mark.parametrize(
    ("call", "error"), [("administration_of", error_for(Reason.NOT_AUTHORIZED, "MQCONNX")), ("admit", FULL)]
)
def test_a_user_that_must_not_administer_is_refused(kit: Kit, call: str, error: MQIError) -> None:
    kit.around.results[call] = [error]

    assert [requests.Reply(requests.failure_of(error))] == kit.run(hello(administers=True), CLEAR)
    assert [] == kit.called("add", "administration_of", "admit", "remove", "leave", "close", "over")


@pytest.mark.parametrize(
    ("administers", "request_"), [(True, OPEN), (True, hello()), (False, CLEAR), (False, END), (False, hello())]
)
def test_an_administrator_calls_no_verb_and_an_application_administers_nothing(
    kit: Kit, *, administers: bool, request_: requests.Request
) -> None:
    assert [requests.Reply(None, "QM1")] == kit.run(hello(administers=administers), request_, request_)
    assert [] == [call for call in kit.called() if call[0] in {"open", "host", "clear", "complain"}]


def test_a_full_server_still_lets_administrators_in(kit: Kit) -> None:
    assert [requests.Reply(None, "QM1")] == kit.run(hello(administers=True), full=FULL)


def test_an_application_gets_heartbeats_only_while_it_waits_for_an_answer(kit: Kit) -> None:
    kit.run(hello(), OPEN, requests.Get(1, GetOptions()))

    assert ["open", "give_back", "get"] == kit.around.beats


@pytest.mark.parametrize(
    ("administers", "request_", "call"), [(False, requests.Commit(), "commit"), (True, END, "host"), (True, CLEAR, "clear")]
)
def test_a_connection_that_ends_answers_the_call_under_way_and_no_request_behind_it(
    kit: Kit, *, administers: bool, request_: requests.Request, call: str
) -> None:
    kit.around.results["administration_of"] = [kit.around] * 4
    kit.around.acts[call] = lambda: kit.made.end()  # noqa: PLW0108 - `run` makes the connection

    replies = [requests.Reply(None, "QM1"), requests.Reply(None)]
    assert replies == kit.run(hello(administers=administers), request_, request_)
    assert 1 == len([each for each in kit.called() if each[0] == call])


def test_a_pulse_gets_its_number_and_ends_the_connections_that_depend_on_it(kit: Kit) -> None:
    kit.around.results["begin"] = [5]

    assert [requests.Reply(None, 5)] == kit.run(requests.Pulse(requests.PROTOCOL_VERSION))
    assert [("add",), ("begin",), ("end", 5), ("remove",), ("leave", 0), ("close",), ("over",)] == kit.called()
    assert (True, None, "end") == (kit.made.is_pulse, kit.made.unknown_until, kit.around.beats[0])


def test_a_pulse_of_another_version_or_from_a_network_gets_no_answer(kit: Kit) -> None:
    assert [] == kit.run(requests.Pulse(0))
    assert ([], False) == (kit.called("add", "remove", "leave", "close", "over"), kit.made.is_pulse)


class Remote:
    """A login over a network, which notes whether the server says that it checks the peer."""

    same_machine = False

    def __init__(self, kit: Kit, *, refuses: bool) -> None:
        self.kit, self.refuses, self.seen = kit, refuses, list[object]()

    def secured(self, raw: socket.socket) -> socket.socket:
        return raw

    def user_of(self, hello: requests.Hello, owner: str, address: str, _stream: object) -> str:
        self.seen = [hello.user, owner, address, self.kit.made.is_checked, self.kit.around.frames.beating]
        if self.refuses:
            raise error_for(Reason.NOT_AUTHORIZED, "MQCONNX", detail="no such user")
        return "alice"


@pytest.mark.parametrize("refuses", [True, False])
def test_a_log_in_is_checked_before_the_peer_takes_a_place(kit: Kit, *, refuses: bool) -> None:
    kit.login = Remote(kit, refuses=refuses)
    [reply] = kit.run(hello())

    assert (["u", "mqm", "the Unix socket", True, True], False) == (kit.login.seen, kit.made.is_checked)
    places = (
        [("admit", False), ("connect", "app", "alice", 0), *ENDS]
        if not refuses
        else [each for each in ENDS if each != ("abandon",)]
    )
    assert [("add",), *places] == kit.called()
    assert refuses == (reply.failure is not None)


def test_a_peer_of_a_network_has_the_address_of_its_host() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as peer:
        kit = Kit(listener.accept()[0], peer)
        kit.login = Remote(kit, refuses=False)
        kit.run(hello())

    assert ["u", "mqm", "127.0.0.1", True, True] == kit.login.seen


def test_a_network_offers_no_pulse(kit: Kit) -> None:
    kit.login = Remote(kit, refuses=False)

    assert [] == kit.run(requests.Pulse(requests.PROTOCOL_VERSION))


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
    assert ([*once, ("on_arrival",), *once], []) == (kit.called(*AROUND_A_GET), kit.around.waits_ms)


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


class OverTls(SameUser):
    """The log-in of a peer behind TLS. The handshake is over before the connection runs."""

    def __init__(self, kit: Kit, folder: Path) -> None:
        files = make_certificates(folder, ["localhost"], name="QM1", now=datetime.now(UTC))
        self.peer = TlsStream(kit.peer, client_context(files.authority), server_side=False, host="localhost")
        self._server = TlsStream(kit.raw, server_context(files.certificate, files.key), server_side=True)
        serving = threading.Thread(target=self._server.handshake)
        serving.start()
        self.peer.handshake()
        serving.join()

    def secured(self, raw: socket.socket) -> TlsStream:
        assert raw.fileno() == self._server.fileno()
        return self._server

    def send(self, *asked: requests.Request | None) -> None:
        """Send each request, or a heartbeat, in a TLS record of its own. The server reads all records at once."""
        for each in asked:
            self.peer.send(made(b"" if each is None else requests.encode(each)))


@pytest.mark.parametrize("later", [False, True], ids=["with the request", "behind a heartbeat during the wait"])
def test_an_interrupt_over_tls_ends_a_wait_although_the_socket_shows_no_bytes(kit: Kit, tmp_path: Path, *, later: bool) -> None:
    kit.login = over = OverTls(kit, tmp_path)
    get, interrupt = requests.Get(1, waiting(3_000)), requests.Interrupt()
    over.send(hello(), OPEN, get, *([] if later else [interrupt]))
    kit.around.results |= {"on_arrival": [kit.around.withdraw], "heard_beside": [READABLE, TIME_OVER]}
    kit.around.acts |= {"heard_beside": lambda: over.send(None, interrupt), "clear": lambda: kit.peer.shutdown(socket.SHUT_WR)}

    kit.make()
    kit.made.run()

    waited = [("heard_beside", 3.0)] if later else []
    assert [("on_arrival",), *waited, ("withdraw",), ("clear",)] == kit.called(*AROUND_A_GET)
    frames = Frames(over.peer)
    *_, reply = [frames.answer() for _ in ("the hello", "the open", "the get")]
    assert requests.Reply(None) == requests.decode_reply(get, reply)


def test_a_commit_before_a_get_that_waits_is_answered_before_the_wait(kit: Kit) -> None:
    kit.around.results |= {"get_many": [[], [], [GOT]], "on_arrival": [kit.around.withdraw], "heard_beside": [SIGNALLED]}
    exchange = requests.Exchange(1, waiting(3_000), True, 16)
    values = [each.value for each in kit.run(hello(), OPEN, exchange)[2:]]

    assert [requests.Exchanged(waits=True), requests.Exchanged(unit=(GOT,))] == values
    verbs = [call[0] for call in kit.called("add", "admit", "connect", "open")]
    assert ["give_back", "exchange_at_once", "commit", "get_many", "get_many", "on_arrival"] == verbs[:6]


def test_a_long_unit_of_work_goes_in_parts_and_long_messages_in_parts_of_their_own(kit: Kit) -> None:
    long = Got(descriptor=MessageDescriptor(), body=bytes(5_000), data_bytes=5_000)
    kit.around.results["exchange_at_once"] = [[GOT] * 33, [long] * 17, [long] * 10, [long] * 9]
    exchange = requests.Exchange(1, GetOptions(), commit=True, most=100)

    values = [each.value for each in kit.run(hello(), OPEN, *[exchange] * 4)[2:]]

    parts = [((GOT,) * 16, True), ((GOT,) * 16, True), ((GOT,), False), ((long,) * 16, True), ((long,), False)]
    parts += [((long,) * 9, True), ((long,), False), ((long,) * 9, False)]
    assert [requests.Exchanged(unit=unit, more=more) for unit, more in parts] == values


def test_a_settlement_without_a_get_at_once_backs_out_or_commits_and_then_gets(kit: Kit) -> None:
    failed = error_for(Reason.Q_FULL, "MQCMIT")
    kit.around.results |= {"get_many": [[GOT], [], failed, []], "commit": [None, failed], "backout": [None]}
    steps = [None, True, False, True, None]

    values = [
        each.value for each in kit.run(hello(), OPEN, *(requests.Exchange(1, GetOptions(), step, 7) for step in steps))[2:]
    ]

    failure = requests.failure_of(failed)
    assert [
        requests.Exchanged(unit=(GOT,)),
        requests.Exchanged(),
        requests.Exchanged(get=failure),
        requests.Exchanged(settle=failure),
        requests.Exchanged(),
    ] == values
    bytes_max = UNIT_BYTES_MAX
    commits = [("give_back",), ("exchange_at_once", True, 7, bytes_max), ("commit",)]
    gets = [("give_back",), ("exchange_at_once", False, 7, bytes_max)]
    get = ("get_many", 7, bytes_max)
    assert [*gets, get, *commits, get, ("give_back",), ("backout",), get, *commits, *gets, get] == (
        kit.called("add", "admit", "connect", "open", *(end[0] for end in ENDS))
    )


def test_the_messages_of_units_ahead_go_back_before_a_request_that_gets_or_settles_and_before_no_other(kit: Kit) -> None:
    asked: list[requests.Request] = [
        requests.Inquire(1, ()), requests.Get(1, GetOptions()), requests.GetMany(1, GetOptions(), 5, 9), requests.Commit(),
        requests.BrowseBack(1, 2), requests.Backout(), requests.Disconnect(),
    ]  # fmt: skip
    kit.around.results["get_many"] = [[GOT]]

    replies = kit.run(hello(), OPEN, *asked)

    assert [(), None, (GOT,), None, None, None, None][1:] == [each.value for each in replies[3:]]
    assert [
        "inquire", "give_back", "get", "give_back", "get_many", "give_back", "commit", "browse_back", "give_back", "backout",
        "give_back", "disconnect",
    ] == [call[0] for call in kit.called("add", "admit", "connect", "open", *(end[0] for end in ENDS))]  # fmt: skip
    assert ("get_many", 5, 9) in kit.called()
