"""MQMD: the layout of both versions and both byte orders; no field is lost between record and bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple, replace

from mqflow.mqi.descriptor import MQMD1_BYTES, MQMD2_BYTES, NO_ID, MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason
from tests.mqi.layouts import Field, ends_at, expected, found
from tests.mqi.strategies import descriptors

DESCRIPTOR = MessageDescriptor(
    report=0x01000000, message_type=1, expiry_tenths=600, feedback=2362, encoding=273, ccsid=1208, format="MQSTR", priority=7,
    persistence=1, message_id=b"m" * 24, correlation_id=b"c" * 24, backout_count=3, reply_to_queue="REPLIES",
    reply_to_queue_manager="QM1", user_identifier="anna", accounting_token=b"t" * 32, application_identity_data="identity",
    put_application_type=6, put_application_name="orders", put_date="20261121", put_time="04200945",
    application_origin_data="orig", group_id=b"g" * 24, sequence_number=5, offset=6, message_flags=8, original_length=9,
)  # fmt: skip

#: The layout table of the MQMD: offset, length, field.
VERSION_1 = (
    Field(0, 4, "StrucId", "MD"),
    Field(4, 4, "Version", 1),
    Field(8, 4, "Report", 0x01000000),
    Field(12, 4, "MsgType", 1),
    Field(16, 4, "Expiry", 600),
    Field(20, 4, "Feedback", 2362),
    Field(24, 4, "Encoding", 273),
    Field(28, 4, "CodedCharSetId", 1208),
    Field(32, 8, "Format", "MQSTR"),
    Field(40, 4, "Priority", 7),
    Field(44, 4, "Persistence", 1),
    Field(48, 24, "MsgId", b"m" * 24),
    Field(72, 24, "CorrelId", b"c" * 24),
    Field(96, 4, "BackoutCount", 3),
    Field(100, 48, "ReplyToQ", "REPLIES"),
    Field(148, 48, "ReplyToQMgr", "QM1"),
    Field(196, 12, "UserIdentifier", "anna"),
    Field(208, 32, "AccountingToken", b"t" * 32),
    Field(240, 32, "ApplIdentityData", "identity"),
    Field(272, 4, "PutApplType", 6),
    Field(276, 28, "PutApplName", "orders"),
    Field(304, 8, "PutDate", "20261121"),
    Field(312, 8, "PutTime", "04200945"),
    Field(320, 4, "ApplOriginData", "orig"),
)
VERSION_2 = (
    VERSION_1[0],
    Field(4, 4, "Version", 2),
    *VERSION_1[2:],
    Field(324, 24, "GroupId", b"g" * 24),
    Field(348, 4, "MsgSeqNumber", 5),
    Field(352, 4, "Offset", 6),
    Field(356, 4, "MsgFlags", 8),
    Field(360, 4, "OriginalLength", 9),
)


@pytest.mark.parametrize("little_endian", [True, False], ids=["little-endian", "big-endian"])
def test_every_field_of_version_1_stands_at_its_offset(*, little_endian: bool) -> None:
    data = DESCRIPTOR.to_bytes(1, little_endian=little_endian)

    assert expected(VERSION_1, little_endian=little_endian) == found(data, VERSION_1)
    assert ends_at(VERSION_1) == len(data) == MQMD1_BYTES


@pytest.mark.parametrize("little_endian", [True, False], ids=["little-endian", "big-endian"])
def test_every_field_of_version_2_stands_at_its_offset(*, little_endian: bool) -> None:
    data = DESCRIPTOR.to_bytes(2, little_endian=little_endian)

    assert expected(VERSION_2, little_endian=little_endian) == found(data, VERSION_2)
    assert ends_at(VERSION_2) == len(data) == MQMD2_BYTES


@given(descriptors, st.booleans())
def test_any_descriptor_survives_its_bytes(descriptor: MessageDescriptor, little_endian: bool) -> None:  # noqa: FBT001 - drawn
    data = descriptor.to_bytes(2, little_endian=little_endian)

    assert descriptor == MessageDescriptor.from_bytes(data, little_endian=little_endian)


def test_version_1_has_no_group_and_segment_fields() -> None:
    read = MessageDescriptor.from_bytes(DESCRIPTOR.to_bytes(1))

    assert replace(DESCRIPTOR, group_id=NO_ID, sequence_number=1, offset=0, message_flags=0, original_length=-1) == read


def test_a_new_descriptor_has_the_initial_values() -> None:
    #: The defaults of the layout table; version 2.
    first = (0, 8, -1, 0, 546, 0, "", -1, 2, NO_ID, NO_ID, 0, "", "", "", bytes(32), "", 0, "", "", "", "")
    assert (*first, NO_ID, 1, 0, 0, -1) == astuple(MessageDescriptor())


def test_a_character_field_ends_at_its_first_nul() -> None:
    data = bytearray(DESCRIPTOR.to_bytes())
    data[100:148] = b"REPLIES\0rubbish".ljust(48, b"\0")

    assert "REPLIES" == MessageDescriptor.from_bytes(bytes(data)).reply_to_queue


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(b"", Reason.MD_ERROR, id="nothing"),
        pytest.param(b"MD  " + bytes(319), Reason.MD_ERROR, id="a byte too short for version 1"),
        pytest.param(DESCRIPTOR.to_bytes(2)[:363], Reason.MD_ERROR, id="a byte too short for version 2"),
        pytest.param(b"GMO " + bytes(360), Reason.MD_ERROR, id="another structure"),
        pytest.param(b"MD  \x03\0\0\0" + bytes(356), Reason.WRONG_MD_VERSION, id="version 3"),
        pytest.param(DESCRIPTOR.to_bytes(2, little_endian=False), Reason.WRONG_MD_VERSION, id="the other byte order"),
    ],
)
def test_data_that_are_no_descriptor_are_refused(data: bytes, reason: Reason) -> None:
    with pytest.raises(MQIError) as refused:
        MessageDescriptor.from_bytes(data)

    assert reason == refused.value.reason


@pytest.mark.parametrize(("persistence", "persistent"), [(0, False), (1, True), (2, False)])
def test_only_a_resolved_persistence_is_persistent(persistence: int, *, persistent: bool) -> None:
    assert persistent == MessageDescriptor(persistence=persistence).persistent
