"""The authorities on topics: 2035. Source: IBM, "Access control for topics", MQSUB and MQSD AlternateUserId; rc2035."""

from collections.abc import Callable

import pytest

from mqflow.embedded.mqsc import Verdict, run
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import CloseOption, ObjectType, OpenOption, PutOption, SubscribeOption
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import ObjectDescriptor
from tests.conformance.programs import Program
from tests.conformance.test_subscriptions import CREATE, DURABLE, MANAGED, RESUME, publish, subscribe
from tests.conformance.under_test import UnderTest, refused

ANOTHER = SubscribeOption.ALTERNATE_USER_AUTHORITY
Allow = Callable[..., None]


@pytest.fixture
def allow(queue_manager: UnderTest) -> Allow:
    """Grant authorities on an object; by default to `tester`."""

    def give(what: str, words: str, *, to: str = "tester") -> None:
        command = f"SET AUTHREC {what} PRINCIPAL('{to}') AUTHADD({words})"
        [response] = run(command, queue_manager.administration).responses
        assert response.verdict is Verdict.DONE, response.text

    return give


@pytest.fixture
def tester(queue_manager: UnderTest, allow: Allow) -> Program:
    """A program whose user has only the authority to connect. PRICES is the topic object of the topic Prices."""
    [response] = run("DEFINE TOPIC(PRICES) TOPICSTR('Prices')", queue_manager.administration).responses
    assert response.verdict is Verdict.DONE, response.text
    allow("OBJTYPE(QMGR)", "CONNECT")
    return Program(queue_manager, application_name="conformance", user="tester")


PRICES = "PROFILE('PRICES') OBJTYPE(TOPIC)"


def on(queue: str) -> str:
    return f"PROFILE('{queue}') OBJTYPE(QUEUE)"


def test_publishing_takes_pub_on_a_topic_object_above(tester: Program, allow: Allow) -> None:
    def put1(topic: str) -> None:
        target = ObjectDescriptor(object_type=ObjectType.TOPIC, object_string=topic)
        tester.connection.put1(target, MessageDescriptor(), b"", PutOption.NO_SYNCPOINT)

    with refused(Reason.NOT_AUTHORIZED):
        publish(tester, "Prices/Oil")
    with refused(Reason.NOT_AUTHORIZED):
        put1("Prices/Oil")
    allow(PRICES, "SUB")
    with refused(Reason.NOT_AUTHORIZED):
        publish(tester, "Prices/Oil")
    allow(PRICES, "PUB")
    publish(tester, "Prices/Oil")
    put1("Prices/Oil/London")
    with refused(Reason.NOT_AUTHORIZED):
        publish(tester, "News")


def test_subscribing_takes_sub_on_a_topic_object_above(tester: Program, allow: Allow) -> None:
    with refused(Reason.NOT_AUTHORIZED):
        subscribe(tester, "Prices/#")
    allow(PRICES, "PUB,RESUME")
    with refused(Reason.NOT_AUTHORIZED):
        subscribe(tester, "Prices/#")
    allow(PRICES, "SUB")
    subscribe(tester, "Prices/#")
    with refused(Reason.NOT_AUTHORIZED):
        subscribe(tester, "#")


def test_resuming_takes_resume(tester: Program, allow: Allow) -> None:
    allow(PRICES, "SUB")
    made = subscribe(tester, "Prices/#", DURABLE, name="desk-1")
    tester.close(made.queue)
    tester.connection.close(made.handle, CloseOption.KEEP_SUB)

    with refused(Reason.NOT_AUTHORIZED):
        subscribe(tester, options=RESUME, name="desk-1")
    allow(PRICES, "RESUME")
    subscribe(tester, options=RESUME, name="desk-1")


def test_a_given_queue_needs_put_on_the_name_by_which_it_was_opened(
    queue_manager: UnderTest, tester: Program, queue: str, allow: Allow
) -> None:
    [response] = run(f"DEFINE QALIAS(ALIAS) TARGET('{queue}')", queue_manager.administration).responses
    assert response.verdict is Verdict.DONE, response.text
    allow(PRICES, "SUB")
    allow(on("ALIAS"), "GET")
    alias = tester.open("ALIAS", OpenOption.INPUT_SHARED)
    allow(on(queue), "PUT")

    with refused(Reason.NOT_AUTHORIZED):
        subscribe(tester, "Prices", CREATE, alias)
    allow(on("ALIAS"), "PUT")
    subscribe(tester, "Prices", CREATE, alias)


def test_a_subscription_is_altered_to_another_queue_only_with_put_on_that_queue(
    queue_manager: UnderTest, tester: Program, queue: str, allow: Allow
) -> None:
    allow(PRICES, "SUB")
    allow(on(queue), "GET,PUT")
    made = subscribe(
        tester, "Prices", CREATE | SubscribeOption.DURABLE, tester.open(queue, OpenOption.INPUT_SHARED), name="desk-1"
    )
    tester.connection.close(made.handle, CloseOption.KEEP_SUB)
    allow(on(queue_manager.define("OTHER.Q")), "GET")
    other = tester.open("OTHER.Q", OpenOption.INPUT_SHARED)
    alter = SubscribeOption.ALTER | SubscribeOption.DURABLE

    with refused(Reason.NOT_AUTHORIZED):
        subscribe(tester, "Prices", alter, other, name="desk-1")
    [before] = queue_manager.administration.publishing.subscriptions()
    allow(on("OTHER.Q"), "PUT")
    subscribe(tester, "Prices", alter, other, name="desk-1")
    [after] = queue_manager.administration.publishing.subscriptions()

    assert (queue, "OTHER.Q") == (before.attributes.destination, after.attributes.destination)


def test_an_alternate_user_gives_its_authority_and_owns_the_subscription(
    queue_manager: UnderTest, tester: Program, allow: Allow
) -> None:
    allow(PRICES, "SUB", to="other")

    with refused(Reason.NOT_AUTHORIZED):
        subscribe(tester, "Prices", alternate_user="other")  # ignored without the option
    with refused(Reason.NOT_AUTHORIZED):
        subscribe(tester, "Prices", MANAGED | ANOTHER, alternate_user="other")
    allow("OBJTYPE(QMGR)", "ALTUSR")
    subscribe(tester, "Prices", MANAGED | ANOTHER, alternate_user="other", name="others")

    [status] = queue_manager.administration.publishing.subscriptions()
    assert ("others", "other") == (status.attributes.name, status.attributes.user)


def test_an_open_to_publish_as_an_alternate_user_takes_altusr(tester: Program, allow: Allow) -> None:
    as_another = OpenOption.OUTPUT | OpenOption.ALTERNATE_USER_AUTHORITY
    topic = {"object_type": ObjectType.TOPIC, "object_string": "Prices", "alternate_user": "other"}
    allow(PRICES, "PUB", to="other")

    with refused(Reason.NOT_AUTHORIZED):
        tester.open("", as_another, **topic)
    allow("OBJTYPE(QMGR)", "ALTUSR")
    tester.open("", as_another, **topic)


def test_with_another_users_authority_ones_own_does_not_count(tester: Program, allow: Allow) -> None:
    allow("OBJTYPE(QMGR)", "ALTUSR")
    allow(PRICES, "SUB")

    with refused(Reason.NOT_AUTHORIZED):
        subscribe(tester, "Prices", MANAGED | ANOTHER, alternate_user="other")
