"""A new connection takes over the open objects of the last connection, as the ledger decides; on an embedded queue manager."""

from collections.abc import Iterator

import pytest

from mqflow.embedded import mqsc
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import ObjectType, OpenOption, SubscribeOption
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.subscription import SubscriptionDescriptor
from mqflow.runtime.connection.open_objects import OpenObjects, name_of
from mqflow.testing.faults import Fault, Faults
from mqflow.verbs import Connection, ObjectDescriptor, ObjectHandle

INPUT = OpenOption.INPUT_SHARED | OpenOption.FAIL_IF_QUIESCING
MODEL = "SYSTEM.DEFAULT.MODEL.QUEUE"


class World:
    """A queue manager whose connections break on demand."""

    def __init__(self, queue_manager: EmbeddedQueueManager) -> None:
        self.queue_manager = queue_manager
        self.faults = Faults()
        self._wrapped = self.faults.wrap(queue_manager)

    def connect(self, owner: str = "worker") -> tuple[Connection, OpenObjects]:
        connection = self._wrapped.connect()
        return connection, OpenObjects(connection, owner)

    def mqsc(self, *lines: str) -> None:
        for line in lines:
            assert mqsc.run(line, self.queue_manager.administration).exit_code() == 0, line


@pytest.fixture
def world() -> Iterator[World]:
    with EmbeddedQueueManager("QM1") as queue_manager:
        world = World(queue_manager)
        world.mqsc("DEFINE QLOCAL(A)", "DEFINE QLOCAL(B)", "DEFINE TOPIC(PRICES) TOPICSTR('Prices')")
        yield world


def names(opened: object) -> list[str]:
    return [name_of(each) for each in opened.objects]  # type: ignore[attr-defined]  # a TakenOver


def test_equal_requests_get_one_handle_and_other_options_get_another(world: World) -> None:
    _, openings = world.connect()

    handle = openings.hold("A", INPUT)

    assert handle is openings.hold("A", INPUT)
    assert handle is not openings.hold("A", OpenOption.BROWSE)
    assert openings.output("A") is openings.output("A")


def test_equal_subscriptions_are_made_once_and_one_to_another_queue_is_another(world: World) -> None:
    _, openings = world.connect()
    prices = SubscriptionDescriptor(object_string="Prices/IBM", options=SubscribeOption.CREATE)

    made = [openings.subscribe(prices, openings.hold(queue, INPUT)) for queue in "AAB"]

    assert made[0] is made[1]
    assert made[0] is not made[2]
    assert 2 == [call.verb for call in world.faults.calls].count("MQSUB")


def test_everything_is_open_again_in_the_order_of_first_opening_and_with_its_options(world: World) -> None:
    _, before = world.connect()
    before.hold("B", OpenOption.BROWSE)
    before.output("A")
    before.hold("", OpenOption.OUTPUT, object_type=ObjectType.TOPIC, object_string="Prices/IBM")
    before.hold("A", INPUT)
    world.faults.break_connections()

    _, after = world.connect()
    taken = after.take_over(before)

    assert ["B", "A", "Prices/IBM", "A"] == names(taken)
    assert OpenOption.BROWSE == after.hold("B", OpenOption.BROWSE).options
    calls = len(world.faults.calls)
    after.output("A")
    after.hold("A", INPUT)
    assert calls == len(world.faults.calls)  # the objects are open already


