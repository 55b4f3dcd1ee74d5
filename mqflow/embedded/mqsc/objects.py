"""DEFINE, ALTER, DELETE and DISPLAY of channels, namelists, processes, AUTHINFO, listeners and services.

One code path serves all kinds of object in `catalogue.kinds`. This module knows the words of the commands. The queue manager
knows the rules.
Source: IBM, DEFINE, ALTER, DELETE, DISPLAY CHANNEL, NAMELIST, PROCESS, AUTHINFO, LISTENER, SERVICE; DISPLAY CHSTATUS.
"""

from collections.abc import Mapping
from typing import Final, assert_never

from mqflow.embedded.administration.interface import ObjectAdministration
from mqflow.embedded.catalogue.kinds import DEFINED_KINDS, DefinedKind, DefinedObject, Noun, defined_object
from mqflow.embedded.catalogue.system_objects import default_object
from mqflow.embedded.mqsc.clauses import Clause, Parameters, bare, choice, name_of
from mqflow.embedded.mqsc.commands import (
    AlterObjectCommand,
    DefineObjectCommand,
    DeleteObjectCommand,
    DisplayChannelStatus,
    DisplayObjects,
    ObjectAct,
    Value,
)
from mqflow.embedded.mqsc.display import Record, laid_out, matches
from mqflow.embedded.mqsc.lexer import RefusedError
from mqflow.embedded.mqsc.vocabulary import Attributes, keyword_table
from mqflow.mqi.attributes.channel import ChannelType
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.pcf.codes import PCFReason
from mqflow.mqi.reason_codes import Reason

__all__ = (
    "DEFINING_OBJECTS",
    "DELETING_OBJECTS",
    "OBJECTS",
    "build_alter_object",
    "build_define_object",
    "build_delete_object",
    "change_objects",
    "find_objects",
    "kind_asked_for",
    "no_channel_status",
    "show_objects",
)

DEFINING_OBJECTS: Final = {"REPLACE": "REPLACE", "NOREPLACE": "REPLACE", "LIKE": "LIKE"}
DELETING_OBJECTS: Final = {"CHLTABLE": "CHLTABLE", "IGNSTATE": "IGNSTATE"}
OBJECTS: Final[Mapping[Noun, Attributes]] = {noun: keyword_table(kind.specs) for noun, kind in DEFINED_KINDS.items()}


def build_define_object(noun: Noun, subject: Clause, parameters: Parameters) -> DefineObjectCommand:
    """Return the action of a DEFINE command."""
    options, kind = parameters.options, DEFINED_KINDS[noun]
    for word in options.keys() - {"LIKE"}:
        bare(options[word])
    like = name_of(options["LIKE"]) if "LIKE" in options else ""
    values = parameters.values
    if kind.type_spec is not None and "kind" not in values:
        words = ", ".join(kind.type_spec.words or ())
        raise RefusedError(subject.keyword, f"DEFINE {noun} needs {kind.type_spec.keyword}: one of {words}.")
    kind_number = _pop_kind(values)
    strangers = sorted(set(values) - {spec.field for spec in kind.applicable(kind_number)})
    if strangers:
        keywords = ", ".join(spec.keyword for spec in kind.specs if spec.field in strangers)
        raise RefusedError(subject.keyword, f"{keywords}: not an attribute of this type of {noun}.")
    return DefineObjectCommand(noun, _name(kind, subject), values, kind_number, like, "REPLACE" in options)


def build_alter_object(noun: Noun, subject: Clause, parameters: Parameters) -> AlterObjectCommand:
    """Return the action of an ALTER command."""
    return AlterObjectCommand(noun, _name(DEFINED_KINDS[noun], subject), parameters.values, _pop_kind(parameters.values))


def build_delete_object(noun: Noun, subject: Clause, parameters: Parameters) -> DeleteObjectCommand:
    """Return the action of a DELETE command."""
    options = parameters.options
    if "CHLTABLE" in options and noun != "CHANNEL":
        raise RefusedError(options["CHLTABLE"].keyword, "CHLTABLE is for channels.")
    client = choice(options, "CHLTABLE", ("QMGRTBL", "CLNTTAB")) == "CLNTTAB" if "CHLTABLE" in options else None
    ignore_state = choice(options, "IGNSTATE", ("NO", "YES")) == "YES"
    return DeleteObjectCommand(noun, _name(DEFINED_KINDS[noun], subject), client, ignore_state)


