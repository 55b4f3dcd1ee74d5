"""What a person reads of a message: names and values, headers decoded, numbers by their names, and why it is here.

Pure: a message in, records out. Nothing that came with the message is fit to print before `terminal.safe` has seen it.
"""

from collections.abc import Callable, Iterator
from enum import IntEnum, IntFlag
from typing import Any, Final, assert_never

from msgspec import Struct, structs

from mqflow.mqi import ccsid
from mqflow.mqi.descriptor import EXPIRY_UNLIMITED, NO_ID, MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.headers import chain
from mqflow.mqi.headers.dead_letter import DeadLetterHeader
from mqflow.mqi.headers.descriptor_extension import DescriptorExtension
from mqflow.mqi.headers.rfh2 import RFH2
from mqflow.mqi.layout import byte_order
from mqflow.mqi.options import ApplicationType, Feedback, Format, MessageFlag, MessageType, Persistence, Report
from mqflow.mqi.reason_codes import Reason, reason_name
from mqflow.policy.poison.moved_message import Why, why

__all__ = ("MessageView", "Section", "hex_dump", "view")

Facts = dict[str, Any]

_DUMP_COLUMNS: Final = 16


class Section(Struct, frozen=True):
    """One part of a message: a title, and names with their values."""

    title: str
    rows: tuple[tuple[str, str], ...]


class MessageView(Struct, frozen=True, kw_only=True):
    """A message as a person reads it."""

    queue: str
    message_id: bytes
    #: Why the message is where it is, in sentences; empty where it does not say.
    why: tuple[str, ...]
    #: The descriptor, then each header.
    sections: tuple[Section, ...]
    #: The application's own data, as lines of text or of a hexadecimal dump.
    body: tuple[str, ...]
    #: "text, 247 bytes" or the like.
    body_title: str
    #: Everything above by plain names, as `--json` prints it and `--where` looks at it.
    facts: Facts


def view(queue: str, descriptor: MessageDescriptor, data: bytes, *, shown_max: int = 4_096) -> MessageView:
    """Return what there is to read about a message on this queue; of a longer body, the beginning.

    A header that does not hold together is named, and everything from there on is the body.
    """
    try:
        parts, trouble = chain.split(descriptor, data), ""
    except MQIError as error:
        parts, trouble = _unread(descriptor, data), str(error)
    told = why(descriptor, data)
    text = _text(parts)
    lines, title = _body(parts.body, text, parts.ccsid, shown_max)
    sections = [Section("Message descriptor (MQMD)", tuple(_descriptor_rows(descriptor)))]
    sections += [_header_section(header) for header in parts.chain]
    if trouble:
        sections.append(Section("Headers that cannot be read", (("Error", trouble),)))
    return MessageView(
        queue=queue,
        message_id=descriptor.message_id,
        why=tuple(_why_sentences(told)) if told is not None else (),
        sections=tuple(sections),
        body=lines,
        body_title=title,
        facts=_facts(queue, descriptor, parts, text, told),
    )


def hex_dump(data: bytes, character_set: int = 1208) -> Iterator[str]:
    """Yield the lines of a dump: offset, bytes, and what they are as single characters of the character set."""
    codec = ccsid.codec_for(character_set) if ccsid.is_ebcdic(character_set) else "latin-1"
    for offset in range(0, len(data), _DUMP_COLUMNS):
        row = data[offset : offset + _DUMP_COLUMNS]
        digits = " ".join(row[start : start + 4].hex() for start in range(0, len(row), 4))
        text = "".join(letter if letter.isprintable() else "." for letter in row.decode(codec, "replace"))
        yield f"{offset:08x}  {digits:<35}  {text}"


def _unread(descriptor: MessageDescriptor, data: bytes) -> chain.Headers:
    return chain.Headers((), data, descriptor.format, descriptor.encoding, descriptor.ccsid)


# -- the descriptor


def _identifier(value: bytes) -> str:
    return "" if not any(value) else value.hex()


