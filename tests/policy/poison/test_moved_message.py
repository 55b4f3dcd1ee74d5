"""A message after its move, and the reason of the move as a reader finds it.

Source of the first half: IBM q032280, "What happens to a message when it is moved to the backout queue".
"""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.headers import dead_letter, rfh2
from mqflow.mqi.headers.chain import split
from mqflow.mqi.headers.dead_letter import DLH_BYTES
from mqflow.mqi.headers.rfh2 import RFH2, Folder, FolderProperty
from mqflow.mqi.options import ApplicationType, Encoding, Format, MessageFlag, MessageType, Persistence, Report
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison import moved_message
from mqflow.policy.poison.moved_message import Why, to_backout_queue, to_dead_letter_queue

NOW = datetime(2026, 11, 21, 9, 8, 7, 654_321, tzinfo=UTC)

ORDER = MessageDescriptor(
    report=Report.COD | Report.PASS_MSG_ID, message_type=MessageType.REQUEST, expiry_tenths=421, encoding=Encoding.ZOS,
    ccsid=819, format=Format.STRING, priority=7, persistence=Persistence.PERSISTENT, message_id=b"M" * 24,
    correlation_id=b"C" * 24, backout_count=3, reply_to_queue="REPLIES", reply_to_queue_manager="QM2", user_identifier="alice",
    put_date="20261121", put_time="09000000",
)  # fmt: skip
PROPERTIES = RFH2(
    folders=(Folder("usr", (FolderProperty("colour", "blue"),)),), encoding=Encoding.NATIVE, ccsid=819, format=Format.STRING
)
WITH_RFH2 = replace(ORDER, format=Format.RF_HEADER_2, ccsid=1208, encoding=Encoding.NATIVE)
RFH2_BODY = rfh2.to_bytes(PROPERTIES, encoding=Encoding.NATIVE) + b"a body"

WHY = Why(
    queue="ORDERS.IN", outcome="failed", error="builtins.ValueError", text="no such flight", handler="book", count=3,
    threshold=3, at=datetime(2026, 11, 21, 9, 8, 7, 654_000, tzinfo=UTC),
)  # fmt: skip

texts = st.text(max_size=60)
whys = st.builds(
    Why, queue=texts, queue_manager=texts, reason=st.integers(0, 99_999), outcome=texts, error=texts, text=texts, handler=texts,
    count=st.integers(0, 2**31 - 1), threshold=st.integers(0, 999_999_999), application_name=texts,
    at=st.none() | st.just(WHY.at),
)  # fmt: skip


def dead_lettered(
    descriptor: MessageDescriptor = ORDER, body: bytes = b"a body", now: datetime = NOW, reason: int = Reason.Q_FULL
) -> tuple[MessageDescriptor, bytes]:
    return to_dead_letter_queue(
        descriptor, body, reason=reason, queue="ORDERS.IN", queue_manager="QM1", application_name="flights", now=now
    )


# A message without an MQRFH2.


def test_the_header_that_is_added_makes_format_mqhrf2_ccsid_1208_and_encoding_273() -> None:
    descriptor, _ = to_backout_queue(ORDER, b"a body")

    assert ("MQHRF2", 1208, 273) == (descriptor.format, descriptor.ccsid, descriptor.encoding)


def test_the_added_header_keeps_format_ccsid_and_encoding_of_the_body_behind_it() -> None:
    descriptor, body = to_backout_queue(ORDER, b"a body")
    header, length = rfh2.parse(body, encoding=descriptor.encoding)

    assert ("MQSTR", 819, Encoding.ZOS) == (header.format, header.ccsid, header.encoding)
    assert b"a body" == body[length:]


def test_the_added_header_is_big_endian_as_the_descriptor_announces() -> None:
    # IBM MQ refused a header in another byte order than the descriptor has with 2142, and lost the message (APAR IT30321).
    _, body = to_backout_queue(ORDER, b"a body")

    assert b"RFH \x00\x00\x00\x02" == body[:8]
    assert 1208 == rfh2.parse(body, encoding=Encoding.NORMAL)[0].name_value_ccsid


