"""The checks of MQPUT, and the fields that it fills in. Source: IBM, MQPUT and MQMD; rc2013 to rc2061."""

from typing import Any

import pytest

from mqflow.mqi.descriptor import NO_ID, MessageDescriptor
from mqflow.mqi.options import Encoding, MessageType, PutOption, Report
from mqflow.mqi.reason_codes import Reason
from tests.conformance.programs import Program
from tests.conformance.under_test import UnderTest, refused

APPLICATION_ID = bytes(range(24))


def test_a_message_without_an_identifier_gets_one_of_the_queue_manager(queue: str, program: Program) -> None:
    """The identifier is `AMQ `, then 12 characters of the name of the queue manager, then 8 bytes."""
    made = program.put(queue).descriptor.message_id

    assert (24, b"AMQ QM1         ") == (len(made), made[:16])


def test_identifiers_are_unique_and_grow(queue: str, program: Program) -> None:
    made = [program.put(queue).descriptor.message_id for _ in range(100)]

    assert sorted(set(made)) == made


def test_an_identifier_of_the_program_is_kept(queue: str, program: Program) -> None:
    program.put(queue, message_id=APPLICATION_ID)
    program.put(queue, message_id=APPLICATION_ID)

    assert [APPLICATION_ID, APPLICATION_ID] == [program.got(queue).descriptor.message_id for _ in range(2)]


def test_new_msg_id_overrides_the_programs_identifier(queue: str, program: Program) -> None:
    put = program.put(queue, b"", PutOption.NEW_MSG_ID, message_id=APPLICATION_ID)

    assert put.descriptor.message_id not in {APPLICATION_ID, NO_ID}


def test_a_correlation_identifier_of_zeros_is_kept(queue: str, program: Program) -> None:
    assert NO_ID == program.put(queue).descriptor.correlation_id
    assert APPLICATION_ID == program.put(queue, correlation_id=APPLICATION_ID).descriptor.correlation_id


def test_new_correl_id_makes_one(queue: str, program: Program) -> None:
    put = program.put(queue, b"", PutOption.NEW_CORREL_ID, correlation_id=APPLICATION_ID)

    assert put.descriptor.correlation_id not in {APPLICATION_ID, NO_ID}


def test_the_put_and_the_get_return_equal_descriptors(queue: str, program: Program) -> None:
    put = program.put(queue, b"one", format="MQSTR", priority=3)

    assert put.descriptor == program.got(queue).descriptor


def test_the_put_says_where_it_went(queue_manager: UnderTest, queue: str, program: Program) -> None:
    put = program.put(queue)

    assert (queue, queue_manager.name) == (put.resolved_queue, put.resolved_queue_manager)


@pytest.mark.parametrize("field", ["reply_to_queue", "reply_to_queue_manager"])
def test_a_name_of_48_characters_is_no_error_in_the_descriptor(queue: str, program: Program, field: str) -> None:
    names: dict[str, Any] = {"reply_to_queue": "REPLIES", field: "R" * 48}

    program.put(queue, **names)

    assert "R" * 48 == getattr(program.got(queue).descriptor, field)


def test_the_descriptor_travels_unchanged(queue: str, program: Program) -> None:
    fields: dict[str, Any] = {
        "message_type": 65_536, "feedback": 65_537, "encoding": Encoding.NORMAL, "ccsid": 819, "format": "MQHRF2",
        "correlation_id": APPLICATION_ID, "group_id": APPLICATION_ID, "sequence_number": 3, "offset": 0, "message_flags": 0x8,
        "reply_to_queue": "REPLIES", "reply_to_queue_manager": "QM9",
        "report": int(Report.EXCEPTION_WITH_DATA | Report.DISCARD_MSG),
    }  # fmt: skip
    program.put(queue, b"one", **fields)
    got = program.got(queue).descriptor

    assert fields == {name: getattr(got, name) for name in fields}


def test_ccsid_0_becomes_the_queue_managers(queue_manager: UnderTest, queue: str, program: Program) -> None:
    queue_manager.administration.alter_queue_manager({"ccsid": 819})
    program.put(queue, b"", ccsid=0)

    assert 819 == program.got(queue).descriptor.ccsid