def _enumerated(kind: type[IntEnum], prefix: str) -> Callable[[int], str]:
    known = {int(member): member.name for member in kind}
    return lambda value: f"{prefix}{known[value]} ({value})" if value in known else str(value)


def _flags(kind: type[IntFlag], prefix: str) -> Callable[[int], str]:
    def shown(value: int) -> str:
        names = [prefix + (member.name or "") for member in kind(value)]
        return f"{' + '.join(names)} ({value:#x})" if names else ""

    return shown


def _expiry(tenths: int) -> str:
    return "unlimited" if tenths == EXPIRY_UNLIMITED else f"{tenths / 10:g} s left"


def _encoding(value: int) -> str:
    words = {0x111: "big-endian", 0x222: "little-endian", 0x311: "big-endian, S/390 floats"}
    return f"{value} ({words[value]})" if value in words else str(value)


def _character_set(value: int) -> str:
    words = {0: "the queue manager's own", 1208: "UTF-8", -2: "as the header before"}
    return f"{value} ({words[value]})" if value in words else str(value)


def _format(value: str) -> str:
    return value or "MQFMT_NONE"


def _feedback(value: int) -> str:
    known = {int(member): member.name for member in Feedback}
    if value in known:
        return f"MQFB_{known[value]} ({value})" if value else ""
    return reason_name(value)


def _number_but(default: int) -> Callable[[int], str]:
    """Return what shows a number, and nothing where it is what every message has."""
    return lambda value: "" if value == default else str(value)


_DESCRIPTOR: Final[tuple[tuple[str, str, Callable[[Any], str]], ...]] = (
    ("MsgId", "message_id", _identifier),
    ("CorrelId", "correlation_id", _identifier),
    ("MsgType", "message_type", _enumerated(MessageType, "MQMT_")),
    ("Format", "format", _format),
    ("CodedCharSetId", "ccsid", _character_set),
    ("Encoding", "encoding", _encoding),
    ("Persistence", "persistence", _enumerated(Persistence, "MQPER_")),
    ("Priority", "priority", str),
    ("Expiry", "expiry_tenths", _expiry),
    ("BackoutCount", "backout_count", str),
    ("Report", "report", _flags(Report, "MQRO_")),
    ("Feedback", "feedback", _feedback),
    ("ReplyToQ", "reply_to_queue", str),
    ("ReplyToQMgr", "reply_to_queue_manager", str),
    ("UserIdentifier", "user_identifier", str),
    ("AccountingToken", "accounting_token", _identifier),
    ("ApplIdentityData", "application_identity_data", str),
    ("PutApplType", "put_application_type", _enumerated(ApplicationType, "MQAT_")),
    ("PutApplName", "put_application_name", str),
    ("PutDate", "put_date", str),
    ("PutTime", "put_time", str),
    ("ApplOriginData", "application_origin_data", str),
    ("GroupId", "group_id", _identifier),
    ("MsgSeqNumber", "sequence_number", _number_but(1)),
    ("Offset", "offset", _number_but(0)),
    ("MsgFlags", "message_flags", _flags(MessageFlag, "MQMF_")),
    ("OriginalLength", "original_length", _number_but(-1)),
)
"""The fields of the MQMD as MQ names them, where they are here, and how each is shown; what shows as nothing is left out."""


def _descriptor_rows(descriptor: MessageDescriptor) -> Iterator[tuple[str, str]]:
    for name, field, shown in _DESCRIPTOR:
        text = shown(getattr(descriptor, field))
        if text:
            yield name, text


# -- the headers


