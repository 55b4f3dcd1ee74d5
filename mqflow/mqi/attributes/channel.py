"""The attributes of channels: a record, and the table that says everything about every attribute, by type of channel.

Reads like the table of queues (`attributes`); `kinds` are MQCHT_*. Definitions only: nothing runs through a channel here.
Exits, compression and the words for LU 6.2 are left out, and so is PASSWORD: no definition keeps a secret.
Source: DEFINE CHANNEL keywords and defaults; MQIACH_*, MQCACH_*, MQCHT_*, MQXPT_* numbers.
"""

from enum import IntEnum
from typing import Final

from msgspec import Struct

from mqflow.mqi.attributes.queue import AttributeSpec

__all__ = ("CHANNEL_ATTRIBUTES", "CHANNEL_NAME_CHARS_MAX", "ChannelAttributes", "ChannelType")

CHANNEL_NAME_CHARS_MAX: Final = 20


class ChannelType(IntEnum):
    """MQCHT_*."""

    SENDER = 1
    SERVER = 2
    RECEIVER = 3
    REQUESTER = 4
    CLNTCONN = 6
    SVRCONN = 7
    CLUSRCVR = 8
    CLUSSDR = 9


class ChannelAttributes(Struct, frozen=True, kw_only=True, tag="channel"):
    """What a channel is defined as. Numbers are MQ's; words for them are in the table."""

    name: str
    #: CHLTYPE: an MQCHT_*.
    kind: ChannelType
    description: str = ""
    #: TRPTYPE: 2 is TCP.
    transport: int = 2
    connection_name: str = ""
    transmission_queue: str = ""
    local_address: str = ""
    mca_user: str = ""
    max_message_bytes: int = 4_194_304
    heartbeat_s: int = 300
    #: KAINT: -1 from the heartbeat.
    keep_alive_s: int = -1
    batch_size: int = 50
    batch_interval_ms: int = 0
    batch_heartbeat_ms: int = 0
    batch_limit_kib: int = 5_000
    disconnect_s: int = 6_000
    short_retries: int = 10
    short_retry_s: int = 60
    long_retries: int = 999_999_999
    long_retry_s: int = 1_200
    sequence_wrap: int = 999_999_999
    #: NPMSPEED: 1 normal, 2 fast.
    nonpersistent_speed: int = 2
    convert: bool = False
    #: PUTAUT: 1 default, 2 context.
    put_authority: int = 1
    #: MCATYPE: 1 process, 2 thread.
    mca_type: int = 1
    message_retries: int = 10
    message_retry_ms: int = 1_000
    cipher_spec: str = ""
    peer_name: str = ""
    #: SSLCAUTH: 0 required, 1 optional.
    client_authentication: int = 0
    certificate_label: str = ""
    sharing_conversations: int = 10
    instances_max: int = 999_999_999
    instances_per_client_max: int = 999_999_999
    queue_manager: str = ""
    #: AFFINITY: 1 preferred, 0 none.
    affinity: int = 1
    client_weight: int = 0
    #: DEFRECON: an MQRCN_*.
    default_reconnection: int = 0
    cluster: str = ""
    cluster_namelist: str = ""
    cluster_rank: int = 0
    cluster_priority: int = 0
    cluster_weight: int = 50
    monitoring: int = -3
    statistics: int = -3
    alteration_date: str = ""
    alteration_time: str = ""


_T = ChannelType
_ALL: Final = frozenset(ChannelType)
_SENDING: Final = frozenset({_T.SENDER, _T.SERVER, _T.CLUSSDR, _T.CLUSRCVR})
_RECEIVING: Final = frozenset({_T.RECEIVER, _T.REQUESTER, _T.CLUSRCVR})
_MESSAGES: Final = _ALL - {_T.CLNTCONN, _T.SVRCONN}
_CALLING: Final = _ALL - {_T.RECEIVER, _T.SVRCONN}
_CLUSTERED: Final = frozenset({_T.CLUSSDR, _T.CLUSRCVR})
_CLIENTS: Final = frozenset({_T.CLNTCONN, _T.SVRCONN})
_CLIENT: Final = frozenset({_T.CLNTCONN})
_SERVER: Final = frozenset({_T.SVRCONN})
_LONG_MAX: Final = 999_999_999
_LEVELS: Final = {"QMGR": -3, "OFF": 0, "LOW": 17, "MEDIUM": 33, "HIGH": 65}
_TYPES: Final = {
    "SDR": 1, "SVR": 2, "RCVR": 3, "RQSTR": 4, "CLNTCONN": 6, "SVRCONN": 7, "CLUSRCVR": 8, "CLUSSDR": 9,
}  # fmt: skip


def _number(
    field: str, keyword: str, selector: int, kinds: frozenset[int], high: int = _LONG_MAX, low: int = 0
) -> AttributeSpec:
    return AttributeSpec(field, keyword, selector, kinds, low=low, high=high)


def _words(field: str, keyword: str, selector: int, kinds: frozenset[int], /, **words: int) -> AttributeSpec:
    return AttributeSpec(field, keyword, selector, kinds, words=words)


