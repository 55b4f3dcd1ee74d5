"""Each verb of a served connection as the requests that it sends, and the replies as the results of the verb.

Except in the last test there is no socket: the line records requests, and replies as the test says.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict, replace

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.client.connection import ServedConnection, ServedHandle
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.frames import made
from mqflow.embedded.wire.server.listener import serve
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.options import CloseOption, GetOption, ObjectType, OpenOption, PutOption, SubscribeOption
from mqflow.mqi.options import SubscriptionRequestOption as RequestOption
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.subscription import SubscriptionDescriptor
from mqflow.verbs import (
    UNIT_BYTES_MAX,
    Exchange,
    GetOptions,
    Got,
    Inquired,
    ManyPut,
    ObjectDescriptor,
    Put,
    SettledMany,
    Subscribed,
)
from tests.conformance.under_test import ManualClock

DESCRIPTOR = MessageDescriptor(persistence=1)
UNDER_SYNCPOINT = GetOptions(options=GetOption.SYNCPOINT)
Asked = tuple[requests.Request, str, str, bool]


class Line:
    """Stands for `Line`: records each call with its verb, its object, and whether its effect would be unknown."""

    queue_manager_name = "QM1"

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        #: What each call returns, or raises; then None.
        self.replies: list[Any] = []
        #: The other calls, and the frames that were sent.
        self.events: list[object] = []

    def call(self, request: requests.Request, verb: str, object_name: str = "", *, unknown: bool = False) -> Any:
        self.asked.append((request, verb, object_name, unknown))
        reply = self.replies.pop(0) if self.replies else None
        if isinstance(reply, BaseException):
            raise reply
        return reply

    def reply(
        self, request: requests.Request, frame: bytes | None, verb: str, object_name: str = "", *, unknown: bool = False
    ) -> Any:
        self.events.append(frame)
        return self.call(request, verb, object_name, unknown=unknown)

    def take(self, *said: str) -> None:
        self.events.append(("take", *said))

    def __getattr__(self, name: str) -> Callable[[], None]:
        """Return one of the calls without arguments: give_back, let_go, break_off, interrupt, close."""
        return lambda: self.events.append(name)


class Kit:
    """A connection over a recording line, and two open handles."""

    def __init__(self) -> None:
        line: Any = Line()
        self.line: Line = line
        self.clock = ManualClock()
        self.connection = ServedConnection(line, self.clock)
        self.handle = self.opened(3, "ORDERS")
        self.other = self.opened(4, "OTHER")

    def opened(self, number: int, name: str) -> ServedHandle:
        return ServedHandle(self.connection, number, name, OpenOption.OUTPUT, name)

    def replying(self, *replies: Any) -> ServedConnection:
        self.line.replies = list(replies)
        return self.connection


@pytest.fixture
def kit() -> Kit:
    return Kit()


WHOLE = ObjectDescriptor("MODEL", ObjectType.TOPIC, "QM2", "TEMP.*", "app", "fruit", "colour = 'red'")


def test_an_open_sends_the_whole_descriptor_and_returns_the_handle(kit: Kit) -> None:
    replies = requests.Opened(7, "TEMP.1", 16, "LOCAL", "QM9"), requests.Opened(8, "Q", 16, "Q")
    handles = [kit.replying(*replies).open(target, OpenOption.OUTPUT) for target in (WHOLE,)]
    handles.append(kit.connection.open("Q", OpenOption.OUTPUT))

    assert [
        (requests.Open("MODEL", 8, "QM2", "TEMP.*", "app", "fruit", "colour = 'red'", options=16), "MQOPEN", "MODEL", False),
        (requests.Open("Q", options=16), "MQOPEN", "Q", False),
    ] == kit.line.asked
    assert [
        ServedHandle(kit.connection, 7, "TEMP.1", OpenOption.OUTPUT, "LOCAL", "QM9"),
        ServedHandle(kit.connection, 8, "Q", OpenOption.OUTPUT, "Q"),
    ] == handles


PUT = Put(descriptor=DESCRIPTOR, resolved_queue="ORDERS", resolved_queue_manager="QM1")


@pytest.mark.parametrize(
    ("persistence", "options", "unknown"),
    [
        (1, PutOption.NO_SYNCPOINT, True),
        (2, PutOption.NONE, True),
        (0, PutOption.NO_SYNCPOINT, False),
        (1, PutOption.SYNCPOINT, False),
    ],
)
def test_a_put_whose_answer_is_lost_is_unknown_if_it_can_be_durable(
    kit: Kit, persistence: int, options: PutOption, *, unknown: bool
) -> None:
    descriptor = MessageDescriptor(persistence=persistence)
    assert [PUT, PUT] == [
        kit.replying(PUT).put(kit.handle, descriptor, b"body", options),
        kit.replying(PUT).put1(WHOLE, descriptor, b"body", options, context=kit.other),
    ]
    kit.replying(requests.PutManyAnswer((PUT,))).put_many(kit.handle, [(descriptor, b"body")], options)

    assert [
        (requests.Put(3, descriptor, b"body", int(options), None), "MQPUT", "ORDERS", unknown),
        (requests.Put1(**asdict(WHOLE), descriptor=descriptor, body=b"body", options=int(options), context=4), "MQPUT1",
         "MODEL", unknown),
        (requests.PutMany(3, ((descriptor, (b"body",)),), int(options), None), "MQPUT", "ORDERS", unknown),
    ] == kit.line.asked  # fmt: skip
    assert (options != PutOption.SYNCPOINT) == kit.connection.only_removes


def test_many_puts_go_in_as_few_requests_as_frames_allow(kit: Kit) -> None:
    half = bytes(UNIT_BYTES_MAX // 2)
    first, second = MessageDescriptor(persistence=0), DESCRIPTOR
    messages = [(first, b"1"), (first, half), (second, half), (second, b"4")]
    connection = kit.replying(requests.PutManyAnswer((PUT, PUT)), requests.PutManyAnswer((PUT, PUT)))

    assert ManyPut((PUT,) * 4) == connection.put_many(kit.handle, messages, PutOption.NO_SYNCPOINT, context=kit.other)

    assert [
        (requests.PutMany(3, ((first, (b"1", half)),), 4, 4), "MQPUT", "ORDERS", False),
        (requests.PutMany(3, ((second, (half, b"4")),), 4, 4), "MQPUT", "ORDERS", True),
    ] == kit.line.asked


FAILED = error_for(Reason.Q_FULL, "MQPUT", "ORDERS", "QM1")


def test_many_puts_end_at_the_first_refusal(kit: Kit) -> None:
    answer = requests.PutManyAnswer((PUT,), requests.failure_of(FAILED))
    big = bytes(UNIT_BYTES_MAX)

    done = kit.replying(answer).put_many(kit.handle, [(DESCRIPTOR, b"1"), (DESCRIPTOR, big)], PutOption.SYNCPOINT)
    broken = kit.replying(FAILED).put_many(kit.handle, [(DESCRIPTOR, b"1")], PutOption.SYNCPOINT)

    assert ((PUT,), str(FAILED), 2) == (done.puts, str(done.error), len(kit.line.asked))
    assert ManyPut((), FAILED) == broken
    assert not kit.connection.only_removes


def test_a_body_that_is_not_bytes_is_refused_behind_the_puts_before_it(kit: Kit) -> None:
    text: Any = "text"
    messages = [(DESCRIPTOR, b"1"), (DESCRIPTOR, text), (DESCRIPTOR, b"3")]

    done = kit.replying(requests.PutManyAnswer((PUT,))).put_many(kit.handle, messages, PutOption.SYNCPOINT)

    said = "(QM1) failed: MQRC_BUFFER_ERROR (2004). A body is bytes, not str."
    assert ((PUT,), f"MQPUT on ORDERS {said}") == (done.puts, str(done.error))
    assert [((DESCRIPTOR, (b"1",)),)] == [
        request.runs for request, *_ in kit.line.asked if isinstance(request, requests.PutMany)
    ]
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: kit.connection.put(kit.handle, DESCRIPTOR, text, PutOption.NONE), f"MQPUT on ORDERS {said}"),
        (lambda: kit.connection.put1("Q", DESCRIPTOR, text, PutOption.NONE), f"MQPUT1 on Q {said}"),
    ]
    for call, expected in calls:
        with pytest.raises(MQIError) as raised:
            call()
        assert expected == str(raised.value)
    assert 1 == len(kit.line.asked)


@pytest.mark.parametrize(
    "fields", [{"priority": True}, {"message_id": "m" * 24}, {"format": "\ud800"}, {"feedback": 2**80}], ids=str
)
def test_a_descriptor_that_the_server_could_not_decode_is_refused_and_not_sent(kit: Kit, fields: dict[str, Any]) -> None:
    wrong = replace(DESCRIPTOR, **fields)

    done = kit.replying(requests.PutManyAnswer((PUT,))).put_many(
        kit.handle, [(DESCRIPTOR, b"1"), (wrong, b"2")], PutOption.SYNCPOINT
    )

    assert ((PUT,), Reason.MD_ERROR) == (done.puts, None if done.error is None else done.error.reason)
    with pytest.raises(MQIError, match=r"MQPUT on ORDERS .*2026"):
        kit.connection.put(kit.handle, wrong, b"1", PutOption.NONE)
    with pytest.raises(MQIError, match=r"MQPUT1 on Q .*2026"):
        kit.connection.put1("Q", wrong, b"1", PutOption.NONE)
    assert 1 == len(kit.line.asked)


def got(number: int) -> Got:
    return Got(descriptor=MessageDescriptor(), body=bytes([number]), data_bytes=1)


def test_a_get_asks_for_its_options_within_the_bounds_of_an_answer(kit: Kit) -> None:
    connection = kit.replying(got(1), None, (got(1), got(2)), None)

    assert got(1) == connection.get(kit.handle, UNDER_SYNCPOINT)
    assert connection.get(kit.handle, UNDER_SYNCPOINT) is None
    assert [got(1), got(2)] == connection.get_many(kit.handle, UNDER_SYNCPOINT, 10_001)
    assert [] == connection.get_many(kit.handle, UNDER_SYNCPOINT, 9_999, bytes_max=5)
    connection.get_many(kit.handle, UNDER_SYNCPOINT, 10_000, bytes_max=UNIT_BYTES_MAX + 1)

    assert [
        requests.Get(3, UNDER_SYNCPOINT),
        requests.Get(3, UNDER_SYNCPOINT),
        requests.GetMany(3, UNDER_SYNCPOINT, 10_000, UNIT_BYTES_MAX),
        requests.GetMany(3, UNDER_SYNCPOINT, 9_999, 5),
        requests.GetMany(3, UNDER_SYNCPOINT, 10_000, UNIT_BYTES_MAX),
    ] == [request for request, *_ in kit.line.asked]
    assert {("MQGET", "ORDERS", False)} == {tuple(rest) for _, *rest in kit.line.asked}


BROWSE = GetOptions(options=GetOption.BROWSE_NEXT)


def test_a_browse_that_read_ahead_takes_the_cursor_back_before_any_other_get(kit: Kit) -> None:
    connection = kit.replying((got(1),), (got(2), got(3), got(4)), None, got(5))
    browsed = [connection.get(kit.handle, BROWSE) for _ in range(3)]
    connection.get(kit.handle, UNDER_SYNCPOINT)
    connection.get(kit.handle, UNDER_SYNCPOINT)

    assert [got(1), got(2), got(3)] == browsed
    kinds = [type(request).__name__ for request, *_ in kit.line.asked]
    assert ["GetMany", "GetMany", "BrowseBack", "Get", "Get"] == kinds
    assert (requests.BrowseBack(3, 1), "MQGET", "ORDERS", False) == kit.line.asked[2]


def test_a_call_in_between_makes_the_browse_read_again(kit: Kit) -> None:
    connection = kit.replying((got(1),), (got(2), got(3)), None, None, (got(3),))
    for _ in range(2):
        connection.get(kit.handle, BROWSE)
    connection.commit()

    assert got(3) == connection.get(kit.handle, BROWSE)
    kinds = [type(request).__name__ for request, *_ in kit.line.asked]
    assert ["GetMany", "GetMany", "Commit", "BrowseBack", "GetMany"] == kinds


def test_a_closed_handle_forgets_what_was_read_ahead(kit: Kit) -> None:
    connection = kit.replying((got(1),), (got(2), got(3)))
    for _ in range(2):
        connection.get(kit.handle, BROWSE)

    connection.close(kit.handle, CloseOption.DELETE)
    connection.get(kit.handle, UNDER_SYNCPOINT)

    assert [
        (requests.Close(3, 1), "MQCLOSE", "ORDERS", True),
        (requests.Get(3, UNDER_SYNCPOINT), "MQGET", "ORDERS", False),
    ] == (kit.line.asked[2:])


@pytest.mark.parametrize(("commit", "verb"), [(None, "MQGET"), (True, "MQCMIT"), (False, "MQBACK")])
def test_an_exchange_is_one_frame_that_is_made_once(kit: Kit, *, commit: bool | None, verb: str) -> None:
    connection = kit.replying(requests.Exchanged(unit=(got(1),)), requests.Exchanged(unit=(got(2),)))
    connection.only_removes = False
    request = requests.Exchange(3, UNDER_SYNCPOINT, commit, 10_000)
    frame = made(requests.encode(request))

    found = [connection.exchange(kit.handle, UNDER_SYNCPOINT, commit=commit, most=10_001) for _ in range(2)]

    assert [Exchange(unit=(got(1),)), Exchange(unit=(got(2),))] == found
    assert [("take", verb, "ORDERS"), frame, "give_back"] * 2 == kit.line.events
    assert [(request, verb, "ORDERS", commit is True)] * 2 == kit.line.asked
    assert (commit is not None) == connection.only_removes


def test_an_exchange_for_other_arguments_is_made_again(kit: Kit) -> None:
    """The same exchange is the same handle, the same record of options, the same settlement and the same number."""
    connection = kit.replying(*[requests.Exchanged()] * 9)
    equal = GetOptions(options=GetOption.SYNCPOINT)
    for handle, options, commit, most in (
        (kit.handle, UNDER_SYNCPOINT, True, 1), (kit.handle, UNDER_SYNCPOINT, True, 1), (kit.other, UNDER_SYNCPOINT, True, 1),
        (kit.other, equal, True, 1), (kit.other, equal, False, 1), (kit.other, equal, False, 2), (kit.other, equal, None, 2),
    ):  # fmt: skip
        connection.exchange(handle, options, commit=commit, most=most)

    sent = [request for request, *_ in kit.line.asked]
    assert sent[0] is sent[1]
    assert [(3, True, 1), (3, True, 1), (4, True, 1), (4, True, 1), (4, False, 1), (4, False, 2), (4, None, 2)] == [
        (request.handle, request.commit, request.most) for request in sent if isinstance(request, requests.Exchange)
    ]
    assert sent[3].options is equal  # type: ignore[union-attr]  # an exchange


def test_a_unit_that_comes_later_or_in_parts_is_one_answer(kit: Kit) -> None:
    parts = (requests.Exchanged(waits=True), requests.Exchanged(unit=(got(1),), more=True), requests.Exchanged(unit=(got(2),)))

    found = kit.replying(*parts).exchange(kit.handle, UNDER_SYNCPOINT, commit=True, most=2)

    assert Exchange(unit=(got(1), got(2))) == found
    assert ["let_go", None, None, "give_back"] == kit.line.events[2:]
    assert [("MQCMIT", "ORDERS", True), ("MQGET", "ORDERS", False), ("MQGET", "ORDERS", False)] == [
        tuple(rest) for _, *rest in kit.line.asked
    ]


LOST = error_for(Reason.CONNECTION_BROKEN, "MQGET", "ORDERS", "QM1")
REFUSED = requests.failure_of(FAILED)


@pytest.mark.parametrize(
    ("commit", "replies", "settle", "get"),
    [
        (True, [requests.Exchanged(settle=REFUSED)], FAILED, None),
        (True, [requests.Exchanged(get=REFUSED)], None, FAILED),
        (True, [LOST], LOST, None),
        (False, [LOST], LOST, None),
        (None, [LOST], None, LOST),
        (True, [requests.Exchanged(waits=True), LOST], None, LOST),
        (True, [requests.Exchanged(settle=REFUSED, more=True), LOST], LOST, None),
    ],
)
def test_an_error_of_an_exchange_belongs_to_the_settlement_or_to_the_get(
    kit: Kit, *, commit: bool | None, replies: list[Any], settle: MQIError | None, get: MQIError | None
) -> None:
    found = kit.replying(*replies).exchange(kit.handle, UNDER_SYNCPOINT, commit=commit, most=1)

    assert (str(settle), str(get), ()) == (str(found.settle_error), str(found.get_error), found.unit)
    assert "give_back" == kit.line.events[-1]


def test_an_exchange_that_loses_the_connection_between_two_parts_names_the_messages_of_the_first_part(kit: Kit) -> None:
    first = requests.Exchanged(unit=(got(1), got(2)), more=True)

    found = kit.replying(first, LOST).exchange(kit.handle, UNDER_SYNCPOINT, commit=True, most=3)

    assert Exchange(get_error=LOST, lost=(got(1), got(2))) == found


def test_an_exchange_that_is_cut_off_ends_the_line(kit: Kit) -> None:
    """The next call would take the answer."""
    with pytest.raises(KeyboardInterrupt):
        kit.replying(KeyboardInterrupt()).exchange(kit.handle, UNDER_SYNCPOINT, commit=True, most=1)

    assert ["give_back", "break_off"] == kit.line.events[2:]


def test_an_exchange_takes_the_browse_cursor_back_first(kit: Kit) -> None:
    connection = kit.replying((got(1),), (got(2), got(3)), None, requests.Exchanged())
    for _ in range(2):
        connection.get(kit.handle, BROWSE)

    connection.exchange(kit.handle, UNDER_SYNCPOINT, commit=None, most=1)

    assert [requests.BrowseBack(3, 1), requests.Exchange(3, UNDER_SYNCPOINT, None, 1)] == [
        request for request, *_ in kit.line.asked[2:]
    ]


def test_many_commits_go_in_one_request_and_each_has_its_answer(kit: Kit) -> None:
    connection = kit.replying(requests.SettledMany((None, REFUSED), ((got(1),),)), LOST)
    connection.only_removes = False

    done = connection.settle_many(kit.handle, UNDER_SYNCPOINT, commits=2, most=10_001, units=3)
    lost = connection.settle_many(kit.handle, UNDER_SYNCPOINT, commits=2, most=5, units=3)

    assert ([None, str(FAILED)], ((got(1),),)) == ([each and str(each) for each in done.errors], done.units)
    assert SettledMany((LOST, LOST)) == lost
    assert [
        (requests.SettleMany(3, UNDER_SYNCPOINT, 2, 10_000, 3), "MQCMIT", "", True),
        (requests.SettleMany(3, UNDER_SYNCPOINT, 2, 5, 3), "MQCMIT", "", True),
    ] == kit.line.asked
    assert connection.only_removes


@pytest.mark.parametrize(("options", "unknown"), [(SubscribeOption.DURABLE, True), (SubscribeOption.CREATE, False)])
def test_a_subscribe_returns_its_handle_and_its_queue(kit: Kit, options: SubscribeOption, *, unknown: bool) -> None:
    descriptor = SubscriptionDescriptor(name="S", options=options)
    answer = requests.Subscribed(5, "S", requests.Opened(6, "MANAGED.1", 1, "MANAGED.1"), descriptor, 2_534)

    done = kit.replying(answer).subscribe(descriptor, kit.other)
    kit.replying(answer).subscribe(descriptor)
    kit.replying(3).request_publications(done.handle, RequestOption.FAIL_IF_QUIESCING)

    queue = ServedHandle(kit.connection, 6, "MANAGED.1", OpenOption.INPUT_AS_Q_DEF, "MANAGED.1")
    assert Subscribed(handle=done.handle, queue=queue, descriptor=descriptor, reason=2_534) == done
    assert [
        (requests.Subscribe(descriptor, 4), "MQSUB", "S", unknown),
        (requests.Subscribe(descriptor, None), "MQSUB", "S", unknown),
        (requests.RequestPublications(5, 0x2000), "MQSUBRQ", "S", True),
    ] == kit.line.asked


def test_the_other_verbs_send_their_arguments(kit: Kit) -> None:
    connection = kit.replying(Inquired({3: 7}))
    assert Inquired({3: 7}) == connection.inquire(kit.handle, [3, 9])
    connection.set(kit.handle, {9: 1})
    removes: list[bool] = []
    verbs: list[Callable[[], object]] = [lambda: connection.give_back(2), connection.commit, connection.backout]
    for verb in verbs:
        connection.only_removes = False
        verb()
        removes.append(connection.only_removes)
    connection.interrupt()

    assert [
        (requests.Inquire(3, (3, 9)), "MQINQ", "ORDERS", False),
        (requests.Set(3, {9: 1}), "MQSET", "ORDERS", False),
        (requests.GiveBack(2), "MQBACK", "", False),
        (requests.Commit(), "MQCMIT", "", True),
        (requests.Backout(), "MQBACK", "", False),
    ] == kit.line.asked
    assert (["interrupt"], [False, True, True]) == (kit.line.events, removes)


def test_a_disconnect_closes_the_line_though_it_fails_and_an_abandon_sends_nothing(kit: Kit) -> None:
    with pytest.raises(MQIError):
        kit.replying(LOST).disconnect()
    assert ([(requests.Disconnect(), "MQDISC", "", True)], ["close"]) == (kit.line.asked, kit.line.events)

    kit.connection.abandon()
    assert (1, ["close", "close"]) == (len(kit.line.asked), kit.line.events)


def test_a_handle_of_another_connection_goes_as_no_handle(kit: Kit) -> None:
    """The queue manager refuses it with 2019."""
    theirs, text = Kit().handle, "text"
    handles: list[Any] = [theirs, text]
    for handle in handles:
        kit.connection.get(handle, UNDER_SYNCPOINT)
    kit.connection.put(kit.handle, DESCRIPTOR, b"", PutOption.NONE, context=theirs)

    assert [(-1, "ORDERS"), (-1, "")] == [
        (request.handle, name) for request, _, name, _ in kit.line.asked if isinstance(request, requests.Get)
    ]
    assert [-1] == [request.context for request, *_ in kit.line.asked if isinstance(request, requests.Put)]


QUEUES = ("ORDERS.IN", "ORDERS.BOQ")


def test_equal_exchanges_of_two_handles_get_from_two_queues(owner: EmbeddedQueueManager, folder: Path) -> None:
    owner.administration.define(QueueAttributes(name="ORDERS.BOQ"))
    options = GetOptions(options=GetOption.SYNCPOINT)
    with serve(owner, folder / "qm"):
        connection = ServedQueueManager(folder / "qm").connect()
        for queue in QUEUES:
            connection.put1(queue, MessageDescriptor(), queue.encode(), PutOption.NO_SYNCPOINT)
        handles = [connection.open(queue, OpenOption.INPUT_SHARED) for queue in QUEUES]
        units = [connection.exchange(handle, options, commit=None, most=1).unit for handle in handles]
        connection.abandon()

    assert [[b"ORDERS.IN"], [b"ORDERS.BOQ"]] == [[got.body for got in unit] for unit in units]
