"""The kinds of object that are only defined and shown, and the one record that holds an object of any of these kinds.

MQSC, PCF, the wire and the store all read the table here, so a new kind needs one row. If a kind gets behaviour (a listener
that listens, a channel that runs), its row stays. The behaviour belongs in a module of its own, which
`administration.objects` calls when it keeps or deletes an object. This module knows no queue manager.
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
    #: Every stored attribute by its field, including the name and the type.
    values: Mapping[str, Any]  # Any: each field has the type that its row of the table names

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
        """Whether the object is a client-connection channel."""
        return self.noun == "CHANNEL" and self.kind == ChannelType.CLNTCONN

    @property
    def key(self) -> str:
        """The key of the object among the objects of its kind."""
        return key_of(self.name, client=self.is_client)

    @property
    def attributes(self) -> tuple[ObjectAttribute, ...]:
        """The rows of the attributes that an object of this kind and type has."""
        return DEFINED_KINDS[self.noun].applicable(self.kind)

    @property
    def row(self) -> Mapping[str, Any]:
        """Every attribute by its field, including the number of entries of each list. DISPLAY and PCF show these values."""
        counts = {spec.field: len(self.values[spec.counts]) for spec in self.attributes if spec.counts}
        return {**self.values, **counts}

    @property
    def fields(self) -> Mapping[str, Any]:
        """The object in the form that the store holds; `object_from` reads this form."""
        return {"type": self.noun.lower(), **self.values}


class DefinedKind(Struct, frozen=True):
    """One kind of object: its words, its attributes and its default objects."""

    noun: Noun
    #: The word for the kind in names of PCF, for example in MQCMD_CHANGE_AUTH_INFO.
    pcf_word: str
    specs: tuple[ObjectAttribute, ...]
    #: For each type, the name of the object from which DEFINE takes defaults. A kind with one type only has the key 0.
    defaults: Mapping[int, str]
    #: The line with which DISPLAY shows an object.
    heading: str
    #: The number that asks PCF for objects of any type: MQCHT_ALL, MQAIT_ALL.
    any_type: int = 0

    @property
    def type_spec(self) -> ObjectAttribute | None:
        """The attribute that is the type (CHLTYPE, AUTHTYPE), or None. DEFINE must set the type, and ALTER cannot change it."""
        return next((spec for spec in self.specs if spec.field == "kind"), None)

    @property
    def name_spec(self) -> ObjectAttribute:
        """The attribute that is the name."""
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
# Any: `tuple[str, ...]` is no class.
_TYPES: Final[Mapping[type, Any]] = {bool: bool, int: int, str: str, tuple: tuple[str, ...]}


def defined_object(noun: Noun, values: Mapping[str, object]) -> DefinedObject:
    """Return an object with these values, and with the default of every other attribute. Unknown fields are left out.

    Raises `msgspec.ValidationError` for a value of another type than its attribute has.
    """
    specs = (spec for spec in DEFINED_KINDS[noun].specs if not spec.counts)
    return DefinedObject(noun, {spec.field: _typed(spec, values.get(spec.field, spec.default)) for spec in specs})


def object_from(fields: Mapping[str, Any]) -> DefinedObject:
    """Return the object of these `DefinedObject.fields`. Raises `msgspec.ValidationError` if the fields describe no object."""
    kind = _BY_WORD.get(fields.get("type", ""))
    if kind is None or "name" not in fields:
        raise ValidationError(f"An object of type {fields.get('type')!r} is not known")
    return defined_object(kind.noun, fields)


def key_of(name: str, *, client: bool) -> str:
    """Return the key of an object among the objects of its kind.

    The key of a client-connection channel differs from the name, so a SVRCONN can have the same name. The key has a blank,
    which no name has.
    """
    return f"{name} CLNTCONN" if client else name


def _typed(spec: ObjectAttribute, value: object) -> object:
    try:
        return convert(value, _TYPES[type(spec.default)], strict=False)
    except ValidationError as error:
        raise ValidationError(f"{error} - at `$.{spec.field}`") from None