def test_the_body_is_found_again_behind_the_added_header_in_its_own_character_set() -> None:
    headers = split(*to_backout_queue(ORDER, b"a body"))

    assert (b"a body", "MQSTR", 819, Encoding.ZOS) == (headers.body, headers.format, headers.ccsid, headers.encoding)


@pytest.mark.parametrize(
    ("descriptor", "body", "expected"),
    [
        (ORDER, b"a body", "jms_text"),
        (ORDER, b"", "jms_text"),
        (replace(ORDER, format=Format.NONE), b"\x00\x01", "jms_bytes"),
        (replace(ORDER, format="MYFORMAT"), b"\x00\x01", "jms_bytes"),
        (replace(ORDER, format=Format.NONE), b"", "jms_none"),
    ],
    ids=["text", "empty text", "no format", "an own format", "nothing"],
)
def test_the_added_header_names_the_message_class(descriptor: MessageDescriptor, body: bytes, expected: str) -> None:
    header, _ = rfh2.parse(to_backout_queue(descriptor, body)[1], encoding=Encoding.NORMAL)

    assert {"Msd": expected} == rfh2.properties(header, "mcd")


def test_the_character_set_of_the_queue_manager_is_inherited_behind_the_added_header() -> None:
    # In a descriptor 0 means the CCSID of the queue manager; a header inherits the CCSID before it with -2.
    _, body = to_backout_queue(replace(ORDER, ccsid=0), b"a body")

    assert -2 == rfh2.parse(body, encoding=Encoding.NORMAL)[0].ccsid


def test_a_message_that_starts_with_another_header_gets_its_mqrfh2_in_front_of_it() -> None:
    descriptor, body = to_backout_queue(*dead_lettered())
    chain = split(descriptor, body).chain

    assert ["RFH2", "DeadLetterHeader"] == [type(header).__name__ for header in chain]
    assert b"a body" == split(descriptor, body).body


def test_given_folders_follow_the_message_class() -> None:
    folders = (moved_message.folder(WHY), Folder("shop", (FolderProperty("till", 4),)))

    header, _ = rfh2.parse(to_backout_queue(ORDER, b"", folders=folders)[1], encoding=Encoding.NORMAL)

    assert ["mcd", "mqflow", "shop"] == [folder.name for folder in header.folders]


# A message with an MQRFH2, and messages with and without an MQRFH2.


def test_a_message_with_an_mqrfh2_keeps_its_body_and_its_description() -> None:
    descriptor, body = to_backout_queue(WITH_RFH2, RFH2_BODY, folders=(moved_message.folder(WHY),))

    assert RFH2_BODY == body
    assert replace(WITH_RFH2, backout_count=0) == descriptor


@pytest.mark.parametrize("flags", [MessageFlag.SEGMENT, MessageFlag.SEGMENT | MessageFlag.LAST_SEGMENT])
def test_a_segment_is_a_part_of_a_message_and_gets_nothing_in_front(flags: int) -> None:
    segment = replace(ORDER, message_flags=flags, offset=4_096)

    described, data = to_backout_queue(segment, b"the middle", folders=(moved_message.folder(Why(queue="ORDERS.IN")),))

    assert (replace(segment, backout_count=0), b"the middle") == (described, data)


def test_an_mqrfh2_behind_another_header_is_found() -> None:
    headed, body = dead_lettered(WITH_RFH2, RFH2_BODY)

    assert (headed, body) == to_backout_queue(headed, body)


def test_an_mqrfh2_that_does_not_hold_together_stays_as_it_came() -> None:
    broken = b"RFH \xff\xff\xff\xff and no more"

    assert (replace(WITH_RFH2, backout_count=0), broken) == to_backout_queue(WITH_RFH2, broken)


def test_a_message_whose_other_header_does_not_hold_together_is_moved_nevertheless() -> None:
    descriptor, body = to_backout_queue(replace(ORDER, format=Format.DEAD_LETTER_HEADER), b"DLH but short")

    assert "MQHRF2" == descriptor.format
    assert body.endswith(b"DLH but short")


