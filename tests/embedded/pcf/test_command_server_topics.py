"""PCF commands about topic objects, subscriptions and authority records."""

import pytest

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.authorities import Authority
from mqflow.mqi.pcf.codes import CommandCode, FilterOperator, ParameterId, PCFReason
from mqflow.mqi.pcf.structures import CFBS, CFIF, CFIL, CFIN, CFSL, CFST, Parameter
from mqflow.mqi.reason_codes import Reason
from tests.embedded.administration.commanding import Commander

TOPIC_NAME, TOPIC_STRING, TOPIC_DESCRIPTION, SUB_NAME, SUB_ID = 2092, 2094, 2093, 3152, 7016
DESTINATION, DESTINATION_CLASS, CORREL_ID = 3154, 1273, 7015
QUEUE, QUEUE_MANAGER = 1, 5
GET, PUT, INQ, PUB = 9, 11, 10, 19


# Topics


def test_a_topic_is_created_changed_inquired_and_deleted(commander: Commander) -> None:
    name = CFST(TOPIC_NAME, "PRICES")
    commander.done(CommandCode.CREATE_TOPIC, name, CFST(TOPIC_STRING, "Prices"), CFIN(181, 1))
    commander.done(CommandCode.CHANGE_TOPIC, name, CFST(TOPIC_DESCRIPTION, "changed"))

    (found,) = commander.done(CommandCode.INQUIRE_TOPIC, name)

    assert {TOPIC_NAME: "PRICES", TOPIC_STRING: "Prices", TOPIC_DESCRIPTION: "changed", 181: 1}.items() <= found.items()
    commander.done(CommandCode.DELETE_TOPIC, name)
    assert (Reason.UNKNOWN_OBJECT_NAME, TOPIC_NAME) == commander.refused(CommandCode.INQUIRE_TOPIC, name)


def test_a_topic_is_copied_with_the_values_of_the_command(commander: Commander) -> None:
    commander.done(
        CommandCode.CREATE_TOPIC, CFST(TOPIC_NAME, "PRICES"), CFST(TOPIC_STRING, "Prices"), CFST(TOPIC_DESCRIPTION, "one")
    )

    commander.done(CommandCode.COPY_TOPIC, CFST(3150, "PRICES"), CFST(3149, "OTHER"), CFST(TOPIC_STRING, "Others"))

    (found,) = commander.done(CommandCode.INQUIRE_TOPIC, CFST(TOPIC_NAME, "OTHER"))
    assert {TOPIC_NAME: "OTHER", TOPIC_STRING: "Others", TOPIC_DESCRIPTION: "one"}.items() <= found.items()
    (names,) = commander.done(CommandCode.INQUIRE_TOPIC_NAMES, CFST(TOPIC_NAME, "*"))
    assert ["OTHER", "PRICES"] == sorted(name for name in names[3151] if not name.startswith("SYSTEM."))
    refused = commander.refused(CommandCode.COPY_TOPIC, CFST(3150, "NONE"), CFST(3149, "MORE"))
    assert (Reason.UNKNOWN_OBJECT_NAME, 3150) == refused


# Subscriptions


def test_a_subscription_is_copied_with_the_values_of_the_command(commander: Commander) -> None:
    name, queue = CFST(SUB_NAME, "desk 1"), (CFIN(DESTINATION_CLASS, 2), CFST(DESTINATION, "Q"))
    commander.done(CommandCode.CREATE_SUBSCRIPTION, name, CFST(TOPIC_STRING, "Prices/#"), *queue, CFST(3159, "mine"))

    commander.done(CommandCode.COPY_SUBSCRIPTION, CFST(3163, "desk 1"), CFST(3164, "desk 2"), CFIN(1283, 4))

    (found,) = commander.done(CommandCode.INQUIRE_SUBSCRIPTION, CFST(SUB_NAME, "desk 2"))
    expected = {SUB_NAME: "desk 2", TOPIC_STRING: "Prices/#", DESTINATION: "Q", 3159: "mine", 1283: 4}
    assert expected.items() <= found.items()
    assert Reason.NO_SUBSCRIPTION == commander.refused(CommandCode.COPY_SUBSCRIPTION, CFST(3163, "no"), CFST(3164, "a"))[0]


