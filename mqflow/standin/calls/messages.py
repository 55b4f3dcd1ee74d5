"""MQPUT, MQPUT1 and MQGET on a caller's structures and buffers.

Source: IBM, MQPUT, MQPUT1, MQGET, MQGMO and MQPMO; rc2079, rc2080, rc2256, rc2460.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from msgspec.structs import replace

from mqflow.mqi.c_structures import MQGMO, MQOD, MQPMO
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.options import GetOption, MatchOption, MessageFlag, PutOption, fails_its_unit
from mqflow.mqi.properties.rfh2_properties import from_header, with_properties
from mqflow.mqi.properties.set import Properties, PutAction, carried
from mqflow.mqi.reason_codes import CompletionCode, Reason
from mqflow.standin.calls.message_handles import handle_of
from mqflow.standin.calls.objects import check_offered, count_put, object_type
from mqflow.standin.calls.subscribe import topic_text
from mqflow.standin.host import Hconn, Host, MessageHandle
from mqflow.standin.memory.descriptors import read_descriptor, with_extension, without_extension, write_descriptor
from mqflow.standin.memory.structures import Structure, read, structure_at, write, write_number
from mqflow.verbs import Connection, GetOptions, Got, ObjectDescriptor, ObjectHandle, Put

__all__ = ("TRUNCATED", "Request", "body_at", "deliver", "get", "next_message", "put", "put_one", "request_from")

_DEFAULT_MATCH: Final = int(MatchOption.MSG_ID | MatchOption.CORREL_ID)
_HANDLE_IGNORED: Final = GetOption.PROPERTIES_FORCE_MQRFH2 | GetOption.NO_PROPERTIES | GetOption.PROPERTIES_COMPATIBILITY
TRUNCATED: Final = frozenset({Reason.TRUNCATED_MSG_ACCEPTED, Reason.TRUNCATED_MSG_FAILED})
"""The warnings for a truncated message."""
_ASYNC, _SYNC = int(PutOption.ASYNC_RESPONSE), int(PutOption.SYNC_RESPONSE)
_TRUNCATE: Final = GetOption.ACCEPT_TRUNCATED_MSG
_TOLD_LATER: Final = frozenset(
    {
        Reason.PUT_INHIBITED,
        Reason.Q_FULL,
        Reason.Q_DELETED,
        Reason.MSG_TOO_BIG_FOR_Q,
        Reason.MSG_TOO_BIG_FOR_Q_MGR,
        Reason.STORAGE_MEDIUM_FULL,
    }
)
"""Reasons that only the queue manager knows. A client that does not wait for the queue manager's answer cannot report them."""

_IN_GROUP: Final = int(MessageFlag.MSG_IN_GROUP)
_SEGMENT: Final = int(MessageFlag.SEGMENT)


class Request:
    """A decoded MQGET: the options of the get, and the message handle for the properties."""

    __slots__ = ("handle", "options", "version")

    def __init__(self, options: GetOptions, version: int, handle: MessageHandle | None) -> None:
        self.options: GetOptions = options
        #: The version of the MQMD.
        self.version: int = version
        #: The message handle; it receives the properties that do not stay in the data.
        self.handle: MessageHandle | None = handle


def put(host: Host, number: int, hobj: int, md_at: int, pmo_at: int, length: int, buffer_at: int) -> int:
    """MQPUT: put the message, and fill in MQMD and MQPMO."""
    hconn = host.hconn(number, "MQPUT")
    pmo = structure_at(MQPMO, pmo_at, "MQPUT")
    with hconn.used("MQPUT"):
        handle = hconn.object_of(hobj, "MQPUT")

        def put_it(descriptor: MessageDescriptor, body: bytes, options: PutOption, context: ObjectHandle | None) -> Put:
            return hconn.connection.put(handle, descriptor, body, options, context=context)

        return _put(host, hconn, md_at, pmo, body_at(length, buffer_at, "MQPUT"), put_it, handle.name, hobj)


def put_one(host: Host, number: int, od_at: int, md_at: int, pmo_at: int, length: int, buffer_at: int) -> int:
    """MQPUT1: open the object, put the message, close the object."""
    hconn = host.hconn(number, "MQPUT1")
    od = structure_at(MQOD, od_at, "MQPUT1")
    check_offered(od, "MQPUT1")
    pmo = structure_at(MQPMO, pmo_at, "MQPUT1")
    name = od.text("ObjectName")

    def put_it(descriptor: MessageDescriptor, body: bytes, options: PutOption, context: ObjectHandle | None) -> Put:
        target = ObjectDescriptor(
            name,
            object_type(od, "MQPUT1"),
            queue_manager=od.text("ObjectQMgrName"),
            alternate_user=od.text("AlternateUserId"),
            object_string=topic_text(od, "ObjectString"),
            selection=topic_text(od, "SelectionString"),
        )
        return hconn.connection.put1(target, descriptor, body, options, context=context)

    with hconn.used("MQPUT1"):
        return _put(host, hconn, md_at, pmo, body_at(length, buffer_at, "MQPUT1"), put_it, name)


