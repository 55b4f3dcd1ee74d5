"""The kinds of object that a queue manager only stores and shows, and one record type for the objects of all these kinds.

MQSC, PCF, the wire and the store all read this table, so a new kind needs one row. If a kind gets behaviour (a listener that
listens, a channel that runs), its row stays here. The behaviour belongs in its own module, which `administration.objects` calls
when it stores or deletes an object. This module knows no queue manager.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct, ValidationError, convert

from mqflow.mqi.attributes.channel import CHANNEL_ATTRIBUTES, ChannelType
from mqflow.mqi.attributes.objects import (
    AUTHENTICATION_ATTRIBUTES,
    LISTENER_ATTRIBUTES,
    NAMELIST_ATTRIBUTES,
    PROCESS_ATTRIBUTES,
    SERVICE_ATTRIBUTES,
    ObjectAttribute,
)

__all__ = ("DEFINED_KINDS", "DefinedKind", "DefinedObject", "Noun", "defined_object", "key_of", "object_from")

Noun: TypeAlias = Literal["CHANNEL", "NAMELIST", "PROCESS", "AUTHINFO", "LISTENER", "SERVICE"]
"""The MQSC word for each kind."""


class DefinedObject(Struct, frozen=True):
    """One channel, namelist, process, authentication information object, listener or service."""

    noun: Noun
    #: The values of all stored attributes by field name, including the name and the type of the object.
    values: Mapping[str, Any]  # Any: the table of attributes gives each value its type

    @property
    def name(self) -> str:
        """The object's name."""
        return str(self.values["name"])

    @property
    def kind(self) -> int:
        """CHLTYPE or AUTHTYPE as a number; 0 for a kind of object that has one type only."""
        return int(self.values.get("kind", 0))

    @property
    def is_client(self) -> bool:
        """True if the object is a client-connection channel."""
        return self.noun == "CHANNEL" and self.kind == ChannelType.CLNTCONN

    @property
    def key(self) -> str:
        """The key of the object: unique among the objects of its kind."""
        return key_of(self.name, client=self.is_client)

    @property
    def attributes(self) -> tuple[ObjectAttribute, ...]:
        """The attributes that an object of this kind and type has."""
        return DEFINED_KINDS[self.noun].applicable(self.kind)

    @property
    def row(self) -> Mapping[str, Any]:
        """All attribute values by field name, as DISPLAY and PCF show them. Each list has its number of entries beside it."""
        counts = {spec.field: len(self.values[spec.counts]) for spec in self.attributes if spec.counts}
        return {**self.values, **counts}

    @property
    def fields(self) -> Mapping[str, Any]:
        """The form in which the store holds the object. `object_from` reads this form."""
        return {"type": self.noun.lower(), **self.values}


class DefinedKind(Struct, frozen=True):
    """One kind of object: its words, its attributes and its default objects."""

    noun: Noun
    #: The word for the kind in PCF names, for example AUTH_INFO in MQCMD_CHANGE_AUTH_INFO.
    pcf_word: str
    specs: tuple[ObjectAttribute, ...]
    #: For each type, the name of the default object, whose values DEFINE copies. A kind without types has only the key 0.
    defaults: Mapping[int, str]
    #: The first line of the DISPLAY output of an object.
    heading: str
    #: The number that selects all types in a PCF inquiry: MQCHT_ALL, MQAIT_ALL.
    any_type: int = 0

    @property
    def type_spec(self) -> ObjectAttribute | None:
        """The attribute that sets the type (CHLTYPE, AUTHTYPE), or None. DEFINE must set the type; ALTER cannot change it."""
        return next((spec for spec in self.specs if spec.field == "kind"), None)

    @property
    def name_spec(self) -> ObjectAttribute:
        """The attribute that sets the name."""
        return next(spec for spec in self.specs if spec.field == "name")

    def applicable(self, kind: int) -> tuple[ObjectAttribute, ...]:
        """Return the attributes of an object of type `kind`."""
        return tuple(spec for spec in self.specs if not spec.kinds or kind in spec.kinds)


DEFINED_KINDS: Final[Mapping[Noun, DefinedKind]] = {
    kind.noun: kind
    for kind in (
        DefinedKind(
            "CHANNEL",
            "CHANNEL",
            CHANNEL_ATTRIBUTES,
            {kind: f"SYSTEM.DEF.{kind.name}" for kind in ChannelType},
            "AMQ8414: Channel details.",
            any_type=5,
        ),
        DefinedKind("NAMELIST", "NAMELIST", NAMELIST_ATTRIBUTES, {0: "SYSTEM.DEFAULT.NAMELIST"}, "AMQ8550: Namelist details."),
        DefinedKind("PROCESS", "PROCESS", PROCESS_ATTRIBUTES, {0: "SYSTEM.DEFAULT.PROCESS"}, "AMQ8407: Process details."),
        DefinedKind(
            "AUTHINFO",
            "AUTH_INFO",
            AUTHENTICATION_ATTRIBUTES,
            {
                1: "SYSTEM.DEFAULT.AUTHINFO.CRLLDAP",
                2: "SYSTEM.DEFAULT.AUTHINFO.OCSP",
                3: "SYSTEM.DEFAULT.AUTHINFO.IDPWOS",
                4: "SYSTEM.DEFAULT.AUTHINFO.IDPWLDAP",
            },
            "AMQ8566: Authentication information details.",
        ),
        DefinedKind(
            "LISTENER", "LISTENER", LISTENER_ATTRIBUTES, {0: "SYSTEM.DEFAULT.LISTENER.TCP"}, "AMQ8630: Listener details."
        ),
        DefinedKind("SERVICE", "SERVICE", SERVICE_ATTRIBUTES, {0: "SYSTEM.DEFAULT.SERVICE"}, "AMQ8629: Service details."),
    )
}
_BY_WORD: Final = {kind.noun.lower(): kind for kind in DEFINED_KINDS.values()}
# Any: `tuple[str, ...]` is not a class.
_TYPES: Final[Mapping[type, Any]] = {bool: bool, int: int, str: str, tuple: tuple[str, ...]}


def defined_object(noun: Noun, values: Mapping[str, object]) -> DefinedObject:
    """Return an object with these values. Other attributes get their defaults, and unknown fields are ignored.

    Raises `msgspec.ValidationError` for a value of the wrong type.
    """
    specs = (spec for spec in DEFINED_KINDS[noun].specs if not spec.counts)
    return DefinedObject(noun, {spec.field: _typed(spec, values.get(spec.field, spec.default)) for spec in specs})


def object_from(fields: Mapping[str, Any]) -> DefinedObject:
    """Return the object with these `DefinedObject.fields`. Raises `msgspec.ValidationError` if no object can have them."""
    kind = _BY_WORD.get(fields.get("type", ""))
    if kind is None or "name" not in fields:
        raise ValidationError(f"An object of type {fields.get('type')!r} is not known")
    return defined_object(kind.noun, fields)


def key_of(name: str, *, client: bool) -> str:
    """Return the key of an object: unique among the objects of its kind.

    A client-connection channel and a SVRCONN can have the same name, so their keys differ. The key of a client-connection
    channel has a blank, which no name has.
    """
    return f"{name} CLNTCONN" if client else name


def _typed(spec: ObjectAttribute, value: object) -> object:
    try:
        return convert(value, _TYPES[type(spec.default)], strict=False)
    except ValidationError as error:
        raise ValidationError(f"{error} - at `$.{spec.field}`") from None
