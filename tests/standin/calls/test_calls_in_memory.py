"""Calls on structures and buffers that a program made itself: what a program in C can ask for, and the packages never do."""

import ctypes
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.c_structures import (
    MQBMHO,
    MQCHARV,
    MQCMHO,
    MQDMPO,
    MQIMPO,
    MQMHBO,
    MQOD,
    MQPD,
    MQPMO,
    MQSMPO,
    MQSTS,
    Layout,
)  # fmt: skip
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import OpenOption
from mqflow.mqi.properties.types import PropertyType
from mqflow.mqi.reason_codes import CompletionCode, Reason
from mqflow.standin.calls import buffers, message_handles, messages, objects, properties
from mqflow.standin.calls.message_handles import UNASSOCIATED
from mqflow.standin.host import ConnectRequest, Host, PutCounts, SetWhere, Sharing
from mqflow.standin.memory.structures import Structure, number_at, read, write_number
from tests.conformance.under_test import refused

MQIA_MAX_Q_DEPTH, MQIA_INHIBIT_GET, MQCA_Q_DESC, MQCA_TRIGGER_DATA = 15, 9, 2013, 2023


def connecting(queue_manager: str = "QM1") -> ConnectRequest:
    return ConnectRequest(queue_manager=queue_manager)


class Memory:
    """The memory of a program with one connection and one message handle. Buffers live as long as this object."""

    def __init__(self, queue_manager: EmbeddedQueueManager) -> None:
        self.queue_manager = queue_manager
        self.host = Host(queue_manager, numbers=itertools.count(1), users={"alice": "secret"})
        self.hconn, _ = self.host.connect(connecting(), Sharing.BLOCK, local=True)
        self._kept: list[Any] = []
        self.hmsg = self.handle()

    def buffer(self, content: bytes | int) -> int:
        """Return the address of a buffer with this content, or with so many NULs."""
        made = ctypes.create_string_buffer(content, None if isinstance(content, int) else len(content))
        self._kept.append(made)
        return ctypes.addressof(made)

    def numbers(self, *values: int) -> int:
        """Return the address of an array of MQLONGs."""
        return self.buffer(b"".join(each.to_bytes(4, "little") for each in values))

    def structure(self, layout: Layout, **fields: int | bytes | str) -> int:
        """Return the address of a structure of the newest version with these fields."""
        version = max(layout.lengths)
        address = self.buffer(max(layout.lengths[version], 8))
        made = Structure(layout, address, version)
        ctypes.memmove(address, layout.identifier, len(layout.identifier))
        if layout.version_offset >= 0:
            write_number(address + layout.version_offset, version)
        made.set(**fields)
        return address

    def name(self, text: str) -> int:
        """Return the address of an MQCHARV with this text."""
        data = text.encode()
        return self.structure(MQCHARV, VSPtr=self.buffer(data), VSLength=len(data), VSCCSID=1208)

    def handle(self, options: int = 0) -> int:
        """Create a message handle, and return its number."""
        at = self.buffer(8)
        message_handles.create_handle(self.host, self.hconn.number, self.structure(MQCMHO, Options=options), at)
        return int.from_bytes(read(at, 8), "little")

    def set(self, name: str, value: bytes, where: int = 0, *, kind: int = PropertyType.STRING, **more: int) -> None:
        """Set a property of the message handle with MQSETMP."""
        properties.set_property(
            self.host, self.hconn.number, self.hmsg, self.structure(MQSMPO, Options=where, ValueEncoding=546, ValueCCSID=1208),
            self.name(name), self.structure(MQPD, Support=1, **more), kind, len(value), self.buffer(value),
        )  # fmt: skip

    def inquire(self, name: str, room: int = 20, options: int = 0, **fields: int) -> tuple[str, bytes, int]:
        """Inquire a property with MQINQMP. Return its type, the bytes that came, and its length."""
        kind, value, length = self.buffer(4), self.buffer(room + 1), self.buffer(4)
        impo = self.structure(MQIMPO, Options=options, **fields)
        properties.inquire_property(
            self.host, self.hconn.number, self.hmsg, impo, self.name(name), self.structure(MQPD), kind, room, value, length
        )
        size = number_at(length)
        return Structure(MQIMPO, impo, 1).text("TypeString"), read(value, min(size, room)), size

    def delete(self, name: str = "", options: int = 0) -> None:
        """Delete a property with MQDLTMP."""
        properties.delete_property(
            self.host, self.hconn.number, self.hmsg, self.structure(MQDMPO, Options=options), self.name(name)
        )

    def values(self, name: str) -> list[bytes]:
        """Return the values of all properties of this name, in order."""
        found = list[bytes]()
        try:
            while True:
                found.append(self.inquire(name, options=properties.Inquiry.INQ_NEXT if found else 0)[1])
        except MQIError as end:
            if end.reason != Reason.PROPERTY_NOT_AVAILABLE:
                raise
        return found