def get(host: Host, number: int, hobj: int, md_at: int, gmo_at: int, length: int, buffer_at: int, data_length_at: int) -> int:
    """MQGET: write the message into MQMD, MQGMO and buffer. Raises 2033 if there is no message."""
    _check_buffer(length, buffer_at, "MQGET")
    hconn = host.hconn(number, "MQGET")
    gmo = structure_at(MQGMO, gmo_at, "MQGET")
    allowed = min(length, hconn.message_bytes_max or length)
    request = request_from(host, number, md_at, gmo, allowed)
    if (
        allowed < length
    ):  # the channel, and not the program, limits the length: the message stays, also with ACCEPT_TRUNCATED_MSG
        request.options = replace(request.options, options=request.options.options & ~_TRUNCATE)
    with hconn.used("MQGET"):
        handle = hconn.object_of(hobj, "MQGET")
        got = next_message(hconn.connection, handle, request)
    if got is not None and allowed < length and got.reason == Reason.TRUNCATED_MSG_FAILED:
        detail = f"{got.data_bytes} bytes; MaxMsgLength of the channel is {allowed}"
        raise error_for(Reason.DATA_LENGTH_ERROR, "MQGET", handle.name, hconn.connection.queue_manager_name, detail)
    if got is None:
        if request.options.options & GetOption.UNLOCK:
            return Reason.NONE
        raise error_for(Reason.NO_MSG_AVAILABLE, "MQGET", handle.name, hconn.connection.queue_manager_name)
    reason, body = deliver(got, request, md_at, gmo)
    write(buffer_at, body)
    write_number(data_length_at, got.data_bytes if got.reason in TRUNCATED else len(body))
    return reason


def request_from(host: Host, number: int, md_at: int, gmo: Structure, bytes_max: int | None) -> Request:
    """Return the get that MQMD and MQGMO describe. Raises 2256, 2460, or the reason of a bad MQMD."""
    descriptor, version = read_descriptor(md_at, "MQGET")
    options = gmo.number("Options")
    hmsg = gmo.number("MsgHandle")
    if options & GetOption.PROPERTIES_IN_HANDLE and gmo.version < MQGMO.fields["MsgHandle"].since:
        detail = f"MQGMO_PROPERTIES_IN_HANDLE needs an MQGMO of version 4, not {gmo.version}"
        raise error_for(Reason.WRONG_GMO_VERSION, "MQGET", detail=detail)
    # If properties stay in the data, or the program does not want them, the message handle is ignored.
    handle = handle_of(host, number, hmsg, "MQGET") if hmsg and not options & _HANDLE_IGNORED else None
    return Request(
        _get_options(
            options,
            gmo.number("WaitInterval"),
            gmo.number("MatchOptions", _DEFAULT_MATCH),
            descriptor,
            gmo.raw("MsgToken"),
            bytes_max,
            message_handle=handle is not None,
        ),
        version,
        handle,
    )


def deliver(got: Got, request: Request, md_at: int, gmo: Structure) -> tuple[int, bytes]:
    """Fill in MQMD and MQGMO, and the message handle if there is one; return the reason of a warning, and the data."""
    descriptor, body, reason = got.descriptor, got.body, got.reason
    if request.handle is not None:
        request.handle.hold(from_header(got.properties), descriptor)
    if request.version == 1 and not reason and request.options.buffer_bytes_max is not None:
        descriptor, body = with_extension(descriptor, body, request.options.buffer_bytes_max)
    write_descriptor(md_at, descriptor, 1 if request.version == 1 else 2)
    flags = descriptor.message_flags
    gmo.set(
        ResolvedQName=got.resolved_queue,
        GroupStatus=_letter(flags, _IN_GROUP, MessageFlag.LAST_MSG_IN_GROUP, b"G"),
        SegmentStatus=_letter(flags, _SEGMENT, MessageFlag.LAST_SEGMENT, b"S"),
        Segmentation=b"A" if flags & MessageFlag.SEGMENTATION_ALLOWED else b" ",
        MsgToken=got.message_token,
        ReturnedLength=len(body),
    )
    return reason, body


def next_message(connection: Connection, handle: ObjectHandle, request: Request, *, wait_ms: int | None = None) -> Got | None:
    """Return the next message, or None. `wait_ms` replaces the wait time of the request."""
    return connection.get(handle, request.options if wait_ms is None else _waiting(request.options, wait_ms))


