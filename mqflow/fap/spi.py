"""The SPI verbs, which JMS classes use on a channel besides the MQI: query, open with defaults, put, reserve, subscribe.

A reply has an input-output structure (SPxU) and an output structure (SPxO). Source: Wireshark's layouts; the flows of IBM's
JMS classes.
"""

from enum import IntEnum, IntFlag
from typing import Final

from msgspec import Struct

from mqflow.fap.calls import OpenDefaults
from mqflow.fap.fields import FlowError, Reader, Writer
from mqflow.fap.structures import ObjectFields, PutFields, SubscriptionFields, read_descriptor, write_descriptor
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.subscription import SubscriptionDescriptor
from mqflow.verbs import Put

__all__ = ("SpiCall", "SpiOpen", "SpiOpenOption", "SpiPut", "SpiSubscribe", "SpiVerb", "query_answer", "reserve_answer")

_BASE_BYTES: Final = 12
#: Each verb with its versions of the input-output, input and output structures, and its flags.
_SERVED: Final = ((1, 1, 1, 1, 0), (2, 1, 1, 1, 0), (6, 1, 1, 1, 0), (7, 1, 1, 1, 0), (12, 1, 1, 1, 0))
_LSD_BYTES: Final = 196
_TAG_BYTES: Final = 24
# The bits in the options of the LSD that mean a shared subscription of JMS 2.0.
_SHARED: Final = 0x50


class SpiVerb(IntEnum):
    """The verbs of the SPI."""

    QUERY = 1
    PUT = 2
    GET = 3
    ACTIVATE = 4
    SYNCPOINT = 5
    RESERVE = 6
    SUBSCRIBE = 7
    UNSUBSCRIBE = 8
    NOTIFY = 11
    OPEN = 12


class SpiOpenOption(IntFlag):
    """The options of an SPI open."""

    SAVE_IDENTITY_CONTEXT = 0x01
    SAVE_ORIGIN_CONTEXT = 0x02
    SAVE_CONTEXT = 0x03


class SpiCall(Struct, frozen=True, kw_only=True):
    """The beginning of every SPI call."""

    verb: int
    version: int
    reply_bytes_max: int
    #: The version of the input-output structure.
    both_version: int

    @classmethod
    def read(cls, reader: Reader) -> "SpiCall":
        """Read verb, version, length, and the beginning of the input-output structure."""
        verb, version, most = reader.number(), reader.number(), reader.number()
        reader.raw(4)
        both_version = reader.number()
        reader.number()
        return cls(verb=verb, version=version, reply_bytes_max=most, both_version=both_version)

    def front(
        self, writer: Writer, both: bytes, out: bytes, out_version: int, content: bytes, both_content: bytes = b""
    ) -> bytes:
        """Return the body of the reply: the beginning, then both structures."""
        writer.number(self.verb, self.version, self.reply_bytes_max)
        writer.raw(both).number(self.both_version, _BASE_BYTES + len(both_content)).raw(both_content)
        return writer.raw(out).number(out_version, _BASE_BYTES + len(content)).raw(content).done()


def query_answer(call: SpiCall, writer: Writer) -> bytes:
    """Return the body of the reply with the list of verbs."""
    rows = Writer(writer.order).number(len(_SERVED))
    for row in _SERVED:
        rows.number(*row)
    return call.front(writer, b"SPQU", b"SPQO", 1, rows.done())


class SpiOpen(Struct, frozen=True, kw_only=True):
    """An SPI open (LPOO and MQOD)."""

    call: SpiCall
    in_version: int
    version: int
    options: int
    spi_options: int
    fields: ObjectFields
    #: The bytes between the defaults and the MQOD. Only later versions have them.
    extra: bytes

    @classmethod
    def read(cls, call: SpiCall, reader: Reader) -> "SpiOpen":
        """Read the rest of the request, after its `SpiCall`."""
        reader.identifier(b"SPOI")
        in_version = reader.number()
        reader.number()
        reader.identifier(b"LPOO")
        version, options, spi_options = reader.number(), reader.number(), reader.number()
        reader.raw(16)
        found = reader.data.find(b"OD  ", reader.at)
        extra = reader.raw(max(0, found - reader.at))
        return cls(
            call=call,
            in_version=in_version,
            version=version,
            options=options,
            spi_options=spi_options,
            extra=extra,
            fields=ObjectFields.read(reader),
        )

    def answer(self, writer: Writer, opened: ObjectFields, defaults: OpenDefaults) -> bytes:
        """Return the body of the reply. There is no read-ahead, and properties are returned as with PROPCTL(COMPAT)."""
        content = Writer(writer.order).raw(b"LPOO").number(self.version, self.options, self.spi_options)
        content.number(defaults.persistence, defaults.put_response, 0, 0).raw(self.extra)
        opened.write(content)
        return self.call.front(writer, b"SPOU", b"SPOO", self.in_version, content.done())


