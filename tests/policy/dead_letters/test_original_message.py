"""The inverse of a move: for any message, `restored` returns the original message and its queue."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.headers import rfh2
from mqflow.mqi.headers.rfh2 import RFH2
from mqflow.mqi.options import Encoding
from mqflow.policy.dead_letters.original_message import restored
from mqflow.policy.poison import moved_message
from tests.mqi.strategies import encodings, fields, folders

descriptors = st.builds(
    MessageDescriptor,
    format=fields(8).filter(lambda text: text != "MQHRF2"),
    ccsid=st.sampled_from([1208, 819, 500, 1200]),  # as after a get; only before a put can the CCSID be 0
    encoding=encodings,
    priority=st.integers(0, 9),
    message_id=st.binary(min_size=24, max_size=24),
    correlation_id=st.binary(min_size=24, max_size=24),
    expiry_tenths=st.integers(1, 1_000),
    user_identifier=fields(12),
)
bodies = st.binary(max_size=60)
queues = fields(48).filter(bool)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@given(descriptors, bodies, queues, encodings)
def test_a_dead_letter_is_restored_as_it_was_before_its_move(
    descriptor: MessageDescriptor, body: bytes, queue: str, encoding: int
) -> None:
    described, data = moved_message.to_dead_letter_queue(
        descriptor, body, reason=2053, queue=queue, queue_manager="QM1", application_name="a", now=NOW, encoding=encoding
    )

    before = restored(described, data)

    assert (descriptor, body) == (before.descriptor, before.data)
    assert (queue, "QM1", "MQDLH") == (before.origin_queue, before.origin_queue_manager, before.taken_off)


@given(descriptors, bodies, queues)
def test_a_backed_out_message_is_restored_as_it_was_before_its_move(
    descriptor: MessageDescriptor, body: bytes, queue: str
) -> None:
    described, data = moved_message.to_backout_queue(
        descriptor, body, folders=(moved_message.folder(moved_message.Why(queue=queue, count=3)),)
    )

    before = restored(described, data)

    if before.taken_off:
        assert (descriptor, body, queue) == (before.descriptor, before.data, before.origin_queue)
    else:  # the message had an MQRFH2 already, so the move changed no byte
        assert (descriptor, body) == (described, data) == (before.descriptor, before.data)


def test_a_message_that_was_dead_lettered_twice_goes_back_one_step() -> None:
    once = moved_message.to_dead_letter_queue(
        MessageDescriptor(ccsid=819), b"x", reason=1, queue="A", queue_manager="", application_name="", now=NOW
    )
    twice = moved_message.to_dead_letter_queue(*once, reason=2, queue="B", queue_manager="", application_name="", now=NOW)

    before = restored(*twice)

    assert (*once, "B") == (before.descriptor, before.data, before.origin_queue)


@given(st.lists(folders, max_size=3).map(tuple), bodies)
def test_an_rfh2_that_was_not_added_stays(given_folders: tuple[rfh2.Folder, ...], body: bytes) -> None:
    descriptor = MessageDescriptor(format="MQHRF2", ccsid=1208, encoding=Encoding.NORMAL)
    data = rfh2.to_bytes(RFH2(folders=given_folders), encoding=Encoding.NORMAL) + body

    before = restored(descriptor, data)

    assert (descriptor, data, "") == (before.descriptor, before.data, before.taken_off)


def test_a_folder_of_ours_among_others_is_not_ours_alone() -> None:
    own = moved_message.folder(moved_message.Why(queue="A"))
    header = RFH2(folders=(own, rfh2.Folder("usr", (rfh2.FolderProperty("n", 1),))))
    descriptor = MessageDescriptor(format="MQHRF2", ccsid=1208, encoding=Encoding.NORMAL)
    data = rfh2.to_bytes(header, encoding=Encoding.NORMAL)

    assert "" == restored(descriptor, data).taken_off


@pytest.mark.parametrize("data", [b"", b"RFH \0\0\0\2", b"x" * 200])
def test_a_message_that_cannot_be_parsed_stays_unchanged(data: bytes) -> None:
    descriptor = MessageDescriptor(format="MQHRF2")

    assert (descriptor, data) == (restored(descriptor, data).descriptor, restored(descriptor, data).data)


@given(st.binary(max_size=300), fields(8), encodings)
def test_any_bytes_are_restored_somehow(data: bytes, format_: str, encoding: int) -> None:
    descriptor = MessageDescriptor(format=format_, encoding=encoding)
    before = restored(descriptor, data)

    assert before.taken_off or (descriptor, data) == (before.descriptor, before.data)
    assert replace(before.descriptor, format="", encoding=0, ccsid=0) == replace(descriptor, format="", encoding=0, ccsid=0)


def test_a_folder_of_ours_before_a_header_that_cannot_be_parsed_stays() -> None:
    folders = (
        rfh2.Folder("mcd", (rfh2.FolderProperty("Msd", "jms_bytes"),)),
        moved_message.folder(moved_message.Why(queue="A")),
    )
    descriptor = MessageDescriptor(format="MQHRF2", ccsid=1208, encoding=Encoding.NORMAL)
    data = rfh2.to_bytes(RFH2(folders=folders, format="MQHRF2"), encoding=Encoding.NORMAL) + b"no header"
    before = restored(descriptor, data)

    assert (descriptor, data, "") == (before.descriptor, before.data, before.taken_off)
