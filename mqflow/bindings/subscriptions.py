"""Converts a subscription descriptor to the bytes of an MQSD, and back."""

from typing import Final

from msgspec.structs import replace

from mqflow.bindings.handles import Bound
from mqflow.bindings.limits import IDENTITY_CHARS, USER_CHARS
from mqflow.bindings.structures import MQSD, Strings
from mqflow.mqi.errors import error_for
from mqflow.mqi.names import OBJECT_NAME_CHARS_MAX, padded
from mqflow.mqi.options import SubscribeOption
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.subscription import SUB_NAME_CHARS_MAX, SubscriptionDescriptor

__all__ = ("BoundSubscription", "answered", "asked", "signed")

_ANSWERED: Final = {"user_data": "SubUserData", "selection": "SelectionString", "topic_string": "ResObjectString"}


class BoundSubscription(Bound):
    """Hsub: offers `verbs.SubscriptionHandle`."""

    __slots__ = ()


def asked(descriptor: SubscriptionDescriptor, strings: Strings) -> bytes:
    """Return the MQSD. The buffers of the strings that MQSUB fills in have room for the longest string.

    Raises `MQIError` 2298 for a shared subscription, which the MQI does not have.
    """
    if descriptor.shared:
        detail = "MQSUB has no shared subscriptions; only IBM's JMS classes make them: subscribe with shared=False"
        raise error_for(Reason.FUNCTION_NOT_SUPPORTED, "MQSUB", descriptor.name, detail=detail)
    return MQSD.pack(
        Options=int(descriptor.options),
        ObjectName=padded(descriptor.object_name, OBJECT_NAME_CHARS_MAX),
        AlternateUserId=padded(descriptor.alternate_user, USER_CHARS),
        SubExpiry=descriptor.expiry_tenths,
        SubCorrelId=descriptor.correlation_id,
        PubPriority=descriptor.priority,
        PubAccountingToken=descriptor.accounting_token,
        PubApplIdentityData=padded(descriptor.application_identity_data, IDENTITY_CHARS),
        SubLevel=descriptor.level,
        **strings.given("ObjectString", descriptor.object_string),
        **strings.given("SubName", descriptor.name),
        **strings.exchanged("SubUserData", descriptor.user_data, SUB_NAME_CHARS_MAX),
        **strings.exchanged("SelectionString", descriptor.selection, SUB_NAME_CHARS_MAX),
        **strings.exchanged("ResObjectString", "", SUB_NAME_CHARS_MAX),
    )


def answered(descriptor: SubscriptionDescriptor, sd: bytes, strings: Strings) -> SubscriptionDescriptor:
    """Return the descriptor with the fields that MQSUB filled in."""
    texts = {field: strings.answered(name, MQSD.number(sd, f"{name}VSLength")) for field, name in _ANSWERED.items()}
    return replace(
        descriptor,
        options=SubscribeOption(MQSD.number(sd, "Options")),
        object_name=MQSD.text(sd, "ObjectName"),
        expiry_tenths=MQSD.number(sd, "SubExpiry"),
        correlation_id=MQSD.raw(sd, "SubCorrelId"),
        priority=MQSD.number(sd, "PubPriority"),
        accounting_token=MQSD.raw(sd, "PubAccountingToken"),
        application_identity_data=MQSD.text(sd, "PubApplIdentityData"),
        level=MQSD.number(sd, "SubLevel"),
        **texts,
    )


def signed(handle: int) -> int:
    """Return the handle as a signed number: the C code of the packages widens 32 bits to 64 with or without the sign."""
    low = handle & 0xFFFF_FFFF
    return low - (1 << 32) if low >> 31 else low
