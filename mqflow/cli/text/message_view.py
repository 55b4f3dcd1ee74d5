"""A message for a person: names and values, decoded headers, the names of numbers, and why the message is on its queue.

The functions are pure: they turn a message into records. All text from the message must go through `terminal.safe`
before it is printed.
"""

import re
from collections.abc import Callable, Iterator, Mapping
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

__all__ = ("FACT_NAMES", "MessageView", "Section", "hex_dump", "own_data", "reason_words", "view")

Facts = dict[str, Any]

FACT_NAMES: Final = frozenset(
    (*(field.name for kind in (MessageDescriptor, Why) for field in structs.fields(kind)), "queue", "body", "body_is")
)
"""The names of the facts that every message can have. Properties have further names: `FOLDER.NAME`."""

_DUMP_COLUMNS: Final = 16
_LINE_END: Final = re.compile("\r\n|[\r\n\x85]")
"""The ends of lines; NEL (U+0085) is the line end of EBCDIC. `str.splitlines` also divides at characters such as U+000B."""


class Section(Struct, frozen=True):
    """A part of a message: a title, and names with values."""

    title: str
    rows: tuple[tuple[str, str], ...]


class MessageView(Struct, frozen=True, kw_only=True):
    """A message in the form for a person."""

    queue: str
    message_id: bytes
    #: Sentences that say why the message is on its queue; empty if the message has no reason.
    why: tuple[str, ...]
    #: The descriptor, and then each header.
    sections: tuple[Section, ...]
    #: The application's own data, as lines of text or as lines of a hexadecimal dump.
    body: tuple[str, ...]
    #: The kind and size of the body, for example "text, 247 bytes".
    body_title: str
    #: All facts about the message by plain names, for `--json` and `--where`.
    facts: Facts


def view(queue: str, descriptor: MessageDescriptor, data: bytes, *, shown_max: int = 4_096) -> MessageView:
    """Return the view of a message on this queue. A body that is longer than `shown_max` is cut off.

    If a header is damaged, the view names it. The body is then all data from this header on.
    """
    parts, header_error = _parts(descriptor, data)
    reason = why(descriptor, data)
    text = _text(parts)
    lines, title = _body(parts.body, text, parts.ccsid, shown_max)
    sections = [Section("Message descriptor (MQMD)", tuple(_descriptor_rows(descriptor)))]
    sections += [_header_section(header) for header in parts.chain]
    if header_error:
        sections.append(Section("Headers that cannot be read", (("Error", header_error),)))
    return MessageView(
        queue=queue,
        message_id=descriptor.message_id,
        why=tuple(_why_sentences(reason)) if reason is not None else (),
        sections=tuple(sections),
        body=lines,
        body_title=title,
        facts=_facts(queue, descriptor, parts, text, reason),
    )


def own_data(descriptor: MessageDescriptor, data: bytes) -> bytes:
    """Return the application's own data, which comes after the headers."""
    return _parts(descriptor, data)[0].body


def hex_dump(data: bytes, character_set: int = 1208) -> Iterator[str]:
    """Yield the lines of a dump: the offset, the bytes, and the bytes as characters of EBCDIC or Latin-1, else a full stop."""
    shown = [_shown(byte, character_set if ccsid.is_ebcdic(character_set) else 819) for byte in range(256)]
    for offset in range(0, len(data), _DUMP_COLUMNS):
        row = data[offset : offset + _DUMP_COLUMNS]
        digits = " ".join(row[start : start + 4].hex() for start in range(0, len(row), 4))
        yield f"{offset:08x}  {digits:<35}  {''.join(shown[byte] for byte in row)}"


def _shown(byte: int, character_set: int) -> str:
    try:
        letter = ccsid.decode(bytes((byte,)), character_set)
    except MQIError:  # the page does not define this byte
        return "."
    return letter if letter.isprintable() else "."


def _parts(descriptor: MessageDescriptor, data: bytes) -> tuple[chain.Headers, str]:
    """Return the headers and the body. If a header cannot be parsed, return all data as the body, and the error."""
    try:
        return chain.split(descriptor, data), ""
    except MQIError as error:
        return chain.Headers((), data, descriptor.format, descriptor.encoding, descriptor.ccsid), str(error)


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


def _named(words: Mapping[int, str]) -> Callable[[int], str]:
    return lambda value: f"{value} ({words[value]})" if value in words else str(value)


def _format(value: str) -> str:
    return value or "MQFMT_NONE"


def _feedback(value: int) -> str:
    known = {int(member): member.name for member in Feedback}
    if value in known:
        return f"MQFB_{known[value]} ({value})" if value else ""
    return reason_name(value)


def _number_but(default: int) -> Callable[[int], str]:
    """Return a function that shows a number as text; it returns an empty text for the default."""
    return lambda value: "" if value == default else str(value)


