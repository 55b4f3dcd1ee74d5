"""MQMD, the message descriptor, as a frozen record, and its bytes in versions 1 and 2.

This module knows one layout and its defaults; it knows no queue manager. Character fields have no blank padding.
Source: the layout table of the MQMD (364 bytes, version 2).
"""

import struct
from typing import Final, Literal

import msgspec
from msgspec import Struct

from mqflow.mqi.errors import error_for
from mqflow.mqi.layout import oversized
from mqflow.mqi.names import padded, stripped
from mqflow.mqi.options import Encoding, MessageType, Persistence
from mqflow.mqi.reason_codes import Reason

__all__ = (
    "CCSID_INHERIT",
    "CCSID_Q_MGR",
    "EXPIRY_UNLIMITED",
    "MQMD1_BYTES",
    "MQMD2_BYTES",
    "NO_ID",
    "PRIORITY_AS_Q_DEF",
    "MessageDescriptor",
    "type_problem",
)

NO_ID: Final = bytes(24)
"""MQMI_NONE and MQCI_NONE: no identifier, or any identifier."""
EXPIRY_UNLIMITED: Final = -1
PRIORITY_AS_Q_DEF: Final = -1
CCSID_Q_MGR: Final = 0
CCSID_INHERIT: Final = -2
MQMD1_BYTES: Final = 324
MQMD2_BYTES: Final = 364

# The two byte orders of the same layout: 4-byte numbers and fixed character fields, no padding.
_V1: Final = "4s5ii i8sii24s24si48s48s12s32s32si28s8s8s4s".replace(" ", "")
_V2: Final = "24siiii"


