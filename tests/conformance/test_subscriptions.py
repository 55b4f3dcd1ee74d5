"""Subscriptions: made, matched, resumed, altered, ended. Source: IBM, MQSUB, MQSD, MQCLOSE; the reasons' pages."""

from typing import Any

import pytest

from mqflow.app.handlers.message import Message
from mqflow.mqi.descriptor import NO_ID, MessageDescriptor
from mqflow.mqi.headers.rfh2 import RFH2, properties
from mqflow.mqi.options import (
    ApplicationType,
    CloseOption,
    Format,
    GetOption,
    ObjectType,
    OpenOption,
    Persistence,
    PutOption,
    SubscribeOption,
)
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.subscription import SubscriptionDescriptor
from mqflow.verbs import ObjectDescriptor, ObjectHandle, Put, Subscribed
from tests.conformance.programs import Program
from tests.conformance.under_test import UnderTest, refused

CREATE = SubscribeOption.CREATE
MANAGED = SubscribeOption.CREATE | SubscribeOption.MANAGED
DURABLE = MANAGED | SubscribeOption.DURABLE
RESUME = SubscribeOption.RESUME
PERSISTENT = int(Persistence.PERSISTENT)


def subscribe(
    program: Program, topic: str = "", options: SubscribeOption = MANAGED, queue: ObjectHandle | None = None, **fields: Any
) -> Subscribed:
    descriptor = SubscriptionDescriptor(object_string=topic, options=options, **fields)
    return program.connection.subscribe(descriptor, queue)


def publish(program: Program, topic: str, body: bytes = b"", options: PutOption = PutOption.NO_SYNCPOINT, **fields: Any) -> Put:
    handle = program.open("", OpenOption.OUTPUT, object_type=ObjectType.TOPIC, object_string=topic)
    try:
        return program.put(handle, body, options, **fields)
    finally:
        program.close(handle)


def bodies(program: Program, subscribed: Subscribed) -> list[bytes]:
    found: list[bytes] = []
    while (got := program.get(subscribed.queue)) is not None:
        found.append(got.body)
    return found


# ---- the content of a publication


@pytest.mark.parametrize("data", [b"", b"one"], ids=["empty", "data"])
def test_a_copy_says_its_topic_and_the_user_data_of_its_subscription(program: Program, data: bytes) -> None:
    """IBM q032060 (MQTopicString); MQSD.SubUserData (MQSubUserData)."""
    plain, with_data = subscribe(program, "Prices/#"), subscribe(program, "Prices/+", user_data="for the desk")

    publish(program, "Prices/Oil", data)

    found = []
    for subscribed in (plain, with_data):
        got = program.got(subscribed.queue, GetOption.NO_SYNCPOINT | GetOption.PROPERTIES_FORCE_MQRFH2)
        message = Message(got.descriptor, got.body, "")
        said = {
            name: value
            for link in message.parts.chain
            if isinstance(link, RFH2)
            for name, value in properties(link, "mqps").items()
        }
        found.append((message.topic, message.body, said))
    assert [
        ("Prices/Oil", data, {"Top": "Prices/Oil"}),
        ("Prices/Oil", data, {"Top": "Prices/Oil", "Sud": "for the desk"}),
    ] == found


def test_propctl_compat_shows_a_copy_as_it_was_published(program: Program) -> None:
    subscribed = subscribe(program, "Prices/#")

    publish(program, "Prices/Oil", b"one", format=Format.STRING, ccsid=819)

    got = program.got(subscribed.queue)
    assert (b"one", Format.STRING, 819) == (got.body, got.descriptor.format, got.descriptor.ccsid)


