"""The objects, other than queues, that every queue manager is created with: what definitions start from.

Source: IBM q081550 for the names. CHCKCLNT(NONE), nobody is asked for a password, is true of this queue manager, and not IBM's
default.
"""

from typing import Final

from mqflow.embedded.catalogue.kinds import DEFINED_KINDS, DefinedObject, Noun, defined_object
from mqflow.mqi.attributes.channel import ChannelType

__all__ = ("SYSTEM_OBJECTS", "default_object")

_T = ChannelType
_THREAD: Final = {"mca_type": 2}
_UNCHECKED: Final = {"check_local": 1, "check_client": 1}
_OTHERWISE: Final = {
    ("CHANNEL", _T.CLUSSDR): _THREAD,
    ("CHANNEL", _T.CLUSRCVR): _THREAD,
    # The queue manager does not end a client that is silent.
    ("CHANNEL", _T.SVRCONN): {"disconnect_s": 0},
    ("AUTHINFO", 3): _UNCHECKED,
    ("AUTHINFO", 4): _UNCHECKED,
}
"""What a default object has other than the table of its attributes says."""


def _default(noun: Noun, name: str, kind: int) -> DefinedObject:
    return defined_object(noun, {"name": name, "kind": kind, **_OTHERWISE.get((noun, kind), {})})


SYSTEM_OBJECTS: Final[tuple[DefinedObject, ...]] = (
    *(_default(kind.noun, name, number) for kind in DEFINED_KINDS.values() for number, name in kind.defaults.items()),
    _default("CHANNEL", "SYSTEM.AUTO.RECEIVER", _T.RECEIVER),
    _default("CHANNEL", "SYSTEM.AUTO.SVRCONN", _T.SVRCONN),
)


def default_object(noun: Noun, kind: int) -> DefinedObject:
    """Return the default object of a type as it was created, for a queue manager whose administrator deleted it."""
    return _default(noun, DEFINED_KINDS[noun].defaults[kind], kind)