def test_a_subscription_is_created_changed_inquired_and_deleted(
    queue_manager: EmbeddedQueueManager, commander: Commander
) -> None:
    name, queue = CFST(SUB_NAME, "desk 1"), (CFIN(DESTINATION_CLASS, 2), CFST(DESTINATION, "Q"))
    correlation = CFBS(CORREL_ID, b"c" * 24)
    commander.done(CommandCode.CREATE_SUBSCRIPTION, name, CFST(TOPIC_STRING, "Prices/#"), *queue, correlation)
    commander.done(CommandCode.CHANGE_SUBSCRIPTION, name, CFST(3159, "changed"))

    (found,) = commander.done(CommandCode.INQUIRE_SUBSCRIPTION, CFST(SUB_NAME, "desk*"))

    expected = {SUB_NAME: "desk 1", TOPIC_STRING: "Prices/#", DESTINATION: "Q", DESTINATION_CLASS: 2, 3159: "changed"}
    assert expected.items() <= found.items()
    # MQSUBTYPE_ADMIN, MQTSCOPE_ALL, MQRU_PUBLISH_ALL and MQVU_ANY_USER or MQVU_FIXED_USER: PCF's numbers.
    assert (2, 2, 2) == (found[1289], found[1275], found[1280])
    assert b"c" * 24 == found[CORREL_ID]
    (status,) = [each for each in queue_manager.administration.publishing.subscriptions() if each.attributes.name == "desk 1"]
    assert status.attributes.identifier == found[SUB_ID]
    commander.done(CommandCode.DELETE_SUBSCRIPTION, CFBS(SUB_ID, found[SUB_ID]))
    assert Reason.NO_SUBSCRIPTION == commander.refused(CommandCode.INQUIRE_SUBSCRIPTION, name)[0]


def test_subscriptions_are_inquired_by_filter_and_attributes(commander: Commander) -> None:
    for name, priority in (("low", 1), ("high", 9)):
        commander.done(
            CommandCode.CREATE_SUBSCRIPTION,
            CFST(SUB_NAME, name),
            CFST(TOPIC_STRING, "Prices"),
            CFIN(DESTINATION_CLASS, 1),
            CFIN(1283, priority),
        )

    asked = CFIL(ParameterId.SUB_ATTRS, (TOPIC_STRING,))
    found = commander.done(CommandCode.INQUIRE_SUBSCRIPTION, CFST(SUB_NAME, "*"), asked, CFIF(1283, FilterOperator.GREATER, 5))

    assert [{SUB_NAME, SUB_ID, TOPIC_STRING, 1283}] == [set(each) for each in found]
    assert ["high"] == [each[SUB_NAME] for each in found]


@pytest.mark.parametrize(
    ("choice", "found"),
    [
        (CFIN(1274, 1), True),
        (CFIN(1274, 2), False),
        (CFIN(1274, -1), True),
        (CFIN(ParameterId.SUB_TYPE, 1), False),
        (CFIN(ParameterId.SUB_TYPE, 2), True),
        (CFIN(ParameterId.SUB_TYPE, -2), True),
    ],
    ids=["durable", "not durable", "durable or not", "by programs", "by administrators", "of users"],
)
@pytest.mark.parametrize("command", [CommandCode.INQUIRE_SUBSCRIPTION, CommandCode.INQUIRE_SUB_STATUS])
def test_durable_and_type_choose_the_subscriptions(
    commander: Commander, command: CommandCode, choice: CFIN, *, found: bool
) -> None:
    name = CFST(SUB_NAME, "admin")
    commander.done(CommandCode.CREATE_SUBSCRIPTION, name, CFST(TOPIC_STRING, "a"), CFIN(DESTINATION_CLASS, 1))

    if found:
        commander.done(command, name, choice)
    else:
        assert Reason.NO_SUBSCRIPTION == commander.refused(command, name, choice)[0]


