"""The administration of objects over a socket: the requests, and both ends. This module knows no rule."""

from collections.abc import Mapping
from typing import Any, Protocol, assert_never

from msgspec import Struct, ValidationError

from mqflow.embedded.administration.interface import ConnectionStatus, ObjectAdministration
from mqflow.embedded.catalogue.kinds import DefinedObject, Noun, defined_object, object_from
from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason

__all__ = (
    "AlterObject",
    "DefineObject",
    "DeleteObject",
    "ObjectOrder",
    "ObjectQuestion",
    "ReadConnections",
    "ReadObjects",
    "ServedObjects",
    "ask_objects",
    "order_objects",
)


class ReadObjects(Struct, frozen=True, tag=True):
    """`ObjectAdministration.all`."""

    noun: Noun


class ReadConnections(Struct, frozen=True, tag=True):
    """`ObjectAdministration.connections`."""


class DefineObject(Struct, frozen=True, tag=True):
    """`ObjectAdministration.define`."""

    #: `DefinedObject.fields`.
    attributes: Mapping[str, Any]  # Any: the table of the kind gives each field's type
    replace: bool


class AlterObject(Struct, frozen=True, tag=True):
    """`ObjectAdministration.alter`."""

    noun: Noun
    name: str
    changes: Mapping[str, Any]  # Any: the table of the kind gives each field's type
    client: bool


class DeleteObject(Struct, frozen=True, tag=True):
    """`ObjectAdministration.delete`."""

    noun: Noun
    name: str
    client: bool


ObjectQuestion = ReadObjects | ReadConnections
ObjectOrder = DefineObject | AlterObject | DeleteObject


class _Call(Protocol):
    """Sends a request, and returns the answer or raises the error in the reply."""

    # Any: the answer has the type that `requests` decodes for the request.
    def __call__(
        self, request: ObjectQuestion | ObjectOrder, verb: str, object_name: str = "", *, unknown: bool = False
    ) -> Any:
        """Send the request. With `unknown`, a lost answer raises 2549: nobody knows whether the request took effect."""
        ...


class ServedObjects:
    """Offers `ObjectAdministration` from another process."""

    def __init__(self, call: _Call) -> None:
        self._call = call

    def all(self, noun: Noun) -> tuple[DefinedObject, ...]:
        """Return all objects of a kind, by name."""
        return tuple(defined_object(noun, fields) for fields in self._call(ReadObjects(noun), f"DISPLAY {noun}"))

    def define(self, attributes: DefinedObject, *, replace: bool = False) -> None:
        """Define an object."""
        self._call(DefineObject(attributes.fields, replace), "DEFINE", attributes.name, unknown=True)

    def alter(self, noun: Noun, name: str, changes: Mapping[str, object], *, client: bool = False) -> None:
        """Change fields of an object."""
        self._call(AlterObject(noun, name, changes, client), f"ALTER {noun}", name, unknown=True)

    def delete(self, noun: Noun, name: str, *, client: bool = False) -> None:
        """Delete an object."""
        self._call(DeleteObject(noun, name, client), f"DELETE {noun}", name, unknown=True)

    def connections(self) -> tuple[ConnectionStatus, ...]:
        """Return the connections, in order of identifier."""
        answer: tuple[ConnectionStatus, ...] = self._call(ReadConnections(), "DISPLAY CONN")
        return answer


def ask_objects(objects: ObjectAdministration, request: ObjectQuestion) -> object:
    """Return the answer to a question of another process."""
    match request:
        case ReadObjects(noun):
            return tuple(found.fields for found in objects.all(noun))
        case ReadConnections():
            return objects.connections()
        case _:
            assert_never(request)


def order_objects(objects: ObjectAdministration, request: ObjectOrder) -> None:
    """Carry out an order of another process. Raises `MQIError` 2319 for fields that make no valid object."""
    match request:
        case DefineObject(fields, replace):
            try:
                attributes = object_from(fields)
            except ValidationError as error:
                raise error_for(Reason.ITEM_VALUE_ERROR, "DEFINE", str(fields.get("name", "")), detail=str(error)) from None
            objects.define(attributes, replace=replace)
        case AlterObject(noun, name, changes, client):
            objects.alter(noun, name, changes, client=client)
        case DeleteObject(noun, name, client):
            objects.delete(noun, name, client=client)
        case _:
            assert_never(request)
