"""Builds, carries out and answers the commands SET AUTHREC, DELETE AUTHREC, DISPLAY AUTHREC and DISPLAY ENTAUTH.

This file knows the words of these commands. The queue manager decides about authorities.
Source: IBM, SET AUTHREC, DELETE AUTHREC, DISPLAY AUTHREC, DISPLAY ENTAUTH (Multiplatforms).
"""

from collections.abc import Iterable
from typing import Final, assert_never

from msgspec.structs import replace

from mqflow.embedded.administration.interface import AuthorityAdministration
from mqflow.embedded.mqsc.clauses import Clause, Parameters, bare, choice, single
from mqflow.embedded.mqsc.commands import (
    AuthorityAct,
    DeleteAuthorityCommand,
    DisplayAuthorities,
    DisplayEntity,
    RefreshSecurity,
    SetAuthorityCommand,
    Whose,
)
from mqflow.embedded.mqsc.display import Cell, Record
from mqflow.embedded.mqsc.lexer import RefusedError
from mqflow.mqi.authorities import QUEUE_MANAGER_PROFILE, Authority, AuthorityKind, expanded
from mqflow.mqi.authority_records import AuthorityRecord, applies, is_profile
from mqflow.mqi.lexer import Token, capitals

__all__ = (
    "DELETING",
    "SETTING",
    "SHOWING",
    "SHOWING_ENTITY",
    "build_delete",
    "build_display",
    "build_display_entity",
    "build_set",
    "change_authorities",
    "show_authorities",
    "show_entity",
)

_WHOSE: Final = {"PRINCIPAL": "ENTITY", "GROUP": "ENTITY"}
DELETING: Final = {word: word for word in ("PROFILE", "OBJTYPE")} | _WHOSE
SETTING: Final = DELETING | {word: word for word in ("AUTHADD", "AUTHRMV")}
SHOWING: Final = DELETING | {word: word for word in ("MATCH", "ALL", "AUTHLIST", "ENTITY", "ENTTYPE")} | {"ENTITY": "SHOW"}
SHOWING_ENTITY: Final = (
    _WHOSE | {word: word for word in ("OBJNAME", "OBJTYPE", "ALL", "AUTHLIST", "ENTTYPE")} | {"ENTITY": "SHOW"}
)


def build_set(subject: Clause, parameters: Parameters) -> SetAuthorityCommand:
    """Return the action of a SET AUTHREC command."""
    bare(subject)
    options = parameters.options
    kind = _kind(subject, parameters)
    add, remove = (_authorities(options.get(word), kind) for word in ("AUTHADD", "AUTHRMV"))
    if add is None and remove is None:
        raise RefusedError(
            subject.keyword, "SET AUTHREC needs AUTHADD or AUTHRMV: AUTHADD(NONE) makes a record without authorities."
        )
    return SetAuthorityCommand(_profile(subject, parameters, kind), kind, _entity(subject, parameters), add or (), remove or ())


def build_delete(subject: Clause, parameters: Parameters) -> DeleteAuthorityCommand:
    """Return the action of a DELETE AUTHREC command."""
    bare(subject)
    kind = _kind(subject, parameters)
    return DeleteAuthorityCommand(_profile(subject, parameters, kind), kind, _entity(subject, parameters))


def build_display(subject: Clause, parameters: Parameters) -> DisplayAuthorities:
    """Return the action of a DISPLAY AUTHREC command. The response has all attributes, even if the command names only some."""
    bare(subject)
    options = parameters.options
    kind = _kind(subject, parameters) if "OBJTYPE" in options else None
    profile = _folded(single(options["PROFILE"])) if "PROFILE" in options else ""
    whose = _whose(parameters)
    return DisplayAuthorities(profile, kind, whose, exact=choice(options, "MATCH", ("PROFILE", "EXACT")) == "EXACT")


def build_display_entity(subject: Clause, parameters: Parameters) -> DisplayEntity:
    """Return the action of a DISPLAY ENTAUTH command."""
    bare(subject)
    kind = _kind(subject, parameters)
    if "OBJNAME" not in parameters.options and kind is not AuthorityKind.QMGR:
        raise RefusedError(subject.keyword, "DISPLAY ENTAUTH needs OBJNAME, except with OBJTYPE(QMGR).")
    name = QUEUE_MANAGER_PROFILE if kind is AuthorityKind.QMGR else single(parameters.options["OBJNAME"]).folded
    return DisplayEntity(name, kind, _entity(subject, parameters))


def change_authorities(action: AuthorityAct, authorities: AuthorityAdministration) -> str:
    """Carry the action out, and return a confirmation."""
    match action:
        case SetAuthorityCommand(profile, kind, whose, add, remove):
            authorities.set(kind, profile, whose.entity, group=whose.group, add=add, remove=remove)
            return f"AMQ8862: Authority record {kind}({profile}) of {_named(whose)} is set."
        case DeleteAuthorityCommand(profile, kind, whose):
            authorities.delete(kind, profile, whose.entity, group=whose.group)
            return f"AMQ8863: Authority record {kind}({profile}) of {_named(whose)} is deleted."
        case RefreshSecurity("SSL"):
            return "AMQ8560: A served queue manager reads its certificates only when it starts: start it again to use new ones."
        case RefreshSecurity("CONNAUTH"):
            return "AMQ8560: The queue manager reads the users and passwords at each log-in, so there is nothing to refresh."
        case RefreshSecurity():
            authorities.refresh()
            return "AMQ8560: The queue manager asks the system again for the groups of each user."
        case unknown:
            assert_never(unknown)


