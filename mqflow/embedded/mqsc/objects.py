"""DEFINE, ALTER, DELETE and DISPLAY of channels, namelists, processes, AUTHINFO, listeners and services.

One code path serves all kinds of object in `catalogue.kinds`. This module knows the words of the commands; the queue manager
knows the rules.
Source: IBM, DEFINE, ALTER, DELETE, DISPLAY CHANNEL, NAMELIST, PROCESS, AUTHINFO, LISTENER, SERVICE.
"""

from collections.abc import Collection

from mqflow.embedded.administration.interface import Administration, ObjectAdministration
from mqflow.embedded.catalogue.kinds import DefinedKind, DefinedObject, Noun, defined_object
from mqflow.embedded.catalogue.system_objects import default_object
from mqflow.embedded.mqsc.commands import AlterCommand, DefineCommand, DeleteCommand, DisplayCommand
from mqflow.embedded.mqsc.display import Record, laid_out, matches
from mqflow.embedded.mqsc.vocabulary import OBJECT_KINDS, keyword_table
from mqflow.mqi.attributes.channel import ChannelType
from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason

__all__ = ("alter_object", "define_object", "delete_object", "find_objects", "object_names", "show_objects")


def object_names(action: DeleteCommand, administration: Administration) -> Collection[str]:
    """Return the names of all objects of the kind that the noun and CHLTABLE name."""
    found = administration.objects.all(OBJECT_KINDS[action.noun].noun)
    return {each.name for each in found if action.client in {None, each.is_client}}


def define_object(action: DefineCommand, administration: Administration) -> None:
    """Carry out DEFINE CHANNEL, NAMELIST, PROCESS ..."""
    kind, objects = OBJECT_KINDS[action.noun], administration.objects
    base = _base(kind, action, objects)
    inherited = {spec.field: base.values[spec.field] for spec in base.attributes if not spec.read_only}
    values = {**inherited, **action.values, "name": action.name, "kind": action.kind}
    objects.define(defined_object(kind.noun, values), replace=action.replace)


def alter_object(action: AlterCommand, administration: Administration) -> None:
    """Carry out ALTER CHANNEL, NAMELIST, PROCESS ..."""
    noun, objects = OBJECT_KINDS[action.noun].noun, administration.objects
    client = action.kind == ChannelType.CLNTCONN if action.kind else _only_client(objects, noun, action.name)
    changes = {**action.values, "kind": action.kind} if action.kind else action.values
    objects.alter(noun, action.name, changes, client=client)


def delete_object(action: DeleteCommand, administration: Administration) -> None:
    """Carry out DELETE CHANNEL, NAMELIST, PROCESS ..."""
    noun, objects = OBJECT_KINDS[action.noun].noun, administration.objects
    client = _only_client(objects, noun, action.name) if action.client is None else action.client
    objects.delete(noun, action.name, client=client)


def find_objects(objects: ObjectAdministration, noun: Noun, pattern: str, kind: int = 0) -> list[DefinedObject]:
    """Return the objects whose name matches `pattern` and whose type is `kind`; 0 matches every type."""
    return [found for found in objects.all(noun) if matches(pattern, found.name) and kind in {0, found.kind}]


def show_objects(command: DisplayCommand, administration: Administration) -> tuple[Record, ...]:
    """Return a record with the attributes to show, for each object with the requested name and type."""
    kind = OBJECT_KINDS[command.noun]
    always = (kind.name_spec.keyword, *((kind.type_spec.keyword,) if kind.type_spec else ()))
    shown: list[Record] = []
    for found in find_objects(administration.objects, kind.noun, command.pattern, command.kind):
        shown += laid_out(kind.heading, [found.row], keyword_table(found.attributes), always, command.selection)
    return tuple(shown)


def _base(kind: DefinedKind, action: DefineCommand, objects: ObjectAdministration) -> DefinedObject:
    """Return the object that provides the values missing in a DEFINE command."""
    wanted = action.like or kind.defaults[action.kind]
    for found in find_objects(objects, kind.noun, wanted, action.kind):
        return found
    if action.like:
        detail = f"There is no {action.noun} of this name and type"
        raise error_for(Reason.UNKNOWN_OBJECT_NAME, f"DEFINE {action.noun} LIKE", wanted, detail=detail)
    return default_object(kind.noun, action.kind)


def _only_client(objects: ObjectAdministration, noun: Noun, name: str) -> bool:
    """Return whether all channels of that name are client-connection channels; False if no channel has the name."""
    found = [each.is_client for each in objects.all(noun) if each.name == name]
    return bool(found) and all(found)