@pytest.fixture
def memory() -> Iterator[Memory]:
    with EmbeddedQueueManager("QM1") as queue_manager:
        queue_manager.administration.define(QueueAttributes(name="Q", description="orders", max_depth=7))
        yield Memory(queue_manager)


def to_buffer(memory: Memory, name: str = "%", options: int = 1, room: int = 500) -> tuple[int, int, bytes]:
    """Return the address of the MQMD, the address of the buffer, and what MQMHBUF has written into the buffer."""
    md, data, length = memory.buffer(MessageDescriptor(format="MQSTR").to_bytes(2)), memory.buffer(room), memory.buffer(4)
    buffers.handle_to_buffer(
        memory.host, memory.hconn.number, memory.hmsg, memory.structure(MQMHBO, Options=options), memory.name(name), md, room,
        data, length,
    )  # fmt: skip
    return md, data, read(data, number_at(length))


def to_handle(memory: Memory, md: int, data: int, size: int, options: int = 1) -> bytes:
    """Call MQBUFMH for another message handle, and return the rest of the buffer."""
    length, memory.hmsg = memory.buffer(4), memory.handle()
    buffers.buffer_to_handle(
        memory.host, memory.hconn.number, memory.hmsg, memory.structure(MQBMHO, Options=options), md, size, data, length
    )
    return read(data, number_at(length))


def test_properties_go_from_a_handle_into_a_buffer_and_back(memory: Memory) -> None:
    memory.set("colour", b"blue")
    memory.set("size", b"large")

    md, data, header = to_buffer(memory, "colour")
    ctypes.memmove(data + len(header), b"body", 4)
    described = MessageDescriptor.from_bytes(read(md, 364))

    assert (b"RFH ", "MQHRF2", True, False) == (header[:4], described.format, b"blue" in header, b"large" in header)
    assert [b"blue"] == memory.values("colour"), "without MQMHBO_DELETE_PROPERTIES the handle keeps them"
    assert b"body" == to_handle(memory, md, data, len(header) + 4)
    assert ([b"blue"], []) == (memory.values("colour"), memory.values("size"))
    assert "MQSTR" == MessageDescriptor.from_bytes(read(md, 364)).format


def test_properties_can_be_moved_into_a_buffer_and_copied_from_it(memory: Memory) -> None:
    memory.set("colour", b"blue")

    md, data, header = to_buffer(memory, options=3)

    assert [] == memory.values("colour")
    assert header == to_handle(memory, md, data, len(header), options=0)
    assert ([b"blue"], "MQHRF2") == (memory.values("colour"), MessageDescriptor.from_bytes(read(md, 364)).format)