class MessageDescriptor(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The descriptor of a message (MQMD version 2). Times are GMT; identifiers are 24 bytes.

    msgspec encodes only the fields that differ from their default. This saves two thirds of the bytes in a store and on a
    socket.
    """

    #: MQRO_* bits: the requested reports, and the disposition of an undeliverable message.
    report: int = 0
    #: MQMT_*: 1 request, 2 reply, 4 report, 8 datagram; applications from 65536 on.
    message_type: int = MessageType.DATAGRAM
    #: The remaining lifetime in tenths of a second; -1 for unlimited.
    expiry_tenths: int = EXPIRY_UNLIMITED
    #: The cause of a report: MQFB_* or a reason code.
    feedback: int = 0
    #: The layout of numbers in the body: 273 big-endian, 546 little-endian.
    encoding: int = Encoding.NATIVE
    #: The character set of text in the body (CodedCharSetId): 1208 is UTF-8, 0 means the character set of the queue manager.
    ccsid: int = CCSID_Q_MGR
    #: The format of the beginning of the body, unpadded: "MQSTR", "MQHRF2" ...; empty for MQFMT_NONE.
    format: str = ""
    #: 0 to 9, or -1 for the default of the queue.
    priority: int = PRIORITY_AS_Q_DEF
    #: 0 not persistent, 1 persistent, 2 for the default of the queue.
    persistence: int = Persistence.AS_Q_DEF
    #: MsgId; if it is zeros, the queue manager makes an identifier.
    message_id: bytes = NO_ID
    #: CorrelId.
    correlation_id: bytes = NO_ID
    #: The number of backed-out units of work that got the message. Output only.
    backout_count: int = 0
    reply_to_queue: str = ""
    reply_to_queue_manager: str = ""
    #: Identity context: UserIdentifier, AccountingToken, ApplIdentityData.
    user_identifier: str = ""
    accounting_token: bytes = bytes(32)
    application_identity_data: str = ""
    #: Origin context: PutApplType (MQAT_*), PutApplName, PutDate YYYYMMDD, PutTime HHMMSSTH, ApplOriginData.
    put_application_type: int = 0
    put_application_name: str = ""
    put_date: str = ""
    put_time: str = ""
    application_origin_data: str = ""
    #: Groups and segments (version 2): GroupId, MsgSeqNumber, Offset, MsgFlags (MQMF_*), OriginalLength.
    group_id: bytes = NO_ID
    sequence_number: int = 1
    offset: int = 0
    message_flags: int = 0
    original_length: int = -1

    @property
    def persistent(self) -> bool:
        """True if the message survives the end of the queue manager; False while the queue's default is not resolved."""
        return self.persistence == Persistence.PERSISTENT

    def to_bytes(self, version: Literal[1, 2] = 2, *, little_endian: bool = True) -> bytes:
        """Return the MQMD structure: 324 bytes (version 1, without group and segment fields) or 364 (version 2).

        Raises `MQIError` 2026 (MQRC_MD_ERROR), with the name of the field, if a number has more than 32 bits.
        """
        order = "<" if little_endian else ">"
        try:
            first = struct.pack(
                order + _V1,
                b"MD  ",
                version,
                self.report,
                self.message_type,
                self.expiry_tenths,
                self.feedback,
                self.encoding,
                self.ccsid,
                padded(self.format, 8),
                self.priority,
                self.persistence,
                self.message_id,
                self.correlation_id,
                self.backout_count,
                padded(self.reply_to_queue, 48),
                padded(self.reply_to_queue_manager, 48),
                padded(self.user_identifier, 12),
                self.accounting_token,
                padded(self.application_identity_data, 32),
                self.put_application_type,
                padded(self.put_application_name, 28),
                padded(self.put_date, 8),
                padded(self.put_time, 8),
                padded(self.application_origin_data, 4),
            )
            if version == 1:
                return first
            return first + struct.pack(
                order + _V2, self.group_id, self.sequence_number, self.offset, self.message_flags, self.original_length
            )
        except struct.error as error:
            raise error_for(Reason.MD_ERROR, "MQMD", detail=oversized(self) or str(error)) from error

    @classmethod
    def from_bytes(cls, data: bytes, *, little_endian: bool = True) -> "MessageDescriptor":
        """Return the record of an MQMD structure of version 1 or 2.

        Raises `MQIError` 2026 (MQRC_MD_ERROR) if the data is too short or not an MQMD, and 2257 for a version other than 1 and
        2.
        """
        if len(data) < MQMD1_BYTES or data[:4] != b"MD  ":
            raise error_for(Reason.MD_ERROR, "MQMD", detail=f"{len(data)} bytes that start with {data[:4]!r} are not an MQMD")
        order = "<" if little_endian else ">"
        values = struct.unpack_from(order + _V1, data)
        version = values[1]
        if version not in {1, 2}:
            raise error_for(Reason.WRONG_MD_VERSION, "MQMD", detail=f"Version {version} is neither 1 nor 2")
        group: tuple[bytes, int, int, int, int] = (NO_ID, 1, 0, 0, -1)
        if version == 2:  # noqa: PLR2004 - the version is the name
            if len(data) < MQMD2_BYTES:
                raise error_for(Reason.MD_ERROR, "MQMD", detail=f"{len(data)} bytes are too few for version 2 ({MQMD2_BYTES})")
            group = struct.unpack_from(order + _V2, data, MQMD1_BYTES)
        return cls(
            report=values[2],
            message_type=values[3],
            expiry_tenths=values[4],
            feedback=values[5],
            encoding=values[6],
            ccsid=values[7],
            format=stripped(values[8]),
            priority=values[9],
            persistence=values[10],
            message_id=values[11],
            correlation_id=values[12],
            backout_count=values[13],
            reply_to_queue=stripped(values[14]),
            reply_to_queue_manager=stripped(values[15]),
            user_identifier=stripped(values[16]),
            accounting_token=values[17],
            application_identity_data=stripped(values[18]),
            put_application_type=values[19],
            put_application_name=stripped(values[20]),
            put_date=stripped(values[21]),
            put_time=stripped(values[22]),
            application_origin_data=stripped(values[23]),
            group_id=group[0],
            sequence_number=group[1],
            offset=group[2],
            message_flags=group[3],
            original_length=group[4],
        )


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(MessageDescriptor).decode


def type_problem(descriptor: object) -> str:
    """Return why a store or a server could not read the descriptor back; empty if it could.

    To encode and decode all fields takes less time than to check each field.
    """
    try:
        _decode(_encode(descriptor))
    except (msgspec.ValidationError, UnicodeEncodeError, OverflowError, TypeError) as error:
        return f"A text cannot be encoded, or a field has another type: {error}"
    return ""
