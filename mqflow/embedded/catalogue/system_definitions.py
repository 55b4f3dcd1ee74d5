"""The objects, other than queues, that every queue manager is created with: what definitions start from.

Source: IBM q081550 for the names. CHCKCLNT(NONE), nobody is asked for a password, is true of this queue manager, and not IBM's
default.
"""

from typing import Final

from mqflow.embedded.catalogue.kinds import DefinedObject
from mqflow.mqi.attributes.channel import ChannelAttributes, ChannelType
from mqflow.mqi.attributes.objects import (
    AuthenticationAttributes,
    ListenerAttributes,
    NamelistAttributes,
    ProcessAttributes,
    ServiceAttributes,
)

__all__ = ("SYSTEM_OBJECTS", "default_object")

_THREAD: Final = 2
_NONE: Final = 1


def _channel(name: str, kind: ChannelType) -> ChannelAttributes:
    clustered = kind in {ChannelType.CLUSSDR, ChannelType.CLUSRCVR}
    return ChannelAttributes(
        name=name,
        kind=kind,
        mca_type=_THREAD if clustered else 1,
        # A client that says nothing is not ended.
        disconnect_s=0 if kind is ChannelType.SVRCONN else 6_000,
    )


_CHANNELS: Final = tuple(_channel(f"SYSTEM.DEF.{kind.name}", kind) for kind in ChannelType)

SYSTEM_OBJECTS: Final[tuple[DefinedObject, ...]] = (
    *_CHANNELS,
    _channel("SYSTEM.AUTO.RECEIVER", ChannelType.RECEIVER),
    _channel("SYSTEM.AUTO.SVRCONN", ChannelType.SVRCONN),
    NamelistAttributes(name="SYSTEM.DEFAULT.NAMELIST"),
    ProcessAttributes(name="SYSTEM.DEFAULT.PROCESS"),
    AuthenticationAttributes(name="SYSTEM.DEFAULT.AUTHINFO.CRLLDAP", kind=1),
    AuthenticationAttributes(name="SYSTEM.DEFAULT.AUTHINFO.OCSP", kind=2),
    AuthenticationAttributes(name="SYSTEM.DEFAULT.AUTHINFO.IDPWOS", kind=3, check_local=_NONE, check_client=_NONE),
    AuthenticationAttributes(name="SYSTEM.DEFAULT.AUTHINFO.IDPWLDAP", kind=4, check_local=_NONE, check_client=_NONE),
    ListenerAttributes(name="SYSTEM.DEFAULT.LISTENER.TCP"),
    ServiceAttributes(name="SYSTEM.DEFAULT.SERVICE"),
)
_BY_NAME: Final = {(type(made), made.name): made for made in SYSTEM_OBJECTS}


def default_object(record: type[DefinedObject], name: str) -> DefinedObject:
    """Return a default object as it was created; for where somebody deleted it."""
    return _BY_NAME[record, name]
