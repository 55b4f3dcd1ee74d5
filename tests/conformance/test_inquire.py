"""MQINQ and MQSET. Source: IBM q026770 (MQINQ), q085710 (defaults), rc2067, rc2068."""

import pytest

from mqflow.embedded.catalogue.kinds import defined_object
from mqflow.many_verbs import inquire_base_queue, inquire_queue_manager
from mqflow.mqi.options import ObjectType, OpenOption, QueueType
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import ObjectDescriptor
from tests.conformance.programs import SELECTORS, Program
from tests.conformance.under_test import UnderTest, refused


def value(program: Program, name: str, field: str) -> int | str:
    handle = program.open(name, OpenOption.INQUIRE)
    selector = SELECTORS[field]
    answer = program.connection.inquire(handle, [selector])
    program.close(handle)
    assert Reason.NONE == answer.reason
    return answer.values[selector]


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("put_inhibited", 0),
        ("get_inhibited", 0),
        ("default_priority", 0),
        ("default_persistence", 0),
        ("default_put_response", 1),
        ("cap_expiry_tenths", -1),
        ("backout_threshold", 0),
        ("backout_requeue_queue", " " * 48),
        ("default_input_open_option", 2),
        ("shareable", 1),
        ("message_delivery_sequence", 0),
        ("max_depth", 5000),
        ("max_message_bytes", 4_194_304),
        ("usage", 0),
        ("trigger", 0),
        ("trigger_type", 1),
        ("trigger_depth", 1),
        ("default_bind", 0),
        ("default_read_ahead", 0),
        ("property_control", 0),
        ("depth_high_percent", 80),
        ("depth_low_percent", 20),
        ("depth_max_event", 1),
        ("service_interval_ms", 999_999_999),
        ("retention_interval_h", 999_999_999),
        ("definition_type", 1),
        ("kind", QueueType.LOCAL),
        ("depth", 0),
        ("name", "Q".ljust(48)),
    ],
)
def test_the_defaults_of_a_local_queue(queue: str, program: Program, field: str, expected: int | str) -> None:
    """DEFINE QLOCAL, IBM q085710."""
    assert expected == value(program, queue, field)


def test_the_defaults_of_a_queue_manager(queue_manager: UnderTest, program: Program) -> None:
    attributes = inquire_queue_manager(program.connection)

    assert (queue_manager.name, "", 4_194_304, 256, 9, 10_000, 5_000) == (
        attributes.name,
        attributes.dead_letter_queue,
        attributes.max_message_bytes,
        attributes.max_handles,
        attributes.max_priority,
        attributes.max_uncommitted_messages,
        attributes.mark_browse_interval_ms,
    )


def test_mqinq_answers_every_selector_that_ibm_documents_for_a_queue_manager(program: Program) -> None:
    """MQINQ, the table of queue manager attributes, less its rows for z/OS (q101840). All of them with one call."""
    queue_manager = program.connection.open(ObjectDescriptor(object_type=ObjectType.Q_MGR), OpenOption.INQUIRE)

    answer = program.connection.inquire(queue_manager, (*DOCUMENTED_NUMBERS, *DOCUMENTED_TEXTS))

    assert Reason.NONE == answer.reason
    assert DOCUMENTED_NUMBERS == {selector: answer.values[selector] for selector in DOCUMENTED_NUMBERS}
    lengths = {selector: len(str(answer.values[selector])) for selector in DOCUMENTED_TEXTS}
    assert DOCUMENTED_TEXTS == lengths