def show_authorities(records: Iterable[AuthorityRecord], queue_manager: str, command: DisplayAuthorities) -> tuple[Record, ...]:
    """Return the records that the command selects. MATCH(PROFILE) adds the generic profiles that apply to the name."""
    shown: list[Record] = []
    if command.kind is AuthorityKind.QMGR and command.profile == queue_manager:
        command = replace(command, profile=QUEUE_MANAGER_PROFILE)
    for record in records:
        if command.whose not in {None, Whose(record.entity, record.group)} or command.kind not in {None, record.kind}:
            continue
        if command.profile not in {"", record.profile} and (command.exact or not applies(record.profile, command.profile)):
            continue
        cells = (("PROFILE", record.profile), *_who(record.entity, group=record.group), ("OBJTYPE", record.kind.value))
        shown.append(_record("AMQ8864: Display authority record details.", (*cells, _list(record.authorities))))
    return tuple(shown)


def show_entity(authorities: AuthorityAdministration, command: DisplayEntity) -> tuple[Record, ...]:
    """Return the authorities that the user or group has for the object."""
    whose = command.whose
    held = authorities.held(command.kind, command.name, whose.entity, group=whose.group)
    cells = (("OBJNAME", command.name), *_who(whose.entity, group=whose.group), ("OBJTYPE", command.kind.value))
    return (_record("Display entity authorization details.", (*cells, _list(held))),)


def _named(whose: Whose) -> str:
    return f"{'GROUP' if whose.group else 'PRINCIPAL'}({whose.entity})"


def _record(heading: str, pairs: Iterable[tuple[str, str]]) -> Record:
    return Record(heading, tuple(Cell(keyword, word, word) for keyword, word in pairs))


def _who(entity: str, *, group: bool) -> tuple[tuple[str, str], tuple[str, str]]:
    return ("ENTITY", entity), ("ENTTYPE", "GROUP" if group else "PRINCIPAL")


def _list(authorities: Iterable[Authority]) -> tuple[str, str]:
    return "AUTHLIST", ",".join(sorted(authorities)) or "NONE"


def _kind(subject: Clause, parameters: Parameters) -> AuthorityKind:
    if "OBJTYPE" not in parameters.options:
        raise RefusedError(subject.keyword, f"OBJTYPE is needed: {', '.join(AuthorityKind)}.")
    return AuthorityKind(choice(parameters.options, "OBJTYPE", tuple(AuthorityKind)))


def _profile(subject: Clause, parameters: Parameters, kind: AuthorityKind) -> str:
    clause = parameters.options.get("PROFILE")
    if clause is None:
        if kind is AuthorityKind.QMGR:
            return QUEUE_MANAGER_PROFILE
        raise RefusedError(subject.keyword, "PROFILE is needed, except with OBJTYPE(QMGR).")
    token = single(clause)
    folded = _folded(token)
    if not is_profile(folded):
        what = "1 to 48 of A-Z a-z 0-9 . _ / %, with ? for a character, * within a qualifier, and ** once for any qualifiers"
        raise RefusedError(token, f"'{token.folded}' is not a profile: {what}.")
    return folded


def _folded(token: Token) -> str:
    """Return the profile in the brackets. The profile @class has one form, even if it is quoted."""
    return capitals(token.folded) if token.folded.startswith("@") else token.folded


def _whose(parameters: Parameters) -> Whose | None:
    # The command has PRINCIPAL or GROUP, or neither: `clauses.sort` refuses both together.
    for word in _WHOSE:
        clause = parameters.options.get(word)
        if clause is not None:
            return Whose(single(clause).folded, word == "GROUP")
    return None


def _entity(subject: Clause, parameters: Parameters) -> Whose:
    whose = _whose(parameters)
    if whose is None:
        raise RefusedError(subject.keyword, "PRINCIPAL or GROUP is needed; quoted, because users are mostly in small letters.")
    return whose


def _authorities(clause: Clause | None, kind: AuthorityKind) -> tuple[Authority, ...] | None:
    """Return the authorities of the clause, sorted and without duplicates; None if the command has no such clause."""
    if clause is None:
        return None
    meant: set[Authority] = set()
    for token in clause.arguments or (single(clause),):
        found = expanded(token.folded, kind)
        if found is None:
            words = ", ".join(sorted(expanded("ALL", kind) or ()))
            message = f"OBJTYPE({kind}) has no authority '{token.text}'. It has {words}, and ALL, ALLADM, ALLMQI and NONE."
            raise RefusedError(token, message)
        meant |= found
    return tuple(sorted(meant))
