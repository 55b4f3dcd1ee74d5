"""Definitions and status, the base of MQSC."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mqflow.embedded.administration.interface import HandleStatus
from mqflow.embedded.connection import EmbeddedConnection
from mqflow.embedded.mqsc import run
from mqflow.embedded.mqsc.display import as_json
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.attributes.topic import TopicAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, OpenOption, PutOption, QueueType
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import GetOptions, ObjectDescriptor
from mqflow.world import World
from tests.conformance.under_test import ManualClock, refused


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def queue_manager(clock: ManualClock) -> Iterator[EmbeddedQueueManager]:
    with EmbeddedQueueManager("QM1", world=World(clock)) as made:
        made.administration.define(QueueAttributes(name="Q"))
        yield made


@pytest.fixture
def connection(queue_manager: EmbeddedQueueManager) -> EmbeddedConnection:
    return queue_manager.connect(application_name="tests", user="tester")


def put(connection: EmbeddedConnection, name: str = "Q", *, in_unit: bool = False) -> None:
    connection.put1(name, MessageDescriptor(), b"1", PutOption.SYNCPOINT if in_unit else PutOption.NO_SYNCPOINT)


def defined(queue_manager: EmbeddedQueueManager, name: str = "Q") -> QueueAttributes:
    found = queue_manager.administration.queue(name)
    assert found is not None
    return found


def test_an_unknown_queue_is_not_found(queue_manager: EmbeddedQueueManager) -> None:
    assert queue_manager.administration.queue("NOT.THERE") is None


def test_queues_come_by_name(queue_manager: EmbeddedQueueManager) -> None:
    names = [queue.name for queue in queue_manager.administration.queues()]

    assert sorted(names) == names
    assert "Q" in names


def test_a_definition_is_dated(queue_manager: EmbeddedQueueManager) -> None:
    made = defined(queue_manager)

    assert ("2026-01-02", "03.04.05") == (made.creation_date, made.creation_time)
    assert ("2026-01-02", "03.04.05") == (made.alteration_date, made.alteration_time)


def test_an_alteration_is_dated_and_the_creation_stays(queue_manager: EmbeddedQueueManager, clock: ManualClock) -> None:
    clock.advance(86_400)
    queue_manager.administration.alter("Q", {"max_depth": 7})
    made = defined(queue_manager)

    assert (7, "2026-01-02", "2026-01-03") == (made.max_depth, made.creation_date, made.alteration_date)


def test_a_plain_number_for_a_kind_is_that_kind(queue_manager: EmbeddedQueueManager) -> None:
    """A wire or a binding sends such numbers."""
    queue_manager.administration.define(QueueAttributes(name="ALIAS", kind=3, target="Q"))  # type: ignore[arg-type]  # a plain number, as from a wire

    assert QueueType.ALIAS is defined(queue_manager, "ALIAS").kind


def test_replace_takes_the_new_definition_and_keeps_the_messages(
    queue_manager: EmbeddedQueueManager, connection: EmbeddedConnection
) -> None:
    put(connection)
    queue_manager.administration.alter("Q", {"description": "old"})
    queue_manager.administration.define(QueueAttributes(name="Q", max_depth=7), replace=True)
    made = defined(queue_manager)

    assert (7, "", 1) == (made.max_depth, made.description, made.depth)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda it: it.define(QueueAttributes(name="Q")), Reason.OBJECT_ALREADY_EXISTS),
        (lambda it: it.define(QueueAttributes(name="Q", kind=QueueType.ALIAS), replace=True), Reason.OBJECT_TYPE_ERROR),
        (lambda it: it.define(QueueAttributes(name="")), Reason.OBJECT_NAME_ERROR),
        (lambda it: it.define(QueueAttributes(name="NO NAME")), Reason.OBJECT_NAME_ERROR),
        (lambda it: it.define(QueueAttributes(name="Q" * 49)), Reason.OBJECT_NAME_ERROR),
        (lambda it: it.define(QueueAttributes(name="NEW", max_depth="many")), Reason.ITEM_VALUE_ERROR),  # type: ignore[arg-type]  # the wrong type is under test
        (lambda it: it.define(QueueAttributes(name="NEW", default_priority=10)), Reason.ITEM_VALUE_ERROR),
        (lambda it: it.alter("NO", {}), Reason.UNKNOWN_OBJECT_NAME),
        (lambda it: it.delete("NO"), Reason.UNKNOWN_OBJECT_NAME),
        (lambda it: it.clear("NO"), Reason.UNKNOWN_OBJECT_NAME),
        (lambda it: it.queue_status("NO"), Reason.UNKNOWN_OBJECT_NAME),
        (lambda it: it.clear("SYSTEM.DEFAULT.MODEL.QUEUE"), Reason.Q_TYPE_ERROR),
        (lambda it: it.alter_queue_manager({"max_handles": 0}), Reason.ITEM_VALUE_ERROR),
        (lambda it: it.alter_queue_manager({"nonsense": 1}), Reason.SELECTOR_ERROR),
    ],
)
def test_a_wrong_call_is_refused(queue_manager: EmbeddedQueueManager, call: Callable[[Any], object], reason: Reason) -> None:
    with refused(reason):
        call(queue_manager.administration)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"default_priority": 10}, "10 for DEFPRTY; 0 to 9 are accepted"),
        ({"max_depth": -1}, "-1 for MAXDEPTH; 0 to 999999999 are accepted"),
        ({"max_depth": "many"}, "max_depth"),
        ({"message_delivery_sequence": 2}, "2 for MSGDLVSQ; 0 (PRIORITY), 1 (FIFO) are accepted"),
        ({"default_put_response": 0}, "0 for DEFPRESP; 1 (SYNC), 2 (ASYNC) are accepted"),
        ({"backout_requeue_queue": "NO NAME"}, "'NO NAME' for BOQNAME; a name of an object, or an empty text, is accepted"),
        ({"description": "x" * 65}, "up to 64 characters are accepted"),
        ({"cap_expiry_tenths": -2}, "-1 (NOLIMIT) and 1 to 999999999 are accepted"),
    ],
)
def test_the_error_2319_for_a_wrong_value_names_the_accepted_values(
    queue_manager: EmbeddedQueueManager, changes: dict[str, object], said: str
) -> None:
    before = defined(queue_manager)
    with refused(Reason.ITEM_VALUE_ERROR) as raised:
        queue_manager.administration.alter("Q", changes)

    assert said in str(raised.value)
    assert before == defined(queue_manager)


@pytest.mark.parametrize(
    ("changes", "reason"), [({"default_priority": 10}, Reason.ITEM_VALUE_ERROR), ({"nonsense": 1}, Reason.SELECTOR_ERROR)]
)
def test_values_of_a_topic_are_checked(queue_manager: EmbeddedQueueManager, changes: dict[str, object], reason: Reason) -> None:
    topics = queue_manager.administration.publishing
    topics.define_topic(TopicAttributes(name="T", topic_string="orders"))

    with refused(reason):
        topics.alter_topic("T", changes)


@pytest.mark.parametrize("changes", [{"nonsense": 1}, {"name": "OTHER"}, {"kind": 3}])
def test_an_attribute_that_cannot_be_altered_is_2067(queue_manager: EmbeddedQueueManager, changes: dict[str, object]) -> None:
    before = defined(queue_manager)
    with refused(Reason.SELECTOR_ERROR):
        queue_manager.administration.alter("Q", changes)

    assert before == defined(queue_manager)


def test_an_alteration_that_affects_no_handle_needs_no_force(
    queue_manager: EmbeddedQueueManager, connection: EmbeddedConnection
) -> None:
    handle = connection.open("Q", OpenOption.OUTPUT)
    queue_manager.administration.alter("Q", {"max_depth": 7})

    connection.put(handle, MessageDescriptor(), b"", PutOption.NO_SYNCPOINT)


def test_noshare_needs_force_while_two_have_it_open(
    queue_manager: EmbeddedQueueManager, connection: EmbeddedConnection
) -> None:
    one, _ = connection.open("Q", OpenOption.INPUT_SHARED), connection.open("Q", OpenOption.INPUT_SHARED)
    with refused(Reason.OBJECT_IN_USE):
        queue_manager.administration.alter("Q", {"shareable": False})
    queue_manager.administration.alter("Q", {"shareable": False}, force=True)

    with refused(Reason.OBJECT_CHANGED):
        connection.get(one, GetOptions())


def test_noshare_needs_no_force_while_one_has_it_open(
    queue_manager: EmbeddedQueueManager, connection: EmbeddedConnection
) -> None:
    handle = connection.open("Q", OpenOption.INPUT_SHARED)
    queue_manager.administration.alter("Q", {"shareable": False})

    assert connection.get(handle, GetOptions()) is None


def test_usage_needs_force_while_it_is_open(queue_manager: EmbeddedQueueManager, connection: EmbeddedConnection) -> None:
    connection.open("Q", OpenOption.OUTPUT)

    with refused(Reason.OBJECT_IN_USE):
        queue_manager.administration.alter("Q", {"usage": 1})


def test_a_remote_queue_that_is_open_through_an_alias_is_open(
    queue_manager: EmbeddedQueueManager, connection: EmbeddedConnection
) -> None:
    """IBM, "Some cases where the put calls fail": also "any queue to which the queue name resolves"."""
    script = """
        DEFINE QLOCAL(FAR) USAGE(XMITQ)
        DEFINE QREMOTE(ORDERS) RNAME(ORDERS.IN) RQMNAME(FAR)
        DEFINE QALIAS(ALIAS) TARGET(ORDERS)"""
    assert 0 == run(script, queue_manager.administration).exit_code(strict=True)
    administration = queue_manager.administration
    handle = connection.open("ALIAS", OpenOption.OUTPUT)

    with refused(Reason.OBJECT_IN_USE):
        administration.delete("ORDERS")
    with refused(Reason.OBJECT_IN_USE) as raised:
        administration.alter("ORDERS", {"remote_queue": "OTHER"})
    assert "WHERE(OBJNAME EQ 'ALIAS')" in str(raised.value)
    administration.alter("ORDERS", {"remote_queue": "OTHER"}, force=True)

    with refused(Reason.OBJECT_CHANGED):
        connection.put(handle, MessageDescriptor(), b"", PutOption.NO_SYNCPOINT)
    connection.close(handle)
    again = connection.open("ALIAS", OpenOption.OUTPUT)
    assert "OTHER" == connection.put(again, MessageDescriptor(), b"", PutOption.NO_SYNCPOINT).resolved_queue
    connection.close(again)
    administration.delete("ORDERS")


def test_a_queue_with_messages_is_deleted_with_purge_only(
    queue_manager: EmbeddedQueueManager, connection: EmbeddedConnection
) -> None:
    put(connection)
    with refused(Reason.Q_NOT_EMPTY):
        queue_manager.administration.delete("Q")
    queue_manager.administration.delete("Q", purge=True)

    assert queue_manager.administration.queue("Q") is None


def test_not_even_purge_deletes_uncommitted_messages(
    queue_manager: EmbeddedQueueManager, connection: EmbeddedConnection
) -> None:
    put(connection, in_unit=True)

    with refused(Reason.Q_NOT_EMPTY):
        queue_manager.administration.delete("Q", purge=True)


def test_an_alias_is_deleted_while_its_target_lives(queue_manager: EmbeddedQueueManager) -> None:
    queue_manager.administration.define(QueueAttributes(name="ALIAS", kind=QueueType.ALIAS, target="Q"))
    queue_manager.administration.delete("ALIAS")

    assert queue_manager.administration.queue("ALIAS") is None
    assert queue_manager.administration.queue("Q") is not None


def test_an_open_alias_is_not_deleted(queue_manager: EmbeddedQueueManager, connection: EmbeddedConnection) -> None:
    queue_manager.administration.define(QueueAttributes(name="ALIAS", kind=QueueType.ALIAS, target="Q"))
    connection.open("ALIAS", OpenOption.OUTPUT)

    with refused(Reason.OBJECT_IN_USE):
        queue_manager.administration.delete("ALIAS")


def test_a_queue_defined_again_is_empty(queue_manager: EmbeddedQueueManager, connection: EmbeddedConnection) -> None:
    put(connection)
    queue_manager.administration.delete("Q", purge=True)
    queue_manager.administration.define(QueueAttributes(name="Q"))

    assert 0 == defined(queue_manager).depth


def test_clear_takes_every_message_off(queue_manager: EmbeddedQueueManager, connection: EmbeddedConnection) -> None:
    put(connection)
    put(connection)
    queue_manager.administration.clear("Q")

    assert 0 == defined(queue_manager).depth


@pytest.mark.parametrize("use", ["open", "uncommitted"])
def test_a_queue_in_use_is_not_cleared(queue_manager: EmbeddedQueueManager, connection: EmbeddedConnection, use: str) -> None:
    if use == "open":
        connection.open("Q", OpenOption.INQUIRE)
    else:
        put(connection, in_unit=True)

    with refused(Reason.OBJECT_IN_USE):
        queue_manager.administration.clear("Q")


def test_the_queue_managers_description_can_be_altered(queue_manager: EmbeddedQueueManager) -> None:
    queue_manager.administration.alter_queue_manager({"description": "for tests"})

    assert "for tests" == queue_manager.administration.queue_manager.description


def test_the_queue_manager_takes_no_character_set_that_it_does_not_know(queue_manager: EmbeddedQueueManager) -> None:
    with refused(Reason.ITEM_VALUE_ERROR):
        queue_manager.administration.alter_queue_manager({"ccsid": 1})
    queue_manager.administration.alter_queue_manager({"ccsid": 819})

    assert 819 == queue_manager.administration.queue_manager.ccsid


def test_nothing_is_defined_after_the_stop(queue_manager: EmbeddedQueueManager) -> None:
    queue_manager.stop()

    with refused(Reason.Q_MGR_NOT_AVAILABLE):
        queue_manager.administration.define(QueueAttributes(name="NEW"))


def test_the_status_of_a_queue_is_complete(
    queue_manager: EmbeddedQueueManager, connection: EmbeddedConnection, clock: ManualClock
) -> None:
    put(connection)
    clock.advance(90)
    put(connection, in_unit=True)
    connection.open("Q", OpenOption.INPUT_EXCLUSIVE | OpenOption.BROWSE)
    status = queue_manager.administration.queue_status("Q")

    assert (2, 1, 90, 1, 0) == (
        status.depth, status.uncommitted, status.oldest_message_age_s, status.open_input_count, status.open_output_count,
    )  # fmt: skip
    assert (
        HandleStatus(
            application="tests",
            user="tester",
            connection=connection.identifier,
            input_mode="EXCL",
            browse=True,
            inquire=False,
            output=False,
            set=False,
        ),
    ) == status.handles


def test_conname_of_a_handle_is_the_address_of_a_client_program(queue_manager: EmbeddedQueueManager) -> None:
    queue_manager.connect(application_name="client", channel="APP", address="10.0.0.1").open("Q", OpenOption.OUTPUT)
    queue_manager.connect(application_name="local").open("Q", OpenOption.OUTPUT)

    [response] = run("DISPLAY QSTATUS(Q) TYPE(HANDLE) APPLTAG CONNAME", queue_manager.administration).responses

    shown = {cells["APPLTAG"]: cells["CONNAME"] for cells in map(as_json, response.records)}
    assert {"client": "10.0.0.1", "local": ""} == shown


def test_a_clock_that_is_set_back_makes_no_message_younger_than_now(
    queue_manager: EmbeddedQueueManager, connection: EmbeddedConnection, clock: ManualClock
) -> None:
    put(connection)
    clock.advance(-3600)

    assert 0 == queue_manager.administration.queue_status("Q").oldest_message_age_s


def test_an_empty_queue_has_no_oldest_message(queue_manager: EmbeddedQueueManager) -> None:
    assert queue_manager.administration.queue_status("Q").oldest_message_age_s is None


def test_the_last_put_and_get_are_noted_if_monitoring_is_on(
    queue_manager: EmbeddedQueueManager, connection: EmbeddedConnection, clock: ManualClock
) -> None:
    """The attribute is MONQ."""
    queue_manager.administration.define(QueueAttributes(name="WATCHED", monitoring=33))
    for name in ("Q", "WATCHED"):
        put(connection, name)
    clock.advance(60)
    for name in ("Q", "WATCHED"):
        connection.get(connection.open(name, OpenOption.INPUT_SHARED), GetOptions(options=GetOption.NO_SYNCPOINT))
    plain, watched = (queue_manager.administration.queue_status(name) for name in ("Q", "WATCHED"))

    assert ("", "") == (plain.last_put_time, plain.last_get_time)
    assert ("2026-01-02", "03.04.05") == (watched.last_put_date, watched.last_put_time)
    assert ("2026-01-02", "03.05.05") == (watched.last_get_date, watched.last_get_time)


def test_a_shown_definition_has_the_depth_and_the_stored_definition_has_not(
    queue_manager: EmbeddedQueueManager, connection: EmbeddedConnection
) -> None:
    """A shown definition can be defined on another queue manager."""
    put(connection)
    shown = defined(queue_manager)
    with EmbeddedQueueManager("QM2") as elsewhere:
        elsewhere.administration.define(shown)

        assert (1, 0) == (shown.depth, defined(elsewhere).depth)


def test_an_alias_without_open_handles_is_retargeted_without_force(
    queue_manager: EmbeddedQueueManager, connection: EmbeddedConnection
) -> None:
    queue_manager.administration.define(QueueAttributes(name="OTHER"))
    queue_manager.administration.define(QueueAttributes(name="ALIAS", kind=QueueType.ALIAS, target="Q"))
    queue_manager.administration.alter("ALIAS", {"target": "OTHER"})

    assert "OTHER" == connection.open("ALIAS", OpenOption.OUTPUT).resolved_queue


def test_a_replaced_dynamic_queue_stays_dynamic(queue_manager: EmbeddedQueueManager, connection: EmbeddedConnection) -> None:
    model = ObjectDescriptor("SYSTEM.DEFAULT.MODEL.QUEUE", dynamic_name="T.*")
    handle = connection.open(model, OpenOption.OUTPUT)
    queue_manager.administration.define(QueueAttributes(name=handle.name, max_depth=7), replace=True)

    replaced = defined(queue_manager, handle.name)
    with refused(Reason.PERSISTENT_NOT_ALLOWED):
        connection.put(handle, MessageDescriptor(persistence=1), b"", PutOption.NO_SYNCPOINT)
    connection.close(handle)
    assert (3, 7) == (replaced.definition_type, replaced.max_depth)
    assert queue_manager.administration.queue(handle.name) is None


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("DELETE QLOCAL(Q)", "Applications have it open (1 handles). End them, or wait until they close it. DISPLAY QSTATUS"),
        ("CLEAR QLOCAL(Q)", "Applications have it open (1 handles). End them, or wait until they close it. DISPLAY QSTATUS"),
        ("ALTER QLOCAL(Q) USAGE(XMITQ)", "ALTER ... FORCE changes USAGE; the next call on each handle then gets 2041"),
        ("DELETE QALIAS(ALIAS)", "DISPLAY CONN(*) TYPE(HANDLE) WHERE(OBJNAME EQ 'ALIAS') shows their connections"),
        ("ALTER QALIAS(ALIAS) TARGET(OTHER)", "ALTER ... FORCE changes TARGET"),
        ("DELETE QLOCAL(FULL)", "DELETE ... PURGE"),
        ("DELETE QLOCAL(BUSY) PURGE", "DISPLAY CONN(*) WHERE(UOWSTATE EQ ACTIVE) APPLTAG shows the applications"),
        ("CLEAR QLOCAL(BUSY)", "DISPLAY CONN(*) WHERE(UOWSTATE EQ ACTIVE) APPLTAG shows the applications"),
    ],
)
def test_a_refused_change_of_a_queue_in_use_says_who_uses_it_or_what_to_do(
    queue_manager: EmbeddedQueueManager, connection: EmbeddedConnection, command: str, said: str
) -> None:
    run("DEFINE QLOCAL(FULL)\nDEFINE QLOCAL(BUSY)\nDEFINE QALIAS(ALIAS) TARGET(FULL)", queue_manager.administration)
    connection.open("Q", OpenOption.OUTPUT)
    put(connection, "FULL")
    put(connection, "BUSY", in_unit=True)
    if "ALIAS" in command:
        connection.open("ALIAS", OpenOption.OUTPUT)

    [refusal] = run(command, queue_manager.administration).responses

    assert said in refusal.text
    assert "exclusive" not in refusal.text


@pytest.mark.parametrize(
    "command",
    [
        "DISPLAY QSTATUS(Q) TYPE(HANDLE)",
        "DISPLAY CONN(*) TYPE(HANDLE) WHERE(OBJNAME EQ 'Q')",
        "DISPLAY CONN(*) WHERE(UOWSTATE EQ ACTIVE) APPLTAG",
    ],
)
def test_the_commands_of_the_advice_find_the_application(
    queue_manager: EmbeddedQueueManager, connection: EmbeddedConnection, command: str
) -> None:
    connection.open("Q", OpenOption.OUTPUT)
    put(connection, in_unit=True)

    [response] = run(command, queue_manager.administration).responses

    assert 1 == len(response.records)
