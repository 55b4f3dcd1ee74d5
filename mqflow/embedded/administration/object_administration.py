"""What MQSC and PCF may ask about objects that are no queues, and about connections: records and a protocol, no rule."""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from mqflow.embedded.catalogue.kinds import DefinedObject, Noun

__all__ = ("ConnectionHandle", "ConnectionStatus", "ObjectAdministration")


class ConnectionHandle(Struct, frozen=True, kw_only=True):
    """One open object of a connection (DISPLAY CONN TYPE(HANDLE))."""

    name: str
    #: MQOT_*.
    object_type: int
    #: MQOO_* bits.
    options: int


class ConnectionStatus(Struct, frozen=True, kw_only=True):
    """One connection (DISPLAY CONN)."""

    #: 16 hexadecimal digits.
    identifier: str
    application: str
    user: str
    #: APPLTYPE: the queue manager's own, not a user's.
    system: bool
    #: Puts and gets that are not committed.
    operations: int
    handles: tuple[ConnectionHandle, ...] = ()


class ObjectAdministration(Protocol):
    """Objects that are defined and shown. `noun` is a key of `defined_kinds.DEFINED_KINDS`; refusals are `MQIError`."""

    def all(self, noun: Noun) -> tuple[DefinedObject, ...]:
        """All objects of a kind, by name."""
        ...

    def define(self, attributes: DefinedObject, *, replace: bool = False) -> None:
        """Define an object; 2100 where the name is taken, unless `replace` and the type is the same."""
        ...

    def alter(self, noun: Noun, name: str, changes: Mapping[str, object], *, client: bool = False) -> None:
        """Change fields of an object; 2085 where there is none. `client`: a client-connection channel."""
        ...

    def delete(self, noun: Noun, name: str, *, client: bool = False) -> None:
        """Delete an object; 2085 where there is none."""
        ...

    def connections(self) -> tuple[ConnectionStatus, ...]:
        """Who is connected, in order of identifier; the queue manager's own command server among them."""
        ...
