"""The verbs of the MQI as flows: the API header, and the body of each request and reply.

This file reads requests and writes replies, as a server needs. It cannot write requests or read replies yet. It knows no queue
manager.
Source: Wireshark's layouts; the flows of IBM's JMS classes.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from mqflow.fap import structures
from mqflow.fap.fields import FlowError, Reader, Writer
from mqflow.fap.transmission_segments import Flow, Header, kind_name
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.names import padded
from mqflow.mqi.subscription import SubscriptionDescriptor
from mqflow.verbs import Got, Put

__all__ = (
    "API_BYTES",
    "REPLY",
    "Connect",
    "GetCall",
    "InquireCall",
    "OpenCall",
    "OpenDefaults",
    "PutCall",
    "PutStatus",
    "SetCall",
    "StatusCall",
    "SubscribeCall",
    "SubscriptionRequestCall",
    "VerbRequest",
    "reply",
)

API_BYTES: Final = 16
REPLY: Final = 0x10
_TSH_BYTES: Final = 28
_SELECTORS_MAX: Final = 256
_FCNO: Final = b"FCNO"
_CONNECTION_TAG_BYTES: Final = 200


class VerbRequest(Struct, frozen=True, kw_only=True):
    """The request of any verb: the handle from the API header, and the structures of the verb as bytes."""

    header: Header
    handle: int
    #: The bytes after the API header.
    body: bytes

    @classmethod
    def of(cls, flow: Flow) -> "VerbRequest":
        """Return the call in a flow. Raises `FlowError` if the flow has no API header."""
        reader = Reader(flow.body, flow.header.order, kind_name(flow.header.kind))
        reader.raw(12)
        return cls(header=flow.header, handle=reader.number(), body=flow.body[API_BYTES:])

    def reader(self) -> Reader:
        """Return a reader for the structures."""
        return Reader(self.body, self.header.order, kind_name(self.header.kind))

    def writer(self) -> Writer:
        """Return a writer for the structures of the reply."""
        return Writer(self.header.order)


def reply(call: VerbRequest, body: bytes = b"", *, completion: int = 0, reason: int = 0, handle: int = 0) -> Flow:
    """Return the reply to a call."""
    header = call.header
    writer = Writer(header.order)
    writer.raw((_TSH_BYTES + API_BYTES + len(body)).to_bytes(4)).number(completion, reason, handle)
    answered = Header(kind=header.kind + REPLY, conversation=header.conversation, request=header.request, order=header.order)
    return Flow(answered, writer.done() + body)


class Connect(Struct, frozen=True, kw_only=True):
    """MQCONN and MQCONNX."""

    queue_manager: str
    application_name: str
    application_type: int
    accounting_token: bytes
    options: int
    extended_options: int

    @classmethod
    def read(cls, reader: Reader) -> "Connect":
        """Read the request."""
        return cls(
            queue_manager=reader.text(48),
            application_name=reader.text(28),
            application_type=reader.number(),
            accounting_token=reader.raw(32),
            options=reader.number(),
            extended_options=reader.number(),
        )

    def answer(self, writer: Writer, request: Reader, queue_manager: str, identifier: bytes) -> bytes:
        """Return the body of the reply: the names and, on request, the identifier of the connection (24 bytes)."""
        writer.text(queue_manager, 48).text(self.application_name, 28).number(self.application_type)
        writer.raw(self.accounting_token).number(self.options, self.extended_options)
        if request.next_is(_FCNO):
            writer.raw(_FCNO).number(2, 1).raw(identifier, _CONNECTION_TAG_BYTES)
        return writer.done()


class OpenDefaults(Struct, frozen=True):
    """The defaults of a queue. An open returns them to the client, and the client itself applies them to its puts."""

    #: DEFPSIST.
    persistence: int
    #: DEFPRESP: 1 if the client waits for the reply to a put, 2 if it does not.
    put_response: int = 1


class OpenCall(Struct, frozen=True, kw_only=True):
    """MQOPEN."""

    fields: structures.ObjectFields
    options: int
    #: True if the client asks for the defaults of the queue (FOPA).
    wants_defaults: bool

    @classmethod
    def read(cls, reader: Reader) -> "OpenCall":
        """Read the request."""
        fields = structures.ObjectFields.read(reader)
        options = reader.number()
        return cls(fields=fields, options=options, wants_defaults=reader.next_is(b"FOPA"))

    def answer(self, writer: Writer, opened: structures.ObjectFields, defaults: OpenDefaults) -> bytes:
        """Return the body of the reply."""
        opened.write(writer)
        writer.number(self.options)
        if self.wants_defaults:
            # There is no read-ahead, and properties are returned as with PROPCTL(COMPAT).
            writer.raw(b"FOPA").number(1, 28, defaults.persistence, defaults.put_response, 0, 0)
        return writer.done()


class PutCall(Struct, frozen=True, kw_only=True):
    """MQPUT, or MQPUT1 if `fields` has an object."""

    fields: structures.ObjectFields | None
    descriptor: MessageDescriptor
    descriptor_version: int
    put: structures.PutFields
    body: bytes

    @classmethod
    def read(cls, reader: Reader, *, one: bool) -> "PutCall":
        """Read the request."""
        fields = structures.ObjectFields.read(reader) if one else None
        descriptor, version = structures.read_descriptor(reader)
        put = structures.PutFields.read(reader)
        return cls(fields=fields, descriptor=descriptor, descriptor_version=version, put=put, body=reader.raw(reader.count()))

    def answer(self, writer: Writer, done: Put, queue_manager: str) -> bytes:
        """Return the body of the reply."""
        if self.fields is not None:
            self.fields.write(writer)
        structures.write_descriptor(writer, done.descriptor, self.descriptor_version)
        self.put.of(done, queue_manager).write(writer)
        return writer.number(len(self.body)).done()


class GetCall(Struct, frozen=True, kw_only=True):
    """MQGET with a reply: the client asks for one message and waits for the reply."""

    descriptor: MessageDescriptor
    descriptor_version: int
    get: structures.GetFields
    bytes_max: int

    @classmethod
    def read(cls, reader: Reader) -> "GetCall":
        """Read the request."""
        descriptor, version = structures.read_descriptor(reader)
        return cls(
            descriptor=descriptor, descriptor_version=version, get=structures.GetFields.read(reader), bytes_max=reader.count()
        )

    def answer(self, writer: Writer, got: Got | None) -> bytes:
        """Return the body of the reply. Without a message, the structures go back unchanged."""
        if got is None:
            structures.write_descriptor(writer, self.descriptor, self.descriptor_version)
            replace(self.get, returned_bytes=-1).write(writer)
            return writer.number(0).done()
        structures.write_descriptor(writer, got.descriptor, self.descriptor_version)
        replace(
            self.get,
            resolved_queue=got.resolved_queue,
            message_token=got.message_token,
            returned_bytes=len(got.body),
            status=structures.GetFields.status_of(got),
        ).write(writer)
        return writer.number(got.data_bytes).raw(got.body).done()


class InquireCall(Struct, frozen=True, kw_only=True):
    """MQINQ."""

    selectors: tuple[int, ...]
    integer_count: int
    text_bytes: int

    @classmethod
    def read(cls, reader: Reader) -> "InquireCall":
        """Read the request."""
        count, integers, text_bytes = reader.count(_SELECTORS_MAX), reader.count(_SELECTORS_MAX), reader.count(64 * 1024)
        return cls(selectors=tuple(reader.number() for _ in range(count)), integer_count=integers, text_bytes=text_bytes)

    def answer(self, writer: Writer, values: Mapping[int, int | str]) -> bytes:
        """Return the body of the reply: the requested count of numbers (filled up with -1), then the texts in Latin-1.

        Each text in `values` has its length in MQ.
        """
        found = [values[selector] for selector in self.selectors]
        numbers = [value for value in found if isinstance(value, int)][: self.integer_count]
        numbers += [-1] * (self.integer_count - len(numbers))
        texts = b"".join(padded(value, len(value)) for value in found if isinstance(value, str))
        writer.number(len(self.selectors), self.integer_count, self.text_bytes, *self.selectors, *numbers)
        return writer.raw(texts[: self.text_bytes].ljust(self.text_bytes)).done()


class SetCall(Struct, frozen=True, kw_only=True):
    """MQSET."""

    values: dict[int, int | str]

    @classmethod
    def read(cls, reader: Reader, lengths: Mapping[int, int]) -> "SetCall":
        """Read the request. `lengths` has the length of each text attribute, by selector."""
        count, integers, text_bytes = reader.count(_SELECTORS_MAX), reader.count(_SELECTORS_MAX), reader.count(64 * 1024)
        selectors = [reader.number() for _ in range(count)]
        numbers = [reader.number() for _ in range(integers)]
        texts = Reader(reader.raw(text_bytes), reader.order, "the texts of MQSET")
        values: dict[int, int | str] = {}
        for selector in selectors:
            if selector < _FIRST_TEXT:
                if not numbers:
                    raise FlowError("MQSET has fewer numbers than selectors of numbers")
                values[selector] = numbers.pop(0)
            else:
                values[selector] = texts.text(lengths.get(selector, texts.left))
        return cls(values=values)


class PutStatus(Struct, frozen=True, kw_only=True):
    """The counts of asynchronous puts since the last MQSTAT. The client did not wait for the replies to these puts."""

    succeeded: int = 0
    warned: int = 0
    failed: int = 0
    #: Completion code, reason and object of the first failure or, without a failure, of the first warning.
    completion: int = 0
    reason: int = 0
    object_type: int = 0
    object_name: str = ""

    def after(self, completion: int, reason: int, object_type: int, object_name: str) -> "PutStatus":
        """Return the status after one more put."""
        counted = replace(
            self,
            succeeded=self.succeeded + (completion == 0),
            warned=self.warned + (completion == 1),
            failed=self.failed + (completion > 1),
        )
        if completion <= self.completion:
            return counted
        return replace(counted, completion=completion, reason=reason, object_type=object_type, object_name=object_name)


class SubscribeCall(Struct, frozen=True, kw_only=True):
    """MQSUB. The handle in the header of the call and of the reply is that of the queue."""

    fields: structures.SubscriptionFields

    @classmethod
    def read(cls, reader: Reader) -> "SubscribeCall":
        """Read the request."""
        reader.raw(8)
        return cls(fields=structures.SubscriptionFields.read(reader))

    def answer(self, writer: Writer, subscription: int, made: SubscriptionDescriptor) -> bytes:
        """Return the body of the reply, with the handle of the subscription."""
        writer.number(subscription, 0)
        structures.SubscriptionFields(version=self.fields.version, descriptor=made).write(writer)
        return writer.done()


class StatusCall(Struct, frozen=True, kw_only=True):
    """MQSTAT."""

    kind: int
    version: int

    @classmethod
    def read(cls, reader: Reader) -> "StatusCall":
        """Read the request: the type and MQSTS."""
        kind = reader.number()
        reader.identifier(b"STAT")
        return cls(kind=kind, version=reader.version(2))

    def answer(self, writer: Writer, puts: PutStatus, queue_manager: str) -> bytes:
        """Return the body of the reply."""
        writer.number(self.kind).raw(b"STAT").number(self.version, puts.completion, puts.reason)
        writer.number(puts.succeeded, puts.warned, puts.failed, puts.object_type)
        for name in (puts.object_name, queue_manager, puts.object_name, queue_manager):
            writer.text(name if puts.reason else "", 48)
        if self.version > 1:
            writer.string(0, b"", structures.CCSID).string(0, b"", structures.CCSID).number(0, 0)
        return writer.done()


class SubscriptionRequestCall(Struct, frozen=True, kw_only=True):
    """MQSUBRQ. The handle in the header of the call is that of the subscription."""

    action: int
    version: int
    options: int

    @classmethod
    def read(cls, reader: Reader) -> "SubscriptionRequestCall":
        """Read the request: the action and MQSRO."""
        action = reader.number()
        reader.identifier(b"SRO ")
        return cls(action=action, version=reader.version(1), options=reader.number())

    def answer(self, writer: Writer, publications: int) -> bytes:
        """Return the body of the reply."""
        return writer.number(self.action).raw(b"SRO ").number(self.version, self.options, publications).done()


# MQCA_FIRST: the first selector of a text.
_FIRST_TEXT: Final = 2001
