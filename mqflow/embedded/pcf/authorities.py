"""The PCF commands about authority records.

Source: IBM, "Set Authority Record", "Delete Authority Record", "Inquire Authority Records", "Inquire Entity
Authority"; MQAUTH_*, MQOT_*, MQZAET_* numbers.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from mqflow.embedded.administration.interface import Administration
from mqflow.embedded.mqsc.display import matches
from mqflow.embedded.pcf.queues import Command, Row
from mqflow.embedded.pcf.request import Request
from mqflow.mqi.authorities import ADMINISTRATION, MQI, QUEUE_MANAGER_PROFILE, Authority, AuthorityKind
from mqflow.mqi.authority_records import AuthorityRecord, applies, is_profile
from mqflow.mqi.lexer import capitals
from mqflow.mqi.pcf.codes import CommandCode, ParameterId, PCFReason
from mqflow.mqi.pcf.structures import CFIL, CFIN, CFST, PCFError
from mqflow.mqi.reason_codes import Reason

__all__ = ("AUTHORITY_COMMANDS",)

_A: Final = Authority
_NUMBERS: Final[Mapping[Authority, int]] = {
    _A.ALTUSR: 1, _A.BROWSE: 2, _A.CHG: 3, _A.CLR: 4, _A.CONNECT: 5, _A.CRT: 6, _A.DLT: 7, _A.DSP: 8, _A.GET: 9, _A.INQ: 10,
    _A.PUT: 11, _A.PASSALL: 12, _A.PASSID: 13, _A.SET: 14, _A.SETALL: 15, _A.SETID: 16, _A.CTRL: 17, _A.CTRLX: 18, _A.PUB: 19,
    _A.SUB: 20, _A.RESUME: 21, _A.SYSTEM: 22,
}  # fmt: skip
_BY_NUMBER: Final = {number: authority for authority, number in _NUMBERS.items()}
_NONE, _ALL, _ALL_ADMINISTRATION, _ALL_MQI = 0, -1, -2, -3
_K: Final = AuthorityKind
_KINDS: Final[Mapping[int, AuthorityKind]] = {
    1: _K.QUEUE, 2: _K.NAMELIST, 3: _K.PROCESS, 5: _K.QMGR, 6: _K.CHANNEL, 7: _K.AUTHINFO, 8: _K.TOPIC, 9: _K.COMMINFO,
    11: _K.LISTENER, 12: _K.SERVICE, 1014: _K.CLNTCONN, 1017: _K.RQMNAME,
}  # fmt: skip
_OBJECT_TYPES: Final = {kind: number for number, kind in _KINDS.items()}
_ANY_TYPE: Final = 1001
_PRINCIPAL, _GROUP = 1, 2
# MQAUTHOPT_NAME_EXPLICIT, MQAUTHOPT_NAME_AS_WILDCARD.
_EXPLICIT, _AS_WILDCARD = 0x10, 0x40


def _set_record(request: Request, administration: Administration) -> None:
    """MQCMD_SET_AUTH_REC: changes the record of each named user and group."""
    own = {_P.AUTH_ADD_AUTHS, _P.AUTH_REMOVE_AUTHS, *_WHO, _P.SERVICE_COMPONENT}
    request.check((_P.AUTH_PROFILE_NAME, _P.OBJECT_TYPE), own, filters=False)
    kind, profile = _kind(request), _profile(request)
    add, remove = _authorities(request, _P.AUTH_ADD_AUTHS, kind), _authorities(request, _P.AUTH_REMOVE_AUTHS, kind)
    for entity, group in _entities(request):
        administration.authorities.set(kind, profile, entity, group=group, add=add, remove=remove)


def _delete(request: Request, administration: Administration) -> None:
    request.check((_P.AUTH_PROFILE_NAME, _P.OBJECT_TYPE), {*_WHO, _P.SERVICE_COMPONENT}, filters=False)
    for entity, group in _entities(request):
        administration.authorities.delete(_kind(request), _profile(request), entity, group=group)


def _inquire(request: Request, administration: Administration) -> Iterable[Row]:
    """MQCMD_INQUIRE_AUTH_RECS: returns a response for each record that the options choose by its profile.

    Without such an option, a record is chosen if its profile is the name, or a generic profile that applies to the name.
    """
    optional = {
        _P.AUTH_PROFILE_NAME,
        _P.OBJECT_TYPE,
        _P.ENTITY_NAME,
        _P.ENTITY_TYPE,
        _P.AUTH_PROFILE_ATTRS,
        _P.SERVICE_COMPONENT,
    }
    request.check((_P.AUTH_OPTIONS,), optional, filters=False)
    options, entity = request.number(_P.AUTH_OPTIONS, 0), request.text(_P.ENTITY_NAME)
    types = (_ANY_TYPE, *_KINDS)
    number = request.choice(_P.OBJECT_TYPE, types, _ANY_TYPE, PCFReason.OBJECT_TYPE_MISSING)
    name, queue_manager = _folded(request.text(_P.AUTH_PROFILE_NAME)), administration.queue_manager.name
    if _KINDS.get(number) is AuthorityKind.QMGR and name == queue_manager:
        name = QUEUE_MANAGER_PROFILE
    groups = {_PRINCIPAL: {False}, _GROUP: {True}}.get(request.number(_P.ENTITY_TYPE, 0), {False, True})
    found = [
        record
        for record in administration.authorities.records()
        if number in {_ANY_TYPE, _OBJECT_TYPES[record.kind]}
        and entity in {"", record.entity}
        and record.group in groups
        and (not name or _is_meant(record.profile, name, options))
    ]
    if not found:
        detail = "There is no such authority record"
        raise PCFError(Reason.UNKNOWN_OBJECT_NAME, detail=detail, parameter=_P.AUTH_PROFILE_NAME)
    return [_row(record, queue_manager) for record in found]


def _inquire_entity(request: Request, administration: Administration) -> Iterable[Row]:
    """MQCMD_INQUIRE_ENTITY_AUTH: returns the authorities of a user and its groups, or of a group, on one object."""
    optional = {_P.OBJECT_NAME, _P.AUTH_PROFILE_ATTRS, _P.SERVICE_COMPONENT}
    request.check((_P.ENTITY_TYPE, _P.OBJECT_TYPE, _P.AUTH_OPTIONS, _P.ENTITY_NAME), optional, filters=False)
    kind = _kind(request)
    group = request.choice(_P.ENTITY_TYPE, (_PRINCIPAL, _GROUP), 0, PCFReason.ENTITY_TYPE_MISSING) == _GROUP
    entity = request.text(_P.ENTITY_NAME)
    if not entity:
        raise PCFError(PCFReason.ENTITY_NAME_MISSING, detail="No user and no group is named", parameter=_P.ENTITY_NAME)
    queue_manager = administration.queue_manager.name
    name = queue_manager if kind is AuthorityKind.QMGR else request.name(_P.OBJECT_NAME)
    held = administration.authorities.held(
        kind, QUEUE_MANAGER_PROFILE if kind is AuthorityKind.QMGR else name, entity, group=group
    )
    return (
        (
            CFST(_P.OBJECT_NAME, name.ljust(48)),
            CFIN(_P.OBJECT_TYPE, _OBJECT_TYPES[kind]),
            CFST(_P.ENTITY_NAME, entity),
            CFIN(_P.ENTITY_TYPE, _GROUP if group else _PRINCIPAL),
            CFIL(_P.AUTHORIZATION_LIST, _numbers(held)),
            CFST(_Q_MGR_NAME, queue_manager.ljust(48)),
        ),
    )


def _refresh(request: Request, administration: Administration) -> None:
    """MQCMD_REFRESH_SECURITY: forgets the groups of all users. The queue manager then asks the operating system again."""
    request.check((), None, filters=False)
    administration.authorities.refresh()


_P: Final = ParameterId
_WHO: Final = frozenset({_P.PRINCIPAL_ENTITY_NAMES, _P.GROUP_ENTITY_NAMES})


def _row(record: AuthorityRecord, queue_manager: str) -> Row:
    return (
        CFST(_P.AUTH_PROFILE_NAME, record.profile.ljust(48)),
        CFIN(_P.OBJECT_TYPE, _OBJECT_TYPES[record.kind]),
        CFST(_P.ENTITY_NAME, record.entity),
        CFIN(_P.ENTITY_TYPE, _GROUP if record.group else _PRINCIPAL),
        CFIL(_P.AUTHORIZATION_LIST, _numbers(record.authorities)),
        CFST(_Q_MGR_NAME, queue_manager.ljust(48)),
    )


def _numbers(authorities: Iterable[Authority]) -> tuple[int, ...]:
    return tuple(sorted(_NUMBERS[authority] for authority in authorities)) or (_NONE,)


_Q_MGR_NAME: Final = 2015


def _kind(request: Request) -> AuthorityKind:
    return _KINDS[request.choice(_P.OBJECT_TYPE, tuple(_KINDS), 0, PCFReason.OBJECT_TYPE_MISSING)]


def _is_meant(profile: str, name: str, options: int) -> bool:
    if options & _AS_WILDCARD:
        return matches(name, profile)
    return profile == name or (not options & _EXPLICIT and applies(profile, name))


def _folded(profile: str) -> str:
    return capitals(profile) if profile.startswith("@") else profile


def _profile(request: Request) -> str:
    profile = _folded(request.text(_P.AUTH_PROFILE_NAME))
    if _kind(request) is AuthorityKind.QMGR:  # the queue manager checks its own name
        return profile
    if not is_profile(profile):
        raise PCFError(PCFReason.PROFILE_NAME_ERROR, detail=f"{profile!r} is no profile", parameter=_P.AUTH_PROFILE_NAME)
    return profile


def _entities(request: Request) -> list[tuple[str, bool]]:
    named = [(name, False) for name in request.texts(_P.PRINCIPAL_ENTITY_NAMES)]
    named += [(name, True) for name in request.texts(_P.GROUP_ENTITY_NAMES)]
    if not named:
        raise PCFError(PCFReason.ENTITY_NAME_MISSING, detail="No user and no group is named")
    return named


def _authorities(request: Request, identifier: int, kind: AuthorityKind) -> frozenset[Authority]:
    found: set[Authority] = set()
    for number in request.numbers(identifier) or ():
        if number in {_ALL, _ALL_MQI}:
            found |= MQI[kind]
        if number in {_ALL, _ALL_ADMINISTRATION}:
            found |= ADMINISTRATION[kind]
        authority = _BY_NUMBER.get(number)
        if authority is not None and authority in MQI[kind] | ADMINISTRATION[kind] | {Authority.CRT}:
            found.add(authority)
        elif number not in {_NONE, _ALL, _ALL_MQI, _ALL_ADMINISTRATION}:
            detail = f"MQAUTH_* {number} is no authority on a {kind}"
            raise PCFError(PCFReason.AUTH_VALUE_ERROR, detail=detail, parameter=identifier)
    return frozenset(found)


AUTHORITY_COMMANDS: Final[Mapping[CommandCode, Command]] = {
    CommandCode.SET_AUTH_REC: _set_record,
    CommandCode.DELETE_AUTH_REC: _delete,
    CommandCode.INQUIRE_AUTH_RECS: _inquire,
    CommandCode.INQUIRE_ENTITY_AUTH: _inquire_entity,
    CommandCode.REFRESH_SECURITY: _refresh,
}