def test_a_buffer_call_that_cannot_be_carried_out_says_why(memory: Memory) -> None:
    memory.set("colour", b"blue")
    bad = memory.buffer(MessageDescriptor(format="MQHRF2").to_bytes(2))

    with refused(Reason.OPTIONS_ERROR, match="0x4"):
        to_buffer(memory, options=4)
    with refused(Reason.PROPERTY_VALUE_TOO_BIG, match="and room for 10"):
        to_buffer(memory, room=10)
    with refused(Reason.OPTIONS_ERROR, match="0x2"):
        to_handle(memory, bad, memory.buffer(b"RFH "), 4, options=2)
    with refused(Reason.RFH_ERROR):
        to_handle(memory, bad, memory.buffer(b"RFH 2"), 5)
    with refused(Reason.BUFFER_ERROR):
        to_handle(memory, bad, 0, 5)
    with refused(Reason.BUFFER_LENGTH_ERROR):
        to_handle(memory, bad, 0, -5)
    memory.hmsg = 99
    with refused(Reason.HMSG_ERROR, match="99"):
        to_buffer(memory)


@pytest.mark.parametrize(
    ("options", "source_length", "source", "target_length", "target", "reason"),
    [
        (0x1000, 1, b"a", 1, 4, Reason.OPTIONS_ERROR),
        (0, -1, b"a", 1, 4, Reason.SOURCE_LENGTH_ERROR),
        (0, 1, None, 1, 4, Reason.SOURCE_BUFFER_ERROR),
        (0, 1, b"a", -1, 4, Reason.TARGET_LENGTH_ERROR),
        (0, 1, b"a", 1, 0, Reason.TARGET_BUFFER_ERROR),
    ],
)
def test_a_conversion_needs_known_options_lengths_and_buffers(
    memory: Memory, options: int, source_length: int, source: bytes | None, target_length: int, target: int, reason: Reason
) -> None:
    """Source: IBM, MQXCNVC; rc2143 to rc2146."""
    places = memory.buffer(source) if source else 0, memory.buffer(target) if target else 0
    with refused(reason):
        buffers.convert_characters(
            memory.host, memory.hconn.number, options, 1208, source_length, places[0], 1208, target_length, places[1], 0
        )


def test_a_conversion_fills_the_rest_of_the_buffer_with_blanks_on_request(memory: Memory) -> None:
    target, length = memory.buffer(6), memory.buffer(4)

    reason = buffers.convert_characters(
        memory.host, UNASSOCIATED, buffers.Conversion.FILL_TARGET_BUFFER, 1208, 1, memory.buffer(b"a"), 1200, 6, target, length
    )

    assert (Reason.NONE, b"a\0 \0 \0", 6) == (reason, read(target, 6), number_at(length))


@pytest.mark.parametrize(
    ("where", "under_cursor", "expected"),
    [
        (SetWhere.FIRST, b"two", [b"new", b"two", b"three"]),
        (SetWhere.UNDER_CURSOR, b"new", [b"one", b"new", b"three"]),
        (SetWhere.AFTER_CURSOR, b"two", [b"one", b"two", b"new", b"three"]),
        (SetWhere.BEFORE_CURSOR, b"two", [b"one", b"new", b"two", b"three"]),
        (SetWhere.APPEND, b"two", [b"one", b"two", b"three", b"new"]),
    ],
)
def test_a_property_is_set_at_the_place_that_the_options_name(
    memory: Memory, where: SetWhere, under_cursor: bytes, expected: list[bytes]
) -> None:
    """Source: IBM, MQSMPO, Options."""
    for value in (b"one", b"two", b"three"):
        memory.set("n", value, SetWhere.APPEND)
    memory.inquire("n")
    memory.inquire("n", options=properties.Inquiry.INQ_NEXT)  # the cursor is at the second

    memory.set("n", b"new", where)

    assert under_cursor == memory.inquire("", options=properties.Inquiry.INQ_PROP_UNDER_CURSOR)[1]
    assert expected == memory.values("n")