def test_everything_is_opened_again_in_the_very_words_of_the_first_open(world: World) -> None:
    first, second = _Opening(world.connect()[0]), _Opening(world.connect()[0])
    before = OpenObjects(first, "worker")  # type: ignore[arg-type]  # it passes every verb on
    as_another = INPUT | OpenOption.SAVE_ALL_CONTEXT | OpenOption.ALTERNATE_USER_AUTHORITY
    before.hold("A", as_another, alternate_user="bert")
    before.hold("A", OpenOption.BROWSE, selection="price > 70", queue_manager="QM1")
    before.hold("", OpenOption.OUTPUT, object_type=ObjectType.TOPIC, object_string="Prices/IBM")

    OpenObjects(second, "worker").take_over(before)  # type: ignore[arg-type]  # as above

    for connection in (first, second):
        assert [
            (ObjectDescriptor("A", alternate_user="bert"), as_another),
            (ObjectDescriptor("A", selection="price > 70", queue_manager="QM1"), OpenOption.BROWSE),
            (ObjectDescriptor(object_type=ObjectType.TOPIC, object_string="Prices/IBM"), OpenOption.OUTPUT),
        ] == connection.opened


class _Opening:
    """A connection that records each open."""

    def __init__(self, inner: Connection) -> None:
        self._inner = inner
        self.opened: list[tuple[ObjectDescriptor | str, OpenOption]] = []

    def open(self, target: ObjectDescriptor | str, options: OpenOption) -> ObjectHandle:
        self.opened.append((target, options))
        return self._inner.open(target, options)

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


def test_a_model_queue_opened_for_output_is_refused_and_leaves_no_queue(world: World) -> None:
    """The open makes a permanent dynamic queue, so only a delete removes it."""
    world.mqsc("DEFINE QMODEL(PERMANENT) DEFTYPE(PERMDYN)")
    before = [each.name for each in world.queue_manager.administration.queues()]
    _, objects = world.connect()

    with pytest.raises(MQIError, match="2057"):
        objects.output("PERMANENT")

    assert before == [each.name for each in world.queue_manager.administration.queues()]


def test_a_temporary_queue_is_made_again_under_its_name_and_handed_out_for_the_same_words(world: World) -> None:
    _, before = world.connect()
    name = before.hold(MODEL, INPUT).name
    world.faults.break_connections()

    _, after = world.connect()
    after.take_over(before)

    assert name == after.hold(MODEL, INPUT).name
    assert world.queue_manager.administration.queue(name) is not None


@pytest.mark.parametrize("options", [INPUT, INPUT | OpenOption.INQUIRE], ids=["input alone", "input and inquire"])
def test_a_permanent_dynamic_queue_keeps_its_messages(world: World, options: OpenOption) -> None:
    world.mqsc("DEFINE QMODEL(PERM) DEFTYPE(PERMDYN)")
    _, before = world.connect()
    name = before.hold("PERM", options).name
    world.faults.break_connections()

    _, after = world.connect()
    taken = after.take_over(before)

    assert [name] == names(taken)
    assert name == after.hold("PERM", options).name


def test_a_queue_that_is_gone_is_refused_and_opened_when_it_is_back(world: World) -> None:
    _, before = world.connect()
    before.hold("A", INPUT)
    before.hold("B", INPUT)
    world.faults.break_connections()
    world.mqsc("DELETE QLOCAL(A)")

    _, after = world.connect()
    taken = after.take_over(before)
    [refused] = taken.refused
    with pytest.raises(MQIError) as caught:
        after.hold("A", INPUT)
    world.mqsc("DEFINE QLOCAL(A)")

    assert ["B"] == names(taken)
    assert (Reason.RECONNECT_FAILED, "A") == (refused.error.reason, name_of(refused.entry))
    assert "worker is without it" in str(refused.error)
    assert Reason.UNKNOWN_OBJECT_NAME == caught.value.reason
    assert "A" == after.hold("A", INPUT).name


def test_an_object_refused_on_one_connection_is_opened_on_the_next_one(world: World) -> None:
    _, first = world.connect()
    first.hold("A", INPUT)
    world.faults.break_connections()
    world.faults.add(Fault(verb="MQOPEN", reason=Reason.OBJECT_IN_USE))
    _, second = world.connect()
    assert [Reason.OBJECT_IN_USE] == [each.error.reason for each in second.take_over(first).refused]
    world.faults.break_connections()

    _, third = world.connect()

    assert ["A"] == names(third.take_over(second))


