"""The properties that a queue manager adds to each copy of a publication: its topic, and the user data of the subscription.

A copy of a retained publication for a new subscription also has the property MQIsRetained. UNCERTAIN: whether IBM MQ adds
MQIsRetained with the value FALSE to other copies; here other copies do not have MQIsRetained.

The properties are in an MQRFH2 in front of the data. PROPCTL and the options of a get decide whether an application receives
them. COMPAT, the default, returns these properties only if the message also has a JMS property. The code is pure.
Source: IBM q032060 (MQTopicString, MQSubUserData, MQIsRetained; PSPROP(MSGPROP)).
"""

from collections.abc import Callable
from functools import cache
from typing import Final

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.properties.rfh2_properties import with_properties
from mqflow.mqi.properties.set import MessageProperty, PropertyType

__all__ = ("MakeCopy", "copy_maker")

MakeCopy = Callable[[str], tuple[MessageDescriptor, bytes]]
"""Returns descriptor and data of a copy, given the user data of a subscription."""

_TOPIC: Final = "mqps.Top"
_USER_DATA: Final = "mqps.Sud"
_RETAINED: Final = MessageProperty(name="mqps.Ret", type=PropertyType.BOOLEAN, value=True)


def copy_maker(
    topic: str, descriptor: MessageDescriptor, body: bytes, *, queue_manager_ccsid: int, retained: bool = False
) -> MakeCopy:
    """Return a function that makes the copies of a publication. Subscriptions with equal user data share a copy.

    With `retained`, the copies are for a new subscription and have the property MQIsRetained. If the format names a header that
    the data does not have, the copy gets no properties.
    """

    @cache
    def make_copy(user_data: str) -> tuple[MessageDescriptor, bytes]:
        values = ((_TOPIC, topic), (_USER_DATA, user_data))
        added = tuple(MessageProperty(name=name, type=PropertyType.STRING, value=value) for name, value in values if value)
        if retained:
            added = (*added, _RETAINED)
        try:
            return with_properties(descriptor, body, added, queue_manager_ccsid=queue_manager_ccsid)
        except MQIError:
            return descriptor, body

    return make_copy