#: Each number selector with its default (DISPLAY QMGR of a new queue manager, q020700). Ours: see docs/mqsc.md.
DOCUMENTED_NUMBERS = {
    2: 1208, 11: 256, 13: 4_194_304, 14: 9, 25: 999_999_999, 30: 1, 31: 940, 32: 3, 33: 10_000, 34: 0, 47: 0, 48: 0, 49:
    0, 50: 0, 51: 0, 52: 0, 53: 0, 55: 0, 56: 0, 58: 100, 68: 5_000, 73: 0, 75: 0, 76: 0, 92: 0, 93: 0, 94: 0, 97:
    999_999_999, 98: 0, 99: 0, 119: 0, 120: 0, 122: 0, 123: 0, 124: -3, 127: 0, 128: 0, 129: 0, 130: -3, 131: 1800, 133:
    0, 134: 0, 135: 1800, 136: 0, 137: 2, 138: 2, 183: 1800, 187: 1, 192: -1, 203: 2, 205: 0, 206: 5, 207: 1, 239: 0,
    240: 0, 243: 0, 248: 0, 249: 1, 250: 0, 251: 0, 252: 0, 254: 0, 265: 0, 268: 0, 269: 60, 270: 0, 271: 1, 272: 1,
    273: 0,
}  # fmt: skip
#: Each character selector with its length: MQ_Q_NAME_LENGTH and the like.
DOCUMENTED_TEXTS = {
    2003: 48, 2004: 12, 2005: 8, 2006: 48, 2014: 64, 2015: 48, 2025: 48, 2026: 128, 2027: 12, 2028: 8, 2032: 48, 2033: 128,
    2034: 32, 2035: 48, 2036: 48, 2049: 256, 2050: 48, 2051: 256, 2102: 48, 2119: 128, 2120: 8, 2121: 64, 2125: 48,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("SYSTEM.DEAD.LETTER.QUEUE", QueueType.LOCAL),
        ("SYSTEM.DEFAULT.LOCAL.QUEUE", QueueType.LOCAL),
        ("SYSTEM.DEFAULT.ALIAS.QUEUE", QueueType.ALIAS),
        ("SYSTEM.DEFAULT.MODEL.QUEUE", QueueType.MODEL),
        ("SYSTEM.DURABLE.MODEL.QUEUE", QueueType.MODEL),
        ("SYSTEM.NDURABLE.MODEL.QUEUE", QueueType.MODEL),
        ("SYSTEM.DDELAY.LOCAL.QUEUE", QueueType.LOCAL),
    ],
)
def test_a_queue_manager_is_created_with_its_system_queues(queue_manager: UnderTest, name: str, kind: QueueType) -> None:
    """The names are from IBM q081550."""
    found = queue_manager.administration.queue(name)

    assert found is not None
    assert kind is found.kind


def test_the_depth_and_the_open_counts_are_those_of_now(queue: str, program: Program, other: Program) -> None:
    program.put(queue)
    program.put_in_unit(queue)
    other.open(queue, OpenOption.INPUT_SHARED)
    other.open(queue, OpenOption.OUTPUT)

    assert [2, 2, 2] == [value(program, queue, field) for field in ("depth", "open_input_count", "open_output_count")]


@pytest.mark.parametrize(("field", "filler"), [("backout_threshold", -1), ("backout_requeue_queue", "*" * 48)])
def test_an_alias_answers_for_itself_only(queue_manager: UnderTest, program: Program, field: str, filler: int | str) -> None:
    """BOTHRESH and BOQNAME are not attributes of an alias: 2068, -1 and asterisks (rc2068)."""
    queue_manager.define("BASE", backout_threshold=3, backout_requeue_queue="BOQ")
    queue_manager.define_alias("ALIAS", "BASE")
    handle = program.open("ALIAS", OpenOption.INQUIRE)
    answer = program.connection.inquire(handle, [SELECTORS["target"], SELECTORS[field]])

    assert Reason.SELECTOR_NOT_FOR_TYPE == answer.reason
    assert filler == answer.values[SELECTORS[field]]
    assert "BASE".ljust(48) == answer.values[SELECTORS["target"]]