def test_deleting_an_unknown_identifier_succeeds_with_ignore_state(commander: Commander) -> None:
    commander.done(CommandCode.DELETE_SUBSCRIPTION, CFBS(SUB_ID, b"x"), CFIN(ParameterId.IGNORE_STATE, 1))


REFUSED: dict[str, tuple[CommandCode, tuple[Parameter, ...], int]] = {
    "a topic without its string": (CommandCode.CREATE_TOPIC, (CFST(TOPIC_NAME, "A"),), PCFReason.PARM_COUNT_TOO_SMALL),
    "a subscription to nothing": (CommandCode.CREATE_SUBSCRIPTION, (CFST(SUB_NAME, "A"),), PCFReason.PARM_MISSING),
    "a subscription without a name": (CommandCode.CREATE_SUBSCRIPTION, (CFST(SUB_NAME, " "), CFST(TOPIC_STRING, "A")),
        PCFReason.SUB_NAME_ERROR),
    "a subscription that is not there": (CommandCode.DELETE_SUBSCRIPTION, (CFST(SUB_NAME, "A"),), Reason.NO_SUBSCRIPTION),
    "an identifier that is not there": (CommandCode.DELETE_SUBSCRIPTION, (CFBS(SUB_ID, b"x"),), Reason.NO_SUBSCRIPTION),
    "authorities for nobody": (CommandCode.SET_AUTH_REC,
        (CFST(ParameterId.AUTH_PROFILE_NAME, "Q"), CFIN(ParameterId.OBJECT_TYPE, QUEUE)), PCFReason.ENTITY_NAME_MISSING),
    "an authority that a queue does not have": (CommandCode.SET_AUTH_REC,
        (CFST(ParameterId.AUTH_PROFILE_NAME, "Q"), CFIN(ParameterId.OBJECT_TYPE, QUEUE),
         CFIL(ParameterId.AUTH_ADD_AUTHS, (PUB,)), CFSL(ParameterId.PRINCIPAL_ENTITY_NAMES, ("bob",))),
        PCFReason.AUTH_VALUE_ERROR),
    "another queue manager": (CommandCode.SET_AUTH_REC,
        (CFST(ParameterId.AUTH_PROFILE_NAME, "QM2"), CFIN(ParameterId.OBJECT_TYPE, QUEUE_MANAGER),
         CFSL(ParameterId.PRINCIPAL_ENTITY_NAMES, ("bob",))), Reason.UNKNOWN_OBJECT_NAME),
    "no profile": (CommandCode.SET_AUTH_REC,
        (CFST(ParameterId.AUTH_PROFILE_NAME, "NO NAME"), CFIN(ParameterId.OBJECT_TYPE, QUEUE),
         CFSL(ParameterId.PRINCIPAL_ENTITY_NAMES, ("bob",))), PCFReason.PROFILE_NAME_ERROR),
}  # fmt: skip


