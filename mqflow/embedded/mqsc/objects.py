"""Channels, namelists, processes, AUTHINFO, listeners, services and connections: understood, carried out, shown.

One form for all kinds of object, by `defined_kinds`. Knows the words of these commands; the rules are the queue manager's.
Source: IBM, DEFINE, ALTER, DELETE, DISPLAY CHANNEL, NAMELIST, PROCESS, AUTHINFO, LISTENER, SERVICE; DISPLAY CONN, CHSTATUS.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, assert_never

from msgspec import convert
from msgspec.structs import asdict

from mqflow.embedded.administration.interface import ConnectionStatus, ObjectAdministration
from mqflow.embedded.catalogue.kinds import DEFINED_KINDS, DefinedKind, DefinedObject, Noun, is_client
from mqflow.embedded.catalogue.system_objects import default_object
from mqflow.embedded.mqsc.clauses import Clause, Parameters, bare, choice, name_of
from mqflow.embedded.mqsc.commands import (
    AlterObject,
    DefineObject,
    DeleteObject,
    DisplayChannelStatus,
    DisplayConnections,
    DisplayObjects,
    ObjectAct,
    ObjectDisplay,
    Value,
)
from mqflow.embedded.mqsc.display import Record, laid_out, matches
from mqflow.embedded.mqsc.lexer import RefusedError
from mqflow.embedded.mqsc.vocabulary import Attributes, keyword_table
from mqflow.mqi.attributes.channel import ChannelType
from mqflow.mqi.attributes.queue import AttributeSpec
from mqflow.mqi.errors import error_for
from mqflow.mqi.options import ApplicationType
from mqflow.mqi.pcf.codes import PCFReason
from mqflow.mqi.reason_codes import Reason

__all__ = (
    "CONNECTION",
    "CONNECTION_HANDLE",
    "DEFINING_OBJECTS",
    "DELETING_OBJECTS",
    "OBJECTS",
    "build_alter_object",
    "build_define_object",
    "build_delete_object",
    "change_objects",
    "connection_rows",
    "find_objects",
    "kind_asked_for",
    "object_row",
    "show",
)

DEFINING_OBJECTS: Final = {"REPLACE": "REPLACE", "NOREPLACE": "REPLACE", "LIKE": "LIKE"}
DELETING_OBJECTS: Final = {"CHLTABLE": "CHLTABLE", "IGNSTATE": "IGNSTATE"}
OBJECTS: Final[Mapping[Noun, Attributes]] = {noun: keyword_table(kind.specs) for noun, kind in DEFINED_KINDS.items()}

_HEADINGS: Final[Mapping[Noun, str]] = {
    "CHANNEL": "AMQ8414: Channel details.",
    "NAMELIST": "AMQ8550: Namelist details.",
    "PROCESS": "AMQ8407: Process details.",
    "AUTHINFO": "AMQ8566: Authentication information details.",
    "LISTENER": "AMQ8630: Listener details.",
    "SERVICE": "AMQ8629: Service details.",
}
_USER: Final = 25
"""MQAT_USER; and MQAT_QMGR is called SYSTEM here."""
_SYSTEM: Final = int(ApplicationType.QMGR)
_WHOSE: Final = (
    AttributeSpec("identifier", "CONN", 0, chars=16, read_only=True),
    AttributeSpec("external", "EXTCONN", 0, chars=32, read_only=True),
    AttributeSpec("type", "TYPE", 0, chars=8, read_only=True),
)
CONNECTION: Final = keyword_table(
    (
        *_WHOSE,
        AttributeSpec("application", "APPLTAG", 3058, chars=28),
        AttributeSpec("application_type", "APPLTYPE", 1, words={"USER": _USER, "SYSTEM": _SYSTEM}),
        AttributeSpec("user", "USERID", 3025, chars=12),
        AttributeSpec("unit_of_work", "UOWSTATE", 1128, words={"NONE": 0, "ACTIVE": 1}),
        AttributeSpec("channel", "CHANNEL", 3501, chars=20),
        AttributeSpec("address", "CONNAME", 3506, chars=264),
    )
)
CONNECTION_HANDLE: Final = keyword_table(
    (
        *_WHOSE,
        AttributeSpec("name", "OBJNAME", 3046, chars=48),
        AttributeSpec("object_type", "OBJTYPE", 1016, words={"QUEUE": 1, "NAMELIST": 2, "PROCESS": 3, "QMGR": 5, "TOPIC": 8}),
        AttributeSpec("options", "OPENOPTS", 1022, high=2**31 - 1),
    )
)


def build_define_object(noun: Noun, subject: Clause, parameters: Parameters) -> DefineObject:
    """Return what DEFINE says."""
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
    return DefineObject(noun, _name(kind, subject), values, kind_number, like, "REPLACE" in options)


def build_alter_object(noun: Noun, subject: Clause, parameters: Parameters) -> AlterObject:
    """Return what ALTER says."""
    return AlterObject(noun, _name(DEFINED_KINDS[noun], subject), parameters.values, _pop_kind(parameters.values))


def build_delete_object(noun: Noun, subject: Clause, parameters: Parameters) -> DeleteObject:
    """Return what DELETE says."""
    options = parameters.options
    if "CHLTABLE" in options and noun != "CHANNEL":
        raise RefusedError(options["CHLTABLE"].keyword, "CHLTABLE is for channels.")
    client = choice(options, "CHLTABLE", ("QMGRTBL", "CLNTTAB")) == "CLNTTAB" if "CHLTABLE" in options else None
    ignore_state = choice(options, "IGNSTATE", ("NO", "YES")) == "YES"
    return DeleteObject(noun, _name(DEFINED_KINDS[noun], subject), client, ignore_state)


def kind_asked_for(noun: Noun, parameters: Parameters) -> int:
    """Return the type that a DISPLAY is limited to, 0 for any."""
    spec = DEFINED_KINDS[noun].type_spec
    if "TYPE" not in parameters.options or spec is None:
        return 0
    words = {"ALL": 0, **(spec.words or {})}
    return words[choice(parameters.options, "TYPE", tuple(words))]


def change_objects(action: ObjectAct, objects: ObjectAdministration) -> str:
    """Do it, and return the sentence that says it is done."""
    what = f"{action.noun}({action.name})"
    match action:
        case DefineObject():
            objects.define(_defined(action, objects), replace=action.replace)
            return f"{_number(action.noun, 'AMQ8014: ')}{what} is defined."
        case AlterObject():
            client = action.kind == ChannelType.CLNTCONN if action.kind else _only_client(objects, action.noun, action.name)
            changes = {**action.values, "kind": action.kind} if action.kind else action.values
            objects.alter(action.noun, action.name, changes, client=client)
            return f"{_number(action.noun, 'AMQ8016: ')}{what} is changed."
        case DeleteObject():
            if action.ignore_state and not any(found.name == action.name for found in objects.all(action.noun)):
                return f"There is no {what} to delete; IGNSTATE(YES) takes that for done."
            client = _only_client(objects, action.noun, action.name) if action.client is None else action.client
            objects.delete(action.noun, action.name, client=client)
            return f"{_number(action.noun, 'AMQ8015: ')}{what} is deleted."
        case unknown:
            assert_never(unknown)


def find_objects(objects: ObjectAdministration, noun: Noun, pattern: str, kind: int = 0) -> list[DefinedObject]:
    """Return the objects of that name or generic name, and of that type unless it is 0."""
    return [found for found in objects.all(noun) if matches(pattern, found.name) and kind in {0, getattr(found, "kind", 0)}]


def object_row(record: DefinedObject) -> Mapping[str, Any]:
    """Return the attributes of an object by field."""
    row = asdict(record)
    return row | {"name_count": len(row["names"])} if "names" in row else row


def show(action: ObjectDisplay, objects: ObjectAdministration, queue_manager: str) -> tuple[Record, ...]:
    """Return what the command asks for. Raises `MQIError` 3065 for the status of a channel: nothing runs through one."""
    match action:
        case DisplayObjects():
            return _show_objects(objects, action)
        case DisplayConnections():
            return _show_connections(objects.connections(), queue_manager, action)
        case DisplayChannelStatus():
            detail = "Nothing runs through a channel of the embedded queue manager"
            raise error_for(PCFReason.CHL_STATUS_NOT_FOUND, "DISPLAY CHSTATUS", action.pattern, queue_manager, detail)
        case unknown:
            assert_never(unknown)


def _show_objects(objects: ObjectAdministration, command: DisplayObjects) -> tuple[Record, ...]:
    """Return the objects whose name, type and attributes the command asks for."""
    kind = DEFINED_KINDS[command.noun]
    always = (kind.name_spec.keyword, *((kind.type_spec.keyword,) if kind.type_spec else ()))
    shown: list[Record] = []
    for found in find_objects(objects, command.noun, command.pattern, command.kind):
        attributes = keyword_table(kind.applicable(getattr(found, "kind", 0)))
        shown += laid_out(_HEADINGS[command.noun], [object_row(found)], attributes, always, command.selection)
    return tuple(shown)


def connection_rows(
    connections: Iterable[ConnectionStatus], queue_manager: str, *, handles: bool
) -> Iterator[Mapping[str, Any]]:
    """Yield a row for each connection, or for each handle of each."""
    # Source: DISPLAY CONN: EXTCONN is the same for all connections, and begins with AMQC and the queue manager's name.
    external = f"AMQC{queue_manager:<12.12}".encode("ascii", "replace").hex().upper()
    for status in connections:
        whose = {"identifier": status.identifier, "external": external, "type": "HANDLE" if handles else "CONN"}
        if handles:
            for handle in status.handles:
                yield whose | asdict(handle)
        else:
            own = {
                "application_type": _SYSTEM if status.system else _USER,
                "unit_of_work": min(status.operations, 1),
                # Only a queue manager that is reached through a channel has these.
                "channel": "",
                "address": "",
            }
            yield whose | {"application": status.application, "user": status.user} | own


def _show_connections(
    connections: Iterable[ConnectionStatus], queue_manager: str, command: DisplayConnections
) -> tuple[Record, ...]:
    """Return who is connected, or what each has open."""
    attributes = CONNECTION_HANDLE if command.handles else CONNECTION
    chosen = [status for status in connections if matches(command.pattern, status.identifier)]
    rows = connection_rows(chosen, queue_manager, handles=command.handles)
    return tuple(laid_out("AMQ8276: Connection details.", rows, attributes, ("CONN", "EXTCONN", "TYPE"), command.selection))


def _name(kind: DefinedKind, subject: Clause) -> str:
    name = name_of(subject)
    if len(name) > kind.name_chars_max:
        raise RefusedError(subject.keyword, f"'{name}' is longer than the {kind.name_chars_max} characters of such a name.")
    return name


def _pop_kind(values: dict[str, Value]) -> int:
    kind = values.pop("kind", 0)
    return kind if isinstance(kind, int) else 0


def _defined(action: DefineObject, objects: ObjectAdministration) -> DefinedObject:
    kind = DEFINED_KINDS[action.noun]
    base = _base(action, kind, objects)
    settings = {spec.field: getattr(base, spec.field) for spec in kind.applicable(action.kind) if not spec.read_only}
    named = {"name": action.name} | ({"kind": action.kind} if kind.type_spec else {})
    made: DefinedObject = convert({**settings, **action.values, **named}, kind.record, strict=False)
    return made


def _base(action: DefineObject, kind: DefinedKind, objects: ObjectAdministration) -> DefinedObject:
    """The object that a definition takes from what it was not told."""
    wanted = action.like or kind.defaults[action.kind]
    for found in find_objects(objects, action.noun, wanted, action.kind):
        return found
    if action.like:
        raise error_for(Reason.UNKNOWN_OBJECT_NAME, f"DEFINE {action.noun} LIKE", wanted)
    return default_object(kind.record, wanted)


def _only_client(objects: ObjectAdministration, noun: Noun, name: str) -> bool:
    """Whether a client-connection channel is all there is of that name."""
    found = [is_client(each) for each in objects.all(noun) if each.name == name]
    return bool(found) and all(found)


def _number(noun: Noun, number: str) -> str:
    return number if noun == "CHANNEL" else ""
