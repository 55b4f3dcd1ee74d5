"""Channels, namelists, processes, authentication information, listeners and services: defined, altered, deleted, and shown.

Offers `ObjectAdministration`. A change holds in memory at once and is durable when the call returns; one the store refuses is
taken back. Definitions only: nothing here starts, listens or connects.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import ValidationError, convert
from msgspec.structs import asdict, replace

from mqflow.embedded.administration.command import carry_out
from mqflow.embedded.administration.interface import ConnectionHandle, ConnectionStatus
from mqflow.embedded.calls.authority_records import end_authorities
from mqflow.embedded.calls.object_records import define_object, records
from mqflow.embedded.calls.pending import Pending
from mqflow.embedded.catalogue.kinds import DEFINED_KINDS, DefinedObject, Noun, defined_kind, is_client, key_of
from mqflow.embedded.rules.attribute_values import accepted, accepts
from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.objects import ConnectionState
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.embedded.state.stored_objects import deleted
from mqflow.mqi.authorities import Kind
from mqflow.mqi.names import is_object_name
from mqflow.mqi.reason_codes import Reason

__all__ = ("ObjectDefinitions",)


class ObjectDefinitions:
    """`ObjectAdministration` of one queue manager."""

    def __init__(self, state: QueueManagerState) -> None:
        self._state = state

    def all(self, noun: Noun) -> tuple[DefinedObject, ...]:
        """All objects of a kind, by name."""
        with self._state.lock:
            return tuple(found for _, found in sorted(records(self._state, DEFINED_KINDS[noun].record).items()))

    def define(self, attributes: DefinedObject, *, replace: bool = False) -> None:
        """Define an object; 2100 where the name is taken, unless `replace` and the type is the same."""
        noun = defined_kind(attributes).noun
        carry_out(self._state, f"DEFINE {noun}", attributes.name, lambda: self._define(attributes, replacing=replace))

    def alter(self, noun: Noun, name: str, changes: Mapping[str, object], *, client: bool = False) -> None:
        """Change fields of an object; 2085 where there is none. `client`: a client-connection channel."""
        carry_out(self._state, f"ALTER {noun}", name, lambda: self._alter(self._known(noun, name, client=client), changes))

    def delete(self, noun: Noun, name: str, *, client: bool = False) -> None:
        """Delete an object and the authority records of exactly its name; 2085 where there is none."""

        def begin() -> Pending[None]:
            found = self._known(noun, name, client=client)
            return self._delete(key_of(name, client=client), found, Kind.CLNTCONN if client else Kind(noun))

        carry_out(self._state, f"DELETE {noun}", name, begin)

    def connections(self) -> tuple[ConnectionStatus, ...]:
        """Who is connected, in order of identifier; the queue manager's own command server among them."""
        with self._state.lock:
            users = dict.fromkeys(self._state.connections, False)
            own = dict.fromkeys(self._state.system_connections, True)
            found = [_status(connection, system=system) for connection, system in (users | own).items()]
        return tuple(sorted(found, key=lambda status: status.identifier))

    def _known(self, noun: Noun, name: str, *, client: bool) -> DefinedObject:
        found = records(self._state, DEFINED_KINDS[noun].record).get(key_of(name, client=client))
        if found is None:
            raise Refusal(Reason.UNKNOWN_OBJECT_NAME)
        return found

    def _define(self, attributes: DefinedObject, *, replacing: bool) -> Pending[None]:
        kind = defined_kind(attributes)
        if not is_object_name(attributes.name) or len(attributes.name) > kind.name_chars_max:
            raise Refusal(Reason.OBJECT_NAME_ERROR, f"{attributes.name!r} is no name of up to {kind.name_chars_max} characters")
        key = key_of(attributes.name, client=is_client(attributes))
        known = records(self._state, kind.record).get(key)
        if known is not None:
            if not replacing:
                raise Refusal(Reason.OBJECT_ALREADY_EXISTS)
            if getattr(known, "kind", 0) != getattr(attributes, "kind", 0):
                raise Refusal(Reason.OBJECT_TYPE_ERROR, "It is there already, with another type")
        return self._keep(key, _changed(attributes, asdict(attributes)))

    def _alter(self, known: DefinedObject, changes: Mapping[str, object]) -> Pending[None]:
        if "name" in changes or changes.get("kind", getattr(known, "kind", 0)) != getattr(known, "kind", 0):
            raise Refusal(Reason.OBJECT_TYPE_ERROR, "Name and type of an object cannot be altered")
        has = {spec.field for spec in defined_kind(known).applicable(getattr(known, "kind", 0))}
        strangers = [spec.keyword for spec in defined_kind(known).specs if spec.field in changes and spec.field not in has]
        if strangers:
            raise Refusal(Reason.SELECTOR_ERROR, f"{', '.join(strangers)}: not an attribute of its type")
        return self._keep(key_of(known.name, client=is_client(known)), _changed(known, changes))

    def _delete(self, key: str, found: DefinedObject, kind: Kind) -> Pending[None]:
        state, kept = self._state, records(self._state, type(found))
        ended, restore = end_authorities(state, kind, found.name)
        del kept[key]

        def undo() -> None:
            kept[key] = found
            restore()

        return Pending(None, changes=(deleted(key, type(found)), *ended), undo=(undo,))

    def _keep(self, key: str, attributes: DefinedObject) -> Pending[None]:
        date, time = self._state.now_as_text()
        return define_object(self._state, key, replace(attributes, alteration_date=date, alteration_time=time))


def _status(connection: ConnectionState, *, system: bool) -> ConnectionStatus:
    handles = [
        ConnectionHandle(name=handle.name, object_type=int(handle.object_type), options=int(handle.options))
        for handle in connection.handles
    ]
    return ConnectionStatus(
        identifier=connection.identifier,
        application=connection.application_name,
        user=connection.user,
        system=system,
        operations=connection.unit_of_work.operations,
        handles=tuple(sorted(handles, key=lambda handle: handle.name)),
    )


def _changed(record: DefinedObject, changes: Mapping[str, object]) -> DefinedObject:
    kind = defined_kind(record)
    unknown = set(changes) - set(record.__struct_fields__)
    if unknown:
        raise Refusal(Reason.SELECTOR_ERROR, f"There is no attribute {', '.join(sorted(unknown))}")
    try:
        changed: Any = convert({**asdict(record), **changes}, type(record), strict=False)
    except ValidationError as error:
        raise Refusal(Reason.ITEM_VALUE_ERROR, str(error)) from error
    for spec in kind.applicable(getattr(changed, "kind", 0)):
        if spec.field in changes and not spec.read_only and not accepts(spec, getattr(changed, spec.field)):
            raise Refusal(Reason.ITEM_VALUE_ERROR, f"{changes[spec.field]!r} for {spec.keyword}; {accepted(spec)}")
    result: DefinedObject = changed
    return result
