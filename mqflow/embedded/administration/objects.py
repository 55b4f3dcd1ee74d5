"""The administration of channels, namelists, processes, authentication information, listeners and services.

This file starts nothing: `channels` starts and stops listeners.
"""

from collections.abc import Mapping

from msgspec import ValidationError

from mqflow.embedded.administration.interface import ConnectionHandle, ConnectionStatus
from mqflow.embedded.calls.authority_records import delete_with_authorities
from mqflow.embedded.calls.object_records import define_object, defined_objects
from mqflow.embedded.calls.pending_answer import Pending, carry_out
from mqflow.embedded.catalogue.kinds import DEFINED_KINDS, DefinedObject, Noun, defined_object, key_of
from mqflow.embedded.rules.attribute_values import accepted, accepts
from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.objects import ConnectionState
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.mqi.authorities import AuthorityKind
from mqflow.mqi.errors import error_for
from mqflow.mqi.names import is_object_name
from mqflow.mqi.reason_codes import Reason

__all__ = ("ObjectDefinitions",)


class ObjectDefinitions:
    """`ObjectAdministration` of one queue manager."""

    def __init__(self, state: QueueManagerState) -> None:
        self._state = state

    def all(self, noun: Noun) -> tuple[DefinedObject, ...]:
        """Return all objects of a kind, sorted by name."""
        with self._state.lock:
            kept = defined_objects(self._state, noun)
            return tuple(kept[key] for key in sorted(kept))

    def define(self, attributes: DefinedObject, *, replace: bool = False) -> None:
        """Define an object. If the name is taken, raises 2100 without `replace`, and 2043 with `replace` and another type."""
        command = f"DEFINE {attributes.noun}"
        carry_out(self._state, command, attributes.name, lambda: self._define(attributes, replacing=replace))

    def alter(self, noun: Noun, name: str, changes: Mapping[str, object], *, client: bool = False) -> None:
        """Change attributes of an object. Raises 2085 if the object does not exist. Set `client` for a CLNTCONN channel."""
        carry_out(self._state, f"ALTER {noun}", name, lambda: self._alter(self._known(noun, name, client=client), changes))

    def delete(self, noun: Noun, name: str, *, client: bool = False) -> None:
        """Delete an object, and the records whose profile is exactly its name. Raises 2085 if the object does not exist."""

        def begin() -> Pending[None]:
            key = self._known(noun, name, client=client).key
            authorities = AuthorityKind.CLNTCONN if client else AuthorityKind(noun)
            return delete_with_authorities(self._state, key, noun, name, authorities)

        carry_out(self._state, f"DELETE {noun}", name, begin)

    def connections(self) -> tuple[ConnectionStatus, ...]:
        """Return the connections, including that of the command server, sorted by identifier."""
        with self._state.lock:
            users = dict.fromkeys(self._state.connections, False)
            own = dict.fromkeys(self._state.system_connections, True)
            found = [_status(connection, system=system) for connection, system in (users | own).items()]
        return tuple(sorted(found, key=lambda status: status.identifier))

    def stop_connection(self, identifier: str) -> None:
        """End a connection and back out its unit of work. Raises 3174 if there is no such connection.

        The next call of the application on this connection raises 2009. UNCERTAIN: IBM's page of STOP CONN names no reason code
        for the next call of the application.
        """
        from mqflow.mqi.pcf.codes import PCFReason  # noqa: PLC0415 - applications that stop no connection do not need PCF

        with self._state.lock:
            found = next((each for each in self._state.connections if each.identifier == identifier), None)
            if found is None:
                detail = "DISPLAY CONN(*) shows the identifiers; the command server's own connection cannot be stopped"
                raise error_for(PCFReason.CONNECTION_ID_ERROR, "STOP CONN", identifier, self._state.name, detail)
            found.end(Reason.CONNECTION_BROKEN)

    def _known(self, noun: Noun, name: str, *, client: bool) -> DefinedObject:
        found = defined_objects(self._state, noun).get(key_of(name, client=client))
        if found is None:
            raise Refusal(Reason.UNKNOWN_OBJECT_NAME)
        return found

    def _define(self, attributes: DefinedObject, *, replacing: bool) -> Pending[None]:
        chars_max = DEFINED_KINDS[attributes.noun].name_spec.chars
        if not is_object_name(attributes.name) or len(attributes.name) > chars_max:
            raise Refusal(Reason.OBJECT_NAME_ERROR, f"{attributes.name!r} is not a name of up to {chars_max} characters")
        known = defined_objects(self._state, attributes.noun).get(attributes.key)
        if known is not None:
            if not replacing:
                raise Refusal(Reason.OBJECT_ALREADY_EXISTS)
            if known.kind != attributes.kind:
                raise Refusal(Reason.OBJECT_TYPE_ERROR, "An object of that name has another type")
        return self._keep(_changed(attributes, attributes.values))

    def _alter(self, known: DefinedObject, changes: Mapping[str, object]) -> Pending[None]:
        if "name" in changes or changes.get("kind", known.kind) != known.kind:
            raise Refusal(Reason.OBJECT_TYPE_ERROR, "Name and type of an object cannot be altered")
        has = {spec.field for spec in known.attributes}
        strangers = [
            spec.keyword for spec in DEFINED_KINDS[known.noun].specs if spec.field in changes and spec.field not in has
        ]
        if strangers:
            raise Refusal(Reason.SELECTOR_ERROR, f"{', '.join(strangers)}: not an attribute of its type")
        return self._keep(_changed(known, changes))

    def _keep(self, attributes: DefinedObject) -> Pending[None]:
        date, time = self._state.now_as_text()
        dated = defined_object(attributes.noun, {**attributes.values, "alteration_date": date, "alteration_time": time})
        return define_object(self._state, dated.key, dated)


def _status(connection: ConnectionState, *, system: bool) -> ConnectionStatus:
    handles = [
        ConnectionHandle(name=handle.name, object_type=int(handle.object_type), options=int(handle.options))
        for handle in connection.handles
    ]
    return ConnectionStatus(
        identifier=connection.identifier,
        application=connection.application_name,
        user=connection.user,
        channel=connection.channel,
        address=connection.address,
        process=connection.process,
        system=system,
        operations=connection.unit_of_work.operations,
        handles=tuple(sorted(handles, key=lambda handle: handle.name)),
    )


def _changed(known: DefinedObject, changes: Mapping[str, object]) -> DefinedObject:
    unknown = set(changes) - set(known.values)
    if unknown:
        raise Refusal(Reason.SELECTOR_ERROR, f"There is no attribute {', '.join(sorted(unknown))}")
    try:
        changed = defined_object(known.noun, {**known.values, **changes})
    except ValidationError as error:
        raise Refusal(Reason.ITEM_VALUE_ERROR, str(error)) from error
    for spec in changed.attributes:
        if spec.field in changes and not spec.read_only and not accepts(spec, changed.values[spec.field]):
            raise Refusal(Reason.ITEM_VALUE_ERROR, f"{changes[spec.field]!r} for {spec.keyword}; {accepted(spec)}")
    return changed
