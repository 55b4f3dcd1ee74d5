"""The authorities on each kind of object, and the authorities that an MQI call needs.

This module is pure, and knows no user: `authority_records` has the holders of authorities.
Source: IBM, "Authorizations for MQI calls" (the queue manager checks MQCONN, MQOPEN, MQPUT1 and MQCLOSE; it checks the name
that is opened, not the name it resolves to), setmqaut and SET AUTHREC (the words), "Granting authority to set context" (setid
and setall are needed on the queue manager as well).
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from mqflow.mqi.options import ObjectType, OpenOption

__all__ = (
    "ADMINISTRATION",
    "CLASS_PROFILE",
    "MQI",
    "QUEUE_MANAGER_PROFILE",
    "TO_CONNECT",
    "Authority",
    "AuthorityKind",
    "Need",
    "expanded",
    "needed_to_open",
)


class Authority(StrEnum):
    """An authority, by its MQSC word."""

    ALTUSR = "ALTUSR"
    BROWSE = "BROWSE"
    CHG = "CHG"
    CLR = "CLR"
    CONNECT = "CONNECT"
    CRT = "CRT"
    CTRL = "CTRL"
    CTRLX = "CTRLX"
    DLT = "DLT"
    DSP = "DSP"
    GET = "GET"
    INQ = "INQ"
    PASSALL = "PASSALL"
    PASSID = "PASSID"
    PUB = "PUB"
    PUT = "PUT"
    RESUME = "RESUME"
    SET = "SET"
    SETALL = "SETALL"
    SETID = "SETID"
    SUB = "SUB"
    SYSTEM = "SYSTEM"


class AuthorityKind(StrEnum):
    """The kinds of object that have authorities, by their word in OBJTYPE."""

    AUTHINFO = "AUTHINFO"
    CHANNEL = "CHANNEL"
    CLNTCONN = "CLNTCONN"
    COMMINFO = "COMMINFO"
    LISTENER = "LISTENER"
    NAMELIST = "NAMELIST"
    PROCESS = "PROCESS"
    QMGR = "QMGR"
    QUEUE = "QUEUE"
    RQMNAME = "RQMNAME"
    SERVICE = "SERVICE"
    TOPIC = "TOPIC"


QUEUE_MANAGER_PROFILE: Final = "SELF"
"""The profile of the queue manager itself, whatever its name is."""
CLASS_PROFILE: Final = "@CLASS"
"""The profile for the authority to create objects of a kind: a new object has no name yet."""


def _set(words: str) -> frozenset[Authority]:
    return frozenset(Authority(word) for word in words.split())


_CONTEXT: Final = "PASSALL PASSID SETALL SETID"
MQI: Final[Mapping[AuthorityKind, frozenset[Authority]]] = {
    AuthorityKind.AUTHINFO: _set("INQ"),
    AuthorityKind.CHANNEL: _set(""),
    AuthorityKind.CLNTCONN: _set(""),
    AuthorityKind.COMMINFO: _set(""),
    AuthorityKind.LISTENER: _set(""),
    AuthorityKind.NAMELIST: _set("INQ"),
    AuthorityKind.PROCESS: _set("INQ SET"),
    AuthorityKind.QMGR: _set("ALTUSR CONNECT INQ SET SETALL SETID"),
    AuthorityKind.QUEUE: _set(f"BROWSE GET INQ PUT SET {_CONTEXT}"),
    AuthorityKind.RQMNAME: _set(f"PUT {_CONTEXT}"),
    AuthorityKind.SERVICE: _set(""),
    AuthorityKind.TOPIC: _set(f"PUB RESUME SUB {_CONTEXT}"),
}
"""The authorities for applications (ALLMQI)."""

_OBJECT: Final = "CHG DLT DSP"
ADMINISTRATION: Final[Mapping[AuthorityKind, frozenset[Authority]]] = {
    AuthorityKind.AUTHINFO: _set(_OBJECT),
    AuthorityKind.CHANNEL: _set(f"{_OBJECT} CTRL CTRLX"),
    AuthorityKind.CLNTCONN: _set(_OBJECT),
    AuthorityKind.COMMINFO: _set(_OBJECT),
    AuthorityKind.LISTENER: _set(f"{_OBJECT} CTRL"),
    AuthorityKind.NAMELIST: _set(_OBJECT),
    AuthorityKind.PROCESS: _set(_OBJECT),
    AuthorityKind.QMGR: _set(f"{_OBJECT} CTRL SYSTEM"),
    AuthorityKind.QUEUE: _set(f"{_OBJECT} CLR"),
    AuthorityKind.RQMNAME: _set(""),
    AuthorityKind.SERVICE: _set(f"{_OBJECT} CTRL"),
    AuthorityKind.TOPIC: _set(f"{_OBJECT} CLR CTRL"),
}
"""The authorities for administrators (ALLADM). CRT is not included: it belongs to `CLASS_PROFILE`."""


class Need(Struct, frozen=True):
    """One authority that a call needs."""

    kind: AuthorityKind
    #: The name that the program opens; empty for the queue manager.
    name: str
    authority: Authority
    #: True if the connected user needs the authority, even if the call names an alternate user.
    own: bool = False


TO_CONNECT: Final = Need(AuthorityKind.QMGR, "", Authority.CONNECT, own=True)
"""The authority that MQCONN needs."""

_INPUT: Final = OpenOption.INPUT_AS_Q_DEF | OpenOption.INPUT_SHARED | OpenOption.INPUT_EXCLUSIVE
_USES: Final = (
    (_INPUT, Authority.GET),
    (OpenOption.BROWSE, Authority.BROWSE),
    (OpenOption.INQUIRE, Authority.INQ),
    (OpenOption.SET, Authority.SET),
    (OpenOption.OUTPUT, Authority.PUT),
)
_CONTEXTS: Final = (
    (OpenOption.PASS_IDENTITY_CONTEXT, Authority.PASSID),
    (OpenOption.PASS_ALL_CONTEXT, Authority.PASSALL),
    (OpenOption.SET_IDENTITY_CONTEXT, Authority.SETID),
    (OpenOption.SET_ALL_CONTEXT, Authority.SETALL),
)
_ON_BOTH: Final = frozenset({Authority.SETID, Authority.SETALL})
_KINDS: Final = {
    ObjectType.Q: AuthorityKind.QUEUE,
    ObjectType.NAMELIST: AuthorityKind.NAMELIST,
    ObjectType.PROCESS: AuthorityKind.PROCESS,
    ObjectType.Q_MGR: AuthorityKind.QMGR,
    ObjectType.TOPIC: AuthorityKind.TOPIC,
}


def needed_to_open(name: str, options: OpenOption, object_type: ObjectType = ObjectType.Q) -> tuple[Need, ...]:
    """Return every authority that the open of an object needs; for MQPUT1, pass the open options that MQPUT1 implies.

    Each use of the object needs an authority. Context options need the authority of the connected user, even with an alternate
    user. The options that set context need that authority on the queue manager too. For a topic object, OUTPUT means publish.
    """
    kind = _KINDS[object_type]
    name = "" if kind is AuthorityKind.QMGR else name
    bits = int(options)
    needs = [Need(kind, name, _of(kind, authority)) for option, authority in _USES if bits & option]
    for option, authority in _CONTEXTS:
        if bits & option:
            needs.append(Need(kind, name, authority, own=True))
            if authority in _ON_BOTH:
                needs.append(Need(AuthorityKind.QMGR, "", authority, own=True))
    if bits & OpenOption.ALTERNATE_USER_AUTHORITY:
        needs.append(Need(AuthorityKind.QMGR, "", Authority.ALTUSR, own=True))
    return tuple(needs)


def expanded(word: str, kind: AuthorityKind) -> frozenset[Authority] | None:
    """Return the authorities of a word in AUTHADD or AUTHRMV for this kind of object; None if the word is not valid."""
    match word:
        case "NONE":
            return frozenset()
        case "ALLMQI":
            return MQI[kind]
        case "ALLADM":
            return ADMINISTRATION[kind]
        case "ALL":
            return MQI[kind] | ADMINISTRATION[kind]
        case _:
            found = frozenset(each for each in (*MQI[kind], *ADMINISTRATION[kind], Authority.CRT) if each == word)
            return found or None


def _of(kind: AuthorityKind, authority: Authority) -> Authority:
    return Authority.PUB if kind is AuthorityKind.TOPIC and authority is Authority.PUT else authority