def test_a_topic_that_was_published_again_is_the_last_one(program: Program) -> None:
    first, second = subscribe(program, "Prices/#"), subscribe(program, "News/#")
    publish(program, "Prices/Oil", b"one")
    got = program.got(first.queue, GetOption.NO_SYNCPOINT | GetOption.PROPERTIES_FORCE_MQRFH2)

    publish(program, "News/Oil", got.body, format=got.descriptor.format, ccsid=got.descriptor.ccsid)

    again = program.got(second.queue, GetOption.NO_SYNCPOINT | GetOption.PROPERTIES_FORCE_MQRFH2)
    message = Message(again.descriptor, again.body, "")
    assert ("News/Oil", b"one") == (message.topic, message.body)


# ---- matching


def test_a_publication_reaches_every_subscription_that_matches(program: Program, other: Program) -> None:
    exact = subscribe(program, "Prices/Oil")
    levels = subscribe(other, "Prices/#")
    characters = subscribe(other, "Prices/O*", MANAGED | SubscribeOption.WILDCARD_CHAR)
    elsewhere = subscribe(other, "Prices/+/London")

    publish(program, "Prices/Oil", b"one")

    assert [[b"one"], [b"one"], [b"one"], []] == [
        bodies(program, exact), bodies(other, levels), bodies(other, characters), bodies(other, elsewhere),
    ]  # fmt: skip


def test_a_publication_without_a_subscription_is_no_error(program: Program) -> None:
    assert Reason.NONE == publish(program, "Nobody/Listens").reason


def test_a_publication_without_a_subscription_is_warning_2550_where_asked_for(program: Program) -> None:
    warned = publish(program, "Prices", options=PutOption.NO_SYNCPOINT | PutOption.WARN_IF_NO_SUBS_MATCHED)
    subscribe(program, "Prices")
    quiet = publish(program, "Prices", options=PutOption.NO_SYNCPOINT | PutOption.WARN_IF_NO_SUBS_MATCHED)

    assert (Reason.NO_SUBS_MATCHED, Reason.NONE) == (warned.reason, quiet.reason)


def test_put1_publishes(program: Program) -> None:
    subscribed = subscribe(program, "Prices")

    program.connection.put1(
        ObjectDescriptor(object_type=ObjectType.TOPIC, object_string="Prices"),
        MessageDescriptor(),
        b"one",
        PutOption.NO_SYNCPOINT,
    )

    assert [b"one"] == bodies(program, subscribed)


def test_every_copy_has_an_identifier_of_its_own_and_the_correlation_of_its_subscription(program: Program) -> None:
    first, second = subscribe(program, "Prices"), subscribe(program, "Prices")

    published = publish(program, "Prices", correlation_id=b"C" * 24).descriptor
    copies = [program.got(subscribed.queue).descriptor for subscribed in (first, second)]

    assert 3 == len({published.message_id, *(copy.message_id for copy in copies)})
    assert [first.descriptor.correlation_id, second.descriptor.correlation_id] == [copy.correlation_id for copy in copies]
    assert NO_ID not in {copy.correlation_id for copy in copies}
    assert copies[0].correlation_id != copies[1].correlation_id


def test_a_correlation_identifier_can_be_chosen_or_passed_through(program: Program) -> None:
    chosen = subscribe(program, "Prices", MANAGED | SubscribeOption.SET_CORREL_ID, correlation_id=b"S" * 24)
    passing = subscribe(program, "Prices", MANAGED | SubscribeOption.SET_CORREL_ID)

    publish(program, "Prices", correlation_id=b"P" * 24)

    assert b"S" * 24 == program.got(chosen.queue).descriptor.correlation_id
    assert b"P" * 24 == program.got(passing.queue).descriptor.correlation_id


def test_priority_is_as_published_or_as_subscribed(program: Program) -> None:
    as_published, fixed = subscribe(program, "Prices"), subscribe(program, "Prices", priority=7)

    publish(program, "Prices", priority=3)

    assert [3, 7] == [program.got(subscribed.queue).descriptor.priority for subscribed in (as_published, fixed)]


