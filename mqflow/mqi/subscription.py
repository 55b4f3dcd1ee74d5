"""What a subscription is, as MQSUB asks for it and answers it (MQSD), without its layout.

Names and defaults are those of the structure; wrong combinations are the queue manager's to refuse.
Source: IBM q100030 (MQSD); MQSO_*, MQPRI_* numbers.
"""

from typing import Final

from msgspec import Struct

from mqflow.mqi.descriptor import NO_ID
from mqflow.mqi.options import SubscribeOption

__all__ = ("PRIORITY_AS_PUBLISHED", "SUB_NAME_CHARS_MAX", "SubscriptionDescriptor")

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
