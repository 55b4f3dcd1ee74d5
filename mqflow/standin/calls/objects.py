"""MQOPEN, MQCLOSE, MQINQ, MQSET and MQSTAT on a caller's structures and arrays.

Source: IBM, MQOPEN, MQINQ, MQSET and MQSTAT; rc2006, rc2008, rc2021, rc2022, rc2065, rc2430.
"""

from typing import Final, assert_never

from mqflow.mqi.attributes.objects import NAMELIST_ATTRIBUTES, PROCESS_ATTRIBUTES
from mqflow.mqi.attributes.queue import QUEUE_ATTRIBUTES
from mqflow.mqi.attributes.queue_manager import QUEUE_MANAGER_ATTRIBUTES
from mqflow.mqi.c_structures import MQOD, MQSTS
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.options import CloseOption, ObjectType, OpenOption
from mqflow.mqi.reason_codes import CompletionCode, Reason
from mqflow.standin.calls.connect import NOT_CONNECTED
from mqflow.standin.calls.subscribe import topic_text
from mqflow.standin.host import Host, PutCounts
from mqflow.standin.memory.structures import Structure, number_at, read, structure_at, write, write_number
from mqflow.verbs import Connection, ObjectDescriptor, ObjectHandle

__all__ = ("check_offered", "close", "count_put", "inquire", "object_type", "open_object", "set_attributes", "status")

_FIRST_TEXT: Final = 2001
_SELECTORS_MAX: Final = 256
_STATUS_ASYNC, _STATUS_LAST = 0, 2
# MQIA_DEF_PUT_RESPONSE_TYPE and MQPRT_ASYNC_RESPONSE.
_DEFAULT_PUT_RESPONSE, _ASYNC = 184, 2
_CHARS: Final = {spec.selector: spec.chars for spec in (*QUEUE_ATTRIBUTES, *QUEUE_MANAGER_ATTRIBUTES)} | {
    spec.selector: spec.chars for spec in (*NAMELIST_ATTRIBUTES, *PROCESS_ATTRIBUTES) if not spec.items_max
}
"""The lengths of text attributes. The list of names in a namelist has no fixed length."""


def open_object(host: Host, number: int, od_at: int, options: int, hobj_at: int) -> int:
    """MQOPEN: write the handle and the resolved names."""
    hconn = host.hconn(number, "MQOPEN")
    od = structure_at(MQOD, od_at, "MQOPEN")
    check_offered(od, "MQOPEN")
    with hconn.used("MQOPEN"):
        target = ObjectDescriptor(
            od.text("ObjectName"),
            object_type(od, "MQOPEN"),
            queue_manager=od.text("ObjectQMgrName"),
            dynamic_name=od.text("DynamicQName"),
            alternate_user=od.text("AlternateUserId"),
            object_string=topic_text(od, "ObjectString"),
            selection=topic_text(od, "SelectionString"),
        )
        handle = hconn.connection.open(target, OpenOption(options))
        hobj = hconn.next_number()
        hconn.objects[hobj] = handle
        if not hconn.local and options & OpenOption.OUTPUT and _is_asynchronous(hconn.connection, handle):
            hconn.answers_early.add(hobj)
    manager = hconn.connection.queue_manager_name
    if handle.name != od.text("ObjectName"):
        od.set(ObjectName=handle.name, ObjectQMgrName=manager)  # opening a model queue makes a dynamic queue
    if handle.resolved_queue:
        od.set(ResolvedQName=handle.resolved_queue, ResolvedQMgrName=handle.resolved_queue_manager or manager)
    write_number(hobj_at, hobj)
    return Reason.NONE


def _is_asynchronous(connection: Connection, handle: ObjectHandle) -> bool:
    """Return whether the queue has DEFPRESP(ASYNC). A user who may not inquire the queue puts synchronously."""
    if not handle.resolved_queue:
        return False
    try:
        inquired = connection.open(handle.name, OpenOption.INQUIRE)
        try:
            return connection.inquire(inquired, (_DEFAULT_PUT_RESPONSE,)).values[_DEFAULT_PUT_RESPONSE] == _ASYNC
        finally:
            connection.close(inquired)
    except MQIError:
        return False


def close(host: Host, number: int, hobj_at: int, options: int) -> int:
    """MQCLOSE: close the object or subscription, and make the handle unusable."""
    hconn = host.hconn(number, "MQCLOSE")
    hobj = number_at(hobj_at)
    reason = int(Reason.NONE)
    with hconn.used("MQCLOSE"):
        handle = hconn.subscriptions.get(hobj) or hconn.object_of(hobj, "MQCLOSE")
        try:
            hconn.connection.close(handle, CloseOption(options))
        except MQIError as warning:
            if warning.completion is not CompletionCode.WARNING:
                raise
            reason = warning.reason  # the object is closed, but a group or a logical message is incomplete
        hconn.objects.pop(hobj, None)
        hconn.answers_early.discard(hobj)
        hconn.subscriptions.pop(hobj, None)
        if hconn.consumers is not None:
            hconn.consumers.remove(hobj)
    write_number(hobj_at, NOT_CONNECTED)
    return reason


