"""The properties a queue manager gives each copy of a publication: its topic, and the user data of the subscription.

They stand in an MQRFH2 before the data, so PROPCTL and the options of a get decide who sees them; COMPAT, the default,
shows them only beside properties like those of JMS. Pure.
Source: IBM q032060 (MQTopicString, MQSubUserData; PSPROP(MSGPROP)); facts 8.13.
"""

from collections.abc import Callable
from functools import cache
from typing import Final

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.properties.in_rfh2 import with_properties
from mqflow.mqi.properties.set import MessageProperty, PropertyType

__all__ = ("Dressed", "dressing")

Dressed = Callable[[str], tuple[MessageDescriptor, bytes]]
"""Descriptor and data of a copy, by the user data of its subscription."""

_TOPIC: Final = "mqps.Top"
_USER_DATA: Final = "mqps.Sud"


def dressing(topic: str, descriptor: MessageDescriptor, body: bytes, *, queue_manager_ccsid: int) -> Dressed:
    """Return what gives the copies of a publication their properties; made once for subscriptions with equal user data.

    What is announced as a header and is none stays as it is: nothing can be added to it.
    """

    @cache
    def dressed(user_data: str) -> tuple[MessageDescriptor, bytes]:
        said = ((_TOPIC, topic), (_USER_DATA, user_data))
        added = tuple(MessageProperty(name=name, type=PropertyType.STRING, value=value) for name, value in said if value)
        try:
            return with_properties(descriptor, body, added, queue_manager_ccsid=queue_manager_ccsid)
        except MQIError:
            return descriptor, body

    return dressed
