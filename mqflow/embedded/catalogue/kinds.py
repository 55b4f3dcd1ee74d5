"""The kinds of object that are defined and shown and do nothing by themselves: what each is called, and what it is made from.

A new kind is a record with a table (in `mqi`) and a line here; MQSC and PCF read it from here. Knows no machine.
"""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from mqflow.mqi.attributes.channel import CHANNEL_ATTRIBUTES, CHANNEL_NAME_CHARS_MAX, ChannelAttributes, ChannelType
from mqflow.mqi.attributes.objects import (
    AUTHENTICATION_ATTRIBUTES,
    LISTENER_ATTRIBUTES,
    NAMELIST_ATTRIBUTES,
    PROCESS_ATTRIBUTES,
    SERVICE_ATTRIBUTES,
    AuthenticationAttributes,
    ListenerAttributes,
    NamelistAttributes,
    ProcessAttributes,
    ServiceAttributes,
)
from mqflow.mqi.attributes.queue import AttributeSpec
from mqflow.mqi.names import OBJECT_NAME_CHARS_MAX

__all__ = ("DEFINED_KINDS", "DefinedKind", "DefinedObject", "Noun", "defined_kind", "is_client", "key_of")

DefinedObject: TypeAlias = (
    ChannelAttributes
    | NamelistAttributes
    | ProcessAttributes
    | AuthenticationAttributes
    | ListenerAttributes
    | ServiceAttributes
)


Noun: TypeAlias = Literal["CHANNEL", "NAMELIST", "PROCESS", "AUTHINFO", "LISTENER", "SERVICE"]


class DefinedKind(Struct, frozen=True):
    """What there is to know about a kind of object."""

    #: What MQSC calls it.
    noun: Noun
    record: type[DefinedObject]
    specs: tuple[AttributeSpec, ...]
    #: The object that a definition takes from what it was not told, by `kind`; under 0 where there is one kind only.
    defaults: Mapping[int, str]
    name_chars_max: int = OBJECT_NAME_CHARS_MAX

    @property
    def type_spec(self) -> AttributeSpec | None:
        """The attribute that says of which kind it is (CHLTYPE, AUTHTYPE); it has to be said, and is never altered."""
        return next((spec for spec in self.specs if spec.field == "kind"), None)

    @property
    def name_spec(self) -> AttributeSpec:
        """The attribute that is its name."""
        return next(spec for spec in self.specs if spec.field == "name")

    def applicable(self, kind: int) -> tuple[AttributeSpec, ...]:
        """Return the attributes that one of this `kind` has."""
        return tuple(spec for spec in self.specs if not spec.kinds or kind in spec.kinds)


DEFINED_KINDS: Final[Mapping[Noun, DefinedKind]] = {
    kind.noun: kind
    for kind in (
        DefinedKind(
            "CHANNEL",
            ChannelAttributes,
            CHANNEL_ATTRIBUTES,
            {kind: f"SYSTEM.DEF.{kind.name}" for kind in ChannelType},
            CHANNEL_NAME_CHARS_MAX,
        ),
        DefinedKind("NAMELIST", NamelistAttributes, NAMELIST_ATTRIBUTES, {0: "SYSTEM.DEFAULT.NAMELIST"}),
        DefinedKind("PROCESS", ProcessAttributes, PROCESS_ATTRIBUTES, {0: "SYSTEM.DEFAULT.PROCESS"}),
        DefinedKind(
            "AUTHINFO",
            AuthenticationAttributes,
            AUTHENTICATION_ATTRIBUTES,
            {
                1: "SYSTEM.DEFAULT.AUTHINFO.CRLLDAP",
                2: "SYSTEM.DEFAULT.AUTHINFO.OCSP",
                3: "SYSTEM.DEFAULT.AUTHINFO.IDPWOS",
                4: "SYSTEM.DEFAULT.AUTHINFO.IDPWLDAP",
            },
        ),
        DefinedKind("LISTENER", ListenerAttributes, LISTENER_ATTRIBUTES, {0: "SYSTEM.DEFAULT.LISTENER.TCP"}),
        DefinedKind("SERVICE", ServiceAttributes, SERVICE_ATTRIBUTES, {0: "SYSTEM.DEFAULT.SERVICE"}),
    )
}
_BY_RECORD: Final = {kind.record: kind for kind in DEFINED_KINDS.values()}


def defined_kind(record: DefinedObject) -> DefinedKind:
    """Return what kind of object the record is."""
    return _BY_RECORD[type(record)]


def is_client(record: DefinedObject) -> bool:
    """Whether it is a client-connection channel: these have a table of their own, so a SVRCONN may have the same name."""
    return isinstance(record, ChannelAttributes) and record.kind is ChannelType.CLNTCONN


def key_of(name: str, *, client: bool) -> str:
    """Return under which key of its kind an object is kept. No name has a blank."""
    return f"{name} CLNTCONN" if client else name