def test_the_property_under_the_cursor_is_inquired_and_deleted(memory: Memory) -> None:
    under_cursor = properties.Inquiry.INQ_PROP_UNDER_CURSOR
    for each in (lambda: memory.inquire("", options=under_cursor), lambda: memory.delete(options=1)):
        with refused(Reason.PROPERTY_NOT_AVAILABLE):
            each()
    for where in (SetWhere.UNDER_CURSOR, SetWhere.AFTER_CURSOR, SetWhere.BEFORE_CURSOR):
        with refused(Reason.PROPERTY_NOT_AVAILABLE, match="The cursor is at no property"):
            memory.set("n", b"new", where)
    memory.set("n", b"one")
    memory.set("m", b"two")
    memory.inquire("n")

    assert b"one" == memory.inquire("", options=under_cursor)[1]
    memory.delete(options=1)
    assert ([], [b"two"]) == (memory.values("n"), memory.values("m"))
    memory.delete("m")
    with refused(Reason.PROPERTY_NOT_AVAILABLE):
        memory.delete("m")


def test_a_property_says_its_length_without_a_buffer_and_is_refused_if_the_buffer_is_too_short(memory: Memory) -> None:
    memory.set("colour", b"blue")

    assert ("string", b"\0\0", 4) == memory.inquire("colour", 2, properties.Inquiry.QUERY_LENGTH)
    with refused(Reason.PROPERTY_VALUE_TOO_BIG, match="4 bytes, and room for 2"):
        memory.inquire("colour", 2)
    with refused(Reason.PROPERTY_NAME_TOO_BIG):
        memory.inquire("colour", ReturnedNameVSPtr=memory.buffer(3), ReturnedNameVSBufSize=3)


def test_a_value_without_a_type_or_with_an_end_of_its_own_needs_no_length(memory: Memory) -> None:
    memory.set("nothing", b"ignored", kind=PropertyType.NULL)
    properties.set_property(
        memory.host, memory.hconn.number, memory.hmsg, memory.structure(MQSMPO, ValueEncoding=546, ValueCCSID=-3),
        memory.name("colour"), memory.structure(MQPD, Support=1), PropertyType.STRING, -1, memory.buffer(b"blue\0red"),
    )  # fmt: skip

    assert ("", b"", 0) == memory.inquire("nothing")
    assert ("string", b"blue", 4) == memory.inquire("colour")


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (lambda memory: memory.set("n", b"x", Context=7), Reason.PD_ERROR),
        (lambda memory: memory.set("n", b"x", 0x20), Reason.OPTIONS_ERROR),
        (lambda memory: memory.handle(4), Reason.OPTIONS_ERROR),
        (
            lambda memory: properties.set_property(
                memory.host, memory.hconn.number, memory.hmsg, memory.structure(MQSMPO), memory.name("n"),
                memory.structure(MQPD), PropertyType.STRING, -2, 0,
            ),
            Reason.PROPERTY_VALUE_TOO_BIG,
        ),
        (lambda memory: messages._properties(memory.host, memory.hconn, pmo(memory, Action=9)), Reason.ACTION_ERROR),
        (lambda memory: objects.object_type(od(memory, ObjectType=99), "MQOPEN"), Reason.OBJECT_TYPE_ERROR),
        (lambda memory: objects.check_offered(od(memory, RecsPresent=1), "MQOPEN"), Reason.FUNCTION_NOT_SUPPORTED),
        (lambda memory: memory.host.hconn(99, "MQGET"), Reason.HCONN_ERROR),
        (lambda memory: memory.hconn.object_of(99, "MQGET"), Reason.HOBJ_ERROR),
        (lambda memory: memory.hconn.subscription_of(99, "MQSUBRQ"), Reason.HOBJ_ERROR),
        (lambda memory: memory.host.connect(connecting(), Sharing.BLOCK, local=False), Reason.NOT_AUTHORIZED),
        (lambda memory: memory.host.connect(connecting("QM2"), Sharing.BLOCK, local=True), Reason.Q_MGR_NAME_ERROR),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_refused(memory: Memory, act: Callable[[Memory], object], reason: Reason) -> None:
    with refused(reason):
        act(memory)


def pmo(memory: Memory, **fields: int) -> Structure:
    return Structure(MQPMO, memory.structure(MQPMO, OriginalMsgHandle=memory.hmsg, **fields), 3)


def od(memory: Memory, **fields: int) -> Structure:
    return Structure(MQOD, memory.structure(MQOD, **fields), max(MQOD.lengths))