def kind_asked_for(noun: Noun, parameters: Parameters) -> int:
    """Return the type that a DISPLAY asks for; 0 for any type."""
    spec = DEFINED_KINDS[noun].type_spec
    if "TYPE" not in parameters.options or spec is None:
        return 0
    words = {"ALL": 0, **(spec.words or {})}
    return words[choice(parameters.options, "TYPE", tuple(words))]


def change_objects(action: ObjectAct, objects: ObjectAdministration) -> str:
    """Carry the action out, and return the sentence that confirms it."""
    what = f"{action.noun}({action.name})"
    match action:
        case DefineObjectCommand():
            objects.define(_defined(action, objects), replace=action.replace)
            return f"{_number(action.noun, 'AMQ8014: ')}{what} is defined."
        case AlterObjectCommand():
            client = action.kind == ChannelType.CLNTCONN if action.kind else _only_client(objects, action.noun, action.name)
            changes = {**action.values, "kind": action.kind} if action.kind else action.values
            objects.alter(action.noun, action.name, changes, client=client)
            return f"{_number(action.noun, 'AMQ8016: ')}{what} is changed."
        case DeleteObjectCommand():
            if action.ignore_state and not any(found.name == action.name for found in objects.all(action.noun)):
                return f"There is no {what} to delete, which is no error with IGNSTATE(YES)."
            client = _only_client(objects, action.noun, action.name) if action.client is None else action.client
            objects.delete(action.noun, action.name, client=client)
            return f"{_number(action.noun, 'AMQ8015: ')}{what} is deleted."
        case unknown:
            assert_never(unknown)


def find_objects(objects: ObjectAdministration, noun: Noun, pattern: str, kind: int = 0) -> list[DefinedObject]:
    """Return the objects whose name matches `pattern` and whose type is `kind`; with 0, of every type."""
    return [found for found in objects.all(noun) if matches(pattern, found.name) and kind in {0, found.kind}]


def show_objects(command: DisplayObjects, objects: ObjectAdministration) -> tuple[Record, ...]:
    """Return the objects whose name, type and attributes the command asks for."""
    kind = DEFINED_KINDS[command.noun]
    always = (kind.name_spec.keyword, *((kind.type_spec.keyword,) if kind.type_spec else ()))
    shown: list[Record] = []
    for found in find_objects(objects, command.noun, command.pattern, command.kind):
        attributes = keyword_table(found.attributes)
        shown += laid_out(kind.heading, [found.row], attributes, always, command.selection)
    return tuple(shown)


def no_channel_status(command: DisplayChannelStatus, queue_manager: str) -> MQIError:
    """Return the error of DISPLAY CHSTATUS: no channel of the embedded queue manager has a status (3065)."""
    detail = "Nothing runs through a channel of the embedded queue manager"
    return error_for(PCFReason.CHL_STATUS_NOT_FOUND, "DISPLAY CHSTATUS", command.pattern, queue_manager, detail)


def _name(kind: DefinedKind, subject: Clause) -> str:
    name = name_of(subject)
    chars_max = kind.name_spec.chars
    if len(name) > chars_max:
        raise RefusedError(subject.keyword, f"'{name}' is longer than the {chars_max} characters of such a name.")
    return name


def _pop_kind(values: dict[str, Value]) -> int:
    kind = values.pop("kind", 0)
    return kind if isinstance(kind, int) else 0


def _defined(action: DefineObjectCommand, objects: ObjectAdministration) -> DefinedObject:
    base = _base(action, objects)
    inherited = {spec.field: base.values[spec.field] for spec in base.attributes if not spec.read_only}
    return defined_object(action.noun, {**inherited, **action.values, "name": action.name, "kind": action.kind})


def _base(action: DefineObjectCommand, objects: ObjectAdministration) -> DefinedObject:
    """Return the object from which a new object takes the values that the DEFINE command does not name."""
    wanted = action.like or DEFINED_KINDS[action.noun].defaults[action.kind]
    for found in find_objects(objects, action.noun, wanted, action.kind):
        return found
    if action.like:
        raise error_for(Reason.UNKNOWN_OBJECT_NAME, f"DEFINE {action.noun} LIKE", wanted)
    return default_object(action.noun, action.kind)


def _only_client(objects: ObjectAdministration, noun: Noun, name: str) -> bool:
    """Return whether the only channel of that name is a client-connection channel."""
    found = [each.is_client for each in objects.all(noun) if each.name == name]
    return bool(found) and all(found)


def _number(noun: Noun, number: str) -> str:
    return number if noun == "CHANNEL" else ""