def test_a_copy_has_the_context_of_its_subscriber_and_of_the_queue_manager(program: Program, other: Program) -> None:
    subscribed = subscribe(other, "Prices")

    publish(program, "Prices", reply_to_queue="REPLIES")
    copy = other.got(subscribed.queue).descriptor

    assert ("somebody", ApplicationType.BROKER, "QM1") == (
        copy.user_identifier, copy.put_application_type, copy.put_application_name,
    )  # fmt: skip
    assert "REPLIES" == copy.reply_to_queue


def test_the_queue_for_replies_can_be_kept_back(program: Program) -> None:
    subscribed = subscribe(program, "Prices")

    publish(program, "Prices", options=PutOption.NO_SYNCPOINT | PutOption.SUPPRESS_REPLYTO, reply_to_queue="REPLIES")

    assert "" == program.got(subscribed.queue).descriptor.reply_to_queue


def test_a_program_may_leave_out_its_own_subscriptions(program: Program, other: Program) -> None:
    own, others = subscribe(program, "Prices"), subscribe(other, "Prices")

    publish(program, "Prices", b"one", PutOption.NO_SYNCPOINT | PutOption.NOT_OWN_SUBS)

    assert ([], [b"one"]) == (bodies(program, own), bodies(other, others))


def test_a_selector_chooses(program: Program) -> None:
    urgent = subscribe(program, "Prices", selection="Root.MQMD.Priority > 5")

    publish(program, "Prices", b"slow", priority=5)
    publish(program, "Prices", b"fast", priority=6)

    assert [b"fast"] == bodies(program, urgent)


def test_a_selector_that_makes_no_sense_is_2459(program: Program) -> None:
    with refused(Reason.SELECTOR_SYNTAX_ERROR):
        subscribe(program, "Prices", selection="Priority >")


def test_only_the_highest_level_gets_it(program: Program) -> None:
    low, high = subscribe(program, "Prices", level=1), subscribe(program, "Prices", level=5)

    publish(program, "Prices", b"one")

    assert ([], [b"one"]) == (bodies(program, low), bodies(program, high))


def test_of_a_group_one_subscription_gets_it(program: Program, queue: str) -> None:
    grouped = CREATE | SubscribeOption.GROUP_SUB | SubscribeOption.SET_CORREL_ID
    where = program.handle(queue)
    subscribe(program, "Prices/Oil", grouped, where, correlation_id=b"G" * 24)
    subscribe(program, "Prices/#", grouped, where, correlation_id=b"G" * 24)
    with refused(Reason.DUPLICATE_GROUP_SUB):
        subscribe(program, "Prices/#", grouped, where, correlation_id=b"G" * 24)

    publish(program, "Prices/Oil", b"one")

    assert [b"one"] == program.bodies(queue)


# ---- units of work


def test_a_publication_in_a_unit_of_work_shows_with_the_commit_to_all(program: Program, other: Program) -> None:
    first, second = subscribe(other, "Prices"), subscribe(other, "Prices")

    publish(program, "Prices", b"kept", PutOption.SYNCPOINT)
    before = [bodies(other, first), bodies(other, second)]
    program.commit()
    publish(program, "Prices", b"undone", PutOption.SYNCPOINT)
    program.backout()

    assert [[], []] == before
    assert [[b"kept"], [b"kept"]] == [bodies(other, first), bodies(other, second)]


def test_a_subscription_made_after_the_put_gets_no_copy_at_the_commit(program: Program) -> None:
    publish(program, "Prices", b"one", PutOption.SYNCPOINT)
    late = subscribe(program, "Prices")

    program.commit()

    assert [] == bodies(program, late)


def test_every_copy_counts_for_maxumsgs(queue_manager: UnderTest, program: Program) -> None:
    queue_manager.administration.alter_queue_manager({"max_uncommitted_messages": 2})
    first = subscribe(program, "Prices")
    subscribe(program, "Prices")
    subscribe(program, "Prices")

    with refused(Reason.SYNCPOINT_LIMIT_REACHED):
        publish(program, "Prices", b"one", PutOption.SYNCPOINT)

    program.commit()
    assert [] == bodies(program, first)


# ---- managed and provided queues


