"""IBM's JMS classes use topics of the embedded queue manager: durable and shared subscriptions, retained publications."""

import pytest

from mqflow.embedded.mqsc import run
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.headers import rfh2
from tests.foreign.jms.program import Scenario
from tests.queue_contents import browsed

pytestmark = pytest.mark.xdist_group("jms")  # one worker fetches, compiles and starts the program

TOPIC = "of topic://prices/fish"


def test_each_subscriber_gets_the_publications_that_its_selector_admits(jms: Scenario) -> None:
    assert [f"5 {TOPIC}", f"6 {TOPIC}", f"6 {TOPIC}", "none", "end"] == jms("topic")


def test_a_durable_subscription_keeps_publications_until_it_is_unsubscribed(jms: Scenario) -> None:
    assert [f"7 {TOPIC}", "in use 2429", "unsubscribe 2429", "none", "end"] == jms("durable")


@pytest.mark.parametrize("scenario", ["shared", "shared-durable"])
def test_a_publication_goes_to_one_consumer_of_a_shared_subscription(
    jms: Scenario, queue_manager: EmbeddedQueueManager, scenario: str
) -> None:
    assert [f"1 {TOPIC}", f"2 {TOPIC}", "none", "none", f"3 {TOPIC}", "end"] == jms(scenario)

    assert () == queue_manager.administration.publishing.subscriptions()


def test_a_retained_publication_reaches_a_later_subscriber(jms: Scenario) -> None:
    assert [f"9 {TOPIC}", "end"] == jms("retained")


def test_a_wildcard_matches_topics_below_it(jms: Scenario) -> None:
    assert [f"1 {TOPIC}", "2 of topic://prices/oil/north", "end"] == jms("wildcard")


def test_a_message_listener_hears_publications(jms: Scenario) -> None:
    assert ["all true", "end", "heard 1", "heard 2"] == sorted(jms("topic-listener"))


def test_a_temporary_topic_carries_a_reply(jms: Scenario) -> None:
    assert ["reply", "end"] == jms("temporary-topic")


def test_a_poison_publication_leaves_the_managed_queue_for_the_backout_queue_of_its_model(
    jms: Scenario, queue_manager: EmbeddedQueueManager
) -> None:
    assert ["delivery 1", "delivery 2", "end"] == jms("topic-poison")

    [moved] = browsed(queue_manager, "BOQ")
    header, _ = rfh2.parse(moved.body, encoding=moved.descriptor.encoding, ccsid=moved.descriptor.ccsid)
    assert {"Dst": "topic://prices/fish"}.items() <= rfh2.properties(header, "jms").items()


def test_the_topic_names_the_model_of_the_managed_queue(jms: Scenario, queue_manager: EmbeddedQueueManager) -> None:
    mine = (
        "DEFINE QMODEL(MINE) DEFTYPE(PERMDYN) BOTHRESH(1) BOQNAME(OUT)\nDEFINE TOPIC(PRICES) TOPICSTR('prices') MDURMDL(MINE)"
    )
    assert 0 == run(mine, queue_manager.administration).exit_code()

    assert ["delivery 1", "end"] == jms("topic-poison")

    assert 1 == len(browsed(queue_manager, "OUT"))


def test_a_consumer_without_local_messages_does_not_get_those_of_its_own_connection(jms: Scenario) -> None:
    assert ["none", "end"] == jms("no-local")


def test_an_unknown_subscription_cannot_be_unsubscribed(jms: Scenario) -> None:
    assert ["unsubscribe 2428", "end"] == jms("unknown-subscription")


def test_ibms_classes_for_java_request_resume_and_remove_a_subscription(jms: Scenario) -> None:
    said = jms("base-topic")

    assert ["none 2033", "requested 1", "resumed none 2033", "gone 2428", "end"] == [said[0], said[1], *said[-3:]]
    assert said[2].endswith("5")


def test_a_subscription_to_a_given_queue_puts_publications_there(jms: Scenario) -> None:
    said = jms("base-given-queue")

    assert ["6", "end"] == [said[0][-1:], said[-1]]
