"""The header that carries a backout count over a wait: its removal restores the message, and the counts are added."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mqflow.mqi.descriptor import CCSID_Q_MGR, MessageDescriptor
from mqflow.mqi.headers import rfh2
from mqflow.mqi.headers.chain import join, split
from mqflow.mqi.headers.rfh2 import RFH2, Folder, FolderProperty
from mqflow.mqi.options import MessageFlag, Report
from mqflow.policy.poison.backout_count_header import FOLDER, counted, may_wait, with_count
from mqflow.policy.poison.moved_message import why

ORDER = MessageDescriptor(format="MQSTR", ccsid=819, message_id=b"M" * 24)
USR = RFH2(folders=(Folder("usr", (FolderProperty("colour", "blue"),)),), ccsid=819, format="MQSTR")


@given(
    st.builds(
        MessageDescriptor,
        format=st.sampled_from(["", "MQSTR", "MYFORMAT"]),
        ccsid=st.sampled_from([819, 1208, 1200]),
        encoding=st.sampled_from([273, 546]),
    ),
    st.binary(max_size=60),
    st.integers(1, 10**6),
    st.integers(0, 50),
)
def test_a_count_comes_off_as_it_went_on_and_adds_up(descriptor: MessageDescriptor, body: bytes, before: int, now: int) -> None:
    put, data = with_count(descriptor, body, before)
    got = replace(put, backout_count=now)

    assert (replace(descriptor, backout_count=before + now), body) == counted(got, data)


def test_a_count_of_zero_comes_off_too() -> None:
    assert (ORDER, b"text") == counted(*with_count(ORDER, b"text", 0))


@pytest.mark.parametrize("said", [-1, 10**9, 2**31, 2**63 - 1])
def test_a_count_beyond_the_range_of_a_queue_manager_is_ignored(said: int) -> None:
    put, data = with_count(ORDER, b"text", said)

    assert (put, data) == counted(put, data)


def test_a_message_with_properties_keeps_them_byte_for_byte() -> None:
    descriptor, body = join(ORDER, (USR,), b"text")

    assert (replace(descriptor, backout_count=2), body) == counted(*with_count(descriptor, body, 2))


def test_a_queue_manager_that_makes_one_header_of_two_does_no_harm() -> None:
    both = RFH2(folders=(Folder(FOLDER, (FolderProperty("backouts", 3),)), *USR.folders), ccsid=819, format="MQSTR")
    descriptor, body = counted(*join(ORDER, (both,), b"text"))

    [header] = split(descriptor, body).chain
    assert isinstance(header, RFH2)
    assert (3, {"colour": "blue"}) == (descriptor.backout_count, rfh2.properties(header, "usr"))


@pytest.mark.parametrize(
    ("descriptor", "body"),
    [
        (ORDER, b"<mqflow_delivery><backouts>3</backouts></mqflow_delivery>"),
        (ORDER, with_count(ORDER, b"text", 3)[1]),
        (replace(ORDER, format="MQHRF2"), b"RFH <mqflow_delivery> cut off"),
        join(ORDER, (RFH2(folders=(Folder(FOLDER, (FolderProperty("backouts", "many"),)),)),), b"x"),
        join(ORDER, (RFH2(folders=(Folder(FOLDER, (FolderProperty("backouts", -1),)),)),), b"x"),
        join(ORDER, (USR,), b"<mqflow_delivery"),
    ],
    ids=["no header", "another format", "broken", "no number", "negative", "in the body"],
)
def test_a_message_without_a_count_is_returned_unchanged(descriptor: MessageDescriptor, body: bytes) -> None:
    assert (descriptor, body) == counted(descriptor, body)


def test_the_count_is_not_taken_for_the_reason_of_a_move() -> None:
    assert None is why(*with_count(ORDER, b"x", 2))


def test_the_queue_managers_own_character_set_is_inherited() -> None:
    descriptor, body = with_count(replace(ORDER, ccsid=CCSID_Q_MGR), b"x", 1)

    assert -2 == rfh2.parse(body, encoding=descriptor.encoding)[0].ccsid


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"message_flags": MessageFlag.SEGMENTATION_ALLOWED}, True),
        ({"message_flags": MessageFlag.MSG_IN_GROUP}, False),
        ({"message_flags": MessageFlag.LAST_SEGMENT}, False),
        ({"report": Report.EXCEPTION}, True),
        ({"report": Report.COA}, False),
        ({"report": Report.COD_WITH_DATA}, False),
    ],
)
def test_which_messages_may_wait_elsewhere(changes: dict[str, int], *, expected: bool) -> None:
    assert expected is may_wait(replace(ORDER, **changes))