@pytest.mark.parametrize(("options", "prefix"), [(MANAGED, "SYSTEM.MANAGED.NDURABLE."), (DURABLE, "SYSTEM.MANAGED.DURABLE.")])
def test_a_managed_queue_is_made_from_the_model_and_has_its_attributes(
    queue_manager: UnderTest, program: Program, options: SubscribeOption, prefix: str
) -> None:
    durable = bool(options & SubscribeOption.DURABLE)
    model = "SYSTEM.DURABLE.MODEL.QUEUE" if durable else "SYSTEM.NDURABLE.MODEL.QUEUE"
    queue_manager.administration.alter(model, {"backout_threshold": 3, "backout_requeue_queue": "PRICES.BOQ"})

    subscribed = subscribe(program, "Prices", options, name="desk-1")
    made = queue_manager.administration.queue(subscribed.queue.resolved_queue)

    assert made is not None
    assert made.name.startswith(prefix)
    assert (3, "PRICES.BOQ") == (made.backout_threshold, made.backout_requeue_queue)


def test_an_unmanaged_subscription_delivers_to_the_queue_it_is_given(program: Program, queue: str) -> None:
    subscribed = subscribe(program, "Prices", CREATE, program.handle(queue))

    publish(program, "Prices", b"one")

    assert subscribed.queue.resolved_queue == queue
    assert [b"one"] == program.bodies(queue)


def test_an_unmanaged_subscription_needs_a_handle_2019(program: Program) -> None:
    with refused(Reason.HOBJ_ERROR):
        subscribe(program, "Prices", CREATE)


def test_a_non_durable_subscription_takes_persistent_publications_as_not_persistent(program: Program) -> None:
    subscribed = subscribe(program, "Prices")

    publish(program, "Prices", b"one", persistence=PERSISTENT)

    assert Persistence.NOT_PERSISTENT == program.got(subscribed.queue).descriptor.persistence


# ---- lifetime


def test_a_non_durable_subscription_ends_with_its_handle_and_so_does_its_queue(
    queue_manager: UnderTest, program: Program
) -> None:
    subscribed = subscribe(program, "Prices")
    name = subscribed.queue.resolved_queue

    publish(program, "Prices", b"one")
    program.connection.close(subscribed.handle)
    publish(program, "Prices", b"two")

    assert [b"one"] == bodies(program, subscribed)
    program.close(subscribed.queue)
    assert queue_manager.administration.queue(name) is None


def test_a_non_durable_subscription_ends_with_its_connection(
    queue_manager: UnderTest, program: Program, other: Program
) -> None:
    name = subscribe(program, "Prices").queue.resolved_queue

    program.killed()

    warning = publish(other, "Prices", options=PutOption.NO_SYNCPOINT | PutOption.WARN_IF_NO_SUBS_MATCHED)
    assert Reason.NO_SUBS_MATCHED == warning.reason
    assert queue_manager.administration.queue(name) is None


def again(queue_manager: UnderTest) -> Program:
    """Connect the same application again, and return it."""
    return Program(queue_manager, application_name="conformance", user="tester")


def test_a_durable_subscription_goes_on_without_its_application(
    queue_manager: UnderTest, program: Program, other: Program
) -> None:
    subscribe(program, "Prices", DURABLE, name="desk-1")
    program.disconnect()

    publish(other, "Prices", b"meanwhile", persistence=PERSISTENT)
    resumed = again(queue_manager)

    assert [b"meanwhile"] == bodies(resumed, subscribe(resumed, options=RESUME, name="desk-1"))


def test_a_resumed_subscription_is_described_as_it_really_is(queue_manager: UnderTest, program: Program) -> None:
    made = subscribe(program, "Prices/#", DURABLE, name="desk-1", user_data="of desk 1", priority=4).descriptor
    program.disconnect()
    program = again(queue_manager)

    resumed = subscribe(program, options=RESUME, name="desk-1").descriptor

    assert ("Prices/#", "of desk 1", 4) == (resumed.topic_string, resumed.user_data, resumed.priority)
    assert made.correlation_id == resumed.correlation_id
    wanted = SubscribeOption.DURABLE | SubscribeOption.MANAGED | SubscribeOption.WILDCARD_TOPIC | RESUME
    assert wanted == resumed.options


