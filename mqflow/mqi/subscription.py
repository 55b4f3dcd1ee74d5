"""What a subscription is: as MQSUB asks for it and answers it (MQSD, without its layout), and as it is kept.

Names and defaults are those of the structure; wrong combinations are the queue manager's to refuse.
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
    """MQSD. What MQSUB returns is one too: filled in, of a resumed subscription with the options it really has."""

    options: SubscribeOption = SubscribeOption.NONE
    #: ObjectName: a topic object, whose topic string stands before `object_string`.
    object_name: str = ""
    object_string: str = ""
    #: SubName. A durable subscription needs one.
    name: str = ""
    #: SubUserData: goes with every publication as the property MQSubUserData.
    user_data: str = ""
    #: SubCorrelId: made by the queue manager unless `SubscribeOption.SET_CORREL_ID`.
    correlation_id: bytes = NO_ID
    #: SubExpiry in tenths of a second; -1 for never.
    expiry_tenths: int = -1
    #: SelectionString: which publications; empty for all.
    selection: str = ""
    #: PubPriority: -3 as published, -1 as the queue defines, or a priority.
    priority: int = PRIORITY_AS_PUBLISHED
    #: PubAccountingToken and PubApplIdentityData, with `SubscribeOption.SET_IDENTITY_CONTEXT`.
    accounting_token: bytes = bytes(32)
    application_identity_data: str = ""
    #: SubLevel, 0 to 9: only the highest level that matches gets a publication.
    level: int = 1
    alternate_user: str = ""
    #: ResObjectString: the whole topic string. Output only.
    topic_string: str = ""


class SubscriptionAttributes(Struct, frozen=True, kw_only=True):
    """What a subscription is, as DISPLAY SUB shows it."""

    #: SUB; of one without a name, its identifier in hexadecimal digits.
    name: str
    #: SUBID, 24 bytes.
    identifier: bytes
    #: The whole topic string, and the topic object it was made by.
    topic_string: str
    topic_object: str = ""
    #: SUBTYPE: 1 by an application (API), 2 by an administrator (ADMIN).
    kind: int = 1
    #: The MQSO options it has: DURABLE, MANAGED, the wildcard scheme and so on; none that says what a call is to do.
    options: int = 0
    #: DEST and DESTCORL. Without a correlation identifier of its own, publications keep their publisher's.
    destination: str = ""
    correlation_id: bytes = NO_ID
    #: SUBUSER: whose it is.
    user: str = ""
    user_data: str = ""
    selection: str = ""
    priority: int = PRIORITY_AS_PUBLISHED
    accounting_token: bytes = bytes(32)
    application_identity_data: str = ""
    level: int = 1
    expiry_tenths: int = -1
    #: Wall clock, in seconds since 1970; None for never.
    expires_at: float | None = None
    creation_date: str = ""
    creation_time: str = ""
    alteration_date: str = ""
    alteration_time: str = ""

    @property
    def durable(self) -> bool:
        """Whether it outlives its handle, and the queue manager's end."""
        return bool(self.options & SubscribeOption.DURABLE)

    @property
    def managed(self) -> bool:
        """Whether its queue is the queue manager's affair."""
        return bool(self.options & SubscribeOption.MANAGED)


class RetainedPublication(Struct, frozen=True, kw_only=True):
    """The last retained publication on a topic: descriptor and body as they were published."""

    topic_string: str
    descriptor: MessageDescriptor
    body: bytes
    #: Wall clock, in seconds since 1970; None for never.
    put_at: float
    expires_at: float | None = None
