"""The administration over a socket: each call of the interface has the same effect and answer as in the owner's process."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from msgspec.structs import replace

from mqflow.embedded.administration.interface import Administration, ChannelRule, RuleType
from mqflow.embedded.catalogue.kinds import defined_object
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.client.administration import ServedAdministration
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.administration_calls import ANSWERS, Administer, administered
from mqflow.embedded.wire.server.listener import serve
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.attributes.queue_manager import QueueManagerAttributes
from mqflow.mqi.attributes.topic import TopicAttributes
from mqflow.mqi.authorities import Authority, AuthorityKind
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason
from tests.conformance.under_test import refused
from tests.embedded.disk_faults.disk import memory_folder

NAMES = defined_object("NAMELIST", {"name": "NAMES", "names": ("ONE", "TWO")})
SUBSCRIPTION = {"topic_string": "prices", "destination": "Q"}

#: Every call of the interface, in an order in which each succeeds.
CALLS: dict[str, Callable[[Administration], object]] = {
    "define": lambda on: on.define(QueueAttributes(name="Q", backout_threshold=3)),
    "alter": lambda on: on.alter("Q", {"max_depth": 7}, force=True),
    "queue": lambda on: _undated(on.queue("Q")),
    "queues": lambda on: [_undated(found) for found in on.queues()],
    "queue_status": lambda on: on.queue_status("Q"),
    "reset_queue_statistics": lambda on: on.reset_queue_statistics("Q").high_depth,
    "report_command": lambda on: on.report_command("DISPLAY QMGR", shows=True),
    "status": lambda on: on.status.status,
    "objects.stop_connection": lambda on: on.objects.stop_connection("0" * 16),
    "clear": lambda on: on.clear("Q"),
    "alter_queue_manager": lambda on: on.alter_queue_manager({"dead_letter_queue": "Q"}),
    "queue_manager": lambda on: _undated(replace(on.queue_manager, identifier="")),
    "publishing.define_topic": lambda on: on.publishing.define_topic(TopicAttributes(name="T", topic_string="prices")),
    "publishing.alter_topic": lambda on: on.publishing.alter_topic("T", {"description": "all prices"}),
    "publishing.topics": lambda on: [(found.name, found.description) for found in on.publishing.topics()],
    "publishing.define_subscription": lambda on: on.publishing.define_subscription("S", SUBSCRIPTION),
    "publishing.alter_subscription": lambda on: on.publishing.alter_subscription("S", {"user_data": "desk 1"}),
    "publishing.subscriptions": lambda on: [
        (found.attributes.name, found.attributes.user_data, found.connection) for found in on.publishing.subscriptions()
    ],
    "publishing.topic_statuses": lambda on: [
        (found.topic_string, found.subscription_count, found.retained) for found in on.publishing.topic_statuses()
    ],
    "publishing.clear_retained": lambda on: on.publishing.clear_retained("prices"),
    "publishing.delete_subscription": lambda on: on.publishing.delete_subscription("S"),
    "publishing.delete_topic": lambda on: on.publishing.delete_topic("T"),
    "objects.define": lambda on: on.objects.define(NAMES),
    "objects.alter": lambda on: on.objects.alter("NAMELIST", "NAMES", {"names": ("THREE",)}),
    "objects.all": lambda on: [(found.name, found.values["names"]) for found in on.objects.all("NAMELIST")],
    "objects.delete": lambda on: on.objects.delete("NAMELIST", "NAMES"),
    "objects.connections": lambda on: [(found.application, found.system) for found in on.objects.connections()],
    "authorities.set": lambda on: on.authorities.set(
        AuthorityKind.QUEUE, "Q", "app", group=False, add=(Authority.GET, Authority.PUT), remove=(Authority.PUT,)
    ),
    "authorities.records": lambda on: on.authorities.records(),
    "authorities.held": lambda on: on.authorities.held(AuthorityKind.QUEUE, "Q", "app", group=False),
    "authorities.delete": lambda on: on.authorities.delete(AuthorityKind.QUEUE, "Q", "app", group=False),
    "authorities.refresh": lambda on: on.authorities.refresh(),
    "channels.set_rule": lambda on: on.channels.set_rule(
        ChannelRule(profile="A", type=RuleType.BLOCKUSER, blocked=("x", "y")), replace=True
    ),
    "channels.remove_rule": lambda on: on.channels.remove_rule(
        ChannelRule(profile="A", type=RuleType.BLOCKUSER, blocked=("x",))
    ),
    "channels.rules": lambda on: [(rule.key, rule.blocked) for rule in on.channels.rules()],
    "channels.deciding_rule": lambda on: on.channels.deciding_rule("SYSTEM.DEF.SVRCONN", "10.0.0.1", "x"),
    "channels.remove_rules": lambda on: on.channels.remove_rules("A", RuleType.BLOCKUSER),
    "channels.stop": lambda on: on.channels.stop("SYSTEM.DEF.SVRCONN"),
    "channels.statuses": lambda on: on.channels.statuses(),
    "channels.start": lambda on: on.channels.start("SYSTEM.DEF.SVRCONN"),
    "channels.listeners": lambda on: on.channels.listeners(),
    "channels.start_listener": lambda on: on.channels.start_listener("A"),
    "channels.stop_listener": lambda on: on.channels.stop_listener("A"),
    "delete": lambda on: on.delete("Q", purge=True, keep_authorities=True),
}


def _undated(found: QueueAttributes | QueueManagerAttributes | None) -> object:
    return found and replace(found, creation_date="", creation_time="", alteration_date="", alteration_time="")


def _outcome(call: Callable[[Administration], object], administration: Administration) -> object:
    try:
        return call(administration)
    except MQIError as error:
        return error.reason, error.object_name


@pytest.fixture
def local() -> Iterator[Administration]:
    with EmbeddedQueueManager("QM1") as queue_manager:
        yield queue_manager.administration


@pytest.fixture
def served() -> Iterator[ServedAdministration]:
    with ExitStack() as stack:
        queue_manager = stack.enter_context(EmbeddedQueueManager("QM1"))
        server = stack.enter_context(serve(queue_manager, stack.enter_context(memory_folder()) / "qm"))
        administration = ServedQueueManager(server.path).administration
        stack.callback(administration.close)
        yield administration


def test_every_call_of_the_interface_can_be_sent() -> None:
    assert set(CALLS) == set(ANSWERS)


def test_every_call_has_the_same_effect_from_another_process(local: Administration, served: ServedAdministration) -> None:
    for call in CALLS.values():
        assert _outcome(call, local) == _outcome(call, served)


@pytest.mark.parametrize(
    "request_",
    [pytest.param(Administer("no_call", {}), id="an unknown call"),
     pytest.param(Administer("authorities", {}), id="a part is no call"),
     pytest.param(Administer("queue", {"name": 7}), id="another type"),
     pytest.param(Administer("clear", {}), id="a missing argument"),
     pytest.param(Administer("objects.define", {"attributes": {"noun": "QLOCAL", "values": {}}}), id="an unknown kind"),
     pytest.param(Administer("objects.define", {"attributes": {"noun": "NAMELIST", "values": {}}}), id="no name"),
     pytest.param(Administer("objects.define", {"attributes": {"noun": "NAMELIST", "values": {"name": "N", "names": 7}}}),
         id="a value of another type")],
)  # fmt: skip
def test_a_request_without_a_valid_call_is_refused_with_2319(local: Administration, request_: Administer) -> None:
    with refused(Reason.ITEM_VALUE_ERROR):
        administered(local, request_)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (CALLS["queues"], Reason.CONNECTION_BROKEN),
        (CALLS["define"], Reason.CALL_INTERRUPTED),
        (CALLS["reset_queue_statistics"], Reason.CALL_INTERRUPTED),
        (lambda on: on.order(requests.Backup("copy")), Reason.CALL_INTERRUPTED),
    ],
)
def test_without_an_answer_the_outcome_of_a_change_is_unknown(
    call: Callable[[ServedAdministration], object], reason: Reason
) -> None:
    with EmbeddedQueueManager("QM1") as queue_manager, memory_folder() as folder:
        server = serve(queue_manager, folder / "qm")
        administration = ServedQueueManager(server.path).administration
        server.close()

        with pytest.raises(MQIError) as lost:
            call(administration)

    assert reason == lost.value.reason


def test_a_queue_manager_in_an_application_takes_no_order_to_end(served: ServedAdministration) -> None:
    with refused(Reason.FUNCTION_NOT_SUPPORTED):
        served.order(requests.Backup("copy"))

    assert served.queues() is not None


def test_a_call_that_the_interface_does_not_have_is_no_attribute(served: ServedAdministration) -> None:
    assert not hasattr(served, "no_call")  # the calls are found by their names