_DESCRIPTOR: Final[tuple[tuple[str, str, Callable[[Any], str]], ...]] = (
    ("MsgId", "message_id", _identifier),
    ("CorrelId", "correlation_id", _identifier),
    ("MsgType", "message_type", _enumerated(MessageType, "MQMT_")),
    ("Format", "format", _format),
    ("CodedCharSetId", "ccsid", _named({0: "the queue manager's own", 1208: "UTF-8", -2: "as in the previous header"})),
    ("Encoding", "encoding", _named({0x111: "big-endian", 0x222: "little-endian", 0x311: "big-endian, S/390 floats"})),
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
"""The fields of the MQMD: the name in MQ, the name in `MessageDescriptor`, how to show the value. Empty values are hidden."""


def _descriptor_rows(descriptor: MessageDescriptor) -> Iterator[tuple[str, str]]:
    for name, field, shown in _DESCRIPTOR:
        text = shown(getattr(descriptor, field))  # the field name comes from the table above
        if text:
            yield name, text


# -- the headers


def _header_section(header: chain.Header) -> Section:
    following = f"{_format(header.format)}, CCSID {header.ccsid}, encoding {header.encoding}"
    match header:
        case DeadLetterHeader():
            rows = [("Reason", reason_words(header.reason)), ("DestQName", header.destination_queue)]
            rows += [("DestQMgrName", header.destination_queue_manager), ("PutApplName", header.put_application_name)]
            rows += [("PutDate", header.put_date), ("PutTime", header.put_time), ("Next format", following)]
            return Section("Dead-letter header (MQDLH)", tuple(row for row in rows if row[1]))
        case RFH2():
            rows = [(name, str(value)) for name, value in _property_rows(header)]
            return Section("Message properties (MQRFH2)", (*rows, ("Next format", following)))
        case DescriptorExtension():
            rows = [(name, _plain(value)) for name, value in structs.asdict(header).items() if value != NO_ID]
            return Section("Descriptor extension (MQMDE)", tuple(rows))
        case _:
            assert_never(header)


def reason_words(value: int) -> str:
    """Return the name and the number of a reason in an MQDLH: a reason code or a feedback code."""
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


# -- why the message is on its queue


def _why_sentences(reason: Why) -> Iterator[str]:
    origin = reason.queue + (f" ({reason.queue_manager})" if reason.queue_manager else "")
    if reason.reason:
        cause = reason_words(reason.reason)
        yield f"Its destination was {origin or 'a queue without a name'}. It was put here because of {cause}."
    elif origin:
        # Without an outcome, nobody knows why it was backed out. For example, the process was killed each time.
        what = "its handling had failed" if reason.outcome or reason.error else "it had been backed out"
        times = f" when {what} {_times(reason.count)}" if reason.count else ""
        yield f"It was moved here from {origin}{times}" + (f" (threshold {reason.threshold})." if reason.threshold else ".")
    if reason.outcome or reason.error:
        handler = f" by {reason.handler}" if reason.handler else ""
        cause = ": ".join(part for part in (reason.error, reason.text) if part)
        yield f"Its last handling{handler} had the outcome {reason.outcome or 'failed'}" + (f": {cause}" if cause else ".")
    if reason.frame:
        yield f"Raised at {reason.frame}."
    mover = f" by {reason.application_name}" if reason.application_name else ""
    if mover or reason.at:
        yield f"Moved{mover}" + (f" at {reason.at:%Y-%m-%d %H:%M:%S} UTC." if reason.at else ".")


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


# -- the body


def _body(body: bytes, text: str | None, character_set: int, shown_max: int) -> tuple[tuple[str, ...], str]:
    """Return the lines of the body, cut off after `shown_max`, and its title with its kind and size."""
    size = f"{len(body):,} bytes"
    if text is None:
        more = f", the first {shown_max:,} shown" if shown_max < len(body) else ""
        return tuple(hex_dump(body[:shown_max], character_set)), size + more
    more = f", the first {shown_max:,} characters shown" if shown_max < len(text) else ""
    *lines, last = _LINE_END.split(text[:shown_max])
    return (*lines, last) if last else (*lines,), f"text, {size}{more}"


def _text(parts: chain.Headers) -> str | None:
    """Return the body as text if its format is MQSTR, or if it is printable UTF-8. Return None for other data."""
    try:
        if parts.format == Format.STRING:
            return ccsid.decode(parts.body, parts.ccsid, big_endian=byte_order(parts.encoding) == ">")
        text = parts.body.decode()
    except (MQIError, UnicodeDecodeError):
        return None
    return text if all(letter.isprintable() or letter in "\r\n\t" for letter in text) else None


# -- for programs


def _facts(queue: str, descriptor: MessageDescriptor, parts: chain.Headers, text: str | None, reason: Why | None) -> Facts:
    links = (header for header in parts.chain if isinstance(header, RFH2))
    return {
        "queue": queue,
        "descriptor": {
            name: value.hex() if isinstance(value, bytes) else value for name, value in structs.asdict(descriptor).items()
        },
        "properties": {name: value for header in links for name, value in _property_rows(header)},
        "why": {} if reason is None else {name: value for name, value in structs.asdict(reason).items() if value},
        "body": parts.body.hex() if text is None else text,
        "body_is": "hex" if text is None else "text",
    }
