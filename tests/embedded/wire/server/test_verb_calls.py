"""The requests of an application as calls of its connection: the arguments of each verb, and the numbers of its handles."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import asdict

from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.server.verb_calls import VerbCalls
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.options import CloseOption, ObjectType, OpenOption, PutOption, SubscriptionRequestOption
from mqflow.mqi.reason_codes import CompletionCode, Reason
from mqflow.mqi.subscription import SubscriptionDescriptor
from mqflow.verbs import ManyPut, ObjectDescriptor, Put

DESCRIPTOR = MessageDescriptor()
PUT = Put(descriptor=DESCRIPTOR, resolved_queue="Q", resolved_queue_manager="QM1")


class Handle(SimpleNamespace):
    """A handle of the queue manager."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, options=OpenOption.OUTPUT, resolved_queue=f"{name}.LOCAL", resolved_queue_manager="QM9")


class Connection:
    """Records the calls of its verbs, and answers as the test says."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.answers: dict[str, Any] = {}

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        """Return the verb of this name."""

        def call(*arguments: Any, **named: Any) -> Any:
            self.calls.append((verb, *arguments, *named.values()))
            answer = self.answers.get(verb)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call


class Kit:
    """The verbs of a recording connection, with two open queues: number 1 and number 2."""

    def __init__(self) -> None:
        connection: Any = Connection()
        self.connection: Connection = connection
        self.verbs = VerbCalls(connection)
        self.first, self.second = self.open("FIRST"), self.open("SECOND")
        self.connection.calls.clear()

    def open(self, name: str) -> Handle:
        handle = self.connection.answers["open"] = Handle(name)
        self.verbs.perform(requests.Open(name, options=16))
        return handle

    def called(self, request: Any, answer: Any = None) -> tuple[object, list[Any]]:
        """Return the value of the reply, and the call of the connection."""
        self.connection.calls.clear()
        verbs = ("put", "put1", "put_many", "inquire", "subscribe", "request_publications")
        self.connection.answers |= dict.fromkeys(verbs, answer)
        value = self.verbs.perform(request)
        [call] = self.connection.calls
        return value, list(call)


@pytest.fixture
def kit() -> Kit:
    return Kit()


def test_an_open_gives_the_handle_the_next_number(kit: Kit) -> None:
    kit.connection.answers["open"] = handle = Handle("THIRD")

    answer = kit.verbs.perform(requests.Open("M", 8, "QM2", "TEMP.*", "app", "fruit", "colour = 'red'", options=16))

    assert requests.Opened(3, "THIRD", 16, "THIRD.LOCAL", "QM9") == answer
    target = ObjectDescriptor("M", ObjectType.TOPIC, "QM2", "TEMP.*", "app", "fruit", "colour = 'red'")
    assert [("open", target, OpenOption.OUTPUT)] == kit.connection.calls
    assert (handle, True, False) == (kit.verbs.handle(3), kit.verbs.has(3), kit.verbs.has(4))


@pytest.mark.parametrize("context", [None, 2, 9])
def test_puts_have_their_arguments_in_order(kit: Kit, context: int | None) -> None:
    """A number without a handle stands for an object that the queue manager refuses."""
    given = None if context is None else kit.verbs.handle(context)
    options = PutOption.SYNCPOINT

    assert (PUT, ["put", kit.first, DESCRIPTOR, b"body", options, given]) == kit.called(
        requests.Put(1, DESCRIPTOR, b"body", 2, context), PUT
    )
    target = ObjectDescriptor("T", ObjectType.TOPIC, "QM2", alternate_user="app", object_string="fruit")
    assert (PUT, ["put1", target, DESCRIPTOR, b"body", options, given]) == kit.called(
        requests.Put1(**asdict(target), descriptor=DESCRIPTOR, body=b"body", options=2, context=context), PUT
    )
    other = MessageDescriptor(priority=3)
    runs = ((DESCRIPTOR, (b"1", b"2")), (other, (b"3",)))
    many = [(DESCRIPTOR, b"1"), (DESCRIPTOR, b"2"), (other, b"3")]
    assert (requests.PutManyAnswer((PUT,)), ["put_many", kit.first, many, options, given]) == kit.called(
        requests.PutMany(1, runs, 2, context), ManyPut((PUT,))
    )


def test_the_failure_of_many_puts_follows_the_puts_that_were_made(kit: Kit) -> None:
    error = error_for(Reason.Q_FULL, "MQPUT", "FIRST", "QM1")

    answer, _ = kit.called(requests.PutMany(1, (), 0, None), ManyPut((PUT,), error))

    assert requests.PutManyAnswer((PUT,), requests.failure_of(error)) == answer


def test_the_other_verbs_have_their_arguments(kit: Kit) -> None:
    assert ("answer", ["inquire", kit.second, (3, 9)]) == kit.called(requests.Inquire(2, (3, 9)), "answer")
    for request, call in (
        (requests.BrowseBack(2, 5), ["browse_back", kit.second, 5]),
        (requests.GiveBack(5), ["give_back", 5]),
        (requests.Set(2, {9: 1}), ["set", kit.second, {9: 1}]),
        (requests.Commit(), ["commit"]),
        (requests.Backout(), ["backout"]),
        (requests.Disconnect(), ["disconnect"]),
    ):
        assert (None, call) == kit.called(request)


def test_a_managed_subscription_has_two_numbers_of_its_own(kit: Kit) -> None:
    descriptor = SubscriptionDescriptor(name="S")
    subscription, queue = SimpleNamespace(name="S"), Handle("MANAGED.1")
    made = SimpleNamespace(handle=subscription, queue=queue, descriptor=descriptor, reason=2_534)

    answer, call = kit.called(requests.Subscribe(descriptor, None), made)

    opened = requests.Opened(3, "MANAGED.1", 16, "MANAGED.1.LOCAL", "QM9")
    assert requests.Subscribed(4, "S", opened, descriptor, 2_534) == answer
    assert (["subscribe", descriptor, None], queue) == (call, kit.verbs.handle(3))
    assert (7, ["request_publications", subscription, SubscriptionRequestOption.FAIL_IF_QUIESCING]) == kit.called(
        requests.RequestPublications(4, 0x2000), 7
    )
    assert (None, ["close", subscription, CloseOption.DELETE]) == kit.called(requests.Close(4, 1))
    _, [_, gone, _] = kit.called(requests.RequestPublications(4, 0))
    assert "" == gone.name
    assert kit.verbs.has(3)


def test_a_subscription_on_an_open_queue_keeps_the_number_of_the_queue(kit: Kit) -> None:
    descriptor = SubscriptionDescriptor(name="S")
    made = SimpleNamespace(handle=SimpleNamespace(name="S"), queue=kit.second, descriptor=descriptor, reason=0)

    answer, call = kit.called(requests.Subscribe(descriptor, 2), made)
    again, _ = kit.called(requests.Subscribe(descriptor, 1), made)

    opened = requests.Opened(2, "SECOND", 16, "SECOND.LOCAL", "QM9")
    assert requests.Subscribed(3, "S", opened, descriptor, 0) == answer
    assert ["subscribe", descriptor, kit.second] == call
    # A queue other than the given one is an object of its own.
    opened = requests.Opened(4, "SECOND", 16, "SECOND.LOCAL", "QM9")
    assert requests.Subscribed(5, "S", opened, descriptor, 0) == again


@pytest.mark.parametrize(
    ("completion", "is_open"), [(None, False), (CompletionCode.WARNING, False), (CompletionCode.FAILED, True)]
)
def test_a_handle_stays_open_only_if_its_close_failed(kit: Kit, completion: CompletionCode | None, *, is_open: bool) -> None:
    if completion is None:
        assert (None, ["close", kit.first, CloseOption.DELETE]) == kit.called(requests.Close(1, 1))
    else:
        error = kit.connection.answers["close"] = error_for(Reason.INCOMPLETE_GROUP, "MQCLOSE", "FIRST")
        error.completion = completion
        with pytest.raises(MQIError) as raised:
            kit.verbs.perform(requests.Close(1, 1))
        assert error is raised.value

    assert (is_open, True) == (kit.verbs.has(1), kit.verbs.has(2))


def test_a_number_is_never_given_again(kit: Kit) -> None:
    kit.called(requests.Close(2, 0))
    kit.open("THIRD")

    assert [True, False, True] == [kit.verbs.has(number) for number in (1, 2, 3)]
    assert ("", "") == (kit.verbs.handle(2).name, kit.verbs.handle(2).resolved_queue)
