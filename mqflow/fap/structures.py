"""The structures of the MQI in their form on a channel: MQOD, MQGMO, MQPMO, MQSD. Their pointers have four bytes.

Strings of variable length (MQCHARV) follow after their structure. This file knows no verb. Source: Wireshark's layouts;
IBM, MQI reference.
"""

from typing import Final, cast

from msgspec import Struct
from msgspec.structs import replace

from mqflow.fap.fields import FlowError, Reader, Writer, aligned
from mqflow.mqi.descriptor import MQMD1_BYTES, MQMD2_BYTES, MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import MatchOption, MessageFlag, ObjectType, SubscribeOption
from mqflow.mqi.subscription import SubscriptionDescriptor
from mqflow.verbs import Got, ObjectDescriptor, Put

__all__ = ("CCSID", "GetFields", "ObjectFields", "PutFields", "SubscriptionFields", "read_descriptor", "write_descriptor")

CCSID: Final = 1208
_DEFAULT_MATCH: Final = int(MatchOption.MSG_ID | MatchOption.CORREL_ID)


class ObjectFields(Struct, frozen=True, kw_only=True):
    """MQOD."""

    version: int
    descriptor: ObjectDescriptor
    resolved_queue: str = ""
    resolved_queue_manager: str = ""

    @classmethod
    def read(cls, reader: Reader) -> "ObjectFields":
        """Read the structure and the strings after it. Refuses a distribution list."""
        start = reader.at
        reader.identifier(b"OD  ")
        version = reader.version(4)
        object_type = reader.number()
        name, queue_manager, dynamic_name = (reader.text(48) for _ in range(3))
        alternate_user = reader.text(12)
        resolved_queue = resolved_queue_manager = object_string = selection = ""
        if version >= 2:  # noqa: PLR2004 - the number is the version, here and below
            if reader.number() != 0:
                raise FlowError("an MQOD names a distribution list, which is not served")
            reader.raw(28)
        if version >= 3:  # noqa: PLR2004
            reader.raw(40)
            resolved_queue, resolved_queue_manager = reader.text(48), reader.text(48)
        if version >= 4:  # noqa: PLR2004
            strings = [reader.string(start) for _ in range(3)]
            object_string, selection = (_decoded(each) for each in strings[:2])
            reader.number()
            _skip_strings(reader, strings)
        descriptor = ObjectDescriptor(
            name,
            cast("ObjectType", object_type),  # any number, because the queue manager refuses an unknown type
            queue_manager=queue_manager,
            dynamic_name=dynamic_name,
            alternate_user=alternate_user,
            object_string=object_string,
            selection=selection,
        )
        return cls(
            version=version, descriptor=descriptor, resolved_queue=resolved_queue, resolved_queue_manager=resolved_queue_manager
        )

    def write(self, writer: Writer) -> None:
        """Add the structure and the strings after it."""
        given = self.descriptor
        writer.raw(b"OD  ").number(self.version, given.object_type)
        writer.text(given.name, 48).text(given.queue_manager, 48).text(given.dynamic_name, 48).text(given.alternate_user, 12)
        if self.version >= 2:  # noqa: PLR2004
            writer.number(0, 1, 0, 0, 0, 0, 0, 0)
        if self.version >= 3:  # noqa: PLR2004
            writer.raw(bytes(40)).text(self.resolved_queue, 48).text(self.resolved_queue_manager, 48)
        if self.version >= 4:  # noqa: PLR2004
            strings = [given.object_string.encode(), given.selection.encode(), b""]
            _write_strings(writer, strings, 400)
            writer.number(int(given.object_type))
            _write_strings_behind(writer, strings)