def test_create_with_resume_creates_or_resumes(queue_manager: UnderTest, program: Program) -> None:
    first = subscribe(program, "Prices", DURABLE | RESUME, name="desk-1")
    program.disconnect()
    program = again(queue_manager)
    second = subscribe(program, "Prices", DURABLE | RESUME, name="desk-1")

    assert first.queue.resolved_queue == second.queue.resolved_queue


def test_a_durable_subscription_survives_a_restart_with_its_publications(queue_manager: UnderTest, program: Program) -> None:
    if queue_manager.restart is None:
        pytest.skip("nothing survives here")
    subscribe(program, "Prices/#", DURABLE, name="desk-1")
    subscribe(program, "Prices/#")
    program.disconnect()
    publish(again(queue_manager), "Prices/Oil", b"before", persistence=PERSISTENT)

    restarted = queue_manager.restart()
    program = again(restarted)
    publish(program, "Prices/Gas", b"after")

    assert [b"before", b"after"] == bodies(program, subscribe(program, options=RESUME, name="desk-1"))
    managed = [found.name for found in restarted.administration.queues() if found.name.startswith("SYSTEM.MANAGED")]
    assert 1 == len(managed)


def test_a_durable_subscription_is_removed_when_asked_for_with_its_queue(queue_manager: UnderTest, program: Program) -> None:
    subscribed = subscribe(program, "Prices", DURABLE, name="desk-1")
    name = subscribed.queue.resolved_queue

    program.close(subscribed.queue)
    program.connection.close(subscribed.handle, CloseOption.REMOVE_SUB)

    assert queue_manager.administration.queue(name) is None
    with refused(Reason.NO_SUBSCRIPTION):
        subscribe(program, options=RESUME, name="desk-1")


def test_a_removed_subscription_does_not_come_back_with_a_restart(queue_manager: UnderTest, program: Program) -> None:
    if queue_manager.restart is None:
        pytest.skip("nothing survives here")
    subscribed = subscribe(program, "Prices", DURABLE, name="desk-1")
    program.close(subscribed.queue)
    program.connection.close(subscribed.handle, CloseOption.REMOVE_SUB)

    restarted = queue_manager.restart()

    with refused(Reason.NO_SUBSCRIPTION):
        subscribe(again(restarted), options=RESUME, name="desk-1")
    assert not [found.name for found in restarted.administration.queues() if found.name.startswith("SYSTEM.MANAGED")]


def test_a_subscription_expires(queue_manager: UnderTest, program: Program, other: Program) -> None:
    subscribe(program, "Prices", DURABLE, name="desk-1", expiry_tenths=100)
    program.disconnect()

    queue_manager.advance(10)
    warning = publish(other, "Prices", options=PutOption.NO_SYNCPOINT | PutOption.WARN_IF_NO_SUBS_MATCHED)

    assert Reason.NO_SUBS_MATCHED == warning.reason
    with refused(Reason.NO_SUBSCRIPTION):
        subscribe(other, options=RESUME, name="desk-1")


def test_a_closed_handle_is_2019(program: Program) -> None:
    subscribed = subscribe(program, "Prices")
    program.connection.close(subscribed.handle)

    with refused(Reason.HOBJ_ERROR):
        program.connection.close(subscribed.handle)
    with refused(Reason.HOBJ_ERROR):
        program.connection.request_publications(subscribed.handle)


# ---- refusals


def test_an_unknown_option_of_a_close_is_2046(program: Program) -> None:
    subscribed = subscribe(program, "Prices")

    with refused(Reason.OPTIONS_ERROR):
        program.connection.close(subscribed.handle, CloseOption(0x40))