@pytest.mark.parametrize(("descriptor", "body"), [(ORDER, b"a body"), (WITH_RFH2, RFH2_BODY)], ids=["without", "with MQRFH2"])
def test_the_count_starts_again_and_everything_about_the_sender_stays(descriptor: MessageDescriptor, body: bytes) -> None:
    put, _ = to_backout_queue(descriptor, body)

    as_it_was = replace(put, backout_count=3, format=descriptor.format, ccsid=descriptor.ccsid, encoding=descriptor.encoding)
    assert 0 == put.backout_count
    assert descriptor == as_it_was


@given(st.binary(max_size=200), st.sampled_from([Format.NONE, Format.STRING, "MYFORMAT"]), st.sampled_from([0, 819, 1208, 37]))
def test_a_body_survives_the_move_byte_for_byte(body: bytes, format_name: str, ccsid: int) -> None:
    descriptor = replace(ORDER, format=format_name, ccsid=ccsid)

    headers = split(*to_backout_queue(descriptor, body))

    assert (body, format_name, descriptor.encoding) == (headers.body, headers.format, headers.encoding)


# The dead-letter queue.


def test_the_header_that_is_added_is_an_mqdlh_and_the_descriptor_says_so() -> None:
    descriptor, body = dead_lettered()

    assert ("MQDEAD", 1208, Encoding.NATIVE) == (descriptor.format, descriptor.ccsid, descriptor.encoding)
    assert b"DLH " == body[:4]
    assert b"a body" == body[DLH_BYTES:]


def test_an_mqdlh_has_the_reason_the_origin_the_mover_and_the_time() -> None:
    descriptor, body = dead_lettered()
    header = dead_letter.parse(body, encoding=descriptor.encoding)

    assert (2053, "ORDERS.IN", "QM1") == (header.reason, header.destination_queue, header.destination_queue_manager)
    assert (ApplicationType.UNIX, "flights") == (header.put_application_type, header.put_application_name)
    assert ("20261121", "09080765") == (header.put_date, header.put_time)


def test_the_time_in_an_mqdlh_is_gmt_wherever_it_was_taken() -> None:
    descriptor, body = dead_lettered(now=NOW.astimezone(timezone(timedelta(hours=-11))))
    header = dead_letter.parse(body, encoding=descriptor.encoding)

    assert ("20261121", "09080765") == (header.put_date, header.put_time)


def test_an_mqdlh_keeps_format_ccsid_and_encoding_of_the_body_behind_it() -> None:
    descriptor, body = dead_lettered()
    header = dead_letter.parse(body, encoding=descriptor.encoding)

    assert ("MQSTR", 819, Encoding.ZOS) == (header.format, header.ccsid, header.encoding)


def test_behind_an_mqdlh_the_character_set_of_the_queue_manager_is_inherited() -> None:
    descriptor, body = dead_lettered(replace(ORDER, ccsid=0))

    assert -2 == dead_letter.parse(body, encoding=descriptor.encoding).ccsid


def test_a_dead_lettered_message_keeps_its_type_and_everything_about_its_sender() -> None:
    descriptor, _ = dead_lettered()

    as_it_was = replace(descriptor, backout_count=3, format=ORDER.format, ccsid=ORDER.ccsid, encoding=ORDER.encoding)
    assert 0 == descriptor.backout_count
    assert ORDER == as_it_was


def test_a_queue_manager_that_dead_letters_says_that_it_was_one() -> None:
    descriptor, body = to_dead_letter_queue(
        ORDER, b"", reason=Reason.UNKNOWN_OBJECT_NAME, queue="NOWHERE", queue_manager="QM1", application_name="QM1",
        application_type=ApplicationType.QMGR, now=NOW,
    )  # fmt: skip

    assert 7 == dead_letter.parse(body, encoding=descriptor.encoding).put_application_type


@given(st.binary(max_size=200), st.sampled_from([Format.NONE, Format.STRING, "MYFORMAT"]), st.sampled_from([0, 819, 1200, 37]))
def test_a_body_survives_every_move_that_can_follow_another(body: bytes, format_name: str, ccsid: int) -> None:
    message = (replace(ORDER, format=format_name, ccsid=ccsid), body)

    for moved_there in (
        dead_lettered(*message),
        dead_lettered(*to_backout_queue(*message)),
        to_backout_queue(*dead_lettered(*message)),
    ):
        headers = split(*moved_there)
        assert (body, format_name, ccsid or 1208, ORDER.encoding) == (
            headers.body,
            headers.format,
            headers.ccsid,
            headers.encoding,
        )


