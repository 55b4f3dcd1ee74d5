"""The puts of a client program, with and without a reply to the program (MQPMO_ASYNC_RESPONSE), and with a delivery delay.

A put without a reply is counted, and MQSTAT returns the counts. IBM's JMS classes request a delivery delay with the property
Dly in the folder mqext. The rules of delays are in `policy.delivery_delay`. This module knows the requests of the wire, and no
flow.
Source: IBM, MQSTAT and MQPMO (MQPMO_ASYNC_RESPONSE); the flows of IBM's JMS classes (decision 90).
"""

from typing import Final

from msgspec.structs import asdict, replace

from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.server.verb_calls import VerbCalls
from mqflow.fap import calls
from mqflow.fap.fields import FlowError
from mqflow.fap.structures import ObjectFields, PutFields
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.headers import rfh2
from mqflow.mqi.options import PutOption, fails_its_unit
from mqflow.mqi.reason_codes import CompletionCode, Reason
from mqflow.policy.delivery_delay import DELAY_MS_MAX, ClockReading, check_delay, staged
from mqflow.verbs import ObjectDescriptor, Put

__all__ = ("UnansweredPuts", "delayed", "put_message")

# The listener decides whether to reply, so the queue manager does not need these options.
_NOT_SENT_ON: Final = int(PutOption.ASYNC_RESPONSE | PutOption.SYNC_RESPONSE)
_PASSES_CONTEXT: Final = int(PutOption.PASS_IDENTITY_CONTEXT | PutOption.PASS_ALL_CONTEXT)
# MQSTAT_TYPE_ASYNC_ERROR; MQSTAT_TYPE_RECONNECTION and _RECONNECTION_ERROR.
_ASYNC_PUTS: Final = 0
_RECONNECTIONS: Final = frozenset({1, 2})
_FORMAT: Final = "MQHRF2"
_FOLDER: Final = "mqext"
_DELAY: Final = "Dly"


class UnansweredPuts:
    """Counts the puts without a reply on one connection."""

    def __init__(self) -> None:
        self._status = calls.PutStatus()
        #: True if a put without a reply has failed in the open unit of work.
        self.failed_in_unit: bool = False

    def put(self, verbs: VerbCalls, handle: int, asked: calls.PutCall, bytes_max: int) -> None:
        """Put the message, and count its result."""
        try:
            done = put_message(verbs, handle, asked.fields, asked.put, asked.descriptor, asked.body, bytes_max)
        except MQIError as error:
            completion, reason = int(error.completion), int(error.reason)
            self.failed_in_unit |= fails_its_unit(asked.put.options, asked.descriptor.persistence)
        else:
            completion, reason = int(CompletionCode.WARNING if done.reason else CompletionCode.OK), done.reason
        target = ObjectDescriptor(verbs.handle(handle).name) if asked.fields is None else asked.fields.descriptor
        self._status = self._status.after(completion, reason, target.object_type, target.name)

    def check(self, verbs: VerbCalls) -> None:
        """If a put without a reply has failed in the unit of work, back out and refuse the commit with 2003.

        Without this check the commit would succeed, because the client learns of the failure (MQSTAT) only after MQCMIT.
        """
        if not self.failed_in_unit:
            return
        verbs.perform(requests.Backout())
        self.forget_unit()
        detail = f"A put to {self._status.object_name} that the program did not wait for has failed ({self._status.reason})"
        raise error_for(Reason.BACKED_OUT, "MQCMIT", detail=detail)

    def forget_unit(self) -> None:
        """Forget a failed put, because its unit of work has ended."""
        self.failed_in_unit = False

    def taken(self, kind: int) -> calls.PutStatus:
        """Return the counts of puts since the last call, or zeros for a type that asks about reconnections.

        The client library reconnects without the queue manager, which has no reconnections to count. Raises `MQIError` 2430 for
        an unknown type of MQSTAT.
        """
        if kind in _RECONNECTIONS:
            return calls.PutStatus()
        if kind != _ASYNC_PUTS:
            detail = f"Type {kind}; 0 to 2 are known"
            raise error_for(Reason.STAT_TYPE_ERROR, "MQSTAT", detail=detail)
        taken, self._status = self._status, calls.PutStatus()
        return taken


def put_message(
    verbs: VerbCalls,
    handle: int,
    fields: ObjectFields | None,
    put: PutFields,
    descriptor: MessageDescriptor,
    body: bytes,
    bytes_max: int,
) -> Put:
    """Put the message with the handle (MQPUT) or, if `fields` is given, to the object in `fields` (MQPUT1).

    Raises 2010 for a message longer than `bytes_max`, the MAXMSGL of the channel (rc2010).
    """
    if len(body) > bytes_max:
        detail = f"The message has {len(body):,} bytes, and the channel takes {bytes_max:,} (MAXMSGL)"
        raise error_for(Reason.DATA_LENGTH_ERROR, "MQPUT" if fields is None else "MQPUT1", detail=detail)
    options = put.options & ~_NOT_SENT_ON
    context = put.context if put.options & _PASSES_CONTEXT else None
    if fields is None:
        request: requests.Put | requests.Put1 = requests.Put(handle, descriptor, body, options, context)
    else:
        request = requests.Put1(
            **asdict(replace(fields.descriptor, selection="")),
            descriptor=descriptor,
            body=body,
            options=options,
            context=context,
        )
    done = verbs.perform(request)
    if not isinstance(done, Put):
        raise FlowError("a put has an answer")
    return done


def delayed(descriptor: MessageDescriptor, body: bytes, now: ClockReading) -> tuple[MessageDescriptor, bytes]:
    """Return the message to put: a staged message if the message requests a delay, otherwise the same message.

    The delay begins at the moment `now`. Raises `MQIError` like `_asked_delay`, and 2013 or 2046 for a message that cannot be
    delayed.
    """
    delay_ms = _asked_delay(descriptor, body)
    if not delay_ms:
        return descriptor, body
    check_delay(delay_ms, descriptor)
    return staged(descriptor, body, delay_ms=delay_ms, now=now)


def _asked_delay(descriptor: MessageDescriptor, body: bytes) -> int:
    """Return the requested delay in milliseconds; 0 if the message requests none.

    Raises `MQIError` 2046 for a delay that is not a number from 0 to a century, and 2334 or 2335 for a broken MQRFH2.
    """
    if descriptor.format != _FORMAT:
        return 0
    header, _ = rfh2.parse(body, encoding=descriptor.encoding, ccsid=descriptor.ccsid)
    given = str(rfh2.properties(header, _FOLDER).get(_DELAY, 0))
    if not (given.isascii() and given.isdecimal()) or len(given) > len(str(DELAY_MS_MAX)) or int(given) > DELAY_MS_MAX:
        detail = f"{_FOLDER}.{_DELAY} is {given[:40]!r}; it takes 0 to {DELAY_MS_MAX} milliseconds (a century)"
        raise error_for(Reason.OPTIONS_ERROR, "Sending with a delivery delay", detail=detail)
    return int(given)