def test_a_name_that_is_taken_is_2432(program: Program) -> None:
    subscribe(program, "Prices", name="desk-1")

    with refused(Reason.SUB_ALREADY_EXISTS):
        subscribe(program, "Prices", name="desk-1")


def test_a_subscription_that_another_holds_is_2429(program: Program) -> None:
    subscribe(program, "Prices", DURABLE, name="desk-1")

    with refused(Reason.SUBSCRIPTION_IN_USE):
        subscribe(program, options=RESUME, name="desk-1")


def test_another_users_subscription_is_2434_unless_it_is_for_any(
    queue_manager: UnderTest, program: Program, other: Program
) -> None:
    subscribe(program, "Prices", DURABLE, name="mine")
    subscribe(program, "Prices", DURABLE | SubscribeOption.ANY_USERID, name="anybodys")
    program.disconnect()

    with refused(Reason.IDENTITY_MISMATCH):
        subscribe(other, options=RESUME, name="mine")
    subscribe(other, options=RESUME, name="anybodys")


@pytest.mark.parametrize(
    ("options", "fields", "reason"),
    [
        (SubscribeOption.MANAGED, {}, Reason.OPTIONS_ERROR),
        (MANAGED | RESUME | SubscribeOption.ALTER, {"name": "n"}, Reason.OPTIONS_ERROR),
        (RESUME | SubscribeOption.ALTER, {"name": "n"}, Reason.OPTIONS_ERROR),
        (MANAGED | SubscribeOption.GROUP_SUB | SubscribeOption.SET_CORREL_ID, {}, Reason.OPTIONS_ERROR),
        (CREATE | SubscribeOption.GROUP_SUB, {}, Reason.OPTIONS_ERROR),
        (MANAGED | SubscribeOption.ANY_USERID | SubscribeOption.FIXED_USERID, {}, Reason.OPTIONS_ERROR),
        (MANAGED | SubscribeOption.WILDCARD_CHAR | SubscribeOption.WILDCARD_TOPIC, {}, Reason.OPTIONS_ERROR),
        (
            MANAGED | SubscribeOption.NEW_PUBLICATIONS_ONLY | SubscribeOption.PUBLICATIONS_ON_REQUEST, {},
            Reason.OPTIONS_ERROR,
        ),
        (RESUME | SubscribeOption.NEW_PUBLICATIONS_ONLY, {"name": "n"}, Reason.OPTIONS_ERROR),
        (MANAGED | SubscribeOption(0x400), {}, Reason.OPTIONS_ERROR),
        (DURABLE, {}, Reason.SUB_NAME_ERROR),
        (RESUME, {}, Reason.SUB_NAME_ERROR),
        (RESUME, {"name": "nobody"}, Reason.NO_SUBSCRIPTION),
        (SubscribeOption.ALTER | SubscribeOption.MANAGED, {"name": "nobody"}, Reason.NO_SUBSCRIPTION),
        (MANAGED, {"topic": ""}, Reason.TOPIC_STRING_ERROR),
        (MANAGED, {"topic": "x" * 10_241}, Reason.TOPIC_STRING_ERROR),
        (MANAGED, {"object_name": "NO.SUCH.TOPIC"}, Reason.UNKNOWN_OBJECT_NAME),
        (MANAGED, {"expiry_tenths": 0}, Reason.EXPIRY_ERROR),
        (MANAGED, {"priority": 10}, Reason.PRIORITY_ERROR),
        (MANAGED, {"priority": -2}, Reason.PRIORITY_ERROR),
        (MANAGED, {"user_data": "u" * 10_241}, Reason.SUB_USER_DATA_ERROR),
        (MANAGED, {"level": 10}, Reason.SD_ERROR),
        (MANAGED | SubscribeOption.SET_IDENTITY_CONTEXT, {"accounting_token": b"short"}, Reason.SD_ERROR),
        (MANAGED | SubscribeOption.SET_IDENTITY_CONTEXT, {"application_identity_data": "d" * 33}, Reason.SD_ERROR),
        (MANAGED | SubscribeOption.ALTERNATE_USER_AUTHORITY, {"alternate_user": "u" * 13}, Reason.SD_ERROR),
    ],
)  # fmt: skip
def test_mqsub_refuses_these_options(
    program: Program, options: SubscribeOption, fields: dict[str, Any], reason: Reason
) -> None:
    wanted: dict[str, Any] = {"topic": "Prices", "options": options} | fields

    with refused(reason):
        subscribe(program, **wanted)