def test_a_reply_to_queue_without_queue_manager_gets_this_one(queue_manager: UnderTest, queue: str, program: Program) -> None:
    program.put(queue, b"", reply_to_queue="REPLIES")

    assert queue_manager.name == program.got(queue).descriptor.reply_to_queue_manager


def test_suppress_replyto_takes_the_reply_queue_off(queue: str, program: Program) -> None:
    program.put(queue, b"", PutOption.SUPPRESS_REPLYTO, reply_to_queue="REPLIES", reply_to_queue_manager="QM9")
    got = program.got(queue).descriptor

    assert ("", "") == (got.reply_to_queue, got.reply_to_queue_manager)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"message_type": 0}, Reason.MSG_TYPE_ERROR),
        ({"message_type": 3}, Reason.MSG_TYPE_ERROR),
        ({"message_type": 65_535}, Reason.MSG_TYPE_ERROR),
        ({"message_type": 1_000_000_000}, Reason.MSG_TYPE_ERROR),
        ({"feedback": -1}, Reason.FEEDBACK_ERROR),
        ({"feedback": 1_000_000_000}, Reason.FEEDBACK_ERROR),
        ({"expiry_tenths": 0}, Reason.EXPIRY_ERROR),
        ({"expiry_tenths": -2}, Reason.EXPIRY_ERROR),
        ({"persistence": 3}, Reason.PERSISTENCE_ERROR),
        ({"persistence": -1}, Reason.PERSISTENCE_ERROR),
        ({"priority": -2}, Reason.PRIORITY_ERROR),
        ({"message_type": MessageType.REQUEST}, Reason.MISSING_REPLY_TO_Q),
        ({"report": Report.COA}, Reason.MISSING_REPLY_TO_Q),
        ({"report": Report.COD_WITH_DATA}, Reason.MISSING_REPLY_TO_Q),
        ({"report": Report.EXPIRATION}, Reason.MISSING_REPLY_TO_Q),
        ({"report": Report.EXCEPTION_WITH_FULL_DATA}, Reason.MISSING_REPLY_TO_Q),
        ({"report": 0x10000000}, Reason.REPORT_OPTIONS_ERROR),
        ({"report": 0x00040000}, Reason.REPORT_OPTIONS_ERROR),
        ({"message_flags": 0x100}, Reason.MSG_FLAGS_ERROR),
        ({"message_id": b"short"}, Reason.MD_ERROR),
        ({"correlation_id": bytes(25)}, Reason.MD_ERROR),
        ({"format": "NINECHARS"}, Reason.MD_ERROR),
        ({"reply_to_queue": "Q" * 49}, Reason.MD_ERROR),
        ({"reply_to_queue": "Q", "reply_to_queue_manager": "Q" * 49}, Reason.MD_ERROR),
    ],
    ids=str,
)
def test_a_field_that_is_wrong_is_refused(queue: str, program: Program, fields: dict[str, Any], reason: Reason) -> None:
    with refused(reason):
        program.put(queue, b"", **fields)


@pytest.mark.parametrize("report", [Report.DISCARD_MSG, Report.PASS_CORREL_ID, Report.PASS_MSG_ID, Report.NONE])
def test_report_bits_that_ask_for_no_report_need_no_reply_queue(queue: str, program: Program, report: Report) -> None:
    program.put(queue, b"", report=int(report))


def test_an_unknown_report_bit_that_may_be_ignored_is_warned_about(queue: str, program: Program) -> None:
    assert Reason.UNKNOWN_REPORT_OPTION == program.put(queue, b"", report=0x10).reason


@pytest.mark.parametrize("first", ["ALIAS", "Q"])
def test_priority_and_persistence_come_from_the_first_definition_on_the_path(
    queue_manager: UnderTest, program: Program, first: str
) -> None:
    queue_manager.define("Q", default_priority=2, default_persistence=0)
    queue_manager.define_alias("ALIAS", "Q", default_priority=7, default_persistence=1)
    put = program.put(first).descriptor

    assert {"ALIAS": (7, 1), "Q": (2, 0)}[first] == (put.priority, put.persistence)
    assert 0 == program.put(first, priority=0).descriptor.priority