class GetFields(Struct, frozen=True, kw_only=True):
    """MQGMO."""

    version: int
    options: int
    wait_ms: int = 0
    resolved_queue: str = ""
    match: int = _DEFAULT_MATCH
    message_token: bytes = bytes(16)
    returned_bytes: int = -1
    message_handle: int = 0
    #: GroupStatus, SegmentStatus, Segmentation and a reserved byte.
    status: bytes = b"    "

    @classmethod
    def read(cls, reader: Reader) -> "GetFields":
        """Read the structure."""
        reader.identifier(b"GMO ")
        version = reader.version(4)
        options, wait_ms = reader.number(), reader.number()
        reader.raw(8)
        resolved_queue = reader.text(48)
        match, status, token, returned, handle = _DEFAULT_MATCH, b"    ", bytes(16), -1, 0
        if version >= 2:  # noqa: PLR2004
            match, status = reader.number(), reader.raw(4)
        if version >= 3:  # noqa: PLR2004
            token, returned = reader.raw(16), reader.number()
        if version >= 4:  # noqa: PLR2004
            reader.raw(4)
            handle = reader.long()
        return cls(
            version=version,
            options=options,
            wait_ms=wait_ms,
            resolved_queue=resolved_queue,
            match=match,
            message_token=token,
            returned_bytes=returned,
            message_handle=handle,
            status=status,
        )

    def write(self, writer: Writer) -> None:
        """Add the structure."""
        writer.raw(b"GMO ").number(self.version, self.options, self.wait_ms, 0, 0).text(self.resolved_queue, 48)
        if self.version >= 2:  # noqa: PLR2004
            writer.number(self.match).raw(self.status)
        if self.version >= 3:  # noqa: PLR2004
            writer.raw(self.message_token).number(self.returned_bytes)
        if self.version >= 4:  # noqa: PLR2004
            writer.number(0).long(self.message_handle)

    @staticmethod
    def status_of(got: Got) -> bytes:
        """Return GroupStatus, SegmentStatus and Segmentation of a message, and a blank as the reserved byte."""
        flags = got.descriptor.message_flags
        group = b"L" if flags & MessageFlag.LAST_MSG_IN_GROUP else b"G" if flags & MessageFlag.MSG_IN_GROUP else b" "
        segment = b"L" if flags & MessageFlag.LAST_SEGMENT else b"S" if flags & MessageFlag.SEGMENT else b" "
        return group + segment + (b"A" if flags & MessageFlag.SEGMENTATION_ALLOWED else b" ") + b" "


class PutFields(Struct, frozen=True, kw_only=True):
    """MQPMO."""

    version: int
    options: int
    timeout: int = -1
    context: int = 0
    resolved_queue: str = ""
    resolved_queue_manager: str = ""
    level: int = 9

    @classmethod
    def read(cls, reader: Reader) -> "PutFields":
        """Read the structure. Refuses a distribution list."""
        reader.identifier(b"PMO ")
        version = reader.version(3)
        options, timeout, context = reader.number(), reader.number(), reader.number()
        reader.raw(12)
        resolved_queue, resolved_queue_manager = reader.text(48), reader.text(48)
        if version >= 2:  # noqa: PLR2004
            if reader.number() != 0:
                raise FlowError("an MQPMO names a distribution list, which is not served")
            reader.raw(20)
        level = 9
        if version >= 3:  # noqa: PLR2004
            reader.raw(20)
            level = reader.number()
        return cls(
            version=version,
            options=options,
            timeout=timeout,
            context=context,
            resolved_queue=resolved_queue,
            resolved_queue_manager=resolved_queue_manager,
            level=level,
        )

    def of(self, done: Put, queue_manager: str) -> "PutFields":
        """Return the structure for the reply."""
        manager = done.resolved_queue_manager or queue_manager
        return replace(self, resolved_queue=done.resolved_queue, resolved_queue_manager=manager)

    def write(self, writer: Writer) -> None:
        """Add the structure."""
        writer.raw(b"PMO ").number(self.version, self.options, self.timeout, self.context, 1, 0, 0)
        writer.text(self.resolved_queue, 48).text(self.resolved_queue_manager, 48)
        if self.version >= 2:  # noqa: PLR2004
            writer.number(0, 0, 0, 0, 0, 0)
        if self.version >= 3:  # noqa: PLR2004
            writer.long(0).long(0).number(0, self.level)