def _header_section(header: chain.Header) -> Section:
    following = f"{_format(header.format)}, CCSID {header.ccsid}, encoding {header.encoding}"
    match header:
        case DeadLetterHeader():
            rows = [("Reason", _dead_letter_reason(header.reason)), ("DestQName", header.destination_queue)]
            rows += [("DestQMgrName", header.destination_queue_manager), ("PutApplName", header.put_application_name)]
            rows += [("PutDate", header.put_date), ("PutTime", header.put_time), ("What follows", following)]
            return Section("Dead-letter header (MQDLH)", tuple(row for row in rows if row[1]))
        case RFH2():
            rows = [(name, str(value)) for name, value in _property_rows(header)]
            return Section("Message properties (MQRFH2)", (*rows, ("What follows", following)))
        case DescriptorExtension():
            rows = [(name, _plain(value)) for name, value in structs.asdict(header).items() if value != NO_ID]
            return Section("Descriptor extension (MQMDE)", tuple(rows))
        case _:
            assert_never(header)


def _dead_letter_reason(value: int) -> str:
    return reason_name(value) if value in {int(reason) for reason in Reason} else _feedback(value)


def _property_rows(header: RFH2) -> Iterator[tuple[str, object]]:
    for folder in header.folders:
        if not folder.properties and folder.raw.strip():
            yield folder.name, folder.raw.strip()
        for item in folder.properties:
            yield f"{folder.name}.{item.name}", _plain(item.value)


def _plain(value: object) -> str:
    match value:
        case None:
            return "null"
        case bytes():
            return value.hex()
        case bool():
            return str(value).lower()
        case _:
            return str(value)


# -- why it is here


def _why_sentences(told: Why) -> Iterator[str]:
    origin = told.queue + (f" ({told.queue_manager})" if told.queue_manager else "")
    if told.reason:
        yield f"It was for {origin or 'a queue not named'}, and was put here because of {_dead_letter_reason(told.reason)}."
    elif origin:
        times = f" when it had been backed out {_times(told.count)}" if told.count else ""
        yield f"It was moved here from {origin}{times}" + (f" (threshold {told.threshold})." if told.threshold else ".")
    if told.outcome or told.error:
        handler = f" by {told.handler}" if told.handler else ""
        cause = ": ".join(part for part in (told.error, told.text) if part)
        yield f"Its last handling{handler} ended {told.outcome or 'badly'}" + (f": {cause}" if cause else ".")
    mover = f" by {told.application_name}" if told.application_name else ""
    if mover or told.at:
        yield f"Moved{mover}" + (f" at {told.at:%Y-%m-%d %H:%M:%S} UTC." if told.at else ".")


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


# -- the body


def _body(body: bytes, text: str | None, character_set: int, shown_max: int) -> tuple[tuple[str, ...], str]:
    """Return the lines of the body and what kind they are; the beginning only of one that is longer than asked for."""
    size = f"{len(body):,} bytes"
    if text is None:
        more = f", the first {shown_max:,} shown" if shown_max < len(body) else ""
        return tuple(hex_dump(body[:shown_max], character_set)), size + more
    more = f", the first {shown_max:,} characters shown" if shown_max < len(text) else ""
    return tuple(text[:shown_max].splitlines()), f"text, {size}{more}"


def _text(parts: chain.Headers) -> str | None:
    """Return the body as text, or None where it is none: by its character set if it says MQSTR, else if it looks like UTF-8."""
    try:
        if parts.format == Format.STRING:
            return ccsid.decode(parts.body, parts.ccsid, big_endian=byte_order(parts.encoding) == ">")
        text = parts.body.decode()
    except (MQIError, UnicodeDecodeError):
        return None
    return text if all(letter.isprintable() or letter in "\r\n\t" for letter in text) else None


# -- for programs


def _facts(queue: str, descriptor: MessageDescriptor, parts: chain.Headers, text: str | None, told: Why | None) -> Facts:
    links = (header for header in parts.chain if isinstance(header, RFH2))
    return {
        "queue": queue,
        "descriptor": {name: _plain_fact(value) for name, value in structs.asdict(descriptor).items()},
        "properties": {name: value for header in links for name, value in _property_rows(header)},
        "why": {} if told is None else {name: value for name, value in structs.asdict(told).items() if value},
        "body": parts.body.hex() if text is None else text,
        "body_is": "hex" if text is None else "text",
    }


def _plain_fact(value: object) -> object:
    return value.hex() if isinstance(value, bytes) else value
