"""Retained publications. Source: IBM, MQPMO_RETAIN, MQSO_NEW_PUBLICATIONS_ONLY, MQSO_PUBLICATIONS_ON_REQUEST, MQSUBRQ."""

import pytest

from mqflow.app.handlers.message import Message
from mqflow.embedded.mqsc import run
from mqflow.mqi.headers.rfh2 import RFH2, properties
from mqflow.mqi.options import GetOption, PutOption, SubscribeOption, SubscriptionRequestOption
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import ObjectHandle
from tests.conformance.programs import Program
from tests.conformance.test_subscriptions import DURABLE, MANAGED, PERSISTENT, RESUME, again, bodies, publish, subscribe
from tests.conformance.under_test import UnderTest, refused

RETAIN = PutOption.NO_SYNCPOINT | PutOption.RETAIN
ON_REQUEST = MANAGED | SubscribeOption.PUBLICATIONS_ON_REQUEST


def test_a_new_subscription_gets_the_last_retained_publication_of_each_of_its_topics(program: Program) -> None:
    publish(program, "Prices/Oil", b"old", RETAIN)
    publish(program, "Prices/Oil", b"new", RETAIN)
    publish(program, "Prices/Oil", b"passing")
    publish(program, "Prices/Gas", b"gas", RETAIN)
    publish(program, "News", b"news", RETAIN)

    assert {b"new", b"gas"} == set(bodies(program, subscribe(program, "Prices/#")))


def test_a_subscription_to_new_publications_only_does_not(program: Program) -> None:
    publish(program, "Prices", b"old", RETAIN)

    assert [] == bodies(program, subscribe(program, "Prices", MANAGED | SubscribeOption.NEW_PUBLICATIONS_ONLY))


def test_a_present_subscriber_gets_a_retained_publication_once(program: Program) -> None:
    subscribed = subscribe(program, "Prices")

    publish(program, "Prices", b"one", RETAIN)

    assert [b"one"] == bodies(program, subscribed)


def test_a_resumed_subscription_does_not_get_retained_publications_again(queue_manager: UnderTest, program: Program) -> None:
    publish(program, "Prices", b"one", RETAIN)
    assert [b"one"] == bodies(program, subscribe(program, "Prices", DURABLE, name="desk-1"))
    program.disconnect()
    program = again(queue_manager)

    assert [] == bodies(program, subscribe(program, options=RESUME, name="desk-1"))


def test_on_request_means_only_then(program: Program) -> None:
    publish(program, "Prices", b"retained", RETAIN)
    subscribed = subscribe(program, "Prices", ON_REQUEST)
    publish(program, "Prices", b"passing")
    before = bodies(program, subscribed)

    count = program.connection.request_publications(subscribed.handle, SubscriptionRequestOption.FAIL_IF_QUIESCING)

    assert ([], 1, [b"retained"]) == (before, count, bodies(program, subscribed))


def test_a_request_where_nothing_is_retained_is_2437(program: Program) -> None:
    subscribed = subscribe(program, "Prices", ON_REQUEST)

    with refused(Reason.OPTIONS_ERROR):  # an unknown option
        program.connection.request_publications(subscribed.handle, SubscriptionRequestOption(0x40))
    with refused(Reason.NO_RETAINED_MSG):
        program.connection.request_publications(subscribed.handle)


def test_a_request_that_cannot_deliver_all_publications_delivers_none(queue_manager: UnderTest, program: Program) -> None:
    run("DEFINE TOPIC(PRICES) TOPICSTR('Prices') NPMSGDLV(ALL) USEDLQ(NO)", queue_manager.administration)
    full = queue_manager.define("FULL.Q", max_depth=1)
    publish(program, "Prices/Oil", b"one", RETAIN)
    publish(program, "Prices/Gas", b"two", RETAIN)
    on_request = SubscribeOption.CREATE | SubscribeOption.PUBLICATIONS_ON_REQUEST
    subscribed = subscribe(program, "Prices/#", on_request, program.handle(full))

    with refused(Reason.PUBLICATION_FAILURE):
        program.connection.request_publications(subscribed.handle)

    assert 0 == queue_manager.depth(full)


def test_a_publication_is_retained_after_the_commit_of_its_unit_of_work(program: Program, other: Program) -> None:
    publish(program, "Prices", b"kept", PutOption.SYNCPOINT | PutOption.RETAIN)
    before = bodies(other, subscribe(other, "Prices"))
    program.commit()
    publish(program, "Prices", b"undone", PutOption.SYNCPOINT | PutOption.RETAIN)
    program.backout()

    assert ([], [b"kept"]) == (before, bodies(other, subscribe(other, "Prices")))


def test_a_retained_publication_expires(queue_manager: UnderTest, program: Program) -> None:
    publish(program, "Prices", b"one", RETAIN, expiry_tenths=100)

    queue_manager.advance(4)
    [left] = [program.got(subscribe(program, "Prices").queue).descriptor.expiry_tenths]
    queue_manager.advance(6)

    assert 60 == left
    assert [] == bodies(program, subscribe(program, "Prices"))


def test_a_selector_selects_retained_publications(program: Program) -> None:
    publish(program, "Prices/Oil", b"slow", RETAIN, priority=1)
    publish(program, "Prices/Gas", b"fast", RETAIN, priority=9)

    assert [b"fast"] == bodies(program, subscribe(program, "Prices/#", selection="JMSPriority = 9"))


def test_retained_publications_are_republished_at_level_1(program: Program) -> None:
    publish(program, "Prices", b"one", RETAIN)

    assert [] == bodies(program, subscribe(program, "Prices", level=2))


@pytest.mark.parametrize("second", [None, 0, PERSISTENT])
def test_a_restart_keeps_the_last_persistent_retained_publication(
    queue_manager: UnderTest, program: Program, second: int | None
) -> None:
    if queue_manager.restart is None:
        pytest.skip("nothing survives here")
    publish(program, "Prices", b"first", RETAIN, persistence=PERSISTENT)
    if second is not None:
        publish(program, "Prices", b"second", RETAIN, persistence=second)

    program = again(queue_manager.restart())

    expected = {None: [b"first"], 0: [], PERSISTENT: [b"second"]}[second]
    assert expected == bodies(program, subscribe(program, "Prices"))


def test_retain_is_for_topics(program: Program, queue: str) -> None:
    with refused(Reason.OPTIONS_ERROR):
        program.put(queue, b"", RETAIN)


def test_a_retained_publication_says_so_to_a_new_subscription_and_not_to_a_present_one(program: Program) -> None:
    """IBM q032060 (MQIsRetained)."""
    present = subscribe(program, "Prices")
    publish(program, "Prices", b"one", RETAIN)
    late = subscribe(program, "Prices")

    assert [False, True] == [_is_retained(program, subscribed.queue) for subscribed in (present, late)]


def _is_retained(program: Program, queue: ObjectHandle) -> bool:
    got = program.got(queue, GetOption.NO_SYNCPOINT | GetOption.PROPERTIES_FORCE_MQRFH2)
    chain = Message(got.descriptor, got.body, "").parts.chain
    said = [
        value for link in chain if isinstance(link, RFH2) for name, value in properties(link, "mqps").items() if name == "Ret"
    ]
    return said == [True]
