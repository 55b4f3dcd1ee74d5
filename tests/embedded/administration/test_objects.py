"""Objects that are not queues. The queue manager keeps and loads objects of every kind, and takes refused ones back."""

import pytest
from msgspec import msgpack
from msgspec.structs import replace

from mqflow.embedded.calls.message_selection import check_selection
from mqflow.embedded.calls.object_records import define_object, delete_object, records
from mqflow.embedded.calls.pending_answer import Pending, begin, finish
from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.embedded.state.stored_objects import KINDS, defined, load_objects
from mqflow.embedded.storage.store import ObjectDefined, Snapshot
from mqflow.mqi.attributes.queue_manager import QueueManagerAttributes
from mqflow.mqi.attributes.topic import TopicAttributes
from mqflow.mqi.errors import MQIError
from mqflow.mqi.selectors.selector import Selector
from mqflow.mqi.subscription import SubscriptionAttributes
from mqflow.world import SYSTEM_WORLD
from tests.embedded.storage.scripted_store import FULL, ScriptedStore

PRICES = TopicAttributes(name="PRICES", topic_string="Prices")


def _machine(store: ScriptedStore, *objects: ObjectDefined) -> QueueManagerState:
    snapshot = Snapshot(queue_manager=None, queues=(), serials=(), next_serial=1, objects=objects)
    return QueueManagerState(QueueManagerAttributes(name="QM1"), store=store, world=SYSTEM_WORLD, snapshot=snapshot)


def _carry_out(state: QueueManagerState, pending: Pending[None]) -> None:
    finish(state, pending, begin(state, pending))


def test_an_object_is_there_at_once_and_again_after_a_restart() -> None:
    store = ScriptedStore()
    machine = _machine(store)

    _carry_out(machine, define_object(machine, "PRICES", PRICES))
    stored = defined("PRICES", PRICES)
    assert [stored] == store.written
    restarted = _machine(ScriptedStore(), ObjectDefined(stored.kind, stored.name, stored.attributes))

    assert {"PRICES": PRICES} == records(machine, TopicAttributes) == records(restarted, TopicAttributes)


def loaded(kept: SubscriptionAttributes) -> Selector:
    stored = defined(kept.name, kept)
    [subscription] = _machine(ScriptedStore(), ObjectDefined(stored.kind, stored.name, stored.attributes)).subscriptions
    assert subscription.selector is not None
    return subscription.selector


def test_a_stored_subscription_is_loaded_although_new_selectors_may_not_be_nested_as_deep() -> None:
    selection = "(" * 63 + "a = 'x'" + ")" * 63
    kept = SubscriptionAttributes(name="S", identifier=bytes(24), topic_string="t", selection=selection)
    with pytest.raises(Refusal, match="nested more than 24 deep"):
        check_selection(selection)

    assert loaded(kept)(lambda _: "x")


def test_a_stored_subscription_with_an_invalid_selection_string_is_loaded_but_selects_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Earlier versions read 09 as nine."""
    kept = SubscriptionAttributes(name="S", identifier=bytes(24), topic_string="t", selection="a = 09")

    assert not loaded(kept)(lambda _: 9)
    assert "\n".join(caplog.messages) == (
        "Subscription S gets no publications: its selection string 'a = 09' is not valid. At character 6: AND, OR or the end "
        "is expected here, not 9. Delete the subscription, and create it again with a valid selection string."
    )


def test_a_definition_the_store_refused_is_taken_back() -> None:
    store = ScriptedStore()
    machine = _machine(store)
    _carry_out(machine, define_object(machine, "PRICES", PRICES))
    store.refuses = FULL

    with pytest.raises(Refusal):
        _carry_out(machine, define_object(machine, "PRICES", replace(PRICES, description="altered")))
    with pytest.raises(Refusal):
        _carry_out(machine, delete_object(machine, "PRICES", TopicAttributes))
    with pytest.raises(Refusal):
        _carry_out(machine, define_object(machine, "NEWS", replace(PRICES, name="NEWS")))

    assert {"PRICES": PRICES} == records(machine, TopicAttributes)


@pytest.mark.parametrize(
    ("kind", "record", "said"),
    [
        ("moon", {}, r"LUNA .*It is of kind moon, which .* know\. Open it with the newer one"),
        (
            "authority",
            {"kind": "MOON"},
            r"LUNA .*It is of kind authority, which .* know \(Invalid enum value 'MOON' - at `\$\.kind`\)",
        ),
        ("process", {"type": "MOON"}, r"LUNA .*It is of kind process, which .* know \(An object of type 'MOON' is not known\)"),
    ],
)
def test_an_object_of_a_newer_mqflow_refuses_the_start(kind: str, record: object, said: str) -> None:
    with pytest.raises(MQIError, match=said):
        load_objects([ObjectDefined(kind, "LUNA", msgpack.encode(record))])


def test_every_kind_is_there_before_anything_is_defined() -> None:
    assert set(KINDS) == set(load_objects(()))