@pytest.mark.parametrize(("command", "parameters", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_command_is_refused_with_its_reason(
    commander: Commander, command: CommandCode, parameters: tuple[Parameter, ...], reason: int
) -> None:
    assert reason == commander.refused(command, *parameters)[0]


# Authority records


def on(profile: str, object_type: int, *more: Parameter) -> tuple[Parameter, ...]:
    return CFST(ParameterId.AUTH_PROFILE_NAME, profile), CFIN(ParameterId.OBJECT_TYPE, object_type), *more


def test_authorities_are_set_taken_inquired_and_deleted(queue_manager: EmbeddedQueueManager, commander: Commander) -> None:
    bob, staff = CFSL(ParameterId.PRINCIPAL_ENTITY_NAMES, ("bob",)), CFSL(ParameterId.GROUP_ENTITY_NAMES, ("staff",))
    given = CFIL(ParameterId.AUTH_ADD_AUTHS, (GET, PUT, INQ))
    commander.done(CommandCode.SET_AUTH_REC, *on("Q", QUEUE, given, bob, staff))
    commander.done(CommandCode.SET_AUTH_REC, *on("Q", QUEUE, CFIL(ParameterId.AUTH_REMOVE_AUTHS, (PUT,)), bob))

    records = {each.entity: each.authorities for each in queue_manager.administration.authorities.records()}
    assert {Authority.GET, Authority.INQ} == records["bob"]
    assert {Authority.GET, Authority.INQ, Authority.PUT} == records["staff"]
    found = commander.done(
        CommandCode.INQUIRE_AUTH_RECS, CFIN(ParameterId.AUTH_OPTIONS, 0), *on("Q", QUEUE, CFST(ParameterId.ENTITY_NAME, "bob"))
    )
    assert [("Q", "bob", 1, (GET, INQ))] == [
        (
            each[ParameterId.AUTH_PROFILE_NAME],
            each[ParameterId.ENTITY_NAME],
            each[ParameterId.ENTITY_TYPE],
            each[ParameterId.AUTHORIZATION_LIST],
        )
        for each in found
    ]
    commander.done(CommandCode.DELETE_AUTH_REC, *on("Q", QUEUE, bob))
    assert "bob" not in [each.entity for each in queue_manager.administration.authorities.records()]


def test_every_name_of_the_queue_manager_means_one_profile(queue_manager: EmbeddedQueueManager, commander: Commander) -> None:
    bob = CFSL(ParameterId.PRINCIPAL_ENTITY_NAMES, ("bob",))

    commander.done(CommandCode.SET_AUTH_REC, *on("QM1", QUEUE_MANAGER, CFIL(ParameterId.AUTH_ADD_AUTHS, (5, -3)), bob))

    (record,) = [each for each in queue_manager.administration.authorities.records() if each.entity == "bob"]
    assert ("SELF", True) == (record.profile, {Authority.CONNECT, Authority.ALTUSR} <= record.authorities)


@pytest.mark.parametrize(
    ("options", "name", "profiles"),
    [(0x20, "A.B", ["A.*", "A.B"]), (0x10, "A.B", ["A.B"]), (0x40, "A.*", ["A.*", "A.B"]), (0x10, "A.*", ["A.*"])],
    ids=["all matching", "explicit", "as a wildcard", "explicit generic"],
)
def test_the_options_say_which_profiles_are_inquired(
    queue_manager: EmbeddedQueueManager, commander: Commander, options: int, name: str, profiles: list[str]
) -> None:
    bob = CFSL(ParameterId.PRINCIPAL_ENTITY_NAMES, ("bob",))
    queue_manager.administration.define(QueueAttributes(name="A.B"))
    for profile in ("A.B", "A.*", "C.**"):
        commander.done(CommandCode.SET_AUTH_REC, *on(profile, QUEUE, bob))

    found = commander.done(CommandCode.INQUIRE_AUTH_RECS, CFIN(ParameterId.AUTH_OPTIONS, options), *on(name, QUEUE))

    assert profiles == sorted(each[ParameterId.AUTH_PROFILE_NAME] for each in found)


@pytest.mark.parametrize(
    ("name", "object_type", "profile"), [("QM1", QUEUE_MANAGER, "SELF"), ("@class", QUEUE, "@CLASS")], ids=["QMGR", "@class"]
)
def test_a_record_is_inquired_by_the_name_that_set_it(commander: Commander, name: str, object_type: int, profile: str) -> None:
    bob = CFSL(ParameterId.PRINCIPAL_ENTITY_NAMES, ("bob",))
    commander.done(CommandCode.SET_AUTH_REC, *on(name, object_type, bob))

    found = commander.done(
        CommandCode.INQUIRE_AUTH_RECS,
        CFIN(ParameterId.AUTH_OPTIONS, 0x10),
        *on(name, object_type, CFST(ParameterId.ENTITY_NAME, "bob")),
    )

    assert [profile] == [each[ParameterId.AUTH_PROFILE_NAME] for each in found]