def _text(field: str, keyword: str, selector: int, kinds: frozenset[int], chars: int) -> AttributeSpec:
    return AttributeSpec(field, keyword, selector, kinds, chars=chars)


def _name(field: str, keyword: str, selector: int, kinds: frozenset[int]) -> AttributeSpec:
    return AttributeSpec(field, keyword, selector, kinds, chars=48, object_name=True)


CHANNEL_ATTRIBUTES: Final[tuple[AttributeSpec, ...]] = (
    AttributeSpec("name", "CHANNEL", 3501, _ALL, chars=CHANNEL_NAME_CHARS_MAX, object_name=True, read_only=True),
    AttributeSpec("kind", "CHLTYPE", 1511, _ALL, words=_TYPES),
    _text("description", "DESCR", 3502, _ALL, 64),
    _words("transport", "TRPTYPE", 1501, _ALL, TCP=2, LU62=1, NETBIOS=3, SPX=4),
    _text("connection_name", "CONNAME", 3506, _CALLING, 264),
    _name("transmission_queue", "XMITQ", 3505, frozenset({_T.SENDER, _T.SERVER})),
    _text("local_address", "LOCLADDR", 3520, _CALLING, 48),
    _text("mca_user", "MCAUSER", 3527, _ALL - _CLIENT, 64),
    _number("max_message_bytes", "MAXMSGL", 1510, _ALL, 104_857_600),
    _number("heartbeat_s", "HBINT", 1563, _ALL, 999_999),
    AttributeSpec("keep_alive_s", "KAINT", 1566, _ALL, high=99_999, words={"AUTO": -1}),
    _number("batch_size", "BATCHSZ", 1502, _MESSAGES, 9_999, 1),
    _number("batch_interval_ms", "BATCHINT", 1564, _SENDING),
    _number("batch_heartbeat_ms", "BATCHHB", 1567, _SENDING, 999_999),
    _number("batch_limit_kib", "BATCHLIM", 1624, _SENDING, 999_999),
    _number("disconnect_s", "DISCINT", 1503, _SENDING | _SERVER, 999_999),
    _number("short_retries", "SHORTRTY", 1505, _SENDING),
    _number("short_retry_s", "SHORTTMR", 1504, _SENDING),
    _number("long_retries", "LONGRTY", 1507, _SENDING),
    _number("long_retry_s", "LONGTMR", 1506, _SENDING),
    _number("sequence_wrap", "SEQWRAP", 1509, _MESSAGES, low=100),
    _words("nonpersistent_speed", "NPMSPEED", 1562, _MESSAGES, NORMAL=1, FAST=2),
    _words("convert", "CONVERT", 1515, _SENDING, NO=0, YES=1),
    _words("put_authority", "PUTAUT", 1508, _RECEIVING, DEF=1, CTX=2),
    _words("mca_type", "MCATYPE", 1517, _SENDING | {_T.REQUESTER}, PROCESS=1, THREAD=2),
    _number("message_retries", "MRRTY", 1544, _RECEIVING),
    _number("message_retry_ms", "MRTMR", 1545, _RECEIVING),
    _text("cipher_spec", "SSLCIPH", 3544, _ALL, 32),
    _text("peer_name", "SSLPEER", 3545, _ALL, 1024),
    _words("client_authentication", "SSLCAUTH", 1568, _ALL - {_T.SENDER, _T.CLNTCONN, _T.CLUSSDR}, REQUIRED=0, OPTIONAL=1),
    _text("certificate_label", "CERTLABL", 2121, _ALL - {_T.CLUSSDR}, 64),
    _number("sharing_conversations", "SHARECNV", 1615, _CLIENTS),
    _number("instances_max", "MAXINST", 1618, _SERVER),
    _number("instances_per_client_max", "MAXINSTC", 1619, _SERVER),
    _text("queue_manager", "QMNAME", 2015, _CLIENT, 48),
    _words("affinity", "AFFINITY", 1621, _CLIENT, PREFERRED=1, NONE=0),
    _number("client_weight", "CLNTWGHT", 1620, _CLIENT, 99),
    _words("default_reconnection", "DEFRECON", 1640, _CLIENT, NO=0, YES=1, QMGR=2, DISABLED=3),
    _name("cluster", "CLUSTER", 2029, _CLUSTERED),
    _name("cluster_namelist", "CLUSNL", 2030, _CLUSTERED),
    _number("cluster_rank", "CLWLRANK", 1577, _CLUSTERED, 9),
    _number("cluster_priority", "CLWLPRTY", 1578, _CLUSTERED, 9),
    _number("cluster_weight", "CLWLWGHT", 1579, _CLUSTERED, 99, 1),
    AttributeSpec("monitoring", "MONCHL", 122, _ALL - _CLIENT, words=_LEVELS),
    AttributeSpec("statistics", "STATCHL", 129, _MESSAGES, words=_LEVELS),
    AttributeSpec("alteration_date", "ALTDATE", 2027, _ALL, chars=12, read_only=True),
    AttributeSpec("alteration_time", "ALTTIME", 2028, _ALL, chars=8, read_only=True),
)