class SubscriptionFields(Struct, frozen=True, kw_only=True):
    """MQSD."""

    version: int
    descriptor: SubscriptionDescriptor

    @classmethod
    def read(cls, reader: Reader) -> "SubscriptionFields":
        """Read the structure and the strings after it."""
        start = reader.at
        reader.identifier(b"SD  ")
        version = reader.version(1)
        options, object_name, alternate_user = reader.number(), reader.text(48), reader.text(12)
        reader.raw(40)
        expiry_tenths = reader.number()
        object_string, name, user_data = (reader.string(start) for _ in range(3))
        correlation_id, priority = reader.raw(24), reader.number()
        accounting_token, identity_data = reader.raw(32), reader.text(32)
        selection, level, topic_string = reader.string(start), reader.number(), reader.string(start)
        _skip_strings(reader, (object_string, name, user_data, selection, topic_string))
        return cls(
            version=version,
            descriptor=SubscriptionDescriptor(
                options=SubscribeOption(options),
                object_name=object_name,
                object_string=_decoded(object_string),
                name=_decoded(name),
                user_data=_decoded(user_data),
                correlation_id=correlation_id,
                expiry_tenths=expiry_tenths,
                selection=_decoded(selection),
                priority=priority,
                accounting_token=accounting_token,
                application_identity_data=identity_data,
                level=level,
                alternate_user=alternate_user,
                topic_string=_decoded(topic_string),
            ),
        )

    def write(self, writer: Writer) -> None:
        """Add the structure and the strings after it."""
        given = self.descriptor
        texts = (given.object_string, given.name, given.user_data, given.selection, given.topic_string)
        strings = [text.encode() for text in texts]
        places = _places(strings, 312)
        writer.raw(b"SD  ").number(self.version, int(given.options)).text(given.object_name, 48)
        writer.text(given.alternate_user, 12).raw(bytes(40)).number(given.expiry_tenths)
        for place, value in zip(places[:3], strings[:3], strict=True):
            writer.string(place, value, CCSID, len(value))
        writer.raw(given.correlation_id).number(given.priority)
        writer.raw(given.accounting_token).text(given.application_identity_data, 32)
        writer.string(places[3], strings[3], CCSID, len(strings[3])).number(given.level)
        writer.string(places[4], strings[4], CCSID, len(strings[4]))
        _write_strings_behind(writer, strings)


def read_descriptor(reader: Reader) -> tuple[MessageDescriptor, int]:
    """Return an MQMD and its version."""
    version = Reader(reader.data, reader.order, "an MQMD", reader.at + 4).number()
    data = reader.raw(MQMD1_BYTES if version == 1 else MQMD2_BYTES)
    try:
        return MessageDescriptor.from_bytes(data, little_endian=reader.order == "<"), version
    except MQIError as error:
        raise FlowError(str(error)) from error


def write_descriptor(writer: Writer, descriptor: MessageDescriptor, version: int) -> None:
    """Add an MQMD of this version."""
    writer.raw(descriptor.to_bytes(1 if version == 1 else 2, little_endian=writer.order == "<"))


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise FlowError(f"a string of variable length is not UTF-8: {error}") from error


def _skip_strings(reader: Reader, strings: "tuple[bytes, ...] | list[bytes]") -> None:
    """Skip the strings after a structure. Each of them begins at a multiple of four bytes."""
    for value in strings:
        reader.raw(min(aligned(len(value)), reader.left))


def _places(strings: list[bytes], first: int) -> list[int]:
    """Return the offsets of the strings; the first string is at `first`."""
    places: list[int] = []
    for value in strings:
        places.append(first)
        first += aligned(len(value))
    return places


def _write_strings(writer: Writer, strings: list[bytes], first: int) -> None:
    for place, value in zip(_places(strings, first), strings, strict=True):
        writer.string(place, value, CCSID, len(value))


def _write_strings_behind(writer: Writer, strings: list[bytes]) -> None:
    for value in strings:
        writer.raw(value, aligned(len(value)))
