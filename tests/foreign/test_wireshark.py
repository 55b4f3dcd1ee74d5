"""Wireshark reads the output of our codecs: the descriptor and the headers, each field with the intended value.

Other people wrote its dissector from IBM's layouts, independent of our codecs.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.headers import chain as headers
from mqflow.mqi.headers import rfh2
from mqflow.mqi.headers.dead_letter import DeadLetterHeader
from mqflow.mqi.headers.rfh2 import RFH2, Folder, FolderProperty
from mqflow.mqi.headers.rfh2_folder import folder_text
from mqflow.mqi.layout import byte_order
from mqflow.mqi.options import Encoding
from tests.foreign.dissecting import TSHARK, Message, dissect
from tests.mqi.strategies import dead_letter_headers, descriptors, encodings, int32

pytestmark = pytest.mark.skipif(TSHARK is None, reason="there is no tshark to show messages to: apt-get install tshark")

# One tshark runs for many messages; a shrunk example gains nothing.
MANY = settings(
    max_examples=5,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example, HealthCheck.data_too_large],
    derandomize=True,
)

DESCRIPTOR_FIELDS = {
    "mq.md.report": "report", "mq.md.msgtype": "message_type", "mq.md.expiry": "expiry_tenths", "mq.md.feedback": "feedback",
    "mq.md.encoding": "encoding", "mq.md.ccsid": "ccsid", "mq.md.format": "format", "mq.md.priority": "priority",
    "mq.md.persistence": "persistence", "mq.md.msgid": "message_id", "mq.md.correlid": "correlation_id",
    "mq.md.backount": "backout_count", "mq.md.replytoq": "reply_to_queue", "mq.md.replytoqmgr": "reply_to_queue_manager",
    "mq.md.userid": "user_identifier", "mq.md.acttoken": "accounting_token", "mq.md.appldata": "application_identity_data",
    "mq.md.appltype": "put_application_type", "mq.md.applname": "put_application_name", "mq.md.date": "put_date",
    "mq.md.time": "put_time", "mq.md.origdata": "application_origin_data", "mq.md.groupid": "group_id",
    "mq.md.msgseqnumber": "sequence_number", "mq.md.offset": "offset", "mq.md.msgflags": "message_flags",
    "mq.md.origlength": "original_length",
}  # fmt: skip
ONLY_IN_VERSION_2 = {"group_id", "sequence_number", "offset", "message_flags", "original_length"}
DEAD_LETTER_FIELDS = {
    "mq.dlh.reason": "reason", "mq.dlh.destq": "destination_queue", "mq.dlh.destqmgr": "destination_queue_manager",
    "mq.dlh.encoding": "encoding", "mq.dlh.ccsid": "ccsid", "mq.dlh.format": "format",
    "mq.dlh.putappltype": "put_application_type", "mq.dlh.putapplname": "put_application_name", "mq.dlh.putdate": "put_date",
    "mq.dlh.puttime": "put_time",
}  # fmt: skip


def same(meant: object, shown: str) -> object:
    """Return the shown value in the form of the written value: a number, bytes, or text without its padding."""
    match meant:
        case bool() | int():
            number = int(shown, 0)
            return number - 2**32 if number >= 2**31 else number
        case bytes():
            return bytes.fromhex(shown.replace(":", ""))
        case _:
            return shown.rstrip(" \0")


def assert_shown(record: object, fields: Mapping[str, str], shown: Mapping[str, Sequence[str]]) -> None:
    meant = {field: getattr(record, name) for field, name in fields.items()}

    assert meant == {field: same(meant[field], "".join(shown[field][:1])) for field in fields}


def recorded(descriptor: MessageDescriptor, body: bytes) -> Message:
    """Return the message in the byte order of the data: for the MQDLH the dissector uses that of the channel."""
    little_endian = byte_order(descriptor.encoding) == "<"
    return Message(descriptor.to_bytes(little_endian=little_endian), body, little_endian)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("dissected")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("little_endian", [True, False], ids=["little-endian", "big-endian"])
@MANY
@given(made=st.lists(descriptors, min_size=30, max_size=30))
def test_every_field_of_a_descriptor_is_read_as_it_was_written(
    folder: Path, version: Literal[1, 2], *, little_endian: bool, made: list[MessageDescriptor]
) -> None:
    put = [replace(each, format="", encoding=546, ccsid=1208) for each in made]
    messages = [Message(each.to_bytes(version, little_endian=little_endian), b"", little_endian) for each in put]
    fields = {field: name for field, name in DESCRIPTOR_FIELDS.items() if version == 2 or name not in ONLY_IN_VERSION_2}

    shown = dissect(messages, ["mq.md.version", *DESCRIPTOR_FIELDS], folder)

    assert [str(version)] * len(put) == [each["mq.md.version"][0] for each in shown]
    for descriptor, values in zip(put, shown, strict=True):
        assert_shown(descriptor, fields, values)


@MANY
@given(made=st.lists(st.tuples(dead_letter_headers, encodings), min_size=30, max_size=30))
def test_every_field_of_a_dead_letter_header_is_read_as_it_was_written(
    folder: Path, made: list[tuple[DeadLetterHeader, int]]
) -> None:
    put = [
        headers.join(MessageDescriptor(encoding=encoding, ccsid=1208), [header], b"the body", body_format="MQSTR")
        for header, encoding in made
    ]

    shown = dissect([recorded(descriptor, body) for descriptor, body in put], list(DEAD_LETTER_FIELDS), folder)

    for (descriptor, body), values in zip(put, shown, strict=True):
        (linked,) = headers.split(descriptor, body).chain
        assert_shown(linked, DEAD_LETTER_FIELDS, values)


texts = st.text("ABCXYZabcxyz0189. _/%&<>'\"äß€", max_size=30)
folders = st.builds(
    Folder,
    st.sampled_from(["usr", "mcd", "jms", "mqps", "other"]),
    st.lists(st.builds(FolderProperty, st.sampled_from(["a", "b.c", "Name"]), texts | int32 | st.booleans()), max_size=4).map(
        tuple
    ),
)


@MANY
@given(made=st.lists(st.tuples(st.lists(folders, max_size=3), encodings, encodings), min_size=20, max_size=20))
def test_the_folders_of_an_rfh2_are_read_as_they_were_written(folder: Path, made: list[tuple[list[Folder], int, int]]) -> None:
    put = [
        headers.join(
            MessageDescriptor(encoding=first, ccsid=1208),
            [RFH2(folders=tuple(each))],
            b"",
            body_format="MQSTR",
            body_encoding=then,
            body_ccsid=819,
        )
        for each, first, then in made
    ]
    fields = ["mq.head.version", "mq.head.length", "mq.head.encoding", "mq.head.ccsid", "mq.head.format", "mq.rfh.ccsid"]

    shown = dissect([Message(descriptor.to_bytes(), body) for descriptor, body in put], [*fields, "mq.rfh.string"], folder)

    for (each, _, then), (_, body), values in zip(made, put, shown, strict=True):
        assert ["2", str(len(body)), str(then), "819", "MQSTR   ", "1208"] == [values[field][0] for field in fields]
        assert [folder_text(one) for one in each] == [text.rstrip() for text in values["mq.rfh.string"]]


def test_a_chain_of_headers_is_followed_to_the_body(folder: Path) -> None:
    chain: list[headers.Header] = [
        DeadLetterHeader(reason=2053, destination_queue="ORDERS.IN"),
        RFH2(folders=(Folder("mcd", (FolderProperty("Msd", "jms_text"),)), Folder("usr", (FolderProperty("desk", 7),)))),
    ]
    descriptor, body = headers.join(MessageDescriptor(ccsid=1208), chain, b"the body", body_format="MQSTR", body_ccsid=1208)

    (shown,) = dissect(
        [Message(descriptor.to_bytes(), body)],
        ["mq.md.format", "mq.dlh.format", "mq.dlh.reason", "mq.rfh.string", "mq.head.format", "data.data"],
        folder,
    )

    assert (["MQDEAD  "], ["MQHRF2  "], ["2053"]) == (shown["mq.md.format"], shown["mq.dlh.format"], shown["mq.dlh.reason"])
    assert ["<mcd><Msd>jms_text</Msd></mcd>", '<usr><desk dt="i4">7</desk></usr>'] == [
        text.rstrip().replace("'", '"') for text in shown["mq.rfh.string"]
    ]
    assert (["MQSTR   "], [b"the body".hex()]) == (shown["mq.head.format"], shown["data.data"])


def test_the_same_folders_are_written_again_byte_for_byte_after_wireshark_saw_them(folder: Path) -> None:
    written = rfh2.to_bytes(
        RFH2(folders=(Folder("usr", (FolderProperty("desk", "7"),)),), format="MQSTR"), encoding=Encoding.NORMAL
    )
    header, length = rfh2.parse(written, encoding=Encoding.NORMAL)
    descriptor = MessageDescriptor(format="MQHRF2", encoding=Encoding.NORMAL, ccsid=1208)

    (shown,) = dissect([Message(descriptor.to_bytes(), written)], ["mq.head.length", "mq.rfh.string"], folder)

    assert ([str(length)], header.folders[0].raw) == (shown["mq.head.length"], shown["mq.rfh.string"][0])
