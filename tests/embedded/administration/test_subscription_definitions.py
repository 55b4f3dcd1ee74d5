"""Subscriptions that an administrator alters, replaces and copies."""

from collections.abc import Iterator

import pytest

from mqflow.embedded.mqsc import Verdict, run
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import ObjectType, PutOption
from mqflow.mqi.pcf.codes import CommandCode
from mqflow.mqi.pcf.structures import CFST
from mqflow.mqi.subscription import SubscriptionAttributes
from mqflow.verbs import ObjectDescriptor
from tests.conformance.under_test import ManualClock
from tests.embedded.administration.commanding import Commander

FROM_SUB, TO_SUB, TOPIC_NAME, TOPIC_STRING = 3163, 3164, 2092, 2094


class Rig:
    """A queue manager with a queue, a topic object and a subscription to it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.queue_manager = EmbeddedQueueManager("QM1", clock=self.clock)
        self.mqsc("DEFINE QLOCAL(Q)", "DEFINE TOPIC(T) TOPICSTR('prices')", "DEFINE TOPIC(U) TOPICSTR('orders')")
        self.mqsc("DEFINE SUB(S) TOPICOBJ(T) TOPICSTR('fruit') DEST(Q) DESTCORL('4142') USERDATA('mine') PUBPRTY(7)")

    def mqsc(self, *commands: str) -> None:
        results = run("\n".join(commands), self.queue_manager.administration)
        assert all(response.verdict is Verdict.DONE for response in results.responses), results

    def sub(self, name: str) -> SubscriptionAttributes:
        [found] = [
            each for each in self.queue_manager.administration.publishing.subscriptions() if each.attributes.name == name
        ]
        return found.attributes

    def published(self) -> int:
        """Publish, and return the number of subscriptions that got the publication."""
        connection = self.queue_manager.connect()
        fruit = "prices/fruit"
        connection.put1(
            ObjectDescriptor(object_type=ObjectType.TOPIC, object_string=fruit),
            MessageDescriptor(),
            b"",
            PutOption.NO_SYNCPOINT,
        )
        found = self.queue_manager.administration.queue("Q")
        assert found is not None
        self.queue_manager.administration.clear("Q")
        return found.depth


@pytest.fixture
def rig() -> Iterator[Rig]:
    made = Rig()
    yield made
    made.queue_manager.close()


def test_an_altered_expiry_ends_the_subscription(rig: Rig) -> None:
    rig.mqsc("ALTER SUB(S) EXPIRY(100)")
    before = rig.published()
    rig.clock.advance(10)

    assert (1, 0) == (before, rig.published())


def test_a_removed_expiry_ends_no_subscription(rig: Rig) -> None:
    rig.mqsc("ALTER SUB(S) EXPIRY(100)", "ALTER SUB(S) EXPIRY(UNLIMITED)")
    rig.clock.advance(10)

    assert 1 == rig.published()


def test_a_replaced_subscription_keeps_nothing_of_the_old_definition(rig: Rig) -> None:
    rig.mqsc("DEFINE SUB(S) TOPICOBJ(T) TOPICSTR('fruit') DEST(Q) PUBAPPID('desk') REPLACE")

    found = rig.sub("S")
    assert ("", -3, "desk", bytes(24)) == (
        found.user_data,
        found.priority,
        found.application_identity_data,
        found.correlation_id,
    )


@pytest.mark.parametrize(
    ("more", "topic"), [("", "prices/fruit"), ("TOPICOBJ(U)", "orders"), ("TOPICSTR('stocks')", "stocks")], ids=str
)
def test_a_subscription_like_another_has_its_topic_unless_it_names_one(rig: Rig, more: str, topic: str) -> None:
    rig.mqsc(f"DEFINE SUB(L) LIKE(S) {more}")

    found = rig.sub("L")
    assert (topic, "mine", 7, b"AB".ljust(24, b"\0")) == (
        found.topic_string,
        found.user_data,
        found.priority,
        found.correlation_id,
    )


def test_a_copied_subscription_is_like_a_defined_subscription(rig: Rig) -> None:
    with Commander(rig.queue_manager) as commander:
        commander.done(CommandCode.COPY_SUBSCRIPTION, CFST(FROM_SUB, "S"), CFST(TO_SUB, "C"))
        commander.done(CommandCode.COPY_SUBSCRIPTION, CFST(FROM_SUB, "S"), CFST(TO_SUB, "D"), CFST(TOPIC_NAME, "U"))

    assert ("prices/fruit", b"AB".ljust(24, b"\0")) == (rig.sub("C").topic_string, rig.sub("C").correlation_id)
    assert "orders" == rig.sub("D").topic_string
