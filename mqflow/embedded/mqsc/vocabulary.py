"""The words of MQSC: verbs, nouns, synonyms, the attributes of each kind of queue, and the unsupported words.

This file has data only. The attributes of queues come from the table in `mqflow.mqi.attributes.queue`. DISPLAY QSTATUS has a
table of the same form here. Source: the "Synonym:" lines and parameter lists of IBM's MQSC reference, level 9.4.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from mqflow.embedded.catalogue.kinds import DEFINED_KINDS, DefinedKind
from mqflow.embedded.mqsc.commands import QueueNoun
from mqflow.mqi.attributes.queue import QUEUE_ATTRIBUTES, AttributeSpec
from mqflow.mqi.attributes.queue_manager import QUEUE_MANAGER_ATTRIBUTES
from mqflow.mqi.attributes.subscription import SUBSCRIPTION_ATTRIBUTES
from mqflow.mqi.attributes.topic import TOPIC_ATTRIBUTES
from mqflow.mqi.options import QueueType

__all__ = (
    "HANDLE_STATUS",
    "KINDS",
    "OBJECT_KINDS",
    "QUEUES",
    "QUEUE_MANAGER",
    "QUEUE_STATUS",
    "QUEUE_TYPES",
    "SUBSCRIPTIONS",
    "SYNONYMS",
    "TOPICS",
    "UNSUPPORTED_ATTRIBUTES",
    "VERBS",
    "Attributes",
    "keyword_table",
)

_COUNT_MAX: Final = 999_999_999

Attributes = Mapping[str, AttributeSpec]
"""Attributes by every word for them: the keyword, other spellings, and for example both SHARE and NOSHARE."""

KINDS: Final[Mapping[QueueNoun, QueueType]] = {
    "QLOCAL": QueueType.LOCAL,
    "QALIAS": QueueType.ALIAS,
    "QMODEL": QueueType.MODEL,
    "QREMOTE": QueueType.REMOTE,
}
"""The kinds of queue that DEFINE can create, by noun."""

QUEUE_TYPES: Final[Mapping[str, QueueType]] = dict(KINDS.items())
"""`KINDS` with a key type that allows a look-up by any noun."""

OBJECT_KINDS: Final[Mapping[str, DefinedKind]] = {kind.noun: kind for kind in DEFINED_KINDS.values()}
"""The kinds of object in the catalogue, by noun."""

SYNONYMS: Final = {
    "DEF": "DEFINE",
    "ALT": "ALTER",
    "DIS": "DISPLAY",
    "REF": "REFRESH",
    "RES": "RESOLVE",
    "STA": "START",
    "QUIT": "END",
    "EXIT": "END",
    "QL": "QLOCAL",
    "QA": "QALIAS",
    "QM": "QMODEL",
    "Q": "QUEUE",
    "QS": "QSTATUS",
    "QR": "QREMOTE",
    "QC": "QCLUSTER",
    "CHL": "CHANNEL",
    "CHS": "CHSTATUS",
    "LSTR": "LISTENER",
    "NL": "NAMELIST",
    "PRO": "PROCESS",
    "TPS": "TPSTATUS",
    "LSS": "LSSTATUS",
}
"""MQSC has no other short forms: DEFI is not a command. CLEAR and DELETE deliberately have no short form."""

_OBJECTS: Final = ("COMMINFO",)

VERBS: Final[dict[str, tuple[str, ...]]] = {
    "ALTER": _OBJECTS,
    "CLEAR": (),
    "DEFINE": _OBJECTS,
    "DELETE": (*_OBJECTS, "POLICY"),
    "DISPLAY": ("AUTHSERV",),
    "END": (),
    "PING": (),
    "PURGE": (),
    "REFRESH": (),
    "RESET": ("QMGR",),
    "RESOLVE": (),
    "RESUME": (),
    "SET": ("LOG", "POLICY", "SYSTEM"),
    "START": ("CHINIT",),
    "STOP": (),
    "SUSPEND": (),
}
"""Every verb, with its MQSC nouns that the embedded queue manager does not support."""

UNSUPPORTED_ATTRIBUTES: Final = {
    noun: frozenset(words.split())
    for noun, words in {
        "QUEUE": """
            AUTHREC CFSTRUCT CLCHNAME CLUSINFO CMDSCOPE INDXTYPE OTELPCTL OTELTRAC QSGDISP STGCLASS TPIPE""",
        "QMGR": """
            ACTCHL ADOPTCHK ADOPTMCA AUTOCLUS BRIDGEEV CFCONLOS CMDSCOPE CPILEVEL EXPRYINT GROUPUR IGQ IGQAUT
            IGQUSER INITKEY KEYRPWD OTELPCTL OTELTRAC SCYCASE SQQMNAME SUITEB""",
        "CHANNEL": """
            AMQPKA AUTHMODE CMDSCOPE COMPHDR COMPMSG DEFCDISP JAASCFG MCANAME MODENAME MREXIT MRDATA MSGDATA MSGEXIT NETPRTY
            PASSWORD PORT PROPCTL QSGDISP RCVDATA RCVEXIT SCYDATA SCYEXIT SENDDATA SENDEXIT SPLPROT TMPMODEL TMPQPRFX TPNAME
            TPROOT USECLTID USEDLQ USERID""",
        **dict.fromkeys(
            ("TOPIC", "SUB", "TPSTATUS"),
            "CAPEXPRY CLROUTE CLUSINFO CMDSCOPE COMMINFO MCAST OTELPCTL OTELTRAC PSPROP PUBACCT QSGDISP",
        ),
        "NAMELIST": "CMDSCOPE NLTYPE QSGDISP",
        "PROCESS": "CMDSCOPE QSGDISP",
        "AUTHINFO": """
            AUTHORMD BASEDNG BASEDNU CLASSGRP CLASSUSR CMDSCOPE FINDGRP GRPFIELD LDAPPWD NESTGRP QSGDISP SECCOMM SHORTUSR
            USRFIELD""",
        "LISTENER": "ADAPTER CMDSCOPE COMMANDS LOCLNAME NTBNAMES SESSIONS SOCKET TPNAME",
        "CONN": """
            APPLDESC ASTATE CLIENTID CMDSCOPE CONNOPTS CONNTAG DEST DESTQMGR EXTURID HSTATE PID QMURID QSGDISP READA SUBID
            SUBNAME TID TOPICSTR UOWLOG UOWLOGDA UOWLOGTI UOWSTDA UOWSTTI URDISP URID URTYPE""",
        "SERVICE": "",
        "APSTATUS": "CMDSCOPE",
        "QMSTATUS": """
            ARCHLOG ARCHSZ AUTOCLUS CURRLOG DATFSSZ DATFSUSE DATPATH HOSTNAME INSTDESC INSTNAME INSTPATH LDAPCONN LOG LOGEXTSZ
            LOGFSSZ LOGFSUSE LOGINUSE LOGPATH LOGPRIM LOGSEC LOGSTRDA LOGSTRL LOGSTRTI LOGTYPE LOGUTIL MEDIALOG MEDIASZ QMFSSZ
            QMFSUSE RECLOG RECSZ REUSESZ UNICLUS""",
        "SBSTATUS": "CMDSCOPE MCASTREL",
        "CHSTATUS": """
            AMQPKA BATCHES BATCHSZ CHLDISP CMDSCOPE COMPHDR COMPMSG COMPRATE COMPTIME CURLUWID CURMSGS CURSEQNO EXITTIME
            INDOUBT JOBNAME KAINT LOCLADDR LONGRTS LSTLUWID LSTSEQNO MAXMSGL MCASTAT MONCHL MONITOR NETTIME NPMSPEED QMNAME
            RPRODUCT RQMNAME RVERSION SAVED SECPROT SHORTRTS SSLCERTI SSLCERTU SSLCIPH SSLKEYDA SSLKEYTI SSLPEER SSLRKEYS
            SSTATCHL SUBSTATE XBATCHSZ XMITQ XQMSGSA XQTIME""",
        "LSSTATUS": "CMDSCOPE SESSIONS",
        "CHLAUTH": "ADDRLIST CHCKCLNT CMDSCOPE CUSTOM QMNAME SSLCERTI SSLPEER",
        "QSTATUS": """
            APPLDESC APPLTYPE ASTATE CHANNEL CMDSCOPE CURFSIZE CURMAXFS HSTATE MAXFSIZE MEDIALOG MONITOR MONQ OPENTYPE PID
            QMURID QSGDISP QTIME TID URID""",
    }.items()
}
"""Attributes that the embedded queue manager does not support. A command runs without them, and its response names them."""


def keyword_table(specs: Iterable[AttributeSpec]) -> Attributes:
    """Return the attributes by every word for them."""
    table: dict[str, AttributeSpec] = {}
    for spec in specs:
        for word in (spec.keyword, *spec.aliases, *(spec.words or () if spec.flag else ())):
            table[word] = spec
    return table


_YES_NO: Final = {"NO": 0, "YES": 1}
_WHOSE: Final = (
    AttributeSpec("name", "QUEUE", 2016, chars=48, object_name=True, read_only=True),
    AttributeSpec("type", "TYPE", 0, chars=8, read_only=True),
)

TOPICS: Final = keyword_table((*TOPIC_ATTRIBUTES, AttributeSpec("type", "TYPE", 0, chars=8, read_only=True)))
SUBSCRIPTIONS: Final = keyword_table(SUBSCRIPTION_ATTRIBUTES)
QUEUES: Final = {kind: keyword_table(spec for spec in QUEUE_ATTRIBUTES if kind in spec.kinds) for kind in KINDS.values()}
QUEUE_MANAGER: Final = keyword_table(QUEUE_MANAGER_ATTRIBUTES)
# MQINQ returns no status, so the numbers are PCF's (MQIACF_*, MQCACF_*). A number is 0 if PCF has the value in another form.
QUEUE_STATUS: Final = keyword_table(
    (
        *_WHOSE,
        AttributeSpec("depth", "CURDEPTH", 3, high=_COUNT_MAX),
        AttributeSpec("open_input_count", "IPPROCS", 17, high=_COUNT_MAX),
        AttributeSpec("open_output_count", "OPPROCS", 18, high=_COUNT_MAX),
        # Source: DISPLAY QSTATUS: NO, or on Multiplatforms the number of uncommitted puts and gets.
        AttributeSpec("uncommitted", "UNCOM", 1027, low=0, high=_COUNT_MAX, words={"NO": 0}),
        AttributeSpec("oldest_message_age_s", "MSGAGE", 1227, high=_COUNT_MAX),
        AttributeSpec("last_get_date", "LGETDATE", 3130, chars=12),
        AttributeSpec("last_get_time", "LGETTIME", 3131, chars=8),
        AttributeSpec("last_put_date", "LPUTDATE", 3128, chars=12),
        AttributeSpec("last_put_time", "LPUTTIME", 3129, chars=8),
    )
)
HANDLE_STATUS: Final = keyword_table(
    (
        *_WHOSE,
        AttributeSpec("application", "APPLTAG", 3058, chars=28),
        AttributeSpec("user", "USERID", 3025, chars=12),
        AttributeSpec("address", "CONNAME", 3506, chars=264),
        AttributeSpec("input_mode", "INPUT", 0, chars=8),
        AttributeSpec("browse", "BROWSE", 1102, words=_YES_NO),
        AttributeSpec("inquire", "INQUIRE", 1101, words=_YES_NO),
        AttributeSpec("output", "OUTPUT", 1099, words=_YES_NO),
        AttributeSpec("set", "SET", 1100, words=_YES_NO),
    )
)