def test_mqsub_takes_the_largest_values(program: Program) -> None:
    largest: dict[str, Any] = {
        "user_data": "u" * 10_240, "expiry_tenths": 2**31 - 1, "priority": 9, "level": 9, "application_identity_data": "d" * 32,
        "accounting_token": b"a" * 32, "alternate_user": "u" * 12,
    }  # fmt: skip

    subscribed = subscribe(program, "Prices", MANAGED | SubscribeOption.SET_IDENTITY_CONTEXT, **largest)
    publish(program, "Prices")

    copy = program.got(subscribed.queue).descriptor
    assert (9, "d" * 32, b"a" * 32) == (copy.priority, copy.application_identity_data, copy.accounting_token)


ALTER = DURABLE & ~CREATE | SubscribeOption.ALTER


def test_a_subscription_is_altered(queue_manager: UnderTest, program: Program, other: Program) -> None:
    subscribe(program, "Prices", DURABLE, name="desk-1")
    program.disconnect()
    program = again(queue_manager)

    altered = subscribe(program, "Prices", ALTER, name="desk-1", priority=9, user_data="new")
    publish(other, "Prices")

    assert "new" == altered.descriptor.user_data
    assert 9 == program.got(altered.queue).descriptor.priority


@pytest.mark.parametrize(
    ("options", "fields", "reason"),
    [
        (ALTER & ~SubscribeOption.DURABLE, {}, Reason.DURABILITY_NOT_ALTERABLE),
        (ALTER, {"topic": "Prices/Oil"}, Reason.TOPIC_NOT_ALTERABLE),
        (ALTER | SubscribeOption.WILDCARD_CHAR, {}, Reason.TOPIC_NOT_ALTERABLE),
        (ALTER, {"selection": "a = 1"}, Reason.SELECTOR_NOT_ALTERABLE),
        (ALTER, {"level": 3}, Reason.SUBLEVEL_NOT_ALTERABLE),
        (ALTER & ~SubscribeOption.MANAGED, {}, Reason.DEST_CLASS_NOT_ALTERABLE),
        (
            ALTER & ~SubscribeOption.MANAGED | SubscribeOption.GROUP_SUB | SubscribeOption.SET_CORREL_ID, {},
            Reason.GROUPING_NOT_ALTERABLE,
        ),
    ],
)  # fmt: skip
def test_these_attributes_cannot_be_altered(
    queue_manager: UnderTest, program: Program, options: SubscribeOption, fields: dict[str, Any], reason: Reason
) -> None:
    subscribe(program, "Prices", DURABLE, name="desk-1")
    program.disconnect()
    program = again(queue_manager)

    wanted: dict[str, Any] = {"topic": "Prices", "options": options, "name": "desk-1"} | fields

    with refused(reason):
        subscribe(program, **wanted)


def test_a_topic_is_opened_for_output_only(program: Program) -> None:
    with refused(Reason.OPTION_NOT_VALID_FOR_TYPE):
        program.open("", OpenOption.INPUT_SHARED, object_type=ObjectType.TOPIC, object_string="Prices")


def test_a_durable_subscription_does_not_deliver_to_a_temporary_queue(queue_manager: UnderTest, program: Program) -> None:
    temporary = program.open("SYSTEM.DEFAULT.MODEL.QUEUE")

    with refused(Reason.DURABILITY_NOT_ALLOWED):
        subscribe(program, "Prices", CREATE | SubscribeOption.DURABLE, temporary, name="desk-1")