def _put(
    host: Host,
    hconn: Hconn,
    md_at: int,
    pmo: Structure,
    body: bytes,
    put_it: Callable[[MessageDescriptor, bytes, PutOption, ObjectHandle | None], Put],
    name: str,
    hobj: int = 0,
) -> int:
    given, version = read_descriptor(md_at, "MQPUT")
    descriptor, data = without_extension(given, body) if version == 1 else (given, body)
    options = pmo.number("Options")
    early = _answers_early(hconn, options, hobj)
    context = hconn.objects.get(pmo.number("Context"))
    described, data = with_properties(descriptor, data, _properties(host, hconn, pmo))
    if hconn.message_bytes_max and len(data) > hconn.message_bytes_max:
        detail = f"{len(data)} bytes; MaxMsgLength of the channel is {hconn.message_bytes_max}"
        raise error_for(Reason.DATA_LENGTH_ERROR, "MQPUT", name, hconn.connection.queue_manager_name, detail)
    try:
        done = put_it(described, data, PutOption(options), context)
    except MQIError as error:
        if not early or error.reason not in _TOLD_LATER:
            raise
        count_put(hconn.puts, name, CompletionCode.FAILED, error.reason)
        hconn.unit_failed = hconn.unit_failed or fails_its_unit(options, described.persistence)
        return Reason.NONE
    if early:
        count_put(hconn.puts, name, CompletionCode.WARNING if done.reason else CompletionCode.OK, done.reason)
    # The message has its properties in a header; the program sees the description of its own data.
    ccsid = given.ccsid or done.descriptor.ccsid  # MQPUT replaces MQCCSI_Q_MGR
    said = replace(done.descriptor, format=given.format, encoding=given.encoding, ccsid=ccsid)
    write_descriptor(md_at, said, version)
    pmo.set(ResolvedQName=done.resolved_queue, ResolvedQMgrName=done.resolved_queue_manager)
    return done.reason


def _answers_early(hconn: Hconn, options: int, hobj: int) -> bool:
    """Return whether only MQSTAT reports the result: for a client's asynchronous put, by MQPMO or by DEFPRESP."""
    if options & (_ASYNC | _SYNC):
        return not hconn.local and bool(options & _ASYNC)
    return hobj in hconn.answers_early


def _properties(host: Host, hconn: Hconn, pmo: Structure) -> Properties:
    original, new = pmo.number("OriginalMsgHandle"), pmo.number("NewMsgHandle")
    if not original and not new:
        return ()
    try:
        action = PutAction(pmo.number("Action"))
    except ValueError:
        raise error_for(Reason.ACTION_ERROR, "MQPUT", detail=f"MQPMO.Action {pmo.number('Action')}") from None
    of_original = handle_of(host, hconn.number, original, "MQPUT").used() if original else ()
    return carried(of_original, handle_of(host, hconn.number, new, "MQPUT").used() if new else (), action)


def body_at(length: int, buffer_at: int, verb: str) -> bytes:
    """Return the bytes of a caller's buffer. Raises 2005 or 2004."""
    _check_buffer(length, buffer_at, verb)
    return read(buffer_at, length) if length else b""


def _check_buffer(length: int, buffer_at: int, verb: str) -> None:
    if length < 0:
        raise error_for(Reason.BUFFER_LENGTH_ERROR, verb, detail=f"BufferLength {length}")
    if length and not buffer_at:
        raise error_for(Reason.BUFFER_ERROR, verb, detail=f"BufferLength {length} and no buffer")


def _letter(flags: int, bit: int, last: int, letter: bytes) -> bytes:
    if flags & last:
        return b"L"
    return letter if flags & bit else b" "


@lru_cache(maxsize=256)
def _waiting(options: GetOptions, wait_ms: int) -> GetOptions:
    """Return the options with this wait; 0 is no wait. For the same options, return the same record, as `_get_options` does."""
    wait = GetOption.WAIT if wait_ms else GetOption(0)
    return replace(options, options=options.options & ~GetOption.WAIT | wait, wait_ms=wait_ms)


@lru_cache(maxsize=256)
def _get_options(
    options: int,
    wait_ms: int,
    match: int,
    descriptor: MessageDescriptor,
    token: bytes,
    bytes_max: int | None,
    *,
    message_handle: bool,
) -> GetOptions:
    """Return the options as a record. Equal arguments give the same record, so the queue manager plans the get only once."""
    return GetOptions(
        options=GetOption(options),
        wait_ms=wait_ms,
        match=MatchOption(match),
        message_id=descriptor.message_id,
        correlation_id=descriptor.correlation_id,
        group_id=descriptor.group_id,
        sequence_number=descriptor.sequence_number,
        offset=descriptor.offset,
        message_token=token,
        buffer_bytes_max=bytes_max,
        ccsid=descriptor.ccsid,
        encoding=descriptor.encoding,
        message_handle=message_handle,
    )
