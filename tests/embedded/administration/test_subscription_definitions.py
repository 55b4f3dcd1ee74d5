"""Subscriptions that an administrator alters, replaces and copies."""

from collections.abc import Iterator

import pytest

from mqflow.embedded.mqsc import Verdict, run
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import ObjectType, PutOption, SubscribeOption
from mqflow.mqi.pcf.codes import CommandCode
from mqflow.mqi.pcf.structures import CFST
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.subscription import SubscriptionAttributes, SubscriptionDescriptor
from mqflow.verbs import ObjectDescriptor
from mqflow.world import World
from tests.conformance.under_test import ManualClock
from tests.embedded.administration.commanding import Commander

FROM_SUB, TO_SUB, TOPIC_NAME, TOPIC_STRING = 3163, 3164, 2092, 2094


class Rig:
    """A queue manager with a queue, a topic object and a subscription to it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.queue_manager = EmbeddedQueueManager("QM1", world=World(self.clock))
        self.mqsc("DEFINE QLOCAL(Q)", "DEFINE TOPIC(T) TOPICSTR('prices')", "DEFINE TOPIC(U) TOPICSTR('orders')")
        self.mqsc("DEFINE SUB(S) TOPICOBJ(T) TOPICSTR('fruit') DEST(Q) DESTCORL('4142') USERDATA('mine') PUBPRTY(7)")

    def mqsc(self, *commands: str) -> None:
        results = run("\n".join(commands), self.queue_manager.administration)
        assert all(response.verdict is Verdict.DONE for response in results.responses), results

    def refused(self, command: str) -> int:
        """Run a command that fails, and return its reason."""
        [response] = run(command, self.queue_manager.administration).responses
        assert response.verdict is Verdict.FAILED, response.text
        return response.reason

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


@pytest.mark.parametrize("command", ["ALTER SUB(M) DEST(Q)", "DEFINE SUB(M) TOPICSTR('prices') DEST(Q) REPLACE"])
def test_a_managed_subscription_never_takes_a_queue_of_its_own(rig: Rig, command: str) -> None:
    """DELETE SUB deletes the queue of a managed subscription: it must be the queue that the queue manager made."""
    rig.mqsc("DEFINE SUB(M) TOPICSTR('prices') DESTCLAS(MANAGED)")
    made = rig.sub("M").destination

    assert Reason.TOPIC_NOT_ALTERABLE == rig.refused(command)
    rig.mqsc("DELETE SUB(M)", "DISPLAY QLOCAL(Q)")
    assert rig.queue_manager.administration.queue(made) is None


def test_a_managed_subscription_that_is_replaced_like_another_keeps_its_own_queue(rig: Rig) -> None:
    rig.mqsc("DEFINE SUB(M) TOPICSTR('prices') DESTCLAS(MANAGED)", "DEFINE SUB(N) TOPICSTR('prices') DESTCLAS(MANAGED)")
    made = rig.sub("M").destination

    rig.mqsc("DEFINE SUB(M) LIKE(N) REPLACE")

    assert made == rig.sub("M").destination


@pytest.mark.parametrize(
    ("destination", "reason"),
    [("' '", Reason.UNKNOWN_OBJECT_NAME),
     pytest.param("NOT.THERE", Reason.UNKNOWN_OBJECT_NAME, id="q020910: If the queue SUBQ does not exist, this command fails"),
     ("SYSTEM.DEFAULT.MODEL.QUEUE", Reason.Q_TYPE_ERROR)],
)  # fmt: skip
def test_an_altered_destination_is_checked_like_a_defined_one(rig: Rig, destination: str, reason: Reason) -> None:
    assert reason == rig.refused(f"DEFINE SUB(D) TOPICSTR('prices') DEST({destination})")
    assert reason == rig.refused(f"ALTER SUB(S) DEST({destination})")

    assert "Q" == rig.sub("S").destination


@pytest.mark.parametrize("command", ["DEFINE SUB(D) TOPICSTR('prices') DEST(Q)", "ALTER SUB(S)"])
def test_a_destination_at_another_queue_manager_is_refused(rig: Rig, command: str) -> None:
    assert Reason.UNKNOWN_OBJECT_Q_MGR == rig.refused(f"{command} DESTQMGR(QM2)")

    rig.mqsc(f"{command} DESTQMGR(QM1)")


@pytest.mark.parametrize(
    ("switch", "reason"), [("SUB(DISABLED)", Reason.SUB_INHIBITED), ("DURSUB(NO)", Reason.DURABILITY_NOT_ALLOWED)]
)
def test_a_topic_that_forbids_the_subscription_forbids_it_to_administrators_too(rig: Rig, switch: str, reason: Reason) -> None:
    rig.mqsc(f"ALTER TOPIC(T) {switch}")

    assert reason == rig.refused("DEFINE SUB(D) TOPICSTR('prices/fruit') DEST(Q)")


def test_a_program_cannot_alter_the_subscription_of_an_administrator(rig: Rig) -> None:
    altered = SubscriptionDescriptor(
        name="S", options=SubscribeOption.ALTER | SubscribeOption.DURABLE, object_string="prices/fruit"
    )

    with pytest.raises(MQIError) as refused:
        rig.queue_manager.connect().subscribe(altered)

    assert Reason.ALTER_SUB_ERROR == refused.value.reason


def test_an_expired_subscription_does_not_exist_for_administrators(rig: Rig) -> None:
    rig.mqsc("DEFINE SUB(E) TOPICSTR('prices') DESTCLAS(MANAGED) EXPIRY(10)")
    managed = rig.sub("E").destination
    rig.clock.advance(1)

    assert Reason.NO_SUBSCRIPTION == rig.refused("ALTER SUB(E) USERDATA('x')")
    assert Reason.UNKNOWN_OBJECT_NAME == rig.refused("DISPLAY SUB(E)")
    assert rig.queue_manager.administration.queue(managed) is None
    rig.mqsc("DEFINE SUB(E) TOPICSTR('prices') DESTCLAS(MANAGED)")


def test_a_wrong_destcorl_is_refused_in_words(rig: Rig) -> None:
    [response] = run("ALTER SUB(S) DESTCORL('4')", rig.queue_manager.administration).responses

    assert "DESTCORL(4) is not valid: up to 24 bytes as pairs of hexadecimal digits are accepted" in response.text


def test_after_a_stop_subscriptions_are_shown_as_they_were(rig: Rig) -> None:
    rig.mqsc("ALTER SUB(S) EXPIRY(10)")
    rig.queue_manager.close()
    rig.clock.advance(1)

    assert "S" == rig.sub("S").name
