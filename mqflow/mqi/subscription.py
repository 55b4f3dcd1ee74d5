"""Subscriptions as records: the request and answer of MQSUB (MQSD, without its layout), and the stored subscription.

The records have the names and the defaults of the structure MQSD. The queue manager refuses wrong combinations; the records do
not.
Source: IBM q100030 (MQSD); MQSO_*, MQPRI_* numbers.
"""

from typing import Final

from msgspec import Struct

from mqflow.mqi.descriptor import NO_ID, MessageDescriptor
from mqflow.mqi.options import SubscribeOption

__all__ = (
    "PRIORITY_AS_PUBLISHED",
    "SUB_NAME_CHARS_MAX",
    "RetainedPublication",
    "SubscriptionAttributes",
    "SubscriptionDescriptor",
)

PRIORITY_AS_PUBLISHED: Final = -3
SUB_NAME_CHARS_MAX: Final = 10_240


class SubscriptionDescriptor(Struct, frozen=True, kw_only=True):
    """MQSD. MQSUB also returns a completed MQSD; for a resumed subscription, this MQSD has the options of that subscription."""

    options: SubscribeOption = SubscribeOption.NONE
    #: ObjectName: a topic object, whose topic string comes before `object_string`.
    object_name: str = ""
    object_string: str = ""
    #: SubName. A durable subscription needs a name.
    name: str = ""
    #: SubUserData: every publication carries this text as the property MQSubUserData.
    user_data: str = ""
    #: SubCorrelId: the queue manager makes this identifier unless `SubscribeOption.SET_CORREL_ID` is set.
    correlation_id: bytes = NO_ID
    #: SubExpiry in tenths of a second; -1 for never.
    expiry_tenths: int = -1
    #: SelectionString: selects publications; empty for all.
    selection: str = ""
    #: PubPriority: -3 as published, -1 for the default of the queue, or a priority.
    priority: int = PRIORITY_AS_PUBLISHED
    #: PubAccountingToken and PubApplIdentityData, with `SubscribeOption.SET_IDENTITY_CONTEXT`.
    accounting_token: bytes = bytes(32)
    application_identity_data: str = ""
    #: SubLevel, 0 to 9: only the highest level that matches gets a publication.
    level: int = 1
    alternate_user: str = ""
    #: True if several handles can use the subscription at the same time, as the shared subscriptions of JMS 2.0. Not in MQSD.
    shared: bool = False
    #: ResObjectString: the full topic string. Output only.
    topic_string: str = ""


class SubscriptionAttributes(Struct, frozen=True, kw_only=True):
    """The attributes of a subscription, as DISPLAY SUB shows them."""

    #: SUB; for a subscription without a name, its identifier in hexadecimal digits.
    name: str
    #: SUBID, 24 bytes.
    identifier: bytes
    #: The full topic string, and the topic object of the subscribe.
    topic_string: str
    topic_object: str = ""
    #: SUBTYPE: 1 made by an application (API), 2 by an administrator (ADMIN).
    kind: int = 1
    #: The MQSO options of the subscription: DURABLE, MANAGED, the wildcard scheme and so on; no option that controls a call.
    options: int = 0
    #: DEST and DESTCORL. If the subscription has no correlation identifier, publications keep the publisher's identifier.
    destination: str = ""
    correlation_id: bytes = NO_ID
    #: SUBUSER: the owner.
    user: str = ""
    user_data: str = ""
    selection: str = ""
    priority: int = PRIORITY_AS_PUBLISHED
    accounting_token: bytes = bytes(32)
    application_identity_data: str = ""
    level: int = 1
    #: True if several handles can use the subscription at the same time.
    shared: bool = False
    expiry_tenths: int = -1
    #: Wall clock, in seconds since 1970; None for never.
    expires_at: float | None = None
    creation_date: str = ""
    creation_time: str = ""
    alteration_date: str = ""
    alteration_time: str = ""

    @property
    def durable(self) -> bool:
        """True if the subscription outlives its handle and the end of the queue manager."""
        return bool(self.options & SubscribeOption.DURABLE)

    @property
    def managed(self) -> bool:
        """True if the queue manager owns the subscription's queue."""
        return bool(self.options & SubscribeOption.MANAGED)


class RetainedPublication(Struct, frozen=True, kw_only=True):
    """The retained publication of a topic: descriptor and body as published."""

    topic_string: str
    descriptor: MessageDescriptor
    body: bytes
    #: The times of the publish and of the expiry, in seconds since 1970; None for never.
    put_at: float
    expires_at: float | None = None