class SpiPut(Struct, frozen=True, kw_only=True):
    """An SPI put. JMS classes use it for a message with a delivery delay."""

    call: SpiCall
    in_version: int
    #: The sum of 1 (blank padded), 2 (syncpoint) and 4 (deferred); 0 for a put like MQPUT.
    options: int
    descriptor: MessageDescriptor
    descriptor_version: int
    put: PutFields
    body: bytes

    @classmethod
    def read(cls, call: SpiCall, reader: Reader) -> "SpiPut":
        """Read the rest of the request, after its `SpiCall`: MQMD, MQPMO, then the input structure with the message."""
        descriptor, version = read_descriptor(reader)
        put = PutFields.read(reader)
        reader.identifier(b"SPPI")
        in_version = reader.number()
        reader.number()
        options = reader.number()
        return cls(
            call=call,
            in_version=in_version,
            options=options,
            descriptor=descriptor,
            descriptor_version=version,
            put=put,
            body=reader.raw(reader.count()),
        )

    def answer(self, writer: Writer, done: Put, queue_manager: str) -> bytes:
        """Return the body of the reply."""
        both = Writer(writer.order)
        write_descriptor(both, done.descriptor, self.descriptor_version)
        self.put.of(done, queue_manager).write(both)
        return self.call.front(writer, b"SPPU", b"SPPO", self.in_version, b"", both.done())


def reserve_answer(call: SpiCall, writer: Writer, first: bytes, counted_byte: int, count: int) -> bytes:
    """Return the body of the reply that reserves message identifiers for asynchronous puts of the client.

    The first identifier is `first` (24 bytes). For each further one, up to `count`, the client adds 1 to the byte at
    `counted_byte`.
    """
    content = Writer(writer.order).number(count, counted_byte).raw(first, _TAG_BYTES).done()
    return call.front(writer, b"SPRU", b"SPRO", 1, content)


class SpiSubscribe(Struct, frozen=True, kw_only=True):
    """An SPI subscribe: a description of the queue (LSD), and MQSD."""

    call: SpiCall
    in_version: int
    #: The bytes of the LSD.
    target: bytes
    #: True if several handles can use the subscription at the same time.
    shared: bool
    fields: SubscriptionFields

    @classmethod
    def read(cls, call: SpiCall, reader: Reader) -> "SpiSubscribe":
        """Read the rest of the request, after its `SpiCall`. Raises `FlowError` for a version of the LSD other than 1."""
        reader.identifier(b"SPBI")
        in_version = reader.number()
        reader.number()
        reader.number()
        start = reader.at
        reader.identifier(b"LSD ")
        reader.version(1)
        shared = bool(reader.number() & _SHARED)
        reader.at = start
        target = reader.raw(_LSD_BYTES)
        if (found := reader.data.find(b"SD  ", reader.at)) < 0:
            raise FlowError("a subscribe of the SPI has no MQSD")
        target += reader.raw(found - reader.at)
        return cls(call=call, in_version=in_version, target=target, shared=shared, fields=SubscriptionFields.read(reader))

    def answer(self, writer: Writer, subscription: int, queue: str, queue_manager: str, made: SubscriptionDescriptor) -> bytes:
        """Return the body of the reply."""
        content = Writer(writer.order).number(subscription)
        content.raw(self.target[:64]).text(queue, 48).text(queue_manager, 48).raw(self.target[160:])
        SubscriptionFields(version=self.fields.version, descriptor=made).write(content)
        return self.call.front(writer, b"SPBU", b"SPBO", self.in_version, content.done())
