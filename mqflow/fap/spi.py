"""The verbs of the SPI that JMS classes use: the list of verbs, and an open that returns the defaults of the queue.

A reply has the input-output structure (SPxU) and the output structure (SPxO). Source: Wireshark's layouts; the flows of IBM's
JMS classes.
"""

from enum import IntEnum, IntFlag
from typing import Final

from msgspec import Struct

from mqflow.fap.fields import Reader, Writer
from mqflow.fap.structures import ObjectFields

__all__ = ("SpiCall", "SpiOpen", "SpiOpenOption", "SpiVerb", "query_answer")

_BASE_BYTES: Final = 12
#: Each verb with its versions of the input-output, input and output structures, and flags.
_SERVED: Final = ((1, 1, 1, 1, 0), (12, 1, 1, 1, 0))


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
    """The options of the SPI's open."""

    SAVE_IDENTITY_CONTEXT = 0x01
    SAVE_ORIGIN_CONTEXT = 0x02
    SAVE_CONTEXT = 0x03


class SpiCall(Struct, frozen=True, kw_only=True):
    """The front of every SPI call."""

    verb: int
    version: int
    reply_bytes_max: int
    #: The version of the input-output structure.
    both_version: int

    @classmethod
    def read(cls, reader: Reader) -> "SpiCall":
        """Read verb, version, length and the base of the input-output structure."""
        verb, version, most = reader.number(), reader.number(), reader.number()
        reader.raw(4)
        both_version = reader.number()
        reader.number()
        return cls(verb=verb, version=version, reply_bytes_max=most, both_version=both_version)

    def front(self, writer: Writer, both: bytes, out: bytes, out_version: int, content: bytes) -> bytes:
        """Return the body of the reply."""
        writer.number(self.verb, self.version, self.reply_bytes_max)
        writer.raw(both).number(self.both_version, _BASE_BYTES)
        return writer.raw(out).number(out_version, _BASE_BYTES + len(content)).raw(content).done()


def query_answer(call: SpiCall, writer: Writer) -> bytes:
    """Return the body of the reply that lists the verbs."""
    rows = Writer(writer.order).number(len(_SERVED))
    for row in _SERVED:
        rows.number(*row)
    return call.front(writer, b"SPQU", b"SPQO", 1, rows.done())


class SpiOpen(Struct, frozen=True, kw_only=True):
    """The open of the SPI (LPOO and MQOD)."""

    call: SpiCall
    in_version: int
    version: int
    options: int
    spi_options: int
    fields: ObjectFields
    #: The bytes between the defaults and the MQOD, which later versions have.
    extra: bytes

    @classmethod
    def read(cls, call: SpiCall, reader: Reader) -> "SpiOpen":
        """Read the request behind its front."""
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

    def answer(self, writer: Writer, opened: ObjectFields, persistence: int) -> bytes:
        """Return the body of the reply. Puts are answered, there is no read-ahead, and properties are as PROPCTL(COMPAT)."""
        content = Writer(writer.order).raw(b"LPOO").number(self.version, self.options, self.spi_options)
        content.number(persistence, 1, 0, 0).raw(self.extra)
        opened.write(content)
        return self.call.front(writer, b"SPOU", b"SPOO", self.in_version, content.done())
