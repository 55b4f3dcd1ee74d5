"""The administration of objects over a socket: the records sent, and both ends. Knows no rule."""

from collections.abc import Mapping
from typing import Any, Protocol, assert_never

from msgspec import Struct

from mqflow.embedded.administration.interface import ConnectionStatus, ObjectAdministration
from mqflow.embedded.catalogue.kinds import DefinedObject, Noun

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

    attributes: DefinedObject
    replace: bool


class AlterObject(Struct, frozen=True, tag=True):
    """`ObjectAdministration.alter`."""

    noun: Noun
    name: str
    changes: Mapping[str, Any]
    client: bool


class DeleteObject(Struct, frozen=True, tag=True):
    """`ObjectAdministration.delete`."""

    noun: Noun
    name: str
    client: bool


ObjectQuestion = ReadObjects | ReadConnections
ObjectOrder = DefineObject | AlterObject | DeleteObject


class _Call(Protocol):
    """Sends a request and returns what was answered, or raises the error that was."""

    def __call__(
        self, request: ObjectQuestion | ObjectOrder, verb: str, object_name: str = "", *, unknown: bool = False
    ) -> Any:
        """`unknown`: where the answer is lost, the request may have taken effect for good."""
        ...


class ServedObjects:
    """Offers `ObjectAdministration` from another process."""

    def __init__(self, call: _Call) -> None:
        self._call = call

    def all(self, noun: Noun) -> tuple[DefinedObject, ...]:
        """All objects of a kind, by name."""
        answer: tuple[DefinedObject, ...] = self._call(ReadObjects(noun), f"DISPLAY {noun}")
        return answer

    def define(self, attributes: DefinedObject, *, replace: bool = False) -> None:
        """Define an object."""
        self._call(DefineObject(attributes, replace), "DEFINE", attributes.name, unknown=True)

    def alter(self, noun: Noun, name: str, changes: Mapping[str, object], *, client: bool = False) -> None:
        """Change fields of an object."""
        self._call(AlterObject(noun, name, changes, client), f"ALTER {noun}", name, unknown=True)

    def delete(self, noun: Noun, name: str, *, client: bool = False) -> None:
        """Delete an object."""
        self._call(DeleteObject(noun, name, client), f"DELETE {noun}", name, unknown=True)

    def connections(self) -> tuple[ConnectionStatus, ...]:
        """Who is connected."""
        answer: tuple[ConnectionStatus, ...] = self._call(ReadConnections(), "DISPLAY CONN")
        return answer


def ask_objects(objects: ObjectAdministration, request: ObjectQuestion) -> object:
    """Return the answer to what another process asks."""
    match request:
        case ReadObjects(noun):
            return objects.all(noun)
        case ReadConnections():
            return objects.connections()
        case _:
            assert_never(request)


def order_objects(objects: ObjectAdministration, request: ObjectOrder) -> None:
    """Do what another process orders."""
    match request:
        case DefineObject(attributes, replace):
            objects.define(attributes, replace=replace)
        case AlterObject(noun, name, changes, client):
            objects.alter(noun, name, changes, client=client)
        case DeleteObject(noun, name, client):
            objects.delete(noun, name, client=client)
        case _:
            assert_never(request)