def opened(memory: Memory) -> int:
    hobj = memory.buffer(4)
    target = memory.structure(MQOD, ObjectType=1, ObjectName="Q")
    objects.open_object(memory.host, memory.hconn.number, target, OpenOption.INQUIRE | OpenOption.SET, hobj)
    return number_at(hobj)


@pytest.mark.parametrize(
    ("count", "numbers", "chars", "expected"),
    [
        (2, 1, 64, (Reason.NONE, 7, b"orders".ljust(64))),
        (2, 0, 64, (Reason.INT_ATTR_COUNT_TOO_SMALL, 0, b"orders".ljust(64))),
        (2, 1, 3, (Reason.CHAR_ATTRS_TOO_SHORT, 7, b"ord".ljust(64, b"\0"))),
        (-1, 1, 64, Reason.SELECTOR_COUNT_ERROR),
        (257, 1, 64, Reason.SELECTOR_LIMIT_EXCEEDED),
        (2, -1, 64, Reason.INT_ATTR_COUNT_ERROR),
        (2, 1, -1, Reason.CHAR_ATTR_LENGTH_ERROR),
    ],
)
def test_an_inquiry_fills_the_arrays_as_far_as_they_go(
    memory: Memory, count: int, numbers: int, chars: int, expected: tuple[Reason, int, bytes] | Reason
) -> None:
    """Source: IBM, MQINQ; rc2006, rc2008, rc2021, rc2022, rc2065, rc2066."""
    hobj, number, text = opened(memory), memory.buffer(4), memory.buffer(64)
    selectors = memory.numbers(MQCA_Q_DESC, MQIA_MAX_Q_DEPTH)

    def inquire() -> int:
        return objects.inquire(memory.host, memory.hconn.number, hobj, count, selectors, numbers, number, chars, text)

    if isinstance(expected, Reason):
        with refused(expected):
            inquire()
    else:
        assert expected == (inquire(), number_at(number), read(text, 64))


def test_attributes_are_set_from_numbers_and_from_texts_in_any_character_set(memory: Memory) -> None:
    hobj = opened(memory)
    selectors = memory.numbers(MQIA_INHIBIT_GET, MQCA_TRIGGER_DATA)
    text = "größe".encode("latin-1").ljust(64, b"\0")

    def change(numbers: int) -> None:
        place = memory.numbers(1)
        objects.set_attributes(memory.host, memory.hconn.number, hobj, 2, selectors, numbers, place, 64, memory.buffer(text))

    with refused(Reason.INT_ATTR_COUNT_ERROR, match="IntAttrCount 0 for 2 selectors"):
        change(0)
    change(1)

    queue = memory.queue_manager.administration.queue("Q")
    assert queue is not None
    assert (True, "größe") == (queue.get_inhibited, queue.trigger_data)


def test_the_status_counts_puts_and_knows_three_types(memory: Memory) -> None:
    """Source: IBM, MQSTAT; rc2430."""
    counts = memory.hconn.puts
    objects.count_put(counts, "Q", CompletionCode.OK, 0)
    objects.count_put(counts, "Q", CompletionCode.WARNING, Reason.PRIORITY_EXCEEDS_MAXIMUM)
    objects.count_put(counts, "R", CompletionCode.FAILED, Reason.Q_FULL)
    place = memory.structure(MQSTS)

    with refused(Reason.STAT_TYPE_ERROR, match="Type 3; 0 to 2"):
        objects.status(memory.host, memory.hconn.number, 3, place)
    objects.status(memory.host, memory.hconn.number, 0, place)

    found = Structure(MQSTS, place, 2)
    names = ("PutSuccessCount", "PutWarningCount", "PutFailureCount", "Reason", "CompCode")
    assert [1, 1, 1, Reason.PRIORITY_EXCEEDS_MAXIMUM, CompletionCode.WARNING] == [found.number(name) for name in names]
    assert ("Q", PutCounts().failed) == (found.text("ObjectName"), memory.hconn.puts.failed)