def test_a_connection_that_is_lost_while_it_takes_over_leaves_everything_to_the_next(world: World) -> None:
    _, before = world.connect()
    before.hold("A", INPUT)
    before.hold("B", INPUT)
    world.faults.break_connections()
    world.faults.add(Fault(verb="MQOPEN", object_name="B", reason=Reason.CONNECTION_BROKEN))

    _, lost = world.connect()
    with pytest.raises(MQIError):
        lost.take_over(before)
    _, after = world.connect()

    assert ["A", "B"] == names(after.take_over(before))


MANAGED = SubscribeOption.MANAGED | SubscribeOption.FAIL_IF_QUIESCING


def test_a_subscription_is_made_again_and_one_to_a_queue_comes_behind_it(world: World) -> None:
    _, before = world.connect()
    to_queue = SubscriptionDescriptor(object_string="Prices/IBM", options=SubscribeOption.CREATE)
    managed = SubscriptionDescriptor(object_string="Prices/#", options=SubscribeOption.CREATE | MANAGED)
    before.subscribe(managed)
    before.subscribe(to_queue, before.hold("A", INPUT))
    world.faults.break_connections()

    connection, after = world.connect()
    taken = after.take_over(before)

    assert ["Prices/#", "A", "Prices/IBM"] == names(taken)
    assert connection.inquire(after.subscribe(managed).queue, (2016,)).values
    assert after.subscribe(managed) is after.subscribe(managed)


def test_a_lost_durable_subscription_is_reported_before_it_is_made_again(world: World) -> None:
    durable = SubscriptionDescriptor(
        object_string="Prices/IBM",
        name="desk",
        options=SubscribeOption.CREATE | SubscribeOption.RESUME | SubscribeOption.DURABLE | MANAGED,
    )
    _, before = world.connect()
    before.subscribe(durable)
    world.faults.break_connections()
    world.mqsc("DELETE SUB('desk')")

    _, after = world.connect()
    [refused] = after.take_over(before).refused

    assert "desk" == name_of(refused.entry)
    assert "2428" in str(refused.error)
    assert after.subscribe(durable).handle is not None


def test_at_most_64_targets_of_puts_stay_open_on_this_connection_and_on_the_next(world: World) -> None:
    """Each requester can have a reply queue of its own, and MAXHANDS is 256 by default."""
    world.mqsc(*(f"DEFINE QLOCAL(R{number})" for number in range(100)))
    _, openings = world.connect()
    openings.hold("A", INPUT)
    for number in range(100):
        openings.output(f"R{number}")
    openings.output(ObjectDescriptor(object_type=ObjectType.TOPIC, object_string="Prices/IBM"))

    assert (None, None) == (openings.open_output("R0"), openings.open_output("R36"))
    assert openings.output("R99") is openings.open_output("R99")
    assert ["A", *(f"R{number}" for number in range(37, 100)), "Prices/IBM"] == [*map(name_of, openings.ledger.entries)]

    world.faults.break_connections()
    _, after = world.connect()
    after.take_over(openings)
    after.output("B")

    assert ["A", *(f"R{number}" for number in range(38, 100)), "Prices/IBM", "B"] == [*map(name_of, after.ledger.entries)]


def test_a_reply_queue_that_is_gone_is_not_opened_at_every_reconnection(world: World) -> None:
    world.mqsc("DEFINE QLOCAL(GONE)")
    _, openings = world.connect()
    openings.output("GONE")
    openings.output("A")
    world.faults.break_connections()
    world.mqsc("DELETE QLOCAL(GONE)")

    _, after = world.connect()
    taken = after.take_over(openings)

    assert (["A"], ["GONE"]) == (names(taken), [name_of(each.entry) for each in taken.refused])
    assert ["A"] == [*map(name_of, after.ledger.entries)]
    with pytest.raises(MQIError, match="2085"):
        after.output("GONE")
    world.mqsc("DEFINE QLOCAL(GONE)")
    assert "GONE" == after.output("GONE").name
