"""What one may be allowed to do with which kind of object, and which authorities an MQI call needs.

Pure, and knows no user: who holds what is said by `authority_records`.
Source: IBM, "Authorizations for MQI calls" (MQCONN, MQOPEN, MQPUT1 and MQCLOSE are what is checked; the name checked is the one
being opened, not what it resolves to), setmqaut and SET AUTHREC (the words), "Granting authority to set context" (setid and
setall are needed on the queue manager as well).
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
    "Kind",
    "Need",
    "expanded",
    "needed_to_open",
)


class Authority(StrEnum):
    """One thing that can be allowed, by its MQSC word."""

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


class Kind(StrEnum):
    """The kinds of object that authorities are given on, by their word in OBJTYPE."""

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
"""The profile of the queue manager itself, whatever its name."""
CLASS_PROFILE: Final = "@CLASS"
"""The profile that says who may create objects of a kind: they have no name yet."""


def _set(words: str) -> frozenset[Authority]:
    return frozenset(Authority(word) for word in words.split())


_CONTEXT: Final = "PASSALL PASSID SETALL SETID"
MQI: Final[Mapping[Kind, frozenset[Authority]]] = {
    Kind.AUTHINFO: _set("INQ"),
    Kind.CHANNEL: _set(""),
    Kind.CLNTCONN: _set(""),
    Kind.COMMINFO: _set(""),
    Kind.LISTENER: _set(""),
    Kind.NAMELIST: _set("INQ"),
    Kind.PROCESS: _set("INQ SET"),
    Kind.QMGR: _set("ALTUSR CONNECT INQ SET SETALL SETID"),
    Kind.QUEUE: _set(f"BROWSE GET INQ PUT SET {_CONTEXT}"),
    Kind.RQMNAME: _set(f"PUT {_CONTEXT}"),
    Kind.SERVICE: _set(""),
    Kind.TOPIC: _set(f"PUB RESUME SUB {_CONTEXT}"),
}
"""What applications can be allowed (ALLMQI)."""

_OBJECT: Final = "CHG DLT DSP"
ADMINISTRATION: Final[Mapping[Kind, frozenset[Authority]]] = {
    Kind.AUTHINFO: _set(_OBJECT),
    Kind.CHANNEL: _set(f"{_OBJECT} CTRL CTRLX"),
    Kind.CLNTCONN: _set(_OBJECT),
    Kind.COMMINFO: _set(_OBJECT),
    Kind.LISTENER: _set(f"{_OBJECT} CTRL"),
    Kind.NAMELIST: _set(_OBJECT),
    Kind.PROCESS: _set(_OBJECT),
    Kind.QMGR: _set(f"{_OBJECT} CTRL SYSTEM"),
    Kind.QUEUE: _set(f"{_OBJECT} CLR"),
    Kind.RQMNAME: _set(""),
    Kind.SERVICE: _set(f"{_OBJECT} CTRL"),
    Kind.TOPIC: _set(f"{_OBJECT} CLR CTRL"),
}
"""What administrators can be allowed (ALLADM). CRT is not among them: it is given on `CLASS_PROFILE`."""


class Need(Struct, frozen=True):
    """One authority that a call needs."""

    kind: Kind
    #: The object as it is opened; empty for the queue manager.
    name: str
    authority: Authority
    #: The user that connected needs it, whatever alternate user the call names.
    own: bool = False


TO_CONNECT: Final = Need(Kind.QMGR, "", Authority.CONNECT, own=True)
"""What MQCONN needs."""

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
    ObjectType.Q: Kind.QUEUE,
    ObjectType.NAMELIST: Kind.NAMELIST,
    ObjectType.PROCESS: Kind.PROCESS,
    ObjectType.Q_MGR: Kind.QMGR,
    ObjectType.TOPIC: Kind.TOPIC,
}


def needed_to_open(name: str, options: OpenOption, object_type: ObjectType = ObjectType.Q) -> tuple[Need, ...]:
    """Return every authority that opening the object needs, for MQPUT1 with the options it implies.

    One for each use of the object. Context is checked for the user that connected even where an alternate user is named, and to
    set it is a matter of the queue manager as well. Of a topic object, OUTPUT is to publish.
    """
    kind = _KINDS[object_type]
    name = "" if kind is Kind.QMGR else name
    bits = int(options)
    needs = [Need(kind, name, _of(kind, authority)) for option, authority in _USES if bits & option]
    for option, authority in _CONTEXTS:
        if bits & option:
            needs.append(Need(kind, name, authority, own=True))
            if authority in _ON_BOTH:
                needs.append(Need(Kind.QMGR, "", authority, own=True))
    if bits & OpenOption.ALTERNATE_USER_AUTHORITY:
        needs.append(Need(Kind.QMGR, "", Authority.ALTUSR, own=True))
    return tuple(needs)


def expanded(word: str, kind: Kind) -> frozenset[Authority] | None:
    """Return the authorities a word of AUTHADD or AUTHRMV means on this kind of object; None for one that it does not take."""
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


def _of(kind: Kind, authority: Authority) -> Authority:
    return Authority.PUB if kind is Kind.TOPIC and authority is Authority.PUT else authority