def test_the_base_queue_behind_an_alias_can_be_inquired(queue_manager: UnderTest, program: Program) -> None:
    queue_manager.define("BASE", backout_threshold=3, backout_requeue_queue="BOQ", harden_get_backout=True)
    queue_manager.define_alias("ALIAS", "BASE")
    attributes = inquire_base_queue(program.connection, "ALIAS")

    assert ("BASE", 3, "BOQ", True) == (
        attributes.name,
        attributes.backout_threshold,
        attributes.backout_requeue_queue,
        attributes.harden_get_backout,
    )


def test_an_unknown_selector_is_2067(queue: str, program: Program) -> None:
    handle = program.open(queue, OpenOption.INQUIRE)

    with refused(Reason.SELECTOR_ERROR):
        program.connection.inquire(handle, [987_654])


def test_no_selector_at_all_is_fine(queue: str, program: Program) -> None:
    assert {} == program.connection.inquire(program.open(queue, OpenOption.INQUIRE), []).values


def test_the_dead_letter_queue_is_inquired_on_the_queue_manager(queue_manager: UnderTest, program: Program) -> None:
    queue_manager.administration.alter_queue_manager({"dead_letter_queue": "SYSTEM.DEAD.LETTER.QUEUE"})
    handle = program.open("", OpenOption.INQUIRE, object_type=ObjectType.Q_MGR)

    assert "SYSTEM.DEAD.LETTER.QUEUE".ljust(48) == program.connection.inquire(handle, [2006]).values[2006]


def test_a_queue_managers_own_name_may_be_given(queue_manager: UnderTest, program: Program) -> None:
    program.open(queue_manager.name, OpenOption.INQUIRE, object_type=ObjectType.Q_MGR)

    with refused(Reason.UNKNOWN_OBJECT_NAME):
        program.open("ANOTHER", OpenOption.INQUIRE, object_type=ObjectType.Q_MGR)


def test_a_program_can_inhibit_gets_and_puts(queue: str, program: Program, other: Program) -> None:
    handle = program.open(queue, OpenOption.SET)
    program.connection.set(handle, {SELECTORS["get_inhibited"]: 1, SELECTORS["put_inhibited"]: 1})

    with refused(Reason.GET_INHIBITED):
        other.get(queue)
    with refused(Reason.PUT_INHIBITED):
        other.put(queue)


def test_a_program_can_allow_them_again(queue_manager: UnderTest, program: Program) -> None:
    queue_manager.define("CLOSED", get_inhibited=True)
    program.connection.set(program.open("CLOSED", OpenOption.SET), {SELECTORS["get_inhibited"]: 0})

    assert program.get("CLOSED") is None


def test_set_on_an_alias_is_about_the_alias(queue_manager: UnderTest, queue: str, program: Program) -> None:
    queue_manager.define_alias("ALIAS", queue)
    program.connection.set(program.open("ALIAS", OpenOption.SET), {SELECTORS["put_inhibited"]: 1})

    program.put(queue)
    with refused(Reason.PUT_INHIBITED):
        program.put("ALIAS")


def test_trigger_control_can_be_set(queue: str, program: Program) -> None:
    program.connection.set(program.open(queue, OpenOption.SET), {SELECTORS["trigger"]: 1})

    assert 1 == value(program, queue, "trigger")


@pytest.mark.parametrize("field", ["max_depth", "backout_threshold", "description"])
def test_an_attribute_that_a_program_may_not_set_is_2067(queue: str, program: Program, field: str) -> None:
    handle = program.open(queue, OpenOption.SET)

    with refused(Reason.SELECTOR_ERROR):
        program.connection.set(handle, {SELECTORS[field]: 1})


def test_an_invalid_inhibit_value_is_2020(queue: str, program: Program) -> None:
    handle = program.open(queue, OpenOption.SET)

    with refused(Reason.INHIBIT_VALUE_ERROR):
        program.connection.set(handle, {SELECTORS["get_inhibited"]: 7})


def test_a_set_that_is_refused_changes_nothing(queue: str, program: Program) -> None:
    handle = program.open(queue, OpenOption.SET)
    with refused(Reason.SELECTOR_ERROR):
        program.connection.set(handle, {SELECTORS["get_inhibited"]: 1, SELECTORS["max_depth"]: 1})

    assert 0 == value(program, queue, "get_inhibited")