def test_a_priority_above_the_maximum_is_accepted_with_a_warning(queue: str, program: Program) -> None:
    program.put(queue, b"nine", priority=9)
    put = program.put(queue, b"twelve", priority=12)
    program.put(queue, b"eight", priority=8)

    assert Reason.PRIORITY_EXCEEDS_MAXIMUM == put.reason
    assert 12 == put.descriptor.priority
    assert [b"nine", b"twelve", b"eight"] == program.bodies(queue)


def test_a_message_longer_than_the_queue_allows_is_2030(queue_manager: UnderTest, program: Program) -> None:
    queue_manager.define("SHORT", max_message_bytes=3)
    program.put("SHORT", b"123")

    with refused(Reason.MSG_TOO_BIG_FOR_Q):
        program.put("SHORT", b"1234")


def test_a_message_longer_than_the_queue_manager_allows_is_2031(queue_manager: UnderTest, queue: str, program: Program) -> None:
    queue_manager.administration.alter_queue_manager({"max_message_bytes": 32_768})

    with refused(Reason.MSG_TOO_BIG_FOR_Q_MGR):
        program.put(queue, bytes(32_769))


def test_the_queue_is_asked_about_the_length_before_the_queue_manager(queue_manager: UnderTest, program: Program) -> None:
    queue_manager.administration.alter_queue_manager({"max_message_bytes": 32_768})
    queue_manager.define("SHORT", max_message_bytes=3)

    with refused(Reason.MSG_TOO_BIG_FOR_Q):
        program.put("SHORT", bytes(32_769))


def test_an_empty_message_is_a_message(queue: str, program: Program) -> None:
    program.put(queue, b"")
    got = program.got(queue)

    assert (b"", 0) == (got.body, got.data_bytes)


def test_a_full_queue_is_2053(queue_manager: UnderTest, program: Program) -> None:
    queue_manager.define("TWO", max_depth=2)
    program.put("TWO")
    program.put_in_unit("TWO")

    with refused(Reason.Q_FULL):
        program.put("TWO")


def test_an_uncommitted_get_keeps_its_room_on_the_queue(queue_manager: UnderTest, program: Program) -> None:
    queue_manager.define("ONE", max_depth=1)
    program.put("ONE")
    program.get_in_unit("ONE")

    with refused(Reason.Q_FULL):
        program.put("ONE")

    program.commit()
    program.put("ONE")


def test_a_queue_made_smaller_keeps_its_messages(queue_manager: UnderTest, queue: str, program: Program) -> None:
    program.put(queue, b"one")
    program.put(queue, b"two")
    queue_manager.administration.alter(queue, {"max_depth": 1})
    program.get_in_unit(queue)
    program.backout()

    assert [b"one", b"two"] == program.bodies(queue)


@pytest.mark.parametrize(
    "options",
    [PutOption.SYNCPOINT | PutOption.NO_SYNCPOINT, PutOption.ASYNC_RESPONSE | PutOption.SYNC_RESPONSE, PutOption(0x40000000)],
)
def test_options_that_do_not_go_together_are_2046(queue: str, program: Program, options: PutOption) -> None:
    with refused(Reason.OPTIONS_ERROR):
        program.put(queue, b"", options)


def test_a_body_that_is_no_bytes_is_2004(queue: str, program: Program) -> None:
    with refused(Reason.BUFFER_ERROR):
        program.put(queue, "text")  # type: ignore[arg-type]  # the test needs a wrong type


def test_a_refused_put_leaves_no_trace(queue_manager: UnderTest, queue: str, program: Program) -> None:
    with refused(Reason.EXPIRY_ERROR):
        program.put_in_unit(queue, b"", expiry_tenths=0)
    program.commit()

    assert queue_manager.depth(queue) == 0


def test_put1_closes_the_object_that_it_opened(queue_manager: UnderTest, queue: str, program: Program) -> None:
    program.connection.put1(queue, MessageDescriptor(), b"one", PutOption.NO_SYNCPOINT)

    queue_manager.administration.delete(queue, purge=True)


def test_capexpry_shortens_a_longer_expiry(queue_manager: UnderTest, program: Program) -> None:
    queue_manager.define("CAPPED", cap_expiry_tenths=50)

    assert [50, 50, 20] == [
        program.put("CAPPED", b"", expiry_tenths=tenths).descriptor.expiry_tenths for tenths in (-1, 100, 20)
    ]
