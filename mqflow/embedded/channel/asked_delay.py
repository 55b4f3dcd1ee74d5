"""Stages the messages of IBM's JMS classes that request a delivery delay, with the property Dly in the folder mqext.

This module reads the MQRFH2 at the start of a message. The rules of delays are in `policy.delivery_delay`. Source: the flows of
IBM's JMS classes (decision 90).
"""

from typing import Final

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import error_for
from mqflow.mqi.headers import rfh2
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.delivery_delay import DELAY_MS_MAX, ClockReading, check_delay, staged

__all__ = ("asked_delay", "delayed")

_FORMAT: Final = "MQHRF2"
_FOLDER: Final = "mqext"
_DELAY: Final = "Dly"


def delayed(descriptor: MessageDescriptor, body: bytes, now: ClockReading) -> tuple[MessageDescriptor, bytes]:
    """Return the message to put: a staged message if the message requests a delay, otherwise the same message.

    The delay begins at the moment `now`. Raises `MQIError` like `asked_delay`, and 2013 or 2046 for a message that cannot be
    delayed.
    """
    delay_ms = asked_delay(descriptor, body)
    if not delay_ms:
        return descriptor, body
    check_delay(delay_ms, descriptor)
    return staged(descriptor, body, delay_ms=delay_ms, now=now)


def asked_delay(descriptor: MessageDescriptor, body: bytes) -> int:
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