# The reason of the move is read back.


def test_a_backed_out_message_says_why_it_was_moved() -> None:
    moved_there = to_backout_queue(ORDER, b"a body", folders=(moved_message.folder(WHY),))

    assert WHY == moved_message.why(*moved_there)


def test_a_dead_lettered_message_says_why_it_was_moved() -> None:
    expected = Why(
        queue="ORDERS.IN", queue_manager="QM1", reason=2053, application_name="flights", at=NOW.replace(microsecond=650_000)
    )

    assert expected == moved_message.why(*dead_lettered())


def test_a_message_moved_twice_has_the_reason_of_its_last_move() -> None:
    first = to_backout_queue(ORDER, b"a body", folders=(moved_message.folder(WHY),))
    told = moved_message.why(*dead_lettered(*first))

    assert told is not None
    assert 2053 == told.reason


@pytest.mark.parametrize(
    ("descriptor", "body"),
    [
        (ORDER, b"a body"),
        (WITH_RFH2, RFH2_BODY),
        (WITH_RFH2, b"RFH \xff\xff\xff\xff"),
        (replace(ORDER, format=Format.DEAD_LETTER_HEADER), b"short"),
    ],
    ids=["no header", "an MQRFH2 of its own", "a broken MQRFH2", "a broken MQDLH"],
)
def test_a_message_that_was_never_moved_says_nothing(descriptor: MessageDescriptor, body: bytes) -> None:
    assert moved_message.why(descriptor, body) is None


@pytest.mark.parametrize(
    "forged",
    [(FolderProperty("count", "many"),), (FolderProperty("at", "yesterday"),), (FolderProperty("colour", "blue"),), ()],
    ids=["a count in words", "an invalid time", "something else", "nothing"],
)
def test_a_folder_of_another_program_does_no_harm(forged: tuple[FolderProperty, ...]) -> None:
    told = moved_message.why(*to_backout_queue(ORDER, b"", folders=(Folder(moved_message.FOLDER, forged),)))

    assert told in (None, Why())


def test_an_mqdlh_without_a_time_says_no_time() -> None:
    header = dead_letter.DeadLetterHeader(reason=271, destination_queue="Q", format=Format.NONE, encoding=273, ccsid=819)
    headed = replace(ORDER, format=Format.DEAD_LETTER_HEADER, encoding=Encoding.NORMAL)

    told = moved_message.why(headed, dead_letter.to_bytes(header, encoding=Encoding.NORMAL))

    assert Why(queue="Q", reason=271) == told


def test_an_error_s_text_cannot_break_the_header_it_is_written_into() -> None:
    text = "\x00 <![CDATA[ ]]> &amp; </text> \ud800 \uffff \x1b[31m ümlaut \N{PILE OF POO}"

    told = moved_message.why(*to_backout_queue(ORDER, b"a body", folders=(moved_message.folder(replace(WHY, text=text)),)))

    assert told is not None
    assert "\ufffd <![CDATA[ ]]> &amp; </text> \ufffd \ufffd \ufffd[31m ümlaut \N{PILE OF POO}" == told.text


def test_a_time_has_milliseconds_and_its_zone() -> None:
    told = {told.name: told.value for told in moved_message.folder(WHY).properties}

    assert "2026-11-21T09:08:07.654+00:00" == told["at"]


def test_numbers_that_an_mqrfh2_holds_as_text_are_read() -> None:
    folder = Folder(moved_message.FOLDER, (FolderProperty("count", "3"),))

    assert Why(count=3) == moved_message.why(*to_backout_queue(ORDER, b"", folders=(folder,)))


@given(whys)
def test_a_written_reason_is_read_back(told: Why) -> None:
    cleaned = {
        name: moved_message._NOT_IN_XML.sub("\ufffd", value)
        for name in told.__struct_fields__
        if type(value := getattr(told, name)) is str
    }

    moved_there = to_backout_queue(ORDER, b"a body", folders=(moved_message.folder(told),))

    assert replace(told, **cleaned) == moved_message.why(*moved_there)