SETTABLE = (("trigger_type", 3), ("trigger_depth", 5), ("trigger_message_priority", 9), ("distribution_lists", 1))


@pytest.mark.parametrize(("field", "number"), SETTABLE)
def test_the_attributes_of_triggering_can_be_set(queue: str, program: Program, field: str, number: int) -> None:
    """Source: IBM, MQSET (Selectors)."""
    program.connection.set(program.open(queue, OpenOption.SET), {SELECTORS[field]: number})

    assert number == value(program, queue, field)


def test_trigger_data_can_be_set_up_to_64_characters(queue: str, program: Program) -> None:
    program.connection.set(program.open(queue, OpenOption.SET), {SELECTORS["trigger_data"]: "d" * 64})

    assert "d" * 64 == value(program, queue, "trigger_data")


NOT_ACCEPTED = (
    ("trigger", 2, Reason.TRIGGER_CONTROL_ERROR),
    ("trigger_type", 4, Reason.TRIGGER_TYPE_ERROR),
    ("trigger_depth", 0, Reason.TRIGGER_DEPTH_ERROR),
    ("trigger_message_priority", 10, Reason.TRIGGER_MSG_PRIORITY_ERR),
    ("trigger_message_priority", -1, Reason.TRIGGER_MSG_PRIORITY_ERR),
)


@pytest.mark.parametrize(("field", "number", "reason"), NOT_ACCEPTED)
def test_a_value_an_attribute_does_not_take_has_a_reason_of_its_own(
    queue: str, program: Program, field: str, number: int, reason: Reason
) -> None:
    """Source: rc2075, rc2076, rc2077, rc2078."""
    handle, before = program.open(queue, OpenOption.SET), value(program, queue, field)

    with refused(reason):
        program.connection.set(handle, {SELECTORS[field]: number})
    assert before == value(program, queue, field)


def test_the_queue_manager_says_its_version_and_that_it_is_not_ibms(program: Program) -> None:
    handle = program.open("", OpenOption.INQUIRE, object_type=ObjectType.Q_MGR)
    answer = program.connection.inquire(handle, [2120, 31, 2014])

    assert ("09040000", 940) == (answer.values[2120], answer.values[31])
    assert "not IBM MQ" in str(answer.values[2014])


@pytest.mark.parametrize("kind", [ObjectType.NAMELIST, ObjectType.PROCESS])
def test_an_object_that_is_not_defined_is_2085(program: Program, kind: ObjectType) -> None:
    with refused(Reason.UNKNOWN_OBJECT_NAME):
        program.connection.open(ObjectDescriptor("NOT.THERE", kind), OpenOption.INQUIRE)


@pytest.mark.parametrize("kind", [ObjectType.NAMELIST, ObjectType.PROCESS])
def test_a_namelist_or_process_is_opened_to_inquire_only(program: Program, kind: ObjectType) -> None:
    """MQOPEN: MQOO_INQUIRE is the only use of a namelist; rc2045."""
    with refused(Reason.OPTION_NOT_VALID_FOR_TYPE):
        program.connection.open(ObjectDescriptor("SYSTEM.DEFAULT.PROCESS", kind), OpenOption.OUTPUT | OpenOption.INQUIRE)


def test_mqinq_answers_the_attributes_of_a_process(queue_manager: UnderTest, program: Program) -> None:
    values = {"name": "RUN", "application": "/bin/orders", "user_data": "user"}
    queue_manager.administration.objects.define(defined_object("PROCESS", values))
    process = program.connection.open(ObjectDescriptor("RUN", ObjectType.PROCESS), OpenOption.INQUIRE)

    answer = program.connection.inquire(process, [1, 2012, 2001, 2021])

    assert {1: 6, 2012: "RUN".ljust(48), 2001: "/bin/orders".ljust(256), 2021: "user".ljust(128)} == answer.values