def inquire(
    host: Host, number: int, hobj: int, count: int, selectors_at: int, numbers: int, numbers_at: int, chars: int, chars_at: int
) -> int:
    """MQINQ: write the numbers and the texts of the attributes, both in the order of the selectors."""
    selectors = _selectors(count, selectors_at, "MQINQ")
    if numbers < 0:
        raise error_for(Reason.INT_ATTR_COUNT_ERROR, "MQINQ", detail=f"IntAttrCount {numbers}")
    if chars < 0:
        raise error_for(Reason.CHAR_ATTR_LENGTH_ERROR, "MQINQ", detail=f"CharAttrLength {chars}")
    hconn = host.hconn(number, "MQINQ")
    with hconn.used("MQINQ"):
        handle = hconn.object_of(hobj, "MQINQ")
        answer = hconn.connection.inquire(handle, selectors)
    values = answer.values
    found_numbers = [int(value) for value in (values[selector] for selector in selectors) if not isinstance(value, str)]
    texts = b"".join(
        _field(value, _CHARS.get(selector) or len(value.encode()))
        for selector, value in ((selector, values[selector]) for selector in selectors)
        if isinstance(value, str)
    )
    for index, value in enumerate(found_numbers[:numbers]):
        write_number(numbers_at + 4 * index, value)
    write(chars_at, texts[:chars])
    if len(texts) > chars:
        return Reason.CHAR_ATTRS_TOO_SHORT
    return Reason.INT_ATTR_COUNT_TOO_SMALL if len(found_numbers) > numbers else answer.reason


def set_attributes(
    host: Host, number: int, hobj: int, count: int, selectors_at: int, numbers: int, numbers_at: int, chars: int, chars_at: int
) -> int:
    """MQSET: set attributes to the caller's numbers and texts, both in the order of the selectors."""
    selectors = _selectors(count, selectors_at, "MQSET")
    hconn = host.hconn(number, "MQSET")
    values: dict[int, int | str] = {}
    next_number, next_char = 0, 0
    for selector in selectors:
        if selector < _FIRST_TEXT:
            if next_number >= numbers:
                raise error_for(Reason.INT_ATTR_COUNT_ERROR, "MQSET", detail=f"IntAttrCount {numbers} for {count} selectors")
            values[selector] = number_at(numbers_at + 4 * next_number)
            next_number += 1
        else:
            length = min(_CHARS.get(selector, 0), chars - next_char)
            values[selector] = _text(read(chars_at + next_char, max(0, length)))
            next_char += length
    with hconn.used("MQSET"):
        hconn.connection.set(hconn.object_of(hobj, "MQSET"), values)
    return Reason.NONE


def _field(text: str, length: int) -> bytes:
    """Return the text of an attribute in UTF-8, the character set of the queue manager. No character is cut in two."""
    return text.encode()[:length].decode(errors="ignore").encode().ljust(length)


def _text(field: bytes) -> str:
    """Return the text of an attribute up to the first NUL. Bytes that are not UTF-8 are read as Latin-1."""
    text = field.split(b"\0", 1)[0].rstrip()
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("latin-1")


def status(host: Host, number: int, kind: int, status_at: int) -> int:
    """MQSTAT: write the counts of puts with MQPMO_ASYNC_RESPONSE since the last MQSTAT. Reports no reconnections."""
    hconn = host.hconn(number, "MQSTAT")
    sts = structure_at(MQSTS, status_at, "MQSTAT")
    if not _STATUS_ASYNC <= kind <= _STATUS_LAST:
        raise error_for(Reason.STAT_TYPE_ERROR, "MQSTAT", detail=f"Type {kind}; {_STATUS_ASYNC} to {_STATUS_LAST} are known")
    with hconn.used("MQSTAT"):
        puts = PutCounts()
        if kind == _STATUS_ASYNC:
            puts, hconn.puts = hconn.puts, puts
    sts.set(
        CompCode=puts.completion,
        Reason=puts.reason,
        PutSuccessCount=puts.succeeded,
        PutWarningCount=puts.warned,
        PutFailureCount=puts.failed,
        ObjectType=int(ObjectType.Q),
        ObjectName=puts.object_name,
        ObjectQMgrName="",
        ResolvedObjectName=puts.object_name,
        ResolvedQMgrName=hconn.connection.queue_manager_name if puts.object_name else "",
    )
    return Reason.NONE


def object_type(od: Structure, verb: str) -> ObjectType:
    """Return the MQOT_* value of the MQOD. Raises 2043 for an unknown number."""
    number = od.number("ObjectType")
    try:
        return ObjectType(number)
    except ValueError:
        raise error_for(Reason.OBJECT_TYPE_ERROR, verb, od.text("ObjectName"), detail=f"Object type {number}") from None


def check_offered(od: Structure, verb: str) -> None:
    """Refuse a distribution list (2298)."""
    if od.number("RecsPresent"):
        raise error_for(Reason.FUNCTION_NOT_SUPPORTED, verb, detail="The embedded queue manager has no distribution lists")


def count_put(puts: PutCounts, object_name: str, completion: CompletionCode, reason: int) -> None:
    """Count the result of a put with MQPMO_ASYNC_RESPONSE."""
    match completion:
        case CompletionCode.OK:
            puts.succeeded += 1
        case CompletionCode.WARNING:
            puts.warned += 1
        case CompletionCode.FAILED:
            puts.failed += 1
        case _:
            assert_never(completion)
    if reason and not puts.reason:
        puts.completion, puts.reason, puts.object_name = completion, reason, object_name


def _selectors(count: int, selectors_at: int, verb: str) -> list[int]:
    if count < 0:
        raise error_for(Reason.SELECTOR_COUNT_ERROR, verb, detail=f"SelectorCount {count}")
    if count > _SELECTORS_MAX:
        raise error_for(Reason.SELECTOR_LIMIT_EXCEEDED, verb, detail=f"SelectorCount {count}; {_SELECTORS_MAX} is the most")
    return [number_at(selectors_at + 4 * index) for index in range(count)]
